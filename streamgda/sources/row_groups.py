"""What one task reads of a Parquet dataset: some row groups of a file, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamgda.blocks.block import Block, Places, power_of_two_up_to
from streamgda.blocks.wording import counted
from streamgda.sources.base import ScorableSplit
from streamgda.sources.batches import blocks_of_batch, unlabelled_block
from streamgda.sources.errors import decoding, opening
from streamgda.sources.filters import Filter, filtering
from streamgda.sources.roles import Roles
from streamgda.sources.stored_columns import (
    WIDE,
    batch_without_views,
    decode_by_columns,
    most_rows,
    read_as_dictionaries,
    rows_at_a_time,
)
from streamgda.storage.fetching import Ahead, Needs, RemoteParquet
from streamgda.storage.filesystems import is_local
from streamgda.storage.ranges import STEP, Range, chunks_of, in_shares, range_of, size_of
from streamgda.storage.versions import Version, check_unchanged

_READ_ELEMENTS = 1 << 23  # at a time, in float64 64 MB; half of that where rows are wide

_BUFFER = 1 << 16  # bytes of each column

_ROWS_TOGETHER = 1 << 14  # of small row groups: Arrow decodes long runs faster


def read_buffer(n_columns: int) -> int:
    """Bytes to read at a time of each column."""
    return _BUFFER if n_columns < WIDE else _BUFFER // 4


def rows_per_read(n_features: int) -> int:
    """Rows to decode at a time: a power of two, as the rows of a block are."""
    return power_of_two_up_to((_READ_ELEMENTS if n_features < WIDE else _READ_ELEMENTS // 2) // n_features)


@dataclass(frozen=True)
class ReadOptions:
    """What all the splits of a dataset have in common."""

    filesystem: pafs.FileSystem
    roles: Roles
    filter: Filter | None
    kept: tuple[str, ...] = ()
    root: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read: those with a role, those of the filter, and those to be carried over."""
        return tuple(dict.fromkeys((*self.roles.columns, *self.filter_columns.names, *self.kept)))

    @property
    def filter_columns(self) -> pa.Schema:
        """The columns that the filter refers to."""
        return pa.schema([]) if self.filter is None else self.filter.columns


