"""The manifest: which input files a ledger holds, in which versions, and the entry of each one.

It is one Parquet table, and is replaced atomically. The column ``status`` says whether a file counts: "held"
files do; "quarantined" and "rejected" files do not. ``alarm`` says why. ``entry`` names the table of entries
that holds the statistics of the file. It is of format 4, since versions 0.1 and 0.2 of this library know no
such tables, and refuse to read it.

The names of the files in a ledger are made here, and recognised here before a file is opened or deleted.
Input files are chosen by path, by partition or by time, and weighted by their age.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamgda.blocks.wording import listed
from streamgda.sources.base import InputFile
from streamgda.sources.encoding import AS_NAMED, AS_STORED
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RULES, rule_in
from streamgda.storage import tables
from streamgda.storage.documents import digest
from streamgda.storage.filesystems import LOCK, Storage, Version, finished_name
from streamgda.storage.paths import one_line

_KIND = "StatisticsLedger"

Status: TypeAlias = Literal["held", "quarantined", "rejected"]

FORMAT = 4  # of manifests and of tables of entries


@dataclass(frozen=True)
class FileRecord:
    """An input file whose statistics the ledger holds; `entry` is the name of the table that holds them.

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
    def of(cls, file: InputFile, *, rows: int, dropped: int, entry: str) -> FileRecord:
        """The record of a file that has been read."""
        partition = json.dumps(dict(file.partition), default=str)
        version, numbers = file.version or Version(None, None), (rows, dropped, file.fingerprint)
        place = file.path, version.size, version.modified, version.etag
        return cls(*place, *numbers, partition, entry, file.footer)

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
    def is_folded(self) -> bool:
        """Whether version 0.1 or 0.2 has merged its statistics with those of other files."""
        return self.entry.startswith("fold-")

    def is_usable(self, there: Container[str]) -> bool:
        """Whether its statistics are in one of these tables, by themselves."""
        return self.entry in there and not self.is_folded

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

_NEEDED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("path", "rows", "dropped", "schema", "partition"), lambda value: value is not None),
    "entry": lambda value: is_entry_name(value),  # noqa: PLW0108 - it is defined below
    "status": get_args(Status).__contains__,
}
"""Tests of the columns of which a wrong value must not be used."""


def records_in(table: pa.Table) -> list[FileRecord]:
    """The records in a table, which may be damaged or forged. Those of old versions have fewer columns.

    Raises
    ------
    ValueError
        If a value is missing, the entry has no name that a ledger gives, or the status is unknown.
    """
    columns: dict[str, list[Any]] = {}
    for one in fields(FileRecord):
        if one.name in table.column_names:
            column = table.column(one.name).cast(_SCHEMA.field(one.name).type)
            columns[one.name] = (column.cast(pa.int64()) if one.name == "modified" else column).to_pylist()
        else:
            columns[one.name] = [None if one.default is MISSING else one.default] * len(table)
    for name, is_sound in _NEEDED.items():
        if wrong := {value for value in set(columns[name]) if not is_sound(value)}:
            at = next(i for i, value in enumerate(columns[name]) if value in wrong)
            raise ValueError(f"damaged: for {columns['path'][at]}, {name} is {columns[name][at]!r:.100}")
    return [FileRecord(*values) for values in zip(*columns.values(), strict=True)]


def records_of(rows: Sequence[Mapping[str, Any]]) -> list[FileRecord]:
    """The records in the document of a table; errors are those of `records_in`."""
    return records_in(pa.Table.from_pylist(rows, pa.schema([one for one in _SCHEMA if one.name in rows[0]])))


