"""A sliding window: the statistics of the last few batches of a stream."""

from __future__ import annotations

import time as clock
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.statistics.base import Statistics, check_statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import COLUMNS, empty_statistics, state_of
from streamgda.storage.saving import Loadable


class WindowedStatistics(Loadable):
    """The statistics of the last batches of a stream, up to a number of batches, rows or seconds.

    The state is the merge of the states of the batches in the window, and exact if those are exact. Nothing
    is ever subtracted, so no digit is lost, however long the stream. A batch costs a few merges on average,
    whatever the size of the window. The window holds one state for each of its batches.

    Parameters
    ----------
    n_batches : int, optional
        The most batches that the window holds; at least 1.
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
    ) -> None:
        if n_batches is not None and (not isinstance(n_batches, int | np.integer) or n_batches < 1):
            raise ValueError(f"a window holds whole batches, at least one; got n_batches={n_batches!r}")
        if n_batches is n_rows is seconds is None:
            raise ValueError("a window ends somewhere: give n_batches, n_rows or seconds")
        self.n_batches, self.n_rows, self.seconds = n_batches, n_rows, seconds
        self._nothing = empty_statistics(
            covariance_type, fourth_moments=fourth_moments, exact=exact, feature_names=feature_names
        )
        self._older: list[Statistics] = []  # sums of an older batch and those after it, oldest last
        self._newer: list[Statistics] = []
        self._newer_total = self._nothing
        self._sizes: deque[tuple[int, float]] = deque()  # rows and time of each batch, oldest first

    def __len__(self) -> int:
        """How many batches are in the window."""
        return len(self._older) + len(self._newer)

    def __repr__(self) -> str:
        ends = {"n_rows": self.n_rows, "seconds": self.seconds}
        given = ["" if self.n_batches is None else f"{self.n_batches}"]
        given += [f"{name}={end}" for name, end in ends.items() if end is not None]
        return (
            f"WindowedStatistics({', '.join(filter(None, given))}, "
            f"covariance_type={self._nothing.covariance_type!r}, "
            f"batches={len(self)}, rows={self.statistics.n_rows})"
        )

    @property
    def statistics(self) -> Statistics:
        """The statistics of the batches in the window, in a new state."""
        return self._oldest + self._newer_total

    @property
    def _oldest(self) -> Statistics:
        return self._older[-1] if self._older else self._nothing

    def update(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, time: float | None = None
    ) -> Self:
        """Add a batch of labelled rows; the oldest batches leave, if the window is full.

        Parameters
        ----------
        X, y, sample_weight
            As for `ClassStatistics.update`.
        time : float, optional
            The time of the batch in seconds since any moment, no earlier than that of the last batch. By
            default the current time.

        Returns
        -------
        WindowedStatistics
            This object.

        Raises
        ------
        ValueError
            As `ClassStatistics.update` does, and if `time` is earlier than that of the last batch. The window
            is then as it was.
        """
        return self.append(self._nothing.copy().update(X, y, sample_weight), time=time)

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
            is of an earlier time than the last one. The window is then as it was.
        """
        check_statistics(batch)
        _ = self._oldest + batch  # raises, before anything changes, if the batch does not fit
        newer_total = self._newer_total + batch
        moment = clock.time() if time is None else float(time)
        if self._sizes and moment < self._sizes[-1][1]:
            raise ValueError(f"a batch of time {moment} comes after one of time {self._sizes[-1][1]}")
        self._newer.append(batch.copy())
        self._newer_total = newer_total
        self._sizes.append((batch.n_rows, moment))
        while self._is_over():
            self._let_the_oldest_go()
        return self

    def _is_over(self) -> bool:
        """Whether the oldest batch is outside the window; a single batch never is."""
        if len(self) < 2:
            return False
        return (
            (self.n_batches is not None and len(self) > self.n_batches)
            or (self.n_rows is not None and sum(n for n, _ in self._sizes) > self.n_rows)
            or (self.seconds is not None and self._sizes[0][1] <= self._sizes[-1][1] - self.seconds)
        )

    def _let_the_oldest_go(self) -> None:
        if not self._older:
            total = self._nothing
            while self._newer:
                total = self._newer.pop() + total
                self._older.append(total)
            self._newer_total = self._nothing
        self._older.pop()
        self._sizes.popleft()

    # ------------------------------------------------------------------ saved

    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        states = [self._nothing, *self._older, *self._newer]
        document = {
            "kind": "WindowedStatistics",
            "ends": [self.n_batches, self.n_rows, self.seconds],
            "n_older": len(self._older),
            "sizes": list(self._sizes),
        }
        contents = np.empty(len(states), dtype=object)
        contents[:] = [np.frombuffer(state.to_bytes(), np.uint8) for state in states]
        return {"state": contents}, document

    @classmethod
    def _from_saved(cls, columns: dict[str, Any], document: dict[str, Any]) -> Self:
        from streamgda.storage import tables

        n_batches, n_rows, seconds = document["ends"]
        contents = [state.tobytes() for state in columns["state"]]
        empty, *states = [state_of(*tables.read(content, COLUMNS), "a batch") for content in contents]
        window = cls(n_batches, n_rows=n_rows, seconds=seconds)
        window._nothing = window._newer_total = empty
        window._older, window._newer = states[: document["n_older"]], states[document["n_older"] :]
        window._sizes = deque((int(size), float(time)) for size, time in document["sizes"])
        for state in window._newer:
            window._newer_total = window._newer_total + state
        if len(window._sizes) != len(window):
            raise ValueError(f"it holds {len(window)} batches of {len(window._sizes)}")
        return window
