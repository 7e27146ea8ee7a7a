"""Statistics from a saved table, by the kind that its metadata names."""

from __future__ import annotations

import pyarrow as pa

from streamgda.statistics.base import Statistics
from streamgda.statistics.exact.state import ExactClassStatistics
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.statistics.incomplete.state import IncompleteStatistics
from streamgda.storage.columns import from_arrow
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
        return kind.from_columns(from_arrow(table, n_patterns), metadata)
    except KeyError as error:
        raise ValueError(f"{path} is damaged: its metadata has no {error}") from error
    except MemoryError as error:
        raise ValueError(f"{path} is damaged or too large for the memory: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged or not consistent: {error}") from error
