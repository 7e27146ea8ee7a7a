"""Filters: an expression over columns that says which rows to read, and the errors of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streamgda.blocks.wording import Message
from streamgda.sources.expressions import ColumnExpression, by_position, in_words, referenced, values_of
from streamgda.sources.roles import check_known

_UNTOLD = re.compile(r"\b(nan|0\.0)\b")


@dataclass(frozen=True)
class Filter(ColumnExpression):
    """An expression that is true of the rows to read, and the columns that it refers to."""

    @classmethod
    def of(cls, filters: Any, schema: pa.Schema) -> Self | None:
        """The filter that a user gives for a dataset with these columns; None if none is given.

        Parameters
        ----------
        filters : pyarrow expression or list of tuples
            As `pyarrow.parquet.read_table` takes it.
        schema : pyarrow.Schema
            Of the dataset, partition keys included.

        Raises
        ------
        ValueError
            If it is no filter, or cannot be evaluated on these columns.
        """
        if filters is None:
            return None
        try:
            expression = filters if isinstance(filters, ds.Expression) else pq.filters_to_expression(filters)
            schema.empty_table().filter(expression)
        except NO_FILTER as error:
            raise_for_filter(filters, schema, error)
        if by_position(expression):
            raise no_filter(f"columns go by name, not by position as in {expression}")
        return cls(expression, referenced(expression, schema))

    @property
    def may_keep_untold(self) -> bool:
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
        return "is_in" in text and bool(_UNTOLD.search(repr(values_of(self.expression))))


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
        raise no_filter(in_words(error), path) from error


NO_FILTER = (pa.ArrowException, LookupError, OverflowError, TypeError, ValueError)  # what Arrow raises

_NEEDED = "a list of comparisons such as [('length', '>', 2)], or a pyarrow expression, is needed"

_OPERATORS = ("==", "!=", "<", ">", "<=", ">=", "in", "not in")

_NO_COLUMN = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ", re.DOTALL)

_FILTERS = Message("⟨filters⟩")


def raise_for_filter(filters: Any, schema: pa.Schema, error: Exception) -> NoReturn:
    """Raise the error that says why a filter cannot be evaluated on these columns.

    Parameters
    ----------
    filters : pyarrow expression, list of tuples, or anything else
        What a user gave.
    schema : pyarrow.Schema
        The columns.
    error : Exception
        Arrow's error, whose message is used if no fault is found here.

    Raises
    ------
    ValueError
        Always.
    """
    if isinstance(filters, ds.Expression):
        if found := _NO_COLUMN.search(str(error)):
            check_known(found[1], schema.names, _FILTERS)
        raise no_filter(f"{filters}: {in_words(error)}") from error
    for comparison in _comparisons(filters):
        _check(comparison, schema)
    raise no_filter(in_words(error)) from error


def no_filter(why: str, path: str = "") -> ValueError:
    """The error for filters that cannot be evaluated; `path` is the file, if it is due to one."""
    return ValueError(Message(path and f"{path}: ", _FILTERS, f": {why}"))


def _comparisons(filters: Any) -> list[Any]:
    """All the comparisons in a list of them, or in a list of such lists."""
    if _is_comparison(filters):
        raise no_filter(f"one comparison goes into a list too: filters={[tuple(filters)]!r}")
    if not _is_list(filters):
        raise no_filter(f"{_NEEDED}; got {filters!r:.80}")
    lists = [filters] if _is_list(filters[0]) and isinstance(filters[0][0], str) else filters
    comparisons = [comparison for each in lists for comparison in (each if _is_list(each) else [each])]
    for comparison in comparisons:
        if not _is_comparison(comparison):
            raise no_filter(f"{_NEEDED}; among them is {comparison!r:.80}")
    return comparisons


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) > 0


def _is_comparison(value: Any) -> bool:
    return _is_list(value) and len(value) == 3 and all(isinstance(part, str) for part in value[:2])


def _check(comparison: Any, schema: pa.Schema) -> None:
    """Raise ValueError if a column has no such comparison."""
    name, operator, value = comparison
    check_known(name, schema.names, _FILTERS)
    if operator not in (*_OPERATORS, "="):
        known = ", ".join(map(repr, _OPERATORS))
        raise no_filter(f"{operator!r} does not compare column {name!r} with {value!r}; use {known}")
    if operator.endswith("in") and not isinstance(value, Iterable):
        raise no_filter(f"{operator!r} compares column {name!r} with a list of values; got {value!r}")
    kind = schema.types[schema.names.index(name)]
    try:
        pa.schema([(name, kind)]).empty_table().filter(pq.filters_to_expression([tuple(comparison)]))
    except NO_FILTER as error:
        raise no_filter(f"column {name!r} is {kind} and cannot be compared with {value!r:.80}") from error
