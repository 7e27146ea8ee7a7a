"""The parameter `pooling` of classifiers: covariances between those of the classes and the pooled one."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from sklearn.utils._param_validation import Interval

from streamgda.estimators.classifier import finalised
from streamgda.estimators.generative import GenerativeClassifier
from streamgda.estimators.validation import one_of
from streamgda.gaussians.densities import DiagonalGaussians, SeparateGaussians
from streamgda.gaussians.regularisation import Regularisation
from streamgda.statistics.covariances import Array

PoolingParameter = float | Literal["bayes"] | None

P = TypeVar("P", SeparateGaussians, DiagonalGaussians)


class RegularisedClassifier(GenerativeClassifier[P]):
    """A classifier with the parameter `pooling`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GenerativeClassifier._parameter_constraints,
        "pooling": [one_of("bayes"), Interval(Real, 0, 1, closed="both"), None],
    }

    pooling: PoolingParameter  # 0 and None mean no pooling

    def _regularisation(self, weights: Array, eigenvalues: Array | None, dimension: int) -> Regularisation:
        """How covariances are pooled: by evidence, if eigenvalues are given, else by the number `pooling`."""
        if eigenvalues is not None:
            return Regularisation.by_evidence(weights, eigenvalues)
        return Regularisation.by_share(float(self.pooling or 0.0), weights, dimension)

    @property
    def pooling_(self) -> Array:
        """The share of the pooled covariance in that of each class."""
        regularisation = finalised(self).gaussians.regularisation
        return (
            np.zeros(len(self.statistics_.classes))
            if regularisation is None
            else regularisation.shares.copy()
        )

    @property
    def prior_rows_(self) -> float:
        """How many rows the pooled covariance counts for beside those of each class."""
        regularisation = finalised(self).gaussians.regularisation
        return 0.0 if regularisation is None else regularisation.prior_rows
