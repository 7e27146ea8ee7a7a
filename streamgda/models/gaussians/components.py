"""Covariances within and between the classes, and descriptions of the features that make one singular."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.wording import abridged
from streamgda.models.gaussians.whitening import Correlations, constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.locking import holding_locks

_MOST_NAMES = 10  # of features, in a message


def pooled_covariance(statistics: Statistics) -> Array:
    """The maximum-likelihood covariance within the classes: (d, d)."""
    if statistics.covariance_type != "tied":
        statistics = statistics.to_covariance_type("tied")
    return statistics.covariance()


def between_covariance(statistics: Statistics) -> Array:
    """The covariance of the class means, weighted by the shares of the classes: (d, d)."""
    offsets = weighted_offsets(statistics)
    return offsets.T @ offsets


@holding_locks
def weighted_offsets(statistics: Statistics) -> Array:
    """√(share) (class mean − mean of all rows) of each class: (K, d).

    Their products are the covariance of the class means.
    """
    shares = statistics.weights / statistics.weights.sum()
    offsets = (statistics.means - statistics.overall_mean()) + statistics.mean_tails
    weighted: Array = np.sqrt(shares)[:, None] * offsets
    return weighted


# ---------------------------------------------------------------------- singular covariances


@holding_locks
def constant_in_class(statistics: Statistics, k: int) -> NDArray[np.intp]:
    """The features that are constant in a class (at position k) of a "full" state."""
    variances, means = np.diag(statistics.covariance()[k]), statistics.means[[k]]
    return np.flatnonzero(constant_features(variances, means))


@holding_locks
def singular_features(statistics: Statistics, k: int, least_eigenvalue: float) -> str:
    """Describe why the covariance of a class (at position k) is singular: its features, or too few rows."""
    constant = constant_in_class(statistics, k)
    findings = [f"constant in it: {feature_list(statistics, constant)}"] if len(constant) else []
    if statistics.n_features - len(constant) >= statistics.counts[k]:
        findings.append("it has no more rows than features that vary")
    else:
        spectrum = Correlations.of(statistics.covariance()[k], statistics.means[[k]], least_eigenvalue)
        if len(spectrum.collinear):
            findings.append(f"collinear in it: {feature_list(statistics, spectrum.collinear)}")
    return "; ".join(findings)


@holding_locks
def deficient_features(statistics: Statistics, covariance: Array, least_eigenvalue: float) -> str:
    """Describe the features that make the covariance (d, d) within the classes singular.

    The dummies of a column add up to 1. They are named only if nothing else makes it singular.
    """
    is_constant = constant_features(np.diag(covariance), statistics.means)
    constant, is_candidate = np.flatnonzero(is_constant), np.ones(len(is_constant), np.bool_)
    for place in statistics.schema.sums_to_one:
        is_candidate[[i for i in range(place.start, place.stop) if not is_constant[i]][-1:]] = False
    chosen = np.flatnonzero(is_candidate)
    within = covariance[np.ix_(chosen, chosen)]
    collinear = chosen[Correlations.of(within, statistics.means[:, chosen], least_eigenvalue).collinear]
    if not len(constant) and not len(collinear):
        collinear = Correlations.of(covariance, statistics.means, least_eigenvalue).collinear
    problems = [("constant", constant), ("collinear", collinear)]
    return "features are " + " or ".join(
        f"{what} ({feature_list(statistics, features)})" for what, features in problems if len(features)
    )


def feature_list(statistics: Statistics, features: NDArray[np.intp]) -> str:
    """List features by name, at most the first ten."""
    names = statistics.feature_names
    return abridged([repr(names[feature]) if names else feature for feature in features], _MOST_NAMES)
