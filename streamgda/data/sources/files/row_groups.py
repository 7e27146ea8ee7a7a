"""What one task reads of a Parquet dataset: some row groups of a file, decoded in bounded memory.

- Strings may be stored as a dictionary: the distinct strings, and an index for each row. A megabyte of
  these can stand for gigabytes of strings, so such a column is decoded as a dictionary too. Of other columns
  of strings, fewer rows are decoded at a time if the strings are long.
- Wide row groups are decoded some columns at a time. Arrow decodes all columns side by side, and holds a page
  of each beside the decoded rows. Where a column has a single page, that is twice the bytes of the row group.
- Views, which most of Arrow's functions do not take, become plain columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import accumulate, chain
from operator import attrgetter
from posixpath import normpath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamgda.data.blocks.block import Places, power_of_two_up_to, rows_per_block
from streamgda.data.blocks.types import decoded
from streamgda.data.blocks.wording import counted
from streamgda.data.sources.batches import BatchSplit
from streamgda.data.sources.columns.expressions import Filter, filtering
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.files.errors import decoding, opening
from streamgda.data.sources.files.keys import Absent, as_type, read_as
from streamgda.data.storage.fetching import BYTES_TOGETHER, chunks_of, fetched, in_rounds, range_of
from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.footers import DECODED, INT96_UNIT, SMALL_FILE, has_encrypted_columns, tail_of
from streamgda.data.storage.identity import UNTOLD, fields_of, identity_of
from streamgda.data.storage.reading import Range, RangedFile, reader_of, request_threads
from streamgda.data.storage.retries import StorageError
from streamgda.data.storage.versions import Version

_ROWS_TOGETHER = 1 << 15  # of small row groups: Arrow decodes many rows faster; more gains little
WIDE = 256  # columns
_READ_ELEMENTS = 1 << 23  # at a time, in float64 64 MB; half of that where rows are wide
_BUFFER = 1 << 16  # bytes of each column; a quarter of that where rows are wide
_BYTES_AT_A_TIME = 1 << 20  # of strings, by their mean length in a row group; a few may be many times as long
# The most that a dictionary and its indices take. Writers give up a dictionary that grows to 1 MB, and then
# store strings; the footer does not say so, but these take more.
_BYTES_OF_DICTIONARY = 1 << 21
_BYTES_OF_INDEX = 5
_MOST_VALUES = 20_000_000  # of wide row groups that are decoded as a whole: 160 MB
_COLUMNS_AT_A_TIME = 8  # decoded together, so that only their pages are in memory
_FEW_ROWS = 1 << 11  # of lists, which are decoded as fast as many
_ALIGNMENT = 64  # bytes, at multiples of which Arrow lets arrays begin


def name_within(folder: str, path: str) -> str:
    """The name of a file in the dataset of a folder, by which its rows have their folds and parts."""
    return normpath(path).removeprefix(folder).lstrip("/")


@dataclass(frozen=True)
class ReadOptions:
    """What all the splits of a dataset have in common."""

    storage: Storage
    roles: Roles
    filter: Filter | None
    keep: tuple[str, ...] = ()
    root: str = field(default="", metadata=UNTOLD)
    kinds: Mapping[str, str] = field(default_factory=dict)  # of labels and categories, as which keys are read

    @cached_property
    def identity(self) -> str:
        """A hash of what is read; there may be a million splits that share it."""
        return identity_of(fields_of(self))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns to read: those with a role, those of the filter, and those to be carried over."""
        return tuple(dict.fromkeys((*self.roles.columns, *self.filter_columns.names, *self.keep)))

    @cached_property
    def filter_columns(self) -> pa.Schema:
        """The columns that the filter refers to."""
        return pa.schema([]) if self.filter is None else self.filter.columns


_ABSENT = Absent(pa.null())


class _Remote(NamedTuple):
    """A remote file that is being fetched."""

    file: RangedFile
    footer: pq.FileMetaData | None
    is_whole: bool = True  # no row group is fetched in rounds
    check: Callable[[], None] = lambda: None  # raises an error if it was not in one version all the time


