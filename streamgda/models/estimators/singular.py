"""Whiten the covariance of each class; of a singular class, name the features that cause it, and remedies."""

from __future__ import annotations

from functools import partial

import numpy as np

from streamgda.data.blocks.wording import counted, named
from streamgda.models.gaussians.components import singular_features
from streamgda.models.gaussians.whitening import Singular, Whitening, constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array


def whiten_classes(
    statistics: Statistics, covariances: Array, least_eigenvalue: float, *, is_shrunk: bool
) -> list[Whitening]:
    """Whiten the covariance of each class. A class that cannot be whitened gets a `Singular`.

    No factor or spectrum is needed to see that a class has too few rows, or a feature that is constant in it.
    """
    means, counts, reasons = statistics.means, statistics.counts, statistics.reasons
    n_features = means.shape[1]
    whitenings: list[Whitening] = []
    for k, covariance in enumerate(covariances):
        rank, mean, reason = None, means[[k]], reasons.get(k)
        varies = is_shrunk or not constant_features(np.diag(covariance), mean).any()
        if reason is None and varies and (is_shrunk or counts[k] > n_features):
            whitening = Whitening.of(covariance, mean, least_eigenvalue)
            rank = whitening.rank
            if rank == n_features:
                whitenings.append(whitening)
                continue
        remedy = "Set reg_param higher" if is_shrunk else "Set pooling='bayes' or reg_param"
        why = partial(_singular_class, statistics, k, rank, least_eigenvalue, remedy)
        whitenings.append(Singular.because(reason or why, n_features))
    return whitenings


def _singular_class(
    statistics: Statistics, k: int, rank: int | None, least_eigenvalue: float, remedy: str
) -> np.linalg.LinAlgError:
    """The error for a class (at position k) with a singular covariance: its features and the remedy.

    The message begins as scikit-learn's does. If the rank is not given, it is computed from the statistics.
    """
    n_rows = int(statistics.counts[k])
    if rank is None:  # n rows span no more than n - 1 dimensions
        one = statistics.of_classes(np.array([k]))
        rank = min(Whitening.of(one.covariance()[0], one.means, least_eigenvalue).rank, n_rows - 1)
    return np.linalg.LinAlgError(
        f"The covariance matrix of class {named(statistics.classes[k])} is not full rank. It has rank {rank} "
        f"of {statistics.n_features}, from {counted(n_rows, 'row')}; "
        f"{singular_features(statistics, k, least_eigenvalue)}. {remedy}"
    )
