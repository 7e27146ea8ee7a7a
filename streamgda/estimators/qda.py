"""Quadratic discriminant analysis."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from streamgda.covariances import CovarianceType
from streamgda.estimators.base import GaussianClassifier
from streamgda.gaussians import Array, SeparateGaussians, Whitening
from streamgda.protocol import Statistics


class QuadraticDiscriminantAnalysis(GaussianClassifier[SeparateGaussians]):
    """Quadratic discriminant analysis: each class is normal, with a mean and a covariance of its own.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), optional
        Prior probabilities, in the order of `classes_`; the shares of the classes where not given.
    tol : float, default=1e-10
        A covariance whose correlation matrix has an eigenvalue up to `tol` counts as singular. The
        verdict does not depend on the units of the features.
    exact : bool, default=False
        Whether to learn by exact sums: the same bits however the rows are cut, ordered or merged; see
        `ExactClassStatistics`.

    Attributes
    ----------
    statistics_ : ClassStatistics or ExactClassStatistics
        All that was learnt; of covariance type "full".
    classes_ : ndarray of shape (n_classes,)
        The labels seen, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where the data had any.
    priors_ : ndarray of shape (n_classes,)
        Prior probabilities.
    means_ : ndarray of shape (n_classes, n_features)
        Means of the classes.
    covariance_ : list of n_classes ndarrays of shape (n_features, n_features)
        Maximum-likelihood covariances of the classes (divided by the weight of the class).

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.12.

    Examples
    --------
    >>> from streamgda import QuadraticDiscriminantAnalysis
    >>> X = [[0.0, 0.1], [0.2, -0.1], [-0.1, 0.0], [3.0, 3.0], [-3.0, 2.0], [1.0, -4.0]]
    >>> model = QuadraticDiscriminantAnalysis().fit(X, [0, 0, 0, 1, 1, 1])
    >>> model.predict([[0.05, 0.0], [2.0, 2.0]])
    array([0, 1])
    """

    _covariance_type: ClassVar[CovarianceType] = "full"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianClassifier._parameter_constraints,
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, *, priors: ArrayLike | None = None, tol: float = 1e-10, exact: bool = False) -> None:
        self.priors = priors
        self.tol = tol
        self.exact = exact

    def _finalise(self, statistics: Statistics) -> SeparateGaussians:
        means, whitenings = statistics.means, []
        for k, covariance in enumerate(statistics.covariance()):
            whitenings.append(Whitening.of(covariance, means[[k]], self.tol))
            rank, n_rows = whitenings[k].rank, int(statistics.counts[k])
            if min(rank, n_rows - 1) < statistics.n_features:
                raise np.linalg.LinAlgError(
                    f"class {statistics.classes[k]!s}: the covariance has rank {min(rank, n_rows - 1)} of "
                    f"{statistics.n_features}, from {n_rows} rows, so its density is not defined; leave out "
                    "constant or collinear features, bring more rows, or use LinearDiscriminantAnalysis or "
                    "GaussianNB"
                )
        return SeparateGaussians(means, whitenings)

    @property
    def priors_(self) -> Array:
        """Prior probabilities of the classes."""
        return self._class_priors(self.statistics_)

    @property
    def means_(self) -> Array:
        """Means of the classes."""
        return self.statistics_.means

    @property
    def covariance_(self) -> list[Array]:
        """Covariances of the classes."""
        return list(self.statistics_.covariance())
