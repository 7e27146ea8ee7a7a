"""Arrow data: tables, datasets, and streams of record batches from whatever library makes them.

Tables are read in slices, datasets fragment by fragment, and streams in order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from os import PathLike
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds

from streamgda.data.blocks.arrays import TABLES_OF_DATASETS
from streamgda.data.blocks.block import Missing, Places
from streamgda.data.blocks.options import refusing_renamed
from streamgda.data.blocks.types import decoded, decoded_schema
from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.base import MapFunction, ScorableSource, Source
from streamgda.data.sources.batches import BatchSplit, rebatched
from streamgda.data.sources.columns.choosing import NO_KEYS, choose_roles
from streamgda.data.sources.columns.encoding import Wanted
from streamgda.data.sources.columns.lists import first_batches
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.columns.types import FIRST_ROWS
from streamgda.data.sources.files.discovery import common_folder
from streamgda.data.sources.files.errors import decoding
from streamgda.data.sources.files.parquet import ParquetSource
from streamgda.data.sources.files.planning import Dataset, name_of_format
from streamgda.data.sources.files.row_groups import name_within
from streamgda.data.sources.splits import ROWS_PER_TASK
from streamgda.data.sources.tabular import TabularSource
from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.footers import INT96_UNIT
from streamgda.data.storage.tables import stream_of
from streamgda.data.storage.versions import Version

_UNREADABLE = (
    "it is damaged or something else, or a column is not of the type that the dataset has for it (then make "
    "the dataset with a schema that serves all its files)"
)
_BROKEN = "what makes it has failed, or it is damaged"
_ROWS_OF_BATCH = 1 << 17
Open = Callable[[list[str]], pa.RecordBatchReader]


@refusing_renamed
def scan_arrow(
    data: Any,
    target: str | None = None,
    *,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categories: Wanted = "auto",
    weight: str | None = None,
    missing: Missing = "raise",
) -> Source:
    """Describe Arrow data, for `accumulate`, the estimators' `fit` and `predict_dataset` to read.

    A table or a dataset is read in parallel. A stream is read in order by one task, in bounded memory, and in
    this process alone. If no scheduler is given, Dask's threads read it, even if a client of a cluster is
    active.

    Parameters
    ----------
    data : pyarrow Table, RecordBatch, Dataset, Scanner or RecordBatchReader, or data of another library
        A Lance dataset; a Polars LazyFrame; or anything with ``__arrow_c_stream__``, such as a Polars frame,
        a DuckDB relation or a pandas frame. A RecordBatchReader can be read once. All the others can be read
        again.
    target : str, optional
        The column of labels: integers, strings (plain or dictionary-encoded) or bools. A source without a
        target serves `predict_dataset` only.
    features : sequence of str, optional
        Columns, in the order wanted: of numbers, bools, dates, texts or lists of numbers; or patterns such as
        "x*". Lists are learnt as by `scan_parquet`. By default all columns but the target, the weight and the
        index of a pandas frame.
    exclude : sequence of str, optional
        Columns that are not features, if `features` is not given: names, or patterns such as "id*". Name
        identifiers here, since they are columns of numbers too.
    categories : "auto", Categorical or None, default="auto"
        Features with categories: all that hold strings or dictionaries, or those that `Categorical` names.
        Each category is then a feature of 0 and 1. A missing value is a category too. If None, all features
        are numbers.
    weight : str, optional
        A column of sample weights: repetitions of the row, whole or not.
    missing : {"raise", "drop", "marginal"}, default="raise"
        What becomes of a row that has a null, NaN or infinity in a feature, or has no label or weight. With
        "raise", an error names the row. With "drop", the row is left out, and counted in the statistics'
        `n_dropped`. With "marginal", rows in which features are null or NaN count by the features that they
        have, rows without a label are left out and counted, and `accumulate` returns `IncompleteStatistics`.
        A model with ``missing="marginal"`` learns from rows that lack features in any case.

    Returns
    -------
    Source

    Raises
    ------
    TypeError
        If the data is none of these.
    FileNotFoundError
        If a dataset has no files.
    ValueError
        If a column is missing, has two roles, or has a type that its role cannot have. If a dataset is
        filtered.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamgda import accumulate, scan_arrow
    >>> table = pa.table({"width": [1.0, 3.0, 8.0], "kind": ["a", "a", "b"]})
    >>> accumulate(scan_arrow(table, "kind"), "diag").means
    array([[2.],
           [8.]])
    """
    if isinstance(data, ds.Dataset):
        data.get_fragments()  # or Arrow's error, as for a filtered dataset, which has no parts
    if isinstance(data, ds.FileSystemDataset) and not data.files:
        raise FileNotFoundError("the dataset has no files")
    if isinstance(data, ds.InMemoryDataset):
        data = data.to_table()  # which can be sent to another process
    if isinstance(data, ds.Dataset) and _is_of_parquet_as_stored(data):
        kind: type[ParquetSource | ArrowSource] = ParquetSource
        data = Dataset.of_arrow(data)
        origin, stored, keys = data.first.path, data.stored, data.types
    else:
        kind, data = ArrowSource, _as_read(data)
        origin, stored, keys = "the data", data.schema, NO_KEYS
    choice = target, features, exclude, categories, weight, missing
    roles = choose_roles(data.schema, origin, *choice, stored, partial(_first_rows, data), keys)
    return kind(data, roles)


def _first_rows(data: Any, names: list[str]) -> pa.Table:
    """The first rows of some columns."""
    if isinstance(data, Dataset):
        return data.first_rows(names)
    if isinstance(data, ds.Dataset):
        return data.head(FIRST_ROWS, columns=names)
    if isinstance(data, Stream):
        data = pa.Table.from_batches(first_batches(data.open(names)))
    if isinstance(data, Reader):
        data = data.first()
    return data.select(names).slice(0, FIRST_ROWS)


def _is_of_parquet_as_stored(data: ds.Dataset) -> bool:
    """Whether a dataset lists each of its Parquet files once, and reads all stored columns in their types.

    A dataset may be given another schema. Then Arrow casts and leaves out columns. Files may lack some.
    """
    if not isinstance(data, ds.FileSystemDataset) or not isinstance(data.format, ds.ParquetFileFormat):
        return False
    first = next(data.get_fragments())
    keys = ds.get_partition_keys(first.partition_expression)
    as_read, as_stored = (
        {field.name: field.type for field in schema if field.name not in keys}
        for schema in (data.schema, first.physical_schema)
    )
    return as_stored.items() <= as_read.items() and len(set(data.files)) == len(data.files)


def _as_read(data: Any) -> pa.Table | ds.Dataset | Stream | Reader:
    """The data in the form in which a source reads it."""
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.Table | ds.Dataset):
        return data
    if isinstance(data, pa.RecordBatchReader):
        return Reader(data.schema, data)
    if isinstance(data, str | PathLike):
        raise TypeError(f"Arrow data is needed, got the path {data}; scan takes paths")
    if not isinstance(data, pa.ChunkedArray) and (stream := Stream.of(data)) is not None:
        return stream
    raise TypeError(
        "Arrow data is a Table, a Dataset, a Scanner, a RecordBatchReader or something with "
        f"__arrow_c_stream__; got {type(data).__name__}. A Dataset of another library has a table: "
        + ", ".join(f".{call} of {library}" for library, call in TABLES_OF_DATASETS.items())
    )


class ArrowSplit(BatchSplit):
    """Some Arrow data, with the roles of its columns, and the names of those to keep beside predictions."""

    origin = ""  # what errors call the data
    start = 0  # the position of its first row
    dataset = ""  # a name that tells the data from other parts of the dataset

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys((*self.roles.columns, *self.keep)))

    @abstractmethod
    def _read(self) -> Iterator[pa.RecordBatch]:
        """Read the columns, in order."""

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, Places]]:
        """The rows in batches of a block each, whatever the batches of the data."""
        places = Places(self.origin, self.start, dataset=self.dataset)
        return rebatched(map(decoded, self._read()), self.roles, places, self.keep)


class ArrowSource(TabularSource, ScorableSource):
    """Arrow data, which has a schema, with the roles of its columns; made by `scan_arrow`."""

    has_versions = False
    _keep: tuple[str, ...] = ()

    def __init__(self, data: pa.Table | ds.Dataset | Stream | Reader, roles: Roles) -> None:
        super().__init__(data, roles)
        self.is_quick_to_show = isinstance(data, pa.Table)
        self.is_one_shot = isinstance(data, Reader)
        self.is_local = _stays_here(data)

    @property
    def _known(self) -> tuple[pa.Schema, str]:
        return self._data.schema, "the data"

    def __repr__(self) -> str:
        name = "RecordBatchReader" if self.is_one_shot else type(self._data).__name__
        return f"<Arrow {name}: {self._roles.in_words}>"

    def splits(self) -> Sequence[ArrowSplit]:
        """Slices of a table, whatever its chunks; the fragments of a dataset; or a stream as a whole.

        Raises
        ------
        ValueError
            If the data can be read once, at every call but the first.
        """
        if isinstance(self._data, pa.Table):
            starts = range(0, self._data.num_rows, ROWS_PER_TASK)
            whole = TableSlice(self._data, self._roles, 0, self._keep)
            table = self._data.select(whole.columns)
            return [replace(whole, table=table.slice(start, ROWS_PER_TASK), start=start) for start in starts]
        if isinstance(self._data, ds.Dataset):
            fragments = list(self._data.get_fragments())
            paths = [getattr(fragment, "path", "") for fragment in fragments]
            root = common_folder(path.rpartition("/")[0] for path in paths if path)
            fragment_of = partial(Fragment, self._data.schema, self._roles, keep=self._keep)
            return [
                fragment_of(fragment, position, name_within(root, path), _version_of(fragment))
                for position, (fragment, path) in enumerate(zip(fragments, paths, strict=True))
            ]
        opened = self._data.spend() if self.is_one_shot else self._data.open
        return [StreamSplit(opened, self._roles, self._keep)]

    def to_score(
        self, keep: Sequence[str], each: MapFunction = map
    ) -> tuple[Sequence[ArrowSplit], pa.Schema]:
        """The same parts to read without labels, and the types of the columns to keep."""
        schema, origin = self._known
        check_known(keep, schema.names, origin)
        unlabelled = self._with_roles(replace(self._roles, target=None, weight=None, groups=None))
        unlabelled._keep = tuple(keep)
        return unlabelled.splits(), decoded_schema(pa.schema(map(schema.field, keep)))

    def overlaps(self, storage: Storage, folder: str) -> bool:
        """Never: predictions go into a folder that holds nothing else."""
        return False


def _stays_here(data: Any) -> bool:
    """Whether data cannot be sent to another process: streams, and datasets with parts in memory."""
    is_one = isinstance(data, Stream | Reader | ds.InMemoryDataset)
    return is_one or any(map(_stays_here, getattr(data, "children", ())))


def _version_of(fragment: ds.Fragment) -> Version | None:
    """The present version of the file that a fragment is, if it is one."""
    filesystem = getattr(fragment, "filesystem", None)
    return None if filesystem is None else Storage(filesystem).version(fragment.path)


@dataclass(frozen=True)
class TableSlice(ArrowSplit):
    """Some rows of a table in memory."""

    origin = "the table"

    table: pa.Table
    roles: Roles
    start: int
    keep: tuple[str, ...] = ()

    n_rows = property(attrgetter("table.num_rows"))

    def _read(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the chunks of the table."""
        return iter(self.table.to_batches())

    def __reduce__(self) -> tuple[Callable[..., TableSlice], tuple[Any, ...]]:
        """Send its own rows to another process: Arrow's pickle of a slice holds the whole table."""
        return _received_slice, (stream_of(self.table), self.roles, self.start, self.keep)


