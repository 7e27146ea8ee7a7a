"""The best rotation of two axes, for many planes at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from streamgda.gaussians.whitening import Array

_ANGLES = np.linspace(0.0, np.pi, 16, endpoint=False)
_SPACING = float(_ANGLES[1])
_NEWTON_STEPS = 3
_LEAST = float(np.finfo(np.float64).eps)  # share of m² that rounding may leave of a product


@dataclass(frozen=True)
class Planes:
    """How the scatters along the two axes of each plane depend on the angle.

    After a rotation by ψ/2 they are m ± r cos(ψ − φ), so their product is m² − r² cos²(ψ − φ). All arrays are
    of shape (..., K), with the classes last.

    Attributes
    ----------
    mean, radius, phase : ndarray
        m, r and φ.
    weights : ndarray
        What the classes count.
    volume : {"E", "V"}
        Whether to minimise Σ w x^(1/2) ("E") or Σ w ln x ("V"), where x is the product over that at ψ = 0.
    """

    mean: Array
    radius: Array
    phase: Array
    weights: Array
    volume: str

    @classmethod
    def of(cls, first: Array, second: Array, product: Array, weights: Array, volume: str) -> Self:
        """The planes of axes with these scatters, and the product of the two."""
        half = (first - second) / 2
        return cls((first + second) / 2, np.hypot(half, product), np.arctan2(product, half), weights, volume)

    def best_angles(self, *, everywhere: bool) -> Array:
        """The angles ψ/2 (...), in (−π/4, π/4], at which the sum is least; 0 where none makes it smaller.

        They are searched for everywhere, or only near 0, which takes a fraction of the time.
        """
        grid = _ANGLES if everywhere else _ANGLES[:1]
        of_grid = np.stack([self.value(np.full(self.mean.shape[:-1], angle)) for angle in grid])
        best, least = _ANGLES[of_grid.argmin(axis=0)], of_grid.min(axis=0)
        for _ in range(_NEWTON_STEPS):
            tried = best + self._newton_step(best)
            value = self.value(tried)
            best, least = np.where(value < least, tried, best), np.minimum(value, least)
        best = np.where(least < of_grid[0], best, 0.0)
        angles: Array = (best - np.pi * np.round(best / np.pi)) / 2
        return angles

    def value(self, psi: Array) -> Array:
        """The sum at angles ψ/2: (...)."""
        change = np.log(self._product(psi) / self._start)
        terms = 2 * np.exp(change / 2) if self.volume == "E" else change
        total: Array = np.vecdot(self.weights, terms)
        return total

    @cached_property
    def _start(self) -> Array:
        return self._product(np.zeros(self.mean.shape[:-1]))

    def _product(self, psi: Array) -> Array:
        reach = self.radius * np.cos(psi[..., None] - self.phase)
        return np.maximum((self.mean - reach) * (self.mean + reach), _LEAST * self.mean**2)

    def _newton_step(self, psi: Array) -> Array:
        """−h′/h″, where that leads downhill and no further than to the next angle of the grid; else 0."""
        angle, square, product = 2 * (psi[..., None] - self.phase), self.radius**2, self._product(psi)
        slope = square * np.sin(angle) / product
        bend = 2 * square * np.cos(angle) / product - slope**2
        weights = self.weights
        if self.volume == "E":
            weights, bend = weights * np.sqrt(product / self._start), bend + slope**2 / 2
        first, second = np.vecdot(weights, slope), np.vecdot(weights, bend)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = -first / second
        return np.where((second > 0) & (np.abs(step) < _SPACING), step, 0.0)
