"""How estimators learn: from batches, sources, statistics and other models. They keep only statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from itertools import chain, islice
from numbers import Real
from threading import Lock
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from streamgda.data.blocks import labels
from streamgda.data.blocks.block import Block, Missing
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.options import Option, check_not_renamed
from streamgda.data.registry import OPTIONS
from streamgda.data.sources.base import Source
from streamgda.data.sources.conversion import is_dask
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.storage import saving
from streamgda.models.estimators import DOCUMENTATION, ESTIMATORS, estimator_named, options
from streamgda.models.estimators.dtypes import FittedTypes
from streamgda.models.estimators.forgetting import Times, merged, newest_and_weights
from streamgda.models.estimators.moment import at_one_moment
from streamgda.models.estimators.priors import by_texts, in_pairs
from streamgda.models.estimators.reading import (
    announced_labels,
    blocks_to_learn,
    check_announced,
    check_holds_products,
    keeping_reads,
    needs_dense,
    note_read,
    one_of,
    reading_blocks,
    source_to_learn,
    warn_unless_enough_reads,
)
from streamgda.models.estimators.scores import Finalised
from streamgda.statistics.base import Statistics, check_statistics
from streamgda.statistics.covariances import CovarianceType
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.missing import Keep, MissingRows, Note, Read, Reading, policy_of
from streamgda.statistics.required import Required
from streamgda.statistics.rules import RowRule

ROWS_NEEDED = (
    "covariance_estimator needs all the rows in memory at once, so it works with fit on arrays and data "
    "frames alone; shrinkage=0.1, 'auto' or 'oas' learns from any data"
)


class StatisticsLearner(BaseEstimator, ABC):
    """An estimator whose fitted state is its statistics. It learns from batches, sources and other models."""

    _doc_link_module = "streamgda"  # which scikit-learn links to beside a drawn estimator
    _doc_link_template = DOCUMENTATION
    _covariance_type: ClassVar[CovarianceType]
    # The values of the parameters that several estimators have.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "priors": ["array-like", dict, None],
        "exact": ["boolean"],
        "missing": [one_of("raise", "marginal"), options.OptionOf("missing")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "shrinkage": [one_of("auto", "oas"), Interval(Real, 0, 1, closed="both"), None],
        "pooling": [one_of("bayes"), Interval(Real, 0, 1, closed="both"), None],
        "reg_param": [Interval(Real, 0, 1, closed="both")],
        "singular": [one_of("raise", "skip"), None],
        "predictive": [one_of("plugin", "student")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "half_life": [Interval(Real, 0, None, closed="neither"), None],
    }
    _types: FittedTypes = FittedTypes()
    divides_rows: ClassVar[bool] = False
    """Whether the rows of a class are divided by a rule, so that statistics of classes do not suffice."""
    maps_rows: ClassVar[bool] = False
    """Whether the rule of the statistics maps rows to predict. If not, such rows are mapped already."""

    _adding: ClassVar[tuple[str, ...]] = ("missing", "exact")
    """The parameters that say how rows are added up."""
    _takes_missing: ClassVar[bool] = True
    """Whether the model can learn and predict by the features that a row has."""
    _fixed_by_rule: ClassVar[tuple[str, ...]] = ()
    """The parameters that say how rows are mapped or divided, which a rule of statistics has fixed."""
    _told_by_statistics: ClassVar[tuple[str, ...]] = ("half_life",)
    """Parameters on which predictions depend only through the statistics."""
    _of_one_fit: ClassVar[tuple[str, ...]] = ("_announced", "_estimates", "_newest")
    """Attributes that another `fit` forgets."""

    _announced: Labels | None = None
    _newest: Times | None = None  # of the rows learnt
    _learnt_whole: bool = False  # by `fit` or `from_statistics`, which raise an error if rows are too few
    _least_classes: int = 1  # 2 of `fit`, since rows of one class are mostly a mistake there

    exact: bool
    missing: MissingRows
    singular: Literal["raise", "skip"] | None = None
    covariance_estimator: Any = None
    half_life: float | None = None

    n_features_in_: int
    statistics_: Statistics

    @classmethod
    @lru_cache(maxsize=64)
    def _get_param_names(cls) -> list[str]:
        """The names of the parameters, cached: reading the signature takes as long as learning a row."""
        return list(super()._get_param_names())

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """An estimator that `__init__` has not seen yet; TypeError for a parameter of an older version."""
        if params:
            check_not_renamed(cls._get_param_names(), params, TypeError)
        model: Self = super().__new__(cls)
        return model

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of an option: ``option__parameter`` puts another option in its place."""
        changed: Self = super().set_params(**options.with_whole_options(self, params))
        return changed

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.half_life is not None and self.exact:
            raise ValueError("weights that halve are not exact; exact=True needs half_life=None")
        for name in OPTIONS:
            if isinstance(option := getattr(self, name, None), Option):
                option.check(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = needs_dense(self) is None
        return tags

    # ------------------------------------------------------------------ what an estimator learns

    def required_statistics(self) -> Required:
        """What the statistics of the model keep."""
        return self._required(self._covariance_type)

    def _required(self, covariance_type: CovarianceType) -> Required:
        return Required(covariance_type, exact=self.exact)

    @property
    def needs_all_classes(self) -> bool:
        """Whether the model needs the moments of every class; else `singular` decides about a class."""
        return True

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

    def _prepare_for(self, source: Source, scheduler: Scheduler) -> None:
        """Prepare to read a source, whose plan stays the same until it has been read."""

    def _read_blocks(self, blocks: Callable[[], Iterator[Block]]) -> Reading:
        """Read rows in memory, in blocks that are made anew for each read."""
        return self._read(reading_blocks(blocks))

    def _read(
        self, read: Read, note: Note | None = None, keep: Keep | None = None, *, is_more: bool = False
    ) -> Reading:
        """Read rows into a state, as often as need be; once if `is_more`, to add it to others."""
        empty, n_reads = self._empty_for(read, is_more)
        reading = policy_of(self.missing).read(read, empty, once=is_more, note=note, keep=keep)
        return replace(reading, n_reads=reading.n_reads + n_reads)

    def _empty_for(self, read: Read, is_more: bool) -> tuple[Statistics, int]:
        """The state of no rows that is to be filled, and how many reads it took to make it."""
        return self._empty(self.required_statistics()), 0

    def _empty(self, required: Required, rule: RowRule | None = None) -> Statistics:
        """A state of no rows."""
        return empty_statistics(required, missing=self.missing, rule=rule)

    @classmethod
    def rules_for(
        cls, models: Sequence[Any], read: Read, source: Source, scheduler: Scheduler = None
    ) -> tuple[list[RowRule | None], int]:
        """The rules by which such models divide or map rows of a source, and how many reads that takes."""
        return [None] * len(models), 0

    # ------------------------------------------------------------------ rows and statistics go in

    @property
    def classes_(self) -> Labels:
        """The labels announced or seen, sorted; shape (n_classes,)."""
        return self._types.of_labels(self.known_labels)

    def labels_of(self, statistics: Statistics) -> Labels:
        """The labels of the classes of statistics, sorted; shape (n_classes,)."""
        return statistics.classes

    def with_announced(self, seen: Labels) -> Labels:
        """These labels and those announced, sorted."""
        return seen if self._announced is None else labels.union(seen, self._announced)

    @property
    def known_labels(self) -> Labels:
        """The labels announced or seen, sorted and as the statistics hold them; shape (n_classes,)."""
        return self.with_announced(self.labels_of(self.statistics_))

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
        X : array-like or sparse array of shape (n_rows, n_features), dask array or DataFrame, or source
            Rows; or a source, such as `scan_parquet` returns. A source has its own target and weights and is
            read once, out of core.
        y : array-like of shape (n_rows,), dask array or Series, optional
            Integer, string or bool labels. For a dask DataFrame also the name of its column of labels.
            Required unless X is a source.
        sample_weight : array-like of shape (n_rows,), dask array or Series, optional
            Repetitions of each row, whole or fractional (with ``exact=True`` whole). For a dask DataFrame
            whose labels are named, the name of its column of weights. Not allowed with a source. Means and
            covariances depend on the ratios of the weights alone. Estimates of `shrinkage`, however, use
            the sum of the weights of a class as its number of rows. Importance weights w of a class should
            therefore sum to its effective number of rows, such as (Σ w)² / Σ w² (Kish 1965).
        missing : {"raise", "drop"}, default="raise"
            With "drop", rows with NaN, infinity, or no label or weight are left out and counted in
            ``statistics_.n_dropped``. A model with ``missing="marginal"`` leaves out rows without a label in
            any case. For a source, give `missing` to the function that scans it.
        scheduler, progress : optional
            For a source or a Dask collection, as for `accumulate`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the data holds NaN, infinity, a missing label or fewer than two classes (`partial_fit` and
            `from_statistics` take one), or does not determine the model. The message says where, and what to
            do. If a source or a Dask collection does not determine the model, its statistics are still kept
            in `statistics_`. If a read of EM fails, the result of the reads before it is kept there too.
        """
        self._validate_params()
        twin = self._twin(*self._of_one_fit)
        twin._least_classes = 2
        if isinstance(X, Source) or is_dask(X):
            self._check_learns_in_parts()
            read = source_to_learn(twin, X, y, sample_weight, missing, scheduler, progress)
            twin._types = FittedTypes()
            with keeping_reads(partial(self._keep_reading, twin)) as keep:
                reading = twin._read(read, note_read if progress else None, keep)
            return self._set_fitted(reading, twin, keep=True)
        blocks = partial(blocks_to_learn, twin, X, y, sample_weight, missing=missing, reset=True)
        return self._set_fitted(twin._read_blocks(blocks), twin)

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        missing: Missing = "raise",
        time: Any = None,
        scheduler: Scheduler = None,
        progress: Progress = False,
    ) -> Self:
        """Learn a batch of rows, in addition to the rows learnt before.

        The model is that of one `fit` of all the rows, whatever the batches; with `half_life`, of the rows
        weighted by ``0.5 ** (age / half_life)``. A class may first appear in any batch. A batch without rows
        changes nothing. As long as only one class has been seen, it is predicted with a probability of 1. As
        long as the rows determine the density of no class, each row gets the priors, after a warning.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), dask array or DataFrame, or source
            Rows, as for `fit`.
        y : array-like of shape (n_rows,), dask array or Series, optional
            Their labels, as for `fit`.
        classes : array-like of shape (n_classes,), optional
            Not needed. If given, the labels of this batch must be among them, and `classes_` holds them all,
            besides the labels seen. A class of which no row has come yet has a prior and posteriors of 0, as
            in scikit-learn. `fit` forgets it.
        sample_weight : array-like of shape (n_rows,), dask array or Series, optional
            Repetitions of each row, as for `fit`.
        time : float or date, or array-like of shape (n_rows,), optional
            When the batch is from, or each of its rows in memory: numbers in the unit of `half_life`, or
            dates, which count in days. A model takes one of the two. Dates may be text by ISO 8601, are in
            UTC unless they have a time zone, and are no later than tomorrow. The age of a row is then the
            time since, and by default the number of rows learnt in later batches. Rows that come late count
            by their age. Rows learnt before the first time was given count as if they were of that time.
        missing, scheduler, progress : optional
            As for `fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the batch holds NaN, infinity or a missing label, if its features are not those seen before, or
            if it is the first batch and all weights are zero, or `time` is no time, later than tomorrow, or
            a date where others are numbers. The model is then unchanged.

        Warns
        -----
        UserWarning
            If the rows learnt before, or those of this batch, are left with less than 1e-12 of their weight.

        Examples
        --------
        >>> from streamgda import GaussianNB
        >>> model = GaussianNB(half_life=2).partial_fit([[0.0], [4.0]], [0, 1])
        >>> model.partial_fit([[1.0], [5.0]], [0, 1]).means_.ravel().round(3)  # new rows count twice as much
        array([0.667, 4.667])
        """
        self._check_learns_in_parts()
        in_memory = isinstance(X, np.ndarray) or not (isinstance(X, Source) or is_dask(X))
        announced = None if classes is None else announced_labels(classes, y if in_memory else None)
        now = None
        if time is not None or self.half_life is not None:
            now, sample_weight = newest_and_weights(self, time, sample_weight, y, in_memory=in_memory)
        if not in_memory:
            names = list(getattr(self, "feature_names_in_", ()))
            read = source_to_learn(self, X, y, sample_weight, missing, scheduler, progress, names)
            statistics = self._read(read, is_more=True).statistics
            check_announced(self.labels_of(statistics), announced)
            return self._merge(statistics, None, announced, now, statistics.n_rows)
        options: dict[str, Any] = {"missing": missing, "announced": announced, "min_rows": 0}
        if not hasattr(self, "statistics_"):
            if np.shape(X)[:1] == (0,):
                self._announced = self._all_announced(announced)
                return self
            twin = self._twin()
            blocks_of = partial(blocks_to_learn, twin, X, y, sample_weight, reset=True, **options)
            first = twin._read(reading_blocks(blocks_of), is_more=True).statistics
            twin._newest = now
            if self._take_first(twin, first, announced):
                return self
        blocks = blocks_to_learn(self, X, y, sample_weight, reset=False, **options)
        self._learn_blocks(blocks, partial(self._fields_after, X, announced), now)
        return self

    def _fields_after(self, X: Any, announced: Labels | None) -> dict[str, Any]:
        """The attributes that change with a batch of rows."""
        is_alike = announced is None and not self._learnt_whole and self._types.rows == "float64"
        if is_alike and self.half_life is None:
            return {}
        types = self._types if self._types.rows == "float64" else self._types.with_rows(X)
        known = self._all_announced(announced)
        return {"_learnt_whole": False, "_types": types, "_announced": known}

    def _all_announced(self, announced: Labels | None) -> Labels | None:
        """The labels that have been announced, and others."""
        if announced is None or self._announced is None:
            return announced if self._announced is None else self._announced
        return labels.union(self._announced, announced)  # the same object, if it has them all

    def _learn_blocks(
        self, blocks: Iterator[Block], fields_after: Callable[[], dict[str, Any]], now: Times | None = None
    ) -> None:
        """Add the rows of a batch. A large one becomes a state of its own first, while others may learn."""
        policy, statistics = policy_of(self.missing), self.statistics_
        if self.missing != "raise":
            check_holds_products(statistics, self._covariance_type)
        first = list(islice(blocks, 2))
        if len(first) > 1 or (first and self.half_life is not None):
            added = cast("Statistics", policy.state_of(statistics, chain(first, blocks)))
            self._learn(partial(merged, self, added=added, now=now, n_rows=added.n_rows), fields_after)
        else:
            self._learn(partial(policy.update, blocks=first), fields_after)

    def _learn(
        self, change: Callable[[Statistics], Statistics], fields_after: Callable[[], dict[str, Any]]
    ) -> None:
        """Change the statistics, which may become other ones, and attributes with them: all or nothing."""
        statistics = self.statistics_
        with statistics.lock:
            if self.statistics_ is statistics:
                before, changes = self.__dict__, statistics.changes
                try:
                    if fields := fields_after():
                        self.__dict__ = {**before, **fields}
                    changed = change(statistics)
                    if changed is not statistics:
                        self.__dict__ = {**self.__dict__, "statistics_": changed}
                except BaseException:
                    if self.statistics_ is statistics and statistics.changes is changes:
                        self.__dict__ = before
                    raise
                return
        self._learn(change, fields_after)  # while this thread waited, another one has replaced the statistics

    def _twin(self, *forgotten: str) -> Self:
        """An object with the attributes of this one but its densities, to learn in its place."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        for name in ("_cache", "_warned", "_traps", "_lock", *forgotten):
            twin.__dict__.pop(name, None)
        return twin

    def _take(self, twin: Self) -> None:
        """Take what another object has learnt, all at once. Parameters stay."""
        with at_one_moment(self) if "statistics_" in self.__dict__ else nullcontext():
            params = {name: self.__dict__[name] for name in self._get_param_names() if name in self.__dict__}
            self.__dict__ = {**twin.__dict__, **params}

    def _take_first(self, twin: Self, statistics: Statistics, announced: Labels | None) -> bool:
        """Take the statistics of a first batch; return False if another thread has learnt before."""
        twin._announced, twin._learnt_whole = self._all_announced(announced), False
        twin._hold(statistics)
        with self.__dict__.setdefault("_lock", Lock()):
            if "statistics_" in self.__dict__:
                return False
            self._take(twin)
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
            If the two were fitted to different features or kinds of label, only one of them is exact, or the
            times of one are dates and those of the other numbers. This model is then unchanged.
        """
        if isinstance(other, Statistics):
            self._check_exactness(other)
            return self._merge(self._narrowed(other).simplest())
        if type(other) is not type(self):
            raise TypeError(f"only models of one kind merge: {type(self).__name__}, {type(other).__name__}")
        check_is_fitted(other)
        with at_one_moment(other) as statistics:
            learnt = statistics.copy(), other._types, other._announced, other._newest
        return self._merge(*learnt)

    def _merge(
        self,
        added: Statistics,
        types: FittedTypes | None = None,
        announced: Labels | None = None,
        now: Times | None = None,
        n_rows: int = 0,
    ) -> Self:
        """Add the rows of statistics that nothing else holds, and labels that were announced.

        With a half-life, the rows learnt before age by `n_rows`, or until `now`.
        """
        if "statistics_" not in self.__dict__:
            twin = self._twin()
            twin._types, twin._newest = types or self._types, now if added.n_rows else None
            if self._take_first(twin, added, announced):
                return self

        def fields_after() -> dict[str, Any]:
            fields: dict[str, Any] = {"_announced": self._all_announced(announced), "_learnt_whole": False}
            names = added.schema_of_rows.names
            if names is not None and not hasattr(self, "feature_names_in_"):
                fields["feature_names_in_"] = np.array(names, dtype=object)
            return fields

        self._learn(partial(merged, self, added=added, now=now, n_rows=n_rows), fields_after)
        return self

    @classmethod
    def from_statistics(cls, statistics: Statistics, **params: Any) -> Self:
        """A model fitted to the rows of which these are the statistics.

        Parameters
        ----------
        statistics : ClassStatistics or ExactClassStatistics
            Statistics of the covariance type that the model needs, or "full". The model keeps a copy of what
            it needs. Statistics of one class, such as ``statistics.as_one_class()``, give a model that
            predicts this class, and whose distances and densities tell outliers.
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
        own = {"exact": statistics.exact, "missing": statistics.simplest().missing}
        own = {name: value for name, value in own.items() if name in cls._get_param_names()}
        estimator = cls().set_params(**{**own, **params})
        estimator._check_exactness(statistics)
        if statistics.rule is not None and not params.keys().isdisjoint(cls._fixed_by_rule):
            estimator._check_rule(statistics)
        reading = Reading(estimator._narrowed(statistics).simplest())
        return estimator._set_fitted(reading, estimator._twin())

    def _narrowed(self, statistics: Statistics) -> Statistics:
        """What the model needs of statistics, copied."""
        narrowed = statistics.by_label().narrowed(self.required_statistics())
        if statistics.schema_of_rows is not statistics.schema and not self.maps_rows:
            narrowed.rule = None  # the rows that the model predicts are mapped already
        return narrowed

    def typical_row(self) -> NDArray[np.float64]:
        """A row that the model can score: the mean of those learnt, (n_features,)."""
        return self.statistics_.overall_mean()

    def _check_exactness(self, statistics: Statistics) -> None:
        if self.exact != statistics.exact:
            given, required = ("exact", "floating") if statistics.exact else ("floating", "exact")
            raise ValueError(f"exact={self.exact} asks for {required} statistics; these are {given}")

    def _check_rule(self, statistics: Statistics) -> None:
        """Raise ValueError if the rows of statistics were mapped or divided otherwise than parameters say."""

    save = saving.save
    to_bytes = saving.to_bytes

    def _to_saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        check_is_fitted(self)
        check_holds_products(self.statistics_, self._covariance_type)
        name = type(self).__name__
        if name not in ESTIMATORS or estimator_named(name) is not type(self):
            raise TypeError(f"{name} is not a model that can be read back; save its statistics_ instead")
        with at_one_moment(self) as statistics:
            (columns, metadata), types, announced = statistics.to_columns(), self._types, self._announced
            params, beside = self._plain_params(), self._beside_statistics()
        model: dict[str, Any] = {"name": name, "params": params}
        if announced is not None:
            model["announced"] = announced.tolist()
        if isinstance(params.get("priors"), Mapping):
            model["priors"] = in_pairs(params["priors"])
            params["priors"] = by_texts(params["priors"])
        if types != FittedTypes():
            model["types"] = vars(types)
        return columns, {**metadata, "model": {**model, **beside}}

    def _beside_statistics(self) -> dict[str, Any]:
        """What the model has learnt besides, as values that JSON holds, and `_restore` reads."""
        newest = self._newest
        return {} if newest is None else {"newest": newest.values, "dated": newest.are_dates}

    def _restore(self, document: Mapping[str, Any]) -> None:
        """Take what was saved of `_beside_statistics`."""
        if (newest := document.get("newest")) is not None:
            dated = document.get("dated")
            self._newest = Times(float(newest), None if dated is None else bool(dated))

    def _plain_params(self) -> dict[str, Any]:
        """The parameters, of which all but the priors are values that JSON holds."""
        return options.to_plain(self.get_params(deep=False))

    @classmethod
    def _upgraded(cls, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a model saved by this or an earlier version, as `__init__` takes them now."""
        return options.from_plain(cls, params)

    # ------------------------------------------------------------------ fitted state

    def _set_fitted(self, reading: Reading, twin: Self, *, keep: bool = False) -> Self:
        """Compute densities, and take them and the statistics by which another object was fitted.

        With `keep`, take insufficient statistics too.
        """
        twin._hold_reading(reading)
        try:
            twin._cache = finalised = twin._compute_finalised(reading.statistics)
            reasons = {**finalised.gaussians.singular, **finalised.densities.singular}
            if reasons and self.singular != "skip":
                raise next(iter(reasons.values()))()
        except ValueError as error:
            if keep and reading.statistics.n_rows:
                self._keep_reading(twin, reading)
                remedy = ". What was read is kept in statistics_, so no second read is needed"
                error.args = (str(error) + remedy,)
            raise
        self._take(twin)
        warn_unless_enough_reads(reading)
        self._warn_once(finalised)
        return self

    def _keep_reading(self, twin: Self, reading: Reading) -> None:
        """Take the statistics of a fit that has failed."""
        twin._hold_reading(reading)
        twin.__dict__.pop("_cache", None)
        self._take(twin)

    def _hold_reading(self, reading: Reading) -> None:
        """Store statistics that were read."""
        self._hold(reading.statistics)
        self._n_reads, self._converged, self._learnt_whole = reading.n_reads, not reading.unfinished, True

    def _hold(self, statistics: Statistics) -> None:
        """Store statistics, which may be insufficient for a model, with the columns that they are of."""
        self.statistics_, names = statistics, statistics.schema_of_rows.names
        self.n_features_in_ = statistics.n_features if names is None else len(names)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def __getstate__(self) -> dict[str, Any]:
        """The attributes to pickle: all but the densities, which are computed again when needed."""
        # Another thread may learn, so what lies beside the statistics is of the same moment as they are.
        with at_one_moment(self) if "statistics_" in self.__dict__ else nullcontext() as statistics:
            state = dict(super().__getstate__())
            if statistics is not None:
                state["statistics_"] = statistics.copy()
        lasting = {name: value for name, value in state.items() if name not in {"_cache", "_lock"}}
        return {**lasting, "_version": _version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes of a pickle; ValueError for a fitted model of another version."""
        version = state.get("_version", "0.2.0 or earlier")
        if version != _version() and "statistics_" in state:
            raise ValueError(
                f"this {type(self).__name__} was pickled by streamgda {version}, and this is {_version()}. "
                "Load it by that version and save() it: later versions read such files"
            )
        super().__setstate__({name: value for name, value in state.items() if name != "_version"})

    def __dask_tokenize__(self) -> object:
        """What tells models apart in Dask's graphs, which takes only the parameters of a dataclass."""
        return self._identity()

    def _identity(self, apart_from: Collection[str] = ()) -> str:
        """A hash of the class, of the parameters apart from some, and of all that was learnt."""
        from streamgda.data.storage.identity import identity_of  # and with it pyarrow, where it is used

        is_fitted = "statistics_" in self.__dict__
        with at_one_moment(self) if is_fitted else nullcontext() as statistics:
            learnt = None if statistics is None else statistics.digest()
            beside = self._types, self._announced, self._beside_statistics() if is_fitted else {}
        params = {name: v for name, v in self.get_params(deep=False).items() if name not in apart_from}
        return identity_of(type(self).__qualname__, params, learnt, beside)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "statistics_")


def _version() -> str:
    return str(import_module("streamgda").__version__)
