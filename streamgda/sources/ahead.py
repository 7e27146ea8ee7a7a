"""Read the next part of a source while the one before is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


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