@dataclass(frozen=True)
class Manifest:
    """The records by path, and what is read of every file."""

    read_options: Mapping[str, Any]
    records: Mapping[str, FileRecord]

    @property
    def reads(self) -> str:
        """A hash of what is read of every file, by which tables of another way of reading are told."""
        return digest(self.read_options, 4)

    @property
    def tables(self) -> set[str]:
        """The tables of entries that it names."""
        return {record.entry for record in self.records.values()}

    @property
    def held(self) -> Manifest:
        """The manifest of the files that count."""
        return Manifest(self.read_options, {p: r for p, r in self.records.items() if r.status == "held"})

    @property
    def quarantined(self) -> dict[str, str]:
        """The files that have drifted too far, in the order of their paths, and the alarms of each."""
        return {r.path: r.alarm for r in self.sorted() if r.status == "quarantined"}

    @property
    def rejected(self) -> tuple[str, ...]:
        """The files that are left out until they change."""
        return tuple(r.path for r in self.sorted() if r.status == "rejected")

    @property
    def apart(self) -> Manifest:
        """The manifest of the files that do not count."""
        return Manifest(self.read_options, {p: r for p, r in self.records.items() if r.status != "held"})

    @property
    def n_rows(self) -> int:
        """Rows of all the files."""
        return sum(record.rows for record in self.records.values())

    def updated(self, records: Iterable[FileRecord]) -> Manifest:
        """A manifest with these records too, which replace those of the same files."""
        return Manifest(self.read_options, {**self.records, **{record.path: record for record in records}})

    def sorted(self) -> list[FileRecord]:
        """The records, in the order of their paths."""
        return [self.records[path] for path in sorted(self.records)]

    def to_arrow(self) -> pa.Table:
        """The records, in the order of their paths."""
        return pa.Table.from_pylist([vars(record) for record in self.sorted()], _SCHEMA)


def read(storage: Storage, path: str) -> Manifest | None:
    """The manifest at a path; None if there is none.

    Raises
    ------
    ValueError
        If it is damaged, is not consistent, or is not a manifest.
    """
    try:
        table, metadata = tables.read(path, _SCHEMA.names, storage)
    except FileNotFoundError:
        return None
    except tables.DamagedFileError as error:
        raise ValueError(
            f"{error}; delete it, and refresh the ledger, which finds its entries"
            if path.endswith(MANIFEST)
            else f"{error}; it says which files do not count. Without it, those in quarantine would count: "
            "restore it, or delete it and reject them again"
        ) from error
    if metadata.get("kind") != _KIND or not isinstance(metadata.get("reads"), dict):
        raise ValueError(f"{path} is no manifest of a ledger: its kind is {metadata.get('kind')!r}")
    try:
        reads = metadata["reads"]
        if reads.get("missing") == "keep":  # as 0.2 called it
            reads = {**reads, "missing": "marginal"}
        records = records_in(table)
        by_path = {record.path: record for record in records}
        for record in records if len(by_path) < len(records) else ():
            if record is not by_path[record.path]:
                raise ValueError(f"{record.path} is listed more than once")
        return Manifest(reads, by_path)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged or not consistent: {error}") from error


def write(storage: Storage, path: str, manifest: Manifest) -> None:
    """Replace the manifest at a path."""
    metadata = {"format_version": FORMAT, "kind": _KIND, "reads": dict(manifest.read_options)}
    tables.write(path, manifest.to_arrow(), metadata, storage)


PARAMETERS = (*Required().keywords(), "folds", "groups")
OPTIONS = (*PARAMETERS, *RULES)
"""The read options that are parameters of a ledger, or its rule."""


