"""Volumes and shapes of classes whose axes are known, and volumes of one matrix (VEE)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from streamgda.gaussians.whitening import Array

_MOST_STEPS = 10_000
_CONVERGED = 1e-13  # change of the logarithm of a volume
_CONVERGED_OF_MATRIX = 1e-12
_ROUNDING = 1e-6  # a larger change in half of the steps means that there is no maximum
_NO_MAXIMUM = (
    "the likelihood of the volumes has no maximum, since too many rows are of classes that lack directions. "
    "Bring more rows of these classes, or name a model of equal volume (EEE, EEI, EII)"
)


def volumes_and_shapes(parts: Array, weights: Array, volume: str, shape: str) -> tuple[Array, Array]:
    """The most likely volumes λ (K,) and shapes A (K, d) of classes with diagonal scatters.

    Parameters
    ----------
    parts : ndarray of shape (K, d)
        The scatter of each class along each of its axes.
    weights : ndarray of shape (K,)
        The rows of each class.
    volume : {"E", "V"}
        Whether volumes are equal, or vary.
    shape : {"I", "E", "V"}
        Whether shapes are spheres, equal, or vary.

    References
    ----------
    Celeux & Govaert (1995), "Gaussian parsimonious clustering models", section 2.

    Examples
    --------
    >>> volumes_and_shapes(np.array([[4.0, 1.0], [8.0, 2.0]]), np.array([1.0, 1.0]), "V", "E")
    (array([2., 4.]), array([[2. , 0.5],
           [2. , 0.5]]))
    """
    if shape != "E":
        sizes = geometric_means(parts) if shape == "V" else parts.mean(axis=1)
        shapes = parts / sizes[:, None] if shape == "V" else np.ones_like(parts)
        if volume == "V":
            return sizes / weights, shapes
        return np.full(len(parts), sizes.sum() / weights.sum()), shapes
    if volume == "V":
        return last(common_shape(parts, weights), _CONVERGED, _MOST_STEPS)
    pooled = parts.sum(axis=0)
    size = geometric_means(pooled)
    return np.full(len(parts), size / weights.sum()), np.tile(pooled / size, (len(parts), 1))


def common_shape(parts: Array, weights: Array) -> Iterator[tuple[Array, Array]]:
    """Yield volumes (K,) and the common shape, as (K, d), each step likelier than the one before.

    A step maximises the likelihood over the volumes and the shape in turn, each given the other. The
    likelihood has a single maximum.
    """
    volumes = parts.mean(axis=1) / weights
    while True:
        shape = (parts / volumes[:, None]).sum(axis=0)
        shape /= geometric_means(shape)
        volumes = (parts / shape).mean(axis=1) / weights
        yield volumes, np.tile(shape, (len(parts), 1))


def proportional_covariances(scatter: Array, weights: Array) -> Array:
    """The most likely covariances (K, d, d) that are multiples of one another, given scatters (K, d, d)."""
    deviations = np.sqrt(np.einsum("kii->i", scatter))
    units = np.outer(deviations, deviations)  # the steps do not depend on them
    volumes, matrix = last(common_matrix(scatter / units, weights), _CONVERGED_OF_MATRIX, _MOST_STEPS)
    covariances: Array = volumes[:, None, None] * matrix * units
    return covariances


def common_matrix(scatter: Array, weights: Array) -> Iterator[tuple[Array, Array]]:
    """Yield multiples (K,) and a matrix (d, d) of determinant 1, each step likelier than the one before.

    A step maximises the likelihood over the multiples and the matrix in turn, each given the other. The
    likelihood has a single maximum.
    """
    n_features = scatter.shape[-1]
    volumes = np.einsum("kii->k", scatter) / (n_features * weights)
    while True:
        matrix = np.tensordot(1 / volumes, scatter, axes=1)
        matrix /= np.exp(np.linalg.slogdet(matrix)[1] / n_features)
        volumes = np.einsum("kij,ij->k", scatter, np.linalg.inv(matrix)) / (n_features * weights)
        yield volumes, matrix


def last(steps: Iterator[tuple[Array, Array]], converged: float, most: int) -> tuple[Array, Array]:
    """The step after which no volume changes by more than a share of itself.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the volumes do not stop changing, since the likelihood has no maximum. If only rounding changes
        them, since the covariances are nearly singular, the last step is returned.
    """
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):  # a matrix may become singular
        volumes, other = next(steps)
        for step in range(most):
            before = volumes
            volumes, other = next(steps)
            change = np.abs(np.log(volumes / before))
            if (change <= converged).all():
                return volumes, other
            if not np.isfinite(change).all():
                break
            if step == most // 2:
                halfway = volumes
        else:
            if (np.abs(np.log(volumes / halfway)) <= _ROUNDING).all():
                return volumes, other
    raise np.linalg.LinAlgError(_NO_MAXIMUM)


def geometric_means(parts: Array) -> Array:
    """The geometric mean over the last axis."""
    means: Array = np.exp(np.log(parts).mean(axis=-1))
    return means
