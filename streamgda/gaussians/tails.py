"""Means to twice the precision of float64: the tails are what float64 leaves of them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Positions: TypeAlias = int | slice | NDArray[np.intp]

_LEAST_TAIL = 1e-12  # standard deviations; what is less changes no score by more than its own rounding


def large_tails(tails: Array | None, variances: Array) -> Array | None:
    """The tails (K, d) of means; None if they change no score beside variances (K, d)."""
    if tails is None:
        return None
    # Mostly the largest tail and the least variance prove it, and no other number has to be looked at.
    largest = max(tails.max(initial=0.0), -tails.min(initial=0.0))
    if largest <= _LEAST_TAIL * np.sqrt(variances.min(initial=np.inf)):
        return None
    return tails if (np.abs(tails) > _LEAST_TAIL * np.sqrt(variances)).any() else None


def deviations_from(X: Array, mean: Array, tail: Array | None) -> Array:
    """Rows less a mean and, if it is given, its tail."""
    deviations = X - mean
    if tail is not None:
        deviations -= tail
    return deviations


def of_classes(tails: Array | None, classes: Positions) -> Array | None:
    """The tails of some classes."""
    return None if tails is None else tails[classes]


def of_features(tails: Array | None, observed: NDArray[np.bool_]) -> Array | None:
    """The tails of the observed features."""
    return None if tails is None else tails[:, observed]
