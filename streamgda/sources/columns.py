"""Arrow columns as NumPy columns and labels, and which types can be either."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamgda import labels
from streamgda.labels import Codes, Labels


def is_number(arrow_type: pa.DataType) -> bool:
    """Whether a column of this type can be a feature or a weight."""
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_boolean(arrow_type)
        or pa.types.is_decimal(arrow_type)
    )


def label_kind(arrow_type: pa.DataType) -> str | None:
    """The kind of label that a column of this type holds: "str", "int", "bool", or None."""
    if pa.types.is_dictionary(arrow_type):
        return label_kind(arrow_type.value_type)
    if pa.types.is_boolean(arrow_type):
        return "bool"
    if pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type):
        return "int"
    is_text = (
        pa.types.is_string(arrow_type)
        or pa.types.is_large_string(arrow_type)
        or pa.types.is_string_view(arrow_type)
    )
    return "str" if is_text else None


def besides_index(schema: pa.Schema) -> list[str]:
    """The names of the columns, but for those in which pandas keeps the index of a frame."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def numbers(column: pa.Array) -> NDArray[Any]:
    """A column as numbers; nulls become NaN. Without a copy where Arrow holds it as NumPy would."""
    try:
        values: NDArray[Any] = column.to_numpy()
    except pa.ArrowInvalid:  # nulls, bools and decimals have no like in NumPy
        if pa.types.is_integer(column.type) and column.type.bit_width == 64:
            return _integers_with_nulls(column)
        values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _integers_with_nulls(column: pa.Array) -> NDArray[Any]:
    """As floats that hold them all, where this platform has such: a source rounds nothing unasked."""
    try:
        values: NDArray[Any] = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = pc.fill_null(column, 0).to_numpy().astype(np.longdouble)
        values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return values


def codes(column: pa.Array) -> tuple[Labels, Codes, NDArray[np.bool_] | None]:
    """The sorted labels of a column, a code for each row, and which rows have no label, if any.

    A row without a label has code 0.
    """
    if pa.types.is_null(column.type):
        return labels.no_labels(), np.zeros(len(column), np.uint8), np.ones(len(column), np.bool_)
    if pa.types.is_integer(column.type) and not column.null_count:
        return labels.encode(column.to_numpy())
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    null = encoded.indices.is_null().to_numpy(zero_copy_only=False)
    positions = pc.fill_null(encoded.indices, 0).to_numpy()
    used = np.bincount(positions[~null], minlength=len(encoded.dictionary)) > 0  # others may be no labels
    values = np.empty(len(used), dtype=object)
    values[:] = encoded.dictionary.to_pylist()
    classes, seen, no_label = labels.encode(values[used])
    code_of = np.zeros(max(len(used), 1), dtype=seen.dtype)  # where all is null, nothing is in the dictionary
    code_of[np.flatnonzero(used)] = seen
    if no_label is not None:
        null = null | _spread(no_label, used)[positions]
    return *labels.present(classes, code_of[positions]), null if null.any() else None


def _spread(of_used: NDArray[np.bool_], used: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each entry of a dictionary what is so of the used ones."""
    of_all = np.zeros(len(used), np.bool_)
    of_all[used] = of_used
    return of_all
