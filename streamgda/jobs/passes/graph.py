"""The Dask graph of plans, for clusters, processes and all that Dask alone can run.

Each merge is a task, so that few states wait. On a cluster, where each task costs the scheduler, one task
merges eight states if they are small. Where there are thousands of groups, one task reads eight of them in
sequence and merges their states. The bits are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from streamgda.data.sources.splits import Groups, LazySplit, Split
from streamgda.data.storage.retries import noting_retries
from streamgda.jobs.passes.plan import FAN_IN, Fold, Merge, Plan, batched, in_place, read_group
from streamgda.statistics.kernels.blas import single_blas_thread

if TYPE_CHECKING:
    from dask.delayed import Delayed

    from streamgda.jobs.passes.checkpoint import Checkpoint
T = TypeVar("T")
LARGE_STATE = 1 << 21  # bytes; to send them takes as long as one more task


@dataclass
class Outcome:
    """What a task returns: a state, and the errors after which its rows were read again."""

    state: Any
    errors: list[str] = field(default_factory=list)

    def __sizeof__(self) -> int:
        """The size in bytes that Dask sees: that of the state too."""
        return object.__sizeof__(self) + int(getattr(self.state, "nbytes", 0))


@dataclass
class Graph:
    """A graph in the making.

    Attributes
    ----------
    tasks : dict
        The graph.
    reading : dict
        What is read by each task that reads rows or loads a state, by the key of the task.
    delayed : list of Delayed
        What tasks take from Dask collections.
    state_bytes : int, optional
        The size of the state of one reading task, when it is known.
    """

    tasks: dict[Any, Any] = field(default_factory=dict)
    reading: dict[Hashable, Groups] = field(default_factory=dict)
    delayed: list[Any] = field(default_factory=list)
    state_bytes: int | None = None
    _merged_parts: dict[Hashable, Sequence[Hashable]] = field(default_factory=dict)
    _token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def add_plans(self, plans: Sequence[Plan]) -> Hashable:
        """Add the tasks of some plans, and return the key of the `Outcome` of all of them."""
        shared: dict[int, Hashable] = {}
        roots = []
        for plan in plans:
            if id(plan.shared) not in shared:
                shared[id(plan.shared)] = self._add("shared", partial(_itself, plan.shared))
            root = self._add_plan(plan, shared[id(plan.shared)])
            roots.append(root if plan.finish is None else self._add("finish", plan.finish, root))
        return roots[0] if len(roots) == 1 else self._add("collect", _list_of, *roots)

    def whole(self) -> Mapping[Any, Any]:
        """The graph, joined with the graphs of the Dask collections that it reads."""
        return self._joined(self.tasks)

    def after(self, states: Mapping[Hashable, Any], state_bytes: int) -> Mapping[Any, Any]:
        """The graph with some states in place of the tasks that made them, and with fewer merging tasks.

        A task that merges a pair holds two states and their sum; one that merges eight small ones holds nine.
        States grow by merging where their classes differ: each is at most as large as its parts together.
        """
        self.state_bytes = state_bytes
        heights: dict[Hashable, int] = {}
        tasks: dict[Any, Any] = {}
        for key, (call, *parts) in self.tasks.items():
            merged = self._merged_parts.get(key)
            height = max((heights.get(part, 0) for part in merged or parts), default=0)
            heights[key] = height if merged is None else height + 1
            is_small = state_bytes * FAN_IN**height < LARGE_STATE
            tasks[key] = states.get(key, (call, *(merged if merged and is_small else parts)))
        return self._joined(tasks)

    def _joined(self, tasks: Mapping[Any, Any]) -> Mapping[Any, Any]:
        if not self.delayed:
            return tasks
        from dask.highlevelgraph import HighLevelGraph

        return HighLevelGraph.from_collections(self._token, tasks, self.delayed)

    def _add_plan(self, plan: Plan, shared: Hashable) -> Hashable:
        level, size = [], FAN_IN if plan.is_long and not any(map(_delayed_in, plan.groups)) else 1
        for subtotal in plan.subtotals():
            if plan.checkpoint and subtotal.is_there:
                key = self._add("load", partial(plan.checkpoint.load, subtotal.name))
                self.reading[key] = subtotal.groups
            else:
                together = batched(subtotal.groups, size)
                key = self._tree(plan.merge, [self._add_reading(plan, groups, shared) for groups in together])
                if plan.checkpoint:
                    key = self._add("keep", partial(_keep, plan.checkpoint, subtotal.name), key)
            level.append(key)
        return self._tree(plan.merge, level)

    def _add_reading(self, plan: Plan, groups: Groups, shared: Hashable) -> Hashable:
        name, delayed = getattr(plan.fold, "__name__", "fold"), _delayed_in(chain.from_iterable(groups))
        if delayed:
            self.delayed.extend(delayed)
            key = self._add(name, partial(_fold_computed, plan.fold), shared, *(part.key for part in delayed))
        else:  # in a partial, since Dask would search other arguments for keys
            call = partial(_fold_groups, groups, plan.fold, in_place(plan.merge), plan.retries)
            key = self._add(name, call, shared)
        self.reading[key] = groups
        return key

    def _tree(self, merge: Merge, level: list[Hashable]) -> Hashable:
        while len(level) > 1:
            level = [self._merged(merge, states) for states in batched(level, FAN_IN)]
        return level[0]

    def _merged(self, merge: Merge, states: Sequence[Hashable]) -> Hashable:
        if len(states) == 1:
            return states[0]
        key = reduce(partial(self._add, "merge", partial(_merge_in_order, merge)), states)
        self._merged_parts[key] = states
        return key

    def _add(self, name: str, call: Callable[..., Any], *keys: Hashable) -> Hashable:
        key = f"{name}-{self._token}", len(self.tasks)
        self.tasks[key] = (partial(_noting, call), *keys)
        return key


def _delayed_in(group: Iterable[Split]) -> list[Delayed]:
    return [split.delayed for split in group if isinstance(split, LazySplit)]


# ---------------------------------------------------------------------- tasks


def _noting(call: Callable[..., Any], *parts: Any) -> Outcome:
    """Run any task, on one BLAS thread, with the states of other tasks, and note the errors of storage."""
    outcomes = [part if isinstance(part, Outcome) else Outcome(part) for part in parts]
    with single_blas_thread(), noting_retries() as errors:
        state = call(*(outcome.state for outcome in outcomes))
    return Outcome(state, [*(error for outcome in outcomes for error in outcome.errors), *errors])


def _itself(value: T) -> T:
    return value


def _list_of(*states: Any) -> list[Any]:
    return list(states)


def _fold_groups(groups: Groups, fold: Fold, merge: Merge, retries: int, shared: Any) -> Any:
    """Read groups of splits in order, and merge their states."""
    return reduce(merge, (read_group(group, fold, shared, retries) for group in groups))


def _fold_computed(fold: Fold, shared: Any, *splits: Split) -> Any:
    """Read splits that Dask has computed."""
    return fold(splits, shared)


def _merge_in_order(merge: Merge, first: Any, second: Any, *others: Any) -> Any:
    """Merge states, which stay as they are, since the task may run again."""
    return reduce(in_place(merge), others, merge(first, second))


def _keep(checkpoint: Checkpoint, name: str, state: Any) -> Any:
    """Write a state, and pass it on."""
    checkpoint.write(name, state)
    return state
