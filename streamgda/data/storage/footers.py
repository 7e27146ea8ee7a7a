"""Read the footers of Parquet files, keep recent ones in memory, and check them.

pyarrow decodes a footer. A footer that it decodes may still be damaged: with a flipped bit in the offset of a
column, the values of another column are read. A pass needs the footer of a file twice, for the plan and for
the rows. So the footers that were decoded last stay in memory, with the opened files of object stores.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from operator import attrgetter
from threading import Lock
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.reading import ReadRange, reader_of
from streamgda.data.storage.retries import storing
from streamgda.data.storage.versions import Version

_BEHIND = 8  # bytes after the footer: its length, and "PAR1", or "PARE" if it is encrypted

_SIGNATURE = 28  # bytes after the footer of a file whose columns are encrypted, and the footer is not

_READ_AHEAD = 1 << 16  # bytes that hold most footers

SMALL_FILE = _READ_AHEAD
"""Bytes of a remote file that is read whole, by one request."""

_MOST_DECODED = 1 << 26  # bytes

_OPEN_FILE = 1 << 11  # bytes that an opened file takes, about

_DECODED_SIZE = 12  # times the bytes of a footer, about, with those bytes


def read_footer(storage: Storage, path: str) -> Footer:
    """Read the footer of a Parquet file and the version of the file. `Footer.decoded` decodes it.

    An object store answers by two requests: one for the version, one for the bytes. The opened file is
    returned too if it holds no connection; to open it again would take another request. So are all bytes of a
    small file of a store.

    Raises
    ------
    StorageError
        If the storage fails.
    """
    with storing(path):
        if storage.is_local or storage.fsspec is None:
            file, version = storage.open(path)
        else:
            file, version = None, storage.version(path)
    read, size = reader_of(storage, path, file, version.size)
    is_kept = storage.is_object_store and not storage.is_local
    whole = read(0, size) if is_kept and 0 < size <= SMALL_FILE else None
    tail = tail_of(read if whole is None else lambda start, stop: whole.slice(start, stop - start), size)
    if file is not None and not is_kept:
        file.close()
        file = None
    return Footer(path, version, tail=tail, file=file, whole=whole)


def read_tail(file: pa.NativeFile) -> bytes:
    """Read the end of an open Parquet file: its footer, the length of the footer, and four letters."""
    return tail_of(lambda start, stop: pa.py_buffer(file.read_at(stop - start, start)), file.size())


def tail_of(read: ReadRange, size: int) -> bytes:
    """Read the footer of a Parquet file, with the bytes behind it."""
    tail = read(max(size - _READ_AHEAD, 0), size) if size else pa.py_buffer(b"")
    n_footer = int.from_bytes(tail[-_BEHIND:-4], "little") + _BEHIND
    if len(tail) < n_footer <= size:
        tail = read(size - n_footer, size)
    return bytes(tail[-n_footer:])


class Cache:
    """The footers of the files that were read last. The oldest are forgotten first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._n_bytes = most_bytes, 0
        self._known: dict[tuple[str, Version], tuple[Storage, Footer, int]] = {}
        self._lock = Lock()
        # Else a forked process might wait for a thread that it does not have. Windows has no fork.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._lock.release,
            )

    def keep(self, storage: Storage, footer: Footer) -> None:
        """Keep the footer of a file."""
        key = footer.path, footer.version
        n_bytes = _OPEN_FILE + _DECODED_SIZE * len(footer.tail) + len(footer.whole or b"")
        with self._lock:
            self._forget(key)
            self._known[key] = storage, footer, n_bytes
            self._n_bytes += n_bytes
            while self._n_bytes > self._most_bytes:
                self._forget(next(iter(self._known)))

    def get(self, storage: Storage, path: str, version: Version) -> Footer | None:
        """The footer of a version of a file, if it is in memory."""
        entry = self._known.get((path, version))
        return entry[1] if entry is not None and entry[0] == storage else None

    def _forget(self, key: tuple[str, Version]) -> None:
        if key in self._known:
            self._n_bytes -= self._known.pop(key)[-1]


DECODED = Cache(_MOST_DECODED)
"""The decoded footers that this process keeps."""


def release_memory() -> None:
    """Return free memory to the system.

    The footers of small files take far more than their rows. glibc keeps what is free between blocks in use.
    """
    with suppress(AttributeError, TypeError):  # of another C library
        ctypes.CDLL(None).malloc_trim(0)


# ---------------------------------------------------------------------- what a footer says


INT96_UNIT = "us"
"""The unit of times of Spark, Hive and Impala. In nanoseconds, those outside 1677 to 2262 would wrap."""

FORMAT = ds.ParquetFileFormat(coerce_int96_timestamp_unit=INT96_UNIT)


