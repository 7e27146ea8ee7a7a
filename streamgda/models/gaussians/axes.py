"""Directions: the principal axes of a covariance, and those that separate classes best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dgejsv

from streamgda.models.gaussians.whitening import Array, Correlations, largest_zero

_COLUMN_SCALED = 0  # dgejsv's joba "C": for a well-conditioned matrix times a diagonal one


def principal_axes(scatter: Array) -> tuple[Array, Array]:
    """The eigenvalues of a scatter (d, d) in falling order, (d,), and its eigenvectors as columns (d, d).

    With features of unlike units, eigenvalues differ by many powers of ten. They are computed as the squared
    singular values of a factor of the correlations, times the deviations, by the one-sided method of Jacobi.
    So their relative errors depend on the correlations alone. Axes without variance are perpendicular
    to the others.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the method does not converge.

    References
    ----------
    Demmel & Veselić (1992), "Jacobi's method is more accurate than QR", SIAM Journal on Matrix Analysis and
    Applications 13, section 4.

    Examples
    --------
    >>> values, vectors = principal_axes(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values
    array([3., 1.])
    >>> vectors.round(3)
    array([[ 0.707, -0.707],
           [ 0.707,  0.707]])
    """
    deviations = np.sqrt(np.diag(scatter))
    deviations[deviations == 0] = 1.0
    factor = _factor(scatter / deviations / deviations[:, None])
    values, _, vectors, work, _, info = dgejsv(factor * deviations, joba=_COLUMN_SCALED, jobu=3, jobv=0)
    if info:
        raise np.linalg.LinAlgError(f"the singular values of a factor did not converge (dgejsv: {info})")
    return (values * (work[0] / work[1])) ** 2, signed(vectors)


def signed(axes: Array) -> Array:
    """Axes, as columns, whose largest elements are positive, so that rounding flips no sign."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None, :], axis=0)
    return axes * np.where(largest < 0, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
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
    def of_means(cls, offsets: Array, shares: Array, within: Correlations, tol: float) -> Self:
        """The directions between the means of classes, as scikit-learn's solver "svd" orders and signs them.

        The signs follow from those of the left singular vectors. So the signs of the columns of the whitening
        matrix do not matter, but their order does: the largest eigenvalue is first.

        Parameters
        ----------
        offsets : ndarray of shape (K, d)
            The means, less their mean weighted by `shares`.
        shares : ndarray of shape (K,)
            The weight of each class in the covariance between the classes.
        within : Correlations
            The spectrum of the covariance within the classes.
        tol : float
            Directions in which the means vary by up to `tol` times the most are left out.
        """
        whitening = within.whitening_matrix(offsets.shape[1])[:, ::-1]
        centres = np.sqrt(shares)[:, None] * offsets
        _, spread, axes = scipy.linalg.svd(centres @ whitening, full_matrices=False)
        directions = spread > tol * spread[0]
        return cls(whitening @ axes[directions].T, _shares_of(spread**2))

    @classmethod
    def of_covariances(cls, between: Array, within: Array, spectrum: Correlations) -> Self:
        """All directions in the range of the covariance within, as scikit-learn's solver "eigen" has them.

        Parameters
        ----------
        between, within : ndarray of shape (d, d)
            The covariances between and within the classes.
        spectrum : Correlations
            The spectrum of the latter.
        """
        if spectrum.is_positive.sum() == len(within):
            values, vectors = scipy.linalg.eigh(between, within)
            return cls(vectors[:, ::-1], _shares_of(values[::-1]))
        whitening = spectrum.whitening_matrix(len(within))
        whitened = whitening.T @ between @ whitening
        values, vectors = scipy.linalg.eigh((whitened + whitened.T) / 2)
        return cls(signed(whitening @ vectors[:, ::-1]), _shares_of(values[::-1]))


def _shares_of(values: Array) -> Array:
    """The share of each value in their sum; zeros if all values are zero, as with equal means."""
    total = values.sum()
    return values / total if total else np.zeros_like(values)


def _factor(correlations: Array) -> Array:
    """A matrix F (d, d) with Fᵀ F = R. The eigenvalues of R that rounding explains count as zero."""
    rounding = largest_zero(len(correlations), least_eigenvalue=0.0)
    try:
        factor: Array = scipy.linalg.cholesky(correlations)
        if np.diag(factor).min() ** 2 > rounding:
            return factor
    except np.linalg.LinAlgError:  # singular
        pass
    values, vectors = np.linalg.eigh(correlations)
    spectral: Array = np.sqrt(np.where(values > rounding, values, 0.0))[:, None] * vectors.T
    return spectral
