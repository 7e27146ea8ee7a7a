"""Each row scored by the model of all the other rows, in closed form.

Without a row x of weight w, its class k has the mean m_k − w δ / (n_k − w) and the scatter W_k − β δ δᵀ,
where δ = x − m_k and β = w n_k / (n_k − w). So each covariance loses a matrix of rank one, and distances and
determinants follow from those of all the rows (Sherman & Morrison 1950; the matrix determinant lemma).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgda.blocks.wording import Message, counted, named
from streamgda.estimators.classifier import GaussianClassifier
from streamgda.estimators.lda import LinearDiscriminantAnalysis
from streamgda.estimators.naive_bayes import GaussianNB
from streamgda.estimators.qda import QuadraticDiscriminantAnalysis
from streamgda.gaussians.base import LOG_2PI
from streamgda.gaussians.densities import RegularisedGaussians
from streamgda.gaussians.shared import SharedGaussians
from streamgda.gaussians.whitening import Spectrum, TriangularWhitening, Whitening, largest_zero
from streamgda.selection.left_out import EPS, LEAST_LEFT, Codes, Downdate, Flags, Left
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import pooled_covariance
from streamgda.statistics.covariances import Array


class DiagonalDowndate(Downdate):
    """Gaussian naive Bayes, smoothed by the largest variance of the remaining rows."""

    def __init__(self, estimator: Any, statistics: Statistics) -> None:
        super().__init__(estimator, statistics)
        self._smoothing = float(estimator.var_smoothing)
        self._centre, self._total_variances = statistics.overall_mean(), statistics.total_variance()
        self._variances = self._fitted.gaussians.variances
        self._unsmoothed = self._variances - self._smoothing * self._total_variances.max()
        offsets = (self._means - self._centre) + self._tails
        self._centre_tail = self._weights @ offsets / self._total

    @property
    def _concerns_all(self) -> bool:
        return True

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
            least = LEAST_LEFT * scale[:, None] * self._variances[j]
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
        is_known = largest >= LEAST_LEFT * self._total_variances.max()
        return self._smoothing * largest, is_known


_LARGEST_NULL = 1e-10  # eigenvalue of a direction without variance, relative to the others


class DiscriminantDowndate(Downdate):
    """Linear and quadratic discriminant analysis: plain, shrunk, pooled or regularised by numbers.

    The scatter of class j is B_j = (1 − λ) W_j + λ W, with λ = 0 for quadratic and 1 for linear discriminant
    analysis. In the coordinates in which its regularised covariance is the identity and its ridge is
    diagonal, all the regularised covariances are. They do not depend on the units of the features.
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

    @property
    def _concerns_all(self) -> bool:
        return bool(self._share)

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
        mean_variance = float(np.trace(covariance)) / len(covariance)
        ridge = float(self._ridge_of(mean_variance))
        return _Basis.of(
            whitening, mean_variance, ridge, 1.0 if means is None else _least_factor(whitening, means)
        )

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
        self, basis: _Basis, divisor: float, left: Left, deviations: Array, removed: Array
    ) -> _Without:
        """A covariance without each row, whose deviations (n, d) are `removed` (n, r) in the coordinates."""
        scale = divisor / left.freedom
        part = left.beta / left.freedom
        values, is_much = self._values(basis, scale, part, deviations)
        reduced = removed / values
        gamma = part * (1 - self._ridge) * (1 - self._shrinkage)
        slack = 1 - gamma * np.vecdot(reduced, removed)
        least = np.maximum(LEAST_LEFT, basis.least_factor * values.max(axis=1) / values.min(axis=1))
        is_known = is_much & ((slack >= least) | (part == 0))
        slack[~is_known] = 1.0
        return _Without(values, reduced, gamma, slack, is_known)

    def _values(self, basis: _Basis, scale: Array, part: Array, deviations: Array) -> tuple[Array, Flags]:
        """The variances along the axes, regularised, before the matrix of rank one is taken out: (n, r).

        Also returns whether enough remains of the mean variance that shrinkage uses.
        """
        whole = scale * basis.mean_variance
        mean_variance = whole - part * np.vecdot(deviations, deviations) / deviations.shape[1]
        is_much = np.asarray(mean_variance >= LEAST_LEFT * whole)
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

    @classmethod
    def of(cls, whitening: Whitening, mean_variance: float, ridge: float, least_factor: float) -> _Basis:
        """The coordinates, from others in which the regularised covariance is the identity."""
        matrix, log_determinant = whitening.matrix, whitening.log_pdet
        values, axes = np.zeros(whitening.rank), None
        if ridge:
            scaled = math.sqrt(ridge) * matrix
            values, axes = np.linalg.eigh(scaled.T @ scaled)
            matrix, values = matrix @ axes, np.clip(values, 0.0, 1.0)
        relative = values / ridge if ridge else values
        return cls(matrix, mean_variance, values, relative, log_determinant, least_factor)


