"""Read the headers of the pages of a Parquet file: how many bytes and values a page has.

pyarrow takes memory for a page as its header says, before it decompresses the page: up to 2 GB. A few
kilobytes of Zstandard or Brotli can stand for as many, and the footer does not show it. So headers are
checked first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import accumulate
from math import inf

import pyarrow as pa
import pyarrow.parquet as pq

from streamgda.storage.thrift import INT32, READ_ERRORS, STRUCT, Struct, read_struct

SLIGHT_CODECS = frozenset({0, 1})
"""The codecs by which a page is never 25 times as large as its stored bytes: none, and Snappy."""

# The fields of the header of a page.
_DECOMPRESSED_SIZE, _STORED_SIZE = (2, INT32), (3, INT32)
_DATA_PAGES = (5, STRUCT), (8, STRUCT)  # of version 1 and of version 2
_DICTIONARY_PAGE = (7, STRUCT)
_N_VALUES = (1, INT32)  # of a page of any of these kinds

# How many bytes a decompressed page may have. A page of numbers may have no more than all values of the
# column take, and _ALLOWANCE. Any page may have _USUAL bytes, and _LARGEST_RATIO for each stored byte, which
# only pages of one value over and over exceed.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}  # of one number
_LEVELS = 8  # of the repetition and definition levels of one value, at most
_ALLOWANCE = 1 << 20
_USUAL = 1 << 26
_USUAL_OF_STRINGS = 1 << 28
_LARGEST_RATIO = 1_000

# The length of a header is not stored. So _FIRST_BYTES are read, which hold most headers, then 16 times as
# many, until they hold the whole header. None is longer than _LONGEST_HEADER.
_FIRST_BYTES = 1 << 8
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
    for chunk in chunks_of(group, columns):
        if longest is None or chunk.total_compressed_size <= longest:
            _check_chunk(file, chunk)


def chunks_of(group: pq.RowGroupMetaData, columns: Collection[str]) -> Iterator[pq.ColumnChunkMetaData]:
    """The chunks of some columns of a row group; a column of lists or structs has one for each leaf."""
    names = set(columns)
    for chunk in map(group.column, range(group.num_columns)):
        enclosing = accumulate(chunk.path_in_schema.split("."), "{}.{}".format)  # of "a.b": "a" and "a.b"
        if not names.isdisjoint(enclosing):
            yield chunk


def dictionary_size(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """How many bytes the dictionary of a chunk takes when it is decompressed, and how many values it has.

    Raises
    ------
    pyarrow.ArrowInvalid
        If the header of its page is damaged.
    """
    header, _ = _header(file, chunk.dictionary_page_offset)
    if _N_VALUES not in header.get(_DICTIONARY_PAGE, {}):
        raise pa.ArrowInvalid("the header of a page is damaged")
    return header[_DECOMPRESSED_SIZE], header[_DICTIONARY_PAGE][_N_VALUES]


def most_bytes_of_value(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> float:
    """The mean number of bytes of a value, in the data page of a chunk where that is largest.

    Where a dictionary holds the values, these are the bytes of their indices.

    Raises
    ------
    pyarrow.ArrowInvalid
        If the header of a page is damaged.
    """
    rates = [
        header[_DECOMPRESSED_SIZE] / max(header[kind].get(_N_VALUES, 0), 1)
        for header in _headers(file, chunk)
        for kind in _DATA_PAGES
        if kind in header
    ]
    return max(rates, default=0.0)


def _check_chunk(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> None:
    width = _WIDTHS.get(chunk.physical_type)
    most = inf if width is None else chunk.num_values * (width + _LEVELS) + _ALLOWANCE
    usual = _USUAL_OF_STRINGS if chunk.physical_type == "BYTE_ARRAY" else _USUAL
    for header in _headers(file, chunk):
        n_bytes, n_stored = header[_DECOMPRESSED_SIZE], header[_STORED_SIZE]
        if n_bytes > min(most, usual + _LARGEST_RATIO * n_stored):
            raise pa.ArrowInvalid(
                f"a page of column {chunk.path_in_schema!r} stands for {n_bytes:,} bytes, which "
                f"{n_stored:,} stored bytes and {chunk.num_values:,} values do not account for"
            )


def _headers(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Iterator[Struct]:
    """The headers of the pages of a chunk, in order."""
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end = at + chunk.total_compressed_size
    while at < end:
        header, length = _header(file, at)
        yield header
        at += length + max(header[_STORED_SIZE], 0)


def _header(file: pa.NativeFile, at: int) -> tuple[Struct, int]:
    """The header of the page at a position, and its length."""
    size = _FIRST_BYTES
    while True:
        content = file.read_at(size, at)
        with suppress(*READ_ERRORS):  # the header is longer than what was read, or damaged
            header, length = read_struct(content)
            if _STORED_SIZE in header and _DECOMPRESSED_SIZE in header:
                return header, length
        if len(content) < size or size >= _LONGEST_HEADER:
            raise pa.ArrowInvalid("the header of a page is damaged")
        size *= 16
