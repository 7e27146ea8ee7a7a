"""Parts of the input that begin where chunks of the output do, wherever its splits end."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from streamgda.blocks.block import Block
from streamgda.sources.base import ScorableSplit
from streamgda.storage.fetching import Ahead

_LEAST_SHARE = 8


@dataclass(frozen=True)
class RowRange(ScorableSplit):
    """Rows `start` to `stop` of a split."""

    split: ScorableSplit
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.stop - self.start

    @property
    def keeps_all_rows(self) -> bool:
        """Whether no row is left out."""
        return self.split.keeps_all_rows

    @property
    def identity(self) -> list[Any]:
        """The split and the rows of it, as plain values."""
        return [self.split.identity, self.start, self.stop]

    @property
    def is_remote(self) -> bool:
        """Whether the rows are fetched from a remote storage."""
        return self.split.is_remote

    def begun(self, ahead: Ahead) -> RowRange:
        """The same rows, of which what `ahead` allows is being fetched."""
        enclosing, before = self.split.enclosing(self.start, self.stop)
        return RowRange(enclosing.begun(ahead), self.start - before, self.stop - before)

    def blocks(self) -> Iterator[Block]:
        """Read these rows, in order."""
        return (block for block, _ in self.features())

    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read these rows, in order, and the columns that are kept."""
        enclosing, before = self.split.enclosing(self.start, self.stop)
        position = before
        for block, beside in enclosing.features():
            first, last = max(self.start - position, 0), min(self.stop - position, len(block.codes))
            position += len(block.codes)
            if first < last:
                yield (
                    block.between(first, last),
                    {name: values[first:last] for name, values in beside.items()},
                )


def aligned(splits: Sequence[ScorableSplit], sizes: Sequence[int], chunk: int) -> list[list[RowRange]]:
    """Divide the rows into parts that begin at multiples of `chunk`, near to where the splits begin.

    Parameters
    ----------
    splits : sequence of ScorableSplit
        The input, in order.
    sizes : sequence of int
        The number of rows of each split.
    chunk : int
        The number of rows of a chunk.
    """
    bounds = [0, *accumulate(sizes)]
    starts = sorted({bound // chunk * chunk for bound in bounds[:-1]} - {bounds[-1]})
    stops = [*starts[1:], bounds[-1]]
    parts: list[list[RowRange]] = [[] for _ in starts]
    for split, (first, last) in zip(splits, pairwise(bounds), strict=True):
        for i in range(bisect_right(starts, first) - 1, bisect_left(starts, last)):
            if first < last:
                parts[i].append(RowRange(split, max(starts[i] - first, 0), min(stops[i], last) - first))
    return parts


def chunk_length(sizes: Sequence[int], most: int) -> int:
    """The number of rows of a chunk: up to `most`, so that splits end where chunks do if that is possible.

    Then no rows are read twice. Chunks of less than an eighth of `most` would cost more than that saves.
    """
    common = math.gcd(*list(accumulate(sizes))[:-1])
    if not common:
        return min(most, max(sum(sizes), 1))
    fewest, most_parts = -(-common // most), _LEAST_SHARE * common // most
    return next((common // n for n in range(fewest, most_parts + 1) if common % n == 0), most)
