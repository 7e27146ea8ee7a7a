"""A sliding window: the statistics of the last few batches of a stream."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks.wording import as_html
from streamgda.data.storage.saving import Loadable
from streamgda.statistics.base import Statistics, check_statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import COLUMNS, empty_statistics, state_of
from streamgda.statistics.locking import Locked
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RowRule
from streamgda.statistics.validation import as_count, check_whole


class _Batch(NamedTuple):
    """A batch, with its state or the sum of the states of this batch and those after it."""

    state: Statistics
    n_rows: int
    time: float


class _Batches(NamedTuple):
    """The batches of a window in two stacks, of which the first elements of two lists count.

    What stands beyond them was left by an interruption, or is about to be removed.
    """

    older: list[_Batch]  # with sums up to the newest of them; the oldest last
    n_older: int
    newer: list[_Batch]  # the newest last
    n_newer: int
    newer_total: Statistics
    n_rows: int

    @property
    def n_batches(self) -> int:
        return self.n_older + self.n_newer

    @property
    def oldest(self) -> _Batch:
        return self.older[self.n_older - 1] if self.n_older else self.newer[0]

    @property
    def newest(self) -> _Batch:
        return self.newer[self.n_newer - 1] if self.n_newer else self.older[0]

    def with_newest(self, batch: _Batch) -> _Batches:
        self.newer[self.n_newer :] = [batch]
        return self._replace(
            n_newer=self.n_newer + 1,
            newer_total=self.newer_total + batch.state,
            n_rows=self.n_rows + batch.n_rows,
        )

    def without_oldest(self, nothing: Statistics) -> _Batches:
        n_rows = self.n_rows - self.oldest.n_rows
        if self.n_older:
            return self._replace(n_older=self.n_older - 1, n_rows=n_rows)
        older, total = [], nothing
        for batch in reversed(self.newer[: self.n_newer]):
            total = batch.state + total
            older.append(batch._replace(state=total))
        return _Batches(older, len(older) - 1, [], 0, nothing, n_rows)

    def trim(self) -> None:
        del self.older[self.n_older :], self.newer[self.n_newer :]

    def copy(self) -> _Batches:
        return self._replace(older=self.older[: self.n_older], newer=self.newer[: self.n_newer])


class WindowedStatistics(Locked, Loadable):
    """The statistics of the last batches of a stream: up to a number of batches, of rows, or of seconds.

    The state is the merge of the states of the batches in the window, and exact if those are exact. Nothing
    is ever subtracted, so no digit is lost, however long the stream. A batch costs a few merges on average,
    whatever the size of the window. The window holds one state for each of its batches.

    Parameters
    ----------
    n_batches : int, optional
        The most batches that the window holds; at least 1. A window has this, `n_rows` or `seconds`.
    covariance_type : {"full", "tied", "diag"}, default="full"
        What to keep of the scatter within the classes; see `ClassStatistics`.
    fourth_moments : bool, default=False
        Whether to keep fourth moments too; see `ClassStatistics`.
    exact : bool, default=False
        Whether sums are exact; see `ExactClassStatistics`.
    feature_names : sequence of str, optional
        The names of the features.
    n_rows : int, optional
        The most rows that the batches of the window have in all. The newest batch always counts.
    seconds : float, optional
        A batch counts while it is less than this many seconds older than the newest one.
    rule : RowRule, optional
        As for `accumulate`; the `statistics_` of a model whose rows go through a map have it.

    References
    ----------
    Tangwongsan, Hirzel & Schneider (2017), "Low-latency sliding-window aggregation in worst-case constant
    time" (the two stacks).

    Examples
    --------
    >>> from streamgda import WindowedStatistics
    >>> window = WindowedStatistics(2, "diag")
    >>> for batch in ([1.0], [2.0], [4.0]):
    ...     window = window.update([batch], ["a"])
    >>> window
    WindowedStatistics(2, covariance_type='diag', batches=2, rows=2)
    >>> window.statistics.means
    array([[3.]])
    """

    _kind = "window"
    _columns = frozenset({"state"})

    def __init__(
        self,
        n_batches: int | None = None,
        covariance_type: CovarianceType = "full",
        *,
        fourth_moments: bool = False,
        exact: bool = False,
        feature_names: Sequence[str] | None = None,
        n_rows: int | None = None,
        seconds: float | None = None,
        rule: RowRule | None = None,
    ) -> None:
        self.n_batches, self.n_rows, self.seconds = n_batches, n_rows, seconds
        if len(self._ends) != 1:
            raise ValueError(
                f"give one of n_batches, n_rows and seconds; got {', '.join(self._ends) or 'none'}"
            )
        for name in self._ends.keys() - {"seconds"}:
            check_whole(self._ends[name], name, 1)
        if seconds is not None and not 0 < seconds < np.inf:
            raise ValueError(f"seconds must be a positive number; got {seconds!r}")
        required = Required(covariance_type, fourth_moments, exact)
        self._nothing = empty_statistics(required, feature_names=feature_names, rule=rule)
        self._batches = _Batches([], 0, [], 0, self._nothing, 0)
        self._by_clock: bool | None = None  # not yet known, as in files of version 0.2

    def __len__(self) -> int:
        """How many batches are in the window."""
        return self._batches.n_batches

    def __repr__(self) -> str:
        [(name, most)] = self._ends.items()
        with self.lock:
            return (
                f"WindowedStatistics({most if name == 'n_batches' else f'{name}={most}'}, "
                f"covariance_type={self._nothing.covariance_type!r}, "
                f"batches={len(self)}, rows={self.statistics.n_rows})"
            )

    def _repr_html_(self) -> str:
        return as_html(repr(self)) + self.statistics._repr_html_()

    @property
    def statistics(self) -> Statistics:
        """The statistics of the batches in the window, in a new state."""
        with self.lock:  # the lists of batches are shared with those that a thread removes
            batches = self._batches
            return (batches.oldest.state if batches.n_older else self._nothing) + batches.newer_total

    def update(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, time: float | None = None
    ) -> Self:
        """Add a batch of labelled rows; the oldest batches leave, if the window is full.

        Parameters
        ----------
        X, y, sample_weight
            As for `ClassStatistics.update`.
        time : float, optional
            For a window of seconds: the time of the batch in seconds since any moment, no earlier than that
            of the last batch. Either all batches have a time, or all count as of when they come.

        Returns
        -------
        WindowedStatistics
            This object.

        Raises
        ------
        ValueError
            As `ClassStatistics.update` does, and if `time` is earlier than that of the last batch, missing
            where other batches had one, or given where they had none. The window is then as it was.
        """
        batch = self._nothing.copy()
        with self.lock:
            if self._batches.n_batches:  # so that columns are matched by name
                batch.schema = self._batches.newest.state.schema
        return self.append(batch.update(X, y, sample_weight), time=time)

    def append(self, batch: Statistics, *, time: float | None = None) -> Self:
        """Add a batch whose statistics are known already, such as those of a day.

        Parameters
        ----------
        batch : ClassStatistics or ExactClassStatistics
            A state of the kind that the window holds. It is left as it is.
        time : float, optional
            As for `update`.

        Returns
        -------
        WindowedStatistics
            This object.

        Raises
        ------
        TypeError
            If the batch is not statistics, such as a model.
        ValueError
            If the batch differs from the others in covariance type, features, kind of label or exactness, or
            for its time, as in `update`. The window is then as it was.
        """
        check_statistics(batch)
        batch = batch.copy()  # of one moment
        with self.lock:
            moment, batches = self._moment(time), self._batches
            if batches.n_older:  # with which it is merged later
                batches.oldest.state._check_fits(batch)
            batches = batches.with_newest(_Batch(batch, batch.n_rows, moment))
            while self._is_over(batches):
                batches = batches.without_oldest(self._nothing)
            vars(self).update(_batches=batches, _by_clock=time is None)
            batches.trim()
        return self

    def _moment(self, time: Any) -> float:
        """When a batch counts as from; ValueError if its time does not go with those of the others."""
        last = self._batches.newest.time if self._batches.n_batches else -np.inf
        if time is not None and self.seconds is None:
            raise ValueError("time counts in a window of seconds alone: WindowedStatistics(seconds=3600)")
        if self._by_clock not in {None, time is None}:
            known, wanted = ("no time", "none") if self._by_clock else ("a time", "one")
            raise ValueError(f"the batches before this one had {known}, so this one needs {wanted}")
        if time is None:
            return max(clock.time(), last)  # a clock may be set back
        if isinstance(time, bool) or not isinstance(time, Real) or not np.isfinite(float(time)):
            raise ValueError(f"the time of a batch is a number of seconds; got {time!r}")
        if time < last:
            raise ValueError(f"a batch of time {float(time)} comes after one of time {last}")
        return float(time)

    def copy(self) -> Self:
        """A window of the same batches that does not change with this one."""
        with self.lock:
            twin = type(self).__new__(type(self))
            vars(twin).update(vars(self), lock=twin.lock, _batches=self._batches.copy())
            return twin

    @property
    def _ends(self) -> dict[str, float]:
        """The name of the end of the window, and where it is."""
        ends = {"n_batches": self.n_batches, "n_rows": self.n_rows, "seconds": self.seconds}
        return {name: most for name, most in ends.items() if most is not None}

    def _is_over(self, batches: _Batches) -> bool:
        """Whether the oldest batch is outside the window; a single batch never is."""
        if batches.n_batches < 2:
            return False
        return (
            (self.n_batches is not None and batches.n_batches > self.n_batches)
            or (self.n_rows is not None and batches.n_rows > self.n_rows)
            or (self.seconds is not None and batches.oldest.time <= batches.newest.time - self.seconds)
        )

    # ------------------------------------------------------------------ saved

    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        window = self.copy()  # of one moment; the lock is free again while it is written
        batches = window._batches
        states = [self._nothing, *(each.state for each in [*batches.older, *batches.newer])]
        document = {
            "kind": "WindowedStatistics",
            "ends": [self.n_batches, self.n_rows, self.seconds],
            "n_older": batches.n_older,
            "by_clock": window._by_clock,
            "sizes": [(each.n_rows, each.time) for each in [*reversed(batches.older), *batches.newer]],
        }
        contents = np.empty(len(states), dtype=object)
        contents[:] = [np.frombuffer(state.to_bytes(), np.uint8) for state in states]
        return {"state": contents}, document

    @classmethod
    def _from_saved(cls, columns: dict[str, Any], document: dict[str, Any]) -> Self:
        from streamgda.data.storage import tables

        n_batches, n_rows, seconds = document["ends"]
        contents = [state.tobytes() for state in columns["state"]]
        empty, *states = [state_of(*tables.read_table(content, COLUMNS), "a batch") for content in contents]
        window = cls(n_batches, n_rows=n_rows, seconds=seconds)
        sizes, n_older = document["sizes"], as_count(document["n_older"], "n_older")
        if len(sizes) != len(states) or n_older > len(states):
            raise ValueError(f"it holds {len(states)} batches of {len(sizes)}")
        of_older = sizes[:n_older][::-1]
        batches = [
            _Batch(state, as_count(size, "rows"), float(time))
            for state, (size, time) in zip(states, [*of_older, *sizes[n_older:]], strict=True)
        ]
        by_clock = document.get("by_clock")
        window._nothing, window._by_clock = empty, None if by_clock is None else bool(by_clock)
        window._batches = _Batches(batches[:n_older], n_older, [], 0, empty, 0)
        for batch in batches[n_older:]:
            window._batches = window._batches.with_newest(batch)
        window._batches = window._batches._replace(n_rows=sum(batch.n_rows for batch in batches))
        return window
