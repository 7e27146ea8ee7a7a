"""Expressions over the columns of a table, pyarrow's: those of features, and filters, which choose rows.

Each is kept with the columns that it refers to, and has an identity.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from numbers import Real
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import acero

from streamgda.data.blocks.block import INTEGERS_OF_FLOATS
from streamgda.data.blocks.dates import datetimes_of, is_date
from streamgda.data.blocks.wording import RowError, check_known
from streamgda.data.sources.columns.types import is_number

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')

_SHORTENED = re.compile(r"\n *\.\.\.|\(\.\.\. ")  # printed by Arrow for the middle of a long list or string

_NO_KERNEL = re.compile(r"Function '\w+' has no kernel matching input types \((.*)\)")

_CALL = re.compile(r"(?<![\w.])(\w+)\(")

_USUAL_TYPES = {
    "int64",
    "double",
    "string",
    "bool",
    "date32[day]",
    "timestamp[us]",
    "null",
}  # of Python's values

_BEYOND_STATISTICS = re.compile(r"\b(nan|0\.0)\b")

_STEP = re.compile("(call|end|field_ref|literal|options): '(.*)'")

_DESERIALISE = pc.scalar(0).__reduce__()[0]

_MOST = (1 << 63) - 1  # of the whole numbers that Arrow takes without a type

_NO_FILTER = (pa.ArrowException, LookupError, OverflowError, TypeError, ValueError)  # what Arrow raises

_NO_COLUMN = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ", re.DOTALL)

_NEEDED = "a list of comparisons such as [('length', '>', 2)], or a pyarrow expression, is needed"

_OF_DATES = re.compile(r"input types \(.*\b(date|timestamp)")

_TIMES = (datetime, np.datetime64)

_DATES_NEEDED = (
    "give datetime.date(2026, 1, 31), or a list such as [('day', '<', '2026-01-31')], which takes text"
)


@dataclass(frozen=True)
class ColumnExpression:
    """An expression, and the columns that it refers to."""

    expression: ds.Expression
    columns: pa.Schema

    @property
    def identity(self) -> str:
        """The text of the expression, which ledgers keep; and a digest of its values if that is ambiguous.

        Raises
        ------
        TypeError
            If it calls a function that was registered with Arrow, whose code cannot be read.
        """
        text, (types, values) = str(self.expression), _literals_of(self.expression)
        functions = set(_CALL.findall(_QUOTED.sub("", text)))
        for name in sorted(functions & set(pc.list_functions())):
            if not hasattr(pc, name):
                raise TypeError(
                    f"{text} depends on the function {name!r}, whose code cannot be read, so states and "
                    "predictions that were made with it cannot be told from others; use source.map, or do "
                    "without a checkpoint, a ledger and predict_dataset"
                )
        details: list[Any] = []
        if _SHORTENED.search(text) or any(map(_is_ambiguous, values)):
            details = [repr(values)]
        if functions and not set(types) <= _USUAL_TYPES:  # such as 1 in 8 bits, or the bytes of a text
            details.append(types)
        if "divide" in text and "int64" in types and any(map(pa.types.is_integer, self.columns.types)):
            details.append("whole numbers")  # 2 and 2.0 have the same text, and other quotients
        if not details:
            return text
        document = details[0] if len(details) == 1 and isinstance(details[0], str) else repr(details)
        return f"{text} {hashlib.blake2b(document.encode(), digest_size=16).hexdigest()}"


def type_of(expression: ds.Expression, schema: pa.Schema) -> pa.DataType:
    """The type of the values of an expression over a table with these columns.

    Raises
    ------
    pyarrow.ArrowException
        If it refers to another column, or cannot be evaluated.
    """
    (kind,) = ds.dataset(schema.empty_table()).scanner(columns={"": expression}).projected_schema.types
    return kind


def values_of(batch: pa.RecordBatch, expressions: Mapping[str, ColumnExpression]) -> dict[str, pa.Array]:
    """The values of expressions for the rows of a batch, by their names.

    Raises
    ------
    RowError
        If a column holds anything but the dates that an expression needs.
    """
    table = pa.Table.from_batches([batch])
    for column in expressions.values():
        table = with_dates_of(column.columns, table)
    rows = acero.TableSourceNodeOptions(table)
    project = acero.ProjectNodeOptions([column.expression for column in expressions.values()])
    steps = [acero.Declaration("table_source", rows), acero.Declaration("project", project)]
    table = acero.Declaration.from_sequence(steps).to_table(use_threads=False).combine_chunks()
    return {name: column.combine_chunks() for name, column in zip(expressions, table.columns, strict=True)}


def with_dates_of(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """A table with dates in the columns that are dates in a schema; RowError if one holds something else."""
    for name, kind in zip(schema.names, schema.types, strict=True):
        if is_date(kind) and not is_date(table.schema.field(name).type):
            dates = pa.array(datetimes_of(table[name].to_pylist(), name)).cast(kind, safe=False)
            table = table.set_column(table.column_names.index(name), name, dates)
    return table


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text, as dates may be given."""
    return str(kind) in {"string", "large_string", "string_view"}


