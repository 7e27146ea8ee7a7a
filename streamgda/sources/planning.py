"""The files of a Parquet dataset, and what is to be read of each, planned from its footer.

The keys of partitions stand in the names of the files' folders. Footers are decoded some files at a time,
here or on the workers of a cluster. Of each file only its version, its row groups and their rows are kept;
files with equal schemas share one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import and_, itemgetter
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from streamgda.sources.base import Map, group_into_tasks
from streamgda.sources.discovery import FoundFiles, field_numbers
from streamgda.sources.errors import decoding, opening
from streamgda.sources.expressions import Filter, filtering
from streamgda.sources.roles import label_kind
from streamgda.sources.row_groups import VIEWS, ReadOptions, without_views
from streamgda.storage.filesystems import Storage, Version, conceal
from streamgda.storage.footers import Footer, digest_of_footer, read_footer
from streamgda.storage.retries import noting_retries, retried, warning_of_retries
from streamgda.storage.secrets import concealing
from streamgda.storage.threads import DaemonThreads, wait_for

_FORMAT = ds.ParquetFileFormat()

_NULL = "__HIVE_DEFAULT_PARTITION__"

_FILES_OF_TASK = 128

_READERS = 25  # an object store answers many requests in the time of one; Arrow's client of S3 has 25

T = TypeVar("T")

R = TypeVar("R")


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
    storage : Storage
        Where they are.
    paths : sequence of str
        Their paths.
    first : tuple of str and Footer
        The path and the footer of the first one that can be read.
    stored : pyarrow.Schema
        The columns that it stores.
    schema : pyarrow.Schema
        The columns of the first file, and the keys that are not columns of it.
    expressions : mapping of str to pyarrow.dataset.Expression
        The keys, by folder; by path if the user gave a table or a pyarrow dataset.
    fragments : mapping of str to pyarrow.dataset.ParquetFileFragment
        The files of a pyarrow dataset, by path; empty for found files.
    found : FoundFiles or None
        Where the files were found; None for a pyarrow dataset.
    """

    storage: Storage
    paths: Sequence[str]
    first: tuple[str, Footer]
    stored: pa.Schema
    schema: pa.Schema
    expressions: Mapping[str, ds.Expression]
    fragments: Mapping[str, ds.ParquetFileFragment]
    found: FoundFiles | None = None

    @classmethod
    def of_found(cls, found: FoundFiles) -> DatasetFiles:
        """Found files, with the hive keys of their paths, except keys that are columns of the files too.

        The value in a row is used, and not the one in the name of its folder.
        """
        first = _first_readable(found.storage, found.paths)
        stored = first[1].schema
        if found.columns is not None:
            return cls._of_table(found, found.columns, first)
        folders = dict.fromkeys(map(_folder, found.paths))
        inside = {folder: f"{folder.removeprefix(found.folder)}/file" for folder in folders}
        keys = _types_of_keys(inside.values(), stored.names)
        partitioning = ds.HivePartitioning(keys)
        expressions = {folder: partitioning.parse(path) for folder, path in inside.items()}
        schema = without_views(pa.schema([*stored, *keys]))
        return cls(found.storage, found.paths, first, stored, schema, expressions, {}, found)

    @classmethod
    def _of_table(cls, found: FoundFiles, columns: pa.Schema, first: tuple[str, Footer]) -> DatasetFiles:
        """The files of a table, which has columns and keys of its own. Types are those in the first file."""
        stored = {field.name: field.type for field in first[1].schema}
        columns = pa.schema([column.with_type(stored.get(column.name, column.type)) for column in columns])
        keys = {
            path: {name: value for name, value in pairs.items() if name not in stored}
            for path, pairs in found.keys.items()
        }
        own = pa.schema([column for column in columns if column.name not in keys[first[0]]])
        expressions = {path: _all_hold(pairs) for path, pairs in keys.items()}
        return cls(found.storage, found.paths, first, own, without_views(columns), expressions, {}, found)

    @classmethod
    def of_dataset(cls, dataset: ds.FileSystemDataset) -> DatasetFiles:
        """The files of a pyarrow dataset."""
        found = list(dataset.get_fragments())
        storage, paths = conceal(Storage(dataset.filesystem), [fragment.path for fragment in found])
        fragments = dict(zip(paths, found, strict=True))
        expressions = {path: fragment.partition_expression for path, fragment in fragments.items()}
        first = _first_readable(storage, fragments)
        schema = without_views(dataset.schema)
        return cls(storage, list(fragments), first, first[1].schema, schema, expressions, fragments)

    def chosen(self, chosen: Filter | None) -> Sequence[str]:
        """The files that a filter does not rule out by their keys."""
        if chosen is None:
            return self.paths
        places = list(self.expressions)
        stand_ins = ds.FileSystemDataset.from_paths(
            list(map(str, range(len(places)))),
            schema=self.schema,
            format=_FORMAT,
            filesystem=self.storage.filesystem,
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
                    concealing([fragment.path], fragment.ensure_complete_metadata)
                    groups = [group.id for group in fragment.row_groups]
                    n_groups = fragment.metadata.num_row_groups
                wanted = None if groups == list(range(n_groups)) else (groups, n_groups)
            yield ListedFile(path, self.expressions[self._place(path)], known.get(path), wanted)

    def _place(self, path: str) -> str:
        """The key of a file in `expressions`."""
        return path if path in self.expressions else _folder(path)


def _all_hold(keys: Mapping[str, pa.Scalar]) -> ds.Expression:
    """The expression that is true where the keys have these values."""
    each = (ds.field(k) == value if value.is_valid else ds.field(k).is_null() for k, value in keys.items())
    return reduce(and_, each, ds.scalar(True))


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


def _first_readable(storage: Storage, paths: Iterable[str]) -> tuple[str, Footer]:
    """The first file whose footer can be read. A pass reads all the footers, and names the damaged files.

    Raises
    ------
    ValueError
        If none can be read. It is the error of the first one.
    """
    damaged: ValueError | None = None
    for path in paths:
        try:
            read = partial(_read_footer, storage, path)
            return path, read() if storage.is_local else wait_for(read)
        except ValueError as error:
            damaged = damaged or error
    raise damaged or ValueError("the dataset has no files")


def _read_footer(storage: Storage, path: str) -> Footer:
    """Read, decode and check the footer of a file. It is read again if the storage fails for a moment."""
    with opening(path):
        tail, version = retried(partial(read_footer, storage, path), place=path)
    with decoding(path):
        return Footer.of(tail, version)


# ---------------------------------------------------------------------- what is read of each file


class PlannedFile(NamedTuple):
    """The parts of a file to read, its columns, and its footer's digest.

    Each part is a run of row groups: their numbers and rows, as `RowGroups` has them; the rows and the bytes
    of all of them.
    """

    path: str
    version: Version
    runs: list[tuple[bytes, int, int]]
    schema: pa.Schema
    footer: str


@dataclass(frozen=True)
class FilePlanner:
    """Plans files of a dataset.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the dataset, partition keys included.
    stored : pyarrow.Schema
        The columns that the first readable file stores.
    first : tuple of str and Footer, or None
        The path and the footer of that file, which is not read again while it is unchanged.
    read_options : ReadOptions
        What is read of each file.
    whole : bool
        Whether the dataset holds all row groups of its files. A pyarrow dataset may hold some of them.
    numbers : mapping of str to bytes
        The numbers of the columns of an Iceberg table.
    """

    schema: pa.Schema
    stored: pa.Schema
    first: tuple[str, Footer] | None
    read_options: ReadOptions
    whole: bool
    numbers: Mapping[str, bytes] = field(default_factory=dict)

    def plan(self, files: Iterable[ListedFile], each: Map = map) -> Iterator[PlannedFile]:
        """Read the footers of some files, and plan what is to be read of each.

        Parameters
        ----------
        files : iterable of ListedFile
            The files.
        each : callable, default=map
            Applies a function to lists of files, in order: `map`, or one that does so on the workers of a
            cluster.
        """
        batches = _batches(list(files))
        planner = self if each is map else replace(self, first=None)
        schemas: list[pa.Schema] = []
        retries: list[str] = []
        for batch, (planned, noted) in zip(batches, each(planner.plan_batch, batches), strict=True):
            retries += noted
            for file, plan in zip(batch, planned, strict=True):  # so that each path is in memory once
                yield plan._replace(path=file.path, schema=_shared(plan.schema, schemas))
        with warning_of_retries() as warned_of:
            warned_of.extend(retries)

    def plan_batch(self, files: Sequence[ListedFile]) -> tuple[list[PlannedFile], list[str]]:
        """One task: plan some files. Return the plans, and the errors after which storage was asked again."""
        schemas: list[pa.Schema] = []
        with noting_retries() as noted:
            planned = self._each(self._plan, files)
            return [file._replace(schema=_shared(file.schema, schemas)) for file in planned], noted

    def footers(self, paths: Sequence[str], each: Map = map) -> list[str]:
        """The digests of the footers that files have now; "" for one that cannot be opened."""
        planner = replace(self, first=None)
        digests = each(partial(planner._each, planner._digest), _batches(paths))
        return [digest for batch in digests for digest in batch]

    def _each(self, function: Callable[[T], R], files: Sequence[T]) -> list[R]:
        """Apply a function to each file: in threads if files are remote; local files gain nothing by them."""
        if self.read_options.storage.is_local:
            return list(map(function, files))
        with DaemonThreads(_READERS, "streamgda-planning") as readers:
            return list(readers.map(function, files))

    def _digest(self, path: str) -> str:
        try:
            with opening(path):
                read = partial(read_footer, self.read_options.storage, path)
                return digest_of_footer(retried(read, place=path)[0])
        except OSError:
            return ""

    def fingerprint(self, schema: pa.Schema) -> str:
        """A hash of the names and types of the columns that are read from a file with this schema."""
        read = [f"{field.name}: {field.type}" for field in schema if field.name in self.read_options.columns]
        return hashlib.blake2b("\n".join(read).encode(), digest_size=16).hexdigest()

    def _plan(self, file: ListedFile) -> PlannedFile:
        footer = self._footer(file.path)
        self._check(file.path, footer.schema, ds.get_partition_keys(file.expression))
        wanted = self._row_groups(file, footer)
        found = zip(wanted, map(footer.metadata.row_group, wanted), strict=True)
        groups = [(index, group.num_rows, group.total_byte_size) for index, group in found]
        columns = (np.array(run, np.int64).T for run in group_into_tasks(groups, n_rows=itemgetter(1)))
        runs = [(run[:2].tobytes(), *run[1:].sum(axis=1).tolist()) for run in columns]
        return PlannedFile(file.path, file.version or footer.version, runs, footer.schema, footer.digest)

    def _footer(self, path: str) -> Footer:
        """The footer that a file has now."""
        storage, (first, footer) = self.read_options.storage, self.first or ("", None)
        if footer is not None and path == first and footer.version.tells_content:
            with opening(path):
                present = retried(partial(storage.version, path), place=path)
            if present == footer.version:
                return footer
        return _read_footer(storage, path)

    def _row_groups(self, file: ListedFile, footer: Footer) -> list[int]:
        """The row groups in which rows may pass the filter, by their statistics.

        A pyarrow dataset may hold only some row groups of a file. Then these are read.
        """
        chosen = self.read_options.filter
        if file.wanted is not None:
            wanted, known = file.wanted
            if footer.metadata.num_row_groups != known:
                raise ValueError(
                    f"{file.path} has other row groups than when the dataset was made; make it again"
                )
            return wanted
        every = list(range(footer.metadata.num_row_groups))
        if chosen is None or chosen.passes_beyond_statistics:
            return every
        if any(field.type in VIEWS for field in footer.schema if field.name in chosen.columns.names):
            return every  # Arrow does not compare the statistics of views
        fragment = _FORMAT.make_fragment(pa.py_buffer(footer.tail), partition_expression=file.expression)
        with filtering(file.path):
            kept = fragment.split_by_row_group(chosen.expression, schema=self.schema)
        return [group.id for part in kept for group in part.row_groups]

    def _check(self, path: str, schema: pa.Schema, partition: Mapping[str, Any]) -> None:
        """Raise ValueError if the columns to read are not in a file, each once, with types that can serve."""
        times, numbers = Counter(schema.names), field_numbers(schema) if self.numbers else {}
        for name in self.read_options.columns:
            if numbers.get(name, number := self.numbers.get(name)) != number:
                raise ValueError(
                    f"{path}: {name!r} is a column that was renamed or dropped, and the table has another "
                    "of this name; rewrite the file, or use scan_arrow(scan.to_arrow_batch_reader(), ...)"
                )
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
        # Most files have the schema of the first one, which has been checked.
        if not schema.equals(self.stored):
            self.read_options.roles.check_types(schema, path)
            self._check_label_kind(path, schema)

    def _check_label_kind(self, path: str, schema: pa.Schema) -> None:
        target = self.read_options.roles.target
        if target is None or target not in schema.names:
            return
        kind, first = schema.field(target).type, self.schema.field(target).type
        if pa.types.is_null(kind) or pa.types.is_null(first):
            return
        if label_kind(kind) != label_kind(first):
            raise ValueError(f"{path}: target {target!r} is {kind}, in the first file it is {first}")


def _batches(files: Sequence[T]) -> list[Sequence[T]]:
    return [files[i : i + _FILES_OF_TASK] for i in range(0, len(files), _FILES_OF_TASK)]


def _shared(schema: pa.Schema, known: list[pa.Schema]) -> pa.Schema:
    """The one of the known schemas that equals this one; it becomes known if there is none."""
    found = next((other for other in known if other.equals(schema)), None)
    if found is None:
        found = schema.remove_metadata()
        known.append(found)
    return found


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
