"""How sure posterior probabilities are: scores are divided by a temperature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgda.models.gaussians.posteriors import Array


@dataclass(frozen=True)
class Calibration:
    """What makes scores ln p(x, k) those of posterior probabilities p(k | x) ∝ p(x, k)^(1 / divisor).

    Attributes
    ----------
    divisor : float
        The temperature. Above 1, probabilities are less sure.
    """

    divisor: float = 1.0

    def apply(self, scores: Array) -> Array:
        """The scores divided, up to a term for each row. Their order within a row stays."""
        with np.errstate(over="ignore"):
            divided: Array = (scores - scores.max(axis=1, keepdims=True)) / self.divisor
        return divided

    def undo(self, scores: Array) -> Array:
        """The scores as they were before, up to a term for each row."""
        return scores * self.divisor


UNCALIBRATED = Calibration()
"""The scores themselves."""
