"""What a pass does: splits folded into states, and states merged in a fixed tree.

A state can be statistics, an evaluation or a summary of what was written. The tree depends on the groups of
splits alone, and not on the scheduler. `graph` decides how much of the tree one task does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING, Any

from streamgda.sources.base import Split
from streamgda.storage.retries import RETRIES

if TYPE_CHECKING:
    from dask.delayed import Delayed

    from streamgda.passes.checkpoint import Checkpoint


@dataclass(frozen=True)
class Plan:
    """What a pass reads, and what it makes of it.

    Attributes
    ----------
    groups : sequence of sequences of Split
        The splits that are read into one state; at least one group.
    fold : callable
        Reads the splits of a group in order, and returns a state. It is called with the group and `shared`,
        and may be called again for the same group.
    shared : object
        What every reading task needs, such as a model.
    merge : callable
        Makes one state of two, in order.
    finish : callable, optional
        Makes the result from the state of all rows, in a task of its own.
    retries : int
        How often a group is read again where storage fails.
    checkpoint : Checkpoint, optional
        Where states are kept for a pass that begins again.
    """

    groups: Sequence[Sequence[Split | Delayed]]
    fold: Callable[[Sequence[Any], Any], Any]
    shared: Any
    merge: Callable[[Any, Any], Any] = add
    finish: Callable[[Any], Any] | None = None
    retries: int = RETRIES
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True)
class Amount:
    """How much one or more tasks read: rows, bytes and groups of splits. None is a number not yet known."""

    rows: int | None = 0
    bytes: int | None = 0
    tasks: int = 0

    @classmethod
    def of(cls, groups: Sequence[Sequence[Any]]) -> Amount:
        """What some groups hold."""
        splits = [split for group in groups for split in group]
        sizes = (split.n_bytes if isinstance(split, Split) else None for split in splits)
        return cls(total(map(n_rows_of, splits)), total(sizes), len(groups))

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            total((self.rows, other.rows)), total((self.bytes, other.bytes)), self.tasks + other.tasks
        )


def n_rows_of(split: Split | Delayed) -> int | None:
    """The number of rows of a split, where it is known before the split is read."""
    return split.n_rows if isinstance(split, Split) else None


def total(numbers: Iterable[int | None]) -> int | None:
    """The sum, or None if a number is not known."""
    known = list(numbers)
    return None if None in known else sum(n for n in known if n is not None)
