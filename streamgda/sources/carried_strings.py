"""How columns that are carried over beside predictions are read, so that long strings take bounded memory.

A column may be stored as a dictionary of its distinct strings, and an index for each row: a megabyte of them
can stand for gigabytes of strings. Such a column is read as a dictionary too. Of the others, few rows are
decoded at a time where strings are long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from streamgda.storage.pages import chunks_of, dictionary_size, most_bytes_of_value

_BYTES_AT_A_TIME = 1 << 25

_BYTES_OF_INDEX = 5  # at most: an index into a dictionary, and the levels of the value


def columns_of_indices(
    file: pa.NativeFile, metadata: pq.FileMetaData, groups: Collection[int], names: Collection[str]
) -> list[str]:
    """Those columns of strings, among some, that are stored as indices of a dictionary in all row groups."""
    chunks = [chunk for chunk in _chunks(metadata, groups, names) if chunk.path_in_schema in names]
    plain = {chunk.path_in_schema for chunk in chunks if not _holds_indices(file, chunk)}
    return sorted({chunk.path_in_schema for chunk in chunks} - plain)


def rows_at_a_time(
    file: pa.NativeFile,
    metadata: pq.FileMetaData,
    groups: Collection[int],
    names: Collection[str],
    longest: int | None = None,
) -> int:
    """How many rows take 32 MB in some columns, if all strings were as long as those of the longest page.

    Of a chunk that takes more than `longest` bytes in the file, no page is visited: the mean length counts.
    """
    n_rows = sum(metadata.row_group(i).num_rows for i in groups)
    n_bytes = sum(_decoded_bytes(file, chunk, longest) for chunk in _chunks(metadata, groups, names))
    return max(int(_BYTES_AT_A_TIME * n_rows / max(n_bytes, 1)), 1)


def _chunks(
    metadata: pq.FileMetaData, groups: Collection[int], names: Collection[str]
) -> Iterator[pq.ColumnChunkMetaData]:
    for group in groups if names else ():
        yield from chunks_of(metadata.row_group(group), names)


def _holds_indices(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether strings are indices of a dictionary; a writer gives up a dictionary that grows too long."""
    if chunk.physical_type != "BYTE_ARRAY" or not chunk.has_dictionary_page:
        return False
    n_bytes, _ = dictionary_size(file, chunk)
    return int(chunk.total_uncompressed_size) - n_bytes <= _BYTES_OF_INDEX * int(chunk.num_values)


def _decoded_bytes(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData, longest: int | None) -> float:
    """What the values would take in memory, if all were as long as those of the longest page."""
    n_bytes = float(chunk.total_uncompressed_size)
    if chunk.physical_type == "BYTE_ARRAY" and (longest is None or chunk.total_compressed_size <= longest):
        n_bytes = max(n_bytes, most_bytes_of_value(file, chunk) * chunk.num_values)
    if chunk.has_dictionary_page and not _holds_indices(file, chunk):
        n_in_dictionary, n_entries = dictionary_size(file, chunk)
        n_bytes = max(n_bytes, n_in_dictionary / max(n_entries, 1) * chunk.num_values)
    return n_bytes
