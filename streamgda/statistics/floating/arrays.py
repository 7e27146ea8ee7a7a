"""The arrays of moments: those of some classes or features, and what is read out of them.

A mean is kept as the unevaluated sum of two float64 numbers, ``means + low_means``. The difference of two
means, on which the merge rests, is then right to the last digit even if the mean is 10^12 times the
deviation. Nor does a mean stop changing after 10^16 rows. A weight is kept in the same way, ``weights +
weight_tails``. So the same rows have the same weight, however they were cut and merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, Bounds, CovarianceKind, Indices, Rows, kind_named
from streamgda.statistics.labelled import Counts
from streamgda.statistics.required import Required

_LEAST_SQUARE = float(np.finfo(np.float64).tiny)  # smaller numbers have fewer digits
_SPLIT = 2.0**27 + 1  # of Veltkamp
_WEIGHT_TOL = 1e-13  # a larger difference of weights is not rounding

_OVERFLOWING = np.errstate(over="ignore", invalid="ignore")  # what exceeds float64 is infinite


@dataclass
class MomentArrays:
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
        Writes what is left to be written into the arrays of such moments, and returns what follows. It may be
        called again.
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

    def equals(self, other: MomentArrays) -> bool:
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

    def take(self, classes: Rows) -> Self:
        """The moments of some classes."""
        shared: Any = self.scatter if self.kind.is_pooled else None
        arrays = [array if array is shared else array[classes] for array in self.arrays]
        return type(self)(self.kind, *arrays)

    def put(self, classes: Rows, part: Self) -> None:
        """Write the moments of some classes back."""
        shared = self.scatter if self.kind.is_pooled else None
        for ours, theirs in zip(self.arrays, part.arrays, strict=True):
            if ours is not theirs:  # as a scatter that both share
                ours[... if ours is shared else classes] = theirs

    def with_rows(self, classes: Rows, part: Self) -> Self:
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

    def close(self, other: Self, rtol: float) -> bool:
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
        freedom = self.kind.freedom(self.weights, ddof)
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
        for j in np.flatnonzero(is_small & ((largest > 0) | (variances > 0))):
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


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and, exactly, what rounding left (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = a + b
    b_seen = total - a
    return total, (a - (total - b_seen)) + (b - b_seen)


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
