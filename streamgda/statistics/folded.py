"""Statistics of the rows of each fold, from which those of any training part are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any, Self

from streamgda.blocks.block import Block
from streamgda.blocks.folds import FoldRule
from streamgda.statistics.base import Statistics
from streamgda.statistics.gather import Workspace


class FoldStatistics:
    """Statistics of labelled rows, apart for each fold.

    `accumulate_folds` and `StatisticsLedger` make them. They take the memory of one state for each fold.

    Parameters
    ----------
    empty : ClassStatistics or ExactClassStatistics
        The state that has seen no rows.
    rule : FoldRule
        Which fold a row is of.

    Attributes
    ----------
    n_dropped : int
        How many rows were left out because something was missing.
    """

    def __init__(self, empty: Statistics, rule: FoldRule) -> None:
        self._empty = empty.copy()
        self.rule = rule
        self.n_dropped = 0
        self._parts: dict[Any, Statistics] = {}

    # ------------------------------------------------------------------ properties

    @property
    def folds(self) -> list[Any]:
        """The folds that have rows, sorted."""
        return sorted(self._parts)

    def __getitem__(self, fold: Any) -> Statistics:
        """The statistics of the rows of a fold."""
        return self._parts[fold]

    @property
    def n_rows(self) -> int:
        """How many rows went in."""
        return sum(part.n_rows for part in self._parts.values())

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of the states."""
        return sum(part.nbytes for part in self._parts.values())

    def __repr__(self) -> str:
        return f"FoldStatistics(folds={len(self._parts)}, rows={self.n_rows}, of {self._empty!r})"

    def __eq__(self, other: object) -> bool:
        """Whether two states are the same to the last bit."""
        if not isinstance(other, FoldStatistics):
            return NotImplemented
        ours, theirs = ((one.rule, one.n_dropped, one._parts) for one in (self, other))
        return ours == theirs

    # ------------------------------------------------------------------ rows go in

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks: of all, or, where one is refused, of none."""
        workspace, added = workspace or Workspace(), self._twin()
        for block in blocks:
            added.n_dropped += block.n_dropped
            for fold, rows in self.rule.split(block):
                part = replace(block.take(rows), n_dropped=0)
                added._part(fold).update_blocks([part], workspace)
        self.merge(added)

    def _part(self, fold: Any) -> Statistics:
        if fold not in self._parts:
            self._parts[fold] = self._empty.copy()
        return self._parts[fold]

    def _twin(self) -> Self:
        return type(self)(self._empty, self.rule)

    # ------------------------------------------------------------------ states add up

    def merge(self, other: FoldStatistics) -> Self:
        """Add the rows of another state, in place. The other is left as it is.

        Raises
        ------
        ValueError
            If the two have other folds, or their statistics cannot be merged.
        """
        if self.rule != other.rule:
            raise ValueError(f"states with folds by {self.rule} and by {other.rule} cannot be merged")
        for fold, part in other._parts.items():
            if fold in self._parts:
                self._parts[fold].merge(part)
            else:
                self._parts[fold] = part.copy()
        self.n_dropped += other.n_dropped
        return self

    def copy(self) -> Self:
        """A state of the same rows that does not change with this one."""
        return self._twin().merge(self)

    def __add__(self, other: object) -> Self:
        return self.copy().merge(other) if isinstance(other, FoldStatistics) else NotImplemented

    # ------------------------------------------------------------------ states come out

    def total(self) -> Statistics:
        """The statistics of the rows of all folds."""
        return self.merged(self.folds)

    def merged(self, folds: Iterable[Any]) -> Statistics:
        """The statistics of the rows of some folds, in this order."""
        return reduce(Statistics.merge, (self._parts[fold] for fold in folds), self._empty.copy())

    def held_out(self, folds: Iterable[Any] | None = None) -> Iterator[tuple[Any, Statistics]]:
        """Yield each fold, with the statistics of the rows of all the others.

        They are merged, not subtracted, so that no digit is lost: those before the fold with those after it.

        Parameters
        ----------
        folds : iterable, optional
            The folds to yield; all of them where not given.
        """
        order, states = self.folds, [self._parts[fold] for fold in self.folds]
        before = list(accumulate(states, add, initial=self._empty))
        after = list(accumulate(reversed(states), add, initial=self._empty))[::-1]
        wanted = set(order if folds is None else folds)
        for k, fold in enumerate(order):
            if fold in wanted:
                yield fold, before[k] + after[k + 1]

    def map(self, change: Callable[[Statistics], Statistics]) -> Self:
        """The states that a function makes of those of the folds, such as narrower ones."""
        twin = type(self)(change(self._empty), self.rule)
        twin._parts = {fold: change(part) for fold, part in self._parts.items()}
        twin.n_dropped = self.n_dropped
        return twin
