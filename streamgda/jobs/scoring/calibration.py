"""The log loss at 41 temperatures at once, and the temperature at which it is least."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from streamgda.data.blocks.wording import callers_level
from streamgda.models.gaussians.posteriors import Array

LEAST_LOG_PROBABILITY = float(np.log(np.finfo(np.float64).eps))

_STEPS_PER_OCTAVE, _FIRST_OCTAVE, _N_OCTAVES = 4, -8, 10

N_LOSSES = _STEPS_PER_OCTAVE * _N_OCTAVES + 1

_VALUES_AT_ONCE = 1 << 16  # float64 values that stay in the second-level cache
_LEAST_POWER = 1e-37  # adds nothing to a sum of at least 1, nor to a power that counts; its eighth is normal
_FLAT = 1e-12  # differences of mean losses that rounding leaves


def losses_when_divided(scores: Array, truth: NDArray[np.intp], weight: Array) -> Array:
    """Σ w (−ln p(true class | x)) of rows, p ∝ exp(scores / T), at 1 / T = 2⁻⁸, 2⁻⁷·⁷⁵, …, 2²: (41,).

    A logarithm is at least that of 2⁻⁵², as in the log loss. Exponentials at 2 / T are the squares of those
    at 1 / T, so each score takes four of them.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Up to a term for each row, of which one is finite.
    truth : ndarray of int of shape (n,)
        The position of the true class of each row.
    weight : ndarray of shape (n,)
        The weights of the rows.
    """
    losses = np.zeros(N_LOSSES)
    inverses = _inverse(np.arange(N_LOSSES)).reshape(-1, 1)
    lowest = inverses[:_STEPS_PER_OCTAVE].reshape(-1, 1, 1)
    step = max(1, _VALUES_AT_ONCE // _STEPS_PER_OCTAVE // (scores.shape[1] + _N_OCTAVES))
    for start in range(0, len(scores), step):
        some = slice(start, start + step)
        gaps = scores[some].T - scores[some].max(axis=1)
        own = np.take_along_axis(gaps, truth[None, some], axis=0)
        powers = np.exp(lowest * np.maximum(gaps, np.log(_LEAST_POWER) / lowest.max()))
        sums = np.empty((_N_OCTAVES + 1, *powers[:, 0].shape))
        for octave in range(len(sums)):
            powers.sum(axis=1, out=sums[octave])
            powers *= powers
            if octave % 3 == 2:
                powers += _LEAST_POWER
        surprise = np.log(sums.reshape(-1, own.size)[:N_LOSSES]) - inverses * own
        losses += np.minimum(surprise, -LEAST_LOG_PROBABILITY) @ weight[some]
    return losses


def _inverse(place: Any) -> Any:
    """1 / T at a place in the grid, which may lie between two."""
    return 2.0 ** (_FIRST_OCTAVE + place / _STEPS_PER_OCTAVE)


def best_temperature(losses: Array) -> float:
    """The temperature at which mean losses (41,) are least, by a parabola in log T through the least three.

    1 if the loss is the same at all temperatures, as for a single class. NaN if the losses are not known.
    """
    if not np.isfinite(losses).all():
        return np.nan
    if np.ptp(losses) <= _FLAT:
        return 1.0
    least = int(losses.argmin())
    if least in (0, N_LOSSES - 1):
        return float(1 / _inverse(least))
    below, at, above = losses[least - 1 : least + 2]
    return float(1 / _inverse(least + (below - above) / (2 * (below - 2 * at + above))))


def warned_of(temperature: float) -> float:
    """The best temperature; with a warning if it is an end of the grid."""
    if temperature in (1 / _inverse(0), 1 / _inverse(N_LOSSES - 1)):
        warnings.warn(
            f"the log loss is least at a temperature of {temperature:g}, the end of the grid: these rows do "
            "not tell how sure the model may be",
            stacklevel=callers_level(),
        )
    return temperature


def loss_at(losses: Array, temperature: float) -> float:
    """The mean loss at a temperature, by a cubic spline in log T. NaN if the losses are not known.

    Raises
    ------
    ValueError
        If the temperature is outside the grid.
    """
    lowest, highest = 1 / _inverse(N_LOSSES - 1), 1 / _inverse(0)
    if not lowest <= temperature <= highest:
        raise ValueError(f"losses are known from temperature {lowest:g} to {highest:g}; got {temperature!r}")
    if not np.isfinite(losses).all():
        return np.nan
    place = _STEPS_PER_OCTAVE * (-np.log2(temperature) - _FIRST_OCTAVE)
    return float(CubicSpline(np.arange(N_LOSSES), losses)(place))
