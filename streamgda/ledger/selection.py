"""Choose entries by path, by partition or by time."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamgda.ledger.ages import Age, ages, modified, nanoseconds
from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.storage.paths import one_line

FileFilter: TypeAlias = str | pc.Expression | Sequence[Any] | None
"""A pattern for paths, or a filter as `pyarrow.parquet.read_table` takes it; None chooses all."""


@dataclass(frozen=True)
class Choice:
    """Which files count, and what by their age; the arguments of `StatisticsLedger.statistics`."""

    where: FileFilter = None
    half_life: timedelta | None = None
    since: datetime | None = None
    age: Age = None

    def __post_init__(self) -> None:
        """Raise an error for a half-life that is no time, and for an age that is given without one."""
        if self.half_life is None:
            if self.age is not None:
                raise ValueError("age says how old a file is, which counts with half_life alone; give both")
            return
        if not isinstance(self.half_life, timedelta):
            raise TypeError(f"a half-life is a timedelta, such as timedelta(days=30); got {self.half_life!r}")
        if self.half_life <= timedelta(0):
            raise ValueError(f"a half-life is longer than nothing; got {self.half_life}")

    def entries(self, manifest: Manifest) -> dict[str, list[FileRecord]]:
        """The entries of the chosen files; see `select`."""
        return select(manifest, self.where, self.since)

    def weights(self, entries: Mapping[str, list[FileRecord]]) -> list[float] | None:
        """What the rows of each entry count by their age; None if all count alike."""
        if self.half_life is None:
            return None
        return [0.5 ** (age / self.half_life) for age in ages(entries, self.age)]


def to_table(manifest: Manifest) -> pa.Table:
    """The records as a table, with a column for each partition key."""
    table = manifest.to_arrow()
    keys = [manifest.records[path].partition_keys for path in sorted(manifest.records)]
    for name in dict.fromkeys(name for partition in keys for name in partition):
        if name not in table.column_names:
            table = table.append_column(name, _column([partition.get(name) for partition in keys]))
    return table.drop_columns(["partition", "status", "alarm"])


def _column(values: list[Any]) -> pa.Array:
    """Values of a partition key: whole numbers or, unless all of them are, strings."""
    if any(isinstance(value, str) for value in values):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values)


def select(
    manifest: Manifest,
    where: FileFilter = None,
    since: datetime | None = None,
    before: datetime | None = None,
) -> dict[str, list[FileRecord]]:
    """The entries of the chosen files, with their records.

    Parameters
    ----------
    manifest : Manifest
        What to choose from.
    where : str, pyarrow expression or list of tuples, optional
        A pattern for paths, or a filter over the columns of `to_table`.
    since, before : datetime, optional
        Only files modified at or after, and before this time.

    Raises
    ------
    ValueError
        If an entry holds chosen files and others, or a filter cannot be evaluated.
    """
    meant = set(_paths(manifest, where))
    if since is not None:
        meant = {path for path in meant if modified(manifest.records[path]) >= nanoseconds(since)}
    if before is not None:
        meant = {path for path in meant if modified(manifest.records[path]) < nanoseconds(before)}
    chosen = {}
    for entry, records in manifest.entries.items():
        inside = [record.path for record in records if record.path in meant]
        if 0 < len(inside) < len(records):
            outside = next(record.path for record in records if record.path not in meant)
            raise ValueError(
                f"{inside[0]} is meant and {outside} is not, but the two have been folded into one entry; "
                "choose both or neither, or refresh a ledger anew"
            )
        if inside:
            chosen[entry] = records
    return chosen


def _paths(manifest: Manifest, where: FileFilter) -> list[str]:
    if where is None:
        return list(manifest.records)
    if isinstance(where, str):
        return fnmatch.filter(manifest.records, where)
    try:
        expression = where if isinstance(where, pc.Expression) else pq.filters_to_expression(where)
        paths: list[str] = to_table(manifest).filter(expression).column("path").to_pylist()
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"where: {where!r} is neither a pattern for paths nor a filter over the columns of files: "
            f"{one_line(error)}"
        ) from error
    return paths
