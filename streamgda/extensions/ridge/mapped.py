"""Ridge regression on rows that go through a map, which a sample of them fixes, from one read.

The map is fitted to a sample that is drawn before the read. During the read another sample is drawn, by which
scores are calibrated.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, partial, reduce
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils._param_validation import HasMethods, Interval

from streamgda.data.blocks.block import FILL_IN, Block, remedying
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.schema import Schema
from streamgda.data.blocks.wording import callers_level
from streamgda.data.sources.base import Source
from streamgda.data.sources.running import Scheduler
from streamgda.data.sources.splits import LazySplit, Split
from streamgda.extensions.ridge.calibration import Method
from streamgda.extensions.ridge.classifier import RidgeClassifier
from streamgda.extensions.ridge.rule import spread_by_weight
from streamgda.extensions.ridge.sampled import RowSample
from streamgda.jobs.passes.compute import opening_on, scheduler_for
from streamgda.models.estimators.forgetting import Times
from streamgda.models.estimators.moment import at_one_moment, of_one_moment
from streamgda.models.estimators.reading import one_of
from streamgda.models.estimators.scores import Finalised
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.missing import Keep, Note, Read, Reading

_PARTS_OF_MAP, _LAZY_PARTS_OF_MAP = 16, 4


@dataclass(eq=False, repr=False)
class MappedRidgeClassifier(RidgeClassifier):
    """What ridge regressions on rows that go through a map have in common."""

    maps_rows = True
    _of_one_fit = (*RidgeClassifier._of_one_fit, "_sample")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RidgeClassifier._parameter_constraints,
        "features": [one_of("auto"), HasMethods("transform")],
        "calibration": [one_of("auto", "temperature", "softmax"), None],
        "calibration_rows": [Interval(Integral, 100, None, closed="left")],
    }
    _rule: ClassVar[type[Any]]
    """The rule by which rows are mapped."""
    _kind_of_sample: ClassVar[type[RowSample]] = RowSample
    _rows_of_part: ClassVar[int] = 1
    """How many rows of a part of a source are read for the map, at the least; whole blocks are."""
    _sample = cast("Any", None)
    _fixed_by_rule = ("features",)

    _: KW_ONLY
    features: Any = "auto"
    calibration: Method | None = "auto"
    calibration_rows: int = 4000
    scale: bool = field(default=True, init=False)
    exact: bool = field(default=False, init=False)
    half_life: float | None = field(default=None, init=False)  # a sample of rows does not age

    @property
    @of_one_moment
    def features_(self) -> Any:
        """The map."""
        return copy(self._rule_in(self.statistics_).features)

    def typical_row(self) -> Array:
        """A row that the model can score: the mean of the sample of the map, (n_features,)."""
        mean: Array = self._rule_in(self.statistics_).features.mean_
        return mean

    def _check_rule(self, statistics: Statistics) -> None:
        known, asked = self._rule_in(statistics).features, self.features
        asked = getattr(asked, "estimator", asked)  # of a FrozenEstimator
        if isinstance(asked, type(known)) and known.get_params() != asked.get_params():
            raise ValueError(
                f"these statistics are of rows that {known!r} has mapped: leave out features={asked!r}"
            )

    # ------------------------------------------------------------------ the map

    def _prepare_for(self, source: Source, scheduler: Scheduler) -> None:
        self._source = source, scheduler

    @classmethod
    def rules_for(
        cls, models: Sequence[Any], read: Read, source: Source, scheduler: Scheduler = None
    ) -> tuple[list[Any], int]:
        """The maps of some models, which are fitted to one sample of a part of the rows."""
        blocks, n_rows = _sampled(source, scheduler, cls._rows_of_part)
        once = cache(lambda: list(blocks()))
        return [model._rule_of(once, n_rows) for model in models], 0

    @abstractmethod
    def _rule_of(self, blocks: Callable[[], Iterable[Block]], n_rows: float | None) -> Any:
        """The rule that maps rows, with a map that is fitted to a sample of these, if it is not yet."""

    @classmethod
    def _rule_in(cls, statistics: Statistics) -> Any:
        """The rule by which the rows of statistics were mapped; ValueError if there is none."""
        if not isinstance(statistics.rule, cls._rule):
            raise ValueError(
                f"{statistics!r} is of rows that were not mapped, and {cls.__name__} maps those "
                "that it predicts. RidgeClassifier does not; a search takes it on source.map(features)"
            )
        return statistics.rule

    def _known_rule(self) -> Any:
        """The rule by which more rows are mapped."""
        return self._rule_in(self.statistics_)

    def _hold(self, statistics: Statistics) -> None:
        super()._hold(statistics)
        self._sample = self.__dict__.pop("_more", self._sample)
        if statistics.schema_of_rows.names is None:
            self.n_features_in_ = self._rule_in(statistics).features.n_features_in_

    # ------------------------------------------------------------------ rows go in

    @remedying(FILL_IN)
    def _read(
        self, read: Read, note: Note | None = None, keep: Keep | None = None, *, is_more: bool = False
    ) -> Reading:
        source, scheduler = self.__dict__.pop("_source", (None, None))
        self._more = None
        if is_more and "statistics_" in vars(self):
            rule = self._known_rule()
        elif source is not None:
            rule = self._rule_of(*_sampled(source, scheduler, self._rows_of_part))
        else:  # rows in memory, which are looked at twice
            first: _Blocks = read(_Blocks())
            rule = self._rule_of(lambda: first, first.effective_rows)
        empty = self._empty(self.required_statistics(), rule)
        if self.calibration is None:
            return Reading(read(empty))
        sampled: RowSample = read(self._kind_of_sample(empty, self.calibration_rows))
        self._more = sampled.detached()
        return Reading(sampled.statistics)

    @remedying(FILL_IN)
    def _learn_blocks(
        self, blocks: Iterator[Block], fields_after: Callable[[], dict[str, Any]], now: Times | None = None
    ) -> None:
        """Add the rows of a batch, to the sample too."""
        self._known_rule()
        if self._sample is None:
            return super()._learn_blocks(blocks, fields_after)
        rows, more = list(blocks), self._kind_of_sample(self._sample.empty, self.calibration_rows)
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
        if isinstance(other, MappedRidgeClassifier):
            other = copy(other)  # with a copy of its statistics, of the same moment as its sample
            self._more = other._sample
        return super().merge(other)

    # ------------------------------------------------------------------ calibration

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


def _sampled(
    source: Source, scheduler: Scheduler, each: int
) -> tuple[Callable[[], Iterable[Block]], int | None]:
    """A function that reads the first blocks of parts spread over a source; its number of rows, if known."""
    splits = [] if source.is_one_shot else source.planned(opening_on(scheduler_for(source, scheduler)))
    rows = [getattr(split, "n_rows", None) for split in splits]
    n_rows = sum(n for n in rows if n is not None) if rows and None not in rows else None
    return partial(_first_blocks, source, splits, each), n_rows


def _first_blocks(source: Source, splits: Sequence[Split], each: int) -> Iterator[Block]:
    """The first blocks of some parts, with at least so many rows of each."""
    if source.is_one_shot:
        raise ValueError(
            f"{source!r} can be read once, and a map must be fitted first: fit one to a sample "
            "and give features=FrozenEstimator(...), or learn by partial_fit"
        )
    most = _LAZY_PARTS_OF_MAP if isinstance(splits[0], LazySplit) else _PARTS_OF_MAP
    places = np.unique(np.linspace(0, len(splits) - 1, min(most, len(splits))).astype(int))
    for place in places:
        n_rows = 0
        for block in splits[place].blocks():
            yield block
            n_rows += len(block.codes)
            if n_rows >= each:
                break


def fitted_to_sample(features: Any, schema: Schema, X: Array, y: Labels) -> tuple[Any, Schema]:
    """A copy of a map that is fitted to rows of a schema, and this."""
    names = schema.feature_names
    return clone(features).fit(X if names is None else pd.DataFrame(X, columns=names), y), schema


def in_one_schema(blocks: Iterable[Block]) -> list[Block]:
    """Blocks that have rows, with the features of all of them."""
    blocks = [block for block in blocks if len(block.codes)]
    schema = reduce(lambda schema, block: schema.union(block.schema), blocks, blocks[0].schema)
    return [block.in_schema(schema) for block in blocks]


def rows_of_map(blocks: Iterable[Block], most: int) -> tuple[Schema, Array, Labels]:
    """The schema of some blocks, and about `most` rows from all of them with their labels."""
    blocks = in_one_schema(blocks)
    if any(block.weights is not None for block in blocks):
        places = spread_by_weight(blocks, most)
    else:
        each, sizes = -(-most // len(blocks)), [len(block.codes) for block in blocks]
        places = [np.unique(np.linspace(0, n - 1, min(each, n)).astype(int)) for n in sizes]
    rows, labels = [], []
    for block, own in zip(blocks, places, strict=True):
        some = block.take(own)
        rows.append(some.matrix(0, len(some.codes)))
        labels.append(some.classes[some.codes])
    X, y = np.concatenate(rows), np.concatenate(labels)
    complete = np.isfinite(X).all(axis=1)
    return blocks[0].schema, X[complete], y[complete]
