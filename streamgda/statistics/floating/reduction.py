"""Rows of blocks are added to moments: the floating kernel.

A block is centred by its own class means and multiplied with itself. This is the two-pass algorithm; no sum
of squares is ever formed. If squares alone are kept, rows are merged one by one. Many rows without weights go
into `AnchoredSums`, which are quicker and lose few digits.

An `Accumulation` adds blocks in place. Otherwise a pass over many classes would spend its time on merging
tables of all of them.
"""

from __future__ import annotations

from ctypes import c_int64

import numpy as np

from streamgda.data.blocks import labels
from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.schema import MadeColumns
from streamgda.data.blocks.sparse import SparseRows
from streamgda.statistics.covariances import Array, Bounds, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, sums_of_weights, two_sum
from streamgda.statistics.floating.sparse import reduce_sparse
from streamgda.statistics.kernels import AnchoredSums, RowsToRead, Workspace, centre, merge_rows, merger
from streamgda.statistics.labelled import Counts, Labelled, joined_squares, squared_weights

# Fewer rows are merged one by one as quickly as they are added to sums about anchors, and keep all digits.
_FEWEST_ABOUT_ANCHORS = 1 << 11
_FEWEST_OF_CLASS_ABOUT_ANCHORS = 4
_VALUES_IN_TURN = 1 << 19  # 4 MB
_BYTES_IN_CACHE = 1 << 24  # of moments; for larger ones, rows are sorted by class, so that each is read once
_FEWEST_TOGETHER = 2  # rows of a class in a block, whose centring pays


def is_anchored(block: Block, kind: CovarianceKind) -> bool:
    """Whether the rows of a block go into sums about anchors, rather than being merged or centred."""
    if kind.has_products or block.weights is not None or len(block.codes) < _FEWEST_ABOUT_ANCHORS:
        return False
    return len(block.codes) >= _FEWEST_OF_CLASS_ABOUT_ANCHORS * len(block.classes)


def add_rows(
    moments: Moments, places: Indices, block: Block, workspace: Workspace
) -> tuple[Array, Array | None, Bounds]:
    """Add the rows of a block to the weights, means and scatter of the classes at these places.

    Parameters
    ----------
    moments : Moments
        They change in place.
    places : ndarray of shape (n_classes,)
        Where the classes of the block are in the moments.
    block : Block
        At least one row.
    workspace : Workspace
        What the rows are gathered into.

    Returns
    -------
    rows, weights, bounds
        The rows √w (x − mean), (d, n), their weights, and where the rows of each class begin and end. If any
        of the classes had rows before, the last row of each is the distance of its means; see `centre`. If
        squares alone are kept, no rows are centred, and all three are empty.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or a square or a weight exceeds float64; the message says where. The
        moments are then not to be used.
    """
    if not moments.kind.has_products:
        rows, codes = block.features, block.codes
        row_weights = None if block.weights is None else np.array(block.weights, dtype=np.float64)
        is_by_column = not isinstance(rows, np.ndarray)
        if is_by_column and moments.nbytes > _BYTES_IN_CACHE and len(codes) * 4 >= len(moments.weights):
            bounds = np.concatenate(([0], np.cumsum(np.bincount(codes))))
            by_class, ranks = workspace.gather(rows, codes, bounds)
            rows, codes = list(by_class), np.sort(codes)
            if row_weights is not None:
                row_weights[ranks] = block.weights
        of_rows = places.astype(np.int32)[codes]
        is_finite = merge_rows(rows, of_rows, row_weights, moments.arrays)
        if not is_finite or not np.isfinite(moments.weights[places]).all():
            block.raise_for_values()
        return np.empty((0, 0)), None, np.empty(0, np.intp)
    counts, before = block.counts, moments.weights[places]
    bounds = np.zeros(len(counts) + 1, np.intp)
    np.cumsum(counts + (counts > 1) if before.any() else counts, out=bounds[1:])
    to_read = RowsToRead(block.features)
    rows, ranks = workspace.gather(to_read, block.codes, bounds, centred=True)
    totals, low_totals, weights = counts.astype(np.float64), np.zeros(len(counts)), None
    if block.weights is not None:
        weights = np.zeros(rows.shape[1])
        weights[ranks] = block.weights
        totals, low_totals = sums_of_weights(weights, bounds)
    together, rest = two_sum(before, totals)
    rest += moments.weight_tails[places] + low_totals
    moments.weights[places], moments.weight_tails[places] = two_sum(together, rest)
    shares = totals / together
    of_classes = places, totals, np.where(before == 0, -1.0, shares), np.sqrt(before * shares)
    weighed = None if weights is None else (weights, np.sqrt(weights))
    means = moments.means, moments.low_means
    is_finite = centre(to_read, ranks, rows, counts, bounds, weighed, of_classes, means)
    moments.kind.add(moments.scatter, places, rows, bounds)
    diagonal = moments.kind.diagonal(moments.scatter)
    diagonal = diagonal if moments.kind.is_pooled else diagonal[places]
    if not is_finite or not np.isfinite(together).all() or not np.isfinite(diagonal).all():
        block.raise_for_values()
    return rows, weights, bounds


