"""Accumulation of blocks into moments in place, without a state for each block.

Otherwise a pass over many classes would spend its time on merging tables of all of them. Blocks of many short
classes go into `AnchoredSums`, as long as these keep their digits. For other blocks, the products of centred
rows are added to the scatter in place, and only the classes of the block change. The mean of a class is then
held as the sum of an anchor and a distance. The anchor is the mean of its rows in the block where it first
appeared. The distance is small if deviations are small, so the sum is as accurate as a mean to twice the
precision.
"""

from __future__ import annotations

import numpy as np

from streamgda.blocks import labels
from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels, first_positions
from streamgda.statistics.covariances import SHORT_CLASS, SHORT_ELEMENTS, Array, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, as_slice, two_sum
from streamgda.statistics.floating.reduction import CentredBlock, centre_block
from streamgda.statistics.gather import Workspace, columns_of, transpose_rows
from streamgda.statistics.labelled import Counts, Labelled

_ELEMENTS_IN_CACHE = 1 << 15  # float64 values that fit in the second-level cache
_EPS = 2.0**-52

# Sums about anchors.
MOST_ROWS_PER_ANCHOR = 31  # for each row of the mean that is the anchor
_MOST_ROWS = 1 << 10  # of a class: sums of more rows lose digits
FEWEST_ROWS = 1 << 10  # of a block; with fewer, anchored sums are never quicker
_MOST_PLACES = 4  # classes for each row of a block, since the sums of all classes pass through the cache


