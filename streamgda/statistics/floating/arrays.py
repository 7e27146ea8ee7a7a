"""The arrays of moments: what they hold, and how classes are taken from them and put into them.

A mean is kept as the unevaluated sum of two float64 numbers, ``means + low_means``. The difference of two
means, on which the merge rests, is then right to the last digit even if the mean is 10^12 times the
deviation. Nor does a mean stop changing after 10^16 rows. A weight is kept in the same way, ``weights +
low_weights``. So the same rows have the same weight, however they were cut and merged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from streamgda.blocks.wording import Message
from streamgda.statistics.covariances import Array, CovarianceKind, Indices, Rows
from streamgda.statistics.floating.fourth_moments import FourthMoments


@dataclass
class MomentArrays:
    """Weight, mean and scatter of each class, the first two to twice the precision of float64.

    Attributes
    ----------
    kind : CovarianceKind
        What is kept of the scatter.
    weights, low_weights : ndarray of shape (n_classes,)
        Their sum is the weight of a class.
    means, low_means : ndarray of shape (n_classes, n_features)
        Their sum is the mean of a class.
    scatter : ndarray
        Σ w (x − mean)(x − mean)ᵀ, in a shape that `kind` gives.
    fourth : FourthMoments or None
        Third and fourth moments, if they are kept. They need a scatter matrix for each class.
    """

    kind: CovarianceKind
    weights: Array
    low_weights: Array
    means: Array
    low_means: Array
    scatter: Array
    fourth: FourthMoments | None = None

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
        return self.zeros(self.kind, n_classes, n_features, fourth=self.has_fourth)

    # ------------------------------------------------------------------ what is kept

    @property
    def has_fourth(self) -> bool:
        """Whether fourth moments are kept."""
        return self.fourth is not None

    @property
    def n_features(self) -> int:
        """How many features a row has; 0 while nothing is known of them."""
        return int(self.means.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays."""
        return (
            self.weights,
            self.low_weights,
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

    def equals(self, other: MomentArrays) -> bool:
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
        return replace(
            self,
            weights=self.weights.copy(),
            low_weights=self.low_weights.copy(),
            means=self.means.copy(),
            low_means=self.low_means.copy(),
            scatter=self.scatter.copy(),
            fourth=self.fourth and self.fourth.copy(),
        )

    def take(self, classes: Rows) -> Self:
        """The moments of some classes."""
        return type(self)(
            self.kind,
            self.weights[classes],
            self.low_weights[classes],
            self.means[classes],
            self.low_means[classes],
            self.kind.take(self.scatter, classes),
            self.fourth and self.fourth.take(classes),
        )

    def put(self, classes: Rows, part: MomentArrays) -> None:
        """Write the moments of some classes back."""
        self.weights[classes] = part.weights
        self.low_weights[classes] = part.low_weights
        self.means[classes] = part.means
        self.low_means[classes] = part.low_means
        self.kind.put(self.scatter, classes, part.scatter)
        if self.fourth and part.fourth:
            self.fourth.put(classes, part.fourth)

    def reindexed(self, n_classes: int, places: Indices) -> Self:
        """The same moments in arrays of `n_classes` classes, at these places; zeros elsewhere."""
        wider = self.zeros_like(n_classes, self.n_features)
        wider.put(places, self)
        return wider

    def narrowed(self, kind: CovarianceKind, *, fourth: bool) -> Self:
        """A copy that keeps what another kind of covariance needs, and fourth moments if asked to.

        Raises
        ------
        ValueError
            If these keep too little.
        """
        check_fourth_moments(kind, fourth)
        if fourth and not self.has_fourth:
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
            low_weights=self.low_weights.copy(),
            scatter=self.kind.unpacked(packed, *wider.means.shape),
        )

    def without_pooled(self, classes: Indices) -> Self:
        """The moments of some classes, with zeros in place of a scatter that the classes share."""
        part = self.take(classes)
        return replace(part, scatter=self.kind.zeros(*part.means.shape)) if self.kind.is_pooled else part


def check_fourth_moments(kind: CovarianceKind, fourth: bool) -> None:
    """Raise ValueError if fourth moments are asked for beside a kind of covariance that has none."""
    if fourth and not kind.is_complete:
        raise ValueError(f"fourth moments are kept beside covariance type 'full' alone, not {kind.name!r}")
