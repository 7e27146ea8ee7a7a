"""Deviations of rows from means, and products of rows with a matrix.

A mean has twice the precision of float64: it is the sum of two numbers. Its low part is what float64 leaves
of it. Products have the same bits however many rows there are.

BLAS adds up the terms of one row in an order that depends on how many rows it is given, on where the row
stands among them and, for large products, on the number of threads. Here it is given tiles of the same
height, or at least whole tiles, which its kernels do not cut. So a row has the same scores alone, in a block
of a file and in a partition of a Dask collection. Where the matrix has more than 10,000 elements, BLAS has
one thread, since OpenBLAS would share the product among several, each with its own order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmm
from scipy.sparse import csr_array

from streamgda.statistics.kernels.blas import single_blas_thread

Array = NDArray[np.float64]
Rows: TypeAlias = Array | csr_array
Positions: TypeAlias = int | slice | NDArray[np.intp]

_LEAST_LOW_PART = 1e-12  # standard deviations; a smaller low part changes scores by less than their rounding
TILE_ROWS = 48  # a multiple of 4, 6, 8, 12, 16 and 24, the heights of the kernels of processors
_LOW_TILE, _LOWEST_TILE = 24, 8
_FEW_ROWS = 192  # up to here, lower tiles are faster, since they need less padding
_MOST_IN_LOW_TILES = 10_000  # elements of a matrix; OpenBLAS shares larger products among threads
_LEAST_LARGE = 10**6  # multiplications from which on OpenBLAS never takes its kernels for small matrices
_FAR_PRODUCT = 1e4  # of scores, whose absolute error is then about 1e-12
_MOST_AT_ONCE = 1 << 16  # deviations that fit in the second-level cache
_LARGE_TRIANGLE = 64  # rows; up to here, tiles are as fast as a product that skips the zeros


def large_mean_tails(mean_tails: Array | None, variances: Array) -> Array | None:
    """The low parts (K, d) of means; None if they change no score beside variances (K, d)."""
    if mean_tails is None:
        return None
    # Mostly the largest low part and the least variance prove it, and nothing else has to be compared.
    largest = max(mean_tails.max(initial=0.0), -mean_tails.min(initial=0.0))
    if largest <= _LEAST_LOW_PART * np.sqrt(variances.min(initial=np.inf)):
        return None
    return mean_tails if (np.abs(mean_tails) > _LEAST_LOW_PART * np.sqrt(variances)).any() else None


def some_of(mean_tails: Array | None, places: Any) -> Array | None:
    """The low parts at some places, as in ``mean_tails[places]``; None if they are not known."""
    return None if mean_tails is None else mean_tails[places]


def deviations_from(X: Rows, mean: Array, low_part: Array | None = None) -> Array:
    """Rows less a mean and, if it is given, its low part. Those of sparse rows are dense."""
    deviations: Array = (X if isinstance(X, np.ndarray) else X.toarray()) - mean
    if low_part is not None:
        deviations -= low_part
    return deviations


def is_near_zero(centre: Array, matrix: Array) -> bool:
    """Whether the terms of the product of a centre and a matrix are so small that few digits cancel."""
    return bool((np.abs(centre) @ np.abs(matrix) <= _FAR_PRODUCT).all())


def multiply_rows(
    X: Rows,
    matrix: Array,
    order: Literal["C", "F"] = "C",
    out: Array | None = None,
    *,
    centre: Array | None = None,
) -> Array:
    """(X − centre) @ matrix, for rows (n, d) and a matrix (d, r) stored by row: (n, r), stored in this order.

    The product of whole tiles with a large matrix is written to `out` (n, r), if that is given and stored by
    row. Of sparse rows, only the stored values are multiplied; the digits that this loses are few if
    `is_near_zero`.
    """
    if not isinstance(X, np.ndarray):
        of_values: Array = X @ matrix
        return np.asarray(of_values if centre is None else of_values - centre @ matrix, order=order)
    if centre is not None:
        X = X - centre
    if matrix.size <= _MOST_IN_LOW_TILES:
        product = _multiply_tiles(_padded(X), matrix)
        return np.asarray(product[: len(X)], order=order)
    rows = _padded(X, high=True, least=_LEAST_LARGE // matrix.size + 1)
    if out is None or len(rows) > len(X) or order == "F":
        out = np.empty((len(rows), matrix.shape[1]), order=order)
    with single_blas_thread():
        return np.matmul(rows, matrix, out=out)[: len(X)]


def multiply_rows_by_triangle(X: Array, triangle: Array) -> Array:
    """X @ triangleᵀ, for a lower triangular matrix (d, d) stored by column: (n, d). X may be overwritten."""
    rows = _padded(X, high=X.shape[1] > _LARGE_TRIANGLE)
    if len(triangle) <= _LARGE_TRIANGLE:
        return _multiply_tiles(rows, triangle.T)[: len(X)]
    with single_blas_thread():
        return _multiply_by_triangle(rows, triangle)[: len(X)]


def _multiply_by_triangle(rows: Array, triangle: Array) -> Array:
    """Padded rows (n, d) times a lower triangular matrix (r, d) stored by column: (n, r)."""
    if len(triangle) <= _LARGE_TRIANGLE or len(triangle) < triangle.shape[1]:
        return _multiply_tiles(rows, triangle.T)
    return dtrmm(1.0, triangle, rows.T, lower=True, overwrite_b=True).T


def stacked(triangles: Sequence[Array]) -> Sequence[Array] | Array:
    """Lower triangles (r, d), stored by column, for `squared_lengths`; in one array if that is faster."""
    n_features = len(triangles[0])
    if n_features > _LARGE_TRIANGLE or _LOWEST_TILE * n_features * len(triangles) > _MOST_AT_ONCE:
        return triangles
    return np.stack([triangle.T for triangle in triangles]).transpose(0, 2, 1)


def squared_lengths(
    X: Array, means: Array, mean_tails: Array | None, triangles: Sequence[Array] | Array
) -> Iterator[tuple[slice, Array]]:
    """|T_k (x − m_k)|² of rows (n, d) for K means with mean_tails (K, d) and triangles (r, d), see `stacked`.

    Yields some of the k, and their squared lengths: (n, number of these k).
    """
    rows = _padded(X, high=X.shape[1] > _LARGE_TRIANGLE)
    if isinstance(triangles, np.ndarray) and len(rows) * means.size <= _MOST_AT_ONCE:  # one call for all
        deviations = rows - means[:, None]
        if mean_tails is not None:
            deviations -= mean_tails[:, None]
        products = _multiply_tiles(deviations, triangles.transpose(0, 2, 1))
        yield slice(None), np.vecdot(products, products).T[: len(X)]
        return
    with single_blas_thread():  # once for all, rather than for each
        for k, (mean, triangle) in enumerate(zip(means, triangles, strict=True)):
            product = _multiply_by_triangle(deviations_from(rows, mean, some_of(mean_tails, k)), triangle)
            yield slice(k, k + 1), np.vecdot(product, product)[: len(X), None]


def _multiply_tiles(rows: Array, matrix: Array) -> Array:
    """Padded rows (..., n, d) times matrices (..., d, r), tile by tile: (..., n, r)."""
    *outer, n_rows, n_features = rows.shape
    if n_rows != _LOWEST_TILE:
        height = _LOWEST_TILE if n_rows % _LOW_TILE else _LOW_TILE
        rows = rows.reshape(*outer, n_rows // height, height, n_features)
        matrix = matrix[..., None, :, :]
    if n_features * matrix.shape[-1] <= _MOST_IN_LOW_TILES:
        product: Array = np.matmul(rows, matrix)
    else:
        with single_blas_thread():
            product = np.matmul(rows, matrix)
    return product if n_rows == _LOWEST_TILE else product.reshape(*outer, n_rows, matrix.shape[-1])


def _padded(X: Array, *, high: bool = False, least: int = 0) -> Array:
    """Rows stored by row, with rows of zeros added to whole tiles, `high` or low, and to `least` rows."""
    height = TILE_ROWS if high else _LOWEST_TILE if len(X) <= _FEW_ROWS else _LOW_TILE
    n_rows = -(-max(len(X), least) // height) * height
    if n_rows == len(X):
        return np.ascontiguousarray(X)
    padded = np.empty((n_rows, X.shape[1]))
    padded[: len(X)] = X
    padded[len(X) :] = 0.0
    return padded
