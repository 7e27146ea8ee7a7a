"""The rule by which the rows of a state go through a forest."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import Block
from streamgda.extensions.leaves.features import LeafFeatures
from streamgda.extensions.leaves.state import LeafStatistics
from streamgda.extensions.ridge.maps import MapColumns, MapRule
from streamgda.extensions.subclasses.sampled import keys_of
from streamgda.statistics.required import Required

_REQUIRED = Required("tied")
_LAST_HASH = np.uint64(2**61)  # an eighth of all, whose rows never grow a forest


def is_of_validation(block: Block) -> NDArray[np.bool_]:
    """Which rows never grow a forest, by a hash of their values in the schema of its rule: (n_rows,)."""
    return keys_of(block) <= _LAST_HASH


class LeafColumns(MapColumns):
    """The leaves of rows, of which only the rows are in memory."""

    def leaves_of(self, block: Block) -> NDArray[np.int32]:
        """The leaves of the rows of the block with these features: (n_rows, n_trees).

        Raises
        ------
        ValueError
            If a value is NaN or infinite.
        """
        rows = self.before(block)
        matrix = rows.matrix(0, self.n_rows)
        if not np.isfinite(matrix).all():
            rows.raise_for_values()
        leaves: NDArray[np.int32] = self.rule.features.leaves(matrix)
        return leaves

    def __getitem__(self, index: Any) -> Any:
        return (self._all == index).any(axis=1).astype(np.float64)

    def _made_of(self, rows: Block) -> NDArray[np.int32]:
        return self.leaves_of(rows)


class LeafRows(MapRule):
    """The rule by which the rows of a state go through a forest.

    Parameters
    ----------
    features : LeafFeatures
        The forest, fitted to rows with the features of the schema.
    schema : Schema, optional
        As in `MappedRows`.
    """

    saved_as: ClassVar[str] = "leaves"
    _map, _columns = LeafFeatures, LeafColumns

    leaves_out: bool = False
    """Whether the rows that `is_of_validation` tells are of the data that grew the forest."""

    def unseen(self, block: Block) -> NDArray[np.bool_] | None:
        """Which rows have not grown the forest, if others of the same data have: (n_rows,)."""
        return is_of_validation(block.in_schema(self.schema)) if self.leaves_out else None

    def empty(self, required: Required = _REQUIRED) -> LeafStatistics:
        """The state of no rows; ValueError if more is required than counts."""
        if required != _REQUIRED:
            raise ValueError(
                "leaves are counted with covariance_type='tied' alone, without "
                f"{' and '.join(required.in_words())}"
            )
        return LeafStatistics(self)