def referenced_columns(expression: ds.Expression, schema: pa.Schema) -> pa.Schema:
    """The columns without which an expression cannot be evaluated.

    They are among those whose names are in its text, so few are tried.
    """
    text = str(expression)
    candidates = pa.schema([field for field in schema if field.name in text])
    return pa.schema(
        [field for i, field in enumerate(candidates) if not _can_evaluate(expression, candidates.remove(i))]
    )


def _can_evaluate(expression: ds.Expression, schema: pa.Schema) -> bool:
    try:
        type_of(expression, schema)
    except pa.ArrowInvalid:
        return False
    return True


def _literals_of(expression: ds.Expression) -> tuple[list[str], list[Any]]:
    """The types of the literals in an expression, and the values of these and of the options of its calls.

    The text of the expression shortens long ones.
    """
    batch = _batch_in(serialised(expression))
    types = [str(kind) for kind in batch.schema.types if not pa.types.is_struct(kind)]
    return types, [column.to_pylist() for column in batch.columns]


def _is_ambiguous(values: list[Any]) -> bool:
    """Whether strings in the list of an "in" hold quotes, which Arrow prints as they are."""
    sets = (options.get("value_set", ()) for options in values if isinstance(options, dict))
    return any(isinstance(value, str) and '"' in value for values_of_set in sets for value in values_of_set)


def serialised(expression: ds.Expression) -> pa.Buffer:
    """Arrow's pickle of an expression: a record batch whose columns are its literals and options.

    Arrow has no public way to these (apache/arrow issues 9172 and 50031), and Substrait expresses neither
    casts nor most options.
    """
    _, (content, *_) = expression.__reduce__()
    return content


def deserialised(content: bytes) -> ds.Expression:
    """The expression that `serialised` has made bytes of.

    Arrow trusts the steps of an expression, which are in the metadata of the batch, and may crash if they do
    not fit together. So they are checked, and it is given those that were.

    Raises
    ------
    ValueError
        If the bytes hold no expression.
    """
    try:
        batch = _batch_in(content)
        batch.validate(full=True)
        sink, checked = pa.BufferOutputStream(), batch.replace_schema_metadata(_steps(batch))
        with pa.ipc.new_file(sink, checked.schema) as writer:
            writer.write_batch(checked)
        return _DESERIALISE(sink.getvalue())
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"an expression is damaged: {error}") from error


def _batch_in(content: Any) -> pa.RecordBatch:
    with pa.ipc.open_file(content) as file:
        return file.get_batch(0)


