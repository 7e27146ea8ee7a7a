"""Products of rows with a matrix, with the same bits for any number of rows.

The order in which BLAS adds up the terms of a row depends on the number of rows and on the position of the
row. Here BLAS always gets a multiple of 24 rows, which its kernels divide into whole tiles of 4, 6, 8, 12 or
24 rows. So a row has the same scores alone, in a block of a file and in a partition of a Dask collection.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmm

Array = NDArray[np.float64]

_TILE_ROWS = 24
_MOST_IN_TILES = 40_000  # elements of a matrix; OpenBLAS uses other kernels above 10⁶ products


def multiply_rows(X: Array, matrix: Array, order: Literal["C", "F"] = "C") -> Array:
    """X @ matrix, for rows (n, d) and a C-contiguous matrix (d, r): (n, r) in memory order `order`."""
    rows = _padded(X)
    if matrix.size > _MOST_IN_TILES:
        product = np.empty((len(rows), matrix.shape[1]), order=order)
        return np.matmul(rows, matrix, out=product)[: len(X)]
    tiles = rows.reshape(len(rows) // _TILE_ROWS, _TILE_ROWS, rows.shape[1])
    product = np.matmul(tiles, matrix).reshape(len(rows), matrix.shape[1])
    return np.asarray(product[: len(X)], order=order)


def multiply_rows_by_triangle(X: Array, triangle: Array) -> Array:
    """X @ triangleᵀ for rows (n, d) and a lower triangular, Fortran-contiguous matrix (d, d): (n, d).

    At half the cost of a full matrix. X may be overwritten.
    """
    product: Array = dtrmm(1.0, triangle, _padded(X).T, lower=True, overwrite_b=True).T
    return product[: len(X)]


def _padded(X: Array) -> Array:
    """The rows, C-contiguous, with rows of zeros appended up to a multiple of 24."""
    n_rows, n_features = X.shape
    if n_rows % _TILE_ROWS == 0:
        return np.ascontiguousarray(X)
    padded = np.zeros((-(-n_rows // _TILE_ROWS) * _TILE_ROWS, n_features))
    padded[:n_rows] = X
    return padded
