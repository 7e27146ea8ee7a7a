"""The distance of two Gaussians: the shift of their means, and their divergence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.models.gaussians.whitening import Whitening, constant_features
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
    shared: dict[Any, Any] = field(default_factory=dict)
    """What classes of one covariance share, by their features that do not vary."""

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
            key = self.constant.tobytes()
            if key not in self.shared:
                self.shared[key] = Whitening.of(self.covariance, self.mean[None, :], _NEGLIGIBLE).matrix
            matrix: Array = self.shared[key]
            return matrix
        with np.errstate(divide="ignore"):
            return np.where(self.constant, 0.0, 1 / np.sqrt(self.covariance))


def gaussians_of(statistics: Statistics, features: Sequence[int] | None = None) -> dict[Any, Gaussian]:
    """The density of each class by its label, except those that the rows do not determine.

    If some features are given, it is of these, and of the classes that have them.
    """
    if features is not None:
        having = np.flatnonzero(statistics.weights_by_feature[:, list(features)].all(axis=1))
        if not len(having) or not features:
            return {}
        statistics = statistics.of_classes(having).select(list(features))
    moments = _with_densities(statistics)
    if not len(moments.classes):
        return {}
    covariances = moments.covariance()
    shared: list[dict[Any, Any]] = [{} for _ in moments.classes]
    if kind_named(moments.covariance_type).is_pooled:
        covariances = np.broadcast_to(covariances, (len(moments.classes), *covariances.shape))
        shared = shared[:1] * len(moments.classes)
    densities = map(Gaussian, moments.means, moments.mean_tails, covariances, shared)
    return dict(zip(moments.classes.tolist(), densities, strict=True))


def _with_densities(statistics: Statistics) -> Statistics:
    """The statistics of the classes that are determined; of no class, if classes share what is not."""
    unknown = list(statistics.reasons)
    if not unknown:
        return statistics.moments_for()
    is_pooled = kind_named(statistics.covariance_type).is_pooled
    positions = np.setdiff1d(np.arange(0 if is_pooled else len(statistics.classes)), unknown)
    return statistics.of_classes(positions).moments_for()


def _variances(covariance: Array) -> Array:
    return np.diag(covariance) if covariance.ndim == 2 else covariance


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
        spread = float(((first * (old.covariance - new.covariance) * second) ** 2).sum())
        gaps = gap * first, gap * second
    elif _differ_in_range(old, new, gap):
        return np.inf
    else:
        spread, gaps = _spread(old, new), (gap @ first, gap @ second)
    return (spread + float((gaps[0] ** 2).sum()) + float((gaps[1] ** 2).sum())) / 2


def _spread(old: Gaussian, new: Gaussian) -> float:
    """‖W₁ᵀ (Σ₁ − Σ₂) W₂‖², which classes of one covariance share."""
    key = "spread", new.constant.tobytes()
    of, spread = new.shared.get(key, (None, np.nan))
    if of is not old.shared:
        spread = float(((old.whitening.T @ (old.covariance - new.covariance) @ new.whitening) ** 2).sum())
        new.shared[key] = old.shared, spread
    return float(spread)


def _gap(old: Gaussian, new: Gaussian) -> Array:
    """New mean less old mean.

    The low parts keep the digits of the difference if the means are large compared with the deviations.
    Constant features that differ only by rounding are taken as equal.
    """
    gap = (new.mean - old.mean) + (new.low_part - old.low_part)
    rounding = 4 * _EPS * (np.abs(new.mean) + np.abs(old.mean))
    return np.where(old.constant & new.constant & (np.abs(gap) <= rounding), 0.0, gap)


def _differ_in_range(old: Gaussian, new: Gaussian, gap: Array) -> bool:
    """Whether the two vary in different directions, or the means differ where neither varies."""
    varying = ~old.constant
    rank = old.whitening.shape[1]
    if new.whitening.shape[1] != rank:
        return True
    if rank == varying.sum():
        return False
    scale = np.sqrt(old.variances + new.variances)[varying]
    span, _ = np.linalg.qr((old.covariance @ old.whitening)[varying] / scale[:, None])
    others, _ = np.linalg.qr((new.covariance @ new.whitening)[varying] / scale[:, None])

    def outside(vectors: Array) -> float:
        """The sum of squares of the parts of vectors that are orthogonal to the span."""
        return float(((vectors - span @ (span.T @ vectors)) ** 2).sum())

    return outside(others) > _NEGLIGIBLE or outside(gap[varying] / scale) > _NEGLIGIBLE
