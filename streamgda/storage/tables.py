"""A Parquet table with what belongs to it as JSON in its metadata: written atomically, read with suspicion.

What the columns mean is said in `streamgda.storage`. Nothing here runs anything that a file holds: a file
is columns of plain types and one JSON document.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamgda.storage.atomic import replacing
from streamgda.storage.digests import canonical_json
from streamgda.storage.filesystems import Path, one_line, reaching, resolve

FORMAT_VERSION = 1

Columns = Mapping[str, NDArray[Any]]

Metadata = Mapping[str, Any]

_KEY = b"streamgda"


# ---------------------------------------------------------------------- writing


def write(path: Path, table: pa.Table, metadata: Metadata, filesystem: Any = None) -> None:
    """Write a table and its metadata: wholly, or, where it raises, not at all.

    Raises
    ------
    OSError
        If it cannot be written. What stood at the path before is still there.
    """
    where, name = resolve(path, filesystem)
    document = canonical_json({"format_version": FORMAT_VERSION, **metadata})
    table = table.replace_schema_metadata({_KEY: document.encode()})
    try:
        with replacing(where, name, in_memory=True) as file:
            _write_parquet(table, file)
    except MemoryError:
        raise
    except Exception as error:  # every store has its own
        raise OSError(f"cannot write {path}: {one_line(error)}; what was there before is kept") from error


def _write_parquet(table: pa.Table, file: Any) -> None:
    # Digits of float64 do not compress, and a dictionary of them is larger than they are.
    pq.write_table(table, file, compression="none", use_dictionary=False, write_page_checksum=True)


# ---------------------------------------------------------------------- reading


def read(path: Path, filesystem: Any = None) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the metadata of a file that `write` wrote.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is truncated, damaged, not from this project or of a newer format; in one line.
    """
    where, name = resolve(path, filesystem)
    with reaching(os.fspath(path)):
        if where.get_file_info(name).type != pafs.FileType.File:
            raise FileNotFoundError(f"there is no file {os.fspath(path)}")
        file = where.open_input_file(name)
    with file:
        return parse(file, os.fspath(path))


def parse(file: Any, path: str) -> tuple[pa.Table, dict[str, Any]]:
    """The same of a file that is open already; `path` is what errors call it."""
    try:
        parquet = pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
        metadata = _metadata_of(parquet, path)
        return parquet.read(use_threads=False), metadata
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is truncated, damaged or no Parquet file: {one_line(error)}") from error


def _metadata_of(parquet: pq.ParquetFile, path: str) -> dict[str, Any]:
    document = (parquet.metadata.metadata or {}).get(_KEY)
    if document is None:
        raise ValueError(
            f"{path} is a Parquet file of something else: its metadata has no key {_KEY.decode()!r}"
        )
    try:
        metadata = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its metadata is not JSON ({error})") from error
    version = metadata.get("format_version") if isinstance(metadata, dict) else None
    if type(version) is not int or version < 1:
        raise ValueError(f"{path} is damaged: its metadata has no format_version")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format {version}, and this version of streamgda reads up to format "
            f"{FORMAT_VERSION}: upgrade streamgda"
        )
    return dict(metadata)


# ---------------------------------------------------------------------- arrays as columns


def to_arrow(columns: Columns) -> pa.Table:
    """One row per class: vectors as plain columns, matrices as columns of lists.

    A matrix with fewer rows than there are classes fills the first ones; the others are null.
    """
    n_rows = max(map(len, columns.values()))
    return pa.table({name: _column(values, n_rows) for name, values in columns.items()})


def _column(values: NDArray[Any], n_rows: int) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    offsets = np.minimum(np.arange(n_rows + 1), len(values)) * values.shape[1]
    return pa.LargeListArray.from_arrays(
        offsets.astype(np.int64),
        pa.array(values.ravel()),
        mask=pa.array(np.arange(n_rows) >= len(values)) if len(values) < n_rows else None,
    )


def from_arrow(table: pa.Table) -> dict[str, NDArray[Any]]:
    """The arrays of a table that `to_arrow`, or an SQL engine, has made.

    Raises
    ------
    ValueError
        If a value or a whole row is missing, or the lists of a column are not of one length.
    """
    return {name: _array(table.column(name), name) for name in table.column_names}


def _array(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    if not _is_list(column.type):
        if column.null_count:
            raise ValueError(f"column {name!r} holds a null")
        return np.asarray(column.to_numpy())
    lists = column.combine_chunks().drop_null()
    values = lists.flatten()
    if values.null_count:
        raise ValueError(f"column {name!r} holds a null within a list")
    lengths = np.unique(lists.value_lengths().to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} holds lists of different lengths, {lengths[0]} and {lengths[-1]}")
    return np.asarray(values.to_numpy()).reshape(len(lists), int(lengths[0]) if len(lengths) else 0)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
