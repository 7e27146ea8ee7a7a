"""What the three classifiers share of prediction: densities, finalised when needed; posteriors out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import validate_data

from streamgda.blocks.arrays import refuse_lazy, refuse_unreadable
from streamgda.blocks.labels import Labels
from streamgda.estimators.finalised import Finalised, require_finite, require_two_classes
from streamgda.estimators.lazy import lazy_on_dask
from streamgda.estimators.learning import StatisticsLearner, refuse_what_is_no_batch
from streamgda.gaussians import posteriors
from streamgda.gaussians.densities import Gaussians
from streamgda.gaussians.missing import Where, blocks_by_pattern, blocks_of
from streamgda.sources.base import Source
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

G = TypeVar("G", bound=Gaussians)

Score = Literal["log_density", "discriminants", "posterior_scores"]

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

    # ------------------------------------------------------------------ what was learnt

    @property
    def _gaussians(self) -> G:
        """The densities, finalised anew whenever the statistics or the parameters have changed."""
        gaussians: G = self._finalised_now().gaussians
        return gaussians

    def _finalised_now(self) -> Finalised:
        self._require_fitted()
        cached: Finalised | None = self.__dict__.get("_cache")
        if cached is None or not cached.is_of(self):
            cached = self._cache = self._finalised(self.statistics_)
        return cached

    def _finalised(self, statistics: Statistics) -> Finalised:
        self._validate_params()
        require_two_classes(statistics)
        require_finite(statistics)
        priors = self._class_priors(statistics)
        with np.errstate(divide="ignore"):
            log_priors = np.log(priors)
        gaussians = self._finalise(statistics)
        return Finalised(statistics.revision, self.get_params(deep=False), gaussians, priors, log_priors)

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
        if not (priors >= 0).all() or not np.isclose(priors.sum(), 1.0):
            raise ValueError(f"priors must not be negative and must sum to 1; got {priors.tolist()}")
        return priors

    # ------------------------------------------------------------------ prediction

    def _by_block(self, X: Any, score: Score, finish: Callable[[Array], NDArray[Any]]) -> NDArray[Any]:
        """What `finish` makes of a score of each row and class, ln p(x, k) or like it: (n, ...).

        Rows are taken some at a time, so that nothing larger than the result is ever held.
        """
        X = self._rows_of(X, missing=self.missing)
        log_priors = self._finalised_now().log_priors
        result: NDArray[Any] | None = None
        with np.errstate(over="ignore", invalid="ignore"):
            for where, gaussians, rows in self._blocks(X, missing=self.missing):
                scores = getattr(gaussians, score)(rows)
                scores += log_priors
                if score == "log_density":
                    scores[np.isnan(scores)] = -np.inf  # the row is farther than float64 reaches
                else:
                    refuse_lost(scores, where)
                part = finish(scores)
                if result is None:
                    result = np.empty((len(X), *part.shape[1:]), dtype=part.dtype)
                result[where] = part
        assert result is not None  # validation lets no rows pass for rows
        return result

    def _blocks(self, X: NDArray[Any], *, missing: MissingAtPrediction) -> Iterator[tuple[Where, G, Array]]:
        """Blocks of checked rows, as float64: where they stand, the densities of what is observed, that."""
        gaussians = self._gaussians
        of_values, of_scores = _VALUES_PER_BLOCK // X.shape[1], _SCORES_PER_BLOCK // len(gaussians.means)
        size = max(1, min(of_values, of_scores))
        blocks = blocks_by_pattern if missing == "marginal" else blocks_of
        for where, of_block, rows in blocks(X, gaussians, size):
            yield where, cast("G", of_block), rows.astype(np.float64, copy=False)

    def _rows_of(self, X: Any, *, missing: MissingAtPrediction = "raise") -> NDArray[Any]:
        refuse_what_is_no_batch(X)
        self._require_fitted()
        refuse_lazy(X)
        if hasattr(X, "columns"):  # what the model was not fitted to need not be readable
            validate_data(self, X, reset=False, skip_check_array=True)
        refuse_unreadable(X)
        finite = "allow-nan" if missing == "marginal" else True
        with np.errstate(over="ignore", invalid="ignore"):  # which looks for NaN in a sum
            try:
                rows: NDArray[Any] = validate_data(self, X, reset=False, ensure_all_finite=finite)
            except ValueError:
                if missing == "raise":
                    self._name_missing(validate_data(self, X, reset=False, ensure_all_finite=False))
                raise
        return rows

    def _name_missing(self, rows: NDArray[Any]) -> None:
        """Raise the ValueError that names the first NaN, if there is one."""
        for row, index in np.argwhere(np.isnan(rows))[:1]:
            name = repr(self.feature_names_in_[index]) if hasattr(self, "feature_names_in_") else index
            raise ValueError(
                f"row {row}: feature {name} is NaN or null. Mend the data or leave out such rows; or let the "
                "model predict by the features that are there: set_params(missing='marginal')"
            )

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
        best = self._by_block(X, "posterior_scores", lambda scores: scores.argmax(axis=1))
        labels: Labels = self.classes_[best]
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
            refuse_what_is_no_batch(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        accuracy: float = super().score(X, y, sample_weight)
        return accuracy

    @lazy_on_dask(columns=classes_of)
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior probability of each class: shape (n_rows, n_classes).

        Rows and errors are as for `predict`. No digit is lost where a class is all but sure, or impossible.
        """
        return self._by_block(X, "posterior_scores", posteriors.log_posteriors)

    @lazy_on_dask(columns=classes_of)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Posterior probability of each class, in the order of `classes_`: shape (n_rows, n_classes).

        Rows and errors are as for `predict`.
        """
        return self._by_block(X, "posterior_scores", posteriors.posteriors)

    @lazy_on_dask(columns=classes_of)
    def decision_function(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior, up to what all classes have in common.

        Rows and errors are as for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            For two classes, the log-odds of the second.
        """
        return self._by_block(X, "discriminants", posteriors.decisions)

    @lazy_on_dask(columns=classes_of)
    def score_samples(self, X: ArrayLike) -> Array:
        """Ln p(x) of each row under the mixture of the classes: shape (n_rows,).

        The lower, the less the row is like anything seen; −∞ where it is farther than float64 reaches. Rows
        are as for `predict`.
        """
        return self._by_block(X, "log_density", posteriors.log_evidence)


