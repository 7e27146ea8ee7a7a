"""Moments: how they are merged, taken apart and mapped.

Moments are merged pairwise by the formula of Chan, Golub & LeVeque (1983, "Algorithms for computing the
sample variance", eq. 2.1) in the weighted matrix form of Schubert & Gertz (2018, "Numerically stable
parallel computation of (co-)variance", eq. 22). No sum of squares is ever formed.
"""

from __future__ import annotations

import math
from ctypes import c_int64
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, Indices, Rows
from streamgda.statistics.floating.arrays import MomentArrays, two_product, two_sum
from streamgda.statistics.kernels import merger
from streamgda.statistics.labelled import Counts

_EPS = float(np.finfo(np.float64).eps)

# Differences of moments, relative to the moments that were subtracted.
NOISE = 64 * 2.0**-52  # a scatter that is no larger may be rounding alone, and counts as zero
_SCATTER_TOL = 1e-8  # a scatter below minus this, or a larger gap between means, is not rounding


class Moments(MomentArrays):
    """Moments that add up; `MomentArrays` says what they are."""

    def total(self) -> Self:
        """The moments of the rows of all classes, as those of one class."""
        if self.kind.is_pooled:  # half of the classes at once, since each merge copies the common scatter
            total = self
            while half := len(total.weights) // 2:
                others = total.without_pooled(np.arange(half))
                total = total.take(np.arange(half, len(total.weights)))
                total.merge(others, np.arange(half))
            return total.copy()
        first = np.array([0])
        total = self.take(first).copy()
        for k in range(1, len(self.weights)):
            total.merge(self.take(slice(k, k + 1)), first)
        return total

    def merge(self, other: Self, places: Indices) -> None:
        """Add to the classes at these places, in place. If it raises, nothing has changed.

        The result has the same bits whichever of the two comes first.

        Raises
        ------
        ValueError
            If a weight, or a power of the features, would exceed float64.
        """
        vars(self).update(vars(self.merged(other, places)))
        self.write()

    def merged(self, other: Self, places: Indices) -> Self:
        """The moments with others added to the classes at these places, once they are written.

        Raises
        ------
        ValueError
            As of `merge`.
        """
        self._check_sum(other, places)
        return self._sum(other, places)

    @property
    def merges_in_turn(self) -> bool:
        """Whether places may repeat in a merge: classes are then merged into them one after the other."""
        return self._has_scatter_by_class and not self.fourth_moments

    def _sum(self, other: Self, places: Indices) -> Self:
        """The sum, whose powers may exceed float64."""
        total, done = type(self)(self.kind, *map(_in_c_order, self.arrays)), c_int64()
        theirs = [_in_c_order(array) for array in other.arrays]
        n_merged = 5 if self._has_scatter_by_class else 4
        merge = merger(places, total.arrays[:n_merged], theirs[:n_merged])
        if n_merged == 4:
            total.scatter = self._joined_scatter(other, places, merge())

        def write(_: Self) -> None:  # its arrays are those of the sum
            merge(done)

        total.unwritten = write
        return total

    @property
    def _has_scatter_by_class(self) -> bool:
        """Whether the loop merges the scatter: squares, or matrices that are kept whole."""
        return self.kind.is_complete or not (self.kind.has_products or self.kind.is_pooled)

    def _joined_scatter(self, other: Self, places: Indices, spread: Array) -> Array:
        """The scatter of a sum, if it is pooled or of another shape, in a new array."""
        if not self.kind.is_pooled:
            scatter = self.scatter.copy()
            scatter[places] += other.scatter
            scatter[places] += self.kind.outer(spread)
            return scatter
        varies = other.diagonal.any()  # single rows have no scatter
        scatter = self.scatter + other.scatter if varies else self.scatter.copy()
        self.kind.add_outer(scatter, spread)
        return scatter

    def _bounds_of_sum(self, other: Self, places: Indices) -> tuple[float, float]:
        """A quick bound of all that is summed up, and one of the squared distances of means."""
        rows: Rows = slice(None)  # all, unless a copy of some takes less time
        if 0 < 2 * len(places) < len(self.weights):
            rows = as_slice(places)
        means, diagonal = self.means[rows], self.kind.take(self.diagonal, rows)
        weight = float(np.add.reduce(self.weights[rows])) + float(np.add.reduce(other.weights))
        gap = 2.0 * (float(np.vdot(means, means)) + float(np.vdot(other.means, other.means)))
        largest = np.maximum.reduce(diagonal, None, initial=0.0) + np.maximum.reduce(
            other.diagonal, None, initial=0.0
        )
        scatter = float(largest) * len(places)  # of which as many may be added to one class
        return 64.0 * (scatter + weight * gap), gap

    def _check_sum(self, other: Self, places: Indices) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if math.isfinite(self._bounds_of_sum(other, places)[0]):
                return
            total = self.copy()._sum(other, places)
            total.write()
        if not np.isfinite(total.weights).all():
            raise ValueError("the weights are too large: their sum exceeds float64. Rescale them first")
        total.check_finite()

    def subtract(self, part: Self, counts: Counts, rounding: float = 0.0) -> Self:
        """The moments without the part, of the classes that keep rows: the merge, solved for one side.

        Products of rows about the mean of all have a relative error of `rounding` besides that of float64.

        Raises
        ------
        ValueError
            If the part differs from a class that it empties, or no rows can have what is left.
        """
        emptied, remaining = np.flatnonzero(counts == 0), np.flatnonzero(counts)
        hidden: Array | float = rounding * np.abs(self.means).max(axis=0, initial=0.0)
        _check_same_means(self.take(emptied), part.take(emptied), hidden)
        whole = self.take(remaining)
        if not len(remaining):
            return whole
        rest = whole._minus(part.take(remaining))
        hidden = rounding * self._squares_about_all(remaining) if rounding else 0.0
        rest._clip_rest(whole, counts[remaining] == 1, hidden)
        return rest

    def _squares_about_all(self, places: Indices) -> Array:
        """The sums of squares about the mean of all rows: of these classes, or of all if they are pooled."""
        offsets = self.means - np.average(self.means, axis=0, weights=self.weights)
        squares: Array = self.weights[:, None] * offsets**2
        squares = squares.sum(axis=0, keepdims=True) if self.kind.is_pooled else squares[places]
        return squares + (self.diagonal if self.kind.is_pooled else self.diagonal[places])

    def _lost(self, whole: Self) -> Array:
        """The share of `whole` that the rounding of weights may hide in this difference from it: (K,)."""
        lost: Array = NOISE * whole.weights / self.weights
        return lost.max(keepdims=True) if self.kind.is_pooled else lost

    def _minus(self, part: Self) -> Self:
        """The moments of the other rows; their scatter may come out slightly negative on its diagonal."""
        weights, rest = two_sum(self.weights, -part.weights)
        weights, tails = two_sum(weights, rest + (self.weight_tails - part.weight_tails))
        gap = (part.means - self.means) + (part.low_means - self.low_means)
        retreat = gap * (part.weights / weights)[:, None]
        means, low_means = two_sum(self.means, self.low_means - retreat)
        spread = gap * np.sqrt(part.weights * (self.weights / weights))[:, None]
        scatter = self.scatter - part.scatter
        scatter -= self.kind.outer(spread)
        return replace(
            self, weights=weights, weight_tails=tails, means=means, low_means=low_means, scatter=scatter
        )

    def _clip_rest(self, whole: Self, is_single: NDArray[np.bool_], hidden: Array | float) -> None:
        """Clip the rounding of this difference from `whole`. A class with one row left does not vary."""
        value_rounding = self.weights[:, None] * (np.finfo(np.float64).eps * self.means) ** 2
        if self.kind.is_pooled:
            value_rounding = value_rounding.sum(axis=0, keepdims=True)
            is_single = np.array([bool(is_single.all())])
        noise = NOISE * whole.diagonal + value_rounding + hidden
        noise[is_single] += ((_SCATTER_TOL + self._lost(whole))[:, None] * whole.diagonal)[is_single]
        scale = (1 + self._lost(whole)[:, None] / _SCATTER_TOL) * whole.diagonal + hidden / _SCATTER_TOL
        self.clip(scale, noise, "these rows never went into the state")
        if self.diagonal[is_single].any():
            raise ValueError("one row that is left would vary: these rows never went into the state")

    def clip(self, scale: Array, noise: Array | float, otherwise: str) -> None:
        """Set variances that may be mere rounding to zero, in place.

        Parameters
        ----------
        scale : ndarray of shape (K, d) or (1, d)
            The size of the terms whose difference each feature's scatter is.
        noise : ndarray of the same shape, or float
            How large a scatter may be by rounding alone.
        otherwise : str
            The end of the error message: what is wrong if it is not rounding.

        Raises
        ------
        ValueError
            If a variance is more negative than rounding explains, or a covariance larger than the variances
            of its features allow.
        """
        diagonal = self.diagonal
        if not (diagonal >= -(_SCATTER_TOL * scale + noise)).all():
            raise ValueError(f"a variance would be negative: {otherwise}")
        self.kind.zero(self.scatter, diagonal <= noise)
        most = self.kind.outer(np.sqrt(self.diagonal)) + _SCATTER_TOL * self.kind.outer(np.sqrt(scale))
        if (np.abs(self.scatter) > most).any():
            raise ValueError(f"a correlation would exceed 1: {otherwise}")

    # ------------------------------------------------------------------ rows A x + b

    def mapped(self, A: Array, b: Array) -> Self:
        """The moments of the rows A x + b.

        Raises
        ------
        ValueError
            If a square would exceed float64.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            means, low_means = self._mapped_means(A, b)
            scatter = A @ self.scatter @ A.T
            scatter = (scatter + np.swapaxes(scatter, -1, -2)) / 2
        derived = replace(self.copy(), means=means, low_means=low_means, scatter=scatter)
        derived.check_finite()
        scale = (np.sqrt(self.diagonal) @ np.abs(A).T) ** 2
        derived.clip(scale, 4 * max(1, self.n_features) * _EPS * scale, "the scatter is of no rows")
        return derived

    def _mapped_means(self, A: Array, b: Array) -> tuple[Array, Array]:
        """A m + b to twice the precision of float64.

        Ogita, Rump & Oishi (2005), "Accurate sum and dot product", algorithm 5.3.
        """
        totals, low_means = np.tile(b, (len(self.means), 1)), self.low_means @ A.T
        for mean, column in zip(self.means.T[:, :, None], A.T, strict=True):
            products, left = two_product(mean, column)
            totals, rest = two_sum(totals, products)
            low_means += left + rest
        return two_sum(totals, low_means)


def as_slice(places: Indices) -> Rows:
    """The same places, as a slice if they are neighbours, so that taking them copies nothing."""
    start, stop = int(places[0]), int(places[-1]) + 1
    return slice(start, stop) if stop - start == len(places) else places


def _in_c_order(array: Array) -> Array:
    return array if array.flags.carray else array.copy()


def _check_same_means(ours: Moments, theirs: Moments, hidden: Array | float) -> None:
    """Raise ValueError if the rows of a class cannot be those that are taken out of it."""
    if not len(ours.weights):
        return
    gap = (theirs.means - ours.means) + (theirs.low_means - ours.low_means)
    size = np.abs(ours.means) + np.sqrt(ours.diagonal / ours.weights[:, None])
    if (np.abs(gap) > _SCATTER_TOL * size + hidden).any():
        raise ValueError("the means of a class differ: these rows never went into the state")
