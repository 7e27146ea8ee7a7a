"""Sum up rows by their pattern of observed features, block by block.

If products of features are kept, each pattern has its own sums. If only squares are kept ("diag"), each
feature of the incomplete rows is summed up by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgda.blocks.block import Block
from streamgda.kernels import Workspace
from streamgda.statistics.floating.reduction import Accumulation
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.folded import Keyed
from streamgda.statistics.incomplete.pattern_states import PatternStates, add_features
from streamgda.statistics.incomplete.patterns import (
    Pattern,
    RowPatterns,
    TooManyPatternsError,
    complete_pattern,
    parts_by_feature,
    parts_by_pattern,
    pattern_of,
    pattern_with,
)
from streamgda.statistics.labelled import Labelled


class PatternSums:
    """The sums of rows by pattern, to which blocks are added in place; `states` gives the state.

    Parameters
    ----------
    plain : ClassStatistics or ExactClassStatistics
        The state of no rows, of the sort that sums up each pattern.
    most : int
        The most patterns that are kept.
    separates : bool, default=False
        Whether each feature is summed up by itself as soon as there are too many patterns.
    """

    def __init__(self, plain: Any, most: int, *, separates: bool = False) -> None:
        self._plain, self._most, self._separates = plain, most, separates
        self._sums: dict[Pattern, Accumulation] = {}
        self._merged = Keyed[Pattern, Labelled[Any]]()  # exact sums, fourth moments, earlier sums
        self._in_order = Workspace()  # for the rows of a block, pattern by pattern

    def add(self, block: Block, workspace: Workspace) -> None:
        """Add the rows of a block.

        Raises
        ------
        TooManyPatternsError
            If there are too many patterns. The sums are then as they were.
        ValueError
            If a value is infinite or too large. The sums must then not be used.
        """
        if block.lacks_features():
            self._add_parts(block, RowPatterns.of(block), workspace)
        else:
            self._add_part(complete_pattern(block.n_features), block, workspace)

    def _add_parts(self, block: Block, patterns: RowPatterns, workspace: Workspace) -> None:
        if self._keeps_patterns:
            self._check_number(block, patterns)
        cut = parts_by_pattern if self._keeps_patterns else parts_by_feature
        try:
            for pattern, part in cut(block, patterns, self._in_order):
                self._add_part(pattern, part, workspace)
        except ValueError:
            block.check_no_infinity()
            raise

    def _check_number(self, block: Block, patterns: RowPatterns) -> None:
        n_patterns = len(self._sums.keys() | self._merged.keys() | set(map(pattern_of, patterns.observed)))
        if n_patterns > self._most:
            if not self._separates:
                raise TooManyPatternsError.of(n_patterns, self._most, len(block.classes), block.n_features)
            self._merged = self.states(block.n_features).separated().by_pattern
            self._plain, self._sums = ClassStatistics("diag"), {}

    @property
    def _keeps_patterns(self) -> bool:
        return bool(self._plain._labelled.kind.has_products)

    def _add_part(self, pattern: Pattern, part: Block, workspace: Workspace) -> None:
        """Add rows to the sums of their pattern."""
        plain = self._plain
        if plain.exact or plain.has_fourth_moments:
            self._merged.add(pattern, plain._from_block(part, workspace)._labelled, owned=True)
            return
        if pattern not in self._sums:
            self._sums[pattern] = Accumulation(Labelled.empty(plain._labelled.moments, 0))
        self._sums[pattern].add(part, workspace)

    def states(self, n_features: int) -> PatternStates[Any]:
        """The state of all the rows, with `n_features` features. No block can be added after this call."""
        counting = complete_pattern(n_features), pattern_with([], n_features)
        parts = Keyed[Pattern, Labelled[Any]]()
        summed = [(pattern, sums.state()) for pattern, sums in self._sums.items()]
        for pattern, part in [*self._merged.items(), *summed]:
            kept = part.selected(np.arange(0)) if pattern == counting[1] else part
            if self._keeps_patterns or pattern in counting:
                parts.add(pattern, kept, owned=True)
            else:
                add_features(parts, pattern, kept, n_features)
        return PatternStates(self._plain._labelled.moments, n_features, parts)
