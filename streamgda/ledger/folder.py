"""The folder of a ledger: its lock, its manifest, its tables of entries, their total, and what is deleted.

Tables are fetched before they are used, in order, with at most a few megabytes in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat, takewhile
from operator import eq
from typing import Any, NamedTuple, TypeVar, cast

import pyarrow as pa

from streamgda.ledger import manifest as manifests
from streamgda.ledger.entries import (
    COLUMNS,
    Entry,
    EntryTable,
    S,
    State,
    holdings,
    new_tables,
    state_in,
    table_of,
)
from streamgda.ledger.manifest import (
    APART,
    ENTRIES,
    MANIFEST,
    TOTAL,
    FileRecord,
    Manifest,
    foreign_names,
    is_entry,
    is_entry_name,
    is_unfinished,
    reads_in,
)
from streamgda.statistics.floating.joined import JoinedStates
from streamgda.storage import tables
from streamgda.storage.documents import SENSELESS, digest
from streamgda.storage.fetching import read_ahead
from streamgda.storage.filesystems import Storage, Version, reached
from streamgda.storage.reading import open_whole
from streamgda.storage.tables import DamagedFileError

T = TypeVar("T")

_ORPHANED_FOR = timedelta(days=1)  # longer than a refresh or a reader takes

_LEAST = 1e-300  # of weights that underflow: with a weight of 0, the class would be lost

_READERS = 16  # an object store answers many requests in the time of one


class Contents(NamedTuple):
    """What the folder holds at one moment: the tables of entries, with unfinished ones, and the manifest.

    The manifest is None before the first refresh, or if it was lost.
    """

    tables: Mapping[str, Version]
    manifest: Manifest | None


@dataclass(frozen=True)
class LedgerFolder:
    """A folder on any filesystem, which need not exist yet."""

    storage: Storage
    path: str

    # ------------------------------------------------------------------ the lock, and what is there

    @contextmanager
    def lock(self) -> Iterator[Contents]:
        """Make the folder, and hold its lock, so that no other process writes there; yield what it holds.

        Raises
        ------
        RuntimeError
            If another process holds the lock.
        """
        is_here, contents = self.storage.is_local, None
        if not is_here or MANIFEST not in self._names():  # or a folder of other things would get a lock
            contents = self.contents()
        if not self.storage.is_object_store:  # which has no folders to make
            reached(self.path, partial(self.storage.filesystem.create_dir, self._at(ENTRIES), recursive=True))
        busy = f"another process is refreshing the ledger {self.path}; try again when it has ended"
        with self.storage.locked(self.path, busy):
            yield self.contents() if is_here or contents is None else contents

    def contents(self) -> Contents:
        """What the folder holds now.

        Raises
        ------
        ValueError
            If there is no manifest, but something that no ledger writes.
        """
        # The tables are listed before the manifest is read. Otherwise a table that another refresh adds
        # meanwhile would be taken for lost.
        there = self.tables()
        if (manifest := self.read_manifest()) is not None:
            return Contents(there, manifest)
        foreign = reached(self.path, partial(foreign_names, self.storage, self.path))
        if foreign:
            raise ValueError(
                f"{self.path} is a folder of other things, such as {min(foreign)}, and no ledger; "
                "name a new one"
            )
        return Contents(there, None)

    def _names(self) -> list[str]:
        return reached(self.path, partial(self.storage.children, self.path))

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
        apart, former = manifest.apart, before.apart
        every = former.updated(apart.records.values())
        if every.records != former.records:
            manifests.write(self.storage, self._at(APART), every)
        manifests.write(self.storage, self.manifest_path, manifest)
        if apart.records != every.records:
            manifests.write(self.storage, self._at(APART), apart)

    def restore_apart(self, manifest: Manifest) -> None:
        """Write the list of the files that do not count if it was lost, or was not known to version 0.2."""
        apart = manifest.apart
        if apart.records and APART not in self._names():
            manifests.write(self.storage, self._at(APART), apart)

    # ------------------------------------------------------------------ tables of entries

    def tables(self) -> dict[str, Version]:
        """The tables and unfinished tables that are there now; foreign files are left out."""
        folder = self._at(ENTRIES)
        versions = reached(folder, partial(self.storage.listing, folder))
        above = folder.strip("/") + "/"
        names = {path.strip("/").removeprefix(above): version for path, version in versions.items()}
        return {name: version for name, version in names.items() if is_entry(name)}

    def write(self, entries: Iterable[Entry], reads: str) -> list[FileRecord]:
        """Write some entries to tables, and return their records. `reads` is a hash of what is read."""
        records: list[FileRecord] = []
        for table, document, of_table in new_tables(entries, reads):
            tables.write(self._at(ENTRIES, of_table[0].entry), table, document, self.storage)
            records += of_table
        return records

    def found(self, there: Iterable[str], reads: str) -> dict[str, FileRecord]:
        """The records by path in tables that no manifest names, as an interrupted refresh leaves them.

        Only footers are read. Damaged tables, those of files that are read in another way, and folded entries
        have no such records.

        Raises
        ------
        ValueError
            If a file is no table of entries, or lies under the name of another.
        """
        records: dict[str, FileRecord] = {}
        for name in sorted(filter(is_entry_name, there)):
            path = self._at(ENTRIES, name)
            try:
                document = tables.read_metadata(path, self.storage)
                of_table = holdings(document, name)
            except (DamagedFileError, FileNotFoundError):
                continue
            except SENSELESS as error:
                raise self._senseless(path, error) from error
            if reads_in(document, name) == reads:
                records |= {record.path: record for record in of_table}
        return records

    def entries(self, records: Iterable[FileRecord]) -> Generator[Entry]:
        """Yield the entries of some files, in the order of their paths. Errors are those of `states`."""
        with closing(self._in_order(records, EntryTable.entries)) as entries:
            for _, entry in entries:
                yield entry

    def states(self, records: Iterable[FileRecord], empty: S) -> Generator[tuple[str, S]]:
        """Yield the states of some files, of the kind of `empty`, in the order of their paths.

        Of files that an old version has folded, the first one has the state of all. While a table is used,
        the next few are fetched. The name of the table comes with each state.

        Raises
        ------
        FileNotFoundError
            If a table is missing.
        ValueError
            If one is damaged.
        """
        with closing(self._parts(records, empty)) as parts:
            for name, part in parts:
                states: Iterable[Any] = part if isinstance(part, JoinedStates) else (part,)
                for state in states:
                    yield name, state

    def _parts(self, records: Iterable[FileRecord], empty: State) -> Generator[tuple[str, Any]]:
        """As `states`, with the states of neighbours in a table together."""
        return self._in_order(records, partial(EntryTable.states, empty=empty))

    def merged(self, records: Sequence[FileRecord], empty: S, weights: Iterable[float] | None = None) -> S:
        """The merged states of some files, in the order of their paths; few of them are in memory at once.

        Parameters
        ----------
        records : sequence of FileRecord
            The files, in the order of their paths.
        empty : Statistics or FoldStatistics
            The state of no rows, which is the result if there are no files.
        weights : iterable of float, optional
            A factor for each file, by which the weights of its rows are multiplied. By default 1.
        """
        total: Any = None
        factors = iter(weights or repeat(1.0))  # zip would hold a part while the next one is read
        with closing(self.states(records, empty) if weights else self._parts(records, empty)) as parts:
            part: Any
            for name, part in parts:
                if (weight := next(factors)) != 1.0:
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

    def _in_order(
        self,
        records: Iterable[FileRecord],
        parts_of: Callable[[EntryTable, Collection[str]], Iterator[tuple[list[str], T]]],
    ) -> Generator[tuple[str, T]]:
        """Yield a part of its table for each file, or for neighbours in it, with the name of the table.

        Each table is open from its first to its last file.
        """
        records, position = _unfolded(records), 0
        files: dict[str, set[str]] = {}
        for record in records:
            files.setdefault(record.entry, set()).add(record.path)
        parts: dict[str, Iterator[tuple[list[str], Any]]] = {}
        ready: dict[str, tuple[list[str], Any]] = {}
        with closing(self._buffers_of(list(files))) as buffers:
            while position < len(records):
                name, path = records[position].entry, records[position].path
                if name not in parts:
                    parts[name] = parts_of(self._table_in(next(buffers), name), frozenset(files[name]))
                part: Any
                paths, part = ready.pop(name, None) or next(parts[name], ([], None))
                due = [record.path for record in records[position : position + len(paths)]]
                n = sum(1 for _ in takewhile(bool, map(eq, paths, due)))
                if not n:
                    raise self._senseless(self._at(ENTRIES, name), f"damaged: it does not hold {path}")
                if n < len(paths):  # the next file has its entry in another table
                    part, ready[name] = part[:n], (paths[n:], part[n:])
                files[name].difference_update(due[:n])
                if not files[name]:
                    del parts[name]  # and with it the table
                position += n
                yield name, cast("T", part)
                del part

    def _buffers_of(self, names: Sequence[str]) -> Generator[pa.Buffer]:
        if len(names) < 2:  # without threads, and without a listing
            return (_fetch(self.storage, self._at(ENTRIES, name)) for name in names)
        versions = self.tables()
        sizes = {self._at(ENTRIES, name): versions[name].size for name in names if name in versions}
        paths = [self._at(ENTRIES, name) for name in names]
        fetch = partial(_fetch, self.storage, sizes=sizes)
        return read_ahead(fetch, paths, _READERS, [sizes.get(path) or 0 for path in paths])

    def _table_in(self, content: pa.Buffer, name: str) -> EntryTable:
        path = self._at(ENTRIES, name)
        try:
            return EntryTable.of(*tables.parse(pa.BufferReader(content), COLUMNS, path), path, name)
        except DamagedFileError as error:
            raise DamagedFileError(f"{error}; delete the file, and refresh the ledger") from error
        except SENSELESS as error:
            raise self._senseless(path, error) from error

    def _senseless(self, path: str, fault: object) -> ValueError:
        return ValueError(f"{path} is {fault}; delete the file, and refresh the ledger")

    # ------------------------------------------------------------------ the total of all entries, a cache

    def read_total(self, manifest: Manifest, empty: S) -> S | None:
        """The cached state of exactly these files; None if the cache is missing, damaged or of others."""
        path = self._at(TOTAL)
        try:
            table, metadata = tables.read(path, COLUMNS, self.storage)
            if metadata.get("of") != _identity(manifest):
                return None
            state = cast("S", state_in(table, metadata, path, empty))
        except (FileNotFoundError, ValueError):
            return None
        return state if state.n_rows == manifest.n_rows else None

    def write_total(self, state: State, manifest: Manifest) -> None:
        """Replace the cached state by that of these files."""
        table, metadata = table_of(state)
        tables.write(self._at(TOTAL), table, {**metadata, "of": _identity(manifest)}, self.storage)

    # ------------------------------------------------------------------ what is deleted

    def tidy(self, now: Manifest, there: Mapping[str, Version]) -> None:
        """Delete tables that no longer count, and files that crashes have left.

        Where there is no lock, another refresh may have just written a table, or may name it in the manifest
        that it is about to write. So it must be a day old.

        Parameters
        ----------
        now : Manifest
            After the refresh.
        there : mapping of str to Version
            The tables that were in the folder.
        """
        strays = {name: there[name] for name in there.keys() - now.tables}
        if self.storage.is_local:
            for name in filter(is_unfinished, self.storage.children(self.path)):
                self.storage.filesystem.delete_file(self._at(name))
        else:
            latest = (datetime.now(tz=UTC) - _ORPHANED_FOR).timestamp() * 1e9
            strays = {name: old for name, old in strays.items() if (old.modified or latest) < latest}
        for path in (self._at(ENTRIES, name) for name in strays):
            with suppress(FileNotFoundError):
                reached(path, partial(self.storage.filesystem.delete_file, path))


def _unfolded(records: Iterable[FileRecord]) -> list[FileRecord]:
    """The records, but one alone of each folded entry of an old version."""
    first: dict[str, FileRecord] = {}
    return [one for one in records if first.setdefault(one.entry, one) is one or not one.is_folded]


def _identity(manifest: Manifest) -> str:
    """A hash of the files whose statistics are merged, in the versions that were read."""
    files = [(one.path, one.version.identity, one.footer, one.partition) for one in manifest.sorted()]
    return digest(files, 16)


def _fetch(storage: Storage, path: str, sizes: Mapping[str, int | None] = {}) -> pa.Buffer:
    """The bytes of a table, of which the size may be known."""
    try:
        with reached(path, partial(open_whole, storage, path, sizes.get(path))) as file:
            return file.read_buffer()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing; refresh the ledger") from error
