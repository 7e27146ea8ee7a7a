"""A folder of Parquet files, one for each part, with the fingerprint of the part in its footer."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from streamgda.scoring.outputs.base import Field, Output, Part, PredictedRows, PredictionSummary, Writes
from streamgda.sources.base import ScorableSplit
from streamgda.sources.errors import decoding
from streamgda.storage.documents import digest
from streamgda.storage.fetching import request_threads
from streamgda.storage.filesystems import Storage, finished_name, reached, resolve
from streamgda.storage.footers import read_footer
from streamgda.storage.paths import AnyFileSystem, Path
from streamgda.storage.retries import retried, storing

_FINGERPRINT = b"streamgda.prediction"

_N_DROPPED = b"streamgda.prediction.n_dropped"

_PART = re.compile(r"part-\d{5,}\.parquet")

_HIDDEN = (".", "_")

_MOST_COLUMNS = 1_000_000  # elements of a schema, with its root, that Thrift decodes in pyarrow

_MOST_IN_MEMORY = 1 << 24  # bytes of an encoded part


Footer = tuple[str, PredictionSummary]
"""What the footer of a part says: its fingerprint, its number of rows, and how many were left out."""

_TORN: Footer = ("", PredictionSummary())


@dataclass(frozen=True)
class ParquetOutput(Output[Part]):
    """A folder of Parquet files of one schema, on any filesystem of pyarrow's or fsspec's."""

    storage: Storage
    path: str
    fields: tuple[Field, ...]

    @classmethod
    def at(cls, path: Path, filesystem: AnyFileSystem | None, fields: Sequence[Field]) -> Self:
        """The folder at a path or URL."""
        if (n_columns := sum(len(field.columns) for field in fields)) >= _MOST_COLUMNS:
            raise ValueError(
                f"{n_columns:,} columns are more than pyarrow reads from a Parquet file; leave out those of "
                "each class by columns=['label'], or write to Zarr"
            )
        alike = tuple(replace(field, type=_without_index_width(field.type)) for field in fields)
        storage, name = resolve(path, filesystem)
        return cls(*storage.unwrapped(name), alike)

    @property
    def location(self) -> tuple[Storage, str]:
        """The filesystem, and the folder on it."""
        return self.storage, self.path

    # ------------------------------------------------------------------ before writing

    def parts(self, splits: Sequence[ScorableSplit], made_by: Any) -> list[Part]:
        """A file for each split."""
        width = max(5, len(str(len(splits) - 1)))
        return [
            Part((split,), f"part-{i:0{width}}.parquet", digest([made_by, split.identity]))
            for i, split in enumerate(splits)
        ]

    def prepare(self, parts: Sequence[Part]) -> dict[str, PredictionSummary]:
        """Remove unfinished parts and those of another run from the folder."""
        sizes = self._sizes()
        footers = self._footers(sizes)
        self._check_ours(sizes, footers)
        by_name = {part.name: part.fingerprint for part in parts}
        finished = {name: rows for name, (made_by, rows) in footers.items() if made_by == by_name.get(name)}
        self._delete([*filter(_is_unfinished, sizes), *(footers.keys() - finished.keys())])
        return finished

    def _sizes(self) -> dict[str, int]:
        """The names in the folder, with the sizes of the files."""
        self.storage.forget_listings()  # other processes may have written there since it was listed
        selector = pafs.FileSelector(self.path, allow_not_found=True)
        infos = reached(self.path, partial(self.storage.filesystem.get_file_info, selector))
        return {info.base_name: info.size for info in infos}

    def _footers(self, sizes: Mapping[str, int]) -> dict[str, Footer]:
        """The footers of the files named like parts, except Parquet files that are not predictions."""
        names = [name for name in sizes if _PART.fullmatch(name)]
        footers = request_threads().map(self._read_footer, names, map(sizes.__getitem__, names))
        return {name: footer for name, footer in zip(names, footers, strict=True) if footer is not None}

    def _read_footer(self, name: str, size: int) -> Footer | None:
        """Read what a footer says, by one request, since the size of the file is known."""
        path = f"{self.path}/{name}"

        def metadata() -> pq.FileMetaData:
            with decoding(path):
                filesystem = self.storage.filesystem
                return ds.ParquetFileFormat().make_fragment(path, filesystem, file_size=size).metadata

        try:
            return _footer_of(retried(metadata))
        except ValueError:  # damaged; or fewer bytes came, which Arrow does not see
            return self._reread_footer(name)

    def _reread_footer(self, name: str) -> Footer | None:
        """Read what a footer says, and notice if fewer bytes come than there are."""
        path = f"{self.path}/{name}"
        try:
            with decoding(path):
                tail, *_ = retried(partial(read_footer, self.storage, path))
                return _footer_of(ds.ParquetFileFormat().make_fragment(pa.py_buffer(tail)).metadata)
        except ValueError:
            return _TORN

    def _check_ours(self, sizes: Mapping[str, int], footers: Mapping[str, Footer]) -> None:
        """Raise ValueError for a file that is not a part. Hidden files may be there, and stay.

        A file that is named like a part and cannot be read counts as a damaged part if there are other parts,
        or if it is empty. Otherwise it may be anything.
        """
        among_parts = any(footer is not _TORN for footer in footers.values())
        for name, size in sorted(sizes.items()):
            ours = name in footers and (among_parts or size == 0)
            if not ours and not name.startswith(_HIDDEN):
                raise ValueError(
                    f"{self.path} holds {name}, which is no part of predictions; choose a folder of their own"
                )

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            path = f"{self.path}/{name}"
            with suppress(FileNotFoundError):
                reached(path, partial(self.storage.filesystem.delete_file, path))

    # ------------------------------------------------------------------ writing

    def write(self, part: Part, rows: Iterable[PredictedRows], writes: Writes) -> PredictionSummary:
        """Encode a part in memory, and write it in another thread. A long one is written meanwhile.

        The file gets its name when it is complete.
        """
        n_rows = n_dropped = 0
        path, schema = f"{self.path}/{part.name}", self.schema
        with ExitStack() as stack:
            file = _GrowingFile(lambda: stack.enter_context(self.storage.replacing(path)), self.naming)
            with pq.ParquetWriter(file, schema, use_dictionary=_repetitive(schema)) as writer:
                for piece in rows:
                    writer.write_table(piece.table)
                    n_rows, n_dropped = n_rows + piece.table.num_rows, n_dropped + piece.n_dropped
                    del piece  # or it would be held while the next one is made
                writer.add_key_value_metadata({_FINGERPRINT: part.fingerprint, _N_DROPPED: str(n_dropped)})
            with self.naming():
                stack.close()
        if file.real_file is None:
            writes.begin(file.tell(), _put, self.storage, path, file.getvalue())
        return PredictionSummary(n_rows, 1, 0, n_dropped)

    def finish(self, parts: Sequence[Part]) -> None:
        """Check that the folder holds just these parts, and remove unfinished ones."""
        sizes = self._sizes()
        fingerprints = {name: footer[0] for name, footer in self._footers(sizes).items()}
        by_name = {part.name: part.fingerprint for part in parts}
        for name in (name for name in fingerprints if fingerprints[name] != by_name.get(name)):
            fingerprints[name] = (self._reread_footer(name) or _TORN)[0]
        if fingerprints != by_name:
            raise self._overwritten()
        self._delete(filter(_is_unfinished, sizes))


def _footer_of(footer: pq.FileMetaData) -> Footer | None:
    metadata = footer.metadata or {}
    if _FINGERPRINT not in metadata:
        return None
    n_dropped = int(metadata.get(_N_DROPPED, b"0"))
    return metadata[_FINGERPRINT].decode(), PredictionSummary(footer.num_rows, 1, 1, n_dropped)


class _GrowingFile(io.BytesIO):
    """A file that is collected in memory. Once it is long, a real file is opened and written instead."""

    def __init__(
        self, open_it: Callable[[], pa.NativeFile], naming: Callable[[], AbstractContextManager[None]]
    ) -> None:
        super().__init__()
        self._open_it, self._naming = open_it, naming
        self.real_file: pa.NativeFile | None = None

    def write(self, data: Any) -> int:
        """Add bytes."""
        with self._naming():
            return self._write(data)

    def _write(self, data: Any) -> int:
        if self.real_file is None and self.tell() + len(data) > _MOST_IN_MEMORY:
            self.real_file = self._open_it()
            with storing():
                self.real_file.write(self.getvalue())
            self.seek(0)
            self.truncate()
        if self.real_file is None:
            return super().write(data)
        with storing():
            return int(self.real_file.write(data))


def _put(storage: Storage, path: str, content: bytes) -> None:
    with storage.replacing(path, in_memory=True) as file:
        file.write(content)


def _is_unfinished(name: str) -> bool:
    return name.startswith(".") and _PART.fullmatch(finished_name(name) or "") is not None


def _without_index_width(kind: pa.DataType) -> pa.DataType:
    """A type that all parts can have: parts have different numbers of categories, so indices are int32."""
    return pa.dictionary(pa.int32(), kind.value_type) if pa.types.is_dictionary(kind) else kind


def _repetitive(schema: pa.Schema) -> list[str]:
    """The columns that a dictionary may make smaller: not floats, which seldom repeat."""
    return [field.name for field in schema if not pa.types.is_floating(field.type)]
