"""The exact kernel: sums and products of the rows of a block, as integers on a grid of powers of two.

A value is Σ slice × 2^exponent, for exponents `WIDTH` apart; a slice is an integer of at most `WIDTH` bits,
sign included, held as a float64. The product of two slices is at most 2^(2 × WIDTH − 2), so a sum of up to
2 × `ROWS_OF_PRODUCT` of them is an integer of at most 2^53, and so is every partial sum, whatever the order
of the additions: BLAS computes it exactly. This is the error-free splitting of Ozaki, Ogita, Oishi & Rump
(2012), "Error-free transformations of matrix multiplication by using fast routines of matrix
multiplication and its applications".

Most rows of a block need few slices. A few rows may need more: those with a value next to zero, whose last
bit is far below the bits of the others, and those with an outlier. These rows are cut separately.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import INTEGERS_OF_FLOATS, Block, Column, Features, Matrix
from streamgda.extensions.exact.numbers import ExactArray, Integers
from streamgda.extensions.exact.sums import Sums
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.kernels import Workspace

Terms = dict[int, Integers]

WIDTH = 22
ROWS_OF_PRODUCT = 1024
LOW_BITS = 11

_MANTISSA = 53
_MOST_ROWS = 1 << 18  # whose products of slices, below 2^44 each, a sum in int64 holds, with room for shifts
_SHORT_CLASS = 32  # rows; below, one reduction of all classes is quicker than a product for each
_EXPONENTS_OF_FACTORS = 1000  # 2^1000 and 2^-1000 are float64
_BLIND_CUTS = 4  # at most, before the remainder is looked at: most tiles are like the one before
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
        for start in range(0, len(part.codes), _MOST_ROWS):
            rows = part.between(start, start + _MOST_ROWS)
            bounds = _bounds(rows.codes, len(block.classes))
            sums.merge(_sums_of(_gather(rows, bounds, workspace), bounds, kind, exponent), every)
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

    While rows are multiplied, products are held as BLAS gives them: (K, d, d), (1, d, d) if pooled, or (K, d)
    of a kind that keeps squares alone. Those of slices i and j are in the term i + j.

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
        self._pairs = kind.pairs(len(units))
        self._are_squares = np.array_equal(*self._pairs)
        shape = (kind.n_packed(n_classes), *[len(units)] * (1 if self._are_squares else 2))
        self._totals: Terms = defaultdict(lambda: np.zeros((n_classes, len(units)), dtype=np.int64))
        self._products: Terms = defaultdict(lambda: np.zeros(shape, dtype=np.int64))

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
        first, second = self._pairs
        index = (first,) if self._are_squares else (first, second)
        products = [(number, term[:, *index]) for number, term in self._products.items()]
        n_packed, units = self._kind.n_packed(self._n_classes), self._units[first] + self._units[second]
        return Sums(
            self._kind,
            ExactArray.from_terms([(exponent, counts)], (self._n_classes,)),
            _together(self._totals.items(), exponent, self._n_classes, self._units),
            _together(products, exponent, n_packed, units),
        )

    def _add_slices(self, slices: Slices, segments: Segments) -> None:
        n_slices, n_features, n_rows = slices.values.shape
        flat = slices.values.reshape(n_slices * n_features, n_rows)
        sums = segments.sums(flat)
        nonzero = _nonzero(flat, sums).reshape(n_slices, n_features)
        for i in np.flatnonzero(nonzero.any(axis=1)).tolist():
            of_slice = sums[:, i * n_features : (i + 1) * n_features]
            self._totals[slices.first + i][segments.classes] += of_slice
        if self._kind.is_pooled:
            segments = Segments(*np.array([[0], [0], [n_rows]]))
        add = self._add_squares if self._are_squares else self._add_matrices
        add(slices, nonzero, segments)

    def _add_squares(self, slices: Slices, nonzero: NDArray[np.bool_], segments: Segments) -> None:
        """Add the squares of slices; `nonzero`, (n_slices, d), says of which features each has something."""
        used = np.flatnonzero(nonzero.any(axis=1)).tolist()
        for n, i in enumerate(used):
            for j in used[: n + 1]:
                squares = segments.sums(slices.values[i] * slices.values[j])
                term = self._products[2 * slices.first + i + j]
                term[segments.classes] += squares if i == j else 2 * squares

    def _add_matrices(self, slices: Slices, nonzero: NDArray[np.bool_], segments: Segments) -> None:
        """Multiply all slices at once. They stand below each other, without the features that one lacks."""
        n_slices, n_features, n_rows = slices.values.shape
        flat = slices.values.reshape(n_slices * n_features, n_rows)
        stack, stop = flat if nonzero.all() else flat[nonzero.ravel()], 0
        parts: list[tuple[int, slice, Indices | None]] = []
        for number, holds in enumerate(nonzero, slices.first):
            start, stop = stop, stop + int(holds.sum())
            if start < stop:
                parts.append((number, slice(start, stop), None if holds.all() else np.flatnonzero(holds)))
        for k, columns in segments:
            rows = stack[:, columns]
            square = rows @ rows.T
            for (a, here, i), (b, there, j) in product(parts, repeat=2):
                term, values = self._products[a + b][k], square[here, there].astype(np.int64)
                if i is None and j is None:
                    term += values
                else:
                    term[_grid(i, j, n_features)] += values


def _together(
    terms: Iterable[tuple[int, Integers]], exponent: int, n_rows: int, units: Indices
) -> ExactArray:
    """The sum of the terms of slices times 2^exponent, where the units are those of slice 0."""
    of_number = [(exponent - WIDTH * number, term) for number, term in terms]
    return ExactArray.from_terms(of_number, (n_rows, len(units)), units)


def _grid(i: Indices | None, j: Indices | None, n_features: int) -> tuple[Indices, ...]:
    every = np.arange(n_features)
    return np.ix_(every if i is None else i, every if j is None else j)


def _nonzero(rows: Array, sums: Integers) -> NDArray[np.bool_]:
    """Which rows are not all zero. Rows with a sum that is not zero need no further look."""
    nonzero = np.asarray(sums.any(axis=0))
    doubtful = np.flatnonzero(~nonzero)
    nonzero[doubtful] = rows[doubtful].any(axis=1)
    return nonzero


def _tiles(values: Values) -> Iterator[tuple[int, Values]]:
    for start in range(0, values.n_rows, ROWS_OF_PRODUCT):
        yield start, values.take(slice(start, start + ROWS_OF_PRODUCT))


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
    _check_length(block)
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


def _check_length(block: Block) -> None:
    """Raise ValueError if float64 does not hold a number of a longer type. NaN is refused later."""
    columns = block.features.T if isinstance(block.features, np.ndarray) else block.features
    for j, column in enumerate(map(_integral, columns)):
        if _is_longer(column):
            with np.errstate(over="ignore"):
                rounded = column.astype(np.float64) != column
            if rounded.any() and np.isfinite(column).all():
                place = f"{block.row_name(int(rounded.argmax()))}: feature {block.feature_name(j)}"
                raise ValueError(
                    f"{place} has more digits than float64; exact sums round nothing, so round it"
                )


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
    """Whether these are integers of which float64 may not hold some."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return False
    return bool(values.max() > INTEGERS_OF_FLOATS or values.min() < -INTEGERS_OF_FLOATS)


