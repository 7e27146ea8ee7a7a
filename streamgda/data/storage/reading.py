"""Read the bytes of a file, by ranges. Each error is of the storage, since nothing is decoded here.

pyarrow's client of S3 gives as many bytes as were asked for, even if fewer came: the others are what lay in
memory. So the last byte of the memory that is filled is set before, and compared afterwards.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.retries import StorageError, retried, storing
from streamgda.data.storage.threads import DaemonThreads

ReadRange: TypeAlias = Callable[[int, int], pa.Buffer]
"""Returns the bytes of a file from a start to before a stop, by one request."""

Range: TypeAlias = tuple[int, int]
"""The first byte, and the byte behind the last."""

_LAST_BYTES = (0xA5, 0x5A)  # as they are before bytes are read; no range ends with both

_READ_WHOLE = 1 << 26  # bytes of a remote file that are asked for together

_THREADS = 25  # as many connections as Arrow's client of S3 keeps


def reader_of(
    storage: Storage, path: str, file: pa.NativeFile | None = None, size: int | None = None
) -> tuple[ReadRange, int]:
    """A function that reads ranges of a file, and the size of the file; both may be known already.

    pyarrow opens the file, or fsspec reads it by its path. The function raises `StorageError` if the storage
    fails, or gives fewer bytes.
    """
    behind = storage.fsspec
    with storing(path):
        if file is None and (behind is None or storage.is_local):
            file = storage.filesystem.open_input_file(path)
        if file is not None:
            size, ask = file.size(), partial(_read_range, file)
        else:
            size = behind.size(path) if size is None else size
            ask = partial(_read_by_path, behind, path)

    def read(start: int, stop: int) -> pa.Buffer:
        with storing(path):
            content = ask(start, stop)
        if len(content) != stop - start:
            raise StorageError(f"{path}: of {stop - start:,} bytes from {start:,} on, the storage gave fewer")
        return content

    return read, int(size or 0)


def _read_range(file: pa.NativeFile, start: int, stop: int) -> pa.Buffer:
    """The bytes of a range; fewer if fewer came."""
    if start == stop:
        return pa.py_buffer(b"")
    for last in _LAST_BYTES:
        content = pa.allocate_buffer(stop - start)
        values = np.frombuffer(content, np.uint8)
        values[-1] = last
        n_read = file.get_stream(start, stop - start).readinto(content)
        if n_read < len(content) or values[-1] != last:
            return content.slice(0, n_read)
    return content.slice(1)


def _read_by_path(filesystem: Any, path: str, start: int, stop: int) -> pa.Buffer:
    if filesystem.async_impl:
        return pa.py_buffer(filesystem.cat_file(path, start=start, end=stop))
    with filesystem.open(path, "rb", cache_type="none") as content:
        content.seek(start)
        return pa.py_buffer(content.read(stop - start))


@lru_cache(1)
def request_threads() -> DaemonThreads:
    """The threads that make the requests of this process, at most one for each connection."""
    return DaemonThreads(_THREADS, "streamgda-requests")


if hasattr(os, "register_at_fork"):  # as Windows has not; a forked child process has none of the threads
    os.register_at_fork(after_in_child=request_threads.cache_clear)


@dataclass(eq=False)
class Request:
    """A range to ask for, how many of its needed bytes are unread, and what the storage returns."""

    start: int
    stop: int
    n_unread: int
    answer: Future[pa.Buffer] | None = None


class RangedFile:
    """A file for Arrow that one thread reads, and whose needed ranges are requested before they are used.

    Parameters
    ----------
    read : callable
        Returns the bytes of a range. It is called for ranges that are not requested, or are read twice.
    size : int
        How long the file is.
    requests : sequence of Request
        What is needed, in the order in which it is to be requested.
    room : int, optional
        Requests are made, by other threads, while fewer bytes are requested and not used.
    """

    closed = False

    def __init__(self, read: ReadRange, size: int, requests: Sequence[Request] = (), room: int = 0) -> None:
        self._bytes, self._size, self._position = read, size, 0
        self._turns, self._room = deque(requests), room
        self._parts = sorted(requests, key=attrgetter("start"))
        self._starts = [part.start for part in self._parts]
        self.error: StorageError | None = None
        self._ask()

    @property
    def file(self) -> pa.NativeFile:
        """The file as Arrow takes it."""
        return pa.PythonFile(self, mode="r")

    @property
    def answers(self) -> list[Future[pa.Buffer]] | None:
        """What the requests return; None if some are not yet made."""
        return None if self._turns else [part.answer for part in self._parts if part.answer is not None]

    def _ask(self) -> None:
        while self._turns and self._room > 0:
            self._request(self._turns.popleft())

    def _request(self, part: Request) -> Future[pa.Buffer]:
        if part.answer is None:
            part.answer = request_threads().submit(self._bytes, part.start, part.stop)
            self._room -= part.stop - part.start
        return part.answer

    def read_buffer(self, n_bytes: int) -> pa.Buffer:
        """Read bytes; Arrow calls this method, whose result it need not copy."""
        try:
            return self._read(n_bytes)
        except StorageError as error:
            self.error = error  # of which Arrow's decoder of ORC keeps only the words
            raise

    read = read_buffer

    def _read(self, n_bytes: int) -> pa.Buffer:
        start, stop = self._position, min(self._position + n_bytes, self._size)
        self._position = max(start, stop)
        buffers: list[pa.Buffer] = []
        for part in self._parts[max(bisect_right(self._starts, start) - 1, 0) :]:
            if start >= stop or not part.start <= start < part.stop or part.n_unread <= 0:
                break
            end = min(stop, part.stop)
            buffers.append(self._request(part).result().slice(start - part.start, end - start))
            part.n_unread -= end - start
            if part.n_unread <= 0:
                part.answer = None
                self._room += part.stop - part.start
                self._ask()
            start = end
        if start < stop or not buffers:
            buffers.append(self._bytes(start, max(start, stop)))
        return buffers[0] if len(buffers) == 1 else pa.py_buffer(b"".join(buffers))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, from the beginning or the end."""
        self._position = offset + (self._size if whence == os.SEEK_END else 0)
        return self._position

    def tell(self) -> int:
        """The place in the file."""
        return self._position

    def close(self) -> None:
        """Make no more requests, and forget what was fetched."""
        self._turns.clear()
        for part in self._parts:
            if part.answer is not None:
                part.answer.cancel()
            part.answer = None


def open_whole(storage: Storage, path: str) -> pa.NativeFile:
    """Open a file for Arrow to decode, so that each error of decoding it is of its bytes.

    A remote file is in memory then, unless it is large. A large file is read when it is decoded; if the
    storage fails, it is asked again.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    StorageError
        If the storage fails.
    """
    size: int | None = None
    behind = storage.fsspec
    if behind is not None and not storage.is_local:
        with storing(path):
            behind.invalidate_cache(path)  # or it answers from an earlier listing
            info = behind.info(path)
            if info["type"] == "directory":
                raise IsADirectoryError(path)
            if (size := info["size"]) is None:  # as of some web servers
                return pa.BufferReader(behind.cat_file(path))
    read, size = reader_of(storage, path, size=size)
    if not storage.is_local and size <= _READ_WHOLE:
        return pa.BufferReader(read(0, size))
    return RangedFile(lambda start, stop: retried(partial(read, start, stop)), size).file