def refuse_lost(scores: Array, where: Where) -> None:
    """Refuse rows that no class has a finite score for: a guess among them would mean nothing."""
    best = scores.max(axis=1)
    if not np.isfinite(best).all():
        row = np.arange(len(scores))[~np.isfinite(best)][0]
        row = row + where.start if isinstance(where, slice) else where[row]
        raise ValueError(f"row {row} is too far from the classes: squared distances exceed float64")


@dataclass(frozen=True)
class Verdicts:
    """What a model says of n rows.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        ln p(x, k), up to what all classes have in common.
    log_density : ndarray of shape (n_rows,), or None
        ln p(x) under the mixture of the classes.
    distance : ndarray of shape (n_rows,), or None
        The Mahalanobis distance from the mean of the class predicted.
    """

    scores: Array
    log_density: Array | None
    distance: Array | None

    @property
    def codes(self) -> NDArray[np.intp]:
        """The positions of the classes predicted: (n_rows,)."""
        codes: NDArray[np.intp] = self.scores.argmax(axis=1)
        return codes

    @property
    def probabilities(self) -> Array:
        """The posteriors p(k | x): (n_rows, n_classes)."""
        return posteriors.posteriors(self.scores)


def judge(
    model: GaussianClassifier[Any], rows: Array, *, log_density: bool = False, distance: bool = False
) -> Verdicts:
    """What a model says of rows that hold its features in its order; NaN only where it allows that.

    Scores are those that its own methods go by, to the last bit.

    Parameters
    ----------
    model : estimator
        Fitted.
    rows : ndarray of shape (n_rows, n_features)
        Float64.
    log_density, distance : bool, default=False
        Whether to work these out too.

    Raises
    ------
    ValueError
        If no class has a finite score for a row.
    """
    log_priors = model._finalised_now().log_priors
    scores = np.empty((len(rows), len(log_priors)), order="F")
    densities = np.empty(len(rows)) if log_density else None
    distances = np.empty(len(rows)) if distance else None
    with np.errstate(over="ignore", invalid="ignore"):
        for where, gaussians, block in model._blocks(rows, missing=model.missing):
            if densities is None and distances is None:
                of_block = gaussians.discriminants(block)
            else:
                squared = gaussians.squared_distances(block)
                of_block = gaussians.posterior_scores_from(block, squared)
            of_block += log_priors
            refuse_lost(of_block, where)
            scores[where] = of_block
            if densities is not None:
                densities[where] = posteriors.log_evidence(gaussians.log_density_at(squared) + log_priors)
            if distances is not None:
                nearest = squared[np.arange(len(block)), of_block.argmax(axis=1)]
                distances[where] = np.sqrt(np.maximum(nearest, 0.0))
    return Verdicts(scores, densities, distances)
