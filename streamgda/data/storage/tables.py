"""Parquet tables with a JSON document in their metadata: written atomically, checked when they are read.

`streamgda.data.storage` describes the columns and the document. Nothing that a file holds is ever run.
"""

from __future__ import annotations

import binascii
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamgda.data.storage.documents import Metadata, TableColumns, decode, encode, table_digest
from streamgda.data.storage.filesystems import Storage, reached, resolve
from streamgda.data.storage.footers import check_footer, check_size, read_tail
from streamgda.data.storage.paths import Address, AnyFileSystem, Path, one_line
from streamgda.data.storage.reading import open_whole
from streamgda.data.storage.retries import StorageError, retried

T = TypeVar("T")


_TEXTS = (pa.string(), pa.large_string())


def save_table(
    path: Path, columns: TableColumns, metadata: Metadata, filesystem: AnyFileSystem, overwrite: bool
) -> None:
    """Write statistics or a model for a user, and replace nothing else unless told to.

    Raises
    ------
    ValueError
        If a file of another kind is there, and `overwrite` is False.
    OSError
        If the file cannot be written. A file that was there before is unchanged.
    """
    if not overwrite:
        try:
            check_replaceable(path, filesystem)
        except ValueError as error:
            raise ValueError(f"{error}; choose another path, or pass overwrite=True") from error
    source_date = os.environ.get("SOURCE_DATE_EPOCH")  # see reproducible-builds.org
    now = datetime.fromtimestamp(time.time() if source_date is None else int(source_date), UTC)
    metadata = {**_provenance(columns, metadata), "time": now.isoformat(timespec="seconds"), **metadata}
    write(path, to_arrow(columns), metadata, filesystem)


def to_bytes(columns: TableColumns, metadata: Metadata) -> bytes:
    """The bytes that `save_table` writes, without the time."""
    sink = pa.BufferOutputStream()
    document = encode({**_provenance(columns, metadata), **metadata})
    _write_parquet(to_arrow(columns).replace_schema_metadata(document), sink)
    return bytes(sink.getvalue().to_pybytes())


PROVENANCE = ("library", "time", "fingerprint", "metadata")
"""The keys that say where a file comes from, and what a user keeps in it."""


def _provenance(columns: TableColumns, metadata: Metadata) -> dict[str, Any]:
    state = {
        name: value for name, value in metadata.items() if name not in {"model", "metadata", "checkpoint"}
    }
    library = import_module("streamgda").__version__
    return {"library": f"streamgda {library}", "fingerprint": table_digest(columns, state)}


def check_replaceable(path: Path, filesystem: AnyFileSystem | Storage | None = None) -> None:
    """Check that there is no file at a path, or one that `save_table` wrote.

    Raises
    ------
    ValueError
        If there is a file of another kind, such as data, or a file of a ledger.
    """
    path = Address(path)
    where, name = resolve(path, filesystem)
    kind = reached(path, lambda: where.filesystem.get_file_info(name).type)
    if kind == pafs.FileType.NotFound:
        return
    if kind == pafs.FileType.Unknown:  # a pipe, which no one may write to
        raise ValueError(f"will not overwrite {path}, which is no regular file")
    try:
        metadata = read_metadata(path, filesystem)
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"will not overwrite {path}, which holds no model or statistics: {error}") from error
    if "reads" in metadata:
        raise ValueError(f"will not overwrite {path}, which is part of a ledger")


def write(
    path: Path,
    table: pa.Table,
    metadata: Metadata,
    filesystem: AnyFileSystem | Storage | None = None,
    *,
    run: str | None = None,
) -> None:
    """Write a table and its metadata, atomically; `run` is as for `Storage.replacing`.

    Raises
    ------
    OSError
        If the file cannot be written. A file that was there before is unchanged.
    """
    path = Address(path)
    where, name = resolve(path, filesystem)
    table = table.replace_schema_metadata(encode(metadata))

    def attempt() -> None:
        with where.replacing(name, in_memory=True, run=run) as file:
            _write_parquet(table, file)

    try:
        retried(attempt, place=str(path))
    except MemoryError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"cannot write {path}: {one_line(error)}") from error
    except Exception as error:  # each filesystem raises its own kinds
        message = f"cannot write {path}: {one_line(error)}; what was there before is kept"
        if not isinstance(error, StorageError):
            raise OSError(message) from error
        error.args = (message,)
        raise


