"""Choose entries by path, by partition or by time, and weight them by their age."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamgda.blocks.wording import Message, counted, listed
from streamgda.ledger.manifest import FileRecord, Manifest
from streamgda.storage.paths import one_line

FileFilter: TypeAlias = str | pc.Expression | Sequence[Any] | None
"""A pattern for paths, or a filter as `pyarrow.parquet.read_table` takes it; None chooses all."""

Age: TypeAlias = str | Sequence[str] | Mapping[str, str | date] | None
"""Partition keys, or dates by path, that say how old a file is; None for the time of the file."""

_TOMORROW = timedelta(days=1)  # a date has no time zone, and may be that of tomorrow in UTC


def to_table(manifest: Manifest) -> pa.Table:
    """The records as a table, with a column for each partition key."""
    table = manifest.to_arrow()
    keys = [manifest.records[path].partition_keys for path in sorted(manifest.records)]
    for name in dict.fromkeys(name for partition in keys for name in partition):
        if name not in table.column_names:
            table = table.append_column(name, _column([partition.get(name) for partition in keys]))
    return table.drop_columns(["partition", "status", "alarm"])


def _column(values: list[Any]) -> pa.Array:
    """The values of a partition key as integers, if all of them are, else as strings."""
    if any(isinstance(value, str) for value in values):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values)


# ---------------------------------------------------------------------- choosing


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
        Only files modified at or after `since`, and before `before`; in UTC, unless they have a time zone.

    Raises
    ------
    ValueError
        If only some files of an entry are chosen, or a filter cannot be evaluated.
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
            raise ValueError(
                f"{inside[0]} has been folded into one entry with files that are not chosen; choose all of "
                "them or none, or refresh a ledger anew"
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


# ---------------------------------------------------------------------- weighing


def weights_by_age(
    entries: Mapping[str, list[FileRecord]], half_life: timedelta | None, age: Age = None
) -> list[float] | None:
    """The factor for the weights of the rows of each entry, from its age; None without a half-life.

    The newest file has the factor 1. A file that is dated in the future has it too, since its age is not
    known and should not make all the other files seem old.

    Parameters
    ----------
    entries : mapping of str to list of FileRecord
        The files of each entry.
    half_life : timedelta, optional
        The time in which the weight of a file halves.
    age : str, sequence of str, or mapping of str to date, optional
        The dates of files; see `StatisticsLedger.statistics`.

    Raises
    ------
    TypeError
        If the half-life is not a timedelta.
    ValueError
        If the half-life is not positive, or is not given although `age` is. If an entry holds files of
        different ages, or the age of a file is not known.
    """
    if half_life is None:
        if age is not None:
            raise ValueError("age says how old a file is, which counts with half_life alone; give both")
        return None
    if not isinstance(half_life, timedelta):
        raise TypeError(f"a half-life is a timedelta, such as timedelta(days=30); got {half_life!r}")
    if half_life <= timedelta(0):
        raise ValueError(f"a half-life must be longer than zero; got {half_life}")
    now = datetime.now(tz=UTC)
    latest = _nanoseconds(now if age is None else now + _TOMORROW)
    times = []
    for records in entries.values():
        time, *others = {min(_time_of(record, age), latest) for record in records}
        if others:
            raise ValueError(
                Message(
                    f"{records[0].path} and {counted(len(records) - 1, 'other file')} have been folded into "
                    "one entry, though their ages differ; leave ⟨half_life⟩ out"
                )
            )
        times.append(time)
    newest = max(times)
    return [0.5 ** (timedelta(microseconds=(newest - time) / 1000) / half_life) for time in times]


def _modified(record: FileRecord) -> int:
    """When a file was modified, in nanoseconds since 1970; a ValueError if that is not known."""
    if record.modified is None:
        raise ValueError(f"{record.path}: its filesystem does not tell when a file was modified")
    return record.modified


def _nanoseconds(time: datetime) -> int:
    """A datetime in nanoseconds since 1970, in UTC unless it has a time zone; else a TypeError."""
    if not isinstance(time, datetime):
        raise TypeError(f"a time is needed, such as datetime(2026, 1, 31, tzinfo=UTC); got {time!r}")
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def _time_of(record: FileRecord, age: Age) -> int:
    """When a file was modified, or the date that `age` gives it, in nanoseconds since 1970.

    A date is a `date`, a `datetime` or ISO 8601 text, in UTC unless it has a time zone.
    """
    if age is None:
        return _modified(record)
    if isinstance(age, Mapping):
        text = str(age.get(record.path))
    else:
        held = {name: value for name, value in record.partition_keys.items() if value is not None}
        keys = [age] if isinstance(age, str) else age
        if unknown := [key for key in keys if key not in held]:
            raise ValueError(
                Message(
                    f"⟨age⟩: {record.path} has no partition key {unknown[0]!r}; its keys: "
                    f"{listed(list(held))}"
                )
            )
        text = "-".join(f"{held[key]:02d}" if isinstance(held[key], int) else held[key] for key in keys)
    for rest in ("", "-01", "-01-01"):  # the first day of a month or a year
        with suppress(ValueError):
            return _nanoseconds(datetime.fromisoformat(text + rest))
    raise ValueError(Message(f"⟨age⟩ of {record.path}: {text!r} is no date, such as 2026-01-31"))
