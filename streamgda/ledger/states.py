"""The states of entries as tables: statistics of all rows, or statistics of each fold.

Statistics of folds are a table with a row for each fold: its number, the metadata of its statistics as JSON,
and their table as an Arrow stream.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from streamgda.blocks.block import FoldRule
from streamgda.statistics.base import Statistics
from streamgda.statistics.factory import COLUMNS as STATISTICS_COLUMNS
from streamgda.statistics.factory import state_of as statistics_of
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.validation import as_count
from streamgda.storage.documents import Metadata
from streamgda.storage.paths import one_line
from streamgda.storage.tables import to_arrow

State = Statistics | FoldStatistics

COLUMNS = STATISTICS_COLUMNS | {"fold", "document", "table"}

_KIND = "FoldStatistics"


def total_of(state: State) -> Statistics:
    """The statistics of all the rows."""
    return state.total() if isinstance(state, FoldStatistics) else state


def table_of(state: State) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the metadata of a state."""
    if not isinstance(state, FoldStatistics):
        columns, metadata = state.to_columns()
        return to_arrow(columns), metadata
    parts = [state[fold].to_columns() for fold in state.folds]
    table = pa.table(
        {
            "fold": pa.array(state.folds, pa.int64()),
            "document": pa.array([json.dumps(metadata) for _, metadata in parts], pa.large_string()),
            "table": pa.array([_stream(to_arrow(columns)) for columns, _ in parts], pa.large_binary()),
        }
    )
    _, metadata = state.empty.to_columns()
    rule = {"n_folds": state.rule.n_folds, "column": state.rule.column}
    return table, {**metadata, "kind": _KIND, "rule": rule, "n_dropped": state.n_dropped}


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def state_of(table: pa.Table, metadata: Metadata, path: str, empty: State) -> State:
    """The state that a table holds.

    Parameters
    ----------
    table, metadata
        As `table_of` makes them.
    path : str
        The name of the file in errors.
    empty : Statistics or FoldStatistics
        The state of no rows, of the kind that is expected.

    Raises
    ------
    ValueError
        If the table holds another kind of state, or is damaged.
    """
    if not isinstance(empty, FoldStatistics):
        return statistics_of(table, metadata, path)
    try:
        rule, n_dropped = FoldRule(**metadata["rule"]), as_count(metadata["n_dropped"], "n_dropped")
        parts = {
            row["fold"]: (_read(row["table"]), {**json.loads(row["document"]), "definite": False})
            for row in table.select(["fold", "document", "table"]).to_pylist()
        }
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{path} holds no statistics of folds: {one_line(error)}") from error
    if rule != empty.rule:
        raise ValueError(f"{path} holds folds by {rule}, and not by {empty.rule}")
    if unknown := parts.keys() - range(rule.n_folds or 0):
        raise ValueError(f"{path} is damaged: it holds fold {unknown.pop()}, of {rule.n_folds} in all")
    states = {fold: statistics_of(*part, path) for fold, part in parts.items()}
    return FoldStatistics(empty.empty, rule, states, n_dropped)


def _read(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as stream:
        return stream.read_all()
