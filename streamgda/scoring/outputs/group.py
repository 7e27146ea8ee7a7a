"""The folder of a Zarr group, the note in its attributes, and columns of a table as its arrays.

Zarr makes arrays and chunks in memory, and this module puts them into the folder, several at once. Zarr
itself would check before each of them whether it is there.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from zarr.abc.buffer import Buffer
from zarr.abc.store import RangeByteRequest, Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync  # private: the only way into the loop of a store
from zarr.storage import FsspecStore, LocalStore

from streamgda.scoring.outputs.base import Field

METADATA = "zarr.json"

_KEY = "streamgda.prediction"

_MOST_OF_NOTE = 1 << 24  # bytes; a range is one request, where a whole object is two

_PARTIAL = r"\.[0-9a-f]{32}\.partial"  # how a local file is named while Zarr writes it

_HALF_WRITTEN = re.compile(rf".*(?:/zarr|/c(?:/\d+)+){_PARTIAL}")

_FILE_OF_ARRAY = re.compile(rf"zarr(?:\.json|{_PARTIAL})|c(?:/\d+)+(?:{_PARTIAL})?")


@dataclass(frozen=True)
class Note:
    """The note in the attributes of a group of predictions: what is written there, and by which run.

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
    """The folder of a Zarr group on an fsspec filesystem, which is also a Zarr store."""

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
        """The names in the folder, except files that Zarr has not finished."""
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
        """The error for a file or an array that is not part of predictions."""
        return ValueError(
            f"{self.path} holds {name}, which is no part of predictions; choose a group of their own"
        )

    # ------------------------------------------------------------------ reading and writing notes and files

    def read_notes(self, *groups: str) -> list[Note | None]:
        """The notes of the group and of groups within it; None for a group that is missing or has no note."""

        async def read() -> list[Buffer | None]:
            prototype, whole = default_buffer_prototype(), RangeByteRequest(0, _MOST_OF_NOTE)
            return await asyncio.gather(
                *(self.store.get(_key_of(group), prototype, whole) for group in groups)
            )

        return [None if found is None else _note_in(found.to_bytes()) for found in sync(read())]

    def write_note(self, group: str, note: Note) -> None:
        """Make the group, or one within it, and replace its note."""
        document = {"attributes": {_KEY: asdict(note)}, "zarr_format": 3, "node_type": "group"}
        self.put({_key_of(group): buffer_of(json.dumps(document, indent=2).encode())})

    def put(self, contents: Mapping[str, Buffer]) -> None:
        """Write files at the same time. Each of them appears only when it is complete."""

        async def put() -> None:
            await asyncio.gather(*(self.store.set(key, content) for key, content in contents.items()))

        sync(put())

    # ------------------------------------------------------------------ removing

    def remove(self, name: str) -> None:
        """Remove a file, or an array or a group with all that is in it."""
        with suppress(FileNotFoundError):
            self.filesystem.rm(f"{self.path}/{name}", recursive=True)

    def remove_half_written(self) -> None:
        """Remove local files that killed processes left unfinished. Other filesystems have no such files."""
        for name in self.filesystem.find(self.path) if self.is_local else ():
            if _HALF_WRITTEN.fullmatch(name):
                with suppress(FileNotFoundError):
                    self.filesystem.rm_file(name)


def _key_of(group: str) -> str:
    return f"{group}/{METADATA}".lstrip("/")


def buffer_of(content: bytes) -> Buffer:
    """Bytes as the buffer that Zarr stores take."""
    return default_buffer_prototype().buffer.from_bytes(content)


def _note_in(document: bytes) -> Note | None:
    with suppress(ValueError, KeyError, TypeError):
        note = json.loads(document)["attributes"][_KEY]
        return Note(note["fingerprint"], note["arrays"], note.get("run", ""))
    return None


# ---------------------------------------------------------------------- columns as arrays


def checked_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The fields as arrays will hold them: categories become their values.

    Raises
    ------
    ValueError
        If two arrays would have the same name, if Zarr does not allow a name, or if no array can hold a type.
    """
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} cannot be kept: predictions are written under this name")
        if not name or "/" in name or name.startswith((".", "__")) or name == METADATA:
            raise ValueError(f"column {name!r} cannot be kept: no Zarr array can have this name")
    checked = tuple(
        replace(field, type=field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in fields
    )
    for field in checked:
        _dtype_of(field)
    return checked


def _dtype_of(field: Field) -> str:
    """The type of the array of a field."""
    kind = field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_date32(kind):
        return "datetime64[D]"
    if pa.types.is_timestamp(kind):
        return f"datetime64[{kind.unit}]"
    if pa.types.is_duration(kind):
        return f"timedelta64[{kind.unit}]"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return str(np.dtype(kind.to_pandas_dtype()))
    raise ValueError(
        f"column {field.name!r} is {field.type}, which no Zarr array can hold; write Parquet, or do not "
        "keep it"
    )


def check_nulls(table: pa.Table, fields: Sequence[Field]) -> None:
    """Raise ValueError for a null in a column whose type has neither NaN nor NaT to stand for it."""
    for field in fields:
        column = table.column(field.columns[0])
        if column.null_count and not (pa.types.is_floating(field.type) or pa.types.is_temporal(field.type)):
            row = column.is_null().to_pylist().index(True)
            raise ValueError(
                f"row {row}: {field.name!r} is null, which a Zarr array of {field.type} cannot hold; "
                "write Parquet, or do not keep it"
            )


def create_arrays(store: Store, fields: Sequence[Field], n_rows: int, chunk: int) -> list[zarr.Array[Any]]:
    """Make an empty array for each field, in chunks of `chunk` rows; its columns are the classes, if any."""
    others = [(len(field.columns),) if "classes" in field.attributes else () for field in fields]
    return [
        zarr.create_array(
            store,
            name=field.name,
            shape=(n_rows, *other),
            chunks=(chunk, *other),
            dtype=_dtype_of(field),
            attributes=dict(field.attributes),
            dimension_names=("row", "class")[: 1 + len(other)],
            zarr_format=3,
        )
        for field, other in zip(fields, others, strict=True)
    ]
