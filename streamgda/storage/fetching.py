"""Read remote Parquet files by few requests, which are made before their bytes are used.

A request for a few kilobytes takes as long as one for megabytes. So byte ranges that lie side by side are
requested together, and a long range is requested in pieces that are fetched at the same time.

The requests are made by threads that all readers of a process share. For one task, at most 64 MB wait to be
used, or twice that if row groups are longer. A pass in threads of this process allows this for each thread,
and once more for the next tasks.

`read_ahead` reads anything else before it is used.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice, repeat
from math import ceil
from threading import RLock
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from streamgda.storage.filesystems import Storage, Version
from streamgda.storage.footers import (
    DECODED,
    FOOTERS,
    CachedFooter,
    has_encrypted_columns,
    keep_footer,
    tail_of,
    whole_of,
)
from streamgda.storage.reading import as_file, reader_of
from streamgda.storage.retries import storing
from streamgda.storage.threads import DaemonThreads

S = TypeVar("S")
T = TypeVar("T")

STEP = 1 << 26
"""Bytes of a row group that are requested together. A longer one is cut into equal shares of each column."""

_REQUEST = 12 << 20  # bytes of the longest request

# A hole between two ranges is fetched too, to save a request: always up to the first number of bytes, as
# pyarrow does, and up to the second if it is at most a twentieth of the bytes that are needed.
_HOLE, _LONGEST_HOLE = 1 << 13, 1 << 16

Range: TypeAlias = tuple[int, int]
"""The first byte, and the byte behind the last."""
MOST_PREFETCHED = 16  # splits at a time; `Prefetcher` limits how much of their data is fetched
_THREADS = 25  # as many connections as Arrow's client of S3 keeps
_MOST_UNUSED = 1 << 24  # bytes that `read_ahead` has read and that are not used yet
Plan: TypeAlias = Callable[[pq.FileMetaData], Sequence[Sequence[Range]]]
"""Returns the ranges that are needed of a file, from its footer, in steps. There are several steps if a row
group is so long that shares of its columns are fetched one after the other."""


@dataclass(eq=False)
class Request:
    """A range to ask for, how many of its needed bytes are unread, and what the storage returns."""

    start: int
    stop: int
    n_unread: int
    answer: Future[Any] | None = None


def chunks_of(
    metadata: pq.FileMetaData, groups: Iterable[int], names: Collection[str]
) -> Iterator[list[pq.ColumnChunkMetaData]]:
    """Yield the chunks of some columns for each row group. Lists and structs have a chunk for each leaf."""
    columns = set(names)
    leaf = metadata.schema.column
    paths = [leaf(i).path for i in range(metadata.num_columns)] if columns else []
    enclosing = (  # of "a.b": "a" and "a.b"
        accumulate(path.split("."), "{}.{}".format) if "." in path else [path] for path in paths
    )
    leaves = [i for i, leaf in enumerate(enclosing) if not columns.isdisjoint(leaf)]
    for index in groups:
        group = metadata.row_group(index)
        yield [group.column(i) for i in leaves]


def range_of(chunk: pq.ColumnChunkMetaData) -> Range:
    """Where a column chunk lies in its file."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    return start, start + chunk.total_compressed_size


def size_of(ranges: Iterable[Range]) -> int:
    """How many bytes some ranges have together."""
    return sum(stop - start for start, stop in ranges)


