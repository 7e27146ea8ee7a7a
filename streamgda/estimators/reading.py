"""How a model reads rows: arrays in blocks, sources in passes, more than once if EM needs it.

A model holds ordinary statistics as long as no row lacks a feature. So complete data gives the same
statistics, files and speed whether or not a model would learn from incomplete rows.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral, Real
from typing import Any

from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import column_or_1d, validate_data

from streamgda.blocks.arrays import array_blocks, check_no_rounding, check_readable
from streamgda.blocks.block import Block, Missing, check_missing, remedying
from streamgda.blocks.categories import MixedColumns
from streamgda.blocks.frames import column_labels
from streamgda.blocks.wording import Message, counted
from streamgda.estimators.dtypes import FittedTypes
from streamgda.estimators.validation import (
    check_announced,
    check_batch,
    check_no_name,
    columns_of,
    named_as_fitted,
    valid_rows,
)
from streamgda.passes.accumulate import read_into
from streamgda.passes.compute import Scheduler
from streamgda.passes.progress import Progress
from streamgda.sources.conversion import as_source, as_table
from streamgda.sources.frames import learnt_columns
from streamgda.statistics.base import Statistics
from streamgda.statistics.exact.state import ExactClassStatistics
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.completion import Completion
from streamgda.statistics.incomplete.em import MOST_STEPS
from streamgda.statistics.incomplete.reads import Keep, Read, Reading
from streamgda.statistics.incomplete.state import IncompleteStatistics

EM_CONSTRAINTS: dict[str, list[Any]] = {
    "max_patterns": [Interval(Integral, 1, None, closed="left")],
    "max_reads": [Interval(Integral, 1, None, closed="left")],
    "em_tol": [Interval(Real, 0, None, closed="left")],
}
"""The constraints of the parameters of models that keep patterns of observed features."""

_LEARN_KEPT = Message(
    "set ⟨missing='marginal'⟩ for the model too, as the source keeps rows in which features are missing"
)


def blocks_to_learn(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    missing: Missing,
    classes: ArrayLike | None = None,
    reset: bool,
    min_rows: int = 1,
) -> Iterator[Block]:
    """Check rows in memory and cut them into blocks. With `reset`, a model gets their features and types."""
    check_missing(missing)
    check_batch(X)
    if y is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but the target y is None")
    check_no_name(y)
    rows = None if reset else valid_rows(model, X)
    if rows is None:
        rows = _checked_rows(model, X, reset=reset, min_rows=min_rows)
    elif model.exact:
        check_no_rounding(X)
    if getattr(y, "ndim", 1) != 1:
        y = column_or_1d(y, warn=True)
    if classes is not None:
        check_announced(y, classes)
    if reset:
        model._types = FittedTypes.of(rows, y)
    names = getattr(model, "feature_names_in_", None)
    names = rows.categories.feature_names if isinstance(rows, MixedColumns) else names
    return array_blocks(rows, y, sample_weight, None if names is None else tuple(names), missing=missing)


def _checked_rows(model: Any, X: Any, *, reset: bool, min_rows: int) -> Any:
    """The rows as an array, or as columns of numbers and codes if some have categories."""
    categories = None if reset else model.statistics_.categories
    if categories is not None:
        return columns_of(model, X)
    if model.categorical_features is not None and column_labels(X) is not None:
        mixed = learnt_columns(X, model.categorical_features)
        if mixed is not None:
            return mixed
    check_readable(X)
    if model.exact:
        check_no_rounding(X)
    X = as_table(X) if reset else named_as_fitted(model, X)
    return validate_data(model, X, reset=reset, ensure_all_finite=False, ensure_min_samples=min_rows)


def source_to_learn(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    missing: Missing,
    scheduler: Scheduler,
    progress: Progress,
    names: Sequence[str] = (),
) -> Read:
    """A function that reads a source or a Dask collection: the features with these names, in this order."""
    source = as_source(X, y, sample_weight, missing=missing).in_order_of(names).pinned()
    read = partial(read_into, source, scheduler=scheduler, progress=progress)
    refuses = source.keeps_missing and not model.learns_incomplete
    return remedying(_LEARN_KEPT)(read) if refuses else read


def reading_blocks(blocks: Callable[[], Iterator[Block]]) -> Read:
    """A function that reads rows in memory, from blocks that are made anew for each read.

    Raises
    ------
    ValueError
        If all weights are zero.
    """

    def read(empty: Any) -> Any:
        state = empty.copy()
        state.update_blocks(blocks())
        if not state.n_rows:
            dropped = f", or it was dropped ({counted(state.n_dropped, 'row')})" if state.n_dropped else ""
            raise ValueError(f"every sample weight is zero{dropped}, so there is no row to learn from")
        return state

    return read


@contextmanager
def kept_on_error(model: Any, names: Sequence[str]) -> Iterator[None]:
    """On an error, restore the attributes of a model that reading rows has set."""
    before = {name: model.__dict__[name] for name in names if name in model.__dict__}
    try:
        yield
    except BaseException:
        for name in names:
            model.__dict__.pop(name, None)
        model.__dict__.update(before)
        raise


@contextmanager
def keeping_reads(hold: Callable[[Reading], object]) -> Iterator[Keep]:
    """Yield a function that takes the result of each read of EM; `hold` gets the last if a read fails."""
    kept: deque[Reading] = deque(maxlen=1)
    try:
        yield kept.append
    except BaseException as error:
        for reading in kept:
            hold(reading)
            error.add_note(f"The result of {counted(reading.n_reads, 'read')} is kept in statistics_")
        raise


def updated(statistics: Statistics, blocks: list[Block], max_patterns: int) -> Statistics:
    """The statistics with the rows of some blocks; a new object if they could not hold incomplete rows."""
    if not statistics.keeps_patterns and any(map(Block.lacks_features, blocks)):
        statistics = _incomplete(statistics, max_patterns)
    statistics.update_blocks(blocks)
    return statistics


def merged(statistics: Statistics, added: Statistics, max_patterns: int) -> Statistics:
    """The statistics with the rows of others; a new object if they could not hold incomplete rows."""
    if added.keeps_patterns and not statistics.keeps_patterns:
        statistics = _incomplete(statistics, max_patterns)
    return statistics.merge(added)


def complete_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks for statistics that could hold missing values, and refuse missing values.

    Raises
    ------
    ValueError
        If a feature is missing; the message says where.
    """
    for block in blocks:
        if block.lacks_features():
            block.raise_for_values()
        yield block


def completion_of(statistics: Statistics) -> Completion | None:
    """How the moments of incomplete rows were found; None if no row lacks a feature."""
    return statistics.completion if isinstance(statistics, IncompleteStatistics) else None


def warn_unless_converged(statistics: Statistics) -> None:
    """Warn if EM on the patterns of incomplete rows stopped early."""
    steps = completion_of(statistics)
    if steps is not None and not steps.converged:
        warnings.warn(
            f"EM has not converged in {MOST_STEPS:,} steps: too little is observed of some features "
            "together. Leave out features that are seldom observed, or use LinearDiscriminantAnalysis, which "
            "pools the classes",
            ConvergenceWarning,
            stacklevel=5,
        )


def _incomplete(statistics: Statistics, max_patterns: int) -> IncompleteStatistics:
    assert isinstance(statistics, ClassStatistics | ExactClassStatistics)
    return IncompleteStatistics.from_statistics(statistics, max_patterns=max_patterns)
