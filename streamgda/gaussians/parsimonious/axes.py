"""Principal axes of a scatter, with small eigenvalues to as many digits as large ones."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dgejsv

from streamgda.gaussians.whitening import Array, signed

_COLUMN_SCALED = 0  # dgejsv's joba "C": for a well-conditioned matrix times a diagonal one


def principal_axes(scatter: Array) -> tuple[Array, Array]:
    """The eigenvalues of a scatter (d, d) in falling order, (d,), and its eigenvectors as columns (d, d).

    With features of unlike units, eigenvalues differ by many powers of ten. They are computed as the squared
    singular values of the Cholesky factor of the correlations, times the deviations, by the one-sided method
    of Jacobi. So their relative errors depend on the correlations alone.

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
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            correlations = scatter / deviations / deviations[:, None]
        factor = cholesky(correlations, check_finite=True)
    except (np.linalg.LinAlgError, ValueError):  # singular
        return _of_singular(scatter)
    values, _, vectors, work, _, info = dgejsv(factor * deviations, joba=_COLUMN_SCALED, jobu=3, jobv=0)
    if info:
        return _of_singular(scatter)
    return (values * (work[0] / work[1])) ** 2, signed(vectors)


def _of_singular(scatter: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(scatter)
    return np.maximum(values[::-1], 0.0), signed(vectors[:, ::-1])
