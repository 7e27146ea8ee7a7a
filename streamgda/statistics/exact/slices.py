"""Floats cut into small integers on a grid of powers of two, and the products of these: nothing is rounded.

A value is Σ slice × 2^exponent, for exponents `WIDTH` apart; a slice is an integer of at most `WIDTH` bits,
sign included, held as a float64. The product of two slices is at most 2^(2 × WIDTH − 2), so a sum of up to
2 × `TILE_ROWS` of them is an integer of at most 2^53, and so is every partial sum, whatever the order of
the additions: BLAS computes it exactly. This is the error-free splitting of Ozaki, Ogita, Oishi & Rump
(2012), "Error-free transformations of matrix multiplication by using fast routines of matrix
multiplication and its applications".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.exact.numbers import Integers

Terms = dict[int, Integers]

WIDTH = 22
TILE_ROWS = 1024
LOW_BITS = 11

_MANTISSA = 53
_SHORT_CLASS = 32  # rows; below, one reduction of all classes is quicker than a product for each
_EXPONENTS_OF_FACTORS = 1000  # 2^1000 and 2^-1000 are float64
_BLIND_CUTS = 4  # at most, before the remainder is looked at: most tiles are like the one before


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
            Up to `TILE_ROWS` rows.
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


# ---------------------------------------------------------------------- products


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


class Products:
    """Products of slices, added up over the tiles of a block.

    While rows are multiplied, products are held as BLAS gives them: (K, d, d), (1, d, d) if pooled, or (K, d)
    of a kind that keeps squares alone. They are symmetric, so `packed` gives each product once.

    Parameters
    ----------
    kind : CovarianceKind
        Which products are kept.
    n_classes, n_features : int
        How many classes and features there are.
    """

    def __init__(self, kind: CovarianceKind, n_classes: int, n_features: int) -> None:
        self._kind, self._pairs = kind, kind.pairs(n_features)
        self._are_squares = np.array_equal(*self._pairs)
        sides = (n_features,) if self._are_squares else (n_features, n_features)
        shape = (kind.n_packed(n_classes), *sides)
        self._terms: Terms = defaultdict(lambda: np.zeros(shape, dtype=np.int64))

    def add(self, slices: Slices, held: NDArray[np.bool_], segments: Segments) -> None:
        """Multiply the slices of a tile, and add the products of slices i and j to the term i + j.

        `held`, (n_slices, d), says whether a slice holds anything of a feature.
        """
        if self._kind.is_pooled:
            segments = Segments(*np.array([[0], [0], [slices.values.shape[2]]]))
        if self._are_squares:
            self._add_squares(slices, held, segments)
        else:
            stack = _Stack.of(slices, held)
            for k, rows in segments:
                stack.add_square(self._terms, k, rows)

    def packed(self) -> list[tuple[int, Integers]]:
        """The number of each term, and the term with each product once."""
        first, second = self._pairs
        index = (first,) if self._are_squares else (first, second)
        return [(number, term[:, *index]) for number, term in self._terms.items()]

    def _add_squares(self, slices: Slices, held: NDArray[np.bool_], segments: Segments) -> None:
        used = np.flatnonzero(held.any(axis=1)).tolist()
        for n, i in enumerate(used):
            for j in used[: n + 1]:
                squares = segments.sums(slices.values[i] * slices.values[j])
                term = self._terms[2 * slices.first + i + j]
                term[segments.classes] += squares if i == j else 2 * squares


@dataclass(frozen=True)
class _Stack:
    """The slices of a tile below each other, without the features that are zero in a slice."""

    rows: Array
    parts: list[tuple[int, slice, Indices | None]]

    @classmethod
    def of(cls, slices: Slices, held: NDArray[np.bool_]) -> _Stack:
        n_slices, n_features, n_rows = slices.values.shape
        flat = slices.values.reshape(n_slices * n_features, n_rows)
        rows = flat if held.all() else flat[held.ravel()]
        parts, start = [], 0
        for number, holds in enumerate(held, slices.first):
            stop = start + int(holds.sum())
            parts.append((number, slice(start, stop), None if holds.all() else np.flatnonzero(holds)))
            start = stop
        return cls(rows, [part for part in parts if part[1].start < part[1].stop])

    def add_square(self, terms: Terms, k: int, columns: slice) -> None:
        """Add the products of some rows of the data: one multiplication for all slices."""
        rows = self.rows[:, columns]
        square = rows @ rows.T
        for a, here, i in self.parts:
            for b, there, j in self.parts:
                term, values = terms[a + b][k], square[here, there].astype(np.int64)
                if i is None and j is None:
                    term += values
                else:
                    term[_grid(i, j, len(term))] += values


def _grid(i: Indices | None, j: Indices | None, n_features: int) -> tuple[Indices, ...]:
    every = np.arange(n_features)
    return np.ix_(every if i is None else i, every if j is None else j)
