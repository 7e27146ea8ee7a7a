"""States by key, such as a fold or a pattern of features.

The statistics of folds are merged to the statistics of any training part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from operator import add, iadd
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from streamgda.blocks.block import Block, FoldRule
from streamgda.blocks.categories import Categories
from streamgda.blocks.labels import Codes, Labels, code_dtype, drop_unused, no_labels, union
from streamgda.kernels import Workspace
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import kind_named


class Summed(Protocol):
    """A state to which others are added."""

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""

    def copy(self) -> Self:
        """A state that does not change with this one."""

    def __iadd__(self, other: Any) -> Any:
        """Add the rows of another state; mostly in place."""


K = TypeVar("K")
S = TypeVar("S", bound=Summed)


class Keyed(dict[K, S]):
    """A dictionary of states. A key that has no rows has no state."""

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of the states."""
        return sum(state.nbytes for state in self.values())

    def add(self, key: K, state: S, *, owned: bool = False) -> None:
        """Add a state to that of a key, in place. A new key gets a copy, or, if `owned`, the state itself."""
        if key in self:
            total: Any = self[key]
            total += state
            self[key] = total
        else:
            self[key] = state if owned else state.copy()


def states_by_key(
    empty: Statistics, block: Block, keys: Labels, codes: Codes, workspace: Workspace
) -> Iterator[tuple[Any, Statistics]]:
    """Yield the state of the rows of each key in a block.

    Parameters
    ----------
    empty : Statistics
        The state of no rows. Rows are not kept apart by its centres of subclasses: their labels are final.
    block : Block
        The rows, of which none was dropped.
    keys : ndarray of shape (n_keys,)
        The keys, sorted.
    codes : ndarray of shape (n_rows,)
        The position of each row's key among them.
    workspace : Workspace
        As for `Statistics.update_blocks`.

    Yields
    ------
    key, state
        For each key that has rows.
    """
    n_classes = len(block.classes)
    pairs = np.arange(len(keys) * n_classes)
    both = codes.astype(code_dtype(len(pairs))) * n_classes + block.codes
    if kind_named(empty.covariance_type).is_pooled:  # one scatter for all classes would mix the keys
        order = np.argsort(both, kind="stable")
        bounds = np.searchsorted(both[order], np.arange(len(keys) + 1) * n_classes)
        for k, key in enumerate(keys.tolist()):
            if bounds[k] < bounds[k + 1]:
                yield key, _state_of(empty, block.take(order[bounds[k] : bounds[k + 1]]), workspace)
        return
    used, both = drop_unused(pairs, both.astype(code_dtype(len(pairs)), copy=False))
    state = _state_of(empty, replace(block, classes=used, codes=both), workspace)
    bounds = np.searchsorted(used, np.arange(len(keys) + 1) * n_classes)
    for k, key in enumerate(keys.tolist()):
        held = np.arange(bounds[k], bounds[k + 1])
        if len(held):
            yield key, state.of_classes(held, block.classes[used[held] - k * n_classes])


def _state_of(empty: Statistics, block: Block, workspace: Workspace) -> Statistics:
    state = empty.copy()
    state.keep_apart(None)
    state.update_blocks([block], workspace)
    state.keep_apart(empty.subclass_centers)
    return state


