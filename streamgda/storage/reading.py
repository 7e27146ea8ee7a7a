"""Read the bytes of a file, by ranges. Each error is of the storage, since nothing is decoded here.

pyarrow's client of S3 gives as many bytes as were asked for, even if fewer came: the others are what lay in
memory. So the last byte of the memory that is filled is set before, and compared afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streamgda.storage.filesystems import Storage
from streamgda.storage.retries import StorageError, retried, storing

ReadRange: TypeAlias = Callable[[int, int], pa.Buffer]
"""Returns the bytes of a file from a start to before a stop, by one request."""

_LAST_BYTES = (0xA5, 0x5A)  # as they are before bytes are read; no range ends with both

_READ_WHOLE = 1 << 26  # bytes of a remote file that are asked for together


def reader_of(
    storage: Storage, path: str, file: pa.NativeFile | None, size: int | None = None
) -> tuple[ReadRange, int]:
    """A function that reads ranges of a file, and the size of the file.

    `file` is the file as pyarrow has opened it; None if fsspec reads it by its path. The function raises
    `StorageError` if the storage fails, or gives fewer bytes.
    """
    behind = storage.fsspec
    with storing(path):
        if file is not None:
            size = file.size()
        elif size is None:
            size = behind.size(path)
    if file is not None:
        ask = partial(_read_range, file)
    else:
        ask = partial(_cat, behind, path) if behind.async_impl else partial(_read_by_path, behind, path)

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


def _cat(filesystem: Any, path: str, start: int, stop: int) -> pa.Buffer:
    return pa.py_buffer(filesystem.cat_file(path, start=start, end=stop))


def _read_by_path(filesystem: Any, path: str, start: int, stop: int) -> pa.Buffer:
    with filesystem.open(path, "rb", cache_type="none") as content:
        content.seek(start)
        return pa.py_buffer(content.read(stop - start))


def as_file(read: ReadRange, size: int) -> pa.NativeFile:
    """A file of this size for Arrow, whose bytes a function of their range returns."""
    return pa.PythonFile(_Ranges(read, size), mode="r")


class _Ranges:
    """A Python file."""

    closed = False

    def __init__(self, read: ReadRange, size: int) -> None:
        self._ranges, self._size, self._position = read, size, 0

    def read_buffer(self, n_bytes: int) -> pa.Buffer:
        """Read bytes; Arrow calls this method, whose result it need not copy."""
        start = self._position
        self._position = min(start + n_bytes, self._size)
        return self._ranges(start, self._position)

    def read(self, n_bytes: int) -> pa.Buffer:
        return self.read_buffer(n_bytes)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (self._size if whence == os.SEEK_END else 0)
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        pass


def open_whole(storage: Storage, path: str, size: int | None = None) -> pa.NativeFile:
    """Open a file for Arrow to decode, so that each error of decoding it is of its bytes.

    A remote file is in memory then, unless it is large. A large file is read when it is decoded; if the
    storage fails, it is asked again. If the size is known, fsspec need not ask for it.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    StorageError
        If the storage fails.
    """
    behind = storage.fsspec
    with storing(path):
        if storage.is_local or behind is None:
            read, size = reader_of(storage, path, storage.filesystem.open_input_file(path))
        else:
            if size is None:
                behind.invalidate_cache(path)  # or it answers from an earlier listing
                info = behind.info(path)
                if info["type"] == "directory":
                    raise IsADirectoryError(path)
                size = info["size"]
            if size is None:  # as of some web servers
                return pa.BufferReader(behind.cat_file(path))
            read, size = reader_of(storage, path, None, size)
    if not storage.is_local and size <= _READ_WHOLE:
        return pa.BufferReader(read(0, size))
    return as_file(lambda start, stop: retried(partial(read, start, stop)), size)
