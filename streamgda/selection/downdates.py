"""Each row scored by the model of all the other rows, in closed form.

Without a row x of weight w, its class k has the mean m_k − w δ / (n_k − w) and the scatter W_k − β δ δᵀ,
where δ = x − m_k and β = w n_k / (n_k − w). So each covariance loses a matrix of rank one, and distances and
determinants follow from those of all the rows (Sherman & Morrison 1950; the matrix determinant lemma).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import RowError, counted, named
from streamgda.estimators.classifier import GaussianClassifier
from streamgda.estimators.lda import LinearDiscriminantAnalysis
from streamgda.estimators.naive_bayes import GaussianNB
from streamgda.estimators.qda import QuadraticDiscriminantAnalysis
from streamgda.gaussians.base import LOG_2PI
from streamgda.gaussians.densities import RegularisedGaussians
from streamgda.gaussians.products import deviations_from
from streamgda.gaussians.regularisation import Regularisation
from streamgda.gaussians.shared import SharedGaussians
from streamgda.gaussians.whitening import Spectrum, TriangularWhitening, Whitening, largest_zero
from streamgda.selection.scorings import Scored
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import pooled_covariance
from streamgda.statistics.covariances import Array, kind_named
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.floating.state import ClassStatistics

Codes = NDArray[np.intp]
Flags = NDArray[np.bool_]

_EPS = float(np.finfo(np.float64).eps)
_LEAST_LEFT = 1e-5  # fraction of a sum: if less remains, subtraction has lost five digits
_LEAST_WEIGHT = 1e-290
_UNCERTAIN = 1e-5  # limit on the change of a score by rounding errors
_LARGEST_NULL = 1e-10  # eigenvalue of a direction without variance, relative to the others


def downdate_of(estimator: GaussianClassifier[Any], statistics: Statistics) -> Downdate:
    """The `Downdate` that leaves rows out of the model of an estimator.

    Raises
    ------
    ValueError
        If there is no closed form, or all rows but one do not determine the model.
    """
    check_closed_form(estimator)
    estimator._validate_params()
    statistics = statistics.simplest()
    if statistics.missing != "raise":
        raise ValueError(
            "cv='loo' has a closed form for complete rows alone, and here features are missing; set "
            "cv to a number, or leave such rows out, with missing='drop'"
        )
    statistics = statistics.narrowed(estimator.required_statistics())
    kind = DiagonalDowndate if isinstance(estimator, GaussianNB) else DiscriminantDowndate
    return kind(estimator, statistics)


def check_closed_form(estimator: GaussianClassifier[Any]) -> None:
    """Raise ValueError for an estimator whose rows cannot be left out in closed form."""
    kinds = (LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, GaussianNB)
    names = ("shrinkage", "pooling")
    is_estimated = any(isinstance(getattr(estimator, name, None), str) for name in names)
    is_plugin = estimator.covariance_estimator is None and estimator.predictive == "plugin"
    if type(estimator) not in kinds or is_estimated or not is_plugin:
        raise ValueError(
            f"cv='loo' has no closed form for this {type(estimator).__name__}: each row "
            "would need another fit. It has one for LDA, QDA and GaussianNB with numbers for parameters "
            "and normal densities; else set cv to a number"
        )


@dataclass(frozen=True)
class _Left:
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
        learner = estimator._twin()
        learner._learnt_whole, learner._least_classes = True, 2  # so that too few are an error, as in a fit
        self._fitted = learner._compute_finalised(statistics)
        if not statistics.schema.is_normal_for(estimator):
            raise ValueError("rows whose features are not all normal are not left out one by one; use folds")
        for _, error in self._fitted.singular:
            raise error()
        is_linear = isinstance(estimator, LinearDiscriminantAnalysis)
        self._share = 1.0 if is_linear else float(getattr(estimator, "pooling", None) or 0.0)
        self._concerns_all = bool(self._share)  # whether a row affects the densities of other classes
        self._pooling = Regularisation.by_share(self._share, self._weights, statistics.n_features)

    def score(self, rows: Array, truth: Codes, weights: Array, *, log_joint: bool) -> Scored:
        """Score rows that are among those of the statistics; see `log_joint`."""
        scores = self.log_joint(rows, truth, weights)
        joint = scores[np.arange(len(rows)), truth] if log_joint else None
        calibration = self._fitted.calibration
        return Scored(calibration.apply(scores), truth, weights, joint, calibration)

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
                said = f" of class {label}: without it, " + str(error)
                raise RowError(int(i), said) from error
            densities[i, changed] = density
        densities += self._log_priors(truth, weights)
        return densities

    @abstractmethod
    def _in_closed_form(self, X: Array, truth: Codes, weights: Array) -> tuple[Array, Flags]:
        """Ln p(x | k) of rows by the models of the others (n, K), and for which rows it is accurate (n,)."""

    def _log_priors(self, truth: Codes, weights: Array) -> Array:
        """Ln of the priors without each row: (n, K)."""
        if self._estimator.priors is not None:
            return np.tile(self._fitted.log_priors, (len(truth), 1))
        left = np.tile(self._weights, (len(truth), 1))
        left[np.arange(len(truth)), truth] -= weights
        return np.log(left / (self._total - weights)[:, None])

    def _from_mean(self, X: Array, classes: int | Codes) -> Array:
        """Rows minus the mean of one class, or each row minus the mean of its own class: (n, d)."""
        return deviations_from(X, self._means[classes], self._tails[classes])

    def _left(self, j: int, truth: Codes, weights: Array) -> _Left:
        """The factors of class j without each row."""
        return self._left_of(
            self._pooling.divisors[j], np.where(truth == j, 1.0, self._share), truth, weights
        )

    def _left_of(self, divisor: float, part: Array | float, truth: Codes, weights: Array) -> _Left:
        """The factors of a covariance without each of the rows that it includes."""
        own = self._weights[truth]
        ratio = own / (own - weights)
        return _Left(ratio, part * weights * ratio, divisor - part * weights)

    def _computed(self, row: Array, own: int, weight: float) -> tuple[Codes, Array]:
        """Ln of the densities at a row of class `own`, from the state without it, and their classes."""
        changed = np.arange(len(self.classes)) if self._concerns_all else np.array([own])
        whole, label = self._statistics.of_classes(changed), self.classes[[own]]
        removed = empty_statistics(whole.required).update(row[None], label, [weight])
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
            "nothing is left of a variance, or less than float64 tells from rounding. Regularise, set "
            "exact=True, leave the row out if it is an error, or set cv to a number"
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
        noise = _EPS * np.sqrt(16 + whole.counts.max()) * diagonal[k]
        scatter = noise if whole.covariance_type == "diag" else np.diag(noise)
        return ClassStatistics.from_moments(
            left.classes[[place]],
            [1],
            left.means[[place]],
            scatter if kind.is_pooled else scatter[None],
            weights=[_LEAST_WEIGHT],
            covariance_type=whole.covariance_type,
        )


class DiagonalDowndate(Downdate):
    """Gaussian naive Bayes, smoothed by the largest variance of the remaining rows."""

    def __init__(self, estimator: Any, statistics: Statistics) -> None:
        super().__init__(estimator, statistics)
        self._concerns_all = True
        self._smoothing = float(estimator.var_smoothing)
        self._centre, self._total_variances = statistics.overall_mean(), statistics.total_variance()
        self._variances = self._fitted.gaussians.variances
        self._unsmoothed = self._variances - self._smoothing * self._total_variances.max()
        offsets = (self._means - self._centre) + self._tails
        self._centre_tail = self._weights @ offsets / self._total

    def _in_closed_form(self, X: Array, truth: Codes, weights: Array) -> tuple[Array, Flags]:
        densities = np.empty((len(X), len(self.classes)), order="F")
        squares = self._from_mean(X, truth) ** 2
        smoothing, is_known = self._smoothed(X, weights)
        for j in range(len(self.classes)):
            own, left = truth == j, self._left(j, truth, weights)
            from_mean = self._from_mean(X, j)
            from_mean[own] *= left.ratio[own, None]
            scale = self._pooling.divisors[j] / left.freedom
            variances = scale[:, None] * self._unsmoothed[j]
            variances -= (left.beta / left.freedom)[:, None] * squares
            least = _LEAST_LEFT * scale[:, None] * self._variances[j]
            if self._counts[j] == 2 and not self._share:  # one row has no scatter
                variances[own], least[own] = 0.0, np.finfo(np.float64).tiny
            variances += smoothing[:, None]
            is_known &= (variances >= least).all(axis=1)
            variances[~is_known] = 1.0
            terms = from_mean**2 / variances + np.log(variances) + LOG_2PI
            densities[:, j] = -0.5 * terms.sum(axis=1)
        return densities, is_known

    def _smoothed(self, X: Array, weights: Array) -> tuple[Array, Flags]:
        """The smoothing of variances without each row, and for which rows it is accurate: (n,)."""
        left = self._total - weights
        squares = (weights * self._total / left)[:, None] * (X - self._centre - self._centre_tail) ** 2
        largest = ((self._total * self._total_variances - squares) / left[:, None]).max(axis=1)
        is_known = largest >= _LEAST_LEFT * self._total_variances.max()
        return self._smoothing * largest, is_known


class DiscriminantDowndate(Downdate):
    """Linear and quadratic discriminant analysis: plain, shrunk, pooled or regularised by numbers.

    The scatter of class j is B_j = (1 − λ) W_j + λ W, with λ = 0 for quadratic and 1 for linear discriminant
    analysis. There are coordinates in which its regularised covariance is the identity and its ridge is
    diagonal. In these, the covariance is diagonal for any divisor and any ridge. The coordinates do not
    depend on the units of the features.
    """

    def __init__(self, estimator: Any, statistics: Statistics) -> None:
        self._shrinkage = float(estimator.shrinkage or 0.0)
        self._ridge = float(getattr(estimator, "reg_param", 0.0))
        super().__init__(estimator, statistics)
        if not (self._share or self._shrinkage or self._ridge):
            self._check_counts()
        within, gaussians = pooled_covariance(statistics), self._fitted.gaussians
        self._common: _Basis | None = None
        if isinstance(gaussians, SharedGaussians):
            self._bases = [self._basis(within, gaussians.whitening, self._means)]
            return
        covariances = self._pooling.covariances(statistics.scatter, within)
        if isinstance(gaussians, RegularisedGaussians):
            self._common = self._basis(within, gaussians.common, self._means)
        self._bases = [
            self._basis(covariance, whitening, None if self._common else self._means[[j]])
            for j, (covariance, whitening) in enumerate(zip(covariances, gaussians.whitenings, strict=True))
        ]

    def _check_counts(self) -> None:
        """Raise ValueError if a class has too few rows to leave one out: n rows span n − 1 dimensions."""
        n_features = self._means.shape[1]
        for k in np.flatnonzero(self._counts - 2 < n_features):
            raise ValueError(
                f"class {named(self.classes[k])}: without one of its {self._counts[k]} rows, the "
                f"covariance is singular for {counted(n_features, 'feature')}; regularise, or "
                "bring more rows"
            )

    def _basis(self, covariance: Array, whitening: Whitening, means: Array | None) -> _Basis:
        """The coordinates, from others in which the regularised covariance is the identity."""
        mean_variance = float(np.trace(covariance)) / len(covariance)
        ridge = float(self._ridge_of(mean_variance))
        least = 1.0 if means is None else _least_factor(whitening, means)
        matrix, values = whitening.matrix, np.zeros(whitening.rank)
        if ridge:
            scaled = math.sqrt(ridge) * matrix
            values, axes = np.linalg.eigh(scaled.T @ scaled)
            matrix, values = matrix @ axes, np.clip(values, 0.0, 1.0)
        relative = values / ridge if ridge else values
        return _Basis(matrix, mean_variance, values, relative, whitening.log_pdet, least)

    def _ridge_of(self, mean_variance: Any) -> Any:
        """The number added to the diagonal of a covariance with this mean variance."""
        return (1 - self._ridge) * self._shrinkage * mean_variance + self._ridge

    def _in_closed_form(self, X: Array, truth: Codes, weights: Array) -> tuple[Array, Flags]:
        densities = np.empty((len(X), len(self.classes)), order="F")
        deviations = self._from_mean(X, truth)
        is_known = np.ones(len(X), dtype=bool)
        if self._common:
            left = self._left_of(self._total, 1.0, truth, weights)
            removed = deviations @ self._common.vectors
            is_known &= self._without(self._common, self._total, left, deviations, removed).is_known
        for j in range(len(self.classes)):
            own, left = truth == j, self._left(j, truth, weights)
            basis = self._bases[min(j, len(self._bases) - 1)]
            from_mean = self._from_mean(X, j) @ basis.vectors
            removed = deviations @ basis.vectors if self._share else from_mean * own[:, None]
            rest = self._without(basis, self._pooling.divisors[j], left, deviations, removed)
            from_mean[own] *= left.ratio[own, None]
            squared = np.vecdot(from_mean / rest.values, from_mean)
            squared += rest.gamma * np.vecdot(rest.reduced, from_mean) ** 2 / rest.slack
            log_determinant = np.log(rest.values).sum(axis=1) + np.log(rest.slack) + basis.log_determinant
            densities[:, j] = -0.5 * (squared + log_determinant + from_mean.shape[1] * LOG_2PI)
            is_known &= rest.is_known
        return densities, is_known

    def _without(
        self, basis: _Basis, divisor: float, left: _Left, deviations: Array, removed: Array
    ) -> _Without:
        """A covariance without each row, whose deviations (n, d) are `removed` (n, r) in the coordinates."""
        scale = divisor / left.freedom
        part = left.beta / left.freedom
        values, is_much = self._values(basis, scale, part, deviations)
        reduced = removed / values
        gamma = part * (1 - self._ridge) * (1 - self._shrinkage)
        slack = 1 - gamma * np.vecdot(reduced, removed)
        least = np.maximum(_LEAST_LEFT, basis.least_factor * values.max(axis=1) / values.min(axis=1))
        is_known = is_much & ((slack >= least) | (part == 0))
        slack[~is_known] = 1.0
        return _Without(values, reduced, gamma, slack, is_known)

    def _values(self, basis: _Basis, scale: Array, part: Array, deviations: Array) -> tuple[Array, Flags]:
        """The variances along the axes, regularised, before the matrix of rank one is taken out: (n, r).

        Also returns whether enough remains of the mean variance that shrinkage uses.
        """
        whole = scale * basis.mean_variance
        mean_variance = whole - part * np.vecdot(deviations, deviations) / deviations.shape[1]
        is_much = np.asarray(mean_variance >= _LEAST_LEFT * whole)
        if not self._shrinkage:
            is_much[:] = True
        ridges = self._ridge_of(np.where(is_much, mean_variance, whole))
        values: Array = scale[:, None] * (1 - basis.ridges) + ridges[:, None] * basis.relative_ridges
        return values, is_much


@dataclass(frozen=True)
class _Without:
    """A covariance without each of n rows, in the coordinates of a basis: diag(values) − γ r rᵀ.

    Attributes
    ----------
    values : ndarray of shape (n, r)
        The diagonal.
    reduced : ndarray of shape (n, r)
        r over the diagonal, where r is the deviation of the row.
    gamma, slack : ndarray of shape (n,)
        γ, and the smallest fraction of the diagonal that remains in any direction: 1 − γ rᵀ diag(values)⁻¹ r.
    is_known : ndarray of bool of shape (n,)
        Whether the result is accurate, and has the same rank as the covariance of all rows.
    """

    values: Array
    reduced: Array
    gamma: Array
    slack: Array
    is_known: Flags


@dataclass(frozen=True)
class _Basis:
    """Coordinates in which a covariance with its ridge is the identity, and the ridge alone diagonal.

    Attributes
    ----------
    vectors : ndarray of shape (d, r)
        V with Vᵀ (a Σ + ρ I) V = I.
    mean_variance : float
        The mean variance of Σ.
    ridges : ndarray of shape (r,)
        The diagonal of ρ Vᵀ V, between 0 and 1.
    relative_ridges : ndarray of shape (r,)
        The values of `ridges` divided by ρ; zero without a ridge.
    log_determinant : float
        ln det (a Σ + ρ I).
    least_factor : float
        The fraction of the covariance that must remain in all directions to keep the rank.
    """

    vectors: Array
    mean_variance: float
    ridges: Array
    relative_ridges: Array
    log_determinant: float
    least_factor: float


def _least_factor(whitening: Whitening, means: Array) -> float:
    """The fraction of a covariance that must remain in all directions to keep its rank.

    If f Σ ≤ Σ' ≤ Σ, the eigenvalues of the correlation matrix of Σ' are at least f times those of Σ, and at
    most 1 / f times. Directions that count as singular but have some variance change when a row is left
    out. In this case the fraction is 1, and no row can be removed in closed form.
    """
    n_features, least = len(whitening.covariance), whitening.least_eigenvalue
    zero = largest_zero(n_features, least)
    certain = 2 * (zero + n_features**2 * _EPS)
    if isinstance(whitening, TriangularWhitening):
        smallest, dropped, varying = whitening.lower_bound, 0.0, np.arange(n_features)
    else:
        spectrum = Spectrum.of(whitening.covariance, means, least)
        smallest, varying = spectrum.values[spectrum.is_positive].min(), spectrum.varying
        dropped = spectrum.values[~spectrum.is_positive].max(initial=0.0)
    if dropped > _LARGEST_NULL * smallest:
        return math.inf
    variances = whitening.covariance.diagonal()[varying]
    rounding = (2 * _EPS * np.abs(means[:, varying]).max(axis=0)) ** 2
    return float(max(certain / smallest, 2 * dropped / zero, (rounding / variances).max(initial=0.0)))
