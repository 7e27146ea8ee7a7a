"""The exact sums of each class: how they are merged, subtracted, selected and mapped."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.extensions.exact.numbers import ExactArray, ExactMoments, PythonIntegers
from streamgda.statistics.covariances import Array, CovarianceKind, Indices, kind_named
from streamgda.statistics.labelled import Counts
from streamgda.statistics.required import Required

_MANTISSA_BITS = 53


@dataclass
class Sums:
    """The exact sums of each class. The arrays themselves never change, so copies share them.

    Attributes
    ----------
    kind : CovarianceKind
        Which products are kept.
    weights : ExactArray of shape (K,)
        Σ w.
    totals : ExactArray of shape (K, d)
        Σ w x.
    products : ExactArray of shape (K, n_pairs), or (1, n_pairs) where the classes share them
        Σ w x xᵀ, packed.
    """

    kind: CovarianceKind
    weights: ExactArray
    totals: ExactArray
    products: ExactArray
    exact: ClassVar[bool] = True
    fourth_moments: ClassVar[bool] = False

    @classmethod
    def zeros(cls, kind: CovarianceKind, n_classes: int, n_features: int) -> Self:
        """The sums of no rows."""
        products = ExactArray.zeros(kind.n_packed(n_classes), kind.n_pairs(n_features))
        return cls(kind, ExactArray.zeros(n_classes), ExactArray.zeros(n_classes, n_features), products)

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return self.totals.shape[1]

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return sum(array.digits.nbytes for array in self.arrays)

    @property
    def arrays(self) -> tuple[ExactArray, ExactArray, ExactArray]:
        """All arrays."""
        return self.weights, self.totals, self.products

    def weight_text(self, k: int) -> str:
        """The weight of a class as an error names it."""
        return str(self.weights[[k]].whole()[0])

    def least_squares(self, counts: Counts) -> PythonIntegers:
        """Σ w² of the rows of each class if they have equal weights, W² / n. It is never less."""
        squares: PythonIntegers = -(-(self.weights.whole() ** 2) // counts.astype(object))
        return squares

    def rounded(self) -> ExactMoments:
        """The moments of these sums, each rounded once when it is read."""
        return ExactMoments(self.kind, *self.arrays)

    def equals(self, other: Sums) -> bool:
        """Whether the two are the same to the last bit."""
        return all(a.equals(b) for a, b in zip(self.arrays, other.arrays, strict=True))

    # ------------------------------------------------------------------ by class

    def copy(self) -> Self:
        """Sums that do not change with these."""
        return replace(self)

    def take(self, classes: Indices) -> Self:
        """The sums of some classes; where products are pooled, those of all."""
        return self._of_each(lambda array: array[classes])

    def reindexed(self, n_classes: int, places: Indices) -> Self:
        """The same sums in arrays of `n_classes` classes, at these places; zeros elsewhere."""
        return self._of_each(lambda array: array.spread(n_classes, places))

    def _of_each(self, function: Callable[[ExactArray], ExactArray]) -> Self:
        """The sums with a function applied to each array, but not to products that the classes share."""
        shared = self.products if self.kind.is_pooled else None
        return type(self)(self.kind, *[one if one is shared else function(one) for one in self.arrays])

    def total(self) -> Self:
        """The sums of the rows of all classes, as those of one class."""
        return type(self)(self.kind, *map(ExactArray.total, self.arrays))

    def narrowed(self, required: Required) -> Self:
        """The sums that are required; ValueError if these keep too little."""
        check_no_others(required)
        if (kind := kind_named(required.covariance_type)) is self.kind:
            return self.copy()
        products = self.products[:, kind.positions_in(self.kind, self.n_features)]
        return replace(self, kind=kind, products=products.total() if kind.is_pooled else products)

    # ------------------------------------------------------------------ by feature

    def selected(self, features: Indices) -> Self:
        """The sums of some features, in this order."""
        positions = self.kind.positions_of(features, self.n_features)
        return replace(self, totals=self.totals[:, features], products=self.products[:, positions])

    def placed(self, features: Indices, n_features: int) -> Self:
        """The sums of `n_features` features, of which these are at the given places, and zeros."""
        positions, n_pairs = self.kind.positions_of(features, n_features), self.kind.n_pairs(n_features)
        products = self.products.spread(n_pairs, positions, axis=1)
        return replace(self, totals=self.totals.spread(n_features, features, axis=1), products=products)

    def without_pooled(self, classes: Indices) -> Self:
        """The sums of some classes, with zeros in place of products that the classes share."""
        part = self.take(classes)
        return replace(part, products=ExactArray.zeros(*part.products.shape)) if self.kind.is_pooled else part

    def mapped(self, A: Array, b: Array) -> Self:
        """The exact sums of the rows A x + b.

        Σ w y = A Σ w x + b Σ w, and Σ w y yᵀ = A Σ w x xᵀ Aᵀ + A Σ w x bᵀ + b Σ w xᵀ Aᵀ + b bᵀ Σ w.
        """
        (matrix, of_matrix), (shift, of_shift) = _integers(A), _integers(b)
        (totals, of_totals), (weights, of_weights) = self.totals.integers(), self.weights.integers()
        turned = totals @ matrix.T
        exact = ExactArray.from_integers
        shifts = exact(weights[:, None] * shift, of_weights + of_shift)
        crossed, squares = turned[:, :, None] * shift, weights[:, None, None] * np.outer(shift, shift)
        if self.kind.is_pooled:
            crossed, squares = crossed.sum(axis=0), squares.sum(axis=0)
        products, of_products = self.products.integers()
        outer = self.kind.unpacked(products, len(totals), self.n_features)
        terms = [
            (matrix @ outer @ matrix.T, of_products + 2 * of_matrix),
            (crossed + np.swapaxes(crossed, -1, -2), of_matrix + of_totals + of_shift),
            (squares, of_weights + 2 * of_shift),
        ]
        first, *others = (exact(self.kind.packed(values), exponent) for values, exponent in terms)
        totals_of_map = exact(turned, of_matrix + of_totals) + shifts
        return replace(self, totals=totals_of_map, products=sum(others, start=first))

    # ------------------------------------------------------------------ sums add up

    def merge(self, other: Sums, places: Indices) -> None:
        """Add to the classes at these places, in place."""
        vars(self).update(vars(self.merged(other, places)))

    def merged(self, other: Sums, places: Indices) -> Self:
        """The sums with others added to the classes at these places."""
        n_classes = self.weights.shape[0]
        wide = other if len(places) == n_classes else other.reindexed(n_classes, places)
        return type(self)(self.kind, *map(operator.add, self.arrays, wide.arrays))

    def write(self) -> None:
        """Do nothing, since arrays never change."""

    def overdrawn(self, part: Sums, counts: Counts) -> NDArray[np.bool_]:
        """Which classes would keep an impossible weight, if a part is taken out and `counts` rows remain."""
        left = (self.weights - part.weights).whole()
        # A row weighs one or more.
        return np.where(counts == 0, left != 0, left < counts).astype(np.bool_)

    def subtract(self, part: Sums, counts: Counts, rounding: float = 0.0) -> Self:
        """The sums without the part, of the classes that keep rows: the true inverse of `merge`.

        Raises
        ------
        ValueError
            If sums are left of a class without rows, or no rows can have what is left.
        """
        rest = type(self)(self.kind, *map(operator.sub, self.arrays, part.arrays))
        emptied, remaining = rest.take(np.flatnonzero(counts == 0)), np.flatnonzero(counts)
        are_of_others = self.kind.is_pooled and len(remaining)  # the products that are left
        left = [emptied.totals] if are_of_others else [emptied.totals, emptied.products]
        if any(len(array.digits) for array in left):
            raise ValueError("the sums of a class differ: these rows never went into the state")
        rest = rest.take(remaining)
        if len(remaining) and not rest.rounded().are_of_rows(counts[remaining]):
            raise ValueError("a variance would be negative: these rows never went into the state")
        return rest


def _integers(values: Array) -> tuple[PythonIntegers, int]:
    """Floats as Python integers, all times two to one exponent."""
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, _MANTISSA_BITS).astype(np.int64).astype(object)
    lowest = int(exponents.min(initial=0))
    return mantissas << (exponents - lowest).astype(object), lowest - _MANTISSA_BITS


def check_no_others(required: Required) -> None:
    """Raise the ValueError that says what to use instead, if more than exact sums is required."""
    if required.fourth_moments:
        raise ValueError(
            "exact statistics keep no fourth moments, which shrinkage='auto' needs; set shrinkage='oas' or a "
            "number, or exact=False"
        )
