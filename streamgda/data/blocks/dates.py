"""Dates and times as days since 1970 in UTC, whoever holds them: Arrow, Python, NumPy, pandas or text.

The days of a moment of whole microseconds are the same to the last bit, whatever its type and unit. A date
without a time zone is in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.labels import is_missing
from streamgda.data.blocks.wording import RowError

_REMEDY = "a date, or its text by ISO 8601, such as 2026-01-31 or 2026-01-31T18:30:00+02:00"

_WRITTEN = re.compile(r"(\d{1,4})([/.-])(\d{1,2})\2(\d{4}|\d{2})([ T]\d{1,2}:\d{2}(:\d{2})?)?")

Datetimes = NDArray[np.datetime64]


def is_date(kind: Any) -> bool:
    """Whether a type of Arrow, pandas or Polars is of dates, with or without a time."""
    return str(kind).lower().startswith(("date", "timestamp"))


def days(column: Any) -> NDArray[np.float64]:
    """Dates and times of Arrow as days since 1970 in UTC, and durations and times of a day as days."""
    import pyarrow as pa

    unit = getattr(column.type, "unit", "ms" if pa.types.is_date64(column.type) else "D")
    counts = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()).fill_null(0).to_numpy()
    values = _days_of(counts, unit)
    if unit == "ns" and not is_date(column.type):
        values += counts % 1000 / (np.timedelta64(1, "D") / np.timedelta64(1, "ns"))
    if is_date(column.type) and unit != "ns" and len(counts):  # in ns, the last count is a date of 2262
        last = np.iinfo(counts.dtype).max
        if counts.max() == last or counts.min() <= -last:  # DuckDB's 'infinity' and '-infinity'
            values[counts == last], values[counts <= -last] = np.inf, -np.inf
    if column.null_count:
        values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return values


def days_of_datetimes(datetimes: Datetimes) -> NDArray[np.float64]:
    """Moments of NumPy as days since 1970; NaN for NaT."""
    values = _days_of(datetimes.astype("datetime64[us]").view(np.int64), "us")
    return np.where(np.isnat(datetimes), np.nan, values)


def datetimes_of_days(days: NDArray[np.float64]) -> Datetimes:
    """Days since 1970 as moments of whole microseconds; NaT for NaN."""
    is_there = ~np.isnan(days)
    counts = np.rint(np.where(is_there, days, 0) * (np.timedelta64(1, "D") / np.timedelta64(1, "us")))
    return np.where(is_there, counts.astype("datetime64[us]"), np.datetime64("NaT", "us"))


def _days_of(counts: NDArray[np.integer[Any]], unit: Any) -> NDArray[np.float64]:
    """Counts of a unit as days. Float64 does not hold dates in nanoseconds, so these become microseconds."""
    if unit == "ns":
        counts, unit = counts // 1000, "us"
    values: NDArray[np.float64] = counts.astype(np.float64)
    values /= np.timedelta64(1, "D") / np.timedelta64(1, unit)  # in place, or new memory costs more
    return values


def moment_of(value: Any) -> np.datetime64 | None:
    """A date, with or without a time, or its text by ISO 8601; None for anything else."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        if isinstance(value, datetime) and value.tzinfo:
            value = value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, date | np.datetime64):
            return np.datetime64(cast("Any", value), "us")
    except (ValueError, OverflowError, TypeError):  # of NaT
        return None
    return None


def datetimes_of(values: Iterable[Any], name: Any) -> Datetimes:
    """Dates, or their texts, as moments: NaT for None, NaN, NaT and blank text.

    Raises
    ------
    RowError
        If one is something else. The message calls the column `name`.
    """
    known: dict[str, np.datetime64] = {}  # texts of files repeat
    moments = []
    for row, value in enumerate(values):
        moment = known.get(value) if isinstance(value, str) else None
        if moment is None:
            is_blank = isinstance(value, str) and not value.strip()
            moment = np.datetime64("NaT", "us") if is_blank or is_missing(value) else moment_of(value)
            if moment is None:
                fault = f": column {name!r} holds dates, and {value!r:.80} is none; give "
                raise RowError(row, fault + _REMEDY)
            if isinstance(value, str):
                known[value] = moment
        moments.append(moment)
    return np.array(moments, "datetime64[us]")


def formats_of(texts: Sequence[str], share: float = 1) -> tuple[str, ...]:
    """How dates in texts are written, for strptime.

    Parameters
    ----------
    texts : sequence of str
        The texts.
    share : float, default=1
        The share of them that must be dates.

    Returns
    -------
    tuple of str
        One format; two if months or days may come first, and that of days is the first; none if too few are
        dates, or no calendar has them.

    Examples
    --------
    >>> formats_of(["31.12.2026", "01.02.2027"]), formats_of(["1/2/26"]), formats_of(["31.31.2026"])
    (('%d.%m.%Y',), ('%d/%m/%y', '%m/%d/%y'), ())
    """
    dates = [match for match in map(_WRITTEN.fullmatch, texts) if match]
    if not dates or len(dates) < share * len(texts):
        return ()
    first, middle = (max(int(match[place]) for match in dates) for place in (1, 3))
    mark, has_time = dates[0][2], dates[0][5]
    time = "" if not has_time else f"{has_time[0]}%H:%M" + (":%S" if dates[0][6] else "")
    if len(dates[0][1]) == 4:
        return (f"%Y{mark}%m{mark}%d{time}",) if middle <= 12 else ()
    if max(first, middle) > 31 or min(first, middle) > 12:
        return ()
    year = "%Y" if len(dates[0][4]) == 4 else "%y"
    orders = [order for order, month in (("%d %m", middle), ("%m %d", first)) if month <= 12]
    return tuple(f"{order.replace(' ', mark)}{mark}{year}{time}" for order in orders)
