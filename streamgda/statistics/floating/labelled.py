"""Moments with the labels they belong to: states that unite their classes as they merge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import labels
from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels
from streamgda.statistics.covariances import Array, CovarianceKind
from streamgda.statistics.floating import moments, reduction
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.gather import Workspace

_ROUNDING = 1e-8

_WEIGHT_ROUNDING = 1e-13

_NO_WEIGHT = 1e-200


@dataclass
class LabelledMoments:
    """The classes seen, in order, with the count of rows and the moments of each."""

    classes: Labels
    counts: NDArray[np.int64]
    moments: Moments

    @classmethod
    def empty(cls, kind: CovarianceKind, n_features: int, *, fourth: bool = False) -> Self:
        """The state that has seen no rows, with room for fourth moments or without."""
        return cls(
            labels.no_labels(), np.zeros(0, np.int64), Moments.zeros(kind, 0, n_features, fourth=fourth)
        )

    @classmethod
    def of_block(
        cls, block: Block, kind: CovarianceKind, workspace: Workspace, *, fourth: bool = False
    ) -> Self:
        """The state of the rows of a block.

        Raises
        ------
        ValueError
            If a value is NaN or infinite, or its power exceeds float64; the message says where.
        """
        if not len(block.codes):
            return cls.empty(kind, block.n_features, fourth=fourth)
        reduced = reduction.reduce_block(block, kind, workspace, fourth=fourth)
        if not reduced.are_finite():
            block.refuse_values("fourth powers" if fourth else "squares")
        return cls(block.classes, np.bincount(block.codes), reduced)

    @classmethod
    def from_sums(
        cls,
        kind: CovarianceKind,
        classes: Labels,
        counts: NDArray[Any],
        weights: Array,
        sums: Array,
        outer_sums: Array,
    ) -> Self:
        """The state whose raw sums these are, for classes in any order.

        Raises
        ------
        ValueError
            If shapes do not agree, a class stands twice or is empty, or the sums are of no rows.
        """
        _check_counts(classes, counts, weights)
        _check_shapes(kind, len(classes), sums=sums, outer_sums=outer_sums)
        counts = counts.astype(np.int64)
        order = np.argsort(classes)
        weights, sums = weights[order], sums[order]
        outer_sums = kind.unpacked(kind.packed(kind.take(outer_sums, order)), *sums.shape)
        scatter = outer_sums - kind.outer(sums / np.sqrt(weights)[:, None])
        held = Moments(kind, weights, sums / weights[:, None], np.zeros_like(sums), scatter)
        _clip_scatter(held, kind.diagonal(outer_sums), "these sums cannot be of any rows")
        return cls(classes[order], counts[order], held)

    @classmethod
    def from_moments(
        cls,
        kind: CovarianceKind,
        classes: Labels,
        counts: NDArray[Any],
        weights: Array,
        means: Array,
        scatter: Array,
    ) -> Self:
        """The state whose means and scatter these are, for classes in any order.

        Raises
        ------
        ValueError
            If shapes do not agree, a class stands twice or is empty, or the scatter is of no rows.
        """
        _check_counts(classes, counts, weights)
        _check_shapes(kind, len(classes), means=means, scatter=scatter)
        order = np.argsort(classes)
        scatter = kind.take(scatter, order).copy()
        held = Moments(kind, weights[order], means[order], np.zeros_like(means), scatter)
        _clip_scatter(held, np.abs(held.diagonal), "this scatter cannot be of any rows")
        return cls(classes[order], counts[order].astype(np.int64), held)

    @property
    def kind(self) -> CovarianceKind:
        """The kind of covariance that is kept."""
        return self.moments.kind

    @property
    def has_fourth(self) -> bool:
        """Whether fourth moments are kept."""
        return self.moments.fourth is not None

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return int(self.moments.means.shape[1])

    def copy(self) -> Self:
        """A state that shares nothing with this one."""
        return replace(
            self, classes=self.classes.copy(), counts=self.counts.copy(), moments=self.moments.copy()
        )

    def merge(self, other: LabelledMoments) -> None:
        """Add the rows of another state, in place: wholly, or, where it raises, not at all."""
        classes = labels.union(self.classes, other.classes)
        united = self._reindexed(classes, max(self.n_features, other.n_features))
        if len(other.classes):
            united._add(np.searchsorted(classes, other.classes), other)
        self.classes, self.counts, self.moments = united.classes, united.counts, united.moments

    def _add(self, here: NDArray[np.intp], other: LabelledMoments) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            merged = moments.merge(self.moments.take(here), other.moments)
        if not np.isfinite(merged.weights).all():
            raise ValueError("the weights are too large: their sum exceeds float64. Rescale them first")
        if not merged.are_finite():
            powers = "fourth powers" if self.has_fourth else "squares"
            raise ValueError(f"the features are too large: their {powers} exceed float64. Rescale them first")
        self.moments.put(here, merged)
        self.counts[here] += other.counts

    def _reindexed(self, classes: Labels, n_features: int) -> LabelledMoments:
        """The state with a place for each of these classes; itself, where it has them all."""
        if self.moments.means.shape == (len(classes), n_features):
            return self
        wider = Moments.zeros(self.kind, len(classes), n_features, fourth=self.has_fourth)
        counts = np.zeros(len(classes), dtype=np.int64)
        if len(self.classes):
            there = np.searchsorted(classes, self.classes)
            wider.put(there, self.moments)
            counts[there] = self.counts
        return replace(self, classes=classes, counts=counts, moments=wider)

    def decay(self, factor: float) -> None:
        """Weigh all by a factor, in place, and forget the classes of which nothing is left."""
        self.moments.scale(factor)
        kept = np.flatnonzero(self.moments.weights >= _NO_WEIGHT)
        if not len(kept):
            nothing = self.empty(self.kind, self.n_features, fourth=self.has_fourth)
            self.classes, self.counts, self.moments = nothing.classes, nothing.counts, nothing.moments
        elif len(kept) < len(self.classes):
            self.classes, self.counts = self.classes[kept], self.counts[kept]
            self.moments = self.moments.take(kept)

    def subtract(self, other: LabelledMoments) -> LabelledMoments:
        """The state of the rows that are in this one but not in the other.

        Raises
        ------
        ValueError
            If the other has a class that this one has not, more rows or weight of a class, or more
            scatter than the rows of this one hold.
        """
        removed = self._aligned(other)
        counts = self.counts - removed.counts
        self._check_removable(removed, counts)
        kept = np.flatnonzero(counts > 0)
        if not len(kept):
            return self.empty(self.kind, self.n_features, fourth=self.has_fourth)
        whole = self.moments.take(kept)
        rest = moments.split_off(whole, removed.moments.take(kept))
        _clip_scatter(rest, whole.diagonal, "these rows never went into the state")
        if rest.fourth and whole.fourth:
            rest.fourth.clip(rest.weights, rest.scatter, whole.fourth)
        return replace(self, classes=self.classes[kept], counts=counts[kept], moments=rest)

    def _aligned(self, other: LabelledMoments) -> LabelledMoments:
        """The other state with a place for each class of this one."""
        unseen = np.setdiff1d(labels.union(self.classes, other.classes), self.classes)
        if len(unseen):
            raise ValueError(f"class {unseen[0]!s} cannot be removed: the state never saw it")
        return other._reindexed(self.classes, self.n_features)

    def _check_removable(self, removed: LabelledMoments, counts: NDArray[np.int64]) -> None:
        self._check_weights(removed, counts)
        emptied = np.flatnonzero((counts == 0) & (removed.counts > 0))
        ours, theirs = self.moments.take(emptied), removed.moments.take(emptied)
        gap = (theirs.means - ours.means) + (theirs.tails - ours.tails)
        deviation = np.sqrt(ours.diagonal / ours.weights[:, None]) if len(emptied) else 0.0
        if (np.abs(gap) > _ROUNDING * (np.abs(ours.means) + deviation)).any():
            raise ValueError("the means of a class differ: these rows never went into the state")

    def _check_weights(self, removed: LabelledMoments, counts: NDArray[np.int64]) -> None:
        weights = self.moments.weights
        left = weights - removed.moments.weights
        rounding = _WEIGHT_ROUNDING * weights
        overdrawn = np.where(counts == 0, np.abs(left) > rounding, left <= rounding)
        for k in np.flatnonzero((counts < 0) | overdrawn):
            raise ValueError(
                f"class {self.classes[k]!s}: cannot remove {removed.counts[k]} rows of weight "
                f"{removed.moments.weights[k]:g} from {self.counts[k]} rows of weight {weights[k]:g}"
            )

    def narrowed(self, kind: CovarianceKind, *, fourth: bool = False) -> LabelledMoments:
        """A copy that keeps no more than another kind of covariance does, and fourth moments if asked to."""
        if fourth and not self.has_fourth:
            raise ValueError(
                "this state holds no fourth moments, which shrinkage='auto' is worked out from; "
                "accumulate with fourth_moments=True"
            )
        narrow = replace(self.moments, kind=kind, scatter=kind.narrowed(self.moments.scatter, self.kind))
        return replace(self, moments=narrow if fourth else replace(narrow, fourth=None)).copy()

    def as_one_class(self) -> LabelledMoments:
        """A copy in which all rows are of the class 0."""
        if not len(self.classes):
            return self.copy()
        of_class = [self.moments.take(np.array([k])) for k in range(len(self.classes))]
        together = reduce(moments.merge, of_class).copy()
        return replace(self, classes=np.array([0]), counts=self.counts.sum(keepdims=True), moments=together)

    def same_counts(self, other: LabelledMoments) -> bool:
        """Whether the two have the same kind of covariance, features, classes and counts."""
        return (
            self.kind is other.kind
            and self.has_fourth == other.has_fourth
            and labels.kind_of(self.classes) == labels.kind_of(other.classes)
            and self.n_features == other.n_features
            and np.array_equal(self.classes, other.classes)
            and np.array_equal(self.counts, other.counts)
        )


def _check_counts(classes: Labels, counts: NDArray[Any], weights: Array) -> None:
    if not len(classes) == len(counts) == len(weights):
        raise ValueError("counts and weights must have one entry for each class")
    if len(np.unique(classes)) != len(classes):
        raise ValueError("a class stands twice")
    if not np.array_equal(counts, np.floor(counts)):
        raise ValueError("counts must be whole numbers")
    if not np.isfinite(weights).all():
        raise ValueError("weights must be finite")
    empty = (counts <= 0) | ~(weights > 0)
    if empty.any():
        raise ValueError(f"class {classes[empty][0]!s} has no rows")


def _check_shapes(kind: CovarianceKind, n_classes: int, **arrays: Array) -> None:
    """Check an array with a vector for each class, and one in the scatter's shape, which are named."""
    (vectors_name, vectors), (products_name, products) = arrays.items()
    if vectors.ndim != 2 or len(vectors) != n_classes:
        raise ValueError(f"{vectors_name} must have one row for each class; got shape {vectors.shape}")
    expected = kind.zeros(*vectors.shape).shape
    if products.shape != expected:
        raise ValueError(
            f"{products_name} must have shape {expected} for {kind.name!r}; got {products.shape}"
        )
    if not (np.isfinite(vectors).all() and np.isfinite(products).all()):
        raise ValueError(f"{vectors_name} and {products_name} must be finite")
    if not kind.is_symmetric(products):
        raise ValueError(f"{products_name} must be symmetric")


def _clip_scatter(moments: Moments, scale: Array, otherwise: str) -> None:
    """Make zero the variances that rounding made negative, and refuse what rounding cannot explain."""
    diagonal = moments.diagonal
    if not (diagonal >= -_ROUNDING * scale).all():
        raise ValueError(f"a variance would be negative: {otherwise}")
    moments.kind.zero(moments.scatter, diagonal <= 0)
    bound = moments.kind.outer(np.sqrt(scale))
    if (np.abs(moments.scatter) > moments.kind.outer(np.sqrt(moments.diagonal)) + _ROUNDING * bound).any():
        raise ValueError(f"a correlation would exceed 1: {otherwise}")
