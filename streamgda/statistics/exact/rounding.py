"""Moments of exact sums: quotients of exact integers, each rounded once, to the nearest float64.

Python's division of integers rounds correctly, whatever their size. A quotient beyond float64 is infinity,
as in IEEE 754.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, CovarianceKind, Indices, Pairs
from streamgda.statistics.exact.numbers import ExactArray, PythonIntegers


class ExactMoments:
    """The moments of exact sums: quotients of Python integers, rounded when they are first read.

    Parameters
    ----------
    kind : CovarianceKind
        Which products are kept.
    weights, totals, products : ExactArray
        As in `Sums`.
    """

    third_moments = fourth_moments = None

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
    def low_weights(self) -> Array:
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