def _write_parquet(table: pa.Table, file: Any) -> None:
    # Values of float64 hardly compress, and a dictionary of them is larger than the values. Parquet has no
    # whole numbers of fewer than 32 bits: lists of short ones are written as differences, in few bits.
    short = [field.name for field in table.schema if _is_list_of_short(field.type)]
    encodings = {f"{name}.list.element": "DELTA_BINARY_PACKED" for name in short}
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, file, column_encoding=encodings or None, **options)


def _is_list_of_short(kind: pa.DataType) -> bool:
    """Whether a type is of lists of unsigned integers of at most 32 bits."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and kind.value_type in {pa.uint8(), pa.uint16(), pa.uint32()}


# ---------------------------------------------------------------------- reading


class DamagedFileError(ValueError):
    """A file is truncated, damaged or no Parquet file."""


def read_table(
    path: Path | bytes, columns: Collection[str], filesystem: AnyFileSystem | Storage | None = None
) -> tuple[pa.Table, dict[str, Any]]:
    """Read the table and the metadata of a file that `write` wrote.

    Parameters
    ----------
    path : str, path or bytes
        The file, or all its bytes.
    columns : collection of str
        The columns that are known; others are not read.
    filesystem : pyarrow or fsspec filesystem, optional
        Where `path` is. If None, inferred from `path`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is truncated, damaged, not from this project or of a newer format.
    """
    name = name_of(path)

    def decode_whole(file: pa.NativeFile) -> tuple[pa.Table, dict[str, Any]]:
        parquet = _parquet_file(file)
        metadata = decode(parquet.metadata.metadata, name)
        _check_levels(parquet)
        check_footer(parquet.metadata, read_tail(file), file.size())
        check_size(parquet, file.size(), columns)
        # Strings stay in a dictionary, so that many equal ones take no memory.
        strings = [field.name for field in parquet.schema_arrow if field.type in _TEXTS]
        return _parquet_file(file, strings).read(sorted(columns), use_threads=False), metadata

    return _decoded(decode_whole, path, filesystem)


def _check_levels(parquet: pq.ParquetFile) -> None:
    """Check that columns may be null where the Arrow schema, which pyarrow wrote beside them, says so.

    pyarrow ends the process when it is asked for the metadata of a column chunk whose histograms of levels do
    not fit the schema.
    """
    schema = (parquet.metadata.metadata or {}).get(b"ARROW:schema")
    if schema is None:  # written by another library
        return
    fields = pa.ipc.read_schema(pa.py_buffer(binascii.a2b_base64(schema)))
    columns = map(parquet.schema.column, range(len(parquet.schema)))
    if [column.max_definition_level for column in columns] != list(map(_levels, fields)):
        raise pa.ArrowInvalid("the footer is damaged: it has two different schemas")


def _levels(field: pa.Field) -> int:
    """The definition levels of a field: one for each of column, list and element that may be null."""
    element = getattr(field.type, "value_field", None)
    return int(field.nullable) + (0 if element is None else 1 + _levels(element))


def read_metadata(path: Path | bytes, filesystem: AnyFileSystem | Storage | None = None) -> dict[str, Any]:
    """Read the metadata of a file that `write` wrote, without its table. Errors are those of `read_table`."""
    name = name_of(path)
    return _decoded(lambda file: decode(_parquet_file(file).metadata.metadata, name), path, filesystem)


def name_of(path: Path | bytes) -> str:
    """What errors call a file, or its bytes."""
    return "this" if isinstance(path, bytes) else str(Address(path))


def parse(file: pa.NativeFile, columns: Collection[str], path: str) -> tuple[pa.Table, dict[str, Any]]:
    """Read as `read_table` does, from an open file whose size is not checked. Errors name `path`."""
    with _decoding(path):
        parquet = _parquet_file(file)
        table = parquet.read(sorted(columns), use_threads=False)
        return table, decode(parquet.metadata.metadata, path)


def _decoded(
    decode_file: Callable[[pa.NativeFile], T], path: Path | bytes, filesystem: AnyFileSystem | Storage | None
) -> T:
    """What a function decodes of a file, or of its bytes.

    A remote file that cannot be decoded is read once more: it may have been replaced in between.
    """
    name = name_of(path)
    if isinstance(path, bytes):
        with pa.BufferReader(path) as file, _decoding(name):
            return decode_file(file)
    where, place = resolve(path, filesystem)

    def read_once() -> T:
        with _opened(where, place, name) as file, _decoding(name):
            return decode_file(file)

    try:
        return read_once()
    except DamagedFileError:
        if where.is_local:
            raise
        return read_once()


def _opened(storage: Storage, path: str, name: str) -> pa.NativeFile:
    """A file for Arrow to decode; `name` is what errors call it."""
    try:
        return reached(name, partial(open_whole, storage, path))
    except StorageError:
        raise
    except OSError as error:
        kind = reached(name, lambda: storage.filesystem.get_file_info(path).type)
        if kind == pafs.FileType.Directory:
            raise FileNotFoundError(f"{name} is a folder; name a file in it") from error
        if kind == pafs.FileType.NotFound:
            raise FileNotFoundError(f"there is no file {name}") from error
        raise


def _parquet_file(file: pa.NativeFile, read_dictionary: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(
        file, read_dictionary=read_dictionary, page_checksum_verification=True, pre_buffer=False
    )


@contextmanager
def _decoding(path: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, binascii.Error) as error:
        raise DamagedFileError(
            f"{path} is truncated, damaged or no Parquet file: {one_line(error)}"
        ) from error


def stream_of(table: pa.Table) -> pa.Buffer:
    """A table as a stream of Arrow's IPC format, which holds just its rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


