"""The parts of a covariance: within the classes, and between their means."""

from __future__ import annotations

import numpy as np

from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array


def pooled_covariance(statistics: Statistics) -> Array:
    """The maximum-likelihood covariance within the classes: (d, d)."""
    if statistics.covariance_type != "tied":
        statistics = statistics.to_covariance_type("tied")
    return statistics.covariance()


def between_covariance(statistics: Statistics) -> Array:
    """The covariance of the class means, weighted by the shares of the classes: (d, d)."""
    offsets = weighted_offsets(statistics)
    between: Array = offsets.T @ offsets
    return between


def weighted_offsets(statistics: Statistics) -> Array:
    """√(share) (class mean − mean of all rows) of each class: (K, d).

    Their products are the covariance of the class means.
    """
    shares = statistics.weights / statistics.weights.sum()
    offsets = (statistics.means - statistics.overall_mean()) + statistics.mean_tails
    weighted: Array = np.sqrt(shares)[:, None] * offsets
    return weighted