def _steps(batch: pa.RecordBatch) -> pa.KeyValueMetadata:
    """The steps of an expression. A schema prints all of them; a dict would hold the last of each kind."""
    options = {"show_schema_metadata": True, "truncate_metadata": False, "element_size_limit": 1 << 20}
    lines = batch.schema.to_string(**options).partition("-- schema metadata --\n")[2].splitlines()
    steps = [match.groups() for match in map(_STEP.fullmatch, lines) if match]
    depths = np.cumsum([{"call": 1, "end": -1}.get(key, 0) for key, _ in steps])
    is_whole: Any = 0 < len(steps) == len(lines) and not depths[-1] and (depths[:-1] > 0).all()
    for (key, value), after in zip(steps, [*steps[1:], ("", "")], strict=bool(steps)):
        if key in {"literal", "options"}:
            is_whole &= value.isdecimal() and int(value) < batch.num_columns
        if is_whole and key == "options":
            is_whole = after[0] == "end" and pa.types.is_struct(batch.schema.types[int(value)])
    if not is_whole:
        raise ValueError("an expression is damaged, or refers to parts of a column or to a name of two lines")
    return pa.KeyValueMetadata(steps)


def in_words(error: Exception) -> str:
    """Arrow's message on values that do not go together, without the names of its kernels."""
    return _NO_KERNEL.sub(r"the types \1 do not go together", str(error))


@dataclass(frozen=True)
class Filter(ColumnExpression):
    """An expression that is true of the rows to read, and the columns that it refers to."""

    @classmethod
    def of(cls, filters: Any, schema: pa.Schema) -> Self:
        """The filter that a user gives for a dataset with these columns.

        Parameters
        ----------
        filters : pyarrow expression or list of tuples
            As `pyarrow.parquet.read_table` takes it. In a list, dates may be text by ISO 8601, and
            those without a zone are in UTC.
        schema : pyarrow.Schema
            Of the dataset, partition keys included.

        Raises
        ------
        ValueError
            If it is no filter, or cannot be evaluated on these columns.
        """
        try:
            expression = _with_moments(filters, schema)
            if not isinstance(expression, ds.Expression):
                expression = pq.filters_to_expression(expression)
            schema.empty_table().filter(expression)
        except RowError as error:  # whose row is the place of a value
            raise _no_filter(error.fault.removeprefix(": ")) from error
        except _NO_FILTER as error:
            if match := _NO_COLUMN.search(str(error)):
                check_known([match[1]], schema.names, "filters")
            needed = "" if isinstance(error, pa.ArrowException) else f"; {_NEEDED}"
            if isinstance(filters, ds.Expression) and _OF_DATES.search(str(error)):
                needed = f"; {_DATES_NEEDED}"
            raise _no_filter(f"{filters!s:.80}: {in_words(error)}{needed}") from error
        if "FieldPath(" in _QUOTED.sub("", str(expression)):
            raise _no_filter(f"columns go by name, not by position as in {expression}")
        return cls(expression, referenced_columns(expression, schema))

    def times_to_cast(self, schema: pa.Schema) -> dict[str, pa.DataType]:
        """The times of a file that Arrow does not compare, with the types as which it does.

        Those of two files differ in their zones. Those without a zone are in UTC.
        """
        there = [(one, schema.field(one.name).type) for one in self.columns if one.name in schema.names]
        return {
            one.name: pa.timestamp(getattr(kind, "unit", "us"), getattr(one.type, "tz", None))
            for one, kind in there
            if is_date(kind) and is_date(one.type)
            if getattr(kind, "tz", None) != getattr(one.type, "tz", None)
        }

    @property
    def passes_beyond_statistics(self) -> bool:
        """Whether rows may pass whose values lie outside the statistics of their row group.

        Statistics leave out NaN. A comparison with NaN is false, so a row with NaN passes only by a "not", a
        function, or NaN among the values of an "in". Arrow also does not find a zero among the values of an
        "in" within statistics from −0.0 to 0.0.
        """
        if not any(map(pa.types.is_floating, self.columns.types)):
            return False
        text = str(self.expression)
        if "!=" in text or set(re.findall(r"(\w+)\(", text)) - {"is_in"}:
            return True
        return "is_in" in text and bool(_BEYOND_STATISTICS.search(repr(_literals_of(self.expression)[1])))


