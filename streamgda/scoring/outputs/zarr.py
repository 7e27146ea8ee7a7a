"""A Zarr group that is written part by part, and cannot be opened until it is complete.

The arrays are created in their final place, but the metadata of the group is written last. Until then, a
hidden group in it notes what is being written, and which parts are finished. A part is a range of whole
chunks, so no two tasks write to the same chunk.

Zarr makes arrays and chunks in memory, and this module puts them into the folder by fsspec, several at once.
Zarr itself would check before each of them whether it is there.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import re
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import zarr
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray
from zarr.abc.buffer import Buffer
from zarr.storage import MemoryStore

from streamgda.blocks.block import power_of_two_up_to
from streamgda.blocks.wording import RowError
from streamgda.scoring.outputs.base import LOCK, Field, Output, Part, PredictedRows, PredictionSummary, Writes
from streamgda.sources.base import RowRange, ScorableSplit
from streamgda.storage.documents import digest
from streamgda.storage.filesystems import Storage, by_fsspec, reached
from streamgda.storage.paths import AnyFileSystem, Path
from streamgda.storage.retries import retried
from streamgda.storage.secrets import concealed
from streamgda.storage.threads import wait_for

_LEAST_SHARE = 8

_UNFINISHED = ".unfinished"

_MARKS = "rows/c/"  # in it, with a file for each finished part

_MARK = re.compile(rf"{_MARKS}\d+")

_MOST_ROWS_OF_CHUNK = 1 << 16

_MOST_VALUES_OF_CHUNK = 1 << 22  # of all arrays together, so 32 MB of them as they are written

_METADATA = "zarr.json"

_KEY = "streamgda.prediction"

_NO_FILE = FileNotFoundError, IsADirectoryError, NotADirectoryError

_MOST_OF_NOTE = 1 << 24  # bytes; a range is one request, where a whole object is two

_PARTIAL = r"\.[0-9a-f]{32}\.partial"  # how a local file is named while it is written, as Zarr names it

_HALF_WRITTEN = re.compile(rf".*(?:/zarr|/c(?:/\d+)+){_PARTIAL}")

_FILE_OF_ARRAY = re.compile(rf"zarr(?:\.json|{_PARTIAL})|c(?:/\d+)+(?:{_PARTIAL})?")


@dataclass(frozen=True)
class ChunkRange(Part):
    """A part that is a range of whole chunks: its position among them, its rows, and the rows of a chunk."""

    index: int
    start: int
    stop: int
    chunk: int


@dataclass(frozen=True)
class ZarrOutput(Output[ChunkRange]):
    """A Zarr group of format 3, with an array for each field."""

    group: GroupFolder
    fields: tuple[Field, ...]
    run: str

    @classmethod
    def at(cls, path: Path, filesystem: AnyFileSystem | None, fields: Sequence[Field]) -> Self:
        """The group at a path or URL.

        Raises
        ------
        TypeError
            If the filesystem is one of pyarrow's that Zarr does not write to.
        ValueError
            If a field cannot be an array.
        """
        place = by_fsspec(os.fspath(path)) if filesystem is None else _by_fsspec(filesystem, os.fspath(path))
        return cls(GroupFolder.at(*place), _checked_fields(fields), uuid.uuid4().hex)

    @property
    def location(self) -> tuple[Storage, str]:
        """The storage, and the folder of the group there."""
        wrapped = pafs.PyFileSystem(pafs.FSSpecHandler(self.group.filesystem))
        return Storage(pafs.LocalFileSystem() if self.group.is_local else wrapped), self.group.path

    # ------------------------------------------------------------------ before writing

    def parts(self, splits: Sequence[ScorableSplit], made_by: Any) -> list[ChunkRange]:
        """Ranges of whole chunks, which begin near to where the splits do."""
        sizes = [_known_rows(split) for split in splits]
        if not sum(sizes):
            raise ValueError("there is nothing to predict: the input has no rows")
        chunk = chunk_length(sizes, _rows_of_chunk(len(self.schema)))
        ranges = aligned(splits, sizes, chunk)
        fingerprint = digest([made_by, chunk, [[rows.identity for rows in part] for part in ranges]])
        bounds = pairwise(accumulate((sum(rows.n_rows for rows in part) for part in ranges), initial=0))
        return [
            ChunkRange(tuple(part), str(i), fingerprint, i, start, stop, chunk)
            for i, (part, (start, stop)) in enumerate(zip(ranges, bounds, strict=True))
        ]

    def prepare(self, parts: Sequence[ChunkRange]) -> dict[str, PredictionSummary]:
        """Find the finished parts, or create empty arrays in place of those of another run."""
        fingerprint, names = parts[0].fingerprint, self.group.names()
        whole, unfinished = self.group.read_notes("", _UNFINISHED) if names else (None, None)
        note = whole or unfinished
        for name in sorted(names - {_UNFINISHED, LOCK, *((_METADATA, *note.arrays) if note else ())}):
            raise self.group.not_ours(name)
        indexes = self._finished() if _UNFINISHED in names else set()
        if whole and whole.fingerprint == fingerprint and {field.name for field in self.fields} <= names:
            if _UNFINISHED in names:
                self.group.remove(_UNFINISHED)
            return _summaries_of(parts)
        if not whole and unfinished and unfinished.fingerprint == fingerprint:
            self.group.write_note(_UNFINISHED, replace(unfinished, run=self.run))
            self.group.remove_half_written()
            return _summaries_of(part for part in parts if part.index in indexes)
        self._begin(parts, names)
        return {}

    def _finished(self) -> set[int]:
        """The positions of the finished parts."""
        files = self.group.check_files(_UNFINISHED, within=("", "rows/"))
        return {int(file.removeprefix(_MARKS)) for file in files if _MARK.fullmatch(file)}

    def _begin(self, parts: Sequence[ChunkRange], names: set[str]) -> None:
        """Remove old arrays and create empty ones. A note always lists the arrays that may be there."""
        old = names - {_METADATA, _UNFINISHED, LOCK}
        for name in sorted(old):
            self.group.check_files(name)
        arrays = sorted({*old, *(field.name for field in self.fields)})
        self.group.write_note(_UNFINISHED, Note("", arrays, self.run))
        for name in (_METADATA, *sorted(old)):
            if name in names:
                self.group.remove(name)
        if _UNFINISHED in names:
            self.group.remove(f"{_UNFINISHED}/rows")
        documents: dict[str, Buffer] = {}
        _create_arrays(MemoryStore(documents), self.fields, parts[-1].stop, parts[0].chunk)
        del documents[_METADATA]  # until all is written, it is no group
        self.group.put(_bytes_of(documents))
        self.group.write_note(_UNFINISHED, Note(parts[0].fingerprint, arrays, self.run))

    def in_schema(self, table: pa.Table) -> pa.Table:
        """The table with the types of the arrays; ValueError if they cannot hold it."""
        _check_nulls(table, self.fields)
        return super().in_schema(table)

    # ------------------------------------------------------------------ writing

    def write(self, part: ChunkRange, rows: Iterable[PredictedRows], writes: Writes) -> PredictionSummary:
        """Encode the chunks of a range, write them in other threads, and then note that it is finished."""
        buffers: dict[str, Buffer] = {}
        arrays = _create_arrays(MemoryStore(buffers), self.fields, part.stop, part.chunk)
        buffers.clear()
        position = part.start
        futures: list[Future[Any]] = []
        memory = [np.empty((part.chunk, *array.shape[1:]), array.dtype) for array in arrays]
        for chunk in self._in_chunks(rows, memory):
            stop = position + len(chunk[0])
            for array, values in zip(arrays, chunk, strict=True):
                array[position:stop] = values
            position = stop
            put = self.group.put if futures else self._put  # another run is noticed once in a part
            futures.append(writes.begin(sum(map(len, buffers.values())), put, _bytes_of(buffers)))
            buffers.clear()
        if position != part.stop:
            raise ValueError(
                f"rows {part.start} to {part.stop} were planned, and those to {position} came; start again"
            )
        writes.begin(0, self._mark, part, futures)
        return PredictionSummary(part.stop - part.start, 1)

    def _put(self, contents: Mapping[str, bytes]) -> None:
        """Write files, if no other run writes here."""
        (note,) = self.group.read_notes(_UNFINISHED)
        if note is None or note.run != self.run:
            raise self._overwritten()
        self.group.put(contents)

    def _mark(self, part: ChunkRange, futures: Sequence[Future[Any]]) -> None:
        """Note that a part is finished, when its chunks are written."""
        for chunk in futures:  # other threads have them: an earlier write has its thread earlier
            chunk.result()
        self._put({f"{_UNFINISHED}/{_MARKS}{part.index}": b"1"})

    def _in_chunks(
        self, rows: Iterable[PredictedRows], memory: Sequence[NDArray[Any]]
    ) -> Iterator[Sequence[NDArray[Any]]]:
        """Yield the rows chunk by chunk, with an array for each field. All chunks share the same memory."""
        n_filled, length = 0, len(memory[0])
        for piece in rows:
            table = piece.table
            while table.num_rows:
                n_rows = min(length - n_filled, table.num_rows)
                for values, field in zip(memory, self.fields, strict=True):
                    place = values[n_filled : n_filled + n_rows].reshape(n_rows, -1)
                    for j, name in enumerate(field.columns):
                        place[:, j] = table.column(name).slice(0, n_rows).to_numpy()
                table, n_filled = table.slice(n_rows), n_filled + n_rows
                if n_filled == length:
                    yield memory
                    n_filled = 0
            del piece, table  # or they would be held while the next one is made
        if n_filled:
            yield [values[:n_filled] for values in memory]

    def finish(self, parts: Sequence[ChunkRange]) -> None:
        """Write the metadata that makes it a group."""
        whole, unfinished = self.group.read_notes("", _UNFINISHED)
        if whole and whole.fingerprint == parts[0].fingerprint:
            return
        if unfinished is None or unfinished.run != self.run or len(self._finished()) < len(parts):
            raise self._overwritten()
        self.group.remove_half_written()
        self.group.write_note("", Note(parts[0].fingerprint, [field.name for field in self.fields]))
        self.group.remove(_UNFINISHED)


def _bytes_of(buffers: Mapping[str, Buffer]) -> dict[str, bytes]:
    return {key: buffer.to_bytes() for key, buffer in buffers.items()}


def _summaries_of(parts: Iterable[ChunkRange]) -> dict[str, PredictionSummary]:
    return {part.name: PredictionSummary(part.stop - part.start, 1, 1) for part in parts}


def _known_rows(split: ScorableSplit) -> int:
    if split.n_rows is None or not split.keeps_all_rows:
        raise ValueError(
            "a Zarr array has its rows in places that are known beforehand; how many a stream has, or a "
            "filter or missing='drop' leaves, is not. Write Parquet, or scan without them"
        )
    return split.n_rows


def _rows_of_chunk(width: int) -> int:
    """The most rows of a chunk of so many columns: a power of two that keeps memory bounded."""
    return min(_MOST_ROWS_OF_CHUNK, power_of_two_up_to(_MOST_VALUES_OF_CHUNK // width))


def _by_fsspec(filesystem: AnyFileSystem, path: str) -> tuple[AbstractFileSystem, str]:
    """The fsspec filesystem, and the path on it; a pyarrow filesystem is unwrapped."""
    if isinstance(filesystem, pafs.FileSystem):
        inner, path = Storage(filesystem).unwrapped(path)
        behind = LocalFileSystem() if isinstance(inner.filesystem, pafs.LocalFileSystem) else inner.fsspec
        if behind is None:
            raise TypeError(
                f"Zarr writes through fsspec: give a URL or a filesystem of its, not {filesystem!r}"
            )
        filesystem = behind
    return filesystem, filesystem._strip_protocol(path)


# ---------------------------------------------------------------------- rows of the input for whole chunks


def aligned(splits: Sequence[ScorableSplit], sizes: Sequence[int], chunk: int) -> list[list[RowRange]]:
    """Divide the rows into parts that begin at multiples of `chunk`, near to where the splits begin.

    Parameters
    ----------
    splits : sequence of ScorableSplit
        The input, in order.
    sizes : sequence of int
        The number of rows of each split.
    chunk : int
        The number of rows of a chunk.
    """
    bounds = [0, *accumulate(sizes)]
    starts = sorted({bound // chunk * chunk for bound in bounds[:-1]} - {bounds[-1]})
    stops = [*starts[1:], bounds[-1]]
    parts: list[list[RowRange]] = [[] for _ in starts]
    for split, (first, last) in zip(splits, pairwise(bounds), strict=True):
        for i in range(bisect_right(starts, first) - 1, bisect_left(starts, last)):
            if first < last:
                parts[i].append(RowRange(split, max(starts[i] - first, 0), min(stops[i], last) - first))
    return parts


def chunk_length(sizes: Sequence[int], most: int) -> int:
    """The number of rows of a chunk, at most `most`. If possible, splits end where chunks end.

    Then no rows are read twice. Chunks shorter than an eighth of `most` would cost more than this saves.
    """
    common = math.gcd(*list(accumulate(sizes))[:-1])
    if not common:
        return min(most, max(sum(sizes), 1))
    fewest, most_parts = -(-common // most), _LEAST_SHARE * common // most
    return next((common // n for n in range(fewest, most_parts + 1) if common % n == 0), most)


# ---------------------------------------------------------------------- the folder and its notes


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
    """The folder of a Zarr group on an fsspec filesystem."""

    filesystem: AbstractFileSystem
    path: str

    @classmethod
    def at(cls, filesystem: AbstractFileSystem, path: str) -> GroupFolder:
        """The folder at a path."""
        filesystem, (path,) = concealed(filesystem, [path], [path])
        return cls(filesystem, path)

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return isinstance(self.filesystem, LocalFileSystem)

    def names(self) -> set[str]:
        """The names in the folder, except files that Zarr has not finished."""
        self.filesystem.invalidate_cache()  # other processes may have written there since it was listed
        try:
            paths = reached(self.path, partial(self.filesystem.ls, self.path, detail=False))
        except FileNotFoundError:
            return set()
        names = {name.rstrip("/").rpartition("/")[2] for name in paths}
        return {name for name in names if not _HALF_WRITTEN.fullmatch(f"/{name}")}

    def check_files(self, folder: str, within: Sequence[str] = ("",)) -> set[str]:
        """The files in a folder; ValueError if it, or folders `within` it, hold files that no array has."""
        self.filesystem.invalidate_cache()
        root = f"{self.path}/{folder}"
        paths = reached(root, partial(self.filesystem.find, root))
        files = {path.removeprefix(root).lstrip("/") for path in paths}
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
        paths = [f"{self.path}/{_key_of(group)}" for group in groups]

        def read() -> list[Note | None]:
            answers = self.filesystem.cat_ranges(paths, 0, _MOST_OF_NOTE, on_error="return")
            for answer in answers:
                if isinstance(answer, Exception) and not isinstance(answer, _NO_FILE):
                    raise answer
            return [_note_in(answer) if isinstance(answer, bytes) else None for answer in answers]

        return reached(self.path, read)

    def write_note(self, group: str, note: Note) -> None:
        """Make the group, or one within it, and replace its note."""
        document = {"attributes": {_KEY: asdict(note)}, "zarr_format": 3, "node_type": "group"}
        self.put({_key_of(group): json.dumps(document, indent=2).encode()})

    def put(self, contents: Mapping[str, bytes]) -> None:
        """Write files, in a store at the same time. Each of them appears only when it is complete."""
        files = {f"{self.path}/{key}": content for key, content in contents.items()}
        write = partial(_write_here if self.is_local else self.filesystem.pipe, files)
        wait_for(partial(retried, write, place=self.path))

    # ------------------------------------------------------------------ removing

    def remove(self, name: str) -> None:
        """Remove a file, or an array or a group with all that is in it."""
        with suppress(FileNotFoundError):
            path = f"{self.path}/{name}"
            reached(path, partial(self.filesystem.rm, path, recursive=True))

    def remove_half_written(self) -> None:
        """Remove local files that killed processes left unfinished. Other filesystems have no such files."""
        for name in self.filesystem.find(self.path) if self.is_local else ():
            if _HALF_WRITTEN.fullmatch(name):
                with suppress(FileNotFoundError):
                    self.filesystem.rm_file(name)


def _key_of(group: str) -> str:
    return f"{group}/{_METADATA}".lstrip("/")


def _write_here(files: Mapping[str, bytes]) -> None:
    """Write local files, each by another name that it has until it is complete."""
    for place, content in zip(map(pathlib.Path, files), files.values(), strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_suffix(f".{uuid.uuid4().hex}.partial")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(place)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def _note_in(document: bytes) -> Note | None:
    with suppress(ValueError, KeyError, TypeError):
        note = json.loads(document)["attributes"][_KEY]
        return Note(note["fingerprint"], note["arrays"], note.get("run", ""))
    return None


# ---------------------------------------------------------------------- columns as arrays


def _checked_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
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
        if not name or "/" in name or name.startswith((".", "__")) or name == _METADATA:
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


def _check_nulls(table: pa.Table, fields: Sequence[Field]) -> None:
    """Raise ValueError for a null in a column whose type has neither NaN nor NaT to stand for it."""
    for field in fields:
        column = table.column(field.columns[0])
        if column.null_count and not (pa.types.is_floating(field.type) or pa.types.is_temporal(field.type)):
            row = column.is_null().to_pylist().index(True)
            raise RowError(
                row,
                f": {field.name!r} is null, which a Zarr array of {field.type} cannot hold; write Parquet, "
                "or do not keep it",
            )


def _create_arrays(
    store: MemoryStore, fields: Sequence[Field], n_rows: int, chunk: int
) -> list[zarr.Array[Any]]:
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
