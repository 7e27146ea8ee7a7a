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

from streamgda.covariances import Array

WIDTH = 22
TILE_ROWS = 1024
LOW_BITS = 11
_MANTISSA = 53
_EXPONENTS_OF_FACTORS = 1000
_BLIND_CUTS = 4


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
    def largest(self) -> float:
        """What no absolute value exceeds; NaN or infinity if a value is that."""
        if not self.high.size:
            return 0.0
        largest = np.maximum(self.high.max(), -self.high.min())
        return float(largest) + (0 if self.low is None else 1 << LOW_BITS)


@dataclass(frozen=True)
class Slices:
    """Slices of a tile.

    Attributes
    ----------
    values : ndarray of shape (n_slices, d, n)
        Integers, held as floats.
    exponents : list of int
        What power of two the integers of each slice count.
    """

    values: Array
    exponents: list[int]


class Slicer:
    """Cuts tiles of values, in buffers that are kept from one tile to the next.

    Parameters
    ----------
    top : int
        All values of a tile are below 2^top.
    """

    def __init__(self, top: int) -> None:
        self._top = top
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
        exponents: list[int] = []
        rest = _Rest(tile, self._top, self._buffer(tile.high.shape))
        left = np.ones(tile.n_rows, dtype=np.bool_)
        while left.any() and (len(exponents) < self._depth or left.sum() > most_left):
            exponents.append(self._top - (WIDTH - 1) - WIDTH * len(exponents))
            slices = self._room(len(exponents), tile.high.shape)
            rest.cut(exponents[-1], slices[-1])
            if len(exponents) >= min(self._depth, _BLIND_CUTS):
                left = rest.nonzero_rows()
        self._depth = max(self._depth, len(exponents))
        if left.any():
            slices[:, :, left] = 0.0
        return Slices(slices, exponents), left

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
    """What is left of a tile while it is cut: `values` × 2^`scale`, and what has yet to be added to that."""

    def __init__(self, tile: Values, top: int, buffer: Array) -> None:
        self._values, self._low, self._buffer = tile.high, tile.low, buffer
        self._scale = 0
        self._take_low_below(top)

    def cut(self, exponent: int, out: Array) -> None:
        """Write to `out` the nearest multiples of 2^exponent, in that unit, and take them off."""
        if exponent > 0:
            self._cut_coarsely(exponent, out)
            self._take_low_below(exponent)
            return
        # In the unit of the slice nothing can be lost, for it is a finer one than that of the last slice.
        self._values = _scaled(self._values, self._scale - exponent, self._buffer)
        self._scale = exponent
        np.rint(self._values, out=out)
        self._values -= out

    def _cut_coarsely(self, exponent: int, out: Array) -> None:
        """The same where in the unit of the slice small values might be lost: it is taken to theirs."""
        np.rint(_scaled(self._values, -exponent, out), out=out)
        half = _scaled(out, exponent - 1)  # the whole may be 2^1024, which is no float
        self._values = np.subtract(self._values, half, out=self._buffer)
        self._values -= half

    def _take_low_below(self, exponent: int) -> None:
        """Add the lower parts as soon as the sum is exact: what is left is below 2^exponent."""
        if self._low is not None and exponent <= _MANTISSA:
            self._values, self._low = np.add(self._values, self._low, out=self._buffer), None

    def nonzero_rows(self) -> NDArray[np.bool_]:
        """Where something is left."""
        nonzero = np.asarray(self._values.any(axis=0))
        return nonzero if self._low is None else nonzero | np.asarray(self._low.any(axis=0))


def _scaled(values: Array, exponent: int, out: Array | None = None) -> Array:
    """Values × 2^exponent."""
    if abs(exponent) <= _EXPONENTS_OF_FACTORS:
        return np.multiply(values, 2.0**exponent, out=out)
    return np.ldexp(values, exponent, out=out)
