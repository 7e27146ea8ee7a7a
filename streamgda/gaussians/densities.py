"""The normal densities of the classes.

ln p(x | k) = −½ (r ln 2π + ln det Σ + (x − μ)ᵀ Σ⁻¹ (x − μ)), where r is the rank of Σ. Distances are computed
in whitened coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from streamgda.gaussians.base import LOG_2PI, Gaussians
from streamgda.gaussians.pooling import Pooling
from streamgda.gaussians.posteriors import order_of
from streamgda.gaussians.products import multiply_rows, squared_lengths, stacked
from streamgda.gaussians.tails import less_origin, of_features, origin_and_means
from streamgda.gaussians.whitening import Array, Observed, Unestimated, Whitening

FAR = 100.0  # standard deviations; beyond, squared terms cost differences of scores more than 10⁻¹²
_VALUES_AT_ONCE = 1 << 15  # float64 values that fit in the second-level cache
_CLASSES_AT_ONCE = 1536  # whole tiles; with fewer, threads that share products wait for each other


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
        origin, means = self._frame
        for some, squared in squared_lengths(less_origin(X, origin), means, self._triangles):
            distances[:, some] = squared
        if self.unestimated:
            distances[:, list(self.unestimated)] = np.inf
        return distances

    @cached_property
    def _frame(self) -> tuple[Array | None, Array]:
        variances = np.array([np.diag(whitening.covariance) for whitening in self.whitenings])
        return origin_and_means(self.means, self.tails, variances)

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
        origin, means = marginal._frame
        rows = less_origin(X, origin)
        for k, (whole, part) in enumerate(zip(self.whitenings, marginal.whitenings, strict=True)):
            whitened = (rows - means[k]) @ part.matrix
            whitened *= posteriors[:, [k]]
            expected += whitened @ _regression_coefficients(whole, part, observed).T
        return expected

    def deviations(self, k: int, n: int, random: np.random.RandomState) -> Array:
        return _deviations(self.whitenings[k], n, random)

    def total_squared_distance(self, scatter: Array) -> float:
        pairs = zip(self.whitenings, scatter, strict=True)
        return float(sum(np.vdot(whitening.precision, own) for whitening, own in pairs))

    def covariance(self, k: int) -> Array:
        return self.whitenings[k].covariance

    def precision(self, k: int) -> Array:
        return self.whitenings[k].precision


@dataclass(frozen=True)
class SharedGaussians(Gaussians):
    """One covariance for all classes, as in linear discriminant analysis.

    `centre`, the overall mean, is subtracted from rows and means before they are multiplied. If the
    covariance is singular, distances are measured in its range, as by a pseudo-inverse. `tails` are as in
    `SeparateGaussians`.
    """

    scores_from_distances: ClassVar[bool] = False

    means: Array
    centre: Array
    whitening: Whitening
    tails: Array | None = field(default=None, kw_only=True)

    @cached_property
    def log_normalisers(self) -> Array:
        normaliser = self.whitening.rank * LOG_2PI + self.whitening.log_pdet
        return np.full(len(self.means), normaliser)

    @property
    def ranks(self) -> NDArray[np.int64]:
        return np.full(len(self.means), self.whitening.rank)

    @property
    def n_covariance_parameters(self) -> float:
        n_features = self.means.shape[1]
        return float(n_features * (n_features + 1) / 2)

    def squared_distances(self, X: Array) -> Array:
        """Computed from differences: ‖x‖² − 2 xᵀμ + ‖μ‖² may be negative near a mean."""
        if self._is_compact:
            whitened = self._whitened(X, self.centre)
            return np.asfortranarray(cdist(whitened, self.whitened_means, "sqeuclidean"))
        distances = np.empty((len(X), len(self.means)), order="F")
        for k in range(len(self.means)):
            whitened = self._from_mean(X, k)
            np.vecdot(whitened, whitened, out=distances[:, k])
        return distances

    def _whitened(self, X: Array, origin: Array) -> Array:
        return self.whitening.whiten(X - origin)

    def _from_mean(self, X: Array, k: int) -> Array:
        """Whitened deviations from the mean of a class."""
        deviations = X - self.means[k]
        if self.tails is not None:
            deviations -= self.tails[k]
        return self.whitening.whiten(deviations)

    def log_density(self, X: Array) -> Array:
        """Computed from products, which for many classes are several times as fast as differences."""
        if not self._is_compact:
            return super().log_density(X)
        whitened = self._whitened(X, self.centre)
        log_density = self.discriminants(X)
        log_density -= 0.5 * np.vecdot(whitened, whitened)[:, None]
        log_density -= 0.5 * self.log_normalisers
        return log_density

    def discriminants(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """Linear in x: the quadratic term is the same for all classes."""
        linear = multiply_rows(X - self.centre, self.slopes, order_of(len(self.slopes.T)), out)
        linear += self.intercepts + log_priors
        return linear

    def common_scores(self, X: Array) -> Array:
        """What the discriminants xᵀ Σ⁻¹ μ − ½ μᵀ Σ⁻¹ μ exceed `discriminants` by, for all classes: (n, 1)."""
        pull = self.whitening.precision @ self.centre
        return multiply_rows(X - self.centre, pull[:, None]) + 0.5 * (self.centre @ pull)

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """The discriminants; if classes are far apart, relative to the most likely class of each row."""
        if self._is_compact:
            return self.discriminants(X, log_priors, out)
        whitened, order = self._whitened(X, self.centre), order_of(len(self.means))
        scores = multiply_rows(whitened, self.whitened_means.T, order, out)
        scores += self.intercepts
        nearest = scores.argmax(axis=1)
        for k in np.unique(nearest):
            rows = nearest == k
            scores[rows] = self._scores_against(k, X[rows])
        scores += log_priors
        return scores

    def _scores_against(self, k: int, X: Array) -> Array:
        """Ln p(x | j) − ln p(x | k) of rows (n, d) for each class j: (n, K)."""
        whitened, scores = self._from_mean(X, k), np.empty((len(X), len(self.means)))
        tail = 0.0 if self.tails is None else self.tails[k]
        for some in self._some_classes():
            gaps = self.whitening.whiten(self._less(self.means[k], tail, some))
            scores[:, some] = multiply_rows(whitened, np.ascontiguousarray(gaps.T))
            scores[:, some] -= 0.5 * np.vecdot(gaps, gaps)
        return scores

    def _some_classes(self) -> Iterator[slice]:
        """Some classes at a time, whose means stay in the cache."""
        for start in range(0, len(self.means), _CLASSES_AT_ONCE):
            yield slice(start, start + _CLASSES_AT_ONCE)

    def _less(self, point: Array, tail: Array | float = 0.0, classes: slice = slice(None)) -> Array:
        """The means of some classes less a point, to twice the precision of float64: (k, d)."""
        gaps = self.means[classes] - point
        if self.tails is not None:
            gaps += self.tails[classes]
            gaps -= tail
        return gaps

    @cached_property
    def _is_compact(self) -> bool:
        """Whether all classes are so near to `centre` that discriminants keep their digits."""
        return bool((-2 * self.intercepts <= FAR**2).all())

    @property
    def coefficients(self) -> Array:
        """The coefficients of the discriminants of x − centre: (K, d)."""
        return self.slopes.T

    @cached_property
    def slopes(self) -> Array:
        """The coefficients, stored by column: (d, K)."""
        slopes = np.empty(self.means.shape[::-1])
        for some in self._some_classes():
            slopes[:, some] = self.whitening.slopes(self.whitened_means[some]).T
        return slopes

    @cached_property
    def intercepts(self) -> Array:
        """The intercepts of the discriminants of x − centre: (K,)."""
        intercepts: Array = -0.5 * np.vecdot(self.whitened_means, self.whitened_means)
        return intercepts

    @cached_property
    def whitened_means(self) -> Array:
        """The means less `centre`, in whitened coordinates: (K, r)."""
        whitened = np.empty((len(self.means), self.whitening.rank))
        for some in self._some_classes():
            whitened[some] = self.whitening.whiten(self._less(self.centre, classes=some))
        return whitened

    @cached_property
    def _offsets(self) -> Array:
        """The means less `centre`: (K, d)."""
        return self._less(self.centre)

    def marginal(self, observed: Observed) -> SharedGaussians:
        means = self.means[:, observed]
        whitening, tails = self.whitening.marginal(observed, means), of_features(self.tails, observed)
        return SharedGaussians(means, self.centre[observed], whitening, tails=tails)

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        means = posteriors @ self._offsets
        whitened = (X - self.centre[observed] - means[:, observed]) @ marginal.whitening.matrix
        expected: Array = self.centre[~observed] + means[:, ~observed]
        expected += whitened @ _regression_coefficients(self.whitening, marginal.whitening, observed).T
        return expected

    def deviations(self, k: int, n: int, random: np.random.RandomState) -> Array:
        return _deviations(self.whitening, n, random)

    def total_squared_distance(self, scatter: Array) -> float:
        pooled = scatter if scatter.ndim == 2 else scatter.sum(axis=0)
        return float(np.vdot(self.whitening.precision, pooled))

    def covariance(self, k: int) -> Array:
        return self.whitening.covariance

    def precision(self, k: int) -> Array:
        return self.whitening.precision


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
        origin, means = self._frame
        X = less_origin(X, origin)
        if len(X) < len(means):
            return self._squared_distances_by_row(X, means)
        distances = np.empty((len(X), len(means)), order="F")
        for k, (mean, scale) in enumerate(zip(means, self._scales, strict=True)):
            standardised = X - mean
            standardised *= scale
            np.vecdot(standardised, standardised, out=distances[:, k])
        return distances

    @cached_property
    def _frame(self) -> tuple[Array | None, Array]:
        return origin_and_means(self.means, self.tails, self.variances)

    def _squared_distances_by_row(self, X: Array, means: Array) -> Array:
        """`squared_distances` with the same bits, by a loop over rows; faster if classes outnumber rows."""
        distances = np.empty((len(X), len(means)))
        step = max(1, _VALUES_AT_ONCE // max(1, X.shape[1]))
        for start in range(0, len(means), step):
            classes = slice(start, start + step)
            for row, out in zip(X, distances[:, classes], strict=True):
                standardised = np.subtract(row, means[classes], order="C")
                standardised *= self._scales[classes]
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


def _regression_coefficients(whole: Whitening, marginal: Whitening, observed: Observed) -> Array:
    """The coefficients of the missing features on the whitened observed ones: (d − d', r)."""
    coefficients: Array = whole.covariance[np.ix_(~observed, observed)] @ marginal.matrix
    return coefficients


def _deviations(whitening: Whitening, n: int, random: np.random.RandomState) -> Array:
    deviations: Array = random.standard_normal((n, whitening.rank)) @ whitening.colorizer.T
    return deviations
