"""Rows in blocks; rows with missing values are grouped by the features that are observed.

The marginal density of the observed features of a Gaussian is the Gaussian with their means and covariances
(Anderson 2003, "An Introduction to Multivariate Statistical Analysis", theorem 2.4.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from streamgda.gaussians.base import Densities
from streamgda.gaussians.whitening import Observed

Rows = NDArray[np.generic]
Positions = slice | NDArray[np.intp]
Blocks = Iterator[tuple[Positions, Densities, Rows]]


def blocks_of(X: Rows, gaussians: Densities, size: int) -> Blocks:
    """Yield (row positions, densities of the observed features, values) for up to `size` rows at a time.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows without missing values.
    gaussians : Densities
        The densities of all the features.
    size : int
        The largest number of rows of a block.
    """
    for start in range(0, len(X), size):
        positions = slice(start, start + size)
        yield positions, gaussians, X[positions]


def blocks_by_pattern(X: Rows, gaussians: Densities, size: int) -> Blocks:
    """As `blocks_of`, for rows in which NaN marks a missing value; the rows of a block share its pattern."""
    if not np.isnan(X.sum()):
        yield from blocks_of(X, gaussians, size)
        return
    for observed, rows in _patterns(X):
        marginal = gaussians if observed.all() else gaussians.marginal(observed)
        for start in range(0, len(rows), size):
            positions = rows[start : start + size]
            yield positions, marginal, X[np.ix_(positions, np.flatnonzero(observed))]


def _patterns(X: Rows) -> Iterator[tuple[Observed, NDArray[np.intp]]]:
    """Yield each pattern of observed features (d,) with the positions of its rows."""
    observed = ~np.isnan(X)
    packed = np.packbits(observed, axis=1)
    keys = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    _, codes = np.unique(keys, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(codes))[:-1]):
        yield observed[rows[0]], rows
