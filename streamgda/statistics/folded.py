"""States by key, such as a fold or a pattern of features.

The statistics of folds are merged to the statistics of any training part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from operator import add, iadd
from typing import Any, Self, TypeVar

import numpy as np

from streamgda.data.blocks import labels
from streamgda.data.blocks.block import Block, FoldRule
from streamgda.data.blocks.labels import Codes, Labels
from streamgda.data.blocks.schema import Schema
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import kind_named
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.locking import Locked, both_locked

K = TypeVar("K")
S = TypeVar("S", bound=Any)


class Keyed(dict[K, S]):
    """A dictionary of states. A key that has no rows has no state."""

    @property
    def nbytes(self) -> int:
        """The size of the arrays of the states in bytes."""
        return sum(state.nbytes for state in self.values())

    def add(self, key: K, state: S, *, owned: bool = False) -> None:
        """Add a state to that of a key, in place. A new key gets a copy, or, if `owned`, the state itself."""
        if key in self:
            self[key].merge(state)
        else:
            self[key] = state if owned else state.copy()


def states_by_key(
    empty: Statistics, block: Block, keys: Labels, codes: Codes, workspace: Workspace
) -> Iterator[tuple[Any, Statistics]]:
    """Yield the state of the rows of each key in a block.

    Parameters
    ----------
    empty : Statistics
        The state of no rows. The labels of the rows are final, whatever its rule.
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
    if kind_named(empty.covariance_type).is_pooled:  # one scatter for all classes would mix the keys
        for k, rows in labels.positions_by_code(codes, len(keys)):
            yield keys[k].item(), _state_of(empty, block.take(rows), workspace)
        return
    n_classes, n_pairs = len(block.classes), len(keys) * len(block.classes)
    both = codes.astype(np.int64) * n_classes + block.codes  # a small type may not hold the number of classes
    used, both = labels.drop_unused(np.arange(n_pairs), both.astype(labels.code_dtype(n_pairs)))
    state = _state_of(empty, replace(block, classes=used, codes=both), workspace)
    of_key, of_class = np.divmod(used, n_classes)
    for k, places in labels.positions_by_code(of_key, len(keys)):
        yield keys[k].item(), state.of_classes(places, block.classes[of_class[places]])