class FoldStatistics:
    """Statistics of labelled rows: one state for each fold.

    `accumulate_folds` and `StatisticsLedger.fold_statistics` make them. They take the memory of one state for
    each fold.

    Parameters
    ----------
    empty : ClassStatistics or ExactClassStatistics
        The state that has seen no rows.
    rule : FoldRule
        Which fold a row is of.
    by_fold : mapping of fold to Statistics, optional
        The statistics of folds.
    n_dropped : int, default=0
        How many rows were left out because something was missing.
    """

    def __init__(
        self,
        empty: Statistics,
        rule: FoldRule,
        by_fold: Mapping[Any, Statistics] | None = None,
        n_dropped: int = 0,
    ) -> None:
        self.empty, self.rule, self.n_dropped = empty.copy(), rule, n_dropped
        self._by_fold = Keyed[Any, Statistics](by_fold or {})

    @property
    def folds(self) -> list[Any]:
        """The folds that have rows, sorted."""
        return sorted(self._by_fold)

    def __getitem__(self, fold: Any) -> Statistics:
        """The statistics of the rows of a fold, with the categories of all folds."""
        state, categories = self._by_fold[fold], self.categories
        return state if categories is None else state.with_categories(categories)

    @property
    def n_rows(self) -> int:
        """How many rows went in."""
        return sum(part.n_rows for part in self._by_fold.values())

    @property
    def classes(self) -> Labels:
        """The labels seen in any fold, sorted."""
        return reduce(union, (part.class_labels for part in self._by_fold.values()), no_labels())

    @property
    def categories(self) -> Categories | None:
        """The categories seen in any fold; None if all columns are numbers."""
        found = [part.categories for part in self._by_fold.values() if part.categories is not None]
        return reduce(Categories.union, found) if found else None

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of the states."""
        return self._by_fold.nbytes

    def __repr__(self) -> str:
        return f"FoldStatistics(folds={len(self._by_fold)}, rows={self.n_rows}, of {self.empty!r})"

    def __eq__(self, other: object) -> bool:
        """Whether two states are the same to the last bit."""
        if not isinstance(other, FoldStatistics):
            return NotImplemented
        ours, theirs = ((one.rule, one.n_dropped, one._by_fold) for one in (self, other))
        return ours == theirs

    # ------------------------------------------------------------------ rows go in

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of all blocks. If one block is refused, no rows are added."""
        workspace, together = workspace or Workspace(), FoldStatistics(self.empty, self.rule)
        centers = self.empty.subclass_centers
        for block in blocks if centers is None else map(centers.assign, blocks):
            together.n_dropped += block.n_dropped
            if len(block.codes):
                folds, codes = self.rule.assign(block)
                rows = replace(block, n_dropped=0)
                for fold, state in states_by_key(self.empty, rows, folds, codes, workspace):
                    together._by_fold.add(fold, state, owned=True)
        self.merge(together)

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
        for fold, state in other._by_fold.items():
            self._by_fold.add(fold, state)
        self.n_dropped += other.n_dropped
        return self

    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place."""
        for state in self._by_fold.values():
            state.decay(factor)
        return self

    def copy(self) -> Self:
        """A state of the same rows that does not change with this one."""
        return type(self)(self.empty, self.rule).merge(self)

    def __add__(self, other: object) -> Self:
        return self.copy().merge(other) if isinstance(other, FoldStatistics) else NotImplemented

    def __iadd__(self, other: object) -> Self:
        return self.merge(other) if isinstance(other, FoldStatistics) else NotImplemented

    # ------------------------------------------------------------------ states come out

    def total(self) -> Statistics:
        """The statistics of the rows of all folds."""
        return self.merged(self.folds)

    def merged(self, folds: Iterable[Any]) -> Statistics:
        """The statistics of the rows of some folds, in this order."""
        return reduce(iadd, (self._by_fold[fold] for fold in folds), self.empty.copy())

    def held_out(self, folds: Iterable[Any] | None = None) -> Iterator[tuple[Any, Statistics]]:
        """Yield each fold, with the statistics of the rows of all the others.

        The states before the fold are merged with those after it. Nothing is subtracted, so no digit is lost.

        Parameters
        ----------
        folds : iterable, optional
            The folds to yield; all of them where not given.
        """
        states = [self[fold] for fold in self.folds]
        wanted = set(self.folds if folds is None else folds)
        after = list(accumulate(reversed(states), add, initial=self.empty))[:-1]
        before = self.empty.copy()
        for fold, state in zip(self.folds, states, strict=True):
            rest = after.pop()
            if fold in wanted:
                yield fold, before + rest
            before += state


class SideBySide:
    """Statistics of folds, of the same rows kept apart by other subclasses, for which rows are read once.

    Parameters
    ----------
    states : sequence of FoldStatistics
        At least one.
    """

    def __init__(self, states: Sequence[FoldStatistics]) -> None:
        self.states = [state.copy() for state in states]

    @property
    def n_rows(self) -> int:
        """How many rows went in."""
        return self.states[0].n_rows

    @property
    def n_dropped(self) -> int:
        """How many rows were left out because something was missing."""
        return self.states[0].n_dropped

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays of the states."""
        return sum(state.nbytes for state in self.states)

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks to each of the states."""
        for block in blocks:
            for state in self.states:
                state.update_blocks([block], workspace)

    def copy(self) -> Self:
        """States of the same rows that do not change with these."""
        return type(self)(self.states)

    def __iadd__(self, other: SideBySide) -> Self:
        for ours, theirs in zip(self.states, other.states, strict=True):
            ours.merge(theirs)
        return self

    def __add__(self, other: SideBySide) -> Self:
        total = self.copy()
        total += other
        return total
