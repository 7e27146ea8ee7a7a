"""Files of CSV, lines of JSON, Feather and ORC, as pyarrow's datasets read them: block by block, in order.

A file is one split. The columns of text files have the types that the first block of the first file tells;
features that are whole numbers there are read as floats, so that a later 1.5 fits too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.json

from streamgda.data.blocks.block import Missing, Places
from streamgda.data.blocks.dates import moment_of
from streamgda.data.blocks.options import refusing_renamed
from streamgda.data.blocks.types import decoded
from streamgda.data.blocks.wording import listed
from streamgda.data.sources.base import MapFunction
from streamgda.data.sources.batches import rebatched
from streamgda.data.sources.columns.choosing import check_types, choose_roles
from streamgda.data.sources.columns.encoding import Wanted
from streamgda.data.sources.columns.lists import first_batches, is_list
from streamgda.data.sources.columns.names import check_named
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.columns.types import FIRST_ROWS, label_kind
from streamgda.data.sources.files.decoding import CODECS, decode_file, unpacked
from streamgda.data.sources.files.dialects import BEGINNING, check_columns, naming_options
from streamgda.data.sources.files.discovery import SUFFIXES, find_files
from streamgda.data.sources.files.errors import NOT_UTF8, decoding, opening
from streamgda.data.sources.files.format_options import format_of, text_of, word_of
from streamgda.data.sources.files.parquet import ParquetSource
from streamgda.data.sources.files.planning import Check, Dataset, name_of_format
from streamgda.data.sources.files.row_groups import ReadOptions, RowGroups, name_within
from streamgda.data.sources.splits import InputFile
from streamgda.data.storage.fetching import BYTES_TOGETHER, decodable
from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.footers import Footer
from streamgda.data.storage.identity import UNTOLD
from streamgda.data.storage.retries import repeated, retried
from streamgda.data.storage.versions import Version

_PACKED = ("", *CODECS)

_NAMES = {
    "parquet": SUFFIXES,
    "csv": tuple(f".{kind}{packed}" for kind in ("csv", "tsv") for packed in _PACKED),
    "json": tuple(f".{kind}{packed}" for kind in ("jsonl", "ndjson", "json") for packed in _PACKED),
    "feather": (".feather", ".arrow", ".ipc"),
    "orc": (".orc",),
}
"""How the names of files of each format end."""

_ENDINGS = tuple(end for ends in _NAMES.values() for end in ends)


_UNREADABLE = "it is damaged or of another format, or a value is of another type than its column"

_OF_CSV = re.compile(r"In CSV column #(\d+): Row #(\d+): (.*)", re.DOTALL)

_OTHER_VALUE = re.compile(r"conversion error to .*: invalid value '(.*)'")

_ABSENT = re.compile("Column '(.*)' in include_columns")

_OF_JSON = re.compile(r"JSON parse error: .* in row (\d+)", re.DOTALL)

_OTHER_KIND = re.compile(r"Column\(/([^/]+)\) changed from \w+ to (\w+)")

_TYPES_OF_JSON = {"string": "string", "boolean": "bool", "number": "double"}

_OF_ORC = "Arrow reads times of ORC from 1677 to 2262: leave such a column out, or write it to Parquet"


@refusing_renamed
def scan(
    path: Any,
    target: str | None = None,
    *,
    format: Any = None,  # noqa: A002 - as pyarrow.dataset.dataset has it
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categories: Wanted = "auto",
    weight: str | None = None,
    filters: Any = None,
    filesystem: Any = None,
    missing: Missing = "raise",
    hive_types: Mapping[str, Any] | None = None,
) -> ParquetSource:
    r"""Describe files of Parquet, CSV, JSON lines, Feather or ORC, for `accumulate` and `fit` to read.

    The names of the files tell the format. Text may be compressed, as in .csv.gz. A pass reads each file in
    order, in bounded memory, and several files at a time.

    The first megabyte of the first file tells the columns and types of files of text, and the next file that
    of a column without values. A later value that does not fit is an error that names the file and the line.
    In CSV an empty field is a missing value, and so are NA, ``\N`` and the like. Times of ORC lie from 1677
    to 2262: others are an error, or are read wrong by Arrow 23 and older. Labels and categories that are text
    in a model or a ledger are read as text in files of CSV where they happen to be numbers.

    Parameters
    ----------
    path : str, path, or sequence of them
        A file, a folder, a glob or a URL, as for `scan_parquet`. In a folder these are the Parquet files; if
        there are none, the files of the one other format there is.
    target : str, optional
        The column of labels, as for `scan_parquet`.
    format : str or pyarrow.dataset.FileFormat, optional
        The format of files whose names do not tell it: parquet, csv, json, feather or orc. Options of pyarrow
        follow, as in "csv delimiter=; decimal_point=,"; or a format of pyarrow has them.
    features, exclude, categories, weight, filters, filesystem, missing, hive_types : optional
        As for `scan_parquet`.

    Returns
    -------
    ParquetSource

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or a folder holds no file of a format that is known.
    ValueError
        If there are files of several formats. If a column is missing, has two roles, or has a type that its
        role cannot have.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from streamgda import accumulate, scan
    >>> path = pathlib.Path(tempfile.mkdtemp(), "flowers.csv")
    >>> _ = path.write_text("width;kind\n1;a\n3;a\n8,5;b\n")
    >>> source = scan(path, "kind", format="csv delimiter=; decimal_point=,")
    >>> accumulate(source, "diag").means
    array([[2. ],
           [8.5]])
    """
    check = partial(check_named, target, weight, features)
    dataset = dataset_at(path, filesystem, format, check, hive_types)
    choice = target, features, exclude, categories, weight, missing
    condition = None if filters is None else dataset.condition(filters)
    first = dataset.first.path
    with naming_options(first, dataset.format, partial(_beginning, dataset.listing.storage, first)):
        roles = choose_roles(
            dataset.schema, first, *choice, dataset.stored, dataset.first_rows, dataset.types
        )
    return ParquetSource(dataset, roles, condition)


def dataset_at(
    path: Any,
    filesystem: Any = None,
    kind: Any = None,
    check: Check | None = None,
    types: Mapping[str, Any] | None = None,
) -> Dataset:
    """The files at a path in their format; errors are those of `scan`."""
    names = _texts([path] if isinstance(path, str | PathLike) else path)
    if any(".zarr/" in f"{name}/" for name in names):
        raise ValueError(f"{path} is a Zarr store, of which scan_zarr makes a source")
    kinds = _kinds(names) if kind is None else [word_of(kind)]
    if kinds in ([], ["parquet"]):
        find = partial(find_files, path, filesystem)
        try:
            listing = find()
        except FileNotFoundError:
            kinds = [] if kinds else _kinds(_texts(find(endings=_ENDINGS).files))
            if not kinds:
                raise
        else:
            kinds = kinds or _kinds(_texts(listing.files)) or ["parquet"]  # of files that a pattern matches
            if kinds == ["parquet"]:
                return Dataset.of(listing, find, check, types=types)
    if len(kinds) > 1:
        raise ValueError(f"{path} stands for files of several formats: {listed(kinds)}; name one, as format=")
    find = partial(find_files, path, filesystem, endings=_NAMES[kinds[0]])
    listing = find()
    made = format_of(kinds[0] if kind is None else kind, listing.files)
    dataset = FormatDataset.of(listing, find, check, made, types=types)
    _ = dataset.format_as_text  # raises for options that no text tells
    return dataset


def _texts(paths: Any) -> list[str]:
    """The names of files among paths, which may be those of a table of another library."""
    entries = paths if isinstance(paths, Collection) else ()
    return [os.fspath(name) for name in entries if isinstance(name, str | PathLike)]


def _kinds(names: Sequence[str]) -> list[str]:
    """The formats that names of files tell."""
    return [kind for kind, ends in _NAMES.items() if any(name.endswith(ends) for name in names)]


# ---------------------------------------------------------------------- the files


def _is_text(kind: ds.FileFormat) -> bool:
    return isinstance(kind, ds.CsvFileFormat | ds.JsonFileFormat)


@dataclass(frozen=True, eq=False)
class FormatDataset(Dataset):
    """The files of a dataset of another format than Parquet."""

    @cached_property
    def format_as_text(self) -> str:  # type: ignore[override]  # a constant of Parquet
        """The format and its options, as text that `format_of` reads."""
        return text_of(self.format)

    @cached_property
    def untyped(self) -> frozenset[str]:  # type: ignore[override]  # a constant of Parquet
        """Columns of CSV that are no text by their beginning, and whose types no option tells."""
        if not isinstance(self.format, ds.CsvFileFormat):
            return frozenset()
        told = self.format.default_fragment_scan_options.convert_options.column_types
        return frozenset(one.name for one in self.stored if label_kind(one.type) != "str").difference(told)

    def kinds(self, roles: Roles, keep: Collection[str] = ()) -> dict[str, str]:
        """The kinds as which keys are read, and columns of CSV that are text where they are known."""
        texts = {name: kind for name, kind in roles.kinds.items() if name in self.untyped}
        return {**super().kinds(roles, keep), **texts}

    def schema_as(self, kinds: Mapping[str, str]) -> pa.Schema:
        """The schema where keys and columns are of these kinds."""
        return self._with_texts(super().schema_as(kinds), kinds)

    def _with_texts(self, columns: pa.Schema, kinds: Mapping[str, str]) -> pa.Schema:
        texts = {name for name in self.untyped if kinds.get(name) == "str"}
        return pa.schema([one.with_type(pa.string()) if one.name in texts else one for one in columns])

    @staticmethod
    def read_head(storage: Storage, kind: ds.FileFormat, path: str) -> Footer:
        """Read the columns of a file and their types, as its beginning tells them."""
        version = _version(storage, path)
        with naming_options(path, kind, partial(_beginning, storage, path)):
            with decoding(path, name_of_format(kind)):
                schema = repeated(partial(_schema_of, storage, kind, path, version))
            check_columns(path, schema, kind)
        if isinstance(kind, ds.CsvFileFormat):  # a delimiter at the end of each line is no column
            schema = pa.schema([one for one in schema if one.name or not pa.types.is_null(one.type)])
        return Footer(path, version, schema)

    def _first_rows_of(self, head: Footer, names: list[str]) -> pa.Table:
        """The first rows of some columns of a file."""
        place = self.listing.storage, self.format, head.path, head.version
        columns = self.stored if _is_text(self.format) else head.schema
        types = pa.schema(map(columns.field, names))
        begin = lambda: list(first_batches(_batches_of(*place, types, ahead=False)))  # noqa: E731
        with decoding(head.path, self.written_as):
            return pa.Table.from_batches(repeated(begin), types).slice(0, FIRST_ROWS)

    def count_rows(self) -> int:
        """The number of rows, for which the files are read."""
        storage, types = self.listing.storage, pa.schema(list(self.stored)[:1])
        if _is_text(self.format):
            types = pa.schema([] if self.written_as == "JSON" else [(types.names[0], pa.binary())])

        def count(path: str) -> int:
            with decoding(path, self.written_as):
                batches = _batches_of(storage, self.format, path, _version(storage, path), types)
                return sum(batch.num_rows for batch in batches)

        return sum(repeated(partial(count, path)) for path in self.listing.files)

    def plan(
        self, files: Sequence[InputFile], read_options: ReadOptions, each: MapFunction = map
    ) -> Iterator[InputFile]:
        """Each file is read as a whole."""
        storage, roles = self.listing.storage, read_options.roles
        columns = pa.schema([column for column in self.stored if column.name in read_options.columns])
        if _is_text(self.format):
            plain = {*roles.features, *roles.lists}.difference(roles.encoded, read_options.keep)
            columns = pa.schema([_as_float(one) if one.name in plain else one for one in columns])
            columns = self._with_texts(columns, read_options.kinds)
        for file in files:
            path, version = file.location, file.version or self.listing.files[file.location]
            what = read_options, path, version or _version(storage, path), file.partition, b"", None
            rows = FileRows(*what, format=self.format, types=columns, written_as=self.format_as_text)
            yield replace(file, splits=[rows], columns=columns)


def _as_float(column: pa.Field) -> pa.Field:
    """A column of whole numbers or of lists, or without values so far, as one of floats."""
    is_whole = pa.types.is_integer(column.type) or pa.types.is_null(column.type)
    kind = pa.list_(pa.float64()) if is_list(column.type) else pa.float64()
    return column.with_type(kind) if is_whole or is_list(column.type) else column


def _type_of(value: str) -> str:
    """The type that the text of a value has in options of CSV."""
    if value.lower() in {"true", "false"}:
        return "bool"
    return "string" if moment_of(value) is None else "timestamp[us]"


def _null_at_first(name: str, kind: str) -> str:
    """What a column of JSON holds that was null in the first block of its file, and the remedy."""
    remedy = "Write a line with such a value first, or leave the column out"
    if kind in _TYPES_OF_JSON:
        declared = f"explicit_schema={{{name!r}: '{_TYPES_OF_JSON[kind]}'}}"
        remedy = f'Tell by the format what it holds, as "json {declared}"'
    return f"column {name!r} holds no value in the beginning of the file, and here: {kind}. {remedy}"


def _version(storage: Storage, path: str) -> Version:
    with opening(path):
        return retried(partial(storage.version, path), place=path)


def _beginning(storage: Storage, path: str) -> bytes:
    with decodable(storage, path, _version(storage, path), ahead=False) as file:
        return bytes(unpacked(file, path).read(BEGINNING))


def _schema_of(storage: Storage, kind: ds.FileFormat, path: str, version: Version) -> pa.Schema:
    with decodable(storage, path, version, ahead=False) as file:
        schema = decode_file(kind, file, path).schema
        list(schema.names)  # which pyarrow decodes only when it is asked for them
        return schema


def _batches_of(
    storage: Storage,
    kind: ds.FileFormat,
    path: str,
    version: Version,
    types: pa.Schema,
    *,
    ahead: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Decode some columns of a file. Of a remote one, perhaps what follows is requested meanwhile."""
    is_whole = _is_text(kind) or (version.size or 0) <= BYTES_TOGETHER  # of others, columns may be left out
    with decodable(storage, path, version, ahead=ahead and is_whole) as file:
        yield from decode_file(kind, file, path, types).batches


