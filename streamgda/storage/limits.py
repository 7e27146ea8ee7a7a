"""Check what a Parquet file would take in memory, before any of it is decoded.

A few kilobytes can stand for gigabytes, by runs of one value or of nulls. Saved statistics are digits, which
hardly compress.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from streamgda.storage.footers import chunks

_LEAST_LIMIT = 1 << 26  # bytes that even the smallest file may take

_LARGEST_RATIO = 100  # of bytes in memory to bytes of the file

_WIDEST_NUMBER = 8  # bytes


def check_size(file: pa.NativeFile, schema: pa.Schema, n_rows: int, columns: Collection[str]) -> None:
    """Check what some columns of a Parquet file would take in memory.

    Parameters
    ----------
    file : pyarrow.NativeFile
        The file.
    schema : pyarrow.Schema
        The types of its columns.
    n_rows : int
        How many rows it has.
    columns : collection of str
        The columns to read.

    Raises
    ------
    ValueError
        If that is far more than their digits could take in the file, or the footer is damaged.
    """
    size, n_bytes = sum(_sizes(file, schema, n_rows, columns)), file.size()
    if size > _LEAST_LIMIT + _LARGEST_RATIO * n_bytes:
        raise ValueError(f"its {n_bytes:,} bytes stand for {size:,}, which digits cannot")


def _sizes(file: pa.NativeFile, schema: pa.Schema, n_rows: int, columns: Collection[str]) -> Iterator[int]:
    for chunk in chunks(file):
        if chunk.column in columns:
            yield max(chunk.n_values * _WIDEST_NUMBER, chunk.n_bytes)
    for field in schema:
        if field.name in columns and pa.types.is_fixed_size_list(field.type):
            yield n_rows * field.type.list_size * _WIDEST_NUMBER  # a null takes as much as a list
