"""Sums about an anchor in each class: quicker where blocks hold many classes of few rows each.

The rows of a block are then not gathered by class. The anchor of a class is its first row, or the mean of the
rows that went in before. It is subtracted from each row; the sums of what is left, S for each class, and the
sums of its squares or products, T, give the scatter W = T − Σ S Sᵀ / n.

The digits that this difference loses are bounded. If the anchor a is the mean of n₁ of the n rows of a class,
and m the mean of all, then n₁ (a − m)² ≤ W: the scatter of these rows about m is a part of W. So, whatever
the rows are, T = W + n (a − m)² ≤ (1 + n / n₁) W. Sums end before that exceeds 32, which is five bits.
"""

from __future__ import annotations

import numpy as np

from streamgda.blocks.block import Block
from streamgda.blocks.labels import first_positions
from streamgda.statistics.covariances import SHORT_CLASS, SHORT_ELEMENTS, Array, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, as_slice
from streamgda.statistics.gather import Workspace, columns_of, transpose_rows
from streamgda.statistics.labelled import Counts

MOST_ROWS_PER_ANCHOR = 31  # for each of the rows that the anchor is the mean of
_MOST_ROWS = 1 << 10  # of a class, which are added one by one
_FEWEST_ROWS = 1 << 10  # of a block
_MOST_PLACES = 4  # for each row of a block, since the sums of all classes pass through the cache
_EPS = 2.0**-52


def can_be_anchored(kind: CovarianceKind, block: Block) -> bool:
    """Whether rows of a block can be added to sums about anchors."""
    return block.weights is None and (kind.is_pooled or not kind.has_products)


def is_quicker_anchored(kind: CovarianceKind, block: Block, n_places: int = 0) -> bool:
    """Whether sums about anchors are worth beginning for a block, where there are so many classes by now."""
    n_rows = len(block.codes)
    if n_rows < _FEWEST_ROWS:
        return False
    n_features = max(1, block.n_features)
    short = max(SHORT_CLASS, SHORT_ELEMENTS // n_features) * len(block.classes)
    is_short = max(n_places, len(block.classes)) // _MOST_PLACES <= n_rows < short
    return is_short and can_be_anchored(kind, block)


class AnchoredSums:
    """Sums of rows about an anchor for each class, feature by feature; they grow in place.

    Parameters
    ----------
    before : Moments
        Of the rows that went in before: their means are anchors.
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
        """Whether the bound still holds if so many rows of the classes at these places are added."""
        size = max(len(self._counts), int(places.max()) + 1)
        self._counts, self._anchor_rows = _widened(self._counts, size), _widened(self._anchor_rows, size)
        anchor_rows = self._anchor_rows[places]
        most = MOST_ROWS_PER_ANCHOR * np.where(anchor_rows == 0, 1.0, anchor_rows)
        return bool((self._counts[places] + counts <= np.minimum(most, _MOST_ROWS)).all())

    def add(self, block: Block, places: Indices, counts: Counts, workspace: Workspace) -> None:
        """Add the rows of a block, so many of the classes at these places.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or a square exceeds float64. The sums are then of no use.
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
        """The places of the classes that have rows here, and their moments; the sums are used up."""
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
        """Let the tables have columns for all classes, and for some more to come."""
        n_places = len(self._counts)
        if n_places > self._sums.shape[1]:
            size = n_places + n_places // 8
            self._anchors = _widened(self._anchors, size)
            self._sums = _widened(self._sums, size)
            if not self._kind.is_pooled:
                self._products = _widened(self._products, size)


def _widened(table: Array, size: int) -> Array:
    """The same table with so many columns; those that are new hold zero."""
    if table.shape[-1] == size:
        return table
    wider, kept = np.zeros((*table.shape[:-1], size)), min(size, table.shape[-1])
    wider[..., :kept] = table[..., :kept]
    return wider
