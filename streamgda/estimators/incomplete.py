"""How a model goes over to statistics of incomplete rows.

A model holds ordinary statistics as long as no row lacks a feature. So complete data gives the same
statistics, files and speed whether or not a model would learn from incomplete rows.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from streamgda.blocks.block import Block
from streamgda.blocks.wording import Message, counted
from streamgda.statistics.base import Statistics
from streamgda.statistics.exact.state import ExactClassStatistics
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.completion import Completion
from streamgda.statistics.incomplete.em import MOST_STEPS
from streamgda.statistics.incomplete.patterns import lacks_features
from streamgda.statistics.incomplete.reads import Keep, Read, Reading
from streamgda.statistics.incomplete.state import IncompleteStatistics

CONSTRAINTS: dict[str, list[Any]] = {
    "max_patterns": [Interval(Integral, 1, None, closed="left")],
    "max_reads": [Interval(Integral, 1, None, closed="left")],
    "em_tol": [Interval(Real, 0, None, closed="left")],
}
"""Of the parameters of models that keep patterns of missing features."""


def reading_blocks(blocks: Callable[[], Iterator[Block]]) -> Read:
    """Read rows in memory: blocks that are made anew for each read.

    Raises
    ------
    ValueError
        If no row has a weight.
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
def keeping_reads(hold: Callable[[Reading], object]) -> Iterator[Keep]:
    """Yield what takes the result of each read of EM; `hold` gets the last one if a later read fails."""
    kept: deque[Reading] = deque(maxlen=1)
    try:
        yield kept.append
    except BaseException as error:
        for reading in kept:
            hold(reading)
            _say_what_is_kept(error, reading.n_reads)
        raise


def _say_what_is_kept(error: BaseException, n_reads: int) -> None:
    said = f"What {n_reads} reads have given is kept in statistics_"
    if n_reads == 1:
        said = (
            "What one read has given, means and variances of the values that are there, is kept in "
            "statistics_; GaussianNB.from_statistics makes a model of it without another read"
        )
    if isinstance(error, ValueError):
        error.args = (Message(Message.of(error), f". {said}"),)
    else:
        error.add_note(said)


def updated(statistics: Statistics, blocks: list[Block], max_patterns: int) -> Statistics:
    """Statistics with the rows of some blocks: the same object, unless it cannot hold incomplete rows."""
    if not statistics.keeps_patterns and any(map(lacks_features, blocks)):
        statistics = _incomplete(statistics, max_patterns)
    statistics.update_blocks(blocks)
    return statistics


def merged(statistics: Statistics, added: Statistics, max_patterns: int) -> Statistics:
    """Statistics with the rows of others: the same object, unless it cannot hold incomplete rows."""
    if added.keeps_patterns and not statistics.keeps_patterns:
        statistics = _incomplete(statistics, max_patterns)
    return statistics.merge(added)


def complete_blocks(blocks: Iterable[Block], statistics: Statistics) -> Iterator[Block]:
    """The blocks; an error for a missing value, where the statistics would take it.

    Raises
    ------
    ValueError
        If a feature is missing; the message says where.
    """
    for block in blocks:
        if statistics.keeps_patterns and lacks_features(block):
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
