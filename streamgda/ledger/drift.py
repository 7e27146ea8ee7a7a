"""How far new rows lie from old ones, class by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.gaussians.whitening import Whitening, constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, kind_named

_NEGLIGIBLE = 1e-10  # an eigenvalue of correlations up to which a direction counts as singular

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ClassDrift:
    """How the new rows of a class differ from the old ones.

    Attributes
    ----------
    label : int, str or bool
        The class.
    rows : int
        New rows of it.
    shift : ndarray of shape (n_features,)
        New mean less old mean, in standard deviations of the old rows; infinite where those do not vary
        and the means differ.
    divergence : float
        Symmetric Kullback–Leibler divergence of the two Gaussians, KL(old ‖ new) + KL(new ‖ old), in nats;
        infinite where one of them is singular and the other is not, or is so in another direction.
    prior_before, prior : float
        Share of the class in the weight of the old and of the new rows.
    """

    label: Any
    rows: int
    shift: Array
    divergence: float
    prior_before: float
    prior: float


def drift(old: Statistics, new: Statistics) -> list[ClassDrift]:
    """How far the new rows of each class lie from the old ones; classes of only one of the two are left out.

    Left out are also classes whose moments are not determined, since features are missing.

    References
    ----------
    Kullback & Leibler (1951), "On information and sufficiency", eq. 2.6 (the divergence J).
    """
    old, new = _determined(old), _determined(new)
    labels, *pairs = np.intersect1d(old.classes, new.classes, assume_unique=True, return_indices=True)
    before, now, counts = _gaussians(old), _gaussians(new), new.counts
    return [
        _of_class(label.item(), int(counts[j]), before(i), now(j))
        for label, i, j in zip(labels, *pairs, strict=True)
    ]


def _determined(statistics: Statistics) -> Statistics:
    """The statistics of the classes that incomplete rows determine; of none, if the classes are not apart."""
    unknown = list(statistics.undetermined)
    if not unknown:
        return statistics.completed()
    apart = statistics.covariance_type == "full"
    kept = np.delete(np.arange(len(statistics.classes)), unknown) if apart else np.arange(0)
    return statistics.of_classes(kept).completed()


def _of_class(label: Any, rows: int, old: _Gaussian, new: _Gaussian) -> ClassDrift:
    return ClassDrift(label, rows, _shift(old, new), _divergence(old, new), old.share, new.share)


@dataclass(frozen=True)
class _Gaussian:
    """The density of a class: its share of the weight, its mean as a sum of two, and its covariance.

    The covariance is a matrix, or the variances of independent features. `constant` marks the features that
    do not vary.
    """

    share: float
    mean: Array
    tail: Array
    covariance: Array
    constant: NDArray[np.bool_]

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


def _gaussians(statistics: Statistics) -> Callable[[int], _Gaussian]:
    """The density of each class, by its position."""
    covariances, weights = statistics.covariance(), statistics.weights
    if kind_named(statistics.covariance_type).is_pooled:
        covariances = np.broadcast_to(covariances, (len(weights), *covariances.shape))
    shares, means, tails = weights / weights.sum(), statistics.means, statistics.mean_tails

    def gaussian(k: int) -> _Gaussian:
        constant = constant_features(_variances(covariances[k]), means[[k]])
        return _Gaussian(float(shares[k]), means[k], tails[k], covariances[k], constant)

    return gaussian


def _variances(covariance: Array) -> Array:
    return np.diag(covariance) if covariance.ndim == 2 else covariance


def _gap(old: _Gaussian, new: _Gaussian) -> Array:
    """New mean less old mean; the tails keep its digits where the means are large beside the deviations.

    Constants that differ by the rounding of their values are the same.
    """
    gap = (new.mean - old.mean) + (new.tail - old.tail)
    rounding = 4 * _EPS * (np.abs(new.mean) + np.abs(old.mean))
    return np.where(old.constant & new.constant & (np.abs(gap) <= rounding), 0.0, gap)


def _shift(old: _Gaussian, new: _Gaussian) -> Array:
    gap = _gap(old, new)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap == 0, 0.0, gap / np.sqrt(old.variances))


def _divergence(old: _Gaussian, new: _Gaussian) -> float:
    """½ ‖W₁ᵀ (Σ₁ − Σ₂) W₂‖² + ½ ‖W₁ᵀ g‖² + ½ ‖W₂ᵀ g‖² with Wᵢᵀ Σᵢ Wᵢ = I and the gap g of the means.

    That is J: the first norm is Σ (a/b + b/a − 2), where a and b are the variances along common axes. Each
    square keeps its digits, whether the two covariances are nearly the same or far apart.
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


def _differ_in_range(old: _Gaussian, new: _Gaussian, gap: Array) -> bool:
    """Whether the two vary in different directions, or their means differ in one in which neither varies."""
    varying = ~old.constant
    rank = old.whitening.shape[1]
    if new.whitening.shape[1] != rank:
        return True
    if rank == varying.sum():
        return False
    scale = np.sqrt(old.variances + new.variances)[varying]
    spanned, _ = np.linalg.qr((old.covariance @ old.whitening)[varying] / scale[:, None])
    others, _ = np.linalg.qr((new.covariance @ new.whitening)[varying] / scale[:, None])
    moved = gap[varying] / scale
    outside = others - spanned @ (spanned.T @ others)
    return bool((outside**2).sum() > _NEGLIGIBLE or _length_outside(moved, spanned) > _NEGLIGIBLE)


def _length_outside(vector: Array, basis: Array) -> float:
    """The squared length of what is left of a vector without its part in the span of a basis."""
    rest = vector - basis @ (basis.T @ vector)
    return float(rest @ rest)
