"""The types of Arrow in which columns are learnt: those of their values, however these are stored.

Views, runs of equal values and extension types become plain columns. The values of an extension type are
those of its storage, so it is the same whether this process has registered the type or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import lib

_ENCODED = {
    lib.Type_RUN_END_ENCODED,
    lib.Type_STRING_VIEW,
    lib.Type_BINARY_VIEW,
    lib.Type_LIST_VIEW,
    lib.Type_LARGE_LIST_VIEW,
}
_OTHERS = {*_ENCODED, lib.Type_FIXED_SIZE_BINARY, pa.bool8().id}  # the last is that of all extension types


def decoded_type(kind: Any) -> pa.DataType:
    """The type without views and runs, which most of Arrow's functions do not take."""
    types = pa.types
    if types.is_dictionary(kind) and kind.value_type.id in _ENCODED:
        return pa.dictionary(kind.index_type, decoded_type(kind.value_type), kind.ordered)
    if kind.id not in _ENCODED:
        return kind
    if types.is_run_end_encoded(kind):
        return decoded_type(kind.value_type)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return pa.large_list(kind.value_field)
    return pa.large_string() if types.is_string_view(kind) else pa.large_binary()


def plain_type(kind: Any) -> pa.DataType:
    """The type of the values, also of those of an extension type. A UUID is no other value."""
    if kind.id not in _OTHERS or isinstance(kind, pa.UuidType):
        return kind
    if kind.id in _ENCODED:
        return plain_type(decoded_type(kind))
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return pa.bool_() if isinstance(kind, pa.Bool8Type) else plain_type(kind.storage_type)


def plain(column: Any) -> Any:
    """An array or chunks of it, with values of the plain type."""
    kind = column.type
    if kind.id not in _OTHERS or (wanted := plain_type(kind)) is kind:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(map(plain, column.chunks), wanted)
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(column))
    if pa.types.is_large_list(wanted) and kind.id in _ENCODED:  # Arrow 26 casts such views to damaged lists
        offsets = np.concatenate([[0], np.cumsum(column.sizes)])
        return pa.LargeListArray.from_arrays(offsets, column.flatten(), wanted, mask=column.is_null())
    return plain(column.storage).cast(wanted) if hasattr(column, "storage") else column.cast(wanted)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """A schema with the types in which columns of views and runs are decoded."""
    if {*_ENCODED, lib.Type_DICTIONARY}.isdisjoint([kind.id for kind in schema.types]):
        return schema
    kinds = [decoded_type(kind) for kind in schema.types]
    if kinds == schema.types:
        return schema
    fields = [field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)]
    return pa.schema(fields, schema.metadata)


def decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose columns of views and runs are plain ones."""
    schema = decoded_schema(batch.schema)
    if schema is batch.schema:
        return batch
    columns = zip(batch.columns, schema.types, strict=True)
    made = [column if column.type == kind else plain(column).cast(kind) for column, kind in columns]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def plain_table(table: pa.Table) -> pa.Table:
    """A table with values of plain types."""
    schema = table.schema
    if _OTHERS.isdisjoint([kind.id for kind in schema.types]):
        return table
    fields = [field.with_type(plain_type(field.type)) for field in schema]
    return pa.Table.from_arrays(list(map(plain, table.columns)), schema=pa.schema(fields, schema.metadata))
