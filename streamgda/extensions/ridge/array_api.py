"""The map of random features by the array API standard, for rows on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.externals.array_api_compat import array_namespace

from streamgda.models.estimators.libraries import in_double, to_place_of

FARTHEST = 6.0
"""Deviations from the mean: inputs that lie farther are moved to there."""


def mapped(features: Any, X: Any) -> Any:
    """What a map of random features makes of rows (n, d), in float32; NaN where a value is not finite.

    The cosine is by the polynomial of `streamgda.statistics.kernels`, so that numbers are those of the host.
    """
    xp = array_namespace(X)
    put, X = to_place_of(X, xp.float64), in_double(X)
    scaled = (X - put(features.mean_)) * put(features.factor_)
    inputs = [xp.where(xp.isfinite(scaled), xp.clip(scaled, -FARTHEST, FARTHEST), xp.nan)]
    for j, knots, levels in features._ranks:
        x, at = xp.clip(X[:, j], float(knots[0]), float(knots[-1])), put(knots)
        place = xp.clip(xp.searchsorted(at, x, side="right"), 1, len(knots) - 1) - 1
        slopes, level = put(np.diff(levels) / np.diff(knots)), put(levels)
        rank = xp.take(slopes, place) * (x - xp.take(at, place)) + xp.take(level, place)
        inputs.append(rank[:, None])
    single = xp.astype(xp.concat(inputs, axis=1), xp.float32)
    angles = xp.astype(single, xp.float64) @ put(features.frequencies_) + put(features.offsets_)
    if features.kind == "relu":
        made = 0.5 * (angles + xp.abs(angles))
    else:
        turns = angles * 0.15915494309189535
        u = 0.25 - xp.abs(turns - xp.round(turns))
        v = u * u
        total = -76.70366782204336 + v * (41.99998972788515 + v * -14.337024055916915)
        total = -41.34170192977137 + v * (81.60520943094282 + v * total)
        made = u * (6.283185306487502 + v * total)
    made = xp.astype(made, xp.float32)
    return xp.concat([single, made], axis=1) if features.include_inputs else made
