"""Third and fourth co-moments of each class, from which automatic shrinkage is computed.

With u = x − m, the deviation of a row from the mean of its class, they are Σ w u_i² u_j and Σ w u_i² u_j².
Like the scatter they are centred, and never sums of raw powers. To merge, both sides are moved from their
own mean to the common one and added: the pairwise formulas of Pébay (2008, "Formulas for robust, one-pass
parallel computation of covariances and arbitrary-order statistical moments", SAND2008-6212, sec. 3) for two
features at a time. To take rows out, the whole and the part are moved to the mean of what remains.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from streamgda.statistics.covariances import Array, Bounds, Indices, Rows

_FOURTH_TOL = 1e-6  # left by taking rows out, on the scale of the features' own fourth moments
_ELEMENTS_IN_CACHE = 1 << 16  # of each array that a shift works on


@dataclass
class FourthMoments:
    """Co-moments of K classes of d features about the class means.

    Attributes
    ----------
    third : ndarray of shape (K, d, d)
        Σ w u_i² u_j.
    fourth : ndarray of shape (K, d, d)
        Σ w u_i² u_j².
    """

    third: Array
    fourth: Array

    @classmethod
    def zeros(cls, n_classes: int, n_features: int) -> FourthMoments:
        """The moments of no rows."""
        shape = (n_classes, n_features, n_features)
        return cls(np.zeros(shape), np.zeros(shape))

    @classmethod
    def from_rows(cls, rows: Array, weights: Array, bounds: Bounds) -> FourthMoments:
        """The moments of rows √w u (d, n), where class k holds rows bounds[k]:bounds[k + 1]."""
        moments = cls.zeros(len(bounds) - 1, len(rows))
        for k, (start, stop) in enumerate(pairwise(bounds)):
            if stop - start > 1:
                of_class = rows[:, start:stop]
                squares = of_class * of_class / np.sqrt(weights[start:stop])
                np.matmul(squares, of_class.T, out=moments.third[k])
                np.matmul(squares, squares.T, out=moments.fourth[k])
        return moments

    @property
    def arrays(self) -> tuple[Array, Array]:
        """All arrays."""
        return self.third, self.fourth

    def copy(self) -> FourthMoments:
        """Moments that share nothing with these."""
        return FourthMoments(self.third.copy(), self.fourth.copy())

    def take(self, classes: Rows) -> FourthMoments:
        """The moments of some classes."""
        return FourthMoments(self.third[classes], self.fourth[classes])

    def put(self, classes: Rows, part: FourthMoments) -> None:
        """Write the moments of some classes back."""
        self.third[classes] = part.third
        self.fourth[classes] = part.fourth

    def selected(self, features: Indices) -> FourthMoments:
        """The moments of some features, in this order."""
        third, fourth = (
            np.ascontiguousarray(moments[:, features[:, None], features]) for moments in self.arrays
        )
        return FourthMoments(third, fourth)

    def scaled(self, factor: float) -> FourthMoments:
        """The moments with every weight multiplied by a factor."""
        return FourthMoments(self.third * factor, self.fourth * factor)

    def shifted(self, shifts: Array, weights: Array, scatter: Array) -> FourthMoments:
        """The moments of the same rows about m − p, where p is a shift (K, d): Σ of powers of u + p.

        Σ w u vanishes, so besides these moments only the weight and the scatter are needed.
        """
        moved = self.copy()
        n_classes, n_features = shifts.shape
        step = max(1, _ELEMENTS_IN_CACHE // max(n_features, 1) ** 2)
        for start in range(0, n_classes, step):
            of = slice(start, start + step)
            part = FourthMoments(moved.third[of], moved.fourth[of])
            part._shift(shifts[of], weights[of], scatter[of])
        return moved

    def _shift(self, shifts: Array, weights: Array, scatter: Array) -> None:
        """Shift the moments of a few classes in place, so that intermediate arrays stay in the cache.

        The fourth moments grow by H + Hᵀ with H_ij = p_j (2 third_ij + p_j S_ii + 2 p_i S_ij + ½ W p_i² p_j).
        """
        p_i, p_j = shifts[:, :, None], shifts[:, None, :]
        mass = weights[:, None, None] * p_i * p_i * p_j
        half = self.third - mass / 2
        self.third += np.einsum("kii->ki", scatter)[:, :, None] * p_j
        self.third += 2 * p_i * scatter
        self.third += mass
        half += self.third
        half *= p_j
        self.fourth += half + half.transpose(0, 2, 1)

    def __iadd__(self, other: FourthMoments) -> Self:
        self.third += other.third
        self.fourth += other.fourth
        return self

    def __isub__(self, other: FourthMoments) -> Self:
        self.third -= other.third
        self.fourth -= other.fourth
        return self

    def clip(self, weights: Array, means: Array, scatter: Array, whole: FourthMoments, lost: Array) -> None:
        """Remove, in place, the rounding of moments that were taken from a whole.

        Those of constant features become zero, and Σ w u_i² u_j² becomes at least (Σ w u_i u_j)² / Σ w, as
        the inequality of Cauchy and Schwarz demands. `lost` (K,) is the part that the rounding of weights may
        hide.

        Raises
        ------
        ValueError
            If Σ w u_i² u_j² is smaller than that by more than rounding explains.
        """
        least = scatter**2 / weights[:, None, None]
        roots = whole.roots + np.sqrt(weights)[:, None] * (np.finfo(np.float64).eps * means) ** 2
        rounding = (_FOURTH_TOL + lost)[:, None, None] * _outer(roots, roots)
        if (self.fourth < least - rounding).any():
            raise ValueError("fourth moments would be too small: these rows never went into the state")
        constant = np.einsum("kii->ki", scatter) <= 0
        for moments in self.arrays:
            moments[constant] = 0.0
            moments.transpose(0, 2, 1)[constant] = 0.0
        np.maximum(self.fourth, least, out=self.fourth)

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
        """Whether no fourth power exceeded float64."""
        return bool(np.isfinite(np.einsum("kii->ki", self.fourth)).all())

    def close(self, other: FourthMoments, variances: Array, rtol: float) -> bool:
        """Whether they agree to `rtol`, judged on the scale of the features, given their variances (K, d)."""
        size_of_third = _outer(self.roots, np.sqrt(variances))
        size_of_fourth = _outer(self.roots, self.roots)
        return bool(
            (np.abs(other.third - self.third) <= rtol * size_of_third).all()
            and (np.abs(other.fourth - self.fourth) <= rtol * size_of_fourth).all()
        )


def _outer(a: Array, b: Array) -> Array:
    """The outer product of the vectors (K, d) of each class."""
    product: Array = a[:, :, None] * b[:, None, :]
    return product
