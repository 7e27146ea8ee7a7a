"""What the three classifiers share of learning: rows and states go in, statistics are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from threading import Lock
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from streamgda.blocks import labels
from streamgda.blocks.arrays import array_blocks, check_no_rounding, check_readable
from streamgda.blocks.block import Block
from streamgda.blocks.labels import Labels
from streamgda.estimators import ESTIMATORS, estimator_named
from streamgda.estimators.finalised import Finalised
from streamgda.passes.accumulate import accumulate
from streamgda.sources.base import Source
from streamgda.sources.conversion import as_source, is_dask
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.storage.paths import AnyFileSystem, Path

_first_batch = Lock()  # held while a model learns its first rows


class StatisticsLearner(BaseEstimator, ABC):
    """An estimator that remembers statistics alone: it learns from batches, sources and other models."""

    _covariance_type: ClassVar[CovarianceType]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"exact": ["boolean"]}

    exact: bool
    statistics_: Statistics
    n_features_in_: int

    def required_statistics(self) -> dict[str, Any]:
        """What the statistics must hold: parameters of `ClassStatistics` and `accumulate`."""
        return {"covariance_type": self._covariance_type}

    @abstractmethod
    def _finalised(self, statistics: Statistics) -> Finalised[Any]:
        """What statistics make of the model, or an error that says why they make none."""

    def _check_fit(self, state: Finalised[Any]) -> None:
        """Raise an error if what is finalised is not what `fit` promises."""

    def _note(self, state: Finalised[Any]) -> None:
        """Warn of what is finalised for the first time."""

    @property
    def classes_(self) -> Labels:
        """The labels seen, sorted; shape (n_classes,)."""
        return self.statistics_.classes

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
            Repetitions of each row, whole or not (with ``exact=True`` whole). For a dask DataFrame whose
            labels are named, the name of its column of weights. Not given with a source. Means and
            covariances depend on the ratios of the weights alone; but shrinkage "auto" and "oas" take the
            sum of the weights of a class for its number of rows. So let importance weights w of a class sum
            to the number of rows that they are worth, such as (Σ w)² / Σ w² (Kish 1965).

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the data holds NaN, infinity or a missing label, or fewer than two classes, or does
            not determine the model; the message says where, and what to do. If a source or a Dask
            collection does not determine the model, what was read is kept in `statistics_` all the same.
        """
        self._validate_params()
        if isinstance(X, Source) or is_dask(X):
            return self._set_fitted(self._statistics_of_source(X, y, sample_weight), keep=True)
        with self._features_kept_on_error():
            return self._set_fitted(self._statistics_of(self._blocks_of(X, y, sample_weight, reset=True)))

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
            Repetitions of each row, whole or not (with ``exact=True`` whole).

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the batch holds NaN, infinity or a missing label, or its features are not those seen
            before. The model is then as it was.
        """
        if isinstance(X, Source) or is_dask(X):
            return self.merge(self._statistics_of_source(X, y, sample_weight))
        if not hasattr(self, "statistics_") and self._begin(X, y, sample_weight, classes):
            return self
        self.statistics_.update_blocks(self._blocks_of(X, y, sample_weight, classes=classes, reset=False))
        return self

    def _begin(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> bool:
        """Learn the first batch; not, if another thread has learnt one meanwhile."""
        with _first_batch:
            if hasattr(self, "statistics_"):
                return False
            with self._features_kept_on_error():
                blocks = self._blocks_of(X, y, sample_weight, classes=classes, reset=True)
                self.statistics_ = self._statistics_of(blocks)
        return True

    def merge(self, other: Self | Statistics) -> Self:
        """Add what another model of the same kind has learnt from other rows.

        Parameters
        ----------
        other : estimator of the same class, or statistics
            A fitted model; or statistics of the covariance type that the model needs, or "full". The other is
            left as it is.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If the other is a model of another kind.
        ValueError
            If the two were fitted to different features or kinds of label, or one of them is exact. This
            model is then as it was.
        """
        theirs = self._copied_statistics(other)
        with _first_batch:
            first = not hasattr(self, "statistics_")
            if first:
                self.statistics_ = theirs
        if not first:
            self.statistics_.merge(theirs)
        self._describe_features(self.statistics_)
        return self

    def _copied_statistics(self, other: Self | Statistics) -> Statistics:
        if isinstance(other, Statistics):
            self._check_exactness(other)
            return other.to_covariance_type(**self.required_statistics())
        if type(other) is not type(self):
            raise TypeError(f"only models of one kind merge: {type(self).__name__}, {type(other).__name__}")
        check_is_fitted(other)
        return other.statistics_.copy()

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

        Raises
        ------
        TypeError
            If they are no statistics.
        ValueError
            If they hold less than the model needs, or do not determine it, or a parameter is not valid; the
            message says what to do.
        """
        if not isinstance(statistics, Statistics):
            raise TypeError(f"statistics are needed, as accumulate returns; got {type(statistics).__name__}")
        estimator = cls(**{"exact": statistics.exact, **params})
        estimator._check_exactness(statistics)
        return estimator._set_fitted(statistics.to_covariance_type(**estimator.required_statistics()))

    def _check_exactness(self, statistics: Statistics) -> None:
        if self.exact != statistics.exact:
            held, asked = ("exact", "floating") if statistics.exact else ("floating", "exact")
            raise ValueError(f"exact={self.exact} asks for {asked} statistics; these are {held}")

    def save(self, path: Path, *, filesystem: AnyFileSystem | None = None, overwrite: bool = False) -> None:
        """Write the model as a Parquet table, which `streamgda.load` reads back to the last bit.

        The statistics are the table, one row per class, and the parameters its metadata;
        `streamgda.storage` says how.

        Parameters
        ----------
        path : str or path
            A file, or a URL such as "s3://bucket/model.parquet". Statistics or a model that were saved there
            before are replaced.
        filesystem : pyarrow or fsspec filesystem, optional
            Where `path` is; found from `path` where not given.
        overwrite : bool, default=False
            Whether to replace a file of any other kind, such as data, too.

        Raises
        ------
        ValueError
            If a file of another kind is there, and `overwrite` is False.
        OSError
            If it cannot be written. What stood there before is still there.
        TypeError
            If the class of the model, or the type of a parameter, is not one that `load` knows.
        """
        from streamgda.storage import tables

        check_is_fitted(self)
        name = type(self).__name__
        if name not in ESTIMATORS or estimator_named(name) is not type(self):
            raise TypeError(f"{name} is not a model that can be read back; save its statistics_ instead")
        columns, metadata = self.statistics_.to_columns()
        model = {"name": name, "params": self.get_params(deep=False)}
        tables.save(path, columns, {**metadata, "model": model}, filesystem, overwrite)

    def _restore(self, statistics: Statistics) -> Self:
        """Take statistics for one's own, even if they do not yet suffice for a prediction."""
        self._validate_params()
        held = {
            "covariance_type": statistics.covariance_type,
            "fourth_moments": statistics.has_fourth_moments,
        }
        if statistics.exact != self.exact or held != {"fourth_moments": False, **self.required_statistics()}:
            raise ValueError(f"its statistics, {statistics!r}, are not what its parameters ask for")
        self._describe_features(statistics)
        self.statistics_ = statistics
        return self

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

    def _blocks_of(
        self, X: Any, y: Any, sample_weight: Any, *, classes: ArrayLike | None = None, reset: bool
    ) -> Iterator[Block]:
        check_batch(X)
        check_readable(X)
        if self.exact:
            check_no_rounding(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = validate_data(self, X, reset=reset, ensure_all_finite=False)
        names = getattr(self, "feature_names_in_", None)
        if getattr(y, "ndim", 1) != 1:
            y = column_or_1d(y, warn=True)
        if classes is not None:
            _check_known_classes(y, classes)
        return array_blocks(X, y, sample_weight, None if names is None else tuple(names))

    def _statistics_of(self, blocks: Iterator[Block]) -> Statistics:
        statistics = empty_statistics(exact=self.exact, **self.required_statistics())
        statistics.update_blocks(blocks)
        if not statistics.n_rows:
            raise ValueError("every sample weight is zero, so there is no row to learn from")
        return statistics

    def _statistics_of_source(self, X: Any, y: Any, sample_weight: Any) -> Statistics:
        source = as_source(X, y, sample_weight)
        return accumulate(source, exact=self.exact, **self.required_statistics())

    def _set_fitted(self, statistics: Statistics, *, keep: bool = False) -> Self:
        """Finalise statistics and keep them, also where asked to if they do not determine the model."""
        try:
            finalised = self._finalised(statistics)
            self._check_fit(finalised)
        except ValueError as error:
            if keep and statistics.n_rows:
                self._describe_features(statistics)
                self.statistics_ = statistics
                error.args = (f"{error}. What was read is kept in statistics_, so no second read is needed",)
            raise
        self._describe_features(statistics)
        self.statistics_, self._cache = statistics, finalised
        self._note(finalised)
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

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the densities, which can be finalised again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_cache", "_noted")}

    def _check_fitted(self) -> None:
        if "statistics_" not in self.__dict__:  # check_is_fitted takes as long as a small product of matrices
            check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "statistics_")


def check_batch(X: Any) -> None:
    """Refuse what is not held in memory."""
    if is_dask(X):
        raise TypeError("rows are needed here, in memory; a Dask collection goes to fit")
    if isinstance(X, Source):
        raise TypeError(
            "rows are needed here, in an array or a frame; a source goes to fit, partial_fit and accumulate, "
            "to evaluate in place of score, and to predict_dataset in place of predict"
        )
    if isinstance(X, str | PathLike):
        raise TypeError(f"rows or a source are needed, got the path {X}; scan_parquet makes a source of it")


def _check_known_classes(y: ArrayLike, classes: ArrayLike) -> None:
    seen, given = labels.encode(y)[0], labels.as_labels(classes)
    labels.union(seen, given)  # which refuses labels of different kinds
    other = np.setdiff1d(seen, given)
    if len(other):
        raise ValueError(f"label {other[0]!s} is not among the classes given: {given.tolist()}")
