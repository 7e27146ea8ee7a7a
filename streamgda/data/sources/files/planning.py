"""The files of a Parquet dataset, and what is to be read of each, planned from its footer.

The keys of partitions stand in the names of the files' folders. Footers are decoded some files at a time,
here or on the workers of a cluster. Of each file only its version, its row groups and their rows are kept;
files with equal schemas share one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from hashlib import blake2b
from itertools import chain, islice, product, repeat, starmap
from operator import and_, attrgetter, itemgetter
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streamgda.data.blocks.types import decoded_schema, decoded_type
from streamgda.data.sources.base import MapFunction
from streamgda.data.sources.columns.choosing import check_types
from streamgda.data.sources.columns.expressions import Filter, filtering
from streamgda.data.sources.columns.lists import has_no_list
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.columns.types import FIRST_ROWS, label_kind
from streamgda.data.sources.files.discovery import HAS_DEFAULT, Listing, Location, field_numbers
from streamgda.data.sources.files.errors import decoding, opening
from streamgda.data.sources.files.keys import (
    TYPES,
    Absent,
    Keys,
    as_type,
    by_name,
    declared_types,
    fits,
    is_key,
    keys_in,
    type_of_keys,
    typed,
    types_to_compare,
    warn_of_differing,
)
from streamgda.data.sources.files.row_groups import ReadOptions, RowGroups, read_buffer
from streamgda.data.sources.splits import InputFile, group_into_tasks
from streamgda.data.storage.fetching import chunks_of
from streamgda.data.storage.filesystems import Storage, conceal
from streamgda.data.storage.footers import FORMAT, INT96_UNIT, Footer, read_footer
from streamgda.data.storage.retries import noting_retries, retried, warning_of_retries
from streamgda.data.storage.secrets import concealing
from streamgda.data.storage.threads import DaemonThreads, wait_for
from streamgda.data.storage.versions import Version

_FILES_OF_TASK = 128

_TRIED = 100  # at most so many files are opened until one passes a check

_FIRST_FILES = 20  # at most so many are opened until one tells the type of a column, or the length of lists

_READERS = 25  # an object store answers many requests in the time of one; Arrow's client of S3 has 25


Find: TypeAlias = Callable[..., Listing]
"""Lists files anew, as `find_files` does where its path is given."""

Check: TypeAlias = Callable[[pa.Schema, str], None]
"""Raises ValueError if a file with these columns and this path does not fit the others."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """The files of a dataset, and what is known of them from the names of folders and one footer.

    Attributes
    ----------
    listing : Listing
        The files, in order.
    first : Footer
        Of the first file that can be read.
    stored : pyarrow.Schema
        The columns that it stores; of a table, all that are not keys.
    schema : pyarrow.Schema
        The columns of the first file, and the keys that are not columns of it.
    keys : mapping of str to mapping
        The keys that are not columns, and their values, by folder; by path if the user gave a table or a
        pyarrow dataset.
    types : pyarrow.Schema
        The keys whose types are declared: by the user, a table or a pyarrow dataset.
    fragments : mapping of str to pyarrow.dataset.ParquetFileFragment
        The files of a pyarrow dataset, by path; empty for listed files.
    format : pyarrow.dataset.FileFormat
        Of the files.
    find : callable, optional
        Lists the files that are there now.
    """

    listing: Listing
    first: Footer
    stored: pa.Schema
    schema: pa.Schema
    keys: Mapping[str, Keys]
    types: pa.Schema
    fragments: Mapping[str, ds.ParquetFileFragment] = field(default_factory=dict)
    format: ds.FileFormat = field(default_factory=ds.ParquetFileFormat)
    find: Find | None = None

    format_as_text = "parquet"  # the format and its options
    untyped = frozenset[str]()  # columns that may be read as text, whatever their beginning holds

    @classmethod
    def of(
        cls,
        listing: Listing,
        find: Find,
        check: Check | None = None,
        format: ds.FileFormat = FORMAT,  # noqa: A002 - as pyarrow has it
        known: Dataset | None = None,
        types: Mapping[str, Any] | None = None,
    ) -> Self:
        """Listed files, with the hive keys of their paths, except keys that are columns of the files too.

        The value in a row is used, and not the one in the name of its folder. The first file is not opened if
        its footer is known from an earlier listing.
        """
        check = None if listing.columns is not None else check  # of a table, the log tells the columns
        is_known = known is not None and known._has_first(listing) and _passes(check, known.first)
        read = partial(cls.read_head, listing.storage, format)
        first = known.first if known and is_known else _first_readable(listing, read, check)
        stored = known.stored if known and is_known else _typed_columns(first, listing.files, read)
        if listing.columns is not None:
            if types:
                raise ValueError(
                    "hive_types are of keys in the names of folders; a table has types of its own"
                )
            return cls._of_table(listing, find, listing.columns, first)
        folders = dict.fromkeys(path.rpartition("/")[0] for path in listing.files)
        keys: dict[str, Keys] = {
            folder: keys_in(folder, first.schema.names) if "=" in folder else {} for folder in folders
        }
        declared = declared_types(types, keys) if types else {}
        if declared:
            keys = {folder: typed(folder, pairs, declared) for folder, pairs in keys.items()}
        found = [pa.field(name, type_of_keys(values)) for name, values in by_name(keys).items()]
        columns = [*stored.remove_metadata(), *(declared.get(one.name, one) for one in found)]
        schema = decoded_schema(pa.schema(columns))
        types_of_keys = pa.schema([*declared.values()])
        return cls(listing, first, stored, schema, keys, types_of_keys, {}, format, find)

    @classmethod
    def _of_table(cls, listing: Listing, find: Find, columns: pa.Schema, first: Footer) -> Self:
        """The files of a table, which has columns and keys of its own. Types are those in the first file."""
        stored = {field.name: field.type for field in first.schema}
        columns = pa.schema([column.with_type(stored.get(column.name, column.type)) for column in columns])
        keys = {
            path: {name: value.as_py() for name, value in pairs.items()}
            for path, pairs in listing.keys.items()
        }
        types = pa.schema([column for column in columns if column.name in keys[first.path]])
        own = pa.schema([one for one in columns if one.name in stored or one.name not in types.names])
        return cls(listing, first, own, decoded_schema(columns), keys, types, find=find)

    @classmethod
    def of_arrow(cls, dataset: ds.FileSystemDataset) -> Self:
        """The files of a pyarrow dataset."""
        parts = list(dataset.get_fragments())
        storage, paths = conceal(Storage(dataset.filesystem), [part.path for part in parts])
        listing = Listing(storage, dict.fromkeys(paths), list(map(Location, paths)))
        fragments = dict(zip(paths, parts, strict=True))
        keys = {path: ds.get_partition_keys(part.partition_expression) for path, part in fragments.items()}
        read = partial(cls.read_head, storage, FORMAT)
        first = _first_readable(listing, read)
        known = {one.name: one for one in _typed_columns(first, paths, read)}
        dates = {name: one for name, one in known.items() if pa.types.is_timestamp(one.type)}
        columns = [(known if one.type == pa.null() else dates).get(one.name, one) for one in dataset.schema]
        schema = decoded_schema(pa.schema(columns, dataset.schema.metadata))
        types = pa.schema([column for column in schema if column.name in keys[first.path]])
        own = [column for column in schema if column.name not in types.names]
        own = pa.schema(own, first.schema.metadata)
        return cls(listing, first, own, schema, keys, types, fragments)

    @staticmethod
    def read_head(storage: Storage, kind: ds.FileFormat, path: str) -> Footer:
        """Read and check what a file says of itself; again if the storage fails for a moment.

        Raises
        ------
        ValueError
            If it cannot be read.
        """
        with opening(path):
            footer = retried(partial(read_footer, storage, path), place=path)
        with decoding(path):
            return footer.decoded(storage)

    @property
    def written_as(self) -> str:
        """The name of the format."""
        return name_of_format(self.format)

    def count_rows(self) -> int:
        """The number of rows, by the footers."""
        files = ds.FileSystemDataset.from_paths(
            list(self.listing.files),
            schema=self.stored,
            format=self.format,
            filesystem=self.listing.storage.filesystem,
        )
        return int(files.count_rows())

    def first_rows(self, names: list[str]) -> pa.Table:
        """The first rows of some columns of the first file; of more files, if a column of lists has none."""
        rows = self._first_rows_of(self.first, names)
        types = [self.stored.field(one.name) if one.type == pa.null() else one for one in rows.schema]
        rows = rows.cast(pa.schema(types))
        for path in islice(self.listing.files, _FIRST_FILES):
            if path != self.first.path and any(map(has_no_list, rows.columns)):
                with suppress(ValueError, KeyError, pa.ArrowException):  # it is named where it is read
                    more = self._first_rows_of(self.read_head(self.listing.storage, self.format, path), names)
                    rows = pa.concat_tables([rows, more.cast(rows.schema)])
        return rows

    def _first_rows_of(self, head: Footer, names: list[str]) -> pa.Table:
        """The first rows of some columns of a file."""
        path, opened = head.path, self.listing.storage.filesystem.open_input_file
        buffer = read_buffer(len(names))
        with decoding(path), opened(path) as file:
            parquet = pq.ParquetFile(
                file,
                metadata=head.metadata,
                buffer_size=buffer,
                pre_buffer=False,
                coerce_int96_timestamp_unit=INT96_UNIT,
            )
            there = [name for name in names if name in parquet.schema_arrow.names]
            batches = parquet.iter_batches(FIRST_ROWS, columns=there, use_threads=False)
            types = pa.schema(map(parquet.schema_arrow.field, there))
            rows = pa.Table.from_batches(islice(batches, 1), types)
        for name in names:
            if name not in there:  # it was added to a table later
                rows = rows.append_column(name, pa.nulls(len(rows), self.stored.field(name).type))
        return rows.select(names)

    def relisted(self, check: Check) -> Self:
        """The dataset with the files that are there now, of which the first passes a check if one does."""
        if self.find is None:
            return self
        listing = self.find(first_time=False)
        return self.of(listing, self.find, check, self.format, self, self.types_given)

    def _has_first(self, listing: Listing) -> bool:
        """Whether the first of the files is in the version of which the footer is known."""
        path, version = next(iter(listing.files.items()))
        known = self.first.version
        return bool(path == self.first.path and known.tells_content and version == known)

    def files(self, condition: Filter | None) -> list[InputFile]:
        """The files that a filter does not rule out by their keys, to be read in their present versions."""
        keys = self.keys
        if condition is not None and not self.values_of_keys.keys().isdisjoint(condition.columns.names):
            each = [_equal_to(pairs, condition.columns) for pairs in keys.values()]
            stand_ins = ds.FileSystemDataset.from_paths(
                list(map(str, range(len(each)))),
                schema=_retyped(self.schema, condition.columns),
                format=FORMAT,
                filesystem=self.listing.storage.filesystem,
                partitions=each,
            )
            fragments = stand_ins.get_fragments(filter=condition.expression)
            folders = list(keys)
            keys = {name: keys[name] for name in (folders[int(one.path)] for one in fragments)}
        files, places = self.listing.files, self.keys
        named = ((path, path if path in places else path.rpartition("/")[0]) for path in files)
        return [InputFile(path, path, None, keys[name]) for path, name in named if name in keys]

    def keys_of(self, path: str) -> Keys:
        """The keys of a file, as they are written or declared."""
        return self.keys[path if path in self.keys else path.rpartition("/")[0]]

    @cached_property
    def values_of_keys(self) -> dict[str, set[Any]]:
        """The values of each key."""
        return by_name(self.keys)

    def condition(self, filters: Any) -> Filter:
        """The filter that a user gives. It may compare keys whose types are not declared as text or else.

        Raises
        ------
        ValueError
            As `Filter.of` does.
        """
        named = [
            name for name in self.values_of_keys if name in str(filters) and name not in self.types.names
        ]
        fault: ValueError | None = None
        for kinds in product(*(types_to_compare(self.values_of_keys[name]) for name in named)):
            types = pa.schema(list(zip(named, kinds, strict=True)))
            try:
                return Filter.of(filters, _retyped(self.schema, types))
            except ValueError as error:
                fault = fault or error
        pairs = sorted(f"{name}={value}" for name in named for value in self.values_of_keys[name])
        raise ValueError(
            f"{fault}" + (f"; folders have {pairs[0]}, so give text, in quotes" if pairs else "")
        )

    def kinds(self, roles: Roles, keep: Collection[str] = ()) -> dict[str, str]:
        """The kinds of labels, categories, groups and kept values as which keys are read.

        What a model or a ledger knows comes first, then what is declared. A category or a group is text; all
        labels are whole numbers, or all are text.
        """
        kinds: dict[str, str] = {}
        text = {*roles.encoded, roles.groups, *(part.column for part in roles.parts)}
        for name in self.values_of_keys:
            if name in roles.kinds:
                kinds[name] = roles.kinds[name]
            elif name in text.difference(self.types.names):
                kinds[name] = "str"
            elif name in {roles.target, *keep}.difference(self.types.names):
                kinds[name] = "int" if pa.types.is_integer(self.schema.field(name).type) else "str"
        return kinds

    def schema_as(self, kinds: Mapping[str, str]) -> pa.Schema:
        """The schema where keys are labels and categories of some kinds, each if all its values can be."""
        schema = self.schema
        for name, values in self.values_of_keys.items():
            kind, one = kinds.get(name), schema.field(name)
            is_whole = kind == "int" and pa.types.is_integer(one.type)
            if kind is not None and fits(values, kind) and not is_whole:
                schema = schema.set(schema.get_field_index(name), one.with_type(TYPES[kind]))
        return schema

    @property
    def types_given(self) -> dict[str, pa.DataType]:
        """The types of keys that the user gave."""
        by_user = self.listing.columns is None and not self.fragments
        return {one.name: one.type for one in self.types} if by_user else {}

    def plan(
        self, files: Sequence[InputFile], read_options: ReadOptions, each: MapFunction = map
    ) -> Iterator[InputFile]:
        """Read the footers of some files, and yield the files with what is to be read of each.

        Parameters
        ----------
        files : sequence of InputFile
            The files.
        read_options : ReadOptions
            What is read of each.
        each : callable, default=map
            Applies a function to lists of files, in order: `map`, or one that does so on the workers of a
            cluster.
        """
        if self.fragments:
            files = [replace(file, row_groups=self.row_groups_of(file.location)) for file in files]
        batches = [files[i : i + _FILES_OF_TASK] for i in range(0, len(files), _FILES_OF_TASK)]
        planner = FilePlanner(  # which opens the files, perhaps on the workers of a cluster
            self.schema.remove_metadata(),
            self.stored.remove_metadata(),
            self.first if each is map else None,
            read_options,
            self.schema if self.fragments else self.listing.columns,
        )
        schemas: list[tuple[pa.Schema, pa.Schema]] = []
        retries: list[str] = []
        differing: dict[str, str] = {}
        for batch, (footers, noted) in zip(batches, each(planner.plan_batch, batches), strict=True):
            retries += noted
            for file, planned in zip(batch, footers, strict=True):
                differing |= dict.fromkeys(planned.differing, file.location)
                listed = file.version or self.listing.files[file.location]
                version = listed if listed == planned.version else planned.version  # one object for both
                keys = {**file.partition, **planned.absent} if planned.absent else file.partition
                where = partial(RowGroups, read_options, file.location, version, keys)
                columns = planner.columns(planned.columns, schemas)
                yield replace(file, splits=list(starmap(where, planned.runs)), columns=columns)
        with warning_of_retries() as warned_of:
            warned_of.extend(retries)
        for name, path in differing.items():
            warn_of_differing(name, path)

    def row_groups_of(self, path: str) -> tuple[list[int], int]:
        """The row groups of a file that a pyarrow dataset holds, and how many the file has."""
        fragment = self.fragments[path]
        with decoding(path):
            concealing([fragment.path], fragment.ensure_complete_metadata)
            return [group.id for group in fragment.row_groups], fragment.metadata.num_row_groups


def _equal_to(keys: Keys, types: pa.Schema) -> ds.Expression:
    """The expression that is true where the keys that have types have these values."""
    values = {one.name: as_type(keys[one.name], one.type) for one in types if one.name in keys}
    each = (
        ds.field(name) == value if value.is_valid else ds.field(name).is_null()
        for name, value in values.items()
    )
    return reduce(and_, each, ds.scalar(True))


def _retyped(schema: pa.Schema, types: pa.Schema) -> pa.Schema:
    """A schema in which some columns have other types."""
    return pa.schema(
        [types.field(one.name) if one.name in types.names else one for one in schema], schema.metadata
    )


def _first_readable(
    listing: Listing, read_head: Callable[[str], Footer], check: Check | None = None
) -> Footer:
    """What the first file that can be read says of itself; if one passes a check, the first that does.

    A pass reads all the footers, and names the files that are damaged or do not fit.

    Raises
    ------
    ValueError
        If none can be read. It is the error of the first one.
    """
    fault: ValueError | None = None
    readable: Footer | None = None
    n_others = 0
    for path in listing.files:
        try:
            head = read_head(path) if listing.storage.is_local else wait_for(partial(read_head, path))
        except ValueError as error:
            fault = fault or error
            continue
        if _passes(check, head):
            return head
        readable, n_others = readable or head, n_others + 1
        if n_others == _TRIED:
            break
    if readable is None:
        raise fault or ValueError("the dataset has no files")
    return readable


def _typed_columns(first: Footer, paths: Iterable[str], read_head: Callable[[str], Footer]) -> pa.Schema:
    """The columns of the first file. One of nulls alone has the type that a next file tells."""
    columns = first.schema
    for path in islice(paths, _FIRST_FILES):
        unknown = [i for i, kind in enumerate(columns.types) if pa.types.is_null(kind)]
        if not unknown:
            break
        with suppress(ValueError):  # it is named where it is read
            there = read_head(path).schema
            for i in unknown:
                if (place := there.get_field_index(columns.names[i])) >= 0:
                    columns = columns.set(i, there.field(place))
    return columns


def _passes(check: Check | None, head: Footer) -> bool:
    """Whether a file passes a check by its columns, and the keys in its path.

    A file that tells no types does not pass: Spark writes some that hold the names of columns alone.
    """
    columns = head.schema
    if all(map(pa.types.is_null, columns.types)):
        return False
    folder = head.path.rpartition("/")[0]
    for name in keys_in(folder) if "=" in folder else ():
        columns = columns.append(pa.field(name, pa.null()))
    try:
        return check is None or check(columns, head.path) is None
    except ValueError:
        return False


def name_of_format(kind: Any) -> str:
    """The name of a format of pyarrow, as its users write it; or of a kind of fragments."""
    name = type(kind).__name__.removesuffix("FileFormat").removesuffix("Fragment")
    return {"Csv": "CSV", "Json": "JSON", "Ipc": "Feather", "Orc": "ORC"}.get(name, name)


# ---------------------------------------------------------------------- what is read of each file


class Planned(NamedTuple):
    """What is to be read of a file.

    Attributes
    ----------
    version : Version
        The version of the file.
    runs : list of tuple
        Its parts, each a run of row groups, as `RowGroups` has it: their numbers and rows; the rows and the
        bytes of all of them; a hash of the footer.
    columns : pyarrow.Schema
        Its columns to read.
    absent : mapping of str to Absent
        The columns to read that were added to its table later.
    differing : list of str
        The columns to read that hold other values than the keys of their names in the path.
    """

    version: Version
    runs: list[tuple[bytes, int, int, bytes]]
    columns: pa.Schema
    absent: Mapping[str, Absent]
    differing: list[str]


@dataclass(frozen=True)
class FilePlanner:
    """Plans files of a dataset.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the dataset, partition keys included.
    stored : pyarrow.Schema
        The columns that the first readable file stores.
    first : Footer, or None
        That of this file, which is not read again while it is unchanged.
    read_options : ReadOptions
        What is read of each file.
    declared : pyarrow.Schema, or None
        The columns of a table or a pyarrow dataset. Rows of a file that lacks one have no value in it.
    """

    schema: pa.Schema
    stored: pa.Schema
    first: Footer | None
    read_options: ReadOptions
    declared: pa.Schema | None

    def plan_batch(self, files: Sequence[InputFile]) -> tuple[list[Planned], list[str]]:
        """One task: plan some files. Return the plans, and the errors after which storage was asked again."""
        schemas: list[tuple[pa.Schema, pa.Schema]] = []
        with noting_retries() as noted:
            if self.read_options.storage.is_local:  # whose files gain nothing by threads
                return list(map(self._plan, files, repeat(schemas))), noted
            with DaemonThreads(_READERS, "streamgda-planning") as readers:
                return list(readers.map(self._plan, files, repeat(schemas))), noted

    def columns(self, schema: pa.Schema, known: list[tuple[pa.Schema, pa.Schema]]) -> pa.Schema:
        """The columns to read of a file: one schema for all files that are alike, of which some are known."""
        for stored, columns in known:
            if stored.equals(schema):
                return columns
        places = sorted(map(schema.get_field_index, self.read_options.columns))
        columns = pa.schema([schema.field(place) for place in places if place >= 0])
        known.append((schema, columns))
        return columns

    def _plan(self, file: InputFile, known: list[tuple[pa.Schema, pa.Schema]]) -> Planned:
        footer = self._footer(file.location)
        absent = {} if self.declared is None else self._absent(file, footer.schema, self.declared)
        file = replace(file, partition={**file.partition, **absent}) if absent else file
        self._check(file, footer.schema)
        indices = self._row_groups(file, footer)
        of_groups = map(attrgetter("num_rows", "total_byte_size"), map(footer.metadata.row_group, indices))
        groups = [(index, *sizes) for index, sizes in zip(indices, of_groups, strict=True)]
        runs, of_footer = [], blake2b(footer.tail, digest_size=16).digest()
        for run in group_into_tasks(groups, n_rows=itemgetter(1)):
            columns = np.array(run, np.int64).T
            runs.append((columns[:2].tobytes(), *columns[1:].sum(axis=1).tolist(), of_footer))
        has_keys = self.declared is None and "=" in file.location
        differing = self._differing(footer) if has_keys else []
        version, columns = file.version or footer.version, self.columns(footer.schema, known)
        return Planned(version, runs, columns, absent, differing)

    def _differing(self, footer: Footer) -> list[str]:
        """The columns to read that hold other values than the keys of their names, by their statistics."""
        stored = set(self.read_options.columns).intersection(footer.schema.names)
        keys = {name: key for name, key in keys_in(footer.path.rpartition("/")[0]).items() if name in stored}
        if not keys:
            return []
        chunks = chain.from_iterable(chunks_of(footer.metadata, range(footer.metadata.num_row_groups), keys))
        told = ((one.path_in_schema, one.statistics) for one in chunks if one.is_stats_set)
        bounds = ((name, {told.min, told.max}) for name, told in told if name in keys and told.has_min_max)
        return sorted({name for name, values in bounds if not all(is_key(keys[name], one) for one in values)})

    def _footer(self, path: str) -> Footer:
        """The footer that a file has now."""
        storage, first = self.read_options.storage, self.first
        if first is not None and path == first.path and first.version.tells_content:
            with opening(path):
                present = retried(partial(storage.version, path), place=path)
            if present == first.version:
                return first
        return Dataset.read_head(storage, FORMAT, path)

    def _row_groups(self, file: InputFile, footer: Footer) -> list[int]:
        """The row groups in which rows may pass the filter, by their statistics.

        A pyarrow dataset may hold only some row groups of a file. Then these are read.
        """
        condition, every = self.read_options.filter, list(range(footer.metadata.num_row_groups))
        indices, n_groups = file.row_groups or (every, len(every))
        if indices != list(range(n_groups)):
            if len(every) != n_groups:
                raise ValueError(
                    f"{file.location} has other row groups than when the dataset was made; make it again"
                )
            return indices
        if condition is None or condition.passes_beyond_statistics:
            return every
        if condition.times_to_cast(footer.schema) or any(
            decoded_type(one.type) is not one.type
            for one in footer.schema
            if one.name in condition.columns.names
        ):
            return every  # Arrow does not compare the statistics of these times, and of views
        keys = _equal_to(file.partition, condition.columns)
        fragment = FORMAT.make_fragment(pa.py_buffer(footer.tail), partition_expression=keys)
        with filtering(file.location):
            schema = _retyped(self.schema, condition.columns)
            parts = fragment.split_by_row_group(condition.expression, schema=schema)
        return [group.id for part in parts for group in part.row_groups]

    def _absent(self, file: InputFile, schema: pa.Schema, declared: pa.Schema) -> dict[str, Absent]:
        """The columns to read that were added to the table later.

        Raises
        ------
        ValueError
            If a column of an Iceberg table has another name in the file. It is known by its number.
        """
        ours, theirs, absent = field_numbers(declared), field_numbers(schema), {}
        for name in set(self.read_options.columns).difference(file.partition).intersection(declared.names):
            number, column = ours.get(name), declared.field(name)
            if name in schema.names and theirs.get(name, number) == number:
                continue
            if number is not None and number in theirs.values():
                raise ValueError(
                    f"{file.location}: column {name!r} of the table has another name in this file; rewrite "
                    "it, or use scan_arrow(scan.to_arrow_batch_reader(), ...)"
                )
            if HAS_DEFAULT in (column.metadata or {}):
                raise ValueError(
                    f"{file.location}: there is no column {name!r}, for which the table has a default; use "
                    "scan_arrow(scan.to_arrow_batch_reader(), ...)"
                )
            absent[name] = Absent(column.type)
        return absent

    def _check(self, file: InputFile, schema: pa.Schema) -> None:
        """Raise ValueError if the columns to read are not in a file, each once, with types that can serve."""
        path, partition = file.location, file.partition
        for name in self.read_options.columns:
            times = len(schema.get_all_field_indices(name))
            if times > 1:
                raise ValueError(f"{path}: there is more than one column {name!r}")
            if not times and name not in partition:
                raise ValueError(
                    f"{path}: there is no column {name!r}, which other files of the dataset have"
                )
            if self.declared is None and times and name in partition:
                raise ValueError(
                    f"{path}: {name!r} is a column of this file, and elsewhere a key in folders' names; scan "
                    "the two kinds of files apart"
                )
        # Most files have the schema of the first one, which has been checked.
        if not schema.equals(self.stored):
            check_types(self.read_options.roles, schema, path)
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


def unified_types(names: Iterable[str], dataset: pa.Schema, files: Iterable[InputFile]) -> pa.Schema:
    """The types of columns that hold the values of all the files.

    Parameters
    ----------
    names : iterable of str
        The columns.
    dataset : pyarrow.Schema
        Of the dataset, with its partition keys; the types of the first file.
    files : iterable of InputFile
        Planned ones, one for each schema of the files, which may have columns of other types.

    Raises
    ------
    ValueError
        If no type holds the values of a column in all files; the message names a file.
    """
    types = {name: dataset.field(name).type for name in names}
    for file in files:
        for name in types.keys() & file.columns.names:
            place = f"{file.location}: column {name!r}"
            types[name] = _unified(types[name], decoded_type(file.columns.field(name).type), place)
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
