"""Check what the pages of a Parquet file say that they take, before pyarrow makes room for them.

Each page says in its header how many bytes it has when it is decompressed, up to 2 GB. A few kilobytes of
Zstandard or Brotli can stand for as many, and nothing in the footer shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from streamgda.storage.thrift import INT32, READ_ERRORS, STRUCT, Struct, read_struct

SLIGHT_CODECS = frozenset({0, 1})  # none and Snappy, which makes nothing 25 times as large

_DECOMPRESSED, _STORED, _OF_DICTIONARY = (2, INT32), (3, INT32), (7, STRUCT)  # fields of a header

_PAGES_OF_DATA = (5, STRUCT), (8, STRUCT)  # in the two versions

_N_ENTRIES = (1, INT32)  # of each of these

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}

_LEVELS = 8  # bytes that the levels of a value take at most

_SMALL = 1 << 20  # bytes that a page of few numbers may take,

_USUAL = {"BYTE_ARRAY": 1 << 28}  # and any page of strings,

_USUAL_OF_OTHERS = 1 << 26  # and of others;

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


def dictionary_size(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """How many bytes the dictionary of a chunk takes when it is decompressed, and its entries.

    Raises
    ------
    pyarrow.ArrowInvalid
        If the header of its page is damaged.
    """
    header, _ = _header(file, chunk.dictionary_page_offset)
    if _N_ENTRIES not in header.get(_OF_DICTIONARY, {}):
        raise pa.ArrowInvalid("the header of a page is damaged")
    return header[_DECOMPRESSED], header[_OF_DICTIONARY][_N_ENTRIES]


def most_bytes_of_value(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> float:
    """How many bytes a value takes in that page of a chunk in which values take most; a dictionary apart.

    Raises
    ------
    pyarrow.ArrowInvalid
        If the header of a page is damaged.
    """
    rates = [
        header[_DECOMPRESSED] / max(header[page].get(_N_ENTRIES, 0), 1)
        for header in _headers(file, chunk)
        for page in _PAGES_OF_DATA
        if page in header
    ]
    return max(rates, default=0.0)


def _check_chunk(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> None:
    width = _WIDTHS.get(chunk.physical_type)
    most = None if width is None else chunk.num_values * (width + _LEVELS) + _SMALL
    for header in _headers(file, chunk):
        n_bytes, n_stored = header[_DECOMPRESSED], header[_STORED]
        likely = _USUAL.get(chunk.physical_type, _USUAL_OF_OTHERS) + _LARGEST_RATIO * n_stored
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
        with suppress(*READ_ERRORS):  # the header is longer, or damaged
            header, length = read_struct(content)
            if _STORED in header and _DECOMPRESSED in header:
                return header, length
        if len(content) < size or size >= _LONGEST_HEADER:
            raise pa.ArrowInvalid("the header of a page is damaged")
        size *= 16