# ---------------------------------------------------------------------- the rows of a file


@dataclass(frozen=True, slots=True)
class FileRows(RowGroups):
    """All the rows of a file, with its partition keys. The number of rows is known when it has been read."""

    format: ds.FileFormat = field(default=None, metadata=UNTOLD)  # of which `written_as` tells
    types: pa.Schema = None  # of the columns to read
    written_as: str = ""  # the format and its options, as text

    is_remote = False

    def enclosing(self, start: int, stop: int) -> tuple[FileRows, int]:
        """The file, which is read from its beginning."""
        return self, 0

    def _batches(self) -> Generator[tuple[pa.RecordBatch, Places]]:
        """Read the file: the rows that pass the filter, and their places."""
        options = self.read_options
        start = Places(self.path, dataset=name_within(options.root, self.path))
        stored = [name for name in options.filter_columns.names if name not in self.partition]
        beside = (*options.keep, *stored)
        for batch, places in rebatched(map(self._with_keys, self._decoded()), options.roles, start, beside):
            rows = np.arange(batch.num_rows)
            if options.filter is not None:
                batch, rows = self._filter(batch, rows, options.filter)  # noqa: PLW2901
            yield batch, places.take(rows)

    def _decoded(self) -> Iterator[pa.RecordBatch]:
        storage, n_rows = self.read_options.storage, 0
        place = storage, self.format, self.path, self.version
        storage.check_unchanged(self.path, self.version)
        with (
            naming_options(self.path, self.format, partial(_beginning, storage, self.path)),
            decoding(self.path, name_of_format(self.format), _UNREADABLE),
        ):
            try:
                types = self.types if _is_text(self.format) else self._types_in(_schema_of(*place))
                for batch in _batches_of(*place, types):
                    yield decoded(batch)
                    n_rows += batch.num_rows
            except pa.ArrowKeyError as error:
                raise self._lacks(_ABSENT.findall(str(error))[0]) from error
            except pa.ArrowInvalid as error:
                raise self._placed(error, n_rows) from error
        storage.check_unchanged(self.path, self.version)

    def _types_in(self, there: pa.Schema) -> pa.Schema:
        """The types that the columns have in the file."""
        for name in self.types.names:
            if name not in there.names:
                raise self._lacks(name)
        check_types(self.roles, there, self.path)
        return pa.schema([there.field(name) for name in self.types.names])

    def _lacks(self, name: str) -> ValueError:
        return ValueError(f"{self.path}: there is no column {name!r}, which other files of the dataset have")

    def _placed(self, error: pa.ArrowInvalid, n_rows: int) -> ValueError:
        """The error for a value that does not fit its column, with the line that it is in."""
        if match := _OF_CSV.search(str(error)):
            there = _schema_of(self.read_options.storage, self.format, self.path, self.version)
            column, line, reason = there.names[int(match[1])], match[2], match[3]
            if "invalid UTF8" in reason:
                reason = NOT_UTF8
            if reason.endswith(f"invalid value {column!r}"):
                reason = "the names of columns again, as in files that were joined; delete such lines"
            elif match := _OTHER_VALUE.search(reason):
                declared = f"column_types={{{column!r}: '{_type_of(match[1])}'}}"
                reason += f'. If the column holds such values, tell by the format, as "csv {declared}"'
            return ValueError(
                f"{self.path}, line {line}: column {column!r} holds {self.types.field(column).type} by the "
                f"beginning of the first file, and here: {reason}"
            )
        line = f"line {n_rows + int(match[1]) + 1}" if (match := _OF_JSON.search(str(error))) else ""
        if match := _OTHER_KIND.search(str(error)):
            there = _schema_of(self.read_options.storage, self.format, self.path, self.version)
            if pa.types.is_null(there.field(match[1]).type):
                return ValueError(f"{self.path}, {line}: {_null_at_first(*match.groups())}")
        if "nanosecond resolution" in str(error):
            return ValueError(f"{self.path}: {error}. {_OF_ORC}")
        fault: ValueError = pa.ArrowInvalid(f"{line}: {error}" if line else str(error))
        return fault
