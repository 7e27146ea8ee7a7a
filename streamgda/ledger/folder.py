"""The folder of a ledger: its lock, its manifest, its entries and their total, and what is deleted.

An entry is a Parquet file with the statistics of one input file, or of several folded into one, and the
records of these files. It never changes. Entries are small: they are fetched before they are used, in order,
with at most a few megabytes in memory. Statistics of folds are a table with a row for each fold: its number,
the metadata of its statistics as JSON, and their table as an Arrow stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeVar, cast

import pyarrow as pa

from streamgda.blocks.block import FoldRule
from streamgda.blocks.wording import counted
from streamgda.ledger import manifest as manifests
from streamgda.ledger.manifest import (
    APART,
    ENTRIES,
    MANIFEST,
    TOTAL,
    FileRecord,
    Manifest,
    foreign_names,
    is_entry,
    is_unfinished,
)
from streamgda.sources.base import InputFile
from streamgda.statistics.base import Statistics
from streamgda.statistics.factory import COLUMNS as STATISTICS_COLUMNS
from streamgda.statistics.factory import state_of as statistics_of
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.validation import as_count
from streamgda.storage import tables
from streamgda.storage.documents import Metadata, digest
from streamgda.storage.fetching import read_ahead
from streamgda.storage.filesystems import Storage, Version, reached
from streamgda.storage.paths import one_line
from streamgda.storage.reading import open_whole
from streamgda.storage.tables import DamagedFileError, to_arrow

State = Statistics | FoldStatistics

S = TypeVar("S", bound=State)

_COLUMNS = STATISTICS_COLUMNS | {"fold", "document", "table"}

_ORPHANED_FOR = timedelta(days=1)  # longer than a refresh takes: what is older was left by a crash

_LEAST = 1e-300  # of weights that underflow: with a weight of 0, the class would be lost

_READERS = 16  # an object store answers many requests in the time of one


class Contents(NamedTuple):
    """What the folder holds at one moment: the entries, with unfinished ones, and the manifest.

    The manifest is None before the first refresh, or if it was lost.
    """

    entries: Mapping[str, Version]
    manifest: Manifest | None


@dataclass(frozen=True)
class LedgerFolder:
    """A folder on any filesystem, which need not exist yet."""

    storage: Storage
    path: str

    # ------------------------------------------------------------------ the lock, and what is there

    @contextmanager
    def locked(self) -> Iterator[Contents]:
        """Make the folder, and hold its lock, so that no other process writes there; yield what it holds.

        Raises
        ------
        RuntimeError
            If another process holds the lock.
        """
        seen = self.contents()
        if not self.storage.is_object_store:  # which has no folders to make
            reached(self.path, partial(self.storage.filesystem.create_dir, self._at(ENTRIES), recursive=True))
        busy = f"another process is refreshing the ledger {self.path}; try again when it has ended"
        with self.storage.locked(self.path, busy):
            yield self.contents() if self.storage.is_local else seen

    def contents(self) -> Contents:
        """What the folder holds now.

        Raises
        ------
        ValueError
            If there is no manifest, but something that no ledger writes.
        """
        # The entries are listed before the manifest is read. Otherwise an entry that another refresh adds
        # meanwhile would be taken for lost.
        entries = self.entries()
        if (manifest := self.read_manifest()) is not None:
            return Contents(entries, manifest)
        foreign = reached(self.path, partial(foreign_names, self.storage, self.path))
        if foreign:
            raise ValueError(
                f"{self.path} is a folder of other things, such as {min(foreign)}, and no ledger; "
                "name a new one"
            )
        return Contents(entries, None)

    def _at(self, *names: str) -> str:
        return "/".join([self.path, *names])

    # ------------------------------------------------------------------ the manifest

    @property
    def manifest_path(self) -> str:
        """Where the manifest is."""
        return self._at(MANIFEST)

    def read_manifest(self) -> Manifest | None:
        """The manifest; None before the first refresh."""
        return manifests.read(self.storage, self.manifest_path)

    def read_apart(self) -> Manifest | None:
        """The records of the files that do not count, for a ledger that has lost its manifest."""
        return manifests.read(self.storage, self._at(APART))

    def write_manifest(self, manifest: Manifest, before: Manifest) -> None:
        """Replace the manifest `before`: the commit of a refresh.

        The files that do not count are also in a list of their own. Those that are new there are added before
        the commit, and those that count again leave it afterwards. So if this is interrupted, and the
        manifest is lost later, no file counts that should not.
        """
        apart, known = manifest.apart, before.apart
        every = known.updated(apart.records.values())
        if every.records != known.records:
            manifests.write(self.storage, self._at(APART), every)
        manifests.write(self.storage, self.manifest_path, manifest)
        if apart.records != every.records:
            manifests.write(self.storage, self._at(APART), apart)

    def restore_apart(self, manifest: Manifest) -> None:
        """Write the list of the files that do not count if it was lost, or was not known to version 0.2."""
        apart = manifest.apart
        if apart.records and APART not in reached(self.path, partial(self.storage.children, self.path)):
            manifests.write(self.storage, self._at(APART), apart)

    # ------------------------------------------------------------------ entries

    def entries(self) -> dict[str, Version]:
        """The entries and unfinished entries that are there now; foreign files are left out."""
        folder = self._at(ENTRIES)
        seen = reached(folder, partial(self.storage.listing, folder))
        above = folder.strip("/") + "/"
        names = {path.strip("/").removeprefix(above): version for path, version in seen.items()}
        return {name: version for name, version in names.items() if is_entry(name)}

    def write_entry(self, name: str, state: State, records: Sequence[FileRecord]) -> None:
        """Write an entry, with the list of the files that it holds."""
        table, metadata = _table_of(state)
        held = [asdict(record) for record in records]
        tables.write(self._at(ENTRIES, name), table, {**metadata, "holdings": held}, self.storage)

    def states(
        self, names: Sequence[str], empty: S, there: Mapping[str, Version] | None = None
    ) -> Iterator[S]:
        """Yield the states of some entries, of the kind of `empty`, in order.

        While one is used, the next few are fetched. `there` holds the entries in the folder, if it is known.

        Raises
        ------
        FileNotFoundError
            If an entry is missing.
        ValueError
            If one is damaged.
        """
        fetched = self._contents(names, there)
        for name in names:
            yield cast("S", self._state_in(next(fetched), name, empty))

    def merged(
        self,
        names: Sequence[str],
        empty: S,
        weights: Iterable[float] | None = None,
        there: Mapping[str, Version] | None = None,
    ) -> S:
        """The merged states of some entries, in order; few of them are in memory at once.

        Parameters
        ----------
        names : sequence of str
            The entries to merge.
        empty : Statistics or FoldStatistics
            The state of no rows, which is the result if there are no entries.
        weights : iterable of float, optional
            A factor for each entry, by which the weights of its rows are multiplied. By default 1.
        there : mapping of str to Version, optional
            The entries in the folder, if it is known.
        """
        total: Any = None
        states = self.states(names, empty, there)
        for name, weight in zip(names, weights or repeat(1.0), strict=False):
            part: Any = next(states)
            if weight != 1.0:
                part.decay(max(weight, _LEAST))
            try:
                if total is None:
                    total = part
                else:
                    total += part
            except ValueError as error:
                raise ValueError(
                    f"{self._at(ENTRIES, name)} does not fit the other entries: {error}"
                ) from error
            del part  # or it would be held while the next one is read
        return cast("S", empty.copy() if total is None else total)

    def records(
        self, files: Mapping[str, InputFile], there: Mapping[str, Version]
    ) -> tuple[list[FileRecord], dict[str, InputFile]]:
        """Read the records in some entries of one file each; also return the files whose entries are damaged.

        Parameters
        ----------
        files : mapping of str to InputFile
            The file of each entry, by the name of the entry.
        there : mapping of str to Version
            The entries that are in the folder.

        Raises
        ------
        ValueError
            If a file is not an entry, or is the entry of another file.
        """
        records: list[FileRecord] = []
        torn: dict[str, InputFile] = {}
        for (name, file), content in zip(files.items(), self._contents(list(files), there), strict=True):
            try:
                _, _, held = self._parsed(content, name)
            except DamagedFileError:
                torn[name] = file
                continue
            if [(one.path, one.version) for one in held] != [(file.path, file.version)]:
                raise self._of_another_file(name, held)
            records += held
        return records, torn

    def _contents(
        self, names: Sequence[str], there: Mapping[str, Version] | None = None
    ) -> Iterator[pa.Buffer]:
        if not names:
            return iter(())
        seen = self.entries() if there is None else there
        sizes = {self._at(ENTRIES, name): seen[name].size for name in names if name in seen}
        paths = [self._at(ENTRIES, name) for name in names]
        fetch = partial(_fetch, self.storage, sizes=sizes)
        return read_ahead(fetch, paths, _READERS, [sizes.get(path) or 0 for path in paths])

    def _state_in(self, content: pa.Buffer, name: str, empty: State) -> State:
        table, metadata, held = self._parsed(content, name)
        del content  # which has been decoded
        # The pages have checksums, and the state was checked when it was written.
        path = self._at(ENTRIES, name)
        state = _state_of(table, {**metadata, "definite": False}, path, empty)
        if state.n_rows != (rows := sum(record.rows for record in held)):
            raise ValueError(
                f"{path} is damaged: it holds {counted(state.n_rows, 'row')}, and lists files of {rows:,}; "
                "delete the file, and refresh the ledger"
            )
        return state

    def _parsed(self, content: pa.Buffer, name: str) -> tuple[pa.Table, Metadata, list[FileRecord]]:
        """The table and the metadata of an entry, and the records of the files that it holds."""
        path = self._at(ENTRIES, name)
        try:
            table, metadata = tables.parse(pa.BufferReader(content), _COLUMNS, path)
            held = _records_of(metadata)
        except DamagedFileError as error:
            raise DamagedFileError(f"{error}; delete the file, and refresh the ledger") from error
        except ValueError as error:
            raise ValueError(f"{path} is {error}; delete the file, and refresh the ledger") from error
        if any(record.entry != name for record in held):
            raise self._of_another_file(name, held)
        return table, metadata, held

    def _of_another_file(self, name: str, held: Sequence[FileRecord]) -> ValueError:
        return ValueError(
            f"{self._at(ENTRIES, name)} is the entry of another file, {held[0].path}; "
            "delete the file, and refresh the ledger"
        )

    # ------------------------------------------------------------------ the total of all entries, a cache

    def read_total(self, manifest: Manifest, empty: S) -> S | None:
        """The cached state of exactly these entries; None if the cache is missing, damaged or of others."""
        path = self._at(TOTAL)
        try:
            table, metadata = tables.read(path, _COLUMNS, self.storage)
            if metadata.get("of") != _identity(manifest):
                return None
            state = cast("S", _state_of(table, metadata, path, empty))
        except (FileNotFoundError, ValueError):
            return None
        return state if state.n_rows == manifest.n_rows else None

    def write_total(self, state: State, manifest: Manifest) -> None:
        """Replace the cached state by that of these entries."""
        table, metadata = _table_of(state)
        tables.write(self._at(TOTAL), table, {**metadata, "of": _identity(manifest)}, self.storage)

    # ------------------------------------------------------------------ what is deleted

    def tidy(self, before: Manifest, now: Manifest, there: Mapping[str, Version]) -> None:
        """Delete entries that no longer count, and files that crashes have left.

        Parameters
        ----------
        before, now : Manifest
            Before and after the refresh.
        there : mapping of str to Version
            The entries that are in the folder.
        """
        superseded = before.entries.keys() - now.entries.keys()
        stray = {name: there[name] for name in there.keys() - now.entries.keys() - superseded}
        if self.storage.is_local:
            for name in filter(is_unfinished, self.storage.children(self.path)):
                self.storage.filesystem.delete_file(self._at(name))
        else:  # without a lock, another refresh may have just written them
            latest = (datetime.now(tz=UTC) - _ORPHANED_FOR).timestamp() * 1e9
            stray = {name: seen for name, seen in stray.items() if (seen.modified or latest) < latest}
        for path in (self._at(ENTRIES, name) for name in (*superseded, *stray)):
            with suppress(FileNotFoundError):
                reached(path, partial(self.storage.filesystem.delete_file, path))


def _records_of(metadata: Metadata) -> list[FileRecord]:
    """The records of the files that an entry holds; its metadata may be damaged or forged."""
    rows = metadata.get("holdings")
    if not (rows and isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise ValueError("no entry of a ledger")
    return [FileRecord.from_row(row) for row in rows]


def _identity(manifest: Manifest) -> str:
    return digest(sorted(manifest.entries), 16)


def total_of(state: State) -> Statistics:
    """The statistics of all the rows."""
    return state.total() if isinstance(state, FoldStatistics) else state


def _table_of(state: State) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the metadata of a state."""
    if not isinstance(state, FoldStatistics):
        columns, metadata = state.to_columns()
        return to_arrow(columns), metadata
    parts = [state[fold].to_columns() for fold in state.folds]
    table = pa.table(
        {
            "fold": pa.array(state.folds, pa.int64()),
            "document": pa.array([json.dumps(metadata) for _, metadata in parts], pa.large_string()),
            "table": pa.array(
                [tables.stream_of(to_arrow(columns)).to_pybytes() for columns, _ in parts], pa.large_binary()
            ),
        }
    )
    _, metadata = state.empty.to_columns()
    rule = {"n_folds": state.rule.n_folds, "column": state.rule.column}
    return table, {**metadata, "kind": "FoldStatistics", "rule": rule, "n_dropped": state.n_dropped}


