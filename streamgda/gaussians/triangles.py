"""Triangular factors of positive definite matrices, and their inverses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dtrtri

Array = NDArray[np.float64]

_SMALL = 64  # rows, up to which LAPACK inverts a triangle as fast as products do


def cholesky_factor(matrix: Array) -> Array:
    """L with L Lᵀ = `matrix` (d, d), which is stored by column and may be overwritten: lower triangular.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is not positive definite in float64.
    """
    factor: Array
    factor, failed = dpotrf(matrix, lower=True, clean=True, overwrite_a=True)
    if failed:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return factor


def inverse_of_triangle(triangle: Array) -> Array:
    """The inverse of a lower triangular matrix (d, d), stored by column.

    Blocks are inverted apart, since LAPACK's own inverse is several times slower than such products.

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
