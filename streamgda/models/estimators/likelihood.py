"""The log-likelihood of rows by their statistics, and the criterion that follows from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from streamgda.models.estimators.scores import Finalised, G
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import kind_named


def bayesian_criterion(log_likelihood: float, n_parameters: float, statistics: Statistics) -> float:
    """2 L − p ln N, where the model has p parameters, and the N rows have log-likelihood L under it."""
    return 2 * log_likelihood - n_parameters * float(np.log(statistics.weights.sum()))


def joint_log_likelihood(state: Finalised[G], statistics: Statistics) -> float:
    """Σ ln p(x, k) of the rows that these statistics are of: those learnt, or others.

    It needs Σ w (x − μ)(x − μ)ᵀ of the rows of a class. This is W + w (m − μ)(m − μ)ᵀ, with their mean m and
    scatter W.

    Parameters
    ----------
    state : Finalised
        Densities and priors of the classes.
    statistics : ClassStatistics or ExactClassStatistics
        The statistics of rows of these classes or some of them, of the covariance type that the model needs.
    """
    statistics = statistics.simplest()
    if statistics.missing != "raise":
        return _of_patterns(state, statistics)
    state = state.seen
    places = np.searchsorted(state.classes, statistics.classes)
    weights, kind = statistics.weights, kind_named(statistics.covariance_type)
    mean_tails = statistics.mean_tails
    if state.gaussians.mean_tails is not None:
        mean_tails = mean_tails - state.gaussians.mean_tails[places]
    offsets = (statistics.means - state.gaussians.means[places]) + mean_tails
    scatter = statistics.scatter + kind.outer(np.sqrt(weights)[:, None] * offsets)
    if not kind.is_pooled and len(places) < len(state.classes):
        own, scatter = scatter, np.zeros((len(state.classes), *scatter.shape[1:]))
        scatter[places] = own
    squared = state.gaussians.total_squared_distance(scatter)
    terms = state.log_priors - state.gaussians.log_normalisers / 2
    return float(weights @ terms[places] - squared / 2)


def _of_patterns(state: Finalised[G], statistics: Any) -> float:
    """Σ ln p(observed features, k) of rows in which features are missing."""
    state = state.seen
    places = np.searchsorted(state.classes, statistics.classes)
    total = float(statistics.weights @ state.log_priors[places])
    densities = replace(state, log_priors=np.zeros(len(state.classes)), _derived={})
    for features, rows in statistics.by_pattern():
        if len(features):
            observed = np.isin(np.arange(statistics.n_features), features)
            marginal = replace(densities, gaussians=state.gaussians.marginal(observed))
            total += joint_log_likelihood(marginal, rows)
    return total