class Footer(NamedTuple):
    """What a file says of itself: its columns; and if it is of Parquet, its footer, with the bytes behind it.

    One that is kept has the open file of a store too, and all bytes of a small one.
    """

    path: str
    version: Version
    schema: pa.Schema = None
    tail: bytes = b""
    metadata: pq.FileMetaData = None
    file: pa.NativeFile | None = None
    whole: pa.Buffer | None = None

    def metadata_of(self, file: pa.NativeFile) -> pq.FileMetaData | None:
        """The decoded footer, if a file ends with the same bytes. Another may be of the same version."""
        n_bytes, size = len(self.tail), file.size()
        is_same = n_bytes <= size and file.read_at(n_bytes, size - n_bytes) == self.tail
        return self.metadata if is_same else None

    def decoded(self, storage: Storage) -> Footer:
        """The footer with what its bytes say, checked if the length of the file is known.

        Raises
        ------
        pyarrow.ArrowInvalid
            If it is damaged.
        """
        fragment = FORMAT.make_fragment(pa.py_buffer(self.tail))
        schema, metadata = fragment.physical_schema, fragment.metadata
        if metadata.metadata:  # pyarrow leaves out of that of the schema what Arrow has written
            schema = schema.with_metadata(metadata.metadata)
        footer = self._replace(schema=schema, metadata=metadata)
        list(footer.schema.names)  # which pyarrow decodes only when it is asked for them
        if self.version.size is not None:
            # What was asked for its schema is part of a cycle, and stays until garbage is collected.
            check_footer(fragment.metadata, self.tail, self.version.size)
        if self.version.tells_content and not has_encrypted_columns(footer.metadata, self.tail):
            DECODED.keep(storage, footer)
        return footer._replace(file=None, whole=None)


def check_footer(metadata: pq.FileMetaData, tail: bytes, n_bytes: int) -> None:
    """Check that row groups have as many rows as the file, and that each column has one type and its place.

    The columns of an encrypted file are not checked.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
        The footer.
    tail : bytes
        As `read_tail` returns it.
    n_bytes : int
        How long the file is.

    Raises
    ------
    pyarrow.ArrowInvalid
        If the check fails. ArrowInvalid is a ValueError.
    """
    groups = list(map(metadata.row_group, range(metadata.num_row_groups)))
    rows = list(map(attrgetter("num_rows"), groups))
    if min(rows, default=0) < 0 or sum(rows) != metadata.num_rows:
        raise pa.ArrowInvalid("the footer is damaged: its row groups have other rows than the file")
    if has_encrypted_columns(metadata, tail):
        return
    bounds = [1, *chain.from_iterable(sorted(_places(metadata, groups))), n_bytes - len(tail)]
    overlap = any(before > after for before, after in pairwise(bounds))
    if overlap or len(tail) != metadata.serialized_size + _BEHIND:
        raise pa.ArrowInvalid("the footer is damaged: columns overlap, or lie outside the file")


def has_encrypted_columns(metadata: pq.FileMetaData, tail: bytes) -> bool:
    """Whether columns of a file are encrypted. pyarrow crashes the process when asked where they are."""
    return len(tail) == metadata.serialized_size + _SIGNATURE + _BEHIND or tail.endswith(b"PARE")


def _places(metadata: pq.FileMetaData, groups: Sequence[pq.RowGroupMetaData]) -> Iterator[tuple[int, int]]:
    """Where each column chunk begins and ends."""
    kinds = [metadata.schema.column(i).physical_type for i in range(metadata.num_columns)]
    for group in groups:
        for i, kind in enumerate(kinds):
            chunk = group.column(i)
            if chunk.physical_type != kind:
                raise pa.ArrowInvalid("the footer is damaged: a column has two types")
            start, size = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size
            if size:
                yield start, start + size


_LEAST_LIMIT = 1 << 26  # bytes that even the smallest file may take

_LARGEST_RATIO = 100  # of bytes in memory to bytes of the file

_WIDEST_NUMBER = 8  # bytes


def check_size(parquet: pq.ParquetFile, n_bytes: int, columns: Collection[str]) -> None:
    """Check what some columns of a Parquet file would take in memory.

    Parameters
    ----------
    parquet : pyarrow.parquet.ParquetFile
        The file.
    n_bytes : int
        How long it is.
    columns : collection of str
        The columns to read.

    Raises
    ------
    pyarrow.ArrowInvalid
        If they take far more than the bytes of the file can hold.
    """
    size = sum(_sizes(parquet, columns))
    if size > _LEAST_LIMIT + _LARGEST_RATIO * n_bytes:
        raise pa.ArrowInvalid(f"its {n_bytes:,} bytes stand for {size:,} in memory, more than numbers take")


def _sizes(parquet: pq.ParquetFile, columns: Collection[str]) -> Iterator[int]:
    metadata = parquet.metadata
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema.partition(".")[0] in columns:
                yield max(chunk.num_values * _WIDEST_NUMBER, chunk.total_uncompressed_size)
    for field in parquet.schema_arrow:
        if field.name in columns and pa.types.is_fixed_size_list(field.type):
            yield metadata.num_rows * field.type.list_size * _WIDEST_NUMBER  # null lists take room too
