"""Columns of Arrow: what they can be by their types, and what the first rows tell of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from contextlib import suppress

import pyarrow as pa

from streamgda.data.blocks.types import plain_type

FirstRows = Callable[[list[str]], pa.Table]
"""Reads the first rows of some columns."""

FIRST_ROWS = 1_000

_FEWEST_TO_JUDGE = 20  # rows among which a column of one value, or of a new one in each row, is named


def is_number(arrow_type: pa.DataType) -> bool:
    """Whether a column of this type can be a weight, or a feature as it is."""
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_boolean(arrow_type)
        or pa.types.is_decimal(arrow_type)
    )


_OF_TEXT = frozenset({"string", "large_string", "binary", "large_binary"})
"""Types of Arrow. Impala and Hive write text as binary."""


def label_kind(arrow_type: pa.DataType) -> str | None:
    """The kind of label that a column of this type holds: "str", "int", "bool", or None."""
    arrow_type = plain_type(arrow_type)
    if pa.types.is_dictionary(arrow_type):
        return label_kind(arrow_type.value_type)
    if pa.types.is_boolean(arrow_type):
        return "bool"
    if is_number(arrow_type):
        return "int"
    return "str" if str(arrow_type) in _OF_TEXT else None


def types_of(names: Iterable[str], schema: pa.Schema) -> dict[str, pa.DataType]:
    """The plain types of those columns that are there."""
    there = dict(zip(schema.names[::-1], schema.types[::-1], strict=True))  # the first one of a name
    return {name: plain_type(there[name]) for name in names if name in there}


def as_written(schema: pa.Schema) -> pa.Schema:
    """The columns of a file with dictionaries where Arrow or pandas wrote categoricals of numbers or bools.

    Parquet stores these as plain numbers, and the metadata of the file tell what they were.
    """
    known = (schema.pandas_metadata or {}).get("columns", ())
    names = {column.get("field_name") for column in known if column["pandas_type"] == "categorical"}
    with suppress(KeyError, ValueError):
        content = base64.b64decode((schema.metadata or {})[b"ARROW:schema"])
        written = pa.ipc.read_schema(pa.py_buffer(content))
        names |= {column.name for column in written if pa.types.is_dictionary(column.type)}
    fields = [
        column.with_type(pa.dictionary(pa.int32(), column.type))
        if column.name in names and is_number(column.type)
        else column
        for column in schema
    ]
    return pa.schema(fields, schema.metadata)


def uninformative(first_rows: FirstRows | None, names: list[str]) -> list[str]:
    """The columns that have one value in the first rows, or are text and have another one in each."""
    rows = pa.table({})
    with suppress(OSError, ValueError, NotImplementedError):
        rows = rows if first_rows is None else first_rows(names)
    if rows.num_rows < _FEWEST_TO_JUDGE:
        return []
    return [
        name for name, column in zip(rows.column_names, rows.columns, strict=True) if _tells_nothing(column)
    ]


def _tells_nothing(column: pa.ChunkedArray) -> bool:
    is_text = label_kind(column.type) == "str"
    n_values = len((column if is_text else column.drop_null()).unique())  # a missing text is a value
    return n_values < 2 or (is_text and n_values == len(column))
