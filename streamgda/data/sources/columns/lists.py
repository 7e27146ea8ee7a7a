"""Columns of lists, of which each place is a feature: lists of 2 numbers in a column "a" are a_0 and a_1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamgda.data.blocks.block import INTEGERS_OF_FLOATS, Features, Matrix
from streamgda.data.blocks.schema import Schema, column_of
from streamgda.data.blocks.types import plain, plain_type
from streamgda.data.sources.columns.types import FIRST_ROWS


def places_of(column: str, length: int) -> tuple[str, ...]:
    """The names of the features that lists of this length make."""
    return tuple(f"{column}_{i}" for i in range(length))


def are_of_one_list(schema: Schema) -> bool:
    """Whether the features are all places of one column of lists, in order, and no others."""
    names = schema.names
    if not names or not names[0].endswith("_0"):
        return False
    column = column_of(names[0])
    is_whole = dict(schema.lists).get(column, len(names)) == len(names)
    return is_whole and names == places_of(column, len(names))


def is_list(kind: pa.DataType) -> bool:
    """Whether columns of this type hold lists of integers or floats."""
    lists = plain_type(kind)  # that of a tensor too
    if not (pa.types.is_list(lists) or pa.types.is_large_list(lists) or pa.types.is_fixed_size_list(lists)):
        return False
    return bool(pa.types.is_integer(lists.value_type) or pa.types.is_floating(lists.value_type))


def length_of(kind: pa.DataType) -> int | None:
    """The length of all lists of a type; None if they may differ."""
    lists = plain_type(kind)
    return int(lists.list_size) if pa.types.is_fixed_size_list(lists) else None


def expanded(
    names: Sequence[str], schema: pa.Schema, origin: str, first_rows: Callable[[list[str]], pa.Table]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The features that some columns make, and the lengths of those columns that hold lists.

    Parameters
    ----------
    names : sequence of str
        Columns, and places of lists such as emb_3.
    schema : pyarrow.Schema
        The columns that there are.
    origin : str
        What errors call the data.
    first_rows : callable
        Reads the first rows of some columns, which tell the lengths that types leave open.

    Raises
    ------
    ValueError
        If the lists of a column have no one length, or a place of it is named as another feature is.
    """
    if not any(map(is_list, schema.types)):
        return tuple(names), {}
    kinds = {field.name: field.type for field in schema if is_list(field.type)}
    there = set(schema.names)
    own = [name if name in there else column_of(name) for name in names]
    lengths = {name: length_of(kinds[name]) for name in own if name in kinds}
    unknown = [name for name, length in lengths.items() if length is None]
    rows = first_rows(unknown) if unknown else pa.table({})
    lists = {
        name: length or first_length(rows.column(name).combine_chunks(), f"{origin}: column {name!r}")
        for name, length in lengths.items()
    }
    places = {place: name for name, length in lists.items() for place in places_of(name, length)}
    for name in there.intersection(names).intersection(places):
        raise ValueError(
            f"{origin}: feature {name!r} would be a column and a place of the lists in {places[name]!r}; "
            "rename one of the two columns, or leave it out"
        )
    each = (places_of(name, lists[name]) if name in lists and name in there else (name,) for name in names)
    return tuple(chain.from_iterable(each)), lists


def first_length(column: pa.Array, called: str) -> int:
    """The length of the lists in the first rows of a column.

    Raises
    ------
    ValueError
        If they differ, or there is no list with a number. The message begins with what the column is called.
    """
    lengths = lengths_of(column)
    there = lengths.filter(pc.greater(lengths, 0))
    if not len(there):
        raise ValueError(
            f"{called} holds no list with a number in the first {len(lengths):,} rows, which tell how many "
            "features its places are; leave the column out, or write it as lists of a fixed size"
        )
    length = int(there[0].as_py())
    if (other := first_other(lengths, length)) is not None:
        first = pc.index(lengths, there[0]).as_py()
        raise ValueError(
            f"{called} holds {length} numbers in row {first} and {lengths[other]} in row {other}; leave the "
            "column out, as lists are features if all have one length"
        )
    return length


def has_no_list(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column is of lists of any length, and none has a number."""
    if not is_list(column.type) or length_of(column.type) is not None:
        return False
    return not pc.any(pc.greater(lengths_of(column), 0)).as_py()


def first_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first batches, up to that by which there are rows, and each column of lists has one."""
    n_rows, unknown = 0, None
    for batch in batches:
        yield batch
        n_rows += batch.num_rows
        columns = range(batch.num_columns) if unknown is None else unknown
        unknown = [i for i in columns if has_no_list(batch.column(i))]
        if n_rows >= FIRST_ROWS or (n_rows and not unknown):
            return


def lengths_of(column: pa.Array) -> pa.Array:
    """How many numbers each list of a column has; null for a null list."""
    return pc.list_value_length(plain(column))


def first_other(lengths: pa.Array, length: int) -> int | None:
    """The first row whose list has another length; None if there is none. A null is no list."""
    row = int(pc.index(pc.not_equal(lengths, length), True).as_py())
    return None if row < 0 else row


def side_by_side(parts: Sequence[Matrix]) -> Features:
    """Several matrices of the same rows as one matrix; as single columns if it would round an integer."""
    if len(parts) == 1:
        return parts[0]
    if np.result_type(*parts) == np.float64 and any(map(_has_wide_integers, parts)):
        return [column for part in parts for column in part.T]
    return np.concatenate(parts, axis=1)


def _has_wide_integers(values: Matrix) -> bool:
    """Whether some are integers that float64 may round."""
    if values.dtype.kind not in "iu" or values.itemsize < 8:
        return False
    return bool(((values > INTEGERS_OF_FLOATS) | (values < -INTEGERS_OF_FLOATS)).any())
