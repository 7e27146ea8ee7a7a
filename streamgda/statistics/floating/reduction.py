"""The floating kernel: a block is centred by its own class means and multiplied with itself.

This is the two-pass algorithm; no sum of squares is ever formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.block import Block
from streamgda.blocks.labels import Codes
from streamgda.statistics.covariances import (
    SHORT_CLASS,
    SHORT_ELEMENTS,
    Array,
    Bounds,
    CovarianceKind,
    Indices,
    tiles,
)
from streamgda.statistics.floating.fourth_moments import FourthMoments
from streamgda.statistics.floating.moments import Moments, two_sum
from streamgda.statistics.gather import Workspace, gather

_NEGLIGIBLE_LOW = 1e-9  # of the deviation of a row


@dataclass(frozen=True)
class CentredBlock:
    """The rows of a block, gathered class by class, less the means of their classes.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Which class of the block comes first, second, and so on: all other arrays have this order.
    counts : ndarray of shape (K,)
        The rows of each class.
    totals, low_totals : ndarray of shape (K,)
        The weight of each class, to twice the precision of float64.
    means, low_means : ndarray of shape (K, d)
        The mean of each class, to twice the precision of float64.
    rows : ndarray of shape (d, n)
        √w (x − mean), in the workspace. The rows of classes of one row may be left out. These classes then
        come last.
    weights : ndarray of shape (n,)
        The weights of these rows.
    bounds : ndarray
        Class k holds rows[:, bounds[k]:bounds[k + 1]].
    """

    classes: Indices
    counts: NDArray[np.intp]
    totals: Array
    low_totals: Array
    means: Array
    low_means: Array
    rows: Array
    weights: Array
    bounds: Bounds


def centre_block(
    block: Block, workspace: Workspace, *, compensate: bool = False, single_apart: bool = False
) -> CentredBlock:
    """Gather the rows of a block by class, and subtract from each class its mean.

    Parameters
    ----------
    block : Block
        At least one row.
    workspace : Workspace
        Where the centred rows will be, until the next block.
    compensate : bool, default=False
        Whether the low parts of the means are always subtracted too, as fourth moments need it.
    single_apart : bool, default=False
        Whether classes of one row come last, and their rows, which are their means, are left out.
    """
    counts = np.bincount(block.codes)
    codes, classes, n_single = block.codes, np.arange(len(counts)), 0
    if single_apart and (is_single := counts == 1).any():
        classes, n_single = np.argsort(is_single, kind="stable"), int(is_single.sum())
        codes, counts = _renumbered(codes, classes), counts[classes]
    order = np.argsort(codes, kind="stable")
    rows = workspace.rows(block.n_features, len(order))
    gather(block.features, order, rows, workspace)
    weights = np.ones(len(order)) if block.weights is None else block.weights[order]
    bounds = np.concatenate(([0], np.cumsum(counts)))
    totals, low_totals = counts.astype(np.float64), np.zeros(len(counts))
    if block.weights is not None:
        totals, low_totals = _sums_of_weights(weights, bounds)
    n_several = len(counts) - n_single
    end = bounds[n_several]
    several = (rows[:, :end], weights[:end], totals[:n_several], bounds[: n_several + 1])
    means, low_means = _centre(*several, compensate=compensate or block.weights is not None)
    if n_single:
        means = np.concatenate([means, rows[:, end:].T])
        low_means = np.concatenate([low_means, np.zeros((n_single, len(rows)))])
    rows, weights = rows[:, :end], weights[:end]
    if block.weights is not None:
        rows *= np.sqrt(weights)
    return CentredBlock(
        classes, counts, totals, low_totals, means, low_means, rows, weights, bounds[: n_several + 1]
    )


def _renumbered(codes: Codes, classes: Indices) -> Codes:
    """The codes of the same rows for another order of the classes."""
    places = np.empty(len(classes), codes.dtype)
    places[classes] = np.arange(len(classes))
    return places[codes]


def reduce_block(
    block: Block, kind: CovarianceKind, workspace: Workspace, *, fourth: bool = False
) -> Moments:
    """The moments of the rows of a block, one row of each array for each of its classes.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or its power exceeds float64; the message says where.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if len(block.codes) == len(block.classes):
            moments = _of_single_rows(block, kind, fourth=fourth)
        else:
            centred = centre_block(block, workspace, compensate=fourth)
            rows, bounds = centred.rows, centred.bounds
            moments = Moments(
                kind,
                centred.totals,
                centred.low_totals,
                centred.means,
                centred.low_means,
                kind.products(rows, bounds),
                FourthMoments.from_rows(rows, centred.weights, bounds) if fourth else None,
            )
    if not moments.are_finite():
        block.raise_for_values("fourth powers" if fourth else "squares")
    return moments


