"""Floats cut into small integers on a grid of powers of two: nothing is rounded.

A value is Σ slice × 2^exponent, for exponents `WIDTH` apart; a slice is an integer of at most `WIDTH` bits,
sign included, held as a float64. The product of two slices is at most 2^(2 × WIDTH − 2), so a sum of up to
2 × `TILE_ROWS` of them is an integer of at most 2^53, and so is every partial sum, whatever the order of
the additions: BLAS computes it exactly. This is the error-free splitting of Ozaki, Ogita, Oishi & Rump
(2012), "Error-free transformations of matrix multiplication by using fast routines of matrix
multiplication and its applications".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, Indices

WIDTH = 22
TILE_ROWS = 1024
LOW_BITS = 11

_MANTISSA = 53
_EXPONENTS_OF_FACTORS = 1000  # 2^1000 and 2^-1000 are float64
_BLIND_CUTS = 4  # at most, before the remainder is looked at: a tile is mostly like the one before


@dataclass(frozen=True)
class Values:
    """Feature-major values, (d, n): each the sum of two floats, where one cannot hold it.

    Only integers of 64 bits ask for a second. Then `high` holds multiples of 2^`LOW_BITS`, and `low` the
    rest, not negative; and one value at least is beyond 2^53.
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
        """What no absolute value of each feature exceeds; NaN or infinity if a value is that."""
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
        The number of the first slice; those of number 0 begin at the top.
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
        """Cut until no row has a remainder, or so few rows that they are better left to others.

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
    """What is left of a tile while it is cut: `values` × 2^`scales`, and what has yet to be added to that."""

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
        """Where units are 1 or less, values are taken to them first: nothing is lost in a finer unit."""
        factors = WIDTH if self._is_scaled else -self._units
        self._values = _scaled(self._values, factors, self._buffer)
        self._is_scaled = True
        np.rint(self._values, out=out)
        self._values -= out

    def _cut_coarsely(self, out: Array) -> None:
        """Where small values might be lost in the unit of the slice, the slice is taken to theirs."""
        np.rint(_scaled(self._values, -self._units, out), out=out)
        halved = self._units > _EXPONENTS_OF_FACTORS  # the whole may be 2^1024, which is no float
        taken = _scaled(out, self._units - halved)
        self._values = np.subtract(self._values, taken, out=self._buffer)
        if halved.any():
            self._values -= np.where(halved, taken, 0.0)

    def _take_low(self, features: NDArray[np.bool_]) -> None:
        """Add the lower parts of some features: so little is left of the higher that this is exact."""
        assert self._low is not None
        self._values = np.add(self._values, np.where(features, self._low, 0.0), out=self._buffer)
        self._low = None if features.all() else np.where(features, 0.0, self._low)

    def nonzero_rows(self) -> NDArray[np.bool_]:
        """Where something is left."""
        return np.asarray(self._values.any(axis=0))


def _scaled(values: Array, exponents: int | Indices, out: Array | None = None) -> Array:
    """Values × 2^exponents."""
    if np.abs(exponents).max() <= _EXPONENTS_OF_FACTORS:
        return np.multiply(values, np.ldexp(1.0, exponents), out=out)
    return np.ldexp(values, exponents, out=out)
