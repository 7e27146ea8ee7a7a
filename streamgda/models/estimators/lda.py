"""Linear discriminant analysis."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn import discriminant_analysis
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval

from streamgda.data.blocks import wording
from streamgda.models.estimators import exchange
from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.discriminant import DiscriminantAnalysis
from streamgda.models.estimators.dtypes import Floats
from streamgda.models.estimators.lazy import class_labels, rows_anywhere
from streamgda.models.estimators.moment import at_one_moment, of_one_moment
from streamgda.models.estimators.priors import priors_of
from streamgda.models.estimators.reading import check_rows, one_of
from streamgda.models.estimators.scores import RowScores, score_each, score_finalised
from streamgda.models.estimators.shrinkage import (
    Shrinkage,
    class_covariances,
    class_shares,
    mean_of_classes,
    most_likely_share,
    oas,
    shrunk,
    shrunk_to_diagonal,
    total_covariance,
)
from streamgda.models.estimators.view import Predictive
from streamgda.models.gaussians.axes import Projection
from streamgda.models.gaussians.components import between_covariance, pooled_covariance
from streamgda.models.gaussians.posteriors import decisions
from streamgda.models.gaussians.products import multiply_rows
from streamgda.models.gaussians.shared import SharedGaussians
from streamgda.models.gaussians.whitening import Correlations, Whitening
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.required import Required

_COMPLETE_ROWS = "fill them in, since transform needs complete rows: "
_FITTED = ("priors_", "means_", "covariance_", "xbar_", "explained_variance_ratio_")


@dataclass(eq=False, repr=False)
class LinearDiscriminantAnalysis(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DiscriminantAnalysis[SharedGaussians]
):
    """Linear discriminant analysis: the classes are normal, with means of their own and one covariance.

    The covariance is the mean of the covariances of the classes, weighted by the shares of the classes in the
    rows, and not by the priors: Σ (N_k / N) S_k. If it is singular, the model works in its range, as by a
    pseudo-inverse, and warns.

    Parameters
    ----------
    solver : {"svd", "lsqr", "eigen"}, default="svd"
        As in `QuadraticDiscriminantAnalysis`. The projection of `transform` is centred with "svd" and not
        with "eigen"; "lsqr" has none.
    shrinkage : float in [0, 1], "auto", "oas", "bayes" or None, default=None
        As in `QuadraticDiscriminantAnalysis`, but a number and "oas" shrink the covariance S within the
        classes, of N rows. "bayes" shrinks it towards its own variances, and so correlations towards zero:
        (c D + N S) / (c + N), where D is the diagonal of S. The number c makes the rows most probable, and
        units do not matter. "auto", as in scikit-learn, shrinks the covariance of each class and pools the
        results. Its statistics are "full", with three matrices for each class.
    priors : array-like of shape (n_classes,) or dict, optional
        As in `QuadraticDiscriminantAnalysis`.
    n_components : int, optional
        The number of components of `transform`. None is the largest number, min(n_classes - 1, n_features).
        Classification does not depend on it.
    store_covariance : bool, default=False
        As in `QuadraticDiscriminantAnalysis`, with solver "svd"; the others always have it.
    tol : float, default=1e-4
        As in `QuadraticDiscriminantAnalysis`. The model works in the range of a singular covariance.
    covariance_estimator : object, optional
        As in `QuadraticDiscriminantAnalysis`, with solvers "lsqr" and "eigen". ``OAS()`` shrinks the
        covariance of each class, as in scikit-learn, and ``shrinkage="oas"`` that which they share.
    missing : {"raise", "marginal"} or Marginal, default="raise"
        As in `QuadraticDiscriminantAnalysis`. A missing category keeps its own feature of 0 and 1.
    exact : bool, default=False
        Whether to learn by exact sums, whose bits do not depend on the order or grouping of the rows; see
        `ExactClassStatistics`.
    predictive : {"plugin", "student"}, default="plugin"
        As in `QuadraticDiscriminantAnalysis`. A Student t density has N - n_classes - d + 1 degrees of
        freedom for N rows, and the decision function is then not linear.
    temperature : float, default=1.0
        Divides ln p(x, k) before it becomes a posterior probability: p(k | x) ∝ p(x, k)^(1 / temperature).
        Above 1, probabilities are less sure; the predicted classes stay. `Evaluation.best_temperature` fits
        it to rows that were not learnt. Densities, as of `score_samples`, do not depend on it.
    categories : "auto", Categorical or None, default="auto"
        As in `QuadraticDiscriminantAnalysis`. Each category becomes a feature of 0 and 1, which is named
        "column=value". With ``Categorical(model="conditional")``, the numbers have means that depend on the
        categories, and a common covariance; the model then has no coefficients and no `transform`.
    half_life : float, optional
        As in `QuadraticDiscriminantAnalysis`.

    Attributes
    ----------
    statistics_ : ClassStatistics, ExactClassStatistics or IncompleteStatistics
        What the model has learnt; of covariance type "tied", or "full" if `shrinkage` is "auto".
    classes_ : ndarray of shape (n_classes,)
        The labels seen, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the data had any.
    categories_ : dict of str to list
        The categories of each column that has them; the features are then the other columns, and a dummy for
        each category.
    priors_ : ndarray of shape (n_classes,)
        Prior probabilities.
    means_ : ndarray of shape (n_classes, n_features)
        Means of the classes.
    xbar_ : ndarray of shape (n_features,)
        Mean of the class means, weighted by the priors; with solver "svd".
    covariance_ : ndarray of shape (n_features, n_features)
        Maximum-likelihood covariance within the classes (divided by the weight of all rows), shrunk or
        estimated; with solvers "lsqr" and "eigen", or with `store_covariance`.
    shrinkage_ : float
        How far it is shrunk: the number, or the estimate for "oas" and c / (c + N) for "bayes".
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        Coefficients of the decision function.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        Its intercepts.
    scalings_ : ndarray of shape (n_features, rank) with solver "svd", (n_features, n_features) with "eigen"
        The directions of the components; the first `n_components` are those of `transform`.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The share of each component in the variance between the classes; with solvers "svd" and "eigen".
    n_iter_ : int
        The number of steps of EM that estimated means and covariances from rows with missing features; 0 if
        none was needed.
    converged_ : bool
        Whether these steps converged.
    n_reads_ : int
        How often `fit` read the rows.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.10;
    Ledoit & Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices";
    Chen, Wiesel, Eldar & Hero (2010), "Shrinkage algorithms for MMSE covariance estimation"; Greene & Rayens
    (1989), "Partially pooled covariance matrix estimation in discriminant analysis".

    Examples
    --------
    >>> from streamgda import LinearDiscriminantAnalysis
    >>> X = [[-1.0, -1.0], [-2.0, -1.0], [-3.0, -2.0], [1.0, 1.0], [2.0, 1.0], [3.0, 2.0]]
    >>> model = LinearDiscriminantAnalysis().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[-0.8, -1.0]])
    array([1])
    """

    _covariance_type: ClassVar[CovarianceType] = "tied"
    _ways_to_encode = ("features", "common")
    covariances_of = "all"
    _estimates_total = True
    _svd_without_estimator = "covariance estimator is not supported with svd solver. Try another solver"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DiscriminantAnalysis._parameter_constraints,
        "solver": [one_of("svd", "lsqr", "eigen")],
        "shrinkage": [one_of("auto", "oas", "bayes"), Interval(Real, 0, 1, closed="both"), None],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    solver: Literal["svd", "lsqr", "eigen"] = "svd"
    shrinkage: Shrinkage = None
    priors: ArrayLike | None = None
    n_components: int | None = None
    store_covariance: bool = False
    tol: float = 1e-4
    covariance_estimator: Any = None
    _: KW_ONLY
    predictive: Predictive = "plugin"

    def required_statistics(self) -> Required:
        """What the statistics of the model keep."""
        required = super().required_statistics()
        return Required("full", True, required.exact) if self.shrinkage == "auto" else required

    def _covariance(self, statistics: Statistics) -> Array:
        """The covariance within the classes, shrunk or estimated."""
        if self.covariance_estimator is not None:
            return mean_of_classes(statistics, self._estimated(statistics).within)
        if self.shrinkage == "auto":
            return mean_of_classes(statistics, class_covariances(statistics, self.shrinkage))
        pooled = pooled_covariance(statistics)
        if self.shrinkage is None:
            return pooled
        shrink = shrunk_to_diagonal if self.shrinkage == "bayes" else shrunk
        return shrink(pooled, self._share(statistics, pooled))

    def _share(self, statistics: Statistics, pooled: Array) -> float:
        """How far the pooled covariance is shrunk."""
        weight = float(statistics.weights.sum())
        if self.shrinkage == "bayes":
            return most_likely_share(pooled, statistics.means, weight)
        return oas(pooled, weight) if self.shrinkage == "oas" else self._given_share

    def _finalise(self, statistics: Statistics) -> SharedGaussians:
        most = _most_components(statistics)
        if self._learnt_whole and self.n_components is not None and self.n_components > most:
            raise ValueError(
                "n_components cannot be larger than min(n_features, n_classes - 1). "
                f"It is {self.n_components}; the largest is {most}"
            )
        if statistics.n_rows == len(statistics.classes):
            raise np.linalg.LinAlgError("The number of samples must be more than the number of classes.")
        means = statistics.means
        whitening = Whitening.of(self._covariance(statistics), means, float(self.tol) * float(self.tol))
        if not whitening.rank:
            raise np.linalg.LinAlgError(
                "no feature varies within a class, so there is no covariance to work with"
            )
        centre = priors_of(self, statistics.classes, statistics.weights) @ means
        return SharedGaussians(means, centre, whitening, mean_tails=statistics.mean_tails)

    def _mean_share(self, statistics: Statistics) -> float:
        if self.shrinkage == "auto":
            return float(np.average(class_shares(statistics, "auto"), weights=statistics.weights))
        return self._share(statistics, pooled_covariance(statistics))

    # ------------------------------------------------------------------ decisions

    @rows_anywhere(columns=class_labels)
    def decision_function(self, X: ArrayLike) -> Array:
        """``X @ coef_.T + intercept_``: the log posterior, up to a term that is the same for all classes.

        With solver "svd", rows are taken relative to `xbar_`. With the other solvers they are not, as in
        scikit-learn. With more than two classes, the result then loses digits if means are large. Rows and
        errors are as for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            For two classes, the log-odds of the second.
        """
        return self._apply(X, self._decisions)

    def _decisions(self, scores: RowScores) -> Array:
        discriminants = scores.discriminants
        gaussians = scores.gaussians
        if self.solver != "svd" and isinstance(gaussians, SharedGaussians):
            common = gaussians.common_scores(scores.rows)
            discriminants = discriminants + common / scores.finalised.temperature
        return decisions(discriminants)

    # ------------------------------------------------------------------ projecting

    @rows_anywhere(columns=lambda model: model.get_feature_names_out())
    def transform(self, X: ArrayLike) -> Floats:
        """Project rows on the directions that separate the classes best.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows without missing values, whatever the parameter `missing` is. `impute` fills in missing
            values.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Within the classes, components are uncorrelated and of unit variance. With solver "svd" rows are
            taken relative to `xbar_`, with "eigen" they are not. The type is float32 if these rows and the
            fitted rows are of float32.

        Raises
        ------
        NotImplementedError
            If the solver is "lsqr".
        ValueError
            If a value is missing or infinite, or the features are not those of the model.
        """
        is_table = hasattr(self, "statistics_") and not self.statistics_.schema.is_numeric
        numbers_first = "the numbers stand first among the columns of model.impute(X)"
        how = numbers_first if is_table else "model.transform(model.impute(X))"
        rows = check_rows(self, X, missing="raise", other_remedy=_COMPLETE_ROWS + how)
        with at_one_moment(self):
            scalings, state = self._components, finalised(self)
        centre = state.gaussians.centre
        projected = np.empty((rows.shape[0], scalings.shape[1]), dtype=self._types.of_products(rows))
        shift = centre @ scalings if self.solver == "eigen" else 0.0  # with "svd", components stay centred

        def project(scores: RowScores) -> None:
            projected[scores.positions] = multiply_rows(scores.rows, scalings, centre=centre) + shift

        score_each(project, score_finalised(state, rows, "raise"), rows.shape[0])
        return projected

    @property
    def _components(self) -> Array:
        """The directions that `transform` projects on: (n_features, n_components)."""
        return np.ascontiguousarray(self._projection.scalings[:, : self._max_components])

    @property
    def _projection(self) -> Projection:
        if self.solver == "lsqr":
            raise NotImplementedError("transform not implemented for 'lsqr' solver (use 'svd' or 'eigen').")
        self._check_unconditional("transform")
        return finalised(self).once("projection", self._project)

    def _project(self) -> Projection:
        statistics, state = self.statistics_, finalised(self).seen
        means, within = statistics.means, self._covariance(statistics)
        spectrum = Correlations.of(within, means, float(self.tol) * float(self.tol))
        if self.solver == "svd":
            return Projection.of_means(
                means - state.gaussians.centre, state.priors, spectrum, float(self.tol)
            )
        return Projection.of_covariances(self._between(statistics, within), within, spectrum)

    def _between(self, statistics: Statistics, within: Array) -> Array:
        """The covariance between the classes: the total less that within them, each shrunk or estimated."""
        if self.covariance_estimator is not None and (total := self._estimated(statistics).total) is not None:
            return total - within
        if self.shrinkage is None or self.shrinkage == "bayes":
            return between_covariance(statistics)
        share = self.shrinkage if self.shrinkage == "auto" else self.shrinkage_
        return total_covariance(statistics, share) - within

    @property
    def _max_components(self) -> int:
        return self.n_components or _most_components(self.statistics_)

    @property
    @of_one_moment
    def _n_features_out(self) -> int:
        return self._max_components if self.solver == "lsqr" else int(self._components.shape[1])

    # ------------------------------------------------------------------ fitted attributes

    @property
    @of_one_moment
    def covariance_(self) -> Array:
        """Covariance within the classes."""
        if not self.store_covariance:
            self._check_attribute("covariance_", "lsqr", "eigen", otherwise=" or store_covariance=True")
        return self._covariance(self._view(self.statistics_).numbers)

    @property
    @of_one_moment
    def shrinkage_(self) -> float:
        """How far the covariance within the classes is shrunk."""
        if self.shrinkage == "auto" or self.covariance_estimator is not None:
            raise AttributeError("there is no shrinkage_: each class has an estimate of its own")
        statistics = self._view(self.statistics_).numbers
        return self._share(statistics, pooled_covariance(statistics))

    @property
    @of_one_moment
    def scalings_(self) -> Floats:
        """The directions of the components. Those that `transform` leaves out are last."""
        self._check_attribute("scalings_", "svd", "eigen")
        return self._types.of_rows(self._projection.scalings.copy())

    @property
    @of_one_moment
    def explained_variance_ratio_(self) -> Array:
        """The share of each component in the variance between the classes."""
        self._check_attribute("explained_variance_ratio_", "svd", "eigen")
        return self._projection.explained_variance_ratio[: self._max_components].copy()

    @property
    def xbar_(self) -> Array:
        """Mean of the class means, weighted by the priors."""
        self._check_attribute("xbar_", "svd")
        return finalised(self).gaussians.centre.copy()

    @property
    def coef_(self) -> Floats:
        """Coefficients of the decision function."""
        self._check_linear("coef_")
        return self._types.of_rows(self._linear_terms[0])

    @property
    def intercept_(self) -> Floats:
        """Intercepts of the decision function."""
        self._check_linear("intercept_")
        return self._types.of_rows(self._linear_terms[1])

    @property
    @of_one_moment
    def _linear_terms(self) -> tuple[Array, Array]:
        """The coefficients and intercepts of the decision function."""
        state = finalised(self).seen
        centre, coefficients = state.gaussians.centre, state.gaussians.slopes.T
        intercepts = state.gaussians.intercepts - coefficients @ centre + state.log_priors
        if self.solver != "svd":
            pull = state.gaussians.whitening.precision @ centre
            coefficients, intercepts = coefficients + pull, intercepts - 0.5 * (centre @ pull)
        coefficients = self._among_announced(coefficients / state.temperature)
        return _between_two(coefficients), _between_two(
            self._among_announced(intercepts / state.temperature, -np.inf)
        )

    def _check_unconditional(self, name: str) -> None:
        """Raise AttributeError for an attribute that the conditional Gaussian model does not have."""
        schema = self.statistics_.schema
        if not schema.is_normal_for(self):
            raise AttributeError(f"there is no {name} of numbers given {wording.listed(schema.encoded)}")

    def _check_attribute(self, name: str, *solvers: str, otherwise: str = "") -> None:
        """Raise AttributeError for an attribute that this solver does not have, as in scikit-learn."""
        if name != "covariance_":
            self._check_unconditional(name)
        if self.solver not in solvers:
            listed = " or ".join(f"solver={solver!r}" for solver in solvers)
            raise AttributeError(
                f"{type(self).__name__} with solver={self.solver!r} has no {name}; set {listed}{otherwise}"
            )

    def _check_linear(self, attribute: str) -> None:
        """Raise AttributeError if the decision function has no coefficients."""
        self._check_unconditional(attribute)
        if self.predictive != "plugin":
            raise AttributeError(
                f"there is no {attribute} with predictive={self.predictive!r}: the decision function "
                "is then not linear"
            )

    # ------------------------------------------------------------------ exchange with scikit-learn

    @of_one_moment
    def to_sklearn(self) -> Any:
        """A fitted `sklearn.discriminant_analysis.LinearDiscriminantAnalysis` with the same predictions.

        With categories it is the last step of a `Pipeline` that takes frames, after a `ColumnTransformer`
        with a `OneHotEncoder`. A missing category is NaN there.

        It has the solver of this model, and so the same `transform`. If scikit-learn's "svd" does not take
        the shrinkage, the solver is "eigen", whose projection is not centred. scikit-learn multiplies rows
        that are not centred, so it loses digits if means are much larger than standard deviations. Its
        parameter `shrinkage` is `shrinkage_` for "oas", and None for "bayes", which it does not have.
        """
        exchange.check_plugin(self)
        if len(self.classes_) == 1:
            raise ValueError("the model knows one class, and scikit-learn's has at least two")
        shrinkage = None if self.shrinkage == "bayes" else self.shrinkage
        regularised = self.shrinkage is not None  # scikit-learn's solver "svd" does not take it
        peer = discriminant_analysis.LinearDiscriminantAnalysis(
            solver="eigen" if regularised and self.solver == "svd" else self.solver,
            shrinkage=self.shrinkage_ if shrinkage == "oas" else shrinkage,
            covariance_estimator=self.covariance_estimator,
            priors=self._priors_of_peer,
            **{name: getattr(self, name) for name in ("n_components", "store_covariance", "tol")},
        )
        peer.coef_, peer.intercept_ = self._linear_terms
        peer._max_components = self._max_components
        peer._n_features_out = self._n_features_out
        if self.solver != "lsqr":
            peer.scalings_ = self._projection.scalings.copy()
        exchange.describe(peer, self, _FITTED)
        return self.statistics_.schema.before(peer)


def _between_two(terms: Array) -> Array:
    """The terms of each class; for two classes their difference alone, as in scikit-learn."""
    return terms[1:] - terms[:1] if len(terms) == 2 else terms.copy()


def _most_components(statistics: Statistics) -> int:
    """The largest number of components."""
    return min(len(statistics.classes) - 1, statistics.n_features)
