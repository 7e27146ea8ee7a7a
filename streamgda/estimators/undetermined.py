"""Which of the fourteen covariance models some statistics determine, and what they lack for the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.wording import Message, counted, named
from streamgda.gaussians.whitening import Whitening
from streamgda.statistics.base import Statistics
from streamgda.statistics.components import pooled_covariance
from streamgda.statistics.deficient import constant_in_class, deficient_features, singular_features

REMEDIES = (
    "Bring more rows of it, leave out constant or collinear features, or name a model whose matrix is equal "
    "(EEE, VEE) or a sphere (EII, VII)"
)


@dataclass(frozen=True)
class Determined:
    """What the scatters of the classes determine.

    Attributes
    ----------
    statistics : ClassStatistics or ExactClassStatistics
        Of covariance type "full".
    least_eigenvalue : float
        The eigenvalue of a correlation matrix up to which it counts as zero.
    """

    statistics: Statistics
    least_eigenvalue: float

    def fault(self, model: str) -> str | None:
        """What is missing for a model, of a class or of them all, and the remedy; None if nothing is."""
        volume, shape, orientation = tuple(model)
        n_features = self.statistics.n_features
        if shape == "V":
            return self._constant_in_one() if orientation == "I" else self._singular_class(n_features)
        if volume == "V" and (fault := self._class_without_variance()):
            return fault
        if shape == "I":
            return None if self._varies.any() else "no feature varies within a class"
        if orientation == "V":
            return self._undetermined_axes()
        return self._constant_in_all() if orientation == "I" else self._singular_together()

    def _undetermined_axes(self) -> str | None:
        """The axes of a class are determined up to rank d − 1, and the shape by a class of rank d."""
        n_features = self.statistics.n_features
        has_full = (self._ranks == n_features).any()
        return self._singular_class(n_features - 1 if has_full else n_features)

    def _singular_class(self, least_rank: int) -> str | None:
        for k in np.flatnonzero(self._ranks < least_rank)[:1].tolist():
            return Message(
                f"class {named(self.statistics.classes[k])}: the covariance has rank ⟨#{self._ranks[k]}⟩ of "
                f"{self.statistics.n_features}, from ⟨#{counted(self.statistics.counts[k], 'row')}⟩; "
                f"{singular_features(self.statistics, k, self.least_eigenvalue)}. {REMEDIES}"
            )
        return None

    def _constant_in_one(self) -> str | None:
        for k in np.flatnonzero(~self._varies.all(axis=1))[:1].tolist():
            return (
                f"class {named(self.statistics.classes[k])}: "
                f"{singular_features(self.statistics, k, self.least_eigenvalue)}. {REMEDIES}"
            )
        return None

    def _class_without_variance(self) -> str | None:
        for k in np.flatnonzero(~self._varies.any(axis=1))[:1].tolist():
            return Message(
                f"class {named(self.statistics.classes[k])}: no feature varies in its "
                f"⟨#{counted(self.statistics.counts[k], 'row')}⟩. Bring more rows of it, or name a model of "
                "equal volume (EEE, EEI, EII)"
            )
        return None

    def _constant_in_all(self) -> str | None:
        return None if self._varies.any(axis=0).all() else self._deficient()

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
        """The rank of the covariance of each class, of which n rows span n − 1 dimensions at most."""
        covariances, means = self.statistics.covariance(), self.statistics.means
        ranks = [Whitening.of(c, means[[k]], self.least_eigenvalue).rank for k, c in enumerate(covariances)]
        return np.minimum(ranks, self.statistics.counts - 1)
