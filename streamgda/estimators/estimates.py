"""Covariances that an estimator of scikit-learn's has estimated from rows in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from streamgda.blocks.block import Block
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array


@dataclass(frozen=True)
class CovarianceEstimates:
    """What a covariance estimator has made of some rows.

    Attributes
    ----------
    within : ndarray of shape (n_classes, n_features, n_features)
        The covariance of each class.
    total : ndarray of shape (n_features, n_features), or None
        The covariance of the rows of all classes, if it was asked for.
    counts, means : ndarray
        Rows and means of the classes, which tell whether statistics are of the same rows.
    """

    within: Array
    total: Array | None
    counts: NDArray[np.int64]
    means: Array

    @classmethod
    def of(cls, estimator: Any, blocks: Iterable[Block], statistics: Statistics, *, total: bool) -> Self:
        """Fit clones of the estimator to the rows of each class, and with `total` to those of all.

        Raises
        ------
        ValueError
            If it does not estimate a covariance.
        """
        rows, labels = zip(*((b.matrix(0, len(b.codes)), b.classes[b.codes]) for b in blocks), strict=True)
        X, y = np.concatenate(rows), np.concatenate(labels)
        within = [_estimate(estimator, X[y == label]) for label in statistics.classes]
        of_all = _estimate(estimator, X) if total else None
        return cls(np.array(within), of_all, statistics.counts, statistics.means)

    def is_of(self, statistics: Statistics) -> bool:
        """Whether these are the estimates of the rows that the statistics are of."""
        return np.array_equal(self.counts, statistics.counts) and np.array_equal(self.means, statistics.means)


def _estimate(estimator: Any, rows: Array) -> Array:
    estimator = clone(estimator, safe=False)  # it need not be one of scikit-learn's
    estimator.fit(rows)
    if not hasattr(estimator, "covariance_"):
        raise ValueError(f"{type(estimator).__name__} does not have a covariance_ attribute")
    return np.atleast_2d(np.asarray(estimator.covariance_, dtype=np.float64))
