"""A Zarr group that is written part by part, and cannot be opened until it is complete.

The arrays are created in their final place, but the metadata of the group is written last. Until then, a
hidden folder in it has a note of what is being written, and a file for each part that is finished. A part is
a range of whole chunks, so no two tasks write to the same chunk.

Zarr makes arrays and chunks in memory; their bytes are put into the output as those of Parquet files are.
"""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from zarr.abc.buffer import Buffer
from zarr.storage import MemoryStore

from streamgda.data.blocks.block import power_of_two_up_to
from streamgda.data.blocks.wording import RowError
from streamgda.data.sources.splits import RowRange, ScorableSplit
from streamgda.data.storage.filesystems import by_fsspec, reached
from streamgda.data.storage.identity import identity_of
from streamgda.data.storage.paths import AnyFileSystem, Path
from streamgda.jobs.scoring.outputs.base import Field, Output, OutputPart, PredictionSummary, Tables, Writes

_LEAST_SHARE = 8

_MOST_ROWS_OF_CHUNK = 1 << 16

_MOST_VALUES_OF_CHUNK = 1 << 22  # of all arrays together, so 32 MB of them as they are written

_METADATA = "zarr.json"

_OLDER_METADATA = (".zattrs", ".zgroup", ".zarray")

_KEY = "streamgda.prediction"

_UNFINISHED = ".predict_dataset.unfinished"

_NOTE = f"{_UNFINISHED}/note.json"

_MARKS = f"{_UNFINISHED}/parts"  # in it, a file for each finished part


