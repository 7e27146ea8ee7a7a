"""How classifiers predict: densities are computed from the statistics when needed, and score the rows."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, Generic, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from streamgda.blocks.categories import Categories
from streamgda.blocks.labels import Labels, by_class
from streamgda.blocks.wording import Message, counted, listed, named
from streamgda.estimators import reading
from streamgda.estimators.categorical import GivenCategories, Treatment
from streamgda.estimators.lazy import class_labels, lazy_on_dask
from streamgda.estimators.learning import StatisticsLearner
from streamgda.estimators.priors import priors_of, sum_to_one
from streamgda.estimators.reading import MissingAtPrediction
from streamgda.estimators.scores import Finalised, G, RowScores, score_finalised
from streamgda.estimators.singular import too_few_rows
from streamgda.gaussians.base import Densities, Gaussians
from streamgda.gaussians.categorical import CategoricalDensities
from streamgda.gaussians.densities import DiagonalGaussians, SeparateGaussians
from streamgda.gaussians.mixtures import Mixtures
from streamgda.gaussians.posteriors import decisions
from streamgda.gaussians.regularisation import Regularisation
from streamgda.gaussians.shared import SharedGaussians
from streamgda.gaussians.students import DiagonalStudents, Students
from streamgda.gaussians.whitening import Reason
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import deficient_features
from streamgda.statistics.covariances import Array
from streamgda.statistics.revisions import Revision

Predictive = Literal["plugin", "student"]


class GaussianClassifier(ClassifierMixin, StatisticsLearner, Generic[G]):
    """A classifier by normal densities, which are finalised from the statistics when first needed.

    A subclass names the covariance type that it needs and computes `Gaussians` from statistics.
    """

    _renormalises_priors: ClassVar[bool] = False
    _takes_categories: ClassVar[str] = "⟨LinearDiscriminantAnalysis⟩ takes them"

    priors: ArrayLike | None
    predictive: Predictive = "plugin"
    temperature: float = 1.0

    @abstractmethod
    def _finalise(self, statistics: Statistics) -> G:
        """Compute the densities of the classes from statistics and the parameters of the estimator."""

    def _refinalise(self, before: Finalised[G], statistics: Statistics, later: list[Revision]) -> G | None:
        """Update the densities of an earlier revision; None if all have to be computed anew."""
        return None

    def _compute_finalised(self, statistics: Statistics, before: Finalised[G] | None = None) -> Finalised[G]:
        gaussians, is_table = None, statistics.categories is not None
        if before is None:
            self._validate_params()
        elif self.predictive == "plugin" and not self.exact and not (is_table and self._splits(statistics)):
            later = statistics.revision.since(before.revision)
            gaussians = None if later is None else self._refinalise(before, statistics, later)
        given = None
        if gaussians is None:
            reading.check_suffices(statistics, self._covariance_type)
            if statistics.categories is not None:
                self._check_categories(statistics.categories, statistics.n_rows)
                given = self._given_categories(statistics)
            if statistics.keeps_patterns:
                self._check_determined(statistics)
                reading.warn_unless_converged(statistics)
            gaussians = self._finalise(given.numbers if given else statistics)
        densities: Densities = gaussians
        if self.predictive != "plugin":
            densities = self._students(gaussians, given.numbers if given else statistics)
        densities = given.densities(densities) if given else densities
        priors = priors_of(self, statistics)
        if len(priors) < len(gaussians.means):  # the densities are those of subclasses
            densities = Mixtures.of(densities, by_class(statistics.classes)[1], statistics.weights)
        return Finalised.of(self, statistics, gaussians, densities, priors)

    def _check_categories(self, categories: Categories, n_rows: int) -> None:
        """Raise ValueError if the model takes no categories, or a column with categories identifies rows."""
        categories.check_no_identifier(n_rows)
        if self._treatment is None:
            refused = f"{type(self).__name__} takes no categories, and the statistics have those of "
            raise ValueError(Message(refused, f"{listed(categories.columns)}; ", self._takes_categories))
        if self._treatment in {"separate", "common"} and (
            self.covariance_estimator is not None or getattr(self, "shrinkage", None) == "auto"
        ):
            raise ValueError(
                "shrinkage='auto' and covariance_estimator need rows or fourth moments of the numbers given "
                "the categories; set shrinkage to 'oas' or a number, or covariance_estimator=None"
            )
        if self.predictive != "plugin" and self._treatment in {"separate", "common"}:
            raise ValueError(
                "numbers given categories have no Student t densities here; set predictive='plugin', or use "
                "GaussianNB"
            )

    @property
    def _treatment(self) -> Treatment | None:
        """How the model treats categories; None if it takes none."""
        return None

    def _splits(self, statistics: Statistics) -> bool:
        """Whether the densities are those of numbers given categories."""
        return statistics.categories is not None and self._treatment not in {None, "dummies"}

    def _given_categories(self, statistics: Statistics) -> GivenCategories | None:
        """The numbers given the categories; None if there are none, or they are features like others."""
        return GivenCategories.of(statistics, self) if self._splits(statistics) else None

    def _check_determined(self, statistics: Statistics) -> None:
        """Raise ValueError if rows in which features are missing do not determine a class."""
        for error in statistics.undetermined.values():
            raise error

    def _students(self, gaussians: G, statistics: Statistics) -> Densities:
        """The predictive densities of the classes, which are Student t."""
        weights = statistics.weights
        how, is_shared = _regularisation_of(gaussians, weights), isinstance(gaussians, SharedGaussians)
        too_few: dict[int, Reason] = {
            int(k): partial(too_few_rows, statistics, int(k), is_shared=is_shared)
            for k in np.flatnonzero(~(how.degrees > 0))
        }
        singular = {**gaussians.singular, **too_few}
        if singular and (self.singular == "raise" or len(singular) == len(weights)):
            raise next(iter(singular.values()))()
        with np.errstate(divide="ignore", invalid="ignore"):
            scales = how.divisors / how.degrees * (1 + 1 / weights)
        if isinstance(gaussians, DiagonalGaussians):
            return DiagonalStudents.of(gaussians, how.degrees, scales, too_few)
        return Students.of(gaussians, how.degrees, scales, too_few)

    def finalise_anew(self) -> None:
        """Compute the densities from the statistics alone, as a copy of the model in another process does."""
        cached = self.__dict__.pop("_cache", None)
        if cached and cached.revision is self.statistics_.revision and not cached.is_update:
            self._cache = cached
        finalised(self)

    def _warn_once(self, state: Finalised[G]) -> None:
        """Warn once of what the densities lack. Copies in workers know of it, and do not warn again."""
        warned = self.__dict__.pop("_warned", {})
        now: dict[str, Any] = {}
        if (common := state.gaussians.singular_common) is not None:
            now["rank"] = common.rank
            given = self._given_categories(self.statistics_)
            statistics = given.numbers if given else self.statistics_
            if warned.get("rank") != common.rank and common.rank < _most_rank(statistics):
                features = deficient_features(statistics, common.covariance, common.least_eigenvalue)
                warnings.warn(
                    f"the covariance within the classes has rank {common.rank} of {statistics.n_features}: "
                    f"{features}. The model works in the range of the covariance",
                    stacklevel=6,
                )
        if state.densities.singular:
            singular = state.singular
            now["classes"] = {label for label, _ in singular}
            new = [(label, reason) for label, reason in singular if label not in warned.get("classes", ())]
            if new:
                label, reason = new[0]
                more = f" (and {counted(len(new) - 1, 'more class')})" if len(new) > 1 else ""
                warnings.warn(
                    Message(
                        f"class {named(label)}{more} gets no posterior until it can be estimated. ",
                        Message.of(reason()),
                        f"⟨; statistics_.drop_class({label!r}) forgets it|⟩",
                    ),
                    stacklevel=6,
                )
        if self._renormalises_priors and self.priors is not None and not sum_to_one(self.priors):
            now["priors"] = self.priors
            if warned.get("priors") is not self.priors:
                warnings.warn("The priors do not sum to 1. Renormalizing", stacklevel=6)
        if now:
            self._warned = now

    # ------------------------------------------------------------------ fitted attributes

    @property
    def priors_(self) -> Array:
        """Prior probabilities of the classes."""
        return finalised(self).priors.copy()

    @property
    def means_(self) -> Array:
        """Means of the classes."""
        return self.statistics_.means

    @property
    def category_log_prob_(self) -> dict[str, Array]:
        """Ln p(v | k) of the categories of each column, in the order of `categories_`."""
        densities = finalised(self).densities
        if not isinstance(densities, CategoricalDensities):
            raise AttributeError(
                f"{self!r} has no probabilities of categories. GaussianNB, QuadraticDiscriminantAnalysis and "
                "categorical_model='conditional' have those of the categories that they learn"
            )
        tables = np.where(densities.groups >= 0, densities.log_tables, np.nan)
        return {
            name: tables[:, place] for name, place in zip(self.categories_, densities.columns, strict=True)
        }

    # ------------------------------------------------------------------ learning from incomplete rows

    @property
    def n_iter_(self) -> int:
        """The number of steps of EM in learning from incomplete rows."""
        reading.check_has_learnt(self)
        steps = reading.completion_of(self.statistics_)
        return self.n_reads_ - 1 if steps is None else steps.n_iter

    @property
    def converged_(self) -> bool:
        """Whether these steps converged."""
        reading.check_has_learnt(self)
        steps = reading.completion_of(self.statistics_)
        converged: bool = self.__dict__.get("_converged", True) if steps is None else steps.converged
        return converged

    @property
    def n_reads_(self) -> int:
        """How often `fit` read the rows."""
        reading.check_has_learnt(self)
        n_reads: int = self.__dict__.get("_n_reads", 1)
        return n_reads

    @property
    def _priors_of_peer(self) -> Any:
        """The parameter `priors` as scikit-learn takes it."""
        return self.priors_ if isinstance(self.priors, dict) else self.priors

    # ------------------------------------------------------------------ prediction

    def _apply(self, X: Any, view: Callable[[RowScores], NDArray[Any]]) -> NDArray[Any]:
        """Apply `view` to the scores of rows, block by block; no larger array than the result is held."""
        rows = reading.check_rows(self, X)
        result: NDArray[Any] | None = None
        for scores in score_rows(self, rows):
            part = view(scores)
            if result is None:
                result = np.empty((len(rows), *part.shape[1:]), dtype=part.dtype)
            result[scores.positions] = part
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
        if y is None:
            reading.check_batch(X)
            raise ValueError(f"{type(self).__name__}.score requires y, a label for each row")
        accuracy: float = super().score(X, y, sample_weight)
        return accuracy

    @lazy_on_dask(columns=class_labels)
    def predict(self, X: ArrayLike) -> Labels:
        """Predict the class of each row: the one with the largest posterior probability.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame
            Rows. With ``missing="marginal"``, NaN marks a missing value.

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
        labels: Labels = self._apply(X, self._labels)
        return labels

    def _labels(self, scores: RowScores) -> Labels:
        """The predicted labels, in the type of those that the model was fitted to."""
        labels: Labels = self._types.of_labels(scores.finalised.classes)[scores.codes]
        return labels

    @lazy_on_dask(columns=class_labels)
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior probability of each class: shape (n_rows, n_classes).

        Rows and errors are as for `predict`. The logarithms keep their digits at probabilities near 0 and 1.
        """
        return self._apply(X, lambda scores: scores.log_probabilities)

    @lazy_on_dask(columns=class_labels)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Posterior probability of each class, in the order of `classes_`: shape (n_rows, n_classes).

        Rows and errors are as for `predict`.
        """
        rows = reading.check_rows(self, X)
        state = finalised(self)
        result = np.empty((len(rows), len(state.classes)))
        for scores in score_finalised(state, rows, self.missing):
            scores.write_probabilities(result)
        return result

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
        reading.check_has_learnt(self)
        least = checked_quantile(quantile, len(self.classes_))

        def sets(model: Self, X: Any) -> NDArray[np.bool_]:
            return model._apply(X, lambda scores: scores.log_odds >= least)

        return lazy_on_dask(columns=class_labels)(sets)(self, X)

    @lazy_on_dask(columns=class_labels)
    def decision_function(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior, up to a term that is the same for all classes.

        Rows and errors are as for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            For two classes, the log-odds of the second.
        """
        return self._apply(X, lambda scores: decisions(scores.discriminants))

    @lazy_on_dask(columns=class_labels)
    def score_samples(self, X: ArrayLike) -> Array:
        """Ln p(x) of each row under the mixture of the classes: shape (n_rows,).

        A low value marks an outlier. It is −∞ if a squared distance exceeds float64. If the covariance of LDA
        is singular, it is the density in the range of the covariance. The units of collinear features should
        then not differ by more than a factor of 10⁸, such as grams and tonnes: the rounding error, which is
        the same for all rows, is about 10⁻¹⁶ times this factor. Rows are as for `predict`.
        """
        return self._apply(X, lambda scores: scores.log_density)


def _most_rank(statistics: Statistics) -> int:
    """The largest rank of the covariance: the dummies of a column always add up to 1."""
    return statistics.n_features - (len(statistics.categories.columns) if statistics.categories else 0)


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
    statistics = model.statistics_
    cached: Finalised[G] | None = model.__dict__.get("_cache")
    if cached is not None and any(getattr(model, name) is not value for name, value in cached.params.items()):
        cached = None  # a parameter was set
    if cached is not None and cached.revision is statistics.revision:
        return cached
    with statistics.lock:  # no other thread may learn meanwhile
        computed = model._cache = model._compute_finalised(statistics, cached)
    model._warn_once(computed)
    return computed


def score_rows(
    model: GaussianClassifier[Any], rows: NDArray[Any], *, missing: MissingAtPrediction | None = None
) -> Iterator[RowScores]:
    """Yield the scores of rows, block by block. All predictions, in memory and out of core, use this path.

    Parameters
    ----------
    model : estimator
        Fitted.
    rows : ndarray of shape (n_rows, n_features)
        Numbers in the order of the features, as `check_rows` returns them.
    missing : {"raise", "marginal"}, optional
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


def _regularisation_of(gaussians: Gaussians, weights: Array) -> Regularisation:
    """How the covariances follow from the scatters of classes with these weights."""
    if isinstance(gaussians, SharedGaussians):
        return Regularisation.by_share(1.0, weights, int(gaussians.ranks[0]))
    if isinstance(gaussians, SeparateGaussians | DiagonalGaussians) and gaussians.regularisation is not None:
        return gaussians.regularisation
    dimension = 1 if isinstance(gaussians, DiagonalGaussians) else gaussians.means.shape[1]
    return Regularisation.by_share(0.0, weights, dimension)
