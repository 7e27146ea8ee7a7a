"""Rows that count by their age: with a half-life, old ones count less.

All rows of a batch are of one age unless each has its time. So a batch may be a source, whose rows threads
read in any order, and the statistics of a batch are all that is needed of it. The times of a model are all
dates or all numbers.
"""

from __future__ import annotations

import time as clock
import warnings
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.dates import days_of_datetimes, moment_of
from streamgda.data.blocks.wording import RowError, callers_level, counted
from streamgda.statistics.base import Statistics
from streamgda.statistics.missing import policy_of

_LEAST = 1e-300  # a factor that is above zero, as those of `decay` are
_NOTHING = 1e-12  # what has less of its weight is as good as forgotten


class Times(NamedTuple):
    """When rows are from.

    Attributes
    ----------
    values : float or ndarray of float64
        The times as numbers: of dates, the days since 1970.
    are_dates : bool or None
        Whether they are dates; None if there are none, or if that is not known.
    """

    values: Any
    are_dates: bool | None

    def newest(self, before: Times | None) -> Times | None:
        """The newest of these times and of one before; ValueError if one is a date and the other a number."""
        both = [each for each in (before, self) if each is not None]
        if {True, False} <= {each.are_dates for each in both}:
            kinds = ("dates", "numbers") if self.are_dates else ("numbers", "dates")
            raise ValueError("times are {} here, and were {} before; give times of one kind".format(*kinds))
        if not np.size(self.values):
            return before
        kind = next((each.are_dates for each in both if each.are_dates is not None), None)
        return Times(max(float(np.max(each.values)) for each in both), kind)


def newest_and_weights(
    model: Any, time: Any, sample_weight: Any, y: Any = None, *, in_memory: bool
) -> tuple[Times | None, Any]:
    """The time of the newest row of a batch, and the weights of its rows at that time.

    Raises
    ------
    ValueError
        If there is a time and no half-life, what is given is no time or not of the kind of those before,
        there is not one for each label, or the rows of a source have several.
    """
    model._validate_params()
    if time is None:
        if model._newest is not None:
            raise ValueError("batches before this one had times, so this one needs its own: give time")
        return None, sample_weight
    if model.half_life is None:
        raise ValueError("time says how old rows are, which counts with half_life alone; give both")
    times = times_of(time)
    times.newest(model._newest)  # raises before a source is read
    if times.values.ndim == 0:
        return times.newest(None), sample_weight
    if not in_memory:
        raise ValueError(
            "the rows of a source or of a Dask collection are of one time; give one number or date"
        )
    if hasattr(y, "__len__") and times.values.shape != (len(y),):
        raise ValueError(
            f"X has {counted(len(y), 'row')}, time has shape {times.values.shape}; give one time for "
            "all rows, or one for each"
        )
    ages = times.values.max(initial=-np.inf) - times.values
    return times.newest(None), weights_after(ages / model.half_life, sample_weight)


def weights_after(half_lives: NDArray[np.float64], sample_weight: Any) -> Any:
    """The weights of rows, each after some half-lives."""
    weights = 0.5**half_lives
    if sample_weight is None:
        return weights
    own = np.asarray(sample_weight)
    if own.shape != weights.shape:
        raise ValueError(f"X has {counted(len(weights), 'row')}, sample_weight has shape {own.shape}")
    return weights * own


def times_of(time: Any, are_dates: bool | None = False) -> Times:
    """Times as numbers: dates as days since 1970, in UTC unless they have a time zone.

    Parameters
    ----------
    time : float or date, or array-like of these
        The times.
    are_dates : bool or None, default=False
        Whether numbers are such days; None if that is not known.

    Raises
    ------
    ValueError
        If one is missing, no date or number, or later than tomorrow; or if dates and numbers are mixed.
    """
    if isinstance(time, Times):
        return time
    if getattr(getattr(time, "dtype", None), "tz", None):  # or pandas would give an object for each
        time = np.asarray(time, "datetime64[us]")
    values = np.array(time, object) if isinstance(time, list | tuple) else np.asarray(time)
    if values.dtype.kind not in "iufM":
        values = _of_objects(values)
    if values.dtype.kind == "M":
        are_dates, values = True, days_of_datetimes(values)
    values = values.astype(np.float64)
    _refuse(values, ~np.isfinite(values), " has no time: it is NaN, infinite or NaT")
    if are_dates:  # a date has no time zone, and may be that of tomorrow in UTC
        fault = " is dated later than tomorrow, so all others would seem old; correct it or leave it out"
        _refuse(values, values > clock.time() / 86400 + 1, fault)
    return Times(values, are_dates if values.size else None)


def _of_objects(values: NDArray[Any]) -> NDArray[Any]:
    found = []
    for row, value in enumerate(values.ravel()):
        if (moment := _moment_of(value)) is None:
            fault = f" has no time but {value!r}; give a number, or a date, as text by ISO 8601: 2026-01-31"
            _refuse(values, np.arange(values.size) == row, fault)
        found.append(moment)
    if len({isinstance(one, float) for one in found}) > 1:
        raise ValueError("some times are dates and some are numbers; give times of one kind")
    return np.array(found).reshape(values.shape)


def _moment_of(value: Any) -> float | np.datetime64 | None:
    """A date or a number; None for anything else, such as a duration, a bool, NaT or other text."""
    if (moment := moment_of(value)) is not None:
        return moment
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool | np.timedelta64)
    return float(value) if is_number and np.isfinite(float(value)) else None


def _refuse(values: NDArray[Any], faulty: NDArray[np.bool_], fault: str) -> None:
    """Raise ValueError, with the first faulty row if there are several times."""
    if faulty.any():
        raise RowError(int(faulty.argmax()), fault) if values.ndim else ValueError(f"the batch{fault}")


def merged(
    model: Any, statistics: Statistics, added: Statistics, now: Times | None, n_rows: int
) -> Statistics:
    """The statistics of a model with the rows of others, where all count by their age.

    The rows of the model age by `n_rows`, or those of both until the later of `now` and the last time.
    """
    policy = policy_of(model.missing)
    if model.half_life is None:
        return policy.merged(statistics, added)
    newest, ages = model._newest, (float(n_rows), 0.0)
    if now is not None and added.n_rows:
        before = newest or now
        newest = now.newest(newest) or now
        ages = (newest.values - before.values, newest.values - now.values)
    parts = ((statistics, ages[0], "the rows learnt before"), (added, ages[1], "the rows of this batch"))
    for one, age, name in parts:
        if one.n_rows and 0.5 ** (age / model.half_life) < _NOTHING:
            warnings.warn(
                f"{name} are more than 40 half-lives older than the others and count for nothing now. Is "
                f"half_life={model.half_life!r} in the unit of time: days for dates, or rows without time?",
                stacklevel=callers_level(),
            )
    old, new = (_aged(one, age / model.half_life) for one, age, _ in parts)
    result = policy.merged(old, new)
    model._newest = newest
    return result


def _aged(statistics: Statistics, half_lives: float) -> Statistics:
    """The statistics after some half-lives, in a copy: as they were remain those that a failure leaves."""
    return statistics.copy().decay(factor_after(half_lives)) if half_lives else statistics


def factor_after(half_lives: float) -> float:
    """What a row counts for after some half-lives."""
    return float(max(0.5**half_lives, _LEAST))
