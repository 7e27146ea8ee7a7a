"""Moments: their arrays, and how they are merged and taken apart.

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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import Message
from streamgda.statistics.covariances import Array, CovarianceKind, Indices, Rows, kind_named
from streamgda.statistics.floating.fourth_moments import FourthMoments
from streamgda.statistics.labelled import Counts
from streamgda.statistics.required import Required

_MEANS_IN_CACHE = 1 << 14  # elements of each of the dozen arrays that a merge works on
_SCATTER_IN_CACHE = 1 << 16  # the same, of its three arrays of products

_EPS = float(np.finfo(np.float64).eps)
_LEAST_SQUARE = float(np.finfo(np.float64).tiny)  # smaller numbers have fewer digits
_SPLIT = 2.0**27 + 1  # of Veltkamp
_NOTHING, _FOURTH = frozenset[str](), frozenset({"fourth_moments"})

# Differences of moments, relative to the moments that were subtracted.
NOISE = 64 * 2.0**-52  # a scatter that is no larger may be rounding alone, and counts as zero
_SCATTER_TOL = 1e-8  # a scatter below minus this, or a larger gap between means, is not rounding
_WEIGHT_TOL = 1e-13  # a larger difference of weights is not rounding


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
    fourth : FourthMoments or None
        Third and fourth moments, if they are kept. They need a scatter matrix for each class.
    unwritten : tuple, or None
        Classes, the moments that are to be written there, and what returns the attributes after that.
    """

    kind: CovarianceKind
    weights: Array
    weight_tails: Array
    means: Array
    low_means: Array
    scatter: Array
    fourth: FourthMoments | None = None
    unwritten: tuple[Rows, Moments, Callable[[], dict[str, Any]] | None] | None = None

    @classmethod
    def zeros(cls, kind: CovarianceKind, n_classes: int, n_features: int, *, fourth: bool = False) -> Self:
        """The moments of no rows."""
        shape = (n_classes, n_features)
        return cls(
            kind,
            np.zeros(n_classes),
            np.zeros(n_classes),
            np.zeros(shape),
            np.zeros(shape),
            kind.zeros(*shape),
            FourthMoments.zeros(*shape) if fourth else None,
        )

    def zeros_like(self, n_classes: int, n_features: int) -> Self:
        """The moments of no rows, of the same kind."""
        return self.zeros(self.kind, n_classes, n_features, fourth=self.fourth is not None)

    # ------------------------------------------------------------------ what is kept

    @property
    def extra(self) -> frozenset[str]:
        """What is kept besides, as in `Required`."""
        return _NOTHING if self.fourth is None else _FOURTH

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return int(self.means.shape[1])

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays."""
        return (
            self.weights,
            self.weight_tails,
            self.means,
            self.low_means,
            self.scatter,
            *(self.fourth.arrays if self.fourth else ()),
        )

    @property
    def diagonal(self) -> Array:
        """Each feature's own scatter: (K, d), or (1, d) where the classes share it."""
        return self.kind.diagonal(self.scatter)

    def weight_text(self, k: int) -> str:
        """The weight of a class as an error names it."""
        return f"{self.weights[k]:g}"

    def are_finite(self) -> bool:
        """Whether no value was NaN or infinite and no power of it exceeded float64."""
        return (
            bool(np.isfinite(self.means).all())
            and bool(np.isfinite(self.low_means).all())
            and bool(np.isfinite(self.diagonal).all())
            and (self.fourth is None or self.fourth.are_finite())
        )

    def equals(self, other: Moments) -> bool:
        """Whether the two are the same to the last bit."""
        return all(map(np.array_equal, self.arrays, other.arrays))

    # ------------------------------------------------------------------ pickles

    def __getstate__(self) -> dict[str, Any]:
        """Pickle each product of two features once, to send fewer bytes between processes."""
        third, fourth = self.fourth.arrays if self.fourth else (None, None)
        packed = None if fourth is None else self.kind.packed(fourth)
        return {**vars(self), "scatter": self.kind.packed(self.scatter), "fourth": (third, packed)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        unpacked, shape = state["kind"].unpacked, state["means"].shape
        third, fourth = state["fourth"]
        moments = None if fourth is None else FourthMoments(third, unpacked(fourth, *shape))
        vars(self).update(state, scatter=unpacked(state["scatter"], *shape), fourth=moments)

    # ------------------------------------------------------------------ by class

    def copy(self) -> Self:
        """Moments that share nothing with these."""
        return type(self)(
            self.kind,
            self.weights.copy(),
            self.weight_tails.copy(),
            self.means.copy(),
            self.low_means.copy(),
            self.scatter.copy(),
            self.fourth and self.fourth.copy(),
        )

    def take(self, classes: Rows) -> Self:
        """The moments of some classes."""
        return type(self)(
            self.kind,
            self.weights[classes],
            self.weight_tails[classes],
            self.means[classes],
            self.low_means[classes],
            self.scatter if self.kind.is_pooled else self.scatter[classes],
            self.fourth and self.fourth.take(classes),
        )

    def put(self, classes: Rows, part: Moments) -> None:
        """Write the moments of some classes back."""
        self.weights[classes] = part.weights
        self.weight_tails[classes] = part.weight_tails
        self.means[classes] = part.means
        self.low_means[classes] = part.low_means
        if part.scatter is not self.scatter:  # which the classes may share
            self.kind.put(self.scatter, classes, part.scatter)
        if self.fourth and part.fourth:
            self.fourth.put(classes, part.fourth)

    def with_rows(self, classes: Rows, part: Self) -> Self:
        """These moments with others in place of those of some classes, once they are written.

        Writing a few rows of large arrays may be interrupted. So the result, which shares its arrays with
        these moments, replaces them before `write` is called, and that can be called again.
        """
        if len(part.weights) == len(self.weights):
            return part
        return type(self)(
            self.kind,
            self.weights,
            self.weight_tails,
            self.means,
            self.low_means,
            part.scatter if self.kind.is_pooled else self.scatter,
            self.fourth,
            (classes, part, None),
        )

    def write(self) -> None:
        """Write the rows that are left to be written, also after an interruption of this method."""
        while self.unwritten is not None:
            classes, part, following = self.unwritten
            self.put(classes, part)
            if following is None:
                self.unwritten = None
            else:
                vars(self).update(following())

    def reindexed(self, n_classes: int, places: Indices) -> Self:
        """The same moments in arrays of `n_classes` classes, at these places; zeros elsewhere."""
        wider = self.zeros_like(n_classes, self.n_features)
        wider.put(places, self)
        return wider

    def narrowed(self, required: Required) -> Self:
        """A copy that keeps no more than is required.

        Raises
        ------
        ValueError
            If these keep too little.
        """
        kind, fourth = kind_named(required.covariance_type), "fourth_moments" in required.extra
        if fourth:
            check_fourth_moments(kind)
        if fourth and self.fourth is None:
            raise ValueError(
                Message(
                    "this state holds no fourth moments, which ⟨shrinkage='auto'⟩ is worked out from; "
                    "⟨accumulate|learn⟩ with ⟨fourth_moments=True⟩"
                )
            )
        narrow = replace(self, kind=kind, scatter=kind.narrowed(self.scatter, self.kind))
        return (narrow if fourth else replace(narrow, fourth=None)).copy()

    def selected(self, features: Indices) -> Self:
        """The moments of some features, in this order."""
        positions = self.kind.positions_of(features, self.n_features)
        packed = self.kind.packed(self.scatter)[:, positions]
        return replace(
            self.copy(),
            means=self.means[:, features],
            low_means=self.low_means[:, features],
            scatter=self.kind.unpacked(packed, len(self.weights), len(features)),
            fourth=self.fourth and self.fourth.selected(features),
        )

    def placed(self, features: Indices, n_features: int) -> Self:
        """The moments of `n_features` features, of which these are at the given places, and zeros."""
        wider = self.zeros_like(len(self.weights), n_features)
        packed = self.kind.packed(wider.scatter)
        packed[:, self.kind.positions_of(features, n_features)] = self.kind.packed(self.scatter)
        wider.means[:, features], wider.low_means[:, features] = self.means, self.low_means
        if wider.fourth and self.fourth:
            for wide, narrow in zip(wider.fourth.arrays, self.fourth.arrays, strict=True):
                wide[:, features[:, None], features] = narrow
        return replace(
            wider,
            weights=self.weights.copy(),
            weight_tails=self.weight_tails.copy(),
            scatter=self.kind.unpacked(packed, *wider.means.shape),
        )

    def without_pooled(self, classes: Indices) -> Self:
        """The moments of some classes, with zeros in place of a scatter that the classes share."""
        part = self.take(classes)
        return replace(part, scatter=self.kind.zeros(*part.means.shape)) if self.kind.is_pooled else part

    # ------------------------------------------------------------------ all classes as one

    def total(self) -> Self:
        """The moments of the rows of all classes, as those of one class."""
        first = np.array([0])
        total = self.take(first).copy()
        for k in range(1, len(self.weights)):
            total.merge(self.take(slice(k, k + 1)), first)
        return total

    # ------------------------------------------------------------------ weights

    def scaled(self, factor: float) -> Self:
        """The moments with every weight multiplied by a factor."""
        return replace(
            self,
            weights=self.weights * factor,
            weight_tails=self.weight_tails * factor,
            scatter=self.scatter * factor,
            fourth=self.fourth and self.fourth.scaled(factor),
        )

    def least_squares(self, counts: Counts) -> Array:
        """Σ w² of the rows of each class if they have equal weights, W² / n. It is never less."""
        squares: Array = self.weights * (self.weights / counts)
        return squares

    def overdrawn(self, part: Moments, counts: Counts) -> NDArray[np.bool_]:
        """Which classes would keep an impossible weight, if a part is taken out and `counts` rows remain."""
        left = (self.weights - part.weights) + (self.weight_tails - part.weight_tails)
        rounding = _WEIGHT_TOL * self.weights
        return np.where(counts == 0, np.abs(left) > rounding, left <= rounding)

    # ------------------------------------------------------------------ moments add up

    def merge(self, other: Moments, places: Indices) -> None:
        """Add to the classes at these places, in place. If it raises, nothing has changed.

        The result has the same bits whichever of the two comes first.

        Raises
        ------
        ValueError
            If a weight, or a power of the features, would exceed float64.
        """
        self._check_sum(other, places)
        self._add(other, places)

    def merged(self, other: Self, places: Indices, *, owned: bool = False) -> Self:
        """The moments with others added to the classes at these places; see `with_rows`.

        If the other is `owned`, its arrays may become those of the result.

        Raises
        ------
        ValueError
            As of `merge`.
        """
        self._check_sum(other, places)
        rows = as_slice(places)
        ours = self.take(rows)
        if len(places) <= self._n_fitting:
            total, spread = ours._sum_of_few(other)
        elif owned:
            total, spread = other, other._add_by_class(ours, np.arange(len(places)))
        else:  # a few classes at a time, since a copy of all would need more memory
            total = replace(self)
            vars(total).update(total._following(other, places, np.empty_like(other.means), 0))
            return total
        if self.kind.is_pooled:
            total.scatter = self._pooled(other, spread, owned=owned)
        return self.with_rows(rows, total)

    def _pooled(self, other: Moments, spread: Array, *, owned: bool = False) -> Array:
        """The pooled scatter of a sum."""
        scatter = other.scatter if owned else np.empty_like(self.scatter)
        if other.diagonal.any():  # single rows have no scatter
            np.add(self.scatter, other.scatter, out=scatter)
        else:
            np.copyto(scatter, self.scatter)
        self.kind.add_outer(scatter, spread)
        return scatter

    def _following(self, other: Moments, places: Indices, spread: Array, start: int) -> dict[str, Any]:
        """The attributes when classes before `start` are written, which tell to write the next few."""
        if start >= len(places):
            return {
                "unwritten": None,
                **({"scatter": self._pooled(other, spread)} if self.kind.is_pooled else {}),
            }
        some = slice(start, start + self._n_fitting)
        rows = as_slice(places[some])
        total, spread[some] = self.take(rows)._sum_of_few(other.take(some))
        return {"unwritten": (rows, total, partial(self._following, other, places, spread, some.stop))}

    def _is_far_from_overflow(self, other: Moments, places: Indices) -> bool:
        """Whether a quick bound proves that no sum exceeds float64."""
        rows = as_slice(places) if len(places) else places
        means, diagonal = self.means[rows], self.kind.take(self.diagonal, rows)
        weight = float(np.add.reduce(self.weights[rows])) + float(np.add.reduce(other.weights))
        gap = 2.0 * (float(np.vdot(means, means)) + float(np.vdot(other.means, other.means)))
        scatter = float(diagonal.max(initial=0.0)) + float(other.diagonal.max(initial=0.0))
        bound = 64.0 * (scatter + weight * gap)
        if self.fourth and other.fourth:
            bound = 64.0 * (self.fourth.largest + other.fourth.largest + gap * bound)
        return math.isfinite(bound)

    def _check_sum(self, other: Moments, places: Indices) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if self._is_far_from_overflow(other, places):
                return
            if not np.isfinite(self.weights[places] + other.weights).all():
                raise ValueError("the weights are too large: their sum exceeds float64. Rescale them first")
            total = self.take(places).copy()
            total._add(other, np.arange(len(places)))
        if not total.are_finite():
            powers = "squares" if self.fourth is None else "fourth powers"
            raise ValueError(f"the features are too large: their {powers} exceed float64. Rescale them first")

    def _add(self, other: Moments, places: Indices) -> None:
        """Add in place."""
        spread = self._add_by_class(other, places)
        if self.kind.is_pooled:
            if other.diagonal.any():  # single rows have no scatter
                self.scatter += other.scatter
            self.kind.add_outer(self.scatter, spread)

    def _add_by_class(self, other: Moments, places: Indices) -> Array:
        """Add in place all but a pooled scatter: a few classes at a time, so that temporary arrays are small.

        Returns the vectors whose outer products are to be added to a pooled scatter.
        """
        spread = np.empty_like(other.means)
        step = self._n_fitting
        for start in range(0, len(places), step):
            some = slice(start, start + step)
            few = other if len(places) <= step else other.take(some)
            rows = as_slice(places[some])
            total, spread[some] = self.take(rows)._sum_of_few(few)
            self.put(rows, total)
        return spread

    @property
    def _n_fitting(self) -> int:
        """Of how many classes the intermediate arrays of a merge fit in the cache; at least one."""
        of_class = self.scatter.size // max(1, len(self.weights))
        fitting = min(_MEANS_IN_CACHE // max(1, self.n_features), _SCATTER_IN_CACHE // max(1, of_class))
        return max(1, fitting)

    def _sum_of_few(self, other: Moments) -> tuple[Self, Array]:
        """The sum with moments of the same classes, but for a pooled scatter, and the vectors for that."""
        ours = self
        weights, rest = two_sum(ours.weights, other.weights)
        weights, weight_tails = two_sum(weights, rest + (ours.weight_tails + other.weight_tails))
        our_share = (ours.weights / weights)[:, None]
        their_share = (other.weights / weights)[:, None]
        # The mean that moves less is the anchor, whichever of the two comes first.
        heavier = np.where((ours.weights > other.weights)[:, None], ours.means, other.means)
        tie = (ours.weights == other.weights)[:, None]
        anchor = np.where(tie, np.maximum(ours.means, other.means), heavier)
        shift = our_share * ((ours.means - anchor) + ours.low_means)
        shift += their_share * ((other.means - anchor) + other.low_means)
        gap = (other.means - ours.means) + (other.low_means - ours.low_means)
        spread = gap * np.sqrt(our_share * their_share * weights[:, None])
        fourth = None
        if ours.fourth and other.fourth:
            fourth = ours.fourth.shifted(-their_share * gap, ours.weights, ours.scatter)
            fourth += other.fourth.shifted(our_share * gap, other.weights, other.scatter)
        means, low_means = two_sum(anchor, shift)
        scatter = ours.scatter
        if not self.kind.is_pooled:
            scatter = ours.scatter + other.scatter
            scatter += self.kind.outer(spread)
        return type(self)(self.kind, weights, weight_tails, means, low_means, scatter, fourth), spread

    def subtract(self, part: Moments, counts: Counts) -> Self:
        """The moments without the part, of the classes that keep rows: the merge, solved for one side.

        Raises
        ------
        ValueError
            If the part differs from a class that it empties, or no rows can have what is left.
        """
        emptied, kept = np.flatnonzero(counts == 0), np.flatnonzero(counts)
        _check_same_means(self.take(emptied), part.take(emptied))
        whole = self.take(kept)
        if not len(kept):
            return whole
        rest = whole._minus(part.take(kept))
        rest._clip_rest(whole, counts[kept] == 1)
        if rest.fourth and whole.fourth:
            rest.fourth.clip(rest.weights, rest.means, rest.scatter, whole.fourth, rest._lost(whole))
        return rest

    def _lost(self, whole: Moments) -> Array:
        """The share of `whole` that the rounding of weights may hide in this difference from it: (K,)."""
        lost: Array = NOISE * whole.weights / self.weights
        return lost.max(keepdims=True) if self.kind.is_pooled else lost

    def _minus(self, part: Moments) -> Self:
        """The moments of the other rows; their scatter may come out slightly negative on its diagonal."""
        weights, rest = two_sum(self.weights, -part.weights)
        weights, weight_tails = two_sum(weights, rest + (self.weight_tails - part.weight_tails))
        gap = (part.means - self.means) + (part.low_means - self.low_means)
        retreat = gap * (part.weights / weights)[:, None]
        means, low_means = two_sum(self.means, self.low_means - retreat)
        spread = gap * np.sqrt(part.weights * (self.weights / weights))[:, None]
        scatter = self.scatter - part.scatter
        scatter -= self.kind.outer(spread)
        fourth = None
        if self.fourth and part.fourth:
            fourth = self.fourth.shifted(retreat, self.weights, self.scatter)
            fourth -= part.fourth.shifted(gap + retreat, part.weights, part.scatter)
        return replace(
            self,
            weights=weights,
            weight_tails=weight_tails,
            means=means,
            low_means=low_means,
            scatter=scatter,
            fourth=fourth,
        )

    def _clip_rest(self, whole: Moments, is_single: NDArray[np.bool_]) -> None:
        """Clip the rounding of this difference from `whole`. A class with one row left does not vary."""
        value_rounding = self.weights[:, None] * (np.finfo(np.float64).eps * self.means) ** 2
        if self.kind.is_pooled:
            value_rounding = value_rounding.sum(axis=0, keepdims=True)
            is_single = np.array([bool(is_single.all())])
        noise = NOISE * whole.diagonal + value_rounding
        noise[is_single] += ((_SCATTER_TOL + self._lost(whole))[:, None] * whole.diagonal)[is_single]
        scale = (1 + self._lost(whole)[:, None] / _SCATTER_TOL) * whole.diagonal
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
            If fourth moments are kept, or a square would exceed float64.
        """
        if self.fourth is not None:
            raise ValueError(
                "the fourth moments of a linear map do not follow from those that are kept; leave them out "
                "first with to_covariance_type('full')"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            means, low_means = self._mapped_means(A, b)
            scatter = A @ self.scatter @ A.T
            scatter = (scatter + np.swapaxes(scatter, -1, -2)) / 2
        derived = replace(self.copy(), means=means, low_means=low_means, scatter=scatter)
        if not derived.are_finite():
            raise ValueError("the features are too large: their squares exceed float64. Rescale them first")
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

    # ------------------------------------------------------------------ moments compare

    def close(self, other: Moments, rtol: float) -> bool:
        """Whether the two agree to `rtol`, judged on the scale of each feature."""
        spread = np.sqrt(self.diagonal)
        size = np.abs(self.means) + spread / np.sqrt(self.weights)[:, None]
        gap = (other.means - self.means) + (other.low_means - self.low_means)
        return bool(
            (np.abs(other.weights - self.weights) <= rtol * self.weights).all()
            and (np.abs(gap) <= rtol * size).all()
            and (np.abs(other.scatter - self.scatter) <= rtol * self.kind.outer(spread)).all()
            and (not (self.fourth and other.fourth) or self.fourth.close(other.fourth, self.diagonal, rtol))
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

    @property
    def third_moments(self) -> Array | None:
        """Σ w u_i² u_j of each class, where they are kept: (K, d, d)."""
        return None if self.fourth is None else self.fourth.third

    @property
    def fourth_moments(self) -> Array | None:
        """Σ w u_i² u_j² of each class, where they are kept: (K, d, d)."""
        return None if self.fourth is None else self.fourth.fourth

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


def check_fourth_moments(kind: CovarianceKind) -> None:
    """Raise ValueError for a kind of covariance beside which there are no fourth moments."""
    if not kind.is_complete:
        raise ValueError(f"fourth moments are kept beside covariance type 'full' alone, not {kind.name!r}")


def as_slice(places: Indices) -> Rows:
    """The same places, as a slice if they are neighbours, so that taking them copies nothing."""
    start, stop = int(places[0]), int(places[-1]) + 1
    return slice(start, stop) if stop - start == len(places) else places


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


def _check_same_means(ours: Moments, theirs: Moments) -> None:
    """Raise ValueError if the rows of a class cannot be those that are taken out of it."""
    if not len(ours.weights):
        return
    gap = (theirs.means - ours.means) + (theirs.low_means - ours.low_means)
    deviation = np.sqrt(ours.diagonal / ours.weights[:, None])
    if (np.abs(gap) > _SCATTER_TOL * (np.abs(ours.means) + deviation)).any():
        raise ValueError("the means of a class differ: these rows never went into the state")
