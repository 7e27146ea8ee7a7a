"""Expressions over the columns of a table: pyarrow's, with the columns that they refer to and an identity."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import acero

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')

_SHORTENED = re.compile(r"\n *\.\.\.|\(\.\.\. ")  # printed by Arrow for the middle of a long list or string

_NO_KERNEL = re.compile(r"Function '\w+' has no kernel matching input types \((.*)\)")


@dataclass(frozen=True)
class ColumnExpression:
    """An expression, and the columns that it refers to."""

    expression: ds.Expression
    columns: pa.Schema

    @property
    def identity(self) -> str:
        """The text of the expression, which ledgers keep; and a digest of the values if it is ambiguous."""
        text, values = str(self.expression), values_of(self.expression)
        if not _SHORTENED.search(text) and not any(map(_is_ambiguous, values)):
            return text
        return f"{text} {hashlib.blake2b(repr(values).encode(), digest_size=16).hexdigest()}"


def type_of(expression: ds.Expression, schema: pa.Schema) -> pa.DataType:
    """The type of the values of an expression over a table with these columns.

    Raises
    ------
    pyarrow.ArrowException
        If it refers to another column, or cannot be evaluated.
    """
    (kind,) = ds.dataset(schema.empty_table()).scanner(columns={"": expression}).projected_schema.types
    return kind


def evaluated(batch: pa.RecordBatch, expressions: Mapping[str, ColumnExpression]) -> dict[str, pa.Array]:
    """The values of expressions for the rows of a batch, by their names."""
    table = acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))
    project = acero.ProjectNodeOptions([column.expression for column in expressions.values()])
    steps = [acero.Declaration("table_source", table), acero.Declaration("project", project)]
    made = acero.Declaration.from_sequence(steps).to_table(use_threads=False).combine_chunks()
    return {name: column.combine_chunks() for name, column in zip(expressions, made.columns, strict=True)}


def by_position(expression: ds.Expression) -> bool:
    """Whether an expression refers to a column by its position."""
    return "FieldPath(" in _QUOTED.sub("", str(expression))


def referenced(expression: ds.Expression, schema: pa.Schema) -> pa.Schema:
    """The columns without which an expression cannot be evaluated.

    They are among those whose names are in its text, so few are tried.
    """
    text = str(expression)
    named = pa.schema([field for field in schema if field.name in text])
    return pa.schema(
        [field for i, field in enumerate(named) if not _can_evaluate(expression, named.remove(i))]
    )


def _can_evaluate(expression: ds.Expression, schema: pa.Schema) -> bool:
    try:
        type_of(expression, schema)
    except pa.ArrowInvalid:
        return False
    return True


def values_of(expression: ds.Expression) -> list[Any]:
    """The literals and options of an expression, all of them: its text shortens long lists and strings.

    Arrow pickles an expression as a record batch in which they are the columns.
    """
    _, (content, *_) = expression.__reduce__()
    with pa.ipc.open_file(content) as file:
        return [column.to_pylist() for column in file.get_batch(0).columns]


def _is_ambiguous(values: list[Any]) -> bool:
    """Whether strings in the list of an "in" hold quotes, which Arrow prints as they are."""
    sets = (options.get("value_set", ()) for options in values if isinstance(options, dict))
    return any(isinstance(value, str) and '"' in value for listed in sets for value in listed)


def in_words(error: Exception) -> str:
    """Arrow's message on values that do not go together, without the names of its kernels."""
    return _NO_KERNEL.sub(r"the types \1 do not go together", str(error))