def _least_factor(whitening: Whitening, means: Array) -> float:
    """The fraction of a covariance that must remain in all directions to keep its rank.

    If f Σ ≤ Σ' ≤ Σ, the eigenvalues of the correlation matrix of Σ' are at least f times those of Σ, and at
    most 1 / f times. Directions that count as singular but have some variance change when a row is left
    out. In this case the fraction is 1, and no row can be removed in closed form.
    """
    n_features, least = len(whitening.covariance), whitening.least_eigenvalue
    zero = largest_zero(n_features, least)
    certain = 2 * (zero + n_features**2 * EPS)
    if isinstance(whitening, TriangularWhitening):
        smallest, dropped, varying = whitening.lower_bound, 0.0, np.arange(n_features)
    else:
        spectrum = Spectrum.of(whitening.covariance, means, least)
        smallest, varying = spectrum.values[spectrum.kept].min(), spectrum.varying
        dropped = spectrum.values[~spectrum.kept].max(initial=0.0)
    if dropped > _LARGEST_NULL * smallest:
        return math.inf
    variances = whitening.covariance.diagonal()[varying]
    rounding = (2 * EPS * np.abs(means[:, varying]).max(axis=0)) ** 2
    return float(max(certain / smallest, 2 * dropped / zero, (rounding / variances).max(initial=0.0)))


def check_closed_form(estimator: GaussianClassifier[Any]) -> None:
    """Raise ValueError for an estimator whose rows cannot be left out in closed form."""
    kinds = (LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis, GaussianNB)
    estimated = [
        f"⟨{name}={getattr(estimator, name)!r}⟩"
        for name in ("shrinkage", "pooling")
        if isinstance(getattr(estimator, name, None), str)
    ]
    if getattr(estimator, "covariance_estimator", None) is not None:
        estimated.append("a covariance_estimator")
    if getattr(estimator, "predictive", "plugin") != "plugin":
        estimated.append(f"⟨predictive={getattr(estimator, 'predictive', None)!r}⟩")
    if type(estimator) not in kinds or estimated:
        why = f"with {', '.join(estimated)}" if estimated else "of this kind"
        raise ValueError(
            Message(
                f"⟨cv='loo'⟩ has no closed form for {type(estimator).__name__} {why}: each row would need "
                "another fit. It has one for LDA, QDA and GaussianNB with numbers for parameters; else set "
                "⟨cv⟩ to a number"
            )
        )


def downdate_of(estimator: GaussianClassifier[Any], statistics: Statistics) -> Downdate:
    """The `Downdate` that leaves rows out of the model of an estimator.

    Raises
    ------
    ValueError
        If there is no closed form, or all rows but one do not determine the model.
    """
    check_closed_form(estimator)
    estimator._validate_params()
    statistics = statistics.ordinary()
    if statistics.keeps_patterns:
        raise ValueError(
            Message(
                "⟨cv='loo'⟩ has a closed form for complete rows alone, and here features are missing; set "
                "⟨cv⟩ to a number, or leave such rows out, with ⟨missing='drop'⟩"
            )
        )
    statistics = statistics.to_covariance_type(**estimator.required_statistics())
    kind = DiagonalDowndate if isinstance(estimator, GaussianNB) else DiscriminantDowndate
    return kind(estimator, statistics)