@dataclass(frozen=True)
class RowGroups(ScorableSplit):
    """Consecutive row groups of a file, with the partition keys that the file stands for."""

    read_options: ReadOptions
    path: str
    version: Version
    rows_of_group: Mapping[int, int]
    partition: Mapping[str, Any]
    remote: RemoteParquet | None = field(default=None, compare=False, repr=False)  # where it is begun
    n_bytes: int | None = field(default=None, compare=False, repr=False)  # as the footer says

    @property
    def n_rows(self) -> int:
        """How many rows the row groups hold, by the footer."""
        return sum(self.rows_of_group.values())

    def blocks(self) -> Iterator[Block]:
        """Read the row groups, each once, and cut them into blocks."""
        with self._opened() as stored:
            for batch, row_name in self._batches(stored):
                yield from blocks_of_batch(
                    batch, self.read_options.roles, self.path, row_name, self.partition
                )
                del batch  # or it would be held while the next one is decoded

    @property
    def identity(self) -> list[Any]:
        """The file and its version, the row groups, and what is read of them, as plain values."""
        filtered = None if self.read_options.filter is None else self.read_options.filter.identity
        rows = [self.path, self.version.identity, sorted(self.rows_of_group), dict(self.partition), filtered]
        roles = self.read_options.roles
        labels = [] if roles.target is None else [roles.target, roles.weight]
        return [*rows, roles.features, roles.missing, *labels]

    @property
    def keeps_all_rows(self) -> bool:
        """Whether all rows come out; a filter of partition keys alone lets through all or none of a file."""
        by_partition = all(name in self.partition for name in self.read_options.filter_columns.names)
        return self.read_options.roles.missing != "drop" and by_partition

    def enclosing(self, start: int, stop: int) -> tuple[RowGroups, int]:
        """The row groups that hold some rows, and how many rows come before them."""
        ends = dict(zip(self.rows_of_group, accumulate(self.rows_of_group.values()), strict=True))
        held = {i: n for i, n in self.rows_of_group.items() if ends[i] > start and ends[i] - n < stop}
        first = next(iter(held))
        return replace(self, rows_of_group=held, n_bytes=None), ends[first] - held[first]

    def features(self) -> Iterator[tuple[Block, Mapping[str, pa.Array]]]:
        """Read the features, each row group once, and the columns kept beside them."""
        roles, kept = self.read_options.roles, self.read_options.kept
        with self._opened() as stored:
            for batch, row_name in self._batches(stored):
                yield unlabelled_block(batch, roles, kept, self.path, row_name, self.partition)
                del batch

    @property
    def is_remote(self) -> bool:
        """Whether the file is remote."""
        return not is_local(self.read_options.filesystem)

    def begun(self, ahead: Ahead) -> RowGroups:
        """The same row groups, which are being fetched if they are remote."""
        filesystem = self.read_options.filesystem
        if not self.is_remote or (self.remote and not self.remote.is_closed):
            return self
        return replace(self, remote=ahead.begin(filesystem, self.path, self.version, self._needs))

    def _batches(self, stored: RemoteParquet | _LocalParquet) -> Iterator[tuple[pa.RecordBatch, Places]]:
        """Read the row groups, each once: the rows that the filter lets through, and what to call them."""
        with decoding(self.path):
            metadata = stored.metadata
            parquet = pq.ParquetFile(
                stored.file,
                metadata=metadata,
                read_dictionary=self._strings(metadata),
                buffer_size=0 if stored.is_read_whole else read_buffer(len(self._stored)),
                pre_buffer=False,
                page_checksum_verification=True,
            )
        before = _RowsBefore(metadata)
        for run in self._runs():
            name = self.path.removeprefix(self.read_options.root).lstrip("/")
            places = _PlacesInGroups(self.path, dataset=name, before=before.group(min(run)), groups=run)
            size = rows_at_a_time(metadata, run, self.read_options.kept)
            yield from self._batches_of_run(parquet, run, places, size)
        stored.check_unchanged()

    def _opened(self) -> RemoteParquet | _LocalParquet:
        filesystem = self.read_options.filesystem
        if is_local(filesystem):
            return _LocalParquet(filesystem, self.path, self.version)
        if self.remote and not self.remote.is_closed:
            return self.remote
        return Ahead().begin(filesystem, self.path, self.version, self._needs)

    def _needs(self, metadata: pq.FileMetaData) -> Needs:
        """What is fetched of a remote file: long row groups in shares, unless they are decoded as a whole."""
        steps: list[list[Range]] = [[]]
        is_in_shares = False
        as_a_whole = most_rows(len(self._stored))
        groups = self.rows_of_group
        for n_rows, chunks in zip(groups.values(), chunks_of(metadata, groups, self._stored), strict=True):
            ranges = sorted(map(range_of, chunks))
            if size_of(ranges) <= STEP or n_rows <= as_a_whole:
                steps[-1] += ranges
            else:
                steps += [*in_shares(ranges), []]
                is_in_shares = True
        return Needs(steps, is_in_shares)

    @property
    def _stored(self) -> list[str]:
        """The columns to read of the file."""
        return [name for name in self.read_options.columns if name not in self.partition]

    @property
    def _labels_alone(self) -> list[str]:
        """The target, unless it is of use as it is: long labels take little memory as a dictionary."""
        target, options = self.read_options.roles.target, self.read_options
        elsewhere = (None, *self.partition, *options.filter_columns.names, *options.kept)
        return [] if target is None or target in elsewhere else [target]

    def _strings(self, metadata: pq.FileMetaData) -> list[str]:
        """The labels, and strings to be carried over, that are read as dictionaries."""
        kept = set(self.read_options.kept).difference(self.read_options.filter_columns.names)
        return read_as_dictionaries(metadata, self.rows_of_group, self._labels_alone, kept)

    def _runs(self) -> Iterator[dict[int, int]]:
        """Runs of row groups that are neighbours in the file, and so small that they are read together."""
        run: dict[int, int] = {}
        as_a_whole = most_rows(len(self.read_options.columns))
        most = min(_ROWS_TOGETHER, as_a_whole) if as_a_whole else _ROWS_TOGETHER
        for index, n_rows in self.rows_of_group.items():
            if run and (index - 1 not in run or sum(run.values()) + n_rows > most):
                yield run
                run = {}
            run[index] = n_rows
        yield run

    def _batches_of_run(
        self, parquet: pq.ParquetFile, run: dict[int, int], places: Places, size: int
    ) -> Iterator[tuple[pa.RecordBatch, Places]]:
        start = 0
        for decoded in self._decoded(parquet, run, size):
            batch, rows = self._filtered(decoded, np.arange(start, start + decoded.num_rows))
            start += decoded.num_rows
            del decoded
            yield batch, places.take(rows)
            del batch

    def _decoded(self, parquet: pq.ParquetFile, run: dict[int, int], size: int) -> Iterator[pa.RecordBatch]:
        """The rows of a run, at most `size` at a time, checked to be as many as the footer says."""
        n_rows = 0
        with decoding(self.path):
            for batch in self._unchecked(parquet, run, self._stored, size):
                n_rows += batch.num_rows
                yield batch_without_views(batch)
                del batch
            if n_rows != sum(run.values()):  # a damaged footer can hide pages
                named = f"row group {min(run)} has" if len(run) == 1 else f"row groups {list(run)} have"
                raise pa.ArrowInvalid(
                    f"{named} {counted(n_rows, 'row')}, and {sum(run.values())} by the footer"
                )

    def _unchecked(
        self, parquet: pq.ParquetFile, run: dict[int, int], stored: list[str], size: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a run: cut from one table if it is wide and short, else decoded batch by batch."""
        n_rows = sum(run.values())
        at_a_time = min(rows_per_read(len(self.read_options.roles.features)), size)
        if n_rows <= min(size, most_rows(len(stored))):
            return iter(decode_by_columns(parquet, list(run), stored, n_rows).to_batches(at_a_time))
        batches: Iterator[pa.RecordBatch] = parquet.iter_batches(
            at_a_time, row_groups=list(run), columns=stored, use_threads=False
        )
        return batches

    def _filtered(
        self, batch: pa.RecordBatch, rows: NDArray[np.intp]
    ) -> tuple[pa.RecordBatch, NDArray[np.intp]]:
        if self.read_options.filter is None:
            return batch, rows
        expression, names = self.read_options.filter.expression, batch.schema.names
        position = max((*names, *self.read_options.filter_columns.names), key=len) + "_"  # no column's name
        table = pa.Table.from_batches([batch]).append_column(position, pa.array(rows))
        for column in self.read_options.filter_columns:
            if column.name in self.partition:
                values = pa.array([self.partition[column.name]] * len(rows), column.type)
                table = table.append_column(column, values)
        with filtering(self.path):
            left = table.filter(expression).select([*names, position]).combine_chunks()
        kept = left.column(position).to_numpy()
        batches = left.drop_columns([position]).to_batches()
        return (batches[0] if batches else batch.slice(0, 0)), kept


class _LocalParquet:
    """A local Parquet file, which is read as its rows are decoded."""

    is_read_whole = False

    def __init__(self, filesystem: pafs.FileSystem, path: str, version: Version) -> None:
        self._at = filesystem, path, version
        self.check_unchanged()
        with opening(path):
            self.file = filesystem.open_input_file(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    @property
    def metadata(self) -> pq.FileMetaData:
        return pq.read_metadata(self.file)

    def check_unchanged(self) -> None:
        check_unchanged(*self._at)


class _RowsBefore:
    """How many rows of a file come before a row group, asked for in rising order."""

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata
        self._index = self._rows = 0

    def group(self, index: int) -> int:
        while self._index < index:
            self._rows += self._metadata.row_group(self._index).num_rows
            self._index += 1
        return self._rows


@dataclass(frozen=True)
class _PlacesInGroups(Places):
    """The places of rows in neighbouring row groups, with the number of rows of each."""

    groups: Mapping[int, int] = field(default_factory=dict)

    def __call__(self, row: int) -> str:
        """The name of a row in an error: its row group, and its number in that."""
        ends = np.cumsum(list(self.groups.values()))
        number = self.number_of(row)
        position = int(np.searchsorted(ends, number, side="right"))
        index = list(self.groups)[position]
        return f"{self.origin}, row group {index}, row {number - (ends[position] - self.groups[index])}"
