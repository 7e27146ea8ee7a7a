"""A folder of Parquet files written part by part, each wholly or not at all, and known again later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from typing import Any, Self

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from streamgda.scoring.outputs.base import Field, Output, Part, fingerprint_of, schema_of
from streamgda.sources.base import FileSource, ScorableSplit, Source
from streamgda.storage.atomic import finished_name, replacing
from streamgda.storage.filesystems import fsspec_of, resolve

_KEY = b"streamgda.prediction"

_FOOTER_READERS = 16

_PART = re.compile(r"part-\d{5,}\.parquet")


@dataclass(frozen=True)
class ParquetOutput(Output[Part]):
    """The folder, on any filesystem of pyarrow's or fsspec's."""

    filesystem: pafs.FileSystem
    path: str
    schema: pa.Schema

    @classmethod
    def at(cls, path: str | PathLike[str], filesystem: Any, fields: Sequence[Field]) -> Self:
        """The folder at a path or URL."""
        return cls(*resolve(path, filesystem), schema_of(fields))

    def feeds(self, source: Source) -> bool:
        """Whether the source reads files of this folder, or would."""
        return isinstance(source, FileSource) and source.overlaps(self.filesystem, self.path)

    def parts(self, splits: Sequence[ScorableSplit], made_by: Any) -> list[Part]:
        """A file for each split."""
        width = max(5, len(str(len(splits) - 1)))
        return [
            Part(split, f"part-{i:0{width}}.parquet", fingerprint_of([made_by, split.identity]))
            for i, split in enumerate(splits)
        ]

    def prepare(self, parts: Sequence[Part]) -> dict[str, int]:
        """Make the folder, and remove from it what is not one of these parts, or not whole."""
        fingerprints = {part.name: part.fingerprint for part in parts}
        self.filesystem.create_dir(self.path, recursive=True)
        names = self._names()
        unfinished = [name for name in names if _PART.fullmatch(finished_name(name) or "")]
        visible = [name for name in names if not name.startswith((".", "_"))]
        with ThreadPoolExecutor(_FOOTER_READERS) as readers:
            found = dict(zip(visible, readers.map(self._look_at, visible), strict=True))
        for name in (name for name, part in found.items() if part is None):
            raise ValueError(
                f"{self.path} holds {name}, which is no part of predictions; choose a folder of their own"
            )
        done = {name: part[1] for name, part in found.items() if part and fingerprints.get(name) == part[0]}
        for name in (*unfinished, *(found.keys() - done.keys())):
            self.filesystem.delete_file(f"{self.path}/{name}")
        return done

    def _names(self) -> list[str]:
        if (behind := fsspec_of(self.filesystem)) is not None:
            behind.invalidate_cache()  # or it may tell what it saw when it last looked
        found = self.filesystem.get_file_info(pafs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def _look_at(self, name: str) -> tuple[str, int] | None:
        """The fingerprint and the rows of a part; None for what is not one."""
        if not _PART.fullmatch(name):
            return None
        try:
            with self.filesystem.open_input_file(f"{self.path}/{name}") as file:
                footer = pq.read_metadata(file)
        except (pa.ArrowException, OSError):
            return None
        mark = (footer.metadata or {}).get(_KEY)
        return None if mark is None else (mark.decode(), footer.num_rows)

    def write(self, part: Part, tables: Iterable[pa.Table]) -> int:
        """Write a part under a hidden name, and rename it when it is whole."""
        with replacing(self.filesystem, f"{self.path}/{part.name}") as file:
            return self._write_file(file, part.fingerprint, tables)

    def _write_file(self, file: pa.NativeFile, fingerprint: str, tables: Iterable[pa.Table]) -> int:
        tables = iter(tables)
        first = next(tables, self.schema.empty_table())  # a file without rows is a part too
        marked = first.schema.with_metadata({_KEY: fingerprint})
        tables = chain([first], tables)
        del first  # or it would be held to the end
        n_rows = 0
        with pq.ParquetWriter(file, marked, use_dictionary=_repetitive(marked)) as writer:
            for table in tables:
                writer.write_table(table.replace_schema_metadata(marked.metadata).cast(marked))
                n_rows += table.num_rows
        return n_rows


def _repetitive(schema: pa.Schema) -> list[str]:
    """The columns that a dictionary may make smaller; one of float64 digits is larger than they are."""
    return [field.name for field in schema if not pa.types.is_floating(field.type)]
