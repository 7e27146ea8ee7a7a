"""How estimators learn: from batches, sources, statistics and other models. They keep only statistics."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from numbers import Integral, Real
from threading import Lock
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from streamgda.blocks.block import Block, Missing
from streamgda.blocks.categories import Value
from streamgda.blocks.labels import Labels
from streamgda.blocks.wording import Message
from streamgda.estimators import ESTIMATORS, estimator_named
from streamgda.estimators.dtypes import FittedTypes
from streamgda.estimators.priors import by_texts, in_pairs
from streamgda.estimators.reading import (
    MissingAtPrediction,
    blocks_to_learn,
    check_holds_products,
    complete_blocks,
    keeping_reads,
    kept_on_error,
    merged,
    one_of,
    reading_blocks,
    source_to_learn,
    updated,
)
from streamgda.estimators.scores import Finalised
from streamgda.passes.accumulate import note_read, warn_unless_enough_reads
from streamgda.passes.compute import Progress, Scheduler
from streamgda.sources.base import Source
from streamgda.sources.conversion import is_dask
from streamgda.sources.roles import CategoricalFeatures
from streamgda.statistics.base import Statistics, check_statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.incomplete.reads import (
    ONE_READ,
    READ_TOLERANCE,
    Keep,
    Note,
    Read,
    Reading,
    Steps,
    read_incomplete,
)
from streamgda.statistics.incomplete.state import MAX_PATTERNS, IncompleteStatistics
from streamgda.storage.saving import Savable

ROWS_NEEDED = (
    "covariance_estimator needs all the rows in memory at once, so it works with fit on arrays and data "
    "frames alone; shrinkage=0.1, 'auto' or 'oas' learns from any data"
)

_replacing = Lock()  # held while a model gets new statistics, so that no thread adds rows to the old ones


class StatisticsLearner(BaseEstimator, Savable, ABC):
    """An estimator whose fitted state is its statistics. It learns from batches, sources and other models."""

    _covariance_type: ClassVar[CovarianceType]
    # The values of the parameters that several estimators have.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "priors": ["array-like", dict, None],
        "exact": ["boolean"],
        "missing": [one_of("raise", "marginal")],
        "max_patterns": [Interval(Integral, 1, None, closed="left")],
        "max_reads": [Interval(Integral, 1, None, closed="left")],
        "em_tol": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "shrinkage": [one_of("auto", "oas"), Interval(Real, 0, 1, closed="both"), None],
        "pooling": [one_of("bayes"), Interval(Real, 0, 1, closed="both"), None],
        "reg_param": [Interval(Real, 0, 1, closed="both")],
        "singular": [one_of("raise", "skip"), None],
        "predictive": [one_of("plugin", "student")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "categorical_features": [one_of("from_dtype"), "array-like", None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "categorical_ridge": [Interval(Real, 0, None, closed="neither")],
        "max_categories": [Interval(Integral, 2, None, closed="left"), None],
    }
    _set_by_reading: ClassVar[tuple[str, ...]] = ("n_features_in_", "feature_names_in_", "_types")
    _types: FittedTypes = FittedTypes()

    exact: bool
    missing: MissingAtPrediction
    max_patterns: int = MAX_PATTERNS
    max_reads: int = 1
    em_tol: float = READ_TOLERANCE
    singular: Literal["raise", "skip"] | None = None
    covariance_estimator: Any = None
    categorical_features: CategoricalFeatures = None

    n_features_in_: int
    statistics_: Statistics

    @classmethod
    @lru_cache(maxsize=64)
    def _get_param_names(cls) -> list[str]:
        """The names of the parameters, cached: reading the signature takes as long as learning a row."""
        names: list[str] = super()._get_param_names()
        return names

    # ------------------------------------------------------------------ what an estimator learns

    def required_statistics(self) -> dict[str, Any]:
        """The statistics that the model needs, as parameters of `ClassStatistics` and `accumulate`."""
        return {"covariance_type": self._covariance_type}

    @property
    def learns_incomplete(self) -> bool:
        """Whether the model learns from rows in which features are missing."""
        return self.missing == "marginal"

    @property
    def _em_steps(self) -> Steps:
        return Steps(self.max_reads, self.em_tol)

    def _check_learns_in_parts(self) -> None:
        """Raise ValueError if a parameter needs all the rows in memory at once."""
        if self.covariance_estimator is not None:
            raise ValueError(ROWS_NEEDED)

    @abstractmethod
    def _compute_finalised(self, statistics: Statistics) -> Finalised[Any]:
        """Compute densities and priors, or raise ValueError if the statistics do not determine them."""

    @abstractmethod
    def _warn_once(self, state: Finalised[Any]) -> None:
        """Warn once of what the densities lack. Copies in workers know of it, and do not warn again."""

    def _read_blocks(self, blocks: Callable[[], Iterator[Block]], steps: Steps = ONE_READ) -> Reading:
        """Read rows in memory, in blocks that are made anew for each read."""
        return self._read(reading_blocks(blocks), steps)

    def _read(
        self,
        read: Read,
        steps: Steps = ONE_READ,
        note: Note | None = None,
        keep: Keep | None = None,
        *,
        is_more: bool = False,
    ) -> Reading:
        """Read rows into a state, in one read or, for EM by reads, in several.

        With `is_more`, the state will be added to others.
        """
        empty, n_reads = self._empty_for(read, is_more)
        if not isinstance(empty, IncompleteStatistics):
            return Reading(read(empty), n_reads + 1)
        reading = read_incomplete(read, empty, steps, note, keep)
        return replace(reading, n_reads=reading.n_reads + n_reads)

    def _empty_for(self, read: Read, is_more: bool) -> tuple[Statistics, int]:
        """The state of no rows that is to be filled, and how many reads it took to make it."""
        return self._empty(**self.required_statistics()), 0

    def _empty(self, **kind: Any) -> Statistics:
        """A state of no rows, of this kind. It takes incomplete rows if the model learns from them."""
        kind |= {"incomplete": self.learns_incomplete, "max_patterns": self.max_patterns}
        return empty_statistics(exact=self.exact, **kind)

    def _arrived(self, blocks: Iterable[Block]) -> Iterable[Block]:
        """The rows of a later batch. A model that draws centres first draws them from these rows."""
        return blocks

    # ------------------------------------------------------------------ rows and statistics go in

    @property
    def classes_(self) -> Labels:
        """The labels seen, sorted; shape (n_classes,)."""
        return self._types.of_labels(self.statistics_.class_labels)

    @property
    def categories_(self) -> dict[str, list[Value]]:
        """The categories of each column that has them, sorted; None, for a missing value, comes last.

        The features of the model are the columns of numbers, and then a dummy for each of these categories.
        """
        categories = self.statistics_.categories
        if categories is None:
            return {}
        return dict(zip(categories.columns, map(list, categories.values), strict=True))

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        missing: Missing = "raise",
        scheduler: Scheduler = None,
        progress: Progress = False,
    ) -> Self:
        """Fit the model to the rows of X. Rows learnt before are forgotten.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame, or source
            Rows; or a source, such as `scan_parquet` returns. A source has its own target and weights and is
            read once, out of core.
        y : array-like of shape (n_rows,), dask array or Series, optional
            Integer, string or bool labels. For a dask DataFrame also the name of its column of labels.
            Required unless X is a source.
        sample_weight : array-like of shape (n_rows,), dask array or Series, optional
            Repetitions of each row, whole or fractional (with ``exact=True`` whole). For a dask DataFrame
            whose labels are named, the name of its column of weights. Not allowed with a source. Means and
            covariances depend on the ratios of the weights alone. Shrinkage "auto" and "oas", however, use
            the sum of the weights of a class as its number of rows. Importance weights w of a class should
            therefore sum to its effective number of rows, such as (Σ w)² / Σ w² (Kish 1965).
        missing : {"raise", "drop"}, default="raise"
            With "drop", rows with NaN, infinity, or no label or weight are left out and counted in
            ``statistics_.n_dropped``. For a source, give `missing` to the function that scans it.
        scheduler, progress : optional
            For a source or a Dask collection, as for `accumulate`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the data holds NaN, infinity, a missing label or fewer than two classes, or does not determine
            the model. The message says where, and what to do. If a source or a Dask collection does not
            determine the model, its statistics are still kept in `statistics_`. If a read of EM fails, the
            result of the reads before it is kept there too.
        """
        self._validate_params()
        if isinstance(X, Source) or is_dask(X):
            self._check_learns_in_parts()
            read = source_to_learn(self, X, y, sample_weight, missing, scheduler, progress)
            with keeping_reads(self._hold_reading) as keep:
                reading = self._read(read, self._em_steps, note_read if progress else None, keep)
            self._types = FittedTypes()
            return self._set_fitted(reading, keep=True)
        with kept_on_error(self, self._set_by_reading):
            blocks = partial(blocks_to_learn, self, X, y, sample_weight, missing=missing, reset=True)
            return self._set_fitted(self._read_blocks(blocks, self._em_steps))

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        missing: Missing = "raise",
        scheduler: Scheduler = None,
        progress: Progress = False,
    ) -> Self:
        """Learn a batch of rows, in addition to the rows learnt before.

        The model is that of one `fit` of all the rows, whatever the batches. A class may first appear in any
        batch. A batch without rows changes nothing.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame, or source
            Rows, as for `fit`.
        y : array-like of shape (n_rows,), dask array or Series, optional
            Their labels, as for `fit`.
        classes : array-like of shape (n_classes,), optional
            Not needed. If given, the labels of this batch must be among them. Unlike in scikit-learn,
            `classes_` holds the labels seen, not those announced here. Ignored with a source or Dask.
        sample_weight : array-like of shape (n_rows,), dask array or Series, optional
            Repetitions of each row, as for `fit`.
        missing, scheduler, progress : optional
            As for `fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the batch holds NaN, infinity or a missing label, if its features are not those seen before, or
            if it is the first batch and all weights are zero. The model is then unchanged.
        """
        self._check_learns_in_parts()
        if not isinstance(X, np.ndarray) and (isinstance(X, Source) or is_dask(X)):
            names = list(getattr(self, "feature_names_in_", ()))
            read = source_to_learn(self, X, y, sample_weight, missing, scheduler, progress, names)
            return self.merge(self._read(read, is_more=True).statistics)
        blocks_of = partial(
            blocks_to_learn, self, X, y, sample_weight, missing=missing, classes=classes, min_rows=0
        )
        if not hasattr(self, "statistics_") and np.shape(X)[:1] == (0,):
            return self
        if not hasattr(self, "statistics_") and self._learn_first_batch(partial(blocks_of, reset=True)):
            return self
        blocks = self._arrived(blocks_of(reset=False))
        if self.learns_incomplete:
            check_holds_products(self.statistics_, self._covariance_type)
            with _replacing:
                self.statistics_ = updated(self.statistics_, list(blocks), self.max_patterns)
        else:
            statistics = self.statistics_
            statistics.update_blocks(complete_blocks(blocks) if statistics.keeps_patterns else blocks)
        if self._types.rows != "float64":
            self._types = self._types.with_rows(X)
        if self.statistics_.categories is not None:
            self._describe_features(self.statistics_)
        return self

    def _learn_first_batch(self, blocks: Callable[[], Iterator[Block]]) -> bool:
        """Learn the first batch and return True; return False if another thread has learnt one before."""
        with _replacing:
            if hasattr(self, "statistics_"):
                return False
            with kept_on_error(self, self._set_by_reading):
                self.statistics_ = self._read(reading_blocks(blocks), is_more=True).statistics
                if self.statistics_.categories is not None:
                    self._describe_features(self.statistics_)
        return True

    def merge(self, other: Self | Statistics) -> Self:
        """Add the rows that another model of the same class, or statistics, have learnt.

        Parameters
        ----------
        other : estimator of the same class, or statistics
            A fitted model; or statistics of the covariance type that the model needs, or "full". It is not
            changed.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If the other is a model of another class.
        ValueError
            If the two were fitted to different features or kinds of label, or only one of them is exact. This
            model is then unchanged.
        """
        added = self._copied_statistics(other)
        with _replacing:
            held = self.__dict__.get("statistics_")
            if held is None:
                self._types = getattr(other, "_types", self._types)
            self.statistics_ = added if held is None else merged(held, added, self.max_patterns)
        self._describe_features(self.statistics_)
        return self

    def _copied_statistics(self, other: Self | Statistics) -> Statistics:
        if isinstance(other, Statistics):
            self._check_exactness(other)
            return self._narrowed(other).ordinary()
        if type(other) is not type(self):
            raise TypeError(f"only models of one kind merge: {type(self).__name__}, {type(other).__name__}")
        check_is_fitted(other)
        return other.statistics_.copy()

    @classmethod
    def from_statistics(cls, statistics: Statistics, **params: Any) -> Self:
        """A model fitted to the rows of which these are the statistics.

        Parameters
        ----------
        statistics : ClassStatistics or ExactClassStatistics
            Statistics of the covariance type that the model needs, or "full". The model keeps a copy of what
            it needs.
        **params
            Parameters of the estimator.

        Returns
        -------
        estimator : object
            Fitted.

        Raises
        ------
        TypeError
            If `statistics` is not an instance of statistics.
        ValueError
            If the statistics hold less than the model needs or do not determine it, or a parameter is not
            valid. The message says what to do.
        """
        check_statistics(statistics)
        missing = {"missing": "marginal"} if statistics.ordinary().keeps_patterns else {}
        estimator = cls(**{"exact": statistics.exact, **missing, **params})
        estimator._check_exactness(statistics)
        return estimator._set_fitted(Reading(estimator._narrowed(statistics).ordinary()))

    def _narrowed(self, statistics: Statistics) -> Statistics:
        """What the model needs of statistics, copied."""
        return statistics.class_statistics().to_covariance_type(**self.required_statistics())

    def _check_exactness(self, statistics: Statistics) -> None:
        if self.exact != statistics.exact:
            given, required = ("exact", "floating") if statistics.exact else ("floating", "exact")
            raise ValueError(f"exact={self.exact} asks for {required} statistics; these are {given}")

    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        check_is_fitted(self)
        check_holds_products(self.statistics_, self._covariance_type)
        name = type(self).__name__
        if name not in ESTIMATORS or estimator_named(name) is not type(self):
            raise TypeError(f"{name} is not a model that can be read back; save its statistics_ instead")
        columns, metadata = self.statistics_.to_columns()
        params = self._plain_params()
        model: dict[str, Any] = {"name": name, "params": params}
        if isinstance(params.get("priors"), Mapping):
            model["priors"] = in_pairs(params["priors"])
            params["priors"] = by_texts(params["priors"])
        if self._types != FittedTypes():
            model["types"] = vars(self._types)
        return columns, {**metadata, "model": model}

    def _plain_params(self) -> dict[str, Any]:
        """The parameters, of which all but the priors are values that JSON holds."""
        params: dict[str, Any] = self.get_params(deep=False)
        return params

    @classmethod
    def _upgraded(cls, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a model saved by this or an earlier version, as `__init__` takes them now."""
        return params

    # ------------------------------------------------------------------ exchange with scikit-learn

    def as_pipeline(self, source: Source) -> Pipeline:
        """The maps of a source and this model, as a fitted pipeline of scikit-learn.

        Parameters
        ----------
        source : Source
            What the model has learnt, made by `map`.

        Returns
        -------
        sklearn.pipeline.Pipeline
            The steps "map", and "map_2" and so on if there are several, and "model". It predicts rows with
            the features that the source had before it was mapped. `evaluate`, `predict_dataset` and the
            command line take it too, and pickle or joblib save it. Its model has no names of features, since
            transformers answer with arrays.

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
        if source.n_features not in {None, self.n_features_in_} or names != source.feature_names:
            raise ValueError(f"the model has learnt other features than those of {source!r}")
        model = copy(self)
        if source.maps:
            model.__dict__.pop("feature_names_in_", None)
        steps = [(f"map_{i}" if i > 1 else "map", step) for i, step in enumerate(source.maps, 1)]
        return Pipeline([*steps, ("model", model)])

    # ------------------------------------------------------------------ fitted state

    def _set_fitted(self, reading: Reading, *, keep: bool = False) -> Self:
        """Compute densities and store both; with `keep`, store insufficient statistics too."""
        statistics = reading.statistics
        try:
            finalised = self._compute_finalised(statistics)
            reasons = {**finalised.gaussians.singular, **finalised.densities.singular}
            if reasons and self.singular != "skip":
                raise next(iter(reasons.values()))()
        except ValueError as error:
            if keep and statistics.n_rows:
                self._hold(statistics)
                kept = "⟨. What was read is kept in statistics_, so no second read is needed|⟩"
                error.args = (Message(Message.of(error), kept),)
            raise
        self._hold(statistics)
        self._cache = finalised
        self._n_reads, self._converged = reading.n_reads, reading.converged
        warn_unless_enough_reads(reading)
        self.__dict__.pop("_warned", None)
        self._warn_once(finalised)
        return self

    def _hold_reading(self, reading: Reading) -> None:
        """Store the result of some reads of EM after which another read failed."""
        self._hold(reading.statistics)
        self._types = FittedTypes()
        self._n_reads, self._converged = reading.n_reads, False

    def _hold(self, statistics: Statistics) -> None:
        """Store statistics, which may be insufficient for a model."""
        self._describe_features(statistics)
        self.statistics_ = statistics

    def _describe_features(self, statistics: Statistics) -> None:
        """Set the number and the names of the features, as the statistics have them.

        If there are categories, these are the columns: those of numbers, then those with categories.
        """
        categories = statistics.categories
        names = statistics.feature_names if categories is None else categories.names
        self.n_features_in_ = statistics.n_features if categories is None else len(categories.names)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def __getstate__(self) -> dict[str, Any]:
        """The attributes to pickle: all but the densities, which are computed again when needed."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_cache"}

    def __dask_tokenize__(self) -> object:
        """What tells models apart in Dask's graphs, which takes only the parameters of a dataclass."""
        return type(self).__qualname__, pickle.dumps(self.__getstate__())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "statistics_")
