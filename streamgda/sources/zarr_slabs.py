"""Slabs of consecutive rows of Zarr arrays. While one slab is in use, the next ones are read."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import zarr
from numpy.typing import NDArray

S = TypeVar("S")
T = TypeVar("T")

READ_ELEMENTS = 1 << 21  # at a time, or one chunk: longer arrays are no faster to read, and slower to use

_MOST_AHEAD = 1 << 23  # elements that are read ahead, in float64 64 MB

_MOST_OF_SHARD = 1 << 22  # elements of a shard that is read whole, as one chunk: in float64 32 MB


def slabs(
    arrays: Sequence[zarr.Array[Any]], start: int, stop: int, *, near: bool
) -> Iterator[tuple[int, tuple[NDArray[Any], ...]]]:
    """Slabs of the rows of all the arrays, and where each starts: whole chunks of the first array.

    Parameters
    ----------
    arrays : sequence of zarr.Array
        Arrays of as many rows, the one of features first.
    start, stop : int
        The rows to read.
    near : bool
        Whether the store is on this machine. Then at most one slab is read ahead. For other stores, as many
        slabs are read ahead as fit into `_MOST_AHEAD` elements. No slab is read ahead if it has more
        elements.
    """
    n_rows, n_features = rows_at_once(arrays[0]), arrays[0].shape[1]
    size = n_rows * max(1, READ_ELEMENTS // (n_rows * n_features))
    n_ahead = _MOST_AHEAD // (size * n_features)
    each = [_slabs_of(array, start, stop, size, min(n_ahead, 1) if near else n_ahead) for array in arrays]
    return zip(range(start, stop, size), zip(*each, strict=True), strict=True)


def rows_at_once(array: zarr.Array[Any]) -> int:
    """The rows of a chunk, or of a shard that is small enough to be read whole."""
    shard = array.shards
    return shard[0] if shard is not None and math.prod(shard) <= _MOST_OF_SHARD else array.chunks[0]


def _slabs_of(
    array: zarr.Array[Any], start: int, stop: int, size: int, n_ahead: int
) -> Iterator[NDArray[Any]]:
    """Yield slabs of `size` rows. A chunk is read once; its rows beyond a slab are kept for the next slab."""

    def read(rows: tuple[int, int]) -> NDArray[Any]:
        return np.asarray(array[slice(*rows)])

    unit, firsts = rows_at_once(array), range(start, stop, size)
    ends = [min(-(-min(first + size, stop) // unit) * unit, stop) for first in firsts]
    held = read((start, start))
    for first, more in zip(firsts, read_ahead(read, pairwise([start, *ends]), n_ahead), strict=True):
        held = np.concatenate([held, more]) if len(held) else more
        del more
        yield held[: min(size, stop - first)]
        held = held[size:].copy()  # a view would keep the slab


def read_ahead(read: Callable[[S], T], places: Iterable[S], n_ahead: int) -> Iterator[T]:
    """Yield what is read at some places, in order; threads read at the next `n_ahead` places meanwhile.

    An error of reading a place is raised when the turn of that place comes.
    """
    if not n_ahead:
        yield from map(read, places)
        return
    with ThreadPoolExecutor(n_ahead) as readers:
        waiting = deque[Future[T]]()
        try:
            for place in places:
                waiting.append(readers.submit(read, place))
                if len(waiting) > n_ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for reading in waiting:
                reading.cancel()
