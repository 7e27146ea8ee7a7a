"""Statistics of the rows of each fold, from which those of any training part are merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any, Self

import numpy as np

from streamgda.blocks.block import Block
from streamgda.blocks.folds import FoldRule
from streamgda.blocks.labels import Labels, code_dtype, drop_unused, no_labels, union
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import kind_named
from streamgda.statistics.gather import Workspace


class FoldStatistics:
    """Statistics of labelled rows, apart for each fold.

    `accumulate_folds` and `StatisticsLedger.fold_statistics` make them. They take the memory of one state for
    each fold.

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

    @classmethod
    def of(cls, empty: FoldStatistics, parts: Mapping[Any, Statistics], n_dropped: int) -> Self:
        """The state with these statistics of folds."""
        state = cls(empty.empty, empty.rule)
        state._parts, state.n_dropped = dict(parts), n_dropped
        return state

    # ------------------------------------------------------------------ properties

    @property
    def empty(self) -> Statistics:
        """The state of a fold that has no rows."""
        return self._empty

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
    def classes(self) -> Labels:
        """The labels seen in any fold, sorted."""
        return reduce(union, (part.classes for part in self._parts.values()), no_labels())

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
            if len(block.codes):
                is_pooled = kind_named(self._empty.covariance_type).is_pooled
                reduce = self._reduced_apart if is_pooled else self._reduced_at_once
                for fold, part in reduce(replace(block, n_dropped=0), workspace):
                    added._add(fold, part)
        self.merge(added)

    def _reduced_apart(self, block: Block, workspace: Workspace) -> Iterator[tuple[Any, Statistics]]:
        """The states of the folds of a block, whose rows are sorted by fold and class, and then cut."""
        folds, codes = self.rule.assign(block)
        order = np.lexsort((block.codes, codes))
        bounds, in_order = np.searchsorted(codes[order], np.arange(len(folds) + 1)), block.take(order)
        for k, fold in enumerate(folds.tolist()):
            if bounds[k] < bounds[k + 1]:
                part = in_order.between(int(bounds[k]), int(bounds[k + 1]))
                classes, own = drop_unused(part.classes, part.codes)
                yield fold, self._state_of(replace(part, classes=classes, codes=own), workspace)

    def _reduced_at_once(self, block: Block, workspace: Workspace) -> Iterator[tuple[Any, Statistics]]:
        """The states of the folds of a block, whose rows are reduced once, by fold and class."""
        folds, codes = self.rule.assign(block)
        n_classes = len(block.classes)
        pairs = np.arange(len(folds) * n_classes)
        both = codes.astype(code_dtype(len(pairs))) * n_classes + block.codes
        used, both = drop_unused(pairs, both.astype(code_dtype(len(pairs)), copy=False))
        state = self._state_of(replace(block, classes=used, codes=both), workspace)
        bounds = np.searchsorted(used, np.arange(len(folds) + 1) * n_classes)
        for k, fold in enumerate(folds.tolist()):
            held = np.arange(bounds[k], bounds[k + 1])
            if len(held):
                yield fold, state.of_classes(held, block.classes[used[held] - k * n_classes])

    def _state_of(self, block: Block, workspace: Workspace) -> Statistics:
        state = self._empty.copy()
        state.update_blocks([block], workspace)
        return state

    def _add(self, fold: Any, part: Statistics) -> None:
        held = self._parts.get(fold)
        self._parts[fold] = part.copy() if held is None else _merged(held, part)

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
            self._add(fold, part)
        self.n_dropped += other.n_dropped
        return self

    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place."""
        for part in self._parts.values():
            part.decay(factor)
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
        return reduce(_merged, (self._parts[fold] for fold in folds), self._empty.copy())

    def held_out(self, folds: Iterable[Any] | None = None) -> Iterator[tuple[Any, Statistics]]:
        """Yield each fold, with the statistics of the rows of all the others.

        They are merged, not subtracted, so that no digit is lost: those before the fold with those after it.

        Parameters
        ----------
        folds : iterable, optional
            The folds to yield; all of them where not given.
        """
        states = [self._parts[fold] for fold in self.folds]
        wanted = set(self.folds if folds is None else folds)
        after = list(accumulate(reversed(states), add, initial=self._empty))[:-1]
        before = self._empty.copy()
        for fold, state in zip(self.folds, states, strict=True):
            rest = after.pop()
            if fold in wanted:
                yield fold, before + rest
            before = _merged(before, state)


def _merged(total: Statistics, part: Statistics) -> Statistics:
    """The sum of two states; in place, unless only the second one keeps patterns of missing features."""
    if part.keeps_patterns and not total.keeps_patterns:
        return part.copy().merge(total)
    return total.merge(part)
