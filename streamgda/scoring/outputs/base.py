"""What every kind of output can do: divide the input into parts, find the finished ones, write the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import astuple, dataclass, field
from functools import cached_property, partial
from operator import add
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.blocks.block import Block
from streamgda.sources.base import JoinedSplits, ScorableSplit
from streamgda.sources.errors import add_place
from streamgda.storage.fetching import fetch_ahead, request_threads
from streamgda.storage.filesystems import Storage, reached

LOCK = ".predict_dataset.lock"

_MOST_BYTES_WAITING = 1 << 25

# ---------------------------------------------------------------------- what is written


@dataclass(frozen=True)
class Field:
    """A quantity that is written for each row, such as the label or the probabilities.

    Attributes
    ----------
    name : str
        The name of the quantity, and of its array in Zarr.
    columns : tuple of str
        Its columns in a table: one, or one for each class.
    type : pyarrow.DataType
        The type of each column.
    attributes : mapping
        Attributes of its array in Zarr, as plain values: "classes" where there is a column for each class.
    """

    name: str
    columns: tuple[str, ...]
    type: pa.DataType
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, column: pa.Field) -> Self:
        """The field of a column that is copied from the input."""
        return cls(column.name, (column.name,), column.type)


@dataclass(frozen=True)
class PredictionSummary:
    """What `predict_dataset` wrote.

    Attributes
    ----------
    n_rows : int
        Rows of the predictions.
    n_parts : int
        How many Parquet files, or ranges of Zarr chunks, hold them.
    n_found : int
        How many of these parts an earlier run had finished before it was stopped.
    n_dropped : int
        Rows that the source left out because a value was missing.
    """

    n_rows: int = 0
    n_parts: int = 0
    n_found: int = 0
    n_dropped: int = 0

    def __add__(self, other: PredictionSummary) -> PredictionSummary:
        return PredictionSummary(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class PredictedRows:
    """Predictions for consecutive rows, and how many rows of the input among them were left out."""

    table: pa.Table
    n_dropped: int = 0


@dataclass(frozen=True)
class Part(JoinedSplits):
    """A group of splits that makes a part of the output, its name and its fingerprint.

    The fingerprint is a hash of the model, the columns and the input. A part that is there already counts as
    finished if its fingerprint is the same.
    """

    splits: Sequence[ScorableSplit]
    name: str
    fingerprint: str

    n_bytes = None

    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read the rows, in order, and the columns that are kept."""
        for split in fetch_ahead(self.splits):
            yield from split.features()


P = TypeVar("P", bound=Part)


# ---------------------------------------------------------------------- where it is written


class Writes:
    """Writes of a task that go on while it predicts its next rows; the end of `with` waits for all of them.

    At most 32 MB wait to be written, or one write if it is longer. An error of a write is raised here, within
    the context that `naming` makes.
    """

    def __init__(self, naming: Callable[[], AbstractContextManager[None]]) -> None:
        self._naming, self._n_bytes = naming, 0
        self._waiting: deque[tuple[int, Future[Any]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        wait([future for _, future in self._waiting])
        while error is None and self._waiting:
            self._finish_first()

    def begin(self, n_bytes: int, write: Callable[..., object], *arguments: object) -> Future[Any]:
        """Call a function in another thread as soon as there is room for so many bytes."""
        while self._waiting and (self._waiting[0][1].done() or self._n_bytes + n_bytes > _MOST_BYTES_WAITING):
            self._finish_first()
        future = request_threads().submit(write, *arguments)
        self._waiting.append((n_bytes, future))
        self._n_bytes += n_bytes
        return future

    def _finish_first(self) -> None:
        n_bytes, future = self._waiting.popleft()
        self._n_bytes -= n_bytes
        with self._naming():
            future.result()


class Output(ABC, Generic[P]):
    """A folder that holds predictions and nothing else, written part by part."""

    fields: tuple[Field, ...]

    @property
    @abstractmethod
    def location(self) -> tuple[Storage, str]:
        """The filesystem, and the folder on it."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the tables that are written, in order, with their types."""
        return pa.schema([(name, field.type) for field in self.fields for name in field.columns])

    @abstractmethod
    def parts(self, splits: Sequence[ScorableSplit], made_by: Any) -> list[P]:
        """The parts to write, in the order of the rows.

        Parameters
        ----------
        splits : sequence of ScorableSplit
            The input, in order.
        made_by : object
            The model and the columns, as plain values. The fingerprints depend on these and on the input.

        Raises
        ------
        ValueError
            If the output needs the number of rows of each part, and one is not known.
        """

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Name the output in errors of the storage that name no file; only writing belongs in the block."""
        try:
            yield
        except OSError as error:
            if error.filename is None and "/" not in str(error):
                add_place(error, f"{self.location[1]}, where predictions are written")
            raise

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs from writing to a local folder. On other filesystems, `finish` detects other runs.

        Raises
        ------
        RuntimeError
            If another run is writing there.
        ValueError
            If there is a file in place of the folder.
        """
        storage, folder = self.location
        if reached(folder, lambda: storage.filesystem.get_file_info(folder).type) == pafs.FileType.File:
            raise ValueError(f"{folder} is a file; choose another place for the predictions")
        if not storage.is_object_store:
            reached(folder, partial(storage.filesystem.create_dir, folder, recursive=True))
        busy = f"another run of predict_dataset is writing to {folder}; wait until it has ended"
        with storage.locked(folder, busy, LOCK):
            try:
                yield
            finally:
                # A process that has opened the file just before locks a deleted file. Newer versions of
                # filelock try again then (tox-dev/filelock#574); with old ones, `finish` detects it.
                if storage.is_local:
                    with suppress(OSError):
                        storage.filesystem.delete_file(f"{folder}/{LOCK}")

    @abstractmethod
    def prepare(self, parts: Sequence[P]) -> dict[str, PredictionSummary]:
        """Prepare the folder for these parts: remove unfinished parts, and parts of another run.

        Returns
        -------
        dict of str to PredictionSummary
            The parts that are finished, by name.

        Raises
        ------
        ValueError
            If the folder holds anything that `predict_dataset` did not write. Then nothing is removed.
        """

    def in_schema(self, table: pa.Table) -> pa.Table:
        """The table with the columns and the types of `schema`.

        Raises
        ------
        ValueError
            If a column cannot be converted.
        """
        try:
            return table.select(self.schema.names).replace_schema_metadata().cast(self.schema)
        except pa.ArrowException as error:
            raise ValueError(f"kept columns differ in type from those of the dataset: {error}") from error

    @abstractmethod
    def write(self, part: P, rows: Iterable[PredictedRows], writes: Writes) -> PredictionSummary:
        """Write the rows of a part, wholly or not at all. Writes may still go on in `writes`."""

    @abstractmethod
    def finish(self, parts: Sequence[P]) -> None:
        """Complete the output after all parts are written, and remove what a killed worker left.

        Raises
        ------
        RuntimeError
            If a part is missing, or was written by another run.
        """

    def _overwritten(self) -> RuntimeError:
        return RuntimeError(
            f"{self.location[1]} does not hold the predictions of this run: another run has written there "
            "at the same time, or the workers do not share the folder; run it again, alone"
        )
