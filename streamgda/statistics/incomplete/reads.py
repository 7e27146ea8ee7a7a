"""Maximum likelihood from rows with too many patterns to keep: EM that reads the rows once for each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamgda.blocks.block import remedying
from streamgda.blocks.wording import Message
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType, kind_named
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.available import AvailableCases, Population, apart
from streamgda.statistics.incomplete.em import Normal, Parameters
from streamgda.statistics.incomplete.expectation import ExpectedRows
from streamgda.statistics.incomplete.state import IncompleteStatistics
from streamgda.statistics.labelled import Labelled

MAX_READS = 10

READ_TOLERANCE = 5e-3  # standard deviations

_REMEDY = Message(
    "set ⟨shrinkage='oas'⟩ or a number: fourth moments, which ⟨shrinkage='auto'⟩ needs, are of complete rows"
)

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
        EM ends when a read changes no mean by more than `tol` standard deviations, and no covariance by more
        than `tol`, relative to the standard deviations of its two features.
    """

    max_reads: int = MAX_READS
    tol: float = READ_TOLERANCE


ONE_READ = Steps(max_reads=1)

Read = Callable[[Any], Any]
"""Reads all rows, and returns them added to a copy of an empty state."""


@dataclass(frozen=True)
class Reading:
    """Statistics of rows in which features are missing, and how they were found.

    Attributes
    ----------
    statistics : IncompleteStatistics, ClassStatistics or ExactClassStatistics
        Ordinary statistics if no row lacks a feature, and statistics by pattern if there are few patterns.
        Otherwise the expected complete statistics at the maximum of the likelihood.
    n_reads : int
        How often the rows were read.
    change : float
        The largest change of a parameter in the last step, in standard deviations; 0 after a single read.
    converged : bool
        Whether `change` is at most `tol`.
    tol : float
        The tolerance.
    """

    statistics: Statistics
    n_reads: int = 1
    change: float = 0.0
    converged: bool = True
    tol: float = READ_TOLERANCE


def read_incomplete(
    read: Read,
    empty: IncompleteStatistics,
    steps: Steps = ONE_READ,
    note: Note | None = None,
    keep: Keep | None = None,
) -> Reading:
    """Read rows in which features may be missing: once, or several times if there are too many patterns.

    Parameters
    ----------
    read : callable
        Reads all rows into a state.
    empty : IncompleteStatistics
        The state of no rows.
    steps : Steps
        How often to read.
    note : callable, optional
        Called with a line on each read after the first.
    keep : callable, optional
        Called after each read, if there are several, with the result so far. After the first read, this is
        the means and variances of the available cases, of covariance type "diag".

    Raises
    ------
    ValueError
        If there are too many patterns, and sums are exact or only one read is allowed; if the rows do not
        determine the model; or if a row lacks a feature and fourth moments are asked for.
    """
    kind, names = empty.covariance_type, empty.feature_names
    if empty.has_fourth_moments:
        plain = ClassStatistics(kind, feature_names=names, fourth_moments=True)
        plain._centers = empty._centers
        with remedying(_REMEDY):
            return Reading(read(plain))
    if steps.max_reads == 1 or empty.exact or kind == "diag":
        return Reading(read(empty).ordinary())
    first: IncompleteStatistics = read(separating(empty))
    first._separates = False
    if first.covariance_type == kind:
        return Reading(first.ordinary())
    keep, note = keep or (lambda reading: None), note or (lambda line: None)
    reading = Reading(first, converged=False)
    keep(reading)
    parameters = _of_available(first, kind)
    while reading.n_reads < steps.max_reads and not reading.converged:
        expected: ExpectedRows = read(ExpectedRows(parameters))
        if reading.n_reads == 1:
            _check_together(first, expected)
        following = parameters.maximised(expected.statistics)
        change, n_reads = following.change_since(parameters), reading.n_reads + 1
        parameters = following
        note(f"read {n_reads} of at most {steps.max_reads}, change {change:.1g}")
        completed = _completed(first, parameters)
        reading = Reading(completed, n_reads, change, change <= steps.tol, steps.tol)
        keep(reading)
    return reading


def separating(empty: IncompleteStatistics) -> IncompleteStatistics:
    """The state for the first read, which keeps each feature by itself if there are too many patterns.

    So a read of rows with too many patterns still gives the means and variances of the available cases.
    """
    state = empty.copy()
    state._separates = True
    return state


def _of_available(first: IncompleteStatistics, covariance_type: CovarianceType) -> Parameters:
    """The parameters with which EM begins: those of the available cases."""
    for error in first.undetermined.values():
        raise error
    kind, classes = kind_named(covariance_type), first.classes
    available = AvailableCases.of(first._states(), len(classes), first.n_features, pooled=kind.is_pooled)
    populations = Population.all_of(available, kind)
    return Parameters(kind, classes, populations, list(map(Normal.standard, populations)))


def _check_together(first: IncompleteStatistics, expected: ExpectedRows) -> None:
    """Raise ValueError if too few rows have both features of a pair."""
    given = expected.given
    for population, together in zip(given.populations, expected.together, strict=True):
        label = None if given.kind.is_pooled else given.classes[population.places[0]].item()
        reason = apart(label, together, 1, first._shown_names())
        if reason is not None:
            raise reason()


def _completed(first: IncompleteStatistics, parameters: Parameters) -> Statistics:
    """Complete statistics with the weights of all rows and these parameters."""
    moments = parameters.moments(*first._total_weights())
    statistics = first._plain(Labelled(first.classes, first.counts, moments))
    statistics._names, statistics._n_dropped = first.feature_names, first.n_dropped
    return statistics
