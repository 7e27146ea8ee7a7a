"""The temperature of a candidate that is best for the rows that its models have not learnt."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgda.scoring.calibration import N_LOSSES, best_temperature, losses_when_divided
from streamgda.selection.scorings import METRICS, Metric, Scored

CALIBRATION = "temperature"


class CalibrationLosses(Metric):
    """The losses at several temperatures. The score is the best temperature, so greater is not better."""

    def __init__(self, n_classes: int) -> None:
        self._sums = np.zeros(N_LOSSES + 1)  # the last is the weight of the rows

    def add(self, rows: Scored) -> None:
        """Add scored rows."""
        scores = rows.calibration.undo(rows.scores)
        self._sums[:-1] += losses_when_divided(scores, rows.truth, rows.weights)
        self._sums[-1] += rows.weights.sum()

    @property
    def score(self) -> float:
        """The temperature at which the mean loss is least."""
        return best_temperature(self._sums[:-1] / self._sums[-1]) if self._sums[-1] else np.nan


MEASURED: dict[str, type[Any]] = {**METRICS, CALIBRATION: CalibrationLosses}
"""The metrics for which rows are scored: the scorings, and the temperature."""


def calibrations(calibrate: Any) -> list[str]:
    """The additional metric that the parameter `calibrate` asks for.

    Raises
    ------
    ValueError
        If it is neither "temperature" nor None.
    """
    if calibrate not in (None, CALIBRATION):
        raise ValueError(f"calibrate is {CALIBRATION!r} or None; got {calibrate!r}")
    return [] if calibrate is None else [calibrate]
