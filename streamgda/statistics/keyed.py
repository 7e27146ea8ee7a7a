"""States by key, such as a fold or a pattern of features, and the states of a block by key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from streamgda.blocks.block import Block
from streamgda.blocks.labels import Codes, Labels, code_dtype, drop_unused
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
