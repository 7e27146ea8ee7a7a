"""Read remote files by few requests, which are made before their bytes are used.

A request for a few kilobytes takes as long as one for megabytes. So byte ranges that lie side by side are
requested together, and a long range in several requests at the same time. Threads that all readers of a
process share make the requests.

`fetch_ahead` begins to fetch splits before they are used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain
from math import ceil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.reading import Range, RangedFile, ReadRange, Request, open_whole, reader_of
from streamgda.data.storage.retries import storing
from streamgda.data.storage.threads import ENDING
from streamgda.data.storage.versions import Version

BYTES_TOGETHER = 1 << 26
"""Bytes of a row group that are requested together. A longer one takes rounds: a range of each column."""

_REQUEST = 12 << 20  # bytes of the longest request
_HOLE = 1 << 15  # bytes between two ranges that are fetched too, to save a request
_SMALL = 1 << 20  # bytes of a file that is read as a whole in any case
_AHEAD = 16  # splits that are fetched before they are used


def chunks_of(
    metadata: pq.FileMetaData, groups: Iterable[int], names: Collection[str]
) -> Iterator[list[pq.ColumnChunkMetaData]]:
    """Yield the chunks of some columns for each row group. Lists and structs have a chunk for each leaf."""
    columns = set(names)
    paths = [leaf.path for leaf in map(metadata.schema.column, range(metadata.num_columns))]
    enclosing = (accumulate(path.split("."), "{}.{}".format) for path in paths)  # of "a.b": "a" and "a.b"
    leaves = [i for i, names_of_leaf in enumerate(enclosing) if not columns.isdisjoint(names_of_leaf)]
    for index in groups:
        group = metadata.row_group(index)
        yield [group.column(i) for i in leaves]


def range_of(chunk: pq.ColumnChunkMetaData) -> Range:
    """Where a column chunk lies in its file."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    return start, start + chunk.total_compressed_size


def in_rounds(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Cut each range into equal ones. Yield the first of each, at most 64 MB in all, then the second."""
    n_ranges = ceil(sum(stop - start for start, stop in ranges) / BYTES_TOGETHER)
    for k in range(n_ranges):
        yield [_kth(*span, k, n_ranges) for span in ranges]


def _kth(start: int, stop: int, k: int, n_ranges: int) -> Range:
    return start + (stop - start) * k // n_ranges, start + (stop - start) * (k + 1) // n_ranges


def requests_for(ranges: Iterable[Range]) -> list[Request]:
    """The requests for some ranges that do not overlap, in their order."""
    requests: list[Request] = []
    for span in ranges:
        n_requests = ceil((span[1] - span[0]) / _REQUEST)
        for start, stop in (_kth(*span, k, n_requests) for k in range(n_requests)):
            last = requests[-1] if requests else None
            if last and 0 <= start - last.stop <= _HOLE and stop - last.start <= _REQUEST:
                last.stop, last.n_unread = stop, last.n_unread + stop - start
            else:
                requests.append(Request(start, stop, stop - start))
    return requests


def fetched(read: ReadRange, size: int, rounds: Sequence[Iterable[Range]]) -> RangedFile:
    """The needed ranges of a file, of which the first are being fetched."""
    requests = list(chain.from_iterable(map(requests_for, rounds)))
    return RangedFile(read, size, requests, BYTES_TOGETHER * min(len(rounds), 2))


@contextmanager
def decodable(storage: Storage, path: str, version: Version, *, ahead: bool) -> Iterator[pa.NativeFile]:
    """The bytes of a file for Arrow to decode; if they are remote, perhaps requested ahead in their order."""
    if storage.is_local:
        with storing(path):
            file = storage.filesystem.open_input_file(path)
        with file:
            yield file
        return
    if version.size is None:
        yield open_whole(storage, path)
        return
    read, size = reader_of(storage, path, size=version.size)
    requests = requests_for([(0, size)]) if ahead or size <= _SMALL else ()
    remote = RangedFile(read, size, requests, 2 * _REQUEST)
    try:
        yield remote.file
    except Exception as error:
        if remote.error is None or remote.error is error:
            raise
        raise remote.error from error
    finally:
        remote.close()


def fetch_ahead(splits: Iterable[Any]) -> Iterator[Any]:
    """Yield splits in order. While one is read, the next ones are fetched: at most 16, and 64 MB of them."""
    waiting, n_bytes = deque[Any](), 0
    for split in splits:
        if ENDING.is_set():
            raise SystemExit
        while waiting and (len(waiting) >= _AHEAD or n_bytes + split.n_to_fetch > BYTES_TOGETHER):
            n_bytes -= waiting[0].n_to_fetch
            yield waiting.popleft()
        waiting.append(split.fetched())
        n_bytes += split.n_to_fetch
    while waiting:
        if ENDING.is_set():
            raise SystemExit
        yield waiting.popleft()
