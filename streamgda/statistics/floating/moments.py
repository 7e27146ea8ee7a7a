"""The one numerical kernel: rows to moments, and moments merged or taken apart.

A block is centred by its own class means and then multiplied with itself (the two-pass algorithm;
no sum of squares is ever formed). Moments are merged pairwise by the formula of Chan, Golub &
LeVeque (1983, "Algorithms for computing the sample variance", eq. 2.1) in the weighted matrix form
of Schubert & Gertz (2018, "Numerically stable parallel computation of (co-)variance", eq. 22).

A mean is kept as the unevaluated sum of two float64 numbers, ``means + tails``. The difference of
two means, on which the merge rests, is then good to the last digit even where the mean is 10^12
times the deviation; and a mean does not stand still after 10^16 rows have gone into it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamgda.statistics.covariances import Array, CovarianceKind
from streamgda.statistics.floating.fourth_moments import FourthMoments


@dataclass
class Moments:
    """Weight, mean and scatter of each class; the mean is ``means + tails``.

    Fourth moments are kept where they are asked for; they go with a scatter matrix for each class.
    """

    kind: CovarianceKind
    weights: Array
    means: Array
    tails: Array
    scatter: Array
    fourth: FourthMoments | None = None

    @classmethod
    def zeros(cls, kind: CovarianceKind, n_classes: int, n_features: int, *, fourth: bool = False) -> Moments:
        """The moments of no rows."""
        shape = (n_classes, n_features)
        return cls(
            kind,
            np.zeros(n_classes),
            np.zeros(shape),
            np.zeros(shape),
            kind.zeros(*shape),
            FourthMoments.zeros(*shape) if fourth else None,
        )

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All that is held."""
        return (
            self.weights,
            self.means,
            self.tails,
            self.scatter,
            *(self.fourth.arrays if self.fourth else ()),
        )

    @property
    def diagonal(self) -> Array:
        """Each feature's own scatter: (K, d), or (1, d) where the classes share it."""
        return self.kind.diagonal(self.scatter)

    def copy(self) -> Moments:
        """Moments that share nothing with these."""
        return Moments(
            self.kind,
            self.weights.copy(),
            self.means.copy(),
            self.tails.copy(),
            self.scatter.copy(),
            self.fourth and self.fourth.copy(),
        )

    def take(self, classes: NDArray[np.intp]) -> Moments:
        """The moments of some classes."""
        return Moments(
            self.kind,
            self.weights[classes],
            self.means[classes],
            self.tails[classes],
            self.kind.take(self.scatter, classes),
            self.fourth and self.fourth.take(classes),
        )

    def put(self, classes: NDArray[np.intp], part: Moments) -> None:
        """Write the moments of some classes back."""
        self.weights[classes] = part.weights
        self.means[classes] = part.means
        self.tails[classes] = part.tails
        self.kind.put(self.scatter, classes, part.scatter)
        if self.fourth and part.fourth:
            self.fourth.put(classes, part.fourth)

    def scale(self, factor: float) -> None:
        """Multiply every weight by a factor, in place."""
        self.weights *= factor
        self.scatter *= factor
        if self.fourth:
            self.fourth.scale(factor)

    def are_finite(self) -> bool:
        """Whether no value was NaN or infinite and no power of it exceeded float64."""
        finite = all(bool(np.isfinite(array).all()) for array in (self.means, self.tails, self.diagonal))
        return finite and (self.fourth is None or self.fourth.are_finite())


def merge(ours: Moments, theirs: Moments) -> Moments:
    """The moments of both sets of rows, for the same classes in the same order.

    The same bits whichever of the two comes first.
    """
    weights = ours.weights + theirs.weights
    our_share = (ours.weights / weights)[:, None]
    their_share = (theirs.weights / weights)[:, None]
    anchor = _heavier_mean(ours, theirs)
    shift = our_share * ((ours.means - anchor) + ours.tails)
    shift += their_share * ((theirs.means - anchor) + theirs.tails)
    means, tails = _two_sum(anchor, shift)
    gap = (theirs.means - ours.means) + (theirs.tails - ours.tails)
    spread = gap * np.sqrt(our_share * their_share * weights[:, None])
    scatter = ours.scatter + theirs.scatter
    scatter += ours.kind.outer(spread)
    fourth = None
    if ours.fourth and theirs.fourth:
        fourth = ours.fourth.about(-their_share * gap, ours.weights, ours.scatter)
        fourth += theirs.fourth.about(our_share * gap, theirs.weights, theirs.scatter)
    return Moments(ours.kind, weights, means, tails, scatter, fourth)


def _heavier_mean(ours: Moments, theirs: Moments) -> Array:
    """The mean that moves less, chosen without regard to the order of the two."""
    heavier = np.where((ours.weights > theirs.weights)[:, None], ours.means, theirs.means)
    tie = (ours.weights == theirs.weights)[:, None]
    return np.where(tie, np.maximum(ours.means, theirs.means), heavier)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and, exactly, what rounding left (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = a + b
    b_seen = total - a
    return total, (a - (total - b_seen)) + (b - b_seen)


def split_off(whole: Moments, part: Moments) -> Moments:
    """The moments of the rows that are in the whole but not in the part: the merge, solved for one side.

    Every class must keep some weight. A scatter may come out slightly negative on its diagonal.
    """
    weights = whole.weights - part.weights
    gap = (part.means - whole.means) + (part.tails - whole.tails)
    retreat = gap * (part.weights / weights)[:, None]
    means, tails = _two_sum(whole.means, whole.tails - retreat)
    spread = gap * np.sqrt(part.weights * (whole.weights / weights))[:, None]
    scatter = whole.scatter - part.scatter
    scatter -= whole.kind.outer(spread)
    fourth = None
    if whole.fourth and part.fourth:
        fourth = whole.fourth.about(retreat, whole.weights, whole.scatter)
        fourth -= part.fourth.about(gap + retreat, part.weights, part.scatter)
    return Moments(whole.kind, weights, means, tails, scatter, fourth)


def between_classes(held: Moments) -> tuple[Array, Array]:
    """The mean of all classes together, and the scatter of the class means about it, by feature."""
    anchor = held.means[0]
    offsets = (held.means - anchor) + held.tails
    shift = held.weights / held.weights.sum() @ offsets
    return anchor + shift, held.weights @ (offsets - shift) ** 2


def close(a: Moments, b: Moments, rtol: float) -> bool:
    """Whether they agree to `rtol`, judged on the scale of each feature."""
    spread = np.sqrt(a.diagonal)
    size = np.abs(a.means) + spread / np.sqrt(a.weights)[:, None]
    gap = (b.means - a.means) + (b.tails - a.tails)
    return bool(
        (np.abs(b.weights - a.weights) <= rtol * a.weights).all()
        and (np.abs(gap) <= rtol * size).all()
        and (np.abs(b.scatter - a.scatter) <= rtol * a.kind.outer(spread)).all()
        and (not (a.fourth and b.fourth) or a.fourth.close(b.fourth, a.diagonal, rtol))
    )
