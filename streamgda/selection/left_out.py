"""The base class of models that score each row by all the other rows: `Downdate`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import Message, named
from streamgda.estimators.classifier import GaussianClassifier
from streamgda.estimators.lda import LinearDiscriminantAnalysis
from streamgda.gaussians.posteriors import tempered
from streamgda.gaussians.products import deviations_from
from streamgda.gaussians.regularisation import Regularisation
from streamgda.selection.scorings import Scored
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, kind_named
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.floating.state import ClassStatistics

Codes = NDArray[np.intp]
Flags = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
LEAST_LEFT = 1e-5  # fraction of a sum: if less remains, subtraction has lost five digits
_LEAST_WEIGHT = 1e-290
_UNCERTAIN = 1e-5  # limit on the change of a score by rounding errors


@dataclass(frozen=True)
class Left:
    """The factors of a class without each of n rows.

    Attributes
    ----------
    ratio : ndarray of shape (n,)
        n_k / (n_k − w) of the class of the row.
    beta : ndarray of shape (n,)
        The factor of the δ δᵀ that is subtracted from the scatter.
    freedom : ndarray of shape (n,)
        The divisor of the remaining scatter.
    """

    ratio: Array
    beta: Array
    freedom: Array


class Downdate(ABC):
    """The statistics of all rows, from which single rows are removed.

    If a row makes up most of a variance, or changes the rank of a covariance, its densities are computed from
    the state without the row. In a floating-point state, the remaining sums have rounding errors. If these
    errors could change the first five digits of a score, an error is raised.

    Parameters
    ----------
    estimator : estimator
        With its parameters; not fitted.
    statistics : ClassStatistics or ExactClassStatistics
        Of all rows.
    """

    def __init__(self, estimator: GaussianClassifier[Any], statistics: Statistics) -> None:
        self.classes = statistics.classes
        self._estimator, self._statistics = estimator, statistics
        self._weights, self._means, self._tails = statistics.weights, statistics.means, statistics.mean_tails
        self._counts = statistics.counts
        self._total = float(self._weights.sum())
        single = np.flatnonzero(self._counts < 2)
        if len(single):
            raise ValueError(f"class {named(self.classes[single[0]])} has one row, without which it is gone")
        self._fitted = estimator._compute_finalised(statistics)
        if estimator._splits(statistics):
            raise ValueError("rows with tables of categories are not left out one by one; use folds")
        for _, error in self._fitted.singular:
            raise error()
        is_linear = isinstance(estimator, LinearDiscriminantAnalysis)
        self._share = 1.0 if is_linear else float(getattr(estimator, "pooling", None) or 0.0)
        self._pooling = Regularisation.by_share(self._share, self._weights, statistics.n_features)

    def score(self, rows: Array, truth: Codes, weights: Array, *, log_joint: bool) -> Scored:
        """Score rows that are among those of the statistics, as `log_joint` does."""
        scores = self.log_joint(rows, truth, weights)
        joint = scores[np.arange(len(rows)), truth] if log_joint else None
        temperature = self._fitted.temperature
        return Scored(tempered(scores, temperature), truth, weights, joint, temperature)

    def log_joint(self, X: Array, truth: Codes, weights: Array) -> Array:
        """Ln p(x, k) of rows by the models of all other rows: (n, K).

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
            If the other rows do not determine the model.
        """
        densities, is_known = self._in_closed_form(X, truth, weights)
        for i in np.flatnonzero(~is_known):
            try:
                changed, density = self._computed(X[i], int(truth[i]), float(weights[i]))
            except ValueError as error:
                label = named(self.classes[truth[i]])
                said = Message(f"row {i} of class {label}: without it, ", Message.of(error))
                raise ValueError(said) from error
            densities[i, changed] = density
        densities += self._log_priors(truth, weights)
        return densities

    @abstractmethod
    def _in_closed_form(self, X: Array, truth: Codes, weights: Array) -> tuple[Array, Flags]:
        """Ln p(x | k) of rows by the models of the others (n, K), and for which rows it is accurate (n,)."""

    @property
    @abstractmethod
    def _concerns_all(self) -> bool:
        """Whether a row also affects the densities of other classes."""

    def _log_priors(self, truth: Codes, weights: Array) -> Array:
        """Ln of the priors without each row: (n, K)."""
        if self._estimator.priors is not None:
            return np.tile(self._fitted.log_priors, (len(truth), 1))
        left = np.tile(self._weights, (len(truth), 1))
        left[np.arange(len(truth)), truth] -= weights
        shares: Array = np.log(left / (self._total - weights)[:, None])
        return shares

    def _from_mean(self, X: Array, classes: int | Codes) -> Array:
        """Rows minus the mean of one class, or each row minus the mean of its own class: (n, d)."""
        return deviations_from(X, self._means[classes], self._tails[classes])

    def _left(self, j: int, truth: Codes, weights: Array) -> Left:
        """The factors of class j without each row."""
        return self._left_of(
            self._pooling.divisors[j], np.where(truth == j, 1.0, self._share), truth, weights
        )

    def _left_of(self, divisor: float, part: Array | float, truth: Codes, weights: Array) -> Left:
        """The factors of a covariance without each of the rows that it includes."""
        own = self._weights[truth]
        ratio = own / (own - weights)
        return Left(ratio, part * weights * ratio, divisor - part * weights)

    def _computed(self, row: Array, own: int, weight: float) -> tuple[Codes, Array]:
        """Ln of the densities at a row of class `own`, from the state without it, and their classes."""
        changed = np.arange(len(self.classes)) if self._concerns_all else np.array([own])
        whole, label = self._statistics.of_classes(changed), self.classes[[own]]
        removed = empty_statistics(whole.covariance_type, exact=whole.exact).update(
            row[None], label, [weight]
        )
        left = Statistics.__sub__(whole, removed)  # does not warn of a difference of states
        place = int(np.searchsorted(changed, own))
        if not isinstance(left, ClassStatistics) or (
            left.counts[place] == 1 and left.covariance_type != "tied"
        ):
            return changed, self._densities(left, row)
        rounded = self._densities(left + self._rounding(left, whole, place), row)
        with suppress(ValueError):
            densities = self._densities(left, row)
            if (np.abs(rounded - densities) <= _UNCERTAIN * (1 + np.abs(densities))).all():
                return changed, densities
        raise ValueError(
            Message(
                "nothing is left of a variance, or less than float64 tells from rounding. Regularise, set "
                "⟨exact=True⟩, leave the row out if it is an error, or set ⟨cv⟩ to a number"
            )
        )

    def _densities(self, statistics: Statistics, row: Array) -> Array:
        densities = self._estimator._finalise(statistics)
        for error in densities.singular.values():
            raise error()
        log_densities: Array = densities.log_density(row[None])[0]
        return log_densities

    def _rounding(self, left: Statistics, whole: Statistics, place: int) -> ClassStatistics:
        """A state of no weight, whose scatter is the largest rounding error of the class at a place."""
        kind = kind_named(whole.covariance_type)
        diagonal = kind.diagonal(whole.scatter)
        k = min(place, len(diagonal) - 1)
        noise = EPS * np.sqrt(16 + whole.counts.max()) * diagonal[k]
        scatter = noise if whole.covariance_type == "diag" else np.diag(noise)
        return ClassStatistics.from_moments(
            left.classes[[place]],
            [1],
            left.means[[place]],
            scatter if kind.is_pooled else scatter[None],
            weights=[_LEAST_WEIGHT],
            covariance_type=whole.covariance_type,
        )
