"""Choose entries by path, by partition or by time."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamgda.ledger.manifest import FileRecord, Manifest

FileFilter: TypeAlias = str | pc.Expression | Sequence[Any] | None
"""A pattern for paths, or a filter as `pyarrow.parquet.read_table` takes it; None chooses all."""


def to_table(manifest: Manifest) -> pa.Table:
    """The records as a table, with a column for each partition key."""
    table = manifest.to_arrow()
    keys = [manifest.records[path].partition_keys for path in sorted(manifest.records)]
    for name in dict.fromkeys(name for partition in keys for name in partition):
        if name not in table.column_names:
            table = table.append_column(name, _column([partition.get(name) for partition in keys]))
    return table.drop_columns(["partition"])


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
        meant = {path for path in meant if _modified(manifest.records[path]) >= _nanoseconds(since)}
    if before is not None:
        meant = {path for path in meant if _modified(manifest.records[path]) < _nanoseconds(before)}
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
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(
            f"where: {where!r} is neither a pattern for paths nor a filter over the columns of files: {error}"
        ) from error
    return paths


def ages(entries: Mapping[str, list[FileRecord]]) -> Iterator[timedelta]:
    """How much older each entry is than the newest; 0 for one that is dated in the future.

    The age of such a file is not known. It must not make all the others seem old.

    Raises
    ------
    ValueError
        If an entry holds files of different age, or the time of a file is not known.
    """
    now = _nanoseconds(datetime.now(tz=UTC))
    times = {entry: {min(_modified(record), now) for record in held} for entry, held in entries.items()}
    newest = max(time for times_of_entry in times.values() for time in times_of_entry)
    for entry, times_of_entry in times.items():
        if len(times_of_entry) > 1:
            raise ValueError(
                f"{entries[entry][0].path} and {len(entries[entry]) - 1} other files of different age have "
                "been folded into one entry, and cannot be weighed by their age"
            )
        yield timedelta(microseconds=(newest - min(times_of_entry)) / 1000)


def _modified(record: FileRecord) -> int:
    if record.modified is None:
        raise ValueError(f"{record.path}: its filesystem does not tell when a file was modified")
    return record.modified


def _nanoseconds(time: datetime) -> int:
    if not isinstance(time, datetime):
        raise TypeError(f"a time is needed, such as datetime(2026, 1, 31, tzinfo=UTC); got {time!r}")
    return round(time.timestamp() * 1e6) * 1000
