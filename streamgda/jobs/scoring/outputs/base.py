"""What every kind of output can do: divide the input into parts, find the finished ones, write the others.

A run may end by an error or by Ctrl-C while its threads, or its tasks on a cluster, still compute. Nothing of
it writes after that. On a disk, a run has a folder of its own in the output: each file is written in it, and
renamed when it is complete. The run renames that folder before it frees the lock; from then on no file can be
made in it, nor leave it. Elsewhere a run has an empty file in the output, and looks for it before it puts
a file. There a put that began just before the end of its run may still come after it.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field
from functools import cached_property, partial
from operator import add
from typing import Any, Self

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.data.blocks.block import Block
from streamgda.data.sources.files.errors import add_place
from streamgda.data.sources.splits import JoinedSplits, ScorableSplit
from streamgda.data.storage.fetching import fetch_ahead
from streamgda.data.storage.filesystems import reached, resolve
from streamgda.data.storage.paths import AnyFileSystem, Path
from streamgda.data.storage.reading import request_threads
from streamgda.data.storage.retries import retried
from streamgda.data.storage.threads import wait_for

LOCK = ".predict_dataset.lock"

_RUN = ".predict_dataset.run-"  # what the names of all that belongs to a run begin with

_SECONDS_TO_END = 5.0  # a store that does not answer takes no file either

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


Tables = Iterable[tuple[pa.Table, int]]
"""Tables of predictions for consecutive rows, and how many rows of the input among them were left out."""


@dataclass(frozen=True)
class OutputPart(JoinedSplits):
    """A group of splits that makes a part of the output.

    Attributes
    ----------
    splits : sequence of ScorableSplit
        Its rows.
    name : str
        Its name in the output.
    fingerprint : str
        A hash of the model, the columns and the input. A part that is there already counts as finished if
        its fingerprint is the same.
    start, chunk : int
        In Zarr, its first row, and how many rows a chunk has.
    """

    splits: Sequence[ScorableSplit]
    name: str
    fingerprint: str
    start: int = 0
    chunk: int = 0

    n_bytes = None

    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read the rows, in order, and the columns that are kept."""
        for split in fetch_ahead(self.splits):
            yield from split.features()


# ---------------------------------------------------------------------- where it is written


