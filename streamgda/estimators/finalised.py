"""Densities finalised from statistics, valid as long as the statistics and the parameters do not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from streamgda.blocks.labels import Labels
from streamgda.gaussians.base import Densities, Gaussians
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

G = TypeVar("G", bound=Gaussians)
T = TypeVar("T")


@dataclass(frozen=True)
class Finalised(Generic[G]):
    """The densities and priors of a model, and the revision and parameters that they were computed from.

    Attributes
    ----------
    revision : object
        The revision of the statistics.
    params : dict
        The parameters of the estimator.
    classes : ndarray of shape (n_classes,)
        The labels, in the order of the columns of scores.
    gaussians : Gaussians
        The normal densities of the classes, with the means and covariances of the model.
    densities : Densities
        The densities that rows are scored by: these, or those of the parameter `predictive`.
    priors, log_priors : ndarray of shape (n_classes,)
        Prior probabilities, and their logarithms. The log prior of a class that cannot be estimated is −∞.
    """

    revision: object
    params: dict[str, Any]
    classes: Labels
    gaussians: G
    densities: Densities
    priors: Array
    log_priors: Array
    _derived: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, model: BaseEstimator, statistics: Statistics, gaussians: G, densities: Densities, priors: Array
    ) -> Self:
        """The densities and priors of a model, computed from its current parameters and these statistics."""
        with np.errstate(divide="ignore"):
            log_priors = np.log(priors)
        log_priors[list(densities.unestimated)] = -np.inf
        params = model.get_params(deep=False)
        return cls(statistics.revision, params, statistics.classes, gaussians, densities, priors, log_priors)

    @property
    def unestimated(self) -> list[tuple[Any, Callable[[], Exception]]]:
        """The labels of classes that cannot be estimated; each with a function that returns the error why."""
        classes = self.classes.tolist()
        return [(classes[k], error) for k, error in self.densities.unestimated.items()]

    def once(self, name: str, derive: Callable[[], T]) -> T:
        """The cached value of this name; computed by `derive` the first time."""
        if name not in self._derived:
            self._derived[name] = derive()
        value: T = self._derived[name]
        return value

    def is_current(self, model: Any) -> bool:
        """Whether the statistics of the model have this revision and its parameters are the same objects."""
        return self.revision is model.statistics_.revision and self.has_params(model)

    def has_params(self, model: Any) -> bool:
        """Whether the parameters of the model are the same objects."""
        return all(getattr(model, name) is value for name, value in self.params.items())
