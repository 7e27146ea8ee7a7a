"""Patterns of observed features, and blocks cut into parts whose rows share one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import labels
from streamgda.blocks.block import Block, Column, Features
from streamgda.blocks.wording import Message
from streamgda.kernels import Workspace
from streamgda.statistics.covariances import Indices

Pattern = bytes
"""Which features are observed, a bit for each, as `numpy.packbits` packs them."""

Observed = NDArray[np.bool_]

_FIRST_ROWS = slice(512)  # of a block; mostly they have all of its patterns, so they are looked at first


class TooManyPatternsError(ValueError):
    """Rows have more patterns of observed features than may be kept."""

    @classmethod
    def of(cls, n_patterns: int, max_patterns: int, n_classes: int, n_features: int) -> Self:
        """The error for `n_patterns` patterns, of which `max_patterns` may be kept."""
        nbytes = 8 * n_patterns * n_classes * n_features**2
        size = f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.1f} MB"
        return cls(
            Message(
                f"the rows have {n_patterns:,} patterns of observed features or more, which take up to "
                f"{size}; up to ⟨max_patterns={max_patterns}⟩ are kept. Raise ⟨max_patterns⟩; leave "
                "out features that are often missing, or incomplete rows (⟨missing='drop'⟩); fit a model "
                "with ⟨missing='marginal'⟩ to a source or an array, which is then read once for each step; "
                "or use ⟨GaussianNB⟩, which keeps no patterns"
            )
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


@dataclass(frozen=True)
class RowPatterns:
    """Which features the rows of a block have.

    Attributes
    ----------
    codes : ndarray of int of shape (n_rows,)
        The pattern of each row.
    observed : ndarray of bool of shape (n_patterns, n_features)
        Which features are observed in each pattern.
    """

    codes: Indices
    observed: Observed

    @classmethod
    def of(cls, block: Block) -> Self:
        """The patterns of the rows of a block."""
        packed = _missing_bits(block.features)
        codes = _codes_of(packed.view(np.uint64))
        first = labels.first_positions(codes, int(codes.max()) + 1)
        bits = np.unpackbits(packed[first], axis=1, count=block.n_features)
        return cls(codes, np.equal(bits, 0))


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
    for kept, rows in ((everything, slice(n_complete)), (everything[:0], slice(n_complete, None))):
        if len(order[rows]):
            yield _part(block, columns, kept, order, rows)
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
    by_row = isinstance(features, np.ndarray) and features.strides[0] >= features.strides[1]
    columns = features.T if isinstance(features, np.ndarray) else features
    missing = np.zeros((len(columns[0]), -(-len(columns) // 64) * 64), np.bool_)
    if by_row:
        missing[:, : len(columns)] = np.isnan(features)  # with out=, NumPy 2.4 writes wrong strides
    else:
        for j, column in enumerate(columns):
            missing[:, j] = np.isnan(column)
    return np.packbits(missing.reshape(-1)).reshape(len(missing), -1)


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
    block: Block, columns: Sequence[Column], kept: Indices, order: Indices, rows: Indices | slice
) -> tuple[Pattern, Block]:
    """Some rows of columns in order, with the features that are kept: their pattern and a block.

    A block without features gets one of zeros, since kernels need a feature.
    """
    chosen = order[rows]
    classes, codes = labels.drop_unused(block.classes, block.codes[chosen])
    weights = None if block.weights is None else block.weights[chosen]
    features = [columns[j][rows] for j in kept] if len(kept) else np.zeros((len(chosen), 1))
    part = Block(features, classes, codes, weights, row_name=block.row_name.take(chosen))
    return pattern_with(kept, block.n_features), part
