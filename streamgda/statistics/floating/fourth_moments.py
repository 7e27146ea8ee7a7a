"""Moments with third and fourth co-moments of each class, from which automatic shrinkage is computed.

With u = x − m, the deviation of a row from the mean of its class, they are Σ w u_i² u_j and Σ w u_i² u_j².
Like the scatter they are centred, and never sums of raw powers. To merge, both sides are moved from their
own mean to the common one and added: the pairwise formulas of Pébay (2008, "Formulas for robust, one-pass
parallel computation of covariances and arbitrary-order statistical moments", SAND2008-6212, sec. 3) for two
features at a time. To take rows out, the whole and the part are moved to the mean of what remains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, Never, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, Bounds, CovarianceKind, Indices
from streamgda.statistics.floating.moments import Moments, as_slice
from streamgda.statistics.required import Required

_FOURTH_TOL = 1e-6  # left by taking rows out, on the scale of the features' own fourth moments
_ELEMENTS_IN_CACHE = 1 << 16  # of each array that a shift works on


@dataclass
class FourthMoments(Moments):
    """Moments of K classes of d features, with their co-moments about the class means.

    Attributes
    ----------
    third : ndarray of shape (K, d, d)
        Σ w u_i² u_j.
    fourth : ndarray of shape (K, d, d)
        Σ w u_i² u_j².
    """

    third: Array
    fourth: Array

    fourth_moments = True
    arrays = property(
        attrgetter("weights", "weight_tails", "means", "low_means", "scatter", "third", "fourth")
    )
    powers = "fourth powers"

    @classmethod
    def shapes(cls, kind: CovarianceKind, n_classes: int, n_features: int) -> list[tuple[int, ...]]:
        """The shapes of all arrays."""
        return [*super().shapes(kind, n_classes, n_features), *[(n_classes, n_features, n_features)] * 2]

    @property
    def roots(self) -> Array:
        """The root of each feature's own fourth moment: (K, d)."""
        roots: Array = np.sqrt(np.einsum("kii->ki", self.fourth))
        return roots

    @property
    def largest(self) -> float:
        """The largest fourth moment."""
        return float(np.einsum("kii->ki", self.fourth).max(initial=0.0))

    def are_finite(self) -> bool:
        """Whether no value was NaN or infinite and no power of it exceeded float64."""
        return super().are_finite() and bool(np.isfinite(np.einsum("kii->ki", self.fourth)).all())

    def is_close(self, other: Self, rtol: float) -> bool:
        """Whether the two agree to `rtol`, judged on the scale of each feature."""
        size_of_third = self.roots[:, :, None] * np.sqrt(self.diagonal)[:, None, :]
        size_of_fourth = self.kind.outer(self.roots)
        return bool(
            super().is_close(other, rtol)
            and (np.abs(other.third - self.third) <= rtol * size_of_third).all()
            and (np.abs(other.fourth - self.fourth) <= rtol * size_of_fourth).all()
        )

    # ------------------------------------------------------------------ rows go in

    def add_powers(self, rows: Array, weights: Array | None, bounds: Bounds) -> None:
        """Add the powers of the rows √w u, which are the first of their classes."""
        weights = np.ones(rows.shape[1]) if weights is None else weights
        for k, (start, stop) in enumerate(pairwise(bounds)):
            if stop - start > 1:
                of_class = rows[:, start:stop]
                squares = of_class * of_class / np.sqrt(weights[start:stop])
                np.matmul(squares, of_class.T, out=self.third[k])
                np.matmul(squares, squares.T, out=self.fourth[k])

    # ------------------------------------------------------------------ by class

    def narrowed(self, required: Required) -> Any:
        """A copy that keeps no more than is required."""
        if required.fourth_moments:
            return super().narrowed(required)
        return Moments(self.kind, *self.arrays[:5]).narrowed(required)

    def selected(self, features: Indices) -> Self:
        """The moments of some features, in this order."""
        some = np.s_[:, features[:, None], features]
        third, fourth = np.ascontiguousarray(self.third[some]), np.ascontiguousarray(self.fourth[some])
        return replace(super().selected(features), third=third, fourth=fourth)

    def placed(self, features: Indices, n_features: int) -> Self:
        """The moments of `n_features` features, of which these are at the given places, and zeros."""
        wider = super().placed(features, n_features)
        wider.third[:, features[:, None], features] = self.third
        wider.fourth[:, features[:, None], features] = self.fourth
        return wider

    def scaled(self, factor: float) -> Self:
        """The moments with every weight multiplied by a factor."""
        return replace(super().scaled(factor), third=self.third * factor, fourth=self.fourth * factor)

    def mapped(self, A: Array, b: Array) -> Never:
        """Raise ValueError."""
        raise ValueError(
            "the fourth moments of a linear map do not follow from those that are kept; leave them out "
            "first with to_covariance_type('full')"
        )

    # ------------------------------------------------------------------ moments add up

    def _bounds_of_sum(self, other: Self, places: Indices) -> tuple[float, float]:
        bound, gap = super()._bounds_of_sum(other, places)
        return 64.0 * (self.largest + other.largest + gap * bound), gap

    def _sum(self, other: Self, places: Indices) -> Self:
        step = max(1, _ELEMENTS_IN_CACHE // max(1, self.n_features) ** 2)

        def following(start: int, moments: Self) -> Callable[[Any], object] | None:
            """What writes the sums of a few classes, since a copy of all would need more memory."""
            if start >= len(places):
                return None
            some = slice(start, start + step)
            rows = as_slice(places[some])
            part = moments.take(rows)._sum_of_few(other.take(some))

            def write(moments: Self) -> Callable[[Any], object]:
                moments.put(rows, part)
                return partial(following, some.stop)

            return write

        return replace(self, unwritten=partial(following, 0))

    def _sum_of_few(self, other: Self) -> Self:
        total = super(FourthMoments, self.copy())._sum(other, np.arange(len(self.weights)))
        total.write()
        gap = (other.means - self.means) + (other.low_means - self.low_means)
        third, fourth = self._shifted(-(other.weights / total.weights)[:, None] * gap)
        their_third, their_fourth = other._shifted((self.weights / total.weights)[:, None] * gap)
        third += their_third
        fourth += their_fourth
        return replace(total, third=third, fourth=fourth)

    def _minus(self, part: Self) -> Self:
        rest = super()._minus(part)
        gap = (part.means - self.means) + (part.low_means - self.low_means)
        retreat = gap * (part.weights / rest.weights)[:, None]
        third, fourth = self._shifted(retreat)
        their_third, their_fourth = part._shifted(gap + retreat)
        third -= their_third
        fourth -= their_fourth
        return replace(rest, third=third, fourth=fourth)

    def _clip_rest(self, whole: Self, is_single: NDArray[np.bool_], hidden: Array | float) -> None:
        """Remove the rounding of this difference from `whole`.

        The co-moments of constant features become zero, and Σ w u_i² u_j² becomes at least
        (Σ w u_i u_j)² / Σ w, as the inequality of Cauchy and Schwarz demands.
        """
        super()._clip_rest(whole, is_single, hidden)
        least = self.scatter**2 / self.weights[:, None, None]
        roots = whole.roots + np.sqrt(self.weights)[:, None] * (np.finfo(np.float64).eps * self.means) ** 2
        rounding = (_FOURTH_TOL + self._lost(whole))[:, None, None] * self.kind.outer(roots)
        if (self.fourth < least - rounding).any():
            raise ValueError("fourth moments would be too small: these rows never went into the state")
        constant = self.diagonal <= 0
        for moments in (self.third, self.fourth):
            moments[constant] = 0.0
            moments.transpose(0, 2, 1)[constant] = 0.0
        np.maximum(self.fourth, least, out=self.fourth)

    def _shifted(self, shifts: Array) -> tuple[Array, Array]:
        """The co-moments of the same rows about m − p, where p is a shift (K, d): Σ of powers of u + p.

        Σ w u vanishes, so besides these moments only the weight and the scatter are needed.
        """
        third, fourth = self.third.copy(), self.fourth.copy()
        n_classes, n_features = shifts.shape
        step = max(1, _ELEMENTS_IN_CACHE // max(n_features, 1) ** 2)
        for start in range(0, n_classes, step):
            of = slice(start, start + step)
            _shift(third[of], fourth[of], shifts[of], self.weights[of], self.scatter[of])
        return third, fourth

    # ------------------------------------------------------------------ pickles, and columns of a table

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "fourth": self.kind.packed(self.fourth)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.fourth = self.kind.unpacked(self.fourth, *self.means.shape)

    def more_columns(self) -> dict[str, Array]:
        """The columns of the higher powers in a table."""
        n_classes, n_features = self.means.shape
        return {
            "third_moment": self.third.reshape(n_classes, n_features**2),
            "fourth_moment": self.kind.packed(self.fourth),
        }

    @classmethod
    def more_shapes(cls, kind: CovarianceKind, n_classes: int, n_features: int) -> dict[str, tuple[int, ...]]:
        """The shapes of these columns."""
        return {
            "third_moment": (n_classes, n_features**2),
            "fourth_moment": (n_classes, kind.n_pairs(n_features)),
        }

    @classmethod
    def more_arrays(cls, kind: CovarianceKind, columns: Mapping[str, Array]) -> tuple[Array, ...]:
        """The arrays of the higher powers, out of such columns."""
        n_classes, n_features = columns["mean"].shape
        third = columns["third_moment"].reshape(n_classes, n_features, n_features)
        return third, kind.unpacked(columns["fourth_moment"], n_classes, n_features)


def _shift(third: Array, fourth: Array, shifts: Array, weights: Array, scatter: Array) -> None:
    """Shift the moments of a few classes in place, so that intermediate arrays stay in the cache.

    The fourth moments grow by H + Hᵀ with H_ij = p_j (2 third_ij + p_j S_ii + 2 p_i S_ij + ½ W p_i² p_j).
    """
    p_i, p_j = shifts[:, :, None], shifts[:, None, :]
    mass = weights[:, None, None] * p_i * p_i * p_j
    half = third - mass / 2
    third += np.einsum("kii->ki", scatter)[:, :, None] * p_j
    third += 2 * p_i * scatter
    third += mass
    half += third
    half *= p_j
    fourth += half + half.transpose(0, 2, 1)