class FoldStatistics(Locked):
    """Statistics of labelled rows: one state for each fold.

    Searches read rows into them, and `StatisticsLedger.fold_statistics` returns them. They take the memory
    of one state for each fold.

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
        with self.lock:
            return sorted(self._by_fold)

    def __getitem__(self, fold: Any) -> Statistics:
        """The statistics of the rows of a fold, with the features of all folds."""
        with self.lock:
            return self._by_fold[fold].in_schema(self.schema)

    @property
    def n_rows(self) -> int:
        """How many rows went in."""
        with self.lock:
            return sum(part.n_rows for part in self._by_fold.values())

    @property
    def classes(self) -> Labels:
        """The labels seen in any fold, sorted."""
        with self.lock:
            seen = (part.by_label().classes for part in self._by_fold.values())
            return reduce(labels.union, seen, labels.no_labels())

    @property
    def schema(self) -> Schema:
        """The features seen in any fold."""
        with self.lock:
            schemas = (part.schema for part in self._by_fold.values())
            return reduce(lambda one, other: one.union(other), schemas, self.empty.schema)

    @property
    def nbytes(self) -> int:
        """The size of the arrays of the states in bytes."""
        with self.lock:
            return self._by_fold.nbytes

    def __repr__(self) -> str:
        with self.lock:
            return f"FoldStatistics(folds={len(self._by_fold)}, rows={self.n_rows}, of {self.empty!r})"

    def __eq__(self, other: object) -> bool:
        """Whether two states are the same to the last bit."""
        if not isinstance(other, FoldStatistics):
            return NotImplemented
        with both_locked(self, other):
            ours, theirs = ((one.rule, one.n_dropped, one._by_fold) for one in (self, other))
            return ours == theirs

    # ------------------------------------------------------------------ rows go in

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of all blocks. If one block is refused, no rows are added."""
        workspace, together = workspace or Workspace(), FoldStatistics(self.empty, self.rule)
        for block in self.empty._to_add(blocks):
            together.n_dropped += block.n_dropped
            rows = replace(block, n_dropped=0)
            if not len(block.codes):  # of which the features are known
                together.empty = _state_of(together.empty, rows, workspace)
            else:
                folds, codes = self.rule.assign(block)
                for fold, state in states_by_key(self.empty, rows, folds, codes, workspace):
                    together._by_fold.add(fold, state, owned=True)
        self._merge(together, owned=True)

    # ------------------------------------------------------------------ states add up

    def merge(self, other: FoldStatistics) -> Self:
        """Add the rows of another state, in place. The other is left as it is.

        Raises
        ------
        ValueError
            If the two have other folds, or their statistics cannot be merged.
        """
        return self._merge(other)

    def _merge(self, other: FoldStatistics, *, owned: bool = False) -> Self:
        """Merge another state. If it is `owned`, nothing else holds it, and this one may take its states."""
        with both_locked(self, other):
            if self.rule != other.rule:
                raise ValueError(f"states with folds by {self.rule} and by {other.rule} cannot be merged")
            sums = Keyed(self._by_fold)
            for fold, theirs in other._by_fold.items():
                total = theirs if owned else theirs.copy()
                sums[fold] = total.merge(self._by_fold[fold]) if fold in sums else total
            empty = self.empty if self.empty.schema == other.empty.schema else self.empty + other.empty
            vars(self).update(empty=empty, _by_fold=sums, n_dropped=self.n_dropped + other.n_dropped)
        return self

    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place."""
        with self.lock:
            decayed = ((fold, state.copy().decay(factor)) for fold, state in self._by_fold.items())
            self._by_fold = Keyed(decayed)
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
        with self.lock:
            total = self.merged(self.folds)
            total._n_dropped += self.n_dropped
            return total

    def merged(self, folds: Iterable[Any]) -> Statistics:
        """The statistics of the rows of some folds, in this order."""
        with self.lock:
            return reduce(iadd, (self._by_fold[fold] for fold in folds), self.empty.copy())

    def held_out(self, folds: Iterable[Any] | None = None) -> Iterator[tuple[Any, Statistics]]:
        """Yield each fold, with the statistics of the rows of all the others.

        The states before the fold are merged with those after it. Nothing is subtracted, so no digit is lost.

        Parameters
        ----------
        folds : iterable, optional
            The folds to yield; all of them where not given.
        """
        with self.lock:
            known, states = self.folds, [self[fold].copy() for fold in self.folds]
        wanted = set(known if folds is None else folds)
        after = list(accumulate(reversed(states), add, initial=self.empty))[:-1]
        before = self.empty.copy()
        for fold, state in zip(known, states, strict=True):
            rest = after.pop()
            if fold in wanted:
                yield fold, before + rest
            before += state


@dataclass
class StatesTogether:
    """Statistics of folds, of the same rows under several rules, for which a search reads rows once.

    Attributes
    ----------
    states : sequence of FoldStatistics
        At least one.
    """

    states: Sequence[FoldStatistics]

    n_rows = property(lambda self: self.states[0].n_rows)
    n_dropped = property(lambda self: self.states[0].n_dropped)
    nbytes = property(lambda self: sum(state.nbytes for state in self.states))

    def update_blocks(self, blocks: Iterable[Block], workspace: Workspace | None = None) -> None:
        """Add the rows of some blocks to each of the states."""
        for block in blocks:
            for state in self.states:
                state.update_blocks([block], workspace)

    def copy(self) -> StatesTogether:
        """States of the same rows that do not change with these."""
        return StatesTogether([state.copy() for state in self.states])

    def __add__(self, other: StatesTogether) -> StatesTogether:
        return StatesTogether([a + b for a, b in zip(self.states, other.states, strict=True)])


def _state_of(empty: Statistics, block: Block, workspace: Workspace) -> Statistics:
    part: Any = empty._from_blocks([block], workspace)
    return empty.copy()._merge(part, owned=True)
