"""What a sort of sums must do, so that the states of other features, labels or units follow from a state."""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np

from streamgda.blocks.labels import Labels
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.labelled import ClassSums, Labelled

S = TypeVar("S", bound=ClassSums)


class Derivation(Protocol[S]):
    """The sums of derived rows; the module `derivation` of floating and of exact sums has these functions."""

    def selected(self, sums: S, features: Indices) -> S:
        """The sums of some features, in this order."""

    def without_pooled(self, sums: S, classes: Indices) -> S:
        """The sums of some classes; if they share a scatter, with a scatter of zero."""

    def mapped(self, sums: S, A: Array, b: Array) -> S:
        """The sums of the rows A x + b."""


def relabelled(labelled: Labelled[S], labels: Labels, derivation: Derivation[S]) -> Labelled[S]:
    """The state with another label for each class. Classes of the same label become one."""
    classes, first, groups = np.unique(labels, return_index=True, return_inverse=True)
    sums = labelled.sums.take(first).copy()
    counts = np.zeros(len(classes), dtype=np.int64)
    np.add.at(counts, groups, labelled.counts)
    left = np.setdiff1d(np.arange(len(groups)), first)
    while len(left):
        _, nearest = np.unique(groups[left], return_index=True)
        sums.merge(derivation.without_pooled(labelled.sums, left[nearest]), groups[left[nearest]])
        left = np.delete(left, nearest)
    return Labelled(classes, counts, sums)


def positions_of_pairs(kind: CovarianceKind, features: Indices, n_features: int) -> Indices:
    """Where the products of some of the features are, among the products that a kind of covariance keeps.

    Raises
    ------
    ValueError
        If one of them is not kept.
    """
    kept, wanted = kind.pairs(n_features), [features[part] for part in kind.pairs(len(features))]
    known = kept[0] * n_features + kept[1]
    keys = np.maximum(*wanted) * n_features + np.minimum(*wanted)
    positions = np.minimum(np.searchsorted(known, keys), max(0, len(known) - 1))
    if (known[positions] != keys).any():
        raise ValueError(
            f"a state of covariance type {kind.name!r} does not keep the products of these features"
        )
    return positions


def check_products(kind: CovarianceKind, n_features: int) -> None:
    """Raise ValueError unless the products of all pairs of features are kept."""
    if kind.n_pairs(n_features) < n_features * (n_features + 1) // 2:
        raise ValueError(
            f"a linear map needs the covariances of features, which covariance type {kind.name!r} does not "
            "keep; accumulate with covariance_type='full' or 'tied'"
        )
