"""The exact kernel: the sums and products of the rows of a block, as integers on a binary grid.

Most rows of a block need few slices. A few rows may need more: those with a value next to zero, whose last
bit is far below the bits of the others, and those with an outlier. These rows are cut separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.block import INTEGERS_OF_FLOATS, Block, Column, Features, Matrix
from streamgda.kernels import Workspace
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.exact.numbers import ExactArray, Integers
from streamgda.statistics.exact.slices import (
    LOW_BITS,
    TILE_ROWS,
    WIDTH,
    Products,
    Segments,
    Slicer,
    Slices,
    Terms,
    Values,
)
from streamgda.statistics.exact.sums import Sums

_SAMPLE_ROWS = 512  # from which the usual size of values is estimated
_USUAL = 0.98  # the quantile that counts as the largest usual value
_SPARE_BITS = 2  # the largest of all may exceed it by so many bits before rows are set aside
_MOST_LEFT = 1 / 16  # of the rows; to cut more of them separately costs more than one more slice for all
_LOW = (1 << LOW_BITS) - 1


def reduce_block(block: Block, kind: CovarianceKind, workspace: Workspace) -> Sums:
    """The sums of the classes of a block.

    Raises
    ------
    ValueError
        If a value is NaN or infinite, or a weight is not a whole number; the message says where.
    """
    sums, every = Sums.zeros(kind, len(block.classes), block.n_features), np.arange(len(block.classes))
    for exponent, part in _repetitions(block):
        bounds = _bounds(part.codes, len(block.classes))
        sums.merge(_sums_of(_gather(part, bounds, workspace), bounds, kind, exponent), every)
    return sums


def _sums_of(values: Values, bounds: Indices, kind: CovarianceKind, exponent: int) -> Sums:
    """The sums of rows that count 2^exponent times, where class k holds rows bounds[k]:bounds[k + 1]."""
    tops, beyond = _usual_tops(values)
    units = tops - (WIDTH - 1)
    rows = _RowSums(kind, units, len(bounds) - 1)
    left = rows.add_but_few(values, bounds, beyond)
    if left.any():
        codes = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[left]
        rows.add_all(values.take(left), _bounds(codes, len(bounds) - 1))
    return rows.sums(np.diff(bounds), exponent)


def _bounds(codes: NDArray[np.integer], n_classes: int) -> Indices:
    return np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=n_classes))))


def _repetitions(block: Block) -> Iterator[tuple[int, Block]]:
    """The rows that count 2^e times, for each e: a weight is the sum of the powers of two in it."""
    if block.weights is None:
        yield 0, block
        return
    whole = (block.weights == np.floor(block.weights)) & (block.weights < INTEGERS_OF_FLOATS)
    if not whole.all():
        row = int(np.argmin(whole))
        raise ValueError(
            f"{block.row_name(row)} has weight {block.weights[row]!s}; exact statistics take whole numbers "
            "below 2^53, repetitions of a row. Use ClassStatistics for others, or scale them to be whole"
        )
    weights = block.weights.astype(np.int64)
    for exponent in range(int(weights.max()).bit_length()):
        rows = np.flatnonzero((weights >> exponent) & 1)
        if len(rows):
            yield exponent, replace(block.take(rows), classes=block.classes, codes=block.codes[rows])


class _RowSums:
    """Sums and products of the slices of rows, by the numbers of the slices.

    Parameters
    ----------
    kind : CovarianceKind
        Which products are kept.
    units : ndarray of int of shape (d,)
        The exponents of slice 0 of each feature.
    n_classes : int
        How many classes there are.
    """

    def __init__(self, kind: CovarianceKind, units: Indices, n_classes: int) -> None:
        self._kind, self._units, self._n_classes = kind, units, n_classes
        self._totals: Terms = defaultdict(lambda: np.zeros((n_classes, len(units)), dtype=np.int64))
        self._products = Products(kind, n_classes, len(units))

    def add_but_few(
        self, values: Values, bounds: Indices, beyond: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        """Add the rows that need no more slices than most rows; return which rows are left."""
        left = np.zeros(values.n_rows, dtype=np.bool_) if beyond is None else beyond
        slicer = Slicer(self._units)
        for start, tile in _tiles(values):
            here = left[start : start + tile.n_rows]
            usual = Values(np.where(here, 0.0, tile.high)) if here.any() else tile
            slices, rest = slicer.cut(usual, _MOST_LEFT * tile.n_rows)
            here |= rest
            self._add_slices(slices, Segments.within(bounds, start, start + tile.n_rows))
        return left

    def add_all(self, values: Values, bounds: Indices) -> None:
        """Add rows, in as many slices as it takes."""
        above = int((_exponents_above(values.largest) - (self._units + (WIDTH - 1))).max())
        slicer = Slicer(self._units, max(0, -(-above // WIDTH)))
        for start, tile in _tiles(values):
            slices, _ = slicer.cut(tile)
            self._add_slices(slices, Segments.within(bounds, start, start + tile.n_rows))

    def sums(self, counts: Integers, exponent: int) -> Sums:
        """All together, times 2^exponent."""
        first, second = self._kind.pairs(len(self._units))
        return Sums(
            self._kind,
            ExactArray.from_terms([(exponent, counts)], (self._n_classes,)),
            self._shifted(self._totals.items(), exponent, self._n_classes, self._units),
            self._shifted(
                self._products.packed(),
                exponent,
                self._kind.n_packed(self._n_classes),
                self._units[first] + self._units[second],
            ),
        )

    @staticmethod
    def _shifted(
        terms: Iterable[tuple[int, Integers]], exponent: int, n_rows: int, units: Indices
    ) -> ExactArray:
        """The sum of the terms of slices, whose units are those of slice 0."""
        of_number = [(exponent - WIDTH * number, term) for number, term in terms]
        return ExactArray.from_terms(of_number, (n_rows, len(units)), units)

    def _add_slices(self, slices: Slices, segments: Segments) -> None:
        n_slices, n_features, n_rows = slices.values.shape
        flat = slices.values.reshape(n_slices * n_features, n_rows)
        sums = segments.sums(flat)
        held = _nonzero(flat, sums).reshape(n_slices, n_features)
        for i in np.flatnonzero(held.any(axis=1)).tolist():
            of_slice = sums[:, i * n_features : (i + 1) * n_features]
            self._totals[slices.first + i][segments.classes] += of_slice
        self._products.add(slices, held, segments)


def _nonzero(rows: Array, sums: Integers) -> NDArray[np.bool_]:
    """Which rows are not all zero. Rows with a sum that is not zero need no further look."""
    nonzero = np.asarray(sums.any(axis=0))
    doubtful = np.flatnonzero(~nonzero)
    nonzero[doubtful] = rows[doubtful].any(axis=1)
    return nonzero


def _tiles(values: Values) -> Iterator[tuple[int, Values]]:
    for start in range(0, values.n_rows, TILE_ROWS):
        yield start, values.take(slice(start, start + TILE_ROWS))


def _usual_tops(values: Values) -> tuple[Indices, NDArray[np.bool_] | None]:
    """Exponents t of the features, with values of 2^t or more only in few rows; and which rows these are."""
    highest = _exponents_above(values.largest)
    if values.low is not None:
        return highest, None
    sample = np.abs(values.high[:, :: max(1, values.n_rows // _SAMPLE_ROWS)])
    large = np.quantile(sample, _USUAL, axis=1)
    usual = np.where(large > 0, _exponents_above(large) + 1, highest)
    tops = np.where(highest <= usual + _SPARE_BITS, highest, usual)
    if (tops == highest).all():
        return highest, None
    with np.errstate(over="ignore"):  # 2^1024, which no float reaches, is infinity
        limits = np.ldexp(1.0, tops)[:, None]
    beyond = np.asarray((np.abs(values.high) >= limits).any(axis=0))
    return (highest, None) if beyond.mean() > _MOST_LEFT else (tops, beyond)


def _exponents_above(values: Array) -> Indices:
    """The least exponents t with values < 2^t."""
    return np.frexp(values)[1].astype(np.intp)


def _gather(block: Block, bounds: Indices, workspace: Workspace) -> Values:
    """The features as feature-major floats, class by class: two each, where one cannot hold them."""
    features, remainders = _halves(block.features)
    values = Values(workspace.gather(features, block.codes, bounds)[0])
    if not np.isfinite(values.largest).all():
        block.raise_for_values()
    if remainders is None:
        return values
    return Values(values.high, Workspace().gather(remainders, block.codes, bounds)[0])


def _halves(features: Features) -> tuple[Features, Features | None]:
    """The features and None; or, for integers that float64 would round, multiples of 2^11 and the rest."""
    features = _integral(features) if isinstance(features, np.ndarray) else list(map(_integral, features))
    parts = [features] if isinstance(features, np.ndarray) else features
    if not any(_is_rounded(part) for part in parts):
        return features, None
    wide = [_is_rounded(part) for part in parts]
    high = [part >> LOW_BITS << LOW_BITS if w else part for part, w in zip(parts, wide, strict=True)]
    low = [part & _LOW if w else np.zeros(part.shape) for part, w in zip(parts, wide, strict=True)]
    return (high[0], low[0]) if isinstance(features, np.ndarray) else (high, low)


def _integral(values: Matrix) -> Matrix:
    """Floats longer than float64 as 64-bit integers, if all are whole numbers."""
    if not _is_longer(values):
        return values
    for integers in (np.int64, np.uint64):
        limits = np.iinfo(integers)
        if ((values >= limits.min) & (values <= limits.max) & (values == np.floor(values))).all():
            return values.astype(integers)
    return values


def _is_longer(values: Matrix) -> bool:
    """Whether these are floats of more bits than float64."""
    return values.dtype.kind == "f" and values.dtype.itemsize > 8


def _is_rounded(values: Column) -> bool:
    """Whether float64 may not hold some of these numbers."""
    if _is_longer(values):
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float64) != values
        if rounded.any() and np.isfinite(values).all():  # NaN and infinity are refused later, by name
            raise ValueError(
                f"exact statistics take float64 and less; some values of type {values.dtype} need more"
            )
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return False
    return bool(values.max() > INTEGERS_OF_FLOATS or values.min() < -INTEGERS_OF_FLOATS)
