"""How classifiers predict: densities are finalised from the statistics when needed, and score the rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from streamgda.blocks.labels import Labels
from streamgda.estimators.finalised import Finalised
from streamgda.estimators.incomplete import completion_of, warn_unless_converged
from streamgda.estimators.lazy import class_labels, lazy_on_dask
from streamgda.estimators.learning import StatisticsLearner
from streamgda.estimators.priors import class_priors
from streamgda.estimators.rows import MissingAtPrediction, check_rows
from streamgda.estimators.scores import RowScores, blocks_by_pattern, blocks_of
from streamgda.estimators.validation import (
    check_batch,
    check_finite,
    check_has_learnt,
    check_holds_products,
    check_two_classes,
    one_of,
)
from streamgda.gaussians.base import Densities, Gaussians
from streamgda.gaussians.posteriors import decisions
from streamgda.gaussians.products import TILE_ROWS
from streamgda.sources.base import Source
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.revisions import Revision

G = TypeVar("G", bound=Gaussians)

_VALUES_PER_BLOCK = 1 << 15  # a few arrays of so many values fit in the second-level cache
_SCORES_PER_BLOCK = 1 << 18  # these fit too; larger, since each block costs a Python step per class
_FEWEST_ROWS = 144  # of many features; with fewer, products of matrices take a quarter longer
_FEWEST_OF_PRODUCTS = 480  # rows of scores that are one product; with fewer, these take a tenth longer
_SCORES_OF_PRODUCTS = 1 << 21  # 16 MB


class GaussianClassifier(ClassifierMixin, StatisticsLearner, Generic[G]):
    """A classifier by normal densities, which are finalised from the statistics when first needed.

    A subclass names the covariance type that it needs and computes `Gaussians` from statistics.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StatisticsLearner._parameter_constraints,
        "priors": ["array-like", dict, None],
        "missing": [one_of("raise", "marginal")],
    }

    _renormalises_priors: ClassVar[bool] = False

    priors: ArrayLike | None
    missing: MissingAtPrediction

    @property
    def learns_incomplete(self) -> bool:
        """Whether the model learns from rows in which features are missing."""
        return self.missing == "marginal"

    @abstractmethod
    def _finalise(self, statistics: Statistics) -> G:
        """Compute the densities of the classes from statistics and the parameters of the estimator."""

    def _compute_finalised(self, statistics: Statistics, before: Finalised[G] | None = None) -> Finalised[G]:
        if before is not None and not before.has_params(self):
            before = None
        gaussians = None if before is None else self._followed(before, statistics)
        if gaussians is None:
            if before is None:
                self._validate_params()
            check_two_classes(statistics)
            check_holds_products(statistics, self._covariance_type)
            check_finite(statistics)
            self._check_determined(statistics)
            warn_unless_converged(statistics)
            gaussians = self._finalise(statistics)
        priors = priors_of(self, statistics)
        return Finalised.of(self, statistics, gaussians, self._predictive(gaussians, statistics), priors)

    def _check_determined(self, statistics: Statistics) -> None:
        """Raise ValueError if rows in which features are missing do not determine a class."""
        for error in statistics.undetermined.values():
            raise error

    def _followed(self, before: Finalised[G], statistics: Statistics) -> G | None:
        """The densities brought up to date, if only few rows or classes have changed since."""
        added = statistics.revision.since(before.revision)
        return None if added is None else self._refinalise(before, statistics, added)

    def _refinalise(self, before: Finalised[G], statistics: Statistics, added: list[Revision]) -> G | None:
        """Compute densities from those before some rows were added; None to compute them all anew."""
        return None

    def _predictive(self, gaussians: G, statistics: Statistics) -> Densities:
        """The densities that rows are scored by; by default the normal ones."""
        return gaussians

    def finalise_anew(self) -> None:
        """Finalise from the statistics alone, as a copy of the model in another process does."""
        finalised(self, anew=True)

    # ------------------------------------------------------------------ fitted attributes

    @property
    def priors_(self) -> Array:
        """Prior probabilities of the classes."""
        return finalised(self).priors.copy()

    @property
    def means_(self) -> Array:
        """Means of the classes."""
        return self.statistics_.means

    # ------------------------------------------------------------------ learning from incomplete rows

    @property
    def n_iter_(self) -> int:
        """Steps of EM that learning from incomplete rows took."""
        check_has_learnt(self)
        steps = completion_of(self.statistics_)
        return self.n_reads_ - 1 if steps is None else steps.n_iter

    @property
    def converged_(self) -> bool:
        """Whether these steps converged."""
        check_has_learnt(self)
        steps = completion_of(self.statistics_)
        converged: bool = self.__dict__.get("_converged", True) if steps is None else steps.converged
        return converged

    @property
    def n_reads_(self) -> int:
        """How often `fit` read the rows."""
        check_has_learnt(self)
        n_reads: int = self.__dict__.get("_n_reads", 1)
        return n_reads

    @property
    def _priors_of_peer(self) -> Any:
        """The parameter `priors` as scikit-learn takes it."""
        return self.priors_ if isinstance(self.priors, dict) else self.priors

    # ------------------------------------------------------------------ prediction

    def _apply(self, X: Any, view: Callable[[RowScores], NDArray[Any]]) -> NDArray[Any]:
        """Apply `view` to the scores of rows, block by block; no larger array than the result is held."""
        rows = check_rows(self, X)
        result: NDArray[Any] | None = None
        for scores in score_rows(self, rows):
            part = view(scores)
            if result is None:
                result = np.empty((len(rows), *part.shape[1:]), dtype=part.dtype)
            result[scores.positions] = part
        assert result is not None  # check_rows raises if there are no rows
        return result

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
            the model; or if a row is too far from all classes to tell them apart.
        """
        labels: Labels = self._apply(X, self._labels)
        return labels

    def _labels(self, scores: RowScores) -> Labels:
        """The predicted labels, in the type of those that the model was fitted to."""
        labels: Labels = self._types.of_labels(scores.finalised.classes)[scores.codes]
        return labels

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on labelled rows: the share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows in memory. For a Dask collection, compare lazy predictions:
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
        rows = check_rows(self, X)
        state = finalised(self)
        result = np.empty((len(rows), len(state.classes)))
        for scores in score_finalised(state, rows, self.missing):
            scores.write_probabilities(result)
        return result

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

        A low value marks an outlier; −∞ if a squared distance exceeds float64. Where the covariance of LDA is
        singular, it is the density in the range of the covariance. Units of collinear features should then
        be within some 10⁸ of each other, such as grams and tonnes. The rounding error, the same for all
        rows, is about 10⁻¹⁶ times their ratio. Rows are as for `predict`.
        """
        return self._apply(X, lambda scores: scores.log_density)


