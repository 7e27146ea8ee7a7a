"""The weights of classes, of leaves by class and of pairs of leaves: how they add up and are taken out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.kernels import count_pairs
from streamgda.statistics.labelled import Counts
from streamgda.statistics.required import Required

_NOISE = 2.0**-36  # of a difference, relative to what is taken out: 65,536 rows are summed one by one
_TOL = 1e-9


@dataclass
class LeafCounts:
    """The sums of rows that went through a forest. The arrays never change, so copies share them.

    All are sums of weights. Those of whole numbers are exact below 2^53, so that they have the same bits in
    any order, and subtraction is the true inverse of addition.

    Attributes
    ----------
    kind : CovarianceKind
        "tied": the classes share the pairs.
    weights : ndarray of shape (K,)
        Σ w.
    by_class : csr_array of shape (K, n_leaves)
        Σ w of the rows of a class at a leaf.
    pairs : csr_array of shape (n_leaves, n_leaves)
        Σ w of the rows at both leaves i ≤ j.
    """

    kind: CovarianceKind
    weights: Array
    by_class: sp.csr_array
    pairs: sp.csr_array

    exact: ClassVar[bool] = False
    fourth_moments: ClassVar[bool] = False

    @classmethod
    def zeros(cls, kind: CovarianceKind, n_classes: int, n_leaves: int) -> Self:
        """The sums of no rows."""
        return cls(
            kind, np.zeros(n_classes), sp.csr_array((n_classes, n_leaves)), sp.csr_array((n_leaves, n_leaves))
        )

    @classmethod
    def of(
        cls,
        kind: CovarianceKind,
        leaves: NDArray[np.int32],
        firsts: Indices,
        codes: Indices,
        weights: Array | None,
        n_classes: int,
    ) -> Self:
        """The sums of rows with these leaves (n_rows, n_trees), and classes by their codes."""
        n_leaves, own = int(firsts[-1]), np.ones(len(codes)) if weights is None else weights
        ends, seconds, sums = count_pairs(leaves, weights, firsts)
        pairs = sp.csr_array((sums, seconds, np.append(0, ends)), (n_leaves, n_leaves))
        pairs.sort_indices()
        places = np.repeat(codes, leaves.shape[1]), leaves.ravel()
        by_class = sp.coo_array((np.repeat(own, leaves.shape[1]), places), (n_classes, n_leaves)).tocsr()
        return cls(kind, np.bincount(codes, own, n_classes).astype(np.float64), by_class, pairs)

    @property
    def n_features(self) -> int:
        """How many leaves there are."""
        return int(self.pairs.shape[0])

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        matrices = (
            part for one in (self.by_class, self.pairs) for part in (one.data, one.indices, one.indptr)
        )
        return self.weights.nbytes + sum(part.nbytes for part in matrices)

    @property
    def leaf_weights(self) -> Array:
        """Σ w at each leaf: (n_leaves,)."""
        return self.pairs.diagonal()

    def weight_text(self, k: int) -> str:
        """The weight of a class as an error names it."""
        return f"{self.weights[k]:g}"

    def least_squares(self, counts: Counts) -> Array:
        """Σ w² of the rows of each class if they have equal weights, W² / n. It is never less."""
        return self.weights * (self.weights / counts)

    def equals(self, other: LeafCounts) -> bool:
        """Whether the two are the same to the last bit."""
        same = np.array_equal(self.weights, other.weights)
        return same and all(not (one - two).count_nonzero() for one, two in self._beside(other))

    def is_close(self, other: LeafCounts, rtol: float) -> bool:
        """Whether the two agree to `rtol`, each number relative to itself."""
        return np.allclose(self.weights, other.weights, rtol=rtol, atol=0) and all(
            (np.abs((one - two).data) <= rtol * max(1.0, abs(one).max() if one.nnz else 0.0)).all()
            for one, two in self._beside(other)
        )

    def _beside(self, other: LeafCounts) -> list[tuple[sp.csr_array, sp.csr_array]]:
        return [(self.by_class, other.by_class), (self.pairs, other.pairs)]

    # ------------------------------------------------------------------ moments are read out

    @property
    def rounded_means(self) -> Array:
        """The share of the rows of each class at each leaf: (K, n_leaves)."""
        return self.by_class.toarray() / self.weights[:, None]

    @property
    def mean_tails(self) -> Array:
        """Nothing is known of them: (K, n_leaves)."""
        return np.zeros(self.by_class.shape)

    @property
    def sums(self) -> Array:
        """Σ w of the rows of each class at each leaf: (K, n_leaves)."""
        return self.by_class.toarray()

    @property
    def overall_mean(self) -> Array:
        """The share of all rows at each leaf: (n_leaves,)."""
        mean: Array = self.leaf_weights / self.weights.sum()
        return mean

    @property
    def total_variance(self) -> Array:
        """The variance of each leaf over all rows: (n_leaves,)."""
        mean = self.overall_mean
        return mean * (1 - mean)

    def _refuse(self, *_: Any) -> NoReturn:
        raise ValueError(
            f"a state of {self.n_features:,} leaves holds the pairs that occur, and no scatter; its model is "
            "LeafClassifier, and RandomFeatureClassifier has one of a few thousand features"
        )

    scatter = outer_sums = property(_refuse)
    covariance = check_squares = selected = placed = mapped = _refuse

    # ------------------------------------------------------------------ by class

    def copy(self) -> Self:
        """Sums that do not change with these."""
        return replace(self)

    def take(self, classes: Indices) -> Self:
        """The sums of some classes, with the pairs of all."""
        return replace(self, weights=self.weights[classes], by_class=self.by_class[classes])

    def without_pooled(self, classes: Indices) -> Self:
        """The sums of some classes, without pairs."""
        return replace(self.take(classes), pairs=sp.csr_array(self.pairs.shape))

    def reindexed(self, n_classes: int, places: Indices) -> Self:
        """The same sums in arrays of `n_classes` classes, at these places; zeros elsewhere."""
        return self.zeros(self.kind, n_classes, self.n_features).merged(self, places)

    def total(self) -> Self:
        """The sums of the rows of all classes, as those of one class."""
        return replace(
            self,
            weights=self.weights.sum(keepdims=True),
            by_class=sp.csr_array(self.by_class.sum(axis=0)[None]),
        )

    def narrowed(self, required: Required) -> Self:
        """The sums that are required; ValueError if these are not."""
        if required != Required(self.kind.name):
            self._refuse()
        return self.copy()

    # ------------------------------------------------------------------ sums add up

    def merge(self, other: LeafCounts, places: Indices) -> None:
        """Add to the classes at these places, in place."""
        vars(self).update(vars(self.merged(other, places)))

    def merged(self, other: LeafCounts, places: Indices) -> Self:
        """The sums with others added to the classes at these places; ValueError if they exceed float64."""
        weights = self.weights.copy()
        np.add.at(weights, places, other.weights)
        if not math.isfinite(weights.sum()):
            raise ValueError("the weights are too large: their sum exceeds float64. Rescale them first")
        to = sp.csr_array(
            (np.ones(len(places)), (places, np.arange(len(places)))), (len(weights), len(places))
        )
        return replace(
            self,
            weights=weights,
            by_class=self.by_class + to @ other.by_class,
            pairs=self.pairs + other.pairs,
        )

    def write(self) -> None:
        """Do nothing, since arrays never change."""

    def times(self, factor: float) -> Self:
        """The sums of rows that weigh `factor` times as much."""
        return replace(
            self, weights=self.weights * factor, by_class=self.by_class * factor, pairs=self.pairs * factor
        )

    def overdrawn(self, part: LeafCounts, counts: Counts) -> NDArray[np.bool_]:
        """Which classes would keep an impossible weight, if a part is taken out and `counts` rows remain."""
        left = self.weights - part.weights
        rounding = 0.0 if _are_whole(self.weights, part.weights) else _TOL * self.weights
        return np.where(counts == 0, np.abs(left) > rounding, left <= rounding)

    def without(self, part: LeafCounts) -> Self:
        """The sums less those of some rows, for the same classes; ValueError if they are not of them."""
        of_class, of_pairs = (_difference(*both) for both in self._beside(part))
        weights = self.weights - part.weights
        if not _are_whole(self.weights, part.weights):
            weights[weights <= _NOISE * part.weights] = 0.0
        return replace(self, weights=weights, by_class=of_class, pairs=of_pairs)

    def subtract(self, part: LeafCounts, counts: Counts, rounding: float = 0.0) -> Self:
        """The sums without the part, of the classes that keep rows.

        Raises
        ------
        ValueError
            If a weight would be negative, or one is left of a class without rows.
        """
        rest, remaining = self.without(part), np.flatnonzero(counts)
        if rest.by_class[np.flatnonzero(counts == 0)].nnz or (not len(remaining) and rest.pairs.nnz):
            raise ValueError("the leaves of a class differ: these rows never went into the state")
        return rest.take(remaining)


def _difference(whole: sp.csr_array, part: sp.csr_array) -> sp.csr_array:
    """A matrix less another, without what is rounding alone; ValueError if a number would be negative."""
    rest: sp.csr_array = whole - part
    if not _are_whole(whole.data, part.data):
        # Rounding of each number, and of larger ones that were there before other parts were taken out.
        least = _TOL * part.data.mean() if part.nnz else 0.0
        rest.data[np.abs(rest.data) <= least] = 0.0
        rest = rest.multiply(abs(rest) > _NOISE * part).tocsr()
    rest.eliminate_zeros()
    if (rest.data < 0).any():
        raise ValueError("a weight would be negative: these rows never went into the state")
    return rest


def _are_whole(*sums: Array) -> bool:
    """Whether sums are of whole numbers, whose differences are exact."""
    return all((one == np.rint(one)).all() and one.max(initial=0.0) < 2**53 for one in sums)
