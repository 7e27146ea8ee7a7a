"""How columns that are carried over beside predictions are read, so that long strings take bounded memory.

A dictionary of a megabyte can stand for gigabytes of strings. Columns that are stored so are read so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from streamgda.storage.pages import dictionary_size, most_bytes_of_value

_BYTES = 1 << 25  # to decode at a time

_INDEX = 5  # bytes that a row of a dictionary takes at most, with its levels


def columns_of_indices(
    file: pa.NativeFile, metadata: pq.FileMetaData, groups: Collection[int], names: Collection[str]
) -> list[str]:
    """The columns, among some, that hold strings whose rows are nearly all indices of a dictionary."""
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
    """As many rows as take some 32 MB in columns, and in those within them, wherever rows take most.

    Of columns that take more than `longest` bytes in the file, their mean is taken, and no page is visited.
    """
    n_rows = sum(metadata.row_group(i).num_rows for i in groups)
    n_bytes = sum(_decoded_bytes(file, chunk, longest) for chunk in _chunks(metadata, groups, names))
    return max(int(_BYTES * n_rows / max(n_bytes, 1)), 1)


def _chunks(
    metadata: pq.FileMetaData, groups: Collection[int], names: Collection[str]
) -> Iterator[pq.ColumnChunkMetaData]:
    for group in map(metadata.row_group, groups if names else ()):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema.startswith(tuple(names)):
                yield chunk


def _holds_indices(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> bool:
    if chunk.physical_type != "BYTE_ARRAY" or not chunk.has_dictionary_page:
        return False
    n_bytes, _ = dictionary_size(file, chunk)
    n_indices: int = chunk.total_uncompressed_size - n_bytes
    return n_indices <= _INDEX * int(chunk.num_values)


def _decoded_bytes(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData, longest: int | None) -> float:
    """What the values would take if all were as long as where they are longest."""
    n_bytes = float(chunk.total_uncompressed_size)
    if chunk.physical_type == "BYTE_ARRAY" and (longest is None or chunk.total_compressed_size <= longest):
        n_bytes = max(n_bytes, most_bytes_of_value(file, chunk) * chunk.num_values)
    if chunk.has_dictionary_page and not _holds_indices(file, chunk):
        n_in_dictionary, n_entries = dictionary_size(file, chunk)
        n_bytes = max(n_bytes, n_in_dictionary / max(n_entries, 1) * chunk.num_values)
    return n_bytes