def priors_of(model: GaussianClassifier[Any], statistics: Statistics) -> Array:
    """The parameter `priors` of a model, or else the share of each class in the total weight."""
    return class_priors(model.priors, statistics, renormalise=model._renormalises_priors)


# ---------------------------------------------------------------------- scoring


def finalised(model: GaussianClassifier[G], *, anew: bool = False) -> Finalised[G]:
    """The densities and priors of a fitted model; computed again if statistics or parameters have changed.

    With `anew`, they are not brought up to date from earlier ones: they then have the same bits as those of a
    copy of the model, in another process too.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model has learnt nothing.
    ValueError
        If the statistics do not determine the model.
    """
    check_has_learnt(model)
    cached: Finalised[G] | None = model.__dict__.get("_cache")
    if anew and cached is not None and cached.gaussians.is_updated:
        cached = None
    if cached is not None and cached.is_current(model):
        return cached
    statistics = model.statistics_
    with statistics.lock:  # no other thread may learn meanwhile
        computed = model._cache = model._compute_finalised(statistics, None if anew else cached)
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


def score_finalised(
    state: Finalised[Any], rows: NDArray[Any], missing: MissingAtPrediction
) -> Iterator[RowScores]:
    """`score_rows` by the densities of a model, which other processes get without its statistics."""
    size = _rows_per_block(state, rows.shape[1])
    blocks = blocks_by_pattern if missing == "marginal" else blocks_of
    for positions, gaussians, block in blocks(rows, state.densities, size):
        # C-contiguous, since the bits of sums over the features of a row depend on the memory order.
        values = np.ascontiguousarray(block, dtype=np.float64)
        yield RowScores(state, gaussians, positions, values)


def _rows_per_block(state: Finalised[Any], n_features: int) -> int:
    """How many rows are scored at a time: whole tiles."""
    is_product = not state.densities.scores_from_distances
    fewest = _FEWEST_OF_PRODUCTS if is_product else _FEWEST_ROWS
    most = (_SCORES_OF_PRODUCTS if is_product else _SCORES_PER_BLOCK) // len(state.classes)
    size = min(max(_VALUES_PER_BLOCK // n_features, fewest), most)
    return max(1, -(-size // TILE_ROWS)) * TILE_ROWS
