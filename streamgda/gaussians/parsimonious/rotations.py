"""Axes that all classes share, found by rotations in planes (EVE, VVE).

Given the axes, the most likely volumes and shapes leave a function of f_kj, the scatter of class k along axis
j, to be made small: Σ_k n_k Σ_j ln f_kj if volumes vary, and Σ_k (Π_j f_kj)^(1/d) if they are equal. A sweep
rotates in the plane of each pair of axes, half of the axes in disjoint planes at a time.

If volumes vary, each plane has terms of its own. If they are equal, let x_kp be the factor by which the
product of the two scatters in plane p changes. By the inequality of weighted means, with weights 2/d (and 1/d
for an axis left alone), Π_p x_kp^(1/d) ≤ (2/d) Σ_p x_kp^(1/2) + rest, and the two sides touch where nothing
changes. So the function falls if Σ_k w_k x_kp^(1/2) does in each plane, where w_k is (Π_j f_kj)^(1/d) before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from streamgda.gaussians.axes import principal_axes
from streamgda.gaussians.parsimonious.planes import Planes
from streamgda.gaussians.parsimonious.scales import geometric_means
from streamgda.gaussians.whitening import Array, signed

_CLASS_STARTS = 4
_RANDOM_STARTS = 8
_FIRST_CUT = 8  # sweeps; after as many, and again after twice as many, the better half of the starts goes on
_MOST_SWEEPS = 512
_MOST_VALUES = 1 << 24  # of the factors that are rotated for all starts together
_CONVERGED = 1e-13  # fall of the deviance of a row and feature, by a sweep


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
    scatter = np.ldexp(scatter, -np.frexp(scatter.max())[1])  # so that products of scatters are numbers
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
    """The axes (d, d), as rows, that sweeps come to from the best of some starts (S, d, d)."""
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
    places = np.arange(n_axes + n_axes % 2)  # where the number is odd, the last is no axis
    for _ in range(len(places) - 1):
        pairs = places[: len(places) // 2], places[len(places) // 2 :][::-1]
        real = (pairs[0] < n_axes) & (pairs[1] < n_axes)
        yield pairs[0][real], pairs[1][real]
        places = np.concatenate((places[:1], np.roll(places[1:], 1)))