@dataclass(frozen=True, slots=True)
class RowGroups(BatchSplit):
    """Consecutive row groups of a file, with the partition keys of the file.

    There may be a million splits, so `groups` has the numbers and the rows of row groups as bytes of int64.
    """

    read_options: ReadOptions
    path: str
    version: Version
    partition: Mapping[str, Any]
    groups: bytes
    n_rows: int | None
    n_bytes: int | None = field(default=None, compare=False)
    footer: bytes = b""  # a hash of it, which tells files of one size and time apart
    remote: deque[Future[_Remote]] | None = field(default=None, compare=False, repr=False)  # until it is read

    roles = property(attrgetter("read_options.roles"))
    keep = property(attrgetter("read_options.keep"))
    is_remote = property(lambda groups: not groups.read_options.storage.is_local)

    @property
    def rows_of_group(self) -> dict[int, int]:
        """The numbers of the row groups, and how many rows each has by the footer."""
        numbers, rows = np.frombuffer(self.groups, np.int64).reshape(2, -1).tolist()
        return dict(zip(numbers, rows, strict=True))

    def labels_ahead(self) -> tuple[int, int] | None:
        """How many of the first rows have been looked at, and how many labels these have."""
        target = self.roles.target
        if target is None or target in self.partition or target in self.roles.derived:
            return None
        of_labels = ReadOptions(self.read_options.storage, Roles((target,), None, None, "raise"), None)
        with closing(replace(self, read_options=of_labels)._batches()) as batches:
            column = next(batches)[0].column(0)
            return len(column), len(column.unique())

    @property
    def identity(self) -> list[Any]:
        """The file, its version, what is read of it, and the name by which its rows are divided, if any."""
        self.version.warn_if_size_alone(self.path)
        name = name_within(self.read_options.root, self.path) if self.roles.parts else None
        return [fields_of(self), name]

    @property
    def keeps_all_rows(self) -> bool:
        """Whether all rows are read. A filter of partition keys alone keeps all or no rows of a file."""
        names = self.read_options.filter_columns.names
        by_keys = not any(isinstance(self.partition.get(name, _ABSENT), Absent) for name in names)
        return self.roles.keeps_all_rows and by_keys

    def enclosing(self, start: int, stop: int) -> tuple[RowGroups, int]:
        """The row groups that hold some rows, and how many rows come before them."""
        numbers, rows = np.frombuffer(self.groups, np.int64).reshape(2, -1)
        ends = rows.cumsum()
        inside = (ends > start) & (ends - rows < stop)
        part = np.array([numbers[inside], rows[inside]]).tobytes()
        n_rows, n_before = int(rows[inside].sum()), int((ends - rows)[inside][0])
        return replace(self, groups=part, n_rows=n_rows, n_bytes=None), n_before

    def fetched(self) -> RowGroups:
        """The same row groups; if they are remote, their first bytes are being fetched."""
        if not self.is_remote or self.remote:
            return self
        return replace(self, remote=deque([request_threads().submit(self._fetch)]))

    @property
    def n_to_fetch(self) -> int:  # type: ignore[override]  # a constant of other splits
        """The bytes that numbers take, without compression, up to those of a round."""
        options = self.read_options
        n_values = (self.n_rows or 0) * max(len(options.columns), len(self.roles.features))
        return min(8 * n_values, BYTES_TOGETHER) if self.is_remote else 0

    def _fetch(self) -> _Remote:
        """Open the file, request its first bytes, and check its version when all have come."""
        storage, path, version = self.read_options.storage, self.path, self.version
        known = DECODED.get(storage, path, version)
        read, size = reader_of(storage, path, known and known.file, version.size)
        if size <= SMALL_FILE:
            whole = (known and known.whole) or read(0, size)
            self._check_version()
            footer = known and known.metadata_of(pa.BufferReader(whole))
            return _Remote(RangedFile(lambda start, stop: whole.slice(start, stop - start), size), footer)
        footer = known and known.metadata
        if footer is None:
            tail = tail_of(read, size)
            footer = pq.read_metadata(pa.BufferReader(tail))
            if has_encrypted_columns(footer, tail):
                return _Remote(RangedFile(read, size), footer, check=self._check_version)
        rounds = self._needs(footer)
        remote, is_whole = fetched(read, size, rounds), len(rounds) < 2
        if remote.answers is None:  # the others are requested while it is read
            return _Remote(remote, footer, is_whole, self._check_version)
        check = request_threads().submit(self._check_version, remote.answers)
        return _Remote(remote, footer, is_whole, check.result)

    def _check_version(self, answers: Collection[Future[Any]] = ()) -> None:
        wait(answers)
        self.read_options.storage.check_unchanged(self.path, self.version)

    def _batches(self) -> Generator[tuple[pa.RecordBatch, Places]]:
        """Read the row groups, each once: the rows that pass the filter, and their places."""
        name = name_within(self.read_options.root, self.path)
        with self._open() as parquet:
            each = list(self._neighbours())
            groups = map(parquet.metadata.row_group, range(max(each[-1])))
            before = [0, *accumulate(group.num_rows for group in groups)]
            for together in each:
                first = before[min(together)]
                places = _PlacesInGroups(self.path, dataset=name, before=first, groups=together)
                yield from self._batches_of(parquet, together, places)

    def _batches_of(
        self, parquet: pq.ParquetFile, together: Mapping[int, int], places: Places
    ) -> Iterator[tuple[pa.RecordBatch, Places]]:
        n_features, n_rows = len(self.roles.features), 0
        with decoding(self.path):
            for decoded in decode(parquet, list(together), self._stored, n_features, self.keep):
                rows = np.arange(n_rows, n_rows + decoded.num_rows)
                n_rows += len(rows)
                batch = self._with_keys(decoded) if self.partition else decoded
                del decoded
                if self.read_options.filter is not None:
                    batch, rows = self._filter(batch, rows, self.read_options.filter)
                yield batch, places.take(rows)
                del batch
            numbers, n_said = list(together), sum(together.values())
            if n_rows != n_said:  # a damaged footer can hide pages
                named = f"row group {numbers[0]} has" if len(numbers) == 1 else f"row groups {numbers} have"
                raise pa.ArrowInvalid(f"{named} {counted(n_rows, 'row')}, and {n_said} by the footer")

    @contextmanager
    def _open(self) -> Iterator[pq.ParquetFile]:
        """The file, checked before and after it is read to be in the version that was planned for."""
        storage = self.read_options.storage
        if self.is_remote:
            with decoding(self.path), self._checked() as remote:
                yield self._parquet(remote.file.file, remote.footer, is_whole=remote.is_whole)
            return
        storage.check_unchanged(self.path, self.version)
        with opening(self.path):
            file = storage.filesystem.open_input_file(self.path)
        with file:
            with decoding(self.path):
                known = DECODED.get(storage, self.path, self.version)
                parquet = self._parquet(file, known and known.metadata_of(file), is_whole=False)
            yield parquet
            storage.check_unchanged(self.path, self.version)

    @contextmanager
    def _checked(self) -> Iterator[_Remote]:
        """The remote file, closed and checked to be in the planned version when all bytes have come."""
        remote = None
        try:
            remote = (self.fetched().remote or deque()).pop().result()
            yield remote
            remote.check()
        except (ValueError, OSError):  # perhaps the bytes are of another version
            with suppress(StorageError):
                self._check_version()
            raise
        finally:
            if remote is not None:
                remote.file.close()

    def _parquet(
        self, file: pa.NativeFile, metadata: pq.FileMetaData | None, *, is_whole: bool
    ) -> pq.ParquetFile:
        plain = {*self.partition, *self.read_options.filter_columns.names}
        target = self.roles.target
        coded = [*self.roles.encoded, *([] if target is None else [target])]
        labels = sorted(name for name in coded if name not in plain.union(self.keep))
        opened = partial(
            pq.ParquetFile,
            file,
            buffer_size=0 if is_whole else read_buffer(len(self._stored)),
            pre_buffer=False,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit=INT96_UNIT,
        )
        parquet = opened(metadata=metadata, read_dictionary=labels)
        metadata, keep = parquet.metadata, set(self.keep) - plain
        dictionaries = read_as_dictionaries(metadata, self.rows_of_group, labels, keep)
        as_wanted = dictionaries == labels
        return parquet if as_wanted else opened(metadata=metadata, read_dictionary=dictionaries)

    def _needs(self, metadata: pq.FileMetaData) -> list[list[Range]]:
        """What is fetched of a remote file: long row groups in rounds, unless they are decoded as a whole."""
        rounds: list[list[Range]] = [[]]
        as_a_whole, groups = most_rows(len(self._stored)), self.rows_of_group
        for n_rows, chunks in zip(groups.values(), chunks_of(metadata, groups, self._stored), strict=True):
            ranges = sorted(map(range_of, chunks))
            if sum(stop - start for start, stop in ranges) <= BYTES_TOGETHER or n_rows <= as_a_whole:
                rounds[-1] += ranges
            else:
                rounds += [*in_rounds(ranges), []]
        return rounds

    @property
    def _stored(self) -> list[str]:
        """The columns to read of the file."""
        return [name for name in self.read_options.columns if name not in self.partition]

    def _neighbours(self) -> Iterator[dict[int, int]]:
        """Row groups that are neighbours in the file and small enough to be read together."""
        together: dict[int, int] = {}
        most = min(_ROWS_TOGETHER, most_rows(len(self.read_options.columns)) or _ROWS_TOGETHER)
        for index, n_rows in self.rows_of_group.items():
            if together and (index - 1 not in together or sum(together.values()) + n_rows > most):
                yield together
                together = {}
            together[index] = n_rows
        yield together

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the partition keys that are read as columns."""
        kinds = self.read_options.kinds
        for name in dict.fromkeys((*self.roles.columns, *self.keep)):
            if name in self.partition and name not in batch.schema.names:
                key = self.partition[name]
                is_absent = isinstance(key, Absent)
                value = pa.nulls(1, key.kind) if is_absent else pa.array([read_as(key, kinds.get(name))])
                batch = batch.append_column(name, _repeated(value, batch.num_rows))
        return batch

    def _filter(
        self, batch: pa.RecordBatch, rows: NDArray[np.intp], condition: Filter
    ) -> tuple[pa.RecordBatch, NDArray[np.intp]]:
        names = [*batch.schema.names, *condition.columns.names]
        position = max(names, key=len) + "_"  # no column's name
        table = pa.Table.from_batches([batch.append_column(position, pa.array(rows))])
        table = table.drop_columns([name for name in batch.schema.names if name in self.partition])
        keys = [one for one in condition.columns if one.name in self.partition]
        for one in keys:
            value = pa.array([as_type(self.partition[one.name], one.type)])
            table = table.append_column(one.name, _repeated(value, len(rows)))
        for name, kind in condition.times_to_cast(table.schema).items():
            table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
        with filtering(self.path):
            rest = table.filter(condition.expression).combine_chunks()
        batches = rest.drop_columns([position, *(one.name for one in keys)]).to_batches()
        passing = batches[0] if batches else batch.slice(0, 0)
        return self._with_keys(passing), rest.column(position).to_numpy()


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


def _repeated(value: pa.Array, n: int) -> pa.Array:
    """The one value of an array, n times."""
    return value.take(pa.array(np.zeros(n, np.int8)))


def read_buffer(n_columns: int) -> int:
    """Bytes to read at a time of each column."""
    return _BUFFER if n_columns < WIDE else _BUFFER // 4


@cache
def rows_per_read(n_features: int) -> int:
    """Rows to decode at a time: a power of two, as the rows of a block are."""
    return power_of_two_up_to((_READ_ELEMENTS if n_features < WIDE else _READ_ELEMENTS // 2) // n_features)


def most_rows(n_columns: int) -> int:
    """The most rows of a row group of `n_columns` columns that is decoded as a whole; 0 unless it is wide."""
    return _MOST_VALUES // n_columns if n_columns >= WIDE else 0


def read_as_dictionaries(
    metadata: pq.FileMetaData, groups: Collection[int], labels: Collection[str], keep: Collection[str]
) -> list[str]:
    """The labels, and those of the columns to keep that are stored as dictionaries, in some row groups.

    Strings that are stored by their differences or lengths are left out: Arrow makes no dictionary of them.
    """
    every = chain.from_iterable(chunks_of(metadata, groups, {*labels, *keep}))
    chunks = [chunk for chunk in every if chunk.physical_type == "BYTE_ARRAY"]
    plain = {chunk.path_in_schema for chunk in chunks if not _has_indices(chunk)}
    in_differences = {
        chunk.path_in_schema for chunk in chunks if any("DELTA" in encoding for encoding in chunk.encodings)
    }
    strings = {chunk.path_in_schema for chunk in chunks}.intersection(keep) - plain
    return sorted({*labels, *strings} - in_differences)


def _has_indices(chunk: pq.ColumnChunkMetaData) -> bool:
    most = _BYTES_OF_DICTIONARY + _BYTES_OF_INDEX * chunk.num_values
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)


def decode(
    parquet: pq.ParquetFile,
    groups: Sequence[int],
    names: Sequence[str],
    n_features: int,
    keep: Collection[str],
) -> Iterator[pa.RecordBatch]:
    """Decode some columns of neighbouring row groups, some rows at a time.

    Row groups that are wide and short are decoded as a whole.

    Parameters
    ----------
    parquet : pyarrow.parquet.ParquetFile
        The file.
    groups : sequence of int
        The row groups, one after the other in the file.
    names : sequence of str
        The columns.
    n_features : int
        How many of them are features.
    keep : collection of str
        Which of them may have long strings.

    Raises
    ------
    pyarrow.ArrowException
        If the file is damaged; also if columns differ in length.
    """
    metadata = parquet.metadata
    n_rows = sum(metadata.row_group(i).num_rows for i in groups)
    chunks = chain.from_iterable(chunks_of(metadata, groups, keep)) if keep else ()
    n_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    most = max(int(_BYTES_AT_A_TIME * n_rows / max(n_bytes, 1)), 1)
    at_a_time = min(rows_per_read(n_features), most)
    if n_features > len(names):  # Arrow keeps two levels of each number in a list, and copies as it grows
        block = rows_per_block(n_features)
        at_a_time = min(block, max(block // 4, _FEW_ROWS), most)
    if n_rows <= min(most, most_rows(len(names))):
        batches = iter(_by_columns(parquet, groups, names, n_rows).to_batches(at_a_time))
    else:
        batches = parquet.iter_batches(at_a_time, row_groups=groups, columns=names, use_threads=False)
    return map(decoded, batches)


def _by_columns(
    parquet: pq.ParquetFile, groups: Sequence[int], names: Sequence[str], n_rows: int
) -> pa.Table:
    """The rows of some row groups as a whole, each column in one piece of memory.

    The values are copied into one piece of memory, which is given back to the system as a whole. The memory
    of many small arrays would stay with Arrow.
    """
    columns, fields = [], []
    # Pages that are not written take no memory.
    room = np.empty(len(names) * (8 * n_rows + _ALIGNMENT), np.uint8)
    for start in range(0, len(names), _COLUMNS_AT_A_TIME):
        few = names[start : start + _COLUMNS_AT_A_TIME]
        decoded = parquet.read_row_groups(groups, columns=few, use_threads=False)
        for column in map(pa.ChunkedArray.combine_chunks, decoded.columns):
            columns.append(_copied(column, room))
            if columns[-1] is not column:
                room = room[-(-column.nbytes // _ALIGNMENT) * _ALIGNMENT :]
        fields += list(decoded.schema)
        del decoded, column  # or it would be in memory while the next columns are decoded
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _copied(column: pa.Array, room: NDArray[np.uint8]) -> pa.Array:
    """A copy of a column of numbers at the beginning of `room`; itself if it has other values or nulls."""
    kind = column.type
    is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if column.null_count or not is_number or column.nbytes + _ALIGNMENT > len(room):
        return column
    values = column.to_numpy()
    copied = room[: values.nbytes].view(values.dtype)
    copied[:] = values
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(copied)])
