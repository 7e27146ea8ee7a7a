"""Patterns of observed features, and blocks cut into parts whose rows share one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import labels
from streamgda.blocks.block import Block, Column, Features
from streamgda.statistics.covariances import Indices
from streamgda.statistics.gather import gather_row_major
from streamgda.statistics.incomplete.too_many import TooManyPatternsError

Pattern = bytes
"""Which features are observed, a bit for each, as `numpy.packbits` packs them."""

Observed = NDArray[np.bool_]

_ONE_ROW_IN = 64


def pattern_of(observed: Observed) -> Pattern:
    """The pattern of a mask of shape (n_features,)."""
    return np.packbits(observed).tobytes()


def observed_in(pattern: Pattern, n_features: int) -> Observed:
    """The mask (n_features,) of the features that are observed in a pattern."""
    return np.unpackbits(np.frombuffer(pattern, np.uint8), count=n_features).astype(np.bool_)


def features_in(pattern: Pattern, n_features: int) -> Indices:
    """The positions of the features that are observed in a pattern."""
    return np.flatnonzero(observed_in(pattern, n_features))


def complete_pattern(n_features: int) -> Pattern:
    """The pattern of a row in which nothing is missing."""
    return pattern_of(np.ones(n_features, np.bool_))


def single_pattern(feature: int, n_features: int) -> Pattern:
    """The pattern of one feature alone."""
    return pattern_of(np.arange(n_features) == feature)


def _pattern_with(features: Indices, n_features: int) -> Pattern:
    """The pattern of some features."""
    return pattern_of(np.isin(np.arange(n_features), features))


def empty_pattern(n_features: int) -> Pattern:
    """The pattern of a row in which everything is missing."""
    return pattern_of(np.zeros(n_features, np.bool_))


# ---------------------------------------------------------------------- blocks are cut


def parts_by_pattern(block: Block, observed: Observed, most: int) -> Iterator[tuple[Pattern, Block]]:
    """Cut a block into parts whose rows have the same features; a part has its observed features alone.

    Raises
    ------
    ValueError
        If there are more patterns than `most`.
    """
    codes = _codes_of_patterns(observed)
    if (n_patterns := int(codes.max(initial=0)) + 1) > most:
        raise TooManyPatternsError(n_patterns, most, len(block.classes), block.n_features)
    order = np.argsort(codes, kind="stable")
    columns = _columns_in_order(block.features, order)
    bounds = np.concatenate(([0], np.cumsum(np.bincount(codes))))
    for start, stop in pairwise(bounds.tolist()):
        mask = observed[order[start]]
        kept = np.flatnonzero(mask)
        yield (
            pattern_of(mask),
            _part(block, order[start:stop], _some(columns, kept, slice(start, stop)), kept),
        )


def parts_by_feature(block: Block, observed: Observed) -> Iterator[tuple[Pattern, Block]]:
    """Cut a block into its complete rows, its other rows without features, and the values of those.

    Features that are observed in the same rows are in one part.
    """
    is_complete = observed.all(axis=1)
    order = np.argsort(~is_complete, kind="stable")
    columns = _columns_in_order(block.features, order)
    n_complete = int(is_complete.sum())
    everything, nothing = np.arange(block.n_features), np.arange(0)
    for kept, rows in ((everything, slice(n_complete)), (nothing, slice(n_complete, None))):
        if len(order[rows]):
            features = _some(columns, kept, rows)
            yield _pattern_with(kept, block.n_features), _part(block, order[rows], features, kept)
    for kept, among in _observed_together(observed[order[n_complete:]]):
        places = among + n_complete
        features = _some(columns, kept, places)
        yield _pattern_with(kept, block.n_features), _part(block, order[places], features, kept)


def _observed_together(observed: Observed) -> Iterator[tuple[Indices, Indices]]:
    """The features that are observed in the same rows, with these; features that no row has are left out."""
    masks = np.ascontiguousarray(observed.T)
    together: dict[bytes, list[int]] = {}
    for j, packed in enumerate(np.packbits(masks, axis=1)):
        together.setdefault(packed.tobytes(), []).append(j)
    for features in together.values():
        rows = np.flatnonzero(masks[features[0]])
        if len(rows):
            yield np.array(features), rows


def lacks_features(block: Block) -> bool:
    """Whether a feature is missing in a row of a block."""
    return observed_values(block) is not None


def seems_to_lack_features(block: Block) -> bool:
    """Whether a feature is missing in one of a few rows of a block, which are soon looked through."""
    few = _rows(block.features, slice(None, None, _ONE_ROW_IN))
    return observed_values(replace(block, features=few)) is not None


@dataclass(frozen=True)
class _PartOfBlock(Block):
    """Some rows and features of a block, which errors name as the block does."""

    whole: Block | None = None
    kept: Indices | None = None

    def feature_name(self, index: int) -> str:
        """What to call a feature in an error."""
        assert self.whole is not None
        assert self.kept is not None
        return self.whole.feature_name(int(self.kept[index]))


def _part(block: Block, rows: Indices, features: Features, kept: Indices) -> Block:
    classes, codes = labels.drop_unused(block.classes, block.codes[rows])
    return _PartOfBlock(
        features,
        classes,
        codes,
        weights=None if block.weights is None else block.weights[rows],
        row_name=block.row_name.take(rows),
        whole=block,
        kept=kept,
    )


def observed_values(block: Block) -> Observed | None:
    """Which values are observed, (n_rows, n_features); None where all are."""
    features = block.features
    if isinstance(features, np.ndarray):
        missing = np.isnan(features) if features.dtype.kind == "f" else np.zeros(1, np.bool_)
        return np.logical_not(missing, out=missing) if missing.any() else None
    lacking = [j for j, column in enumerate(features) if _may_lack(column)]
    if not lacking:
        return None
    observed = np.ones((len(features[0]), len(features)), np.bool_)
    for j in lacking:
        np.logical_not(np.isnan(features[j]), out=observed[:, j])
    return None if observed.all() else observed


def _may_lack(values: Column) -> bool:
    """Whether a value may be NaN: then the sum is. It also is where infinities of both signs cancel."""
    if values.dtype.kind != "f":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(np.add.reduce(values, axis=None)))


def check_no_infinity(block: Block) -> None:
    """Raise ValueError, which says where, if a value of a block is infinite."""
    features = block.features
    columns = list(features.T) if isinstance(features, np.ndarray) else features
    for j, column in enumerate(columns):
        infinite = np.isinf(column)
        if infinite.any():
            raise ValueError(
                f"{block.row_name(int(np.argmax(infinite)))}: feature {block.feature_name(j)} is infinity. "
                "Mend the data; a missing value is NaN or null"
            )


def _codes_of_patterns(observed: Observed) -> NDArray[np.integer]:
    """A small number for the pattern of each row: the position of the pattern among all of them, sorted."""
    packed = np.packbits(observed, axis=1)
    words = np.zeros((len(packed), max(1, -(-packed.shape[1] // 8)) * 8), np.uint8)
    words[:, : packed.shape[1]] = packed
    first, *others = words.view(np.uint64).T
    codes = _ranks(first)
    for word in others:
        ranks = _ranks(word)
        codes = _ranks(codes * (ranks.max(initial=0) + 1) + ranks)
    return codes.astype(labels.code_dtype(int(codes.max(initial=0)) + 1))


def _ranks(values: NDArray[Any]) -> Indices:
    """The position of each value among the distinct ones; a search is quicker than a sort with places."""
    return np.searchsorted(np.unique(values), values)


def _columns_in_order(features: Features, order: Indices) -> Sequence[Column]:
    """The columns of the same rows in another order, each contiguous."""
    if not isinstance(features, np.ndarray):
        return [column.take(order) for column in features]
    if features.strides[0] < features.strides[1]:
        return [column.take(order) for column in features.T]
    columns = np.empty((features.shape[1], len(order)), features.dtype)
    gather_row_major(features, order, columns)
    return list(columns)


def _rows(features: Features, rows: Indices | slice) -> Features:
    return features[rows] if isinstance(features, np.ndarray) else [column[rows] for column in features]


def _some(columns: Sequence[Column], kept: Indices, rows: Indices | slice) -> Features:
    if len(kept):
        return [columns[j][rows] for j in kept]
    return np.empty((len(columns[0][rows]), 0))


def with_a_feature(block: Block) -> Block:
    """The rows with one feature that is zero, for a kernel that needs one."""
    return replace(block, features=np.zeros((len(block.codes), 1)))