def _state_of(table: pa.Table, metadata: Metadata, path: str, empty: State) -> State:
    """The state that a table holds.

    Parameters
    ----------
    table, metadata
        As `_table_of` makes them.
    path : str
        The name of the file in errors.
    empty : Statistics or FoldStatistics
        The state of no rows, of the kind that is expected.

    Raises
    ------
    ValueError
        If the table holds another kind of state, or is damaged.
    """
    if not isinstance(empty, FoldStatistics):
        return statistics_of(table, metadata, path)
    try:
        rule, n_dropped = FoldRule(**metadata["rule"]), as_count(metadata["n_dropped"], "n_dropped")
        parts = {
            row["fold"]: (
                pa.ipc.open_stream(row["table"]).read_all(),
                {**json.loads(row["document"]), "definite": False},
            )
            for row in table.select(["fold", "document", "table"]).to_pylist()
        }
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{path} holds no statistics of folds: {one_line(error)}") from error
    if rule != empty.rule:
        raise ValueError(f"{path} holds folds by {rule}, and not by {empty.rule}")
    if unknown := parts.keys() - range(rule.n_folds or 0):
        raise ValueError(f"{path} is damaged: it holds fold {unknown.pop()}, of {rule.n_folds} in all")
    states = {fold: statistics_of(*part, path) for fold, part in parts.items()}
    return FoldStatistics(empty.empty, rule, states, n_dropped)


def _fetch(storage: Storage, path: str, sizes: Mapping[str, int | None] = {}) -> pa.Buffer:
    """The bytes of an entry, of which the size may be known."""
    try:
        with reached(path, partial(open_whole, storage, path, sizes.get(path))) as file:
            return file.read_buffer()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing; refresh the ledger") from error
