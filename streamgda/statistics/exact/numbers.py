"""Arrays of exact binary numbers: integers of any size, on a grid of any fineness.

A number is Σ digit × 2^(32 × position). Its digits are balanced: from −2^31 to 2^31 − 1. So every number has
one notation, and a negative one is no longer than its opposite. An array of numbers is a stack of int32
planes, from the lowest to the highest position at which a digit is not zero. Operations work in int64 and
carry at once into one more plane where needed, so nothing ever overflows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
PythonIntegers = NDArray[np.object_]

_BITS = 32
_MASK = (1 << _BITS) - 1
_HALF = 1 << (_BITS - 1)


@dataclass(frozen=True)
class ExactArray:
    """An array of exact binary numbers.

    Attributes
    ----------
    digits : ndarray of int32 of shape (n_planes, *shape)
        The lowest plane first; neither the first nor the last is all zero.
    position : int
        The position of the lowest plane; 0 if there is no plane.
    """

    digits: NDArray[np.int32]
    position: int

    @classmethod
    def zeros(cls, *shape: int) -> Self:
        """Zeros, which take no memory."""
        return cls(np.empty((0, *shape), dtype=np.int32), 0)

    @classmethod
    def from_terms(
        cls,
        terms: Iterable[tuple[int, Integers]],
        shape: tuple[int, ...],
        shifts: NDArray[np.integer] | int = 0,
    ) -> Self:
        """The sum of int64 arrays, each times two to its exponent, and each column times two to its shift."""
        terms, shifts = list(terms), np.broadcast_to(shifts, shape[-1:])
        if not terms or not shifts.size:
            return cls.zeros(*shape)
        exponents = [exponent for exponent, _ in terms]
        lowest = int(min(exponents) + shifts.min()) // _BITS
        highest = int(max(exponents) + shifts.max()) // _BITS
        planes = np.zeros((highest - lowest + 4, *shape), dtype=np.int64)
        for exponent, values in terms:
            positions, places = np.divmod(exponent + shifts, _BITS)
            _add_shifted(planes, positions - lowest, values, places)
        return cls._carried(planes, lowest)

    @classmethod
    def from_integers(cls, values: PythonIntegers, exponent: int = 0) -> Self:
        """Python integers of any size, times two to the exponent."""
        terms, rest, place = [], values, exponent
        while rest.any():
            terms.append((place, (rest & _MASK).astype(np.int64)))
            rest, place = rest >> _BITS, place + _BITS
            if all(value in (0, -1) for value in rest.flat):
                terms.append((place, rest.astype(np.int64)))
                break
        return cls.from_terms(terms, values.shape)

    @classmethod
    def from_planes(cls, planes: Integers, position: int) -> Self:
        """The numbers with these digits, which need not be balanced; each digit below 2^62."""
        return cls._carried(np.concatenate((planes, np.zeros((2, *planes.shape[1:]), np.int64))), position)

    @classmethod
    def _carried(cls, planes: Integers, position: int) -> Self:
        """The balanced digits of planes of any int64 below 2^62; the last plane has room for a carry."""
        for i in range(len(planes) - 1):
            carry = (planes[i] + _HALF) >> _BITS
            planes[i] -= carry << _BITS
            planes[i + 1] += carry
        return cls._trimmed(planes, position)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of numbers."""
        return self.digits.shape[1:]

    def __add__(self, other: ExactArray) -> Self:
        return self._combined(other, np.add)

    def __sub__(self, other: ExactArray) -> Self:
        return self._combined(other, np.subtract)

    def _combined(self, other: ExactArray, combine: np.ufunc) -> Self:
        low = min((a.position for a in (self, other) if len(a.digits)), default=0)
        high = max((a.position + len(a.digits) for a in (self, other) if len(a.digits)), default=0)
        planes = np.zeros((high - low + 1, *self.shape), dtype=np.int64)
        for array, ufunc in ((self, np.add), (other, combine)):
            there = planes[array.position - low :][: len(array.digits)] if len(array.digits) else planes[:0]
            ufunc(there, array.digits, out=there)
        return self._carried(planes, low)

    def __getitem__(self, index: Any) -> Self:
        """Some of the numbers, by an index into the array of them."""
        index = index if isinstance(index, tuple) else (index,)
        return self._trimmed(self.digits[(slice(None), *index)], self.position)

    def spread(self, n: int, places: NDArray[np.intp], axis: int = 0) -> Self:
        """The same numbers at these places of an axis of length n, and zeros elsewhere."""
        shape = (*self.shape[:axis], n, *self.shape[axis + 1 :])
        digits = np.zeros((len(self.digits), *shape), dtype=np.int32)
        digits[(slice(None),) * (axis + 1) + (places,)] = self.digits
        return type(self)(digits, self.position)

    def total(self) -> Self:
        """The sum over the first axis, which stays with length one."""
        planes = np.zeros((len(self.digits) + 1, 1, *self.shape[1:]), dtype=np.int64)
        self.digits.sum(axis=1, keepdims=True, dtype=np.int64, out=planes[:-1])
        return self._carried(planes, self.position)

    @classmethod
    def _trimmed(cls, digits: NDArray[np.integer], position: int) -> Self:
        """The numbers of these balanced digits, without the planes at either end that are all zero."""
        used = np.flatnonzero(digits.any(axis=tuple(range(1, digits.ndim))))
        if not len(used):
            return cls.zeros(*digits.shape[1:])
        kept = digits[used[0] : used[-1] + 1]
        return cls(kept.astype(np.int32, copy=False), position + int(used[0]))

    def integers(self) -> tuple[PythonIntegers, int]:
        """The numbers as Python integers, all times two to one exponent."""
        values = np.zeros(self.shape, dtype=object)
        for plane in self.digits[::-1]:
            values = (values << _BITS) + plane.astype(object)
        return values, self.position * _BITS

    def whole(self) -> PythonIntegers:
        """The numbers, which are whole, as Python integers."""
        values, exponent = self.integers()
        whole: PythonIntegers = values << exponent
        return whole

    def fractions(self) -> NDArray[np.object_]:
        """The numbers as `fractions.Fraction`."""
        values, exponent = self.integers()
        exact: NDArray[np.object_] = values * Fraction(2) ** exponent
        return exact

    def equals(self, other: ExactArray) -> bool:
        """Whether all numbers are the same."""
        return self.position == other.position and np.array_equal(self.digits, other.digits)


def _add_shifted(
    planes: Integers, positions: NDArray[np.integer], values: Integers, places: NDArray[np.integer]
) -> None:
    """Add columns of values, at a position among the planes and shifted by less than a plane."""
    low, high = (values & _MASK) << places, (values >> _BITS) << places
    parts = low & _MASK, (low >> _BITS) + (high & _MASK), high >> _BITS
    for position in np.unique(positions):
        columns = slice(None) if (positions == position).all() else np.flatnonzero(positions == position)
        for i, part in enumerate(parts):
            planes[position + i][..., columns] += part[..., columns]
