"""States that are worked out of a state, without the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from streamgda.blocks import labels
from streamgda.blocks.labels import Labels
from streamgda.blocks.wording import named
from streamgda.statistics.covariances import Array, CovarianceType, Indices, kind_named
from streamgda.statistics.derivation import Derivation, relabelled
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.stateful import Stateful
from streamgda.statistics.validation import as_feature_positions, check_feature_names


class Derived(Stateful, ABC):
    """A state from which those of other classes, features or kinds of covariance can be had."""

    _derivation: ClassVar[Derivation[Any] | None] = None

    @classmethod
    @abstractmethod
    def _check_fourth_moments(cls, covariance_type: CovarianceType, fourth_moments: bool) -> None:
        """Raise ValueError if fourth moments are asked for where they cannot be kept."""

    def to_covariance_type(self, covariance_type: CovarianceType, *, fourth_moments: bool = False) -> Self:
        """A copy that keeps no more than another covariance type needs, and fourth moments if asked to.

        Raises
        ------
        ValueError
            If this state holds less than that: "full" gives all the others, and they only themselves.
        """
        self._check_fourth_moments(covariance_type, fourth_moments)
        with self._lock:
            return self._twin(self._labelled.narrowed(kind_named(covariance_type), fourth=fourth_moments))

    def of_classes(self, positions: Indices, classes: Labels | None = None) -> Self:
        """The state of the classes at these positions; its arrays may be those of this one.

        They get the labels `classes`, sorted and each once, where these are given.
        """
        with self._lock:
            taken = self._labelled.take(positions)
            return self._twin(taken if classes is None else replace(taken, classes=classes))

    def drop_class(self, label: Any) -> Self:
        """Forget all rows of a class, in place.

        Parameters
        ----------
        label : label
            One of `classes`, such as a mistyped one.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            This object.

        Raises
        ------
        ValueError
            If there is no such class, or the classes share one scatter, from which that of one class cannot
            be taken out.
        """
        with self._lock:
            k = labels.position_of(label, self._labelled.classes)
            if self._labelled.kind.is_pooled:
                raise ValueError(
                    f"{self!r} holds one scatter of all classes, so class {named(label)} stays in it"
                )
            self._set_labelled(self._labelled.take(np.delete(np.arange(len(self._labelled.classes)), k)))
        return self

    def as_one_class(self) -> Self:
        """A copy in which all rows are of the class 0.

        Raises
        ------
        ValueError
            If the classes share one scatter, so that theirs are not known.
        """
        if self._labelled.kind.is_pooled:
            raise ValueError(f"the scatter of each class is needed; {self!r} holds what they share")
        return self._twin(self._labelled.as_one_class())

    def select(self, features: ArrayLike) -> Self:
        """The state of the same rows with some of their features, in the order given.

        Parameters
        ----------
        features : list of str or of int, or mask of shape (n_features,)
            Names, positions, or True for each feature that is kept.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            As if rows had been read with these features alone; of exact sums with the same bits. Rows that
            were dropped because another feature was missing stay dropped.

        Raises
        ------
        ValueError
            If a feature is unknown or named twice, or none is left.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> state = ClassStatistics(feature_names=["a", "b"]).update([[1.0, 2.0], [3.0, 8.0]], [0, 0])
        >>> state.select(["b"]).means, state.select(["b"]).feature_names
        (array([[5.]]), ('b',))
        """
        positions = as_feature_positions(features, self._names, self.n_features)
        with self._lock:
            names = None if self._names is None else [self._names[i] for i in positions]
            return self._derived(self._selected(positions), names)

    def relabel(self, mapping: Mapping[Any, Any]) -> Self:
        """The state of the same rows with other labels. Classes that get the same label become one.

        Parameters
        ----------
        mapping : dict
            New labels by old ones. Classes that are not in it keep theirs.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            As if rows had been read with these labels; of exact sums with the same bits.

        Raises
        ------
        ValueError
            If there is no such class, or new labels are of several kinds.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> state = ClassStatistics().update([[1.0], [3.0], [8.0]], ["cat", "kitten", "dog"])
        >>> merged = state.relabel({"kitten": "cat"})
        >>> merged.classes, merged.means.ravel(), merged.covariance().ravel()
        (array(['cat', 'dog'], dtype='<U3'), array([2., 8.]), array([1., 0.]))
        """
        with self._lock:
            classes = self._labelled.classes
            for label in mapping:
                labels.position_of(label, classes)
            if not len(classes):
                return self.copy()
            new = labels.as_labels([mapping.get(label, label) for label in classes.tolist()])
            return self._twin(self._relabelled(new))

    def linear_map(
        self, A: ArrayLike, b: ArrayLike | None = None, *, feature_names: Sequence[str] | None = None
    ) -> Self:
        """The state of the rows A x + b: of sums and differences of features, other units, projections.

        Parameters
        ----------
        A : array-like of shape (n_new_features, n_features)
            The matrix.
        b : array-like of shape (n_new_features,), optional
            What is added; zero where not given.
        feature_names : sequence of str, optional
            The names of the new features. Where not given, features keep theirs if A is diagonal.

        Returns
        -------
        ClassStatistics or ExactClassStatistics
            Of floating sums up to rounding, relative to the variances and means of what is added up. Exact
            sums are those of A x + b before it is rounded to float64.

        Raises
        ------
        ValueError
            If the covariances of features are not kept ("diag"), fourth moments are, or A and b are not
            finite or of another shape.

        Examples
        --------
        >>> from streamgda import ClassStatistics
        >>> state = ClassStatistics().update([[1.0, 2.0], [3.0, 8.0]], [0, 0])
        >>> difference = state.linear_map([[-1, 1]], [10], feature_names=["growth"])
        >>> difference.means, difference.covariance(), difference.feature_names
        (array([[13.]]), array([[[4.]]]), ('growth',))
        """
        matrix, shift = _affine_map(A, b, self.n_features)
        if feature_names is None and self._names and _is_diagonal(matrix):
            feature_names = self._names
        with self._lock:
            sums = self._derivation_or_raise().mapped(self._labelled.sums, matrix, shift)
            return self._derived(self._with_sums(sums), feature_names)

    def _selected(self, features: Indices) -> Labelled[Any]:
        """The sums of some features."""
        return self._with_sums(self._derivation_or_raise().selected(self._labelled.sums, features))

    def _relabelled(self, classes: Labels) -> Labelled[Any]:
        """The sums with another label for each class."""
        return relabelled(self._labelled, classes, self._derivation_or_raise())

    def _with_sums(self, sums: Any) -> Labelled[Any]:
        """Other sums of the same classes."""
        return Labelled(self._labelled.classes.copy(), self._labelled.counts.copy(), sums)

    def _derivation_or_raise(self) -> Derivation[Any]:
        if self._derivation is None:
            raise ValueError(f"a state of other features or labels does not follow from {self!r}")
        return self._derivation

    def _derived(self, labelled: Labelled[Any], feature_names: Sequence[str] | None) -> Self:
        """The state with the sums of other features."""
        derived = self._twin(labelled)
        derived._names = None if feature_names is None else tuple(feature_names)
        check_feature_names(derived._names, derived.n_features)
        return derived


def _affine_map(A: ArrayLike, b: ArrayLike | None, n_features: int) -> tuple[Array, Array]:
    """A (m, d) and b (m,) as arrays of float64."""
    matrix = np.asarray(A, dtype=np.float64)
    if matrix.ndim != 2 or not len(matrix) or matrix.shape[1] != n_features:
        raise ValueError(f"A must have shape (n_new_features, {n_features}); got {matrix.shape}")
    shift = np.zeros(len(matrix)) if b is None else np.asarray(b, dtype=np.float64)
    if shift.shape != matrix.shape[:1]:
        raise ValueError(
            f"b must have shape ({len(matrix)},), one number for each row of A; got {shift.shape}"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(shift).all()):
        raise ValueError("A and b must be finite numbers")
    return matrix, shift


def _is_diagonal(matrix: Array) -> bool:
    return matrix.shape[0] == matrix.shape[1] and bool((matrix == np.diag(np.diag(matrix))).all())
