"""Rows in memory that hold lists, as rows with a column for each place of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from streamgda.data.blocks.arrays import column_labels, library_of
from streamgda.data.blocks.block import Matrix
from streamgda.data.blocks.schema import Schema, column_of
from streamgda.data.blocks.types import plain
from streamgda.data.sources.batches import matrix_of_lists
from streamgda.data.sources.columns.lists import are_of_one_list, first_length, is_list, places_of

_ROW: Callable[[int], str] = "row {}".format


def with_lists_spread(X: Any, lists: Sequence[Any], known: Schema) -> Any:
    """A frame with a column for each place of the lists in some columns, which `with_places` has found.

    If no columns are named, X itself is a column of lists.
    """
    if not lists:
        return _of_column(X, known)
    names, columns, learnt = column_labels(X) or [], {}, known.names
    for name in lists:
        if learnt is None or (name not in learnt and str(name) in map(column_of, learnt)):
            column = _in_arrow(X[name], name)
            if is_list(column.type) or (learnt and pa.types.is_null(column.type)):
                columns[name] = _places(column, str(name), known)
    if not columns:
        return X
    if len(names) == 1 and are_of_one_list(known):
        return columns[names[0]][1]
    each = chain.from_iterable(
        _pairs(*columns[name]) if name in columns else [(name, X[name])] for name in names
    )
    if library_of(X) == "pandas":
        import pandas as pd

        return pd.DataFrame(dict(each), index=X.index)
    return pa.table(dict(each)) if library_of(X) == "pyarrow" else type(X)(dict(each))


def _of_column(X: Any, known: Schema) -> Any:
    """A column of lists as a matrix if a model knows its places, or it has no name; else as a table."""
    lists = _in_arrow(X, "X")
    if not is_list(lists.type):
        return X
    name = column_of(known.names[0]) if known.names else getattr(X, "name", None)
    if name is None:
        return matrix_of_lists(lists, first_length(lists, "X"), "X", _ROW)
    places, matrix = _places(lists, str(name), known)
    return matrix if are_of_one_list(known) else pa.table(dict(_pairs(places, matrix)))


def _in_arrow(column: Any, name: Any) -> pa.Array:
    column = column.to_arrow() if hasattr(column, "to_arrow") else column  # of Polars
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        try:
            column = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise ValueError(f"column {name!r}: {error}. A column holds values of one type") from error
    return plain(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


def _places(lists: pa.Array, name: str, known: Schema) -> tuple[Sequence[str], Matrix]:
    """The names and values of the places of lists; of those alone that a model knows."""
    own = [place for place in known.names or () if column_of(place) == name]
    is_whole = bool(own) and {*own} == {*places_of(name, len(own))}
    length = dict(known.lists).get(name, len(own) if is_whole else 0)
    length = length or first_length(lists, f"column {name!r}")
    matrix, places = matrix_of_lists(lists, length, name, _ROW), places_of(name, length)
    if matrix.dtype == np.float16:  # which not all frames hold
        matrix = matrix.astype(np.float32)
    if not own or own == [*places]:
        return places, matrix
    some = [place for place in own if place in places]
    return some, matrix[:, [places.index(place) for place in some]]


def _pairs(places: Sequence[str], matrix: Matrix) -> Iterator[tuple[str, Any]]:
    return zip(places, matrix.T, strict=True)
