"""Statistics with fourth moments, where features may be missing: then those of complete rows alone."""

from __future__ import annotations

from typing import Self

from streamgda.blocks.block import Block
from streamgda.blocks.wording import Message
from streamgda.statistics.base import Statistics
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.gather import Workspace
from streamgda.statistics.incomplete.patterns import lacks_features

_REMEDY = Message(
    "set ⟨shrinkage='oas'⟩ or a number: fourth moments, which ⟨shrinkage='auto'⟩ needs, are of complete rows"
)


class CompleteRows(ClassStatistics):
    """Statistics with fourth moments. The first row that lacks a feature is an error that says what to do."""

    @classmethod
    def like(cls, empty: Statistics) -> Self:
        """An empty state."""
        return cls(empty.covariance_type, feature_names=empty.feature_names, fourth_moments=True)

    def kept(self) -> ClassStatistics:
        """The same state as plain `ClassStatistics`."""
        state = ClassStatistics(self.covariance_type, fourth_moments=True)
        state.__setstate__(self.__getstate__())
        state._set_labelled(self._labelled)
        return state

    def _from_block(self, block: Block, workspace: Workspace) -> Self:
        """The state of the rows of a block."""
        try:
            return super()._from_block(block, workspace)
        except ValueError:
            if lacks_features(block):
                block.raise_for_values("fourth powers", other_remedy=_REMEDY)
            raise
