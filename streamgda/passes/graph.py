"""What a pass does, and its Dask graph: splits folded into states, and states merged in a fixed tree.

A state can be statistics, an evaluation or a summary of what was written. The tree depends on the groups of
splits alone, and not on the scheduler.

The states of eight consecutive groups are merged in order, then eight such states, and so on. Each merge is a
task, so that few states wait. On a cluster, where each task costs the scheduler, one task merges eight states
if they are small; and where there are thousands of groups, one task reads eight of them in sequence and
merges their states. The bits are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add, iadd
from typing import TYPE_CHECKING, Any, TypeVar

from streamgda.sources.base import Groups, Split, Upcoming
from streamgda.storage.retries import RETRIES, noting_retries, repeated

if TYPE_CHECKING:
    from dask.delayed import Delayed

    from streamgda.passes.checkpoint import Checkpoint
T = TypeVar("T")
Fold = Callable[[Sequence[Any], Any], Any]
Merge = Callable[[Any, Any], Any]
FAN_IN = 8
IN_SEQUENCE = 1 << 12  # groups; where there are more, a task of a cluster reads eight of them
LARGE_STATE = 1 << 21  # bytes; to send them takes as long as one more task


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


@dataclass
class Outcome:
    """What a task returns: a state, and the errors after which its rows were read again."""

    state: Any
    noted: list[str] = field(default_factory=list)

    def __sizeof__(self) -> int:
        """The size in bytes that Dask sees: that of the state too."""
        return object.__sizeof__(self) + int(getattr(self.state, "nbytes", 0))


@dataclass
class Graph:
    """A graph in the making.

    Attributes
    ----------
    on_cluster : bool
        Whether tasks are made for a cluster.
    upcoming : Upcoming, optional
        What fetches ahead for tasks that run in this process.
    tasks : dict
        The graph.
    reading : dict
        How much is read by each task that reads rows or loads a state, by the key of the task.
    delayed : list of Delayed
        What tasks take from Dask collections.
    state_bytes : int, optional
        The size of the state of one reading task, when it is known.
    """

    on_cluster: bool
    upcoming: Upcoming | None = None
    tasks: dict[Any, Any] = field(default_factory=dict)
    reading: dict[Hashable, Amount] = field(default_factory=dict)
    delayed: list[Any] = field(default_factory=list)
    state_bytes: int | None = None
    _merged_runs: dict[Hashable, Sequence[Hashable]] = field(default_factory=dict)
    _token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def add_plans(self, plans: Sequence[Plan]) -> Hashable:
        """Add the tasks of some plans, and return the key of the `Outcome` of all of them."""
        shared: dict[int, Hashable] = {}
        roots = []
        for plan in plans:
            if id(plan.shared) not in shared:
                shared[id(plan.shared)] = self._add("shared", partial(_itself, plan.shared))
            root = self._add_plan(plan, shared[id(plan.shared)])
            if plan.finish is not None:
                root = self._add(_name_of(plan.finish), plan.finish, root)
            roots.append(root)
        return roots[0] if len(roots) == 1 else self._add("collect", _listed, *roots)

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
            run = self._merged_runs.get(key)
            height = max((heights.get(part, 0) for part in run or parts), default=0)
            heights[key] = height if run is None else height + 1
            is_small = state_bytes * FAN_IN**height < LARGE_STATE
            tasks[key] = states.get(key, (call, *(run if run and is_small else parts)))
        return self._joined(tasks)

    def _joined(self, tasks: Mapping[Any, Any]) -> Mapping[Any, Any]:
        if not self.delayed:
            return tasks
        from dask.highlevelgraph import HighLevelGraph

        return HighLevelGraph.from_collections(self._token, tasks, self.delayed)

    def _add_plan(self, plan: Plan, shared: Hashable) -> Hashable:
        groups, checkpoint = plan.groups, plan.checkpoint
        many = len(groups) > IN_SEQUENCE
        size = FAN_IN if many and self.on_cluster and not any(map(_delayed_in, groups)) else 1
        if checkpoint is None:
            return self._subtree(plan, groups, shared, size)
        kept, level = checkpoint.kept(), []
        for run in _runs(groups, FAN_IN**2 if many else FAN_IN):
            name = checkpoint.name_of(run)
            if name in kept:
                key = self._add("load", partial(checkpoint.read, name))
                self.reading[key] = Amount.of(run)
            else:
                key = self._subtree(plan, run, shared, size)
                key = self._add("keep", partial(_keep, checkpoint, name), key)
            level.append(key)
        return self._tree(plan.merge, level)

    def _subtree(self, plan: Plan, groups: Groups, shared: Hashable, size: int) -> Hashable:
        """The tasks that read some groups, `size` of them in each, and merge their states."""
        return self._tree(plan.merge, [self._add_reading(plan, run, shared) for run in _runs(groups, size)])

    def _add_reading(self, plan: Plan, groups: Groups, shared: Hashable) -> Hashable:
        delayed = [split for group in groups for split in _delayed_in(group)]
        if delayed:
            self.delayed.extend(delayed)
            call = partial(_fold_computed, plan.fold)
            key = self._add(_name_of(plan.fold), call, shared, *(split.key for split in delayed))
        else:  # in a partial, since Dask would search other arguments for keys
            name = _name_of(plan.fold)
            here = self.upcoming
            take = here.add(self._next_key(name), groups) if here else partial(_itself, groups)
            call = partial(_fold_groups, take, plan.fold, _in_place(plan.merge), plan.retries)
            key = self._add(name, call, shared)
        self.reading[key] = Amount.of(groups)
        return key

    def _tree(self, merge: Merge, level: list[Hashable]) -> Hashable:
        while len(level) > 1:
            level = [self._merged(merge, run) for run in _runs(level, FAN_IN)]
        return level[0]

    def _merged(self, merge: Merge, run: Sequence[Hashable]) -> Hashable:
        if len(run) == 1:
            return run[0]
        # A merge on a cluster may run again, and needs its states unchanged.
        call = partial(_merge_in_order, merge if self.on_cluster else _in_place(merge))
        key = reduce(partial(self._add, "merge", call), run)
        self._merged_runs[key] = run
        return key

    def _add(self, name: str, call: Callable[..., Any], *keys: Hashable) -> Hashable:
        key = self._next_key(name)
        self.tasks[key] = (partial(_noting, call), *keys)
        return key

    def _next_key(self, name: str) -> Hashable:
        return f"{name}-{self._token}", len(self.tasks)


def _runs(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (values[i : i + size] for i in range(0, len(values), size))


def _name_of(call: Callable[..., Any]) -> str:
    from dask.utils import funcname

    return str(funcname(call))


def _delayed_in(group: Sequence[Any]) -> list[Any]:
    from dask.base import is_dask_collection

    return [split for split in group if is_dask_collection(split)]


def _in_place(merge: Merge) -> Merge:
    """The merge that may change its first state, since nothing else needs that state."""
    return iadd if merge is add else merge


# ---------------------------------------------------------------------- tasks


def _noting(call: Callable[..., Any], *parts: Any) -> Outcome:
    """Run any task: call a function with the states of other tasks, and note what storage failed with."""
    outcomes = [part if isinstance(part, Outcome) else Outcome(part) for part in parts]
    with noting_retries() as noted:
        state = call(*(outcome.state for outcome in outcomes))
    return Outcome(state, [*(said for outcome in outcomes for said in outcome.noted), *noted])


def _itself(value: T) -> T:
    return value


def _listed(*states: Any) -> list[Any]:
    return list(states)


def _fold_groups(take: Callable[[], Groups], fold: Fold, merge: Merge, retries: int, shared: Any) -> Any:
    """Read groups of splits in order, and merge their states. A group is read again if its storage fails."""

    def read(group: Sequence[Any]) -> Any:
        # It has no rows left to read again.
        once = any(getattr(split, "is_read_once", False) for split in group)
        return repeated(partial(fold, group, shared), 0 if once else retries)

    return reduce(merge, map(read, take()))


def _fold_computed(fold: Fold, shared: Any, *splits: Split) -> Any:
    """Read splits that Dask has computed."""
    return fold(splits, shared)


def _merge_in_order(merge: Merge, first: Any, second: Any, *others: Any) -> Any:
    return reduce(_in_place(merge), others, merge(first, second))


def _keep(checkpoint: Checkpoint, name: str, state: Any) -> Any:
    """Write a state, and pass it on."""
    checkpoint.write(name, state)
    return state
