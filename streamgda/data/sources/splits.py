"""Splits: the parts of a source, each of which one task reads once in a pass."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from operator import attrgetter, index
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.schema import MadeColumns
from streamgda.data.blocks.sparse import SparseRows

if TYPE_CHECKING:
    import pyarrow as pa
    from dask.delayed import Delayed

    from streamgda.data.storage.versions import Version


ROWS_PER_TASK = 1 << 18
# 512 MB in float64: tasks of wide rows are shorter, so that threads share them better.
_ELEMENTS_PER_TASK = 1 << 26

T = TypeVar("T")

Groups: TypeAlias = Sequence[Sequence[Any]]
"""The splits that one task reads, in groups of which each is read into one state."""


class Picklable:
    """What Arrow and Dask make is in it, which only protocols of pickle from 2 on hold."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Protocols 0 and 1 hold the bytes of a later one."""
        return (
            super().__reduce_ex__(protocol) if index(protocol) > 1 else (pickle.loads, (pickle.dumps(self),))
        )


class Split(Picklable, ABC):
    """A part of a source that one task reads, once in a pass.

    If the storage fails, the split is read again, and must give the same rows. A split whose `is_read_once`
    is true is not read again.
    """

    __slots__ = ()

    is_read_once = False
    is_remote = False  # whether `fetched` has something to fetch
    n_to_fetch = 0  # bytes, about
    n_rows: int | None = None  # where they need not be read to be counted
    n_bytes: int | None = None  # of the rows in all columns, where the storage says so

    @abstractmethod
    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Read the rows, in order. `among` are the labels that count, as for `labels.encode`."""

    @property
    def keeps_all_rows(self) -> bool:
        """Whether all `n_rows` rows are read: neither a filter nor ``missing="drop"`` leaves any out.

        False if it is not known.
        """
        return False

    def tables(self) -> Iterator[pa.Table]:
        """Read the rows, in order, as tables with the columns of `Source.schema`."""
        return map(_table_of, self.blocks())

    def fetched(self) -> Self:
        """The same split; if it is remote, its first bytes are being fetched."""
        return self

    def labels_ahead(self) -> tuple[int, int] | None:
        """How many of the first rows have been looked at, and how many labels these have.

        None where labels are not read without the features.
        """
        return None


@dataclass(frozen=True)
class LazySplit(Split):
    """A part that Dask has yet to compute, as a `Delayed` that becomes a split."""

    delayed: Delayed

    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Compute the part, and read its rows, in order."""
        part: Split = self.delayed.compute()
        return part.blocks(among)

    def tables(self) -> Iterator[pa.Table]:
        """Compute the part, and read its rows, in order."""
        part: Split = self.delayed.compute()
        return part.tables()


class ScorableSplit(Split):
    """A part of a source whose rows can be read with no labels, and with other columns beside them.

    Its fields, or its property `identity`, tell which rows of which version of the data are read, and how.
    """

    __slots__ = ()

    @abstractmethod
    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read the rows, in order, as blocks of one class, each with the columns that are kept, by name."""

    def enclosing(self, start: int, stop: int) -> tuple[ScorableSplit, int]:
        """The smallest part to read that holds rows `start` to `stop`, and how many rows are before it."""
        return self, 0


@dataclass(frozen=True)
class RowRange(ScorableSplit):
    """Rows `start` to `stop` of a split."""

    split: ScorableSplit
    start: int
    stop: int

    n_rows = property(lambda rows: rows.stop - rows.start)
    is_remote = property(attrgetter("split.is_remote"))
    n_to_fetch = property(attrgetter("split.n_to_fetch"))
    keeps_all_rows = property(attrgetter("split.keeps_all_rows"))

    def fetched(self) -> RowRange:
        """The same rows, of which the first bytes are being fetched."""
        enclosing, before = self.split.enclosing(self.start, self.stop)
        return RowRange(enclosing.fetched(), self.start - before, self.stop - before)

    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Read these rows, in order, without labels."""
        return (block for block, _ in self.features())

    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read these rows, in order, and the columns that are kept."""
        enclosing, before = self.split.enclosing(self.start, self.stop)
        position = before
        for block, beside in enclosing.features():
            first, last = max(self.start - position, 0), min(self.stop - position, len(block.codes))
            position += len(block.codes)
            if first < last:
                columns = {name: values[first:last] for name, values in beside.items()}
                yield block.between(first, last), columns


class JoinedSplits(Split):
    """Several splits, which are read as one."""

    __slots__ = ()

    splits: Sequence[Any]

    n_rows = property(lambda self: total(split.n_rows for split in self.splits))
    n_bytes = property(lambda self: total(split.n_bytes for split in self.splits))
    is_remote = property(lambda self: any(split.is_remote for split in self.splits))
    is_read_once = property(lambda self: any(split.is_read_once for split in self.splits))

    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Read the rows, in order."""
        return chain.from_iterable(split.blocks(among) for split in self.splits)

    def fetched(self) -> Self:
        """The same splits, of which the first is being fetched."""
        first = [split.fetched() for split in self.splits[:1]]
        return replace(self, splits=[*first, *self.splits[1:]])  # type: ignore[type-var]  # derived classes are dataclasses


