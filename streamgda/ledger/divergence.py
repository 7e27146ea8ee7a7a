"""The Gaussian of each class, and the shift and the divergence of two Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.gaussians.whitening import Whitening, constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, kind_named

_NEGLIGIBLE = 1e-10  # the largest eigenvalue of correlations at which a direction counts as singular

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Gaussian:
    """The density of a class.

    The mean is the sum of `mean` and `low_part`. The covariance is a matrix, or the variances of independent
    features.
    """

    mean: Array
    low_part: Array
    covariance: Array

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """The features that do not vary."""
        return constant_features(_variances(self.covariance), self.mean[None, :])

    @property
    def variances(self) -> Array:
        """The variance of each feature, 0 where it is constant."""
        return np.where(self.constant, 0.0, _variances(self.covariance))

    @cached_property
    def whitening(self) -> Array:
        """W with Wᵀ Σ W = I on the range of the covariance; for variances, a diagonal."""
        if self.covariance.ndim == 2:
            return Whitening.of(self.covariance, self.mean[None, :], _NEGLIGIBLE).matrix
        with np.errstate(divide="ignore"):
            return np.where(self.constant, 0.0, 1 / np.sqrt(self.covariance))


def gaussians_of(statistics: Statistics) -> dict[Any, Gaussian]:
    """The density of each class by its label, except those that incomplete rows do not determine."""
    known = _determined(statistics)
    if not len(known.classes):
        return {}
    covariances = known.covariance()
    if kind_named(known.covariance_type).is_pooled:
        covariances = np.broadcast_to(covariances, (len(known.classes), *covariances.shape))
    densities = map(Gaussian, known.means, known.mean_tails, covariances)
    return dict(zip(known.classes.tolist(), densities, strict=True))


def _determined(statistics: Statistics) -> Statistics:
    """The statistics of the classes that are determined; of no class, if classes share what is not."""
    unknown = list(statistics.undetermined)
    if not unknown:
        return statistics.completed()
    apart = statistics.covariance_type == "full"
    kept = np.delete(np.arange(len(statistics.classes)), unknown) if apart else np.arange(0)
    return statistics.of_classes(kept).completed()


def _variances(covariance: Array) -> Array:
    return np.diag(covariance) if covariance.ndim == 2 else covariance


def _gap(old: Gaussian, new: Gaussian) -> Array:
    """New mean less old mean.

    The low parts keep the digits of the difference if the means are large compared with the deviations.
    Constant features that differ only by rounding are taken as equal.
    """
    gap = (new.mean - old.mean) + (new.low_part - old.low_part)
    rounding = 4 * _EPS * (np.abs(new.mean) + np.abs(old.mean))
    return np.where(old.constant & new.constant & (np.abs(gap) <= rounding), 0.0, gap)


def shift(old: Gaussian, new: Gaussian) -> Array:
    """New mean less old mean, in standard deviations of the old rows."""
    gap = _gap(old, new)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap == 0, 0.0, gap / np.sqrt(old.variances))


def divergence(old: Gaussian, new: Gaussian) -> float:
    """½ ‖W₁ᵀ (Σ₁ − Σ₂) W₂‖² + ½ ‖W₁ᵀ g‖² + ½ ‖W₂ᵀ g‖² with Wᵢᵀ Σᵢ Wᵢ = I and the gap g of the means.

    This is the divergence J: the first squared norm is Σ (a/b + b/a − 2), where a and b are the variances
    along common axes. Each square is accurate, whether the covariances are nearly equal or very different.
    """
    gap = _gap(old, new)
    if (old.constant != new.constant).any() or (gap[old.constant] != 0).any():
        return np.inf
    first, second = old.whitening, new.whitening
    if old.covariance.ndim == 1:
        changed = first * (old.covariance - new.covariance) * second
        moved = gap * first, gap * second
    elif _differ_in_range(old, new, gap):
        return np.inf
    else:
        changed = first.T @ (old.covariance - new.covariance) @ second
        moved = gap @ first, gap @ second
    return float(sum((part**2).sum() for part in (changed, *moved))) / 2


def expected_divergence(before: Statistics, after: Statistics, n: int, m: int) -> float:
    """The expected divergence between n and m rows of a class that are all drawn from one Gaussian.

    Of a covariance S with ν degrees of freedom, from r rows, E S = (ν / r) Σ and E S⁻¹ = r / (ν − d − 1) Σ⁻¹
    (the Wishart distribution and its inverse). The result is infinite if this does not exist.
    """
    kind, d = kind_named(before.covariance_type), before.n_features
    d, features = (d, 1) if kind.has_products else (1, d)
    rows = [one.n_rows if kind.is_pooled else of_class for one, of_class in ((before, n), (after, m))]
    lost = [len(one.classes) if kind.is_pooled else 1 for one in (before, after)]
    if min(rows[0] - lost[0], rows[1] - lost[1]) <= d + 1:
        return np.inf
    spread = [(r - k) / r for r, k in zip(rows, lost, strict=True)]
    inverse = [r / (r - k - d - 1) for r, k in zip(rows, lost, strict=True)]
    covariances = spread[0] * inverse[1] + spread[1] * inverse[0] - 2
    return features * d / 2 * (covariances + (1 / n + 1 / m) * sum(inverse))


def _differ_in_range(old: Gaussian, new: Gaussian, gap: Array) -> bool:
    """Whether the two vary in different directions, or the means differ where neither varies."""
    varying = ~old.constant
    rank = old.whitening.shape[1]
    if new.whitening.shape[1] != rank:
        return True
    if rank == varying.sum():
        return False
    scale = np.sqrt(old.variances + new.variances)[varying]
    spanned, _ = np.linalg.qr((old.covariance @ old.whitening)[varying] / scale[:, None])
    others, _ = np.linalg.qr((new.covariance @ new.whitening)[varying] / scale[:, None])

    def outside(vectors: Array) -> float:
        """The sum of squares of the parts of vectors that are orthogonal to the span."""
        return float(((vectors - spanned @ (spanned.T @ vectors)) ** 2).sum())

    return outside(others) > _NEGLIGIBLE or outside(gap[varying] / scale) > _NEGLIGIBLE
