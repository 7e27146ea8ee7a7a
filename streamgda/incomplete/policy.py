"""The policy by which rows in which features are missing are learnt and predicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

from streamgda.blocks.block import Block
from streamgda.blocks.options import Option
from streamgda.incomplete.reads import read_incomplete, separating
from streamgda.incomplete.state import MAX_PATTERNS, IncompleteStatistics
from streamgda.statistics.base import Statistics
from streamgda.statistics.missing import Keep, Note, Read, Reading
from streamgda.statistics.validation import check_whole


@dataclass(frozen=True, repr=False)
class Marginal(Option):
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
        return empty if self.max_reads == 1 else separating(cast("IncompleteStatistics", empty))

    def read(
        self,
        read: Read,
        empty: Statistics,
        *,
        once: bool = False,
        note: Note | None = None,
        keep: Keep | None = None,
    ) -> Reading:
        """Read rows into a state: `once`, or several times if there are too many patterns."""
        max_reads = 1 if once else self.max_reads
        return read_incomplete(read, cast("IncompleteStatistics", empty), max_reads, self.tol, note, keep)

    def taking(self, statistics: Statistics) -> IncompleteStatistics:
        """The state, or one of the same rows that takes incomplete ones."""
        if isinstance(statistics, IncompleteStatistics):
            return statistics
        return IncompleteStatistics.from_statistics(cast("Any", statistics), max_patterns=self.max_patterns)

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
        statistics = self._for(statistics, ())
        return (statistics if statistics.absorbs(added) else added.alike(statistics)).merge(added)

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

    def joined(self, other: Marginal) -> Marginal:
        """The policy that keeps as many patterns as both."""
        return self if self.max_patterns >= other.max_patterns else other