class ZarrOutput(Output):
    """A Zarr group of format 3, with an array for each field; ValueError if a field cannot be an array."""

    def __init__(self, path: Path, filesystem: AnyFileSystem | None, fields: Sequence[Field]) -> None:
        if filesystem is None and "://" in os.fspath(path):
            filesystem, path = by_fsspec(os.fspath(path))  # it puts a chunk by one request, pyarrow by three
        super().__init__(path, filesystem, _checked_fields(fields))

    # ------------------------------------------------------------------ before writing

    def parts(self, splits: Sequence[ScorableSplit], made_by: str) -> list[OutputPart]:
        """Ranges of whole chunks, which begin near to where the splits do."""
        sizes = [_known_rows(split) for split in splits]
        if not sum(sizes):
            raise ValueError("there is nothing to predict: the input has no rows")
        most = min(_MOST_ROWS_OF_CHUNK, power_of_two_up_to(_MOST_VALUES_OF_CHUNK // len(self.schema)))
        chunk = chunk_length(sizes, most)
        ranges = aligned(splits, sizes, chunk)
        fingerprint = identity_of(made_by, chunk, ranges)
        starts = accumulate((sum(rows.n_rows for rows in part) for part in ranges), initial=0)
        numbered = enumerate(zip(ranges, starts, strict=False))
        return [OutputPart(tuple(part), str(i), fingerprint, start, chunk) for i, (part, start) in numbered]

    def prepare(self, parts: Sequence[OutputPart]) -> dict[str, PredictionSummary]:
        """Find the finished parts, or create empty arrays in place of those of another run."""
        names = set(self.listed())
        whole = self._note(_METADATA) if _METADATA in names else None
        unfinished = self._note(_NOTE) if _UNFINISHED in names else None
        note = whole or unfinished
        ours = {_METADATA, *note["arrays"]} if note else set()
        for name in sorted(names - ours):
            if not name.startswith(".") or name in _OLDER_METADATA:
                raise self.foreign(name)
        self.end_others(names)
        arrays, is_same = {field.name for field in self.fields}, _is_of(note, parts)
        if whole and is_same and arrays <= names:
            if _UNFINISHED in names:
                self.remove(_UNFINISHED, is_folder=True)
            return {part.name: PredictionSummary(part.n_rows, 1, 1) for part in parts}
        self.begin()
        if not whole and is_same:
            marks = self._marks()
            return {part.name: PredictionSummary(part.n_rows, 1, 1) for part in parts if part.name in marks}
        self._create(parts, (names & ours) - {_METADATA}, is_group=_METADATA in names)
        return {}

    def _create(self, parts: Sequence[OutputPart], old: set[str], *, is_group: bool) -> None:
        """Remove old arrays and create empty ones. A note always lists the arrays that may be there."""
        arrays = sorted({*old, *(field.name for field in self.fields)})
        self.make_folder(_UNFINISHED)
        self._write_note(_NOTE, "", arrays)
        if is_group:
            self.remove(_METADATA)
        for name in (*sorted(old), _MARKS):
            self.remove(name, is_folder=True)
        documents: dict[str, Buffer] = {}
        self._arrays(documents, parts)
        for name in (_MARKS, *(field.name for field in self.fields)):
            self.make_folder(name)
        for name, document in documents.items():
            if name != _METADATA:  # until all is written, it is no group
                self.put(name, document.to_bytes(), looks=False)
        self._write_note(_NOTE, parts[0].fingerprint, arrays)

    def _arrays(self, buffers: dict[str, Buffer], parts: Sequence[OutputPart]) -> list[zarr.Array[Any]]:
        """Make an empty array for each field in memory; its columns are the classes, if any.

        The chunks of an array lie in one folder, which is there before they are written.
        """
        store, chunk, last = MemoryStore(buffers), parts[-1].chunk, parts[-1]
        others = [(len(field.columns),) if "classes" in field.attributes else () for field in self.fields]
        return [
            zarr.create_array(
                store,
                name=field.name,
                shape=(last.start + last.n_rows, *other),
                chunks=(chunk, *other),
                dtype=_dtype_of(field),
                attributes=dict(field.attributes),
                dimension_names=("row", "class")[: 1 + len(other)],
                chunk_key_encoding={"name": "default", "separator": "."},
                zarr_format=3,
            )
            for field, other in zip(self.fields, others, strict=True)
        ]

    def in_schema(self, table: pa.Table) -> pa.Table:
        """The table with the types of the arrays; ValueError if they cannot hold it."""
        for field in self.fields:
            column, kind = table.column(field.columns[0]), field.type
            if column.null_count and not (pa.types.is_floating(kind) or pa.types.is_temporal(kind)):
                fault = f"{field.name!r} is null, which a Zarr array of {kind} cannot hold"
                row = column.is_null().to_pylist().index(True)
                raise RowError(row, f": {fault}; write Parquet, or do not keep it")
        return super().in_schema(table)

    # ------------------------------------------------------------------ writing

    def write(self, part: OutputPart, rows: Tables, writes: Writes) -> PredictionSummary:
        """Encode the chunks of a range, write them in other threads, and then note that it is finished."""
        buffers: dict[str, Buffer] = {}
        arrays, position = self._arrays(buffers, [part]), part.start
        chunks: list[Future[Any]] = []
        for table in _in_chunks((table for table, _ in rows), part.chunk):
            buffers.clear()
            place = slice(position, position + table.num_rows)
            for array, field in zip(arrays, self.fields, strict=True):
                array[place] = _values_of(table, field, array)
            position = place.stop
            for name, content in buffers.items():
                chunks.append(writes.begin(len(content), self.put, name, content.to_bytes()))
        if position != (stop := part.start + part.n_rows):
            raise ValueError(
                f"rows {part.start} to {stop} were planned, and those to {position} came; start again"
            )
        writes.begin(0, self._mark, part, chunks)
        return PredictionSummary(part.n_rows, 1)

    def _mark(self, part: OutputPart, chunks: Sequence[Future[Any]]) -> None:
        """Note that a part is finished, when its chunks are written."""
        for chunk in chunks:  # other threads have them: an earlier write has its thread earlier
            chunk.result()
        self.put(f"{_MARKS}/{part.name}", b"1")

    def finish(self, parts: Sequence[OutputPart]) -> None:
        """Write the metadata that makes it a group."""
        if not self._has_begun:
            return
        marks = self._marks()
        if not _is_of(self._note(_NOTE), parts) or not all(part.name in marks for part in parts):
            raise self.overwritten()
        self._write_note(_METADATA, parts[0].fingerprint, [field.name for field in self.fields])
        self.remove(_UNFINISHED, is_folder=True)

    # ------------------------------------------------------------------ notes

    def _marks(self) -> set[str]:
        """The names of the finished parts."""
        return set(reached(self.path, partial(self.storage.children, f"{self.path}/{_MARKS}")))

    def _note(self, name: str) -> Mapping[str, Any] | None:
        """What is said in the attributes of a group: what made it, and the arrays that may be there."""

        def read() -> bytes:
            with self.storage.filesystem.open_input_stream(f"{self.path}/{name}") as file:
                return bytes(file.read())

        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            note = json.loads(reached(self.path, read))["attributes"][_KEY]
            return {"fingerprint": note["fingerprint"], "arrays": list(note["arrays"])}
        return None

    def _write_note(self, name: str, fingerprint: str, arrays: Sequence[str]) -> None:
        attributes = {_KEY: {"fingerprint": fingerprint, "arrays": arrays}}
        document = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
        self.put(name, json.dumps(document, indent=2).encode(), looks=False)


def _is_of(note: Mapping[str, Any] | None, parts: Sequence[OutputPart]) -> bool:
    return note is not None and note["fingerprint"] == parts[0].fingerprint


def _known_rows(split: ScorableSplit) -> int:
    if split.n_rows is None or not split.keeps_all_rows:
        raise ValueError(
            "a Zarr array has its rows in places that are known beforehand; how many a stream has, or a "
            "filter, a split or missing='drop' leaves, is not. Write Parquet, or do without them"
        )
    return split.n_rows


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


def _in_chunks(tables: Iterable[pa.Table], n_rows: int) -> Iterator[pa.Table]:
    """Yield the rows of tables in tables of so many rows; the last may be shorter."""
    waiting = None
    for table in tables:
        waiting = table if waiting is None else pa.concat_tables([waiting, table])
        del table  # or it would be held while the next one is made
        while waiting.num_rows >= n_rows:
            yield waiting.slice(0, n_rows)
            waiting = waiting.slice(n_rows)
    if waiting is not None and waiting.num_rows:
        yield waiting


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
    dtype = np.dtype(object)
    with suppress(NotImplementedError):  # as of unions and of tensors
        dtype = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    if dtype.kind == "O":
        raise ValueError(
            f"column {field.name!r} is {kind}, which no Zarr array can hold; write Parquet, or do not keep it"
        )
    return str(dtype)


def _values_of(table: pa.Table, field: Field, array: zarr.Array[Any]) -> Any:
    """The values of a field, with the type of its array and a column for each class, if any."""
    values = np.empty((table.num_rows, *array.shape[1:]), array.dtype)
    for column, name in zip(values.reshape(table.num_rows, -1).T, field.columns, strict=True):
        column[:] = table.column(name).to_numpy()
    return values
