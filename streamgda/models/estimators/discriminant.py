"""What linear and quadratic discriminant analysis share: parameters, priors, estimated covariances."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods

from streamgda.data.blocks.block import Block
from streamgda.models.estimators.generative import GenerativeClassifier
from streamgda.models.estimators.learning import ROWS_NEEDED
from streamgda.models.estimators.scores import G
from streamgda.models.estimators.shrinkage import Shrinkage
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.missing import Reading


class DiscriminantAnalysis(GenerativeClassifier[G]):
    """A discriminant analysis with the parameters and fitted attributes of scikit-learn's."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GenerativeClassifier._parameter_constraints,
        "store_covariance": ["boolean"],
        "covariance_estimator": [HasMethods("fit"), None],
    }
    _renormalises_priors = True
    _svd_without_estimator: ClassVar[str]
    _estimates_total: ClassVar[bool] = False

    solver: str
    shrinkage: Shrinkage
    store_covariance: bool
    tol: float

    @property
    def _given_share(self) -> float:
        """The number given as `shrinkage`; 0 for None, and if it is estimated for each class."""
        return 0.0 if self.shrinkage is None or isinstance(self.shrinkage, str) else float(self.shrinkage)

    @abstractmethod
    def _mean_share(self, statistics: Statistics) -> float:
        """How far the covariances are shrunk on average."""

    def _n_covariance_parameters(self, gaussians: Any, statistics: Statistics) -> float:
        share, n_free = self._mean_share(statistics), float(gaussians.n_free_covariances)
        of_target = statistics.n_features if self.shrinkage in {"auto", "bayes"} else 1  # else one variance
        return (1 - share) * super()._n_covariance_parameters(
            gaussians, statistics
        ) + share * n_free * of_target

    # ------------------------------------------------------------------ covariance_estimator

    def _read_blocks(self, blocks: Callable[[], Iterator[Block]]) -> Reading:
        if self.covariance_estimator is None:
            return super()._read_blocks(blocks)
        self._check_estimator()
        in_memory = list(blocks())
        if any(block.weights is not None for block in in_memory):
            raise ValueError("covariance_estimator takes no sample_weight; repeat the rows, or use shrinkage")
        reading = super()._read_blocks(lambda: iter(in_memory))
        self._estimates = CovarianceEstimates.of(
            self.covariance_estimator, in_memory, reading.statistics, total=self._estimates_total
        )
        return reading

    def _check_estimator(self) -> None:
        if self.shrinkage:
            raise ValueError(
                "covariance_estimator and shrinkage parameters are not None. Only one of the two can be set."
            )
        if self.solver == "svd":
            raise ValueError(self._svd_without_estimator)

    def _estimated(self, statistics: Statistics) -> CovarianceEstimates:
        """The covariances that `covariance_estimator` estimated from the rows of these statistics."""
        self._check_estimator()
        estimates: CovarianceEstimates | None = self.__dict__.get("_estimates")
        if estimates is None or not estimates.is_of(statistics):
            raise ValueError(ROWS_NEEDED)
        return estimates

    # ------------------------------------------------------------------ saved models

    @classmethod
    def _upgraded(cls, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a saved model. In versions without `solver`, `tol` was a bound of eigenvalues."""
        params = super()._upgraded(params)
        if "solver" in params:
            return params
        before = {"solver": "eigen", "store_covariance": True}
        return {**params, **before, "tol": sqrt(params.get("tol", 1e-10))}


@dataclass(frozen=True)
class CovarianceEstimates:
    """The covariances that a covariance estimator estimated from some rows.

    Attributes
    ----------
    within : ndarray of shape (n_classes, n_features, n_features)
        The covariance of each class.
    total : ndarray of shape (n_features, n_features), or None
        The covariance of the rows of all classes, if it was asked for.
    counts, means : ndarray
        The counts and means of the classes, by which the rows are recognised.
    """

    within: Array
    total: Array | None
    counts: NDArray[np.int64]
    means: Array

    @classmethod
    def of(cls, estimator: Any, blocks: Iterable[Block], statistics: Statistics, *, total: bool) -> Self:
        """Fit clones of the estimator to the rows of each class and, if `total` is true, to all rows.

        Raises
        ------
        ValueError
            If the estimator does not estimate a covariance.
        """
        rows, labels = zip(*((b.matrix(0, len(b.codes)), b.classes[b.codes]) for b in blocks), strict=True)
        X, y = np.concatenate(rows), np.concatenate(labels)
        within = [_estimate(estimator, X[y == label]) for label in statistics.classes]
        of_all = _estimate(estimator, X) if total else None
        return cls(np.array(within), of_all, statistics.counts, statistics.means)

    def is_of(self, statistics: Statistics) -> bool:
        """Whether these estimates and the statistics are of the same rows."""
        return np.array_equal(self.counts, statistics.counts) and np.array_equal(self.means, statistics.means)


def _estimate(estimator: Any, rows: Array) -> Array:
    estimator = clone(estimator, safe=False)  # it need not be one of scikit-learn's
    estimator.fit(rows)
    if not hasattr(estimator, "covariance_"):
        raise ValueError(f"{type(estimator).__name__} does not have a covariance_ attribute")
    return np.atleast_2d(np.asarray(estimator.covariance_, dtype=np.float64))
