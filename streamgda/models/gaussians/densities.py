"""The normal densities of classes that each have their own covariance or variances.

ln p(x | k) = −½ (r ln 2π + ln det Σ + (x − μ)ᵀ Σ⁻¹ (x − μ)), where r is the rank of Σ. Distances are computed
in whitened coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array

from streamgda.models.gaussians.base import FAR, LOG_2PI, Gaussians
from streamgda.models.gaussians.posteriors import order_of
from streamgda.models.gaussians.products import (
    TILE_ROWS,
    Array,
    Rows,
    deviations_from,
    large_mean_tails,
    multiply_rows,
    some_of,
    squared_lengths,
    stacked,
)
from streamgda.models.gaussians.regularisation import Regularisation
from streamgda.models.gaussians.whitening import Observed, Reason, Singular, TriangularWhitening, Whitening

_VALUES_AT_ONCE = 1 << 15  # float64 values that fit in the second-level cache
_TERMS_AT_ONCE = 1 << 17  # products of features, which stay there mostly
_FEWEST_QUADRATIC = 32  # classes; with fewer, or fewer than three for each feature, distances are as fast
_LARGEST = 1e100  # whitened value; products of smaller ones are far from overflow
_NEAR_FOR_EACH_FAR = 16  # classes; where there are fewer, squared distances take about as little time


@dataclass(frozen=True, eq=False)
class SeparateGaussians(Gaussians):
    """A covariance for each class, as in quadratic discriminant analysis.

    If there are more classes than features, scores are one product with whitened values and their products,
    but for classes whose digits that would lose: their scores come from squared distances.

    `regularisation` says how the covariances are pooled, if they are. All then have the rank of the pooled
    one, of which `common` is the whitening. If that is singular, the densities are those of its range, as by
    a pseudo-inverse. `mean_tails` (K, d) are what rounding to float64 leaves of the means.
    """

    means: Array
    whitenings: list[Whitening]
    regularisation: Regularisation | None = field(default=None, kw_only=True)
    common: Whitening | None = field(default=None, kw_only=True)
    mean_tails: Array | None = field(default=None, kw_only=True)

    def __getstate__(self) -> dict[str, Any]:
        """All but the reasons and the product, which follow from the rest."""
        return {name: value for name, value in self.__dict__.items() if name not in {"singular", "_product"}}

    @cached_property
    def singular(self) -> dict[int, Reason]:
        return {k: w.reason for k, w in enumerate(self.whitenings) if isinstance(w, Singular)}

    @cached_property
    def log_normalisers(self) -> Array:
        return np.array([w.rank * LOG_2PI + w.log_pdet for w in self.whitenings])

    @property
    def ranks(self) -> NDArray[np.int64]:
        return np.array([w.rank for w in self.whitenings])

    @property
    def n_free_covariances(self) -> float:
        return float(len(self.means)) if self.regularisation is None else self.regularisation.n_free

    def squared_distances(self, X: Array) -> Array:
        distances = np.empty((len(X), len(self.means)), order="F")
        lengths = squared_lengths(X, self.means, self._large_mean_tails, self._triangles)
        for some, squared in lengths:
            distances[:, some] = squared
        if self.singular:
            distances[:, list(self.singular)] = np.inf
        return distances

    @property
    def scores_from_distances(self) -> bool:
        return self._product is None

    @cached_property
    def _product(self) -> _QuadraticProduct | None:
        n_classes, d = self.means.shape
        if n_classes < max(_FEWEST_QUADRATIC, 3 * d) or self.singular or (self.ranks < d).any():
            return None
        pooled = np.mean([whitening.covariance for whitening in self.whitenings], axis=0)
        try:
            common = TriangularWhitening.of_regular(pooled, 0.0)
        except np.linalg.LinAlgError:
            return None
        return _QuadraticProduct.of(self, common)

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        product, n_classes = self._product, len(self.means)
        if product is None:
            scores = self.posterior_scores_from(self.squared_distances(X))
            scores += log_priors
            return scores
        scores = np.empty((len(X), n_classes), order=order_of(n_classes)) if out is None else out
        distant = product.write_scores(X, scores)
        scores += log_priors
        log_priors = np.broadcast_to(log_priors, n_classes)
        if len(product.far):
            few = self._of_classes(product.far)
            scores[:, product.far] = few.posterior_scores(X, log_priors[product.far])
        if len(distant):
            scores[distant] = super().posterior_scores(X[distant], log_priors)
        return scores

    def _of_classes(self, some: slice | NDArray[np.intp]) -> SeparateGaussians:
        whitenings = [self.whitenings[k] for k in np.arange(len(self.means))[some]]
        return SeparateGaussians(self.means[some], whitenings, mean_tails=some_of(self.mean_tails, some))

    def own_squared_distances(self, X: Array, codes: NDArray[np.intp]) -> Array:
        distances = np.empty(len(X))
        for k in np.unique(codes).tolist():
            rows = np.flatnonzero(codes == k)
            deviations = deviations_from(X[rows], self.means[k], some_of(self._large_mean_tails, k))
            whitened = self.whitenings[k].whiten(deviations)
            distances[rows] = np.inf if k in self.singular else np.vecdot(whitened, whitened)
        return distances

    @cached_property
    def _large_mean_tails(self) -> Array | None:
        variances = np.array([np.diag(whitening.covariance) for whitening in self.whitenings])
        return large_mean_tails(self.mean_tails, variances)

    @cached_property
    def _triangles(self) -> Sequence[Array] | Array:
        """The lower triangles that whiten, stored by column."""
        return stacked([whitening.triangle for whitening in self.whitenings])

    def posterior_scores_from(self, squared_distances: Array) -> Array:
        """The log density without its term in ln 2π, as in scikit-learn."""
        return -0.5 * (squared_distances + self._log_determinants)

    @cached_property
    def _log_determinants(self) -> Array:
        return np.array([whitening.log_pdet for whitening in self.whitenings])

    def marginal(self, observed: Observed) -> Self:
        means = self.means[:, observed]
        common = self.common and self.common.marginal(observed, means)
        if common is None:
            whitenings = [w.marginal(observed, means[[k]]) for k, w in enumerate(self.whitenings)]
        else:
            corner = np.ix_(observed, observed)
            whitenings = [common.of_same_range(w.covariance[corner]) for w in self.whitenings]
        mean_tails = some_of(self.mean_tails, np.s_[:, observed])
        return replace(self, means=means, whitenings=whitenings, mean_tails=mean_tails, common=common)

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        expected = posteriors @ self.means[:, ~observed]
        mean_tails = marginal._large_mean_tails
        for k, (whole, part) in enumerate(zip(self.whitenings, marginal.whitenings, strict=True)):
            deviations = deviations_from(X, marginal.means[k], some_of(mean_tails, k))
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


@dataclass(frozen=True, eq=False)
class _QuadraticProduct:
    """Scores of rows as one product, for classes of similar covariances that are not far from each other.

    Let z = (x − centre) whitened by the mean of the covariances, ζ that of a mean, and P the precision of a
    class in these coordinates. Then the squared distance is zᵀ P z − 2 zᵀ P ζ + ζᵀ P ζ. Its terms are at most
    2 |P| (|z − ζ|² + |ζ|²) beside the distance, which is at least |z − ζ|² / |P⁻¹|. So few digits are lost if
    |P| |P⁻¹| and |P| |ζ|² are small.

    Attributes
    ----------
    centre, whitening : ndarray of shape (d,), (d, d)
        Of the rows.
    coefficients, intercepts : ndarray of shape (d (d + 1) / 2 + d, K), (K,)
        Of the products of features i ≥ j, and of the features.
    far : ndarray of int
        The classes whose digits would be lost.
    """

    centre: Array
    whitening: Array
    coefficients: Array
    intercepts: Array
    far: NDArray[np.intp]

    @classmethod
    def of(cls, densities: SeparateGaussians, common: Whitening) -> Self | None:
        """The product for these densities; None if many classes are far."""
        means, d = densities.means, densities.means.shape[1]
        inverse = scipy.linalg.solve_triangular(common.matrix, np.eye(d), check_finite=False)
        factors = np.array([whitening.triangle @ inverse.T for whitening in densities.whitenings])
        precisions = factors.transpose(0, 2, 1) @ factors
        covariances = np.array([common.matrix.T @ w.covariance @ common.matrix for w in densities.whitenings])
        sizes = np.linalg.norm(precisions, axis=(1, 2))
        are_alike = sizes * np.linalg.norm(covariances, axis=(1, 2)) <= FAR * d
        for middle in np.mean, np.median:  # a few far classes move the mean, and not the median
            centre = middle(means, axis=0)
            gaps = means - centre
            if densities.mean_tails is not None:
                gaps += densities.mean_tails
            zetas = gaps @ common.matrix
            is_near = are_alike & (sizes * np.vecdot(zetas, zetas) <= FAR**2)
            if is_near.all():
                break
        slopes = np.matvec(precisions, zetas)
        far = np.flatnonzero(~is_near)
        if len(far) * _NEAR_FOR_EACH_FAR > len(means):
            return None
        first, second = np.tril_indices(d)
        quadratic = precisions[:, first, second].T * np.where(first == second, -0.5, -1.0)[:, None]
        intercepts = -0.5 * (np.vecdot(zetas, slopes) + densities._log_determinants)
        coefficients = np.concatenate([quadratic, slopes.T])
        return cls(centre, np.ascontiguousarray(common.matrix), coefficients, intercepts, far)

    def write_scores(self, X: Array, out: Array) -> NDArray[np.intp]:
        """Write the scores of rows (n, d) to `out` (n, K). Returns rows that are too large for that."""
        (n_terms, _), d, distant = self.coefficients.shape, X.shape[1], []
        step = max(1, _TERMS_AT_ONCE // n_terms // TILE_ROWS) * TILE_ROWS
        for start in range(0, len(X), step):
            rows = multiply_rows(X[start : start + step], self.whitening, centre=self.centre)
            distant.append(start + np.flatnonzero(~(np.abs(rows).max(axis=1) <= _LARGEST)))
            terms, at = np.empty((len(rows), n_terms)), 0
            for i in range(d):
                np.multiply(rows[:, : i + 1], rows[:, i : i + 1], out=terms[:, at : at + i + 1])
                at += i + 1
            terms[:, at:] = rows
            out[start : start + step] = multiply_rows(terms, self.coefficients)
            out[start : start + step] += self.intercepts
        return np.concatenate(distant) if distant else np.empty(0, np.intp)


@dataclass(frozen=True, eq=False)
class DiagonalGaussians(Gaussians):
    """A variance for each class and feature, as in naive Bayes.

    Scores are one product of the rows and their squares with a matrix. That would lose digits of classes that
    are far from the others: their scores come from squared distances, as do those of all if many are far.

    `regularisation` and `mean_tails` are as in `SeparateGaussians`.
    """

    means: Array
    variances: Array
    mean_tails: Array | None = field(default=None, kw_only=True)
    regularisation: Regularisation | None = field(default=None, kw_only=True)
    takes_sparse: ClassVar[bool] = True

    @cached_property
    def log_normalisers(self) -> Array:
        normalisers: Array = np.log(self.variances).sum(axis=1) + self.means.shape[1] * LOG_2PI
        return normalisers

    @property
    def ranks(self) -> NDArray[np.int64]:
        return np.full(len(self.means), self.means.shape[1])

    @property
    def n_free_covariances(self) -> float:
        return float(len(self.means)) if self.regularisation is None else self.regularisation.n_free

    def _of_classes(self, some: slice | NDArray[np.intp]) -> Self:
        tails = some_of(self.mean_tails, some)
        return replace(self, means=self.means[some], variances=self.variances[some], mean_tails=tails)

    @property
    def scores_from_distances(self) -> bool:
        return self._product is None

    @cached_property
    def _product(self) -> tuple[Array, Array, Array, NDArray[np.intp], Self | None] | None:
        """A centre (d,), coefficients (2d, K) and intercepts (K,), and the classes too far for their product.

        With z = x − centre and δ = μ − centre, (x − μ)² / σ² = (z² − 2 z δ + δ²) / σ². No term exceeds
        4 (x − μ)² / σ² + 4 δ² / σ², so few digits are lost if δ² / σ² is small. None if many classes are far.
        """
        for middle in np.mean, np.median:  # a few far classes move the mean, and not the median
            centre = middle(self.means, axis=0)
            gaps = self.means - centre
            if self.mean_tails is not None:
                gaps += self.mean_tails
            gaps_in_variances = gaps / self.variances
            squared = np.vecdot(gaps, gaps_in_variances)
            if (squared <= FAR**2).all():
                break
        far = np.flatnonzero(~(squared <= FAR**2))
        if 2 * len(far) >= len(self.means):  # distances of all would take about as little time
            return None
        others = self._of_classes(far) if len(far) else None
        coefficients = np.concatenate([(-0.5 / self.variances).T, gaps_in_variances.T])
        return centre, coefficients, -0.5 * (squared + self.log_normalisers), far, others

    def posterior_scores(self, X: Rows, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        if self._product is None or not isinstance(X, np.ndarray):
            return self.posterior_scores_from(self.squared_distances(X)) + log_priors
        centre, coefficients, intercepts, far, others = self._product
        terms = np.empty((len(X), len(coefficients)))
        squares, deviations = np.split(terms, 2, axis=1)
        np.subtract(X, centre, out=deviations)
        np.square(deviations, out=squares)
        scores = multiply_rows(terms, coefficients, order_of(len(intercepts)), out)
        scores += intercepts + log_priors
        if others is not None:
            priors = np.broadcast_to(log_priors, len(intercepts))
            scores[:, far] = others.posterior_scores(X, priors[far])
        return scores

    def squared_distances(self, X: Rows) -> Array:
        if not isinstance(X, np.ndarray):
            return self._of_sparse(X)
        distances, mean_tails = np.empty((len(X), len(self.means)), order="F"), self.large_mean_tails
        step = max(1, _VALUES_AT_ONCE // max(1, X.size))
        for start in range(0, len(self.means), step):
            some = slice(start, start + step)
            standardised = np.subtract(X[:, None], self.means[some], order="C")
            if mean_tails is not None:
                standardised -= mean_tails[some]
            standardised *= self._scales[some]
            np.vecdot(standardised, standardised, out=distances[:, some])
        return distances

    def _of_sparse(self, X: csr_array) -> Array:
        """The squared distances of sparse rows: those of zero, and what each stored value adds.

        Of features whose means are far from zero, in deviations, that would lose digits: they are dense.
        """
        far, coefficients, of_zero = self._about_zero
        of_squares, of_values = np.split(coefficients, 2)
        squares = csr_array((X.data**2, X.indices, X.indptr), X.shape)
        distances: Array = np.asarray(squares @ of_squares + X @ of_values + of_zero, order="F")
        np.maximum(distances, 0.0, out=distances)
        if far.any():
            distances += self.marginal(far).squared_distances(X[:, np.flatnonzero(far)].toarray())
        return distances

    @cached_property
    def _about_zero(self) -> tuple[Observed, Array, Array]:
        """Features far from zero (d,); of the others, coefficients of x² and x (2d, K), and distances (K,).

        (x − μ)² / σ² = x² / σ² − 2 x μ / σ² + μ² / σ².
        """
        in_variances = self.means / self.variances
        terms = self.means * in_variances
        largest = terms.max(axis=0)
        order = np.argsort(largest)
        far = np.zeros(len(order), np.bool_)
        far[order] = ~(np.cumsum(largest[order]) <= FAR**2)
        coefficients = np.concatenate([1.0 / self.variances, -2.0 * in_variances], axis=1)
        coefficients[:, np.tile(far, 2)] = 0.0
        return far, np.ascontiguousarray(coefficients.T), terms[:, ~far].sum(axis=1)

    def own_squared_distances(self, X: Rows, codes: NDArray[np.intp]) -> Array:
        deviations = deviations_from(X, self.means[codes], some_of(self.large_mean_tails, codes))
        deviations *= self._scales[codes]
        squared: Array = np.vecdot(deviations, deviations)
        return squared

    @cached_property
    def large_mean_tails(self) -> Array | None:
        """The low parts of the means, if they change scores: (K, d)."""
        return large_mean_tails(self.mean_tails, self.variances)

    @cached_property
    def _scales(self) -> Array:
        return 1.0 / np.sqrt(self.variances)

    def marginal(self, observed: Observed) -> Self:
        mean_tails = some_of(self.mean_tails, np.s_[:, observed])
        means, variances = self.means[:, observed], self.variances[:, observed]
        return replace(self, means=means, variances=variances, mean_tails=mean_tails)

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        return posteriors @ self.means[:, ~observed]

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
