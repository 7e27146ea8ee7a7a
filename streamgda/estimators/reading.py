"""How a model reads rows: arrays in blocks, sources in passes, more than once where EM needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import column_or_1d, validate_data

from streamgda.blocks.arrays import array_blocks, check_in_memory, check_no_rounding, check_readable
from streamgda.blocks.block import Block, Missing, check_missing, remedying
from streamgda.blocks.wording import Message
from streamgda.estimators.dtypes import FittedTypes
from streamgda.estimators.incomplete import reading_blocks
from streamgda.estimators.validation import (
    check_announced,
    check_batch,
    check_no_name,
    named_as_fitted,
    valid_rows,
)
from streamgda.passes.accumulate import read_into
from streamgda.passes.progress import Progress
from streamgda.passes.schedulers import Scheduler
from streamgda.sources.conversion import as_source, as_table
from streamgda.statistics.base import Statistics
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

_LEARN_KEPT = Message(
    "set ⟨missing='marginal'⟩ for the model too, as the source keeps rows in which features are missing"
)


class StatisticsReader(BaseEstimator):
    """An estimator that reads rows into the statistics that it requires."""

    _covariance_type: ClassVar[CovarianceType]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"exact": ["boolean"]}

    _set_by_reading: ClassVar[tuple[str, ...]] = ("n_features_in_", "feature_names_in_", "_types")
    _types: FittedTypes = FittedTypes()

    exact: bool
    n_features_in_: int

    def required_statistics(self) -> dict[str, Any]:
        """The statistics that the model needs, as parameters of `ClassStatistics` and `accumulate`."""
        return {"covariance_type": self._covariance_type}

    def _blocks_of(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        missing: Missing,
        classes: ArrayLike | None = None,
        reset: bool,
        min_rows: int = 1,
    ) -> Iterator[Block]:
        check_missing(missing)
        check_batch(X)
        check_in_memory(X)
        rows = None if reset else valid_rows(self, X)
        if rows is None:
            check_readable(X)
        if self.exact:
            check_no_rounding(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        check_no_name(y)
        if rows is None:
            X = as_table(X) if reset else named_as_fitted(self, X)
            rows = validate_data(self, X, reset=reset, ensure_all_finite=False, ensure_min_samples=min_rows)
        names = getattr(self, "feature_names_in_", None)
        if getattr(y, "ndim", 1) != 1:
            y = column_or_1d(y, warn=True)
        if classes is not None:
            check_announced(y, classes)
        if reset:
            self._types = FittedTypes.of(rows, y)
        names = None if names is None else tuple(names)
        return array_blocks(rows, y, sample_weight, names, missing=missing)

    def _reading_of(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        missing: Missing,
        scheduler: Scheduler,
        progress: Progress,
        names: Sequence[str] = (),
    ) -> Read:
        """The reading of a source or a Dask collection; of features of these names, in this order."""
        source = as_source(X, y, sample_weight, missing=missing).in_order_of(names).pinned()
        read = partial(read_into, source, scheduler=scheduler, progress=progress)
        refuses = source.keeps_missing and not self.learns_incomplete
        return remedying(_LEARN_KEPT)(read) if refuses else read

    def _read_blocks(self, blocks: Callable[[], Iterator[Block]], steps: Steps = ONE_READ) -> Reading:
        """Read rows in memory, in blocks that are made anew for each read."""
        return self._read(reading_blocks(blocks), steps)

    def _read(
        self, read: Read, steps: Steps = ONE_READ, note: Note | None = None, keep: Keep | None = None
    ) -> Reading:
        """Read rows: once; if `steps` allow, again where they have too many patterns of features."""
        kind = {"exact": self.exact, **self.required_statistics()}
        if not self.learns_incomplete:
            return Reading(read(empty_statistics(**kind)))
        empty = IncompleteStatistics(max_patterns=self.most_patterns, **kind)
        return read_incomplete(read, empty, steps, note, keep)

    @property
    def learns_incomplete(self) -> bool:
        """Whether the model learns from rows in which features are missing."""
        return False

    @property
    def most_patterns(self) -> int:
        """How many patterns of missing features the statistics may keep."""
        return getattr(self, "max_patterns", MAX_PATTERNS)

    @property
    def _em_steps(self) -> Steps:
        return Steps(getattr(self, "max_reads", 1), getattr(self, "em_tol", READ_TOLERANCE))

    def _describe_features(self, statistics: Statistics) -> None:
        """Set the number and the names of the features, as the statistics have them."""
        self.n_features_in_ = statistics.n_features
        if statistics.feature_names is not None:
            self.feature_names_in_ = np.array(statistics.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @contextmanager
    def _kept_on_error(self) -> Iterator[None]:
        """On an error, restore the attributes that reading the rows has set."""
        names = self._set_by_reading
        before = {name: self.__dict__[name] for name in names if name in self.__dict__}
        try:
            yield
        except BaseException:
            for name in names:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise
