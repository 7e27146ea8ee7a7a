"""What is wrong with a filter: which comparison, and what it should be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streamgda.sources.roles import check_known

NO_FILTER = (pa.ArrowException, LookupError, OverflowError, TypeError, ValueError)  # what Arrow raises

_NEEDED = "a list of comparisons such as [('length', '>', 2)], or a pyarrow expression, is needed"

_OPERATORS = ("==", "!=", "<", ">", "<=", ">=", "in", "not in")

_NO_COLUMN = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ", re.DOTALL)

_NO_KERNEL = re.compile(r"Function '\w+' has no kernel matching input types \((.*)\)")


def raise_for_filter(filters: Any, schema: pa.Schema, error: Exception) -> NoReturn:
    """Raise the error that says why a filter cannot be evaluated on these columns.

    Parameters
    ----------
    filters : pyarrow expression, list of tuples, or anything else
        What a user gave.
    schema : pyarrow.Schema
        The columns.
    error : Exception
        What Arrow said, for what is not known to be wrong here.

    Raises
    ------
    ValueError
        Always.
    """
    if isinstance(filters, ds.Expression):
        if found := _NO_COLUMN.search(str(error)):
            check_known(found[1], schema.names, "filters")
        raise ValueError(f"filters: {filters}: {in_words(error)}") from error
    for comparison in _comparisons(filters):
        _check(comparison, schema)
    raise ValueError(f"filters: {in_words(error)}") from error


def in_words(error: Exception) -> str:
    """What Arrow says of values that cannot be compared, without its kernels."""
    return _NO_KERNEL.sub(r"the types \1 do not go together", str(error))


def _comparisons(filters: Any) -> list[Any]:
    """All the comparisons in a list of them, or in a list of such lists."""
    if _is_comparison(filters):
        raise ValueError(f"filters: one comparison goes into a list too: filters={[tuple(filters)]!r}")
    if not _is_list(filters):
        raise ValueError(f"filters: {_NEEDED}; got {filters!r:.80}")
    lists = [filters] if _is_list(filters[0]) and isinstance(filters[0][0], str) else filters
    comparisons = [comparison for each in lists for comparison in (each if _is_list(each) else [each])]
    for comparison in comparisons:
        if not _is_comparison(comparison):
            raise ValueError(f"filters: {_NEEDED}; among them is {comparison!r:.80}")
    return comparisons


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) > 0


def _is_comparison(value: Any) -> bool:
    return _is_list(value) and len(value) == 3 and all(isinstance(part, str) for part in value[:2])


def _check(comparison: Any, schema: pa.Schema) -> None:
    """Raise ValueError if a column has no such comparison."""
    name, operator, value = comparison
    check_known(name, schema.names, "filters")
    if operator not in (*_OPERATORS, "="):
        known = ", ".join(map(repr, _OPERATORS))
        raise ValueError(
            f"filters: {operator!r} does not compare column {name!r} with {value!r}; use {known}"
        )
    if operator.endswith("in") and not isinstance(value, Iterable):
        raise ValueError(
            f"filters: {operator!r} compares column {name!r} with a list of values; got {value!r}"
        )
    kind = schema.types[schema.names.index(name)]
    try:
        pa.schema([(name, kind)]).empty_table().filter(pq.filters_to_expression([tuple(comparison)]))
    except NO_FILTER as error:
        raise ValueError(
            f"filters: column {name!r} is {kind} and cannot be compared with {value!r:.80}"
        ) from error
