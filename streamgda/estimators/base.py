"""What the three classifiers share: statistics in, posteriors out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from streamgda import labels, posteriors
from streamgda.accumulation import accumulate
from streamgda.arrays import array_blocks, refuse_lazy, refuse_rounding, refuse_unreadable
from streamgda.blocks import Block
from streamgda.covariances import CovarianceType
from streamgda.empty import empty_statistics
from streamgda.gaussians import Array, Gaussians
from streamgda.labels import Labels
from streamgda.lazy import is_dask, lazy_on_dask
from streamgda.patterns import Where, blocks_by_pattern, blocks_of
from streamgda.protocol import Statistics
from streamgda.saving import SavedAsTable
from streamgda.source import Source
from streamgda.statistics import ClassStatistics, refuse_other_precision

G = TypeVar("G", bound=Gaussians)
T = TypeVar("T")
Score = Literal["log_density", "discriminants", "contrasts"]
MissingAtPrediction = Literal["raise", "marginal"]

_VALUES_PER_BLOCK = 1 << 15  # what a few arrays of them take stays in the second-level cache
_SCORES_PER_BLOCK = 1 << 18  # which still fit there; more, since every block costs a step of Python per class


def classes_of(model: GaussianClassifier[Any]) -> Labels:
    """The labels that columns of scores go by."""
    return model.classes_


class GaussianClassifier(ClassifierMixin, BaseEstimator, ABC, Generic[G]):
    """A classifier whose parameters are finalised from `ClassStatistics` when they are first needed.

    A subclass says which covariance type it needs and how statistics become `Gaussians`.
    """

    _covariance_type: ClassVar[CovarianceType]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "priors": ["array-like", None],
        "missing": [StrOptions({"raise", "marginal"})],
        "exact": ["boolean"],
    }

    priors: ArrayLike | None
    missing: MissingAtPrediction
    exact: bool
    statistics_: Statistics
    n_features_in_: int

    def _needed(self) -> dict[str, Any]:
        """What the statistics must hold: parameters of `ClassStatistics` and `accumulate`."""
        return {"covariance_type": self._covariance_type}

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
        sample_weight : array-like of shape (n_rows,), dask array or Series, optional
            Repetitions of each row, whole or not. For a dask DataFrame whose labels are named, the name
            of its column of weights. Not given with a source. Means and covariances depend on the ratios
            of the weights alone; but shrinkage "auto" and "oas" take the sum of the weights of a class for
            its number of rows. So let importance weights w of a class sum to the number of rows that they
            are worth, such as (Σ w)² / Σ w² (Kish 1965).

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
            return self._adopt(accumulate(X, exact=self.exact, **self._needed()))
        if is_dask(X):
            from streamgda.sources.dask import scan_dask

            source = scan_dask(X, y, weight=sample_weight)
            return self._adopt(accumulate(source, exact=self.exact, **self._needed()))
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
            Of the covariance type that the model needs, or "full". A copy of what it needs is kept.
        **params
            Parameters of the estimator.

        Returns
        -------
        estimator : object
            Fitted.
        """
        if not isinstance(statistics, SavedAsTable):
            raise TypeError(f"statistics are needed, as accumulate returns; got {type(statistics).__name__}")
        estimator = cls(**{"exact": statistics.exact, **params})
        refuse_other_precision(estimator, statistics)
        return estimator._adopt(statistics.to_covariance_type(**estimator._needed()))

    # ------------------------------------------------------------------ exchange with scikit-learn

    @abstractmethod
    def to_sklearn(self) -> Any:
        """A fitted estimator of scikit-learn's that predicts the same."""

    @classmethod
    @abstractmethod
    def from_sklearn(cls, estimator: Any, class_count: ArrayLike | None = None) -> Self:
        """A model that has learnt what an estimator of scikit-learn's has, and can go on learning."""

    def _handed_over(self, peer: Any) -> Any:
        """A peer that knows the classes and features of this model."""
        peer.classes_, peer.n_features_in_ = self.classes_, self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            peer.feature_names_in_ = self.feature_names_in_.copy()
        return peer

    @classmethod
    def _taken_over(
        cls, peer: Any, classes: Any, counts: Any, means: Array, scatter: Array, **params: Any
    ) -> Self:
        """A model with the moments of a peer."""
        statistics = ClassStatistics.from_moments(
            classes,
            np.maximum(np.rint(counts), 1),
            means,
            scatter,
            weights=counts,
            covariance_type=cls._covariance_type,
            feature_names=getattr(peer, "feature_names_in_", None),
        )
        return cls.from_statistics(statistics, **params)

    # ------------------------------------------------------------------ rows go in

    def save(self, path: str | PathLike[str], *, filesystem: Any = None) -> None:
        """Write the model as a Parquet table, which `streamgda.load` reads back to the last bit.

        The statistics are the table, one row per class, and the parameters its metadata;
        `streamgda.storage` says how.

        Parameters
        ----------
        path : str or path
            A file, or a URL such as "s3://bucket/model.parquet". What stands there is replaced.
        filesystem : pyarrow or fsspec filesystem, optional
            Where `path` is; found from `path` where not given.

        Raises
        ------
        OSError
            If it cannot be written. What stood there before is still there.
        TypeError
            If the class of the model, or the type of a parameter, is not one that `load` knows.
        """
        from streamgda import tables

        check_is_fitted(self)
        name = type(self).__name__
        if not type(self).__module__.startswith("streamgda."):
            raise TypeError(f"{name} is not a model that can be read back; save its statistics_ instead")
        columns, metadata = self.statistics_.to_columns()
        model = {"name": name, "params": self.get_params(deep=False)}
        tables.write(path, tables.to_arrow(columns), {**metadata, "model": model}, filesystem)

    def _continue_from(self, statistics: Statistics) -> Self:
        """Take statistics for one's own, even if they do not yet suffice for a prediction."""
        self._validate_params()
        held = {
            "covariance_type": statistics.covariance_type,
            "fourth_moments": statistics.has_fourth_moments,
        }
        if statistics.exact != self.exact or held != {"fourth_moments": False, **self._needed()}:
            raise ValueError(f"its statistics, {statistics!r}, are not what its parameters ask for")
        self._describe_features(statistics)
        self.statistics_ = statistics
        return self

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
        statistics = empty_statistics(exact=self.exact, **self._needed())
        statistics.update_blocks(blocks)
        if not statistics.n_rows:
            raise ValueError("every sample weight is zero, so there is no row to learn from")
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
        gaussians: G = self._finalised_now().gaussians
        return gaussians

    def _finalised_now(self) -> _Finalised:
        check_is_fitted(self)
        cached: _Finalised | None = self.__dict__.get("_cache")
        if cached is None or not cached.is_of(self):
            cached = self._cache = self._finalised(self.statistics_)
        return cached

    def _finalised(self, statistics: Statistics) -> _Finalised:
        self._validate_params()
        _require_two_classes(statistics)
        _require_finite(statistics)
        priors = self._class_priors(statistics)
        with np.errstate(divide="ignore"):
            log_priors = np.log(priors)
        gaussians = self._finalise(statistics)
        return _Finalised(statistics.revision, self.get_params(deep=False), gaussians, priors, log_priors)

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
        _refuse_what_is_no_batch(X)
        check_is_fitted(self)
        refuse_lazy(X)
        if hasattr(X, "columns"):  # what the model was not fitted to need not be readable
            validate_data(self, X, reset=False, skip_check_array=True)
        refuse_unreadable(X)
        with np.errstate(over="ignore", invalid="ignore"):  # which looks for NaN in a sum
            rows: NDArray[Any] = validate_data(self, X, reset=False, ensure_all_finite="allow-nan")
            if missing == "raise" and np.isnan(rows.sum()):
                self._refuse_missing(rows)
        return rows

    def _refuse_missing(self, rows: NDArray[Any]) -> None:
        """Name the first NaN, if there is one."""
        for row, index in np.argwhere(np.isnan(rows))[:1]:
            name = repr(self.feature_names_in_[index]) if hasattr(self, "feature_names_in_") else index
            raise ValueError(
                f"row {row}: feature {name} is NaN or null. Mend the data or leave out such rows; or let the "
                "model predict by the features that are there: set_params(missing='marginal')"
            )

    @lazy_on_dask(columns=classes_of)
    def predict(self, X: ArrayLike) -> Labels:
        """The class with the largest posterior probability of each row of X: shape (n_rows,)."""
        best = self._by_block(X, "contrasts", lambda scores: scores.argmax(axis=1))
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
            _refuse_what_is_no_batch(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        accuracy: float = super().score(X, y, sample_weight)
        return accuracy

    @lazy_on_dask(columns=classes_of)
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior probability of each class: shape (n_rows, n_classes)."""
        return self._by_block(X, "contrasts", posteriors.log_posteriors)

    @lazy_on_dask(columns=classes_of)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Posterior probability of each class, in the order of `classes_`: shape (n_rows, n_classes)."""
        return self._by_block(X, "contrasts", posteriors.posteriors)

    @lazy_on_dask(columns=classes_of)
    def decision_function(self, X: ArrayLike) -> Array:
        """Logarithm of the posterior, up to what all classes have in common.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or (n_rows,) for two classes
            For two classes, the log-odds of the second.
        """
        return self._by_block(X, "discriminants", posteriors.decisions)

    @lazy_on_dask(columns=classes_of)
    def score_samples(self, X: ArrayLike) -> Array:
        """Ln p(x) of each row under the mixture of the classes: shape (n_rows,).

        The lower, the less the row is like anything seen.
        """
        return self._by_block(X, "log_density", posteriors.log_evidence)


@dataclass(frozen=True)
class _Finalised:
    """Densities, and the state and the parameters that they were made from."""

    revision: object
    params: dict[str, Any]
    gaussians: Any
    priors: Array
    log_priors: Array
    derived: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, derive: Callable[[], T]) -> T:
        """What is derived from the densities when it is first asked for."""
        if name not in self.derived:
            self.derived[name] = derive()
        value: T = self.derived[name]
        return value

    def is_of(self, model: GaussianClassifier[Any]) -> bool:
        """Whether they would come out the same now."""
        return self.revision is model.statistics_.revision and all(
            getattr(model, name) is value for name, value in self.params.items()
        )


