"""States that are worked out of a state, without the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from streamgda.blocks import labels
from streamgda.statistics.covariances import CovarianceType, Indices, kind_named
from streamgda.statistics.stateful import Stateful


class Derived(Stateful, ABC):
    """A state from which those of other classes, features or kinds of covariance can be had."""

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

    def of_classes(self, positions: Indices) -> Self:
        """The state of the classes at these positions; its arrays may be those of this one."""
        with self._lock:
            return self._twin(self._labelled.take(positions))

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
                raise ValueError(f"{self!r} holds one scatter of all classes, so class {label!s} stays in it")
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
