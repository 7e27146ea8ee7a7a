"""The sums of incomplete rows: labelled sums for each pattern of observed features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np

from streamgda.blocks import labels
from streamgda.blocks.labels import Labels
from streamgda.statistics.covariances import Array, CovarianceKind, Indices, kind_named
from streamgda.statistics.incomplete.patterns import (
    Pattern,
    complete_pattern,
    empty_pattern,
    features_in,
    observed_in,
    pattern_of,
    single_pattern,
)
from streamgda.statistics.labelled import ClassMoments, Labelled

S = TypeVar("S", bound=ClassMoments)


class Groups(Labelled[S]):
    """Rows grouped by the features that they have; each group has the sums of its observed features.

    Of a kind of covariance without products of two features ("diag"), a row that is not complete is in
    several groups: in that of no features, which counts it, and in one for each of its features. So these
    groups are never more than there are features, and two.

    Attributes
    ----------
    groups : dict of Pattern to Labelled
        Sorted by pattern. Each has at least one class.
    moments : ClassMoments
        The sums of no rows, which say how many features a row has and what is kept of it.
    """

    def __init__(self, like: S, n_features: int, groups: Mapping[Pattern, Labelled[S]]) -> None:
        nothing = like.zeros_like(0, n_features)
        super().__init__(labels.no_labels(), np.zeros(0, np.int64), nothing)
        self._set_groups(groups)

    def _set_groups(self, groups: Mapping[Pattern, Labelled[S]]) -> None:
        self.groups = {pattern: groups[pattern] for pattern in sorted(groups) if len(groups[pattern].classes)}
        classes = labels.no_labels()
        for group in self.counting.values():
            classes = labels.union(classes, group.classes)
        counts = np.zeros(len(classes), np.int64)
        for group in self.counting.values():
            counts[np.searchsorted(classes, group.classes)] += group.counts
        self.classes, self.counts = classes, counts

    @property
    def counting(self) -> dict[Pattern, Labelled[S]]:
        """The groups in which each row is once."""
        if self.kind.has_products:
            return self.groups
        counting = {complete_pattern(self.n_features), empty_pattern(self.n_features)}
        return {pattern: group for pattern, group in self.groups.items() if pattern in counting}

    @property
    def complete(self) -> Labelled[S] | None:
        """The sums of all the rows, if none of them lacks a feature."""
        if not self.groups:
            return Labelled.empty(self.moments, self.n_features)
        (pattern, group), *others = self.groups.items()
        return group if not others and pattern == complete_pattern(self.n_features) else None

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        return super().nbytes + sum(group.nbytes for group in self.groups.values())

    # ------------------------------------------------------------------ by class and by feature

    def _with(self, groups: Mapping[Pattern, Labelled[S]], n_features: int | None = None) -> Self:
        return type(self)(self.moments, self.n_features if n_features is None else n_features, groups)

    def _map(self, function: Callable[[Labelled[S]], Labelled[S]]) -> Self:
        return self._with({pattern: function(group) for pattern, group in self.groups.items()})

    def copy(self) -> Self:
        """A state that does not change with this one."""
        return self._map(Labelled.copy)

    def take(self, kept: Indices) -> Self:
        """The state of some of the classes."""
        classes = self.classes[kept]
        return self._map(lambda group: group.take(np.flatnonzero(np.isin(group.classes, classes))))

    def renamed(self, classes: Labels) -> Self:
        """The same state with other labels, in the same order."""
        return self._map(
            lambda group: Labelled(
                classes[np.searchsorted(self.classes, group.classes)], group.counts, group.moments
            )
        )

    def as_one_class(self) -> Self:
        """A copy in which all rows are of the class 0."""
        return self._map(Labelled.as_one_class)

    def narrowed(self, kind: CovarianceKind, *, fourth: bool = False) -> Self:
        """A copy that keeps what another kind of covariance needs; ValueError if this keeps too little."""
        like: S = self.moments.narrowed(kind, fourth=fourth)
        groups = {p: group.narrowed(kind, fourth=fourth) for p, group in self.groups.items()}
        narrow = type(self)(like, self.n_features, {})
        if kind.has_products or not self.kind.has_products:
            narrow._set_groups(groups)
            return narrow
        narrow._set_groups(by_feature(groups, {}, self.n_features))
        return narrow

    def separated(self) -> Self:
        """Each feature by itself: the state of kind "diag", for which there are never too many groups.

        Of a scatter that classes share, each gets its share by weight, so the sum over the classes stays.
        """
        diagonal = kind_named("diag")
        if not self.kind.is_pooled:
            return self.narrowed(diagonal)
        groups = {pattern: _unpooled(group, diagonal) for pattern, group in self.groups.items()}
        like: Any = _unpooled(Labelled.empty(self.moments, self.n_features), diagonal).moments
        return type(self)(like, self.n_features, by_feature(groups, {}, self.n_features))

    def selected(self, features: Indices) -> Self:
        """The groups of the same rows with some of their features, in this order.

        Rows whose patterns differ in other features alone come together. Of a kind without products, where
        each feature of an incomplete row is by itself, a row stays incomplete even if it lacks none of these.
        """
        together: dict[Pattern, Labelled[S]] = {}
        counting = self.counting
        for pattern, group in self.groups.items():
            observed = observed_in(pattern, self.n_features)
            own, kept = np.flatnonzero(observed), features[observed[features]]
            if len(kept):
                part = group.selected(np.searchsorted(own, kept))
            elif pattern in counting:
                part = without_features(group.copy())
            else:
                continue
            new = pattern_of(observed[features])
            if new in together:
                together[new].merge(part)
            else:
                together[new] = part
        single = self.groups.get(single_pattern(int(features[0]), self.n_features))
        if not self.kind.has_products and len(features) == 1 < self.n_features and single is not None:
            nothing = empty_pattern(1)  # which counts these rows too, and they are complete now
            together[nothing] = together[nothing].subtract(without_features(single))
        return self._with(together, len(features))

    def relabelled(self, labels: Labels) -> Self:
        """The groups with another label for each class. Classes of the same label become one."""
        return self._map(lambda group: group.relabelled(labels[np.searchsorted(self.classes, group.classes)]))

    def mapped(self, A: Array, b: Array) -> Self:
        """Raise ValueError: the sums of A x + b do not follow where features are missing."""
        raise ValueError(
            "where features are missing, so are their sums: map the statistics that complete rows are "
            "expected to have, completed().linear_map(A, b), or the rows"
        )

    # ------------------------------------------------------------------ states add up

    def merge(self, other: Labelled[S], *, owned: bool = False) -> None:
        """Add the rows of another state, in place: wholly, or, where it raises, not at all."""
        assert isinstance(other, Groups)
        labels.union(self.classes, other.classes)  # raises if the two are labels of different kinds
        merged = dict(self.groups)
        for pattern, theirs in other.groups.items():
            ours = merged.get(pattern, Labelled.empty(theirs.moments, theirs.n_features))
            # A single group is merged wholly or not at all, and need not be copied.
            merged[pattern] = ours.copy() if len(other.groups) > 1 else ours
            merged[pattern].merge(theirs, owned=owned)
        if not self.n_features:
            self.moments = other.moments
        self._set_groups(merged)

    def subtract(self, other: Labelled[S]) -> Self:
        """The state of the rows that are in this one but not in the other.

        Raises
        ------
        ValueError
            If the other has a class or a pattern that this one has not, more rows or weight of a class, or
            sums that leave what no rows can have.
        """
        assert isinstance(other, Groups)
        unseen = sorted(other.groups.keys() - self.groups.keys())
        if unseen:
            observed = features_in(unseen[0], self.n_features)
            raise ValueError(
                f"rows with the features {observed.tolist()} alone cannot be removed: the state never saw any"
            )
        return self._with(
            {
                pattern: group.subtract(other.groups[pattern]) if pattern in other.groups else group.copy()
                for pattern, group in self.groups.items()
            }
        )

    def equals(self, other: Labelled[S]) -> bool:
        """Whether the two are the same to the last bit."""
        return (
            isinstance(other, Groups)
            and self.same_counts(other)
            and self.groups.keys() == other.groups.keys()
            and all(group.equals(other.groups[pattern]) for pattern, group in self.groups.items())
        )


def of_complete(labelled: Labelled[S]) -> Groups[S]:
    """The groups of rows that all are complete."""
    complete = {complete_pattern(labelled.n_features): labelled} if labelled.n_features else {}
    return Groups(labelled.moments, labelled.n_features, complete)


def by_feature(
    rows: Mapping[Pattern, Labelled[Any]], columns: Mapping[Pattern, Labelled[Any]], n_features: int
) -> dict[Pattern, Labelled[Any]]:
    """The complete rows, the count of the others, and each feature of those, of groups with squares alone.

    Parameters
    ----------
    rows : dict of Pattern to Labelled
        Groups in which each row is once.
    columns : dict of Pattern to Labelled
        Features of rows that the groups without features count.
    n_features : int
        How many features a row has.
    """
    together: dict[Pattern, Labelled[Any]] = {}
    counted = ((p, g) for pattern, group in rows.items() for p, g in _of_rows(pattern, group, n_features))
    others = (
        (p, g) for pattern, group in columns.items() for p, g in _columns_of(pattern, group, n_features)
    )
    for pattern, group in chain(counted, others):
        if pattern in together:
            together[pattern].merge(group)
        else:
            together[pattern] = group.copy()  # features share their counts
    return together


def _of_rows(
    pattern: Pattern, group: Labelled[Any], n_features: int
) -> Iterator[tuple[Pattern, Labelled[Any]]]:
    """Complete rows as they are; others as those that count them and those of each of their features."""
    if pattern == complete_pattern(n_features):
        yield pattern, group
        return
    yield empty_pattern(n_features), without_features(group)
    yield from _columns_of(pattern, group, n_features)


def _columns_of(
    pattern: Pattern, group: Labelled[Any], n_features: int
) -> Iterator[tuple[Pattern, Labelled[Any]]]:
    """Each feature of a group."""
    for position, feature in enumerate(features_in(pattern, n_features)):
        yield single_pattern(int(feature), n_features), _of_features(group, np.array([position]))


def _unpooled(group: Labelled[Any], diagonal: CovarianceKind) -> Labelled[Any]:
    """The squares alone of a group whose classes share them, each with its share by weight."""
    shares = group.moments.weights / max(group.moments.weights.sum(), np.finfo(np.float64).tiny)
    scatter = shares[:, None] * group.moments.diagonal
    return Labelled(group.classes, group.counts, replace(group.moments, kind=diagonal, scatter=scatter))


def without_features(group: Labelled[Any]) -> Labelled[Any]:
    """The counts and weights of a group alone."""
    kept = {n: getattr(group.moments, n) for n in ("weights", "low_weights") if hasattr(group.moments, n)}
    sums = replace(group.moments.zeros_like(len(group.classes), 0), **kept)
    return Labelled(group.classes, group.counts, sums)


def _of_features(group: Labelled[Any], features: Indices) -> Labelled[Any]:
    """Some features of a group that keeps squares alone."""
    arrays = ("means", "low_means", "scatter", "totals", "products")
    kept = {n: getattr(group.moments, n)[:, features] for n in arrays if hasattr(group.moments, n)}
    return Labelled(group.classes, group.counts, replace(group.moments, **kept))
