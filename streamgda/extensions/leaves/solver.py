"""Ridge regressions of class indicators on the leaves of trees, by conjugate gradients.

G holds the weights of pairs of leaves, N the weight of all rows, m = diag(G) / N the mean row, and B the
weights of leaves by class. The regression of penalty λ solves (G − N m mᵀ + λ) W = B − N m sᵀ, with the
shares s of the classes. G is as sparse as the pairs that occur, and the matrix is formed only for few
leaves, where Cholesky's method solves the equations.

References
----------
Hestenes & Stiefel (1952), "Methods of conjugate gradients for solving linear systems"; Saad (2003),
"Iterative methods for sparse linear systems", algorithm 9.1, of the preconditioner, which is the diagonal.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from streamgda.data.blocks.wording import callers_level
from streamgda.extensions.leaves.counts import LeafCounts
from streamgda.statistics.covariances import Array
from streamgda.statistics.kernels.blas import single_blas_thread

_TOL = 1e-4
_TOL_OF_COMPARISON = 1e-2  # closer ones choose the same
_MOST_ITERATIONS = 1_000
_CLASSES_TOGETHER = 8  # whose vectors stay in the cache
_FEW_LEAVES = 4_096  # whose equations Cholesky's method solves
_LEAST_ALPHA = 1e-9  # for that method, of the weight of all rows; with less, rounding may make them singular


@dataclass(frozen=True, eq=False)
class LeafRidge:
    """The regressions of all penalties that the sums of rows at leaves determine."""

    sums: LeafCounts
    rows: sp.csr_array | None = None
    """The rows, (n_rows, n_leaves), if they are at hand: their products take less time."""

    @cached_property
    def weight(self) -> float:
        """N."""
        return float(self.sums.weights.sum())

    @cached_property
    def mean(self) -> Array:
        """The share of the rows at each leaf: (n_leaves,)."""
        return self.sums.leaf_weights / self.weight

    @cached_property
    def shares(self) -> Array:
        """The shares of the classes: (K,)."""
        return self.sums.weights / self.weight

    @cached_property
    def _factors(self) -> list[sp.csr_array]:
        """Matrices whose product is G."""
        if self.rows is not None:
            return [self.rows.T.tocsr(), self.rows]
        pairs = self.sums.pairs
        return [(pairs + pairs.T - sp.diags_array(pairs.diagonal(), format="csr")).tocsr()]

    @cached_property
    def _right(self) -> Array:
        right: Array = np.asarray(self.sums.by_class.T.toarray(), np.float64)
        return right - np.outer(self.mean * self.weight, self.shares)

    def intercepts(self, slopes: Array) -> Array:
        """The values of a row without leaves, by the slopes: (K,)."""
        return self.shares - self.mean @ slopes

    def fitted(self, alphas: Iterable[float], leaves: NDArray[np.int32]) -> Iterator[tuple[float, Array]]:
        """Yield penalties with the values that they fit to rows (n_rows, n_trees) of leaves: (n_rows, K).

        They are for comparison, and not quite solved. A solution begins at the one before it, so large
        penalties come first.
        """
        slopes = None
        for alpha in alphas:
            slopes = self.slopes(alpha, slopes, _TOL_OF_COMPARISON)
            yield alpha, self.fitted_to(leaves, slopes)

    def fitted_to(self, leaves: NDArray[np.int32], slopes: Array) -> Array:
        """The values that slopes give rows (n_rows, n_trees) of leaves: (n_rows, K)."""
        fitted: Array = self.intercepts(slopes) + slopes[leaves].sum(axis=1)
        return fitted

    def _by_cholesky(self, alpha: float) -> Array:
        """The coefficients by Cholesky's method."""
        matrix = self.sums.pairs.toarray() - self.weight * np.outer(self.mean, self.mean)
        matrix[np.diag_indices_from(matrix)] += alpha
        with single_blas_thread():
            found: Array = cho_solve(cho_factor(matrix, overwrite_a=True), self._right)
        return found

    def slopes(self, alpha: float, start: Array | None = None, tol: float = _TOL) -> Array:
        """The coefficients of the deviations of a row from the mean: (n_leaves, K).

        Parameters
        ----------
        alpha : float
            The penalty λ of the squared coefficients.
        start : ndarray of shape (n_leaves, K), optional
            A solution of about the same equations, from which fewer steps are left.
        tol : float
            The largest residual, relative to the right side. Equations of few leaves are solved to rounding,
            unless a solution is only compared.
        """
        few = _FEW_LEAVES if tol <= _TOL else _FEW_LEAVES // 4
        if len(self.mean) <= few and alpha > _LEAST_ALPHA * self.weight:
            return self._by_cholesky(alpha)
        found = np.zeros_like(self._right) if start is None else start.copy()
        n_free = found.shape[1] - 1  # both sides of the equations add up to 0 over the classes
        for first in range(0, n_free, _CLASSES_TOGETHER):
            some = slice(first, min(first + _CLASSES_TOGETHER, n_free))
            found[:, some] = self._by_steps(alpha, found[:, some].copy(), self._right[:, some].copy(), tol)
        found[:, n_free:] = -found[:, :n_free].sum(axis=1, keepdims=True)
        return found

    def _times(self, alpha: float, vectors: Array) -> Array:
        """The matrix of the equations times vectors (n_leaves, n)."""
        product: Array = vectors
        for factor in reversed(self._factors):
            product = factor @ product
        product -= np.outer(self.weight * self.mean, self.mean @ vectors)
        product += alpha * vectors
        return product

    def _by_steps(self, alpha: float, found: Array, right: Array, tol: float) -> Array:
        """Coefficients of some classes by conjugate gradients, which begin at those that are `found`."""
        diagonal = self.sums.leaf_weights - self.weight * self.mean**2 + alpha
        diagonal[diagonal <= 0] = 1.0  # of leaves without rows, where the penalty is 0
        residual = right - self._times(alpha, found)
        limit = tol * np.linalg.norm(right, axis=0)
        scaled = residual / diagonal[:, None]
        direction, squares = scaled.copy(), (residual * scaled).sum(axis=0)
        for _ in range(_MOST_ITERATIONS):
            if (np.linalg.norm(residual, axis=0) <= limit).all():
                return found
            product = self._times(alpha, direction)
            along = (direction * product).sum(axis=0)
            step = np.divide(squares, along, out=np.zeros_like(squares), where=along > 0)
            found += step * direction
            residual -= step * product
            scaled = residual / diagonal[:, None]
            before, squares = squares, (residual * scaled).sum(axis=0)
            direction *= np.divide(squares, before, out=np.zeros_like(squares), where=before > 0)
            direction += scaled
        warnings.warn(
            f"the ridge of {len(found):,} leaves has not converged in {_MOST_ITERATIONS:,} steps with "
            f"alpha={alpha:g}; take a larger alpha",
            stacklevel=callers_level(),
        )
        return found
