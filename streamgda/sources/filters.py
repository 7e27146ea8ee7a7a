"""Filters: which rows to read, by an expression over columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streamgda.sources.comparisons import NO_FILTER, in_words, raise_for_filter

_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')

_SHORTENED = re.compile(r"\n *\.\.\.|\(\.\.\. ")  # what Arrow prints for the middle of a long list or string

_UNTOLD = re.compile(r"\b(nan|0\.0)\b")


@dataclass(frozen=True)
class Filter:
    """An expression, and the columns that it refers to."""

    expression: ds.Expression
    columns: pa.Schema

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
        if "FieldPath(" in _QUOTED.sub("", str(expression)):
            raise ValueError(f"filters: columns go by name, not by position, as they do in {expression}")
        return cls(expression, _referenced(expression, schema))

    @property
    def identity(self) -> str:
        """Its text, which ledgers keep, with a digest of its values where the text leaves some out."""
        text, values = str(self.expression), _values(self.expression)
        if not _SHORTENED.search(text) and not any(map(_is_ambiguous, values)):
            return text
        return f"{text} {hashlib.blake2b(repr(values).encode(), digest_size=16).hexdigest()}"

    @property
    def may_keep_untold(self) -> bool:
        """Whether a row may pass that the statistics of a row group do not tell of.

        They leave out NaN, and a comparison with NaN is false. So a row passes only by a "not", a function,
        or NaN among the values of an "in". Zero there is no value from −0.0 to 0.0 for Arrow.
        """
        if not any(map(pa.types.is_floating, self.columns.types)):
            return False
        text = str(self.expression)
        if "!=" in text or set(re.findall(r"(\w+)\(", text)) - {"is_in"}:
            return True
        return "is_in" in text and bool(_UNTOLD.search(repr(_values(self.expression))))


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
        raise ValueError(f"{path}: filters: {in_words(error)}") from error


def _referenced(expression: ds.Expression, schema: pa.Schema) -> pa.Schema:
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
        schema.empty_table().filter(expression)
    except pa.ArrowInvalid:
        return False
    return True


def _values(expression: ds.Expression) -> list[Any]:
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
