"""A folder of Parquet files, one for each part, with the fingerprint of the part in its footer."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streamgda.data.sources.files.errors import decoding
from streamgda.data.sources.splits import ScorableSplit
from streamgda.data.storage.footers import read_footer
from streamgda.data.storage.identity import identity_of
from streamgda.data.storage.paths import AnyFileSystem, Path
from streamgda.data.storage.reading import request_threads
from streamgda.data.storage.retries import retried, storing
from streamgda.jobs.scoring.outputs.base import Field, Output, OutputPart, PredictionSummary, Tables, Writes

_FINGERPRINT = b"streamgda.prediction"

_N_DROPPED = b"streamgda.prediction.n_dropped"

_PART = re.compile(r"part-\d{5,}\.parquet")

_MOST_COLUMNS = 1_000_000  # elements of a schema, with its root, that Thrift decodes in pyarrow

_MOST_IN_MEMORY = 1 << 24  # bytes of the tables of a part, before they are encoded


PartFooter = tuple[str, PredictionSummary]
"""What the footer of a part says: its fingerprint, its number of rows, and how many were left out."""

_TORN: PartFooter = ("", PredictionSummary())


class ParquetOutput(Output):
    """A folder of Parquet files of one schema, on any filesystem of pyarrow's or fsspec's."""

    def __init__(self, path: Path, filesystem: AnyFileSystem | None, fields: Sequence[Field]) -> None:
        if (n_columns := sum(len(field.columns) for field in fields)) >= _MOST_COLUMNS:
            raise ValueError(
                f"{n_columns:,} columns are more than pyarrow reads from a Parquet file; leave out those of "
                "each class by columns=['label'], or write to Zarr"
            )
        alike = (replace(field, type=_without_index_width(field.type)) for field in fields)
        super().__init__(path, filesystem, alike)
        for field in self.fields:
            _check_type(field)

    def parts(self, splits: Sequence[ScorableSplit], made_by: str) -> list[OutputPart]:
        """A file for each split."""
        width = max(5, len(str(len(splits) - 1)))
        return [
            OutputPart((split,), f"part-{i:0{width}}.parquet", identity_of(made_by, split))
            for i, split in enumerate(splits)
        ]

    def prepare(self, parts: Sequence[OutputPart]) -> dict[str, PredictionSummary]:
        """Remove parts of another run from the folder."""
        names = self.listed()
        wanted, footers = {part.name: part.fingerprint for part in parts}, self._footers(names)
        finished = {name: rows for name, (made_by, rows) in footers.items() if made_by == wanted.get(name)}
        self.end_others(names)
        for name in footers.keys() - finished.keys():
            self.remove(name)
        if len(finished) < len(parts):
            self.begin()
        return finished

    def _footers(self, sizes: Mapping[str, int | None]) -> dict[str, PartFooter]:
        """The footers of the parts; ValueError for a file that is not a part. Hidden files may be there.

        A file that is named like a part and cannot be read counts as a damaged part if there are other parts,
        or if it is empty. Otherwise it may be anything.
        """
        shown = [name for name in sizes if not name.startswith((".", "_"))]
        read = request_threads().map(self._footer_of, shown, map(sizes.__getitem__, shown))
        footers = dict(zip(shown, read, strict=True))
        among_parts = any(footer not in (None, _TORN) for footer in footers.values())
        for name, footer in footers.items():
            if footer is None or (footer is _TORN and not among_parts and sizes[name]):
                raise self.foreign(name)
        return {name: footer for name, footer in footers.items() if footer is not None}

    def _footer_of(self, name: str, size: int | None) -> PartFooter | None:
        """What a footer says; None for a file that is no part. One request, since the size is known."""
        path = f"{self.path}/{name}"
        if not _PART.fullmatch(name):
            return None

        def metadata() -> pq.FileMetaData:
            with decoding(path):
                filesystem = self.storage.filesystem
                return ds.ParquetFileFormat().make_fragment(path, filesystem, file_size=size).metadata

        try:
            return _said_by(retried(metadata))
        except ValueError:  # damaged; or fewer bytes came, which Arrow does not see, and `read_footer` does
            try:
                with decoding(path):
                    footer = retried(partial(read_footer, self.storage, path))
                    return _said_by(ds.ParquetFileFormat().make_fragment(pa.py_buffer(footer.tail)).metadata)
            except ValueError:
                return _TORN

    def write(self, part: OutputPart, rows: Tables, writes: Writes) -> PredictionSummary:
        """Encode a part in memory, and write it in another thread; a long one is written table by table."""
        rows, first, n_bytes = iter(rows), deque[tuple[pa.Table, int]](), 0
        while n_bytes <= _MOST_IN_MEMORY and (made := next(rows, None)):
            first.append(made)
            n_bytes += made[0].nbytes
        made, is_short = None, n_bytes <= _MOST_IN_MEMORY
        summary = PredictionSummary(n_parts=1)
        repetitive = [column.name for column in self.schema if not pa.types.is_floating(column.type)]
        with ExitStack() as stack:
            with self.naming():
                place = self.storage.replacing(f"{self.path}/{part.name}", run=self.run)
                file = pa.BufferOutputStream() if is_short else stack.enter_context(place)
                writing = pq.ParquetWriter(file, self.schema, use_dictionary=repetitive)
                writer = stack.enter_context(writing)
            while made := first.popleft() if first else next(rows, None):
                with self.naming(), storing():
                    writer.write_table(made[0])
                summary += PredictionSummary(made[0].num_rows, n_dropped=made[1])
                made = None  # or it would be held while the next one is made
            metadata = {_FINGERPRINT: part.fingerprint, _N_DROPPED: str(summary.n_dropped)}
            writer.add_key_value_metadata(metadata)
            with self.naming():
                stack.close()
        if is_short:
            content = file.getvalue()
            writes.begin(content.size, self.put, part.name, content)
        return summary

    def finish(self, parts: Sequence[OutputPart]) -> None:
        """Check that the folder holds just these parts."""
        there = {name: made_by for name, (made_by, _) in self._footers(self.listed()).items()}
        if there != {part.name: part.fingerprint for part in parts}:
            raise self.overwritten()


def _said_by(footer: pq.FileMetaData) -> PartFooter | None:
    metadata = footer.metadata or {}
    if _FINGERPRINT not in metadata:
        return None
    n_dropped = int(metadata.get(_N_DROPPED, b"0"))
    return metadata[_FINGERPRINT].decode(), PredictionSummary(footer.num_rows, 1, 1, n_dropped)


def _check_type(field: Field) -> None:
    """Raise ValueError for a type that pyarrow does not write: it may say so only where there are rows."""
    try:
        pq.write_table(pa.table({field.name: pa.nulls(1, field.type)}), pa.BufferOutputStream())
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"column {field.name!r} is {field.type}, which pyarrow does not write to Parquet; do not keep it"
        ) from error


def _without_index_width(kind: pa.DataType) -> pa.DataType:
    """A type that all parts can have: parts have different numbers of categories, so indices are int32."""
    return pa.dictionary(pa.int32(), kind.value_type) if pa.types.is_dictionary(kind) else kind
