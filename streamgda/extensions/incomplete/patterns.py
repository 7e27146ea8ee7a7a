"""Patterns of observed features: blocks cut by them, and labelled sums for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.block import Block, Column, Features
from streamgda.data.blocks.labels import Labels
from streamgda.statistics.covariances import Array, CovarianceKind, Indices, kind_named
from streamgda.statistics.floating.reduction import Accumulation
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.folded import Keyed
from streamgda.statistics.kernels import Workspace
from streamgda.statistics.labelled import Labelled, joined_squares
from streamgda.statistics.required import Required

Pattern = bytes
"""Which features are observed, a bit for each, as `numpy.packbits` packs them."""

Observed = NDArray[np.bool_]

_FIRST_ROWS = slice(512)  # of a block; mostly they have all of its patterns, so they are looked at first


AS_OPTION = "set missing=Marginal(max_patterns=..., max_reads=..., tol=...)"


class TooManyPatternsError(ValueError):
    """Rows have more patterns of observed features than may be kept."""

    @classmethod
    def of(cls, n_patterns: int, max_patterns: int, n_classes: int, n_features: int) -> Self:
        """The error for `n_patterns` patterns, of which `max_patterns` may be kept."""
        nbytes = 8 * n_patterns * n_classes * n_features**2
        size = f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.1f} MB"
        return cls(
            f"the rows have {n_patterns:,} patterns of observed features or more, which take up to "
            f"{size}; up to max_patterns={max_patterns} are kept. Raise max_patterns "
            f"({AS_OPTION}); leave out features that are often missing, or incomplete rows (missing='drop'); "
            "fit a model with missing='marginal' to a source or an array, which is then read once for each "
            "step; or use GaussianNB, which keeps no patterns"
        )


def pattern_of(observed: Observed) -> Pattern:
    """The pattern of a mask of shape (n_features,)."""
    return np.packbits(observed).tobytes()


def pattern_with(features: Indices | Sequence[int] | int, n_features: int) -> Pattern:
    """The pattern of some features, of one, or of none."""
    observed = np.zeros(n_features, np.bool_)
    observed[features] = True
    return pattern_of(observed)


def complete_pattern(n_features: int) -> Pattern:
    """The pattern of a row in which nothing is missing."""
    return pattern_of(np.ones(n_features, np.bool_))


def observed_in(pattern: Pattern, n_features: int) -> Observed:
    """The mask (n_features,) of the features that are observed in a pattern."""
    return np.unpackbits(np.frombuffer(pattern, np.uint8), count=n_features).astype(np.bool_)


def features_in(pattern: Pattern, n_features: int) -> Indices:
    """The positions of the features that are observed in a pattern."""
    return np.flatnonzero(observed_in(pattern, n_features))


# ---------------------------------------------------------------------- blocks are cut


class RowPatterns:
    """Which features the rows of a block have.

    Attributes
    ----------
    codes : ndarray of int of shape (n_rows,)
        The pattern of each row.
    observed : ndarray of bool of shape (n_patterns, n_features)
        Which features are observed in each pattern.
    """

    def __init__(self, block: Block) -> None:
        packed = _missing_bits(block.features)
        self.codes = _codes_of(packed.view(np.uint64))
        first = labels.first_positions(self.codes, int(self.codes.max()) + 1)
        self.observed = np.equal(np.unpackbits(packed[first], axis=1, count=block.n_features), 0)


def parts_by_pattern(
    block: Block, patterns: RowPatterns, workspace: Workspace
) -> Iterator[tuple[Pattern, Block]]:
    """Cut a block into parts whose rows have the same features; a part has its observed features alone.

    The rows are in the workspace, until the next block is cut.
    """
    bounds = np.concatenate(([0], np.cumsum(np.bincount(patterns.codes, minlength=len(patterns.observed)))))
    columns, order = _in_order(block, patterns.codes, bounds, workspace)
    for mask, (start, stop) in zip(patterns.observed, pairwise(bounds.tolist()), strict=True):
        yield _part(block, columns, np.flatnonzero(mask), order, slice(start, stop))


def parts_by_feature(
    block: Block, patterns: RowPatterns, workspace: Workspace
) -> Iterator[tuple[Pattern, Block]]:
    """Cut a block into its complete rows, its other rows without features, and the features of the others.

    Features that are observed in the same rows are in one part. The workspace is used as by
    `parts_by_pattern`.
    """
    complete: Observed = np.asarray(patterns.observed.all(axis=1))
    is_complete = complete[patterns.codes]
    n_complete, n_rows = int(is_complete.sum()), len(is_complete)
    columns, order = _in_order(block, ~is_complete, np.array([0, n_complete, n_rows]), workspace)
    everything = np.arange(block.n_features)
    for positions, rows in ((everything, slice(n_complete)), (everything[:0], slice(n_complete, None))):
        if len(order[rows]):
            yield _part(block, columns, positions, order, rows)
    together: dict[bytes, list[int]] = {}
    masks = patterns.observed.T[:, patterns.codes[order[n_complete:]]]
    for feature, mask in enumerate(masks):
        together.setdefault(mask.tobytes(), []).append(feature)
    for features in together.values():
        among = np.flatnonzero(masks[features[0]])
        if len(among):
            yield _part(block, columns, np.array(features), order, among + n_complete)


def _missing_bits(features: Features) -> NDArray[np.uint8]:
    """A bit for each value, set where it is missing: (n_rows, n_bytes), in whole words of 64 bits."""
    columns = features.T if isinstance(features, np.ndarray) else features
    n_bytes = -(-len(columns) // 64) * 8
    if isinstance(features, np.ndarray) and features.strides[0] >= features.strides[1]:
        missing = np.zeros((len(features), 8 * n_bytes), np.bool_)
        missing[:, : len(columns)] = np.isnan(features)  # with out=, NumPy 2.4 writes wrong strides
        return np.packbits(missing.reshape(-1)).reshape(len(missing), -1)
    packed = np.zeros((n_bytes, len(columns[0])), np.uint8)
    for j, column in enumerate(columns):
        packed[j // 8] |= np.isnan(column).view(np.uint8) << np.uint8(7 - j % 8)
    return np.ascontiguousarray(packed.T)


def _codes_of(words: NDArray[np.uint64]) -> Indices:
    """A number for each row of words (n_rows, n_words), from 0 on: equal rows have the same one."""
    first, *others = words.T
    codes = _ranks(first)
    for word in others:
        ranks = _ranks(word)
        codes = _ranks(codes * (ranks.max(initial=0) + 1) + ranks)
    return codes


def _ranks(values: NDArray[Any]) -> Indices:
    """The position of each value among the distinct ones, sorted.

    Mostly the first rows have all distinct values, and a search among these is quicker than sorting all
    values.
    """
    few = np.unique(values[_FIRST_ROWS])
    places = np.minimum(np.searchsorted(few, values), len(few) - 1)
    if np.array_equal(few[places], values):
        return places
    return np.searchsorted(np.unique(values), values)


def _in_order(
    block: Block, codes: NDArray[Any], bounds: Indices, workspace: Workspace
) -> tuple[Sequence[Column], Indices]:
    """The columns of the rows in the order of codes, each contiguous, and these rows' positions.

    Floats are in the workspace.
    """
    order = np.argsort(
        codes.astype(labels.code_dtype(len(bounds))), kind="stable"
    )  # by radix, of small numbers
    columns = block.features.T if isinstance(block.features, np.ndarray) else block.features
    if any(column.dtype.kind != "f" for column in columns):
        return [column[order] for column in columns], order
    return list(workspace.gather(block.features, codes, bounds)[0]), order


def _part(
    block: Block, columns: Sequence[Column], positions: Indices, order: Indices, rows: Indices | slice
) -> tuple[Pattern, Block]:
    """Some rows of columns in order, with the features that are kept: their pattern and a block.

    A block without features gets one of zeros, since kernels need a feature.
    """
    chosen = order[rows]
    classes, codes = labels.drop_unused(block.classes, block.codes[chosen])
    weights = None if block.weights is None else block.weights[chosen]
    features = [columns[j][rows] for j in positions] if len(positions) else np.zeros((len(chosen), 1))
    part = Block(features, classes, codes, weights, row_name=block.row_name.take(chosen))
    return pattern_with(positions, block.n_features), part


M = TypeVar("M", bound=Any)


class PatternStates(Labelled[M]):
    """The sums of rows by the features that they have. A pattern has the sums of its observed features.

    With "diag", the kind without products of two features, an incomplete row is in several patterns: in that
    of no features, which counts it, and in one for each of its features. So the number of these patterns is
    at most the number of features plus two.

    Attributes
    ----------
    by_pattern : dict of Pattern to Labelled
        Sorted by pattern. Each has at least one class.
    moments : Moments or Sums
        The moments of no rows, which say how many features a row has and what is kept of it.
    """

    def __init__(self, like: M, n_features: int, by_pattern: Mapping[Pattern, Labelled[M]]) -> None:
        super().__init__(labels.no_labels(), np.zeros(0, np.int64), like.zeros(like.kind, 0, n_features))
        self.by_pattern = Keyed[Pattern, Labelled[M]](
            (pattern, part) for pattern, part in sorted(by_pattern.items()) if len(part.classes)
        )
        counting = list(self.counting.values())
        self.classes = reduce(labels.union, (part.classes for part in counting), labels.no_labels())
        self.counts = np.zeros(len(self.classes), np.int64)
        for part in counting:
            places = np.searchsorted(self.classes, part.classes)
            self.squared_weights = joined_squares(
                self.squared_weights, self.counts, part.squared_weights, part.counts, places
            )
            self.counts[places] += part.counts

    @property
    def counting(self) -> dict[Pattern, Labelled[M]]:
        """The patterns in which each row stands once."""
        if self.kind.has_products:
            return self.by_pattern
        return {p: part for p, part in self.by_pattern.items() if part.n_features in (0, self.n_features)}

    @property
    def complete(self) -> Labelled[M] | None:
        """The sums of all the rows, if none of them lacks a feature."""
        if not self.by_pattern:
            return Labelled.empty(self.moments, self.n_features)
        complete = self.by_pattern.get(complete_pattern(self.n_features))
        return complete if len(self.by_pattern) == 1 else None

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return super().nbytes + self.by_pattern.nbytes

    # ------------------------------------------------------------------ by class and by feature

    def each(self, function: Callable[[Labelled[M]], Labelled[M]]) -> Self:
        """The state with a function applied to each part."""
        parts = {pattern: function(part) for pattern, part in self.by_pattern.items()}
        return type(self)(self.moments, self.n_features, parts)

    def copy(self) -> Self:
        """A state that does not change with this one."""
        return self.each(Labelled.copy)

    def take(self, places: Indices) -> Self:
        """The state of some of the classes, which shares nothing with this one."""
        classes = self.classes[places]

        def taken(part: Labelled[M]) -> Labelled[M]:
            some = part.take(np.flatnonzero(np.isin(part.classes, classes)))
            return some.copy() if some is part else some

        return self.each(taken)

    def renamed(self, classes: Labels) -> Self:
        """The same state with other labels, in the same order."""
        return self.each(lambda part: part.renamed(classes[np.searchsorted(self.classes, part.classes)]))

    def relabelled(self, labels: Labels) -> Self:
        """The state with another label for each class. Classes of the same label become one."""
        return self.each(lambda part: part.relabelled(labels[np.searchsorted(self.classes, part.classes)]))

    def as_one_class(self) -> Self:
        """A copy in which all rows are of the class 0."""
        return self.each(Labelled.as_one_class)

    def narrowed(self, required: Required) -> Self:
        """A copy that keeps no more than is required; ValueError if this keeps too little."""
        like: M = self.moments.narrowed(required)
        narrow = self.each(lambda part: part.narrowed(required)).by_pattern
        if self.kind.has_products and not like.kind.has_products:
            narrow = by_feature(narrow, self.n_features)
        return type(self)(like, self.n_features, narrow)

    def separated(self) -> Self:
        """Each feature by itself: the state of kind "diag", which never has too many patterns.

        A scatter that classes share is divided among them by weight, so its sum stays the same.
        """
        if not self.kind.is_pooled:
            return self.narrowed(Required("diag"))
        diagonal = kind_named("diag")
        like = _unpooled(Labelled.empty(self.moments, self.n_features), diagonal).moments
        parts = {pattern: _unpooled(part, diagonal) for pattern, part in self.by_pattern.items()}
        return type(self)(like, self.n_features, by_feature(parts, self.n_features))

    def selected(self, features: Indices) -> Self:
        """The state of the same rows with some of their features, in this order.

        Rows whose patterns differ only in other features are merged. In a kind without products, each feature
        of an incomplete row is kept by itself. There a row stays incomplete even if it lacks none of these
        features.
        """
        together, counting = Keyed[Pattern, Labelled[M]](), self.counting
        for pattern, part in self.by_pattern.items():
            observed = observed_in(pattern, self.n_features)
            own, remaining = np.flatnonzero(observed), features[observed[features]]
            if len(remaining) or pattern in counting:
                chosen = part.selected(np.searchsorted(own, remaining))
                together.add(pattern_of(observed[features]), chosen, owned=True)
        single = self.by_pattern.get(pattern_with(features, self.n_features))
        if not self.kind.has_products and len(features) == 1 < self.n_features and single is not None:
            nothing = pattern_with([], 1)  # it counts these rows too, and they are complete now
            together[nothing] = together[nothing].subtract(single.selected(np.arange(0)))
        return type(self)(self.moments, len(features), together)

    def placed(self, features: Indices, n_features: int) -> Self:
        """The state of `n_features` features, of which these are at the given places, and observed zeros."""
        added, wide = np.setdiff1d(np.arange(n_features), features), Keyed[Pattern, Labelled[M]]()
        for pattern, part in self.by_pattern.items():
            own = features[features_in(pattern, self.n_features)]
            if self.kind.has_products or len(own) == self.n_features:
                all_of = np.union1d(own, added)
                placed = part.placed(np.searchsorted(all_of, own), len(all_of))
                wide.add(pattern_with(all_of, n_features), placed, owned=True)
                continue
            wide.add(pattern_with(own, n_features), part, owned=True)
            for feature in added if not len(own) else ():
                wide.add(pattern_with(feature, n_features), part.placed(own, 1), owned=True)
        return type(self)(self.moments, n_features, wide)

    def mapped(self, A: Array, b: Array) -> Self:
        """Raise ValueError: the moments of A x + b do not follow where features are missing."""
        raise ValueError(
            "where features are missing, so are their sums: map the statistics that complete rows are "
            "expected to have, completed().linear_map(A, b), or the rows"
        )

    # ------------------------------------------------------------------ states add up

    def merged(self, other: Labelled[M], *, owned: bool = False) -> PatternStates[M]:
        """The state with the rows of another. This one changes at most when the result is told to `write`."""
        assert isinstance(other, PatternStates)
        labels.union(self.classes, other.classes)  # raises if the two are labels of different kinds
        parts = dict(self.by_pattern)
        for pattern, theirs in other.by_pattern.items():
            ours = parts.get(pattern)
            parts[pattern] = ours.merged(theirs, owned=owned) if ours else theirs if owned else theirs.copy()
        return type(self)(self.moments, self.n_features or other.n_features, parts)

    def write(self) -> None:
        """Write what is left to be written."""
        for part in self.by_pattern.values():
            part.write()

    def subtract(self, other: Labelled[M], rounding: float = 0.0) -> Self:
        """The state of the rows that are in this one but not in the other.

        Raises
        ------
        ValueError
            If the other has a class or a pattern that this one does not have, or more rows or weight of a
            class, or if no rows can have the sums that are left.
        """
        assert isinstance(other, PatternStates)
        unseen = sorted(other.by_pattern.keys() - self.by_pattern.keys())
        if unseen:
            observed = features_in(unseen[0], self.n_features)
            raise ValueError(
                f"rows with the features {observed.tolist()} alone cannot be removed: the state never saw any"
            )
        rest = {
            pattern: part.subtract(other.by_pattern[pattern], rounding)
            if pattern in other.by_pattern
            else part.copy()
            for pattern, part in self.by_pattern.items()
        }
        return type(self)(self.moments, self.n_features, rest)

    def is_close(self, other: Labelled[M], rtol: float) -> bool:
        """Whether the two have the same classes, counts and patterns, and moments that agree to `rtol`."""
        assert isinstance(other, PatternStates)
        return self.same_counts(other) and all(
            pattern in other.by_pattern and part.is_close(other.by_pattern[pattern], rtol)
            for pattern, part in self.by_pattern.items()
        )

    def equals(self, other: Labelled[M]) -> bool:
        """Whether the two are the same to the last bit."""
        return (
            isinstance(other, PatternStates)
            and self.same_counts(other)
            and self.by_pattern.keys() == other.by_pattern.keys()
            and all(part.equals(other.by_pattern[pattern]) for pattern, part in self.by_pattern.items())
        )


def of_complete_rows(labelled: Labelled[M]) -> PatternStates[M]:
    """The state of complete rows."""
    complete = {complete_pattern(labelled.n_features): labelled} if labelled.n_features else {}
    return PatternStates(labelled.moments, labelled.n_features, complete)


def by_feature(parts: Mapping[Pattern, Labelled[Any]], n_features: int) -> Keyed[Pattern, Labelled[Any]]:
    """The parts of a "diag" state: the complete rows, the count of the other rows, and each feature of these.

    Parameters
    ----------
    parts : dict of Pattern to Labelled
        Patterns in which each row stands once.
    n_features : int
        How many features a row has.
    """
    together = Keyed[Pattern, Labelled[Any]]()
    for pattern, part in parts.items():
        if pattern == complete_pattern(n_features):
            together.add(pattern, part)
            continue
        together.add(pattern_with([], n_features), part.selected(np.arange(0)), owned=True)
        add_features(together, pattern, part, n_features)
    return together


def add_features(
    together: Keyed[Pattern, Labelled[Any]], pattern: Pattern, part: Labelled[Any], n_features: int
) -> None:
    """Add each feature of the rows of a pattern to the parts of a "diag" state, but not their count."""
    for position, feature in enumerate(features_in(pattern, n_features)):
        of_feature = part.selected(np.array([position]))
        together.add(pattern_with(feature, n_features), of_feature, owned=True)


def _unpooled(part: Labelled[Any], diagonal: CovarianceKind) -> Labelled[Any]:
    """A part whose classes share a scatter, as a "diag" part: each class gets its share by weight."""
    shares = part.moments.weights / max(part.moments.weights.sum(), np.finfo(np.float64).tiny)
    scatter = shares[:, None] * part.moments.diagonal
    return replace(part, moments=replace(part.moments, kind=diagonal, scatter=scatter))


class PatternSums:
    """The sums of rows by pattern, to which blocks are added in place; `states` gives the state.

    Parameters
    ----------
    plain : ClassStatistics or ExactClassStatistics
        The state of no rows, of the sort that sums up each pattern.
    most : int
        The most patterns that are kept.
    separates : bool, default=False
        Whether each feature is summed up by itself as soon as there are too many patterns.
    """

    def __init__(self, plain: Any, most: int, *, separates: bool = False) -> None:
        self._empty, self._most, self._separates = plain, most, separates
        self._sums: dict[Pattern, Accumulation] = {}
        self._merged = Keyed[Pattern, Labelled[Any]]()  # states that keep more, and earlier sums
        self._in_order = Workspace()  # for the rows of a block, pattern by pattern

    def add(self, block: Block, workspace: Workspace) -> None:
        """Add the rows of a block.

        Raises
        ------
        TooManyPatternsError
            If there are too many patterns. The sums are then as they were.
        ValueError
            If a value is infinite or too large. The sums must then not be used.
        """
        if not block.lacks_numbers():
            self._add_part(complete_pattern(block.n_features), block, workspace)
            return
        patterns = RowPatterns(block)
        if self._keeps_patterns:
            self._check_number(block, patterns)
        cut = parts_by_pattern if self._keeps_patterns else parts_by_feature
        try:
            for pattern, part in cut(block, patterns, self._in_order):
                self._add_part(pattern, part, workspace)
        except ValueError:
            block.check_no_infinity()
            raise

    def _check_number(self, block: Block, patterns: RowPatterns) -> None:
        n_patterns = len(self._sums.keys() | self._merged.keys() | set(map(pattern_of, patterns.observed)))
        if n_patterns > self._most:
            if not self._separates:
                raise TooManyPatternsError.of(n_patterns, self._most, len(block.classes), block.n_features)
            self._merged = self.states(block.n_features).separated().by_pattern
            self._empty, self._sums = ClassStatistics("diag"), {}

    @property
    def _keeps_patterns(self) -> bool:
        return bool(self._empty._labelled.kind.has_products)

    def _add_part(self, pattern: Pattern, part: Block, workspace: Workspace) -> None:
        """Add rows to the sums of their pattern."""
        plain = self._empty
        if plain.exact or plain.has_fourth_moments:
            self._merged.add(pattern, plain._from_block(part, workspace)._labelled, owned=True)
            return
        if pattern not in self._sums:
            self._sums[pattern] = Accumulation(Labelled.empty(plain._labelled.moments, 0))
        self._sums[pattern].add(part, workspace)

    def states(self, n_features: int) -> PatternStates[Any]:
        """The state of all the rows, with `n_features` features. No block can be added after this call."""
        counting = complete_pattern(n_features), pattern_with([], n_features)
        parts = Keyed[Pattern, Labelled[Any]]()
        summed = [(pattern, sums.state()) for pattern, sums in self._sums.items()]
        for pattern, part in [*self._merged.items(), *summed]:
            complete = part.selected(np.arange(0)) if pattern == counting[1] else part
            if self._keeps_patterns or pattern in counting:
                parts.add(pattern, complete, owned=True)
            else:
                add_features(parts, pattern, complete, n_features)
        return PatternStates(self._empty._labelled.moments, n_features, parts)
