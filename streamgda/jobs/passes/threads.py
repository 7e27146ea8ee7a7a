"""Run a plan in threads of this process.

A group waits for a thread, while its data are fetched from remote storage; it is read, and read again if the
storage fails; its state goes into the tree of merges, in the order of the groups; the progress is reported.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial, reduce
from itertools import chain, pairwise
from typing import Any

from streamgda.data.storage.threads import read_ahead
from streamgda.jobs.passes.plan import FAN_IN, Merge, Plan, Subtotal, in_place, read_group
from streamgda.jobs.passes.progress import Listener


class Tree:
    """Merges the states of consecutive groups: eight of a level make one of the next."""

    def __init__(self, merge: Merge) -> None:
        self._merge = merge
        self._levels: list[tuple[int, Any]] = []  # how many states of each level are merged, and their sum

    def add(self, state: Any, level: int = 0) -> None:
        """Add the next state of a level."""
        if level == len(self._levels):
            self._levels.append((0, None))
        n, before = self._levels[level]
        state = self._merge(before, state) if n else state
        self._levels[level] = (n + 1, state) if n + 1 < FAN_IN else (0, None)
        if n + 1 == FAN_IN:
            self.add(state, level + 1)

    def total(self) -> Any:
        """The state of all groups."""
        states = [state for n, state in self._levels if n]
        return reduce(lambda rest, state: self._merge(state, rest), states)


def compute_in_threads(plans: Sequence[Plan], n_threads: int, listener: Listener) -> list[Any]:
    """Run plans in some threads, or in this one if their number is 0, and return their states."""
    subtotals = [list(plan.subtotals()) for plan in plans]
    calls: Iterator[Any] = chain.from_iterable(map(_calls, plans, subtotals))
    in_advance = (call for call, _ in pairwise(chain(calls, [None])))  # so data of one more are fetched
    with closing(read_ahead(operator.call, in_advance, 2 * n_threads, n_threads=n_threads)) as states:
        return [_state_of(*pair, states, listener) for pair in zip(plans, subtotals, strict=True)]


def _calls(plan: Plan, subtotals: Sequence[Subtotal]) -> Iterator[Callable[[], Any]]:
    """Yield calls that return the states of subtotals. The first split of a group is fetched from then on."""
    for subtotal in subtotals:
        for groups in subtotal.each():
            if plan.checkpoint and subtotal.is_there:
                yield partial(plan.checkpoint.load, subtotal.name)
            else:
                first, *others = groups[0]
                yield partial(read_group, [first.fetched(), *others], plan.fold, plan.shared, plan.retries)


def _state_of(plan: Plan, subtotals: Sequence[Subtotal], states: Iterator[Any], listener: Listener) -> Any:
    """The state of a plan, from those of its subtotals."""
    whole = Tree(in_place(plan.merge))
    for subtotal in subtotals:
        tree = Tree(in_place(plan.merge))
        for groups in subtotal.each():
            tree.add(next(states))
            listener.advance(groups)
        state = tree.total()
        if plan.checkpoint and not subtotal.is_there:
            plan.checkpoint.write(subtotal.name, state)
        whole.add(state)
    state = whole.total()
    return state if plan.finish is None else plan.finish(state)
