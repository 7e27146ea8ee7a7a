"""Arrays of exact binary numbers: integers of any size, on a grid of any fineness.

A number is Σ digit × 2^(32 × position). Its digits are balanced: from −2^31 to 2^31 − 1. So every number has
one notation, and a negative one is no longer than its opposite. An array of numbers is a stack of int32
planes, from the lowest to the highest position at which a digit is not zero. Operations work in int64 and
carry at once into one more plane where needed, so nothing ever overflows.

`ExactMoments` are quotients of such integers, each rounded once, to the nearest float64: Python's division of
integers rounds correctly, whatever their size. A quotient beyond float64 is infinity, as in IEEE 754.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, CovarianceKind, Indices, Pairs

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
        cls, terms: Iterable[tuple[int, Integers]], shape: tuple[int, ...], shifts: Indices | int = 0
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
        inner = digits[used[0] : used[-1] + 1]
        return cls(inner.astype(np.int32, copy=False), position + int(used[0]))

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


class ExactMoments:
    """The moments of exact sums: quotients of Python integers, rounded when they are first read.

    Parameters
    ----------
    kind : CovarianceKind
        Which products are kept.
    weights, totals, products : ExactArray
        As in `Sums`.
    """

    def __init__(
        self, kind: CovarianceKind, weights: ExactArray, totals: ExactArray, products: ExactArray
    ) -> None:
        self._kind = kind
        self._weights = weights.whole()
        self._totals, self._unit = totals.integers()
        self._exact_products = products
        self._covariances: dict[float, Array] = {}

    @property
    def _products(self) -> tuple[PythonIntegers, int]:
        """The products and their exponent; as integers they are too large to be kept."""
        return self._exact_products.integers()

    @cached_property
    def weights(self) -> Array:
        """Σ w of each class."""
        return _quotients(self._weights, 1, 0)

    @cached_property
    def rounded_means(self) -> Array:
        """Σ w x / Σ w of each class."""
        return _quotients(self._totals, self._weights[:, None], self._unit)

    @cached_property
    def sums(self) -> Array:
        """Σ w x of each class."""
        return _quotients(self._totals, 1, self._unit)

    @cached_property
    def outer_sums(self) -> Array:
        """Σ w x xᵀ, in the scatter's shape."""
        products, square = self._products
        return self._shaped(_quotients(products, 1, square))

    @property
    def weight_tails(self) -> Array:
        """The low part of each weight, which `weights` lacks."""
        low: Array = (self._weights - _FRACTION(self.weights)).astype(np.float64)
        return low

    @cached_property
    def mean_tails(self) -> Array:
        """The low part of each mean, which `rounded_means` lacks."""
        exact = self._totals * Fraction(2) ** self._unit / self._weights[:, None]
        low: Array = (exact - _FRACTION(self.rounded_means)).astype(np.float64)
        return low

    @cached_property
    def scatter(self) -> Array:
        """Σ w (x − mean)(x − mean)ᵀ within the classes."""
        return self._shaped(_quotients(*self._within()))

    def covariance(self, ddof: float) -> Array:
        """The scatter divided by the weight less `ddof`; ZeroDivisionError if that is not positive."""
        if ddof not in self._covariances:
            weights = [self._weights.sum()] if self._kind.is_pooled else self._weights
            lost = Fraction(ddof) * (len(self._weights) if self._kind.is_pooled else 1)
            freedom = [weight - lost for weight in weights]
            if min(freedom, default=1) <= 0:
                raise ZeroDivisionError
            numerators, denominators, exponent = self._within()
            over = _column([f.numerator for f in freedom])
            under = _column([f.denominator for f in freedom])
            quotients = _quotients(numerators * under, denominators * over, exponent)
            self._covariances[ddof] = self._shaped(quotients)
        return self._covariances[ddof].copy()

    def check_squares(self, names: tuple[str, ...] | None) -> None:
        """Do nothing: exact squares have all digits."""

    @cached_property
    def overall_mean(self) -> Array:
        """The mean of all rows."""
        return _quotients(self._totals.sum(axis=0), self._weights.sum(), self._unit)

    @cached_property
    def total_variance(self) -> Array:
        """The maximum-likelihood variance of each feature over all rows."""
        weight, total = self._weights.sum(), self._totals.sum(axis=0)
        products, square = self._products
        squares = products[:, self._diagonal].sum(axis=0)
        numerators, exponent = _difference(weight * squares, square, total * total, 2 * self._unit)
        return _quotients(numerators, weight * weight, exponent)

    def are_of_rows(self, counts: NDArray[np.int64]) -> bool:
        """Whether `counts` rows could have these sums.

        This is checked: no variance is negative, the variances of a class of one row are zero, and no
        correlation exceeds one.
        """
        numerators, _, _ = self._within()
        variances = numerators[:, self._diagonal]
        lonely = np.array([counts.max() == 1]) if self._kind.is_pooled else counts == 1
        first, second = self._pairs
        return (
            bool((variances >= 0).all())
            and not variances[lonely].any()
            and bool((numerators**2 <= variances[:, first] * variances[:, second]).all())
        )

    @property
    def _pairs(self) -> Pairs:
        return self._kind.pairs(self._totals.shape[1])

    @property
    def _diagonal(self) -> Indices:
        """Where the squares are among the products."""
        return np.flatnonzero(np.equal(*self._pairs))

    def _within(self) -> tuple[PythonIntegers, PythonIntegers, int]:
        """The packed scatter: numerators, denominators in a column, and the exponent of the numerators."""
        first, second = self._pairs
        if self._kind.is_pooled:
            weights = _column([math.lcm(*self._weights)])
            outer = np.zeros((1, len(first)), dtype=object)
            for weight, total in zip(self._weights, self._totals, strict=True):
                outer += (weights[0] // weight) * total[first] * total[second]
        else:
            weights, outer = self._weights[:, None], self._totals[:, first] * self._totals[:, second]
        products, square = self._products
        numerators, exponent = _difference(weights * products, square, outer, 2 * self._unit)
        return numerators, weights, exponent

    def _shaped(self, packed: Array) -> Array:
        return self._kind.unpacked(packed, *self._totals.shape)


def _column(values: list[int]) -> PythonIntegers:
    return np.array(values, dtype=object)[:, None]


def _difference(
    a: PythonIntegers, a_exponent: int, b: PythonIntegers, b_exponent: int
) -> tuple[PythonIntegers, int]:
    """The integers and the exponent of a × 2^a_exponent − b × 2^b_exponent."""
    exponent = min(a_exponent, b_exponent)
    return (a << (a_exponent - exponent)) - (b << (b_exponent - exponent)), exponent


def _quotients(numerators: PythonIntegers, denominators: PythonIntegers | int, exponent: int) -> Array:
    """The float64 nearest to numerators / denominators × 2^exponent."""
    if exponent >= 0:
        numerators = numerators << exponent
    else:
        denominators = denominators << -exponent
    return np.asarray(_DIVIDE(numerators, denominators), dtype=np.float64)


def _divide(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


_FRACTION = np.frompyfunc(Fraction, 1, 1)
_DIVIDE = np.frompyfunc(_divide, 2, 1)
