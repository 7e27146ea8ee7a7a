"""What incomplete rows do not determine: features that a class never has, and pairs that no row has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import named
from streamgda.statistics.covariances import Indices

_MOST_NAMES = 5  # of features or pairs in a message


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
        Pairs of features of which no row has both.
    """

    label: Any
    unseen: Indices = field(default_factory=lambda: np.zeros(0, np.intp))
    apart: Indices = field(default_factory=lambda: np.zeros((0, 2), np.intp))

    @classmethod
    def apart_in(cls, label: Any, patterns: Iterable[Indices], n_features: int) -> Self | None:
        """The pairs of features that rows with these observed features leave open; None if there are none."""
        together = np.zeros((n_features, n_features), np.bool_)
        for observed in patterns:
            together[np.ix_(observed, observed)] = True
        return cls.unless_together(label, together)

    @classmethod
    def unless_together(cls, label: Any, together: NDArray[np.bool_]) -> Self | None:
        """The pairs of features that no row has both of, by a matrix of those that some row has; or None."""
        apart = np.argwhere(np.triu(~together, 1))
        return cls(label, apart=apart) if len(apart) else None

    def error(self, name_of: Callable[[int], str]) -> ValueError:
        """The error that names the class, its features and the remedies."""
        rows = "no row" if self.label is None else f"class {named(self.label)}: no row"
        if len(self.unseen):
            names = _listed([name_of(j) for j in self.unseen], "features")
            return ValueError(
                f"{rows} has feature {names}, so its mean is not determined. Bring rows that have it, or "
                "leave the feature or the class out"
            )
        names = _listed([f"{name_of(i)} and {name_of(j)}" for i, j in self.apart], "pairs")
        remedy = "" if self.label is None else "pool the classes with LinearDiscriminantAnalysis, "
        return ValueError(
            f"{rows} has both {names}, so their covariance is not determined. Bring rows that have both, "
            f"leave one of the two out, {remedy}or use GaussianNB, which needs no covariances. reg_param and "
            "pooling act on covariances that are known"
        )


def _listed(names: list[str], things: str) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" (and {more} more {things})" if more > 0 else "")