def options_of(read_options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with which a ledger must be opened, from the read options in its manifest."""
    options = {name: read_options[name] for name in PARAMETERS if name in read_options}
    rule = rule_in(read_options)
    return options if rule is None else {**options, "rule": rule}


def scan_options_of(read_options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `scan` by which files are read as those of a ledger were."""
    names = ("target", "features", "weight", "missing", "format")
    return {name: read_options[name] for name in names if read_options.get(name) is not None}


def check_reads_alike(manifest: Manifest, read_options: Mapping[str, Any], ledger: str) -> None:
    """Check that a source is read as the files of a ledger were.

    Where no row was dropped, ``missing="raise"`` and ``missing="drop"`` read the same.

    Raises
    ------
    ValueError
        If another column is read, or the statistics are of another kind.
    """
    for name in dict.fromkeys((*read_options, *OPTIONS, AS_STORED)):
        ours, value = manifest.read_options.get(name), read_options.get(name)
        if ours == value:
            continue
        if name == "missing" and (value == "drop" or not any(r.dropped for r in manifest.records.values())):
            continue
        option = AS_NAMED.get(name, name)
        raise ValueError(
            f"the ledger in {ledger} holds statistics with {option}={ours!r:.200}, and here it is "
            f"{option}={value!r:.200}; open it as it was made, or use a ledger of its own for "
            "each way to read a dataset"
        )


# ---------------------------------------------------------------------- the names of the files in a ledger


MANIFEST = "manifest.parquet"

TOTAL = "total.parquet"

APART = "quarantine.parquet"

ENTRIES = "entries"

_TABLE = re.compile(r"[0-9a-f]{32}-([0-9]{1,9})\.parquet")

_OLD = re.compile(r"(?:[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{8}|fold-[0-9a-f]{32})\.parquet")
"""An entry of version 0.1 or 0.2: of one file, whose name ends with a hash of what is read, or of several."""


def table_name(records: Sequence[FileRecord], reads: str) -> str:
    """The name of a table of entries: a hash of its files and of what is read of them, and their number."""
    files = [(record.path, record.version.identity, record.footer, record.partition) for record in records]
    return f"{digest([reads, files])}-{len(records)}.parquet"


def reads_in(document: Mapping[str, Any], name: str) -> str:
    """The hash of what is read of the files of a table; an old version has it at the end of the name."""
    return str(document.get("reads", "" if name.startswith("fold-") else name[50:58]))


def n_files_of(name: str) -> int:
    """How many files a table was written with; 0 for an entry of an old version."""
    match = _TABLE.fullmatch(name)
    return int(match[1]) if match else 0


def is_entry_name(name: object) -> bool:
    """Whether a name is that of a table of entries, or of an entry of an old version."""
    return isinstance(name, str) and bool(_TABLE.fullmatch(name) or _OLD.fullmatch(name))


def is_entry(name: str) -> bool:
    """Whether a file in the folder of entries is a table, or an unfinished one that a crash left."""
    return is_entry_name(finished_name(name) or name)


def is_unfinished(name: str) -> bool:
    """Whether a file in the folder of a ledger is an unfinished table that a crash left."""
    return finished_name(name) in {MANIFEST, TOTAL, APART}


def foreign_names(storage: Storage, folder: str) -> list[str]:
    """The files in the folder of a ledger, and among its entries, that no ledger writes.

    A total alone is not that of a ledger.
    """
    inside = storage.children(folder)  # before the entries, which another refresh writes first
    entries = storage.children(f"{folder}/{ENTRIES}")
    own = {MANIFEST, APART, ENTRIES, LOCK, *([TOTAL] if entries or LOCK in inside else [])}
    outside = [name for name in inside if name not in own and not is_unfinished(name)]
    return outside + [f"{ENTRIES}/{name}" for name in entries if not is_entry(name)]


# ---------------------------------------------------------------------- choosing files


FileFilter: TypeAlias = str | pc.Expression | Sequence[Any] | None
"""A pattern for paths, or a filter as `pyarrow.parquet.read_table` takes it; None chooses all."""


def select(manifest: Manifest, where: FileFilter = None, since: datetime | None = None) -> list[FileRecord]:
    """The records of the chosen files, in the order of their paths.

    Parameters
    ----------
    manifest : Manifest
        What to choose from.
    where : str, pyarrow expression or list of tuples, optional
        A pattern for paths, or a filter over the columns of `to_table`.
    since : datetime, optional
        Only files modified at or after it; in UTC, unless it has a time zone.

    Raises
    ------
    ValueError
        If a filter cannot be evaluated.
    """
    chosen = [manifest.records[path] for path in sorted(_paths(manifest, where))]
    if since is None:
        return chosen
    first = _nanoseconds(since)
    return [record for record in chosen if _modified(record) >= first]


def _paths(manifest: Manifest, where: FileFilter) -> list[str]:
    if where is None:
        return list(manifest.records)
    if isinstance(where, str):
        return fnmatch.filter(manifest.records, where)
    try:
        expression = where if isinstance(where, pc.Expression) else pq.filters_to_expression(where)
        paths: list[str] = to_table(manifest).filter(expression).column("path").to_pylist()
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"where: {where!r} is neither a pattern for paths nor a filter over the columns of files: "
            f"{one_line(error)}"
        ) from error
    return paths


