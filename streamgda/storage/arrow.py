"""Arrays with one row per class as the columns of an Arrow table, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[Any]]


def to_arrow(columns: Columns) -> pa.Table:
    """One row per class: vectors as plain columns, matrices as columns of lists.

    A matrix with fewer rows than there are classes fills the first ones; the others are null.
    """
    n_rows = max(map(len, columns.values()))
    return pa.table({name: _column(values, n_rows) for name, values in columns.items()})


def _column(values: NDArray[Any], n_rows: int) -> pa.Array:
    if values.dtype == object:
        return _ragged(values)
    if values.ndim == 1:
        return pa.array(values)
    offsets = np.minimum(np.arange(n_rows + 1), len(values)) * values.shape[1]
    return pa.LargeListArray.from_arrays(
        offsets.astype(np.int64),
        pa.array(values.ravel()),
        mask=pa.array(np.arange(n_rows) >= len(values)) if len(values) < n_rows else None,
    )


def _ragged(vectors: NDArray[Any]) -> pa.Array:
    """Vectors of any length, one for each row, or None."""
    is_null = np.array([vector is None for vector in vectors], np.bool_)
    held = [vector for vector in vectors if vector is not None]
    lengths = [0 if vector is None else len(vector) for vector in vectors]
    return pa.LargeListArray.from_arrays(
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        pa.array(np.concatenate(held) if held else np.empty(0)),
        mask=pa.array(is_null) if is_null.any() else None,
    )


def from_arrow(table: pa.Table, n_patterns: int | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of a table that `to_arrow`, or an SQL engine, has made.

    If `n_patterns` is given, the rows are of so many patterns of observed features. Then columns of lists
    become arrays of objects, each a vector of any length or None, and a label occurs at most once in each
    pattern. With a column of subclasses, a label may occur any number of times.

    Raises
    ------
    ValueError
        If a value or a whole row is missing, or the lists of a column are not of one length.
    """
    most = len(table) if "subclass" in table.column_names else n_patterns or 1
    return {name: _array(table.column(name), name, n_patterns, most) for name in table.column_names}


def _array(column: pa.ChunkedArray, name: str, n_patterns: int | None, most: int) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        column = _without_dictionary(column, name, most)
    if not _is_list(column.type):
        if column.null_count:
            raise ValueError(f"column {name!r} holds a null")
        return np.asarray(column.to_numpy())
    lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if n_patterns is not None:
        return _vectors(lists, name)
    lists = lists.drop_null() if lists.null_count else lists  # `drop_null` copies
    values = lists.flatten()
    if values.null_count:
        raise ValueError(f"column {name!r} holds a null within a list")
    lengths = np.unique(lists.value_lengths().to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} holds lists of different lengths, {lengths[0]} and {lengths[-1]}")
    return np.asarray(values.to_numpy()).reshape(len(lists), int(lengths[0]) if len(lengths) else 0)


def _vectors(lists: pa.Array, name: str) -> NDArray[Any]:
    """One vector for each row, or None."""
    vectors = np.full(len(lists), None, dtype=object)
    values = lists.flatten()
    if values.null_count:
        raise ValueError(f"column {name!r} holds a null within a list")
    numbers = values.to_numpy()
    ends = np.cumsum(lists.value_lengths().fill_null(0).to_numpy())
    for row, (stop, is_null) in enumerate(zip(ends, lists.is_null().to_pylist(), strict=True)):
        if not is_null:
            vectors[row] = numbers[(ends[row - 1] if row else 0) : stop]
    return vectors


def _without_dictionary(column: pa.ChunkedArray, name: str, most: int) -> pa.ChunkedArray:
    """A dictionary-encoded column as plain values, each of which may occur `most` times."""
    if column.null_count:
        raise ValueError(f"column {name!r} holds a null")
    if most * sum(len(chunk.dictionary) for chunk in column.chunks) < len(column):
        raise ValueError(f"a {name} stands twice")
    return column.cast(column.type.value_type)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
