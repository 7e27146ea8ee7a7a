"""The sorts of statistics: the empty state of each, and the state that a saved table holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceType, kind_named
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.rules import RowRule, as_rule
from streamgda.statistics.validation import Columns, as_count, as_feature_names, check_feature_names
from streamgda.storage.documents import SENSELESS, Metadata

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = {
    "ClassStatistics": "streamgda.statistics.floating.state:ClassStatistics",
    "ExactClassStatistics": "streamgda.exact.state:ExactClassStatistics",
    "IncompleteStatistics": "streamgda.incomplete.state:IncompleteStatistics",
}
"""Where each sort of statistics is defined, by its name in a saved table."""

COLUMNS = frozenset(
    {
        *("pattern", "label", "subclass", "count", "weight", "weight_tail", "squared_weight"),
        *("mean", "mean_tail", "scatter", "pooled_scatter"),
        *("third_moment", "fourth_moment"),
        *(
            "weight_digits",
            "squared_weight_digits",
            "sum_digits",
            "outer_sum_digits",
            "pooled_outer_sum_digits",
        ),
    }
)
"""The columns of every kind, as `streamgda.storage` describes them."""

_READ_BY = {kind: f", which {kind}.load reads" for kind in ("Evaluation", "WindowedStatistics")}
_MOST_UNSEEN = 1 << 23  # numbers that a scatter may have though the columns of a file hold fewer


def empty_statistics(
    covariance_type: CovarianceType,
    *,
    fourth_moments: bool = False,
    exact: bool = False,
    incomplete: bool = False,
    max_patterns: int | None = None,
    feature_names: Sequence[str] | None = None,
    rule: RowRule | None = None,
) -> Statistics:
    """The state that has seen no rows.

    Parameters
    ----------
    covariance_type, fourth_moments, feature_names
        As for `ClassStatistics`.
    exact : bool, default=False
        Whether sums are to be exact, as those of `ExactClassStatistics`.
    rule : RowRule, optional
        The rule that gives rows their class.
    incomplete : bool, default=False
        Whether rows may lack features, as those of `IncompleteStatistics`, which has `max_patterns`.

    Raises
    ------
    ValueError
        If the covariance type is unknown, or fourth moments are asked for with exact sums.
    """
    kept: dict[str, Any] = {"fourth_moments": fourth_moments, "feature_names": feature_names}
    empty: Statistics
    if incomplete:
        kept |= {"exact": exact} if max_patterns is None else {"exact": exact, "max_patterns": max_patterns}
        empty = resolve_name(KINDS["IncompleteStatistics"])(covariance_type, **kept)
    elif exact:
        empty = resolve_name(KINDS["ExactClassStatistics"]).empty(covariance_type, **kept)
    else:
        empty = ClassStatistics(covariance_type, **kept)
    if rule is not None:
        empty.rule = as_rule(rule)
    return empty


def state_of(table: pa.Table, metadata: Metadata, path: str) -> Statistics:
    """The statistics that a table holds.

    Parameters
    ----------
    table, metadata
        As `streamgda.storage.tables.read` returns them.
    path : str
        The name of the file in errors.

    Raises
    ------
    ValueError
        If the kind is not known, or no rows have such statistics.
    """
    place = KINDS.get(str(metadata.get("kind")))
    if place is None:
        raise ValueError(
            f"{path} holds no statistics and no model that this version of streamgda knows: its kind is "
            f"{metadata.get('kind')!r}" + _READ_BY.get(str(metadata.get("kind")), "")
        )
    from streamgda.storage.tables import from_arrow

    kind: type[Statistics] = resolve_name(place)
    try:
        n_patterns = len(metadata["patterns"]) if kind.keeps_patterns else None
        columns = from_arrow(table, n_patterns)
        _check_features(columns, metadata, in_patterns=bool(n_patterns))
        return kind.from_columns(columns, metadata)
    except KeyError as error:
        raise ValueError(f"{path} is damaged: its metadata has no {error}") from error
    except MemoryError as error:
        raise ValueError(f"{path} is damaged or too large for the memory: {error}") from error
    except SENSELESS as error:
        raise ValueError(f"{path} is damaged or not consistent: {error}") from error


def _check_features(columns: Columns, metadata: Metadata, *, in_patterns: bool) -> None:
    """Check that a file can have as many features as it claims, before memory for them is allocated.

    Patterns need no check here, since each names its features. Without rows, only the feature names tell how
    many there are.
    """
    n_features = as_count(metadata["n_features"], "n_features")
    names = as_feature_names(metadata["feature_names"])
    n_classes = len(columns.get("label", ()))
    if in_patterns:
        return
    if names is not None and not n_classes:
        check_feature_names(tuple(names), n_features)
        return
    n_held = sum(values.size for values in columns.values())
    n_needed = math.prod(kind_named(metadata["covariance_type"]).shape(max(1, n_classes), n_features))
    if n_needed > max(_MOST_UNSEEN, 2 * n_held):  # of a symmetric matrix, half is held
        raise ValueError(f"its columns hold {n_held:,} numbers, too few for {n_features:,} features")
