"""The state of rows in which features are missing, and its columns in a table.

In a table, the columns of its patterns stand one below the other. Vectors of one pattern have an entry for
each of its observed features, so a column of vectors is an array of objects, one vector for each row, or
None.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.schema import Columns, Schema
from streamgda.data.blocks.wording import callers_level, counted
from streamgda.data.registry import SCHEMAS
from streamgda.data.storage.documents import TableColumns
from streamgda.extensions.incomplete import patterns
from streamgda.extensions.incomplete.available import AvailableCases, PatternState, total_weights
from streamgda.extensions.incomplete.em import MOST_STEPS, Completion, complete
from streamgda.extensions.incomplete.patterns import Pattern, PatternStates, PatternSums, TooManyPatternsError
from streamgda.models.gaussians.whitening import Reason
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceKind, CovarianceType, Indices
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.floating.state import ClassStatistics, warn_of_lost_digits
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.registry import RULES
from streamgda.statistics.required import Required
from streamgda.statistics.validation import as_count, check_columns, check_whole

PatternTable = tuple[TableColumns, Mapping[str, Any]]

_OF_PATTERN = ("positions", "definite")  # metadata that describes the columns of one pattern


def from_columns(
    columns: TableColumns, described: Any, n_features: int
) -> Iterator[tuple[Pattern, PatternTable]]:
    """The columns and metadata of each pattern.

    Raises
    ------
    ValueError
        If a pattern does not have `n_features` features, stands twice, or has no rows.
    """
    check_columns(["label", "pattern"], columns)
    if not isinstance(described, list) or not all(isinstance(entry, dict) for entry in described):
        raise ValueError("its metadata describes no patterns")
    numbers = columns["pattern"]
    if numbers.dtype.kind not in "iu" or not np.array_equal(np.unique(numbers), np.arange(len(described))):
        raise ValueError("its rows are not of the patterns that its metadata describes")
    known: set[Pattern] = set()
    for number, entry in enumerate(described):
        pattern = patterns.pattern_of(_mask(entry.get("observed"), n_features))
        if pattern in known:
            raise ValueError(f"the pattern {entry['observed']} stands twice")
        known.add(pattern)
        rows = np.flatnonzero(numbers == number)
        part = {name: _matrix(values[rows], name) for name, values in columns.items() if name != "pattern"}
        yield pattern, (part, {name: value for name, value in entry.items() if name in _OF_PATTERN})


def _one_below_the_other(parts: list[TableColumns], name: str) -> NDArray[Any]:
    """The column of this name of all parts, with zeros or None for parts that do not have it."""
    if all(part[name].ndim == 1 for part in parts if name in part):
        return np.concatenate([part.get(name, np.zeros(len(part["label"]))) for part in parts])
    together = [np.full(len(part["label"]), None, dtype=object) for part in parts]
    for part, vectors in zip(parts, together, strict=True):
        for row, vector in enumerate(part.get(name, ())):
            vectors[row] = vector
    return np.concatenate(together)


def _matrix(values: NDArray[Any], name: str) -> NDArray[Any]:
    """The vectors of one pattern, all of the same length. None marks a row without a vector."""
    if values.dtype != object or name == "label":
        return values
    return np.array([vector for vector in values if vector is not None])


def _mask(observed: Any, n_features: int) -> NDArray[np.bool_]:
    if not isinstance(observed, str) or len(observed) != n_features or not set(observed) <= {"0", "1"}:
        raise ValueError(f"{observed!r} is no pattern of {counted(n_features, 'feature')}")
    return np.array([character == "1" for character in observed], np.bool_)


MAX_PATTERNS = 256

FORMAT_VERSION = 2
"""The first version of the saved format that has such states."""


S = TypeVar("S", bound="IncompleteStatistics")


class IncompleteStatistics(Statistics):
    """Sufficient statistics of labelled rows in which features may be missing.

    Rows are grouped by their class and by their pattern of observed features. For each class and pattern, the
    state keeps the count, weight, mean and scatter of the observed features. The likelihood depends only on
    these if features are missing at random: whether a value is missing may depend on observed values, and not
    on the value itself. NaN marks a missing value.

    States are merged, subtracted and saved as those of `ClassStatistics`, which can be merged into them.
    `means`, `scatter` and `covariance` are of maximum likelihood, given the observed values, under the model
    of the covariance type: a normal distribution for each class ("full"), with a covariance that the classes
    share ("tied"), or with independent features ("diag"). They are found by EM, when they are first needed.
    If no row lacks a feature, they are those of `ClassStatistics`. `weights` and `counts` also count rows in
    which all features are missing.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag"}, default="full"
        As for `ClassStatistics`. With "diag", each feature is summed up by itself, over the rows that have
        it.
    exact : bool, default=False
        Whether sums are exact, as those of `ExactClassStatistics`.
    max_patterns : int, default=256
        How many patterns of observed features may be kept; each takes the memory of a `ClassStatistics` of
        its features. A join of tables gives few patterns: eight tables, each of which may lack a row, give
        2⁸. Values that are missing at random places give about as many patterns as rows. There is no limit
        for "diag".
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

    missing = "marginal"
    _separates = False  # whether each feature is kept by itself as soon as there are too many patterns

    _labelled: PatternStates[Any]

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
        plain = empty_statistics(Required(covariance_type, fourth_moments, exact))
        if not plain._labelled.kind.is_exchangeable:
            raise ValueError(
                f"covariance type {covariance_type!r} takes no rows that lack features, since it keeps the "
                "products of some features alone; leave out missing='marginal'"
            )
        super().__init__(plain._labelled.moments, feature_names)

    @classmethod
    def from_statistics(cls, statistics: Statistics, *, max_patterns: int = MAX_PATTERNS) -> Self:
        """The state of rows of which none lacks a feature.

        Parameters
        ----------
        statistics : ClassStatistics or ExactClassStatistics
            Their statistics, which are copied.
        max_patterns : int, default=256
            As for the class.
        """
        with statistics.lock:
            state = cls.empty(statistics.required, statistics.feature_names, max_patterns=max_patterns)
            state._set_labelled(patterns.of_complete_rows(statistics._labelled.copy()))
            return state._described_as(statistics)

    def _set_labelled(self, labelled: Labelled[Any], changed: Labels | None = None, **others: Any) -> None:
        """Replace the state; ordinary moments are those of complete rows."""
        if not isinstance(labelled, PatternStates):
            labelled = patterns.of_complete_rows(labelled)
        super()._set_labelled(labelled, changed, **others)

    def _of_pattern(self, part: Labelled[Any] | None = None) -> Statistics:
        """Ordinary statistics of the rows of a pattern, or of no rows."""
        plain = empty_statistics(self.required)
        plain._set_labelled(Labelled.empty(self._labelled.moments, 0) if part is None else part)
        return plain

    # ------------------------------------------------------------------ rows go in

    def _from_blocks(self, blocks: Iterable[Block], workspace: Workspace) -> Self | None:
        """The state of the rows of some blocks; None if there are no blocks."""
        before: Self | None = None
        together: Self | None = None
        sums = PatternSums(self._of_pattern(), self.max_patterns, separates=self._separates)
        for block in blocks:
            if together is None or block.schema.saved_as:  # whose features may be others in each block
                before = None if together is None else _joined(before, together, sums)
                nothing = PatternStates(self._labelled.moments, block.n_features, {})
                together = self._twin(nothing, schema=block.schema, _n_dropped=0)
                sums = PatternSums(self._of_pattern(), self.max_patterns, separates=self._separates)
            together._add_description(block)
            if len(block.codes):
                sums.add(block, workspace)
            del block  # else it stays in memory while the next one is fetched
        return None if together is None else _joined(before, together, sums)

    def _reduce(self, block: Block, workspace: Workspace) -> Any:
        """The sums of a block whose rows have all features."""
        return self._of_pattern()._reduce(block, workspace)

    # ------------------------------------------------------------------ patterns

    @property
    def n_patterns(self) -> int:
        """How many patterns of observed features there are; for "diag", at most the features plus two."""
        return len(self._labelled.by_pattern)

    def by_pattern(self) -> Iterator[tuple[Indices, Statistics]]:
        """The statistics of the rows of each pattern.

        Yields
        ------
        features : ndarray of int
            The positions of the features that are observed; sorted.
        statistics : ClassStatistics or ExactClassStatistics
            The statistics of these features, of the rows that have them and no others. For covariance type
            "diag": of the complete rows, of the other rows without features, and of each feature of these.
        """
        state = self.copy()  # of one moment
        for pattern, part in state._labelled.by_pattern.items():
            features = patterns.features_in(pattern, state.n_features)
            statistics = state._of_pattern(part)
            if (names := state.feature_names) is not None:
                statistics.schema = Columns(tuple(names[j] for j in features))
            yield features, statistics

    def _in_float64(self) -> Labelled[Any]:
        return self._labelled.each(lambda part: self._of_pattern(part)._in_float64())

    def _states(self, *, counting: bool = False) -> list[PatternState]:
        """The rows by pattern, in floating point; with `counting`, each row in one pattern."""
        states = []
        for pattern, part in (self._labelled.counting if counting else self._labelled.by_pattern).items():
            places = np.searchsorted(self._labelled.classes, part.classes)
            features = patterns.features_in(pattern, self.n_features)
            moments = self._of_pattern(part)._in_float64().moments
            states.append(PatternState(features, places, part.counts, moments))
        return states

    # ------------------------------------------------------------------ the likeliest moments

    @property
    def is_complete(self) -> bool:
        """Whether no row lacks a feature."""
        return self._labelled.complete is not None

    def simplest(self) -> Statistics:
        """Ordinary statistics, if no row lacks a feature; else these."""
        with self.lock:
            return self._likeliest()[0].copy() if self.is_complete else self

    @property
    def iteration(self) -> Completion | None:
        """How the likeliest moments were found; None if no row lacks a feature."""
        return self._likeliest()[1]

    @property
    def reasons(self) -> Mapping[int, Reason]:
        """Why classes are not determined, by their positions; empty if all are."""
        completion = self.iteration
        return {} if completion is None else completion.undetermined

    def moments_for(self, model: Any = None) -> Statistics:
        """The completed statistics; for a model, this state, once it has been checked."""
        if model is None:
            return self.completed()
        if model.needs_all_classes:
            self._check_determined()
        steps = self.iteration
        if steps is not None and not steps.converged:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"EM has not converged in {MOST_STEPS:,} steps: too little is observed of some features "
                "together. Leave out features that are seldom observed, or use LinearDiscriminantAnalysis, "
                "which pools the classes",
                ConvergenceWarning,
                stacklevel=callers_level(),
            )
        return self

    def _check_determined(self) -> None:
        """Raise the error of the first class that is not determined."""
        if reasons := list(self.reasons.values()):
            raise reasons[0]()

    def completed(self) -> Statistics:
        """The expected statistics of the completed rows, given the observed values.

        Returns
        -------
        ClassStatistics
            With the weights and counts of all rows, the means of maximum likelihood, and as scatter the
            covariances of maximum likelihood times the weights; without fourth moments. If no row lacks a
            feature, these are the statistics of the rows themselves, and exact if this state is exact.

        Raises
        ------
        ValueError
            If the rows do not determine a mean or a covariance; the message names class, features and
            remedies.
        """
        with self.lock:
            self._check_determined()
            return self._likeliest()[0].copy()

    def of_classes(self, positions: Indices, classes: Labels | None = None) -> Self:
        """The state of the classes at these positions."""
        with self.lock:
            some = super().of_classes(positions, classes)
            if not self._labelled.kind.is_pooled and "likeliest" in self._made:  # each class by itself
                state, steps = self._likeliest()
                steps = steps and steps.of_classes(positions)
                some._made["likeliest"] = state.of_classes(positions), steps
            return some

    def _likeliest(self) -> tuple[Statistics, Completion | None]:
        """`_complete`, computed once for a state."""
        return self._once("likeliest", self._complete)

    def _complete(self) -> tuple[Statistics, Completion | None]:
        """The completed statistics, with NaN for a class that is not determined; and how they were found."""
        completion, complete_rows = None, self._labelled.complete
        if complete_rows is not None:
            plain = self._of_pattern(complete_rows.copy())
        else:
            classes, kind = self._labelled.classes, self._labelled.kind
            completion = complete(self._states(), kind, classes, self._total_weights(), self._shown_names())
            plain = ClassStatistics()
            squares = self._labelled.rounded_squares
            plain._set_labelled(Labelled(self.classes, self.counts, completion.moments, squares))
        return plain._described_as(self), completion

    @property
    def _moments(self) -> Any:
        """The moments of the completed statistics. Only with "full" may a class be undetermined."""
        if not self._labelled.kind.has_products or self._labelled.kind.is_pooled:
            self._check_determined()
        return self._likeliest()[0]._moments

    def _shown_names(self) -> list[str]:
        """The name of each feature in an error."""
        return list(map(repr, self.feature_names or range(self.n_features)))

    def _total_weights(self) -> tuple[Array, Array]:
        """The weight of each class and its low part."""
        return total_weights(self._states(counting=True), len(self._labelled.classes))

    @property
    def weights(self) -> Array:
        """Sum of the sample weights of each class, of all rows; shape (n_classes,)."""
        with self.lock:
            return self._total_weights()[0]

    @property
    def weights_by_feature(self) -> Array:
        """Weight of the rows of each class that have a feature: (n_classes, n_features)."""
        with self.lock:
            n_classes, kind = len(self._labelled.classes), self._labelled.kind
            return AvailableCases(self._states(), n_classes, self.n_features, pooled=kind.is_pooled).weights

    def _co_moments(self, name: str) -> Array | None:
        """Moments of higher powers, of which there is no estimate if a row lacks a feature."""
        with self.lock:
            if self.has_fourth_moments and not self.is_complete:
                raise ValueError(
                    "fourth moments, which shrinkage='auto' needs, are those of complete rows, and here "
                    "features are missing; set shrinkage='oas' or a number"
                )
            return super()._co_moments(name)

    # ------------------------------------------------------------------ states add up

    def _sides(self, other: Statistics) -> tuple[Self, Statistics, Schema]:
        """The two as they can be merged; TooManyPatternsError if there would be too many patterns."""
        ours, theirs, schema = self._aligned(self.alike(other))
        n_patterns = len(ours._labelled.by_pattern.keys() | theirs._labelled.by_pattern.keys())
        are_too_many = self._labelled.kind.has_products and n_patterns > self.max_patterns
        if self._separates and (are_too_many or self.covariance_type != theirs.covariance_type):
            separated = self._twin(self._labelled.separated())
            return separated._aligned(theirs._twin(theirs._labelled.separated()))
        if are_too_many:
            ours._check_compatible(theirs)
            n_classes = max(len(self._labelled.classes), len(theirs._labelled.classes))
            raise TooManyPatternsError.of(n_patterns, self.max_patterns, n_classes, theirs.n_features)
        return ours, theirs, schema

    def alike(self, other: Statistics) -> IncompleteStatistics:
        """The rows of another state in a state of this sort."""
        if isinstance(other, IncompleteStatistics):
            return other
        return IncompleteStatistics.from_statistics(other, max_patterns=self.max_patterns)

    def __radd__(self, other: object) -> Self:
        """0 + state, which is how ``sum(states)`` begins; and an ordinary state plus this one."""
        return self + other if isinstance(other, Statistics) else super().__radd__(other)

    def _warn_of_lost_digits(self, rest: Self) -> None:
        names, n_numbers = self.feature_names, rest.schema.n_numbers(rest.n_features)
        for pattern, part in () if self.exact else rest._labelled.by_pattern.items():
            features = patterns.features_in(pattern, rest.n_features)
            own = tuple(names[j] if names else str(j) for j in features)
            n_judged = int((features < n_numbers).sum())
            warn_of_lost_digits(part, self._labelled.by_pattern[pattern], own, n_judged)

    def decay(self, factor: float) -> Self:
        """Weigh everything seen so far by a factor, in place; see `ClassStatistics.decay`.

        Raises
        ------
        ValueError
            If the factor is not above 0 and at most 1, or the state is exact.
        """
        self._of_pattern().decay(factor)  # raises if it cannot
        with self.lock:
            decayed = self._labelled.each(lambda part: self._of_pattern(part).decay(factor)._labelled)
            self._set_labelled(decayed)
        return self

    def __repr__(self) -> str:
        with self.lock:
            return f"{super().__repr__()[:-1]}, patterns={self.n_patterns})"

    # ------------------------------------------------------------------ states are saved

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The state as arrays with a row for each class of each pattern, and plain values beside them."""
        state = self.copy()  # of one moment; the lock is free again while it is written
        by_pattern = state._labelled.by_pattern
        parts = [state._of_pattern(part).to_columns() for part in by_pattern.values()]
        columns: list[TableColumns] = [own for own, _ in parts or [state._of_pattern().to_columns()]]
        names = dict.fromkeys(name for own in columns for name in own)
        together = {name: _one_below_the_other(columns, name) for name in names}
        together["pattern"] = np.repeat(np.arange(len(columns)), [len(own["label"]) for own in columns])
        described = [
            {
                "observed": "".join(map(str, patterns.observed_in(pattern, state.n_features).astype(int))),
                **{name: metadata[name] for name in _OF_PATTERN if name in metadata},
            }
            for pattern, (_, metadata) in zip(by_pattern, parts, strict=True)
        ]
        return together, {
            "format_version": FORMAT_VERSION,
            **state._metadata(),
            "exact": state.exact,
            "fourth_moments": state.has_fourth_moments,
            "max_patterns": state.max_patterns,
            "patterns": described,
            **({"separates": True} if state._separates else {}),
        }

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """The state from the columns and metadata that `to_columns` returned.

        Raises
        ------
        ValueError
            If no rows can have such a state. The message says why.
        """
        state = super().from_columns(columns, metadata)
        state.exact, state._separates = metadata["exact"] is True, metadata.get("separates") is True
        state.max_patterns = as_count(metadata["max_patterns"], "max_patterns")
        check_whole(state.max_patterns, "max_patterns", 1)
        return state

    @classmethod
    def _read_columns(
        cls, kind: CovarianceKind, columns: TableColumns, metadata: Mapping[str, Any], n_features: int
    ) -> PatternStates[Any]:
        fourth_moments, exact = metadata["fourth_moments"] is True, metadata["exact"] is True
        plain = empty_statistics(Required(kind.name, fourth_moments, exact))
        parts = {}
        for pattern, (part, own) in from_columns(columns, metadata["patterns"], n_features):
            n_observed = len(patterns.features_in(pattern, n_features))
            described = {**metadata, **own, "n_features": n_observed, "feature_names": None, "n_dropped": 0}
            for name in (*RULES, *SCHEMAS):
                described.pop(name, None)
            parts[pattern] = type(plain).from_columns(part, described)._labelled
        return PatternStates(plain._labelled.moments, n_features, parts)


def _joined(before: S | None, together: S, sums: PatternSums) -> S:
    """A state with the sums of its rows, and with the rows before them."""
    together._set_labelled(sums.states(together.n_features))
    return together if before is None else before._merge(together, owned=True)
