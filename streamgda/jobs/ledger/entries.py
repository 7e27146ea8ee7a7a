"""Entries: the statistics of each file of a dataset, in tables that hold those of many files.

A table has the rows of the states of its files, as `Statistics.to_columns` makes them, one below the other.
Its document lists the files (``files``), how many rows each state has (``lengths``), the document of the
first state (``common``), and what each one has of its own (``own``), and a hash of what is read of each file
(``reads``). The name of a table is a hash of the versions of its files: the same name means the same content,
and a table never changes.

Statistics of folds are a row for each fold: its number, the metadata of its statistics as JSON, and their
table as an Arrow stream. ``ledger.parquet``, which `LedgerFile` reads and writes, has the merged state in
the same form.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from streamgda.data.blocks.block import FoldRule
from streamgda.data.blocks.wording import callers_level
from streamgda.data.sources.splits import InputFile
from streamgda.data.storage import tables
from streamgda.data.storage.documents import SENSELESS, digest
from streamgda.data.storage.filesystems import Storage, finished_name, reached
from streamgda.data.storage.identity import canonical
from streamgda.data.storage.paths import one_line
from streamgda.data.storage.reading import open_whole
from streamgda.data.storage.threads import read_ahead
from streamgda.data.storage.versions import Version
from streamgda.statistics.base import Statistics
from streamgda.statistics.factory import COLUMNS, state_of, states_of, states_of_folds
from streamgda.statistics.floating.moment_columns import JoinedStates
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.registry import RULES
from streamgda.statistics.validation import as_count

State = Statistics | FoldStatistics
F = TypeVar("F")

FORMAT = 4  # of entries, and of the ledger itself

_TABLE_BYTES = 1 << 23  # of the states in one table, or one larger state
_SMALL = 1 << 22  # bytes; smaller tables are joined if there are many
_MOST_SMALL = 64
_READERS = 4  # tables in memory at once, while others are merged
_ORPHANED_FOR = timedelta(days=1)  # longer than a refresh or a reader takes
_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
_RUN = re.compile(r"[0-9a-f]{32}\.run(-ended)?")
_OURS = re.compile(f"{_NAME.pattern}|{_RUN.pattern}")
_NOT_IN_OLDER = "name", "content", "row_groups", "inode"  # of `FileRecord`


class FileRecord(NamedTuple):
    """A file in one version, and the table that holds its statistics."""

    path: str
    size: int | None
    modified: int | None
    etag: str | None
    partition: str
    rows: int = 0
    dropped: int = 0
    table: str = ""
    place: int = 0  # in the table
    name: str = ""  # by which its rows are divided; of older ledgers, its path
    content: str = ""  # a hash of its statistics, which a copy has too; of older ledgers, not known
    row_groups: str = ""  # if a pyarrow dataset leaves out others
    inode: int | None = None  # of a local file; of older ledgers, not known

    @classmethod
    def of(cls, file: InputFile) -> FileRecord:
        """The record of a file that is not read yet."""
        version = file.version or Version(None, None)
        partition = json.dumps(dict(file.partition), default=str) if file.partition else "{}"
        # Rows may be divided by keys whose types JSON does not tell, such as dates.
        untold = {key: type(v).__name__ for key, v in file.partition.items() if canonical(v) != v}
        name = f"{file.name} {untold}" if file.name and untold else file.name
        groups, n_groups = file.row_groups or ([], 0)
        row_groups = "" if groups == list(range(n_groups)) else json.dumps(groups)
        return cls(
            *(file.path, version.size, version.modified, version.etag, partition),
            name=name,
            row_groups=row_groups,
            inode=version.inode,
        )

    @property
    def identity(self) -> tuple[Any, ...]:
        """What is equal as long as the file has the same rows, which are divided by the same name."""
        version = self.size, self.modified if self.etag is None else self.etag
        divided_by = _in_order(self.partition), self.name or self.path
        return self.path, *version, *divided_by, self.row_groups, self.inode

    def known_as(self, present: FileRecord | None) -> FileRecord:
        """The record of an older ledger with the inode of the present file, if all else is the same."""
        if self.inode is not None or present is None or present.inode is None:
            return self
        known = self._replace(inode=present.inode)
        return known if known.identity == present.identity else self


@lru_cache  # files of one folder share their keys
def _in_order(partition: str) -> str:
    """Partition keys in the order of their names, which older versions wrote in another one."""
    return json.dumps(json.loads(partition), sort_keys=True)


def as_lists(records: Sequence[FileRecord]) -> dict[str, list[Any]]:
    """The values of the records as lists, by name, so that a document of many files is short."""
    return {name: [record[i] for record in records] for i, name in enumerate(FileRecord._fields)}


def records_in(columns: Mapping[str, Sequence[Any]]) -> list[FileRecord]:
    """The records whose values `as_lists` has listed."""
    n_files, unknown = len(columns["path"]), FileRecord._field_defaults
    columns = {**{name: [unknown[name]] * n_files for name in _NOT_IN_OLDER}, **columns}
    return list(map(FileRecord._make, zip(*map(columns.__getitem__, FileRecord._fields), strict=True)))


def in_order(files: Iterable[F]) -> list[F]:
    """Files, or their records, in the order of their paths, in which states are merged."""
    return sorted(files, key=attrgetter("path"))


@dataclass(frozen=True)
class LedgerFile:
    """What ``ledger.parquet`` holds: how files are read, the files that count, and their merged state.

    If it is not there, `reads` is empty, and no file counts.
    """

    reads: Mapping[str, Any]
    records: list[FileRecord]
    table: pa.Table
    document: Mapping[str, Any]
    path: str

    @classmethod
    def at(cls, path: str, storage: Storage) -> LedgerFile:
        """What lies at a path.

        Raises
        ------
        ValueError
            If it is damaged.
        """
        try:
            table, document = tables.read_table(path, COLUMNS, storage)
            return cls(document["reads"], records_in(document.pop("files")), table, document, path)
        except FileNotFoundError:
            return cls({}, [], None, {}, path)
        except SENSELESS as error:
            raise ValueError(
                f"{path} is damaged: {one_line(error)}; delete it, and refresh the ledger, which finds its "
                "entries"
            ) from error

    def commit(self, storage: Storage) -> None:
        """Replace what lies there, which ends a refresh."""
        known = {"format_version": FORMAT, "reads": self.reads, "files": as_lists(self.records)}
        tables.write(self.path, self.table, {**self.document, **known}, storage)

    def state(self, empty: State) -> State:
        """The merged statistics, of the kind of `empty`."""
        return state_in(self.table, self.document, self.path, empty) if self.reads else empty


class Entry(NamedTuple):
    """The state of a file as a table with its document, and the record of the file."""

    record: FileRecord
    table: pa.Table
    document: dict[str, Any]


@dataclass(frozen=True)
class _Table:
    """The states of some files, where each begins and the last one ends, and their documents."""

    path: str
    rows: pa.Table
    ends: Sequence[int]
    documents: Sequence[dict[str, Any]]

    def entry(self, record: FileRecord) -> Entry:
        """The entry of a file."""
        start, stop = self.ends[record.place], self.ends[record.place + 1]
        return Entry(record, self.rows.slice(start, stop - start), self.documents[record.place])

    def states(self, run: Sequence[FileRecord], empty: State) -> Iterator[tuple[int, Any]]:
        """Yield the states of neighbours, in order; several may come together, with their number."""
        if isinstance(empty, FoldStatistics):
            for entry in list(map(self.entry, run)):
                yield 1, state_in(entry.table, {**entry.document, **_rule_of(empty)}, self.path, empty)
            return
        start, stop = run[0].place, run[-1].place + 1
        ends = self.ends[start : stop + 1]
        lengths = [after - before for before, after in pairwise(ends)]
        rows = self.rows.slice(ends[0], sum(lengths))
        documents = [{**document, **_rule_of(empty)} for document in self.documents[start:stop]]
        yield from states_of(rows, documents, lengths, self.path)


@dataclass(frozen=True)
class Entries:
    """A folder of tables of entries.

    Attributes
    ----------
    storage, folder
        Where it is.
    reads : str
        A hash of what is read of each file.
    run : str, optional
        What is there as long as tables may be written, as for `Storage.replacing`.
    """

    storage: Storage
    folder: str
    reads: str
    run: str | None = None

    def there(self) -> dict[str, Version]:
        """What refreshes have left in the folder, also tables that are half-written."""
        versions = reached(self.folder, partial(self.storage.listing, self.folder))
        above = self.folder.strip("/") + "/"
        names = {path.strip("/").removeprefix(above): version for path, version in versions.items()}
        return {name: names[name] for name in names if _OURS.fullmatch(finished_name(name) or name)}

    @contextmanager
    def open(self) -> Iterator[Entries]:
        """The same folder, for one refresh: after the block, nothing that still runs writes a table.

        Threads and tasks may outlive a refresh that fails.
        """
        run = f"{self.folder}/{uuid.uuid4().hex}.run"
        reached(run, partial(self.storage.begin_run, run))
        try:
            yield replace(self, run=run)
        finally:
            self.storage.end_run(run)

    def write(self, entries: Iterable[Entry]) -> list[FileRecord]:
        """Write some entries into tables of a few megabytes, and return the records, which name these."""
        records: list[FileRecord] = []
        run: list[Entry] = []
        size = 0
        for entry in entries:
            n_bytes = entry.table.nbytes
            if run and (size + n_bytes > _TABLE_BYTES or not _are_alike(run[0], entry)):
                records += self._write(run)
                run, size = [], 0
            run.append(entry)
            size += n_bytes
        return records + (self._write(run) if run else [])

    def _write(self, run: Sequence[Entry]) -> list[FileRecord]:
        name = f"{digest([self.reads, [entry.record.identity for entry in run]])}.parquet"
        common = _without_rule(run[0].document)
        records = [entry.record._replace(table=name, place=i) for i, entry in enumerate(run)]
        document = {
            "format_version": FORMAT,
            "kind": "LedgerEntries",
            "reads": self.reads,
            "files": as_lists(records),
            "lengths": [len(entry.table) for entry in run],
            "common": common,
            "own": [{k: e.document[k] for k in common if e.document[k] != common[k]} for e in run],
        }
        table = pa.concat_tables([entry.table for entry in run])
        tables.write(f"{self.folder}/{name}", table, document, self.storage, run=self.run)
        return records

    def found(self, names: Iterable[str]) -> list[FileRecord]:
        """The records in tables that no ledger names, as a refresh leaves them that is killed."""
        found: list[FileRecord] = []
        for name in filter(_NAME.fullmatch, names):
            with suppress(FileNotFoundError, *SENSELESS):
                document = tables.read_metadata(f"{self.folder}/{name}", self.storage)
                records = records_in(document["files"])
                if document["reads"] == self.reads and {one.table for one in records} == {name}:
                    found += records
        return found

    def parts(self, records: Sequence[FileRecord], empty: State) -> Iterator[tuple[list[FileRecord], Any]]:
        """Yield the states of some files, in order; of neighbours in a table, as one `JoinedStates`."""
        for table, run in self._runs(records):
            for n, part in table.states(run, empty):
                if part.n_rows != sum(record.rows for record in run[:n]):
                    raise self._damaged(run[0].table, f"it has {part.n_rows} rows of {run[0].path}")
                yield run[:n], part
                del part, run[:n]  # or it would be in memory while the next one is made

    def states(self, records: Sequence[FileRecord], empty: State) -> Iterator[tuple[FileRecord, Any]]:
        """Yield the states of some files one by one, in order."""
        for run, part in self.parts(records, empty):
            yield from zip(run, part if isinstance(part, JoinedStates) else [part], strict=True)

    def _runs(self, records: Sequence[FileRecord]) -> Iterator[tuple[_Table, list[FileRecord]]]:
        """Yield neighbours in a table, in order. A table is read ahead, and held until its last use."""
        last = {record.table: i for i, record in enumerate(records)}
        tables_read: dict[str, _Table] = {}
        with closing(read_ahead(self._read, list(last), min(_READERS, len(last) - 1))) as coming:
            for (name, _), pairs in groupby(enumerate(records), _place):
                places, run = zip(*pairs, strict=True)
                while name not in tables_read:
                    tables_read |= dict([next(coming)])
                if len(tables_read[name].documents) <= run[-1].place:
                    raise self._damaged(name, f"it does not hold {run[-1].path}")
                yield tables_read[name], list(run)
                if last[name] == places[-1]:
                    del tables_read[name]

    def _read(self, name: str) -> tuple[str, _Table]:
        path = f"{self.folder}/{name}"
        try:
            with reached(path, partial(open_whole, self.storage, path)) as file:
                table, document = tables.parse(pa.BufferReader(file.read_buffer()), COLUMNS, path)
            # The pages have checksums, and the states were checked when they were written.
            documents = [{**document["common"], **own, "definite": False} for own in document["own"]]
            return name, _Table(path, table, list(accumulate(document["lengths"], initial=0)), documents)
        except FileNotFoundError as error:
            raise self._missing(name) from error
        except SENSELESS as error:
            raise self._damaged(name, one_line(error)) from error

    def _missing(self, name: str) -> FileNotFoundError:
        return FileNotFoundError(
            f"{self.folder}/{name} is missing: another refresh has deleted it, workers wrote elsewhere, or "
            "the storage lists files late; refresh the ledger, in a folder or at a URL that all share"
        )

    def _damaged(self, name: str, fault: str) -> ValueError:
        return ValueError(f"{self.folder}/{name} is damaged: {fault}; delete it, and refresh the ledger")

    def joined(self, records: Sequence[FileRecord], there: Mapping[str, Version]) -> list[FileRecord]:
        """The same records; if there are many small tables, what they hold is written into larger ones."""
        for lost in {one.table for one in records}.difference(there):
            raise self._missing(lost)
        small = {one.table for one in records if (there[one.table].size or 0) < _SMALL}
        if len(small) <= _MOST_SMALL:
            return list(records)
        runs = self._runs([one for one in records if one.table in small])
        inside = self.write(table.entry(one) for table, run in runs for one in run)
        return in_order([*inside, *(one for one in records if one.table not in small)])

    def tidy(self, named: set[str], there: Mapping[str, Version]) -> None:
        """Delete what is not named; where there is no lock, what is older than a day.

        It is a warning if that fails, since the refresh is complete.
        """
        try:
            self._delete_others(named, there)
        except OSError as error:
            warnings.warn(
                f"the refresh is complete, but what nothing needs in {self.folder} cannot be deleted: "
                f"{one_line(error)}. The next refresh tries again",
                stacklevel=callers_level(),
            )

    def _delete_others(self, named: set[str], there: Mapping[str, Version]) -> None:
        latest = (datetime.now(tz=UTC) - _ORPHANED_FOR).timestamp() * 1e9
        inside = self.storage.children(self.folder) if self.storage.is_local else ()
        for name in filter(_RUN.fullmatch, inside):
            self.storage.filesystem.delete_dir(f"{self.folder}/{name}")
        for name in there.keys() - named:
            if self.storage.is_local or (there[name].modified or latest) < latest:
                path = f"{self.folder}/{name}"
                with suppress(FileNotFoundError):
                    reached(path, partial(self.storage.filesystem.delete_file, path))


def _place(at: tuple[int, FileRecord]) -> tuple[str, int]:
    """The table of a record at a position; and a number that neighbours in the table share."""
    position, record = at
    return record.table, record.place - position


def _without_rule(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in RULES}


def _rule_of(empty: State) -> dict[str, Any]:
    """What the document of an entry lacks: a rule, such as a forest, can be larger than the state."""
    rule = total_of(empty).rule
    return {} if rule is None else {rule.saved_as: rule}


def _are_alike(one: Entry, other: Entry) -> bool:
    return one.document.keys() == other.document.keys() and bool(one.table.schema.equals(other.table.schema))


# ---------------------------------------------------------------------- states as tables


def total_of(state: State) -> Statistics:
    """The statistics of all the rows."""
    return state.total() if isinstance(state, FoldStatistics) else state


def table_of(state: State) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the metadata of a state."""
    if not isinstance(state, FoldStatistics):
        columns, metadata = state.to_columns()
        return tables.to_arrow(columns), metadata
    parts = [state[fold].to_columns() for fold in state.folds]
    streams = [tables.stream_of(tables.to_arrow(columns)).to_pybytes() for columns, _ in parts]
    table = pa.table(
        {
            "fold": pa.array(state.folds, pa.int64()),
            "document": pa.array([json.dumps(_without_rule(one)) for _, one in parts], pa.large_string()),
            "table": pa.array(streams, pa.large_binary()),
        }
    )
    _, metadata = state.empty.to_columns()
    rule = {"n_folds": state.rule.n_folds, "column": state.rule.column}
    return table, {**metadata, "kind": "FoldStatistics", "rule": rule, "n_dropped": state.n_dropped}


