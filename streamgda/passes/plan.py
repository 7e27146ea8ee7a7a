"""The Dask graph of a pass: splits folded into states, and states merged in a fixed tree.

A state can be statistics, an evaluation or a summary of what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol

from streamgda.sources.base import Split

if TYPE_CHECKING:
    from dask.delayed import Delayed

FAN_IN = 8


class State(Protocol):
    """What a pass computes from rows."""

    @property
    def n_rows(self) -> int:
        """How many rows it holds."""

    @property
    def n_dropped(self) -> int:
        """How many rows were read and left out."""

    def __add__(self, other: Any, /) -> Any:
        """The two merged."""


@dataclass(frozen=True)
class Plan:
    """The Dask graph of a pass.

    Attributes
    ----------
    root : Delayed
        The state of all the rows.
    parts : list of Delayed
        The tasks that read.
    rows : list of (int or None)
        The number of rows that each of these reads, where it is known.
    shared : object
        What every reading task needs.
    """

    root: Delayed
    parts: list[Delayed]
    rows: list[int | None]
    shared: Any


def plan_fold(
    groups: Sequence[Sequence[Split | Delayed]],
    fold: Callable[[Sequence[Any], Any], State],
    shared: Any,
    merge: Callable[[Any, Any], Any] = add,
) -> Plan:
    """The graph of a pass; it depends on the groups alone, and not on the scheduler.

    Consecutive states are merged two by two, each as soon as it is computed: eight of them to one at each
    level of the tree. So at each level one state grows, and few wait.

    Parameters
    ----------
    groups : sequence of sequences of Split
        The splits that each task reads; at least one group.
    fold : callable
        The task that reads: from a group, in order, and `shared` to a state.
    shared : object
        What every reading task needs, such as a model.
    merge : callable, default=operator.add
        The task that makes one state of two, in order.
    """
    from dask.delayed import delayed

    merged = delayed(merge, pure=False)
    common = delayed(shared, pure=False, traverse=False)
    parts = [_part(group, fold, common) for group in groups]
    level = parts
    while len(level) > 1:
        level = [reduce(merged, level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return Plan(level[0], parts, [total(map(n_rows_of, group)) for group in groups], shared)


def _part(
    group: Sequence[Split | Delayed], fold: Callable[[Sequence[Any], Any], State], shared: Delayed
) -> Delayed:
    from dask.delayed import delayed

    part: Delayed
    if all(isinstance(split, Split) for split in group):
        part = delayed(partial(fold, group), pure=False)(shared)  # Dask need not search it for Delayed
    else:
        part = delayed(fold, pure=False)(group, shared)
    return part


def n_rows_of(split: Split | Delayed) -> int | None:
    """The number of rows of a split, where it is known before the split is read."""
    return split.n_rows if isinstance(split, Split) else None


def total(rows: Iterable[int | None]) -> int | None:
    """The sum, or None if a number is not known."""
    known = list(rows)
    return None if None in known else sum(n for n in known if n is not None)