def _with_moments(filters: Any, schema: pa.Schema) -> Any:
    """Filters with dates in place of the texts that columns of dates are compared with.

    Raises
    ------
    RowError
        If one is a number, or another text.
    """
    if not isinstance(filters, list | tuple) or not filters:
        return filters
    if not isinstance(filters[0], str):
        return [_with_moments(one, schema) for one in filters]
    if len(filters) != 3 or filters[0] not in schema.names:
        return filters
    name, comparison, value = filters
    kind = schema.field(name).type
    if is_number(kind):
        return _with_wide_numbers(name, comparison, value, kind)
    return _with_dates(name, comparison, value, kind) if is_date(kind) else filters


def _with_dates(name: str, comparison: str, value: Any, kind: pa.DataType) -> tuple[str, str, Any]:
    """A comparison with dates in place of texts; RowError if one is a number, or another text."""
    is_one = not isinstance(value, list | tuple | set | frozenset)
    values = [value] if is_one else list(value)
    zone = getattr(kind, "tz", None)
    are_alike = all(_zone_of(one) == zone for one in values if isinstance(one, _TIMES))
    if are_alike and not any(isinstance(one, str | Real) for one in values):
        return name, comparison, value
    moments = pa.array(datetimes_of(values, name)).cast(pa.timestamp("us", zone))
    typed = moments.cast(kind, safe=False)
    is_same = pc.fill_null(
        pc.equal(typed.cast(moments.type, safe=False), moments), True
    )  # not if a date loses its time of day
    if is_one:
        return name, comparison, (typed if is_same[0].as_py() else moments)[0]
    return name, comparison, typed.filter(is_same)


def _zone_of(time: Any) -> str | None:
    zone = getattr(time, "tzinfo", None)
    return None if zone is None else str(zone)


def _with_wide_numbers(name: str, comparison: str, value: Any, kind: pa.DataType) -> tuple[str, str, Any]:
    """A comparison with whole numbers that Arrow takes for the column, as which it takes those of 64 bits."""
    is_one = not isinstance(value, list | tuple | set | frozenset)
    values = [value] if is_one else list(value)
    are_whole = all(isinstance(one, int) for one in values)
    most = _MOST if pa.types.is_integer(kind) else INTEGERS_OF_FLOATS
    if not are_whole or not (kind == pa.uint64() or any(abs(one) > most for one in values)):
        return name, comparison, value
    if not pa.types.is_integer(kind):
        return name, comparison, float(value) if is_one else list(map(float, values))
    bounds = np.iinfo(kind.to_pandas_dtype())
    least, most = int(bounds.min), int(bounds.max)
    if not is_one:
        return name, comparison, pa.array([one for one in values if least <= one <= most], kind)
    if least <= value <= most:
        return name, comparison, pa.scalar(value, kind)
    is_below = value < least
    passes = comparison == "!=" or comparison[0] == (">" if is_below else "<")
    edge = {(True, True): ">=", (True, False): "<", (False, True): "<=", (False, False): ">"}
    return name, edge[is_below, passes], pa.scalar(least if is_below else most, kind)


@contextmanager
def filtering(path: str) -> Iterator[None]:
    """Name the file in the error of a filter that cannot be evaluated on it.

    Raises
    ------
    ValueError
        Such as for a column whose type in this file cannot be compared with the value given.
    """
    try:
        yield
    except (pa.ArrowException, TypeError) as error:
        raise _no_filter(in_words(error), path) from error


def _no_filter(why: str, path: str = "") -> ValueError:
    """The error for filters that cannot be evaluated; `path` is the file, if it is due to one."""
    return ValueError(f"{path and f'{path}: '}filters: {why}")
