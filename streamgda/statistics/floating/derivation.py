"""The moments of some features, of some classes, and of rows A x + b."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamgda.statistics.covariances import Array, Indices
from streamgda.statistics.derivation import check_products, positions_of_pairs
from streamgda.statistics.floating.fourth_moments import FourthMoments
from streamgda.statistics.floating.moments import Moments, two_sum

_EPS = float(np.finfo(np.float64).eps)
_SPLIT = 2.0**27 + 1


def selected(sums: Moments, features: Indices) -> Moments:
    """The moments of some features, in this order."""
    n_classes = len(sums.weights)
    positions = positions_of_pairs(sums.kind, features, sums.n_features)
    packed = sums.kind.packed(sums.scatter)[:, positions]
    fourth = sums.fourth and FourthMoments(*(_corner(array, features) for array in sums.fourth.arrays))
    return replace(
        sums.copy(),
        means=sums.means[:, features],
        tails=sums.tails[:, features],
        scatter=sums.kind.unpacked(packed, n_classes, len(features)),
        fourth=fourth,
    )


def _corner(moments: Array, features: Indices) -> Array:
    return np.ascontiguousarray(moments[:, features[:, None], features])


def without_pooled(sums: Moments, classes: Indices) -> Moments:
    """The moments of some classes; if they share a scatter, with a scatter of zero."""
    part = sums.take(classes)
    return replace(part, scatter=sums.kind.zeros(*part.means.shape)) if sums.kind.is_pooled else part


def mapped(sums: Moments, A: Array, b: Array) -> Moments:
    """The moments of the rows A x + b.

    Raises
    ------
    ValueError
        If the covariances of features are not kept, fourth moments are, or a square would exceed float64.
    """
    check_products(sums.kind, sums.n_features)
    if sums.has_fourth:
        raise ValueError(
            "the fourth moments of a linear map do not follow from those that are kept; leave them out first "
            "with to_covariance_type('full')"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        means, tails = _mapped_means(sums, A, b)
        scatter = A @ sums.scatter @ A.T
        scatter = (scatter + np.swapaxes(scatter, -1, -2)) / 2
    derived = replace(sums.copy(), means=means, tails=tails, scatter=scatter)
    if not derived.are_finite():
        raise ValueError("the features are too large: their squares exceed float64. Rescale them first")
    scale = (np.sqrt(sums.diagonal) @ np.abs(A).T) ** 2
    derived.clip(scale, 4 * max(1, sums.n_features) * _EPS * scale, "the scatter is of no rows")
    return derived


def _mapped_means(sums: Moments, A: Array, b: Array) -> tuple[Array, Array]:
    """A m + b to twice the precision of float64.

    Ogita, Rump & Oishi (2005), "Accurate sum and dot product", algorithm 5.3.
    """
    totals, tails = np.tile(b, (len(sums.means), 1)), sums.tails @ A.T
    for mean, column in zip(sums.means.T[:, :, None], A.T, strict=True):
        products, left = _two_product(mean, column)
        totals, rest = two_sum(totals, products)
        tails += left + rest
    return two_sum(totals, tails)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and, exactly, what rounding left (Dekker 1971; Veltkamp's split)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    left = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, left


def _halves(values: Array) -> tuple[Array, Array]:
    scaled = _SPLIT * values
    high = scaled - (scaled - values)
    return high, values - high
