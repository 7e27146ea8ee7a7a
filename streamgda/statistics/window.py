"""A sliding window: the statistics of the last few batches of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics


class WindowedStatistics:
    """The statistics of the last `n_batches` batches of a stream.

    The state is the merge of the states of the batches in the window, and exact where those are. Nothing is
    ever subtracted, so no digit is lost, however long the stream. A batch costs a few merges on average,
    whatever the size of the window. The window holds one state for each of its batches.

    Parameters
    ----------
    n_batches : int
        How many batches count; at least 1.
    covariance_type : {"full", "tied", "diag"}, default="full"
        What to keep of the scatter within the classes; see `ClassStatistics`.
    fourth_moments : bool, default=False
        Whether to keep fourth moments too; see `ClassStatistics`.
    exact : bool, default=False
        Whether sums are exact; see `ExactClassStatistics`.
    feature_names : sequence of str, optional
        The names of the features.

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

    def __init__(
        self,
        n_batches: int,
        covariance_type: CovarianceType = "full",
        *,
        fourth_moments: bool = False,
        exact: bool = False,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(n_batches, int | np.integer) or n_batches < 1:
            raise ValueError(f"a window holds whole batches, at least one; got n_batches={n_batches!r}")
        self.n_batches = n_batches
        self._nothing = empty_statistics(
            covariance_type, fourth_moments=fourth_moments, exact=exact, feature_names=feature_names
        )
        self._older: list[Statistics] = []  # sums of an older batch and those after it, oldest last
        self._newer: list[Statistics] = []
        self._newer_total = self._nothing

    def __len__(self) -> int:
        """How many batches are in the window."""
        return len(self._older) + len(self._newer)

    def __repr__(self) -> str:
        return (
            f"WindowedStatistics({self.n_batches}, covariance_type={self._nothing.covariance_type!r}, "
            f"batches={len(self)}, rows={self.statistics.n_rows})"
        )

    @property
    def statistics(self) -> Statistics:
        """The statistics of the batches in the window, as a state of its own."""
        return self._oldest + self._newer_total

    @property
    def _oldest(self) -> Statistics:
        return self._older[-1] if self._older else self._nothing

    def update(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add a batch of labelled rows; the oldest batch leaves, if the window is full.

        Parameters
        ----------
        X, y, sample_weight
            As for `ClassStatistics.update`.

        Returns
        -------
        WindowedStatistics
            This object.

        Raises
        ------
        ValueError
            As `ClassStatistics.update` does. The window is then as it was.
        """
        return self.append(self._nothing.copy().update(X, y, sample_weight))

    def append(self, batch: Statistics) -> Self:
        """Add a batch whose statistics are known already, such as those of a day.

        Parameters
        ----------
        batch : ClassStatistics or ExactClassStatistics
            Of the kind that the window holds; it is left as it is.

        Returns
        -------
        WindowedStatistics
            This object.

        Raises
        ------
        ValueError
            If the batch differs from the others in covariance type, features, kind of label or exactness. The
            window is then as it was.
        """
        _ = self._oldest + batch  # raises, before anything changes, if the batch does not fit
        newer_total = self._newer_total + batch
        if len(self) == self.n_batches:
            self._let_the_oldest_go()
            newer_total = self._newer_total + batch
        self._newer.append(batch.copy())
        self._newer_total = newer_total
        return self

    def _let_the_oldest_go(self) -> None:
        if not self._older:
            total = self._nothing
            while self._newer:
                total = self._newer.pop() + total
                self._older.append(total)
            self._newer_total = self._nothing
        self._older.pop()
