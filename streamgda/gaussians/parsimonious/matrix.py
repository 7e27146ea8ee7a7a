"""Covariances that are equal but for their volumes (VEE)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamgda.gaussians.parsimonious.scales import last
from streamgda.gaussians.whitening import Array

_MOST_STEPS = 10_000
_CONVERGED = 1e-12  # change of the logarithm of a volume


def proportional_covariances(scatter: Array, weights: Array) -> Array:
    """The most likely covariances (K, d, d) that are multiples of one another, given scatters (K, d, d)."""
    deviations = np.sqrt(np.einsum("kii->i", scatter))
    units = np.outer(deviations, deviations)  # which the steps do not depend on
    volumes, matrix = last(common_matrix(scatter / units, weights), _CONVERGED, _MOST_STEPS)
    covariances: Array = volumes[:, None, None] * matrix * units
    return covariances


def common_matrix(scatter: Array, weights: Array) -> Iterator[tuple[Array, Array]]:
    """Multiples (K,) and a matrix (d, d) of determinant 1, each step likelier than the one before.

    A step makes multiples and matrix likeliest in turn, each given the other. The likelihood has a single
    maximum.
    """
    n_features = scatter.shape[-1]
    volumes = np.einsum("kii->k", scatter) / (n_features * weights)
    while True:
        matrix = np.tensordot(1 / volumes, scatter, axes=1)
        matrix /= np.exp(np.linalg.slogdet(matrix)[1] / n_features)
        volumes = np.einsum("kij,ij->k", scatter, np.linalg.inv(matrix)) / (n_features * weights)
        yield volumes, matrix
