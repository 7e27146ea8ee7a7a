"""Statistics from a saved table, by the kind that its metadata names."""

from __future__ import annotations

import math

import pyarrow as pa

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import kind_named
from streamgda.statistics.exact.state import ExactClassStatistics
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.state import IncompleteStatistics
from streamgda.statistics.validation import as_count, as_feature_names, check_feature_names
from streamgda.storage.columns import Columns, from_arrow
from streamgda.storage.documents import Metadata

KINDS: dict[str, type[ClassStatistics | ExactClassStatistics | IncompleteStatistics]] = {
    kind.__name__: kind for kind in (ClassStatistics, ExactClassStatistics, IncompleteStatistics)
}

COLUMNS = frozenset(
    {
        *("pattern", "label", "count", "weight", "weight_tail", "mean", "mean_tail"),
        *("scatter", "pooled_scatter"),
        *("third_moment", "fourth_moment"),
        *("weight_digits", "sum_digits", "outer_sum_digits", "pooled_outer_sum_digits"),
    }
)
"""The columns of every kind, as `streamgda.storage` describes them."""

_READ_BY = {kind: f", which {kind}.load reads" for kind in ("Evaluation", "WindowedStatistics")}


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
    kind = KINDS.get(str(metadata.get("kind")))
    if kind is None:
        raise ValueError(
            f"{path} holds no statistics and no model that this version of streamgda knows: its kind is "
            f"{metadata.get('kind')!r}" + _READ_BY.get(str(metadata.get("kind")), "")
        )
    try:
        n_patterns = len(metadata["patterns"]) if kind.keeps_patterns else None
        columns = from_arrow(table, n_patterns)
        _check_features(columns, metadata, in_patterns=bool(n_patterns))
        return kind.from_columns(columns, metadata)
    except KeyError as error:
        raise ValueError(f"{path} is damaged: its metadata has no {error}") from error
    except MemoryError as error:
        raise ValueError(f"{path} is damaged or too large for the memory: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged or not consistent: {error}") from error


_MOST_UNSEEN = 1 << 23  # numbers of a scatter of which the columns of a file hold less


def _check_features(columns: Columns, metadata: Metadata, *, in_patterns: bool) -> None:
    """Check that a file holds something of as many features as it claims, before there is memory for them.

    A pattern names each feature. Without rows only names can tell how many there are.
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
