"""Errors about singular covariances of classes: which features cause them, and what helps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from streamgda.blocks.wording import Message, counted, named
from streamgda.gaussians.whitening import Whitening
from streamgda.statistics.base import Statistics
from streamgda.statistics.deficient import constant_in_class, deficient_features, singular_features


def singular_class(
    statistics: Statistics,
    k: int,
    rank: int | None,
    least_eigenvalue: float,
    *,
    is_shrunk: bool,
    solver: str,
) -> np.linalg.LinAlgError:
    """The error for a class (at position k) with a singular covariance: its features, and what helps.

    It begins as scikit-learn's does. If the rank is not given, it is that of the statistics.
    """
    rank = rank_of_class(statistics, k, least_eigenvalue) if rank is None else rank
    n_rows = int(statistics.counts[k])
    n_varying = statistics.n_features - len(constant_in_class(statistics, k))
    return np.linalg.LinAlgError(
        Message(
            f"{_as_in_scikit_learn(statistics, k, solver)} "
            f"It has rank ⟨#{rank}⟩ of {statistics.n_features}, from ⟨#{counted(n_rows, 'row')}⟩; "
            f"{singular_features(statistics, k, least_eigenvalue)}. {_remedy(n_rows, n_varying, is_shrunk)}, "
            "leave out constant or collinear features, bring more rows, or use ⟨LinearDiscriminantAnalysis⟩ "
            "or ⟨GaussianNB⟩"
        )
    )


def rank_of_class(statistics: Statistics, k: int, least_eigenvalue: float) -> int:
    """The rank of the covariance of a class, at position k; n rows span at most n - 1 dimensions."""
    one = statistics.of_classes(np.array([k]))
    return min(
        Whitening.of(one.covariance()[0], one.means, least_eigenvalue).rank, int(statistics.counts[k]) - 1
    )


def _as_in_scikit_learn(statistics: Statistics, k: int, solver: str) -> str:
    """What scikit-learn's QDA says of a class, word for word."""
    label, n_rows, n_features = statistics.classes[k], int(statistics.counts[k]), statistics.n_features
    if n_rows == 1:
        return f"y has only 1 sample in class {named(label)}, covariance is ill defined."
    said = f"The covariance matrix of class {named(label)} is not full rank."
    if solver == "svd" and n_rows <= n_features:
        return (
            f"{said}⟨ When using `solver='svd'` the number of samples in each class should be more than the "
            f"number of features, but class {named(label)} has {n_rows} samples and {n_features} features. "
            "Try using `solver='eigen'` and setting the parameter `shrinkage` for regularization.|⟩"
        )
    parameter = "shrinkage" if solver == "eigen" else "reg_param"
    return f"{said}⟨ Increase the value of `{parameter}` to reduce the collinearity.|⟩"


def too_few_rows(statistics: Statistics, k: int) -> np.linalg.LinAlgError:
    """The error for a class (at position k) whose rows are too few for a Student t density."""
    return np.linalg.LinAlgError(
        Message(
            f"class {named(statistics.classes[k])}: ⟨#{counted(statistics.counts[k], 'row')}⟩ (of weight "
            f"⟨#{statistics.weights[k]:g}⟩), too few for a Student t density; bring more rows, or set "
            "⟨pooling='bayes'⟩ or ⟨predictive='plugin'⟩"
        )
    )


def warn_of_rank(model: Any, within: Whitening | None) -> None:
    """Warn of a singular covariance within the classes, unless it had the same rank the last time."""
    warned = model.__dict__.pop("_warned_rank", None)
    if within is None:
        return
    model._warned_rank = within.rank
    if warned != within.rank:
        statistics = model.statistics_
        features = deficient_features(statistics, within.covariance, within.least_eigenvalue)
        warnings.warn(
            f"the covariance within the classes has rank {within.rank} of {statistics.n_features}: "
            f"{features}. The model works in the range of the covariance",
            stacklevel=7,
        )


def _remedy(n_rows: int, n_varying: int, is_shrunk: bool) -> str:
    """The parameters to change, as a sentence."""
    if not n_varying:
        return "Set ⟨reg_param⟩ above 0, or ⟨pooling='bayes'⟩"
    if is_shrunk:
        return "Raise ⟨reg_param⟩, or set ⟨shrinkage⟩ to a higher number"
    # Of two rows, "auto" estimates no error.
    shrinkage = "⟨shrinkage='auto'⟩" if n_rows > 2 else "⟨shrinkage⟩ to a number above 0"
    return f"Set {shrinkage}, or ⟨reg_param⟩ above 0, or ⟨pooling='bayes'⟩"
