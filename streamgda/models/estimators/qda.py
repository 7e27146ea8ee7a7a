"""Quadratic discriminant analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn import discriminant_analysis

from streamgda.models.estimators import exchange
from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.discriminant import DiscriminantAnalysis
from streamgda.models.estimators.generative import PoolingParameter, pooled_rows, pooled_shares
from streamgda.models.estimators.moment import of_one_moment
from streamgda.models.estimators.reading import one_of
from streamgda.models.estimators.scores import Finalised
from streamgda.models.estimators.shrinkage import (
    Shrinkage,
    class_covariances,
    class_shares,
    shrunk,
    with_ridge,
)
from streamgda.models.estimators.singular import whiten_classes
from streamgda.models.estimators.view import Predictive
from streamgda.models.gaussians.axes import principal_axes
from streamgda.models.gaussians.components import pooled_covariance
from streamgda.models.gaussians.densities import SeparateGaussians
from streamgda.models.gaussians.regularisation import Regularisation, relative_eigenvalues
from streamgda.models.gaussians.whitening import Singular, Whitening
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.required import Required


@dataclass(eq=False, repr=False, kw_only=True)
class QuadraticDiscriminantAnalysis(DiscriminantAnalysis[SeparateGaussians]):
    """Quadratic discriminant analysis: each class is normal, with a mean and a covariance of its own.

    Columns with categories have a table of probabilities in each class, and move the mean of the numbers: the
    conditional Gaussian model. With `pooling`, they move it alike in all classes.

    Parameters
    ----------
    solver : {"svd", "eigen"}, default="svd"
        As in scikit-learn. But all solvers compute the model from its statistics, and all take shrinkage.
        Only `covariance_estimator` needs "eigen".
    shrinkage : float in [0, 1], "auto", "oas" or None, default=None
        How far to shrink the covariance of each class towards its mean variance times the identity: 0 is not
        at all, 1 completely. "auto" is the estimate of Ledoit & Wolf (2004) for the features of each class at
        unit variance; the statistics then hold fourth moments, and cannot be `exact`. "oas" is the estimate
        of Chen et al. (2010). Both use the sum of the weights of a class as its number of rows; see `fit`.
    priors : array-like of shape (n_classes,) or dict, optional
        Prior probabilities, in the order of `classes_` or by label. Labels may be of classes that have not
        appeared yet. If None, the shares of the classes. If they do not sum to 1, they are scaled, with a
        warning.
    reg_param : float in [0, 1], default=0.0
        After shrinkage, each covariance S is replaced by (1 - reg_param) S + reg_param I.
    store_covariance : bool, default=False
        Whether there is an attribute `covariance_`. It is computed from the statistics when it is read.
    tol : float, default=1e-4
        A regularised covariance is singular if its correlation matrix has an eigenvalue of at most the square
        of `tol`; see the parameter `singular`. So the units of the features do not matter.
    covariance_estimator : object, optional
        Estimates the covariance of each class with solver "eigen", in place of `shrinkage`. It has a method
        `fit`, which sets an attribute `covariance_`, as the estimators of `sklearn.covariance` do. It needs
        rows, so it works only with `fit` on arrays and data frames, without `sample_weight`.
    missing : {"raise", "marginal"} or Marginal, default="raise"
        How to predict a row with NaN. "raise" is an error. "marginal" uses the marginal density of the
        observed features, which is exact for Gaussians. The posterior of a row in which all features are NaN
        is the prior. With "marginal", the model also learns from rows with NaN, by the likelihood of the
        observed values. This assumes that features are missing at random: whether a value is missing may
        depend on observed values, and not on the value itself. A row in which all features are NaN counts
        only for the prior. `Marginal` says how often the rows may be read, and more.
        A missing text is no error. With "raise" it is a category of its own. With "marginal" the category of
        the row is unknown, and the density is summed over the categories of its column. This may also be set
        after fitting, since densities are made from the statistics when they are needed.
    singular : {"raise", "skip"} or None, default=None
        How to treat a class whose covariance is singular, such as one with fewer rows than features.
        "raise" is an error. "skip" gives the class a posterior of 0, and warns once with its name and what
        it lacks. None raises in `fit` and `from_statistics`, and skips after `partial_fit` and `merge`,
        since a class may appear with a single row there.
    exact : bool, default=False
        Whether to learn by exact sums, whose bits do not depend on the order or grouping of the rows; see
        `ExactClassStatistics`.
    pooling : float in [0, 1], "bayes" or None, default=None
        How far the covariance of each class is moved towards the pooled covariance within the classes, that
        of LDA. A number λ is that of Friedman (1989): ((1 - λ) W_k + λ W) / ((1 - λ) n_k + λ N), where W_k is
        the scatter of a class, n_k its weight, and W and N are their sums. 0 is no pooling, 1 is LDA. "bayes"
        counts the pooled covariance as c rows beside those of a class, so classes of few rows are moved most:
        (c W / N + W_k) / (c + n_k - 1). The number c makes the scatters most probable; it is computed from
        the statistics. Classes that vary in fewer directions than their rows could span, as no normal class
        does, are not used for c. If they hold most of the rows, all classes get the pooled covariance. A
        class of one row always gets it, and a class of weight below 1 counts as one row. A singular pooled
        covariance is treated as in LDA. Pooling comes before `shrinkage`, which must then be a number or
        None. Together they are Friedman's regularised discriminant analysis.
    predictive : {"plugin", "student"}, default="plugin"
        The density by which rows are scored. "plugin" is the normal density with the means and covariances
        estimated. "student" takes into account that they are estimated: a Student t density, wider for
        classes of few rows. Without pooling it has n_k - d degrees of freedom for d features (Jeffreys'
        prior). A class without degrees of freedom is treated as one with a singular covariance.
    temperature : float, default=1.0
        Divides ln p(x, k) before it becomes a posterior probability: p(k | x) ∝ p(x, k)^(1 / temperature).
        Above 1, probabilities are less sure; the predicted classes stay. `Evaluation.best_temperature` fits
        it to rows that were not learnt. Densities, as of `score_samples`, do not depend on it.
    categories : "auto", Categorical or None, default="auto"
        Which columns of a frame have categories, and what the model makes of them; see `Categorical`. "auto"
        takes the columns of strings, dictionaries and categoricals. A missing value is a category of its own.
        A category that no learnt row has counts as none, with a warning. If None, all columns are numbers. A
        source says itself which of its columns have categories.
    half_life : float, optional
        After how many further rows that `partial_fit` learns a row counts half as much; or after which time,
        if `time` is given there. All rows of a batch are of one age, and `fit` learns one batch.

    Attributes
    ----------
    statistics_ : ClassStatistics, ExactClassStatistics or IncompleteStatistics
        What the model has learnt; of covariance type "full".
    classes_ : ndarray of shape (n_classes,)
        The labels seen, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the data had any.
    priors_ : ndarray of shape (n_classes,)
        Prior probabilities.
    means_ : ndarray of shape (n_classes, n_features)
        Means of the classes.
    covariance_ : list of n_classes ndarrays of shape (n_features, n_features)
        Maximum-likelihood covariances of the classes (divided by the weight of the class), shrunk or
        estimated, and regularised; with `store_covariance`.
    categories_ : dict of str to list
        The categories of each column that has them.
    category_log_prob_ : dict of str to ndarray of shape (n_classes, n_categories)
        ln p(v | k) of the categories of each column; NaN for a missing one that is no category.
    pooling_ : ndarray of shape (n_classes,)
        The share of the pooled covariance in that of each class.
    prior_rows_ : float
        How many rows the pooled covariance counts for: c for "bayes", λ N / (1 - λ) for a number.
    rotations_ : list of n_classes ndarrays of shape (n_features, n_features)
        The principal axes of each class as columns, in descending order of variance. The largest element of
        an axis is positive.
    scalings_ : list of n_classes ndarrays of shape (n_features,)
        The variances along the principal axes.
    n_iter_ : int
        The number of steps of EM that estimated means and covariances from rows with missing features; 0 if
        none was needed.
    converged_ : bool
        Whether these steps converged.
    n_reads_ : int
        How often `fit` read the rows.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.12;
    Friedman (1989), "Regularized discriminant analysis"; Greene & Rayens (1989), "Partially pooled covariance
    matrix estimation in discriminant analysis"; Geisser (1964), "Posterior odds for multivariate normal
    classifications"; Ledoit & Wolf (2004), "A well-conditioned estimator for large-dimensional covariance
    matrices"; Chen, Wiesel, Eldar & Hero (2010), "Shrinkage algorithms for MMSE covariance estimation".

    Examples
    --------
    >>> from streamgda import QuadraticDiscriminantAnalysis
    >>> X = [[0.0, 0.1], [0.2, -0.1], [-0.1, 0.0], [3.0, 3.0], [-3.0, 2.0], [1.0, -4.0]]
    >>> model = QuadraticDiscriminantAnalysis().fit(X, [0, 0, 0, 1, 1, 1])
    >>> model.predict([[0.05, 0.0], [2.0, 2.0]])
    array([0, 1])
    """

    _covariance_type: ClassVar[CovarianceType] = "full"
    covariances_of = "class"
    _svd_without_estimator = (
        "covariance_estimator is not supported with solver='svd'. Try solver='eigen' instead."
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DiscriminantAnalysis._parameter_constraints,
        "solver": [one_of("svd", "eigen")],
    }

    solver: Literal["svd", "eigen"] = "svd"
    shrinkage: Shrinkage = None
    priors: ArrayLike | None = None
    reg_param: float = 0.0
    store_covariance: bool = False
    tol: float = 1e-4
    covariance_estimator: Any = None
    singular: Literal["raise", "skip"] | None = None
    pooling: PoolingParameter = None
    predictive: Predictive = "plugin"

    @property
    def _ways_to_encode(self) -> tuple[str, ...]:
        return ("common",) if self.pooling else ("separate",)

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.pooling and self.covariance_estimator is not None:
            raise ValueError("covariance_estimator and pooling are both given; set one of them to None")
        if self.pooling and isinstance(self.shrinkage, str):
            raise ValueError(
                f"shrinkage={self.shrinkage!r} estimates how far each class is shrunk without pooling; "
                f"with pooling={self.pooling!r}, set shrinkage to a number or to None"
            )

    def required_statistics(self) -> Required:
        """What the statistics of the model keep."""
        return replace(super().required_statistics(), fourth_moments=self.shrinkage == "auto")

    def _covariances(self, statistics: Statistics) -> Array:
        """The covariances of the classes, shrunk or estimated, and regularised."""
        if self.covariance_estimator is not None:
            covariances = self._estimated(statistics).within.copy()
        elif self.shrinkage is not None:
            covariances = class_covariances(statistics, self.shrinkage)
        else:
            covariances = statistics.covariance()
        return with_ridge(covariances, self.reg_param) if self.reg_param else covariances

    def _finalise(self, statistics: Statistics) -> SeparateGaussians:
        if self.pooling:
            return self._finalise_regularised(statistics.moments_for())
        whitenings = self._unchanged(statistics)
        changed = np.array([k for k, whitening in enumerate(whitenings) if whitening is None], dtype=np.intp)
        some = statistics if len(changed) == len(whitenings) else statistics.of_classes(changed)
        is_shrunk = bool(self.shrinkage or self.reg_param or self.covariance_estimator is not None)
        least, covariances = float(self.tol) * float(self.tol), self._covariances(some)
        whitened = whiten_classes(some, covariances, least, is_shrunk=is_shrunk, solver=self.solver)
        reasons = [whitening.reason for whitening in whitened if isinstance(whitening, Singular)]
        if reasons and (self.singular == "raise" or len(reasons) == len(whitenings)):
            raise reasons[0]()
        for k, whitening in zip(changed, whitened, strict=True):
            whitenings[k] = whitening
        means = statistics.means
        means[np.isnan(means)] = 0.0  # of a class without moments, on whose mean nothing depends
        return SeparateGaussians(means, whitenings, mean_tails=np.nan_to_num(statistics.mean_tails))

    def _unchanged(self, statistics: Statistics) -> list[Any]:
        """The whitening of each class with the rows of the last densities; None for any other class.

        The reason of a singular one names the features of its rows by a state of then, so it is made anew.
        """
        last: Finalised[Any] | None = self.__dict__.get("_cache")
        made: dict[tuple[Any, int], Whitening] = {}
        can_stay = not self.exact and self.covariance_estimator is None
        if last and can_stay and isinstance(last.gaussians, SeparateGaussians):
            keys = zip(last.seen.classes.tolist(), last.changes.tolist(), strict=True)
            whitenings = zip(keys, last.gaussians.whitenings, strict=True)
            made = {key: whitening for key, whitening in whitenings if not isinstance(whitening, Singular)}
        return [*map(made.get, zip(statistics.classes.tolist(), statistics.changes.tolist(), strict=True))]

    def _finalise_regularised(self, statistics: Statistics) -> SeparateGaussians:
        """The densities with pooling. If the pooled covariance is singular, they are those of its range."""
        means, within = statistics.means, pooled_covariance(statistics)
        least = float(self.tol) * float(self.tol)
        common = plain = Whitening.of(within, means, least)
        if self.shrinkage or self.reg_param:
            common = Whitening.of(self._shrunk(within), means, least)
        if not common.rank:
            raise np.linalg.LinAlgError(
                "no feature varies within a class, so there is no covariance to work with"
            )
        scatter = statistics.scatter
        if self.pooling == "bayes":
            eigenvalues = relative_eigenvalues(scatter, plain.matrix)
            regularisation = Regularisation.by_evidence(statistics.weights, eigenvalues)
        else:
            share = float(self.pooling or 0.0)
            regularisation = Regularisation.by_share(share, statistics.weights, common.rank)
        covariances = self._shrunk(regularisation.covariances(scatter, within))
        whitenings, mean_tails = list(map(common.of_same_range, covariances)), statistics.mean_tails
        return SeparateGaussians(
            means, whitenings, regularisation=regularisation, common=common, mean_tails=mean_tails
        )

    @property
    def needs_all_classes(self) -> bool:
        """Whether the model needs the moments of every class; else `singular` decides about a class."""
        return bool(self.pooling)

    def _shrunk(self, covariances: Array) -> Array:
        """Covariances (..., d, d), shrunk by a number and regularised."""
        share = self._given_share
        covariances = shrunk(covariances, share) if share else covariances.copy()
        return with_ridge(covariances, self.reg_param) if self.reg_param else covariances

    def _mean_share(self, statistics: Statistics) -> float:
        return float(class_shares(statistics, self.shrinkage).mean())

    def _n_covariance_parameters(self, gaussians: Any, statistics: Statistics) -> float:
        return (1 - self.reg_param) * super()._n_covariance_parameters(gaussians, statistics)

    # ------------------------------------------------------------------ fitted attributes

    pooling_ = property(pooled_shares)
    prior_rows_ = property(pooled_rows)

    @property
    @of_one_moment
    def covariance_(self) -> list[Array]:
        """Covariances of the classes."""
        if not self.store_covariance:
            raise AttributeError(f"{type(self).__name__} has covariance_ with store_covariance=True alone")
        return self._for_all(self._final_covariances(), np.eye)

    def _final_covariances(self) -> list[Array]:
        """The covariances of the densities."""
        if self.pooling or not self.statistics_.schema.is_normal_for(self):
            return [whitening.covariance.copy() for whitening in finalised(self).gaussians.whitenings]
        return list(self._covariances(self.statistics_))

    def _for_all(self, values: list[Array], unit: Callable[[int], Array]) -> list[Array]:
        """An array for each class. A class of which no row has come has the covariance 1."""
        return list(self._among_announced(np.array(values), unit(len(values[0]))))

    @property
    @of_one_moment
    def rotations_(self) -> list[Array]:
        """The principal axes of each class as columns, in descending order of variance."""
        return self._for_all([vectors for _, vectors in self._axes], np.eye)

    @property
    @of_one_moment
    def scalings_(self) -> list[Array]:
        """The variances of each class along its principal axes."""
        return self._for_all([values for values, _ in self._axes], np.ones)

    @property
    def _axes(self) -> list[tuple[Array, Array]]:
        return finalised(self).once("axes", lambda: list(map(principal_axes, self._final_covariances())))

    # ------------------------------------------------------------------ exchange with scikit-learn

    @of_one_moment
    def to_sklearn(self) -> discriminant_analysis.QuadraticDiscriminantAnalysis:
        """A fitted `sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis` with the same predictions.

        scikit-learn computes along the principal axes of the covariances. It loses digits there if the
        features have very different units.
        """
        exchange.check_has_peer(self)
        if singular := finalised(self).singular:
            raise singular[0][1]()
        if (finalised(self).gaussians.ranks < self.n_features_in_).any():
            raise ValueError("the pooled covariance is singular, of which scikit-learn's QDA has no density")
        peer = discriminant_analysis.QuadraticDiscriminantAnalysis()
        params = {
            "solver": "eigen" if self.shrinkage is not None else self.solver,
            **exchange.shrinkage_for_peer(self.shrinkage, self.covariance_estimator),
            "priors": self._priors_of_peer,
            **{name: getattr(self, name) for name in ("reg_param", "store_covariance", "tol")},
        }
        # Before 1.8, that of scikit-learn has no solvers and no shrinkage. Its predictions use neither.
        peer.set_params(**{name: params[name] for name in params.keys() & peer.get_params().keys()})
        return exchange.describe(peer, self, ("priors_", "means_", "covariance_", "rotations_", "scalings_"))
