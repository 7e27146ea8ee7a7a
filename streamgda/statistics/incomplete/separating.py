"""A state that gives up patterns, and keeps each feature by itself, once there are too many of them."""

from __future__ import annotations

from typing import Any, Self

from streamgda.blocks.block import Block
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.gather import Workspace
from streamgda.statistics.incomplete.grouping import PatternSums
from streamgda.statistics.incomplete.state import IncompleteStatistics
from streamgda.statistics.incomplete.too_many import TooManyPatternsError


class SeparatingStatistics(IncompleteStatistics):
    """Floating statistics by pattern; from the pattern on that is too many, of each feature by itself.

    So a read of rows with too many patterns still gives the means and variances of the available cases.
    """

    _asked: CovarianceType

    @property
    def is_separated(self) -> bool:
        """Whether there were too many patterns."""
        return self.covariance_type != self._asked

    @classmethod
    def like(cls, empty: IncompleteStatistics) -> Self:
        """An empty state that separates."""
        state = cls(
            empty.covariance_type,
            max_patterns=empty.max_patterns,
            feature_names=empty.feature_names,
            fourth_moments=empty.has_fourth_moments,
        )
        state._asked = empty.covariance_type
        return state

    def kept(self) -> IncompleteStatistics:
        """The same state, which is to keep its patterns from now on."""
        state = IncompleteStatistics(self.covariance_type, max_patterns=self.max_patterns)
        state.__setstate__(self.__getstate__())
        state._set_labelled(self._labelled)
        return state

    def _add_rows(self, sums: PatternSums, workspace: Workspace, block: Block) -> None:
        try:
            sums.add(block, workspace)
        except TooManyPatternsError:
            sums.separate(self.n_features)
            self._separate()
            sums.add(block, workspace)

    def merge(self, other: Any) -> Self:
        """Add the rows of another state, in place; each feature by itself if patterns are too many."""
        theirs = self._as_incomplete(other) if isinstance(other, Statistics) else other
        with self._lock:
            if isinstance(theirs, SeparatingStatistics):
                if theirs.is_separated or self._n_patterns_with(theirs) > self.max_patterns:
                    self._separate()
                if self.is_separated and not theirs.is_separated:
                    theirs = theirs.copy()._separate()
            return super().merge(theirs)

    def _separate(self) -> Self:
        """Keep each feature by itself, in place."""
        if not self.is_separated:
            self._plain = ClassStatistics("diag")
            self._set_labelled(self._labelled.separated())
        return self
