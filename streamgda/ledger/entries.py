"""Tables of entries: the statistics of input files, one below the other, with the records of these files.

A table has the rows of the states of its files, as `Statistics.to_columns` makes them, in the order of the
paths. The column ``path`` names the file of each row. The document of the table has the records of the files
(``holdings``), how many rows each state has (``lengths``), what the documents of all states have in common
(``common``), what each has of its own (``own``), and a hash of what is read of each file (``reads``).

Statistics of folds are a row for each fold: its number, the metadata of its statistics as JSON, and their
table as an Arrow stream. In an entry of version 0.1 or 0.2, all the rows are one state: that of a file, or of
several that were folded into one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from streamgda.blocks.block import FoldRule
from streamgda.blocks.wording import counted
from streamgda.ledger.manifest import FORMAT, FileRecord, records_of, table_name
from streamgda.statistics.base import Statistics
from streamgda.statistics.factory import COLUMNS as STATISTICS_COLUMNS
from streamgda.statistics.factory import state_of, states_of
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.validation import as_count
from streamgda.storage import tables
from streamgda.storage.documents import Metadata
from streamgda.storage.paths import one_line
from streamgda.storage.tables import to_arrow

State = Statistics | FoldStatistics

S = TypeVar("S", bound=State)

COLUMNS = STATISTICS_COLUMNS | {"path", "fold", "document", "table"}

TABLE_BYTES = 1 << 23  # of the states in one table, or one larger state

_DECODED_BYTES = 1 << 19  # of the states that are decoded together


class Entry(NamedTuple):
    """The state of a file as a table with its document, and the record of the file."""

    record: FileRecord
    table: pa.Table
    document: Mapping[str, Any]
    n_bytes: int

    @classmethod
    def of(cls, record: FileRecord, state: State) -> Entry:
        """The entry of a file that has been read."""
        table, document = table_of(state)
        return cls(record, table, document, table.get_total_buffer_size())


class NewTable(NamedTuple):
    """A table of entries to be written, its document, and the records of its files, which name it."""

    table: pa.Table
    document: dict[str, Any]
    records: list[FileRecord]


def new_tables(entries: Iterable[Entry], reads: str) -> Iterator[NewTable]:
    """Yield tables of a few megabytes with some entries, of which each has the columns of its own table."""
    waiting: dict[str, list[Entry]] = {}
    sizes: Counter[str] = Counter()
    for entry in entries:
        columns = str(entry.table.schema)  # which takes a fifth of the time of hashing it
        if sizes[columns] and sizes[columns] + entry.n_bytes > TABLE_BYTES:
            yield _new_table(waiting.pop(columns), reads)
            sizes[columns] = 0
        waiting.setdefault(columns, []).append(entry)
        sizes[columns] += entry.n_bytes
        del entry  # or it would be in memory while the next one is made
    for alike in waiting.values():
        yield _new_table(alike, reads)


def _new_table(entries: Sequence[Entry], reads: str) -> NewTable:
    name = table_name([entry.record for entry in entries], reads)
    # The manifest says which files count; a table that is found without it must not.
    records = [replace(entry.record, entry=name, status="held", alarm="") for entry in entries]
    documents = [entry.document for entry in entries]
    common = {
        key: value
        for key, value in documents[0].items()
        if all(key in document and document[key] == value for document in documents)
    }
    lengths = [len(entry.table) for entry in entries]
    paths = [record.path for record, n in zip(records, lengths, strict=True) for _ in range(n)]
    document = {
        "format_version": FORMAT,
        "kind": "LedgerEntries",
        "reads": reads,
        "holdings": [asdict(record) for record in records],
        "lengths": lengths,
        "common": common,
        "own": [{k: v for k, v in document.items() if k not in common} for document in documents],
    }
    table = pa.concat_tables([entry.table for entry in entries])
    return NewTable(table.append_column("path", pa.array(paths, pa.string())), document, records)


@dataclass(frozen=True)
class EntryTable:
    """A table of entries that has been read.

    Attributes
    ----------
    path : str
        The name of its file in errors.
    table : pa.Table
        The states.
    records : list of FileRecord
        The files.
    ends : list of int
        Where the state of each file begins, and where the last one ends.
    documents : list of mappings
        The document of each state.
    """

    path: str
    table: pa.Table
    records: list[FileRecord]
    ends: list[int]
    documents: Sequence[Metadata]

    @classmethod
    def of(cls, table: pa.Table, document: Metadata, path: str, name: str) -> EntryTable:
        """The table with this document, in the file of a name; ValueError if it makes no sense."""
        records, lengths, documents = holdings(document, name), [len(table)], [document]
        if is_new := "lengths" in document:
            lengths = document["lengths"]
            documents = [{**document["common"], **own} for own in document["own"]]
        ends = list(accumulate(lengths, initial=0))
        if ends[-1] != len(table) or (is_new and not len(records) == len(documents) == len(lengths)):
            raise ValueError(f"damaged: it has {len(table)} rows, and lists {ends[-1]}")
        # The pages have checksums, and the states were checked when they were written.
        documents = [{**one, "definite": False} for one in documents]
        columns = table.select([one for one in table.column_names if one != "path"]).replace_schema_metadata()
        return cls(path, columns, records, ends, documents)

    def entries(self, paths: Collection[str]) -> Iterator[tuple[list[str], Entry]]:
        """Yield the entry of each of some files, with its path."""
        row_bytes = self.table.nbytes // max(1, len(self.table))
        for i, record in enumerate(self.records):
            if record.path in paths:
                n_rows = self.ends[i + 1] - self.ends[i]
                table = self.table.slice(self.ends[i], n_rows)
                yield [record.path], Entry(record, table, self.documents[i], row_bytes * n_rows)

    def states(self, paths: Collection[str], empty: State) -> Iterator[tuple[list[str], Any]]:
        """Yield the states of some files, of the kind of `empty`, or several together; with the paths."""
        for run in self._runs(paths):
            start, stop = self.ends[run[0]], self.ends[run[-1] + 1]
            lengths = [self.ends[i + 1] - self.ends[i] for i in run]
            documents = [self.documents[i] for i in run]
            rows = self.table.slice(start, stop - start)
            for n, part in _states_of(rows, documents, lengths, self.path, empty):
                records = [self.records[i] for i in run[:n]]
                of_part = records if len(self.documents) > 1 else self.records
                if part.n_rows != (n_rows := sum(record.rows for record in of_part)):
                    raise ValueError(
                        f"{self.path} is damaged: it holds {counted(part.n_rows, 'row')}, and lists files "
                        f"of {n_rows:,}; delete the file, and refresh the ledger"
                    )
                yield [record.path for record in records], part
                del part, run[:n]  # or it would be in memory while the next one is made

    def _runs(self, paths: Collection[str]) -> Iterator[list[int]]:
        """The positions of some files, in runs of neighbours whose states are decoded together."""
        at_once = max(1, _DECODED_BYTES * len(self.documents) // max(1, self.table.nbytes))
        run: list[int] = []
        for i in range(len(self.documents)):
            if run and (len(run) == at_once or run[-1] != i - 1):
                yield run
                run = []
            if self.records[i].path in paths:
                run.append(i)
        if run:
            yield run


def holdings(document: Metadata, name: str) -> list[FileRecord]:
    """The records of the files in a table of this name; its document may be damaged or forged."""
    rows = document.get("holdings")
    if not (rows and isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise ValueError("no entry of a ledger")
    records = records_of(rows)
    if any(record.entry != name for record in records):
        raise ValueError(f"the entry of another file, {records[0].path}")
    return records


# ---------------------------------------------------------------------- states as tables


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
            "table": pa.array(
                [tables.stream_of(to_arrow(columns)).to_pybytes() for columns, _ in parts], pa.large_binary()
            ),
        }
    )
    _, metadata = state.empty.to_columns()
    rule = {"n_folds": state.rule.n_folds, "column": state.rule.column}
    return table, {**metadata, "kind": "FoldStatistics", "rule": rule, "n_dropped": state.n_dropped}


def _states_of(
    table: pa.Table, documents: Sequence[Metadata], lengths: Sequence[int], path: str, empty: State
) -> Iterator[tuple[int, Any]]:
    """The states in a table that joins theirs, as `states_of` yields them."""
    if not isinstance(empty, FoldStatistics):
        yield from states_of(table, documents, lengths, path)
        return
    for document, (start, stop) in zip(documents, pairwise(accumulate(lengths, initial=0)), strict=True):
        yield 1, state_in(table.slice(start, stop - start), document, path, empty)


def state_in(table: pa.Table, metadata: Metadata, path: str, empty: State) -> State:
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
        return state_of(table, metadata, path)
    try:
        rule, n_dropped = FoldRule(**metadata["rule"]), as_count(metadata["n_dropped"], "n_dropped")
        parts = {
            row["fold"]: (
                pa.ipc.open_stream(row["table"]).read_all(),
                {**json.loads(row["document"]), "definite": False},
            )
            for row in table.select(["fold", "document", "table"]).to_pylist()
        }
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(f"{path} holds no statistics of folds: {one_line(error)}") from error
    if rule != empty.rule:
        raise ValueError(f"{path} holds folds by {rule}, and not by {empty.rule}")
    if unknown := parts.keys() - range(rule.n_folds or 0):
        raise ValueError(f"{path} is damaged: it holds fold {unknown.pop()}, of {rule.n_folds} in all")
    states = {fold: state_of(*part, path) for fold, part in parts.items()}
    return FoldStatistics(empty.empty, rule, states, n_dropped)
