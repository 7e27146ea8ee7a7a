"""Which classes are singular, that is, have no density; the features that cause it, and the remedies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import Message, counted, named
from streamgda.gaussians.whitening import Singular, Whitening, constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import (
    constant_in_class,
    deficient_features,
    pooled_covariance,
    singular_features,
)
from streamgda.statistics.covariances import Array


def whiten_classes(
    statistics: Statistics, covariances: Array, least_eigenvalue: float, *, is_shrunk: bool, solver: str
) -> list[Whitening]:
    """Whiten the covariance of each class. A class that cannot be whitened gets a `Singular`.

    No factor or spectrum is needed to see that a class has too few rows, or a feature that is constant in it.
    """
    means, counts, undetermined = statistics.means, statistics.counts, statistics.undetermined
    n_features = means.shape[1]
    whitenings: list[Whitening] = []
    for k, covariance in enumerate(covariances):
        rank = None
        if k in undetermined:
            whitenings.append(Singular.because(partial(undetermined.__getitem__, k), n_features))
            continue
        mean = means[[k]]
        if is_shrunk or (counts[k] > n_features and not constant_features(np.diag(covariance), mean).any()):
            whitening = Whitening.of(covariance, mean, least_eigenvalue)
            rank = whitening.rank
            if rank == n_features:
                whitenings.append(whitening)
                continue
        reason = partial(_singular_class, statistics, k, rank, least_eigenvalue, solver)
        whitenings.append(Singular.because(reason, n_features))
    return whitenings


def _singular_class(
    statistics: Statistics, k: int, rank: int | None, least_eigenvalue: float, solver: str
) -> np.linalg.LinAlgError:
    """The error for a class (at position k) with a singular covariance: its features and the remedies.

    The message begins as scikit-learn's does. If the rank is not given, it is computed from the statistics.
    """
    if rank is None:  # n rows span no more than n - 1 dimensions
        one = statistics.of_classes(np.array([k]))
        rank = Whitening.of(one.covariance()[0], one.means, least_eigenvalue).rank
        rank = min(rank, int(statistics.counts[k]) - 1)
    n_rows = int(statistics.counts[k])
    return np.linalg.LinAlgError(
        Message(
            f"{_as_in_scikit_learn(statistics, k, solver)} "
            f"It has rank ⟨#{rank}⟩ of {statistics.n_features}, from ⟨#{counted(n_rows, 'row')}⟩; "
            f"{singular_features(statistics, k, least_eigenvalue)}. Set ⟨reg_param⟩ "
            "higher, or ⟨shrinkage⟩ where features vary, or ⟨pooling='bayes'⟩, leave out constant or "
            "collinear features, bring more rows, or use ⟨LinearDiscriminantAnalysis⟩ or ⟨GaussianNB⟩"
        )
    )


def _as_in_scikit_learn(statistics: Statistics, k: int, solver: str) -> str:
    """The message of scikit-learn's QDA for this class, word for word."""
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


@dataclass(frozen=True)
class Determined:
    """Which covariance models the scatters of the classes determine.

    Attributes
    ----------
    statistics : ClassStatistics or ExactClassStatistics
        Of covariance type "full".
    least_eigenvalue : float
        The eigenvalue of a correlation matrix up to which it counts as zero.
    """

    statistics: Statistics
    least_eigenvalue: float

    def why_not(self, model: str) -> str | None:
        """Why the scatters do not determine a model, and the remedy; None if they do."""
        volume, shape, orientation = tuple(model)
        n_features = self.statistics.n_features
        lacking = ~self._varies.any(axis=1) & (volume == "V")
        if shape == "V" and orientation == "I":
            lacking = ~self._varies.all(axis=1)
        elif shape == "V":
            lacking = self._ranks < n_features
        elif orientation == "V":  # axes need rank d - 1, and their common shape a class of rank d
            has_full = (self._ranks == n_features).any()
            lacking |= self._ranks < (n_features - 1 if has_full else n_features)
        for k in np.flatnonzero(lacking)[:1].tolist():
            return Message(
                f"class {named(self.statistics.classes[k])}: the covariance has rank ⟨#{self._ranks[k]}⟩ of "
                f"{n_features}, from ⟨#{counted(self.statistics.counts[k], 'row')}⟩; "
                f"{singular_features(self.statistics, k, self.least_eigenvalue)}. Bring more rows of it, "
                "leave out constant or collinear features, or name a model of equal volume (EEE, EEI, EII)"
            )
        return self._why_not_together(shape, orientation)

    def _why_not_together(self, shape: str, orientation: str) -> str | None:
        """Why all classes together do not determine a model that each of them does."""
        if shape == "I":
            return None if self._varies.any() else "no feature varies within a class"
        if shape == orientation == "E":
            return self._singular_together()
        is_determined = orientation != "I" or self._varies.any(axis=0).all()
        return None if is_determined else self._deficient()

    def _singular_together(self) -> str | None:
        n_features = self.statistics.n_features
        if int((self.statistics.counts - 1).sum()) < n_features:
            return f"too few rows for {counted(n_features, 'feature')}. Bring more rows, or name EEI or EII"
        rank = Whitening.of(
            pooled_covariance(self.statistics), self.statistics.means, self.least_eigenvalue
        ).rank
        return None if rank == n_features else self._deficient()

    def _deficient(self) -> str:
        found = deficient_features(self.statistics, pooled_covariance(self.statistics), self.least_eigenvalue)
        return Message(
            f"within the classes, {found}. Leave them out, or name EII, or use ⟨LinearDiscriminantAnalysis⟩"
        )

    @cached_property
    def _varies(self) -> NDArray[np.bool_]:
        """Which features vary in which class: (K, d)."""
        varies = np.ones(self.statistics.means.shape, dtype=bool)
        for k in range(len(varies)):
            varies[k, constant_in_class(self.statistics, k)] = False
        return varies

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """The rank of the covariance of each class: n rows span no more than n − 1 dimensions."""
        covariances, means = self.statistics.covariance(), self.statistics.means
        ranks = [Whitening.of(c, means[[k]], self.least_eigenvalue).rank for k, c in enumerate(covariances)]
        return np.minimum(ranks, self.statistics.counts - 1)
