"""Normal densities whose covariances are all regular, or all singular in the same directions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.linalg

from streamgda.gaussians.densities import SeparateGaussians
from streamgda.gaussians.pooling import Pooling
from streamgda.gaussians.tails import of_features
from streamgda.gaussians.whitening import Array, Observed, TriangularWhitening, Whitening


@dataclass(frozen=True, kw_only=True)
class PooledGaussians(SeparateGaussians):
    """A covariance for each class, which leans on a common one.

    Each covariance is whitened in the coordinates in which the common one is the identity. So all have its
    rank. If it is singular, the densities are those of its range, as by a pseudo-inverse.

    Attributes
    ----------
    common : Whitening
        The whitening of the common covariance.
    """

    common: Whitening

    @classmethod
    def of(
        cls, means: Array, covariances: Array, common: Whitening, pooling: Pooling, tails: Array
    ) -> PooledGaussians:
        """The densities with these means (K, d) and covariances (K, d, d) in the range of the common one."""
        whitenings = [_whitening(covariance, common) for covariance in covariances]
        return cls(means=means, whitenings=whitenings, pooling=pooling, tails=tails, common=common)

    def marginal(self, observed: Observed) -> Self:
        """The marginal densities of the observed features, given as a mask (d,)."""
        means = self.means[:, observed]
        common, corner = self.common.marginal(observed, means), np.ix_(observed, observed)
        whitenings = [_whitening(whitening.covariance[corner], common) for whitening in self.whitenings]
        tails = of_features(self.tails, observed)
        return replace(self, means=means, whitenings=whitenings, tails=tails, common=common)


def _whitening(covariance: Array, common: Whitening) -> Whitening:
    """The whitening of a covariance that has the range of another, common one."""
    if 0 < common.rank == len(covariance):
        try:
            return TriangularWhitening.of_regular(covariance, common.least_eigenvalue)
        except np.linalg.LinAlgError:  # singular in float64
            pass
    relative = common.matrix.T @ covariance @ common.matrix
    values, vectors = scipy.linalg.eigh(relative, check_finite=False)
    values = np.maximum(values, len(values) * np.finfo(np.float64).eps * values.max(initial=0.0))
    matrix = common.matrix @ (vectors / np.sqrt(values))
    return Whitening(
        covariance, common.least_eigenvalue, matrix, common.log_pdet + float(np.log(values).sum())
    )
