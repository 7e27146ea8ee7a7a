"""Moments of exact sums: quotients of exact integers, each rounded once, to the nearest float64.

Python's division of integers rounds correctly, whatever their size. A quotient beyond float64 is infinity,
as in IEEE 754.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, CovarianceKind
from streamgda.statistics.exact.numbers import ExactArray, PythonIntegers


class ExactMoments:
    """The moments of exact sums, as quotients of Python integers until they are rounded.

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
        self._n_features = totals.shape[1]
        self._first, self._second = kind.pairs(self._n_features)
        self._diagonal = np.flatnonzero(self._first == self._second)
        self._weights = weights.whole()
        self._totals, self._unit = totals.integers()
        self._products, self._square = products.integers()

    def weights(self) -> Array:
        """Σ w of each class."""
        return _quotients(self._weights, 1, 0)

    def means(self) -> Array:
        """Σ w x / Σ w of each class."""
        return _quotients(self._totals, self._weights[:, None], self._unit)

    def sums(self) -> Array:
        """Σ w x of each class."""
        return _quotients(self._totals, 1, self._unit)

    def outer_sums(self) -> Array:
        """Σ w x xᵀ, in the scatter's shape."""
        return self._shaped(_quotients(self._products, 1, self._square))

    def weight_tails(self) -> Array:
        """What rounding left of each weight, rounded."""
        tails: Array = (self._weights - _FRACTION(self.weights())).astype(np.float64)
        return tails

    def tails(self) -> Array:
        """What rounding left of each mean, rounded."""
        exact = self._totals * Fraction(2) ** self._unit / self._weights[:, None]
        tails: Array = (exact - _FRACTION(self.means())).astype(np.float64)
        return tails

    def scatter(self) -> Array:
        """Σ w (x − mean)(x − mean)ᵀ within the classes."""
        return self._shaped(_quotients(*self._within()))

    def covariance(self, ddof: float) -> Array:
        """The scatter over the weight less `ddof`; ZeroDivisionError where there is not so much weight."""
        weights = [self._weights.sum()] if self._kind.is_pooled else self._weights
        lost = Fraction(ddof) * (len(self._weights) if self._kind.is_pooled else 1)
        freedom = [weight - lost for weight in weights]
        if min(freedom, default=1) <= 0:
            raise ZeroDivisionError
        numerators, denominators, exponent = self._within()
        over = _column([f.numerator for f in freedom])
        under = _column([f.denominator for f in freedom])
        return self._shaped(_quotients(numerators * under, denominators * over, exponent))

    def overall_mean(self) -> Array:
        """The mean of all rows."""
        return _quotients(self._totals.sum(axis=0), self._weights.sum(), self._unit)

    def total_variance(self) -> Array:
        """The maximum-likelihood variance of each feature over all rows."""
        weight, total = self._weights.sum(), self._totals.sum(axis=0)
        squares = self._products[:, self._diagonal].sum(axis=0)
        numerators, exponent = _difference(weight * squares, self._square, total * total, 2 * self._unit)
        return _quotients(numerators, weight * weight, exponent)

    def are_of_rows(self, counts: NDArray[np.int64]) -> bool:
        """Whether so many rows could have these sums, as far as can be told.

        No variance is negative, nor is there any within a class of one row.
        """
        numerators, _, _ = self._within()
        variances = numerators[:, self._diagonal]
        lonely = np.array([counts.max() == 1]) if self._kind.is_pooled else counts == 1
        return (
            bool((variances >= 0).all())
            and not variances[lonely].any()
            and self._are_correlations(numerators, variances)
        )

    def _are_correlations(self, numerators: PythonIntegers, variances: PythonIntegers) -> bool:
        """Whether no correlation exceeds one."""
        return bool((numerators**2 <= variances[:, self._first] * variances[:, self._second]).all())

    def _within(self) -> tuple[PythonIntegers, PythonIntegers, int]:
        """The packed scatter: numerators, denominators in a column, and the exponent of the numerators."""
        first, second = self._first, self._second
        if not self._kind.is_pooled:
            outer = self._totals[:, first] * self._totals[:, second]
            return self._centred(self._weights[:, None], outer)
        common = math.lcm(*self._weights)
        outer = np.zeros((1, len(first)), dtype=object)
        for weight, total in zip(self._weights, self._totals, strict=True):
            outer += (common // weight) * total[first] * total[second]
        return self._centred(_column([common]), outer)

    def _centred(
        self, weights: PythonIntegers, outer: PythonIntegers
    ) -> tuple[PythonIntegers, PythonIntegers, int]:
        numerators, exponent = _difference(weights * self._products, self._square, outer, 2 * self._unit)
        return numerators, weights, exponent

    def _shaped(self, packed: Array) -> Array:
        return self._kind.unpacked(packed, len(self._weights), self._n_features)


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
