"""What the classifiers share of prediction: densities, finalised when needed, and the scores of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import validate_data

from streamgda.blocks.arrays import check_in_memory, check_readable
from streamgda.blocks.labels import Labels
from streamgda.estimators.finalised import Finalised, check_finite, check_two_classes
from streamgda.estimators.lazy import lazy_on_dask
from streamgda.estimators.learning import StatisticsLearner, check_batch
from streamgda.estimators.scores import RowScores
from streamgda.gaussians.densities import Gaussians
from streamgda.gaussians.missing import blocks_by_pattern, blocks_of
from streamgda.gaussians.posteriors import decisions
from streamgda.sources.base import Source
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

G = TypeVar("G", bound=Gaussians)

MissingAtPrediction = Literal["raise", "marginal"]

_VALUES_PER_BLOCK = 1 << 15  # what a few arrays of them take stays in the second-level cache
_SCORES_PER_BLOCK = 1 << 18  # which still fit there; more, since every block costs a step of Python per class


def classes_of(model: GaussianClassifier[Any]) -> Labels:
    """The labels that columns of scores go by."""
    return model.classes_


class GaussianClassifier(ClassifierMixin, StatisticsLearner, Generic[G]):
    """A classifier whose parameters are finalised from statistics when they are first needed.

    A subclass says which covariance type it needs and how statistics become `Gaussians`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StatisticsLearner._parameter_constraints,
        "priors": ["array-like", None],
        "missing": [StrOptions({"raise", "marginal"})],
    }

    priors: ArrayLike | None
    missing: MissingAtPrediction

    @abstractmethod
    def _finalise(self, statistics: Statistics) -> G:
        """The densities of the classes, from statistics and the parameters of the estimator."""

    def _finalised(self, statistics: Statistics) -> Finalised[G]:
        self._validate_params()
        check_two_classes(statistics)
        check_finite(statistics)
        priors = self._class_priors(statistics)
        return Finalised.made_of(self, statistics, self._finalise(statistics), priors)

    def _class_priors(self, statistics: Statistics) -> Array:
        """The priors given, or the share of each class in the weight."""
        if self.priors is None:
            weights = statistics.weights
            shares: Array = weights / weights.sum()
            return shares
        try:
            priors = np.array(self.priors, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"priors must be numbers, one for each class; got {self.priors!r}") from error
        classes = statistics.classes
        if priors.shape != classes.shape:
            raise ValueError(
                f"priors must have one entry for each of the {len(classes)} classes "
                f"{', '.join(map(str, classes[:10]))}; got shape {priors.shape}"
            )
        total = priors.sum()
        if not (priors >= 0).all() or not np.isclose(total, 1.0):
            raise ValueError(f"priors must not be negative and must sum to 1; got {priors.tolist()}")
        scaled: Array = priors / total
        return scaled

    # ------------------------------------------------------------------ prediction

    def _apply(self, X: Any, view: Callable[[RowScores[G]], NDArray[Any]]) -> NDArray[Any]:
        """What `view` takes from the scores of rows, block by block: nothing larger than it is ever held."""
        rows = check_rows(self, X)
        result: NDArray[Any] | None = None
        for scores in score_rows(self, rows):
            part = view(scores)
            if result is None:
                result = np.empty((len(rows), *part.shape[1:]), dtype=part.dtype)
            result[scores.positions] = part
        assert result is not None  # validation lets no rows pass for rows
        return result

    @lazy_on_dask(columns=classes_of)
    def predict(self, X: ArrayLike) -> Labels:
        """The class with the largest posterior probability of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame
            Rows; with ``missing="marginal"``, NaN is what is missing.

        Returns
        -------
        ndarray of shape (n_rows,), or a lazy Dask collection, if X is one

        Raises
        ------
        ValueError
            If a value is infinite or (but for "marginal") NaN, the features are not those of the model, or a
            row is too far from all classes to tell them apart.
        """
        labels: Labels = self._apply(X, lambda scores: scores.labels)
        return labels

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """The share of the rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows in memory. Of more than that, compare lazy predictions on a Dask collection:
            ``(model.predict(rows) == labels).mean().compute()``.
        y : array-like of shape (n_rows,)
            Their labels.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        float
        """
        if isinstance(X, Source):
            check_batch(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        accuracy: float = super().score(X, y, sample_weight)
        return accuracy

    @lazy_on_dask(columns=classes_of)
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior probability of each class: shape (n_rows, n_classes).

        Rows and errors are as for `predict`. No digit is lost where a class is all but sure, or impossible.
        """
        return self._apply(X, lambda scores: scores.log_probabilities)

    @lazy_on_dask(columns=classes_of)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Posterior probability of each class, in the order of `classes_`: shape (n_rows, n_classes).

        Rows and errors are as for `predict`.
        """
        return self._apply(X, lambda scores: scores.probabilities)

    @lazy_on_dask(columns=classes_of)
    def decision_function(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior, up to what all classes have in common.

        Rows and errors are as for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            For two classes, the log-odds of the second.
        """
        return self._apply(X, lambda scores: decisions(scores.discriminants))

    @lazy_on_dask(columns=classes_of)
    def score_samples(self, X: ArrayLike) -> Array:
        """Ln p(x) of each row under the mixture of the classes: shape (n_rows,).

        The lower, the less the row is like anything seen; −∞ where it is farther than float64 reaches. Rows
        are as for `predict`.
        """
        return self._apply(X, lambda scores: scores.log_density)


# ---------------------------------------------------------------------- what a fitted model says of rows


def finalised(model: GaussianClassifier[G]) -> Finalised[G]:
    """The densities of a fitted model, made anew whenever its statistics or parameters have changed.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model has learnt nothing.
    ValueError
        If the statistics do not determine the model.
    """
    model._check_fitted()
    cached: Finalised[G] | None = model.__dict__.get("_cache")
    if cached is not None and cached.is_of(model):
        return cached
    statistics = model.statistics_
    with statistics.lock:  # of one moment, also while another thread learns
        made = model._cache = model._finalised(statistics)
    model._note(made)
    return made


def score_rows(
    model: GaussianClassifier[G], rows: NDArray[Any], *, missing: MissingAtPrediction | None = None
) -> Iterator[RowScores[G]]:
    """The scores of rows, block by block; the one way from rows to predictions, in memory and out of core.

    Parameters
    ----------
    model : estimator
        Fitted.
    rows : ndarray of shape (n_rows, n_features)
        Numbers in the order of the features, as `check_rows` returns them.
    missing : {"raise", "marginal"}, optional
        Whether NaN may stand for a missing value; as the model has it where not given.
    """
    state = finalised(model)
    of_values, of_scores = _VALUES_PER_BLOCK // rows.shape[1], _SCORES_PER_BLOCK // len(state.classes)
    size = max(1, min(of_values, of_scores))
    blocks = blocks_by_pattern if (missing or model.missing) == "marginal" else blocks_of
    for positions, gaussians, block in blocks(rows, state.gaussians, size):
        # Stored by row, since sums over the features of a row depend on how it is stored.
        values = np.ascontiguousarray(block, dtype=np.float64)
        yield RowScores(state, cast("G", gaussians), positions, values)


def check_rows(
    model: GaussianClassifier[Any], X: Any, *, missing: MissingAtPrediction | None = None
) -> NDArray[Any]:
    """Rows in memory as an array that a fitted model can score.

    Raises
    ------
    ValueError
        If a value is infinite or (but for "marginal") NaN, or the features are not those of the model.
    TypeError
        If the rows are not in memory.
    """
    missing = missing or model.missing
    check_batch(X)
    model._check_fitted()
    check_in_memory(X)
    if hasattr(X, "columns"):  # columns that are no features need not be readable
        validate_data(model, X, reset=False, skip_check_array=True)
    check_readable(X)
    finite = "allow-nan" if missing == "marginal" else True
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn looks for NaN in a sum
        try:
            rows: NDArray[Any] = validate_data(model, X, reset=False, ensure_all_finite=finite)
        except ValueError:
            if missing == "raise":
                _name_missing(model, validate_data(model, X, reset=False, ensure_all_finite=False))
            raise
    return rows


def _name_missing(model: GaussianClassifier[Any], rows: NDArray[Any]) -> None:
    """Raise the ValueError that names the first NaN, if there is one."""
    for row, index in np.argwhere(np.isnan(rows))[:1]:
        name = repr(model.feature_names_in_[index]) if hasattr(model, "feature_names_in_") else index
        raise ValueError(
            f"row {row}: feature {name} is NaN or null. Mend the data or leave out such rows; or let the "
            "model predict by the features that are there: set_params(missing='marginal')"
        )
