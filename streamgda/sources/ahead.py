"""Read the next parts of a source while the one before is worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from streamgda.storage.fetching import Ahead


class Begins(Protocol):
    """A split, or a part of one."""

    def begun(self, ahead: Ahead) -> Self:
        """The same part, of which what `ahead` allows is being fetched."""


B = TypeVar("B", bound=Begins)

_MOST_BEGUN = 16  # splits, whose footers are read; their data take no more than `Ahead` allows


def begun(splits: Iterable[B]) -> Iterator[B]:
    """Yield splits in order; what the next ones need of a remote storage is fetched meanwhile."""
    from streamgda.storage.fetching import Ahead  # and with it pyarrow, where it is used

    remaining, waiting = iter(splits), deque[B]()
    with Ahead() as ahead:
        while True:
            waiting.extend(split.begun(ahead) for split in islice(remaining, _MOST_BEGUN - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft()
