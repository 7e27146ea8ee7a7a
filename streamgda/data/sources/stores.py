"""Stores of Zarr: which objects they hold, in which versions, and whether an object is as it was listed."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.fs as pafs
import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.codecs import ShardingCodec, ShardingCodecIndexLocation
from zarr.storage import FsspecStore, LocalStore, MemoryStore, WrapperStore

from streamgda.data.blocks.wording import counted
from streamgda.data.storage.filesystems import Place, Storage
from streamgda.data.storage.identity import UNTOLD
from streamgda.data.storage.retries import StorageError, retried, storing
from streamgda.data.storage.secrets import concealed
from streamgda.data.storage.versions import Version, version_of_info, version_of_status

T = TypeVar("T")


def stored_versions(store: Store, path: str) -> dict[str, Version | None]:
    """The keys below a path of a store, each with its version; None where the store lists no versions."""
    beneath = unwrapped(store)
    if not isinstance(beneath, FsspecStore):
        folder = _local_folder(store)
        return {key: _version_of(folder, key) for key in result_of(_keys_below(store, path))}
    getattr(beneath.fs, "sync_fs", beneath.fs).invalidate_cache()  # or it answers from an earlier listing
    infos = retried(lambda: result_of(beneath.fs._find(f"{beneath.path}/{path}", detail=True)))
    stored = {name.removeprefix(f"{beneath.path}/"): version_of_info(info) for name, info in infos.items()}
    return {key: version if version.tells_content else None for key, version in stored.items()}


async def _keys_below(store: Store, path: str) -> list[str]:
    return [key async for key in store.list_prefix(path)]


class _LoopNotingStore(WrapperStore[MemoryStore]):
    """An empty store that notes the event loop in which Zarr looks into it."""

    loop: asyncio.AbstractEventLoop

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> None:
        """Note the event loop, and find nothing."""
        self.loop = asyncio.get_running_loop()


@cache
def _loop_of_zarr(process: int) -> asyncio.AbstractEventLoop:
    """The event loop in which Zarr uses stores in a process; a fork has another one."""
    store = _LoopNotingStore(MemoryStore(read_only=True))
    with suppress(FileNotFoundError):
        zarr.open_group(store, mode="r", zarr_format=3)
    return store.loop


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns in the event loop of Zarr, to which the sessions of filesystems belong."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop_of_zarr(os.getpid())).result()


def _version_of(folder: Path | None, key: str) -> Version | None:
    return None if folder is None else version_of_status((folder / key).stat())


def unwrapped(store: Store) -> Store:
    """The store beneath wrappers."""
    while isinstance(store, WrapperStore):
        store = store._store
    return store


def _local_folder(store: Store) -> Path | None:
    """Where the files of a store are, if they are on a local disk."""
    store = unwrapped(store)
    return store.root if isinstance(store, LocalStore) else None


def place_of(store: Store, path: str) -> Place | None:
    """Where the group at a path of a store is; None if that is no folder of a filesystem."""
    store = unwrapped(store)
    if isinstance(store, LocalStore):
        return Storage(pafs.LocalFileSystem()).place(f"{store.root}/{path}")
    if isinstance(store, FsspecStore):
        return Storage(pafs.PyFileSystem(pafs.FSSpecHandler(store.fs))).place(f"{store.path}/{path}")
    return None


def with_absolute_path(store: Store) -> Store:
    """The store with an absolute path, which does not depend on the working directory."""
    if type(store) is LocalStore and not store.root.is_absolute():
        return LocalStore(store.root.absolute(), read_only=store.read_only)
    return store


def without_secrets(store: Store) -> Store:
    """The store with a path that shows no secrets of its URL, if it is on a filesystem of fsspec."""
    if type(store) is not FsspecStore:
        return store
    filesystem, (path,) = concealed(store.fs, [store.path], [store.path])
    return store if filesystem is store.fs else FsspecStore(filesystem, store.read_only, path)


class ChangedChunkError(ValueError):
    """A chunk is not in the version that the pass was planned for."""


@dataclass(frozen=True)
class PlannedArrays:
    """The arrays of a group as they were when a pass was planned.

    Attributes
    ----------
    described : str
        A digest of what the documents say of the arrays: shapes, types, chunks, codecs and fill values.
    documents : mapping of str to tuple
        The versions of the documents; empty if the store cannot list what it holds.
    blosc : tuple of str
        The paths of arrays whose chunks end in Blosc.
    shards : mapping of str to ShardIndex
        Where the shards of an array have their index, by its path.
    """

    described: str
    documents: Mapping[str, Version | None] = field(metadata=UNTOLD)
    blosc: tuple[str, ...] = field(metadata=UNTOLD)
    shards: Mapping[str, ShardIndex] = field(metadata=UNTOLD)


class WatchedStore(WrapperStore[Store]):
    """A store that raises an error if an object that was listed for the plan has vanished or changed.

    Reading an object takes one request: its size is known, so a filesystem need not ask for it first. The end
    of a shard, which is its index, is requested once. If the documents that describe the arrays were listed,
    so were all objects, and no request is made for any other.

    Blosc reads past the end of a truncated chunk. So in arrays that end in it, the length of a chunk is
    compared with the length in its header.

    A shard that has lost bytes would be read from wrong places. So the end of its last chunk, by its index,
    is compared with its size.
    """

    def __init__(self, store: Store, chunks: Mapping[str, Version | None], arrays: PlannedArrays) -> None:
        super().__init__(store)
        self._chunks, self._arrays, self._versions = chunks, arrays, {**chunks, **arrays.documents}
        self._ends: dict[str, asyncio.Future[Buffer | None]] = {}
        self._folder = _local_folder(store)

    def _with_store(self, store: Store) -> WatchedStore:
        return WatchedStore(store, self._chunks, self._arrays)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read an object, and check that it is there in the version that was planned for."""
        if self._arrays.documents and key not in self._versions:
            return None
        if isinstance(byte_range, SuffixByteRequest):
            if key not in self._ends:
                self._ends[key] = asyncio.ensure_future(self._read(key, prototype, byte_range))
            return await self._ends[key]
        return await self._read(key, prototype, byte_range)

    async def _read(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        version = self._versions.get(key)
        size = version.size if version and self._folder is None else None
        request = _with_known_size(byte_range, size)
        with storing(f"{self._store}/{key}"):
            answer = await self._store.get(key, prototype, request)
        if answer is None:
            if key in self._versions:
                raise FileNotFoundError(f"{self._store}/{key} is gone since the pass was planned")
            return None
        if size and isinstance(request, RangeByteRequest):
            await self._check_length(key, len(answer), min(request.end, size) - request.start)
        if not len(answer):  # an empty shard would be read as fill values
            raise ValueError(f"{self._store}/{key} is empty")
        if key in self._chunks and byte_range is None and key.startswith(self._arrays.blosc):
            _check_blosc(f"{self._store}/{key}", answer)
        shards = self._arrays.shards.items()
        index = next((index for prefix, index in shards if key.startswith(prefix)), None)
        if key in self._chunks and index is not None:
            await self._check_shard(key, index, answer, byte_range)
        if version and self._folder is not None and version != _version_of(self._folder, key):
            raise self._changed(key)
        return answer

    async def _check_shard(
        self, key: str, index: ShardIndex, answer: Buffer, byte_range: ByteRequest | None
    ) -> None:
        """Check that a shard has all its bytes, if what was read of it holds its index."""
        index_range = RangeByteRequest(0, index.size) if index.is_at_start else SuffixByteRequest(index.size)
        if byte_range not in (None, index_range) or len(answer) < index.size:
            return
        planned = self._chunks[key]
        size_in_plan = planned.size if planned else None
        size = len(answer) if byte_range is None else size_in_plan or await self._store.getsize(key)
        content = answer.to_bytes()
        end = index.end(content[: index.size] if index.is_at_start else content[-index.size :])
        if end > size - (0 if index.is_at_start else index.size):
            raise ValueError(f"{self._store}/{key} has lost bytes: by its index, chunks end at byte {end:,}")

    async def _check_length(self, key: str, n_bytes: int, expected: int) -> None:
        """Raise an error if another number of bytes came: the object has changed, or the storage failed."""
        beneath = unwrapped(self._store)
        if n_bytes < expected and isinstance(beneath, FsspecStore):
            path = f"{beneath.path}/{key}"
            with storing(path):
                beneath.fs.invalidate_cache()
                present = version_of_info(await beneath.fs._info(path))
            if present == self._versions[key]:
                raise StorageError(f"{path}: of {expected:,} bytes, the storage gave {n_bytes:,}")
        if n_bytes != expected:
            raise self._changed(key)

    def _changed(self, key: str) -> ChangedChunkError:
        return ChangedChunkError(f"{self._store}/{key} has changed since the pass was planned")


def _with_known_size(request: ByteRequest | None, size: int | None) -> ByteRequest | None:
    """The same bytes as a range, which is one request in every store; one byte more if all are asked for."""
    if size and request is None:
        return RangeByteRequest(0, size + 1)
    if size and isinstance(request, SuffixByteRequest):
        return RangeByteRequest(max(size - request.suffix, 0), size)
    return request


def ends_in_blosc(array: zarr.Array[Any]) -> bool:
    """Whether Blosc is the last codec of the stored chunks."""
    codecs = [type(codec).__name__ for codec in array.compressors]  # numcodecs' in format 2, else Zarr's
    return array.shards is None and codecs[-1:] in (["Blosc"], ["BloscCodec"])


def _check_blosc(name: str, chunk: Buffer) -> None:
    size = int.from_bytes(chunk[12:16].to_bytes(), "little")
    if len(chunk) < size:
        raise ValueError(f"{name} has {counted(len(chunk), 'byte')} of {size:,}")


_BYTES_OF_ENTRY = 16


_BYTES_OF_CHECKSUM = 4


_NO_CHUNK = np.iinfo(np.uint64).max


@dataclass(frozen=True)
class ShardIndex:
    """Where the shards of an array have the index of their chunks, and how long it is."""

    size: int
    is_at_start: bool

    @classmethod
    def of(cls, array: zarr.Array[Any]) -> ShardIndex | None:
        """That of an array; None if it has no shards, or an index in a form of its own."""
        for codec in getattr(array.metadata, "codecs", ()):
            if isinstance(codec, ShardingCodec) and array.shards is not None:
                names = [each.to_dict()["name"] for each in codec.index_codecs]
                if names[:1] != ["bytes"] or names[1:] not in ([], ["crc32c"]):
                    return None
                n_chunks = math.prod(n // m for n, m in zip(array.shards, codec.chunk_shape, strict=True))
                size = n_chunks * _BYTES_OF_ENTRY + len(names[1:]) * _BYTES_OF_CHECKSUM
                return cls(size, codec.index_location is ShardingCodecIndexLocation.start)
        return None

    def end(self, content: bytes) -> int:
        """Where the last chunk of a shard ends, by its index."""
        entries = np.frombuffer(content, "<u8", self.size // _BYTES_OF_ENTRY * 2).reshape(-1, 2)
        there = entries[(entries != _NO_CHUNK).any(axis=1)]
        return int(there.sum(axis=1).max(initial=0))
