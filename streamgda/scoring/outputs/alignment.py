"""Parts of a source that begin where chunks of the output do, though its splits end anywhere."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from streamgda.blocks.block import Block
from streamgda.sources.base import ScorableSplit

_LEAST_SHARE = 8


@dataclass(frozen=True)
class Piece:
    """Rows `start` to `stop` of a split, counted within it."""

    split: ScorableSplit
    start: int
    stop: int

    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read these rows, in order, and the columns beside them."""
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


@dataclass(frozen=True)
class Aligned(ScorableSplit):
    """Consecutive pieces of splits."""

    pieces: tuple[Piece, ...]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def keeps_all_rows(self) -> bool:
        """Whether none of them may be left out."""
        return all(piece.split.keeps_all_rows for piece in self.pieces)

    @property
    def identity(self) -> list[Any]:
        """The splits and the rows of each."""
        return [[piece.split.identity, piece.start, piece.stop] for piece in self.pieces]

    def blocks(self) -> Iterator[Block]:
        """Read the rows alone."""
        return (block for block, _ in self.features())

    def features(self) -> Iterator[tuple[Block, Mapping[str, Any]]]:
        """Read the rows, in order, and the columns beside them."""
        for piece in self.pieces:
            yield from piece.features()


def aligned(splits: Sequence[ScorableSplit], sizes: Sequence[int], chunk: int) -> list[Aligned]:
    """The same rows in parts that begin at multiples of `chunk`, and not far from where the splits do.

    Parameters
    ----------
    splits : sequence of SplitToScore
        The input, in order.
    sizes : sequence of int
        The rows of each.
    chunk : int
        Rows of a chunk.
    """
    bounds = [0, *accumulate(sizes)]
    starts = sorted({bound // chunk * chunk for bound in bounds[:-1]} - {bounds[-1]})
    stops = [*starts[1:], bounds[-1]]
    parts: list[list[Piece]] = [[] for _ in starts]
    for split, (first, last) in zip(splits, pairwise(bounds), strict=True):
        for i in range(bisect_right(starts, first) - 1, bisect_left(starts, last)):
            if first < last:
                parts[i].append(Piece(split, max(starts[i] - first, 0), min(stops[i], last) - first))
    return [Aligned(tuple(pieces)) for pieces in parts]


def chunk_length(sizes: Sequence[int], most: int) -> int:
    """Rows of a chunk: up to `most`, so many that splits of these sizes end where chunks do, if that can be.

    Then nothing is read twice. Chunks much shorter than `most` are not worth that.
    """
    common = math.gcd(*list(accumulate(sizes))[:-1])
    if not common:
        return min(most, max(sum(sizes), 1))
    fewest, most_parts = -(-common // most), _LEAST_SHARE * common // most
    return next((common // n for n in range(fewest, most_parts + 1) if common % n == 0), most)
