"""Finalised Gaussians: log densities of rows under each class.

log p(x | k) = −½ (r ln 2π + ln det Σ + (x − μ)ᵀ Σ⁻¹ (x − μ)), from a triangular or spectral factor of Σ,
never from an inverse or a determinant; r is the rank of Σ.

Rank is judged on the correlation scale, so that it does not change when a feature changes its unit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LOG_2PI = float(np.log(2 * np.pi))


class Gaussians(ABC):
    """The densities of the classes."""

    means: Array

    @abstractmethod
    def log_density(self, X: Array) -> Array:
        """The log density of rows (n, d) under each class: (n, K)."""


@dataclass(frozen=True)
class SeparateGaussians(Gaussians):
    """A covariance for each class, as in quadratic discriminant analysis.

    Parameters
    ----------
    means : ndarray of shape (K, d)
    factors : ndarray of shape (K, d, d)
        Lower Cholesky factors of the covariances.
    """

    means: Array
    factors: Array

    @classmethod
    def from_covariances(cls, means: Array, covariances: Array) -> SeparateGaussians:
        """Factor covariances (K, d, d) that `correlation_rank` has found to be of full rank."""
        return cls(means, np.stack([_cholesky(covariance) for covariance in covariances]))

    def log_density(self, X: Array) -> Array:
        log_density = np.empty((len(X), len(self.means)))
        for k, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            whitened = scipy.linalg.solve_triangular(
                factor, (X - mean).T, lower=True, overwrite_b=True, check_finite=False
            )
            squared_distance = np.einsum("ij,ij->j", whitened, whitened)
            log_density[:, k] = squared_distance + 2 * np.log(np.diag(factor)).sum()
        log_density += X.shape[1] * _LOG_2PI
        log_density *= -0.5
        return log_density


@dataclass(frozen=True)
class SharedGaussians(Gaussians):
    """One covariance for all classes, as in linear discriminant analysis.

    Where it is singular, distances are those in its range, as a pseudo-inverse gives them.

    Parameters
    ----------
    means : ndarray of shape (K, d)
    centre : ndarray of shape (d,)
        The mean over the classes; rows are taken from it before they are multiplied.
    whitening : ndarray of shape (d, r)
        W with Wᵀ Σ W = I.
    log_determinant : float
        ln of the product of the positive eigenvalues of Σ.
    """

    means: Array
    centre: Array
    whitening: Array
    log_determinant: float

    @classmethod
    def from_covariance(cls, means: Array, centre: Array, covariance: Array, tol: float) -> SharedGaussians:
        """Whiten a covariance (d, d); correlations with an eigenvalue up to `tol` count as singular."""
        values, vectors, scale = _correlation_spectrum(covariance, means)
        varying, kept = scale > 0, values > tol
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        whitening = np.zeros((len(scale), len(roots)))
        whitening[varying] = vectors / roots / scale[varying][:, None]
        square_root = vectors * roots * scale[varying][:, None]
        log_determinant = 2 * np.log(np.linalg.svd(square_root, compute_uv=False)).sum()
        return cls(means, centre, whitening, float(log_determinant))

    @property
    def rank(self) -> int:
        """The rank of the covariance."""
        return int(self.whitening.shape[1])

    def linear_scores(self, X: Array) -> Array:
        """Ln p(x | k) less what all classes have in common: linear in x; shape (n, K)."""
        coefficients, intercepts = self.linear_terms()
        return (X - self.centre) @ coefficients.T + intercepts

    def linear_terms(self) -> tuple[Array, Array]:
        """Coefficients (K, d) and intercepts (K,) of the scores of x − centre."""
        whitened = (self.means - self.centre) @ self.whitening
        return whitened @ self.whitening.T, -0.5 * np.einsum("kr,kr->k", whitened, whitened)

    def log_density(self, X: Array) -> Array:
        whitened = (X - self.centre) @ self.whitening
        common = np.einsum("ij,ij->i", whitened, whitened) + self.rank * _LOG_2PI + self.log_determinant
        log_density: Array = self.linear_scores(X) - 0.5 * common[:, None]
        return log_density


@dataclass(frozen=True)
class DiagonalGaussians(Gaussians):
    """A variance for each class and feature, as in naive Bayes.

    Parameters
    ----------
    means : ndarray of shape (K, d)
    variances : ndarray of shape (K, d)
    """

    means: Array
    variances: Array

    def log_density(self, X: Array) -> Array:
        log_density = np.empty((len(X), len(self.means)))
        for k, (mean, variance) in enumerate(zip(self.means, self.variances, strict=True)):
            standardised = (X - mean) / np.sqrt(variance)
            squared_distance = np.einsum("ij,ij->i", standardised, standardised)
            log_density[:, k] = squared_distance + np.log(variance).sum()
        log_density += X.shape[1] * _LOG_2PI
        log_density *= -0.5
        return log_density


def correlation_rank(covariance: Array, mean: Array, tol: float) -> int:
    """The rank of a covariance (d, d): how many eigenvalues of its correlation matrix exceed `tol`."""
    values, _, _ = _correlation_spectrum(covariance, mean[None, :])
    return int((values > tol).sum())


def constant_features(variances: Array, mean: Array) -> NDArray[np.bool_]:
    """Which features do not vary: their deviation is below the float64 spacing at their mean."""
    return variances <= (np.finfo(np.float64).eps * mean) ** 2


def _correlation_spectrum(covariance: Array, means: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and eigenvectors of the correlations of the features that vary, and all deviations.

    A feature that varies in no class has deviation 0.
    """
    variances = np.diag(covariance)
    scale = np.sqrt(np.where(constant_features(variances, means).all(axis=0), 0.0, variances))
    varying = np.flatnonzero(scale)
    if not len(varying):
        return np.empty(0), np.empty((0, 0)), scale
    correlation = covariance[np.ix_(varying, varying)] / np.outer(scale[varying], scale[varying])
    values, vectors = scipy.linalg.eigh(correlation, check_finite=False)
    return values, vectors, scale


def _cholesky(covariance: Array) -> Array:
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    return scale[:, None] * scipy.linalg.cholesky(correlation, lower=True, check_finite=False)
