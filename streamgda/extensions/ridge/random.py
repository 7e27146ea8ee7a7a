"""Ridge regression on random features: the map, the statistics and the model in one read."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, partial, reduce
from itertools import islice
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils._param_validation import HasMethods, Interval

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.schema import Schema
from streamgda.data.blocks.wording import callers_level
from streamgda.data.sources.base import Source
from streamgda.data.sources.running import Scheduler
from streamgda.data.sources.splits import LazySplit, Split
from streamgda.extensions.ridge.calibration import Calibrated, HeldOutScores, Method, Softmax
from streamgda.extensions.ridge.classifier import RidgeClassifier
from streamgda.extensions.ridge.features import RandomFeatures
from streamgda.extensions.ridge.path import RidgePath, RidgeRegression
from streamgda.extensions.ridge.pytorch import is_there
from streamgda.extensions.ridge.rule import MappedRows, spread_by_weight
from streamgda.extensions.ridge.sampled import RowSample
from streamgda.jobs.passes.compute import opening_on, scheduler_for
from streamgda.models.estimators.forgetting import Times
from streamgda.models.estimators.moment import at_one_moment, of_one_moment
from streamgda.models.estimators.reading import one_of
from streamgda.models.estimators.scores import Finalised
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.missing import Keep, Note, Read, Reading

_FEATURES_BY_ROWS = ((5_000, 1_000), (200_000, 2_000), (float("inf"), 4_000))
_USUAL = 2_000  # random features, where the number of rows is not known
_ROWS_OF_MAP = 5_000
_PARTS_OF_MAP, _LAZY_PARTS_OF_MAP = 16, 4
_BYTES_OF_PAIR = 4 * 8  # of features, as a fit has up to four matrices in memory
_ROWS_PER_FEATURE = 4  # with fewer, the rounding of products in single precision is seen


@dataclass(eq=False, repr=False)
class RandomFeatureClassifier(RidgeClassifier):
    """Ridge regression on random features of the rows, from one read, in any order.

    A sample of some thousand rows fixes a map, as `RandomFeatures` has it. All rows go through it, and what
    is kept of them are tied statistics, which merge, and from which rows can be taken back. The penalty is
    chosen by generalised cross-validation, and probabilities are calibrated by a sample of the rows, each
    scored by the regression on all others. It makes fewer errors than scikit-learn's HistGradientBoosting on
    many tables; trees do better where the boundaries of classes are steps along single features, and with few
    rows it gains little.

    `fit` draws the sample of the map from parts that are spread over the data, which takes a part of a read;
    `partial_fit` takes the first batch, so let it have some hundred rows of all kinds. Models merge if their
    maps are equal: fit one `RandomFeatures`, and give it to all of them as ``FrozenEstimator(features)``.

    Parameters
    ----------
    alpha : float or "gcv", default="gcv"
        The penalty λ of the squared coefficients. "gcv" is the one of least generalised cross-validation
        error.
    features : int, RandomFeatures or "auto", default="auto"
        How many random features there are, or a map of them: one to be fitted to the sample, or one that has
        been fitted, in scikit-learn's `FrozenEstimator`. "auto" takes 1,000, from 5,000 rows on 2,000, and
        from 200,000 on 4,000; 2,000 if the number of rows is not known. Where rows are many, twice as many
        make about 15 % fewer errors, in four times the memory and eight times the time of a solution. A state
        takes 8 bytes for each pair of features, and half of that in a file: 128 MB at 4,000, 8.2 GB at
        32,000. A fit takes four times as much; if the machine has less, a MemoryError says so first.
    max_df : float, default=0.5
        The most degrees of freedom of the regression for each row that "gcv" may choose. Where they are close
        to one for each row, the criterion says nothing.
    products : {"auto", "float32", "float64"}, default="auto"
        In which precision the products of mapped rows are formed; they are added in float64. "float32" takes
        half the time, with an error of a scatter of about 1e-6 of that of all rows, or less. "auto" takes it
        if there are at least four rows for each feature.
    calibration : {"auto", "temperature", "softmax"} or None, default="auto"
        How probabilities are made of scores by a sample of the rows; see `calibrate`. None leaves them as
        they are.
    calibration_rows : int, default=4000
        How many different rows are in this sample, drawn by a hash of their values. Statistics have no
        sample; they have a map, so `features`, `products`, `calibration` and this do nothing in
        `from_statistics`.
    device : str, optional
        The device of PyTorch, such as "cuda", on which rows are mapped and multiplied, and regressions are
        solved, in float64. The threads of a read decode the rows and feed it. The model is that of the host
        up to rounding, and the two merge. Rows in NumPy are predicted on the host. On a machine without the
        device, a saved model predicts, and it learns after ``set_params(device=None)``.
    temperature : float, default=1.0
        As in `QuadraticDiscriminantAnalysis`, for the scores. `calibrate` sets it.
    categories : "auto", Categorical or None, default="auto"
        As in `QuadraticDiscriminantAnalysis`. Each category that occurs in the sample of the map becomes a
        column of 0 and 1 before the map.

    Attributes
    ----------
    statistics_ : ClassStatistics
        What the model has learnt of the mapped rows, of covariance type "tied", with the map as its `rule`.
    features_ : RandomFeatures
        The map.
    validation_error_, validation_log_loss_ : float
        The share of wrong predictions and the log loss on the sample, each row of which was scored by the
        regression on all others.
    classes_, n_features_in_, feature_names_in_, alpha_, df_, gcv_, alphas_, gcv_path_, coef_, intercept_
        As in `RidgeClassifier`, with coefficients of the mapped features.

    References
    ----------
    Rahimi & Recht (2008), "Weighted sums of random kitchen sinks: replacing minimization with randomization
    in learning", NIPS; McDonnell, Gong, Parvaneh, Abbasnejad & van den Hengel (2023), "RanPAC: Random
    projections and pre-trained models for continual learning", NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamgda import RandomFeatureClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomFeatureClassifier(features=500).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.95, model.validation_error_ < 0.05
    (True, True)
    """

    maps_rows = True
    _of_one_fit = (*RidgeClassifier._of_one_fit, "_sample")
    _told_by_statistics = (*RidgeClassifier._told_by_statistics, "device")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RidgeClassifier._parameter_constraints,
        "features": [one_of("auto"), Interval(Integral, 1, None, closed="left"), HasMethods("transform")],
        "products": [one_of("auto", "float32", "float64")],
        "calibration": [one_of("auto", "temperature", "softmax"), None],
        "calibration_rows": [Interval(Integral, 100, None, closed="left")],
        "device": [str, None],
    }
    _sample = cast("Any", None)

    _: KW_ONLY
    features: Any = "auto"
    products: Literal["auto", "float32", "float64"] = "auto"
    calibration: Method | None = "auto"
    calibration_rows: int = 4000
    device: str | None = None
    scale: bool = field(default=True, init=False)
    exact: bool = field(default=False, init=False)
    half_life: float | None = field(default=None, init=False)  # a sample of rows does not age

    @property
    @of_one_moment
    def features_(self) -> RandomFeatures:
        """The map."""
        return copy(self._rule_in(self.statistics_).features)

    def typical_row(self) -> Array:
        """A row that the model can score: the mean of the sample of the map, (n_features,)."""
        mean: Array = self._rule_in(self.statistics_).features.mean_
        return mean

    # ------------------------------------------------------------------ the map

    def _prepare_for(self, source: Source, scheduler: Scheduler) -> None:
        self._source = source, scheduler

    @classmethod
    def rules_for(
        cls, models: Sequence[Any], read: Read, source: Source, scheduler: Scheduler = None
    ) -> tuple[list[Any], int]:
        """The maps of some models, which are fitted to one sample of a part of the rows."""
        blocks, n_rows = _sampled(source, scheduler)
        once = cache(lambda: list(blocks()))
        return [model._rule_of(once, n_rows) for model in models], 0

    def _rule_of(self, blocks: Callable[[], Iterable[Block]], n_rows: float | None) -> MappedRows:
        """The rule that maps rows, with a map that is fitted to a sample of these, if it is not yet."""
        self._validate_params()
        features, schema = getattr(self.features, "estimator", self.features), None  # of a FrozenEstimator
        if not isinstance(features, RandomFeatures):
            known = [most for rows, most in _FEATURES_BY_ROWS if n_rows is not None and n_rows < rows]
            features = RandomFeatures(int(features) if features != "auto" else [*known, _USUAL][0])
        _check_memory(features.n_components)
        if not hasattr(features, "n_features_in_"):
            schema, X, y = _rows_of(blocks())
            names = schema.feature_names
            features = clone(features).fit(X if names is None else pd.DataFrame(X, columns=names), y)
        products = self.products
        if products == "auto":
            enough = n_rows is not None and n_rows >= _ROWS_PER_FEATURE * features.n_outputs
            products = "float32" if enough else "float64"
        return MappedRows(features, schema, products=products, device=self.device)

    @staticmethod
    def _rule_in(statistics: Statistics) -> MappedRows:
        """The rule by which the rows of statistics were mapped; ValueError if there is none."""
        if not isinstance(statistics.rule, MappedRows):
            raise ValueError(
                f"{statistics!r} is of rows that were not mapped, and RandomFeatureClassifier maps those "
                "that it predicts. RidgeClassifier does not; a search takes it on source.map(features)"
            )
        return statistics.rule

    def _path(self, statistics: Statistics) -> RidgePath:
        single = self._rule_in(statistics).products == "float32"
        device = self.device if self.device is not None and is_there(self.device) else None
        rounding = 2.0**-24 if single else 2.0**-52
        return RidgePath.of(statistics, scale=True, rounding=rounding, device=device)

    def _hold(self, statistics: Statistics) -> None:
        super()._hold(statistics)
        self._sample = self.__dict__.pop("_more", self._sample)
        if statistics.schema_of_rows.names is None:
            self.n_features_in_ = self._rule_in(statistics).features.n_features_in_

    # ------------------------------------------------------------------ rows go in

    def _read(
        self, read: Read, note: Note | None = None, keep: Keep | None = None, *, is_more: bool = False
    ) -> Reading:
        source = self.__dict__.pop("_source", None)
        self._more = None
        if is_more and "statistics_" in vars(self):
            rule = self._rule_in(self.statistics_)
            rule.set_device(self.device)
        elif source is not None:
            rule = self._rule_of(*_sampled(*source))
        else:  # rows in memory, which are looked at twice
            first: _Blocks = read(_Blocks())
            rule = self._rule_of(lambda: first, first.effective_rows)
        empty = self._empty(self.required_statistics(), rule)
        if self.calibration is None:
            return Reading(read(empty))
        sampled: RowSample = read(RowSample(empty, self.calibration_rows))
        self._more = sampled.detached()
        return Reading(sampled.statistics)

    def _learn_blocks(
        self, blocks: Iterator[Block], fields_after: Callable[[], dict[str, Any]], now: Times | None = None
    ) -> None:
        """Add the rows of a batch, to the sample too."""
        self._rule_in(self.statistics_).set_device(self.device)
        if self._sample is None:
            return super()._learn_blocks(blocks, fields_after)
        rows, more = list(blocks), RowSample(self._sample.empty, self.calibration_rows)
        more.draw(rows)
        super()._learn_blocks(iter(rows), lambda: {**fields_after(), "_sample": self._sample + more})
        return None

    def _merge(self, *added: Any, **others: Any) -> Self:
        more = self.__dict__.get("_more")
        with at_one_moment(self) if "statistics_" in vars(self) else nullcontext():
            try:
                super()._merge(*added, **others)
            finally:
                self.__dict__.pop("_more", None)
            if more is not None and self._sample is not more:
                self._sample = None if self._sample is None else self._sample + more
        return self

    def merge(self, other: Self | Statistics) -> Self:
        """Add the rows that another model of the same class, or statistics, have learnt.

        Rows of statistics are not in the sample, so the model is no longer calibrated by it.
        """
        if isinstance(other, RandomFeatureClassifier):
            other = copy(other)  # with a copy of its statistics, of the same moment as its sample
            self._more = other._sample
        return super().merge(other)

    # ------------------------------------------------------------------ calibration

    def _calibration_for(self, statistics: Statistics, regression: RidgeRegression) -> Calibrated | None:
        own = super()._calibration_for(statistics, regression)
        if own is not None or self.calibration is None or not self._is_sampled(statistics):
            return own
        X, codes, weights, for_all = self._sample.rows(statistics.classes)
        fitted = regression.left_out(self._rule_in(statistics).features.transformed(X), codes, weights)
        calibrated = HeldOutScores(fitted, codes, for_all).calibrated(statistics.classes, self.calibration)
        if calibrated.softmax is not None:
            return calibrated
        n_classes = len(regression.path.shares)
        scaling = Softmax(np.eye(n_classes) / calibrated.temperature, np.zeros(n_classes))
        return replace(calibrated, softmax=scaling, temperature=1.0)

    def _is_sampled(self, statistics: Statistics) -> bool:
        """Whether the sample is of the rows of these statistics, with their weights."""
        sample, weight = self._sample, float(statistics.weights.sum())
        return sample is not None and abs(sample.weight - weight) <= 1e-9 * weight

    def _warn_once(self, state: Finalised[Any]) -> None:
        """Warn, besides, if the sample is no longer of the rows that the model knows."""
        super()._warn_once(state)
        if self._sample is not None and not self._is_sampled(self.statistics_):
            self._sample = None
            warnings.warn(
                "rows were added to statistics_, taken out of it or weighed anew, so the sample that "
                "probabilities are calibrated by is left out; calibrate(X, y) takes rows that are known",
                stacklevel=callers_level(),
            )

    # ------------------------------------------------------------------ exchange

    def _plain_params(self) -> dict[str, Any]:
        features = getattr(self.features, "estimator", self.features)
        params = super()._plain_params()
        if isinstance(features, RandomFeatures):
            params["features"] = {**features.get_params(), "bandwidth": list(features._widths)}
        return params

    @classmethod
    def _upgraded(cls, params: dict[str, Any]) -> dict[str, Any]:
        params = super()._upgraded(params)
        if isinstance(saved := params.get("features"), Mapping):
            params["features"] = RandomFeatures(**{**saved, "bandwidth": tuple(saved["bandwidth"])})
        return params

    def _beside_statistics(self) -> dict[str, Any]:
        calibrated = self._scores.calibrated
        return {} if calibrated is None else {"calibration": calibrated.to_document()}

    @of_one_moment
    def to_sklearn(self) -> Any:
        """A pipeline of the map and scikit-learn's `RidgeClassifier`, with the same decisions."""
        peer = super().to_sklearn()
        peer.n_features_in_ = len(peer.coef_.T)
        peer.__dict__.pop("feature_names_in_", None)
        return make_pipeline(self.features_, peer)


