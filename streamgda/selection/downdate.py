"""What is left of the statistics of all rows without one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import named
from streamgda.estimators.classifier import GaussianClassifier, priors_of
from streamgda.estimators.lda import LinearDiscriminantAnalysis
from streamgda.gaussians.pooling import Pooling
from streamgda.gaussians.tails import deviations_from
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

Codes = NDArray[np.intp]
Flags = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 64 * EPS  # relative to what was subtracted
LEAST_LEFT = 1e-5  # of a whole; where less is left of it, subtraction has lost five digits


@dataclass(frozen=True)
class Left:
    """What is left of a class without each of n rows.

    Attributes
    ----------
    ratio : ndarray of shape (n,)
        n_k / (n_k − w) of the class of the row.
    beta : ndarray of shape (n,)
        The factor of the δ δᵀ that is subtracted from the scatter.
    freedom : ndarray of shape (n,)
        The divisor of the scatter that is left.
    """

    ratio: Array
    beta: Array
    freedom: Array


class Downdate(ABC):
    """The statistics of all rows, from which a row is taken out.

    Parameters
    ----------
    estimator : estimator
        With its parameters; not fitted.
    statistics : ClassStatistics or ExactClassStatistics
        Of all rows.
    ddof : float, default=0
        Subtracted from the weight of each class before a covariance is divided by it; of a pooled one, from
        the weight of all, once for each class.
    """

    def __init__(self, estimator: GaussianClassifier[Any], statistics: Statistics, ddof: float = 0) -> None:
        self.classes = statistics.classes
        self._estimator = estimator
        self._weights, self._means, self._tails = statistics.weights, statistics.means, statistics.mean_tails
        self._is_pair = statistics.counts == 2
        self._total = float(self._weights.sum())
        self._ddof = ddof
        self._priors = None if estimator.priors is None else priors_of(estimator, statistics)
        is_linear = isinstance(estimator, LinearDiscriminantAnalysis)
        self._share = 1.0 if is_linear else float(getattr(estimator, "pooling", None) or 0.0)
        self._pooling = Pooling.by_share(self._share, self._weights, statistics.n_features)
        single = np.flatnonzero(statistics.counts < 2)
        if len(single):
            raise ValueError(f"class {named(self.classes[single[0]])} has one row, without which it is gone")

    @abstractmethod
    def log_joint(self, X: Array, truth: Codes, weights: Array) -> Array:
        """Ln p(x, k) of rows by the models of all the others: (n, K).

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows that are among those of the statistics.
        truth : ndarray of int of shape (n,)
            The positions of their classes.
        weights : ndarray of shape (n,)
            Their weights.

        Raises
        ------
        ValueError
            If the others do not determine the model.
        """

    def _log_priors(self, truth: Codes, weights: Array) -> Array:
        """Ln of the priors without each row: (n, K)."""
        if self._priors is not None:
            with np.errstate(divide="ignore"):
                return np.tile(np.log(self._priors), (len(truth), 1))
        left = np.tile(self._weights, (len(truth), 1))
        left[np.arange(len(truth)), truth] -= weights
        shares: Array = np.log(left / (self._total - weights)[:, None])
        return shares

    def _from_mean(self, X: Array, classes: int | Codes) -> Array:
        """Rows less the mean of a class, or each less that of its own: (n, d)."""
        return deviations_from(X, self._means[classes], self._tails[classes])

    def _left(self, j: int, truth: Codes, weights: Array) -> Left:
        """What is left of class j without each row."""
        own = self._weights[truth]
        ratio = own / (own - weights)
        part = np.where(truth == j, 1.0, self._share)
        lost = self._ddof * (1 - self._share + self._share * len(self.classes))
        freedom = self._pooling.divisors[j] - lost
        return Left(ratio, part * weights * ratio, freedom - part * weights)

    def _check(self, is_left: Any, truth: Codes) -> None:
        if not is_left.all():
            row = int(np.argmin(is_left))
            raise ValueError(
                f"row {row} of class {named(self.classes[truth[row]])}: without it, a covariance is "
                "singular, so leaving it out has no score; regularise, or bring more rows"
            )
