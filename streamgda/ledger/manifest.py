"""The manifest: which input files a ledger holds, in which versions, and the entry of each one.

It is one Parquet table, and is replaced atomically. The column ``status`` says whether a file counts: "held"
files do; "quarantined" and "rejected" files do not. ``alarm`` says why. A manifest with files that do not
count is of format 3. Old versions of this library, which would count these files, refuse to read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.blocks.wording import Message
from streamgda.ledger.names import is_entry_name
from streamgda.sources.base import FilePlan, InputFile
from streamgda.statistics.subclasses import SubclassCenters
from streamgda.storage import tables
from streamgda.storage.versions import Version

_KIND = "StatisticsLedger"

Status: TypeAlias = Literal["held", "quarantined", "rejected"]

_KEPT_APART = 3  # the format of a manifest in which not every file counts


@dataclass(frozen=True)
class FileRecord:
    """An input file whose statistics the ledger holds; `entry` is the name of the file that holds them.

    `footer` is the digest of its footer; None if the file was read before ledgers kept it. `status` says
    whether the file counts, and `alarm` which limits it exceeded when it was read.
    """

    path: str
    size: int | None
    modified: int | None
    etag: str | None
    rows: int
    dropped: int
    schema: str
    partition: str
    entry: str
    footer: str | None = None
    status: Status = "held"
    alarm: str = ""

    @classmethod
    def of(cls, plan: FilePlan, *, rows: int, dropped: int, entry: str) -> FileRecord:
        """The record of a file that has been read."""
        file, partition = plan.file, json.dumps(dict(plan.file.partition), default=str)
        size, modified, etag = file.version.size, file.version.modified, file.version.etag
        return cls(file.path, size, modified, etag, rows, dropped, plan.schema, partition, entry, plan.footer)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> FileRecord:
        """A record that was read from a file, and may be damaged or forged.

        Raises
        ------
        ValueError
            If a value is missing or of another type, or the entry has no name that a ledger gives.
        """
        values: dict[str, Any] = {
            field.name: row.get(field.name, None if field.default is MISSING else field.default)
            for field in fields(cls)
        }
        for name, is_sound in _SOUND.items():
            if not is_sound(values[name]):
                raise ValueError(f"damaged: for {values['path']}, {name} is {values[name]!r:.100}")
        return cls(**values)

    @property
    def version(self) -> Version:
        """The version of the file that was read."""
        return Version(self.size, self.modified, self.etag)

    def is_of(self, file: InputFile | FileRecord) -> bool:
        """Whether a file is as it was read: its version and, if it is to be verified, its footer."""
        if self.version != file.version:
            return False
        return file.footer is None or (file.footer != "" and self.footer in (None, file.footer))

    @property
    def partition_keys(self) -> dict[str, Any]:
        """The partition that the file is in."""
        keys: dict[str, Any] = json.loads(self.partition)
        return keys


_NUMBERS = {
    "size": pa.int64(),
    "modified": pa.timestamp("ns", "UTC"),
    "rows": pa.int64(),
    "dropped": pa.int64(),
}

_SCHEMA = pa.schema([(field.name, _NUMBERS.get(field.name, pa.string())) for field in fields(FileRecord)])


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _is_partition(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError, RecursionError):
        return False


_SOUND: dict[str, Callable[[Any], bool]] = {
    "path": _is_text,
    "rows": _is_count,
    "dropped": _is_count,
    "schema": _is_text,
    "partition": _is_partition,
    "entry": is_entry_name,
    "status": get_args(Status).__contains__,
    "alarm": _is_text,
}
"""Whether the values of a record are of their types, and do no harm as a name or a number."""


@dataclass(frozen=True)
class Manifest:
    """The records by path, and what is read of every file."""

    read_options: Mapping[str, Any]
    records: Mapping[str, FileRecord]

    @property
    def entries(self) -> dict[str, list[FileRecord]]:
        """The records of each entry, in the order of their paths."""
        held: dict[str, list[FileRecord]] = {}
        for path in sorted(self.records):
            held.setdefault(self.records[path].entry, []).append(self.records[path])
        return held

    @property
    def held(self) -> Manifest:
        """The manifest of the files that count."""
        return Manifest(self.read_options, {p: r for p, r in self.records.items() if r.status == "held"})

    @property
    def quarantined(self) -> dict[str, str]:
        """The files that have drifted too far, in the order of their paths, and the alarms of each."""
        records = (self.records[path] for path in sorted(self.records))
        return {record.path: record.alarm for record in records if record.status == "quarantined"}

    @property
    def rejected(self) -> tuple[str, ...]:
        """The files that are left out until they change."""
        return tuple(path for path in sorted(self.records) if self.records[path].status == "rejected")

    @property
    def n_rows(self) -> int:
        """Rows of all the files."""
        return sum(record.rows for record in self.records.values())

    def updated(self, records: Iterable[FileRecord]) -> Manifest:
        """A manifest with these records too, which replace those of the same files."""
        return Manifest(self.read_options, {**self.records, **{record.path: record for record in records}})

    def former(self, paths: Iterable[str], there: Container[str]) -> list[FileRecord]:
        """The records of some files that have an entry of their own, if it is still there."""
        alone = {records[0].path: records[0] for records in self.entries.values() if len(records) == 1}
        return [alone[path] for path in paths if path in alone and alone[path].entry in there]

    def to_arrow(self) -> pa.Table:
        """The records, in the order of their paths."""
        rows = [vars(self.records[path]) for path in sorted(self.records)]
        columns = {name: [row[name] for row in rows] for name in _SCHEMA.names}
        columns["modified"] = pa.array(columns["modified"], pa.int64()).cast(_SCHEMA.field("modified").type)
        return pa.table(columns, _SCHEMA)


def read(filesystem: pafs.FileSystem, path: str) -> Manifest | None:
    """The manifest at a path; None if there is none.

    Raises
    ------
    ValueError
        If it is damaged, is not consistent, or is not a manifest.
    """
    try:
        table, metadata = tables.read(path, _SCHEMA.names, filesystem)
    except FileNotFoundError:
        return None
    except tables.DamagedFileError as error:
        raise ValueError(
            f"{error}; delete it, and refresh the ledger, which finds its entries by their names"
        ) from error
    if metadata.get("kind") != _KIND or not isinstance(metadata.get("reads"), dict):
        raise ValueError(f"{path} is no manifest of a ledger: its kind is {metadata.get('kind')!r}")
    try:
        return Manifest(metadata["reads"], _records(table))
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged or not consistent: {error}") from error


def _records(table: pa.Table) -> dict[str, FileRecord]:
    known = [field for field in _SCHEMA if field.name in table.column_names]  # old ones have fewer
    columns = table.select([field.name for field in known]).cast(pa.schema(known))
    times = columns.column("modified").cast(pa.int64())
    rows = columns.set_column(columns.column_names.index("modified"), "modified", times).to_pylist()
    records: dict[str, FileRecord] = {}
    for row in rows:
        if row["path"] in records:
            raise ValueError(f"{row['path']} is listed more than once")
        records[row["path"]] = FileRecord.from_row(row)
    return records


def write(filesystem: pafs.FileSystem, path: str, manifest: Manifest) -> None:
    """Replace the manifest at a path."""
    metadata: dict[str, Any] = {"kind": _KIND, "reads": dict(manifest.read_options)}
    if any(record.status != "held" for record in manifest.records.values()):
        metadata["format_version"] = _KEPT_APART
    tables.write(path, manifest.to_arrow(), metadata, filesystem)


OPTIONS = ("covariance_type", "fourth_moments", "exact", "folds", "groups", "subclass_centers")
"""The read options that are parameters of a ledger."""


def options_of(read_options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with which a ledger must be opened, from the read options in its manifest."""
    kept = {name: read_options[name] for name in OPTIONS if name in read_options}
    if "subclass_centers" in kept:
        kept["subclass_centers"] = SubclassCenters.from_document(kept["subclass_centers"])
    return kept


def check_reads_alike(held: Manifest, read_options: Mapping[str, Any], ledger: str) -> None:
    """Check that a source is read as the files of a ledger were.

    Where no row was dropped, ``missing="raise"`` and ``missing="drop"`` read the same.

    Raises
    ------
    ValueError
        If another column is read, or the statistics are of another kind.
    """
    for name in dict.fromkeys((*read_options, *OPTIONS, "categorical_features")):
        ours, value = held.read_options.get(name), read_options.get(name)
        if ours == value:
            continue
        if name == "missing" and (value == "drop" or not any(r.dropped for r in held.records.values())):
            continue
        raise ValueError(
            Message(
                f"the ledger in {ledger} holds statistics with ⟨{name}={ours!r:.200}⟩, and here it is "
                f"⟨{name}={value!r:.200}⟩; open it as it was made, or use a ledger of its own for "
                "each way to read a dataset"
            )
        )
