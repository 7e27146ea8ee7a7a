"""Gaussian naive Bayes."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import naive_bayes
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from streamgda.data.blocks.wording import named
from streamgda.models.estimators import exchange
from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.generative import (
    GenerativeClassifier,
    PoolingParameter,
    pooled_rows,
    pooled_shares,
)
from streamgda.models.estimators.lazy import class_labels, rows_anywhere
from streamgda.models.estimators.moment import of_one_moment
from streamgda.models.estimators.view import Predictive
from streamgda.models.gaussians.densities import DiagonalGaussians
from streamgda.models.gaussians.regularisation import Regularisation
from streamgda.models.gaussians.whitening import constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.floating.state import ClassStatistics


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianNB(GenerativeClassifier[DiagonalGaussians]):
    """Gaussian naive Bayes: within a class, features are independent; numbers are normal.

    Columns with categories have a table of probabilities in each class.

    Parameters
    ----------
    priors : array-like of shape (n_classes,) or dict, optional
        As in `QuadraticDiscriminantAnalysis`, but an array must sum to 1.
    var_smoothing : float, default=1e-9
        The portion of the largest variance of a feature over all rows that is added to every variance. It
        is computed from the statistics, so `partial_fit` of any batches gives the same result as `fit`.
    missing : {"raise", "marginal"} or Marginal, default="raise"
        As in `QuadraticDiscriminantAnalysis`.
    exact : bool, default=False
        Whether to learn by exact sums, whose bits do not depend on the order or grouping of the rows; see
        `ExactClassStatistics`.
    pooling : float in [0, 1], "bayes" or None, default=None
        As in `QuadraticDiscriminantAnalysis`, with the variance and the sum of squares of each feature.
        Smoothing comes after pooling.
    predictive : {"plugin", "student"}, default="plugin"
        As in `QuadraticDiscriminantAnalysis`. Each feature has a Student t density of its own, with n_k - 1
        degrees of freedom without pooling.
    temperature : float, default=1.0
        Divides ln p(x, k) before it becomes a posterior probability: p(k | x) ∝ p(x, k)^(1 / temperature).
        Above 1, probabilities are less sure; the predicted classes stay. `Evaluation.best_temperature` fits
        it to rows that were not learnt. Densities, as of `score_samples`, do not depend on it.
    categories : "auto", Categorical or None, default="auto"
        As in `QuadraticDiscriminantAnalysis`. The numbers do not depend on them.
    half_life : float, optional
        As in `QuadraticDiscriminantAnalysis`.

    Attributes
    ----------
    statistics_ : ClassStatistics, ExactClassStatistics or IncompleteStatistics
        What the model has learnt; of covariance type "diag".
    classes_ : ndarray of shape (n_classes,)
        The labels seen, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the data had any.
    class_count_ : ndarray of shape (n_classes,)
        The weight of each class.
    priors_, class_prior_ : ndarray of shape (n_classes,)
        Prior probabilities.
    means_, theta_ : ndarray of shape (n_classes, n_features)
        Mean of each feature in each class.
    var_ : ndarray of shape (n_classes, n_features)
        Smoothed variance of each feature in each class.
    categories_ : dict of str to list
        The categories of each column that has them.
    category_log_prob_ : dict of str to ndarray of shape (n_classes, n_categories)
        ln p(v | k) of the categories of each column; NaN for a missing one that is no category.
    epsilon_ : float
        The value added to each variance.
    pooling_ : ndarray of shape (n_classes,)
        The share of the pooled variances in those of each class.
    prior_rows_ : float
        How many rows the pooled variances count for: c for "bayes", λ N / (1 - λ) for a number.
    n_iter_ : int
        The number of steps of EM that estimated means and covariances from rows with missing features; 0 if
        none was needed.
    converged_ : bool
        Whether these steps converged.
    n_reads_ : int
        How often `fit` read the rows.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", 6.6.3; Friedman (1989),
    "Regularized discriminant analysis"; Smyth (2004), "Linear models and empirical Bayes methods for
    assessing differential expression in microarray experiments".

    Examples
    --------
    >>> from streamgda import GaussianNB
    >>> model = GaussianNB()
    >>> model.partial_fit([[-1.0, -1.2], [-2.0, -0.8]], ["low", "low"])
    GaussianNB()
    >>> model.partial_fit([[1.0, 1.1], [2.0, 0.9]], ["high", "high"]).predict([[0.9, 0.7]])
    array(['high'], dtype='<U4')
    """

    _covariance_type: ClassVar[CovarianceType] = "diag"
    _ways_to_encode = ("naive",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GenerativeClassifier._parameter_constraints,
        "var_smoothing": [Interval(Real, 0, None, closed="left")],
    }

    priors: ArrayLike | None = None
    var_smoothing: float = 1e-9
    pooling: PoolingParameter = None
    predictive: Predictive = "plugin"

    def _finalise(self, statistics: Statistics) -> DiagonalGaussians:
        regularisation = None
        if self.pooling:
            variances, regularisation = self._regularised(statistics)
        else:
            variances, rounding = statistics.covariance(), statistics.means
            rounding *= np.finfo(np.float64).eps
            rounding *= rounding
            variances[variances <= rounding] = 0.0
        variances += self.var_smoothing * statistics.total_variance().max()
        if not (variances > 0).all():
            k, feature = np.argwhere(~(variances > 0))[0]
            name = repr(statistics.feature_names[feature]) if statistics.feature_names else feature
            raise np.linalg.LinAlgError(
                f"class {named(statistics.classes[k])}: feature {name} is constant in it, and "
                "var_smoothing adds nothing; leave the feature out, or set var_smoothing above 0"
            )
        return DiagonalGaussians(
            statistics.means, variances, mean_tails=statistics.mean_tails, regularisation=regularisation
        )

    def _regularised(self, statistics: Statistics) -> tuple[Array, Regularisation]:
        """The pooled variances of the classes (K, d), and how they were pooled."""
        weights, scatter = statistics.weights, statistics.scatter
        within = scatter.sum(axis=0) / weights.sum()
        varying = ~constant_features(within, statistics.means)
        if self.pooling != "bayes":
            regularisation = Regularisation.by_share(float(self.pooling or 0.0), weights, 1)
        elif varying.any():
            relative = (scatter[:, varying] / within[varying])[:, :, None]
            regularisation = Regularisation.by_evidence(weights, relative)
        else:
            raise np.linalg.LinAlgError("no feature varies within a class, so there is no variance to pool")
        variances = regularisation.covariances(scatter, within)
        variances[:, ~varying] = 0.0
        return variances, regularisation

    # ------------------------------------------------------------------ prediction

    @rows_anywhere(columns=class_labels)
    def predict_joint_log_proba(self, X: ArrayLike) -> Array:
        """Ln p(x, k) of each row and class: shape (n_rows, n_classes). Rows are as for `predict`."""
        return self._apply(X, lambda scores: scores.joint_log_density)

    # ------------------------------------------------------------------ fitted attributes

    pooling_ = property(pooled_shares)
    prior_rows_ = property(pooled_rows)

    @property
    def _n_numbers(self) -> int:
        """How many features are numbers; None if all are."""
        return self.statistics_.schema.n_numbers(self.statistics_.n_features)

    @property
    @of_one_moment
    def class_count_(self) -> Array:
        """The weight of each class."""
        return self._among_announced(self.statistics_.weights)

    @property
    def class_prior_(self) -> Array:
        """Prior probabilities of the classes."""
        return self.priors_

    @property
    @of_one_moment
    def theta_(self) -> Array:
        """Mean of each feature in each class."""
        return self.means_[:, : self._n_numbers]

    @property
    @of_one_moment
    def var_(self) -> Array:
        """Variance of each feature in each class, smoothed."""
        return self._among_announced(finalised(self).gaussians.variances.copy(), self.epsilon_)

    @property
    @of_one_moment
    def epsilon_(self) -> float:
        """The value added to each variance."""
        return float(self.var_smoothing * self.statistics_.total_variance()[: self._n_numbers].max())

    # ------------------------------------------------------------------ exchange with scikit-learn

    @of_one_moment
    def to_sklearn(self) -> naive_bayes.GaussianNB:
        """A fitted `sklearn.naive_bayes.GaussianNB` with the same predictions.

        Examples
        --------
        >>> model = GaussianNB().fit([[0.0], [1.0], [5.0], [7.0]], [0, 0, 1, 1])
        >>> model.to_sklearn().predict([[0.2]])
        array([0])
        """
        exchange.check_has_peer(self)
        peer = naive_bayes.GaussianNB(priors=self._priors_of_peer, var_smoothing=self.var_smoothing)
        return exchange.describe(peer, self, ("theta_", "var_", "epsilon_", "class_count_", "class_prior_"))

    @classmethod
    def from_sklearn(cls, estimator: naive_bayes.GaussianNB) -> Self:
        """A model with the statistics of a fitted `sklearn.naive_bayes.GaussianNB`.

        Parameters
        ----------
        estimator : sklearn.naive_bayes.GaussianNB
            Fitted by one `fit`. After its `partial_fit`, the smoothing is that of the last batch, which
            cannot be undone. Classes that were announced to it but never seen are left out; the priors of the
            others are scaled to sum to 1.

        Raises
        ------
        TypeError
            If the estimator is of another class.
        """
        if not isinstance(estimator, naive_bayes.GaussianNB):
            raise TypeError(f"a fitted sklearn.naive_bayes.GaussianNB is needed; got {estimator!r}")
        check_is_fitted(estimator)
        seen = estimator.class_count_ > 0
        weights = estimator.class_count_[seen]
        statistics = ClassStatistics.from_moments(
            estimator.classes_[seen],
            np.maximum(np.rint(weights), 1),
            estimator.theta_[seen],
            np.maximum(estimator.var_[seen] - estimator.epsilon_, 0.0) * weights[:, None],
            weights=weights,
            covariance_type="diag",
            feature_names=getattr(estimator, "feature_names_in_", None),
        )
        params = {"priors": _priors_of(estimator, seen), "var_smoothing": estimator.var_smoothing}
        model = cls.from_statistics(statistics, **params)
        if not np.isclose(model.epsilon_, estimator.epsilon_, rtol=1e-9, atol=0):  # fitted with weights
            model.var_smoothing = float(estimator.epsilon_ / model.statistics_.total_variance().max())
        return model


def _priors_of(peer: naive_bayes.GaussianNB, seen: NDArray[np.bool_]) -> Any:
    """The parameter `priors` of a peer, for the classes that it has seen."""
    if peer.priors is None or seen.all():
        return peer.priors
    priors = np.asarray(peer.priors, dtype=np.float64)[seen]
    return priors / priors.sum()
