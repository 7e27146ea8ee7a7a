"""The floating kernel: a block is centred by its own class means and multiplied with itself.

This is the two-pass algorithm; no sum of squares is ever formed.
"""

from __future__ import annotations

import numpy as np

from streamgda.blocks.block import Block
from streamgda.statistics.covariances import SHORT_CLASS, Array, Bounds, CovarianceKind
from streamgda.statistics.floating.fourth_moments import FourthMoments
from streamgda.statistics.floating.moments import Moments, two_sum
from streamgda.statistics.gather import Workspace, gather

_NEGLIGIBLE_TAIL = 1e-9  # of the deviation of a row


def reduce_block(
    block: Block, kind: CovarianceKind, workspace: Workspace, *, fourth: bool = False
) -> Moments:
    """The moments of the rows of a block, one row of each array for each of its classes.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or its power exceeds float64; the message says where.
    """
    moments = _moments(block, kind, workspace, fourth=fourth)
    if not moments.are_finite():
        block.raise_for_values("fourth powers" if fourth else "squares")
    return moments


def _moments(block: Block, kind: CovarianceKind, workspace: Workspace, *, fourth: bool) -> Moments:
    order = np.argsort(block.codes, kind="stable")
    rows = workspace.rows(block.n_features, len(order))
    weights = np.ones(len(order)) if block.weights is None else block.weights[order]
    with np.errstate(over="ignore", invalid="ignore"):
        gather(block.features, order, rows, workspace)
        if len(order) == len(block.classes):
            return _moments_of_single_rows(rows, weights, kind, fourth=fourth)
        counts = np.bincount(block.codes)
        bounds = np.concatenate(([0], np.cumsum(counts)))
        totals, weight_tails = counts.astype(np.float64), np.zeros(len(counts))
        if block.weights is not None:
            totals, weight_tails = _sums_of_weights(weights, bounds)
        means, tails = _centre(rows, weights, totals, bounds, compensate=fourth or block.weights is not None)
        if block.weights is not None:
            rows *= np.sqrt(weights)
        scatter = kind.products(rows, bounds)
        powers = FourthMoments.from_rows(rows, weights, bounds) if fourth else None
    return Moments(kind, totals, weight_tails, means, tails, scatter, powers)


def _moments_of_single_rows(rows: Array, weights: Array, kind: CovarianceKind, *, fourth: bool) -> Moments:
    """The moments where each class has one row: the row is the mean, and there is no scatter."""
    moments = Moments.zeros(kind, len(weights), len(rows), fourth=fourth)
    moments.weights[:] = weights
    moments.means[:] = rows.T
    return moments


def _sums_of_weights(weights: Array, bounds: Bounds) -> tuple[Array, Array]:
    """The weight of each class, and what rounding leaves of it.

    The leading bits of the weights are on so coarse a grid that they add up exactly, and so little is left of
    them that rounding their sum does not matter: Rump, Ogita & Oishi (2008), "Accurate floating-point
    summation, part I".
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
    """Subtract from each class its mean, in place; return the means and their tails.

    The tail, which rounding left of the mean, is subtracted too where it matters: always if asked to
    `compensate` (for fourth moments, and with weights, where a heavy row may hide it), and where it is not
    far below the deviation of a row, as in a constant feature or at a huge offset. With equal weights, what
    is neglected of n rows is below n × 10⁻¹⁸ of the scatter.
    """
    if len(weights) < SHORT_CLASS * len(totals):
        return _centre_short(rows, weights, totals, bounds)
    means = np.empty((len(totals), len(rows)))
    tails = np.empty_like(means)
    for k, total in enumerate(totals):
        of_class = slice(bounds[k], bounds[k + 1])
        centred, weight = rows[:, of_class], weights[of_class]
        means[k] = centred @ weight / total
        centred -= means[k][:, None]
        tails[k] = centred @ weight / total
        if compensate or (np.abs(tails[k]) > _NEGLIGIBLE_TAIL * np.abs(centred[:, 0])).any():
            centred -= tails[k][:, None]
    return means, tails


def _centre_short(rows: Array, weights: Array, totals: Array, bounds: Bounds) -> tuple[Array, Array]:
    """Centre all classes at once: quicker for classes of few rows than a call for each."""
    counts, is_weighted = np.diff(bounds), (weights != 1).any()

    def mean() -> Array:
        weighted = rows * weights if is_weighted else rows
        return np.add.reduceat(weighted, bounds[:-1], axis=1) / totals

    means = mean()
    rows -= np.repeat(means, counts, axis=1)
    tails = mean()
    rows -= np.repeat(tails, counts, axis=1)
    return np.ascontiguousarray(means.T), np.ascontiguousarray(tails.T)
