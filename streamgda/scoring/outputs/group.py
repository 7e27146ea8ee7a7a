"""The folder of a Zarr group: what is in it, what the group says of itself, and its arrays.

Each array is opened as if it stood alone, since opening it as a member would need the metadata of the group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import zarr
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from zarr.storage import StoreLike

from streamgda.scoring.outputs.arrays import array_shape, dtype_of
from streamgda.scoring.outputs.base import Field

_KEY = "streamgda.prediction"

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
    """The folder of a Zarr group, on any filesystem of fsspec's."""

    filesystem: AbstractFileSystem
    path: str

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return isinstance(self.filesystem, LocalFileSystem)

    def names(self) -> set[str]:
        """What is in the folder, but for files that Zarr had not finished."""
        self.filesystem.invalidate_cache()  # other processes may have written there since it was listed
        try:
            found = self.filesystem.ls(self.path, detail=False)
        except FileNotFoundError:
            return set()
        names = {name.rstrip("/").rpartition("/")[2] for name in found}
        return {name for name in names if not _HALF_WRITTEN.fullmatch(f"/{name}")}

    def check_files(self, folder: str, within: Sequence[str] = ("",)) -> None:
        """Raise ValueError if a folder, or some folders in it, hold files that no Zarr array has."""
        root = f"{self.path}/{folder}"
        for path in self.filesystem.find(root):
            file = path.removeprefix(root).lstrip("/")
            if not any(_FILE_OF_ARRAY.fullmatch(file.removeprefix(prefix)) for prefix in within):
                raise self.not_ours(f"{folder}/{file}".rstrip("/"))

    def not_ours(self, name: str) -> ValueError:
        """The error for a file or an array that is no part of predictions."""
        return ValueError(
            f"{self.path} holds {name}, which is no part of predictions; choose a group of their own"
        )

    # ------------------------------------------------------------------ notes

    def read_note(self, group: str) -> Note | None:
        """The note of the group, or of one within it; None if there is no group, or no note."""
        try:
            attributes = zarr.open_group(self._at(group), mode="r", zarr_format=3).attrs.asdict()
        except (FileNotFoundError, ValueError):
            return None
        note: Any = attributes.get(_KEY)
        return None if note is None else Note(note["fingerprint"], note["arrays"], note.get("run", ""))

    def write_note(self, group: str, note: Note) -> None:
        """Make the group, or one within it, and replace its note."""
        attributes: dict[str, Any] = {_KEY: asdict(note)}
        opened = zarr.open_group(self._at(group), mode="a", zarr_format=3, attributes=attributes)
        if opened.attrs.asdict() != attributes:
            opened.attrs.put(attributes)

    # ------------------------------------------------------------------ arrays

    def create(self, field: Field, n_rows: int, chunk: int) -> None:
        """Make an empty array for a field, in chunks of so many rows."""
        shape = array_shape(field, n_rows)
        zarr.create_array(
            self._at(field.name),
            shape=shape,
            chunks=(chunk, *shape[1:]),
            dtype=dtype_of(field),
            attributes=dict(field.attributes),
            dimension_names=("row", "class")[: len(shape)],
            zarr_format=3,
        )

    def create_counts(self, name: str, length: int) -> None:
        """Make an array of zeros, each in a chunk of its own, so that any task can set one."""
        zarr.create_array(
            self._at(name), shape=(length,), chunks=(1,), dtype="int64", zarr_format=3, overwrite=True
        )

    def array(self, name: str) -> zarr.Array[Any]:
        """An array, open for writing."""
        return zarr.open_array(self._at(name), mode="r+", zarr_format=3)

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

    def _at(self, name: str) -> StoreLike:
        path = f"{self.path}/{name}".rstrip("/")
        return Path(path) if self.is_local else self.filesystem.get_mapper(path)