class Accumulation:
    """A state to which blocks are added in place.

    It has no fourth moments. Each class has a place in the arrays, in the order of first appearance.
    """

    def __init__(self, state: Labelled[Moments]) -> None:
        """Begin with a state, whose arrays are taken over."""
        self._classes: Labels = state.classes
        self._places: Indices = np.arange(len(state.classes))
        self._counts: Counts = state.counts
        self._moments = state.moments
        self._sums: AnchoredSums | None = None  # of rows that are not in the moments yet

    def add(self, block: Block, workspace: Workspace) -> None:
        """Add the rows of a block, at least one.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, a power exceeds float64, or labels are of another kind than those
            before. After a NaN in a block for which `is_anchored` is false, the state is as it was. After any
            other error, it must not be used.
        """
        before = self._classes, self._places, self._counts.copy()
        try:
            self._add(block, workspace)
        except ValueError:
            self._classes, self._places, self._counts = before
            raise

    def is_anchored(self, block: Block) -> bool:
        """Whether a block may go into sums about anchors."""
        if not can_be_anchored(self._moments.kind, block):
            return False
        n_classes = len(labels.union(self._classes, block.classes))
        return self._sums is not None or is_quicker_anchored(self._moments.kind, block, n_classes)

    def _add(self, block: Block, workspace: Workspace) -> None:
        places, counts = self._places_of(block.classes), np.bincount(block.codes)
        self._counts[places] += counts
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self._sums_for(block, places, counts)
            if sums is not None:
                sums.add_rows(block, places, counts, workspace)
            else:
                self._add_centred(block, places, workspace)

    def state(self) -> Labelled[Moments]:
        """The state of all the rows. No block can be added after this call."""
        self._end_sums()
        self._sort()
        self._round_means()
        return Labelled(self._classes, self._counts, self._moments)

    def _sort(self) -> None:
        """Put the classes in the order of their labels, one array after the other."""
        kept, moments = self._places, self._moments
        self._counts = self._counts[kept]
        if np.array_equal(kept, np.arange(len(moments.weights))):
            return
        moments.weights, moments.low_weights = moments.weights[kept], moments.low_weights[kept]
        moments.means = moments.means[kept]
        moments.low_means = moments.low_means[kept]
        moments.scatter = moments.kind.take(moments.scatter, kept)

    def _round_means(self) -> None:
        """Round each mean to float64, and let its low part be what rounding left."""
        moments, step = self._moments, max(1, _ELEMENTS_IN_CACHE // max(1, self._moments.n_features))
        for start in range(0, len(moments.weights), step):
            few = slice(start, start + step)
            moments.means[few], moments.low_means[few] = two_sum(moments.means[few], moments.low_means[few])

    # ------------------------------------------------------------------ classes

    def _places_of(self, classes: Labels) -> Indices:
        """Where the classes are in the arrays; new ones get the next places."""
        union = labels.union(self._classes, classes)
        if len(union) > len(self._classes):
            places = np.empty(len(union), dtype=np.intp)
            known = np.searchsorted(union, self._classes)
            places[np.delete(np.arange(len(union)), known)] = np.arange(len(known), len(union))
            places[known] = self._places
            self._classes, self._places = union, places
            counts = np.zeros(len(union), dtype=np.int64)
            counts[: len(self._counts)] = self._counts
            self._counts = counts
        found: Indices = self._places[np.searchsorted(self._classes, classes)]
        return found

    def _make_room(self, n_features: int) -> None:
        """Make the arrays large enough for all classes. Parts that are not used yet take no memory."""
        moments, n_before = self._moments, len(self._moments.weights)
        if len(self._classes) > n_before:
            self._moments = moments.zeros_like(max(len(self._classes), 2 * n_before), n_features)
            if n_before:
                self._moments.put(slice(0, n_before), moments)

    # ------------------------------------------------------------------ sums about anchors

    def _sums_for(self, block: Block, places: Indices, counts: Counts) -> AnchoredSums | None:
        """The anchored sums for a block, new ones if need be; None if its rows are to be centred instead."""
        if can_be_anchored(self._moments.kind, block):
            if self._sums is not None and self._sums.keep_digits(places, counts):
                return self._sums
            self._end_sums()
            if is_quicker_anchored(self._moments.kind, block, len(self._classes)):
                self._round_means()
                self._sums = AnchoredSums(self._moments, block.n_features)
                if self._sums.keep_digits(places, counts):
                    return self._sums
                self._sums = None
        self._end_sums()
        return None

    def _end_sums(self) -> None:
        """Merge the anchored sums into the moments."""
        if self._sums is None:
            return
        places, part = self._sums.moments()
        self._sums = None
        if len(self._moments.weights):
            self._make_room(part.n_features)
            self._moments.merge(part, places)
        else:
            self._moments = part

    # ------------------------------------------------------------------ centred rows

    def _add_centred(self, block: Block, places: Indices, workspace: Workspace) -> None:
        centred = centre_block(block, workspace, single_apart=True)
        if not np.isfinite(np.add.reduce(centred.means, axis=None)) and not np.isfinite(centred.means).all():
            block.raise_for_values()
        places = places[centred.classes]
        self._make_room(block.n_features)
        spread = self._move_means(centred, places)
        kind, scatter = self._moments.kind, self._moments.scatter
        kind.add(scatter, places, centred.rows, centred.bounds, spread)
        self._check_sums(block, places)

    def _move_means(self, centred: CentredBlock, places: Indices) -> Array:
        """Add weights and means, and return the vectors whose outer products are to be added to the scatter.

        Chan, Golub & LeVeque (1983), eq. 2.1; a few classes at a time, so that they stay in the cache.
        """
        moments = self._moments
        before = moments.weights[places]
        is_new = before == 0
        new = places[is_new]
        moments.means[new], moments.low_means[new] = centred.means[is_new], centred.low_means[is_new]
        weights, rest = two_sum(before, centred.totals)
        rest += moments.low_weights[places] + centred.low_totals
        moments.weights[places], moments.low_weights[places] = two_sum(weights, rest)
        shares = (centred.totals / weights)[:, None]
        spread = centred.means  # in place
        step = max(1, _ELEMENTS_IN_CACHE // max(1, moments.n_features))
        for start in range(0, len(places), step):
            few = slice(start, start + step)
            self._move_few(places[few], spread[few], centred.low_means[few], shares[few])
            spread[few] *= np.sqrt(before[few, None] * shares[few])
        return spread

    def _move_few(self, places: Indices, means: Array, low_means: Array, shares: Array) -> None:
        """Move the means of some classes, and turn the means of the block into distances from them."""
        moments = self._moments
        distances = moments.low_means.take(places, axis=0)
        means -= moments.means.take(places, axis=0)
        means += low_means
        means -= distances
        distances += means * shares
        moments.low_means[places] = distances

    def _check_sums(self, block: Block, places: Indices) -> None:
        moments = self._moments
        if not np.isfinite(moments.weights[places]).all():
            raise ValueError("the weights are too large: their sum exceeds float64. Rescale them first")
        diagonal = moments.diagonal
        if not np.isfinite(diagonal if moments.kind.is_pooled else diagonal[as_slice(places)]).all():
            block.raise_for_values()


# ---------------------------------------------------------------------- sums about anchors


def can_be_anchored(kind: CovarianceKind, block: Block) -> bool:
    """Whether rows of a block can be added to sums about anchors."""
    return block.weights is None and (kind.is_pooled or not kind.has_products)


def is_quicker_anchored(kind: CovarianceKind, block: Block, n_places: int = 0) -> bool:
    """Whether new sums about anchors are quicker for a block, with `n_places` classes so far."""
    n_rows, n_features = len(block.codes), max(1, block.n_features)
    short = max(SHORT_CLASS, SHORT_ELEMENTS // n_features) * len(block.classes)
    n_places = max(n_places, len(block.classes))
    is_short = max(FEWEST_ROWS, n_places // _MOST_PLACES) <= n_rows < short
    return is_short and can_be_anchored(kind, block)


class AnchoredSums:
    """Sums of rows about an anchor for each class, feature by feature, to which blocks are added in place.

    The rows of a block are then not gathered by class. The anchor of a class is its first row, or the mean of
    the rows that went in before. It is subtracted from each row of the class. Let S be the sum of these
    differences in a class, and T the sum of their squares or products. The scatter is W = T − Σ S Sᵀ / n.

    The number of digits that this difference loses is bounded. If the anchor a is the mean of n₁ of the n
    rows of a class, and m the mean of all, then n₁ (a − m)² ≤ W: the scatter of these rows about m is a part
    of W. So, whatever the rows are, T = W + n (a − m)² ≤ (1 + n / n₁) W. Sums end before the factor exceeds
    32, a loss of five bits.

    Parameters
    ----------
    before : Moments
        The moments of the rows that went in before. Their means are anchors.
    n_features : int
        How many features a row has.
    """

    def __init__(self, before: Moments, n_features: int) -> None:
        self._kind = before.kind
        self._counts, self._anchor_rows = np.zeros(0), before.weights
        self._anchors = before.means.T if len(before.weights) else np.empty((n_features, 0))
        self._sums = np.zeros((n_features, 0))
        self._products = np.zeros((n_features, n_features if self._kind.is_pooled else 0))

    def keep_digits(self, places: Indices, counts: Counts) -> bool:
        """Whether the bound still holds if `counts` rows of the classes at these places are added."""
        size = max(len(self._counts), int(places.max()) + 1)
        self._counts, self._anchor_rows = _widened(self._counts, size), _widened(self._anchor_rows, size)
        anchor_rows = self._anchor_rows[places]
        most = MOST_ROWS_PER_ANCHOR * np.where(anchor_rows == 0, 1.0, anchor_rows)
        return bool((self._counts[places] + counts <= np.minimum(most, _MOST_ROWS)).all())

    def add_rows(self, block: Block, places: Indices, counts: Counts, workspace: Workspace) -> None:
        """Add the rows of a block: `counts` rows of the classes at these places.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or a square exceeds float64. The sums must then not be used.
        """
        self._make_room()
        is_new = self._anchor_rows[places] + self._counts[places] == 0
        new, first = places[is_new], first_positions(block.codes, len(block.classes))[is_new]
        of_row = places[block.codes]
        columns = columns_of(block.features)
        rows = workspace.rows(1 if columns and not self._kind.is_pooled else len(self._sums), len(of_row))
        if columns is None:
            transpose_rows(np.asarray(block.features), rows)
        taken = np.empty(len(of_row))
        for j, anchors in enumerate(self._anchors):
            row = rows[j % len(rows)]
            column = workspace.as_float64(columns[j]) if columns else row
            anchors[new] = column[first]
            np.subtract(column, anchors.take(of_row, out=taken, mode="clip"), out=row)
            np.add.at(self._sums[j], of_row, row)
            if not self._kind.is_pooled:
                np.add.at(self._products[j], of_row, np.multiply(row, row, out=taken))
        if self._kind.is_pooled:
            self._products += self._kind.products(rows, np.array([0, len(of_row)]))
        squares = self._kind.diagonal(self._products) if self._kind.is_pooled else self._products
        if not np.isfinite(np.add.reduce(squares, axis=-1)).all():
            block.raise_for_values()
        self._counts[places] += counts

    def moments(self) -> tuple[Indices, Moments]:
        """The places of the classes that have rows here, and their moments. To be called only once."""
        places = np.flatnonzero(self._counts)
        counts, kind = self._counts[places], self._kind
        kept = as_slice(places)
        roots = np.sqrt(counts)
        vectors = self._sums[:, kept]
        vectors /= roots
        squares = self._products if kind.is_pooled else self._products[:, kept].T
        scatter = squares - kind.outer(vectors.T)
        rounding = _EPS * (counts.max() if kind.is_pooled else counts[:, None])
        kind.zero(scatter, kind.diagonal(scatter) <= rounding * kind.diagonal(squares))
        del squares, self._products
        means = np.ascontiguousarray(self._anchors[:, kept].T)
        del self._anchors
        low_means = np.ascontiguousarray(vectors.T)
        del vectors, self._sums
        low_means /= roots[:, None]
        return places, Moments(
            kind, counts, np.zeros_like(counts), means, low_means, np.ascontiguousarray(scatter)
        )

    def _make_room(self) -> None:
        """Widen the tables to columns for all classes, and some spare ones."""
        n_places = len(self._counts)
        if n_places > self._sums.shape[1]:
            size = n_places + n_places // 8
            self._anchors = _widened(self._anchors, size)
            self._sums = _widened(self._sums, size)
            if not self._kind.is_pooled:
                self._products = _widened(self._products, size)


def _widened(table: Array, size: int) -> Array:
    """The table with `size` columns. New columns hold zeros."""
    if table.shape[-1] == size:
        return table
    wider, kept = np.zeros((*table.shape[:-1], size)), min(size, table.shape[-1])
    wider[..., :kept] = table[..., :kept]
    return wider
