"""Shrunk covariances, computed from statistics alone.

A covariance S of d features is shrunk towards its mean variance: (1 − a) S + a μ I, with μ = tr S / d. The
share a is given, or minimises the expected squared error. The estimate of Ledoit & Wolf holds for rows of any
distribution and needs their fourth moments. The oracle approximating shrinkage (OAS) of Chen et al. assumes
normal rows.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from streamgda.data.blocks.wording import named
from streamgda.models.gaussians.components import between_covariance, pooled_covariance
from streamgda.models.gaussians.regularisation import most_likely_prior_rows
from streamgda.models.gaussians.whitening import constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

Shrinkage = float | Literal["auto", "oas", "bayes"] | None

_LEAST_EIGENVALUE = 1e-8  # of correlations; below, the rows do not vary in a direction
_LEAST_KURTOSIS = 1 - 1e-6  # no distribution has less than 1; below it, fourth powers have underflown


def class_covariances(statistics: Statistics, shrinkage: Shrinkage) -> Array:
    """The maximum-likelihood covariance of each class, shrunk.

    Weights count repetitions, so the number of rows of a class is its weight.

    Parameters
    ----------
    statistics : ClassStatistics
        Statistics of covariance type "full"; for "auto" with fourth moments.
    shrinkage : float, "auto", "oas" or None
        See `shrunk`, `ledoit_wolf` and `oas`. For "auto", the features that vary in a class are first scaled
        to unit variance, and afterwards scaled back.

    Returns
    -------
    ndarray of shape (n_classes, n_features, n_features)

    Raises
    ------
    ValueError
        If the statistics hold too little, or fourth powers are too small for float64.

    Examples
    --------
    >>> from streamgda import ClassStatistics
    >>> state = ClassStatistics().update([[0.0, 0.0], [2.0, 2.0], [2.0, 0.0], [0.0, -2.0]], [0, 0, 0, 0])
    >>> state.covariance()[0]
    array([[1., 1.],
           [1., 2.]])
    >>> class_covariances(state, 0.5)[0]
    array([[1.25, 0.5 ],
           [0.5 , 1.75]])
    """
    is_automatic = shrinkage == "auto"
    if statistics.covariance_type != "full" or (is_automatic and not statistics.has_fourth_moments):
        raise ValueError(
            f"shrinkage={shrinkage!r} of each class needs more than {statistics!r} holds; fit with "
            "this shrinkage from the first row on, or accumulate with covariance_type='full'"
            f"{', fourth_moments=True' if is_automatic else ''}"
        )
    covariances = statistics.covariance()
    if is_automatic:
        _shrink_standardised(covariances, statistics)
    elif shrinkage == "oas":
        for k, share in enumerate(class_shares(statistics, "oas")):
            covariances[k] = shrunk(covariances[k], share)
    elif shrinkage is not None:
        return shrunk(covariances, float(shrinkage))
    return covariances


def class_shares(statistics: Statistics, shrinkage: Shrinkage) -> Array:
    """How far `class_covariances` shrinks the covariance of each class: (K,)."""
    if not isinstance(shrinkage, str):
        return np.full(len(statistics.classes), shrinkage or 0.0)
    covariances = statistics.covariance()
    if shrinkage == "auto":
        return _shrink_standardised(covariances, statistics)
    return np.array([oas(each, weight) for each, weight in zip(covariances, statistics.weights, strict=True)])


def mean_of_classes(statistics: Statistics, covariances: Array) -> Array:
    """The mean of covariances (K, d, d), weighted by the shares of the classes."""
    return np.tensordot(statistics.weights / statistics.weights.sum(), covariances, axes=1)


def total_covariance(statistics: Statistics, shrinkage: float | Literal["auto"]) -> Array:
    """The maximum-likelihood covariance of the rows of all classes, shrunk as that of one class.

    Parameters
    ----------
    statistics : ClassStatistics
        Of covariance type "tied" or "full"; for "auto" with fourth moments.
    shrinkage : float or "auto"
        As for `class_covariances`.

    Returns
    -------
    ndarray of shape (n_features, n_features)
    """
    if shrinkage == "auto":
        covariance: Array = class_covariances(statistics.as_one_class(), shrinkage)[0]
        return covariance
    return shrunk(pooled_covariance(statistics) + between_covariance(statistics), float(shrinkage))


def shrunk(covariance: Array, share: float) -> Array:
    """(1 − a) S + a μ I: covariances (..., d, d) shrunk by a share a in [0, 1] towards their mean variance.

    Examples
    --------
    >>> shrunk(np.array([[3.0, 2.0], [2.0, 1.0]]), 0.5)
    array([[2.5, 1. ],
           [1. , 1.5]])
    """
    n_features = covariance.shape[-1]
    mean_variance = np.trace(covariance, axis1=-2, axis2=-1)[..., None, None] / n_features
    result: Array = (1 - share) * covariance + share * mean_variance * np.eye(n_features)
    return result


def shrunk_to_diagonal(covariance: Array, share: float) -> Array:
    """(1 − a) S + a diag(S): a covariance (d, d) shrunk by a share a in [0, 1] towards its variances."""
    result = (1 - share) * covariance
    np.fill_diagonal(result, covariance.diagonal())
    return result


def with_ridge(covariances: Array, share: float) -> Array:
    """(1 − a) S + a I: covariances (..., d, d) changed in place by a share a in [0, 1]; they are returned."""
    covariances *= 1 - share
    np.einsum("...ii->...i", covariances)[...] += share
    return covariances


def ledoit_wolf(covariance: Array, mean_squares: Array, weight: float) -> float:
    """The share with the least expected squared error, estimated for rows of any distribution.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        S, divided by the weight.
    mean_squares : ndarray of shape (d, d)
        The means of u_i² u_j², where u are deviations from the mean.
    weight : float
        The number of rows.

    Returns
    -------
    float
        In [0, 1]; 0 if S is a multiple of the identity.

    References
    ----------
    Ledoit & Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices",
    Journal of Multivariate Analysis 88, lemmas 3.2 to 3.4.
    """
    n_features = len(covariance)
    distance = _squared_distance_from_sphere(covariance)
    error = (mean_squares.sum() - (covariance**2).sum()) / (n_features * weight)
    error = min(max(error, 0.0), distance)
    return float(error / distance) if error else 0.0


def oas(covariance: Array, weight: float) -> float:
    """The share with the least expected squared error, approximated for normal rows.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        S, divided by the weight.
    weight : float
        The number of rows.

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Chen, Wiesel, Eldar & Hero (2010), "Shrinkage algorithms for MMSE covariance estimation", IEEE
    Transactions on Signal Processing 58, eq. 23; without its term 2 / d, as in scikit-learn.
    """
    n_features = len(covariance)
    mean_variance = np.trace(covariance) / n_features
    if not mean_variance:
        return 1.0
    covariance = covariance / mean_variance  # no square of it exceeds float64
    spread = (weight + 1) * _squared_distance_from_sphere(covariance) / n_features
    return 1.0 if not spread else min(float(((covariance**2).mean() + 1) / spread), 1.0)


def most_likely_share(covariance: Array, means: Array, weight: float) -> float:
    """How far to shrink the covariance within the classes to its variances, by the evidence of the rows.

    The covariance has an inverse Wishart prior, with its variances as mean and c + d + 1 degrees of freedom,
    as that of a class has in `streamgda.models.gaussians.regularisation`. So (c diag(S) + N S) / (c + N)
    estimates it, and c / (c + N) is the share. Where features are constant or collinear, c is that of the
    range of S.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        S, divided by the weight.
    means : ndarray of shape (K, d)
        The means of the classes, each of which costs a row.
    weight : float
        N, the number of rows.

    References
    ----------
    Greene & Rayens (1989), "Partially pooled covariance matrix estimation in discriminant analysis",
    Communications in Statistics 18.
    """
    rows, varying = max(weight - len(means), 0.0), ~constant_features(covariance.diagonal(), means)
    scale = np.sqrt(covariance.diagonal()[varying])
    values = np.linalg.eigvalsh(covariance[np.ix_(varying, varying)] / np.outer(scale, scale))
    if (positive := values > _LEAST_EIGENVALUE).sum() < np.floor(min(rows, len(values))):
        values = values[positive]
    prior_rows = most_likely_prior_rows(weight * np.maximum(values, 0.0)[None, :], np.array([rows]))
    return prior_rows / (prior_rows + weight)


def _shrink_standardised(covariances: Array, statistics: Statistics) -> Array:
    """Shrink the covariances in place by `ledoit_wolf`, with features at unit variance; return the shares."""
    means, shares = statistics.means, np.empty(len(covariances))
    fourth = np.asarray(statistics.fourth_moments)
    for k, weight in enumerate(statistics.weights):
        variances = np.diag(covariances[k])
        constant = constant_features(variances, means[[k]])
        scale = np.sqrt(np.where(constant, 1.0, variances))
        units = np.outer(scale, scale)
        correlations = covariances[k] / units
        mean_squares = fourth[k] / weight / units / units
        if (np.diag(mean_squares)[~constant] < _LEAST_KURTOSIS).any():
            raise ValueError(
                f"class {named(statistics.classes[k])}: deviations are so small that their fourth powers are "
                "below float64. Multiply the features by a power of ten first"
            )
        shares[k] = ledoit_wolf(correlations, mean_squares, weight)
        covariances[k] = shrunk(correlations, shares[k]) * units
    return shares


def _squared_distance_from_sphere(covariance: Array) -> float:
    """‖S − μ I‖² / d."""
    n_features = len(covariance)
    difference = covariance - np.trace(covariance) / n_features * np.eye(n_features)
    return float((difference**2).sum() / n_features)
