"""Read the footer of a Parquet file, and check that what it says of the file agrees with itself.

pyarrow decodes it. A footer that pyarrow reads may still be damaged: a flipped bit in the place of a column
would give the values of another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from streamgda.storage.filesystems import fsspec_of, is_local
from streamgda.storage.kept_footers import KEPT_FOOTERS
from streamgda.storage.versions import Version, current_version, opened

_TAIL = 8  # bytes after the footer: its length, and "PAR1", or "PARE" if it is encrypted

_SIGNATURE = 28  # bytes after the footer of a file whose columns are encrypted, and the footer is not

_READ_AHEAD = 1 << 16  # bytes that hold most footers


def read_footer(filesystem: pafs.FileSystem, path: str) -> tuple[bytes, Version]:
    """The end of a Parquet file, as `read_tail` returns it, and the version of the file that it is of.

    In an object store that takes two requests: one for the version, one for the bytes.
    """
    behind, file = fsspec_of(filesystem), None
    if is_local(filesystem):
        file, version = opened(filesystem, path)
        with file:
            return read_tail(file), version
    if behind is None:
        file, version = opened(filesystem, path)
        tail = read_tail(file)
    else:
        version = current_version(filesystem, path)
        size = version.size if version.size is not None else int(behind.size(path))
        tail = _tail(lambda n, at: behind.cat_file(path, start=at, end=at + n), size)
    KEPT_FOOTERS.keep(filesystem, path, version, tail, file)
    return tail, version


def read_tail(file: pa.NativeFile) -> bytes:
    """The end of a Parquet file: its footer, the length of that, and four letters."""
    return _tail(file.read_at, file.size())


def _tail(read_at: Callable[[int, int], bytes], size: int) -> bytes:
    tail = read_at(min(size, _READ_AHEAD), max(size - _READ_AHEAD, 0)) if size else b""
    length = int.from_bytes(tail[-_TAIL:-4], "little") + _TAIL
    if len(tail) < length <= size:
        return bytes(read_at(length, size - length))
    return bytes(tail[-length:])


def digest_of_footer(tail: bytes) -> str:
    """A hash of a footer, as `read_tail` returns it. It is in saved ledgers, so it may never change."""
    return hashlib.blake2b(tail, digest_size=16).hexdigest()


def check_footer(metadata: pq.FileMetaData, tail: bytes, n_bytes: int) -> None:
    """Check that row groups have the rows of the file, and columns one type and places of their own.

    The columns of an encrypted file are passed over.

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
        If that is not so; it is a ValueError.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    if min(rows, default=0) < 0 or sum(rows) != metadata.num_rows:
        raise pa.ArrowInvalid("the footer is damaged: its row groups have not the rows of the file")
    if has_encrypted_columns(metadata, tail):
        return
    places = sorted(_places(metadata, groups))
    if _behind(metadata, tail) or any(not 0 < start < stop <= n_bytes - len(tail) for start, stop in places):
        raise pa.ArrowInvalid("the footer is damaged: a column is not within the file")
    if any(stop > start for (_, stop), (start, _) in pairwise(places)):
        raise pa.ArrowInvalid("the footer is damaged: two columns are in one place")


def has_encrypted_columns(metadata: pq.FileMetaData, tail: bytes) -> bool:
    """Whether columns of a file are encrypted; pyarrow ends the process where it is asked for them."""
    return _behind(metadata, tail) == _SIGNATURE or tail.endswith(b"PARE")


def _behind(metadata: pq.FileMetaData, tail: bytes) -> int:
    """Bytes between a footer and its length."""
    return len(tail) - _TAIL - int(metadata.serialized_size)


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
