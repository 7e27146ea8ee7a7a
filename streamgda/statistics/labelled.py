"""The labels of the classes with their counts and moments; classes are united in a merge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.labels import Codes, Labels
from streamgda.data.blocks.wording import counted, named
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.required import Required

Counts = NDArray[np.int64]
Squares = NDArray[Any] | None
"""Σ w² of each class: float64, or Python integers beside sums of integers. None if all weights are 1."""

_LEAST_WEIGHT = 1e-150  # so that float64 holds squares of weights, and of their inverses


def squared_weights(codes: Codes, weights: Array | None, *, as_integers: bool = False) -> Squares:
    """Σ w² of the rows of each class, by their codes.

    Weights that are whole numbers also give Python integers.
    """
    if weights is None or (weights == 1).all():
        return None
    if not as_integers:
        return np.bincount(codes, np.clip(weights, _LEAST_WEIGHT, 1 / _LEAST_WEIGHT) ** 2)
    squares = np.zeros(int(codes.max()) + 1, object)
    np.add.at(squares, codes, weights.astype(np.int64).astype(object) ** 2)
    return squares


def joined_squares(
    ours: Squares, our_counts: Counts, theirs: Squares, their_counts: Counts, places: Indices
) -> Squares:
    """Σ w² of our rows and of theirs, whose classes are at these places of ours."""
    if ours is None and theirs is None:
        return None
    ours, theirs = (our_counts if ours is None else ours), (their_counts if theirs is None else theirs)
    together = ours.astype(np.result_type(ours, theirs))
    np.add.at(together, places, theirs)
    return together


M = TypeVar("M", bound=Any)


@dataclass
class Labelled(Generic[M]):
    """The classes seen, sorted, with the number of rows and the moments of each.

    These are floating `Moments`, or exact `Sums`, which have the same methods. Their arrays have a row for
    each class; a scatter that the classes share is held once. `squared_weights` is None as long as every row
    has weight 1: then Σ w² is the count.
    """

    classes: Labels
    counts: Counts
    moments: M
    squared_weights: Squares = None

    @classmethod
    def empty(cls, like: M, n_features: int) -> Self:
        """The state that has seen no rows, of the kind of these moments."""
        return cls(labels.no_labels(), np.zeros(0, np.int64), like.zeros(like.kind, 0, n_features))

    @property
    def kind(self) -> CovarianceKind:
        """The kind of covariance that is kept."""
        kind: CovarianceKind = self.moments.kind
        return kind

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return int(self.moments.n_features)

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        squares = 0 if self.squared_weights is None else self.squared_weights.nbytes
        return self.classes.nbytes + self.counts.nbytes + squares + int(self.moments.nbytes)

    @property
    def squares(self) -> NDArray[Any]:
        """Σ w² of each class."""
        return self.counts if self.squared_weights is None else self.squared_weights

    @property
    def rounded_squares(self) -> Array | None:
        """Σ w² of each class in float64; None if all rows have weight 1."""
        return None if self.squared_weights is None else self.squared_weights.astype(np.float64)

    def copy(self) -> Self:
        """A state that does not change with this one."""
        squares = None if self.squared_weights is None else self.squared_weights.copy()
        return type(self)(self.classes.copy(), self.counts.copy(), self.moments.copy(), squares)

    def _with(self, moments: M) -> Self:
        """A copy with other moments of the same rows."""
        squares = None if self.squared_weights is None else self.squared_weights.copy()
        return type(self)(self.classes.copy(), self.counts.copy(), moments, squares)

    def take(self, places: Indices) -> Self:
        """The state of some of the classes; this one itself if they are all."""
        if len(places) == len(self.classes):
            return self
        if not len(places):
            return self.empty(self.moments, self.n_features)
        squares = None if self.squared_weights is None else self.squared_weights[places]
        classes = labels.trimmed(self.classes[places])
        return type(self)(classes, self.counts[places], self.moments.take(places), squares)

    def narrowed(self, required: Required) -> Self:
        """A copy that keeps no more than is required; ValueError if this keeps too little."""
        return self._with(self.moments.narrowed(required))

    def as_one_class(self) -> Self:
        """A copy in which all rows are of the class 0."""
        if not len(self.classes):
            return self.copy()
        squares = None if self.squared_weights is None else self.squared_weights.sum(keepdims=True)
        return type(self)(np.array([0]), self.counts.sum(keepdims=True), self.moments.total(), squares)

    def in_order(self) -> Self:
        """The state with its classes sorted, if they are in any order; ValueError if a label stands twice."""
        if not self.classes.dtype.names and (self.classes[1:] > self.classes[:-1]).all():
            return self
        order = np.argsort(self.classes)
        classes = self.classes[order]
        if (classes[1:] == classes[:-1]).any():
            raise ValueError("a label stands twice")
        squares = None if self.squared_weights is None else self.squared_weights[order]
        return type(self)(classes, self.counts[order], self.moments.take(order), squares)

    def renamed(self, classes: Labels) -> Self:
        """The same state with other labels, in the same order."""
        return replace(self, classes=classes)

    def relabelled(self, labels: Labels) -> Self:
        """The state with another label for each class. Classes of the same label become one."""
        classes, first, groups = np.unique(labels, return_index=True, return_inverse=True)
        sums = self.moments.take(first).copy()
        counts = np.zeros(len(classes), dtype=np.int64)
        np.add.at(counts, groups, self.counts)
        squares = None
        if self.squared_weights is not None:
            squares = np.zeros(len(classes), self.squared_weights.dtype)
            np.add.at(squares, groups, self.squared_weights)
        left = np.setdiff1d(np.arange(len(groups)), first)
        while len(left):
            _, nearest = np.unique(groups[left], return_index=True)
            sums.merge(self.moments.without_pooled(left[nearest]), groups[left[nearest]])
            left = np.delete(left, nearest)
        return type(self)(classes, counts, sums, squares)

    def selected(self, features: Indices) -> Self:
        """The state of some features, in this order."""
        return self._with(self.moments.selected(features))

    def placed(self, features: Indices, n_features: int) -> Self:
        """The state of `n_features` features, of which these are at the given places, and zeros."""
        return self._with(self.moments.placed(features, n_features))

    def mapped(self, A: Array, b: Array) -> Self:
        """The state of the rows A x + b; ValueError if the products of features are not kept."""
        if self.kind.n_pairs(self.n_features) < self.n_features * (self.n_features + 1) // 2:
            raise ValueError(
                "a linear map needs the covariances of features, which covariance type "
                f"{self.kind.name!r} does not keep; accumulate with covariance_type='full' or 'tied'"
            )
        return self._with(self.moments.mapped(A, b))

    def check_compatible(self, other: Labelled[M]) -> None:
        """Raise ValueError, naming both sides, if the two cannot be merged."""
        ours, theirs = self.moments, other.moments
        if ours.kind is not theirs.kind:
            raise ValueError(
                f"states of covariance types {ours.kind.name!r} and {theirs.kind.name!r} cannot be merged; "
                "narrow the richer one first with to_covariance_type"
            )
        if ours.exact != theirs.exact:
            raise ValueError(
                "exact and floating statistics do not merge, for the sum would not be exact; make both with "
                "exact=True, or floating ones of the exact ones first with to_float()"
            )
        if ours.fourth_moments != theirs.fourth_moments:
            raise ValueError(
                "a state with fourth moments and one without cannot be merged; leave them out of the first "
                "with to_covariance_type('full'), or accumulate both with fourth_moments=True"
            )
        if ours.n_features != theirs.n_features:
            self.check_features(theirs.n_features)

    def check_features(self, n_features: int) -> None:
        """Raise ValueError if rows of so many features cannot be added."""
        if self.n_features and n_features and self.n_features != n_features:
            raise ValueError(f"states of {self.n_features} and {n_features} features cannot be merged")

    def merge(self, other: Labelled[M], *, owned: bool = False) -> None:
        """Add the rows of another state, in place. If it raises, nothing has changed.

        If the other is `owned`, its arrays may become those of this state.
        """
        total = self.merged(other, owned=owned)
        vars(self).update(vars(total))
        self.write()

    def merged(self, other: Labelled[M], *, owned: bool = False) -> Labelled[M]:
        """The state with the rows of another. This one changes at most when the result is told to `write`.

        If the other is `owned`, its arrays may become those of the result.
        """
        if len(other.classes) and not len(self.classes):
            return other if owned else other.copy()
        classes = labels.union(self.classes, other.classes)
        united = self
        if len(classes) > len(self.classes) or not len(classes):
            united = self._reindexed(classes, max(self.moments.n_features, other.moments.n_features))
        counts, moments, squares = united.counts, united.moments, united.squared_weights
        if len(other.classes):
            places = classes.searchsorted(other.classes)
            moments = moments.merged(other.moments, places)
            squares = joined_squares(squares, counts, other.squared_weights, other.counts, places)
            counts = counts.copy()
            np.add.at(counts, places, other.counts)
        return Labelled(classes, counts, moments, squares)

    def write(self) -> None:
        """Write what is left to be written."""
        self.moments.write()

    def decayed_squares(self, factor: float) -> Array:
        """Σ w² of each class after its weights are multiplied by a factor."""
        return np.maximum(self.squares * factor**2, _LEAST_WEIGHT**2)

    def subtract(self, other: Labelled[M], rounding: float = 0.0) -> Self:
        """The state of the rows that are in this one but not in the other.

        `rounding` is the relative error of their products, besides that of float64.

        Raises
        ------
        ValueError
            If the other has a class that this one does not have, or more rows or weight of a class, or if no
            rows can have what is left.
        """
        unseen = np.setdiff1d(labels.union(self.classes, other.classes), self.classes)
        if len(unseen):
            raise ValueError(f"class {named(unseen[0])} cannot be removed: the state never saw it")
        removed = other._reindexed(self.classes, self.n_features)
        counts = self.counts - removed.counts
        self._check_weights(removed, counts)
        rest, remaining = self.moments.subtract(removed.moments, counts, rounding), np.flatnonzero(counts)
        if not len(remaining):
            return self.empty(self.moments, self.n_features)
        squares = None
        if self.squared_weights is not None or removed.squared_weights is not None:
            least = rest.least_squares(counts[remaining])
            squares = np.clip((self.squares - removed.squares)[remaining], least, least * counts[remaining])
        return type(self)(self.classes[remaining], counts[remaining], rest, squares)

    def _check_weights(self, removed: Labelled[M], counts: Counts) -> None:
        differs = self.moments.overdrawn(removed.moments, np.zeros_like(counts))
        are_impossible = (counts < 0) | self.moments.overdrawn(removed.moments, counts)
        if are_impossible.any():
            k = int(are_impossible.argmax())
            hidden = (
                f": rounding hides the weight of the other {counted(counts[k], 'row')}; accumulate them anew"
            )
            why = "" if differs[k] or counts[k] <= 0 else hidden
            raise ValueError(
                f"class {named(self.classes[k])}: cannot remove {counted(removed.counts[k], 'row')} of "
                f"weight {removed.moments.weight_text(k)} from {counted(self.counts[k], 'row')} of weight "
                f"{self.moments.weight_text(k)}{why}"
            )

    def _reindexed(self, classes: Labels, n_features: int) -> Labelled[M]:
        """The state with a place for each of these classes; itself, where it has them all."""
        if (len(classes), n_features) == (len(self.classes), self.moments.n_features):
            return self
        counts = np.zeros(len(classes), dtype=np.int64)
        if not len(self.classes):
            return Labelled(classes, counts, self.moments.zeros(self.moments.kind, len(classes), n_features))
        places = np.searchsorted(classes, self.classes)
        counts[places] = self.counts
        squares = None
        if self.squared_weights is not None:
            squares = np.zeros(len(classes), self.squared_weights.dtype)
            squares[places] = self.squared_weights
        return Labelled(classes, counts, self.moments.reindexed(len(classes), places), squares)

    def same_counts(self, other: Labelled[Any]) -> bool:
        """Whether the two have the same kind of covariance, features, classes and counts."""
        return (
            self.kind is other.kind
            and self.moments.exact == other.moments.exact
            and self.moments.fourth_moments == other.moments.fourth_moments
            and labels.kind_of(self.classes) == labels.kind_of(other.classes)
            and self.n_features == other.n_features
            and np.array_equal(self.classes, other.classes)
            and np.array_equal(self.counts, other.counts)
        )

    def is_close(self, other: Labelled[M], rtol: float) -> bool:
        """Whether the two have the same classes and counts, and moments in float64 that agree to `rtol`."""
        return self.same_counts(other) and self.moments.is_close(other.moments, rtol)

    def equals(self, other: Labelled[M]) -> bool:
        """Whether the two are the same to the last bit."""
        return (
            self.same_counts(other)
            and np.array_equal(self.squares, other.squares)
            and self.moments.equals(other.moments)
        )
