"""Wide row groups, decoded some columns at a time.

Arrow decodes all columns of a row group side by side, and holds a page of each beside the decoded rows. Where
a column has a single page, that is twice the bytes of the row group. Here only a few columns have pages in
memory at a time. Their values are copied into one piece of memory, which goes back to the system as a whole;
memory that many small arrays took would stay with Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
