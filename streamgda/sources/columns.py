"""Arrow columns as NumPy columns and labels, and which types can be either."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamgda import labels
from streamgda.labels import Codes, Labels

_INTEGERS_OF_FLOATS = 1 << 53


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
        if _is_wide(column):
            values = column.fill_null(0).to_numpy().astype(np.longdouble)
            values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
        else:
            values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _is_wide(column: pa.Array) -> bool:
    """Whether it holds integers that float64 would round."""
    if not pa.types.is_integer(column.type) or column.type.bit_width < 64:
        return False
    extremes = pc.min_max(column).as_py().values()
    return any(value is not None and abs(value) > _INTEGERS_OF_FLOATS for value in extremes)


def codes(column: pa.Array) -> tuple[Labels, Codes, NDArray[np.bool_] | None]:
    """The sorted labels of a column, a code for each row, and which rows have no label, if any.

    A row without a label has code 0.
    """
    if pa.types.is_null(column.type):
        return labels.no_labels(), np.zeros(len(column), np.uint8), np.ones(len(column), np.bool_)
    if pa.types.is_integer(column.type) and not column.null_count:
        return labels.encode(column.to_numpy())
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = np.empty(len(encoded.dictionary), dtype=object)
    values[:] = encoded.dictionary.to_pylist()
    classes, code_of, no_label = labels.encode(values)
    unlabelled = encoded.indices.is_null().to_numpy(zero_copy_only=False)
    positions = pc.fill_null(encoded.indices, 0).to_numpy()
    if no_label is not None:
        unlabelled = unlabelled | no_label[positions]
    if not len(code_of):  # all rows are null, so no label is in the dictionary; they get code 0 even so
        code_of = np.zeros(1, dtype=np.uint8)
    return *labels.present(classes, code_of[positions]), unlabelled if unlabelled.any() else None
