"""What an exact state adds up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from streamgda.statistics.exact.numbers import ExactArray
from streamgda.statistics.exact.products import ExactScatter
from streamgda.statistics.exact.slices import Indices


@dataclass(frozen=True)
class Sums:
    """The exact sums of each class. They never change, so they may be shared.

    Attributes
    ----------
    scatter : ExactScatter
        Which products are kept.
    weights : ExactArray of shape (K,)
        Σ w.
    totals : ExactArray of shape (K, d)
        Σ w x.
    products : ExactArray of shape (K, P), or (1, P) where the classes share them
        Σ w x xᵀ, packed.
    """

    scatter: ExactScatter
    weights: ExactArray
    totals: ExactArray
    products: ExactArray

    @classmethod
    def zeros(cls, scatter: ExactScatter, n_classes: int, n_features: int) -> Self:
        """The sums of no rows."""
        products = ExactArray.zeros(scatter.n_matrices(n_classes), scatter.n_pairs(n_features))
        return cls(scatter, ExactArray.zeros(n_classes), ExactArray.zeros(n_classes, n_features), products)

    @property
    def arrays(self) -> tuple[ExactArray, ExactArray, ExactArray]:
        """All that is held."""
        return self.weights, self.totals, self.products

    def __add__(self, other: Sums) -> Self:
        return type(self)(
            self.scatter,
            self.weights + other.weights,
            self.totals + other.totals,
            self.products + other.products,
        )

    def __sub__(self, other: Sums) -> Self:
        return type(self)(
            self.scatter,
            self.weights - other.weights,
            self.totals - other.totals,
            self.products - other.products,
        )

    def spread(self, n_classes: int, places: Indices) -> Self:
        """The same with classes that have nothing between them: these go to the places given."""
        products = self.products
        return type(self)(
            self.scatter,
            self.weights.spread(n_classes, places),
            self.totals.spread(n_classes, places),
            products if self.scatter.is_pooled else products.spread(n_classes, places),
        )

    def take(self, kept: Indices) -> Self:
        """The sums of some classes; where products are pooled, those of all."""
        products = self.products if self.scatter.is_pooled else self.products[kept]
        return type(self)(self.scatter, self.weights[kept], self.totals[kept], products)

    def narrowed(self, scatter: ExactScatter) -> Self:
        """What a narrower kind keeps of these, which keep a matrix for each class."""
        if scatter.is_pooled:
            products = self.products.total() if self.weights.shape[0] else self.products
        else:
            first, second = self.scatter.pairs(self.totals.shape[1])
            products = self.products[:, np.flatnonzero(first == second)]
        return replace(self, scatter=scatter, products=products)
