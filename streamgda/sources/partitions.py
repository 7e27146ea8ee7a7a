"""The files of a Parquet dataset, with the hive keys in the names of their folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from streamgda.sources.discovery import FoundFiles
from streamgda.sources.errors import decoding, opening
from streamgda.sources.filters import Filter
from streamgda.sources.row_groups import without_views
from streamgda.storage.footers import read_footer
from streamgda.storage.retries import retried
from streamgda.storage.versions import Version

FORMAT = ds.ParquetFileFormat()

_NULL = "__HIVE_DEFAULT_PARTITION__"


class FirstFile(NamedTuple):
    """The first file that can be read: its path, the columns that it stores, its footer and its version."""

    path: str
    schema: pa.Schema
    tail: bytes
    version: Version


class ListedFile(NamedTuple):
    """A file to plan.

    `expression` holds the partition keys and their values. `version` is the version to read; None is the
    present one. `wanted` holds the row groups to read, and how many the file has; None is all of them.
    """

    path: str
    expression: ds.Expression
    version: Version | None = None
    wanted: tuple[list[int], int] | None = None


@dataclass(frozen=True, eq=False)
class DatasetFiles:
    """The files of a dataset, in order.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where they are.
    paths : sequence of str
        Their paths.
    first : FirstFile
        The first one that can be read.
    schema : pyarrow.Schema
        The columns of the first file, and the keys that are not columns of it.
    expressions : mapping of str to pyarrow.dataset.Expression
        The keys, by folder; by path if the user gave a pyarrow dataset.
    fragments : mapping of str to pyarrow.dataset.ParquetFileFragment
        The files of a pyarrow dataset, by path; empty for found files.
    found : FoundFiles or None
        Where the files were found; None for a pyarrow dataset.
    """

    filesystem: pafs.FileSystem
    paths: Sequence[str]
    first: FirstFile
    schema: pa.Schema
    expressions: Mapping[str, ds.Expression]
    fragments: Mapping[str, ds.ParquetFileFragment]
    found: FoundFiles | None = None

    @classmethod
    def of_found(cls, found: FoundFiles) -> DatasetFiles:
        """Found files, with the hive keys of their paths, except keys that are columns of the files too.

        The value in a row is used, and not the one in the name of its folder.
        """
        first = _first_readable(found.filesystem, found.paths)
        folders = dict.fromkeys(map(_folder, found.paths))
        inside = {folder: f"{folder.removeprefix(found.folder)}/file" for folder in folders}
        keys = _types_of_keys(inside.values(), first.schema.names)
        partitioning = ds.HivePartitioning(keys)
        expressions = {folder: partitioning.parse(path) for folder, path in inside.items()}
        schema = without_views(pa.schema([*first.schema, *keys]))
        return cls(found.filesystem, found.paths, first, schema, expressions, {}, found)

    @classmethod
    def of_dataset(cls, dataset: ds.FileSystemDataset) -> DatasetFiles:
        """The files of a pyarrow dataset."""
        fragments = {fragment.path: fragment for fragment in dataset.get_fragments()}
        expressions = {path: fragment.partition_expression for path, fragment in fragments.items()}
        first = _first_readable(dataset.filesystem, fragments)
        schema = without_views(dataset.schema)
        return cls(dataset.filesystem, list(fragments), first, schema, expressions, fragments)

    def chosen(self, chosen: Filter | None) -> Sequence[str]:
        """The files that a filter does not rule out by their keys."""
        if chosen is None:
            return self.paths
        places = list(self.expressions)
        stand_ins = ds.FileSystemDataset.from_paths(
            list(map(str, range(len(places)))),
            schema=self.schema,
            format=FORMAT,
            filesystem=self.filesystem,
            partitions=list(self.expressions.values()),
        )
        left = {places[int(part.path)] for part in stand_ins.get_fragments(filter=chosen.expression)}
        return [path for path in self.paths if self._place(path) in left]

    def keys(self, path: str) -> dict[str, Any]:
        """The keys of a file and their values."""
        return self._keys[self._place(path)]

    @cached_property
    def _keys(self) -> dict[str, dict[str, Any]]:
        return {place: ds.get_partition_keys(found) for place, found in self.expressions.items()}

    def listed(
        self, paths: Iterable[str], versions: Mapping[str, Version] | None = None
    ) -> Iterator[ListedFile]:
        """Yield some of the files to plan, in the versions to read; the present ones by default."""
        known = versions or {}
        for path in paths:
            fragment, wanted = self.fragments.get(path), None
            if fragment is not None:
                with decoding(path):
                    groups = [group.id for group in fragment.row_groups]
                    n_groups = fragment.metadata.num_row_groups
                wanted = None if groups == list(range(n_groups)) else (groups, n_groups)
            yield ListedFile(path, self.expressions[self._place(path)], known.get(path), wanted)

    def _place(self, path: str) -> str:
        """The key of a file in `expressions`."""
        return path if self.fragments else _folder(path)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _types_of_keys(paths: Iterable[str], stored: Sequence[str]) -> pa.Schema:
    """The types of hive keys that are not columns of the files: int32 if all values fit, else string."""
    values: dict[str, list[str]] = {}
    for path in paths:
        for part in path.split("/")[:-1]:
            name, equals, value = part.partition("=")
            if equals and (name := unquote(name)) not in stored:
                values.setdefault(name, []).extend([] if value == _NULL else [unquote(value)])
    return pa.schema([(name, _type_of(found)) for name, found in values.items()])


def _type_of(values: list[str]) -> pa.DataType:
    try:
        pa.array(values, pa.string()).cast(pa.int32())
    except pa.ArrowInvalid:
        return pa.string()
    return pa.int32() if values else pa.string()


def _first_readable(filesystem: pafs.FileSystem, paths: Iterable[str]) -> FirstFile:
    """The first file whose footer can be read. A pass reads all the footers, and names the damaged files.

    Raises
    ------
    ValueError
        If none can be read. It is the error of the first one.
    """
    damaged: ValueError | None = None
    for path in paths:
        try:
            tail, version = open_footer(filesystem, path)
            with decoding(path):
                schema = FORMAT.make_fragment(pa.py_buffer(tail)).physical_schema
        except ValueError as error:
            damaged = damaged or error
        else:
            return FirstFile(path, schema, tail, version)
    raise damaged or ValueError("the dataset has no files")


def open_footer(filesystem: pafs.FileSystem, path: str) -> tuple[bytes, Version]:
    """Read the end of a file, and its version. They are read again if the storage fails for a moment."""
    with opening(path):
        return retried(lambda: read_footer(filesystem, path), place=path)
