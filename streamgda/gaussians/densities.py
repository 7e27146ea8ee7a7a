"""The normal densities of classes with covariances, or variances, of their own.

ln p(x | k) = −½ (r ln 2π + ln det Σ + (x − μ)ᵀ Σ⁻¹ (x − μ)), where r is the rank of Σ. Distances are computed
in whitened coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streamgda.gaussians.base import LOG_2PI, Gaussians
from streamgda.gaussians.pooling import Pooling
from streamgda.gaussians.products import squared_lengths, stacked
from streamgda.gaussians.tails import deviations_from, large_tails, of_classes, of_features
from streamgda.gaussians.whitening import Array, Observed, Unestimated, Whitening

_VALUES_AT_ONCE = 1 << 15  # float64 values that fit in the second-level cache


@dataclass(frozen=True)
class SeparateGaussians(Gaussians):
    """A covariance for each class, as in quadratic discriminant analysis.

    `pooling` says how they lean on the pooled covariance, if they do. `tails` (K, d) are what float64 leaves
    of the means.
    """

    means: Array
    whitenings: list[Whitening]
    pooling: Pooling | None = field(default=None, kw_only=True)
    tails: Array | None = field(default=None, kw_only=True)

    @cached_property
    def unestimated(self) -> dict[int, Callable[[], Exception]]:
        return {k: w.error for k, w in enumerate(self.whitenings) if isinstance(w, Unestimated)}

    @cached_property
    def log_normalisers(self) -> Array:
        return np.array([w.rank * LOG_2PI + w.log_pdet for w in self.whitenings])

    @property
    def ranks(self) -> NDArray[np.int64]:
        return np.array([w.rank for w in self.whitenings])

    @property
    def n_covariance_parameters(self) -> float:
        n_features = self.means.shape[1]
        n_free = len(self.means) if self.pooling is None else self.pooling.n_free
        return float(n_free * n_features * (n_features + 1) / 2)

    def squared_distances(self, X: Array) -> Array:
        distances = np.empty((len(X), len(self.means)), order="F")
        lengths = squared_lengths(X, self.means, self._large_tails, self._triangles)
        for some, squared in lengths:
            distances[:, some] = squared
        if self.unestimated:
            distances[:, list(self.unestimated)] = np.inf
        return distances

    @cached_property
    def _large_tails(self) -> Array | None:
        variances = np.array([np.diag(whitening.covariance) for whitening in self.whitenings])
        return large_tails(self.tails, variances)

    @cached_property
    def _triangles(self) -> Sequence[Array] | Array:
        """The lower triangles that whiten, stored by column."""
        return stacked([whitening.triangle for whitening in self.whitenings])

    def posterior_scores_from(self, squared_distances: Array) -> Array:
        """The log density without its term in ln 2π, as in scikit-learn."""
        scores: Array = -0.5 * (squared_distances + self._log_determinants)
        return scores

    @cached_property
    def _log_determinants(self) -> Array:
        return np.array([whitening.log_pdet for whitening in self.whitenings])

    def marginal(self, observed: Observed) -> Self:
        means = self.means[:, observed]
        whitenings = [w.marginal(observed, means[[k]]) for k, w in enumerate(self.whitenings)]
        return replace(self, means=means, whitenings=whitenings, tails=of_features(self.tails, observed))

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        expected = posteriors @ self.means[:, ~observed]
        tails = marginal._large_tails
        for k, (whole, part) in enumerate(zip(self.whitenings, marginal.whitenings, strict=True)):
            deviations = deviations_from(X, marginal.means[k], of_classes(tails, k))
            whitened = deviations @ part.matrix
            whitened *= posteriors[:, [k]]
            expected += whitened @ whole.regression_coefficients(part, observed).T
        return expected

    def deviations(self, k: int, n: int, random: np.random.RandomState) -> Array:
        return self.whitenings[k].deviations(n, random)

    def total_squared_distance(self, scatter: Array) -> float:
        pairs = zip(self.whitenings, scatter, strict=True)
        return float(sum(np.vdot(whitening.precision, own) for whitening, own in pairs))

    def covariance(self, k: int) -> Array:
        return self.whitenings[k].covariance

    def precision(self, k: int) -> Array:
        return self.whitenings[k].precision


@dataclass(frozen=True)
class DiagonalGaussians(Gaussians):
    """A variance for each class and feature, as in naive Bayes.

    `pooling` and `tails` are as in `SeparateGaussians`.
    """

    means: Array
    variances: Array
    tails: Array | None = field(default=None, kw_only=True)
    pooling: Pooling | None = field(default=None, kw_only=True)

    @cached_property
    def log_normalisers(self) -> Array:
        normalisers: Array = np.log(self.variances).sum(axis=1) + self.means.shape[1] * LOG_2PI
        return normalisers

    @property
    def ranks(self) -> NDArray[np.int64]:
        return np.full(len(self.means), self.means.shape[1])

    @property
    def n_covariance_parameters(self) -> float:
        n_free = len(self.means) if self.pooling is None else self.pooling.n_free
        return float(n_free * self.means.shape[1])

    def squared_distances(self, X: Array) -> Array:
        if len(X) < len(self.means):
            return self._squared_distances_by_row(X)
        distances, tails = np.empty((len(X), len(self.means)), order="F"), self._large_tails
        for k, (mean, scale) in enumerate(zip(self.means, self._scales, strict=True)):
            standardised = deviations_from(X, mean, of_classes(tails, k))
            standardised *= scale
            np.vecdot(standardised, standardised, out=distances[:, k])
        return distances

    @cached_property
    def _large_tails(self) -> Array | None:
        return large_tails(self.tails, self.variances)

    def _squared_distances_by_row(self, X: Array) -> Array:
        """`squared_distances` with the same bits, by a loop over rows; faster if classes outnumber rows."""
        distances, tails = np.empty((len(X), len(self.means))), self._large_tails
        step = max(1, _VALUES_AT_ONCE // max(1, X.shape[1]))
        for start in range(0, len(self.means), step):
            some = slice(start, start + step)
            for row, out in zip(X, distances[:, some], strict=True):
                standardised = np.subtract(row, self.means[some], order="C")
                if tails is not None:
                    standardised -= tails[some]
                standardised *= self._scales[some]
                np.vecdot(standardised, standardised, out=out)
        return np.asfortranarray(distances)

    @cached_property
    def _scales(self) -> Array:
        scales = np.sqrt(self.variances)
        return np.divide(1.0, scales, out=scales)

    def marginal(self, observed: Observed) -> DiagonalGaussians:
        tails = of_features(self.tails, observed)
        return DiagonalGaussians(self.means[:, observed], self.variances[:, observed], tails=tails)

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        expected: Array = posteriors @ self.means[:, ~observed]
        return expected

    def deviations(self, k: int, n: int, random: np.random.RandomState) -> Array:
        deviations = random.standard_normal((n, self.means.shape[1]))
        deviations *= np.sqrt(self.variances[k])
        return deviations

    def total_squared_distance(self, scatter: Array) -> float:
        own = scatter if scatter.ndim == 2 else np.einsum("kii->ki", scatter)
        return float((own / self.variances).sum())

    def covariance(self, k: int) -> Array:
        return np.diag(self.variances[k])

    def precision(self, k: int) -> Array:
        return np.diag(1 / self.variances[k])
