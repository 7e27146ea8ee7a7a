"""The best rotation of two axes, for many planes at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from streamgda.gaussians.whitening import Array

_ANGLES = np.linspace(0.0, np.pi, 16, endpoint=False)
_SPACING = float(_ANGLES[1])
_STEPS = 3
_LEAST = 4 * float(np.finfo(np.float64).eps)  # a determinant over the product that it is a difference from


@dataclass(frozen=True)
class Planes:
    """How the scatters along the two axes of each plane depend on the angle.

    Let a and b be the scatters along the two axes, and c their product moment. A rotation by ψ/2 leaves the
    determinant a b − c² as it is, and makes the product moment c cos ψ − (a − b)/2 sin ψ. So the product of
    the two scatters is the determinant plus the square of that, a sum of positive terms: it keeps its digits
    if one scatter is far larger than the other. All arrays are of shape (..., K), with the classes last.

    Attributes
    ----------
    determinant : ndarray
        a b − c².
    half : ndarray
        (a − b)/2.
    moment : ndarray
        c.
    weights : ndarray
        What the classes count.
    volume : {"E", "V"}
        Whether to minimise Σ w (x^(1/2) − 1) ("E") or Σ w ln x ("V"), where x is the product of the scatters
        over that at ψ = 0.
    """

    determinant: Array
    half: Array
    moment: Array
    weights: Array
    volume: str

    @classmethod
    def of(cls, first: Array, second: Array, moment: Array, weights: Array, volume: str) -> Self:
        """The planes of axes with these scatters, and the product moment of the two."""
        product = first * second
        determinant = np.maximum(product - moment**2, _LEAST * product)
        return cls(determinant, (first - second) / 2, moment, weights, volume)

    def best_angles(self, *, everywhere: bool) -> Array:
        """The angles ψ/2 (...), in (−π/4, π/4], at which the sum is least; 0 where none makes it smaller.

        They are searched for everywhere, or only near 0, which takes a fraction of the time.
        """
        grid = _ANGLES if everywhere else _ANGLES[:1]
        of_grid = np.stack([self.value(np.full(self.half.shape[:-1], angle)) for angle in grid])
        best, least = _ANGLES[of_grid.argmin(axis=0)], of_grid.min(axis=0)
        for _ in range(_STEPS):
            for step in self._steps(best):
                value = self.value(best + step)
                best, least = np.where(value < least, best + step, best), np.minimum(value, least)
        angles: Array = (best - np.pi * np.round(best / np.pi)) / 2
        return angles

    def value(self, psi: Array) -> Array:
        """The sum at angles ψ/2: (...). It is 0 at 0."""
        change = self._change(psi)
        terms = np.expm1(change / 2) if self.volume == "E" else change
        total: Array = np.vecdot(self.weights, terms)
        return total

    def _change(self, psi: Array) -> Array:
        """The logarithm of x, which keeps its digits at small angles."""
        moved = -(self.half * np.sin(psi)[..., None] + 2 * self.moment * np.sin(psi / 2)[..., None] ** 2)
        change: Array = np.log1p(moved * (2 * self.moment + moved) / (self.determinant + self.moment**2))
        return change

    def _steps(self, psi: Array) -> tuple[Array, Array]:
        """Two steps: one that never leads uphill, and one of Newton's, or 0 if that leads uphill or far."""
        cosine, sine = np.cos(psi)[..., None], np.sin(psi)[..., None]
        moment = self.moment * cosine - self.half * sine
        half = self.half * cosine + self.moment * sine
        weights, bent = self.weights, 1.0
        if self.volume == "E":
            weights, bent = weights * np.exp(self._change(psi) / 2), 0.5
        product = self.determinant + moment**2
        return _safe_step(weights / product, moment, half), _newton_step(weights, product, moment, half, bent)


def _safe_step(weights: Array, moment: Array, half: Array) -> Array:
    """The angle at which Σ w (c cos ψ − (a − b)/2 sin ψ)² is least.

    x^(1/2) and ln x are concave, so their sum is never above that of their tangents at ψ = 0, which is this
    one up to a constant. Where this one falls, the sum falls.
    """
    square, cross, other = (np.vecdot(weights, part) for part in (half**2, half * moment, moment**2))
    step: Array = np.arctan2(cross, (square - other) / 2) / 2
    return step


def _newton_step(weights: Array, product: Array, moment: Array, half: Array, bent: float) -> Array:
    """−h′/h″, where that leads downhill and no further than to the next angle of the grid; else 0."""
    slope = -2 * moment * half / product
    bend = 2 * (half**2 - moment**2) / product - bent * slope**2
    first, second = np.vecdot(weights, slope), np.vecdot(weights, bend)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = -first / second
    return np.where((second > 0) & (np.abs(step) < _SPACING), step, 0.0)
