"""Columns of a table as Zarr arrays: names, types and nulls that an array can have, and its values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store

from streamgda.scoring.outputs.base import Field

METADATA = "zarr.json"


def check_names(fields: Sequence[Field]) -> None:
    """Raise ValueError where two arrays would have one name, or an array a name that Zarr does not allow."""
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} cannot be kept: predictions are written under this name")
        if not name or "/" in name or name.startswith((".", "__")) or name == METADATA:
            raise ValueError(f"column {name!r} cannot be kept: no Zarr array can have this name")


def without_dictionary(kind: pa.DataType) -> pa.DataType:
    """The type of the values, for a column of categories."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def dtype_of(field: Field) -> str:
    """The type of the array of a field.

    Raises
    ------
    ValueError
        If no array can hold values of its type.
    """
    kind = field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_date32(kind):
        return "datetime64[D]"
    if pa.types.is_timestamp(kind):
        return f"datetime64[{kind.unit}]"
    if pa.types.is_duration(kind):
        return f"timedelta64[{kind.unit}]"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return str(np.dtype(kind.to_pandas_dtype()))
    raise ValueError(
        f"column {field.name!r} is {field.type}, which no Zarr array can hold; write Parquet, or do not "
        "keep it"
    )


def check_nulls(table: pa.Table, fields: Sequence[Field]) -> None:
    """Raise ValueError for a null that NaN, or NaT for times, cannot stand for; rows count from the first."""
    for field in fields:
        column = table.column(field.columns[0])
        if column.null_count and not (pa.types.is_floating(field.type) or pa.types.is_temporal(field.type)):
            row = column.is_null().to_pylist().index(True)
            raise ValueError(
                f"row {row}: {field.name!r} is null, which a Zarr array of {field.type} cannot hold; "
                "write Parquet, or do not keep it"
            )


def array_shape(field: Field, n_rows: int) -> tuple[int, ...]:
    """The shape of the array of a field: (n_rows,), or (n_rows, n_classes) for one value per class."""
    return (n_rows, len(field.columns)) if "classes" in field.attributes else (n_rows,)


def create_arrays(store: Store, fields: Iterable[Field], n_rows: int, chunk: int) -> list[zarr.Array[Any]]:
    """Make an empty array for each field, in chunks of so many rows."""
    shapes = [(field, array_shape(field, n_rows)) for field in fields]
    return [
        zarr.create_array(
            store,
            name=field.name,
            shape=shape,
            chunks=(chunk, *shape[1:]),
            dtype=dtype_of(field),
            attributes=dict(field.attributes),
            dimension_names=("row", "class")[: len(shape)],
            zarr_format=3,
        )
        for field, shape in shapes
    ]


def numpy_dtype(field: Field) -> np.dtype[Any]:
    """The NumPy type of the array of a field."""
    name = dtype_of(field)
    return np.dtypes.StringDType() if name == "string" else np.dtype(name)


def fill_rows(values: NDArray[Any], table: pa.Table, field: Field) -> None:
    """Copy the rows of a table into those of the array of a field."""
    if values.ndim == 1:
        values[:] = table.column(field.columns[0]).to_numpy()
        return
    for j, name in enumerate(field.columns):
        values[:, j] = table.column(name).to_numpy()