class Writes:
    """Writes of a task that go on while it predicts its next rows; the end of `with` waits for all of them.

    At most 32 MB wait to be written, or one write if it is longer. An error of a write is raised here.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Future[Any]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        wait([future for _, future in self._waiting])
        for _, future in self._waiting if error is None else ():
            future.result()

    def begin(self, n_bytes: int, write: Callable[..., object], *arguments: object) -> Future[Any]:
        """Call a function in another thread as soon as there is room for so many bytes."""
        room = _MOST_BYTES_WAITING - n_bytes
        while self._waiting and (self._waiting[0][1].done() or sum(n for n, _ in self._waiting) > room):
            self._waiting.popleft()[1].result()
        future = request_threads().submit(write, *arguments)
        self._waiting.append((n_bytes, future))
        return future


class Output(ABC):
    """A folder that holds predictions and nothing else, written part by part.

    Parameters
    ----------
    path : path or URL
        The folder.
    filesystem : pyarrow or fsspec filesystem, optional
        Where it is. If None, inferred from the path.
    fields : iterable of Field
        What is written for each row.

    Attributes
    ----------
    run : str
        Where the run keeps what it has not finished, or shows that it goes on.
    """

    def __init__(self, path: Path, filesystem: AnyFileSystem | None, fields: Iterable[Field]) -> None:
        storage, name = resolve(path, filesystem)
        self.storage, folder = storage.unwrapped(name)
        self.path, self.fields = folder.rstrip("/"), tuple(fields)
        self.run, self._has_begun = f"{self.path}/{_RUN}{uuid.uuid4().hex}", False

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the tables that are written, in order, with their types."""
        return pa.schema([(name, field.type) for field in self.fields for name in field.columns])

    @abstractmethod
    def parts(self, splits: Sequence[ScorableSplit], made_by: str) -> list[OutputPart]:
        """The parts to write, in the order of the rows.

        Parameters
        ----------
        splits : sequence of ScorableSplit
            The input, in order.
        made_by : str
            The identity of the model and the columns. The fingerprints depend on it and on the input.

        Raises
        ------
        ValueError
            If the output needs the number of rows of each part, and one is not known.
        """

    @abstractmethod
    def prepare(self, parts: Sequence[OutputPart]) -> dict[str, PredictionSummary]:
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
        """The table with the columns and the types of `schema`; ValueError if one cannot be converted."""
        try:
            return table.select(self.schema.names).replace_schema_metadata().cast(self.schema)
        except pa.ArrowException as error:
            raise ValueError(f"kept columns differ in type from those of the dataset: {error}") from error

    @abstractmethod
    def write(self, part: OutputPart, rows: Tables, writes: Writes) -> PredictionSummary:
        """Write the rows of a part, wholly or not at all. Writes may still go on in `writes`."""

    @abstractmethod
    def finish(self, parts: Sequence[OutputPart]) -> None:
        """Complete the output after all parts are written.

        Raises
        ------
        RuntimeError
            If a part is missing, or was written by another run.
        """

    # ------------------------------------------------------------------ runs

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs from writing to a local folder; when it is freed, nothing of this run writes there.

        Raises
        ------
        RuntimeError
            If another run is writing there.
        ValueError
            If there is a file in place of the folder.
        """
        storage, folder = self.storage, self.path
        if reached(folder, lambda: storage.filesystem.get_file_info(folder).type) == pafs.FileType.File:
            raise ValueError(f"{folder} is a file; choose another place for the predictions")
        self.make_folder("")
        busy = f"another run of predict_dataset is writing to {folder}; wait until it has ended"
        with storage.locked(folder, busy, LOCK):
            try:
                yield
            finally:
                self._end()
                # A process that has opened the file just before locks a deleted file. Newer versions of
                # filelock try again then (tox-dev/filelock#574); with old ones, `finish` detects it.
                if storage.is_local:
                    with suppress(OSError):
                        storage.filesystem.delete_file(f"{folder}/{LOCK}")

    def listed(self) -> dict[str, int | None]:
        """The names in the folder, sorted, with the sizes of files."""
        self.storage.forget_listings()  # other processes may have written there since it was listed
        selector = pafs.FileSelector(self.path, allow_not_found=True)
        infos = reached(self.path, partial(self.storage.filesystem.get_file_info, selector))
        return {info.base_name: info.size for info in sorted(infos, key=lambda info: str(info.base_name))}

    def end_others(self, names: Iterable[str]) -> None:
        """Remove what is there of other runs: they were killed; or they go on, where there are no locks."""
        for name in names:
            if name.startswith(_RUN):
                self.remove(name, is_folder=self.storage.is_local)

    def begin(self) -> None:
        """Make what shows that this run goes on, before it writes."""
        self._has_begun = True
        self._change(partial(self.storage.begin_run, self.run))

    def _end(self) -> None:
        """Let nothing of this run write any more."""
        if self._has_begun and self.storage.is_local:
            self.storage.end_run(self.run)
        elif self._has_begun:
            wait([request_threads().submit(self.storage.end_run, self.run)], _SECONDS_TO_END)

    def _is_over(self) -> bool:
        with suppress(FileNotFoundError):
            self.storage.version(self.run)
            return False
        return True

    # ------------------------------------------------------------------ changes of the folder

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Name the output in errors of the storage that name no file; only writing belongs in the block."""
        try:
            yield
        except FileNotFoundError as error:
            if self._has_begun and self._is_over():
                raise self.overwritten() from error
            raise
        except OSError as error:
            if error.filename is None and "/" not in str(error):
                add_place(error, f"{self.path}, where predictions are written")
            raise

    def put(self, name: str, content: bytes | pa.Buffer, *, looks: bool = True) -> None:
        """Write a file, wholly or not at all, if this run goes on; that needs no look where the run calls."""
        path, run = f"{self.path}/{name}", self.run if looks or self.storage.is_local else None
        with self.naming(), self.storage.replacing(path, in_memory=True, run=run) as file:
            file.write(content)

    def make_folder(self, name: str) -> None:
        """Make a folder, where there are folders."""
        if not self.storage.is_object_store:
            self._change(
                partial(self.storage.filesystem.create_dir, f"{self.path}/{name}".rstrip("/"), recursive=True)
            )

    def remove(self, name: str, *, is_folder: bool = False) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""
        filesystem = self.storage.filesystem
        with suppress(FileNotFoundError):
            remove = filesystem.delete_dir if is_folder else filesystem.delete_file
            self._change(partial(remove, f"{self.path}/{name}"))

    def _change(self, call: Callable[[], object]) -> None:
        """Change the folder, on a disk in this thread: in another it would go on after Ctrl-C."""
        change = partial(retried, call)
        change() if self.storage.is_local else wait_for(change)

    def foreign(self, name: str) -> ValueError:
        """The error for a file that is no part of predictions."""
        return ValueError(
            f"{self.path} holds {name}, which is no part of predictions; choose a place of their own"
        )

    def overwritten(self) -> RuntimeError:
        """The error for an output that has parts of another run, or lacks those of this one."""
        return RuntimeError(
            f"{self.path} does not hold the predictions of this run: another run has written there "
            "at the same time, the workers do not share the folder, or the storage lists files late; run it "
            "again, alone"
        )
