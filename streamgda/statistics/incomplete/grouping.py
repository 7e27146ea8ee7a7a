"""A block of incomplete rows is cut into parts, and each part is summed up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamgda.blocks.block import Block
from streamgda.statistics.incomplete.groups import Groups, feature_by_feature
from streamgda.statistics.incomplete.patterns import (
    Observed,
    Pattern,
    check_no_infinity,
    parts_by_feature,
    parts_by_pattern,
)
from streamgda.statistics.labelled import Labelled

Reduce = Callable[[Block], Labelled[Any]]


def groups_of(block: Block, observed: Observed, like: Any, reduce: Reduce, most: int) -> Groups[Any]:
    """The groups of the rows of a block.

    Parameters
    ----------
    block : Block
        Some of its rows lack a feature.
    observed : ndarray of bool of shape (n_rows, n_features)
        Which values are not missing.
    like : ClassSums
        The sums of no rows.
    reduce : callable
        Gives the sums of a part, whose rows have the same features.
    most : int
        How many patterns there may be, where they are kept.

    Raises
    ------
    ValueError
        If a value is infinite or too large, or there are too many patterns.
    """
    try:
        if like.kind.has_products:
            parts = parts_by_pattern(block, observed, most)
            return Groups(like, block.n_features, {pattern: reduce(part) for pattern, part in parts})
        return Groups(like, block.n_features, _each_feature(block, observed, reduce))
    except ValueError:
        check_no_infinity(block)
        raise


def _each_feature(block: Block, observed: Observed, reduce: Reduce) -> dict[Pattern, Labelled[Any]]:
    """The complete rows, the count of the others, and each feature of these."""
    groups = {}
    for pattern, part in parts_by_feature(block, observed):
        group = reduce(part)
        if part.n_features in (0, block.n_features):
            groups[pattern] = group
            continue
        for single, alone in feature_by_feature(pattern, group, block.n_features):
            groups[single] = alone.copy()  # the features share their counts
    return groups
