"""What one row may add to the sums: bounded features, a bounded norm, and integers on a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.statistics.covariances import Array

GRID = 1 << 15
"""How many steps of the grid the largest norm has. The squares of steps are integers that int64 holds."""

_MARGIN = 1e-9  # relative: far above the rounding of norms and of the noise's law, far below what noise costs


@dataclass(frozen=True)
class Clipping:
    """What becomes of rows before they are added up. It does not depend on other rows.

    A row x becomes u = z / clip, where z are its features scaled from their bounds to [−1, 1], shortened to
    the norm `clip` if it is longer. The integers nearest to GRID × u are added up. Rows of other classes are
    left out, and so are rows that lack a feature.

    Attributes
    ----------
    middle, half : ndarray of shape (n_features,)
        The middle of the bounds, and half of the way between them.
    clip : float
        The largest norm of a scaled row.
    classes : ndarray
        The labels that count.
    """

    middle: Array
    half: Array
    clip: float
    classes: Labels

    def __call__(self, block: Block) -> Block:
        """The rows of a block, clipped and on the grid."""
        if block.weights is not None or block.n_features != len(self.middle):
            raise ValueError("private statistics take rows of these features, without weights")
        rows = block.matrix(0, len(block.codes))
        is_known = block.classes.dtype.kind == self.classes.dtype.kind
        counts = np.isin(block.classes, self.classes) if is_known else np.zeros(len(block.classes), np.bool_)
        chosen = np.flatnonzero(counts[block.codes] & np.isfinite(rows).all(axis=1))
        features = np.rint(GRID * self.scaled(rows[chosen]))
        return replace(block.take(chosen), features=features, feature_names=None, n_dropped=0)

    def scaled(self, rows: Array) -> Array:
        """Rows in units in which no norm is above 1 by more than rounding."""
        z = (np.clip(rows, self.middle - self.half, self.middle + self.half) - self.middle) / self.half
        norms = np.sqrt(np.square(z).sum(axis=1, keepdims=True))
        shortened: Array = z / np.maximum(norms, self.clip)
        return shortened


def sensitivity(n_features: int, n_pairs: int) -> float:
    """How far one row moves the vector of sums at most, in steps of 1 / GRID².

    A row adds GRID² to its count, GRID × q to a sum, and the products of q to a scatter, those of two
    features times √2. The norm of q is at most GRID, and half a step a feature for rounding. Rounding √2
    times a sum adds at most one step for each product. So the bound is √3 GRID² and a little more.
    """
    norm = GRID + math.sqrt(n_features) / 2
    rounded = max(0, n_pairs - n_features)
    return (math.sqrt(GRID**4 + (GRID * norm) ** 2 + norm**4) + math.sqrt(rounded)) * (1 + _MARGIN)
