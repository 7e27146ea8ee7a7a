"""Classifiers whose classes may lean on the pooled covariance."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from sklearn.utils._param_validation import Interval

from streamgda.estimators.classifier import finalised
from streamgda.estimators.predictive import PredictiveClassifier
from streamgda.estimators.validation import one_of
from streamgda.gaussians.densities import DiagonalGaussians, SeparateGaussians
from streamgda.gaussians.pooling import Pooling
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

PoolingParameter = float | Literal["bayes"] | None

P = TypeVar("P", SeparateGaussians, DiagonalGaussians)


class PooledClassifier(PredictiveClassifier[P]):
    """A classifier with the parameter `pooling`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PredictiveClassifier._parameter_constraints,
        "pooling": [one_of("bayes"), Interval(Real, 0, 1, closed="both"), None],
    }

    pooling: PoolingParameter

    @property
    def _is_pooled(self) -> bool:
        """Whether classes lean on the pooled covariance at all."""
        return self.pooling is not None and self.pooling != 0

    def _pooling(self, weights: Array, eigenvalues: Array | None, dimension: int) -> Pooling:
        """How far they do; see `Pooling.by_evidence`. Eigenvalues are given for "bayes" alone."""
        if eigenvalues is not None:
            return Pooling.by_evidence(weights, eigenvalues)
        return Pooling.by_share(float(self.pooling or 0.0), weights, dimension)

    def _pooling_of(self, gaussians: P, statistics: Statistics) -> Pooling:
        if gaussians.pooling is not None:
            return gaussians.pooling
        dimension = 1 if isinstance(gaussians, DiagonalGaussians) else statistics.n_features
        return Pooling.by_share(0.0, statistics.weights, dimension)

    @property
    def pooling_(self) -> Array:
        """The share of the pooled covariance in that of each class."""
        pooling = finalised(self).gaussians.pooling
        return np.zeros(len(self.classes_)) if pooling is None else pooling.shares.copy()

    @property
    def prior_rows_(self) -> float:
        """How many rows the pooled covariance counts for beside those of each class."""
        pooling = finalised(self).gaussians.pooling
        return 0.0 if pooling is None else pooling.prior_rows
