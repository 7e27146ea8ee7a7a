"""Which covariance models the rows determine; if not, the features that cause it, and the remedies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.wording import counted, named
from streamgda.models.gaussians.components import (
    constant_in_class,
    deficient_features,
    pooled_covariance,
    singular_features,
)
from streamgda.models.gaussians.whitening import Whitening
from streamgda.statistics.base import Statistics


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
        if lacking.any():
            k = int(lacking.argmax())
            return (
                f"class {named(self.statistics.classes[k])}: the covariance has rank {self._ranks[k]} of "
                f"{n_features}, from {counted(self.statistics.counts[k], 'row')}; "
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
        fault = deficient_features(self.statistics, pooled_covariance(self.statistics), self.least_eigenvalue)
        return f"within the classes, {fault}. Leave them out, or name EII, or use LinearDiscriminantAnalysis"

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
