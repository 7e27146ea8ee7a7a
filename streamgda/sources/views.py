"""Columns of string and binary views, which most of Arrow's functions do not take, as plain ones."""

from __future__ import annotations

import pyarrow as pa


def without_views(schema: pa.Schema) -> pa.Schema:
    """A schema with the types in which columns of views are read."""
    return pa.schema([field.with_type(_without_view(field.type)) for field in schema], schema.metadata)


def batch_without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with such columns."""
    if not any(map(_is_view, batch.columns)):
        return batch
    return batch.cast(without_views(batch.schema))


def _is_view(column: pa.Array) -> bool:
    return isinstance(column, (pa.StringViewArray, pa.BinaryViewArray))


def _without_view(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind
