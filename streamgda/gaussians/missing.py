"""Rows in blocks, those with missing values grouped by what is missing.

The marginal density of a Gaussian is that of the features observed, with their means and covariances
(Anderson 2003, "An Introduction to Multivariate Statistical Analysis", theorem 2.4.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from streamgda.gaussians.densities import Gaussians
from streamgda.gaussians.whitening import Observed

Rows = NDArray[np.generic]

Positions = slice | NDArray[np.intp]

Blocks = Iterator[tuple[Positions, Gaussians, Rows]]


def blocks_of(X: Rows, gaussians: Gaussians, size: int) -> Blocks:
    """Yield (row positions, densities of the observed features, values) for up to `size` rows at a time.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows in which nothing is missing.
    gaussians : Gaussians
        The densities of all the features.
    size : int
        Rows of a block.
    """
    for start in range(0, len(X), size):
        positions = slice(start, start + size)
        yield positions, gaussians, X[positions]


def blocks_by_pattern(X: Rows, gaussians: Gaussians, size: int) -> Blocks:
    """The same for rows in which NaN is what is missing: all rows of a block have the same features."""
    if not np.isnan(X.sum()):
        yield from blocks_of(X, gaussians, size)
        return
    for observed, rows in _patterns(X):
        marginal = gaussians if observed.all() else gaussians.marginal(observed)
        for start in range(0, len(rows), size):
            positions = rows[start : start + size]
            yield positions, marginal, X[np.ix_(positions, np.flatnonzero(observed))]


def _patterns(X: Rows) -> Iterator[tuple[Observed, NDArray[np.intp]]]:
    """Each set of features that some rows have observed, and which rows those are."""
    observed = ~np.isnan(X)
    packed = np.packbits(observed, axis=1)
    keys = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    _, code = np.unique(keys, return_inverse=True)
    order = np.argsort(code, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(code))[:-1]):
        yield observed[rows[0]], rows