def _check_memory(n_features: int) -> None:
    """Raise MemoryError if a fit with so many features takes more memory than the machine has."""
    if not hasattr(os, "sysconf"):
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    state, needed = (one * n_features**2 / 1e9 for one in (8, _BYTES_OF_PAIR))
    if needed * 1e9 > there:
        raise MemoryError(
            f"{n_features:,} features need about {needed:,.1f} GB: {state:,.1f} GB for a state, and three "
            f"times as much to add states up and to solve; this machine has {there / 1e9:,.1f} GB. Set "
            f"features={math.isqrt(there // _BYTES_OF_PAIR):_} or less"
        )


class _Blocks(list[Block]):
    """The blocks of rows in memory, as a state that they are read into."""

    n_dropped = 0
    update_blocks = list.extend

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(len(block.codes) for block in self)

    @property
    def effective_rows(self) -> float:
        """How many rows of equal weight they are worth, (Σ w)² / Σ w²."""
        weights = np.concatenate([block.row_weights for block in self])
        return float(weights.sum() ** 2 / np.square(weights).sum())

    def copy(self) -> _Blocks:
        """The same blocks."""
        return _Blocks(self)


def _sampled(source: Source, scheduler: Scheduler) -> tuple[Callable[[], Iterable[Block]], int | None]:
    """A function that reads the first blocks of parts spread over a source; its number of rows, if known."""
    splits = [] if source.is_one_shot else source.planned(opening_on(scheduler_for(source, scheduler)))
    rows = [getattr(split, "n_rows", None) for split in splits]
    n_rows = sum(n for n in rows if n is not None) if rows and None not in rows else None
    return partial(_first_blocks, source, splits), n_rows


