"""Covariances of classes that lean on the pooled covariance, by how few rows a class has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from streamgda.gaussians.evidence import most_likely_prior_rows
from streamgda.gaussians.whitening import Array


@dataclass(frozen=True)
class Pooling:
    """How the covariance of each class is made of its own scatter and the pooled covariance.

    Σ_k = (a W_k + s_k D_k Σ) / D_k, where W_k is the scatter of the class and Σ the pooled covariance.

    Attributes
    ----------
    prior_rows : float
        How many rows the pooled covariance counts for beside those of a class; infinite if it is the
        covariance of all classes.
    own : ndarray of shape (n_classes,)
        a / D_k, the factor of the scatter W_k.
    shares : ndarray of shape (n_classes,)
        s_k, the factor of the pooled covariance.
    divisors : ndarray of shape (n_classes,)
        D_k.
    degrees : ndarray of shape (n_classes,)
        The degrees of freedom of the predictive density. It cannot be estimated if they are not positive.
    n_free : float
        For how many free covariances those of the classes count.
    """

    prior_rows: float
    own: Array
    shares: Array
    divisors: Array
    degrees: Array
    n_free: float

    @classmethod
    def by_share(cls, share: float, weights: Array, rank: int) -> Self:
        """Σ_k = ((1 − λ) W_k + λ W) / ((1 − λ) n_k + λ N), for a share λ and classes of weights n_k.

        Parameters
        ----------
        share : float
            λ in [0, 1]: at 0 each class has its own covariance, at 1 all have the pooled one.
        weights : ndarray of shape (n_classes,)
            The weights of the classes.
        rank : int
            The rank of the pooled covariance, regularised as those of the classes are.

        References
        ----------
        Friedman (1989), "Regularized discriminant analysis", Journal of the American Statistical Association
        84, eq. 16 and 17.
        """
        total = weights.sum()
        divisors = (1 - share) * weights + share * total
        degrees = (1 - share) * (weights - 1) + share * (total - len(weights)) - rank + 1
        prior_rows = share * total / (1 - share) if share < 1 else np.inf
        return cls._of(
            prior_rows, (1 - share) / divisors, share * total / divisors, divisors, degrees, weights
        )

    @classmethod
    def by_evidence(cls, weights: Array, eigenvalues: Array) -> Self:
        """Σ_k = (c Σ + W_k) / (c + n_k − 1), with the number c that `most_likely_prior_rows` finds.

        A class whose weights sum to less than one row counts as one row here: n_k − 1 is then 0.

        Parameters
        ----------
        weights : ndarray of shape (n_classes,)
            The weights n_k of the classes.
        eigenvalues : ndarray of shape (n_classes, n_scatters, p)
            Of the scatters of each class; see `most_likely_prior_rows`.
        """
        rows = np.maximum(weights - 1, 0.0)
        _, n_scatters, dimension = eigenvalues.shape
        scatters = eigenvalues.reshape(-1, dimension) if eigenvalues.size else np.empty((0, 1))
        prior_rows = most_likely_prior_rows(scatters, np.repeat(rows, n_scatters)[: len(scatters)])
        divisors = prior_rows + rows
        return cls._of(prior_rows, 1 / divisors, prior_rows / divisors, divisors, divisors + 2, weights)

    @classmethod
    def _of(
        cls, prior_rows: float, own: Array, shares: Array, divisors: Array, degrees: Array, weights: Array
    ) -> Self:
        n_free = own @ weights + shares @ weights / weights.sum()
        return cls(float(prior_rows), own, shares, divisors, degrees, float(n_free))

    def covariances(self, scatter: Array, pooled: Array) -> Array:
        """The covariances of classes with scatters (K, ...) and a pooled covariance (...): (K, ...)."""
        shape = (-1,) + (1,) * pooled.ndim
        result: Array = self.own.reshape(shape) * scatter + self.shares.reshape(shape) * pooled
        return result


def relative_eigenvalues(scatter: Array, matrix: Array) -> Array:
    """The eigenvalues of Mᵀ W_k M, for scatters W_k (K, d, d) and a whitening matrix M (d, r): (K, 1, r)."""
    eigenvalues = [[np.linalg.eigvalsh(matrix.T @ own @ matrix)] for own in scatter]
    return np.maximum(eigenvalues, 0.0)
