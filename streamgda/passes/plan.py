"""The Dask graph of a pass: splits folded into states, and states merged in a fixed tree.

A state can be statistics, an evaluation or a summary of what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from streamgda.passes.blas import single_blas_thread
from streamgda.passes.schedulers import Scheduler, client_of
from streamgda.sources.base import Split

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client

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


S = TypeVar("S", bound=State)


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
    """

    root: Delayed
    parts: list[Delayed]
    rows: list[int | None]


def plan_fold(
    groups: Sequence[Sequence[Split | Delayed]],
    fold: Callable[[Sequence[Any], Any], S],
    merge: Callable[[Sequence[S]], S],
    shared: Any,
    fan_in: int = FAN_IN,
) -> Plan:
    """The graph of a pass; it depends on the groups alone, and not on the scheduler.

    Parameters
    ----------
    groups : sequence of sequences of Split
        The splits that each task reads; at least one group.
    fold : callable
        The task that reads: from a group, in order, and `shared` to a state.
    merge : callable
        The task that merges a few states, in order, into one.
    shared : object
        What every reading task needs, such as a model.
    fan_in : int, default=8
        How many states one task merges.
    """
    from dask.delayed import delayed

    common = delayed(shared, pure=False, traverse=False)
    parts = [_part(group, fold, common) for group in groups]
    level = parts
    while len(level) > 1:
        level = [delayed(merge, pure=False)(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
    return Plan(level[0], parts, [_total(map(n_rows_of, group)) for group in groups])


def _part(
    group: Sequence[Split | Delayed], fold: Callable[[Sequence[Any], Any], S], shared: Delayed
) -> Delayed:
    from dask.delayed import delayed

    part: Delayed
    if all(isinstance(split, Split) for split in group):
        part = delayed(partial(fold, group), pure=False)(shared)  # Dask need not search it for Delayed
    else:
        part = delayed(fold, pure=False)(group, shared)
    return part


def add_up(parts: Sequence[S]) -> S:
    """Merge a few states, in order, by adding them."""
    return reduce(add, parts)


def n_rows_of(split: Split | Delayed) -> int | None:
    """The number of rows of a split, where it is known before the split is read."""
    return split.n_rows if isinstance(split, Split) else None


def _total(rows: Iterable[int | None]) -> int | None:
    """The sum, or None if a number is not known."""
    known = list(rows)
    return None if None in known else sum(n for n in known if n is not None)


def compute_plan(plan: Plan, scheduler: Scheduler, progress: bool) -> Any:
    """Run a plan and return its state, each task on one BLAS thread.

    Parameters
    ----------
    plan : Plan
        What to compute.
    scheduler : Scheduler
        What `dask.compute` takes.
    progress : bool
        Whether to show rows done, rows per second and the time left.
    """
    with single_blas_thread:
        return _with_progress(plan, scheduler) if progress else plan.root.compute(scheduler=scheduler)


def _with_progress(plan: Plan, scheduler: Scheduler) -> Any:
    from tqdm.auto import tqdm

    client = client_of(scheduler)
    with tqdm(total=_total(plan.rows), unit=" rows", unit_scale=True) as bar:
        if client is None:
            state = _compute_here(plan, scheduler, bar.update)
        else:
            state = _compute_on(client, plan, bar.update)
        if bar.total is None:
            bar.update(state.n_rows + state.n_dropped - bar.n)
    return state


def _compute_here(plan: Plan, scheduler: Scheduler, advance: Callable[[int], object]) -> Any:
    """Run the plan on a scheduler of this machine, which calls back after each task."""
    from dask.callbacks import Callback

    rows = {part.key: n_rows for part, n_rows in zip(plan.parts, plan.rows, strict=True)}
    with Callback(posttask=lambda key, *_: advance(rows.get(key) or 0)):
        return plan.root.compute(scheduler=scheduler)


def _compute_on(client: Client, plan: Plan, advance: Callable[[int], object]) -> Any:
    """Run the plan on a cluster; the future of a part is released as soon as its rows are counted."""
    from distributed import as_completed

    *parts, root = client.compute([*plan.parts, plan.root])
    rows = {part.key: n_rows for part, n_rows in zip(parts, plan.rows, strict=True)}
    with client.as_current():
        waiting = as_completed(parts)
    del parts
    for part in waiting:
        advance(rows[part.key] or 0)
        del part
    return root.result()