@dataclass(frozen=True)
class Values:
    """Feature-major values, (d, n): each is one float, or the sum of two.

    Only integers of 64 bits need two. Then `high` holds multiples of 2^`LOW_BITS`, and `low` the rest, which
    is not negative. At least one value is then beyond 2^53.
    """

    high: Array
    low: Array | None = None

    @property
    def n_rows(self) -> int:
        """How many there are of each feature."""
        return int(self.high.shape[1])

    def take(self, rows: slice | NDArray[np.bool_]) -> Values:
        """The values of some rows."""
        return Values(self.high[:, rows], None if self.low is None else self.low[:, rows])

    @cached_property
    def largest(self) -> Array:
        """A bound of the absolute values of each feature; NaN or infinity if a value is."""
        if not self.n_rows:
            return np.zeros(len(self.high))
        largest: Array = np.maximum(self.high.max(axis=1), -self.high.min(axis=1))
        return largest if self.low is None else largest + self.low.max(axis=1)


@dataclass(frozen=True)
class Slices:
    """Slices of a tile.

    Attributes
    ----------
    values : ndarray of shape (n_slices, d, n)
        Integers, held as floats.
    first : int
        The number of the first slice. The exponents of slice 0 are the `units` of a `Slicer`.
    """

    values: Array
    first: int


class Slicer:
    """Cuts tiles of values, in buffers that are kept from one tile to the next.

    Parameters
    ----------
    units : ndarray of int of shape (d,)
        The exponents of a slice of number 0 of each feature: its values are below 2^(unit + `WIDTH` − 1).
    higher : int, default=0
        How many slices higher to begin, for values that are larger than that.
    """

    def __init__(self, units: Indices, higher: int = 0) -> None:
        self._units = (units + WIDTH * higher)[:, None]
        self._first = -higher
        self._depth = 1
        self._slices, self._rest = np.empty(0), np.empty(0)

    def cut(self, tile: Values, most_left: float = 0) -> tuple[Slices, NDArray[np.bool_]]:
        """Cut until no more than `most_left` rows have a remainder.

        Parameters
        ----------
        tile : Values
            Up to `ROWS_OF_PRODUCT` rows.
        most_left : float, default=0
            How many rows may be left.

        Returns
        -------
        slices : Slices
            As few as will do; valid until the next call, and zero in the rows that are left.
        left : ndarray of bool of shape (n,)
        """
        count, rest = 0, _Rest(tile, self._units, self._buffer(tile.high.shape))
        left = np.ones(tile.n_rows, dtype=np.bool_)
        while left.any() and (count < self._depth or left.sum() > most_left):
            count += 1
            slices = self._room(count, tile.high.shape)
            rest.cut(slices[-1])
            if count >= min(self._depth, _BLIND_CUTS):
                left = rest.nonzero_rows()
        self._depth = max(self._depth, count)
        if left.any():
            slices[:, :, left] = 0.0
        return Slices(slices, self._first), left

    def _buffer(self, shape: tuple[int, ...]) -> Array:
        if len(self._rest) < math.prod(shape):
            self._rest = np.empty(math.prod(shape))
        return self._rest[: math.prod(shape)].reshape(shape)

    def _room(self, count: int, shape: tuple[int, ...]) -> Array:
        """Contiguous room for so many slices, with those that are there already."""
        size = math.prod(shape)
        if len(self._slices) < count * size:
            more = np.empty(max(count, self._depth) * size - len(self._slices))
            self._slices = np.concatenate((self._slices, more))
        return self._slices[: count * size].reshape(count, *shape)


