"""Arrow data: tables, datasets, and streams of record batches from whatever library makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from streamgda.blocks.block import Block, Missing, rows_of, rows_per_block
from streamgda.sources.base import ROWS_PER_TASK, Source, Split
from streamgda.sources.batches import blocks_of_batch
from streamgda.sources.errors import decoding
from streamgda.sources.parquet import ParquetSource
from streamgda.sources.roles import Roles, besides_index

Batches = Iterable[pa.RecordBatch]

_UNREADABLE = (
    "it is damaged or something else, or a column is not of the type that the dataset has for it (then make "
    "the dataset with a schema that serves all its files)"
)


def scan_arrow(
    data: Any,
    target: str,
    *,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    missing: Missing = "raise",
) -> Source:
    """Describe Arrow data, for `accumulate` and the estimators' `fit` to read.

    A table or a dataset is read in parallel. A stream is read in order by one task, in bounded
    memory, and in this process alone: by Dask's threads where no scheduler is asked for, even if a client
    of a cluster is active.

    Parameters
    ----------
    data : pyarrow Table, RecordBatch, Dataset or RecordBatchReader; or anything with ``__arrow_c_stream__``
        The latter is a Polars frame, a DuckDB relation, a pandas frame and many more; a Polars
        LazyFrame will do too. A RecordBatchReader can be read once. All the others can be read again.
    target : str
        The column of labels: integers, strings (plain or dictionary-encoded) or bools.
    features : sequence of str, optional
        Columns of numbers, in the order wanted; all but the target, the weight and the index of a
        pandas frame, where not given.
    weight : str, optional
        A column of sample weights: repetitions of the row, whole or not.
    missing : {"raise", "drop"}, default="raise"
        What becomes of a row with a null, NaN or infinity in a feature, or without a label or a
        weight: an error that names it, or left out and counted in the statistics' `n_dropped`.

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
        If a column is missing, has a type that cannot serve, or has two roles, or a dataset is filtered.

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
        _refuse_dataset_without_parts(data)
    if isinstance(data, ds.InMemoryDataset):
        data = data.to_table()  # which can be sent to another process
    if isinstance(data, ds.Dataset) and _is_of_parquet_as_stored(data):
        return ParquetSource(data, target, features, weight, None, missing)
    kind, data = _kind_of(data)
    roles = Roles.choose(
        data.schema.names,
        "the data",
        target=target,
        features=features,
        weight=weight,
        missing=missing,
        default=besides_index(data.schema),
    )
    roles.check_types(data.schema, "the data")
    return kind(data, roles)


def _refuse_dataset_without_parts(data: ds.Dataset) -> None:
    if isinstance(data, ds.FileSystemDataset) and not data.files:
        raise FileNotFoundError("the dataset has no files")
    try:
        data.get_fragments()
    except ValueError as error:
        raise ValueError(
            "a filtered dataset cannot be cut into parts: scan dataset.scanner(filter=...).to_reader(), read "
            "in one go, or the files with scan_parquet(..., filters=...)"
        ) from error


def _is_of_parquet_as_stored(data: ds.Dataset) -> bool:
    """Whether this is Parquet of which each file is read once, with the columns and types that it has.

    A dataset may be given a schema of its own; then Arrow casts, fills in and leaves out columns.
    """
    if not isinstance(data, ds.FileSystemDataset) or not isinstance(data.format, ds.ParquetFileFormat):
        return False
    first = next(data.get_fragments())
    keys = ds.get_partition_keys(first.partition_expression)
    schema, stored = (_types_besides(keys, schema) for schema in (data.schema, first.physical_schema))
    return schema == stored and len(set(data.files)) == len(data.files)


def _types_besides(keys: Mapping[str, Any], schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema if field.name not in keys]


def _kind_of(data: Any) -> tuple[type[ArrowSource], Any]:
    if isinstance(data, pa.RecordBatch):
        return TableSource, pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return TableSource, data
    if isinstance(data, ds.Dataset):
        return DatasetSource, data
    if isinstance(data, pa.RecordBatchReader):
        return ReaderSource, data
    if hasattr(data, "collect_batches"):
        return StreamSource, _Stream(partial(_read_lazy_frame, data))
    if hasattr(data, "__arrow_c_stream__"):
        return StreamSource, _Stream(partial(pa.RecordBatchReader.from_stream, data))
    if isinstance(data, str | PathLike):
        raise TypeError(f"Arrow data is needed, got the path {data}; scan_parquet takes paths")
    raise TypeError(
        "Arrow data is a Table, a Dataset, a RecordBatchReader or something with __arrow_c_stream__; "
        f"got {type(data).__name__}"
    )


class ArrowSource(Source):
    """Arrow data with the roles of its columns; made by `scan_arrow`."""

    def __init__(self, data: Any, roles: Roles) -> None:
        self._data = data
        self._roles = roles
        self.feature_names = roles.features

    def __repr__(self) -> str:
        return (
            f"<Arrow {type(self._data).__name__.strip('_')}: {len(self._roles.features)} features, "
            f"target {self._roles.target!r}>"
        )


class TableSource(ArrowSource):
    """A table in memory."""

    def splits(self) -> list[TableSlice]:
        """Slices of the table, whatever its chunks."""
        starts = range(0, self._data.num_rows, ROWS_PER_TASK)
        table = self._data.select(list(self._roles.columns))
        return [TableSlice(table.slice(start, ROWS_PER_TASK), self._roles, start) for start in starts]


