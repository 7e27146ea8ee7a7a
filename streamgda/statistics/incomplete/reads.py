"""Maximum likelihood from rows with too many patterns to keep: EM that reads the rows once for each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType, kind_named
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.available import AvailableCases
from streamgda.statistics.incomplete.complete_rows import CompleteRows
from streamgda.statistics.incomplete.em import Normal
from streamgda.statistics.incomplete.expectation import Expectation, ExpectedRows
from streamgda.statistics.incomplete.separating import SeparatingStatistics
from streamgda.statistics.incomplete.state import IncompleteStatistics
from streamgda.statistics.incomplete.undetermined import Undetermined
from streamgda.statistics.labelled import Labelled

MAX_READS = 10

TOLERANCE = 5e-3  # standard deviations

Note = Callable[[str], object]
Keep = Callable[["Reading"], object]


@dataclass(frozen=True)
class Steps:
    """When EM that reads the rows for each step ends.

    Attributes
    ----------
    max_reads : int
        The largest number of reads.
    tol : float
        EM ends when a read changes no mean by more, in standard deviations, and no covariance by more,
        relative to the standard deviations of its two features.
    """

    max_reads: int = MAX_READS
    tol: float = TOLERANCE


ONE_READ = Steps(max_reads=1)

Read = Callable[[Any], Any]
"""Reads all rows, and returns them added to a copy of an empty state."""


@dataclass(frozen=True)
class Reading:
    """Statistics of rows in which features are missing, and how they were found.

    Attributes
    ----------
    statistics : IncompleteStatistics, ClassStatistics or ExactClassStatistics
        Where no row lacks a feature, ordinary ones. Those by pattern where there are few patterns. Else the
        complete statistics that are expected at the maximum of the likelihood.
    n_reads : int
        How often the rows were read.
    change : float
        The largest change of a parameter in the last step, in standard deviations; 0 after a single read.
    converged : bool
        Whether that is small enough.
    tol : float
        Up to which change it is.
    """

    statistics: Statistics
    n_reads: int = 1
    change: float = 0.0
    converged: bool = True
    tol: float = TOLERANCE


def read_incomplete(
    read: Read,
    empty: IncompleteStatistics,
    steps: Steps = ONE_READ,
    note: Note | None = None,
    keep: Keep | None = None,
) -> Reading:
    """Read rows in which features may be missing: once, or, where there are too many patterns, a few times.

    Parameters
    ----------
    read : callable
        Reads all rows into a state.
    empty : IncompleteStatistics
        Without rows.
    steps : Steps
        How often to read.
    note : callable, optional
        Called with a line on each read after the first.
    keep : callable, optional
        Called after each read that another one follows, with what the reads so far have given: after the
        first one the means and variances of the available cases, of covariance type "diag".

    Raises
    ------
    ValueError
        If there are too many patterns, and the sums are exact or a single read is allowed; if the rows do
        not determine the model; or if a row lacks a feature and fourth moments are asked for.
    """
    if empty.has_fourth_moments:
        return Reading(read(CompleteRows.like(empty)).kept())
    repeatable = steps.max_reads > 1 and not empty.exact
    if not repeatable:
        return Reading(read(empty).ordinary())
    first: SeparatingStatistics = read(SeparatingStatistics.like(empty))
    if not first.is_separated:
        return Reading(first.kept().ordinary())
    keep = keep or (lambda reading: None)
    keep(Reading(first.kept(), converged=False))
    return _Maximising(first, empty).run(read, steps, note or (lambda line: None), keep)


class _Maximising:
    """EM from the available cases on, a step for each read."""

    def __init__(self, first: IncompleteStatistics, empty: IncompleteStatistics) -> None:
        self.first, self.kind = first, kind_named(empty.covariance_type)
        groups, n_classes = first._groups(), len(first.classes)
        self.available = AvailableCases.of(groups, n_classes, first.n_features, pooled=False)
        self._check_seen()
        self.now = self._start()

    def run(self, read: Read, steps: Steps, note: Note, keep: Keep) -> Reading:
        """Make steps until the parameters stay."""
        reading = Reading(self.first, 1, np.inf, converged=False)
        while reading.n_reads < steps.max_reads and not reading.converged:
            expected: ExpectedRows = read(ExpectedRows(self.now))
            n_reads = reading.n_reads + 1
            if n_reads == 2:
                self._check_together(expected)
            following = self.now.maximised(expected.statistics)
            change, self.now = following.change_since(self.now), following
            note(f"read {n_reads} of at most {steps.max_reads}, change {change:.1g}")
            reading = Reading(self._completed(), n_reads, float(change), bool(change <= steps.tol), steps.tol)
            keep(reading)
        return reading

    def _start(self) -> Expectation:
        available, classes = self.available, self.first.classes
        weights, scatter = available.weights, available.scatter
        if self.kind.is_pooled:
            weights, scatter = weights.sum(axis=0, keepdims=True), scatter.sum(axis=0, keepdims=True)
        scale = np.sqrt(scatter / weights)
        n_means = len(classes) if self.kind.is_pooled else 1
        normals = tuple(Normal(np.zeros((n_means, n)), np.eye(n)) for n in np.count_nonzero(scale, axis=1))
        return Expectation(self.kind, classes, available.means, available.low_means, scale, normals)

    def _completed(self) -> ClassStatistics:
        """Complete statistics with the weights of all rows and the parameters that were found."""
        first = self.first
        means, low_means, covariances = self.now.in_units()
        weights = first.weights
        scatter = covariances * self.kind.freedom(weights, 0)
        moments = Moments(self.kind, weights, np.zeros_like(weights), means, low_means, scatter)
        kind = cast("CovarianceType", self.kind.name)
        statistics = ClassStatistics(kind, feature_names=first.feature_names)
        statistics._set_labelled(Labelled(first.classes, first.counts, moments))
        statistics._n_dropped = first.n_dropped
        return statistics

    def _check_seen(self) -> None:
        for error in self.first.undetermined.values():
            raise error

    def _check_together(self, expected: ExpectedRows) -> None:
        for population, together in enumerate(expected.together):
            label = None if self.kind.is_pooled else self.first.classes[population].item()
            apart = Undetermined.unless_together(label, together)
            if apart is not None:
                raise apart.error(self.first._name_of)
