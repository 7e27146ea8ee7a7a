"""What a pass reads, and what it makes of it: splits folded into states, and states merged in a fixed tree.

A state can be statistics, an evaluation or a summary of what was written. The states of eight consecutive
groups of splits are merged in order, then eight such states, and so on. So the tree, and with it the bits of
the result, depend on the groups alone, and not on the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add, iadd
from typing import TYPE_CHECKING, Any, TypeVar

from streamgda.data.sources.splits import Groups
from streamgda.data.storage.retries import RETRIES, repeated

if TYPE_CHECKING:
    from streamgda.jobs.passes.checkpoint import Checkpoint

T = TypeVar("T")
Fold = Callable[[Iterable[Any], Any], Any]
Merge = Callable[[Any, Any], Any]
FAN_IN = 8
IN_SEQUENCE = 1 << 12  # groups; where there are more, a task of a cluster reads eight of them


@dataclass(frozen=True)
class Plan:
    """What a pass reads, and what it makes of it.

    Attributes
    ----------
    groups : sequence of sequences of Split
        The splits that are read into one state; at least one group.
    fold : callable
        Reads the splits of a group in order, and returns a state. It is called with the splits, whose data
        are fetched ahead, and `shared`, and may be called again for the same group.
    shared : object
        What every reading task needs, such as a model.
    merge : callable
        Makes one state of two, in order.
    finish : callable, optional
        Makes the result from the state of all rows.
    retries : int
        How often a group is read again where storage fails.
    checkpoint : Checkpoint, optional
        Where states are kept for a pass that begins again.
    """

    groups: Groups
    fold: Fold
    shared: Any
    merge: Merge = add
    finish: Callable[[Any], Any] | None = None
    retries: int = RETRIES
    checkpoint: Checkpoint | None = None

    @property
    def is_long(self) -> bool:
        """Whether there are so many groups that each of them costs the scheduler of a cluster too much."""
        return len(self.groups) > IN_SEQUENCE

    def subtotals(self) -> Iterator[Subtotal]:
        """The groups, in subtotals, which the checkpoint keeps; in one if there is no checkpoint."""
        if self.checkpoint is None:
            yield Subtotal(self.groups)
            return
        names = self.checkpoint.names()
        for groups in batched(self.groups, FAN_IN**2 if self.is_long else FAN_IN):
            name = self.checkpoint.name_of(groups)
            yield Subtotal(groups, name, name in names)


@dataclass(frozen=True)
class Subtotal:
    """Consecutive groups, the name of their state in a checkpoint, and whether it is there."""

    groups: Groups
    name: str = ""
    is_there: bool = False

    def each(self) -> Iterator[Groups]:
        """The groups whose state is read, or loaded, at once."""
        return iter([self.groups]) if self.is_there else ([group] for group in self.groups)


def batched(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence as `itertools.batched` of Python 3.12 does, by slices."""
    return (values[i : i + size] for i in range(0, len(values), size))


def in_place(merge: Merge) -> Merge:
    """The merge that may change its first state, where nothing else needs that state."""
    return iadd if merge is add else merge


def read_group(group: Sequence[Any], fold: Fold, shared: Any, retries: int) -> Any:
    """The state of a group. It is read again if its storage fails, unless it can be read but once."""
    from streamgda.data.storage.fetching import fetch_ahead  # and with it pyarrow, where it is used

    once = any(split.is_read_once for split in group)
    return repeated(lambda: fold(fetch_ahead(group), shared), 0 if once else retries)
