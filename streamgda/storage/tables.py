"""Parquet tables with a JSON document in their metadata: written atomically, checked when they are read.

`streamgda.storage` describes the columns and the document. Nothing that a file holds is ever run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from streamgda.storage.atomic import replacing
from streamgda.storage.digests import canonical_json
from streamgda.storage.filesystems import AnyFileSystem, Path, one_line, reaching, resolve

FORMAT_VERSION = 1

Metadata = Mapping[str, Any]

_KEY = b"streamgda"


# ---------------------------------------------------------------------- writing


def write(path: Path, table: pa.Table, metadata: Metadata, filesystem: AnyFileSystem | None = None) -> None:
    """Write a table and its metadata, atomically.

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
    except Exception as error:  # each filesystem raises its own kinds
        raise OSError(f"cannot write {path}: {one_line(error)}; what was there before is kept") from error


def _write_parquet(table: pa.Table, file: Any) -> None:
    # Digits of float64 do not compress, and a dictionary of them is larger than they are.
    pq.write_table(table, file, compression="none", use_dictionary=False, write_page_checksum=True)


# ---------------------------------------------------------------------- reading


def read(path: Path, filesystem: AnyFileSystem | None = None) -> tuple[pa.Table, dict[str, Any]]:
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
    """Read the table and the metadata from an open file; `path` is its name in errors."""
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
