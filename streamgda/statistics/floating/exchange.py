"""States made of the raw sums, or the moments, that something else has worked out; and their raw sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.blocks.labels import Labels, as_labels
from streamgda.blocks.wording import named
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceKind, CovarianceType, Indices, kind_named
from streamgda.statistics.floating.moments import NOISE, Moments
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.validation import check_feature_names


class ExchangedStatistics(Statistics):
    """Statistics that are exchanged with SQL engines, as raw sums, and with other libraries, as moments."""

    _labelled: Labelled[Moments]

    @classmethod
    def from_sums(
        cls,
        classes: ArrayLike,
        counts: ArrayLike,
        sums: ArrayLike,
        outer_sums: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        covariance_type: CovarianceType = "full",
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Statistics from the raw sums that an SQL engine can give.

        The scatter is then a difference, Σ w x xᵀ − Σ w x (Σ w x)ᵀ / Σ w, and no better than the
        sums: where a mean is m deviations large, m² × 10⁻¹⁶ of it is rounding.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels, each once, in any order.
        counts : array-like of shape (n_classes,)
            Rows of each class.
        sums : array-like of shape (n_classes, n_features)
            Σ w x.
        outer_sums : array-like
            Σ w x xᵀ, in the shape of `scatter` for this kind of covariance.
        weights : array-like of shape (n_classes,), optional
            Σ w; the counts where not given.
        covariance_type, feature_names
            As for the class.

        Raises
        ------
        ValueError
            If shapes do not agree, a class stands twice or is empty, or a variance would be
            negative by more than rounding.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> s = ClassStatistics.from_sums(["b", "a"], [2, 1], [[4.0], [1.0]], [[[10.0]], [[1.0]]])
        >>> s.classes, s.means.ravel(), s.covariance().ravel()
        (array(['a', 'b'], dtype='<U1'), array([1., 2.]), array([0., 1.]))
        """
        kind, given = kind_named(covariance_type), _Given.of(classes, counts, weights)
        labelled = _of_sums(kind, given, _numbers(sums), _numbers(outer_sums))
        return cls._of_labelled(labelled, feature_names)

    @classmethod
    def from_moments(
        cls,
        classes: ArrayLike,
        counts: ArrayLike,
        means: ArrayLike,
        scatter: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        covariance_type: CovarianceType = "full",
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Statistics from means and scatters that something else has worked out.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels, each once, in any order.
        counts : array-like of shape (n_classes,)
            Rows of each class.
        means : array-like of shape (n_classes, n_features)
            Weighted means.
        scatter : array-like
            Σ w (x − mean)(x − mean)ᵀ in the shape of `scatter` for this kind of covariance.
        weights : array-like of shape (n_classes,), optional
            Σ w; the counts where not given.
        covariance_type, feature_names
            As for the class.

        Raises
        ------
        ValueError
            If shapes do not agree, a class stands twice or is empty, or a variance is negative.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> ClassStatistics.from_moments(["a"], [4], [[1.0]], [[[8.0]]]).covariance()
        array([[[2.]]])
        """
        kind, given = kind_named(covariance_type), _Given.of(classes, counts, weights)
        labelled = _of_moments(kind, given, _numbers(means), _numbers(scatter))
        return cls._of_labelled(labelled, feature_names)

    @classmethod
    def _of_labelled(cls, labelled: Labelled[Moments], feature_names: Sequence[str] | None) -> Self:
        """A state of such sums."""
        state = cls.__new__(cls)
        Statistics.__init__(state, labelled.moments, feature_names)
        state._set_labelled(labelled)
        check_feature_names(state.feature_names, state.n_features)
        return state


@dataclass(frozen=True)
class _Given:
    """The classes that a user gives, in any order, with their counts and weights: (K,) each."""

    classes: Labels
    counts: NDArray[Any]
    weights: Array

    @classmethod
    def of(cls, classes: ArrayLike, counts: ArrayLike, weights: ArrayLike | None) -> Self:
        """Check them; the weights are the counts where not given."""
        known, counts = as_labels(classes), np.atleast_1d(counts)
        weights = np.atleast_1d(_numbers(counts if weights is None else weights))
        _check_counts(known, counts, weights)
        return cls(known, counts, weights)

    @property
    def order(self) -> Indices:
        """The positions of the classes, sorted by label."""
        return np.argsort(self.classes)


def _numbers(values: ArrayLike) -> Array:
    return np.asarray(values, dtype=np.float64)


def _of_sums(kind: CovarianceKind, given: _Given, sums: Array, outer_sums: Array) -> Labelled[Moments]:
    """The state that has these raw sums.

    Raises
    ------
    ValueError
        If shapes do not agree, or no rows have these sums.
    """
    _check_shapes(kind, len(given.classes), sums=sums, outer_sums=outer_sums)
    order = given.order
    weights, sums = given.weights[order], sums[order]
    outer_sums = _in_order(kind, outer_sums, order, sums.shape)
    scatter = outer_sums - kind.outer(sums / np.sqrt(weights)[:, None])
    means, no_low_means = sums / weights[:, None], np.zeros_like(sums)
    moments = Moments(kind, weights, np.zeros_like(weights), means, no_low_means, scatter)
    squares = kind.diagonal(outer_sums)
    moments.clip(squares, NOISE * squares, "these sums cannot be of any rows")
    _check_semidefinite(moments, squares, "these sums")
    return Labelled(given.classes[order], given.counts[order].astype(np.int64), moments)


def _of_moments(kind: CovarianceKind, given: _Given, means: Array, scatter: Array) -> Labelled[Moments]:
    """The state that has these means and this scatter.

    Raises
    ------
    ValueError
        If shapes do not agree, or no rows have this scatter.
    """
    _check_shapes(kind, len(given.classes), means=means, scatter=scatter)
    order = given.order
    weights, scatter = given.weights[order], _in_order(kind, scatter, order, means.shape)
    moments = Moments(kind, weights, np.zeros_like(weights), means[order], np.zeros_like(means), scatter)
    moments.clip(np.abs(moments.diagonal), 0.0, "this scatter cannot be of any rows")
    _check_semidefinite(moments, moments.diagonal, "this scatter")
    return Labelled(given.classes[order], given.counts[order].astype(np.int64), moments)


def _in_order(kind: CovarianceKind, products: Array, order: Indices, shape: tuple[int, ...]) -> Array:
    """Products of features by class, in this order, and symmetric to the last bit; `shape` is (K, d)."""
    n_classes, n_features = shape
    return kind.unpacked(kind.packed(kind.take(products, order)), n_classes, n_features)


def _check_semidefinite(moments: Moments, squares: Array, name: str) -> None:
    if not moments.kind.is_semidefinite(moments.scatter, squares):
        raise ValueError(f"{name} cannot be of any rows: a scatter is not positive semidefinite")


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
        raise ValueError(f"class {named(classes[empty][0])} has no rows")


def _check_shapes(kind: CovarianceKind, n_classes: int, **arrays: Array) -> None:
    """Check an array with a vector for each class and one in the scatter's shape, given by name."""
    (vectors_name, vectors), (products_name, products) = arrays.items()
    if vectors.ndim != 2 or len(vectors) != n_classes:
        raise ValueError(f"{vectors_name} must have one row for each class; got shape {vectors.shape}")
    expected = kind.shape(*vectors.shape)
    if products.shape != expected:
        raise ValueError(
            f"{products_name} must have shape {expected} for {kind.name!r}; got {products.shape}"
        )
    if not (np.isfinite(vectors).all() and np.isfinite(products).all()):
        raise ValueError(f"{vectors_name} and {products_name} must be finite")
    if not kind.is_symmetric(products):
        raise ValueError(f"{products_name} must be symmetric")
