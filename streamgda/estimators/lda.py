"""Linear discriminant analysis."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from streamgda.covariances import CovarianceType
from streamgda.estimators.base import GaussianClassifier
from streamgda.gaussians import Array, SharedGaussians, Whitening
from streamgda.protocol import Statistics


class LinearDiscriminantAnalysis(GaussianClassifier[SharedGaussians]):
    """Linear discriminant analysis: the classes are normal, with means of their own and one covariance.

    The covariance is that within the classes, each class counting by its share of the weight, whatever
    the priors: Σ (N_k / N) S_k. Where it is singular, the model works in its range, as a pseudo-inverse
    does, and says so once.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), optional
        Prior probabilities, in the order of `classes_`; the shares of the classes where not given.
    tol : float, default=1e-10
        Directions in which the correlation matrix has an eigenvalue up to `tol` count as singular.
        The verdict does not depend on the units of the features.
    exact : bool, default=False
        Whether to learn by exact sums: the same bits however the rows are cut, ordered or merged; see
        `ExactClassStatistics`.

    Attributes
    ----------
    statistics_ : ClassStatistics or ExactClassStatistics
        All that was learnt; of covariance type "tied".
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
    xbar_ : ndarray of shape (n_features,)
        Mean of all the rows.
    covariance_ : ndarray of shape (n_features, n_features)
        Maximum-likelihood covariance within the classes (divided by the weight of all rows).
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        Coefficients of the decision function.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        Its intercepts.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.10.

    Examples
    --------
    >>> from streamgda import LinearDiscriminantAnalysis
    >>> X = [[-1.0, -1.0], [-2.0, -1.0], [-3.0, -2.0], [1.0, 1.0], [2.0, 1.0], [3.0, 2.0]]
    >>> model = LinearDiscriminantAnalysis().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[-0.8, -1.0]])
    array([1])
    """

    _covariance_type: ClassVar[CovarianceType] = "tied"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianClassifier._parameter_constraints,
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, *, priors: ArrayLike | None = None, tol: float = 1e-10, exact: bool = False) -> None:
        self.priors = priors
        self.tol = tol
        self.exact = exact

    def _finalise(self, statistics: Statistics) -> SharedGaussians:
        means = statistics.means
        whitening = Whitening.of(statistics.covariance(), means, self.tol)
        if not whitening.rank:
            raise ValueError("no feature varies within a class, so there is no covariance to work with")
        if whitening.rank < statistics.n_features:
            warnings.warn(
                f"the covariance within the classes has rank {whitening.rank} of {statistics.n_features}: "
                "features are constant or collinear. The model works in the range of the covariance",
                stacklevel=5,
            )
        return SharedGaussians(means, statistics.overall_mean(), whitening)

    @property
    def priors_(self) -> Array:
        """Prior probabilities of the classes."""
        return self._class_priors(self.statistics_)

    @property
    def means_(self) -> Array:
        """Means of the classes."""
        return self.statistics_.means

    @property
    def xbar_(self) -> Array:
        """Mean of all the rows."""
        return self.statistics_.overall_mean()

    @property
    def covariance_(self) -> Array:
        """Covariance within the classes."""
        return self.statistics_.covariance()

    @property
    def coef_(self) -> Array:
        """Coefficients of the decision function."""
        return _between_two(self._gaussians.coefficients)

    @property
    def intercept_(self) -> Array:
        """Intercepts of the decision function."""
        gaussians = self._gaussians
        with np.errstate(divide="ignore"):
            log_priors = np.log(self.priors_)
        return _between_two(gaussians.intercepts - gaussians.coefficients @ gaussians.centre + log_priors)


def _between_two(terms: Array) -> Array:
    """For two classes, the one term that tells them apart, as scikit-learn has it."""
    return terms[1:] - terms[:1] if len(terms) == 2 else terms
