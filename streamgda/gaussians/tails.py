"""Means to twice the precision of float64: the tails are what float64 leaves of them.

Where tails are large beside the deviations, rows and means are taken from an origin near the means, where
float64 holds them.
"""

from __future__ import annotations

import numpy as np

from streamgda.gaussians.whitening import Array, Observed

_LEAST_TAIL = 1e-12  # standard deviations; what is less changes no score by more than its own rounding


def origin_and_means(means: Array, tails: Array | None, variances: Array) -> tuple[Array | None, Array]:
    """What to subtract from rows first, and the means less that.

    The origin is the mean of a class. It is None, and the means are as they are, where their tails do not
    matter.
    """
    if tails is None or not _are_large(tails, variances):
        return None, means
    origin = means[np.isfinite(means).all(axis=1).argmax()]
    return origin, (means - origin) + tails


def _are_large(tails: Array, variances: Array) -> bool:
    """Whether tails may change scores; the largest and smallest numbers mostly tell that they do not."""
    largest = max(tails.max(initial=0.0), -tails.min(initial=0.0))
    if largest <= _LEAST_TAIL * np.sqrt(variances.min(initial=np.inf)):
        return False
    return bool((np.abs(tails) > _LEAST_TAIL * np.sqrt(variances)).any())


def less_origin(X: Array, origin: Array | None) -> Array:
    """Rows less the origin, if there is one."""
    return X if origin is None else X - origin


def of_features(tails: Array | None, observed: Observed) -> Array | None:
    """The tails of the observed features."""
    return None if tails is None else tails[:, observed]