def _merge_in_turn(moments: Moments, places: Indices, block: Block) -> None:
    """Merge rows one after the other, which is quicker than centring them where a class has few."""
    ours = moments.weights, moments.weight_tails, moments.means, moments.low_means
    of_rows, weights = places[block.codes], block.row_weights.astype(np.float64)
    step = max(1, _VALUES_IN_TURN // block.n_features)
    zeros = np.zeros((min(step, len(weights)), block.n_features))
    for start in range(0, len(weights), step):
        some = slice(start, start + step)
        rows = block.matrix(start, min(start + step, len(weights)))
        theirs = weights[some], np.zeros(len(rows)), rows, zeros[: len(rows)]
        spread = merger(of_rows[some], ours, theirs)(c_int64(), in_turn=True)
        moments.kind.add_outer(moments.scatter, spread)
    if not np.isfinite(moments.weights[places]).all() or not np.isfinite(moments.diagonal).all():
        block.raise_for_values()


def reduce_block(block: Block, like: Moments, workspace: Workspace) -> Moments:
    """The moments of the rows of a block, as those of other rows: one row of each array for each class.

    Sparse rows are reduced without their zeros, and made columns as they know themselves. Of all others,
    single rows of classes are their means, many rows go into sums about anchors, and the rest are centred.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or its power exceeds float64; the message says where.
    """
    if isinstance(block.features, SparseRows):
        return reduce_sparse(block.features, block, like.kind)
    if isinstance(block.features, MadeColumns) and not like.fourth_moments:
        made: Moments | None = block.features.reduced(block, like.kind, workspace)
        if made is not None:
            return made
    n_classes, codes = len(block.classes), block.codes
    moments = like.zeros(like.kind, n_classes, block.n_features)
    places = np.arange(n_classes)
    if len(codes) == n_classes:  # each row is the mean of its class, and there is no scatter
        moments.weights[codes] = block.row_weights
        moments.means[codes] = block.matrix(0, n_classes)
        if np.isfinite(moments.means).all():
            return moments
    elif is_anchored(block, moments.kind):
        moments.weights[:] = np.bincount(codes)
        sums = AnchoredSums(np.zeros(n_classes), moments.means, moments.low_means, moments.scatter)
        sums.add(block.features, codes.astype(np.int32))
        sums.end()
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            moments.add_powers(*add_rows(moments, places, block, workspace))
    if not moments.are_finite():
        block.raise_for_values(moments.powers)
    return moments


class Accumulation:
    """A state to which blocks are added in place.

    It keeps nothing besides moments. Each class has a place in the arrays, in the order of first appearance.
    """

    def __init__(self, state: Labelled[Moments]) -> None:
        """Begin with a state, whose arrays are taken over."""
        self._classes: Labels = state.classes
        self._places: Indices = np.arange(len(state.classes))
        self._counts: Counts = state.counts
        self._squares = state.squared_weights
        self._moments = state.moments
        self._sums: AnchoredSums | None = None  # of rows whose means and scatter are not in the moments yet

    def add(self, block: Block, workspace: Workspace) -> None:
        """Add the rows of a block, at least one.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a power exceeds float64, or labels are of another kind than those
            before. The accumulation must then not be used.
        """
        places, counts = self._places_of(block.classes), block.counts
        squares = squared_weights(block.codes, block.weights)
        self._squares = joined_squares(self._squares, self._counts, squares, counts, places)
        self._counts[places] += counts
        if len(self._classes) > len(self._moments.weights):
            self._make_room(block.n_features)
        moments = self._moments
        if not is_anchored(block, moments.kind) and (self._sums is None or block.weights is not None):
            self._end_sums()
            are_few = len(block.codes) < _FEWEST_TOGETHER * len(counts)
            with np.errstate(over="ignore", invalid="ignore"):
                if are_few and moments.kind.is_pooled:
                    _merge_in_turn(moments, places, block)
                else:
                    add_rows(moments, places, block, workspace)
            return
        if self._sums is None:
            self._sums = AnchoredSums(moments.weights, moments.means, moments.low_means, moments.scatter)
        weights, rest = two_sum(moments.weights[places], counts.astype(np.float64))
        rest += moments.weight_tails[places]
        moments.weights[places], moments.weight_tails[places] = two_sum(weights, rest)
        if not self._sums.add(block.features, places.astype(np.int32)[block.codes]):
            block.raise_for_values()

    def state(self) -> Labelled[Moments]:
        """The state of all the rows. No block can be added after this call.

        Raises
        ------
        ValueError
            If a sum of squares exceeds float64.
        """
        self._end_sums()
        places, moments = self._places, self._moments
        if not np.array_equal(places, np.arange(len(moments.weights))):  # one array after the other
            moments.weights, moments.weight_tails = moments.weights[places], moments.weight_tails[places]
            moments.means = moments.means[places]
            moments.low_means = moments.low_means[places]
            moments.scatter = moments.kind.take(moments.scatter, places)
        squares = None if self._squares is None else self._squares[places]
        return Labelled(self._classes, self._counts[places], moments, squares)

    def _places_of(self, classes: Labels) -> Indices:
        """Where the classes are in the arrays; new ones get the next places."""
        union = labels.union(self._classes, classes)
        if len(union) > len(self._classes):
            places = np.empty(len(union), dtype=np.intp)
            known = np.searchsorted(union, self._classes)
            places[np.delete(np.arange(len(union)), known)] = np.arange(len(known), len(union))
            places[known] = self._places
            self._classes, self._places = union, places
            unseen = np.zeros(len(union) - len(known), np.int64)
            self._counts = np.concatenate([self._counts, unseen])
            if self._squares is not None:
                self._squares = np.concatenate([self._squares, unseen])
        return self._places[np.searchsorted(self._classes, classes)]

    def _make_room(self, n_features: int) -> None:
        """Make the arrays large enough for all classes. Parts that are not used yet take no memory."""
        self._end_sums()
        moments, n_before = self._moments, len(self._moments.weights)
        self._moments = moments.zeros(moments.kind, max(len(self._classes), 2 * n_before), n_features)
        if n_before:
            self._moments.put(slice(0, n_before), moments)

    def _end_sums(self) -> None:
        """Merge the anchored sums into the moments."""
        if self._sums is not None:
            self._sums.end()
            self._sums = None
            self._moments.check_finite()
