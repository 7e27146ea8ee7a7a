"""Check what the pages of a Parquet file say that they take, before pyarrow makes room for them.

Each page says in its header how many bytes it has when it is decompressed, up to 2 GB. A few kilobytes of
Zstandard or Brotli can stand for as many, and nothing in the footer shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from streamgda.storage.thrift import INT32, Struct, read_struct

SLIGHT_CODECS = frozenset({0, 1})  # none and Snappy, which makes nothing 25 times as large

_DECOMPRESSED, _STORED = (2, INT32), (3, INT32)  # fields of the header of a page

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}

_LEVELS = 8  # bytes that the levels of a value take at most

_SMALL = 1 << 20  # bytes that a page of few numbers may take,

_USUAL = 1 << 26  # and any page;

_LARGEST_RATIO = 1_000  # of longer ones to what is stored: only pages of one value over and over exceed it

_HEADER = 1 << 8  # bytes that hold most headers

_LONGEST_HEADER = 1 << 24


def check_pages(
    file: pa.NativeFile, group: pq.RowGroupMetaData, columns: Collection[str], longest: int | None = None
) -> None:
    """Check the pages of some columns of a row group.

    Parameters
    ----------
    file : pyarrow.NativeFile
        The file.
    group : pyarrow.parquet.RowGroupMetaData
        The row group.
    columns : collection of str
        The columns that will be read.
    longest : int, optional
        Pass over columns that take more bytes in the file: where each page costs a request.

    Raises
    ------
    pyarrow.ArrowInvalid
        If a page takes far more memory than its values can, or the header of one is damaged.
    """
    names = set(columns)
    for chunk in map(group.column, range(group.num_columns)):
        if names.isdisjoint(accumulate(chunk.path_in_schema.split("."), "{}.{}".format)):
            continue
        if longest is None or chunk.total_compressed_size <= longest:
            _check_chunk(file, chunk)


def _check_chunk(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> None:
    width = _WIDTHS.get(chunk.physical_type)
    most = None if width is None else chunk.num_values * (width + _LEVELS) + _SMALL
    for header in _headers(file, chunk):
        n_bytes, n_stored = header[_DECOMPRESSED], header[_STORED]
        likely = _USUAL + _LARGEST_RATIO * n_stored
        if n_bytes > (likely if most is None else min(most, likely)):
            raise pa.ArrowInvalid(
                f"a page of column {chunk.path_in_schema!r} stands for {n_bytes:,} bytes, which "
                f"{n_stored:,} stored bytes and {chunk.num_values:,} values do not account for"
            )


def _headers(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Iterator[Struct]:
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end = at + chunk.total_compressed_size
    while at < end:
        header, length = _header(file, at)
        yield header
        at += length + max(header[_STORED], 0)


def _header(file: pa.NativeFile, at: int) -> tuple[Struct, int]:
    """The header of the page at a position, and its length."""
    size = _HEADER
    while True:
        content = file.read_at(size, at)
        try:
            header, length = read_struct(content)
            if _STORED in header and _DECOMPRESSED in header:
                return header, length
        except (LookupError, RecursionError):
            pass  # it is longer, or damaged
        if len(content) < size or size >= _LONGEST_HEADER:
            raise pa.ArrowInvalid("the header of a page is damaged")
        size *= 16
