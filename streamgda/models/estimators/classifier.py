"""How classifiers predict: densities are computed from the statistics when needed, and score the rows."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Container, Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import is_
from pkgutil import resolve_name
from typing import Any, ClassVar, Generic, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import callers_level, counted, named
from streamgda.data.sources.columns.encoding import Encoding, Wanted, encoding_for
from streamgda.models.estimators import JOBS, STUDENT, reading
from streamgda.models.estimators.lazy import class_labels, rows_anywhere
from streamgda.models.estimators.learning import StatisticsLearner
from streamgda.models.estimators.moment import at_one_moment, of_one_moment
from streamgda.models.estimators.options import OptionOf
from streamgda.models.estimators.priors import priors_of, sum_to_one
from streamgda.models.estimators.reading import one_of
from streamgda.models.estimators.scores import Finalised, G, RowScores, score_each, score_finalised
from streamgda.models.estimators.view import View
from streamgda.models.gaussians.base import Densities, PriorsAlone
from streamgda.models.gaussians.components import deficient_features
from streamgda.models.gaussians.posteriors import decisions
from streamgda.models.gaussians.regularisation import Regularisation
from streamgda.models.gaussians.whitening import Reason, Whitening
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.kernels.blas import single_blas_thread
from streamgda.statistics.missing import MissingRows

_MANY_VALUES = 1 << 18  # which threads check


@dataclass(eq=False, repr=False)
class GaussianClassifier(ClassifierMixin, StatisticsLearner, Generic[G]):
    """A classifier by normal densities, which are finalised from the statistics when first needed.

    A subclass names the covariance type that it needs and computes `Gaussians` from statistics.
    """

    _renormalises_priors: ClassVar[bool] = False
    _remedy_for_encoded: ClassVar[str] = "LinearDiscriminantAnalysis takes them"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StatisticsLearner._parameter_constraints,
        "categories": [one_of("auto"), OptionOf("categories"), None],
    }
    predictive = "plugin"

    # The parameters of all classifiers. An attribute with an annotation above would be one by position.
    _: KW_ONLY
    missing: MissingRows = "raise"
    exact: bool = False
    temperature: float = 1.0
    categories: Wanted = "auto"
    half_life: float | None = None

    @property
    def _encoding(self) -> Encoding | None:
        """How columns of rows that are not numbers are read; None if all are numbers."""
        return encoding_for(self.categories)

    @property
    def _ways_to_encode(self) -> tuple[str, ...]:
        """The ways in which the model can treat columns that are not numbers, the usual one first."""
        return ()

    @abstractmethod
    def _finalise(self, statistics: Statistics) -> G:
        """Compute the densities of the classes from statistics and the parameters of the estimator."""

    def _compute_finalised(self, statistics: Statistics, *, is_valid: bool = False) -> Finalised[G]:
        if not is_valid:
            self.__dict__.pop("_cache", None)  # the densities by other parameters
            self._validate_params()
        view = self._view(statistics)
        try:
            with single_blas_thread():  # whose number would change the last bits of a factor
                gaussians, densities = self._densities(statistics, view)
        except np.linalg.LinAlgError as error:
            if self._learnt_whole or self.singular == "raise":
                raise
            reason = partial(np.linalg.LinAlgError, *error.args)
            densities = gaussians = cast("Any", PriorsAlone(len(view.labels), reason))
        priors = priors_of(self, view.labels, view.weights)
        state = Finalised.of(self, statistics.changes, view.labels, gaussians, densities, priors)
        return state if self._announced is None else state.among(self.with_announced(view.labels))

    def _densities(self, statistics: Statistics, view: View) -> tuple[G, Densities]:
        """The normal densities, and those that score rows.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the rows determine none.
        ValueError
            If there are none for another reason.
        """
        if len(view.labels) < (self._least_classes if self._learnt_whole else 1):
            raise reading.too_few_classes(view.labels)
        reading.check_holds_products(statistics, self._covariance_type)
        if statistics.missing != "raise":
            statistics.moments_for(self)  # raises if they do not determine a model
        elif statistics.exact and not np.isfinite(statistics.covariance()).all():
            raise ValueError("the features are too large: their squares exceed float64. Rescale them first")
        gaussians = self._finalise(view.numbers)
        densities: Densities = gaussians
        for step in view.chain:
            densities = step(densities, view)
            reasons = list(densities.singular.values())
            if reasons and (self.singular == "raise" or len(reasons) == len(densities.means)):
                raise reasons[0]()
        return gaussians, densities

    def _view(self, statistics: Statistics) -> View:
        """What the model reads of its statistics; ValueError if it cannot learn such features."""
        chain = () if self.predictive == "plugin" else (resolve_name(STUDENT),)
        view = View(statistics.classes, statistics.weights, statistics, chain)
        schema = statistics.schema
        return view if schema.is_numeric else schema.viewed(view, self)

    def snapshot(self) -> Self:
        """A copy of the model with its own statistics, which later learning does not change."""
        with at_one_moment(self):
            state, twin = finalised(self), copy(self)  # with a copy of the statistics
            twin._cache = state
        return twin

    def _warn_once(self, state: Finalised[G]) -> None:
        """Warn once of what the densities lack. Copies in workers know of it, and do not warn again."""
        warned = self.__dict__.pop("_warned", {})
        now: dict[str, Any] = {}
        if (why_none := state.gaussians.why_none) is not None and len(state.seen.classes) > 1:
            now["none"] = True
            self._warn_of_none(why_none, "none" in warned)
        if (common := state.gaussians.common) is not None and common.rank < len(common.covariance):
            now["rank"] = common.rank
            self._warn_of_rank(common, warned.get("rank"))
        if (how := state.gaussians.regularisation) is not None and how.share_lacking > 0.5:
            now["lacking"] = True
            self._warn_of_lacking(how, "lacking" in warned)
        if state.densities.singular:
            now["classes"] = {label for label, _ in state.singular}
            self._warn_of_singular(state.singular, warned.get("classes", ()))
        if self._renormalises_priors and self.priors is not None and not sum_to_one(self.priors):
            now["priors"] = self.priors
            self._warn_of_priors(warned.get("priors"))
        schema = self.statistics_.schema
        misread = {} if schema.is_numeric else schema.warn_of_misread(warned.get("misread", ()))
        now |= {"misread": misread} if misread else {}
        if now:
            self._warned = now
        if self._learnt_whole or self.half_life or "_traps" not in self.__dict__:
            self._warn_of_traps(state)

    def _warn_of_traps(self, state: Finalised[G]) -> None:
        """Warn once of what makes a model of little use; of a stream, when it first predicts."""

    def _warn_of_none(self, why_none: Reason, knows: bool) -> None:
        """Warn, once, that rows determine the density of no class."""
        if not knows:
            start = "no class can be estimated yet, so each row gets the priors. "
            warnings.warn(start + str(why_none()), stacklevel=callers_level())

    def _warn_of_priors(self, warned: Any) -> None:
        """Warn, once, of priors that do not sum to 1."""
        if warned is not self.priors:
            warnings.warn("The priors do not sum to 1. Renormalizing", stacklevel=callers_level())

    def _warn_of_lacking(self, how: Regularisation, knows: bool) -> None:
        """Warn, once, that most rows are of classes that pooling by evidence leaves out."""
        if knows:
            return
        parts = counted(len(how.shares), "subclass" if self.divides_rows else "class")
        warnings.warn(
            f"{how.n_lacking} of {parts} lack a direction, as where features are constant in them, and hold "
            f"{how.share_lacking:.0%} of the rows. So pooling='bayes' gives all the pooled covariance. A "
            "number for pooling, which a search can choose, leaves them some of their own",
            stacklevel=callers_level(),
        )

    def _warn_of_rank(self, common: Whitening, warned: int | None) -> None:
        """Warn, once, of directions in which no row deviates from the mean of its class."""
        statistics = self._view(self.statistics_).numbers
        most_rank = statistics.n_features - len(statistics.schema.sums_to_one)  # each sum costs a direction
        if warned != common.rank and common.rank < most_rank:
            features = deficient_features(statistics, common.covariance, common.least_eigenvalue)
            warnings.warn(
                f"the covariance within the classes has rank {common.rank} of {statistics.n_features}: "
                f"{features}. The model works in the range of the covariance",
                stacklevel=callers_level(),
            )

    def _warn_of_singular(self, singular: list[tuple[Any, Reason]], warned: Container[Any]) -> None:
        """Warn, once, of classes that rows do not determine."""
        new = [(label, reason) for label, reason in singular if label not in warned]
        if not new:
            return
        label, reason = new[0]
        more = f" (and {counted(len(new) - 1, 'more class')})" if len(new) > 1 else ""
        warnings.warn(
            (
                f"class {named(label)}{more} gets no posterior until it can be estimated. "
                + str(reason())
                + f"; statistics_.drop_class({label!r}) forgets it"
            ),
            stacklevel=callers_level(),
        )

    # ------------------------------------------------------------------ fitted attributes

    @property
    def priors_(self) -> Array:
        """Prior probabilities of the classes."""
        return finalised(self).priors.copy()

    @property
    @of_one_moment
    def means_(self) -> Array:
        """Means of the classes."""
        return self._among_announced(self.statistics_.means)

    def _among_announced(self, values: Array, other: ArrayLike = 0.0) -> Array:
        """Values of the classes that have rows, and another value for classes that were only announced."""
        known, seen = self.known_labels, self.labels_of(self.statistics_)
        if len(known) == len(seen):
            return values
        result = np.empty((len(known), *values.shape[1:]))
        result[...] = other
        result[np.searchsorted(known, seen)] = values
        return result

    @property
    def categories_(self) -> dict[str, list[Any]]:
        """The categories of each column that has them, sorted; None, for a missing value, comes last.

        The features of the model are the columns of numbers, and then a dummy for each of these categories.
        """
        return self.statistics_.schema.values_by_column()

    @property
    @of_one_moment
    def category_log_prob_(self) -> dict[str, Array]:
        """Ln p(v | k) of the categories of each column, in the order of `categories_`."""
        tables = finalised(self).seen.densities.tables(self.statistics_.schema.encoded)
        if tables is None:
            raise AttributeError(
                f"{self!r} has no probabilities of categories. GaussianNB, QuadraticDiscriminantAnalysis and "
                "Categorical(model='conditional') have those of the categories that they learn"
            )
        return {
            name: self._among_announced(table, np.where(np.isnan(table[0]), np.nan, -np.log(table.shape[1])))
            for name, table in tables.items()
        }

    # ------------------------------------------------------------------ how the rows were learnt

    @property
    def n_iter_(self) -> int:
        """The number of steps of EM, if rows lack features."""
        reading.check_has_learnt(self)
        steps = self.statistics_.iteration
        return self.n_reads_ - 1 if steps is None else steps.n_iter

    @property
    def converged_(self) -> bool:
        """Whether these steps converged."""
        reading.check_has_learnt(self)
        steps = self.statistics_.iteration
        return bool(self.__dict__.get("_converged", True) if steps is None else steps.converged)

    @property
    def n_reads_(self) -> int:
        """How often `fit` read the rows."""
        reading.check_has_learnt(self)
        return int(self.__dict__.get("_n_reads", 1))

    @property
    def _priors_of_peer(self) -> Any:
        """The parameter `priors` as scikit-learn takes it."""
        return self.priors_ if isinstance(self.priors, dict) else self.priors

    # ------------------------------------------------------------------ prediction

    def calibrate(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        learnt: bool = True,
    ) -> Self:
        """Set `temperature` to the one at which the log loss of rows is least.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows in memory. Some thousand suffice.
        y : array-like of shape (n_rows,)
            Their labels, among `classes_`.
        sample_weight : array-like of shape (n_rows,), optional
            Their weights; of rows learnt, those with which they were learnt, or to which a half-life has
            aged them since.
        learnt : bool, default=True
            Whether the rows are among those that the model has learnt. Each tenth of them is then scored by
            the model of all other rows, from the statistics less those of the tenth.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If X is a source.
        ValueError
            If a label is none of the classes, or rows are to be taken back that never went in.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from streamgda import GaussianNB
        >>> X, y = load_wine(return_X_y=True)
        >>> round(GaussianNB().fit(X, y).calibrate(X, y).temperature, 2)
        1.96
        """
        calibrate = resolve_name(JOBS["calibrate"])
        calibrate(self, X, reading.check_labelled(self, "calibrate", X, y), sample_weight, learnt=learnt)
        return self

    def _blocks_of(self, X: Any) -> tuple[Finalised[G], int, Iterator[RowScores]]:
        """What scores rows, how many there are, and their scores. Threads check the values of many rows."""
        later = isinstance(X, np.ndarray) and X.size > _MANY_VALUES
        check = partial(reading.check_rows, self, X) if later else None
        rows, state = reading.check_rows(self, X, later=later), finalised(self)
        return state, rows.shape[0], score_finalised(state, rows, self.missing, check=check)

    def _apply(self, X: Any, view: Callable[[RowScores], NDArray[Any]]) -> NDArray[Any]:
        """Apply `view` to the scores of rows, block by block; no larger array than the result is held."""
        _, n_rows, blocks = self._blocks_of(X)
        result: NDArray[Any] | None = None

        def write(scores: RowScores) -> None:
            nonlocal result
            part = view(scores)
            if result is None:  # in the first block, before there are threads
                result = np.empty((n_rows, *part.shape[1:]), dtype=part.dtype)
            result[scores.positions] = part

        score_each(write, blocks, n_rows)
        assert result is not None  # check_rows raises if there are no rows
        return result

    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on rows in memory. `evaluate` has that of a source, and more measures.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows, as for `predict`.
        y : array-like of shape (n_rows,)
            Their labels.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row.

        Returns
        -------
        float
            The share of rows whose class is predicted.

        Raises
        ------
        TypeError
            If X is a source.
        ValueError
            If there are no labels.
        """
        y = reading.labels_of(reading.check_labelled(self, "score", X, y))
        return float(super().score(X, y, sample_weight))

    @rows_anywhere(columns=class_labels)
    def predict(self, X: ArrayLike) -> Labels:
        """Predict the class of each row: the one with the largest posterior probability.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_rows, n_features), dask array or DataFrame
            Rows; also dicts, of one row or of several. Where dates were learnt, these may be dates of any
            library, text by ISO 8601 or days. With ``missing="marginal"``, NaN, None or NaT marks a missing
            value, and dicts may leave out a key.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels. A lazy Dask collection if X is one.

        Raises
        ------
        ValueError
            If a value is infinite, or NaN without ``missing="marginal"``; if the features are not those of
            the model; or if a row is so far from all classes that its squared distances exceed float64.
        """
        return self._apply(X, self._labels)

    def _labels(self, scores: RowScores) -> Labels:
        """The predicted labels, in the type of those that the model was fitted to."""
        return self._types.of_labels(scores.finalised.classes)[scores.codes]

    @rows_anywhere(columns=class_labels)
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior probability of each class: shape (n_rows, n_classes).

        Rows and errors are as for `predict`. The logarithms keep their digits at probabilities near 0 and 1.
        """
        return self._apply(X, lambda scores: scores.log_probabilities)

    @rows_anywhere(columns=class_labels)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Posterior probability of each class, in the order of `classes_`: shape (n_rows, n_classes).

        Rows and errors are as for `predict`.
        """
        state, n_rows, blocks = self._blocks_of(X)
        result = np.empty((n_rows, len(state.classes)))
        score_each(lambda scores: scores.write_probabilities(result), blocks, n_rows)
        return result

    @rows_anywhere(columns=class_labels)
    def predict_set(self, X: Any, quantile: ArrayLike) -> NDArray[np.bool_]:
        """Predict a set of classes for each row, which holds its class with a given probability.

        The set has the classes whose log-odds ln p / (1 - p) are at least `quantile`. With that of an
        evaluation of this model on rows that it has not learnt, as many sets as its `coverage` hold the class
        of a row, if rows are exchangeable with those of the evaluation. A set may be empty.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame
            Rows, as for `predict`.
        quantile : float or array-like of shape (n_classes,)
            What `Evaluation.conformal_quantile` returns. After a change of a parameter, such as `temperature`
            or `priors`, it must come from another evaluation.

        Returns
        -------
        ndarray of bool of shape (n_rows, n_classes)
            Whether a class is in the set of a row, in the order of `classes_`.

        References
        ----------
        Vovk, Gammerman & Shafer (2005), "Algorithmic learning in a random world"; Angelopoulos & Bates
        (2021), "A gentle introduction to conformal prediction".

        Examples
        --------
        >>> from streamgda import GaussianNB
        >>> model = GaussianNB().fit([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1])
        >>> model.predict_set([[1.0], [2.5], [3.0]], quantile=-2.5)
        array([[ True, False],
               [ True,  True],
               [ True,  True]])
        """

        def in_set(scores: RowScores) -> NDArray[np.bool_]:
            return scores.log_odds >= checked_quantile(quantile, len(scores.finalised.classes))

        return self._apply(X, in_set)

    @rows_anywhere(columns=class_labels)
    def decision_function(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior, up to a term that is the same for all classes.

        Rows and errors are as for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            For two classes, the log-odds of the second.
        """
        return self._apply(X, lambda scores: decisions(scores.discriminants))

    @rows_anywhere(columns=class_labels)
    def score_samples(self, X: ArrayLike) -> Array:
        """Ln p(x) of each row under the mixture of the classes: shape (n_rows,).

        A low value marks an outlier. It is −∞ if a squared distance exceeds float64. If the covariance of LDA
        is singular, it is the density in the range of the covariance. The units of collinear features should
        then not differ by more than a factor of 10⁸, such as grams and tonnes: the rounding error, which is
        the same for all rows, is about 10⁻¹⁶ times this factor. Rows are as for `predict`.
        """
        return self._apply(X, lambda scores: scores.log_density)


def finalised(model: GaussianClassifier[G]) -> Finalised[G]:
    """The densities and priors of a fitted model, computed again if statistics or parameters have changed.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model has learnt no rows.
    ValueError
        If the statistics do not determine the model.
    """
    reading.check_has_learnt(model)
    cached: Finalised[G] | None = model.__dict__.get("_cache")
    statistics, is_valid = model.statistics_, False
    if cached is not None:
        params = cached.params
        is_valid = all(map(is_, map(partial(getattr, model), params), params.values()))
        if is_valid and cached.changes is statistics.changes and cached.announced is model._announced:
            return cached
    with statistics.lock:  # no other thread may learn meanwhile
        if model.statistics_ is statistics:
            computed = model._cache = model._compute_finalised(statistics, is_valid=is_valid)
            model._warn_once(computed)
            return computed
    return finalised(model)  # while this thread waited, another one has replaced the statistics


def score_rows(
    model: GaussianClassifier[Any], rows: NDArray[Any], *, missing: MissingRows | None = None
) -> Iterator[RowScores]:
    """Yield the scores of rows, block by block. All predictions, in memory and out of core, use this path.

    Parameters
    ----------
    model : estimator
        Fitted.
    rows : ndarray of shape (n_rows, n_features)
        Numbers in the order of the features, as `check_rows` returns them.
    missing : {"raise", "marginal"} or Marginal, optional
        Whether NaN may mark a missing value. If None, the parameter of the model.
    """
    return score_finalised(finalised(model), rows, missing or model.missing)


def checked_quantile(quantile: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    """The least log-odds of the classes in a set: one number, or one for each class."""
    least = np.asarray(quantile, dtype=np.float64)
    if least.shape not in {(), (n_classes,)} or np.isnan(least).any():
        raise ValueError(
            f"quantile is a number, or one for each of the {n_classes} classes, as "
            f"Evaluation.conformal_quantile returns it; got {quantile!r}"
        )
    return least
