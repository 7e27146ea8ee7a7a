"""What the three classifiers share: statistics in, posteriors out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from streamgda.accumulation import accumulate, empty_statistics
from streamgda.arrays import array_blocks, refuse_rounding, refuse_unreadable
from streamgda.blocks import Block, rows_per_block
from streamgda.covariances import CovarianceType
from streamgda.gaussians import Array, Gaussians
from streamgda.labels import Labels
from streamgda.lazy import is_dask, lazy_on_dask
from streamgda.protocol import Statistics
from streamgda.source import Source

G = TypeVar("G", bound=Gaussians)


class GaussianClassifier(ClassifierMixin, BaseEstimator, ABC, Generic[G]):
    """A classifier whose parameters are finalised from `ClassStatistics` when they are first needed.

    A subclass says which covariance type it needs and how statistics become `Gaussians`.
    """

    _covariance_type: ClassVar[CovarianceType]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "priors": ["array-like", None],
        "exact": ["boolean"],
    }

    priors: ArrayLike | None
    exact: bool
    statistics_: Statistics
    n_features_in_: int

    @abstractmethod
    def _finalise(self, statistics: Statistics) -> G:
        """The densities of the classes, from statistics and the parameters of the estimator."""

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to all the rows of X, forgetting what it had learnt before.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame, or source
            Rows; or a source such as `scan_parquet` returns, which is read once, out of core, and
            knows its own target and weights. To choose the scheduler or see progress, `accumulate` it
            and use `from_statistics`.
        y : array-like of shape (n_rows,), dask array or Series, optional
            Integer, string or bool labels. For a dask DataFrame also the name of its column of labels.
            Not given with a source.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row, whole or not. Not given with a source.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the data holds NaN, infinity or a missing label, or fewer than two classes, or does
            not determine the model; the message says where, and what to do.
        """
        if isinstance(X, Source):
            if y is not None or sample_weight is not None:
                raise ValueError("a source brings its own target and weights; name them where it is scanned")
            return self._adopt(accumulate(X, self._covariance_type, exact=self.exact))
        if is_dask(X):
            from streamgda.sources.dask import scan_dask

            source = scan_dask(X, y, weight=sample_weight)
            return self._adopt(accumulate(source, self._covariance_type, exact=self.exact))
        with self._features_kept_on_error():
            return self._adopt(self._statistics_of(self._blocks_of(X, y, sample_weight, reset=True)))

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of rows to what the model has learnt.

        However the rows are cut into batches, the model is that of one `fit` of them all. Classes
        may appear in any batch.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Integer, string or bool labels.
        classes : array-like of shape (n_classes,), optional
            Not needed. Where given, a label of this batch that is not among them is refused. Unlike
            scikit-learn's, `classes_` holds the labels seen, not those announced here.
        sample_weight : array-like of shape (n_rows,), optional
            Repetitions of each row, whole or not.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the batch holds NaN, infinity or a missing label, or its features are not those seen
            before. The model is then as it was.
        """
        if hasattr(self, "statistics_"):
            blocks = self._blocks_of(X, y, sample_weight, classes=classes, reset=False)
            self.statistics_.update_blocks(blocks)
            return self
        with self._features_kept_on_error():
            blocks = self._blocks_of(X, y, sample_weight, classes=classes, reset=True)
            self.statistics_ = self._statistics_of(blocks)
        return self

    def merge(self, other: Self) -> Self:
        """Add what another model of the same kind has learnt from other rows.

        Parameters
        ----------
        other : estimator of the same class
            A fitted model; it is left as it is.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the two were fitted to different features or kinds of label.
        """
        if type(other) is not type(self):
            raise TypeError(f"only models of one kind merge: {type(self).__name__}, {type(other).__name__}")
        check_is_fitted(other)
        if hasattr(self, "statistics_"):
            self.statistics_.merge(other.statistics_)
        else:
            self.statistics_ = other.statistics_.copy()
        self._describe_features(self.statistics_)
        return self

    @classmethod
    def from_statistics(cls, statistics: Statistics, **params: Any) -> Self:
        """A model of rows already counted.

        Parameters
        ----------
        statistics : ClassStatistics or ExactClassStatistics
            Of the covariance type that the model needs, or "full". A copy is kept.
        **params
            Parameters of the estimator.

        Returns
        -------
        estimator : object
            Fitted.
        """
        params = {"exact": statistics.exact, **params}
        return cls(**params)._adopt(statistics.to_covariance_type(cls._covariance_type))

    def _blocks_of(
        self, X: Any, y: Any, sample_weight: Any, *, classes: ArrayLike | None = None, reset: bool
    ) -> Iterator[Block]:
        _refuse_what_is_no_batch(X)
        refuse_unreadable(X)
        if self.exact:
            refuse_rounding(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = validate_data(self, X, reset=reset, ensure_all_finite=False)
        names = getattr(self, "feature_names_in_", None)
        if getattr(y, "ndim", 1) != 1:
            y = column_or_1d(y, warn=True)
        if classes is not None:
            _refuse_other_classes(y, classes)
        return array_blocks(X, y, sample_weight, None if names is None else tuple(names))

    def _statistics_of(self, blocks: Iterator[Block]) -> Statistics:
        statistics = empty_statistics(self._covariance_type, exact=self.exact)
        statistics.update_blocks(blocks)
        if not statistics.n_rows:
            raise ValueError("no row has a positive weight")
        return statistics

    def _adopt(self, statistics: Statistics) -> Self:
        finalised = self._finalised(statistics)
        self._describe_features(statistics)
        self.statistics_, self._cache = statistics, finalised
        return self

    @contextmanager
    def _features_kept_on_error(self) -> Iterator[None]:
        """Undo what validation noted of the features of data that was then refused."""
        noted = ("n_features_in_", "feature_names_in_")
        before = {name: self.__dict__[name] for name in noted if name in self.__dict__}
        try:
            yield
        except BaseException:
            for name in noted:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise

    def _describe_features(self, statistics: Statistics) -> None:
        self.n_features_in_ = statistics.n_features
        if statistics.feature_names is not None:
            self.feature_names_in_ = np.array(statistics.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # ------------------------------------------------------------------ what was learnt

    @property
    def classes_(self) -> Labels:
        """The labels seen, sorted; shape (n_classes,)."""
        return self.statistics_.classes

    @property
    def _gaussians(self) -> G:
        """The densities, finalised anew whenever the statistics or the parameters have changed."""
        check_is_fitted(self)
        cached = self.__dict__.get("_cache")
        if cached is None or not cached.is_of(self.statistics_, self.get_params(deep=False)):
            cached = self._cache = self._finalised(self.statistics_)
        gaussians: G = cached.gaussians
        return gaussians

    def _finalised(self, statistics: Statistics) -> _Finalised:
        self._validate_params()
        _require_two_classes(statistics)
        _require_finite(statistics)
        self._class_priors(statistics)
        gaussians = self._finalise(statistics)
        return _Finalised(statistics.revision, self.get_params(deep=False), gaussians)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the densities, which can be finalised again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_cache"}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "statistics_")

    def _class_priors(self, statistics: Statistics) -> Array:
        """The priors given, or the share of each class in the weight."""
        if self.priors is None:
            weights = statistics.weights
            shares: Array = weights / weights.sum()
            return shares
        try:
            priors = np.asarray(self.priors, dtype=np.float64)
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

    def _by_class(self, X: Any, score: Literal["log_density", "discriminants"]) -> Array:
        """A score of each row and class with the log prior of the class added: (n, K), block by block."""
        _refuse_what_is_no_batch(X)
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        score_of = getattr(self._gaussians, score)
        batches = gen_batches(len(X), rows_per_block(X.shape[1]))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log_priors = np.log(self._class_priors(self.statistics_))
            blocks = [score_of(X[b].astype(np.float64, copy=False)) + log_priors for b in batches]
        return np.concatenate(blocks)

    @lazy_on_dask
    def predict(self, X: ArrayLike) -> Labels:
        """The class with the largest posterior probability of each row of X: shape (n_rows,)."""
        best: NDArray[np.intp] = self._discriminants(X).argmax(axis=1)
        labels: Labels = self.classes_[best]
        return labels

    @lazy_on_dask
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior probability of each class: shape (n_rows, n_classes)."""
        scores = self._discriminants(X)
        return scores - logsumexp(scores, axis=1, keepdims=True)

    @lazy_on_dask
    def predict_proba(self, X: ArrayLike) -> Array:
        """Posterior probability of each class, in the order of `classes_`: shape (n_rows, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    @lazy_on_dask
    def decision_function(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior, up to what all classes have in common.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            For two classes, the log-odds of the second.
        """
        scores = self._discriminants(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    @lazy_on_dask
    def score_samples(self, X: ArrayLike) -> Array:
        """Ln p(x) of each row under the mixture of the classes: shape (n_rows,).

        The lower, the less the row is like anything seen.
        """
        density: Array = logsumexp(self._by_class(X, "log_density"), axis=1)
        return density

    def _discriminants(self, X: ArrayLike) -> Array:
        """Log of p(x, k), up to what all classes have in common."""
        scores = self._by_class(X, "discriminants")
        lost = np.isneginf(scores).all(axis=1) | np.isnan(scores).any(axis=1)
        if lost.any():
            raise ValueError(
                f"row {int(np.argmax(lost))} is too far from the classes: squared distances exceed float64"
            )
        return scores


@dataclass(frozen=True)
class _Finalised:
    """Densities, and the state and the parameters that they were made from."""

    revision: object
    params: dict[str, Any]
    gaussians: Any

    def is_of(self, statistics: Statistics, params: dict[str, Any]) -> bool:
        """Whether they would come out the same now."""
        return self.revision is statistics.revision and all(
            value is self.params[name] for name, value in params.items()
        )


def _require_two_classes(statistics: Statistics) -> None:
    classes = statistics.classes
    if len(classes) < 2:
        seen = f"only class {classes[0]!s}" if len(classes) else "no class"
        raise ValueError(f"a classifier needs rows of at least two classes; the data has {seen}")


def _require_finite(statistics: Statistics) -> None:
    """Exact sums go beyond float64; a model does not."""
    if not np.isfinite(statistics.covariance()).all():
        raise ValueError("the features are too large: their squares exceed float64. Rescale them first")


def _refuse_what_is_no_batch(X: Any) -> None:
    if is_dask(X):
        raise TypeError("rows are needed here, in memory; a Dask collection goes to fit")
    if isinstance(X, Source):
        raise TypeError("rows are needed here, in an array or a frame; a source goes to fit or accumulate")
    if isinstance(X, str | PathLike):
        raise TypeError(f"rows or a source are needed, got the path {X}; scan_parquet makes a source of it")


def _refuse_other_classes(y: ArrayLike, classes: ArrayLike) -> None:
    seen = np.asarray(y)
    other = ~np.isin(seen, np.asarray(classes))
    if other.any():
        raise ValueError(
            f"label {seen[other][0]!s} is not among the classes given: {list(np.asarray(classes))}"
        )
