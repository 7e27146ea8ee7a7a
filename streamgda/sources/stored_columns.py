"""Decode the columns of a Parquet file in bounded memory.

- Strings may be stored as a dictionary of the distinct ones, and an index for each row: a megabyte of these
  can stand for gigabytes of strings. Such a column is decoded as a dictionary too. Of the others, few rows
  are decoded at a time where strings are long.
- Wide row groups are decoded some columns at a time. Arrow decodes all columns side by side, and holds a page
  of each beside the decoded rows. Where a column has a single page, that is twice the bytes of the row group.
- Views of strings, which most of Arrow's functions do not take, become plain strings.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamgda.storage.ranges import chunks_of

_BYTES_AT_A_TIME = 1 << 20  # by the mean length of a row group; a few rows may be many times as long

# The most that a dictionary and its indices take. Writers give up a dictionary that grows to 1 MB, and then
# store strings; the footer does not say so, but these take more.
_BYTES_OF_DICTIONARY = 1 << 21
_BYTES_OF_INDEX = 5


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


def rows_at_a_time(metadata: pq.FileMetaData, groups: Collection[int], names: Collection[str]) -> int:
    """How many rows take 1 MB in some columns, if they are as long as in the mean."""
    n_rows = sum(metadata.row_group(i).num_rows for i in groups)
    chunks = chain.from_iterable(chunks_of(metadata, groups, names))
    n_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    return max(int(_BYTES_AT_A_TIME * n_rows / max(n_bytes, 1)), 1)


def _has_indices(chunk: pq.ColumnChunkMetaData) -> bool:
    most = _BYTES_OF_DICTIONARY + _BYTES_OF_INDEX * chunk.num_values
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)


WIDE = 256  # columns

_MOST_VALUES = 20_000_000  # of row groups that are decoded as a whole: 160 MB
_COLUMNS_AT_A_TIME = 8  # whose pages are then in memory
_ALIGNMENT = 64  # bytes, at multiples of which Arrow lets arrays begin


def most_rows(n_columns: int) -> int:
    """The most rows of a row group of so many columns that is decoded as a whole; 0 unless it is wide."""
    return _MOST_VALUES // n_columns if n_columns >= WIDE else 0


def decode_by_columns(
    parquet: pq.ParquetFile, groups: Sequence[int], names: Sequence[str], n_rows: int
) -> pa.Table:
    """The rows of some row groups as a whole, each column in one piece.

    Parameters
    ----------
    parquet : ParquetFile
        The file.
    groups : sequence of int
        The row groups, one after the other in the file.
    names : sequence of str
        The columns to decode.
    n_rows : int
        How many rows there are, by the footer.

    Raises
    ------
    pyarrow.ArrowException
        If the file is damaged; also if columns differ in length.
    """
    room, columns, fields = _Room(len(names), n_rows), [], []
    for start in range(0, len(names), _COLUMNS_AT_A_TIME):
        few = names[start : start + _COLUMNS_AT_A_TIME]
        decoded = parquet.read_row_groups(groups, columns=few, use_threads=False)
        columns += [room.copy(column.combine_chunks()) for column in decoded.columns]
        fields += list(decoded.schema)
        del decoded  # or it would be held while the next columns are decoded
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


class _Room:
    """One piece of memory for the numbers of so many columns. What is never written takes no memory."""

    def __init__(self, n_columns: int, n_rows: int) -> None:
        self._free = np.empty(n_columns * (8 * n_rows + _ALIGNMENT), np.uint8)

    def copy(self, column: pa.Array) -> pa.Array:
        """A copy of a column in this memory; or the column itself if it has strings or nulls."""
        kind = column.type
        is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        if column.null_count or not is_number or column.nbytes + _ALIGNMENT > len(self._free):
            return column
        values = column.to_numpy()
        held = self._free[: values.nbytes].view(values.dtype)
        held[:] = values
        self._free = self._free[-(-values.nbytes // _ALIGNMENT) * _ALIGNMENT :]
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(held)])


def without_views(schema: pa.Schema) -> pa.Schema:
    """A schema with the types in which columns of views are read."""
    return pa.schema([field.with_type(_without_view(field.type)) for field in schema], schema.metadata)


def batch_without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with such columns."""
    if not any(map(_is_view, batch.columns)):
        return batch
    return batch.cast(without_views(batch.schema))


def _is_view(column: pa.Array) -> bool:
    return isinstance(column, (pa.StringViewArray, pa.BinaryViewArray))


def _without_view(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind
