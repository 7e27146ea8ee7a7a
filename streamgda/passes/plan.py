"""A pass: splits folded into states, states merged in a fixed tree, all of it executed by Dask.

What a state is (statistics, an evaluation, a report of what was written) is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from streamgda.passes.blas import single_blas_thread
from streamgda.passes.schedulers import client_of
from streamgda.sources.base import Split

if TYPE_CHECKING:
    from dask.delayed import Delayed

FAN_IN = 8


class State(Protocol):
    """What a pass makes of rows."""

    @property
    def n_rows(self) -> int:
        """How many rows count."""

    @property
    def n_dropped(self) -> int:
        """How many were read and left out."""

    def __add__(self, other: Any, /) -> Any:
        """The two as one."""


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Plan:
    """The Dask graph of a pass: its end, and its beginnings with the rows that each reads."""

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
    """The graph of a pass; it depends on the groups alone, whoever runs it.

    Parameters
    ----------
    groups : sequence of sequences of Split
        What each task reads; at least one.
    fold : callable
        A task: makes a state of a group, in order, and of what is shared.
    merge : callable
        A task: makes one state of a few, in order.
    shared : object
        What every task needs, such as a model. A worker is sent it once.
    fan_in : int, default=8
        How many states are merged at once.
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
        part = delayed(partial(fold, group), pure=False)(shared)  # Dask need not look for Delayed in it
    else:
        part = delayed(fold, pure=False)(group, shared)
    return part


def add_up(parts: Sequence[S]) -> S:
    """A merge: one state of a few, in order."""
    return reduce(add, parts)


def n_rows_of(split: Split | Delayed) -> int | None:
    """How many rows a split has, where that is known before it is read."""
    return split.n_rows if isinstance(split, Split) else None


def _total(rows: Iterable[int | None]) -> int | None:
    """The sum, or None where it is not known."""
    known = list(rows)
    return None if None in known else sum(n for n in known if n is not None)


def compute_plan(plan: Plan, scheduler: Any, progress: bool) -> Any:
    """The state at the end of a plan, each task on one BLAS thread.

    Parameters
    ----------
    plan : Plan
        What to compute.
    scheduler : optional
        What `dask.compute` takes.
    progress : bool
        Whether to show rows done, rows per second and the time left.
    """
    with single_blas_thread:
        return _with_progress(plan, scheduler) if progress else plan.root.compute(scheduler=scheduler)


def _with_progress(plan: Plan, scheduler: Any) -> Any:
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


def _compute_here(plan: Plan, scheduler: Any, advance: Callable[[int], object]) -> Any:
    """Run the plan on one of Dask's local schedulers, which tell of each task that ends."""
    from dask.callbacks import Callback

    rows = {part.key: n_rows for part, n_rows in zip(plan.parts, plan.rows, strict=True)}
    with Callback(posttask=lambda key, *_: advance(rows.get(key) or 0)):
        return plan.root.compute(scheduler=scheduler)


def _compute_on(client: Any, plan: Plan, advance: Callable[[int], object]) -> Any:
    """Run the plan on a cluster, whose futures tell; each is let go as soon as it is counted."""
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