@dataclass(slots=True)
class InputFile(JoinedSplits):
    """A file of a source, all of whose rows are a split.

    Attributes
    ----------
    path, location : str
        Its path in the dataset, and where it lies.
    version : Version or None
        The version to read; if None, the present one.
    partition : mapping of str to object
        Its partition keys.
    row_groups : tuple, optional
        Of a file of which a pyarrow dataset holds some row groups: which these are, and how many it has.
    splits : sequence of Split
        What is to be read of it, once its footer is known.
    columns : pyarrow.Schema, optional
        The columns to read, once its footer is known.
    name : str
        The name by which its rows are divided into parts or folds; "" if they are not.
    """

    path: str
    location: str
    version: Version | None
    partition: Mapping[str, Any]
    row_groups: tuple[list[int], int] | None = None
    splits: Sequence[Any] = ()
    columns: pa.Schema = None
    name: str = ""


def _table_of(block: Block) -> pa.Table:
    import pyarrow as pa

    rows = block.features
    columns: dict[str, Any]
    if isinstance(rows, MadeColumns) and not isinstance(rows, SparseRows):
        columns = {**rows.by_name()}
    elif block.feature_names is None:
        columns = {"X": lists_of(block.matrix(0, len(block.codes)))}
    else:
        each = rows.T if isinstance(rows, np.ndarray) else rows
        columns = dict(zip(block.feature_names, each, strict=True))
    beside = {"y": block.classes[block.codes], "weight": block.weights}
    for name in [name for name, values in beside.items() if values is not None]:
        columns[next(other for i in count() if (other := name + "_" * i) not in columns)] = beside[name]
    return pa.table(columns)


def lists_of(matrix: NDArray[Any]) -> pa.Array:
    """The rows of a matrix, as lists."""
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(matrix).ravel(), matrix.shape[1])


def total(numbers: Iterable[int | None]) -> int | None:
    """The sum, or None if a number is not known."""
    whole = 0
    for n in numbers:
        if n is None:
            return None
        whole += n
    return whole


def group_into_tasks(
    parts: Sequence[T],
    n_features: int | None = None,
    rows_per_task: int | None = None,
    n_rows: Callable[[T], int | None] = attrgetter("n_rows"),
) -> Iterator[Sequence[T]]:
    """Yield groups of consecutive splits, one for each task: at most `rows_per_task` rows, or a single split.

    A split of unknown size is a task of its own. By default a task has at most `ROWS_PER_TASK` rows, or fewer
    if these would take more than 512 MB.
    """
    most = rows_per_task or min(ROWS_PER_TASK, _ELEMENTS_PER_TASK // max(1, n_features or 1))
    start = rows = 0
    for i, part in enumerate(parts):
        n = n_rows(part)
        size = most if n is None else n
        if i > start and rows + size > most:
            yield parts[start:i]
            start, rows = i, 0
        rows += size
    if start < len(parts):
        yield parts[start:]
