"""Linear and quadratic discriminant analysis without each row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgda.blocks.wording import counted, named
from streamgda.estimators.shrinkage import regularised, shrunk
from streamgda.gaussians.base import LOG_2PI
from streamgda.gaussians.whitening import Whitening
from streamgda.selection.downdate import EPS, LEAST_LEFT, ROUNDING, Codes, Downdate, Flags, Left
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import pooled_covariance
from streamgda.statistics.covariances import Array


class DiscriminantDowndate(Downdate):
    """Linear and quadratic discriminant analysis: plain, shrunk, pooled or regularised by numbers.

    The scatter of class j is B_j = (1 − λ) W_j + λ W, with λ = 0 for quadratic and 1 for linear discriminant
    analysis. In the coordinates in which its regularised covariance is the identity and its ridge is
    diagonal, all the regularised covariances are. They do not depend on the units of the features.

    Where a row holds almost all of a covariance, what is left of it is computed and factored.
    """

    def __init__(self, estimator: Any, statistics: Statistics, ddof: float = 0) -> None:
        super().__init__(estimator, statistics, ddof)
        self._shrinkage = float(estimator.shrinkage or 0.0)
        self._ridge = float(getattr(estimator, "reg_param", 0.0))
        self._is_plain = not (self._shrinkage or self._ridge)
        self._least = float(estimator.tol) ** 2
        self._check_counts(statistics)
        self._scatter = statistics.scatter  # of LDA, that of all classes together
        self._bases = [self._basis(covariance, j) for j, covariance in enumerate(self._pooled(statistics))]

    def _check_counts(self, statistics: Statistics) -> None:
        """Raise ValueError if a class has too few rows to do without one: n rows span n − 1 dimensions."""
        if self._share or not self._is_plain:
            return
        for k in np.flatnonzero(statistics.counts - 2 < statistics.n_features):
            raise ValueError(
                f"class {named(self.classes[k])}: without one of its {statistics.counts[k]} rows, the "
                f"covariance is singular for {counted(statistics.n_features, 'feature')}; regularise, or "
                "bring more rows"
            )

    def _pooled(self, statistics: Statistics) -> list[Array]:
        """The covariance of each class before shrinkage; of LDA the one of all."""
        within = pooled_covariance(statistics)
        if self._share == 1:
            return [within]
        return list(self._pooling.covariances(self._scatter, within))

    def _basis(self, covariance: Array, j: int) -> _Basis:
        means = self._means if self._share else self._means[[j]]
        whitening = Whitening.of(self._regularised(covariance), means, self._least)
        if self._share != 1 and whitening.rank < len(covariance):
            raise ValueError(f"class {named(self.classes[j])}: the covariance is singular; regularise")
        if not whitening.rank:
            raise ValueError("no feature varies within a class, so there is no covariance to work with")
        mean_variance = float(np.trace(covariance)) / len(covariance)
        return _Basis.of(whitening, mean_variance, float(self._ridge_of(mean_variance)))

    def _basis_of(self, j: int) -> _Basis:
        return self._bases[min(j, len(self._bases) - 1)]

    def _ridge_of(self, mean_variance: Any) -> Any:
        """What is added to the diagonal of a covariance of this mean variance."""
        return (1 - self._ridge) * self._shrinkage * mean_variance + self._ridge

    def _regularised(self, covariance: Array) -> Array:
        shrunken = shrunk(covariance, self._shrinkage) if self._shrinkage else covariance.copy()
        return regularised(shrunken, self._ridge)

    def log_joint(self, X: Array, truth: Codes, weights: Array) -> Array:
        """Ln p(x, k) of rows by the models of all the others: (n, K)."""
        result = self._log_priors(truth, weights)
        deviations = self._from_mean(X, truth)
        for j in range(len(self.classes)):
            result[:, j] += self._log_density(j, X, deviations, truth, weights)
        return result

    def _log_density(self, j: int, X: Array, deviations: Array, truth: Codes, weights: Array) -> Array:
        """Ln of the density of class j at each row, without it: (n,)."""
        log_density, is_known = self._in_closed_form(j, X, deviations, truth, weights)
        for i in np.flatnonzero(~is_known):
            log_density[i] = self._computed(j, X[i], deviations[i], int(truth[i]), float(weights[i]))
        self._check(~np.isnan(log_density), truth)
        return log_density

    def _in_closed_form(
        self, j: int, X: Array, deviations: Array, truth: Codes, weights: Array
    ) -> tuple[Array, Flags]:
        """The same, and of which rows it keeps its digits: those that leave much."""
        left, basis = self._left(j, truth, weights), self._basis_of(j)
        own = truth == j
        from_mean = self._from_mean(X, j) @ basis.vectors
        removed = deviations @ basis.vectors if self._share else from_mean * own[:, None]
        from_mean[own] *= left.ratio[own, None]
        values, is_much = self._values(basis, left, deviations, j, truth)
        reduced = removed / values
        gamma = left.beta * (1 - self._ridge) * (1 - self._shrinkage) / left.freedom
        slack = 1 - gamma * np.vecdot(reduced, removed)
        is_known = is_much & (slack >= LEAST_LEFT)
        slack[~is_known] = 1.0
        squared = np.vecdot(from_mean / values, from_mean)
        squared += gamma * np.vecdot(reduced, from_mean) ** 2 / slack
        log_determinant = np.log(values).sum(axis=1) + np.log(slack) + basis.log_determinant
        return -0.5 * (squared + log_determinant + values.shape[1] * LOG_2PI), is_known

    def _values(
        self, basis: _Basis, left: Left, deviations: Array, j: int, truth: Codes
    ) -> tuple[Array, Flags]:
        """The variances along the axes, regularised, before the matrix of rank one is taken out: (n, r).

        Also whether much is left of the mean variance by which they are shrunk.
        """
        scale = self._pooling.divisors[j] / left.freedom
        whole = scale * basis.mean_variance
        squares = np.vecdot(deviations, deviations)
        mean_variance = whole - left.beta / left.freedom * squares / deviations.shape[1]
        rounding = EPS**2 * np.vecdot(self._means, self._means)[truth]
        is_much = np.asarray((mean_variance >= LEAST_LEFT * whole) | (squares <= rounding))
        if not self._shrinkage:
            is_much[:] = True
        ridges = self._ridge_of(np.where(is_much, np.maximum(mean_variance, 0.0), whole))
        values: Array = scale[:, None] * (1 - basis.ridges) + ridges[:, None] * basis.relative_ridges
        return values, is_much

    def _computed(self, j: int, row: Array, deviation: Array, own: int, weight: float) -> float:
        """Ln of the density of class j at a row of class `own`, without the row; NaN if it is singular."""
        left = self._left(j, np.array([own]), np.array([weight]))
        scatter = self._left_scatter(j, deviation, own, weight * float(left.ratio[0]))
        means, from_mean = self._means.copy(), self._from_mean(row, j)
        means[own] -= (float(left.ratio[0]) - 1) * deviation
        if j == own:
            from_mean *= left.ratio[0]
        covariance = self._regularised(scatter / left.freedom[0])
        whitening = Whitening.of(covariance, means if self._share else means[[j]], self._least)
        if whitening.rank < self._basis_of(j).vectors.shape[1]:
            return float("nan")
        whitened = from_mean @ whitening.matrix
        return -0.5 * float(whitened @ whitened + whitening.log_pdet + whitening.rank * LOG_2PI)

    def _left_scatter(self, j: int, deviation: Array, own: int, beta: float) -> Array:
        """B_j without a row of class `own`: (d, d). One row of two leaves no scatter of its class."""
        removed = beta * np.outer(deviation, deviation)
        if self._scatter.ndim == 2:
            return _less(self._scatter, removed)
        rest = np.zeros_like(removed) if self._is_pair[own] else _less(self._scatter[own], removed)
        scatter: Array = (1 - self._share) * (rest if j == own else self._scatter[j])
        if self._share:
            scatter = scatter + self._share * (np.delete(self._scatter, own, axis=0).sum(axis=0) + rest)
        return scatter


def _less(scatter: Array, removed: Array) -> Array:
    """A scatter (d, d) less a part of it; features of which rounding alone is left are zero."""
    rest = scatter - removed
    gone = rest.diagonal() <= ROUNDING * scatter.diagonal()
    rest[gone] = 0.0
    rest[:, gone] = 0.0
    return rest


@dataclass(frozen=True)
class _Basis:
    """Coordinates in which a covariance with its ridge is the identity, and the ridge alone diagonal.

    Attributes
    ----------
    vectors : ndarray of shape (d, r)
        V with Vᵀ (a Σ + ρ I) V = I.
    mean_variance : float
        That of Σ.
    ridges : ndarray of shape (r,)
        The diagonal of ρ Vᵀ V, between 0 and 1.
    relative_ridges : ndarray of shape (r,)
        The same over ρ; zero without a ridge.
    log_determinant : float
        ln det (a Σ + ρ I).
    """

    vectors: Array
    mean_variance: float
    ridges: Array
    relative_ridges: Array
    log_determinant: float

    @classmethod
    def of(cls, whitening: Whitening, mean_variance: float, ridge: float) -> _Basis:
        """The coordinates, from others in which the regularised covariance is the identity."""
        matrix, log_determinant = whitening.matrix, whitening.log_pdet
        if not ridge:
            return cls(
                matrix, mean_variance, np.zeros(whitening.rank), np.zeros(whitening.rank), log_determinant
            )
        scaled = math.sqrt(ridge) * matrix
        values, axes = np.linalg.eigh(scaled.T @ scaled)
        ridges = np.clip(values, 0.0, 1.0)
        return cls(matrix @ axes, mean_variance, ridges, ridges / ridge, log_determinant)
