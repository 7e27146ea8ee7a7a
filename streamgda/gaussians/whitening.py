"""The coordinates in which a covariance is the identity on its range.

They come from a spectral factor of the correlations, never from an inverse or a determinant. Rank is judged
on the correlation scale, so that it does not change when a feature changes its unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from streamgda.gaussians.products import multiply_rows, multiply_rows_by_triangle

Array = NDArray[np.float64]
Observed = NDArray[np.bool_]

_NO_PART = 1e-3


def constant_features(variances: Array, means: Array) -> NDArray[np.bool_]:
    """Which features (d,) do not vary: their deviation is no more than rounding.

    Rounding goes by the magnitude of what was summed: the largest of the means (K, d) of the classes that
    have the variances (d,).
    """
    rounding = np.finfo(np.float64).eps * np.abs(means).max(axis=0, initial=0.0)
    constant: NDArray[np.bool_] = np.sqrt(variances) <= rounding
    return constant


@dataclass(frozen=True)
class Spectrum:
    """The eigenvalues of the correlations of the features that vary.

    Attributes
    ----------
    varying : ndarray of int
        The features that vary.
    scale : ndarray
        Their standard deviations.
    values, vectors : ndarray
        Eigenvalues and, as columns, eigenvectors of their correlations.
    kept : ndarray of bool
        Which eigenvalues count as above zero.
    """

    varying: NDArray[np.intp]
    scale: Array
    values: Array
    vectors: Array
    kept: NDArray[np.bool_]

    @classmethod
    def of(cls, covariance: Array, means: Array, tol: float) -> Self:
        """The spectrum of a covariance (d, d) of rows about `means` (K, d)."""
        variances = np.diag(covariance)
        varying = np.flatnonzero(~constant_features(variances, means))
        scale = np.sqrt(variances[varying])
        correlations = covariance[np.ix_(varying, varying)] / np.outer(scale, scale)
        values, vectors = scipy.linalg.eigh(correlations, check_finite=False)
        kept = values > max(tol, len(values) * np.finfo(np.float64).eps)
        return cls(varying, scale, values, vectors, kept)

    @property
    def collinear(self) -> NDArray[np.intp]:
        """The features that vary, but have a part in a combination that does not."""
        part = np.linalg.norm(self.vectors[:, ~self.kept], axis=1)
        features: NDArray[np.intp] = self.varying[part > _NO_PART]
        return features


@dataclass(frozen=True)
class Whitening:
    """The coordinates in which a covariance Σ is the identity on its range.

    Attributes
    ----------
    covariance : ndarray of shape (d, d)
        Σ itself.
    tol : float
        The eigenvalue of the correlation matrix up to which a direction counts as singular.
    matrix : ndarray of shape (d, r)
        W with Wᵀ Σ W = I, where r is the rank of Σ.
    log_determinant : float
        ln of the product of the positive eigenvalues of Σ.
    """

    covariance: Array
    tol: float
    matrix: Array
    log_pdet: float

    @classmethod
    def of(cls, covariance: Array, means: Array, tol: float) -> Self:
        """Whiten a covariance (d, d) of rows about `means` (K, d).

        Eigenvalues of the correlation matrix up to `tol` count as zero, and so does the variance of a
        feature whose deviation is below the spacing of float64 at all the means.
        """
        spectrum = Spectrum.of(covariance, means, tol)
        varying, scale, kept = spectrum.varying, spectrum.scale, spectrum.kept
        roots, vectors = np.sqrt(spectrum.values[kept]), spectrum.vectors[:, kept]
        matrix = np.zeros((len(covariance), len(roots)))
        matrix[varying] = vectors / roots / scale[:, None]
        return cls(covariance, tol, matrix, _log_determinant(vectors * roots, scale))

    def marginal(self, observed: Observed, means: Array) -> Whitening:
        """The whitening of some of the features, which have these means (K, d')."""
        covariance = self.covariance[np.ix_(observed, observed)]
        if 0 < len(covariance) and self.rank == len(self.covariance):
            try:
                return TriangularWhitening.of_regular(covariance, self.tol)
            except np.linalg.LinAlgError:  # singular, as far as float64 can tell
                pass
        return Whitening.of(covariance, means, self.tol)

    @property
    def rank(self) -> int:
        """The rank of the covariance."""
        return int(self.matrix.shape[1])

    def whiten(self, X: Array) -> Array:
        """Deviations from a mean (n, d) in coordinates in which Σ is the identity: (n, r).

        X may be overwritten.
        """
        if self.rank == len(self.covariance):
            return multiply_rows_by_triangle(X, self.triangle)
        return multiply_rows(X, np.ascontiguousarray(self.matrix))

    @cached_property
    def precision(self) -> Array:
        """The inverse of Σ, or one on its range where it is singular: (d, d)."""
        precision: Array = self.matrix @ self.matrix.T
        return precision

    @cached_property
    def colorizer(self) -> Array:
        """Σ W, for which root rootᵀ = Σ, and rootᵀ W = I: (d, r)."""
        colorizer: Array = self.covariance @ self.matrix
        return colorizer

    @cached_property
    def triangle(self) -> Array:
        """A lower triangular matrix that whitens as Wᵀ does, at full rank: (d, d), stored by column.

        From W = R Q with an orthogonal Q follows W Wᵀ = R Rᵀ, and half of Rᵀ is zero.
        """
        return np.asfortranarray(scipy.linalg.rq(self.matrix, mode="r", check_finite=False).T)


@dataclass(frozen=True)
class TriangularWhitening(Whitening):
    """A whitening whose matrix is upper triangular: the inverse of a Cholesky factor."""

    @classmethod
    def of_regular(cls, covariance: Array, tol: float) -> Self:
        """Whiten a covariance (d, d) that is known to be regular, without the spectrum that would say so.

        So is each marginal of a regular covariance: no eigenvalue of a principal submatrix lies below
        those of the matrix (Horn & Johnson 2013, "Matrix Analysis", theorem 4.3.28).

        Raises
        ------
        numpy.linalg.LinAlgError
            If rounding hides that it is regular.
        """
        scale = np.sqrt(np.diag(covariance))
        factor = scipy.linalg.cholesky(covariance / scale / scale[:, None], lower=True, check_finite=False)
        inverse, _ = dtrtri(factor, lower=True)
        log_pdet = float(2 * np.log(np.diag(factor) * scale).sum())
        return cls(covariance, tol, inverse.T / scale[:, None], log_pdet)

    @property
    def triangle(self) -> Array:
        """Wᵀ itself."""
        return self.matrix.T


@dataclass(frozen=True)
class Unestimated(Whitening):
    """In place of the whitening of a class whose rows do not determine a covariance.

    Every row is infinitely far from the class.

    Attributes
    ----------
    error : callable
        Makes the error that says what the class lacks.
    """

    error: Callable[[], Exception]

    @classmethod
    def because(cls, n_features: int, error: Callable[[], Exception]) -> Self:
        """That of a class of so many features."""
        return cls(np.zeros((n_features, n_features)), 0.0, np.zeros((n_features, 0)), 0.0, error)

    def marginal(self, observed: Observed, means: Array) -> Unestimated:
        """The same of some of the features."""
        return Unestimated.because(int(observed.sum()), self.error)

    def whiten(self, X: Array) -> Array:
        """Infinite coordinates: (n, 1)."""
        return np.full((len(X), 1), np.inf)

    @property
    def rank(self) -> int:
        """1, so that an infinite distance has a p-value of 0."""
        return 1

    @property
    def colorizer(self) -> Array:
        """Raise the error: there is nothing to draw rows from."""
        raise self.error()


def _log_determinant(colorizer: Array, scale: Array) -> float:
    """Log of the product of the positive eigenvalues of D R Rᵀ D, where R is `root` and D holds `scale`."""
    if colorizer.shape[0] == colorizer.shape[1]:  # not mixing scales keeps the digits of the small ones
        _, log_pdet = np.linalg.slogdet(colorizer)
        return float(2 * (log_pdet + np.log(scale).sum()))
    return float(2 * np.log(np.linalg.svd(colorizer * scale[:, None], compute_uv=False)).sum())
