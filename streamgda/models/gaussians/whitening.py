"""The coordinates in which a covariance is the identity on its range.

The rank is that of the correlation matrix, so it does not depend on the units of the features. A Cholesky
factor of the correlation matrix bounds its smallest eigenvalue. If the bound proves full rank, the
coordinates come from the factor. Otherwise they come from the spectrum, which takes about ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dtrtri

from streamgda.models.gaussians.products import multiply_rows, multiply_rows_by_triangle
from streamgda.statistics.kernels.blas import single_blas_thread

Array = NDArray[np.float64]
Observed = NDArray[np.bool_]
Reason = Callable[[], Exception]
"""Returns the error that says why a class is singular, that is, without a density."""

_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 8 * _EPS  # of an element of a correlation matrix; a hundred merged states reach 2 EPS a feature
_SMALL = 64  # rows; up to here, LAPACK inverts a triangle as fast as products do
_LEAST_PART = 1e-3  # norm of a feature's part in the null space; above, the feature counts as collinear


def constant_features(variances: Array, means: Array) -> NDArray[np.bool_]:
    """A mask (d,) of the features that do not vary: their standard deviation is at most rounding error.

    The rounding error is that of the values in the sums: eps times the largest absolute mean. `means` (K, d)
    holds the means of the classes to which the `variances` (d,) belong.
    """
    largest = np.maximum(means.max(axis=0, initial=0.0), -means.min(axis=0, initial=0.0))
    rounding = _EPS * largest
    constant: NDArray[np.bool_] = np.sqrt(variances) <= rounding
    return constant


def largest_zero(n_features: int, least_eigenvalue: float) -> float:
    """Eigenvalues of a correlation matrix up to this count as zero: the least one given, or rounding."""
    return max(least_eigenvalue, n_features * _ROUNDING)


@dataclass(frozen=True, eq=False)
class Correlations:
    """The correlations of the features that vary, by the spectrum of their matrix.

    Attributes
    ----------
    varying : ndarray of int
        The features that vary.
    scale : ndarray
        Their standard deviations.
    values, vectors : ndarray
        Eigenvalues and, as columns, eigenvectors of their correlation matrix.
    is_positive : ndarray of bool
        Which eigenvalues count as above zero.
    """

    varying: NDArray[np.intp]
    scale: Array
    values: Array
    vectors: Array
    is_positive: NDArray[np.bool_]

    @classmethod
    def of(cls, covariance: Array, means: Array, least_eigenvalue: float) -> Self:
        """The correlations in a covariance (d, d) of rows whose classes have these means (K, d)."""
        variances = np.diag(covariance)
        varying = np.flatnonzero(~constant_features(variances, means))
        scale = np.sqrt(variances[varying])
        correlations = covariance[np.ix_(varying, varying)] / np.outer(scale, scale)
        values, vectors = scipy.linalg.eigh(correlations, check_finite=False)
        is_positive = values > largest_zero(len(values), least_eigenvalue)
        return cls(varying, scale, values, vectors, is_positive)

    def whitening_matrix(self, n_features: int) -> Array:
        """The matrix W (d, r) with Wᵀ Σ W = I whose columns are in ascending order of the eigenvalues."""
        positive, matrix = self.is_positive, np.zeros((n_features, int(self.is_positive.sum())))
        matrix[self.varying] = (
            self.vectors[:, positive] / np.sqrt(self.values[positive]) / self.scale[:, None]
        )
        return matrix

    @property
    def collinear(self) -> NDArray[np.intp]:
        """The features that vary, but belong to a linear combination that does not vary."""
        part = np.linalg.norm(self.vectors[:, ~self.is_positive], axis=1)
        features: NDArray[np.intp] = self.varying[part > _LEAST_PART]
        return features


@dataclass(frozen=True, eq=False)
class Whitening:
    """The coordinates in which a covariance Σ is the identity on its range.

    Attributes
    ----------
    covariance : ndarray of shape (d, d)
        Σ itself.
    least_eigenvalue : float
        The eigenvalue of the correlation matrix up to which a direction counts as singular: the square of the
        estimators' `tol`.
    matrix : ndarray of shape (d, r)
        W with Wᵀ Σ W = I, where r is the rank of Σ.
    log_pdet : float
        The log of the pseudo-determinant of Σ: the product of its positive eigenvalues.
    """

    covariance: Array
    least_eigenvalue: float
    matrix: Array
    log_pdet: float

    @classmethod
    def of(cls, covariance: Array, means: Array, least_eigenvalue: float) -> Whitening:
        """Whiten a covariance (d, d) of rows whose classes have these means (K, d).

        Eigenvalues of the correlation matrix up to `least_eigenvalue` count as zero, and so do the variances
        of `constant_features`.
        """
        if len(covariance) and not constant_features(covariance.diagonal(), means).any():
            with suppress(np.linalg.LinAlgError):  # singular in float64
                regular = TriangularWhitening.of_regular(covariance, least_eigenvalue)
                if regular.is_certain():
                    return regular
        return cls.from_spectrum(covariance, means, least_eigenvalue)

    @classmethod
    def from_spectrum(cls, covariance: Array, means: Array, least_eigenvalue: float) -> Whitening:
        """Whiten a covariance of any rank; the arguments are those of `of`."""
        spectrum = Correlations.of(covariance, means, least_eigenvalue)
        matrix = spectrum.whitening_matrix(len(covariance))
        factor = spectrum.vectors[:, spectrum.is_positive] * np.sqrt(spectrum.values[spectrum.is_positive])
        return Whitening(covariance, least_eigenvalue, matrix, _log_pdet(factor, spectrum.scale))

    def marginal(self, observed: Observed, means: Array) -> Whitening:
        """The whitening of the observed features, whose means are given: (K, d')."""
        covariance = self.covariance[np.ix_(observed, observed)]
        if 0 < len(covariance) and self.rank == len(self.covariance):
            with suppress(np.linalg.LinAlgError):  # singular in float64
                return TriangularWhitening.of_regular(covariance, self.least_eigenvalue)
        return Whitening.of(covariance, means, self.least_eigenvalue)

    def of_same_range(self, covariance: Array) -> Whitening:
        """The whitening of another covariance (d, d) that has the range of this one."""
        if 0 < self.rank == len(covariance):
            with suppress(np.linalg.LinAlgError):  # singular in float64
                return TriangularWhitening.of_regular(covariance, self.least_eigenvalue)
        relative = self.matrix.T @ covariance @ self.matrix
        values, vectors = scipy.linalg.eigh(relative, check_finite=False)
        values = np.maximum(values, len(values) * _EPS * values.max(initial=0.0))
        matrix = self.matrix @ (vectors / np.sqrt(values))
        log_pdet = self.log_pdet + float(np.log(values).sum())
        return Whitening(covariance, self.least_eigenvalue, matrix, log_pdet)

    @property
    def rank(self) -> int:
        """The rank of the covariance."""
        return int(self.matrix.shape[1])

    def whiten(self, X: Array) -> Array:
        """Whitened deviations from a mean, (n, d) to (n, r).

        X may be overwritten.
        """
        if self.rank == len(self.covariance):
            return multiply_rows_by_triangle(X, self.triangle)
        return multiply_rows(X, np.ascontiguousarray(self.matrix))

    def slopes(self, whitened: Array) -> Array:
        """Σ⁻¹ x of rows x, from what `whiten` returned for them: (n, r) to (n, d)."""
        with single_blas_thread():  # whose number would change the last bits
            if self.rank == len(self.covariance):
                return dtrmm(1.0, self.triangle, whitened.T, trans_a=True, lower=True).T
            return whitened @ self.matrix.T

    @cached_property
    def precision(self) -> Array:
        """The inverse of Σ: (d, d); if Σ is singular, a generalised inverse."""
        with single_blas_thread():
            precision: Array = self.matrix @ self.matrix.T
        return precision

    @cached_property
    def colorizer(self) -> Array:
        """C = Σ W, with C Cᵀ = Σ and Cᵀ W = I: (d, r)."""
        return self.covariance @ self.matrix

    def regression_coefficients(self, marginal: Whitening, observed: Observed) -> Array:
        """The coefficients of the missing features on the whitened observed ones: (d − d', r)."""
        return self.covariance[np.ix_(~observed, observed)] @ marginal.matrix

    def deviations(self, n: int, random: np.random.RandomState) -> Array:
        """Random deviations (n, d) from a mean, with covariance Σ."""
        return random.standard_normal((n, self.rank)) @ self.colorizer.T

    @cached_property
    def triangle(self) -> Array:
        """A matrix that whitens as Wᵀ does: (r, d) at rank r, Fortran-contiguous; at full rank, a triangle.

        W = R Q with an orthogonal Q, so W Wᵀ = R Rᵀ. Rᵀ is then lower triangular.
        """
        return np.asfortranarray(scipy.linalg.rq(self.matrix, mode="r", check_finite=False).T)


@dataclass(frozen=True, eq=False)
class TriangularWhitening(Whitening):
    """A whitening whose matrix is upper triangular: the inverse of a Cholesky factor.

    Attributes
    ----------
    lower_bound : float
        A lower bound of the smallest eigenvalue λ of the correlation matrix R = L Lᵀ, but for rounding:
        1 / λ is at most the trace of R⁻¹, which is ‖L⁻¹‖².
    """

    lower_bound: float

    def is_certain(self) -> bool:
        """Whether the spectrum would show full rank too.

        The matrix LLᵀ differs from R by at most about d² eps in norm (Higham 2002, "Accuracy and Stability
        of Numerical Algorithms", theorem 10.3), and so do computed eigenvalues from those of R.
        """
        n_features = len(self.covariance)
        rounding = n_features**2 * _EPS
        return self.lower_bound > 2 * (largest_zero(n_features, self.least_eigenvalue) + rounding)

    @classmethod
    def of_regular(cls, covariance: Array, least_eigenvalue: float) -> Self:
        """Whiten a covariance (d, d) that is known to be regular, without computing its spectrum.

        Each principal submatrix of a regular covariance is regular: none of its eigenvalues lies below the
        smallest of the matrix (Horn & Johnson 2013, "Matrix Analysis", theorem 4.3.28).

        Raises
        ------
        numpy.linalg.LinAlgError
            If it is singular in float64.
        """
        scale = np.sqrt(covariance.diagonal())
        correlations = (covariance / scale / scale[:, None]).T  # stored by column, as LAPACK takes it
        factor, failed = dpotrf(correlations, lower=True, clean=True, overwrite_a=True)
        if failed:
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        inverse = inverse_of_triangle(factor)
        log_pdet = float(2 * np.log(factor.diagonal() * scale).sum())
        lower_bound = 1 / float(np.vdot(inverse.T, inverse.T))
        return cls(covariance, least_eigenvalue, inverse.T / scale[:, None], log_pdet, lower_bound)

    @property
    def triangle(self) -> Array:
        """Wᵀ, which is lower triangular."""
        return self.matrix.T


@dataclass(frozen=True, eq=False)
class Singular(Whitening):
    """Stands for the whitening of a class whose rows do not determine a covariance.

    Every row is infinitely far from such a class.

    Attributes
    ----------
    reason : callable
        Returns the error that says why.
    """

    reason: Reason

    def __getstate__(self) -> dict[str, Any]:
        """The error itself in place of the statistics that tell it."""
        return {**self.__dict__, "reason": with_error_alone(self.reason)}

    @classmethod
    def because(cls, reason: Reason, n_features: int) -> Self:
        """Stand for the whitening of a class of `n_features` features."""
        return cls(np.zeros((n_features, n_features)), 0.0, np.zeros((n_features, 0)), 0.0, reason)

    def marginal(self, observed: Observed, means: Array) -> Singular:
        """The same for the observed features."""
        return Singular.because(self.reason, int(observed.sum()))

    @property
    def triangle(self) -> Array:
        """Zeros: what comes of them is replaced by infinity."""
        return np.zeros((len(self.covariance), len(self.covariance)), order="F")

    @property
    def rank(self) -> int:
        """1, so that an infinite distance has a p-value of 0."""
        return 1

    @property
    def colorizer(self) -> Array:
        """Raise the error: no rows can be drawn from the class."""
        raise self.reason()


def with_error_alone(reason: Reason) -> Reason:
    """The same reason, which holds its error and nothing besides."""
    error = reason()
    return partial(type(error), *error.args)


def _log_pdet(factor: Array, scale: Array) -> float:
    """The log pseudo-determinant of D R Rᵀ D, where R is `factor` (d, r) and D = diag(`scale`)."""
    if factor.shape[0] == factor.shape[1]:  # the scales come in later, so that small ones keep their digits
        _, log_determinant = np.linalg.slogdet(factor)
        return float(2 * (log_determinant + np.log(scale).sum()))
    return float(2 * np.log(np.linalg.svd(factor * scale[:, None], compute_uv=False)).sum())


def inverse_of_triangle(triangle: Array) -> Array:
    """The inverse of a lower triangular matrix (d, d), stored by column.

    Blocks are inverted separately, since LAPACK's own inverse is several times slower than such products.

    References
    ----------
    Du Croz & Higham (1992), "Stability of methods for matrix inversion", IMA Journal of Numerical Analysis
    12: block methods are as stable as those element by element.
    """
    n = len(triangle)
    if n <= _SMALL:
        small: Array = dtrtri(triangle, lower=True)[0]
        return small
    upper, lower = slice(n // 2), slice(n // 2, n)
    inverse = np.zeros_like(triangle, order="F")
    inverse[upper, upper] = first = inverse_of_triangle(triangle[upper, upper])
    inverse[lower, lower] = last = inverse_of_triangle(triangle[lower, lower])
    below = dtrmm(-1.0, last, triangle[lower, upper], lower=True)
    inverse[lower, upper] = dtrmm(1.0, first, below, side=True, lower=True, overwrite_b=True)
    return inverse
