"""The release: exact sums of clipped rows, noise on every number, and moments that rows can have."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.labels import Labels
from streamgda.extensions.exact.state import ExactClassStatistics
from streamgda.extensions.private.clipping import GRID
from streamgda.extensions.private.noise import noise
from streamgda.statistics.covariances import Array, CovarianceKind


@dataclass(frozen=True)
class Released:
    """Counts, sums and products of clipped rows, in steps of 1 / GRID² of the largest norm.

    Attributes
    ----------
    kind : CovarianceKind
        Which products are kept.
    counts : ndarray of shape (K,)
    totals : ndarray of shape (K, d)
    products : ndarray of shape (K, n_pairs), or (1, n_pairs) where the classes share them
        Those of two features times √2, so that the vector has the norm of the matrix.
    """

    kind: CovarianceKind
    counts: NDArray[Any]
    totals: NDArray[Any]
    products: NDArray[Any]

    @classmethod
    def of(cls, state: ExactClassStatistics, labels: Labels, kind: CovarianceKind, d: int) -> Self:
        """The integers of a state, with zeros for classes without rows."""
        K, found = len(labels), np.searchsorted(labels, state.classes)
        counts, totals = np.zeros(K, object), np.zeros((K, d), object)
        products = np.zeros((kind.n_packed(K), kind.n_pairs(d)), object)
        if len(found):
            sums = state._labelled.moments
            counts[found], totals[found] = sums.weights.whole(), sums.totals.whole()
            products[slice(None) if kind.is_pooled else found] = sums.products.whole()
        first, second = kind.pairs(d)
        twice = products[:, first != second]
        products[:, first != second] = [[_times_root_two(value) for value in row] for row in twice]
        return cls(kind, counts * GRID**2, totals * GRID, products)

    @property
    def vector(self) -> list[int]:
        """All numbers, one after the other."""
        return [int(value) for part in (self.counts, self.totals, self.products) for value in part.ravel()]

    def with_noise(self, scale: float, random_state: int | None) -> Self:
        """All numbers with noise of this deviation, as floats in units of the largest norm."""
        exact = self.vector
        drawn = noise(len(exact), scale, random_state)
        noisy = np.array([a + b for a, b in zip(exact, drawn, strict=True)], dtype=np.float64) / GRID**2
        parts = (self.counts, self.totals, self.products)
        cut = np.split(noisy, np.cumsum([part.size for part in parts])[:-1])
        counts, totals, products = (one.reshape(part.shape) for one, part in zip(cut, parts, strict=True))
        first, second = self.kind.pairs(self.totals.shape[1])
        products[:, first != second] /= math.sqrt(2)
        return replace(self, counts=counts, totals=totals, products=products)

    def moments(self, kept: NDArray[np.intp], deviation: float) -> tuple[NDArray[np.int64], Array, Array]:
        """Counts, means and scatters of some classes, which rows can have.

        Below the edge of the noise nothing is known of a scatter, and its eigenvalues are set to the edge.
        """
        d = self.totals.shape[1]
        counts = np.maximum(1, np.rint(self.counts[kept])).astype(np.int64)
        means = self.totals[kept] / counts[:, None]
        means /= np.maximum(1, np.linalg.norm(means, axis=1, keepdims=True))
        products = self.products if self.kind.is_pooled else self.products[kept]
        outer = self.kind.outer(np.sqrt(counts)[:, None] * means)
        scatter = self.kind.unpacked(products, len(kept), d) - outer
        if not self.kind.has_products:
            return counts, means, np.maximum(scatter, 2 * deviation)
        values, vectors = np.linalg.eigh(scatter)
        squares = np.square(means).sum(axis=-1)[:, None]
        raised = np.maximum(values, edge(deviation, d, squares.sum() if self.kind.is_pooled else squares))
        return counts, means, (vectors * raised[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def edge(deviation: float, n_features: int, squares: Array | float) -> Array | float:
    """The largest eigenvalue that noise alone gives to a scatter of classes.

    In products of two features, noise has the deviation σ/√2; what is subtracted for means m has
    (m_i² + m_j²) σ² more variance for each class. So the edge is σ √(2d + 8 Σ|m|²), by Wigner's semicircle.

    Parameters
    ----------
    deviation : float
        Of the noise, σ.
    n_features : int
        d.
    squares : float or ndarray
        Σ|m|² over the classes that share the scatter.
    """
    return deviation * np.sqrt(2 * n_features + 8 * squares)


def _times_root_two(value: int) -> int:
    """The integer nearest to √2 times an integer."""
    root = (math.isqrt(8 * value * value) + 1) // 2
    return root if value > 0 else -root
