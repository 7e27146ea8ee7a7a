"""A Zarr group written part by part, which cannot be opened as a group until all of it is there.

The arrays stand where they will be, but the metadata of the group itself is written last. Until then a hidden
group says what is being written, and which parts of it are finished. A part is a run of whole chunks, so no
two tasks ever write to the same chunk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import zarr
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from streamgda.scoring.outputs.alignment import aligned, chunk_length
from streamgda.scoring.outputs.base import Field, Output, Part, fingerprint_of, schema_of
from streamgda.sources.base import READ_ELEMENTS, ScorableSplit
from streamgda.storage.filesystems import fsspec_of

_KEY = "streamgda.prediction"

_UNFINISHED = ".unfinished"

_FINISHED_ROWS = f"{_UNFINISHED}/rows"

_METADATA = "zarr.json"

_PARTIAL = r"\.[0-9a-f]{32}\.partial"  # what Zarr writes a local file as, before it has its name

_HALF_WRITTEN = re.compile(rf".*(?:/zarr|/c(?:/\d+)+){_PARTIAL}")

_FILE_OF_ARRAY = re.compile(rf"zarr(?:\.json|{_PARTIAL})|c(?:/\d+)+(?:{_PARTIAL})?")

_MOST_ROWS_OF_CHUNK = 1 << 16


@dataclass(frozen=True)
class ChunkRange(Part):
    """A part that is a run of whole chunks: which one, its rows, and the rows of a chunk."""

    index: int
    start: int
    stop: int
    chunk: int


@dataclass(frozen=True)
class ZarrOutput(Output[ChunkRange]):
    """The group, on any filesystem of fsspec's."""

    filesystem: AbstractFileSystem
    path: str
    fields: tuple[Field, ...]

    @classmethod
    def at(cls, path: str | PathLike[str], filesystem: Any, fields: Sequence[Field]) -> Self:
        """The group at a path or URL.

        Raises
        ------
        TypeError
            If the filesystem is one of pyarrow's, which Zarr does not write to.
        ValueError
            If something cannot be an array of it.
        """
        _check_array_names([field.name for field in fields])
        fields = [replace(field, type=_decoded(field.type)) for field in fields]
        for field in fields:
            _dtype_of(field)
        if filesystem is None:
            where, name = url_to_fs(os.fspath(path))
        else:
            where = _of_fsspec(filesystem)
            name = where._strip_protocol(os.fspath(path))
        return cls(where, name, tuple(fields))

    # ------------------------------------------------------------------ what is to be written

    def parts(self, splits: Sequence[ScorableSplit], made_by: Any) -> list[ChunkRange]:
        """Runs of whole chunks, which begin near to where the splits do."""
        sizes = [_known_rows(split) for split in splits]
        if not sum(sizes):
            raise ValueError("there is nothing to predict: the input has no rows")
        width = sum(len(field.columns) for field in self.fields)
        chunk = chunk_length(sizes, _rows_of_chunk(width))
        runs = aligned(splits, sizes, chunk)
        mark = fingerprint_of([made_by, chunk, [run.identity for run in runs]])
        bounds = pairwise(accumulate((run.n_rows for run in runs), initial=0))
        return [
            ChunkRange(run, str(i), mark, i, start, stop, chunk)
            for i, (run, (start, stop)) in enumerate(zip(runs, bounds, strict=True))
        ]

    def checked(self, table: pa.Table) -> pa.Table:
        """The table in the types of the arrays, if they can hold it."""
        for field in self.fields:
            nulls = table.column(field.columns[0])
            if nulls.null_count and not _holds_nulls(field.type):
                row = nulls.is_null().to_pylist().index(True)
                raise ValueError(
                    f"row {row}: {field.name!r} is null, which a Zarr array of {field.type} cannot hold; "
                    "write Parquet, or do not keep it"
                )
        try:
            return table.select(self._schema.names).replace_schema_metadata().cast(self._schema)
        except pa.ArrowException as error:
            raise ValueError(f"kept columns differ in type from those of the first file: {error}") from error

    @property
    def _schema(self) -> pa.Schema:
        return schema_of(self.fields)

    # ------------------------------------------------------------------ what is there

    def prepare(self, parts: Sequence[ChunkRange]) -> dict[str, int]:
        """Find what is finished of the same parts; make room for the arrays where they are not the same."""
        mark = parts[0].fingerprint
        names = self._names()
        whole, begun = self._note(""), self._note(_UNFINISHED)
        self._check_names(names, whole or begun)
        self._check_files(_UNFINISHED, within=("", "rows/"))
        if whole and whole["fingerprint"] == mark and {field.name for field in self.fields} <= names:
            self._remove(_UNFINISHED)
            return {run.name: run.stop - run.start for run in parts}
        if not whole and begun and begun["fingerprint"] == mark:
            self._sweep()
            rows = np.asarray(self._array(_FINISHED_ROWS)[:]).tolist()
            return {run.name: n for run, n in zip(parts, rows, strict=True) if n}
        self._begin(parts, names)
        return {}

    def _names(self) -> set[str]:
        self.filesystem.invalidate_cache()  # or it may tell what it saw when it last looked
        if self.filesystem.isfile(self.path):
            raise ValueError(f"{self.path} is a file; choose another place for the Zarr group")
        try:
            found = self.filesystem.ls(self.path, detail=False)
        except FileNotFoundError:
            return set()
        names = {name.rstrip("/").rpartition("/")[2] for name in found}
        return {name for name in names if not _HALF_WRITTEN.fullmatch(f"/{name}")}

    def _note(self, where: str) -> dict[str, Any] | None:
        """What a group says of itself, if there is one and it was written here."""
        try:
            group = zarr.open_group(self._at(where), mode="r", zarr_format=3)
        except (FileNotFoundError, ValueError):
            return None
        return cast("dict[str, Any] | None", group.attrs.asdict().get(_KEY))

    def _check_names(self, names: set[str], note: dict[str, Any] | None) -> None:
        ours = {_UNFINISHED, *((_METADATA, *note["arrays"]) if note else ())}
        for name in sorted(names - ours):
            raise self._not_ours(name)

    def _check_files(self, folder: str, within: Sequence[str] = ("",)) -> None:
        """Raise ValueError if a folder, or some folders within it, hold what no array of Zarr's does."""
        root = f"{self.path}/{folder}/"
        for path in self.filesystem.find(root):
            file = path[path.index(root) + len(root) :]
            if not any(_FILE_OF_ARRAY.fullmatch(file.removeprefix(prefix)) for prefix in within):
                raise self._not_ours(f"{folder}/{file}")

    def _not_ours(self, name: str) -> ValueError:
        return ValueError(
            f"{self.path} holds {name}, which is no part of predictions; choose a group of their own"
        )

    def _begin(self, runs: Sequence[ChunkRange], names: set[str]) -> None:
        """Make empty arrays; at each moment, what is there is known to have been written here."""
        old = sorted(names - {_METADATA, _UNFINISHED})
        for name in old:
            self._check_files(name)
        arrays = sorted({*old, *(field.name for field in self.fields)})
        self._write_note(_UNFINISHED, "", arrays)
        for name in (_METADATA, *old):
            self._remove(name)
        n_rows, chunk = runs[-1].stop, runs[0].chunk
        for field in self.fields:
            self._create(field, n_rows, chunk)
        zarr.create_array(
            self._at(_FINISHED_ROWS),
            shape=(len(runs),),
            chunks=(1,),
            dtype="int64",
            zarr_format=3,
            overwrite=True,
        )
        self._write_note(_UNFINISHED, runs[0].fingerprint, arrays)

    def _create(self, field: Field, n_rows: int, chunk: int) -> None:
        classes = (len(field.columns),) if "classes" in field.attributes else ()
        zarr.create_array(
            self._at(field.name),
            shape=(n_rows, *classes),
            chunks=(chunk, *classes),
            dtype=_dtype_of(field),
            attributes=dict(field.attributes),
            dimension_names=("row", *("class" for _ in classes)),
            zarr_format=3,
        )

    def _write_note(self, where: str, fingerprint: str, arrays: Sequence[str]) -> None:
        note: dict[str, Any] = {_KEY: {"fingerprint": fingerprint, "arrays": list(arrays)}}
        group = zarr.open_group(self._at(where), mode="a", zarr_format=3, attributes=note)
        if group.attrs.asdict() != note:
            group.attrs.put(note)

    # ------------------------------------------------------------------ writing

    def write(self, part: ChunkRange, tables: Iterable[pa.Table]) -> int:
        """Write the chunks of a run, and then note that it is finished."""
        arrays = [self._array(field.name) for field in self.fields]
        position = part.start
        for table in _in_chunks(tables, part.chunk):
            rows = slice(position, position + table.num_rows)
            for field, array in zip(self.fields, arrays, strict=True):
                array[rows] = _values(table, field)
            position = rows.stop
        if position != part.stop:
            raise ValueError(
                f"rows {part.start} to {part.stop} were planned, and those to {position} came; start again"
            )
        n_rows = part.stop - part.start
        self._array(_FINISHED_ROWS)[part.index] = n_rows
        return n_rows

    def finish(self, parts: Sequence[ChunkRange]) -> None:
        """Make it a group."""
        self._write_note("", parts[0].fingerprint, [field.name for field in self.fields])
        self._remove(_UNFINISHED)

    # ------------------------------------------------------------------ places

    def _at(self, name: str) -> Any:
        """Where something of the group is, as Zarr takes it.

        An array is opened as if it stood alone, or else Zarr would make the group that it is in.
        """
        path = f"{self.path}/{name}".rstrip("/")
        return Path(path) if self._is_local else self.filesystem.get_mapper(path)

    def _array(self, name: str) -> zarr.Array[Any]:
        return zarr.open_array(self._at(name), mode="r+", zarr_format=3)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self.filesystem.rm(f"{self.path}/{name}", recursive=True)

    def _sweep(self) -> None:
        """Remove files that a killed process has left; elsewhere than on a disk, there are none."""
        for name in self.filesystem.find(self.path) if self._is_local else ():
            if _HALF_WRITTEN.fullmatch(name):
                self.filesystem.rm_file(name)

    @property
    def _is_local(self) -> bool:
        return isinstance(self.filesystem, LocalFileSystem)