def in_shares(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Cut ranges into shares. Yield the first share of each, up to `STEP` bytes in all, then the second."""
    n_shares = ceil(size_of(ranges) / STEP)
    for k in range(n_shares):
        yield [
            (start + (stop - start) * k // n_shares, start + (stop - start) * (k + 1) // n_shares)
            for start, stop in ranges
        ]


def requests_for(ranges: Iterable[Range]) -> list[Request]:
    """The requests for some ranges that do not overlap, in their order."""
    requests: list[Request] = []
    for start, stop in _pieces(ranges):
        last = requests[-1] if requests else None
        if last is not None and _is_one_request(last, start, stop):
            last.stop, last.n_unread = stop, last.n_unread + stop - start
        else:
            requests.append(Request(start, stop, stop - start))
    return requests


def _pieces(ranges: Iterable[Range]) -> Iterator[Range]:
    for start, stop in ranges:
        n_pieces = ceil((stop - start) / _REQUEST)
        for k in range(n_pieces):
            yield start + (stop - start) * k // n_pieces, start + (stop - start) * (k + 1) // n_pieces


def _is_one_request(last: Request, start: int, stop: int) -> bool:
    hole = start - last.stop
    most = min(max(last.n_unread // 20, _HOLE), _LONGEST_HOLE)
    return 0 <= hole <= most and stop - last.start <= _REQUEST


class Prefetcher:
    """Fetches the needed ranges of one file, or of several in turn, before they are used.

    The end of `with` closes the files.

    Parameters
    ----------
    n_tasks : int
        How many tasks use it at once. The bytes that may wait to be used are allowed for each of them.
    """

    def __init__(self, n_tasks: int = 1) -> None:
        self.n_tasks = n_tasks
        self.lock = RLock()
        self.n_waiting = 0  # bytes that were asked for, and wait to be used
        self._files: deque[RemoteParquet] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in tuple(self._files):
            file.close()

    def fetch(self, storage: Storage, path: str, version: Version, plan: Plan) -> RemoteParquet:
        """Start to fetch the footer of a file of this version, and what is needed; return at once."""
        file = RemoteParquet(storage, path, version, plan, self)
        with self.lock:
            self._files.append(file)
        return file

    def ask(self) -> None:
        """Make as many requests as there is room for, in order."""
        with self.lock:
            all(file.ask() for file in self._files)

    def drop(self, file: RemoteParquet) -> None:
        """Make no more requests for a file."""
        with self.lock:
            self._files.remove(file)
            self.ask()


class Prefetchable(Protocol):
    """A split whose data can be fetched before they are read."""

    is_remote: bool

    def prefetch(self, prefetcher: Prefetcher) -> Self:
        """Start to fetch as much as there is room for, and return the split with what is fetched."""


P = TypeVar("P", bound=Prefetchable)


class RemoteParquet:
    """A remote Parquet file that is being fetched. `Prefetcher.fetch` makes it; the end of `with` closes it.

    An error of a request is raised when its bytes are used.
    """

    def __init__(
        self, storage: Storage, path: str, version: Version, plan: Plan, prefetcher: Prefetcher
    ) -> None:
        self._storage, self._path, self._version = storage, path, version
        self._plan, self._prefetcher = plan, prefetcher
        self._parts: list[Request] = []
        self._turns: deque[Request] = deque()
        self._n_unanswered = 0
        self._most_waiting = STEP
        self._is_planned = self.is_closed = False
        self._check_result: Future[None] | None = None
        self._metadata = request_threads().submit(self._open)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()
        if isinstance(error, ValueError | OSError):  # perhaps the bytes are of another version
            try:
                self._check()
            except FileNotFoundError:
                raise
            except OSError:  # the first error tells more
                pass

    def close(self) -> None:
        """Make no more requests, and forget what was fetched."""
        with self._prefetcher.lock:
            if self.is_closed:
                return
            self.is_closed = True
            self._turns.clear()
            for part in self._parts:
                self._forget(part)
            self._prefetcher.drop(self)
        self._metadata.cancel()

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        return self._metadata.result()

    @property
    def is_read_whole(self) -> bool:
        """Whether Arrow is to read a column of a row group as a whole."""
        return self._most_waiting == STEP

    @property
    def file(self) -> pa.NativeFile:
        """The file, for Arrow to read."""
        return as_file(self._read, self._size)

    def check_unchanged(self) -> None:
        """Raise ValueError if the file had changed by the time that all needed bytes were fetched."""
        self._check() if self._check_result is None else self._check_result.result()

    def ask(self) -> bool:
        """Make requests while there is room, and return whether all are made."""
        while self._turns and self._prefetcher.n_waiting < self._most_waiting * self._prefetcher.n_tasks:
            self._request(self._turns.popleft())
        return self._is_planned and not self._turns

    # ---------------------------------------------------------------------- in the threads of the pool

    def _open(self) -> pq.FileMetaData:
        place = self._storage, self._path, self._version
        footer = FOOTERS.get(*place)
        whole, file = (None, None) if footer is None else (footer.whole, footer.file)
        if whole is not None:
            self._size = len(whole)
        else:
            with storing(self._path):
                if file is None and not (footer and self._storage.fsspec):
                    file = _open_file(*place)
            self._bytes, self._size = reader_of(self._storage, self._path, file, self._version.size)
        tail = whole or pa.py_buffer(b"")
        if footer is None:
            tail, n_footer = tail_of(self._bytes, self._size)
            footer = CachedFooter(tail[-n_footer:].to_pybytes(), file, whole_of(tail, self._size))
            keep_footer(*place, footer)
        if (known := DECODED.get(*place)) is not None and known.tail == footer.tail:
            metadata = known.metadata
        else:
            metadata = pq.read_metadata(pa.BufferReader(footer.tail))
        self._begin([] if has_encrypted_columns(metadata, footer.tail) else self._plan(metadata), tail)
        return metadata

    def _begin(self, steps: Sequence[Sequence[Range]], tail: pa.Buffer) -> None:
        """Make the first requests: for what is needed and is not in the tail of the file."""
        end = self._size - len(tail)
        parts = [
            request
            for step in steps
            for request in requests_for((start, min(stop, end)) for start, stop in step if start < end)
        ]
        at_hand: Future[Any] = Future()
        at_hand.set_result(tail)
        with self._prefetcher.lock:
            if self.is_closed:
                return
            self._turns.extend(parts)
            self._parts = sorted(
                [*parts, Request(end, self._size, len(tail), at_hand)], key=lambda part: part.start
            )
            self._starts = [part.start for part in self._parts]
            self._n_unanswered = len(parts)
            self._most_waiting = 2 * STEP if len(steps) > 1 else STEP
            self._prefetcher.n_waiting += len(tail)
            self._is_planned = True
            self._check_if_complete()
            self._prefetcher.ask()

    def _answer(self, start: int, stop: int) -> pa.Buffer:
        answer = self._bytes(start, stop)
        with self._prefetcher.lock:
            self._n_unanswered -= 1
            self._check_if_complete()
        return answer

    def _check_if_complete(self) -> None:
        if not self._n_unanswered and not self.is_closed:
            self._check_result = request_threads().submit(self._check)

    def _check(self) -> None:
        with storing(self._path):
            self._storage.check_unchanged(self._path, self._version)

    # ---------------------------------------------------------------------- in the thread that decodes

    def _read(self, start: int, stop: int) -> pa.Buffer:
        """The bytes of a range; most lie in one part."""
        pieces = []
        position = bisect_right(self._starts, start) - 1
        for part in self._parts[max(position, 0) :]:
            if start == stop or not part.start <= start < part.stop:
                break
            end = min(stop, part.stop)
            pieces.append(self._take(part, start, end))
            start = end
        if start < stop:  # not asked for: some writers fill up the pages of a column
            pieces.append(self._bytes(start, stop))
        return pieces[0] if len(pieces) == 1 else pa.py_buffer(b"".join(pieces))

    def _take(self, part: Request, start: int, stop: int) -> pa.Buffer:
        with self._prefetcher.lock:
            if part.answer is None and part in self._turns:  # it is needed earlier
                self._turns.remove(part)
            answer = part.answer or self._request(part)
        content = answer.result().slice(start - part.start, stop - start)
        with self._prefetcher.lock:
            part.n_unread -= stop - start
            if part.n_unread <= 0:
                self._forget(part)
                self._prefetcher.ask()
        return content

    # ---------------------------------------------------------------------- in either, with the lock

    def _request(self, part: Request) -> Future[Any]:
        part.answer = request_threads().submit(self._answer, part.start, part.stop)
        self._prefetcher.n_waiting += part.stop - part.start
        return part.answer

    def _forget(self, part: Request) -> None:
        if part.answer is not None:
            part.answer.cancel()
            part.answer = None
            self._prefetcher.n_waiting -= part.stop - part.start


@lru_cache(1)
def request_threads() -> DaemonThreads:
    """The threads that make the requests of this process, at most one for each connection."""
    return DaemonThreads(_THREADS, "streamgda-requests")


# A forked child process has none of the threads.
os.register_at_fork(after_in_child=request_threads.cache_clear)


@dataclass(frozen=True)
class Prefetched(Generic[P]):
    """Splits in order. While one is read, data of the next ones are fetched from remote storage."""

    splits: Sequence[P]

    def __iter__(self) -> Iterator[P]:
        remaining, waiting = iter(self.splits), deque[P]()
        with Prefetcher() as prefetcher:
            while True:
                following = list(islice(remaining, MOST_PREFETCHED - len(waiting)))
                waiting.extend(prefetch_first(following, prefetcher))
                if not waiting:
                    return
                yield waiting.popleft()


def prefetch_first(splits: Sequence[P], prefetcher: Prefetcher) -> Sequence[P]:
    """The same splits; data of the first ones, where they are remote, are being fetched."""
    if not splits or not splits[0].is_remote:
        return splits
    first = [split.prefetch(prefetcher) for split in splits[:MOST_PREFETCHED]]
    return [*first, *splits[MOST_PREFETCHED:]]


def read_ahead(
    read: Callable[[S], T],
    places: Iterable[S],
    n_ahead: int,
    sizes: Iterable[int] = repeat(0),
    n_threads: int | None = None,
) -> Generator[T]:
    """Yield what is read at some places, in order. Threads read at the next `n_ahead` places meanwhile.

    There are as many threads, unless another number is given. If the sizes at the places are given, in bytes,
    at most 16 MB are read and not yet used, or one place if it is larger. What is yielded counts as used when
    the next is requested. An error of reading a place is raised when the turn of that place comes.
    """
    if not n_ahead:
        yield from map(read, places)
        return
    coming, unused_sizes = zip(places, sizes, strict=False), deque[int]()
    following = next(coming, None)
    with DaemonThreads(n_threads or n_ahead, "streamgda-readers") as readers:
        waiting = deque[Future[T]]()
        try:
            while following or waiting:
                while following and len(waiting) <= n_ahead:
                    place, size = following
                    if waiting and sum(unused_sizes) + size > _MOST_UNUSED:
                        break
                    waiting.append(readers.submit(read, place))
                    unused_sizes.append(size)
                    following = next(coming, None)
                yield waiting.popleft().result()
                unused_sizes.popleft()
        finally:
            for future in waiting:
                future.cancel()


def _open_file(storage: Storage, path: str, version: Version) -> pa.NativeFile | None:
    """An opened file of this version; None on an fsspec filesystem, where ranges are read by path."""
    file, present = (None, None) if storage.fsspec else storage.open(path)
    storage.check_unchanged(path, version, present)
    return file
