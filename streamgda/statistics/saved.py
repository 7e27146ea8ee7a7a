"""The kinds of state that a file may hold, by the name that it gives them."""

from __future__ import annotations

import pyarrow as pa

from streamgda.statistics.base import Statistics
from streamgda.statistics.exact.state import ExactClassStatistics
from streamgda.statistics.floating.state import ClassStatistics
from streamgda.storage import tables

KINDS: dict[str, type[ClassStatistics | ExactClassStatistics]] = {
    kind.__name__: kind for kind in (ClassStatistics, ExactClassStatistics)
}


def state_of(table: pa.Table, metadata: tables.Metadata, path: str) -> Statistics:
    """The state that a table holds; `path` is what errors call it.

    Raises
    ------
    ValueError
        If it is of no kind known, or holds what no rows can have led to.
    """
    kind = KINDS.get(str(metadata.get("kind")))
    if kind is None:
        raise ValueError(
            f"{path} holds no statistics and no model that this version of streamgda knows: its kind is "
            f"{metadata.get('kind')!r}"
        )
    try:
        return kind.from_columns(tables.from_arrow(table), metadata)
    except KeyError as error:
        raise ValueError(f"{path} is damaged: its metadata has no {error}") from error
    except MemoryError as error:
        raise ValueError(f"{path} is damaged or too large for the memory: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged or not consistent: {error}") from error
