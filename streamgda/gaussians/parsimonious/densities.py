"""Normal densities whose covariances are of one of the fourteen models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streamgda.gaussians.densities import SeparateGaussians
from streamgda.gaussians.parsimonious.models import (
    ParsimoniousCovariances,
    fit,
    n_covariance_parameters,
)
from streamgda.gaussians.whitening import Array, Whitening


@dataclass(frozen=True)
class ParsimoniousGaussians(SeparateGaussians):
    """Densities with the covariances of a model.

    Attributes
    ----------
    model : str
        The model.
    fitted : ParsimoniousCovariances
        Its covariances, with their volumes, shapes and orientations.
    bic : dict of str to float
        The criterion of each model that it was chosen among.
    failures : dict of str to str
        Why the other models were not among them.
    """

    model: str
    fitted: ParsimoniousCovariances
    bic: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, model: str, means: Array, scatter: Array, weights: Array, least_eigenvalue: float
    ) -> ParsimoniousGaussians:
        """The most likely densities of a model, given means (K, d), scatters (K, d, d) and weights (K,)."""
        fitted = fit(model, scatter, weights)
        whitenings = [
            Whitening.of(covariance, means[[k]], least_eigenvalue)
            for k, covariance in enumerate(fitted.covariances)
        ]
        return cls(means, whitenings, model, fitted)

    @property
    def n_covariance_parameters(self) -> int:
        """The number of free parameters of the covariances."""
        return n_covariance_parameters(self.model, *self.means.shape)

    @property
    def fault(self) -> str | None:
        """What is wrong with the covariances, if one is singular."""
        singular = np.flatnonzero(self.ranks < self.means.shape[1])
        return (
            f"{len(singular)} of {len(self.means)} covariances are singular up to `tol`"
            if len(singular)
            else None
        )
