"""The directions that separate the classes best: linear discriminants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from streamgda.gaussians.whitening import Array, Spectrum, signed


@dataclass(frozen=True)
class Projection:
    """The directions v at which vᵀ B v / vᵀ Σ v is stationary, the largest value first.

    B is the covariance between the classes, Σ the covariance within them.

    Attributes
    ----------
    scalings : ndarray of shape (d, n_directions)
        One direction per column, with vᵀ Σ v = 1.
    explained_variance_ratio : ndarray of shape (n_directions,)
        The share of each direction in the variance between the classes.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.15 and 4.16.
    """

    scalings: Array
    explained_variance_ratio: Array

    @classmethod
    def of_means(cls, offsets: Array, shares: Array, within: Spectrum, tol: float) -> Self:
        """The directions between the means of classes, as scikit-learn's solver "svd" orders and signs them.

        Its signs follow from those of the left singular vectors, so the signs of the columns of the whitening
        matrix do not matter, but their order does: the largest eigenvalue is first.

        Parameters
        ----------
        offsets : ndarray of shape (K, d)
            The means, less their mean weighted by `shares`.
        shares : ndarray of shape (K,)
            The weight of each class in the covariance between the classes.
        within : Spectrum
            The spectrum of the covariance within the classes.
        tol : float
            Directions in which the means vary by up to `tol` times the most are left out.
        """
        whitening = _whitening_matrix(within, offsets.shape[1])[:, ::-1]
        centres = np.sqrt(shares)[:, None] * offsets
        _, spread, axes = scipy.linalg.svd(centres @ whitening, full_matrices=False)
        kept = spread > tol * spread[0]
        return cls(whitening @ axes[kept].T, _shares_of(spread**2))

    @classmethod
    def of_covariances(cls, between: Array, within: Array, spectrum: Spectrum) -> Self:
        """All directions in the range of the covariance within, as scikit-learn's solver "eigen" has them.

        Parameters
        ----------
        between, within : ndarray of shape (d, d)
            The covariances between and within the classes.
        spectrum : Spectrum
            The spectrum of the latter.
        """
        if spectrum.kept.sum() == len(within):
            values, vectors = scipy.linalg.eigh(between, within)
            return cls(vectors[:, ::-1], _shares_of(values[::-1]))
        whitening = _whitening_matrix(spectrum, len(within))
        whitened = whitening.T @ between @ whitening
        values, vectors = scipy.linalg.eigh((whitened + whitened.T) / 2)
        return cls(signed(whitening @ vectors[:, ::-1]), _shares_of(values[::-1]))


def _whitening_matrix(spectrum: Spectrum, n_features: int) -> Array:
    """The matrix W (d, r) with Wᵀ Σ W = I whose columns are in ascending order of the eigenvalues."""
    kept = spectrum.kept
    matrix = np.zeros((n_features, int(kept.sum())))
    matrix[spectrum.varying] = spectrum.vectors[:, kept] / np.sqrt(spectrum.values[kept])
    matrix[spectrum.varying] /= spectrum.scale[:, None]
    return matrix


def _shares_of(values: Array) -> Array:
    """The share of each value in their sum; zero if all are, as they are where all means are equal."""
    total = values.sum()
    return values / total if total else np.zeros_like(values)
