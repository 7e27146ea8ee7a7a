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
        """The most likely densities of a model, given means (K, d), scatters (K, d, d) and weights (K,).

        Raises
        ------
        numpy.linalg.LinAlgError
            If there are none, or a covariance is singular.
        """
        fitted = fit(model, scatter, weights)
        whitenings = [
            Whitening.of(covariance, means[[k]], least_eigenvalue)
            for k, covariance in enumerate(fitted.covariances)
        ]
        n_singular = sum(whitening.rank < means.shape[1] for whitening in whitenings)
        if n_singular:
            raise np.linalg.LinAlgError(f"{n_singular} of {len(means)} covariances are singular up to `tol`")
        return cls(means, whitenings, model, fitted)

    @property
    def n_covariance_parameters(self) -> int:
        """The number of free parameters of the covariances."""
        return n_covariance_parameters(self.model, *self.means.shape)
