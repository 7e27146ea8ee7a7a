"""Whiten the covariance of each class; of a singular class, name the features that cause it, and remedies."""

from __future__ import annotations

from functools import partial

import numpy as np

from streamgda.data.blocks.wording import counted, named
from streamgda.models.gaussians.components import singular_features
from streamgda.models.gaussians.whitening import Singular, Whitening, constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import KINDS, Array


def whiten_classes(
    statistics: Statistics, covariances: Array, least_eigenvalue: float, *, is_shrunk: bool, solver: str
) -> list[Whitening]:
    """Whiten the covariance of each class. A class that cannot be whitened gets a `Singular`.

    No factor or spectrum is needed to see that a class has too few rows, or a feature that is constant in it.
    """
    means, counts, reasons = statistics.means, statistics.counts, statistics.reasons
    n_features, spans_all = means.shape[1], KINDS[statistics.covariance_type].is_complete
    most = counts - 1 if spans_all else np.full(len(counts), n_features)  # dimensions that the rows can span
    whitenings: list[Whitening] = []
    for k, covariance in enumerate(covariances):
        rank, mean, reason = None, means[[k]], reasons.get(k)
        varies = is_shrunk or not constant_features(np.diag(covariance), mean).any()
        if reason is None and varies and (is_shrunk or most[k] >= n_features):
            whitening = Whitening.of(covariance, mean, least_eigenvalue)
            rank = whitening.rank
            if rank == n_features:
                whitenings.append(whitening)
                continue
        why = partial(_singular_class, statistics, k, rank, most[k], least_eigenvalue, solver, is_shrunk)
        whitenings.append(Singular.because(reason or why, n_features))
    return whitenings


def _singular_class(
    statistics: Statistics,
    k: int,
    rank: int | None,
    most: int,
    least_eigenvalue: float,
    solver: str,
    is_shrunk: bool,
) -> np.linalg.LinAlgError:
    """The error for a class (at position k) with a singular covariance: its features and the remedy.

    The message begins as scikit-learn's does. If that has a remedy, no other is added. If the rank is not
    given, it is computed from the statistics, and is at most `most`.
    """
    if rank is None:
        one = statistics.of_classes(np.array([k]))
        rank = Whitening.of(one.covariance()[0], one.means, least_eigenvalue).rank
        rank = min(rank, int(most))
    start, n_rows = _as_in_scikit_learn(statistics, k, solver), int(statistics.counts[k])
    remedy = ". Set reg_param higher" if is_shrunk else ". Set pooling='bayes'"
    return np.linalg.LinAlgError(
        f"{start} It has rank {rank} of {statistics.n_features}, from {counted(n_rows, 'row')}; "
        f"{singular_features(statistics, k, least_eigenvalue)}{'' if 'Increase' in start else remedy}"
    )


def _as_in_scikit_learn(statistics: Statistics, k: int, solver: str) -> str:
    """The message of scikit-learn's QDA for this class, word for word."""
    label, n_rows, n_features = statistics.classes[k], int(statistics.counts[k]), statistics.n_features
    if n_rows == 1:
        return f"y has only 1 sample in class {named(label)}, covariance is ill defined."
    start = f"The covariance matrix of class {named(label)} is not full rank."
    if solver == "svd" and n_rows <= n_features:
        return (
            f"{start} When using `solver='svd'` the number of samples in each class should be more than the "
            f"number of features, but class {named(label)} has {n_rows} samples and {n_features} features. "
            "Try using `solver='eigen'` and setting the parameter `shrinkage` for regularization."
        )
    parameter = "shrinkage" if solver == "eigen" else "reg_param"
    return f"{start} Increase the value of `{parameter}` to reduce the collinearity."
