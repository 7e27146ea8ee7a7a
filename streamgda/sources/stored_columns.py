"""Decode the columns of a Parquet file in bounded memory.

- Strings may be stored as a dictionary: the distinct strings, and an index for each row. A megabyte of
  these can stand for gigabytes of strings, so such a column is decoded as a dictionary too. Of other columns
  of strings, fewer rows are decoded at a time if the strings are long.
- Wide row groups are decoded some columns at a time. Arrow decodes all columns side by side, and holds a page
  of each beside the decoded rows. Where a column has a single page, that is twice the bytes of the row group.
- Views of strings, which most of Arrow's functions do not take, become plain strings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamgda.blocks.block import power_of_two_up_to
from streamgda.storage.ranges import chunks_of

WIDE = 256  # columns

_READ_ELEMENTS = 1 << 23  # at a time, in float64 64 MB; half of that where rows are wide
_BUFFER = 1 << 16  # bytes of each column; a quarter of that where rows are wide
_BYTES_AT_A_TIME = 1 << 20  # of strings, by their mean length in a row group; a few may be many times as long

# The most that a dictionary and its indices take. Writers give up a dictionary that grows to 1 MB, and then
# store strings; the footer does not say so, but these take more.
_BYTES_OF_DICTIONARY = 1 << 21
_BYTES_OF_INDEX = 5

_MOST_VALUES = 20_000_000  # of wide row groups that are decoded as a whole: 160 MB
_COLUMNS_AT_A_TIME = 8  # decoded together, so that only their pages are in memory
_ALIGNMENT = 64  # bytes, at multiples of which Arrow lets arrays begin


VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""The types of views, and the plain types that take their place."""


def read_buffer(n_columns: int) -> int:
    """Bytes to read at a time of each column."""
    return _BUFFER if n_columns < WIDE else _BUFFER // 4


def rows_per_read(n_features: int) -> int:
    """Rows to decode at a time: a power of two, as the rows of a block are."""
    return power_of_two_up_to((_READ_ELEMENTS if n_features < WIDE else _READ_ELEMENTS // 2) // n_features)


def most_rows(n_columns: int) -> int:
    """The most rows of a row group of `n_columns` columns that is decoded as a whole; 0 unless it is wide."""
    return _MOST_VALUES // n_columns if n_columns >= WIDE else 0


def read_as_dictionaries(
    metadata: pq.FileMetaData, groups: Collection[int], labels: Collection[str], kept: Collection[str]
) -> list[str]:
    """The labels, and those of the kept columns that are stored as dictionaries, in some row groups.

    Strings that are stored by their differences or lengths are left out: Arrow makes no dictionary of them.
    """
    found = chain.from_iterable(chunks_of(metadata, groups, {*labels, *kept}))
    chunks = [chunk for chunk in found if chunk.physical_type == "BYTE_ARRAY"]
    plain = {chunk.path_in_schema for chunk in chunks if not _has_indices(chunk)}
    in_differences = {
        chunk.path_in_schema for chunk in chunks if any("DELTA" in encoding for encoding in chunk.encodings)
    }
    strings = {chunk.path_in_schema for chunk in chunks}.intersection(kept) - plain
    return sorted({*labels, *strings} - in_differences)


def _has_indices(chunk: pq.ColumnChunkMetaData) -> bool:
    most = _BYTES_OF_DICTIONARY + _BYTES_OF_INDEX * chunk.num_values
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)


def decode(
    parquet: pq.ParquetFile,
    groups: Sequence[int],
    names: Sequence[str],
    n_features: int,
    kept: Collection[str],
) -> Iterator[pa.RecordBatch]:
    """Decode some columns of neighbouring row groups, some rows at a time.

    Row groups that are wide and short are decoded as a whole.

    Parameters
    ----------
    parquet : pyarrow.parquet.ParquetFile
        The file.
    groups : sequence of int
        The row groups, one after the other in the file.
    names : sequence of str
        The columns.
    n_features : int
        How many of them are features.
    kept : collection of str
        Which of them may have long strings.

    Raises
    ------
    pyarrow.ArrowException
        If the file is damaged; also if columns differ in length.
    """
    metadata = parquet.metadata
    n_rows = sum(metadata.row_group(i).num_rows for i in groups)
    chunks = chain.from_iterable(chunks_of(metadata, groups, kept))
    n_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    most = max(int(_BYTES_AT_A_TIME * n_rows / max(n_bytes, 1)), 1)
    at_a_time = min(rows_per_read(n_features), most)
    if n_rows <= min(most, most_rows(len(names))):
        batches = iter(_by_columns(parquet, groups, names, n_rows).to_batches(at_a_time))
    else:
        batches = parquet.iter_batches(at_a_time, row_groups=groups, columns=names, use_threads=False)
    return map(_without_views, batches)


def _by_columns(
    parquet: pq.ParquetFile, groups: Sequence[int], names: Sequence[str], n_rows: int
) -> pa.Table:
    """The rows of some row groups as a whole, each column in one piece of memory.

    The values are copied into one piece of memory, which is given back to the system as a whole. The memory
    of many small arrays would stay with Arrow.
    """
    columns, fields = [], []
    # Pages that are not written take no memory.
    room = np.empty(len(names) * (8 * n_rows + _ALIGNMENT), np.uint8)
    for start in range(0, len(names), _COLUMNS_AT_A_TIME):
        few = names[start : start + _COLUMNS_AT_A_TIME]
        decoded = parquet.read_row_groups(groups, columns=few, use_threads=False)
        for column in map(pa.ChunkedArray.combine_chunks, decoded.columns):
            columns.append(_copied(column, room))
            if columns[-1] is not column:
                room = room[-(-column.nbytes // _ALIGNMENT) * _ALIGNMENT :]
        fields += list(decoded.schema)
        del decoded, column  # or it would be held while the next columns are decoded
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _copied(column: pa.Array, room: NDArray[np.uint8]) -> pa.Array:
    """A copy of a column of numbers at the beginning of `room`; itself if it has other values or nulls."""
    kind = column.type
    is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if column.null_count or not is_number or column.nbytes + _ALIGNMENT > len(room):
        return column
    values = column.to_numpy()
    held = room[: values.nbytes].view(values.dtype)
    held[:] = values
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(held)])


def without_views(schema: pa.Schema) -> pa.Schema:
    """A schema with the types in which columns of views are decoded."""
    return pa.schema(
        [field.with_type(VIEWS.get(field.type, field.type)) for field in schema], schema.metadata
    )


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    has_views = not VIEWS.keys().isdisjoint(batch.schema.types)
    return batch.cast(without_views(batch.schema)) if has_views else batch