def to_table(manifest: Manifest) -> pa.Table:
    """The records as a table, with a column for each partition key."""
    table = manifest.to_arrow()
    keys = [record.partition_keys for record in manifest.sorted()]
    for name in dict.fromkeys(name for partition in keys for name in partition):
        if name not in table.column_names:
            table = table.append_column(name, _column([partition.get(name) for partition in keys]))
    return table.drop_columns(["partition", "status", "alarm"])


def _column(values: list[Any]) -> pa.Array:
    """The values of a partition key as integers, if all of them are, else as strings."""
    if any(isinstance(value, str) for value in values):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values)


# ---------------------------------------------------------------------- weighing files


Age: TypeAlias = str | Sequence[str] | Mapping[str, str | date] | None
"""Partition keys, or dates by path, that say how old a file is; None for the time of the file."""

_TOMORROW = timedelta(days=1)  # a date has no time zone, and may be that of tomorrow in UTC


def weights_by_age(
    records: Sequence[FileRecord], half_life: timedelta | None, age: Age = None
) -> list[float] | None:
    """The factor for the weights of the rows of each file, from its age; None without a half-life.

    The newest file has the factor 1. A file that is dated in the future has it too, since its age is not
    known and should not make all the other files seem old.

    Parameters
    ----------
    records : sequence of FileRecord
        The files.
    half_life : timedelta, optional
        The time in which the weight of a file halves.
    age : str, sequence of str, or mapping of str to date, optional
        The dates of files; see `StatisticsLedger.statistics`.

    Raises
    ------
    TypeError
        If the half-life is not a timedelta.
    ValueError
        If the half-life is not positive, or is not given although `age` is, or the age of a file is not
        known.
    """
    if half_life is None:
        if age is not None:
            raise ValueError("age says how old a file is, which counts with half_life alone; give both")
        return None
    if not isinstance(half_life, timedelta):
        raise TypeError(f"a half-life is a timedelta, such as timedelta(days=30); got {half_life!r}")
    if half_life <= timedelta(0):
        raise ValueError(f"a half-life must be longer than zero; got {half_life}")
    now = datetime.now(tz=UTC)
    latest = _nanoseconds(now if age is None else now + _TOMORROW)
    times = [min(_time_of(record, age), latest) for record in records]
    newest = max(times)
    return [0.5 ** (timedelta(microseconds=(newest - time) / 1000) / half_life) for time in times]


def _modified(record: FileRecord) -> int:
    """When a file was modified, in nanoseconds since 1970; a ValueError if that is not known."""
    if record.modified is None:
        raise ValueError(f"{record.path}: its filesystem does not tell when a file was modified")
    return record.modified


def _nanoseconds(time: datetime) -> int:
    """A datetime in nanoseconds since 1970, in UTC unless it has a time zone; else a TypeError."""
    if not isinstance(time, datetime):
        raise TypeError(f"a time is needed, such as datetime(2026, 1, 31, tzinfo=UTC); got {time!r}")
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def _time_of(record: FileRecord, age: Age) -> int:
    """When a file was modified, or the date that `age` gives it, in nanoseconds since 1970.

    A date is a `date`, a `datetime` or ISO 8601 text, in UTC unless it has a time zone.
    """
    if age is None:
        return _modified(record)
    if isinstance(age, Mapping):
        text = str(age.get(record.path))
    else:
        values = {name: value for name, value in record.partition_keys.items() if value is not None}
        keys = [age] if isinstance(age, str) else age
        if unknown := [key for key in keys if key not in values]:
            raise ValueError(
                f"age: {record.path} has no partition key {unknown[0]!r}; its keys: {listed(list(values))}"
            )
        text = "-".join(f"{values[key]:02d}" if isinstance(values[key], int) else values[key] for key in keys)
    for rest in ("", "-01", "-01-01"):  # the first day of a month or a year
        with suppress(ValueError):
            return _nanoseconds(datetime.fromisoformat(text + rest))
    raise ValueError(f"age of {record.path}: {text!r} is no date, such as 2026-01-31")
