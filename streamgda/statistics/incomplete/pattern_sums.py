"""Sum up rows by their pattern of observed features, block by block.

If products of features are kept, each pattern has its own sums. If only squares are kept ("diag"), and there
are many patterns, each feature is summed up by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgda.blocks.block import Block
from streamgda.kernels import Workspace
from streamgda.statistics.floating.accumulation import Accumulation
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.pattern_states import PatternStates, by_feature
from streamgda.statistics.incomplete.patterns import (
    FIRST_ROWS,
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

# If only squares are kept.
_FEW = 16  # patterns in a block; up to here, sums of patterns are quicker than sums of features
_MOST_KEPT = 64  # patterns; beyond, all sums are divided into those of each feature


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
        self._rows: dict[Pattern, _Sums] = {}  # each row is counted in one of these
        self._columns: dict[Pattern, _Sums] = {}  # of single features; their rows are counted above
        self._in_order = Workspace()  # for the rows of a block, pattern by pattern
        self._ended: PatternStates[Any] = PatternStates(plain._labelled.moments, 0, {})

    def add(self, block: Block, workspace: Workspace) -> None:
        """Add the rows of a block.

        If the block before had no missing values, they are searched for first, which is quicker than to find
        patterns.

        Raises
        ------
        TooManyPatternsError
            If there are too many patterns. The sums are then as they were.
        ValueError
            If a value is infinite or too large. The sums must then not be used.
        """
        if workspace.lacked_features or block.lacks_features(FIRST_ROWS) or block.lacks_features():
            patterns = RowPatterns.of(block)
            workspace.lacked_features = patterns is not None
            if patterns is not None:
                self._add_parts(block, patterns, workspace)
                return
        self._of(self._rows, complete_pattern(block.n_features)).add(block, workspace)

    def _add_parts(self, block: Block, patterns: RowPatterns, workspace: Workspace) -> None:
        self._check_number(block, patterns)
        by_pattern = self._keeps_patterns or len(patterns) <= _FEW
        cut = parts_by_pattern if by_pattern else parts_by_feature
        counting = complete_pattern(block.n_features), pattern_with([], block.n_features)
        try:
            for pattern, part in cut(block, patterns, self._in_order):
                # Cut by feature, a row has a part for each feature, and one more, which counts it.
                sums = self._rows if by_pattern or pattern in counting else self._columns
                self._of(sums, pattern).add(part, workspace)
        except ValueError:
            block.check_no_infinity()
            raise

    def _check_number(self, block: Block, patterns: RowPatterns) -> None:
        n_patterns = len(self._rows.keys() | set(map(pattern_of, patterns.observed)))
        if not self._keeps_patterns and n_patterns > _MOST_KEPT:
            self.states(block.n_features)
        elif self._keeps_patterns and n_patterns > self._most:
            if not self._separates:
                raise TooManyPatternsError.of(n_patterns, self._most, len(block.classes), block.n_features)
            self._ended = self.states(block.n_features).separated()
            self._plain = ClassStatistics("diag")

    @property
    def _keeps_patterns(self) -> bool:
        return bool(self._plain._labelled.kind.has_products)

    def _of(self, sums: dict[Pattern, _Sums], pattern: Pattern) -> _Sums:
        """The sums of a pattern; new ones where there are none."""
        plain = self._plain
        if pattern not in sums:
            is_merged = plain.exact or plain.has_fourth_moments
            empty = Labelled.empty(plain._labelled.moments, 0)
            sums[pattern] = _MergedSums(plain) if is_merged else Accumulation(empty)
        return sums[pattern]

    def states(self, n_features: int) -> PatternStates[Any]:
        """The state of all the rows so far, with `n_features` features. New sums are begun."""
        rows, columns = (
            {pattern: sums.state() for pattern, sums in some.items()} for some in (self._rows, self._columns)
        )
        nothing = pattern_with([], n_features)
        if nothing in rows:
            rows[nothing] = rows[nothing].selected(np.arange(0))
        parts = rows if self._keeps_patterns else by_feature(rows, columns, n_features)
        self._ended.merge(PatternStates(self._plain._labelled.moments, n_features, parts), owned=True)
        self._rows, self._columns = {}, {}
        return self._ended


class _MergedSums:
    """Sums that are merged block by block: exact sums, and those with fourth moments."""

    def __init__(self, plain: Any) -> None:
        self._plain, self._labelled = plain, Labelled.empty(plain._labelled.moments, 0)

    def add(self, block: Block, workspace: Workspace) -> None:
        """Add the rows of a block."""
        self._labelled.merge(self._plain._from_block(block, workspace)._labelled, owned=True)

    def state(self) -> Labelled[Any]:
        """The state of all the rows."""
        return self._labelled


_Sums = Accumulation | _MergedSums  # of rows with the same features, which grow in place
