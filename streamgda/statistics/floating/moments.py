"""Moments of classes: how they are held, merged, taken apart, mapped and read.

A mean is kept as the unevaluated sum of two float64 numbers, ``means + low_means``. The difference of two
means, on which the merge rests, is then right to the last digit even if the mean is 10^12 times the
deviation. Nor does a mean stop changing after 10^16 rows. A weight is kept in the same way, ``weights +
weight_tails``. So the same rows have the same weight, however they were cut and merged.

Moments are merged pairwise by the formula of Chan, Golub & LeVeque (1983, "Algorithms for computing the
sample variance", eq. 2.1) in the weighted matrix form of Schubert & Gertz (2018, "Numerically stable
parallel computation of (co-)variance", eq. 22). No sum of squares is ever formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from ctypes import c_int64
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, Bounds, CovarianceKind, Indices, Selection, kind_named
from streamgda.statistics.kernels import merger
from streamgda.statistics.labelled import Counts
from streamgda.statistics.required import Required

_EPS = float(np.finfo(np.float64).eps)
_LEAST_SQUARE = float(np.finfo(np.float64).tiny)  # smaller numbers have fewer digits
_SPLIT = 2.0**27 + 1  # of Veltkamp
_WEIGHT_TOL = 1e-13  # a larger difference of weights is not rounding

# Differences of moments, relative to the moments that were subtracted.
NOISE = 64 * 2.0**-52  # a scatter that is no larger may be rounding alone, and counts as zero
_SCATTER_TOL = 1e-8  # a scatter below minus this, or a larger gap between means, is not rounding

_OVERFLOWING = np.errstate(over="ignore", invalid="ignore")  # what exceeds float64 is infinite


@dataclass
class Moments:
    """Weight, mean and scatter of each class, the first two to twice the precision of float64.

    Attributes
    ----------
    kind : CovarianceKind
        What is kept of the scatter.
    weights, weight_tails : ndarray of shape (n_classes,)
        Their sum is the weight of a class.
    means, low_means : ndarray of shape (n_classes, n_features)
        Their sum is the mean of a class.
    scatter : ndarray
        Σ w (x − mean)(x − mean)ᵀ, in a shape that `kind` gives.
    unwritten : callable, or None
        What `write` has yet to call: it changes the arrays of these moments, and returns the next such
        function, or None. Where it was interrupted, it is called again.
    exact, fourth_moments : bool
        As of `Required`.
    arrays : tuple of ndarray
        All arrays, in the order of the parameters of the class.
    powers : str
        The highest powers of deviations that are summed up, in words.
    """

    kind: CovarianceKind
    weights: Array
    weight_tails: Array
    means: Array
    low_means: Array
    scatter: Array
    unwritten: Callable[[Any], Any] | None = field(default=None, kw_only=True)

    exact: ClassVar[bool] = False
    fourth_moments: ClassVar[bool] = False
    powers: ClassVar[str] = "squares"

    @classmethod
    def zeros(cls, kind: CovarianceKind, n_classes: int, n_features: int) -> Self:
        """The moments of no rows."""
        return cls(kind, *map(np.zeros, cls.shapes(kind, n_classes, n_features)))

    @classmethod
    def shapes(cls, kind: CovarianceKind, n_classes: int, n_features: int) -> list[tuple[int, ...]]:
        """The shapes of all arrays."""
        vectors = n_classes, n_features
        return [(n_classes,), (n_classes,), vectors, vectors, kind.shape(n_classes, n_features)]

    # ------------------------------------------------------------------ what is kept

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return int(self.means.shape[1])

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays)

    arrays = property(attrgetter("weights", "weight_tails", "means", "low_means", "scatter"))

    @property
    def diagonal(self) -> Array:
        """Each feature's own scatter: (K, d), or (1, d) where the classes share it."""
        return self.kind.diagonal(self.scatter)

    def weight_text(self, k: int) -> str:
        """The weight of a class as an error names it."""
        return f"{self.weights[k]:g}"

    def are_finite(self) -> bool:
        """Whether no value was NaN or infinite and no power of it exceeded float64."""
        return all(np.isfinite(array).all() for array in (self.means, self.low_means, self.diagonal))

    def check_finite(self) -> None:
        """Raise ValueError if a power of the features exceeds float64."""
        if not self.are_finite():
            raise ValueError(
                f"the features are too large: their {self.powers} exceed float64. Rescale them first"
            )

    def equals(self, other: Moments) -> bool:
        """Whether the two are the same to the last bit."""
        return all(map(np.array_equal, self.arrays, other.arrays))

    # ------------------------------------------------------------------ higher powers, of `FourthMoments`

    def add_powers(self, rows: Array, weights: Array | None, bounds: Bounds) -> None:
        """Add the higher powers of rows whose squares have just been added; see `add_rows`."""

    def more_columns(self) -> dict[str, Array]:
        """The columns of the higher powers in a table."""
        return {}

    @classmethod
    def more_shapes(cls, kind: CovarianceKind, n_classes: int, n_features: int) -> dict[str, tuple[int, ...]]:
        """The shapes of these columns."""
        return {}

    @classmethod
    def more_arrays(cls, kind: CovarianceKind, columns: Mapping[str, Array]) -> tuple[Array, ...]:
        """The arrays of the higher powers, out of such columns."""
        return ()

    # ------------------------------------------------------------------ pickles

    def __getstate__(self) -> dict[str, Any]:
        """Pickle each product of two features once, to send fewer bytes between processes."""
        return {**vars(self), "scatter": self.kind.packed(self.scatter)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        scatter = state["kind"].unpacked(state["scatter"], *state["means"].shape)
        # Arrays that joblib maps from a file are read-only, and moments change in place.
        fixed = {k: v.copy() for k, v in state.items() if isinstance(v, np.ndarray) and not v.flags.writeable}
        vars(self).update({**state, **fixed}, scatter=scatter)

    # ------------------------------------------------------------------ by class

    def copy(self) -> Self:
        """Moments that share nothing with these."""
        return type(self)(self.kind, *[array.copy() for array in self.arrays])

    def take(self, classes: Selection) -> Self:
        """The moments of some classes."""
        shared: Any = self.scatter if self.kind.is_pooled else None
        arrays = [array if array is shared else array[classes] for array in self.arrays]
        return type(self)(self.kind, *arrays)

    def put(self, classes: Selection, part: Self) -> None:
        """Write the moments of some classes back."""
        shared = self.scatter if self.kind.is_pooled else None
        for ours, theirs in zip(self.arrays, part.arrays, strict=True):
            if ours is not theirs:  # as a scatter that both share
                ours[... if ours is shared else classes] = theirs

    def with_rows(self, classes: Selection, part: Self) -> Self:
        """These moments with others in place of those of some classes, once they are written.

        Writing a few rows of large arrays may be interrupted. So the result, which shares its arrays with
        these moments, replaces them before `write` is called, and that can be called again.
        """
        if len(part.weights) == len(self.weights):
            return part
        written = type(self)(self.kind, *self.arrays, unwritten=lambda moments: moments.put(classes, part))
        written.scatter = part.scatter if self.kind.is_pooled else self.scatter
        return written

    def write(self) -> None:
        """Write the rows that are left to be written, also after an interruption of this method."""
        while self.unwritten is not None:
            self.unwritten = self.unwritten(self)

    def reindexed(self, n_classes: int, places: Indices) -> Self:
        """The same moments in arrays of `n_classes` classes, at these places; zeros elsewhere."""
        wider = self.zeros(self.kind, n_classes, self.n_features)
        wider.put(places, self)
        return wider

    def narrowed(self, required: Required) -> Self:
        """A copy that keeps no more than is required.

        Raises
        ------
        ValueError
            If these keep too little.
        """
        kind = kind_named(required.covariance_type)
        if required.fourth_moments and not self.fourth_moments:
            raise ValueError(
                "this state holds no fourth moments, which shrinkage='auto' needs; accumulate with "
                "fourth_moments=True"
            )
        return replace(self, kind=kind, scatter=kind.narrowed(self.scatter, self.kind)).copy()

    def selected(self, features: Indices) -> Self:
        """The moments of some features, in this order."""
        positions = self.kind.positions_of(features, self.n_features)
        packed = self.kind.packed(self.scatter)[:, positions]
        scatter = self.kind.unpacked(packed, len(self.weights), len(features))
        means, low_means = self.means[:, features], self.low_means[:, features]
        return replace(self.copy(), means=means, low_means=low_means, scatter=scatter)

    def placed(self, features: Indices, n_features: int) -> Self:
        """The moments of `n_features` features, of which these are at the given places, and zeros."""
        wider = self.zeros(self.kind, len(self.weights), n_features)
        wider.weights[:], wider.weight_tails[:] = self.weights, self.weight_tails
        wider.means[:, features], wider.low_means[:, features] = self.means, self.low_means
        packed = self.kind.packed(wider.scatter)
        packed[:, self.kind.positions_of(features, n_features)] = self.kind.packed(self.scatter)
        wider.scatter = self.kind.unpacked(packed, *wider.means.shape)
        return wider

    def without_pooled(self, classes: Indices) -> Self:
        """The moments of some classes, with zeros in place of a scatter that the classes share."""
        part = self.take(classes)
        return replace(part, scatter=self.kind.zeros(*part.means.shape)) if self.kind.is_pooled else part

    # ------------------------------------------------------------------ weights

    def scaled(self, factor: float) -> Self:
        """The moments with every weight multiplied by a factor."""
        weights, tails, scatter = (part * factor for part in (self.weights, self.weight_tails, self.scatter))
        return replace(self, weights=weights, weight_tails=tails, scatter=scatter)

    def least_squares(self, counts: Counts) -> Array:
        """Σ w² of the rows of each class if they have equal weights, W² / n. It is never less."""
        return self.weights * (self.weights / counts)

    def overdrawn(self, part: Self, counts: Counts) -> NDArray[np.bool_]:
        """Which classes would keep an impossible weight, if a part is taken out and `counts` rows remain."""
        left = (self.weights - part.weights) + (self.weight_tails - part.weight_tails)
        rounding = _WEIGHT_TOL * self.weights
        return np.where(counts == 0, np.abs(left) > rounding, left <= rounding)

    # ------------------------------------------------------------------ moments compare

    def is_close(self, other: Self, rtol: float) -> bool:
        """Whether the two agree to `rtol`, judged on the scale of each feature."""
        spread = np.sqrt(self.diagonal)
        size = np.abs(self.means) + spread / np.sqrt(self.weights)[:, None]
        gap = (other.means - self.means) + (other.low_means - self.low_means)
        return bool(
            (np.abs(other.weights - self.weights) <= rtol * self.weights).all()
            and (np.abs(gap) <= rtol * size).all()
            and (np.abs(other.scatter - self.scatter) <= rtol * self.kind.outer(spread)).all()
        )

    # ------------------------------------------------------------------ moments are read out

    @property
    def rounded_means(self) -> Array:
        """The mean of each class, to the precision of float64: (K, d)."""
        return self.means + self.low_means

    @property
    def mean_tails(self) -> Array:
        """The low part of each mean, which `rounded_means` lacks: (K, d)."""
        left = self.rounded_means
        np.subtract(self.means, left, out=left)
        left += self.low_means
        return left

    @property
    @_OVERFLOWING
    def sums(self) -> Array:
        """Σ w x of each class: (K, d)."""
        weights = self.weights[:, None]
        return weights * self.means + weights * self.low_means

    @property
    @_OVERFLOWING
    def outer_sums(self) -> Array:
        """Σ w x xᵀ in the shape of the scatter."""
        return self.scatter + self.kind.outer(np.sqrt(self.weights)[:, None] * self.means)

    @_OVERFLOWING
    def covariance(self, ddof: float) -> Array:
        """The scatter divided by the weight less `ddof`; ZeroDivisionError if that is not positive."""
        freedom = self.kind.freedom(self.scatter, self.weights, ddof)
        if not (freedom > 0).all():
            raise ZeroDivisionError
        return self.scatter / freedom

    def check_squares(self, names: tuple[str, ...] | None) -> None:
        """Raise ValueError if a feature is so small that float64 does not hold all digits of its squares."""
        if not len(self.means):
            return
        largest = np.maximum(self.means.max(axis=0), -self.means.min(axis=0))
        is_small = largest < _LEAST_SQUARE**0.5
        if not is_small.any():
            return
        variances = self.total_variance
        is_small &= variances < _LEAST_SQUARE
        is_small &= (largest > 0) | (variances > 0)
        if is_small.any():
            j = int(is_small.argmax())
            raise ValueError(
                f"feature {repr(names[j]) if names else j} is too small: float64 does not hold all digits of "
                "its squares. Multiply it by a power of ten first"
            )

    @property
    @_OVERFLOWING
    def overall_mean(self) -> Array:
        """The mean of all classes together: (d,)."""
        _, shift = self._offsets()
        mean: Array = self.means[0] + shift
        return mean

    def _offsets(self) -> tuple[Array, Array]:
        """The distances of all classes, and of their mean, from the mean of the first."""
        offsets = self.means - self.means[0]
        offsets += self.low_means
        return offsets, self.weights / self.weights.sum() @ offsets

    @property
    @_OVERFLOWING
    def total_variance(self) -> Array:
        """The variance of each feature over the rows of all classes together: (d,)."""
        offsets, shift = self._offsets()
        offsets -= shift
        offsets *= offsets
        between = self.weights @ offsets
        total: Array = (self.diagonal.sum(axis=0) + between) / self.weights.sum()
        return total

    # ------------------------------------------------------------------ moments add up

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
        rows: Selection = slice(None)  # all, unless a copy of some takes less time
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


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and, exactly, what rounding left (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = a + b
    b_seen = total - a
    return total, (a - (total - b_seen)) + (b - b_seen)


def sums_of_weights(weights: Array, bounds: Bounds) -> tuple[Array, Array]:
    """The weight of each class, and what rounding leaves of it.

    The leading bits of the weights lie on a coarse grid, so they add up exactly. The rest of the weights is
    so small that the rounding of its sum does not matter: Rump, Ogita & Oishi (2008), "Accurate
    floating-point summation, part I".
    """
    starts, counts = bounds[:-1], np.diff(bounds)
    _, exponents = np.frexp(np.maximum.reduceat(weights, starts) * 2.0**-60 * counts)
    grid = np.where(exponents < 962, np.ldexp(1.0, exponents + 61), 0.0)
    leading = weights + np.repeat(grid, counts)
    leading -= np.repeat(grid, counts)
    return two_sum(np.add.reduceat(leading, starts), np.add.reduceat(weights - leading, starts))


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and, exactly, what rounding left (Dekker 1971; Veltkamp's split)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    left = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, left


def _halves(values: Array) -> tuple[Array, Array]:
    scaled = _SPLIT * values
    high = scaled - (scaled - values)
    return high, values - high


def as_slice(places: Indices) -> Selection:
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
