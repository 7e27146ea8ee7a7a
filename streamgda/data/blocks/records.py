"""Rows for a model that has learnt such rows: with all of its columns, and with days in place of dates.

Services send records. These are dicts, which may leave out a key, and in which dates are text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.arrays import (
    as_arrow,
    as_table,
    check_known_numbers,
    column_labels,
    column_types,
    library_of,
    with_places,
)
from streamgda.data.blocks.dates import datetimes_of, days_of_datetimes, is_date
from streamgda.data.blocks.labels import is_missing
from streamgda.data.blocks.schema import Schema, column_of
from streamgda.data.blocks.wording import RowError, closest, listed


def as_known_table(X: Any, schema: Schema, *, fills: bool, remedy: str) -> Any:
    """Dicts as a table with all columns of a schema, where those that are left out are null.

    Anything else as it is.

    Parameters
    ----------
    X : object
        Rows.
    schema : Schema
        Its columns, if their names are known.
    fills : bool
        Whether a column may be left out.
    remedy : str
        What to do so that it may, in the terms of the caller.

    Raises
    ------
    ValueError
        If no row has a column that may not be left out, or a row lacks one of categories; or if a column of
        lists holds something else.
    """
    table = as_table(X, schema.names or (), numbers=_numbers_of(schema), dates=schema.dates)
    if table is X:
        return X
    table = with_places(table, schema)
    if isinstance(table, np.ndarray):
        return table
    there = set(table.column_names)
    absent = [name for name in schema.names or () if name not in there]
    check_lists(table, absent, schema.names or ())
    if absent and not fills:
        close = closest(absent[0], there.difference(schema.names or ()))
        found = "" if close is None else f", and have {close!r}"
        raise ValueError(f"the rows leave out {listed(absent)}{found}: give each a value, or {remedy}")
    if not fills and not isinstance(X, dict):
        _check_each(X, schema.encoded, remedy)
    for name in absent:
        table = table.append_column(name, [[None if name in schema.encoded else np.nan] * len(table)])
    return table


def _check_each(rows: Sequence[Mapping[str, Any]], columns: Collection[str], remedy: str) -> None:
    """Raise RowError for a dict that leaves out a column of categories, where null would be a category."""
    for i, row in enumerate(rows):
        for name in columns:
            if name not in row:
                raise RowError(i, f" leaves out {name!r}: give it a value, or {remedy}")


def check_lists(table: Any, absent: Iterable[str], known: Collection[str]) -> None:
    """Raise ValueError if features are absent since the column that should have their lists has none."""
    for name in absent:
        column = column_of(name)
        if column in table.column_names and column not in known:
            raise ValueError(
                f"column {column!r} holds {table.schema.field(column).type}, and feature {name!r} is a place "
                "of lists of numbers; give such lists"
            )


def known_dates_as_days(X: Any, schema: Schema) -> Any:
    """Rows with days in place of dates that are texts or objects.

    A number is refused in a column of dates with a name, since it may be of any unit. In an array, whose
    columns have no names, it counts as days.

    Raises
    ------
    ValueError
        If a value in a column of dates is no date, or one in a column of numbers of a frame is no number.
    """
    if not schema.names:
        return X
    if column_labels(X) is not None:
        check_known_numbers(X, _numbers_of(schema))
        return _frame_as_days(X, schema)
    is_array = schema.dates and isinstance(X, np.ndarray | list | tuple)
    return _array_as_days(X, schema) if is_array else X


def _numbers_of(schema: Schema) -> set[str]:
    """The columns of numbers that are no dates."""
    return {*(schema.names or ())}.difference(schema.encoded, schema.dates)


def _frame_as_days(frame: Any, schema: Schema) -> Any:
    kinds = dict(zip(column_labels(frame) or (), column_types(frame), strict=False)) if schema.dates else {}
    others = [name for name in schema.dates if name in kinds and not is_date(kinds[name])]
    if not others:
        return frame
    if library_of(frame) == "pandas":
        return frame.assign(**{name: days_of_datetimes(datetimes_of(frame[name], name)) for name in others})
    table = as_arrow(frame)
    for name in others:
        days = days_of_datetimes(datetimes_of(table[name].to_pylist(), name))
        table = table.set_column(table.column_names.index(name), name, [days])
    return table


def _array_as_days(rows: Any, schema: Schema) -> Any:
    """Rows without names, whose columns are in the order of the features."""
    names = schema.names or ()
    rows = np.asarray(rows) if isinstance(rows, np.ndarray) else np.array(rows, object)
    if rows.dtype.kind in "fiub" or rows.ndim != 2 or rows.shape[1] != len(names):
        return rows
    rows = (rows.astype("datetime64[us]") if rows.dtype.kind == "M" else rows).astype(object)
    for name in schema.dates:
        rows[:, names.index(name)] = _days(rows[:, names.index(name)], name)
    return rows


def _days(values: Collection[Any], name: str) -> NDArray[np.float64]:
    """The days of a column of an array. Numbers are days already."""
    numbers = [np.nan if is_missing(value) else value for value in values]
    if all(isinstance(number, Real) and not isinstance(number, bool) for number in numbers):
        return np.array(numbers, np.float64)
    return days_of_datetimes(datetimes_of(values, name))