class DatasetSource(ArrowSource):
    """A dataset of files that are not Parquet or not read as they are stored, or of tables."""

    @property
    def is_local(self) -> bool:
        """Whether some of it is in memory, which Arrow does not send."""
        return _is_in_memory(self._data)

    def splits(self) -> list[Fragment]:
        """The fragments, a split each."""
        return [Fragment(self._data.schema, fragment, self._roles) for fragment in self._data.get_fragments()]


class StreamSource(ArrowSource):
    """A stream that can be started again."""

    is_local = True

    def splits(self) -> list[StreamSplit]:
        """One: a stream has an order and no parts."""
        return [StreamSplit(self._data.open, self._roles)]


class ReaderSource(ArrowSource):
    """A stream that can be read once."""

    is_local = True

    def __init__(self, data: pa.RecordBatchReader, roles: Roles) -> None:
        super().__init__(data, roles)
        self._spent = False

    def splits(self) -> list[StreamSplit]:
        """One, once.

        Raises
        ------
        ValueError
            The second time.
        """
        if self._spent:
            raise ValueError(
                "this stream has been read and is spent: a RecordBatchReader can be read once. Scan a table, "
                "a dataset or what the reader was made from to read it again"
            )
        self._spent = True
        return [StreamSplit(lambda: self._data, self._roles)]


def _is_in_memory(dataset: ds.Dataset) -> bool:
    parts = getattr(dataset, "children", ())
    return isinstance(dataset, ds.InMemoryDataset) or any(map(_is_in_memory, parts))


@dataclass(frozen=True)
class TableSlice(Split):
    """Some rows of a table in memory."""

    table: pa.Table
    roles: Roles
    start: int

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def blocks(self) -> Iterator[Block]:
        """Cut the rows into blocks, whatever the chunks of the table."""
        return _blocks_of_batches(self.table.to_batches(), self.roles, "the table", self.start)

    def __reduce__(self) -> tuple[Callable[..., TableSlice], tuple[pa.Buffer, Roles, int]]:
        """Send its own rows to another process: Arrow's pickle of a slice holds the whole table."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return _received_slice, (sink.getvalue(), self.roles, self.start)


def _received_slice(content: pa.Buffer, roles: Roles, start: int) -> TableSlice:
    with pa.ipc.open_stream(content) as stream:
        return TableSlice(stream.read_all(), roles, start)


@dataclass(frozen=True)
class Fragment(Split):
    """A fragment of a dataset, such as a file of it."""

    schema: pa.Schema
    fragment: ds.Fragment
    roles: Roles

    @property
    def n_rows(self) -> None:
        """Unknown: to count the rows of a text file is to read it."""

    def blocks(self) -> Iterator[Block]:
        """Read the fragment in order."""
        where = getattr(self.fragment, "path", "the dataset")
        return _blocks_of_batches(self._batches(where), self.roles, where)

    def _batches(self, where: str) -> Iterator[pa.RecordBatch]:
        names = list(self.roles.columns)
        written_as = type(getattr(self.fragment, "format", self.fragment)).__name__.removesuffix("FileFormat")
        if isinstance(self.fragment, ds.ParquetFileFragment):
            self.fragment.format.default_fragment_scan_options.page_checksum_verification = True
        with decoding(where, written_as, _UNREADABLE):
            yield from self.fragment.to_batches(
                schema=self.schema, columns=names, use_threads=False, batch_readahead=1
            )


@dataclass(frozen=True)
class StreamSplit(Split):
    """All of a stream."""

    open: Callable[[], pa.RecordBatchReader]
    roles: Roles

    @property
    def n_rows(self) -> None:
        """Unknown until the stream ends."""

    def blocks(self) -> Iterator[Block]:
        """Read the stream in order."""
        return _blocks_of_batches(self.open(), self.roles, "the stream")

    def __reduce__(self) -> NoReturn:
        """Refuse to be sent to another process, where the stream is not."""
        raise TypeError(
            "a stream can be read in this process only: use scheduler='threads' or scheduler='synchronous'"
        )


@dataclass(frozen=True)
class _Stream:
    open: Callable[[], pa.RecordBatchReader]

    @property
    def schema(self) -> pa.Schema:
        return self.open().schema


def _read_lazy_frame(frame: Any) -> pa.RecordBatchReader:
    """Batches of a Polars LazyFrame as its engine makes them."""
    schema = frame.head(0).collect().to_arrow().schema
    batches = (
        batch for part in frame.collect_batches() for batch in part.to_arrow().cast(schema).to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def _blocks_of_batches(batches: Batches, roles: Roles, where: str, start: int = 0) -> Iterator[Block]:
    for batch in _rebatched(batches, roles):
        yield from blocks_of_batch(batch, roles, where, rows_of(where, start))
        start += batch.num_rows


def _rebatched(batches: Batches, roles: Roles) -> Iterator[pa.RecordBatch]:
    """The rows in batches of a block each, so that how they came makes no difference."""
    size = rows_per_block(len(roles.features))
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch.select(list(roles.columns)))
        rows += batch.num_rows
        while rows >= size:
            table = pa.Table.from_batches(waiting)
            yield _one_batch(table.slice(0, size))
            waiting, rows = table.slice(size).to_batches(), rows - size
    if rows:
        yield _one_batch(pa.Table.from_batches(waiting))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches()
    return batch
