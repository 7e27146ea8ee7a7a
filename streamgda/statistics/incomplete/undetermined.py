"""What incomplete rows do not determine: features that a class never has, and pairs that too few rows have.

Rows that have both features of a pair lie on a line if they are one or two, and on a line their likelihood
has no bound, at whatever cost for the other rows. So it has a maximum only if they are three; where classes
share a covariance, two more than classes among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from streamgda.blocks.wording import named
from streamgda.statistics.covariances import Array, Indices
from streamgda.statistics.incomplete.available import Group

_LEAST_FREEDOM = 2  # of the rows that have both features: how many more they are than classes
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
        Pairs of features that too few rows have: of these pairs, those that no row has, if there are any.
    has_some : bool
        Whether each of them is in a row.
    """

    label: Any
    unseen: Indices = field(default_factory=lambda: np.zeros(0, np.intp))
    apart: Indices = field(default_factory=lambda: np.zeros((0, 2), np.intp))
    has_some: bool = False

    @classmethod
    def apart_in(cls, label: Any, groups: Sequence[Group], n_features: int) -> Self | None:
        """The pairs of features that these rows leave open; None if there are none."""
        together = np.zeros((n_features, n_features))
        n_classes = np.ones((n_features, n_features))
        for group in groups:
            together[np.ix_(group.features, group.features)] += group.counts.sum()
        places = np.unique(np.concatenate([np.zeros(0, np.intp), *(group.places for group in groups)]))
        if len(places) > 1 and together.min(initial=np.inf) < _LEAST_FREEDOM + len(places):
            n_classes[:] = 0
            for place in places:
                has = np.zeros(n_classes.shape, np.bool_)
                for group in groups:
                    if place in group.places:
                        has[np.ix_(group.features, group.features)] = True
                n_classes += has
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
