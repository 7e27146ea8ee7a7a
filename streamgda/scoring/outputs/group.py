"""The folder of a Zarr group: what is in it, and what the group says of itself.

Documents and chunks are made in memory by Zarr, and are put into the folder as they are, several at once:
Zarr itself would ask before each of them what is there.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

import zarr
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from zarr.abc.buffer import Buffer
from zarr.abc.store import RangeByteRequest, Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync  # private: the only way into the loop of a store
from zarr.storage import FsspecStore, LocalStore, MemoryStore

from streamgda.scoring.outputs.arrays import METADATA

_KEY = "streamgda.prediction"

_MOST_OF_NOTE = 1 << 24  # bytes; a range is one request, where a whole object is two

_PARTIAL = r"\.[0-9a-f]{32}\.partial"  # how a local file is named while Zarr writes it

_HALF_WRITTEN = re.compile(rf".*(?:/zarr|/c(?:/\d+)+){_PARTIAL}")

_FILE_OF_ARRAY = re.compile(rf"zarr(?:\.json|{_PARTIAL})|c(?:/\d+)+(?:{_PARTIAL})?")


@dataclass(frozen=True)
class Note:
    """What a group of predictions says of itself, in its attributes.

    Attributes
    ----------
    fingerprint : str
        A hash of the model, the columns and the input; empty while arrays are removed or created.
    arrays : sequence of str
        The arrays that may be there.
    run : str
        The run that writes them; empty once they are complete.
    """

    fingerprint: str
    arrays: Sequence[str]
    run: str = ""


@dataclass(frozen=True)
class GroupFolder:
    """The folder of a Zarr group, on any filesystem of fsspec's, and as a store of Zarr's."""

    filesystem: AbstractFileSystem
    path: str
    store: Store

    @classmethod
    def at(cls, filesystem: AbstractFileSystem, path: str) -> GroupFolder:
        """The folder at a path."""
        if isinstance(filesystem, LocalFileSystem):
            return cls(filesystem, path, LocalStore(path))
        return cls(filesystem, path, FsspecStore.from_mapper(filesystem.get_mapper(path)))

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return isinstance(self.store, LocalStore)

    def names(self) -> set[str]:
        """What is in the folder, but for files that Zarr had not finished."""
        self.filesystem.invalidate_cache()  # other processes may have written there since it was listed
        try:
            found = self.filesystem.ls(self.path, detail=False)
        except FileNotFoundError:
            return set()
        names = {name.rstrip("/").rpartition("/")[2] for name in found}
        return {name for name in names if not _HALF_WRITTEN.fullmatch(f"/{name}")}

    def check_files(self, folder: str, within: Sequence[str] = ("",)) -> set[str]:
        """The files in a folder; ValueError if it, or folders `within` it, hold files that no array has."""
        self.filesystem.invalidate_cache()
        root = f"{self.path}/{folder}"
        files = {path.removeprefix(root).lstrip("/") for path in self.filesystem.find(root)}
        for file in sorted(files):
            if not any(_FILE_OF_ARRAY.fullmatch(file.removeprefix(prefix)) for prefix in within):
                raise self.not_ours(f"{folder}/{file}".rstrip("/"))
        return files

    def not_ours(self, name: str) -> ValueError:
        """The error for a file or an array that is no part of predictions."""
        return ValueError(
            f"{self.path} holds {name}, which is no part of predictions; choose a group of their own"
        )

    # ------------------------------------------------------------------ notes and what is put

    def read_notes(self, *groups: str) -> list[Note | None]:
        """The notes of the group and of groups within it; None where there is no group, or no note."""

        async def read() -> list[Buffer | None]:
            prototype, whole = default_buffer_prototype(), RangeByteRequest(0, _MOST_OF_NOTE)
            return await asyncio.gather(
                *(self.store.get(f"{group}/{METADATA}".lstrip("/"), prototype, whole) for group in groups)
            )

        return [None if found is None else _note_in(found.to_bytes()) for found in sync(read())]

    def write_note(self, group: str, note: Note) -> None:
        """Make the group, or one within it, and replace its note."""
        contents: dict[str, Buffer] = {}
        zarr.create_group(MemoryStore(contents), path=group, zarr_format=3, attributes={_KEY: asdict(note)})
        self.put({f"{group}/{METADATA}".lstrip("/"): contents[f"{group}/{METADATA}".lstrip("/")]})

    def put(self, contents: Mapping[str, Buffer]) -> None:
        """Write files, all at once; each of them appears as a whole."""

        async def put() -> None:
            await asyncio.gather(*(self.store.set(key, content) for key, content in contents.items()))

        sync(put())

    # ------------------------------------------------------------------ removing

    def remove(self, name: str) -> None:
        """Remove a file, or an array or a group with all that is in it."""
        with suppress(FileNotFoundError):
            self.filesystem.rm(f"{self.path}/{name}", recursive=True)

    def remove_half_written(self) -> None:
        """Remove the local files that killed processes had not finished; other filesystems have none."""
        for name in self.filesystem.find(self.path) if self.is_local else ():
            if _HALF_WRITTEN.fullmatch(name):
                with suppress(FileNotFoundError):
                    self.filesystem.rm_file(name)


def _note_in(document: bytes) -> Note | None:
    with suppress(ValueError, KeyError, TypeError):
        note = json.loads(document)["attributes"][_KEY]
        return Note(note["fingerprint"], note["arrays"], note.get("run", ""))
    return None
