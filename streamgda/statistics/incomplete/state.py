"""The state of rows in which features are missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, cast

from numpy.typing import NDArray

from streamgda.blocks.block import Block
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceKind, CovarianceType, Indices
from streamgda.statistics.exact.state import ExactClassStatistics
from streamgda.statistics.floating.digits import warn_of_lost_digits
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.gather import Workspace
from streamgda.statistics.incomplete.columns import from_columns, to_columns
from streamgda.statistics.incomplete.grouping import PatternSums
from streamgda.statistics.incomplete.groups import Groups, of_complete
from streamgda.statistics.incomplete.likeliest import LikeliestMoments, Plain
from streamgda.statistics.incomplete.patterns import features_in
from streamgda.statistics.incomplete.table import PatternTable
from streamgda.statistics.incomplete.too_many import TooManyPatternsError
from streamgda.statistics.labelled import ClassMoments
from streamgda.statistics.validation import Columns, as_count, check_same_names, check_whole

MAX_PATTERNS = 256

FORMAT_VERSION = 2
"""The first version of the saved format that has such states."""


class IncompleteStatistics(LikeliestMoments):
    """Sufficient statistics of labelled rows in which features may be missing.

    Rows are grouped by their class and by the features that they have. Of each group count, weight, mean and
    scatter of the observed features are kept: all that the likelihood depends on if features are missing at
    random, that is, if whether a value is missing may depend on what is observed, and not on the value
    itself. NaN marks a missing value.

    States merge, subtract and are saved as those of `ClassStatistics`. `means`, `scatter` and `covariance`
    are of maximum likelihood, given what is observed, under the model of the covariance type: a normal
    distribution for each class ("full"), with a covariance that the classes share ("tied"), or with
    independent features ("diag"). They are found by EM, when they are first needed. Where no row lacks a
    feature, they are those of `ClassStatistics`. `weights` and `counts` also count rows in which all
    features are missing.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag"}, default="full"
        As for `ClassStatistics`. With "diag", each feature is summed up by itself, over the rows that have
        it.
    exact : bool, default=False
        Whether sums are exact, as those of `ExactClassStatistics`.
    max_patterns : int, default=256
        How many patterns of observed features may be kept; each takes as much as a `ClassStatistics` of its
        features. Tables that are joined leave few patterns: eight tables, of which any may lack a row, leave
        2⁸. Values that are missing here and there leave about as many patterns as rows. No limit for "diag".
    feature_names : sequence of str, optional
        The names of the features. Later batches that carry names must carry these, in this order.
    fourth_moments : bool, default=False
        Whether to keep fourth moments, which ``shrinkage="auto"`` needs as long as nothing is missing.

    References
    ----------
    Little & Rubin (2019), "Statistical Analysis with Missing Data", chapters 7 and 11.

    Examples
    --------
    >>> from streamgda import IncompleteStatistics
    >>> nan = float("nan")
    >>> X = [[1.0, 2.0], [3.0, 5.0], [2.0, 4.0], [5.0, nan]]
    >>> state = IncompleteStatistics().update(X, ["a"] * 4)
    >>> state
    IncompleteStatistics(covariance_type='full', classes=1, features=2, rows=4, patterns=2)
    >>> state.means.round(3)
    array([[2.75 , 4.792]])
    """

    keeps_patterns = True

    def __init__(
        self,
        covariance_type: CovarianceType = "full",
        *,
        exact: bool = False,
        max_patterns: int = MAX_PATTERNS,
        feature_names: Sequence[str] | None = None,
        fourth_moments: bool = False,
    ) -> None:
        check_whole(max_patterns, "max_patterns", 1)
        self.max_patterns, self.exact = max_patterns, exact
        self._plain = _empty(covariance_type, exact=exact, fourth_moments=fourth_moments)
        super().__init__(self._plain._labelled.moments, feature_names)

    @classmethod
    def from_statistics(cls, statistics: Plain, *, max_patterns: int = MAX_PATTERNS) -> Self:
        """The state of rows of which none lacks a feature.

        Parameters
        ----------
        statistics : ClassStatistics or ExactClassStatistics
            Their statistics, which are copied.
        max_patterns : int, default=256
            As for the class.
        """
        state = cls(
            statistics.covariance_type,
            exact=statistics.exact,
            max_patterns=max_patterns,
            feature_names=statistics.feature_names,
            fourth_moments=statistics.has_fourth_moments,
        )
        with statistics.lock:
            state._set_labelled(of_complete(statistics._labelled.copy()))
            state._n_dropped = statistics.n_dropped
        return state

    # ------------------------------------------------------------------ rows go in

    def _from_block(self, block: Block, workspace: Workspace) -> Self:
        """The state of the rows of a block."""
        part = self._from_blocks([block], workspace)
        assert part is not None
        return part

    def _from_blocks(self, blocks: Iterable[Block], workspace: Workspace) -> Self | None:
        """The state of the rows of some blocks; None if there are no blocks."""
        together = self._twin(Groups(self._plain._labelled.moments, 0, {}))
        together._names, together._n_dropped = None, 0
        sums = PatternSums(self._plain, self.max_patterns)
        if not sum(map(partial(together._add_block, sums, workspace), blocks)):
            return None
        together._set_labelled(sums.groups(together.n_features))
        return together

    def _add_block(self, sums: PatternSums, workspace: Workspace, block: Block) -> int:
        """Add the rows of one more block, and return how many blocks that is."""
        check_same_names(self._names, block.feature_names)
        self._labelled.check_features(block.n_features)
        if not self.n_features:
            self._set_labelled(Groups(self._labelled.moments, block.n_features, {}))
        self._names = self._names or block.feature_names
        self._n_dropped += block.n_dropped
        if len(block.codes):
            self._add_rows(sums, workspace, block)
        return 1

    def _add_rows(self, sums: PatternSums, workspace: Workspace, block: Block) -> None:
        sums.add(block, workspace)

    def _reduce(self, block: Block, workspace: Workspace) -> ClassMoments:
        """The sums of a block whose rows have all features."""
        return self._plain._reduce(block, workspace)

    # ------------------------------------------------------------------ patterns

    @property
    def n_patterns(self) -> int:
        """How many patterns of observed features there are; for "diag", not more than features, and two."""
        return len(self._labelled.groups)

    def patterns(self) -> PatternTable:
        """Which features are missing together, in how many rows of which class.

        Returns
        -------
        PatternTable
            A row for each pattern, the most frequent first.

        Raises
        ------
        ValueError
            For covariance type "diag", which keeps each feature by itself.
        """
        if not self._labelled.kind.has_products:
            raise ValueError(
                "statistics of covariance type 'diag' keep each feature by itself, and no patterns; "
                "accumulate with covariance_type='full'"
            )
        return PatternTable.of(self._groups(), self._labelled.classes, self.n_features, self._names)

    def by_pattern(self) -> Iterator[tuple[Indices, Plain]]:
        """The statistics of the rows of each pattern.

        Yields
        ------
        features : ndarray of int
            The positions of the features that are observed; sorted.
        statistics : ClassStatistics or ExactClassStatistics
            Of these features, of the rows that have them and no other. For covariance type "diag", of the
            complete rows, of the others without features, and of each feature of those.
        """
        for pattern, group in self._labelled.groups.items():
            features = features_in(pattern, self.n_features)
            statistics = self._plain._twin(group.copy())
            if self._names:
                statistics._names = tuple(self._names[j] for j in features)
            yield features, statistics

    def ordinary(self) -> Statistics:
        """Ordinary statistics, if no row lacks a feature; else these."""
        return self._likeliest().copy() if self.is_complete else self

    def _n_patterns_with(self, other: IncompleteStatistics) -> int:
        """How many patterns there would be with those of another state; 0 if they are not kept."""
        has_products = self._labelled.kind.has_products
        return len(self._labelled.groups.keys() | other._labelled.groups.keys()) if has_products else 0

    def _check_number_of_patterns(self, other: IncompleteStatistics) -> None:
        n_patterns = self._n_patterns_with(other)
        if n_patterns > self.max_patterns:
            n_classes = max(len(self._labelled.classes), len(other._labelled.classes))
            raise TooManyPatternsError(n_patterns, self.max_patterns, n_classes, other.n_features)

    # ------------------------------------------------------------------ states add up

    def merge(self, other: Any) -> Self:
        """Add the rows of another state of the same kind, in place; of an ordinary one too.

        Raises
        ------
        ValueError
            As `ClassStatistics.merge` does, or if there would be more than `max_patterns` patterns. This
            state is then as it was.
        TypeError
            If the other is no state.
        """
        if not isinstance(other, Statistics):
            return super().merge(other)
        theirs = self._as_incomplete(other)
        with self._lock:
            self._check_compatible(theirs)
            self._check_number_of_patterns(theirs)
            return super().merge(theirs)

    def _take_over(self, other: Self) -> None:
        self.merge(other)

    def _as_incomplete(self, other: Statistics) -> IncompleteStatistics:
        if isinstance(other, ClassStatistics | ExactClassStatistics):
            return IncompleteStatistics.from_statistics(other, max_patterns=self.max_patterns)
        assert isinstance(other, IncompleteStatistics)
        return other

    def __radd__(self, other: object) -> Self:
        """0 + state, which is how ``sum(states)`` begins; and an ordinary state plus this one."""
        return self + other if isinstance(other, Statistics) else super().__radd__(other)

    def __sub__(self, other: object) -> Self:
        """The state without the rows of another, which must all have gone into this one.

        Raises
        ------
        ValueError
            As for `ClassStatistics`, of the rows of each pattern.
        """
        rest = super().__sub__(self._as_incomplete(other) if isinstance(other, Statistics) else other)
        if rest is not NotImplemented and not self.exact:
            for pattern, group in rest._labelled.groups.items():
                features = features_in(pattern, self.n_features)
                names = tuple(self._names[j] if self._names else str(j) for j in features)
                warn_of_lost_digits(group, self._labelled.groups[pattern], names)
        return rest

    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place; see `ClassStatistics.decay`.

        Raises
        ------
        ValueError
            If the factor is not above 0 and at most 1, or the state is exact.
        """
        self._plain.copy().decay(factor)  # raises if it cannot
        with self._lock:
            groups = {
                p: self._plain._twin(g).decay(factor)._labelled for p, g in self._labelled.groups.items()
            }
            self._set_labelled(Groups(self._labelled.moments, self.n_features, groups))
        return self

    def to_covariance_type(self, covariance_type: CovarianceType, *, fourth_moments: bool = False) -> Self:
        """A copy that keeps no more than another covariance type needs; see `ClassStatistics`."""
        narrow = super().to_covariance_type(covariance_type, fourth_moments=fourth_moments)
        narrow._plain = self._plain.to_covariance_type(covariance_type, fourth_moments=fourth_moments)
        return narrow

    @classmethod
    def _check_fourth_moments(cls, covariance_type: CovarianceType, fourth_moments: bool) -> None:
        ClassStatistics._check_fourth_moments(covariance_type, fourth_moments)

    # ------------------------------------------------------------------ states compare

    def allclose(self, other: Statistics, rtol: float = 1e-10) -> bool:
        """Whether two states agree in what they count and, up to rounding, in the rest.

        Parameters
        ----------
        other : IncompleteStatistics, ClassStatistics or ExactClassStatistics
            The state to compare with.
        rtol : float, default=1e-10
            As for `ClassStatistics.allclose`, of each pattern.
        """
        if not isinstance(other, Statistics):
            raise TypeError(f"statistics compare with statistics; got {type(other).__name__}")
        theirs = self._as_incomplete(other)
        if self._names and theirs._names and self._names != theirs._names:
            return False
        ours, others = self._labelled.groups, theirs._labelled.groups
        return self._labelled.same_counts(theirs._labelled) and all(
            pattern in others
            and self._plain._twin(group).allclose(theirs._plain._twin(others[pattern]), rtol)
            for pattern, group in ours.items()
        )

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, patterns={self.n_patterns})"

    # ------------------------------------------------------------------ states are saved

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The state as arrays with a row for each class of each pattern, and plain values beside them."""
        parts = {p: self._plain._twin(g).to_columns() for p, g in self._labelled.groups.items()}
        columns, patterns = to_columns(parts or {b"": self._plain.to_columns()}, self.n_features)
        metadata = {
            "format_version": FORMAT_VERSION,
            **self._metadata(),
            "exact": self.exact,
            "fourth_moments": self.has_fourth_moments,
            "max_patterns": self.max_patterns,
            "patterns": patterns if parts else [],
        }
        return columns, metadata

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """The state whose `to_columns` these are.

        Raises
        ------
        ValueError
            If they cannot be those of any rows; the message says why.
        """
        state = super().from_columns(columns, metadata)
        like = cls(
            state.covariance_type,
            exact=metadata["exact"] is True,
            max_patterns=as_count(metadata["max_patterns"], "max_patterns"),
            fourth_moments=state.has_fourth_moments,
        )
        state.exact, state.max_patterns, state._plain = like.exact, like.max_patterns, like._plain
        return state

    @classmethod
    def _read_columns(
        cls, kind: CovarianceKind, columns: Columns, metadata: Mapping[str, Any], n_features: int
    ) -> Groups[Any]:
        exact, fourth = metadata["exact"] is True, metadata["fourth_moments"] is True
        plain = _empty(cast("CovarianceType", kind.name), exact=exact, fourth_moments=fourth)
        groups = {}
        for pattern, (part, own) in from_columns(columns, metadata["patterns"], n_features):
            n_observed = len(features_in(pattern, n_features))
            described = {**metadata, **own, "n_features": n_observed, "feature_names": None, "n_dropped": 0}
            groups[pattern] = type(plain).from_columns(part, described)._labelled
        return Groups(plain._labelled.moments, n_features, groups)


def _empty(covariance_type: CovarianceType, *, exact: bool, fourth_moments: bool) -> Plain:
    """The ordinary state of no rows."""
    if not exact:
        return ClassStatistics(covariance_type, fourth_moments=fourth_moments)
    ExactClassStatistics._check_fourth_moments(covariance_type, fourth_moments)
    return ExactClassStatistics(covariance_type)
