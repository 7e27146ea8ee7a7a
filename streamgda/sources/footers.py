"""What is to be read of each file of a Parquet dataset, planned from its footer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from streamgda.sources.base import group_into_tasks
from streamgda.sources.errors import decoding, opening
from streamgda.sources.filters import filtering
from streamgda.sources.roles import label_kind
from streamgda.sources.row_groups import ReadOptions, RowGroups
from streamgda.sources.views import without_views
from streamgda.storage.filesystems import is_local
from streamgda.storage.footers import FooterCheck, digest_of_footer, read_tail
from streamgda.storage.versions import Version, current_version

_READERS = 16  # an object store answers many requests in the time of one

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class PlannedFile:
    """The parts of a file to read, the columns and types that it stores, and the digest of its footer."""

    path: str
    splits: list[RowGroups]
    schema: pa.Schema
    footer: str


@dataclass(frozen=True)
class FilePlanner:
    """Plans files of a dataset.

    Attributes
    ----------
    dataset : pyarrow.dataset.FileSystemDataset
        Its fragments are the files.
    stored : pyarrow.Schema
        Of the first file that can be read.
    read_options : ReadOptions
        What is read of each file.
    whole : bool
        Whether all row groups of each file are of the dataset, though another reader may not know yet.
    """

    dataset: ds.FileSystemDataset
    stored: pa.Schema
    read_options: ReadOptions
    whole: bool

    def fragments(self) -> list[ds.ParquetFileFragment]:
        """The files that the filter does not rule out by their partition keys."""
        chosen = self.read_options.filter
        return list(self.dataset.get_fragments(filter=None if chosen is None else chosen.expression))

    def plan(
        self, fragments: Iterable[ds.ParquetFileFragment], versions: Mapping[str, Version] | None = None
    ) -> list[PlannedFile]:
        """Read the footers of some files, and plan what is to be read of each.

        Parameters
        ----------
        fragments : iterable of pyarrow.dataset.ParquetFileFragment
            The files.
        versions : mapping of str to Version, optional
            The versions in which they are to be read, by path; the present ones by default.
        """
        known, check = versions or {}, FooterCheck()
        return self._each(lambda file: self._plan(file, known.get(file.path), check), fragments)

    def footers(self, paths: Iterable[str]) -> list[str]:
        """The digests of the footers that files have now; "" for one that cannot be opened."""
        return self._each(self._footer, paths)

    def _each(self, function: Callable[[T], R], files: Iterable[T]) -> list[R]:
        """Apply a function to each file: in threads, unless files are local; then these would only wait."""
        if is_local(self.dataset.filesystem):
            return list(map(function, files))
        with ThreadPoolExecutor(_READERS) as readers:
            return list(readers.map(function, files))

    def _footer(self, path: str) -> str:
        try:
            with self.dataset.filesystem.open_input_file(path) as file:
                return digest_of_footer(read_tail(file))
        except OSError:
            return ""

    def fingerprint(self, schema: pa.Schema) -> str:
        """A hash of the names and types of the columns that are read of a file with this schema."""
        read = [f"{field.name}: {field.type}" for field in schema if field.name in self.read_options.columns]
        return hashlib.blake2b("\n".join(read).encode(), digest_size=16).hexdigest()

    def _plan(
        self, known: ds.ParquetFileFragment, version: Version | None, check: FooterCheck
    ) -> PlannedFile:
        path = known.path
        version = version or current_version(self.dataset.filesystem, path)
        # A fragment keeps the footer that it once read; the file may have been rewritten since.
        fragment, footer = opened_fragment(known, self.dataset.filesystem, check)
        schema, metadata = fragment.physical_schema, fragment.metadata
        partition = ds.get_partition_keys(fragment.partition_expression)
        self._check(path, schema, partition)
        groups = self._row_groups(path, self._limited(path, fragment, known))
        rows = {index: metadata.row_group(index).num_rows for index in groups}
        splits = [
            RowGroups(self.read_options, path, version, {i: rows[i] for i in run}, partition)
            for run in group_into_tasks(groups, rows.__getitem__)
        ]
        return PlannedFile(path, splits, schema, footer)

    def _limited(
        self, path: str, fragment: ds.ParquetFileFragment, known: ds.ParquetFileFragment
    ) -> ds.ParquetFileFragment:
        """The fragment with those row groups alone that a dataset made by others has of the file."""
        if self.whole:
            return fragment
        wanted = [group.id for group in known.row_groups]
        if wanted == list(range(known.metadata.num_row_groups)):
            return fragment
        if fragment.num_row_groups != known.metadata.num_row_groups:
            raise ValueError(f"{path} has other row groups than when the dataset was made; make it again")
        return fragment.subset(row_group_ids=wanted)

    def _row_groups(self, path: str, fragment: ds.ParquetFileFragment) -> list[int]:
        """The row groups whose statistics do not rule out that the filter lets rows through."""
        chosen = self.read_options.filter
        if (
            chosen is None
            or chosen.may_keep_nan
            or _has_views(fragment.physical_schema, chosen.columns.names)
        ):
            return [group.id for group in fragment.row_groups]
        with filtering(path):
            kept = fragment.split_by_row_group(chosen.expression, schema=self.dataset.schema)
        return [group.id for part in kept for group in part.row_groups]

    def _check(self, path: str, schema: pa.Schema, partition: Mapping[str, Any]) -> None:
        """Raise ValueError if the columns to read are not in a file, each once, with types that can serve."""
        times = Counter(schema.names)
        for name in self.read_options.columns:
            if times[name] > 1:
                raise ValueError(f"{path}: there is more than one column {name!r}")
            if not times[name] and name not in partition:
                raise ValueError(
                    f"{path}: there is no column {name!r}, which other files of the dataset have"
                )
            if self.whole and times[name] and name in partition:
                raise ValueError(
                    f"{path}: {name!r} is a column of this file, and elsewhere a key in folders' names; scan "
                    "the two kinds of files apart"
                )
        if not schema.equals(self.stored):  # in most files it does, and the first one has been checked
            self.read_options.roles.check_types(schema, path)
            self._check_label_kind(path, schema)

    def _check_label_kind(self, path: str, schema: pa.Schema) -> None:
        target = self.read_options.roles.target
        if target is None or target not in schema.names:
            return
        kind, first = schema.field(target).type, self.dataset.schema.field(target).type
        if pa.types.is_null(kind) or pa.types.is_null(first):
            return
        if label_kind(kind) != label_kind(first):
            raise ValueError(f"{path}: target {target!r} is {kind}, in the first file it is {first}")


def first_readable(fragments: Iterable[ds.ParquetFileFragment]) -> tuple[str, pa.Schema]:
    """The first file whose footer can be read, and the columns that it stores.

    A pass reads all the footers, and names the files that are damaged.

    Raises
    ------
    ValueError
        If none can be read; of the first one.
    """
    damaged: ValueError | None = None
    for fragment in fragments:
        try:
            with decoding(fragment.path):
                return fragment.path, fragment.physical_schema
        except ValueError as error:
            damaged = damaged or error
    raise damaged or ValueError("the dataset has no files")


def opened_fragment(
    known: ds.ParquetFileFragment, filesystem: pafs.FileSystem, check: FooterCheck
) -> tuple[ds.ParquetFileFragment, str]:
    """A fragment over the footer that a file has now, which has been read and checked.

    Beside it, the digest of the footer.

    Raises
    ------
    ValueError
        If the file is damaged or no Parquet file.
    OSError
        If the storage does not give it.
    """
    with opening(known.path):
        file = filesystem.open_input_file(known.path)
    with file, decoding(known.path):
        tail = read_tail(file)
        fragment = known.format.make_fragment(
            pa.py_buffer(tail), partition_expression=known.partition_expression
        )
        fragment.ensure_complete_metadata()
        check(tail)
    return fragment, digest_of_footer(tail)


def _has_views(schema: pa.Schema, names: Iterable[str]) -> bool:
    """Whether columns are of string or binary views, whose statistics Arrow does not compare."""
    read = pa.schema([field for field in schema if field.name in set(names)])
    return not without_views(read).equals(read)


def unified_types(names: Iterable[str], dataset: pa.Schema, files: Iterable[PlannedFile]) -> pa.Schema:
    """The types of columns that hold the values of all the files.

    Parameters
    ----------
    names : iterable of str
        The columns.
    dataset : pyarrow.Schema
        Of the dataset, with its partition keys; the types of the first file.
    files : iterable of PlannedFile
        The files, which may have columns of other types.

    Raises
    ------
    ValueError
        If no type holds the values of a column in all files; the message names a file.
    """
    types = {name: dataset.field(name).type for name in names}
    stored = {
        (name, without_views(file.schema).field(name).type): file.path
        for file in files
        for name in types
        if name in file.schema.names
    }
    for (name, kind), path in stored.items():
        types[name] = _unified(types[name], kind, f"{path}: column {name!r}")
    return pa.schema(list(types.items()))


def _unified(one: pa.DataType, other: pa.DataType, origin: str) -> pa.DataType:
    if one == other:
        return one
    pair = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other)]
    try:
        schemas = [pa.schema([("column", kind)]) for kind in pair]
        return pa.unify_schemas(schemas, promote_options="permissive").field("column").type
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{origin} is {other}, and {one} in other files; no type holds both") from error
