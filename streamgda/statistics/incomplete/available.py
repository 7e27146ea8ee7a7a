"""Available cases: the moments of each feature over the rows that have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, Indices
from streamgda.statistics.floating.moments import Moments, two_sum


@dataclass(frozen=True)
class Group:
    """The rows of one pattern of observed features, by class.

    Attributes
    ----------
    features : ndarray of int of shape (d_p,)
        The observed features.
    places : ndarray of int of shape (K_p,)
        The positions of the classes that have such rows.
    counts : ndarray of int of shape (K_p,)
        How many rows they have.
    moments : Moments
        Of the observed features.
    """

    features: Indices
    places: Indices
    counts: NDArray[np.int64]
    moments: Moments

    def of_classes(self, places: Indices) -> Group:
        """The rows of some classes alone."""
        kept = np.flatnonzero(np.isin(self.places, places))
        if len(kept) == len(self.places):
            return self
        return Group(self.features, self.places[kept], self.counts[kept], self.moments.take(kept))


@dataclass(frozen=True)
class AvailableCases:
    """The moments of each feature of each class over the rows that have it.

    Attributes
    ----------
    weights, means, low_means : ndarray of shape (n_classes, n_features)
        The weight of these rows, their mean, and what rounding left of it; zero where there are none.
    scatter : ndarray of shape (n_classes, n_features), or (1, n_features) if pooled
        Σ w (x − mean)².
    """

    weights: Array
    means: Array
    low_means: Array
    scatter: Array

    @classmethod
    def of(cls, groups: Sequence[Group], n_classes: int, n_features: int, *, pooled: bool) -> Self:
        """The available cases of some groups, each row of which is in one group for each feature."""
        shape = (n_classes, n_features)
        weights, anchors, shifts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for group, cells in _cells(groups):
            is_new = weights[cells] == 0
            anchors[cells] = np.where(is_new, group.moments.means, anchors[cells])
            weights[cells] += group.moments.weights[:, None]
        for group, cells in _cells(groups):
            offsets = (group.moments.means - anchors[cells]) + group.moments.low_means
            shifts[cells] += group.moments.weights[:, None] * offsets
        means, low_means = two_sum(anchors, shifts / np.where(weights > 0, weights, 1.0))
        scatter = np.zeros((1 if pooled else n_classes, n_features))
        for group, cells in _cells(groups):
            offsets = (group.moments.means - means[cells]) + (group.moments.low_means - low_means[cells])
            between = group.moments.weights[:, None] * offsets**2
            rows = np.zeros(1, np.intp) if pooled else group.places
            total = between.sum(axis=0, keepdims=True) if pooled else between
            scatter[np.ix_(rows, group.features)] += group.moments.diagonal + total
        return cls(weights, means, low_means, scatter)


def _cells(groups: Sequence[Group]) -> list[tuple[Group, tuple[Indices, ...]]]:
    """Each group with the cells of an array (n_classes, n_features) that it adds to."""
    return [(group, np.ix_(group.places, group.features)) for group in groups]


def total_weights(groups: Sequence[Group], n_classes: int) -> tuple[Array, Array]:
    """The weight of each class, and what rounding left of it, over groups in which each row is once."""
    weights, low = np.zeros(n_classes), np.zeros(n_classes)
    for group in groups:
        moments = group.moments
        weights[group.places], rest = two_sum(weights[group.places], moments.weights)
        low[group.places] += rest + moments.low_weights
    return two_sum(weights, low)
