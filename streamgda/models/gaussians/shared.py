"""The normal densities of classes that share a covariance.

They are computed as in `streamgda.models.gaussians.densities`. If classes are far apart, their discriminants
are large numbers, and differences of them lose digits. Scores are then computed relative to the class that is
nearest to each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from streamgda.models.gaussians.base import FAR, LOG_2PI, Gaussians
from streamgda.models.gaussians.posteriors import order_of
from streamgda.models.gaussians.products import (
    Positions,
    Rows,
    deviations_from,
    is_near_zero,
    multiply_rows,
    some_of,
)
from streamgda.models.gaussians.whitening import Array, Observed, Whitening

_MOST_CANCELLED = 8.0  # ratio of the terms of a gap to the gap itself: a loss of three bits
_MANY_SLOPES = 8  # classes per feature; with more, it takes less time to whiten rows than to compute slopes
_CLASSES_AT_ONCE = 1536  # in whole tiles; with fewer, threads that share a product wait for each other


@dataclass(frozen=True, eq=False)
class SharedGaussians(Gaussians):
    """One covariance for all classes, as in linear discriminant analysis.

    `centre`, the overall mean, is subtracted from rows and means before they are multiplied. If the
    covariance is singular, distances are measured in its range, as by a pseudo-inverse. `mean_tails` are as
    in `SeparateGaussians`.
    """

    scores_from_distances: ClassVar[bool] = False

    means: Array
    centre: Array
    whitening: Whitening
    mean_tails: Array | None = field(default=None, kw_only=True)

    @cached_property
    def log_normalisers(self) -> Array:
        normaliser = self.whitening.rank * LOG_2PI + self.whitening.log_pdet
        return np.full(len(self.means), normaliser)

    @property
    def ranks(self) -> NDArray[np.int64]:
        return np.full(len(self.means), self.whitening.rank)

    @property
    def n_free_covariances(self) -> float:
        return 1.0

    @property
    def common(self) -> Whitening:
        return self.whitening

    @cached_property
    def takes_sparse(self) -> bool:
        return self.is_compact and is_near_zero(self.centre, self.slopes)

    def squared_distances(self, X: Rows) -> Array:
        """They are computed from differences, since ‖x‖² − 2 xᵀμ + ‖μ‖² may be negative near a mean."""
        if self.is_compact:
            whitened = self._from_centre(X)
            return np.asfortranarray(cdist(whitened, self.whitened_means, "sqeuclidean"))
        distances = np.empty((X.shape[0], len(self.means)), order="F")
        for k in range(len(self.means)):
            whitened = self._from_means(X, k)
            np.vecdot(whitened, whitened, out=distances[:, k])
        return distances

    def own_squared_distances(self, X: Rows, codes: NDArray[np.intp]) -> Array:
        whitened = self._from_means(X, codes)
        squared: Array = np.vecdot(whitened, whitened)
        return squared

    def _from_centre(self, X: Rows) -> Array:
        """Whitened deviations from `centre`."""
        return self.whitening.whiten(deviations_from(X, self.centre))

    def _from_means(self, X: Rows, classes: Positions) -> Array:
        """Whitened deviations from the mean of the class of each row, or of one class."""
        deviations = deviations_from(X, self.means[classes], some_of(self.mean_tails, classes))
        return self.whitening.whiten(deviations)

    def log_density(self, X: Rows) -> Array:
        """It is computed from products, which for many classes are several times as fast as differences."""
        if not self.is_compact:
            return self.log_density_from(self.squared_distances(X))
        whitened = self._from_centre(X)
        log_density = self.discriminants(X)
        log_density -= 0.5 * np.vecdot(whitened, whitened)[:, None]
        log_density -= 0.5 * self.log_normalisers
        return log_density

    def discriminants(self, X: Rows, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """They are linear in x, since the quadratic term is the same for all classes."""
        n_classes, n_features = self.means.shape
        if n_classes >= _MANY_SLOPES * n_features and isinstance(X, np.ndarray):
            linear = self._linear_scores(self._from_centre(X), out)
        else:
            linear = multiply_rows(X, self.slopes, order_of(n_classes), out, centre=self.centre)
        linear += self.intercepts + log_priors
        return linear

    def common_scores(self, X: Rows) -> Array:
        """xᵀ Σ⁻¹ μ − ½ μᵀ Σ⁻¹ μ less `discriminants`, which is the same for all classes: (n, 1)."""
        pull = self.whitening.precision @ self.centre
        return multiply_rows(X, pull[:, None], centre=self.centre) + 0.5 * (self.centre @ pull)

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """The discriminants; if classes are far apart, relative to the nearest class of each row."""
        if self.is_compact:
            return self.discriminants(X, log_priors, out)
        scores = self._linear_scores(self._from_centre(X), out)
        scores += self.intercepts
        scores = self._scores_against_nearest(X, scores.argmax(axis=1), out)
        scores += log_priors
        return scores

    def _scores_against_nearest(self, X: Array, nearest: NDArray[np.intp], out: Array | None) -> Array:
        """Ln p(x | j) − ln p(x | k) for all classes j, where k is the nearest class of each row: (n, K).

        They are computed from the gaps between whitened means. A gap that has lost digits is computed anew.
        """
        whitened = self._from_means(X, nearest)
        scores = self._linear_scores(whitened, out)
        scores -= np.take_along_axis(scores, nearest[:, None], axis=1)
        for k in np.unique(nearest):
            of_k = nearest == k
            squared_gaps = cdist(self.whitened_means[[k]], self.whitened_means, "sqeuclidean")[0]
            scores[of_k] -= 0.5 * squared_gaps
            close = self._too_close(k, squared_gaps)
            scores[np.ix_(of_k, close)] = self._scores_against(k, whitened[of_k], close)
        return scores

    def _linear_scores(self, whitened: Array, out: Array | None) -> Array:
        """The products of whitened rows and all whitened means: (n, K)."""
        return multiply_rows(whitened, self.whitened_means.T, order_of(len(self.means)), out)

    def _too_close(self, k: int, squared_gaps: Array) -> NDArray[np.intp]:
        """The classes whose gap from class k has lost digits: it is short, and both are far from `centre`."""
        summed = np.maximum(self._squared_terms, self._squared_terms[k])
        return np.flatnonzero((summed > FAR**2) & (squared_gaps * _MOST_CANCELLED**2 < summed))

    @cached_property
    def _squared_terms(self) -> Array:
        """The sum of the squares of the terms of each whitened mean, a measure of its rounding: (K,)."""
        weights = np.vecdot(self.whitening.matrix, self.whitening.matrix)
        return np.concatenate(
            [self._means_less(self.centre, classes=some) ** 2 @ weights for some in self._class_slices()]
        )

    def _scores_against(self, k: int, whitened: Array, classes: Positions) -> Array:
        """Ln p(x | j) − ln p(x | k) for some classes j, from whitened deviations from the mean of class k."""
        low_part = 0.0 if self.mean_tails is None else self.mean_tails[k]
        gaps = self.whitening.whiten(self._means_less(self.means[k], low_part, classes))
        scores = multiply_rows(whitened, np.ascontiguousarray(gaps.T))
        scores -= 0.5 * np.vecdot(gaps, gaps)
        return scores

    def _class_slices(self) -> Iterator[slice]:
        """Yield slices of the classes whose means fit in the cache."""
        for start in range(0, len(self.means), _CLASSES_AT_ONCE):
            yield slice(start, start + _CLASSES_AT_ONCE)

    def _means_less(
        self, point: Array, low_part: Array | float = 0.0, classes: Positions = slice(None)
    ) -> Array:
        """The means of some classes less a point, to twice the precision of float64: (k, d)."""
        gaps = self.means[classes] - point
        if self.mean_tails is not None:
            gaps += self.mean_tails[classes]
            gaps -= low_part
        return gaps

    @cached_property
    def is_compact(self) -> bool:
        """Whether all classes are so near to `centre` that discriminants keep their digits."""
        return bool((-2 * self.intercepts <= FAR**2).all())

    @property
    def linear_terms(self) -> tuple[Array, Array, Array] | None:
        return (self.centre, self.slopes, self.intercepts) if self.is_compact else None

    @cached_property
    def slopes(self) -> Array:
        """The coefficients of the discriminants of x − centre: (d, K)."""
        slopes = np.empty(self.means.shape[::-1])
        for some in self._class_slices():
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
        for some in self._class_slices():
            whitened[some] = self.whitening.whiten(self._means_less(self.centre, classes=some))
        return whitened

    def marginal(self, observed: Observed) -> SharedGaussians:
        means = self.means[:, observed]
        whitening = self.whitening.marginal(observed, means)
        mean_tails = some_of(self.mean_tails, np.s_[:, observed])
        return SharedGaussians(means, self.centre[observed], whitening, mean_tails=mean_tails)

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        means = posteriors @ self._means_less(self.centre)
        whitened = (X - self.centre[observed] - means[:, observed]) @ marginal.whitening.matrix
        expected: Array = self.centre[~observed] + means[:, ~observed]
        expected += whitened @ self.whitening.regression_coefficients(marginal.whitening, observed).T
        return expected

    def deviations(self, k: int, n: int, random: np.random.RandomState) -> Array:
        return self.whitening.deviations(n, random)

    def total_squared_distance(self, scatter: Array) -> float:
        pooled = scatter if scatter.ndim == 2 else scatter.sum(axis=0)
        return float(np.vdot(self.whitening.precision, pooled))

    def covariance(self, k: int) -> Array:
        return self.whitening.covariance

    def precision(self, k: int) -> Array:
        return self.whitening.precision
