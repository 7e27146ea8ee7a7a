"""Densities finalised from statistics, kept while the statistics and the parameters stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np

from streamgda.blocks.labels import Labels
from streamgda.gaussians.densities import Gaussians
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

G = TypeVar("G", bound=Gaussians)
T = TypeVar("T")


@dataclass(frozen=True)
class Finalised(Generic[G]):
    """What a model predicts by, and the state and the parameters that it was made of.

    Attributes
    ----------
    revision : object
        The revision of the statistics.
    params : dict
        The parameters of the estimator.
    classes : ndarray of shape (n_classes,)
        The labels that columns of scores go by.
    gaussians : Gaussians
        The densities of the classes.
    priors, log_priors : ndarray of shape (n_classes,)
        Prior probabilities, and their logarithms.
    """

    revision: object
    params: dict[str, Any]
    classes: Labels
    gaussians: G
    priors: Array
    log_priors: Array
    _derived: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def made_of(cls, model: Any, statistics: Statistics, gaussians: G, priors: Array) -> Self:
        """What a model with these densities and priors predicts by."""
        with np.errstate(divide="ignore"):
            log_priors = np.log(priors)
        log_priors[list(gaussians.unestimated)] = -np.inf
        params = model.get_params(deep=False)
        return cls(statistics.revision, params, statistics.classes, gaussians, priors, log_priors)

    @property
    def unestimated(self) -> list[tuple[Any, Callable[[], Exception]]]:
        """The classes that get no posterior, each with what makes the error that says why."""
        classes = self.classes.tolist()
        return [(classes[k], error) for k, error in self.gaussians.unestimated.items()]

    def once(self, name: str, derive: Callable[[], T]) -> T:
        """Compute once and cache."""
        if name not in self._derived:
            self._derived[name] = derive()
        value: T = self._derived[name]
        return value

    def is_of(self, model: Any) -> bool:
        """Whether the state is as it was, and the parameters are the same objects."""
        return self.revision is model.statistics_.revision and all(
            getattr(model, name) is value for name, value in self.params.items()
        )


def check_two_classes(statistics: Statistics) -> None:
    """Refuse statistics in which there is nothing to tell apart."""
    classes = statistics.classes
    if len(classes) < 2:
        seen = f"only 1 class: {classes[0]!s}" if len(classes) else "none"
        raise ValueError(f"a classifier needs rows of at least two classes; the data has {seen}")


def check_finite(statistics: Statistics) -> None:
    """Refuse exact sums that go beyond float64, as no floating ones do."""
    if statistics.exact and not np.isfinite(statistics.covariance()).all():
        raise ValueError("the features are too large: their squares exceed float64. Rescale them first")