# ---------------------------------------------------------------------- rows and chunks


def _known_rows(split: ScorableSplit) -> int:
    if split.n_rows is None or not split.keeps_all_rows:
        raise ValueError(
            "a Zarr array has its rows in places that are known beforehand; how many a filter or "
            "missing='drop' leaves is not. Write Parquet, or scan without them"
        )
    return split.n_rows


def _rows_of_chunk(width: int) -> int:
    """The most rows of a chunk of so many columns: a power of two that keeps memory bounded."""
    return min(_MOST_ROWS_OF_CHUNK, 1 << (max(READ_ELEMENTS // width, 1).bit_length() - 1))


def _in_chunks(tables: Iterable[pa.Table], length: int) -> Iterator[pa.Table]:
    """The same rows in tables of a length, but for the last one."""
    held: list[pa.Table] = []
    missing = length
    for table in tables:
        rest = table
        while rest.num_rows >= missing:
            yield pa.concat_tables([*held, rest.slice(0, missing)])
            rest, held, missing = rest.slice(missing), [], length
        if rest.num_rows:
            held.append(rest)
            missing -= rest.num_rows
        del table, rest  # or they would be held while the next one is made
    if held:
        yield pa.concat_tables(held)


def _values(table: pa.Table, field: Field) -> NDArray[Any]:
    columns = [table.column(name).to_numpy() for name in field.columns]
    return np.stack(columns, axis=1) if "classes" in field.attributes else columns[0]


# ---------------------------------------------------------------------- names and types


def _of_fsspec(filesystem: Any) -> AbstractFileSystem:
    if not isinstance(filesystem, pafs.FileSystem):
        return filesystem
    if isinstance(filesystem, pafs.LocalFileSystem):
        return LocalFileSystem()
    behind = fsspec_of(filesystem)
    if behind is None:
        raise TypeError(f"Zarr writes through fsspec: give a URL or a filesystem of its, not {filesystem!r}")
    return behind


def _check_array_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} cannot be kept: predictions are written under this name")
        if not name or "/" in name or name.startswith((".", "__")) or name == _METADATA:
            raise ValueError(f"column {name!r} cannot be kept: no Zarr array can have this name")


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _dtype_of(field: Field) -> str:
    """The type of an array for an Arrow type."""
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


def _holds_nulls(kind: pa.DataType) -> bool:
    """Whether NaN, or its like for times, stands for a null."""
    return bool(pa.types.is_floating(kind) or pa.types.is_temporal(kind))
