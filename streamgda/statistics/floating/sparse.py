"""Sparse rows are reduced to moments without their zeros.

A feature by itself loses no digits: zeros are counted, so squares are summed up about the mean. Products of
two features are formed about zero, where most values are, and those of the means are taken out. Their
relative error is eps (1 + m² / σ²). So features whose mean m is far from zero, in deviations σ, are centred
first, as dense rows are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.sparse import SparseRows
from streamgda.statistics.covariances import Array, CovarianceKind
from streamgda.statistics.floating.moments import Moments, sums_of_weights, two_sum

_FAR = 1e3  # m² / σ²; of a column of zeros and ones, if one in a thousand is zero


def reduce_sparse(rows: SparseRows, block: Block, kind: CovarianceKind) -> Moments:
    """The moments of the rows of a block whose features are in CSR; see `reduce_block`."""
    csr = rows.csr.astype(np.float64)
    if not np.isfinite(csr.data).all():
        block.raise_for_values()
    moments = Moments.zeros(kind, len(block.classes), csr.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        moments.weights, moments.weight_tails = _totals(block)
        squares = _set_means(moments, block, csr)
        if kind.has_products:
            _set_products(moments, block, csr, squares)
        else:
            moments.scatter = squares
    if not moments.are_finite():
        block.raise_for_values()
    return moments


def _totals(block: Block) -> tuple[Array, Array]:
    """The weight of each class, and what rounding leaves of it."""
    counts = np.bincount(block.codes)
    if block.weights is None:
        return counts.astype(np.float64), np.zeros(len(counts))
    order = np.argsort(block.codes, kind="stable")
    return sums_of_weights(block.weights[order], np.concatenate(([0], np.cumsum(counts))))


def _set_means(moments: Moments, block: Block, csr: Any) -> Array:
    """Write the means of the classes, and return the squares about them: (K, d)."""
    shape, n_stored = moments.means.shape, np.diff(csr.indptr)
    places = np.repeat(block.codes.astype(np.int64) * shape[1], n_stored) + csr.indices
    weights = None if block.weights is None else np.repeat(block.weights, n_stored)

    def sums(values: Array | None) -> Array:
        return np.bincount(places, values, moments.means.size).reshape(shape).astype(np.float64, copy=False)

    def weighed(values: Array) -> Array:
        return sums(values if weights is None else weights * values)

    totals, counts, stored = moments.weights[:, None], np.bincount(block.codes)[:, None], sums(None)
    is_full, of_zeros = stored == counts, counts - stored
    if block.weights is not None:  # the zeros may weigh less than the rounding of the sums that differ
        leading, rest = (
            np.bincount(block.codes, part)[:, None] - sums(np.repeat(part, n_stored))
            for part in _in_two(block.weights)
        )
        of_zeros = np.where(is_full, 0.0, leading + rest)
    means = weighed(csr.data) / totals
    deviations = csr.data - means.ravel()[places]
    low = (weighed(deviations) - means * of_zeros) / totals
    deviations *= deviations
    squares = np.maximum(weighed(deviations) + of_zeros * means**2 - totals * low**2, 0.0)
    if is_full.any():  # constants are their means, to the last bit
        values = np.zeros(means.size)
        values[places] = csr.data
        varies = np.bincount(places, csr.data != values[places], means.size).reshape(shape)
        is_constant = is_full & (varies == 0)
        means[is_constant], low[is_constant] = values.reshape(shape)[is_constant], 0.0
        squares[is_constant] = 0.0
    moments.means, moments.low_means = two_sum(means, low)
    return squares


def _in_two(weights: Array) -> tuple[Array, Array]:
    """Weights as the bits of each that any sum of them holds exactly, and the rest."""
    _, exponent = np.frexp(weights.max() * len(weights))
    grid = np.ldexp(1.0, exponent) if exponent < 1024 else 0.0
    leading = (weights + grid) - grid
    return leading, weights - leading


def _set_products(moments: Moments, block: Block, csr: Any, squares: Array) -> None:
    """Write the products of features about the means, of which squares are known."""
    kind, roots = moments.kind, np.sqrt(block.row_weights)
    values = csr.data * np.repeat(roots, np.diff(csr.indptr))
    weighed = scipy.sparse.csr_array((values, csr.indices, csr.indptr), csr.shape)
    groups: list[tuple[Any, Any, Any]] = [(..., slice(None), slice(None))]
    if not kind.is_pooled:
        groups = [(k, np.flatnonzero(block.codes == k), [k]) for k in range(len(squares))]
    for place, rows, classes in groups:
        own, diagonal = weighed[rows], squares[classes].sum(axis=0)
        products = (own.T @ own).toarray()
        means = np.sqrt(moments.weights[classes])[:, None] * (moments.means + moments.low_means)[classes]
        far = np.flatnonzero((products.diagonal() > _FAR * diagonal) & (diagonal > 0))
        products -= means.T @ means
        if len(far):
            centred = csr[rows][:, far].toarray() - moments.means[np.ix_(block.codes[rows], far)]
            centred -= moments.low_means[np.ix_(block.codes[rows], far)]
            centred *= roots[rows, None]
            products[:, far] = own.T @ centred
            products[np.ix_(far, far)] = centred.T @ centred
            products[far] = products[:, far].T
        np.fill_diagonal(products, diagonal)
        moments.scatter[place] = products
    kind.zero(moments.scatter, kind.diagonal(moments.scatter) == 0)
