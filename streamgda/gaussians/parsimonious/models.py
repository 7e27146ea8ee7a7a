"""The fourteen models: their names, numbers of parameters and maximum-likelihood fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamgda.gaussians.axes import principal_axes
from streamgda.gaussians.parsimonious.matrix import proportional_covariances
from streamgda.gaussians.parsimonious.rotations import common_axes
from streamgda.gaussians.parsimonious.scales import geometric_means, volumes_and_shapes
from streamgda.gaussians.whitening import Array

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


def _of_scatter(model: str, scatter: Array, weights: Array) -> ParsimoniousCovariances:
    """The covariances that are the scatters, pooled or not, over a number: to the last bit."""
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
