"""The revisions of a state, and what was added between them, if that is little.

A model keeps what it computed from one revision. What was added since then says which classes have changed.
The model may then be updated from a few rows instead of the whole state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels

_MOST_ROWS = 64  # of a batch that is kept
_MOST_KEPT = 512  # labels and rows between the revisions of a chain


@dataclass(frozen=True, eq=False)
class Revision:
    """One revision of a state. Revisions are compared by identity.

    Attributes
    ----------
    before : Revision or None
        The revision to which rows were added; None after any other change.
    classes : ndarray of shape (n_classes,) or None
        The classes of the added rows; None for the first of a chain.
    rows : Block or None
        A copy of the rows, if these are few and were all that was added.
    size : int
        How many labels and rows the chain of revisions keeps.
    """

    before: Revision | None = None
    classes: Labels | None = None
    rows: Block | None = None
    size: int = 0

    @classmethod
    def of_rows(cls, block: Block) -> Revision:
        """The revision of a state of one block, which keeps a copy of its rows if they are few."""
        n_rows = len(block.codes)
        if not 0 < n_rows <= _MOST_ROWS:
            return cls()
        weights = None if block.weights is None else block.weights.copy()
        matrix = np.array(block.matrix(0, n_rows))
        return cls(rows=Block(matrix, block.classes, block.codes.copy(), weights))

    def followed_by(self, added: Revision | None, classes: Labels) -> Revision:
        """The revision after a state with the revision `added` and these classes was merged.

        It is the first of a new chain if this one has become long. None stands for rows that are not kept.
        """
        rows = added.rows if added is not None and added.before is None else None
        size = self.size + len(classes) + (len(rows.codes) if rows else 0)
        return Revision(self, classes, rows, size) if size <= _MOST_KEPT else Revision()

    def since(self, earlier: object) -> list[Revision] | None:
        """The revisions after an earlier one, oldest first; None if this chain does not hold it."""
        later: list[Revision] = []
        revision: Revision | None = self
        while revision is not None and revision is not earlier:
            later.append(revision)
            revision = revision.before
        return later[::-1] if revision is not None else None
