"""The moments of each feature by itself, and which means and covariances incomplete rows leave undetermined.

If only one or two rows have both features of a pair, they lie on a line, and the likelihood has no bound. It
has a maximum only if three rows have both features. If classes share a covariance, there must be two more
such rows than classes among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.wording import abridged, named
from streamgda.models.gaussians.whitening import Reason, constant_features
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, two_sum

_LEAST_FREEDOM = 2  # the number of rows that have both features, less that of their classes
_MOST_NAMES = 5  # of features or pairs in a message


@dataclass(frozen=True)
class PatternState:
    """The rows of one pattern of observed features, by class.

    Attributes
    ----------
    features : ndarray of int of shape (d_p,)
        The observed features.
    places : ndarray of int of shape (K_p,)
        The positions of the classes that have such rows.
    counts : ndarray of int of shape (K_p,)
        How many rows of each class have the pattern.
    moments : Moments
        The moments of the observed features.
    """

    features: Indices
    places: Indices
    counts: NDArray[np.int64]
    moments: Moments

    def of_classes(self, places: Indices) -> PatternState:
        """The rows of some classes alone."""
        ours = np.flatnonzero(np.isin(self.places, places))
        if len(ours) == len(self.places):
            return self
        return PatternState(self.features, self.places[ours], self.counts[ours], self.moments.take(ours))


class AvailableCases:
    """The moments of each feature of each class over the rows that have it.

    Attributes
    ----------
    weights, means, low_means : ndarray of shape (n_classes, n_features)
        The weight of these rows, their mean, and its low part; zero where there are no rows.
    scatter : ndarray of shape (n_classes, n_features), or (1, n_features) if pooled
        Σ w (x − mean)².
    """

    def __init__(
        self, states: Sequence[PatternState], n_classes: int, n_features: int, *, pooled: bool
    ) -> None:
        """The available cases of some patterns. For each feature, a row is in only one pattern."""
        shape = (n_classes, n_features)
        weights, anchors, shifts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        with_cells = [(state, np.ix_(state.places, state.features)) for state in states]
        for state, cells in with_cells:
            is_new = weights[cells] == 0
            anchors[cells] = np.where(is_new, state.moments.means, anchors[cells])
            weights[cells] += state.moments.weights[:, None]
        for state, cells in with_cells:
            offsets = (state.moments.means - anchors[cells]) + state.moments.low_means
            shifts[cells] += state.moments.weights[:, None] * offsets
        means, low_means = two_sum(anchors, shifts / np.where(weights > 0, weights, 1.0))
        scatter = np.zeros((1 if pooled else n_classes, n_features))
        for state, cells in with_cells:
            offsets = (state.moments.means - means[cells]) + (state.moments.low_means - low_means[cells])
            squares = state.moments.diagonal, state.moments.weights[:, None] * offsets**2
            if pooled:
                within, between = (some.sum(axis=0, keepdims=True) for some in squares)
                scatter[:, state.features] += within + between
            else:
                scatter[cells] += squares[0] + squares[1]
        self.weights, self.means, self.low_means, self.scatter = weights, means, low_means, scatter


def total_weights(states: Sequence[PatternState], n_classes: int) -> tuple[Array, Array]:
    """The weight of each class and its low part, over patterns in which each row stands once."""
    weights, low_means = np.zeros(n_classes), np.zeros(n_classes)
    for state in states:
        moments = state.moments
        weights[state.places], rest = two_sum(weights[state.places], moments.weights)
        low_means[state.places] += rest + moments.weight_tails
    return two_sum(weights, low_means)


class Population:
    """The classes that share a covariance: all, or a single one; and the units of their features in EM.

    In EM, values are deviations from the means of the available cases, in units of their standard deviations.
    Features that do not vary are left out.

    Attributes
    ----------
    places : ndarray of int
        The positions of the classes.
    available : AvailableCases
        The available cases of all classes.
    scale : ndarray of shape (n_features,)
        The standard deviation of each feature over the rows that have it; 0 where it does not vary.
    varying : ndarray of int
        The features that vary.
    """

    def __init__(self, places: Indices, available: AvailableCases) -> None:
        weights, scatter = available.weights[places].sum(axis=0), available.scatter[places[0]]
        variances = np.divide(scatter, weights, out=np.zeros(len(weights)), where=weights > 0)
        varies = ~constant_features(variances, available.means[places])
        self.places, self.available = places, available
        self.scale = np.where(varies, np.sqrt(variances), 0.0)
        self.varying = np.flatnonzero(self.scale)

    @classmethod
    def all_of(cls, available: AvailableCases, kind: CovarianceKind) -> tuple[Self, ...]:
        """The populations of a kind of covariance that keeps products of features."""
        places = np.arange(len(available.weights))
        return tuple(cls(some, available) for some in ([places] if kind.is_pooled else places[:, None]))

    def own_matrix(self, matrices: Array) -> Array:
        """The matrix of this population: that of its class, or the one that all classes share."""
        return matrices if matrices.ndim == 2 else matrices[self.places[0]]

    def in_units(self, means: Array, low_means: Array, places: Indices, features: Indices) -> Array:
        """The means of classes at these places, with their low parts, of varying features, in units of EM."""
        cells = np.ix_(places, features)
        deviations = (means - self.available.means[cells]) + (low_means - self.available.low_means[cells])
        return deviations / self.scale[features]


# ---------------------------------------------------------------------- what is undetermined


def why_unseen(label: Any, features: Indices, names: Sequence[str]) -> Reason:
    """Why the mean of a class is not determined: no row of it has some features."""
    lacking = abridged([names[j] for j in features], _MOST_NAMES)
    return partial(
        np.linalg.LinAlgError,
        f"class {named(label)}: no row has feature {lacking}, so its mean is not determined. Bring rows that "
        "have it, or leave the feature or the class out",
    )


def why_undetermined_in(label: Any, states: Sequence[PatternState], names: Sequence[str]) -> Reason | None:
    """Why these rows do not determine the covariance of a class, or of all classes; None if they do."""
    observed, together = np.zeros((len(states), len(names))), np.zeros((len(names), len(names)))
    for row, state in zip(observed, states, strict=True):
        row[state.features] = 1
        together += state.counts.sum() * np.outer(row, row)
    n_classes, places = np.zeros(together.shape), [set(state.places.tolist()) for state in states]
    for place in set().union(*places):
        of_class = observed[[place in some for some in places]]
        n_classes += of_class.T @ of_class > 0
    return why_undetermined(label, together, n_classes, names)


def why_undetermined(
    label: Any, together: Array, n_classes: Array | int, names: Sequence[str]
) -> Reason | None:
    """Why a covariance is undetermined: too few rows have both features of a pair; None if it is determined.

    Features that are always observed together are determined as in complete rows.

    Parameters
    ----------
    label : label or None
        The class; None for the covariance that all classes share.
    together : ndarray of shape (n_features, n_features)
        How many rows have both of two features.
    n_classes : ndarray of shape (n_features, n_features), or int
        The number of classes of these rows.
    names : sequence of str
        The name of each feature in an error.
    """
    single = together.diagonal()
    is_apart = (together - n_classes < _LEAST_FREEDOM) & (together < np.maximum.outer(single, single))
    never = is_apart & (together == 0)
    pairs = np.argwhere(np.triu(never if never.any() else is_apart, 1))
    if not len(pairs):
        return None
    lacking = abridged([f"{names[i]} and {names[j]}" for i, j in pairs], _MOST_NAMES)
    who = "no row has both" if never.any() else "too few rows have both"
    owner, least, remedy = "", "two such rows more than classes", ""
    if label is not None:
        owner, least = f"class {named(label)}: ", "three such rows"
        remedy = "pool the classes with LinearDiscriminantAnalysis, "
    return partial(
        np.linalg.LinAlgError,
        (
            f"{owner}{who} {lacking}, so their covariance is not determined. Bring {least}, or more, leave "
            f"one of the two out, {remedy}or use GaussianNB, which needs no covariances. reg_param and "
            "pooling act on covariances that are known"
        ),
    )
