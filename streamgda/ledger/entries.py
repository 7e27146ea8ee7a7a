"""Entries: the statistics of one input file, or of several folded into one, each a Parquet file of its own.

An entry is never changed. Its name says of which file it is, in which version, and what was read of it, so
that whoever reads the same writes the same, and no file can be counted twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.ledger.manifest import FileRecord
from streamgda.ledger.names import is_entry
from streamgda.sources.base import InputFile
from streamgda.statistics.base import Statistics
from streamgda.statistics.saved import state_of
from streamgda.storage import tables
from streamgda.storage.columns import to_arrow
from streamgda.storage.digests import digest
from streamgda.storage.filesystems import is_object_store, reaching
from streamgda.storage.versions import Version, listing

_READERS = 16  # an object store answers many requests in the time of one

_READ_AHEAD = 64  # entries in memory at once


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

    def write(self, name: str, statistics: Statistics, records: Sequence[FileRecord]) -> None:
        """Write an entry, with the list of the files that it holds."""
        columns, metadata = statistics.to_columns()
        held = [asdict(record) for record in records]
        tables.write(self._at(name), to_arrow(columns), {**metadata, "holdings": held}, self.filesystem)

    def statistics(self, names: Sequence[str]) -> Iterator[Statistics]:
        """The statistics of some entries, in order; a few are fetched ahead.

        Raises
        ------
        FileNotFoundError
            If an entry is missing.
        ValueError
            If one is damaged.
        """
        for name, table, metadata in self._read(names):
            # Its pages carry checksums, and it was checked when it was written.
            yield state_of(table, {**metadata, "definite": False}, self._at(name))

    def records(self, files: Mapping[str, InputFile]) -> Iterator[FileRecord]:
        """The records that some entries carry, each of the one file that it is the entry of.

        Raises
        ------
        ValueError
            If an entry carries no record, or that of another file.
        """
        for name, _, metadata in self._read(list(files)):
            try:
                yield _record_of(files[name], name, metadata)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{self._at(name)} is {error}; delete the file, and refresh the ledger"
                ) from error

    def _read(self, names: Sequence[str]) -> Iterator[tuple[str, pa.Table, dict[str, Any]]]:
        with ThreadPoolExecutor(_READERS) as readers:
            for start in range(0, len(names), _READ_AHEAD):
                run = names[start : start + _READ_AHEAD]
                for name, content in zip(run, readers.map(self._bytes, run), strict=True):
                    try:
                        yield name, *tables.parse(pa.BufferReader(content), self._at(name))
                    except ValueError as error:
                        raise ValueError(f"{error}; delete the file, and refresh the ledger") from error

    def _bytes(self, name: str) -> pa.Buffer:
        try:
            with reaching(self._at(name)), self.filesystem.open_input_file(self._at(name)) as file:
                return file.read_buffer()
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self._at(name)} is missing; refresh the ledger") from error

    def delete(self, names: Iterable[str]) -> None:
        """Delete what is still there of some files."""
        for name in names:
            with suppress(FileNotFoundError), reaching(self._at(name)):
                self.filesystem.delete_file(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"


def _record_of(file: InputFile, name: str, metadata: tables.Metadata) -> FileRecord:
    match metadata.get("holdings"):
        case [dict(row)]:
            record = FileRecord.from_row(row)
        case _:
            raise ValueError("no entry of a ledger")
    if (record.path, record.version, record.entry) != (file.path, file.version, name):
        raise ValueError(f"the entry of another file, {record.path}")
    return record


@dataclass(frozen=True)
class MergedCache:
    """A state, and of which entries it is: only ever what they add up to, so it may be missing."""

    filesystem: pafs.FileSystem
    path: str

    def read(self, entries: Collection[str]) -> Statistics | None:
        """The state of just these entries; None, if another one or none stands there."""
        try:
            table, metadata = tables.read(self.path, self.filesystem)
            return state_of(table, metadata, self.path) if metadata.get("of") == _of(entries) else None
        except (FileNotFoundError, ValueError):
            return None

    def is_foreign(self) -> bool:
        """Whether a file stands there that is no such state."""
        try:
            return "of" not in tables.read(self.path, self.filesystem)[1]
        except FileNotFoundError:
            return False
        except ValueError:
            return True

    def write(self, statistics: Statistics, entries: Collection[str]) -> None:
        """Put the state of these entries in place of the one that stands there."""
        columns, metadata = statistics.to_columns()
        tables.write(self.path, to_arrow(columns), {**metadata, "of": _of(entries)}, self.filesystem)


def _of(entries: Collection[str]) -> str:
    return digest(sorted(entries), 16)
