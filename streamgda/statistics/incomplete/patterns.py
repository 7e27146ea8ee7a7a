"""Patterns of observed features, and blocks cut into parts whose rows share one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import labels
from streamgda.blocks.block import Block, Column, Features
from streamgda.statistics.covariances import Indices
from streamgda.statistics.incomplete.too_many import TooManyPatternsError

Pattern = bytes
"""Which features are observed, a bit for each, as `numpy.packbits` packs them."""

Observed = NDArray[np.bool_]


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


def empty_pattern(n_features: int) -> Pattern:
    """The pattern of a row in which everything is missing."""
    return pattern_of(np.zeros(n_features, np.bool_))


# ---------------------------------------------------------------------- blocks are cut


def parts_by_pattern(block: Block, most: int) -> Iterator[tuple[Pattern, Block]]:
    """Cut a block into parts whose rows have the same features; a part has its observed features alone.

    Raises
    ------
    ValueError
        If a value is infinite, or there are more patterns than `most`.
    """
    observed = _observed(block.features)
    if observed is None:
        yield complete_pattern(block.n_features), block
        return
    _check_no_infinity(block)
    codes = _codes_of_patterns(observed)
    if (n_patterns := int(codes.max(initial=0)) + 1) > most:
        raise TooManyPatternsError(n_patterns, most, len(block.classes), block.n_features)
    order = np.argsort(codes, kind="stable")
    rows_in_order = _rows(block.features, order)
    bounds = np.concatenate(([0], np.cumsum(np.bincount(codes))))
    for start, stop in pairwise(bounds.tolist()):
        mask = observed[order[start]]
        features = _columns(_rows(rows_in_order, slice(start, stop)), np.flatnonzero(mask))
        yield pattern_of(mask), _part(block, order[start:stop], features, np.flatnonzero(mask))


def parts_by_feature(block: Block) -> Iterator[tuple[Pattern, Block]]:
    """Cut a block into its complete rows, its other rows without features, and the values of each feature.

    The values are those of the rows that are not complete.

    Raises
    ------
    ValueError
        If a value is infinite; the message says where.
    """
    observed, n_features = _observed(block.features), block.n_features
    if observed is None:
        yield complete_pattern(n_features), block
        return
    _check_no_infinity(block)
    is_complete = observed.all(axis=1)
    for pattern, kept, rows in (
        (complete_pattern(n_features), np.arange(n_features), np.flatnonzero(is_complete)),
        (empty_pattern(n_features), np.arange(0), np.flatnonzero(~is_complete)),
    ):
        if len(rows):
            yield pattern, _part(block, rows, _columns(_rows(block.features, rows), kept), kept)
    for j in range(n_features):
        rows = np.flatnonzero(observed[:, j] & ~is_complete)
        if len(rows):
            feature = np.array([j])
            yield (
                single_pattern(j, n_features),
                _part(block, rows, _rows(_columns(block.features, feature), rows), feature),
            )


def lacks_features(block: Block) -> bool:
    """Whether a feature is missing in a row of a block."""
    return _observed(block.features) is not None


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


def _observed(features: Features) -> NDArray[np.bool_] | None:
    """Which values are observed, (n_rows, n_features); None where all are."""
    if isinstance(features, np.ndarray):
        return ~np.isnan(features) if _may_lack(features) else None
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


def _check_no_infinity(block: Block) -> None:
    features = block.features
    columns = list(features.T) if isinstance(features, np.ndarray) else features
    for j, column in enumerate(columns):
        infinite = np.isinf(column)
        if infinite.any():
            raise ValueError(
                f"{block.row_name(int(np.argmax(infinite)))}: feature {block.feature_name(j)} is infinity. "
                "Mend the data; a missing value is NaN or null"
            )


def _codes_of_patterns(observed: NDArray[np.bool_]) -> NDArray[np.integer]:
    """A small number for the pattern of each row: the position of the pattern among all of them, sorted."""
    packed = np.packbits(observed, axis=1)
    words = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    words[:, : packed.shape[1]] = packed
    codes = np.zeros(len(packed), np.uint64)
    n_patterns = 1
    for word in words.view(np.uint64).T:
        _, codes_of_word = np.unique(word, return_inverse=True)
        together = codes * np.uint64(codes_of_word.max(initial=0) + 1) + codes_of_word.astype(np.uint64)
        patterns, inverse = np.unique(together, return_inverse=True)
        codes, n_patterns = inverse.astype(np.uint64), len(patterns)
    return codes.astype(labels.code_dtype(n_patterns))


def _rows(features: Features, rows: Indices | slice) -> Features:
    return features[rows] if isinstance(features, np.ndarray) else [column[rows] for column in features]


def _columns(features: Features, kept: Indices) -> Features:
    if isinstance(features, np.ndarray):
        return features if len(kept) == features.shape[1] else features[:, kept]
    if len(kept):
        return [features[j] for j in kept]
    return np.empty((len(features[0]), 0))


def with_a_feature(block: Block) -> Block:
    """The rows with one feature that is zero, for a kernel that needs one."""
    return replace(block, features=np.zeros((len(block.codes), 1)))