def content_of(state: State, table: pa.Table) -> str:
    """A hash of the statistics of a file, given with their table; "" if it cannot tell a copy.

    Rows that are divided by the name of their file have other folds in a copy, so that their sums differ in
    the last bits.
    """
    if not isinstance(state, FoldStatistics) or state.rule.column is not None:
        return hashlib.blake2b(tables.stream_of(table), digest_size=8).hexdigest()
    total = state.total()
    numbers = () if total.reasons else (total.counts, total.weights, total.means)
    return digest([np.float32(values) for values in numbers], 8) if numbers else ""


def state_in(table: pa.Table, metadata: Mapping[str, Any], path: str, empty: State) -> State:
    """The state that a table holds, of the kind of `empty`.

    Raises
    ------
    ValueError
        If the table holds another kind of state, or is damaged.
    """
    if not isinstance(empty, FoldStatistics):
        return state_of(table, metadata, path)
    try:
        rule, n_dropped = FoldRule(**metadata["rule"]), as_count(metadata["n_dropped"], "n_dropped")
        states = states_of_folds(table, metadata, path)
        if rule != empty.rule or not states.keys() <= set(range(rule.n_folds or 0)):
            raise ValueError(f"it has folds {list(states)} by {rule}, and not by {empty.rule}")
    except (pa.ArrowException, *SENSELESS) as error:
        raise ValueError(f"{path} holds no statistics of folds: {one_line(error)}") from error
    return FoldStatistics(empty.empty, rule, states, n_dropped)
