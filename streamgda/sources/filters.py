"""Filters: an expression over columns that says which rows to read, and the errors of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streamgda.blocks.wording import Message
from streamgda.sources.expressions import ColumnExpression, by_position, in_words, referenced, values_of
from streamgda.sources.roles import check_known

_UNTOLD = re.compile(r"\b(nan|0\.0)\b")

_NO_FILTER = (pa.ArrowException, LookupError, OverflowError, TypeError, ValueError)  # what Arrow raises

_NO_COLUMN = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ", re.DOTALL)

_NEEDED = "a list of comparisons such as [('length', '>', 2)], or a pyarrow expression, is needed"

_FILTERS = Message("⟨filters⟩")


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
        except _NO_FILTER as error:
            if found := _NO_COLUMN.search(str(error)):
                check_known(found[1], schema.names, _FILTERS)
            needed = "" if isinstance(error, pa.ArrowException) else f"; {_NEEDED}"
            raise _no_filter(f"{filters!s:.80}: {in_words(error)}{needed}") from error
        if by_position(expression):
            raise _no_filter(f"columns go by name, not by position as in {expression}")
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
        raise _no_filter(in_words(error), path) from error


def _no_filter(why: str, path: str = "") -> ValueError:
    """The error for filters that cannot be evaluated; `path` is the file, if it is due to one."""
    return ValueError(Message(path and f"{path}: ", _FILTERS, f": {why}"))