class _Rest:
    """The remainder of a tile while it is cut, and the low parts that are not added to it yet."""

    def __init__(self, tile: Values, units: Indices, buffer: Array) -> None:
        self._values, self._low, self._buffer = tile.high, tile.low, buffer
        self._units, self._is_scaled = units, False
        if self._low is not None:
            self._take_low(units + (WIDTH - 1) <= _MANTISSA)

    def cut(self, out: Array) -> None:
        """Write to `out` the nearest integers in the units of this slice, and take them off."""
        if (self._units > 0).any():
            self._cut_coarsely(out)
        else:
            self._cut_finely(out)
        self._units = self._units - WIDTH
        if self._low is not None:
            self._take_low(np.ones_like(self._units, dtype=np.bool_))

    def _cut_finely(self, out: Array) -> None:
        """For units of at most 1, scale the values to the unit first. Nothing is lost in a finer unit."""
        factors = WIDTH if self._is_scaled else -self._units
        self._values = _scaled(self._values, factors, self._buffer)
        self._is_scaled = True
        np.rint(self._values, out=out)
        self._values -= out

    def _cut_coarsely(self, out: Array) -> None:
        """For larger units, scale the slice to the values, since its unit might lose small values."""
        np.rint(_scaled(self._values, -self._units, out), out=out)
        halved = self._units > _EXPONENTS_OF_FACTORS  # the whole may be 2^1024, beyond float64
        taken = _scaled(out, self._units - halved)
        self._values = np.subtract(self._values, taken, out=self._buffer)
        if halved.any():
            self._values -= np.where(halved, taken, 0.0)

    def _take_low(self, features: NDArray[np.bool_]) -> None:
        """Add the low parts of some features. This is exact, since little is left of the high parts."""
        assert self._low is not None
        self._values = np.add(self._values, np.where(features, self._low, 0.0), out=self._buffer)
        self._low = None if features.all() else np.where(features, 0.0, self._low)

    def nonzero_rows(self) -> NDArray[np.bool_]:
        """Which rows have a remainder."""
        return np.asarray(self._values.any(axis=0))


def _scaled(values: Array, exponents: int | Indices, out: Array | None = None) -> Array:
    """Values × 2^exponents."""
    if np.abs(exponents).max() <= _EXPONENTS_OF_FACTORS:
        return np.multiply(values, np.ldexp(1.0, exponents), out=out)
    return np.ldexp(values, exponents, out=out)


# ---------------------------------------------------------------------- the rows of classes


@dataclass(frozen=True)
class Segments:
    """The rows of each class in a tile: those of `classes[i]` are starts[i]:stops[i]."""

    classes: Indices
    starts: Indices
    stops: Indices

    @classmethod
    def within(cls, bounds: Indices, start: int, stop: int) -> Segments:
        """The segments of rows start:stop, where class k holds rows bounds[k]:bounds[k + 1]."""
        first = np.searchsorted(bounds, start, side="right") - 1
        last = np.searchsorted(bounds, stop, side="left")
        edges = np.minimum(np.maximum(bounds[first : last + 1], start), stop) - start
        used = np.flatnonzero(np.diff(edges))
        return cls(used + first, edges[used], edges[used + 1])

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        """Each class with its rows."""
        for k, start, stop in zip(self.classes, self.starts, self.stops, strict=True):
            yield k, slice(start, stop)

    def sums(self, values: Array) -> Integers:
        """The sums over the rows of each class: (m, n) to (n_segments, m)."""
        if values.shape[1] < _SHORT_CLASS * len(self.starts):
            totals = np.add.reduceat(values, self.starts, axis=1).T
        else:
            ones = np.ones(values.shape[1])
            totals = np.stack([values[:, rows] @ ones[rows] for _, rows in self])
        return totals.astype(np.int64)
