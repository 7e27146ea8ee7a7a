"""States whose arrays stand one below the other, as in a table of a ledger: they are merged at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from streamgda.data.blocks import labels
from streamgda.statistics.base import Statistics
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.labelled import Labelled


class JoinedStates:
    """Some states of one sort and of the same features, in the order in which they are merged.

    Parameters
    ----------
    joined : ClassStatistics
        The classes of all the states, one state after the other, each with a scatter of its own.
    ends : sequence of int
        Where each state begins, and where the last one ends.
    dropped : sequence of int
        How many rows each has left out.
    """

    def __init__(self, joined: Statistics, ends: Sequence[int], dropped: Sequence[int]) -> None:
        self._joined, self._ends, self._dropped = joined, ends, dropped

    @property
    def n_rows(self) -> int:
        """How many rows went into all the states."""
        return int(self._joined._labelled.counts[self._ends[0] : self._ends[-1]].sum())

    def __iter__(self) -> Iterator[Statistics]:
        """Each of the states. ValueError if a label stands in one of them twice."""
        for (start, stop), n_dropped in zip(pairwise(self._ends), self._dropped, strict=True):
            yield self._state(self._rows(start, stop).in_order(), n_dropped)

    def __radd__(self, total: Statistics) -> Statistics:
        """The sum of a state and these, each added by itself: at once where that has the same bits."""
        rows, total = self._rows(self._ends[0], self._ends[-1]), total.copy()
        if self._merge_in_turn(total, rows):
            return total._merge(self._state(rows, sum(self._dropped)))
        for state in self:
            total += state
        return total

    def _merge_in_turn(self, total: Statistics, rows: Labelled[Moments]) -> bool:
        """Whether one merge of all the rows is that of state after state: no class stands in one twice."""
        is_alike = type(total) is type(self._joined) and len(total._labelled.classes)
        if not is_alike or rows.classes.dtype.names:
            return False
        ascends = rows.classes[1:] > rows.classes[:-1]
        ascends[np.array(self._ends[1:-1], np.intp) - self._ends[0] - 1] = True
        return rows.moments.merges_in_turn and bool(ascends.all())

    def _rows(self, start: int, stop: int) -> Labelled[Moments]:
        rows, joined = slice(start, stop), self._joined._labelled
        counts, squares = joined.counts[rows], joined.squared_weights
        if squares is not None:
            squares = None if np.array_equal(squares[rows], counts) else squares[rows]
        return Labelled(labels.trimmed(joined.classes[rows]), counts, joined.moments.take(rows), squares)

    def _state(self, rows: Labelled[Moments], n_dropped: int) -> Statistics:
        return self._joined._twin(rows, _n_dropped=n_dropped)
