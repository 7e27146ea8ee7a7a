"""What incomplete rows say of each feature by itself, and which means and covariances they leave open.

Rows that have both features of a pair lie on a line if they are one or two, and on a line their likelihood
has no bound, at whatever cost for the other rows. So it has a maximum only if they are three; where classes
share a covariance, two more than classes among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import named
from streamgda.gaussians.whitening import constant_features
from streamgda.statistics.covariances import Array, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, two_sum

_LEAST_FREEDOM = 2  # of the rows that have both features: how many more they are than classes
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
        How many rows they have.
    moments : Moments
        Of the observed features.
    """

    features: Indices
    places: Indices
    counts: NDArray[np.int64]
    moments: Moments

    def of_classes(self, places: Indices) -> PatternState:
        """The rows of some classes alone."""
        kept = np.flatnonzero(np.isin(self.places, places))
        if len(kept) == len(self.places):
            return self
        return PatternState(self.features, self.places[kept], self.counts[kept], self.moments.take(kept))


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
    def of(cls, states: Sequence[PatternState], n_classes: int, n_features: int, *, pooled: bool) -> Self:
        """The available cases of some patterns, where each row is in one pattern for each feature."""
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
        return cls(weights, means, low_means, scatter)


def total_weights(states: Sequence[PatternState], n_classes: int) -> tuple[Array, Array]:
    """The weight of each class, and what rounding left of it, over patterns in which each row is once."""
    weights, low_means = np.zeros(n_classes), np.zeros(n_classes)
    for state in states:
        moments = state.moments
        weights[state.places], rest = two_sum(weights[state.places], moments.weights)
        low_means[state.places] += rest + moments.low_weights
    return two_sum(weights, low_means)


@dataclass(frozen=True)
class Population:
    """Classes that share a covariance: all of them, or one alone. EM sees their features in units of its own.

    There values are deviations from the means of the available cases, in units of their standard deviations.
    Features that do not vary are left out.

    Attributes
    ----------
    places : ndarray of int
        The positions of the classes.
    available : AvailableCases
        Of all classes.
    scale : ndarray of shape (n_features,)
        The standard deviation of each feature over the rows that have it; 0 where it does not vary.
    varying : ndarray of int
        The features that vary.
    """

    places: Indices
    available: AvailableCases
    scale: Array
    varying: Indices

    @classmethod
    def all_of(cls, available: AvailableCases, kind: CovarianceKind) -> tuple[Self, ...]:
        """The populations of a kind of covariance that keeps products of features."""
        places = np.arange(len(available.weights))
        return tuple(cls._of(some, available) for some in ([places] if kind.is_pooled else places[:, None]))

    @classmethod
    def _of(cls, places: Indices, available: AvailableCases) -> Self:
        weights, scatter = available.weights[places].sum(axis=0), available.scatter[places[0]]
        variances = np.divide(scatter, weights, out=np.zeros(len(weights)), where=weights > 0)
        varies = ~constant_features(variances, available.means[places])
        scale = np.where(varies, np.sqrt(variances), 0.0)
        return cls(places, available, scale, np.flatnonzero(scale))

    def matrix_of(self, matrices: Array) -> Array:
        """The matrix of this population: that of its class, or the one that all classes share."""
        return matrices if matrices.ndim == 2 else matrices[self.places[0]]

    def in_units(self, means: Array, low_means: Array, places: Indices, features: Indices) -> Array:
        """Means of classes at these places, with what rounding left of them, of features that vary."""
        cells = np.ix_(places, features)
        deviations = (means - self.available.means[cells]) + (low_means - self.available.low_means[cells])
        in_units: Array = deviations / self.scale[features]
        return in_units


@dataclass(frozen=True)
class Undetermined:
    """Why the mean or the covariance of a class is not determined.

    Attributes
    ----------
    label : label or None
        The class; None for the covariance that all classes share.
    unseen : ndarray of int
        Features that no row of the class has.
    apart : ndarray of int of shape (n, 2)
        Pairs of features that too few rows have: of these pairs, those that no row has, if there are any.
    has_some : bool
        Whether each of them is in a row.
    """

    label: Any
    unseen: Indices = field(default_factory=lambda: np.zeros(0, np.intp))
    apart: Indices = field(default_factory=lambda: np.zeros((0, 2), np.intp))
    has_some: bool = False

    @classmethod
    def apart_in(cls, label: Any, states: Sequence[PatternState], n_features: int) -> Self | None:
        """The pairs of features that these rows leave open; None if there are none."""
        observed, together = np.zeros((len(states), n_features)), np.zeros((n_features, n_features))
        for row, state in zip(observed, states, strict=True):
            row[state.features] = 1
            together += state.counts.sum() * np.outer(row, row)
        n_classes, places = np.zeros(together.shape), [set(state.places.tolist()) for state in states]
        for place in set().union(*places):
            of_class = observed[[place in some for some in places]]
            n_classes += of_class.T @ of_class > 0
        return cls.unless_together(label, together, n_classes)

    @classmethod
    def unless_together(cls, label: Any, together: Array, n_classes: Array | int = 1) -> Self | None:
        """The pairs of features that are open, by how many rows have both, and of how many classes; or None.

        Features that are always seen together are as determined as those of complete rows.
        """
        single = together.diagonal()
        is_apart = (together - n_classes < _LEAST_FREEDOM) & (together < np.maximum.outer(single, single))
        never = is_apart & (together == 0)
        apart = np.argwhere(np.triu(never if never.any() else is_apart, 1))
        return cls(label, apart=apart, has_some=not never.any()) if len(apart) else None

    def error(self, name_of: Callable[[int], str]) -> ValueError:
        """The error that names the class, its features and the remedies."""
        owner = "" if self.label is None else f"class {named(self.label)}: "
        if len(self.unseen):
            names = _listed([name_of(j) for j in self.unseen], "features")
            return ValueError(
                f"{owner}no row has feature {names}, so its mean is not determined. Bring rows that have it, "
                "or leave the feature or the class out"
            )
        names = _listed([f"{name_of(i)} and {name_of(j)}" for i, j in self.apart], "pairs")
        remedy = "" if self.label is None else "pool the classes with LinearDiscriminantAnalysis, "
        who = "too few rows have both" if self.has_some else "no row has both"
        least = "two such rows more than classes" if self.label is None else "three such rows"
        return ValueError(
            f"{owner}{who} {names}, so their covariance is not determined. Bring {least}, or more, "
            f"leave one of the two out, {remedy}or use GaussianNB, which needs no covariances. reg_param and "
            "pooling act on covariances that are known"
        )


def _listed(names: list[str], things: str) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" (and {more} more {things})" if more > 0 else "")
