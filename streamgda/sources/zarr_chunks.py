"""The stored chunks of Zarr arrays, and slabs of consecutive rows, which are read ahead.

It is known which chunks exist, in which version, and whether they change in a pass.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.fs as pafs
import zarr
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.api.asynchronous import open_array
from zarr.core.common import ZarrFormat

# Private, but nothing else runs code in the event loop of a store.
from zarr.core.sync import collect_aiterator, sync
from zarr.storage import FsspecStore, LocalStore, MemoryStore, WrapperStore

from streamgda.blocks.wording import counted
from streamgda.storage.filesystems import Place, version_of_info

Version = tuple[int | None, int | str]
"""Of a stored chunk: its size, and its ETag or modification time."""
S = TypeVar("S")
T = TypeVar("T")
READ_ELEMENTS = 1 << 21  # at a time, or one chunk: longer arrays are no faster to read, and slower to use
_MOST_AHEAD = 1 << 23  # elements that are read ahead, in float64 64 MB
_MOST_OF_SHARD = 1 << 22  # elements of a shard that is read whole, as one chunk: in float64 32 MB


def keys_of_rows(arrays: Iterable[zarr.Array[Any]], start: int, stop: int) -> KeysView[str]:
    """The keys of the stored objects (chunks, or shards of them) that hold these rows, in order."""
    keys: dict[str, None] = {}
    for array in arrays:
        objects = array.shards or array.chunks
        first, *others = (
            range(-(-length // size)) for length, size in zip(array.shape, objects, strict=True)
        )
        rows = first[start // objects[0] : -(-stop // objects[0])]
        for coordinates in itertools.product(rows, *others):
            keys[f"{array.path}/{array.metadata.encode_chunk_key(coordinates)}"] = None
    return keys.keys()


def keys_of_metadata(array: zarr.Array[Any]) -> tuple[str, ...]:
    """The keys of the documents that describe an array; the first is always there."""
    names = ("zarr.json",) if array.metadata.zarr_format == 3 else (".zarray", ".zattrs")
    return tuple(f"{array.path}/{name}" for name in names)


def opened(store: Store, paths: Sequence[str], zarr_format: ZarrFormat) -> list[zarr.Array[Any]]:
    """The arrays at some paths. The metadata of all of them is requested at the same time."""

    async def open_all() -> list[zarr.AsyncArray[Any]]:
        return await asyncio.gather(
            *(open_array(store=store, path=path, mode="r", zarr_format=zarr_format) for path in paths)
        )

    return [zarr.Array(array) for array in sync(open_all())]


def stored_versions(store: Store, path: str) -> dict[str, Version | None]:
    """The keys below a path of a store, each with its version; None where the store lists no versions."""
    beneath = _unwrapped(store)
    if not isinstance(beneath, FsspecStore):
        folder = _local_folder(store)
        return {key: _version_of(folder, key) for key in collect_aiterator(store.list_prefix(path))}
    getattr(beneath.fs, "sync_fs", beneath.fs).invalidate_cache()  # or it answers from an earlier listing
    stored: dict[str, Version | None] = {}
    for name, info in sync(beneath.fs._find(f"{beneath.path}/{path}", detail=True)).items():
        size, tag = version_of_info(info).identity
        stored[name.removeprefix(f"{beneath.path}/")] = None if tag is None else (size, tag)
    return stored


class ChangedChunkError(ValueError):
    """A chunk is not in the version that the pass was planned for."""


class WatchedStore(WrapperStore[Store]):
    """A store that raises an error if an object that was listed for the plan has vanished or changed.

    Reading an object takes one request: its size is known, so a filesystem need not ask for it first. The end
    of a shard, which is its index, is requested once. If the documents that describe the arrays were listed,
    so were all objects, and no request is made for any other.

    Blosc reads past the end of a truncated chunk. So in the arrays whose paths are in `blosc`, the length of
    a chunk is compared with the length in its header.
    """

    def __init__(
        self,
        store: Store,
        chunks: Mapping[str, Version | None],
        documents: Mapping[str, Version | None],
        blosc: tuple[str, ...],
    ) -> None:
        super().__init__(store)
        self._chunks = chunks
        self._documents = documents
        self._blosc = blosc
        self._seen = {**chunks, **documents}
        self._ends: dict[str, asyncio.Future[Buffer | None]] = {}
        self._folder = _local_folder(store)

    def _with_store(self, store: Store) -> WatchedStore:
        return WatchedStore(store, self._chunks, self._documents, self._blosc)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read an object, and check that it is there in the version that was planned for."""
        if self._documents and key not in self._seen:
            return None
        if isinstance(byte_range, SuffixByteRequest):
            if key not in self._ends:
                self._ends[key] = asyncio.ensure_future(self._read(key, prototype, byte_range))
            return await self._ends[key]
        return await self._read(key, prototype, byte_range)

    async def _read(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        size = (self._seen.get(key) or (None,))[0] if self._folder is None else None
        found = await self._store.get(key, prototype, _with_known_size(byte_range, size))
        if found is None:
            if key in self._seen:
                raise FileNotFoundError(f"{self._store}/{key} is gone since the pass was planned")
            return None
        if size and byte_range is None and len(found) != size:
            raise self._changed(key)
        if not len(found):  # an empty shard would be read as fill values
            raise ValueError(f"{self._store}/{key} is empty")
        if key in self._chunks and key.startswith(self._blosc):
            size = int.from_bytes(found[12:16].to_bytes(), "little")
            if byte_range is None and len(found) < size:
                raise ValueError(f"{self._store}/{key} has {counted(len(found), 'byte')} of {size:,}")
        planned = None if self._folder is None else self._seen.get(key)
        if planned is not None and planned != _version_of(self._folder, key):
            raise self._changed(key)
        return found

    def _changed(self, key: str) -> ChangedChunkError:
        return ChangedChunkError(f"{self._store}/{key} has changed since the pass was planned")


def _with_known_size(asked: ByteRequest | None, size: int | None) -> ByteRequest | None:
    """The same bytes as a range, which is one request in every store; one byte more if all are asked for."""
    if size and asked is None:
        return RangeByteRequest(0, size + 1)
    if size and isinstance(asked, SuffixByteRequest):
        return RangeByteRequest(max(size - asked.suffix, 0), size)
    return asked


def is_near(store: Store) -> bool:
    """Whether a store is on this machine, where requests take no time."""
    return isinstance(_unwrapped(store), LocalStore | MemoryStore)


def with_absolute_path(store: Store) -> Store:
    """The store with an absolute path, which does not depend on the working directory."""
    if type(store) is LocalStore and not store.root.is_absolute():
        return LocalStore(store.root.absolute(), read_only=store.read_only)
    return store


def ends_in_blosc(array: zarr.Array[Any]) -> bool:
    """Whether Blosc is the last codec of the stored chunks."""
    codecs = [type(codec).__name__ for codec in array.compressors]  # numcodecs' in format 2, else Zarr's
    return array.shards is None and codecs[-1:] in (["Blosc"], ["BloscCodec"])


def _unwrapped(store: Store) -> Store:
    while isinstance(store, WrapperStore):
        store = store._store
    return store


def _local_folder(store: Store) -> Path | None:
    """Where the files of a store are, if they are on a local disk."""
    store = _unwrapped(store)
    return store.root if isinstance(store, LocalStore) else None


def place_of(store: Store, path: str) -> Place | None:
    """Where the group at a path of a store is; None if that is no folder of a filesystem."""
    store = _unwrapped(store)
    if isinstance(store, LocalStore):
        return Place.of(pafs.LocalFileSystem(), f"{store.root}/{path}")
    if isinstance(store, FsspecStore):
        return Place.of(pafs.PyFileSystem(pafs.FSSpecHandler(store.fs)), f"{store.path}/{path}")
    return None


def _version_of(folder: Path | None, key: str) -> Version | None:
    if folder is None:
        return None
    status = (folder / key).stat()
    return status.st_size, status.st_mtime_ns


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
