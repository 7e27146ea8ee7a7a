"""Fetch the next parts of a source from remote storage while the present part is processed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from streamgda.storage.fetching import Ahead


class Begins(Protocol):
    """A split, or a part of one."""

    def begun(self, ahead: Ahead) -> Self:
        """Start to fetch as much of the part as `ahead` allows, and return the part with what is fetched."""


B = TypeVar("B", bound=Begins)

_MOST_BEGUN = 16  # splits whose footers are fetched at a time; `Ahead` limits how much of their data is


def begun(splits: Iterable[B]) -> Iterator[B]:
    """Yield splits in order. Data of the next ones are fetched from remote storage meanwhile."""
    from streamgda.storage.fetching import Ahead  # and with it pyarrow, where it is used

    remaining, waiting = iter(splits), deque[B]()
    with Ahead() as ahead:
        while True:
            waiting.extend(split.begun(ahead) for split in islice(remaining, _MOST_BEGUN - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft()


Groups: TypeAlias = Sequence[Sequence[Any]]


class Upcoming:
    """What the tasks of a pass in this process read. Data of the next tasks are fetched meanwhile.

    Parameters
    ----------
    ahead : Ahead
        What fetches the data.
    n_at_once : int
        How many tasks run at once.
    """

    def __init__(self, ahead: Ahead, n_at_once: int) -> None:
        self._ahead, self._n_at_once = ahead, n_at_once
        self._tasks: dict[Hashable, Groups] = {}
        self._waiting: deque[Hashable] = deque()
        self._lock = Lock()

    def add(self, key: Hashable, groups: Groups) -> Callable[[], Groups]:
        """Add what a task reads. Return the function that the task calls to get it."""
        self._tasks[key] = groups
        return partial(self._take, key)

    def arrange(self, priorities: Mapping[Any, int]) -> None:
        """Set the order in which the tasks run, before the first one runs."""
        self._waiting.extend(sorted(self._tasks, key=priorities.__getitem__))
        for _ in range(self._n_at_once):
            self._begin_next()

    def _take(self, key: Hashable) -> Groups:
        with self._lock:
            self._begin_next()
            return self._tasks.pop(key)

    def _begin_next(self) -> None:
        key = self._waiting.popleft() if self._waiting else None
        if key in self._tasks:
            groups = self._tasks[key]
            self._tasks[key] = [
                [*(split.begun(self._ahead) for split in group[:_MOST_BEGUN]), *group[_MOST_BEGUN:]]
                for group in groups
            ]
