"""The revisions of a state: what was added from one to the next, as long as that is little.

Models keep what they computed from one revision. From what was added since, they tell which classes have
changed, and may compute the rest from a few rows instead of the whole state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels

_MOST_ROWS = 64  # of a batch that is kept
_MOST_KEPT = 512  # labels and rows between the revisions of a chain


@dataclass(frozen=True, eq=False)
class Added:
    """What one update added.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The classes that have changed.
    rows : Block or None
        A copy of the rows, if these are few and were all that was added.
    """

    classes: Labels
    rows: Block | None = None

    @property
    def size(self) -> int:
        """How many labels and rows are kept."""
        return len(self.classes) + (len(self.rows.codes) if self.rows else 0)


@dataclass(frozen=True, eq=False)
class Revision:
    """One revision of a state. It is the same as another if it is the same object.

    Attributes
    ----------
    before : Revision or None
        The revision that something was added to; None after any other change.
    added : Added or None
        What was added to it.
    size : int
        How much the chain of revisions keeps.
    """

    before: Revision | None = None
    added: Added | None = None
    size: int = 0

    @classmethod
    def of_rows(cls, block: Block) -> Revision:
        """The revision of a state of one block, which keeps a copy of its rows if they are few."""
        if not 0 < len(block.codes) <= _MOST_ROWS:
            return cls()
        return cls(added=Added(block.classes, _copied(block)))

    @property
    def rows(self) -> Block | None:
        """The rows of a state of one block, if they are few."""
        return self.added.rows if self.added and self.before is None else None

    def followed_by(self, added: Added) -> Revision:
        """The revision after an addition. The first of a new chain if this one has become long."""
        size = self.size + added.size
        return Revision(self, added, size) if size <= _MOST_KEPT else Revision()

    def since(self, earlier: object) -> list[Added] | None:
        """What was added after an earlier revision, oldest first; None if more has changed, or too much."""
        found: list[Added] = []
        revision: Revision | None = self
        while revision is not None and revision is not earlier:
            if revision.added is not None:
                found.append(revision.added)
            revision = revision.before
        return found[::-1] if revision is not None else None


def _copied(block: Block) -> Block:
    weights = None if block.weights is None else block.weights.copy()
    rows = np.array(block.matrix(0, len(block.codes)))
    return Block(rows, block.classes, block.codes.copy(), weights)
