"""The fourteen models: their names, numbers of parameters, maximum-likelihood fits and densities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streamgda.gaussians.axes import principal_axes
from streamgda.gaussians.densities import SeparateGaussians
from streamgda.gaussians.parsimonious.rotations import common_axes
from streamgda.gaussians.parsimonious.scales import (
    geometric_means,
    proportional_covariances,
    volumes_and_shapes,
)
from streamgda.gaussians.whitening import Array, Whitening

MODELS = (
    "EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"
)  # fmt: skip
"""The models, named by volume, shape and orientation."""


@dataclass(frozen=True)
class ParsimoniousCovariances:
    """The covariances of K classes of d features, λ_k D_k A_k D_kᵀ.

    Attributes
    ----------
    covariances : ndarray of shape (K, d, d)
        The covariances.
    volumes : ndarray of shape (K,)
        λ, the geometric means of their eigenvalues.
    shapes : ndarray of shape (K, d)
        The diagonals of A: the eigenvalues over their geometric mean.
    orientations : ndarray of shape (K, d, d)
        D, with the axes as columns.
    """

    covariances: Array
    volumes: Array
    shapes: Array
    orientations: Array


def n_covariance_parameters(model: str, n_classes: int, n_features: int) -> int:
    """The number of free parameters of the covariances of a model.

    Examples
    --------
    >>> n_covariance_parameters("VEV", n_classes=3, n_features=4)
    24
    """
    volume, shape, orientation = tuple(model)
    times = {"I": 0, "E": 1, "V": n_classes}
    rotation = n_features * (n_features - 1) // 2
    return times[volume] + times[shape] * (n_features - 1) + times[orientation] * rotation


def fit(model: str, scatter: Array, weights: Array) -> ParsimoniousCovariances:
    """The maximum-likelihood covariances of a model.

    Parameters
    ----------
    model : str
        One of `MODELS`.
    scatter : ndarray of shape (K, d, d)
        Σ (x − mean)(x − mean)ᵀ of each class. They must determine the model.
    weights : ndarray of shape (K,)
        The rows of each class.

    References
    ----------
    Celeux & Govaert (1995), "Gaussian parsimonious clustering models", Pattern Recognition 28, section 2.

    Examples
    --------
    >>> scatter = np.array([[[4.0, 1.0], [1.0, 2.0]], [[6.0, -1.0], [-1.0, 4.0]]])
    >>> fit("EEI", scatter, np.array([5.0, 5.0])).covariances[0]
    array([[1. , 0. ],
           [0. , 0.6]])
    """
    volume, shape, orientation = tuple(model)
    if model == "VEE":
        return _decomposed(proportional_covariances(scatter, weights))
    if model in {"EEE", "VVV", "EVV"}:
        return _of_scatter(model, scatter, weights)
    parts, axes = _along_axes(orientation, volume, scatter, weights)
    volumes, shapes = volumes_and_shapes(parts, weights, volume, shape)
    covariances = np.einsum("kij,kj,klj->kil", axes, volumes[:, None] * shapes, axes)
    return ParsimoniousCovariances(covariances, volumes, shapes, axes)


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
        The criterion of each model that was compared.
    failures : dict of str to str
        Why the other models were not compared.
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
            If the likelihood has no maximum, or a covariance is singular.
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


def _of_scatter(model: str, scatter: Array, weights: Array) -> ParsimoniousCovariances:
    """The covariances that are a scatter, pooled or not, divided by a number; so no digit is lost."""
    if model == "EEE":
        return _decomposed(np.tile(scatter.sum(axis=0) / weights.sum(), (len(weights), 1, 1)))
    if model == "VVV":
        return _decomposed(scatter / weights[:, None, None])
    sizes = geometric_means(np.array([principal_axes(matrix)[0] for matrix in scatter]))
    return _decomposed(scatter * (sizes.sum() / weights.sum() / sizes)[:, None, None])


def _along_axes(orientation: str, volume: str, scatter: Array, weights: Array) -> tuple[Array, Array]:
    """The scatters of the classes along their axes (K, d), and the axes as columns (K, d, d)."""
    if orientation == "I":
        return np.einsum("kii->ki", scatter), np.tile(np.eye(scatter.shape[-1]), (len(scatter), 1, 1))
    if orientation == "V":
        values, vectors = zip(*map(principal_axes, scatter), strict=True)
        return np.array(values), np.array(vectors)
    axes = common_axes(scatter, weights, volume)
    turned = np.linalg.cholesky(scatter).transpose(0, 2, 1) @ axes
    return (turned**2).sum(axis=1), np.tile(axes, (len(scatter), 1, 1))


def _decomposed(covariances: Array) -> ParsimoniousCovariances:
    values, vectors = (np.array(part) for part in zip(*map(principal_axes, covariances), strict=True))
    volumes = geometric_means(values)
    return ParsimoniousCovariances(covariances, volumes, values / volumes[:, None], vectors)
