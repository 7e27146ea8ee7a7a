"""How far new rows lie from old ones, class by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

_NEGLIGIBLE = 1e-10  # a share of the variance that is rounding: there is none in such a direction


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
        New mean less old mean, in standard deviations of the old rows (infinite where those do not vary
        and the means differ).
    divergence : float
        Symmetric Kullback–Leibler divergence of the two Gaussians, KL(old ‖ new) + KL(new ‖ old), in nats;
        infinite where one of them is singular and the other is not, or lies elsewhere.
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
    """How far the new rows of each class lie from the old ones; a class that only one has is left out.

    References
    ----------
    Kullback & Leibler (1951), "On information and sufficiency", eq. 2.6 (the divergence J).
    """
    shares_before, shares = old.weights / old.weights.sum(), new.weights / new.weights.sum()
    common, before, now = np.intersect1d(old.classes, new.classes, assume_unique=True, return_indices=True)
    gaps = new.means[now] - old.means[before]
    rounding = 4 * np.finfo(np.float64).eps * (np.abs(new.means[now]) + np.abs(old.means[before]))
    covariances, new_covariances = _by_class(old), _by_class(new)
    return [
        ClassDrift(
            label.item(),
            int(new.counts[j]),
            _in_deviations(gaps[k], covariances[i], rounding[k]),
            _divergence(gaps[k], covariances[i], new_covariances[j], rounding[k]),
            float(shares_before[i]),
            float(shares[j]),
        )
        for k, (label, i, j) in enumerate(zip(common, before, now, strict=True))
    ]


def _by_class(statistics: Statistics) -> Array:
    """A covariance, or variances, for each class; without copies, where classes share one."""
    covariance = statistics.covariance()
    if statistics.covariance_type != "tied":
        return covariance
    return np.broadcast_to(covariance, (len(statistics.classes), *covariance.shape))


def _in_deviations(gap: Array, covariance: Array, rounding: Array) -> Array:
    deviations = np.sqrt(_variances(covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(gap) <= rounding, 0.0, gap / deviations)


def _variances(covariance: Array) -> Array:
    return np.diag(covariance) if covariance.ndim == 2 else covariance


def _divergence(gap: Array, old: Array, new: Array, rounding: Array) -> float:
    """½ Σ (a/b + b/a − 2) + ½ Σ g² (1/a + 1/b), where a and b are the variances along common axes.

    Deviations below `rounding` are none: the feature is constant.
    """
    scale = np.sqrt(_variances(old) + _variances(new))
    varying = scale > rounding
    if (np.abs(gap) > rounding)[~varying].any():
        return np.inf
    gap, scale = gap[varying] / scale[varying], scale[varying]
    if old.ndim == 1:
        a, b = old[varying] / scale**2, new[varying] / scale**2
    else:
        a, b, gap, left = _common_axes(old, new, gap, scale, varying)
        if left > _NEGLIGIBLE:
            return np.inf
    if min(a.min(initial=1), b.min(initial=1)) <= _NEGLIGIBLE:
        return np.inf
    return float(((a - b) ** 2 / (a * b)).sum() + (gap**2 * (1 / a + 1 / b)).sum()) / 2


def _common_axes(
    old: Array, new: Array, gap: Array, scale: Array, varying: NDArray[np.bool_]
) -> tuple[Array, Array, Array, float]:
    """The variances of both, and the gap, along axes on which neither has correlations.

    Those are the axes that diagonalise one covariance in coordinates in which the sum of the two is the
    identity. Also the squared length of what of the gap lies where neither varies.
    """
    within = np.ix_(varying, varying)
    units = np.outer(scale, scale)
    values, vectors = scipy.linalg.eigh((old + new)[within] / units)
    kept = values > _NEGLIGIBLE
    outside = gap @ vectors[:, ~kept]
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    a, axes = scipy.linalg.eigh(whitening.T @ (old[within] / units) @ whitening)
    return a, 1 - a, (gap @ whitening) @ axes, float(outside @ outside)
