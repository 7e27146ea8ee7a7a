"""Axes that all classes share, found by rotations in planes (EVE, VVE).

Let f_kj be the scatter of class k along axis j. With the most likely volumes and shapes for given axes, this
function is to be minimised: Σ_k n_k Σ_j ln f_kj if volumes vary, and Σ_k (Π_j f_kj)^(1/d) if they are equal.
A sweep rotates in the plane of each pair of axes, half of the axes in disjoint planes at a time.

If volumes vary, each plane has terms of its own. If they are equal, let x_kp be the factor by which the
product of the two scatters in plane p changes. By the inequality of weighted means, with weights 2/d (and 1/d
for an axis left alone), Π_p x_kp^(1/d) ≤ (2/d) Σ_p x_kp^(1/2) + rest, and the two sides touch where nothing
changes. So the function falls if Σ_k w_k x_kp^(1/2) does in each plane, where w_k is (Π_j f_kj)^(1/d) before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from streamgda.gaussians.axes import principal_axes, signed
from streamgda.gaussians.parsimonious.scales import geometric_means
from streamgda.gaussians.whitening import Array

_CLASS_STARTS = 4
_RANDOM_STARTS = 8
_FIRST_CUT = 8  # sweeps; after them, and after each doubling, only the better half of the starts goes on
_MOST_SWEEPS = 512
_MOST_VALUES = 1 << 24  # of the factors that are rotated for all starts together
_CONVERGED = 1e-13  # fall of the deviance of a row and feature, by a sweep
_ANGLES = np.linspace(0.0, np.pi, 16, endpoint=False)
_SPACING = float(_ANGLES[1])
_STEPS = 3
_LEAST = 4 * float(np.finfo(np.float64).eps)  # a determinant over the product that it is a difference from


def common_axes(scatter: Array, weights: Array, volume: str) -> Array:
    """The most likely axes, as columns (d, d), that classes with these scatters (K, d, d) share.

    There may be several maxima of the likelihood. This is the best of those found from several starts: the
    axes of the pooled scatter, the features, the axes of the heaviest classes, and random ones.

    References
    ----------
    Flury & Gautschi (1986), "An algorithm for simultaneous orthogonal transformation of several positive
    definite symmetric matrices to nearly diagonal form", SIAM Journal on Scientific and Statistical
    Computing 7; Browne & McNicholas (2014), "Estimating common principal components in high dimensions",
    Advances in Data Analysis and Classification 8.
    """
    scatter = np.ldexp(scatter, -np.frexp(scatter.max())[1])  # so that products do not exceed float64
    factors = np.array([scipy.linalg.cholesky(matrix) for matrix in scatter])
    axes = _best(factors, starts(scatter, weights), weights, volume)
    along = np.einsum("ij,kjl,il->i", axes, scatter, axes)
    return signed(axes[np.argsort(-along)].T)


def starts(scatter: Array, weights: Array) -> Array:
    """Axes to start from, as rows: (n_starts, d, d)."""
    n_features = scatter.shape[-1]
    heaviest = np.argsort(-weights, kind="stable")[:_CLASS_STARTS]
    matrices = [scatter.sum(axis=0), *scatter[heaviest]]
    random = np.random.default_rng(0).standard_normal((_RANDOM_STARTS, n_features, n_features))
    principal = [principal_axes(matrix)[1].T for matrix in matrices]
    begun = np.concatenate((principal, [np.eye(n_features)], np.linalg.qr(random).Q))
    return begun[: max(1, _MOST_VALUES // scatter.size)]


def sweeps(
    factors: Array, axes: Array, weights: Array, volume: str, *, everywhere: bool = True
) -> Iterator[tuple[Array, Array]]:
    """The deviance of a row (S,), and axes as rows (S, d, d), after each sweep from each of S starts.

    The deviance never rises: it is −2 times the log-likelihood, up to a constant, over the rows.

    Parameters
    ----------
    factors : ndarray of shape (K, d, d)
        R_k, with R_kᵀ R_k the scatter of class k.
    axes : ndarray of shape (S, d, d)
        Where to start.
    weights : ndarray of shape (K,)
        The rows of each class.
    volume : {"E", "V"}
        Whether the volumes of the classes are equal or vary.
    everywhere : bool
        Whether all angles are tried in each plane, or only small ones.
    """
    turned = np.einsum("kij,slj->skli", factors, axes)  # R_k d, for each start, class and axis d
    axes = axes.copy()
    while True:
        for first, second in _rounds(axes.shape[-1]):
            _rotate(turned, axes, (first, second), weights, volume, everywhere)
        yield _deviances(np.vecdot(turned, turned), weights, volume), axes


def _best(factors: Array, axes: Array, weights: Array, volume: str) -> Array:
    """The axes (d, d), as rows, that sweeps find from the best of some starts (S, d, d)."""
    n_sweeps = _FIRST_CUT
    while n_sweeps < _MOST_SWEEPS:
        values, axes, is_converged = _swept(factors, axes, weights, volume, n_sweeps)
        axes = axes[np.argsort(values)]
        if is_converged:
            break
        axes, n_sweeps = axes[: -(-len(axes) // 2)], 2 * n_sweeps
    best: Array = axes[0]
    return best


def _swept(
    factors: Array, begun: Array, weights: Array, volume: str, n_sweeps: int
) -> tuple[Array, Array, bool]:
    """The deviances (S,) and axes (S, d, d) after so many sweeps, or when none falls any more."""
    before = np.full(len(begun), np.inf)
    search = sweeps(factors, begun, weights, volume, everywhere=n_sweeps == _FIRST_CUT)
    for step in islice(search, n_sweeps):
        values, axes = step
        if (before - values <= _CONVERGED * begun.shape[-1]).all():
            return values, axes, True
        before = values
    return values, axes, False


def _deviances(along: Array, weights: Array, volume: str) -> Array:
    """The deviances (S,) of scatters (S, K, d) along axes."""
    if volume == "E":
        deviances: Array = along.shape[-1] * np.log(geometric_means(along).sum(axis=1))
    else:
        deviances = np.log(along).sum(axis=2) @ (weights / weights.sum())
    return deviances


def _rotate(
    turned: Array,
    axes: Array,
    planes: tuple[NDArray[np.intp], NDArray[np.intp]],
    weights: Array,
    volume: str,
    everywhere: bool,
) -> None:
    """Rotate the two axes of each plane to where they are likeliest, in place."""
    first, second = planes
    if volume == "E":
        weights = geometric_means(np.vecdot(turned, turned))[:, None, :]
    ours, theirs = turned[:, :, first], turned[:, :, second]
    pairs = (ours, ours), (theirs, theirs), (ours, theirs)
    terms = [np.vecdot(*pair).transpose(0, 2, 1) for pair in pairs]
    angles = Planes.of(terms[0], terms[1], terms[2], weights, volume).best_angles(everywhere=everywhere)[
        ..., None
    ]
    cosines, sines = np.cos(angles), np.sin(angles)
    turned[:, :, first] = cosines[:, None] * ours + sines[:, None] * theirs
    turned[:, :, second] = cosines[:, None] * theirs - sines[:, None] * ours
    ours, theirs = axes[:, first], axes[:, second]
    axes[:, first], axes[:, second] = cosines * ours + sines * theirs, cosines * theirs - sines * ours


def _rounds(n_axes: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Every pair of axes once, in rounds of disjoint pairs: a round-robin schedule."""
    places = np.arange(n_axes + n_axes % 2)  # if the number is odd, the last is no axis
    for _ in range(len(places) - 1):
        pairs = places[: len(places) // 2], places[len(places) // 2 :][::-1]
        real = (pairs[0] < n_axes) & (pairs[1] < n_axes)
        yield pairs[0][real], pairs[1][real]
        places = np.concatenate((places[:1], np.roll(places[1:], 1)))


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
        The weights of the classes.
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
        of_grid = self.value(grid.reshape(-1, *[1] * (self.half.ndim - 1)))
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
        """Two steps: one that never raises the sum, and Newton's, or 0 if that raises the sum or is long."""
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

    x^(1/2) and ln x are concave, so their sum is never above that of their tangents at ψ = 0. The sum of the
    tangents is this one, up to a constant. So if this one falls, the sum falls.
    """
    square, cross, other = (np.vecdot(weights, part) for part in (half**2, half * moment, moment**2))
    step: Array = np.arctan2(cross, (square - other) / 2) / 2
    return step


def _newton_step(weights: Array, product: Array, moment: Array, half: Array, bent: float) -> Array:
    """−h′/h″ if that lowers h and is no longer than the spacing of the grid; else 0."""
    slope = -2 * moment * half / product
    bend = 2 * (half**2 - moment**2) / product - bent * slope**2
    first, second = np.vecdot(weights, slope), np.vecdot(weights, bend)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = -first / second
    return np.where((second > 0) & (np.abs(step) < _SPACING), step, 0.0)
