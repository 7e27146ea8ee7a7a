"""Rows with categories are reduced to moments.

A block with categories is reduced by counts and sums of each category, without dummies in memory. The mean of
a dummy is its share of the weight, n / W. The scatter of two numbers is that of the centred numbers. That of
a number and a dummy is the sum of the centred number over the rows of the dummy. That of two dummies is N − n
n′ / W, where N is the weight of the rows that have both, and N = n for a dummy and itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgda.data.blocks.block import Block
from streamgda.extensions.categories.columns import MixedColumns
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.floating.arrays import two_product
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.floating.reduction import add_rows
from streamgda.statistics.kernels import Workspace


def reduce_mixed(block: Block, features: MixedColumns, kind: CovarianceKind, workspace: Workspace) -> Moments:
    """The moments of the rows of a block, one row of each array for each of its classes.

    Parameters
    ----------
    block : Block
        At least one row.
    features : MixedColumns
        The features of the block, of which at least one is a number.
    kind : CovarianceKind
        What is kept of the scatter.
    workspace : Workspace
        Where the centred numbers will be.

    Raises
    ------
    ValueError
        If a number is NaN or infinite, or its square exceeds float64; the message says where.
    """
    numbers = replace(block, features=features.numbers, feature_names=features.schema.numbers)
    counts = np.bincount(block.codes)
    moments = Moments.zeros(kind, len(counts), len(features.numbers))
    with np.errstate(over="ignore", invalid="ignore"):
        rows, _, _ = add_rows(moments, np.arange(len(counts)), numbers, workspace)
    return _with_dummies(moments, block, features, rows)


def _with_dummies(moments: Moments, block: Block, features: MixedColumns, rows: Array) -> Moments:
    """The moments of numbers and dummies, from those of the numbers and their centred rows."""
    kind, n_classes = moments.kind, len(moments.weights)
    order = np.argsort(block.codes, kind="stable")
    weights = None if block.weights is None else block.weights[order]
    codes = [column[order].astype(np.intp) for column in features.codes]
    of_class = block.codes[order].astype(np.intp)
    sizes = list(map(len, features.schema.values))
    totals = moments.weights[:, None]
    by_value = [
        _sums(of_class, n_classes, [column], [n], weights) for column, n in zip(codes, sizes, strict=True)
    ]
    # The weight of a value that all rows have is that of the class, to the last bit.
    by_value = [np.where(n == n.sum(axis=1, keepdims=True), totals, n) for n in by_value]
    counts = np.concatenate(by_value, axis=1)
    shares = counts / totals
    high, low = two_product(shares, totals)
    low_shares = ((counts - high) - low) / totals
    variances = counts * (totals - counts) / totals
    products = moments.scatter
    if kind.has_products:
        group, n_groups = (np.zeros_like(of_class), 1) if kind.is_pooled else (of_class, n_classes)
        scatter = _products(products, group, n_groups, rows, weights, codes, sizes)
        first = len(rows)
        roots = counts / np.sqrt(totals)
        expected = (
            roots.T @ roots if kind.is_pooled else counts[:, :, None] * counts[:, None, :] / totals[..., None]
        )
        scatter[:, first:, first:] -= expected
        dummies = np.arange(first, scatter.shape[1])
        scatter[:, dummies, dummies] = variances.sum(axis=0) if kind.is_pooled else variances
        products = scatter[0] if kind.is_pooled else scatter
    else:
        products = np.concatenate([products, variances], axis=1)
    kind.zero(products, kind.diagonal(products) == 0)  # a constant has no products, where sums have rounding
    means, low_means = (
        np.concatenate(pair, axis=1) for pair in ((moments.means, shares), (moments.low_means, low_shares))
    )
    return Moments(kind, moments.weights, moments.weight_tails, means, low_means, products)


def _products(
    products: Array,
    group: Indices,
    n_groups: int,
    rows: Array,
    weights: Array | None,
    codes: list[Indices],
    sizes: list[int],
) -> Array:
    """The products of numbers, with Σ w (x − mean) z and Σ w z z′ of each group: (n_groups, d, d)."""
    bounds = np.concatenate(([len(rows)], len(rows) + np.cumsum(sizes)))
    scatter = np.zeros((n_groups, bounds[-1], bounds[-1]))
    scatter[:, : len(rows), : len(rows)] = products
    roots = None if weights is None else np.sqrt(weights)
    for j, (column, size) in enumerate(zip(codes, sizes, strict=True)):
        place = slice(bounds[j], bounds[j + 1])
        keys = group * size + column
        for i, row in enumerate(rows):
            sums = np.bincount(keys, row if roots is None else row * roots, n_groups * size)
            scatter[:, i, place] = scatter[:, place, i] = sums.reshape(n_groups, size)
        for k in range(j):
            pairs = _sums(group, n_groups, [codes[k], column], [sizes[k], size], weights)
            pairs = pairs.reshape(n_groups, sizes[k], size)
            other = slice(bounds[k], bounds[k + 1])
            scatter[:, other, place], scatter[:, place, other] = pairs, pairs.transpose(0, 2, 1)
    return scatter


def _sums(
    group: Indices, n_groups: int, codes: list[Indices], sizes: list[int], weights: Array | None
) -> Array:
    """The weight of the rows of each group that have certain codes: (n_groups, the product of the sizes)."""
    keys, n_keys = group, n_groups
    for column, size in zip(codes, sizes, strict=True):
        keys, n_keys = keys * size + column, n_keys * size
    return np.bincount(keys, weights, n_keys).reshape(n_groups, -1).astype(np.float64)
