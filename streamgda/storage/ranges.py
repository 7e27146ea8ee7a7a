"""The byte ranges of a Parquet file that hold some columns, and the requests that are made for them.

A request for a few kilobytes takes as long as one for megabytes. So ranges that lie side by side are
requested together, and a long range is requested in pieces that are fetched at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import TypeAlias

import pyarrow.parquet as pq

STEP = 1 << 26
"""Bytes of a row group that are requested together. A longer one is cut into equal shares of each column."""

_REQUEST = 12 << 20  # bytes of the longest request

# A hole between two ranges is fetched too, to save a request: always up to the first number of bytes, as
# pyarrow does, and up to the second if it is at most a twentieth of the bytes that are needed.
_HOLE, _LONGEST_HOLE = 1 << 13, 1 << 16

Range: TypeAlias = tuple[int, int]
"""The first byte, and the byte behind the last."""


@dataclass
class Request:
    """A range to ask for, and how many of its bytes are needed."""

    start: int
    stop: int
    n_needed: int


def chunks_of(
    metadata: pq.FileMetaData, groups: Iterable[int], names: Collection[str]
) -> Iterator[list[pq.ColumnChunkMetaData]]:
    """Yield the chunks of some columns for each row group. Lists and structs have a chunk for each leaf."""
    known = set(names)
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)] if known else []
    enclosing = (accumulate(path.split("."), "{}.{}".format) for path in paths)  # of "a.b": "a" and "a.b"
    wanted = [i for i, leaf in enumerate(enclosing) if not known.isdisjoint(leaf)]
    for index in groups:
        group = metadata.row_group(index)
        yield [group.column(i) for i in wanted]


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
            last.stop, last.n_needed = stop, last.n_needed + stop - start
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
    most = min(max(last.n_needed // 20, _HOLE), _LONGEST_HOLE)
    return 0 <= hole <= most and stop - last.start <= _REQUEST
