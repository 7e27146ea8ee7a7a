"""Linear discriminant analysis."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from streamgda.covariances import CovarianceType
from streamgda.estimators.base import GaussianClassifier, MissingAtPrediction
from streamgda.gaussians import Array, SharedGaussians, Whitening
from streamgda.shrinkage import Shrinkage, class_covariances, needed_for, shrunk
from streamgda.statistics import ClassStatistics


class LinearDiscriminantAnalysis(GaussianClassifier[SharedGaussians]):
    """Linear discriminant analysis: the classes are normal, with means of their own and one covariance.

    The covariance is that within the classes, each class counting by its share of the weight, whatever
    the priors: Σ (N_k / N) S_k. Where it is singular, the model works in its range, as a pseudo-inverse
    does, and says so once.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), optional
        Prior probabilities, in the order of `classes_`; the shares of the classes where not given.
    shrinkage : float in [0, 1], "auto", "oas" or None, default=None
        How far the covariance is pulled towards its mean variance times the identity. "auto" and "oas"
        choose by the rows of each class, as Ledoit & Wolf (2004) with features at unit variance, or as
        Chen et al. (2010), and pool what they have shrunk; the state is then "full", with a matrix for
        each class (for "auto" three). The sum of the weights of a class is the number of rows that they
        go by; see `fit`.
    tol : float, default=1e-10
        Directions in which the correlation matrix has an eigenvalue up to `tol` count as singular.
        The verdict does not depend on the units of the features.
    missing : {"raise", "marginal"}, default="raise"
        What becomes of a NaN in a row to predict. "marginal" judges the row by the density of the features
        that it has, which is exact for a Gaussian; a row of NaN alone has the prior as its posterior. In
        rows to learn from, a NaN is always refused.

    Attributes
    ----------
    statistics_ : ClassStatistics
        All that was learnt; of covariance type "tied", or "full" where `shrinkage` is chosen by class.
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
        Maximum-likelihood covariance within the classes (divided by the weight of all rows), shrunk.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        Coefficients of the decision function.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        Its intercepts.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.10;
    Ledoit & Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices";
    Chen, Wiesel, Eldar & Hero (2010), "Shrinkage algorithms for MMSE covariance estimation".

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
        "shrinkage": [StrOptions({"auto", "oas"}), Interval(Real, 0, 1, closed="both"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        priors: ArrayLike | None = None,
        shrinkage: Shrinkage = None,
        tol: float = 1e-10,
        missing: MissingAtPrediction = "raise",
    ) -> None:
        self.priors = priors
        self.shrinkage = shrinkage
        self.tol = tol
        self.missing = missing

    def _needed(self) -> dict[str, Any]:
        return needed_for(self.shrinkage) if isinstance(self.shrinkage, str) else super()._needed()

    def _covariance(self, statistics: ClassStatistics) -> Array:
        """The covariance within the classes, shrunk."""
        if isinstance(self.shrinkage, str):
            shares = statistics.weights / statistics.weights.sum()
            covariance: Array = np.tensordot(shares, class_covariances(statistics, self.shrinkage), axes=1)
            return covariance
        if statistics.covariance_type != "tied":
            statistics = statistics.to_covariance_type("tied")
        pooled = statistics.covariance()
        return pooled if self.shrinkage is None else shrunk(pooled, float(self.shrinkage))

    def _finalise(self, statistics: ClassStatistics) -> SharedGaussians:
        means = statistics.means
        whitening = Whitening.of(self._covariance(statistics), means, self.tol)
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
        return self._covariance(self.statistics_)

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
