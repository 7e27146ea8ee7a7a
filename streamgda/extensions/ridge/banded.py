"""A symmetric matrix in coordinates in which it is banded: there, traces of inverses cost little.

Eigenvectors of some thousand features cost four times as much: half of their work is products with vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf, dtrtri

from streamgda.statistics.covariances import Array
from streamgda.statistics.kernels.blas import single_blas_thread

_WIDTH = 64  # of the band; products are slower with a narrower one, and traces with a wider one


class Powers(NamedTuple):
    """Traces of powers of an inverse A⁻¹.

    Attributes
    ----------
    traces : ndarray of shape (2,)
        tr A⁻¹ and tr A⁻².
    products : ndarray of shape (3,)
        tr Bᵀ A⁻¹ B, tr Bᵀ A⁻² B and tr Bᵀ A⁻³ B.
    """

    traces: Array
    products: Array


@dataclass(frozen=True, eq=False)
class Banded:
    """The blocks of the banded matrix Qᵀ C Q, and the vectors Qᵀ B, where Q is orthogonal.

    Attributes
    ----------
    blocks : sequence of ndarray of shape (w, w)
        On the diagonal.
    below : sequence of ndarray of shape (w, w)
        Below each of them but the last. The last of these may have fewer rows.
    vectors : ndarray of shape (d, K)
        Qᵀ B.

    References
    ----------
    Bischof, Lang & Sun (2000), "A framework for symmetric band reduction", ACM Transactions on Mathematical
    Software 26; Schreiber & Van Loan (1989), "A storage-efficient WY representation for products of
    Householder transformations", SIAM Journal on Scientific and Statistical Computing 10.
    """

    blocks: Sequence[Array]
    below: Sequence[Array]
    vectors: Array

    @classmethod
    def of(cls, matrix: Array, vectors: Array, width: int = _WIDTH) -> Self:
        """The banded form of a symmetric matrix (d, d), and of vectors.

        It takes 4/3 d³ operations, and beside the matrix half of its memory.

        Parameters
        ----------
        matrix : ndarray of shape (d, d)
            C.
        vectors : ndarray of shape (d, K)
            B.
        width : int
            How many diagonals there are below the main one.
        """
        starts = range(0, len(matrix), width)
        strips = [matrix[start:, start : start + width].copy() for start in starts]
        rest, blocks, below = vectors.copy(), list[Array](), list[Array]()
        made = cls(blocks, below, rest)  # the loop fills the lists, and changes `rest` in place
        with single_blas_thread():
            while strips:
                panel = strips.pop(0)
                n = panel.shape[1]
                blocks.append(panel[:n].copy())
                if strips:
                    rest = rest[n:]
                    below.append(_reflect(panel[n:], strips, rest))
        return made

    def powers(self, shift: float, *, all_of_them: bool = True) -> Powers:
        """The traces of powers of the inverse of A = C + shift · identity.

        Unless `all_of_them` is true, tr A⁻² and tr Bᵀ A⁻³ B are left out, as 0, which halves the work.

        With the Schur complements S of the blocks, log det A = Σ log det S, and tr Bᵀ A⁻¹ B = Σ tr yᵀ S⁻¹ y.
        Their derivatives by the shift are the traces of the other powers. They are formed with Cholesky
        factors of S: the rounding errors of its inverse would grow with the square of the condition number.
        """
        traces, products = np.zeros(2), np.zeros(3)
        identity = np.eye(len(self.blocks[0]))
        s0, s1, s2 = self.blocks[0] + shift * identity, identity, np.zeros_like(identity)
        y0, stop = self.vectors[: len(identity)], len(identity)
        y1 = y2 = np.zeros_like(y0)
        with single_blas_thread():
            for i in range(len(self.blocks)):
                inverse = _inverse_root(s0, shift)
                m1 = inverse @ s1 @ inverse.T
                u0, y1 = inverse @ y0, inverse @ y1
                u1 = y1 - m1 @ u0
                traces[0] += np.trace(m1)
                products[0] += np.vdot(u0, u0)
                products[1] -= np.vdot(u0, y1) + np.vdot(u0, u1)
                if all_of_them:
                    m2, y2 = inverse @ s2 @ inverse.T, inverse @ y2
                    u2 = y2 - 2 * (m1 @ u1) - m2 @ u0
                    traces[1] += np.vdot(m1, m1) - np.trace(m2)
                    products[2] += np.vdot(u0, y2) / 2 + np.vdot(y1, u1) + np.vdot(u0, u2) / 2
                if i == len(self.below):
                    break
                block, e = self.blocks[i + 1], inverse @ self.below[i].T
                start, stop = stop, stop + len(block)
                identity = np.eye(len(block))
                s0, s1 = block + shift * identity - e.T @ e, identity + e.T @ m1 @ e
                y0, y1 = self.vectors[start:stop] - e.T @ u0, -e.T @ u1
                if all_of_them:
                    s2, y2 = e.T @ (m2 - 2 * (m1 @ m1)) @ e, -e.T @ u2
        return Powers(traces, products)


def _inverse_root(matrix: Array, least: float) -> Array:
    """R⁻¹ of a matrix R Rᵀ, in whose eigenvalues nothing but rounding errors is below the least."""
    root, problem = dpotrf(matrix, lower=True)
    if problem or root.diagonal().min() ** 2 < least / 2:
        values, vectors = np.linalg.eigh(matrix)
        root = np.linalg.qr((vectors * np.sqrt(np.maximum(values, least))).T)[1].T
    inverse: Array = dtrtri(root, lower=True)[0]
    return inverse


def _reflect(panel: Array, strips: Sequence[Array], vectors: Array) -> Array:
    """Reflect a matrix and vectors so that a panel beside it is a triangle, which is returned.

    Parameters
    ----------
    panel : ndarray of shape (m, w)
        What stands beside the matrix.
    strips : sequence of ndarray
        The columns of the matrix (m, m), from the diagonal on: changed in place.
    vectors : ndarray of shape (m, K)
        Changed in place.
    """
    (packed, tau), triangle = scipy.linalg.qr(panel, mode="raw", check_finite=False)
    v = np.tril(packed[:, : len(tau)], -1)
    np.fill_diagonal(v, 1.0)
    upper = np.eye(len(tau)) + tau[:, None] * np.triu(v.T @ v, 1)
    w = v @ scipy.linalg.solve_triangular(upper, np.diag(tau), unit_diagonal=True)  # they are 1 - w vᵀ
    vectors -= v @ (w.T @ vectors)
    y, start = np.zeros(v.shape), 0
    for strip in strips:
        stop = start + strip.shape[1]
        dgemm(1.0, w[start:stop].T, strip.T, 1.0, y[start:].T, overwrite_c=True)
        y[start:stop] += strip[stop - start :].T @ w[stop:]
        start = stop
    y -= v @ (w.T @ y / 2)
    left, right, start = np.hstack([v, y]), np.hstack([y, v]), 0
    for strip in strips:
        stop = start + strip.shape[1]
        dgemm(-1.0, right[start:stop].T, left[start:].T, 1.0, strip.T, trans_a=True, overwrite_c=True)
        start = stop
    return np.triu(triangle[: len(tau)])