def _require_two_classes(statistics: Statistics) -> None:
    classes = statistics.classes
    if len(classes) < 2:
        seen = f"only 1 class: {classes[0]!s}" if len(classes) else "none"
        raise ValueError(f"a classifier needs rows of at least two classes; the data has {seen}")


def _require_finite(statistics: Statistics) -> None:
    """Exact sums go beyond float64; a model does not."""
    if not np.isfinite(statistics.covariance()).all():
        raise ValueError("the features are too large: their squares exceed float64. Rescale them first")


def _refuse_what_is_no_batch(X: Any) -> None:
    if is_dask(X):
        raise TypeError("rows are needed here, in memory; a Dask collection goes to fit")
    if isinstance(X, Source):
        raise TypeError(
            "rows are needed here, in an array or a frame; a source goes to fit or accumulate. To predict "
            "more rows than memory holds, give a Dask collection, such as dask.dataframe.read_parquet returns"
        )
    if isinstance(X, str | PathLike):
        raise TypeError(f"rows or a source are needed, got the path {X}; scan_parquet makes a source of it")


def refuse_lost(scores: Array, where: Where) -> None:
    """Refuse rows that no class has a finite score for: a guess among them would mean nothing."""
    best = scores.max(axis=1)
    if not np.isfinite(best).all():
        row = np.arange(len(scores))[~np.isfinite(best)][0]
        row = row + where.start if isinstance(where, slice) else where[row]
        raise ValueError(f"row {row} is too far from the classes: squared distances exceed float64")


def _refuse_other_classes(y: ArrayLike, classes: ArrayLike) -> None:
    seen, given = labels.encode(y)[0], labels.as_labels(classes)
    labels.unite(seen, given)  # which refuses labels of different kinds
    other = np.setdiff1d(seen, given)
    if len(other):
        raise ValueError(f"label {other[0]!s} is not among the classes given: {given.tolist()}")
