"""The maximum of the likelihood in closed form, where each pattern of observed features holds the next.

References
----------
Anderson (1957), "Maximum likelihood estimates for a multivariate normal distribution when some observations
are missing", Journal of the American Statistical Association 52.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from streamgda.statistics.covariances import Array, Indices
from streamgda.statistics.incomplete.em import Cases, Conditional, Fit, Normal, step


def closed_form(cases: Sequence[Cases], n_classes: int, n_features: int) -> Fit | None:
    """The likeliest parameters; None unless each pattern holds the next one, and the first all features."""
    falling = sorted(cases, key=lambda case: -len(case.features))
    if not cases or len(falling[0].features) < n_features:
        return None
    if any(np.setdiff1d(small.features, large.features).size for large, small in pairwise(falling)):
        return None
    normal = Normal(np.zeros((n_classes, n_features)), np.zeros((n_features, n_features)))
    known = np.zeros(0, np.intp)
    for number in range(len(falling), 0, -1):
        known = _extend(normal, known, falling[:number], n_classes)
    return Fit(normal, (step(cases, normal)[1],), 0, converged=True)


def _extend(normal: Normal, known: Indices, cases: Sequence[Cases], n_classes: int) -> Indices:
    """Add the features of the last of some cases, by their regression on those known, in place."""
    features = cases[-1].features
    new = np.setdiff1d(features, known)
    if not len(new):
        return known
    weights, means, scatter = _together(cases, features, n_classes)
    covariance, old = scatter / weights.sum(), np.searchsorted(features, known)
    conditional = Conditional.of(covariance, old)
    gaps = normal.means[:, known] - means[:, old]
    normal.means[:, new] = means[:, conditional.missing] + gaps @ conditional.coefficients.T
    across = conditional.coefficients @ normal.covariance[np.ix_(known, known)]
    normal.covariance[np.ix_(new, known)], normal.covariance[np.ix_(known, new)] = across, across.T
    within = conditional.residual + across @ conditional.coefficients.T
    normal.covariance[np.ix_(new, new)] = (within + within.T) / 2
    return features


def _together(cases: Sequence[Cases], features: Indices, n_classes: int) -> tuple[Array, Array, Array]:
    """Weights and means of the classes, and the scatter within them, of some features of all these rows."""
    weights, sums = np.zeros(n_classes), np.zeros((n_classes, len(features)))
    kept = [np.searchsorted(case.features, features) for case in cases]
    for case, columns in zip(cases, kept, strict=True):
        weights[case.places] += case.weights
        sums[case.places] += case.weights[:, None] * case.means[:, columns]
    means = sums / np.where(weights > 0, weights, 1.0)[:, None]
    scatter = np.zeros((len(features), len(features)))
    for case, columns in zip(cases, kept, strict=True):
        away = np.sqrt(case.weights)[:, None] * (case.means[:, columns] - means[case.places])
        scatter += case.scatter[np.ix_(columns, columns)] + away.T @ away
    return weights, means, scatter
