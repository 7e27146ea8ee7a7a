"""The policy by which rows in which features are missing are learnt and predicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

from streamgda.data.blocks.block import Block, remedying
from streamgda.data.blocks.options import Option
from streamgda.data.blocks.wording import counted
from streamgda.extensions.incomplete.available import AvailableCases, Population, why_undetermined
from streamgda.extensions.incomplete.em import Normal, Parameters
from streamgda.extensions.incomplete.patterns import AS_OPTION
from streamgda.extensions.incomplete.reads import ExpectedRows
from streamgda.extensions.incomplete.state import MAX_PATTERNS, IncompleteStatistics
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType, kind_named
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.missing import Keep, Note, Policy, Read, Reading
from streamgda.statistics.validation import check_whole


@dataclass(frozen=True, repr=False)
class Marginal(Option, Policy):
    """Rows count by the features that they have: the value of a parameter `missing`, as is "marginal".

    Models learn by the likelihood of the observed values, and predict by the marginal density of the observed
    features. This assumes that features are missing at random: whether a value is missing may depend on
    observed values, and not on the value itself.

    Parameters
    ----------
    max_patterns : int, default=256
        How many patterns of observed features may be kept; see `IncompleteStatistics`.
    max_reads : int, default=10
        How often rows may be read if they have more than `max_patterns` patterns. The first read gives the
        means and variances of the available cases. Each further read is a step of EM. With one fifth of the
        values missing at random, six to nine reads come as close as the data allows. `partial_fit` reads
        once.
    tol : float, default=0.005
        EM that reads the rows ends when no read changes a mean by more than `tol` standard deviations, or a
        covariance by more than `tol` times the product of those of its two features. Nearly collinear
        features need a smaller value, such as 1e-5, and more reads. EM on the patterns themselves reads
        nothing, and always goes on to 1e-8.

    Raises
    ------
    ValueError
        If a value is not valid.

    Examples
    --------
    >>> from streamgda import LinearDiscriminantAnalysis, Marginal
    >>> nan = float("nan")
    >>> X = [[1.0, 2.0], [3.0, nan], [nan, 4.0], [5.0, 7.0], [9.0, 8.0], [7.0, 9.0]]
    >>> model = LinearDiscriminantAnalysis(missing=Marginal(max_patterns=8)).fit(X, [0, 0, 0, 1, 1, 1])
    >>> model.predict([[nan, 3.0], [8.0, nan]])
    array([0, 1])
    >>> model.set_params(missing__max_reads=20).missing
    Marginal(max_patterns=8, max_reads=20)
    """

    max_patterns: int = MAX_PATTERNS
    max_reads: int = 10
    tol: float = 5e-3

    def __post_init__(self) -> None:
        check_whole(self.max_patterns, "max_patterns", 1)
        check_whole(self.max_reads, "max_reads", 1)
        value: Any = self.tol
        if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 0:
            raise ValueError(f"tol must be a number, at least 0; got {self.tol!r}")

    def first(self, empty: Statistics) -> Statistics:
        """The state of no rows that the first read fills."""
        return empty if self.max_reads == 1 else _separating(empty)

    def read(
        self, read: Read, empty: Statistics, *, once: bool = False, note: Note = None, keep: Keep = None
    ) -> Reading:
        """Read rows into a state: `once`, or several times if there are too many patterns.

        If no row lacks a feature, the statistics are ordinary ones; if there are few patterns, by pattern.
        Else they are the expected complete statistics at the maximum of the likelihood. `keep` gets them
        after each read, at first as the means and variances of the available cases, of covariance type
        "diag".

        Raises
        ------
        ValueError
            If there are too many patterns, and sums are exact, a rule divides the rows of a class, or only
            one read is allowed; if the rows do not determine the model; or if a row lacks a feature and
            fourth moments are asked for.
        """
        kind, max_reads = empty.covariance_type, 1 if once else self.max_reads
        if empty.has_fourth_moments:
            plain = empty_statistics(empty.required, feature_names=empty.feature_names, rule=empty.rule)
            needed = "fourth moments, which shrinkage='auto' needs, are of complete rows"
            with remedying(f"set shrinkage='oas' or a number: {needed}"):
                return Reading(read(plain))
        if max_reads == 1 or empty.exact or kind == "diag" or empty.rule is not None:
            return Reading(read(empty).simplest())
        first: IncompleteStatistics = read(_separating(empty))
        first._separates = False
        if first.covariance_type == kind:
            return Reading(first.simplest())
        keep, note = keep or (lambda reading: None), note or (lambda line: None)
        reading = Reading(first, 1, "EM has made no step")
        keep(reading)
        parameters = _of_available(first, kind)
        while reading.n_reads < max_reads and reading.unfinished:
            expected: ExpectedRows = read(ExpectedRows(parameters, first.schema))
            if reading.n_reads == 1:
                _check_together(first, expected)
            following = parameters.maximised(expected.statistics)
            change, n_reads = following.change_since(parameters), reading.n_reads + 1
            parameters = following
            note(f"read {n_reads} of at most {max_reads}, change {change:.1g}")
            unfinished = "" if change <= self.tol else _not_converged(n_reads, change, self.tol)
            reading = Reading(_completed(first, parameters), n_reads, unfinished)
            keep(reading)
        return reading

    def taking(self, statistics: Statistics) -> IncompleteStatistics:
        """The state, or one of the same rows that takes incomplete ones."""
        if isinstance(statistics, IncompleteStatistics):
            return statistics
        return IncompleteStatistics.from_statistics(statistics, max_patterns=self.max_patterns)

    def update(self, statistics: Statistics, blocks: Iterable[Block]) -> Statistics:
        """The statistics with the rows of some blocks; another object if they could not take these."""
        blocks = list(blocks)
        statistics = self._for(statistics, blocks)
        statistics.update_blocks(blocks)
        return statistics

    def state_of(self, statistics: Statistics, blocks: Iterable[Block]) -> Statistics | None:
        """The rows of some blocks as a state by itself, which is merged into the statistics."""
        if not isinstance(statistics, IncompleteStatistics):
            blocks = list(blocks)
        return self._for(statistics, blocks).state_of(blocks)

    def merged(self, statistics: Statistics, added: Statistics) -> Statistics:
        """The statistics with the rows of others; another object if they could not take these."""
        return super().merged(self._for(statistics, ()), added)

    def _for(self, statistics: Statistics, blocks: Iterable[Block]) -> Statistics:
        """The statistics as they take these blocks: ordinary ones as long as no row lacks a feature.

        Others are copied if they keep fewer patterns than the policy allows, so that their limit stays if the
        rows are refused.
        """
        if not isinstance(statistics, IncompleteStatistics):
            return self.taking(statistics) if any(map(Block.lacks_numbers, blocks)) else statistics
        if statistics.max_patterns < self.max_patterns:
            statistics = statistics.copy()
            statistics.max_patterns = self.max_patterns
        return statistics

    def joined(self, other: Self) -> Self:
        """The policy that keeps as many patterns as both."""
        return self if self.max_patterns >= other.max_patterns else other


def _not_converged(n_reads: int, change: float, tol: float) -> str:
    """The warning that more reads are needed."""
    return (
        f"EM has not converged in {counted(n_reads, 'read')} of the rows: the last one changed a parameter "
        f"by {change:.2g} standard deviations, more than tol={tol:g}. Raise max_reads or tol, or "
        f"max_patterns if memory allows: {AS_OPTION}"
    )


def _separating(empty: Any) -> IncompleteStatistics:
    """The state for the first read, which keeps each feature by itself if there are too many patterns.

    So a read of rows with too many patterns still gives the means and variances of the available cases.
    """
    state: IncompleteStatistics = empty.copy()
    state._separates = True
    return state


def _of_available(first: IncompleteStatistics, covariance_type: CovarianceType) -> Parameters:
    """The parameters with which EM begins: those of the available cases."""
    first._check_determined()
    kind, classes = kind_named(covariance_type), first.classes
    available = AvailableCases(first._states(), len(classes), first.n_features, pooled=kind.is_pooled)
    populations = Population.all_of(available, kind)
    return Parameters(kind, classes, populations, list(map(Normal.standard, populations)))


def _check_together(first: IncompleteStatistics, expected: ExpectedRows) -> None:
    """Raise ValueError if too few rows have both features of a pair."""
    parameters = expected.parameters
    for population, together in zip(parameters.populations, expected.together, strict=True):
        label = None if parameters.kind.is_pooled else parameters.classes[population.places[0]].item()
        reason = why_undetermined(label, together, 1, first._shown_names())
        if reason is not None:
            raise reason()


def _completed(first: IncompleteStatistics, parameters: Parameters) -> Statistics:
    """Complete statistics with the weights of all rows and these parameters."""
    moments = parameters.moments(*first._total_weights())
    squares = first._labelled.rounded_squares
    statistics = first._of_pattern(Labelled(first.classes, first.counts, moments, squares))
    return statistics._described_as(first)