# ---------------------------------------------------------------------- arrays as columns


def to_arrow(columns: TableColumns) -> pa.Table:
    """One row per class: vectors as plain columns, matrices as columns of lists.

    A matrix with fewer rows than there are classes fills the first ones; the others are null.
    """
    n_rows = max(map(len, columns.values()))
    return pa.table({name: _column(values, n_rows) for name, values in columns.items()})


def _column(values: NDArray[Any], n_rows: int) -> pa.Array:
    if values.dtype == object:
        return _ragged(values)
    if values.ndim == 1:
        return pa.array(values)
    offsets = np.minimum(np.arange(n_rows + 1), len(values)) * values.shape[1]
    return pa.LargeListArray.from_arrays(
        offsets.astype(np.int64),
        pa.array(values.ravel()),
        mask=pa.array(np.arange(n_rows) >= len(values)) if len(values) < n_rows else None,
    )


def _ragged(vectors: NDArray[Any]) -> pa.Array:
    """Vectors of any length, one for each row, or None."""
    dtype = next((vector.dtype for vector in vectors if vector is not None), np.dtype(np.float64))
    return pa.array(list(vectors), pa.large_list(pa.from_numpy_dtype(dtype)))


def from_arrow(table: pa.Table, n_patterns: int | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of a table that `to_arrow`, or an SQL engine, has made.

    If `n_patterns` is given, the rows are of so many patterns of observed features. Then columns of lists
    become arrays of objects, each a vector of any length or None, and a label occurs at most once in each
    pattern. With a column of subclasses, a label may occur any number of times.

    Raises
    ------
    ValueError
        If a value or a whole row is missing, or the lists of a column are not of one length.
    """
    most = len(table) if "subclass" in table.column_names else n_patterns or 1
    return {name: _array(table.column(name), name, n_patterns, most) for name in table.column_names}


def _array(column: pa.ChunkedArray, name: str, n_patterns: int | None, most: int) -> NDArray[Any]:
    rows = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    is_list = isinstance(rows, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray)
    values = rows.flatten() if is_list else rows
    if values.null_count:
        raise ValueError(f"column {name!r} holds a null")
    if pa.types.is_dictionary(values.type):
        if most * len(values.dictionary) < len(values):
            raise ValueError(f"a {name} stands twice")
        values = values.cast(values.type.value_type)
    array = np.asarray(values.to_numpy(zero_copy_only=False))
    if not is_list:
        return array
    if n_patterns is not None:
        return _vectors(rows, array)
    lengths = rows.value_lengths().drop_null().unique().to_pylist() or [0]
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} holds lists of different lengths")
    return array.reshape(len(rows) - rows.null_count, lengths[0])


def _vectors(lists: pa.Array, numbers: NDArray[Any]) -> NDArray[Any]:
    """One vector of the numbers in the lists for each row, or None."""
    vectors = np.full(len(lists), None, dtype=object)
    ends = np.cumsum(lists.value_lengths().fill_null(0).to_numpy())
    for row, (stop, is_null) in enumerate(zip(ends, lists.is_null().to_pylist(), strict=True)):
        if not is_null:
            vectors[row] = numbers[(ends[row - 1] if row else 0) : stop]
    return vectors
