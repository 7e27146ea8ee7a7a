"""Linear discriminant analysis."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import discriminant_analysis
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from streamgda.estimators.classifier import MissingAtPrediction, check_rows, finalised, score_rows
from streamgda.estimators.discriminant import DiscriminantAnalysis
from streamgda.estimators.exchange import (
    check_kind,
    check_not_shrunk,
    class_counts,
    describe,
    shrinkage_for_peer,
)
from streamgda.estimators.finalised import Finalised
from streamgda.estimators.lazy import lazy_on_dask
from streamgda.estimators.shrinkage import (
    Shrinkage,
    between_covariance,
    class_covariances,
    pooled_covariance,
    shrunk,
    statistics_for,
    total_covariance,
)
from streamgda.estimators.singular import deficient_features
from streamgda.gaussians.densities import SharedGaussians
from streamgda.gaussians.products import multiply_rows
from streamgda.gaussians.projection import Projection
from streamgda.gaussians.whitening import Whitening
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType


class LinearDiscriminantAnalysis(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DiscriminantAnalysis[SharedGaussians]
):
    """Linear discriminant analysis: the classes are normal, with means of their own and one covariance.

    The covariance is the mean of those of the classes, weighted by their shares of the rows and not by the
    priors: Σ (N_k / N) S_k. If it is singular, the model works in its range, as by a pseudo-inverse, and
    warns.

    Parameters
    ----------
    solver : {"svd", "lsqr", "eigen"}, default="svd"
        Accepted as in scikit-learn. The model is computed from its statistics with each of them.
    shrinkage : float in [0, 1], "auto", "oas" or None, default=None
        How far to shrink the covariance towards its mean variance times the identity: 0 is not at all, 1
        completely. "auto" and "oas" shrink the covariance of each class, and pool the results: by the
        estimate of Ledoit & Wolf (2004) for features at unit variance, or of Chen et al. (2010). The
        statistics are then "full", with a matrix for each class (for "auto" three). Both use the sum of the
        weights of a class as its number of rows; see `fit`.
    priors : array-like of shape (n_classes,), optional
        Prior probabilities, in the order of `classes_`. If None, the shares of the classes.
    n_components : int, optional
        The number of components of `transform`. None is the largest number, min(n_classes - 1, n_features).
        Classification does not depend on it.
    store_covariance : bool, default=False
        Accepted as in scikit-learn.
    tol : float, default=1e-4
        Directions in which standardised rows have a singular value, divided by the root of their number, up
        to `tol` count as singular. These are the eigenvalues of the correlation matrix up to the square of
        `tol`, so the units of the features do not matter.
    covariance_estimator : None
        Not yet supported.
    missing : {"raise", "marginal"}, default="raise"
        How to predict a row with NaN. "raise" is an error. "marginal" uses the marginal density of the
        features that are observed, which is exact for Gaussians; the posterior of a row of NaN alone is the
        prior. NaN in rows to learn from is always an error.
    exact : bool, default=False
        Whether to learn by exact sums, whose bits do not depend on the order or grouping of the rows; see
        `ExactClassStatistics`. Then `shrinkage` cannot be "auto".

    Attributes
    ----------
    statistics_ : ClassStatistics or ExactClassStatistics
        What the model has learnt; of covariance type "tied", or "full" if `shrinkage` is "auto" or "oas".
    classes_ : ndarray of shape (n_classes,)
        The labels seen, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if the data had any.
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
    scalings_ : ndarray of shape (n_features, n_components)
        The directions of the components.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The share of each component in the variance between the classes.

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
        **DiscriminantAnalysis._parameter_constraints,
        "solver": [StrOptions({"svd", "lsqr", "eigen"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        solver: Literal["svd", "lsqr", "eigen"] = "svd",
        shrinkage: Shrinkage = None,
        priors: ArrayLike | None = None,
        n_components: int | None = None,
        store_covariance: bool = False,
        tol: float = 1e-4,
        covariance_estimator: Any = None,
        *,
        missing: MissingAtPrediction = "raise",
        exact: bool = False,
    ) -> None:
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.n_components = n_components
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator
        self.missing = missing
        self.exact = exact

    def required_statistics(self) -> dict[str, Any]:
        """The statistics that the model needs, as parameters of `ClassStatistics` and `accumulate`."""
        by_class = isinstance(self.shrinkage, str)
        return statistics_for(self.shrinkage) if by_class else super().required_statistics()

    def _covariance(self, statistics: Statistics) -> Array:
        """The covariance within the classes, shrunk."""
        if isinstance(self.shrinkage, str):
            shares = statistics.weights / statistics.weights.sum()
            covariance: Array = np.tensordot(shares, class_covariances(statistics, self.shrinkage), axes=1)
            return covariance
        pooled = pooled_covariance(statistics)
        return pooled if self.shrinkage is None else shrunk(pooled, float(self.shrinkage))

    def _finalise(self, statistics: Statistics) -> SharedGaussians:
        self._check_components(statistics)
        means = statistics.means
        whitening = Whitening.of(self._covariance(statistics), means, self._least_eigenvalue)
        if not whitening.rank:
            raise ValueError("no feature varies within a class, so there is no covariance to work with")
        return SharedGaussians(means, statistics.overall_mean(), whitening)

    def _warn_once(self, state: Finalised[SharedGaussians]) -> None:
        """Warn of a singular covariance, unless it had the same rank the last time."""
        whitening, n_features = state.gaussians.whitening, self.statistics_.n_features
        if whitening.rank < n_features and self.__dict__.get("_warned") != whitening.rank:
            warnings.warn(
                f"the covariance within the classes has rank {whitening.rank} of {n_features}: "
                f"{deficient_features(self.statistics_, whitening.covariance, whitening.tol)}. The model "
                "works in the range of the covariance",
                stacklevel=6,
            )
        self._warned = whitening.rank

    def _check_components(self, statistics: Statistics) -> None:
        most = _most_components(statistics)
        if self.n_components is not None and self.n_components > most:
            raise ValueError(
                f"n_components cannot be larger than min(n_features, n_classes - 1), which is {most}; "
                f"got {self.n_components}"
            )

    # ------------------------------------------------------------------ projection

    @lazy_on_dask(columns=lambda model: model.get_feature_names_out())
    def transform(self, X: ArrayLike) -> Array:
        """Project rows on the directions that separate the classes best.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, without missing values.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Within the classes, components are uncorrelated and of unit variance. Rows are not centred.
        """
        rows = check_rows(self, X, missing="raise")
        scalings, centre = self._projection.scalings, finalised(self).gaussians.centre
        projected = np.empty((len(rows), scalings.shape[1]))
        for scores in score_rows(self, rows, missing="raise"):
            projected[scores.positions] = multiply_rows(scores.rows - centre, scalings)
        projected += centre @ scalings
        return projected

    @property
    def _projection(self) -> Projection:
        with self.statistics_.lock:
            return finalised(self).once("projection", self._project)

    def _project(self) -> Projection:
        statistics, within = self.statistics_, finalised(self).gaussians.whitening
        between = between_covariance(statistics)
        if self.shrinkage is not None:
            between = total_covariance(statistics, self.shrinkage) - within.covariance
        return Projection.of(between, within, self.n_components or _most_components(statistics))

    @property
    def scalings_(self) -> Array:
        """The directions of the components."""
        return self._projection.scalings.copy()

    @property
    def explained_variance_ratio_(self) -> Array:
        """The share of each component in the variance between the classes."""
        return self._projection.explained_variance_ratio.copy()

    @property
    def _n_features_out(self) -> int:
        return int(self._projection.scalings.shape[1])

    # ------------------------------------------------------------------ fitted attributes

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
        return _between_two(finalised(self).gaussians.coefficients)

    @property
    def intercept_(self) -> Array:
        """Intercepts of the decision function."""
        state = finalised(self)
        intercepts = state.gaussians.intercepts - state.gaussians.coefficients @ state.gaussians.centre
        return _between_two(intercepts + state.log_priors)

    # ------------------------------------------------------------------ exchange with scikit-learn

    def to_sklearn(self) -> discriminant_analysis.LinearDiscriminantAnalysis:
        """A fitted `sklearn.discriminant_analysis.LinearDiscriminantAnalysis` with the same predictions.

        Its solver is "eigen", so its `transform` is also that of this model. scikit-learn does not centre
        rows, so it loses digits if means are much larger than standard deviations.
        """
        check_is_fitted(self)
        peer = discriminant_analysis.LinearDiscriminantAnalysis(
            solver="eigen",
            **shrinkage_for_peer(self.shrinkage),
            priors=self.priors,
            n_components=self.n_components,
        )
        peer.priors_, peer.means_, peer.covariance_ = self.priors_, self.means_, self.covariance_
        peer.coef_, peer.intercept_, peer.xbar_ = self.coef_, self.intercept_, self.xbar_
        peer.scalings_ = self.scalings_
        peer.explained_variance_ratio_ = self.explained_variance_ratio_
        peer._max_components = peer._n_features_out = self._n_features_out
        return describe(peer, self)

    @classmethod
    def from_sklearn(
        cls,
        estimator: discriminant_analysis.LinearDiscriminantAnalysis,
        class_count: ArrayLike | None = None,
    ) -> Self:
        """A model with the statistics of a fitted scikit-learn LDA.

        Parameters
        ----------
        estimator : sklearn.discriminant_analysis.LinearDiscriminantAnalysis
            Fitted without shrinkage and with a `covariance_`: by solver "lsqr" or "eigen", or by "svd" with
            store_covariance=True. If it has `priors`, they must be the shares of the classes, since
            scikit-learn weights the covariances of the classes by them.
        class_count : array-like of shape (n_classes,)
            Rows of each class, which the estimator does not keep.

        Raises
        ------
        TypeError
            If the estimator is of another class.
        ValueError
            If it does not determine the covariance of the rows.
        """
        check_kind(estimator, discriminant_analysis.LinearDiscriminantAnalysis)
        counts = class_counts(estimator, class_count)
        check_not_shrunk(estimator)
        if not hasattr(estimator, "covariance_"):
            raise ValueError("the estimator holds no covariance; fit it with store_covariance=True")
        if not np.allclose(estimator.priors_, counts / counts.sum()):
            raise ValueError(
                "the covariance of the estimator is weighed by priors that are not the shares of the "
                "classes; fit it without priors"
            )
        params = {"priors": estimator.priors, "n_components": estimator.n_components}
        scatter = estimator.covariance_ * counts.sum()
        return cls._from_moments(estimator, estimator.classes_, counts, estimator.means_, scatter, **params)


def _most_components(statistics: Statistics) -> int:
    """The largest number of components."""
    return min(len(statistics.classes) - 1, statistics.n_features)


def _between_two(terms: Array) -> Array:
    """The terms of each class; for two classes their difference alone, as in scikit-learn."""
    return terms[1:] - terms[:1] if len(terms) == 2 else terms.copy()
