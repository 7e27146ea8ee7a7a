"""Read the next parts of a source while the one before is worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Protocol, Self, TypeVar

from streamgda.storage.fetching import Ahead

T = TypeVar("T")


class Begins(Protocol):
    """A split, or a part of one."""

    def begun(self, ahead: Ahead) -> Self:
        """The same part, of which what `ahead` allows is being fetched."""


B = TypeVar("B", bound=Begins)

_MOST_BEGUN = 16  # splits, whose footers are read; their data take no more than `Ahead` allows


def begun(splits: Iterable[B]) -> Iterator[B]:
    """Yield splits in order; what the next ones need of a remote storage is fetched meanwhile."""
    remaining, waiting = iter(splits), deque[B]()
    with Ahead() as ahead:
        while True:
            waiting.extend(split.begun(ahead) for split in islice(remaining, _MOST_BEGUN - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft()


def read_ahead(parts: Iterator[T]) -> Iterator[T]:
    """Yield parts in order; a thread reads the next one meanwhile, so two are in memory.

    What reading raises is raised here when it is the turn of the part.
    """
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(next, parts, None)
        while (part := following.result()) is not None:
            following = reader.submit(next, parts, None)
            yield part
            del part