def _received_slice(content: pa.Buffer, *others: Any) -> TableSlice:
    return TableSlice(pa.ipc.open_stream(content).read_all(), *others)


@dataclass(frozen=True)
class Fragment(ArrowSplit):
    """A fragment of a dataset. Of a file, `version` is the one that the pass was planned for.

    `file` is the name of its file in the dataset; "" if it is no file.

    The number of rows is unknown, since the rows of a text file can be counted only by reading it.
    """

    schema: pa.Schema
    roles: Roles
    fragment: ds.Fragment
    position: int
    file: str
    version: Version | None
    keep: tuple[str, ...] = ()

    origin = property(lambda part: getattr(part.fragment, "path", f"fragment {part.position} of the dataset"))
    dataset = property(lambda part: part.file or part.origin)  # no two fragments have the same

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Read the fragment in order."""
        written_as = getattr(self.fragment, "format", self.fragment)
        self._check_unchanged()
        with decoding(self.origin, name_of_format(written_as), _UNREADABLE):
            for batch in self._scan():
                batch.validate(full=True)  # a damaged IPC file would crash the process
                yield batch
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if self.version is not None:
            Storage(self.fragment.filesystem).check_unchanged(self.fragment.path, self.version)

    def _scan(self) -> Iterator[pa.RecordBatch]:
        if not type(self.fragment).__module__.startswith("pyarrow."):  # such as Lance's
            return iter(self.fragment.scanner(columns=self.columns).to_reader())
        fragment = self.fragment
        if isinstance(fragment, ds.ParquetFileFragment):
            if any(pa.types.is_timestamp(self.schema.field(name).type) for name in self.columns):
                fragment = _in_microseconds(fragment)
            fragment.format.default_fragment_scan_options.page_checksum_verification = True
        return iter(
            fragment.to_batches(
                schema=self.schema, columns=self.columns, use_threads=False, batch_readahead=1
            )
        )


def _in_microseconds(fragment: ds.ParquetFileFragment) -> ds.ParquetFileFragment:
    """The same rows, where times that are stored as INT96 are read as those of listed files are."""
    old, groups = fragment.format, [group.id for group in fragment.row_groups]
    read = ds.ParquetReadOptions(old.read_options.dictionary_columns, INT96_UNIT)
    new = ds.ParquetFileFormat(read, default_fragment_scan_options=old.default_fragment_scan_options)
    return new.make_fragment(fragment.path, fragment.filesystem, fragment.partition_expression, groups)


@dataclass(frozen=True)
class Stream:
    """Data that can be read from its beginning as often as wanted.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of all its columns.
    open : callable
        Returns a new reader of the columns that are named, and perhaps of others.
    """

    schema: pa.Schema
    open: Open

    @classmethod
    def of(cls, data: Any) -> Self | None:
        """The stream of data of another library; None if the data cannot be read as a stream."""
        if hasattr(data, "collect_batches"):
            return cls(_schema_of_lazy_frame(data), partial(_read_lazy_frame, data))
        if hasattr(data, "to_reader") and hasattr(data, "projected_schema"):
            return cls(data.projected_schema, lambda names: data.to_reader())
        if hasattr(data, "scanner") and hasattr(data, "schema"):
            return cls(data.schema, lambda names: data.scanner(columns=names).to_reader())
        if hasattr(data, "__arrow_c_stream__"):
            read = partial(pa.RecordBatchReader.from_stream, data)
            if hasattr(data, "fetch_record_batch"):  # DuckDB, which below 2.0 streams only by its own methods
                method = "to_arrow_reader" if hasattr(data, "to_arrow_reader") else "fetch_record_batch"
                read = partial(getattr(data, method), _ROWS_OF_BATCH)
                if hasattr(data, "limit"):  # the relation itself would be computed for its schema
                    return cls(getattr(data.limit(0), method)().schema, lambda names: read())
            return cls(read().schema, lambda names: read())
        return None


def _schema_of_lazy_frame(frame: Any) -> pa.Schema:
    return frame.head(0).collect().to_arrow().schema


def _read_lazy_frame(frame: Any, names: list[str]) -> pa.RecordBatchReader:
    """Batches of a Polars LazyFrame as its engine makes them."""
    frame = frame.select(names)
    schema = _schema_of_lazy_frame(frame)
    batches = (
        batch for part in frame.collect_batches() for batch in part.to_arrow().cast(schema).to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


@dataclass
class Reader:
    """A reader of Arrow, which can be read once. Its first batches can be looked at before that."""

    schema: pa.Schema
    reader: pa.RecordBatchReader

    def first(self) -> pa.Table:
        """The rows of the first batches, which are still read later."""
        batches = list(first_batches(self.reader))
        self.reader = pa.RecordBatchReader.from_batches(self.schema, chain(batches, self.reader))
        return pa.Table.from_batches(batches, self.schema)

    def spend(self) -> Open:
        """What returns the reader; at the first call only."""
        reader, self.reader = self.reader, None
        if reader is None:
            raise ValueError(
                "this stream has been read and is spent: a RecordBatchReader can be read once. Scan a table, "
                "a dataset or what the reader was made from to read it again"
            )
        return lambda names: reader


@dataclass(frozen=True)
class StreamSplit(ArrowSplit):
    """All of a stream."""

    origin = "the stream"
    is_read_once = True

    open: Open
    roles: Roles
    keep: tuple[str, ...] = ()

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Read the stream in order."""
        with decoding(self.origin, "Arrow", _BROKEN):
            for batch in self.open(self.columns):
                columns = batch.select(self.columns)
                columns.validate(full=True)  # a damaged IPC stream would crash the process
                yield columns
