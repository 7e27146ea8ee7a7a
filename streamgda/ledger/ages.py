"""How old entries are: by the time of their files, or by dates that a user gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

from streamgda.blocks.wording import counted
from streamgda.ledger.manifest import FileRecord

Age: TypeAlias = str | Sequence[str] | Mapping[str, str | date] | None
"""Partition keys, or dates by path, that say how old a file is; None for the time of the file."""

_TOMORROW = timedelta(days=1)  # a date has no zone, and may be tomorrow's here


def ages(entries: Mapping[str, list[FileRecord]], age: Age = None) -> Iterator[timedelta]:
    """How much older each entry is than the newest; 0 for one that is dated in the future.

    The age of such a file is not known. It must not make all the others seem old.

    Parameters
    ----------
    entries : mapping of str to list of FileRecord
        The files of each entry.
    age : str, sequence of str, or mapping of str to date, optional
        What dates a file; see `StatisticsLedger.statistics`.

    Raises
    ------
    ValueError
        If an entry holds files of different age, or the age of a file is not known.
    """
    time_of, now = _dating(age), datetime.now(tz=UTC)
    latest = nanoseconds(now if age is None else now + _TOMORROW)
    times = {entry: {min(time_of(record), latest) for record in held} for entry, held in entries.items()}
    newest = max(time for times_of_entry in times.values() for time in times_of_entry)
    for entry, times_of_entry in times.items():
        if len(times_of_entry) > 1:
            raise ValueError(
                f"{entries[entry][0].path} and {counted(len(entries[entry]) - 1, 'other file')} have been "
                "folded into one entry, though their ages differ; leave half_life out"
            )
        yield timedelta(microseconds=(newest - min(times_of_entry)) / 1000)


def modified(record: FileRecord) -> int:
    """When a file was modified, in nanoseconds since 1970; a ValueError if that is not known."""
    if record.modified is None:
        raise ValueError(f"{record.path}: its filesystem does not tell when a file was modified")
    return record.modified


def nanoseconds(time: datetime) -> int:
    """A time in nanoseconds since 1970; a TypeError if it is no time."""
    if not isinstance(time, datetime):
        raise TypeError(f"a time is needed, such as datetime(2026, 1, 31, tzinfo=UTC); got {time!r}")
    return round(time.timestamp() * 1e6) * 1000


def _dating(age: Age) -> Callable[[FileRecord], int]:
    """The function that gives the time of a file."""
    if age is None:
        return modified
    if isinstance(age, Mapping):
        return partial(_by_path, age)
    keys = [age] if isinstance(age, str) else age
    if not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys) or not keys:
        raise TypeError(f"age is a partition key, a list of them, or dates by path; got {age!r}")
    return partial(_by_keys, keys)


def _by_path(dates: Mapping[str, str | date], record: FileRecord) -> int:
    if record.path not in dates:
        raise ValueError(f"age has no date for {record.path}; give one for each path in `files`")
    return _of_date(dates[record.path], f"age of {record.path}")


def _by_keys(keys: Sequence[str], record: FileRecord) -> int:
    """The time in the partition keys of a file: in one of them, or in those of its year, month and day."""
    held = {name: value for name, value in record.partition_keys.items() if value is not None}
    for key in keys:
        if key not in held:
            known = ", ".join(map(repr, held)) or "none"
            raise ValueError(f"age: {record.path} has no partition key {key!r}; its keys: {known}")
    what = ", ".join(f"{key}={held[key]}" for key in keys)
    return _of_date("-".join(_text(held[key]) for key in keys), f"age: {record.path}: {what}")


def _text(value: Any) -> str:
    return f"{value:02d}" if isinstance(value, int) else str(value)


def _of_date(value: str | date, what: str) -> int:
    """A date or time, or its ISO 8601 text, in nanoseconds since 1970; in UTC, unless it names a zone."""
    if isinstance(value, str):
        value = _parsed(value, what)
    if not isinstance(value, date):
        raise TypeError(f"{what}: {value!r} is no date, such as date(2026, 1, 31)")
    time = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return nanoseconds(time if time.tzinfo else time.replace(tzinfo=UTC))


def _parsed(text: str, what: str) -> datetime:
    for rest in ("", "-01", "-01-01"):  # of a month, or a year, the first day
        with suppress(ValueError):
            return datetime.fromisoformat(text + rest)
    raise ValueError(f"{what} is no date, such as 2026-01-31")
