"""Check what a Parquet file would take in memory, before any of it is decoded.

A few kilobytes can stand for gigabytes, by runs of one value or of nulls. Saved statistics are digits, which
hardly compress.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

_LEAST_LIMIT = 1 << 26  # bytes that even the smallest file may take

_LARGEST_RATIO = 100  # of bytes in memory to bytes of the file

_WIDEST_NUMBER = 8  # bytes


def check_size(parquet: pq.ParquetFile, n_bytes: int, columns: Collection[str]) -> None:
    """Check what some columns of a Parquet file would take in memory.

    Parameters
    ----------
    parquet : pyarrow.parquet.ParquetFile
        The file.
    n_bytes : int
        How long it is.
    columns : collection of str
        The columns to read.

    Raises
    ------
    ValueError
        If that is far more than their digits could take in the file.
    """
    size = sum(_sizes(parquet, columns))
    if size > _LEAST_LIMIT + _LARGEST_RATIO * n_bytes:
        raise ValueError(f"its {n_bytes:,} bytes stand for {size:,}, which digits cannot")


def _sizes(parquet: pq.ParquetFile, columns: Collection[str]) -> Iterator[int]:
    metadata = parquet.metadata
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema.partition(".")[0] in columns:
                yield max(chunk.num_values * _WIDEST_NUMBER, chunk.total_uncompressed_size)
    for field in parquet.schema_arrow:
        if field.name in columns and pa.types.is_fixed_size_list(field.type):
            yield metadata.num_rows * field.type.list_size * _WIDEST_NUMBER  # a null takes as much as a list