def _of_single_rows(block: Block, kind: CovarianceKind, *, fourth: bool) -> Moments:
    """The moments if each class has one row: the row is the mean, and there is no scatter."""
    order = np.argsort(block.codes, kind="stable")
    moments = Moments.zeros(kind, len(order), block.n_features, fourth=fourth)
    moments.weights[:] = 1.0 if block.weights is None else block.weights[order]
    moments.means[:] = block.matrix(0, len(order))[order]
    return moments


def _sums_of_weights(weights: Array, bounds: Bounds) -> tuple[Array, Array]:
    """The weight of each class, and what rounding leaves of it.

    The leading bits of the weights lie on a coarse grid, so they add up exactly. The rest of the weights is
    so small that the rounding of its sum does not matter: Rump, Ogita & Oishi (2008), "Accurate
    floating-point summation, part I".
    """
    starts, counts = bounds[:-1], np.diff(bounds)
    _, exponents = np.frexp(np.maximum.reduceat(weights, starts) * 2.0**-60 * counts)
    grid = np.where(exponents < 962, np.ldexp(1.0, exponents + 61), 0.0)
    leading = weights + np.repeat(grid, counts)
    leading -= np.repeat(grid, counts)
    return two_sum(np.add.reduceat(leading, starts), np.add.reduceat(weights - leading, starts))


def _centre(
    rows: Array, weights: Array, totals: Array, bounds: Bounds, *, compensate: bool
) -> tuple[Array, Array]:
    """Subtract from each class its mean, in place; return the means and their low parts.

    The low part of a mean is what rounding left of it. It is always subtracted if `compensate` is true: for
    fourth moments, and with weights, where a heavy row may hide its size. Otherwise it is subtracted only if
    it is not far below the deviation of a row, as in a constant feature or at a huge offset. An omission then
    changes the scatter of n rows by less than n × 10⁻¹⁸ of it.
    """
    if not len(totals):
        return np.empty((0, len(rows))), np.empty((0, len(rows)))
    if rows.size < max(SHORT_CLASS * len(rows), SHORT_ELEMENTS) * len(totals):
        return _centre_short(rows, weights, totals, bounds)
    means = np.empty((len(totals), len(rows)))
    low_means = np.empty_like(means)
    for k, total in enumerate(totals):
        of_class = slice(bounds[k], bounds[k + 1])
        centred, weight = rows[:, of_class], weights[of_class]
        means[k] = centred @ weight / total
        centred -= means[k][:, None]
        low_means[k] = centred @ weight / total
        if compensate or (np.abs(low_means[k]) > _NEGLIGIBLE_LOW * np.abs(centred[:, 0])).any():
            centred -= low_means[k][:, None]
    return means, low_means


def _centre_short(rows: Array, weights: Array, totals: Array, bounds: Bounds) -> tuple[Array, Array]:
    """Centre all classes at once, tile by tile: quicker for few rows than a call for each class.

    The first row of each class is subtracted from its rows, and then the mean of what is left. So a constant
    is centred without rounding, and no digit is lost however large the means are.
    """
    is_weighted = bool((weights != 1).any())
    means = np.empty((len(totals), len(rows)))
    low_means = np.empty_like(means)
    for features, classes in tiles(len(rows), bounds):
        start = bounds[classes.start]
        tile = rows[features, start : bounds[classes.stop]]
        starts, counts = bounds[classes] - start, np.diff(bounds[classes.start : classes.stop + 1])
        of_rows = weights[start : bounds[classes.stop]] if is_weighted else None
        first = tile[:, starts]
        tile -= np.repeat(first, counts, axis=1)
        shift = _mean_of_each(tile, of_rows, starts, totals[classes])
        tile -= np.repeat(shift, counts, axis=1)
        mean, low_mean = two_sum(first, shift)
        rest = _mean_of_each(tile, of_rows, starts, totals[classes])  # what rounding left of the shift
        mean, low_mean = two_sum(mean, low_mean + rest)
        means[classes, features], low_means[classes, features] = mean.T, low_mean.T
    return means, low_means


def _mean_of_each(tile: Array, weights: Array | None, starts: NDArray[np.intp], totals: Array) -> Array:
    """The mean of each class in a tile."""
    weighted = tile if weights is None else tile * weights
    means: Array = np.add.reduceat(weighted, starts, axis=1) / totals
    return means
