"""Methods of generative classifiers: samples, imputation, outliers, boundaries and criteria.

`pooled_shares` and `pooled_rows` are attributes of those with the parameter `pooling`.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from streamgda.data.blocks.labels import Labels, position_of, positions_among
from streamgda.data.sources.base import Source
from streamgda.data.sources.computed import ComputedColumns
from streamgda.data.sources.maps.rows import steps_of_maps
from streamgda.models.estimators.classifier import GaussianClassifier, finalised, score_rows
from streamgda.models.estimators.contributions import contributions, in_output_of
from streamgda.models.estimators.lazy import class_labels, feature_names, rows_anywhere
from streamgda.models.estimators.libraries import in_numpy
from streamgda.models.estimators.likelihood import bayesian_criterion, joint_log_likelihood
from streamgda.models.estimators.moment import at_one_moment, of_one_moment
from streamgda.models.estimators.pipeline import ModelPipeline
from streamgda.models.estimators.reading import check_rows
from streamgda.models.estimators.scores import Finalised, G, RowScores, score_each, score_finalised
from streamgda.models.estimators.sql import select_of
from streamgda.models.estimators.traps import warn_of_traps
from streamgda.models.gaussians.base import Gaussians
from streamgda.models.gaussians.boundaries import QuadraticBoundary
from streamgda.models.gaussians.posteriors import posteriors
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, kind_named
from streamgda.statistics.missing import MissingRows

PoolingParameter = float | Literal["bayes"] | None
"""The parameter `pooling`: how much the pooled covariance counts in those of the classes; 0 is as None."""


class GenerativeClassifier(GaussianClassifier[G]):
    """A classifier with methods that use the densities p(x | k) for more than classification."""

    _of_one_class: ClassVar[dict[str, Any]] = {"priors": None}
    """Parameters of a model of all rows as of one class."""
    covariances_of: ClassVar[Literal["class", "all"] | None] = None
    """The rows by which covariances of features are estimated; None if there are no such covariances."""

    def _warn_of_traps(self, state: Finalised[G]) -> None:
        warn_of_traps(self, state)

    # ------------------------------------------------------------------ sampling and imputation

    def sample(
        self, n_samples: int = 1, label: Any = None, random_state: int | np.random.RandomState | None = None
    ) -> tuple[Array, Labels]:
        """Draw random rows from the model.

        Parameters
        ----------
        n_samples : int, default=1
            The number of rows.
        label : label, optional
            The class of all the rows. If None, the class of each row is drawn from the priors.
        random_state : int, RandomState or None, default=None
            The generator of random numbers, or its seed. The same seed gives the same rows.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows. Of a model with categories, their columns are those of ``statistics_.feature_names``.
        y : ndarray of shape (n_samples,)
            Their classes.

        Raises
        ------
        ValueError
            If `n_samples` is below 1, or `label` is none of the classes.

        Examples
        --------
        >>> from streamgda import GaussianNB
        >>> model = GaussianNB().fit([[0.0], [1.0], [5.0], [7.0]], ["low", "low", "high", "high"])
        >>> X, y = model.sample(3, "low", random_state=0)
        >>> X.shape, y.tolist()
        ((3, 1), ['low', 'low', 'low'])
        """
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        every, random = finalised(self), check_random_state(random_state)
        state = every.seen
        if label is None:
            priors = posteriors(state.log_priors[None, :])[0]  # sum to 1; 0 for a class not estimated
            codes = random.choice(len(priors), size=n_samples, p=priors)
        else:
            position_of(label, every.classes)  # raises if there is no such class
            if label not in state.classes.tolist():
                raise ValueError("no row of this class has come, so none can be drawn from it")
            codes = np.full(n_samples, position_of(label, state.classes))
        X = np.empty((len(codes), self.statistics_.n_features))
        for k in np.unique(codes):
            positions = np.flatnonzero(codes == k)
            X[positions] = state.densities.sample(k, len(positions), random)
        labels = state.classes.astype(every.classes.dtype)
        return X, self._types.of_labels(labels)[codes]

    @rows_anywhere(columns=feature_names)
    def impute(self, X: ArrayLike) -> Array:
        """Replace missing values by their mean given the observed values.

        Within a class, this is the linear regression of the missing features on the observed ones. The
        classes are weighted by their posteriors given the observed features:
        Σ_k p(k | x) E[missing | observed, k]. Under the model, no other value has a smaller mean squared
        error. Imputed values vary less than observed ones.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame
            Rows. NaN marks a missing value, whatever the parameter `missing` is.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            The rows, with observed values unchanged. A row in which all features are NaN becomes the mean of
            the class means, weighted by the priors. Of a model with categories, the columns are the numbers
            and then the features of 0 and 1, as ``statistics_.feature_names`` has them.

        Raises
        ------
        ValueError
            If a value is infinite, or a row is so far from all classes that its squared distances exceed
            float64.

        References
        ----------
        Anderson (2003), "An Introduction to Multivariate Statistical Analysis", theorem 2.5.1;
        Ghahramani & Jordan (1994), "Supervised learning from incomplete data via an EM approach".

        Examples
        --------
        >>> from streamgda import LinearDiscriminantAnalysis
        >>> X = [[0, 0], [1, 1], [2, 3], [10, 0], [11, 2], [12, 2]]
        >>> model = LinearDiscriminantAnalysis().fit(X, [0, 0, 0, 1, 1, 1])
        >>> model.impute([[2, float("nan")], [float("nan"), 1]]).round(2)
        array([[2.  , 2.58],
               [5.77, 1.  ]])
        """
        rows = check_rows(self, X, missing="marginal", accept_sparse=False)
        completed: Array = rows.astype(np.float64)

        def fill(scores: RowScores) -> None:
            if isinstance(scores.positions, slice) or scores.rows.shape[1] == rows.shape[1]:
                return  # nothing is missing
            missing = np.isnan(rows[scores.positions[0]])
            with np.errstate(over="ignore", invalid="ignore"):
                state, shares = scores.finalised, scores.finalised.of_seen(scores.probabilities)
                means = state.densities.conditional_mean(~missing, scores.gaussians, scores.rows, shares)
            completed[np.ix_(scores.positions, np.flatnonzero(missing))] = means

        score_each(fill, score_rows(self, rows, missing="marginal"), len(rows))
        return completed

    # ------------------------------------------------------------------ outliers

    def mahalanobis(self, X: Any, y: ArrayLike | None = None, *, relative: bool = False) -> Array:
        """The Mahalanobis distance of rows from the mean of each class, √((x − μ)ᵀ Σ⁻¹ (x − μ)).

        If the covariance of LDA is singular, the distance is measured in its range. With
        missing="marginal", it is measured in the observed features. With predictive="student", Σ is the
        shape matrix of the Student t density. Beyond 1.3 × 10¹⁵⁴ a distance is infinite, since float64 does
        not hold its square.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame
            Rows, as for `predict`; in memory if `y` is given.
        y : array-like of shape (n_rows,), optional
            A class for each row, such as the position of a pixel. The distances from the others are then not
            computed.
        relative : bool, default=False
            Whether to return squared distances less the squared distance from the mean of all rows learnt, by
            their total covariance: that of a model of one class with the same parameters. A row is an
            outlier if the least of them, ``model.mahalanobis(X, relative=True).min(axis=1)``, is large.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) if `y` is given
            Distances, in the order of `classes_`; with `relative`, differences of squared ones.

        Raises
        ------
        ValueError
            If a label is none of the classes, or rows are not as for `predict`.

        References
        ----------
        Mahalanobis (1936), "On the generalised distance in statistics"; Ren, Fort, Liu, Roy, Padhy &
        Lakshminarayanan (2021), "A simple fix to Mahalanobis distance for improving near-OOD detection".

        Examples
        --------
        >>> from streamgda import GaussianNB
        >>> model = GaussianNB(var_smoothing=0).fit([[0.0], [2.0], [6.0], [10.0]], [0, 0, 1, 1])
        >>> model.mahalanobis([[3.0]])
        array([[2. , 2.5]])
        >>> model.mahalanobis([[3.0]], [1])
        array([2.5])
        """

        # `rows_anywhere` finds what answers an array on a device by the name of this function.
        def mahalanobis(model: Self, X: Any, relative: bool) -> Array:
            rows = check_rows(model, X)
            with at_one_moment(model):
                state = finalised(model)
                every = state.once("of one class", model._as_one_class) if relative else None
            codes = None if y is None else positions_among(in_numpy(y), state.classes)
            check_consistent_length(rows, codes)
            squared = _squared_distances(state, rows, model.missing, codes)
            if every is None:
                return np.sqrt(squared, out=squared)
            total = _squared_distances(every, rows, model.missing)
            with np.errstate(invalid="ignore"):  # NaN if both are infinite
                squared -= total if codes is None else total[:, 0]
            return squared

        own = mahalanobis if y is not None else rows_anywhere(class_labels)(mahalanobis)
        return own(self, X, relative=relative)

    def _as_one_class(self) -> Finalised[G]:
        """The density of all rows as of one class, by the parameters of this model."""
        params = {**self.get_params(deep=False), **self._of_one_class}
        if params.get("pooling"):
            params["pooling"] = 1.0
        model = type(self)(**params)
        statistics = self.statistics_.as_one_class()
        return model._compute_finalised(model._narrowed(statistics).simplest())

    @rows_anywhere(columns=class_labels)
    def p_values(self, X: ArrayLike) -> Array:
        """The probability that a row of a class is at least as far from the class mean as each row of X.

        Squared Mahalanobis distances are compared with the χ² distribution. Its degrees of freedom are the
        rank of the covariance, which is at most the number of observed features. Means and covariances count
        as known, so p-values are too small if the model has learnt from few rows. With predictive="student",
        the squared distance, divided by the rank, is compared with the F distribution. Such p-values are not
        too small, unless a class of few rows is pooled with classes that differ from it. Shrinkage makes
        p-values too large. For naive Bayes, the deviation of each feature is first replaced by the normal one
        of the same p-value. A row is an outlier at level α if it is one for every class:
        ``model.p_values(X).max(axis=1) < α``. Rows are as for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            p-values in [0, 1], in the order of `classes_`.

        References
        ----------
        McLachlan (1992), "Discriminant Analysis and Statistical Pattern Recognition", section 6.4.

        Examples
        --------
        >>> from streamgda import GaussianNB
        >>> model = GaussianNB(var_smoothing=0).fit([[0.0], [2.0], [6.0], [10.0]], [0, 0, 1, 1])
        >>> model.p_values([[3.0]]).round(3)
        array([[0.046, 0.012]])
        """
        return self._apply(X, lambda scores: scores.tail_probabilities)

    # ------------------------------------------------------------------ boundaries

    def contributions(self, X: Any, label: Any = None, against: Any = None) -> tuple[Any, Any]:
        """What each feature contributes to the log-odds of two classes: why a row is predicted so.

        These are interventional Shapley values over all rows that the model has learnt, computed exactly
        from its statistics. Those of a row and its base value add up to ln p(label | x) − ln p(against | x).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, as for `predict`. Those of sparse rows are dense, since zeros contribute too.
        label : label, optional
            One of the classes. By default the predicted class of each row.
        against : label, optional
            Another class. By default the most likely of the others.

        Returns
        -------
        values : ndarray of shape (n_rows, n_features)
            The contributions, in the order of `feature_names_in_`. A column of categories is one feature;
            those of the places of a list add up to that of the list. A data frame after `set_output`.
        base : ndarray of shape (n_rows,)
            The mean of the log-odds over all rows learnt.

        Raises
        ------
        ValueError
            If the log-odds are no quadratic function of the features: of mixtures, Student t densities,
            mapped or incomplete rows, and of unknown categories on which numbers depend.

        References
        ----------
        Lundberg & Lee (2017), "A unified approach to interpreting model predictions", NIPS; Janzing, Minorics
        & Bloebaum (2020), "Feature relevance quantification in explainable AI: a causal problem", AISTATS.

        Examples
        --------
        >>> from streamgda import LinearDiscriminantAnalysis
        >>> model = LinearDiscriminantAnalysis().fit([[0, 1], [2, 0], [4, 0], [6, 1]], [0, 0, 1, 1])
        >>> values, base = model.contributions([[5, 1]], label=1, against=0)
        >>> values.round(2), base.round(2)
        (array([[8., 0.]]), array([0.]))
        """
        packed = contributions(self, X, label=label, against=against)
        if hasattr(packed, "columns"):
            return packed[list(packed.columns[:-1])], packed[packed.columns[-1]]
        return in_output_of(self, X, packed[:, :-1]), packed[:, -1]

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Choose what tables `contributions`, and `transform` if there is one, return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            Arrays of NumPy, data frames of pandas or of Polars. None changes nothing.

        Returns
        -------
        self : object
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def boundary(self, i: Any, j: Any) -> QuadraticBoundary:
        """The surface between two classes, xᵀ A x + bᵀ x + c = 0, priors included.

        Its value for a row is twice the log-odds of class i against class j, at a temperature of 1: above
        zero, class i is the more likely of the two. So it has the sign of the difference of their columns in
        `decision_function`. If there are two classes, ``boundary(*classes_[::-1])`` has the sign of
        `decision_function` itself.

        Parameters
        ----------
        i, j : label
            Two of the classes.

        Returns
        -------
        QuadraticBoundary
            With `A` = Σ_j⁻¹ − Σ_i⁻¹ (zero for LDA, diagonal for naive Bayes), `b` and `c`. Called with rows,
            it returns the value of each.

        Raises
        ------
        ValueError
            If i and j are not two of the classes, rows do not determine the density of one, or both have a
            prior of zero; or if the classes are not normal, but mixtures, Student t or with tables of
            categories.

        Examples
        --------
        >>> from streamgda import QuadraticDiscriminantAnalysis
        >>> model = QuadraticDiscriminantAnalysis().fit([[-1.0], [1.0], [2.0], [6.0]], [0, 0, 1, 1])
        >>> boundary = model.boundary(1, 0)
        >>> boundary.A
        array([[0.75]])
        >>> boundary([[0.0], [4.0]]).round(2)
        array([-5.39, 14.61])
        """
        state = finalised(self).seen
        if state.gaussians.why_none is not None:
            raise state.gaussians.why_none()
        if not isinstance(state.densities, Gaussians):
            raise ValueError(
                "the surface between classes that are not normal is no quadric; predict_log_proba gives the "
                "log-odds of rows"
            )
        first, second = position_of(i, state.classes), position_of(j, state.classes)
        if first == second:
            raise ValueError(f"a boundary lies between two classes; got {i!r} twice")
        for reason in map(state.densities.singular.get, (first, second)):
            if reason is not None:
                raise reason()
        if np.isneginf(state.log_priors[[first, second]]).all():
            raise ValueError(f"classes {i!r} and {j!r} both have a prior of zero, so neither is the likelier")
        return QuadraticBoundary.between(state.gaussians, state.log_priors, first, second)

    # ------------------------------------------------------------------ other systems

    @of_one_moment
    def to_sql(self, table: str, dialect: str = "duckdb", keep: Iterable[str] = ()) -> str:
        """One SELECT that predicts the rows of a table in a database.

        Its columns are those to keep, ``label``, and ``probability_`` and the label for each class. They are
        NULL in a row where a number is NULL, NaN, infinite or so large that scores exceed float64, or, in the
        conditional Gaussian model, where a category was not learnt. Probabilities differ from those of
        `predict_proba` by the rounding of the database. Columns of dates are cast to days: DATE, TIMESTAMP
        and text by ISO 8601. Dates without a time zone are in UTC, whatever the zone of the session is. Times
        of day and durations are to be days: in a view, by ``EXTRACT(EPOCH FROM a) / 86400`` or the like.
        Categories are compared as the collation of their column says: where 'a' and 'A' are equal, as by
        default in MariaDB and SQL Server, they are one. PostgreSQL takes no BOOLEAN for a number: cast it in
        a view.

        Parameters
        ----------
        table : str
            The name of the table or view. Dots separate it from its schema. Its columns have the names of the
            features, upper and lower case included. If the model has learnt lists, the table has such columns
            too: arrays, in SQLite as texts of JSON.
        dialect : str, default="duckdb"
            The language of the database: "duckdb", "postgres", "bigquery", "snowflake", "spark", "sqlite",
            "mysql" (as of MariaDB, whose TIMESTAMP is read in the zone of the session), "datafusion" or
            "clickhouse" (whose setting max_query_size is to allow statements of more than 256 kB). Those of
            BigQuery and Snowflake have not been run.
        keep : iterable of str, default=()
            Columns of the table to keep, such as a key. Their names are none of the result.

        Returns
        -------
        str

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the model has learnt no rows.
        ValueError
            If the model has no names of features, ``missing="marginal"``, ``predictive="student"``, or more
            than 20,000 coefficients, as databases refuse longer statements.

        Examples
        --------
        >>> import duckdb
        >>> import pandas as pd
        >>> from streamgda import GaussianNB
        >>> X = pd.DataFrame({"height": [0.0, 2.0, 6.0, 10.0]})
        >>> model = GaussianNB().fit(X, ["low", "low", "high", "high"])
        >>> duckdb.sql(model.to_sql("X", keep=["height"])).fetchall()[0][:2]
        (0.0, 'low')
        """
        return select_of(self, table, dialect, keep)

    def as_pipeline(self, source: Source) -> ModelPipeline:
        """What a source computes, its maps and this model, as a fitted pipeline of scikit-learn.

        Parameters
        ----------
        source : Source
            What the model has learnt, made by `with_columns` and `map`.

        Returns
        -------
        sklearn.pipeline.Pipeline
            The steps "columns", if features are computed by `with_columns`; if there are maps, "rows", which
            makes of rows what the pass makes, "map", and "map_2" and so on; and "model". It predicts rows
            with the columns that are stored: frames, tables and dicts, in which dates may be text. Without
            computed features and maps, a frame has these alone, in order, as scikit-learn asks. `evaluate`,
            `predict_dataset` and the command line take it too. Its `save` is that of the model, and `load`
            loads it, unless there are maps: pickle, joblib and skops save these. Then its model has no names
            of features, since transformers answer with arrays, and dicts leave out no key. A filter chose
            rows to learn, and is no step.

        Raises
        ------
        ValueError
            If the features of the source are not those of the model.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from sklearn.preprocessing import PolynomialFeatures
        >>> from streamgda import GaussianNB, scan_arrow
        >>> table = pa.table({"x": [-3.0, -2.0, 1.0, -1.0, 3.0, 2.0], "kind": [1, 1, 0, 0, 1, 1]})
        >>> source = scan_arrow(table, "kind").map(PolynomialFeatures(include_bias=False).fit([[0.0]]))
        >>> pipeline = GaussianNB().fit(source).as_pipeline(source)
        >>> pipeline.predict(table.select(["x"]).to_pandas())
        array([1, 1, 0, 0, 1, 1])
        """
        check_is_fitted(self)
        names = tuple(getattr(self, "feature_names_in_", ())) or None
        if not source.maps and names is not None:  # numbers come first in the names of a model
            source = source.in_order_of(names)
        if source.n_features not in {None, self.n_features_in_} or names != source.feature_names:
            raise ValueError(f"the model has learnt other features than those of {source!r}")
        model = copy(self)
        if source.maps:
            model.__dict__.pop("feature_names_in_", None)
        stored = source.before_maps
        steps: list[Any] = []
        if stored.computed:
            steps.append(("columns", ComputedColumns.of(stored.feature_names or (), stored.computed)))
        steps += steps_of_maps(source)
        return ModelPipeline([*steps, ("model", model)])

    # ------------------------------------------------------------------ criteria

    @property
    @of_one_moment
    def log_likelihood_(self) -> float:
        """Σ ln p(x, k) of the rows learnt and their classes k, under the normal densities of the model.

        Rows count by their weights. The value does not depend on `predictive`. It is −∞ if rows belong to a
        class that cannot be estimated.

        References
        ----------
        Celeux & Govaert (1995), "Gaussian parsimonious clustering models", Pattern Recognition 28.

        Examples
        --------
        >>> from streamgda import QuadraticDiscriminantAnalysis
        >>> model = QuadraticDiscriminantAnalysis().fit([[-1.0], [1.0], [2.0], [6.0]], [0, 0, 1, 1])
        >>> round(model.log_likelihood_, 6), model.n_parameters_
        (-9.834637, 5.0)
        """
        state, view = finalised(self), self._view(self.statistics_)
        return joint_log_likelihood(state, view.numbers) + view.log_likelihood_beside(state.gaussians)

    @property
    @of_one_moment
    def n_parameters_(self) -> float:
        """The number of free parameters: means, covariances and, unless `priors` are given, shares.

        Pooled or shrunk covariances count in part: by the trace of the linear map from the covariances of the
        rows to those of the model.

        References
        ----------
        Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", section 7.6.
        """
        return self._n_parameters(finalised(self).gaussians, self.statistics_)

    def _n_parameters(self, gaussians: Gaussians, statistics: Statistics) -> float:
        """The number of free parameters of normal densities that are computed from these statistics."""
        view, n_means = self._view(statistics), len(statistics.classes)
        n_shares = n_means - (1 if self.priors is None else len(view.labels))
        n_of_covariances = self._n_covariance_parameters(gaussians, view.numbers)
        return float(n_means * view.numbers.n_features + view.n_parameters + n_of_covariances + n_shares)

    def _n_covariance_parameters(self, gaussians: Any, statistics: Statistics) -> float:
        """The number of free parameters of the covariances."""
        n_pairs = kind_named(self._covariance_type).n_pairs(statistics.n_features)
        return float(gaussians.n_free_covariances) * n_pairs

    @property
    @of_one_moment
    def aic_(self) -> float:
        """2 `log_likelihood_` − 2 `n_parameters_`: larger is better.

        References
        ----------
        Akaike (1974), "A new look at the statistical model identification", IEEE Transactions on Automatic
        Control 19.
        """
        return 2 * self.log_likelihood_ - 2 * self.n_parameters_

    @property
    @of_one_moment
    def bic_(self) -> float:
        """2 `log_likelihood_` − `n_parameters_` ln N, where N is the weight of all rows: larger is better.

        scikit-learn's mixtures have the opposite sign.

        References
        ----------
        Schwarz (1978), "Estimating the dimension of a model", Annals of Statistics 6.
        """
        return bayesian_criterion(self.log_likelihood_, self.n_parameters_, self.statistics_)


def _squared_distances(
    state: Finalised[Any], rows: NDArray[Any], missing: MissingRows, codes: NDArray[np.intp] | None = None
) -> Array:
    """The squared distances of rows from all classes, (n_rows, K); or from those given by `codes`."""
    result = np.empty((rows.shape[0], len(state.classes)) if codes is None else rows.shape[0])

    def write(scores: RowScores) -> None:
        some = scores.positions
        result[some] = (
            scores.squared_distances if codes is None else scores.own_squared_distances(codes[some])
        )

    score_each(write, score_finalised(state, rows, missing, codes), rows.shape[0])
    return result


@of_one_moment
def pooled_shares(model: GenerativeClassifier[Any]) -> Array:
    """The share of the pooled covariance in that of each class."""
    regularisation = finalised(model).gaussians.regularisation
    if regularisation is None:
        shares, of_no_rows = np.zeros(len(model.statistics_.classes)), 0.0
    else:
        shares, of_no_rows = regularisation.shares.copy(), 1.0
    return shares if model.divides_rows else model._among_announced(shares, of_no_rows)


def pooled_rows(model: GenerativeClassifier[Any]) -> float:
    """How many rows the pooled covariance counts for beside those of each class."""
    regularisation = finalised(model).gaussians.regularisation
    return 0.0 if regularisation is None else float(regularisation.prior_rows)
