"""Densities of classes that each have a covariance of their own, which some classes may not determine."""

from __future__ import annotations

from functools import partial

import numpy as np

from streamgda.estimators.singular import singular_class
from streamgda.gaussians.densities import SeparateGaussians
from streamgda.gaussians.whitening import Unestimated, Whitening, constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array


def whiten_classes(
    statistics: Statistics, covariances: Array, tol: float, *, is_shrunk: bool, solver: str
) -> list[Whitening]:
    """Whiten the covariance of each class; `Unestimated` stands for that of a class without one.

    No factor or spectrum is needed to see that a class has too few rows, or a feature that is constant in it.
    """
    means, counts, undetermined = statistics.means, statistics.counts, statistics.undetermined
    n_features = statistics.n_features

    def whiten(k: int) -> Whitening:
        rank = None
        if k in undetermined:
            return Unestimated.because(n_features, partial(_itself, undetermined[k]))
        if is_shrunk or (counts[k] > n_features and _varies(covariances[k], means[[k]])):
            whitening = Whitening.of(covariances[k], means[[k]], tol)
            rank = whitening.rank
            if rank == n_features:
                return whitening
        error = partial(singular_class, statistics, k, rank, tol, is_shrunk=is_shrunk, solver=solver)
        return Unestimated.because(n_features, error)

    return [whiten(k) for k in range(len(means))]


def _varies(covariance: Array, mean: Array) -> bool:
    """Whether no feature is constant in a class of this mean, (1, d)."""
    return not constant_features(np.diag(covariance), mean).any()


def separate_gaussians(statistics: Statistics, whitenings: list[Whitening]) -> SeparateGaussians:
    """The densities of all classes. The mean of an undetermined class is 0; nothing depends on it."""
    means = statistics.means
    means[list(statistics.undetermined)] = 0.0
    return SeparateGaussians(means, whitenings, low_parts=np.nan_to_num(statistics.mean_tails))


def _itself(error: ValueError) -> ValueError:
    return error
