"""Rows with categories are reduced to moments.

A block with categories is reduced by counts and sums of each category, without dummies in memory. The mean of
a dummy is its share of the weight, n / W. The scatter of two numbers is that of the centred numbers. That of
a number and a dummy is the sum of the centred number over the rows of the dummy. That of two dummies is N − n
n′ / W, where N is the weight of the rows that have both, and N = n for a dummy and itself.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from streamgda.data.blocks.block import Block
from streamgda.extensions.categories.columns import MixedColumns
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, two_product
from streamgda.statistics.floating.reduction import add_rows
from streamgda.statistics.kernels import Workspace

Coded = tuple[Indices, int]
"""The codes of rows, and how many codes there are."""


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
    of_class = block.codes[order].astype(np.intp), n_classes
    columns = [
        (codes[order].astype(np.intp), len(values))
        for codes, values in zip(features.codes, features.schema.values, strict=True)
    ]
    totals = moments.weights[:, None]
    by_value = [_sums([of_class, column], weights) for column in columns]
    # The weight of a value that all rows have is that of the class, to the last bit.
    by_value = [np.where(n == n.sum(axis=1, keepdims=True), totals, n) for n in by_value]
    counts = np.concatenate(by_value, axis=1)
    shares = counts / totals
    high, low = two_product(shares, totals)
    low_shares = ((counts - high) - low) / totals
    variances = counts * (totals - counts) / totals
    products = moments.scatter
    if kind.has_products:
        group = (np.zeros_like(of_class[0]), 1) if kind.is_pooled else of_class
        scatter = _products(products, rows, group, columns, weights)
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
    products: Array, rows: Array, group: Coded, columns: list[Coded], weights: Array | None
) -> Array:
    """The products of numbers, with Σ w (x − mean) z and Σ w z z′ of each group: (n_groups, d, d)."""
    bounds = len(rows) + np.cumsum([0, *(size for _, size in columns)])
    scatter = np.zeros((group[1], bounds[-1], bounds[-1]))
    scatter[:, : len(rows), : len(rows)] = products
    weighed = rows if weights is None else rows * np.sqrt(weights)
    for j, (codes, size) in enumerate(columns):
        place = slice(bounds[j], bounds[j + 1])
        keys = group[0] * size + codes
        for i, row in enumerate(weighed):
            sums = np.bincount(keys, row, group[1] * size)
            scatter[:, i, place] = scatter[:, place, i] = sums.reshape(-1, size)
        for k in range(j):
            pairs = _sums([group, columns[k], columns[j]], weights)
            other = slice(bounds[k], bounds[k + 1])
            scatter[:, other, place], scatter[:, place, other] = pairs, pairs.transpose(0, 2, 1)
    return scatter


def _sums(columns: list[Coded], weights: Array | None) -> Array:
    """The weight of the rows that have certain codes: an array with an axis for each column."""
    keys, sizes = columns[0][0], [size for _, size in columns]
    for codes, size in columns[1:]:
        keys = keys * size + codes
    return np.bincount(keys, weights, math.prod(sizes)).reshape(sizes).astype(np.float64)
