"""Whether float64 holds the digits of variances after rows are taken out."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import named
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.labelled import Labelled

_SIX_DIGITS = 1e6 * 2.0**-52


def warn_of_lost_digits(
    rest: Labelled[Moments], whole: Labelled[Moments], names: tuple[str, ...] | None
) -> None:
    """Warn if a variance of the rest has fewer than six correct digits, taken out of the whole."""
    before = whole.moments.take(np.flatnonzero(np.isin(whole.classes, rest.classes)))
    lost = _lost(rest.moments, before, rest.counts)
    if not rest.counts.sum() or not lost.any():
        return
    k, feature = np.argwhere(lost)[0]
    owner = "the classes" if rest.moments.kind.is_pooled else f"class {named(rest.classes[k])}"
    more = f" (and {lost.sum() - 1} more)" if lost.sum() > 1 else ""
    warnings.warn(
        f"{owner}: of feature {_name(int(feature), names)}{more} the variance that is left has fewer than "
        "six correct digits, since the rows taken out vary so much more. Take rows out of an "
        "ExactClassStatistics, or accumulate the remaining rows anew",
        RuntimeWarning,
        stacklevel=3,
    )


def _lost(rest: Moments, whole: Moments, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_lost: NDArray[np.bool_] = rest.diagonal < _SIX_DIGITS * whole.diagonal
    varies = (counts > 1)[:, None]
    return is_lost & (varies.any() if rest.kind.is_pooled else varies)


def _name(feature: int, names: tuple[str, ...] | None) -> str:
    return repr(names[feature]) if names else str(feature)
