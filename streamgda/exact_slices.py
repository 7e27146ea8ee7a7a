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

import numpy as np
from numpy.typing import NDArray

from streamgda.covariances import Array

WIDTH = 22
TILE_ROWS = 1024
LOW_BITS = 11
_MANTISSA = 53
_EXPONENTS_OF_FACTORS = 1000


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

    def largest(self) -> float:
        """What no absolute value exceeds; NaN or infinity if a value is that."""
        if not self.high.size:
            return 0.0
        largest = np.maximum(self.high.max(), -self.high.min())
        return float(largest) + (0 if self.low is None else 1 << LOW_BITS)


@dataclass(frozen=True)
class Slices:
    """Slices of a tile, none of them all zero.

    Attributes
    ----------
    values : ndarray of shape (n_slices, d, n)
        Integers, held as floats.
    exponents : list of int
        What power of two the integers of each slice count.
    held : ndarray of bool of shape (n_slices, d)
        Whether a slice holds anything of a feature.
    """

    values: Array
    exponents: list[int]
    held: NDArray[np.bool_]


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
        self._slices, self._rest, self._scaled = np.empty(0), np.empty(0), np.empty(0)

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
        rest, low = tile.high, tile.low
        if low is not None and self._top <= _MANTISSA:
            rest, low = rest + low, None
        left = np.ones(tile.n_rows, dtype=np.bool_)
        while left.any() and (len(exponents) < self._depth or left.sum() > most_left):
            exponents.append(self._top - (WIDTH - 1) - WIDTH * len(exponents))
            slices = self._room(len(exponents), rest.shape)
            rest = self._cut_one(rest, exponents[-1], slices[-1])
            if low is not None and exponents[-1] <= _MANTISSA:
                rest, low = rest + low, None
            left = _nonzero_rows(rest, low)
        self._depth = max(self._depth, len(exponents))
        if left.any():
            slices[:, :, left] = 0.0
        return _without_empty(slices, exponents), left

    def _room(self, count: int, shape: tuple[int, ...]) -> Array:
        """Contiguous room for so many slices, with those that are there already."""
        size = math.prod(shape)
        if len(self._rest) < size:
            self._rest, self._scaled = np.empty(size), np.empty(size)
        if len(self._slices) < count * size:
            more = np.empty(max(count, self._depth) * size - len(self._slices))
            self._slices = np.concatenate((self._slices, more))
        return self._slices[: count * size].reshape(count, *shape)

    def _cut_one(self, rest: Array, exponent: int, out: Array) -> Array:
        """Write the nearest integers to rest / 2^exponent, and return what they leave of it."""
        remainder, scaled = (a[: rest.size].reshape(rest.shape) for a in (self._rest, self._scaled))
        np.rint(_scale(rest, -exponent, out), out=out)
        if exponent <= _EXPONENTS_OF_FACTORS:
            return np.subtract(rest, _scale(out, exponent, scaled), out=remainder)
        half = _scale(out, exponent - 1, scaled)  # the whole may be 2^1024, which is no float
        return np.subtract(np.subtract(rest, half, out=remainder), half, out=remainder)


def _without_empty(slices: Array, exponents: list[int]) -> Slices:
    held = np.asarray(slices.any(axis=2))
    used = held.any(axis=1)
    if used.all():
        return Slices(slices, exponents, held)
    return Slices(slices[used], [e for e, u in zip(exponents, used, strict=True) if u], held[used])


def _nonzero_rows(rest: Array, low: Array | None) -> NDArray[np.bool_]:
    nonzero = np.asarray(rest.any(axis=0))
    return nonzero if low is None else nonzero | np.asarray(low.any(axis=0))


def _scale(values: Array, exponent: int, out: Array) -> Array:
    """Values × 2^exponent."""
    if abs(exponent) <= _EXPONENTS_OF_FACTORS:
        return np.multiply(values, 2.0**exponent, out=out)
    return np.ldexp(values, exponent, out=out)
