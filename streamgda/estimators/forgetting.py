"""Rows that count by their age: with a half-life, old ones count less.

All rows of a batch are of one age unless each has its time. So a batch may be a source, whose rows threads
read in any order, and the statistics of a batch are all that is needed of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.base import Statistics
from streamgda.statistics.missing import policy_of

_LEAST = 1e-300  # a factor that is above zero, as those of `decay` are


def newest_and_weights(
    model: Any, time: Any, sample_weight: Any, *, in_memory: bool
) -> tuple[float | None, Any]:
    """The time of the newest row of a batch, and the weights of its rows at that time.

    Raises
    ------
    ValueError
        If there is a time and no half-life, a time is missing or NaN, or the rows of a source have several.
    """
    model._validate_params()
    if time is None:
        if model._newest is not None:
            raise ValueError("batches before this one had times, so this one needs its own: give time")
        return None, sample_weight
    if model.half_life is None:
        raise ValueError("time says how old rows are, which counts with half_life alone; give both")
    times = times_of(time)
    if times.ndim == 0:
        return float(times), sample_weight
    if not in_memory:
        raise ValueError(
            "the rows of a source or of a Dask collection are of one time; give one number or date"
        )
    newest = float(times.max()) if times.size else model._newest
    ages = times.max(initial=-np.inf) - times
    return newest, weights_after(ages / model.half_life, sample_weight)


def weights_after(half_lives: NDArray[np.float64], sample_weight: Any) -> Any:
    """The weights of rows, each after some half-lives."""
    weights = 0.5**half_lives
    return weights if sample_weight is None else weights * np.asarray(sample_weight)


def times_of(time: Any) -> NDArray[np.float64]:
    """Times as numbers; dates as days since 1970, and durations as days. ValueError if one is missing."""
    times = np.asarray(time)
    if times.dtype.kind in "mMOU":
        import pandas as pd

        values: Any = pd.Series(np.atleast_1d(times).ravel()).infer_objects()
        if values.dtype.kind not in "iufm":  # objects may be numbers, which pandas takes for nanoseconds
            values = pd.to_datetime(values, utc=True) - pd.Timestamp(0, tz="UTC")
        days = values / pd.Timedelta(days=1) if values.dtype.kind == "m" else values
        times = days.to_numpy().reshape(times.shape)
    times = times.astype(np.float64)
    if not np.isfinite(times).all():
        raise ValueError("a row has no time: it is NaN, infinite or NaT")
    return times


def merged(
    model: Any, statistics: Statistics, added: Statistics, now: float | None, n_rows: int
) -> Statistics:
    """The statistics of a model with the rows of others, where all count by their age.

    The rows of the model age by `n_rows`, or those of both until the later of `now` and the last time.
    """
    policy = policy_of(model.missing)
    if model.half_life is None:
        return policy.merged(statistics, added)
    newest, ages = model._newest, (float(n_rows), 0.0)
    if now is not None:
        before = now if newest is None else newest
        newest = max(now, before)
        ages = (newest - before, newest - now)
    old, new = (_aged(one, age / model.half_life) for one, age in zip((statistics, added), ages, strict=True))
    result = policy.merged(old, new)
    model._newest = newest
    return result


def _aged(statistics: Statistics, half_lives: float) -> Statistics:
    """The statistics after some half-lives, in a copy: as they were remain those that a failure leaves."""
    return statistics.copy().decay(factor_after(half_lives)) if half_lives else statistics


def factor_after(half_lives: float) -> float:
    """What a row counts for after some half-lives."""
    return float(max(0.5**half_lives, _LEAST))
