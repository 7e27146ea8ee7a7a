"""Read and write entries, and the cached total of all of them.

An entry is a Parquet file with the statistics of one input file, or of several folded into one, and the
records of these files. It never changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import repeat
from threading import Condition
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.blocks.wording import counted
from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.ledger.names import is_entry
from streamgda.ledger.states import COLUMNS, State, state_of, table_of
from streamgda.sources.base import InputFile
from streamgda.storage import tables
from streamgda.storage.documents import Metadata, digest
from streamgda.storage.filesystems import is_object_store, reaching
from streamgda.storage.tables import DamagedFileError
from streamgda.storage.versions import Version, listing

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class EntryFolder:
    """Where the entries of a ledger are."""

    filesystem: pafs.FileSystem
    path: str

    def create(self) -> None:
        """Make the folder, where folders are a thing."""
        if not is_object_store(self.filesystem):
            with reaching(self.path):
                self.filesystem.create_dir(self.path, recursive=True)

    def listing(self) -> dict[str, Version]:
        """The entries and unfinished entries that are there now; foreign files are passed over."""
        with reaching(self.path):
            seen = listing(self.filesystem, self.path)
        split = [(*path.rpartition("/")[::2], version) for path, version in seen.items()]
        here = [
            (name, version) for folder, name, version in split if folder.strip("/") == self.path.strip("/")
        ]
        return {name: version for name, version in here if is_entry(name)}

    def write(self, name: str, statistics: State, records: Sequence[FileRecord]) -> None:
        """Write an entry, with the list of the files that it holds."""
        table, metadata = table_of(statistics)
        held = [asdict(record) for record in records]
        tables.write(self._at(name), table, {**metadata, "holdings": held}, self.filesystem)

    def statistics(self, names: Sequence[str], empty: S) -> Iterator[S]:
        """Yield the statistics of some entries, of the kind of `empty`, in order.

        The next few are fetched meanwhile.

        Raises
        ------
        FileNotFoundError
            If an entry is missing.
        ValueError
            If one is damaged.
        """
        fetched = self._contents(names)
        for name in names:
            yield cast("S", self._state_in(next(fetched), name, empty))

    def merged(self, names: Sequence[str], empty: S, weights: Iterable[float] | None = None) -> S:
        """The merged statistics of some entries, in order; few of them are in memory at once.

        Parameters
        ----------
        names : sequence of str
            The entries to merge.
        empty : Statistics or FoldStatistics
            What no entries add up to.
        weights : iterable of float, optional
            A factor for each entry, by which its rows are weighed; 1 where not given.
        """
        total: Any = None
        states = self.statistics(names, empty)
        for name, weight in zip(names, weights or repeat(1.0), strict=False):
            part: Any = next(states)
            if weight != 1.0:
                part.decay(max(weight, _LEAST))
            try:
                total = part if total is None else added(total, part)
            except ValueError as error:
                raise ValueError(f"{self._at(name)} does not fit the other entries: {error}") from error
            del part  # or it would be held while the next one is read
        return cast("S", empty.copy() if total is None else total)

    def _state_in(self, content: pa.Buffer, name: str, empty: State) -> State:
        try:
            table, metadata = tables.parse(pa.BufferReader(content), COLUMNS, self._at(name))
            held = _records_of(metadata)
        except ValueError as error:
            raise ValueError(f"{error}; delete the file, and refresh the ledger") from error
        del content  # by now it is decoded
        # Its pages carry checksums, and it was checked when it was written.
        state = state_of(table, {**metadata, "definite": False}, self._at(name), empty)
        if state.n_rows != (rows := sum(record.rows for record in held)):
            raise ValueError(
                f"{self._at(name)} is damaged: it holds {counted(state.n_rows, 'row')}, and lists files of "
                f"{rows:,}; delete the file, and refresh the ledger"
            )
        return state

    def records(self, files: Mapping[str, InputFile]) -> tuple[list[FileRecord], dict[str, InputFile]]:
        """The records in some entries of one file each, and the files whose entries are torn.

        Parameters
        ----------
        files : mapping of str to InputFile
            By the name of its entry, the file that an entry should be of.

        Raises
        ------
        ValueError
            If a file is no entry, or that of another file.
        """
        records: list[FileRecord] = []
        torn: dict[str, InputFile] = {}
        for (name, file), content in zip(files.items(), self._contents(list(files)), strict=True):
            try:
                _, metadata = tables.parse(pa.BufferReader(content), COLUMNS, self._at(name))
                records.append(_record_of(file, name, metadata))
            except DamagedFileError:
                torn[name] = file
            except ValueError as error:
                raise ValueError(
                    f"{self._at(name)} is {error}; delete the file, and refresh the ledger"
                ) from error
        return records, torn

    def delete(self, names: Iterable[str]) -> None:
        """Delete what is still there of some files."""
        for name in names:
            with suppress(FileNotFoundError), reaching(self._at(name)):
                self.filesystem.delete_file(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _contents(self, names: Iterable[str]) -> Iterator[pa.Buffer]:
        return contents(self.filesystem, [self._at(name) for name in names])


def added(total: Any, part: Any) -> Any:
    """Add two states, and return the one that has become their sum.

    That is the first, unless only the second keeps patterns of missing features.
    """
    keeps = [getattr(state, "keeps_patterns", False) for state in (total, part)]
    return part.merge(total) if keeps == [False, True] else total.merge(part)


_LEAST = 1e-300  # a weight of 0 would be no row at all, and lose the class


def _record_of(file: InputFile, name: str, metadata: Metadata) -> FileRecord:
    match _records_of(metadata):
        case [record]:
            pass
        case _:
            raise ValueError("no entry of one file")
    if (record.path, record.version, record.entry) != (file.path, file.version, name):
        raise ValueError(f"the entry of another file, {record.path}")
    return record


def _records_of(metadata: Metadata) -> list[FileRecord]:
    """The records of the files that an entry holds; its metadata may be damaged or forged."""
    match metadata.get("holdings"):
        case [*rows] if all(isinstance(row, dict) for row in rows):
            return [FileRecord.from_row(row) for row in rows]
        case _:
            raise ValueError("no entry of a ledger")


@dataclass(frozen=True)
class MergedCache:
    """The merged statistics of all the entries of a manifest. It may be missing: they can be merged again."""

    filesystem: pafs.FileSystem
    path: str

    def read(self, manifest: Manifest, empty: S) -> S | None:
        """The statistics of just these entries; None, if the cache is of others, missing or damaged."""
        try:
            table, metadata = tables.read(self.path, COLUMNS, self.filesystem)
            if metadata.get("of") != _identity(manifest):
                return None
            statistics = cast("S", state_of(table, metadata, self.path, empty))
        except (FileNotFoundError, ValueError):
            return None
        return statistics if statistics.n_rows == manifest.n_rows else None

    def is_foreign(self) -> bool:
        """Whether there is a file, but not such a cache."""
        try:
            return "of" not in tables.read_metadata(self.path, self.filesystem)
        except FileNotFoundError:
            return False
        except ValueError:
            return True

    def write(self, statistics: State, manifest: Manifest) -> None:
        """Replace the cache by the statistics of these entries."""
        table, metadata = table_of(statistics)
        metadata = {**metadata, "of": _identity(manifest)}
        tables.write(self.path, table, metadata, self.filesystem)


def _identity(manifest: Manifest) -> str:
    return digest(sorted(manifest.entries), 16)


# ---------------------------------------------------------------------- fetching ahead

_READERS = 16  # an object store answers many requests in the time of one

_MOST_BYTES = 1 << 24  # fetched and not yet used; a single larger file is fetched when it is its turn


def contents(filesystem: pafs.FileSystem, paths: Sequence[str]) -> Iterator[pa.Buffer]:
    """Yield the contents of some files, in order; the next few are fetched meanwhile.

    What was yielded counts as used when the next one is asked for.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    OSError
        If the filesystem cannot be reached.
    """
    budget = _Budget()
    waiting: deque[Future[pa.Buffer]] = deque()
    pool = ThreadPoolExecutor(_READERS)
    try:
        for turn, path in enumerate(paths):
            waiting.append(pool.submit(_fetch, filesystem, path, turn, budget))
            if len(waiting) > _READERS:
                yield waiting.popleft().result()
                budget.advance()
        while waiting:
            yield waiting.popleft().result()
            budget.advance()
    finally:
        budget.close()
        pool.shutdown(cancel_futures=True)


def _fetch(filesystem: pafs.FileSystem, path: str, turn: int, budget: _Budget) -> pa.Buffer:
    try:
        with reaching(path), filesystem.open_input_file(path) as file:
            budget.wait_for(turn, file.size())
            return file.read_buffer()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing; refresh the ledger") from error


class _Budget:
    """The sizes of the files that have been fetched and not been used, and whose turn it is to be used."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._sizes: dict[int, int] = {}
        self._turn = 0
        self._is_closed = False

    def wait_for(self, turn: int, size: int) -> None:
        """Wait until there is room for a file, or until it is its turn."""

        def has_room() -> bool:
            return self._is_closed or turn == self._turn or sum(self._sizes.values()) + size <= _MOST_BYTES

        with self._changed:
            self._changed.wait_for(has_room)
            self._sizes[turn] = size

    def advance(self) -> None:
        """The file whose turn it was has been used."""
        with self._changed:
            self._sizes.pop(self._turn, None)
            self._turn += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Let go all that wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
