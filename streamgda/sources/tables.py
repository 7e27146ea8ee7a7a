"""Tables of Delta and Iceberg: the Parquet files that their libraries list.

A table is told by the module of its class, so nothing is imported. The columns are those of the table, and so
are the keys of Delta's partitions. If the rows of the files are not those of the table, this is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from streamgda.blocks.wording import listed
from streamgda.sources.discovery import File, FoundFiles, check_listed_once
from streamgda.storage.filesystems import is_object_store, resolve
from streamgda.storage.paths import AnyFileSystem, shown

_HARMLESS = {
    *("timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"),
    *("variantShredding", "variantShredding-preview", "variantType", "variantType-preview"),
}
"""What Delta's protocol may ask of readers that does not change which numbers and labels the files hold."""

_URI = re.compile(r"(?:([\w+.-]+)://([^/]*))?(.*)", re.DOTALL)

_METHODS = (("deltalake", "get_add_actions"), ("pyiceberg", "plan_files"), ("pyiceberg", "scan"))
"""What the objects of each library have that can be scanned."""

_FIELD_ID = b"PARQUET:field_id"

Keys = Mapping[str, pa.Scalar]


@dataclass(frozen=True)
class TableFiles(FoundFiles):
    """The files of a table.

    Attributes
    ----------
    columns : pyarrow.Schema
        Those of the table.
    keys : mapping of str to mapping of str to pyarrow.Scalar
        The partition keys of each file, by its path, and their values.
    """

    columns: pa.Schema
    keys: Mapping[str, Keys]


def is_table(data: Any) -> bool:
    """Whether data is a table of Delta's or Iceberg's library, or a scan of one."""
    libraries = {base.__module__.partition(".")[0] for base in type(data).__mro__}
    return any(library in libraries and hasattr(data, method) for library, method in _METHODS)


def find_files_of_table(table: Any, filesystem: AnyFileSystem | None = None) -> TableFiles:
    """List the files of a table in the version that it is open in, in the order of their paths.

    Raises
    ------
    FileNotFoundError
        If the table has no files.
    ValueError
        If rows of the files are deleted or filtered, or a newer protocol says how the files are to be read.
    """
    columns, found = (_files_of_delta if hasattr(table, "get_add_actions") else _files_of_iceberg)(table)
    if not found:
        raise FileNotFoundError("the table has no files")
    uris = [_URI.fullmatch(uri).groups(default="") for uri, _ in found]  # type: ignore[union-attr]
    scheme, authority, _ = uris[0]
    there, _ = resolve("/" if scheme in {"", "file"} else f"{scheme}://{authority}", filesystem)
    in_bucket = is_object_store(there)  # Azure's containers stand before an "@"
    paths = [f"{place.partition('@')[0]}{path}" if in_bucket else path for _, place, path in uris]
    check_listed_once(there, paths)
    keys = dict(sorted(zip(paths, (keys for _, keys in found), strict=True), key=lambda file: file[0]))
    return TableFiles(there, list(keys), tuple(map(File, keys)), columns, keys)


def field_numbers(schema: pa.Schema) -> dict[str, bytes]:
    """The numbers of columns, by name: in Iceberg, a column keeps its number when it is renamed."""
    metadata = {field.name: field.metadata or {} for field in schema}
    return {name: found[_FIELD_ID] for name, found in metadata.items() if _FIELD_ID in found}


def _files_of_delta(table: Any) -> tuple[pa.Schema, list[tuple[str, Keys]]]:
    """The columns, and the URI and the keys of each file."""
    needed = set(table.protocol().reader_features or ()) - _HARMLESS - {"columnMapping"}
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        needed.add("columnMapping")
    if "deletionVectors" in needed and hasattr(table, "deletion_vectors"):
        deleted = pa.RecordBatchReader.from_stream(table.deletion_vectors())
        needed -= set() if any(batch.num_rows for batch in deleted) else {"deletionVectors"}
    if needed:
        raise ValueError(
            f"the Delta table {shown(table.table_uri)} uses {listed(sorted(needed))}, so its rows are not "
            "those of its Parquet files; to read them, use "
            "scan_arrow(pyarrow.RecordBatchReader.from_stream(table.scan()), ...)"
        )
    files = pa.table(table.get_add_actions(flatten=True))
    names, root = table.metadata().partition_columns, table.table_uri.rstrip("/")
    keys = [{name: files[f"partition.{name}"][i] for name in names} for i in range(len(files))]
    uris = [path if "://" in path else f"{root}/{path}" for path in files["path"].to_pylist()]
    return pa.schema(table.schema().to_arrow()), list(zip(map(unquote, uris), keys, strict=True))


def _files_of_iceberg(table: Any) -> tuple[pa.Schema, list[tuple[str, Keys]]]:
    """The columns, and the URI of each file."""
    scan = table.scan() if hasattr(table, "scan") else table
    tasks = list(scan.plan_files())
    reader = "to read its rows, use scan_arrow(scan.to_arrow_batch_reader(), ...)"
    if any(task.delete_files for task in tasks):
        raise ValueError(f"the Iceberg table has delete files, for rows that are deleted; {reader}")
    if scan.limit is not None or any(repr(task.residual) != "AlwaysTrue()" for task in tasks):
        raise ValueError(
            "the scan of the Iceberg table has a limit, or a filter that leaves out rows of files; scan all "
            f"rows, and give filters to scan_parquet; or {reader}"
        )
    return scan.projection().as_arrow(), [(task.file.file_path, {}) for task in tasks]
