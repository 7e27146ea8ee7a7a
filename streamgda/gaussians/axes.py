"""Principal axes of a covariance or scatter, with small eigenvalues to as many digits as large ones."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dgejsv

from streamgda.gaussians.whitening import Array, largest_zero, signed

_COLUMN_SCALED = 0  # dgejsv's joba "C": for a well-conditioned matrix times a diagonal one


def principal_axes(scatter: Array) -> tuple[Array, Array]:
    """The eigenvalues of a scatter (d, d) in falling order, (d,), and its eigenvectors as columns (d, d).

    With features of unlike units, eigenvalues differ by many powers of ten. They are computed as the squared
    singular values of a factor of the correlations, times the deviations, by the one-sided method of Jacobi.
    So their relative errors depend on the correlations alone. Axes without variance are
    perpendicular to the others.

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


def _factor(correlations: Array) -> Array:
    """A matrix F (d, d) with Fᵀ F = R. The eigenvalues of R that rounding explains count as zero."""
    rounding = largest_zero(len(correlations), least_eigenvalue=0.0)
    try:
        factor: Array = cholesky(correlations)
        if np.diag(factor).min() ** 2 > rounding:
            return factor
    except np.linalg.LinAlgError:  # singular
        pass
    values, vectors = np.linalg.eigh(correlations)
    spectral: Array = np.sqrt(np.where(values > rounding, values, 0.0))[:, None] * vectors.T
    return spectral