def _first_blocks(source: Source, splits: Sequence[Split]) -> Iterator[Block]:
    """The first block of some parts."""
    if source.is_one_shot:
        raise ValueError(
            f"{source!r} can be read once, and a map must be fitted first: fit RandomFeatures to a sample "
            "and give features=FrozenEstimator(...), or learn by partial_fit"
        )
    most = _LAZY_PARTS_OF_MAP if isinstance(splits[0], LazySplit) else _PARTS_OF_MAP
    places = np.unique(np.linspace(0, len(splits) - 1, min(most, len(splits))).astype(int))
    for place in places:
        yield from islice(splits[place].blocks(), 1)


def _rows_of(blocks: Iterable[Block]) -> tuple[Schema, Array, Labels]:
    """The schema of some blocks, and rows from all of them with their labels, as the sample of a map."""
    blocks = [block for block in blocks if len(block.codes)]
    schema = reduce(lambda schema, block: schema.union(block.schema), blocks, blocks[0].schema)
    if any(block.weights is not None for block in blocks):
        places = spread_by_weight(blocks, _ROWS_OF_MAP)
    else:
        each, sizes = -(-_ROWS_OF_MAP // len(blocks)), [len(block.codes) for block in blocks]
        places = [np.unique(np.linspace(0, n - 1, min(each, n)).astype(int)) for n in sizes]
    rows, labels = [], []
    for block, own in zip(blocks, places, strict=True):
        some = block.take(own)
        rows.append(some.in_schema(schema).matrix(0, len(some.codes)))
        labels.append(some.classes[some.codes])
    X, y = np.concatenate(rows), np.concatenate(labels)
    complete = np.isfinite(X).all(axis=1)
    return schema, X[complete], y[complete]
