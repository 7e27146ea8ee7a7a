"""The surface on which two classes have the same posterior probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from streamgda.models.gaussians.base import Densities
from streamgda.models.gaussians.whitening import Array


@dataclass(frozen=True, eq=False)
class QuadraticBoundary:
    """The surface xᵀ A x + bᵀ x + c = 0 between two classes i and j.

    Half of xᵀ A x + bᵀ x + c is the log-odds ln p(i | x) − ln p(j | x): class i is the more likely above
    zero. Called with rows, the boundary returns the value of each. `centre` is subtracted from the rows
    first, so that large means cost no digits; `b` and `c` belong to rows that are not centred.

    Attributes
    ----------
    A : ndarray of shape (d, d)
        Σ_j⁻¹ − Σ_i⁻¹. Zero where the classes share a covariance.
    slope : ndarray of shape (d,)
        The coefficients of x − centre.
    constant : float
        The value at the centre.
    centre : ndarray of shape (d,)
        The midpoint of the means of the two classes.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.9 and 4.12.

    Examples
    --------
    >>> from streamgda import LinearDiscriminantAnalysis
    >>> model = LinearDiscriminantAnalysis().fit([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1])
    >>> boundary = model.boundary(1, 0)
    >>> boundary.A, boundary.b, round(boundary.c, 9)
    (array([[0.]]), array([8.]), -24.0)
    >>> boundary([[3.0], [4.0]])
    array([0., 8.])
    """

    A: Array
    slope: Array
    constant: float
    centre: Array

    @classmethod
    def between(cls, gaussians: Densities, log_priors: Array, i: int, j: int) -> Self:
        """The boundary between the classes at positions i and j."""
        mean_i, mean_j = gaussians.means[i], gaussians.means[j]
        precision_i, precision_j = gaussians.precision(i), gaussians.precision(j)
        low_i, low_j = (0.0, 0.0) if gaussians.mean_tails is None else gaussians.mean_tails[[i, j]]
        centre = mean_i / 2 + mean_j / 2
        slope = 2 * (precision_i @ ((mean_i - centre) + low_i) - precision_j @ ((mean_j - centre) + low_j))
        scores = gaussians.log_density(centre[None, :])[0] + log_priors
        return cls(precision_j - precision_i, slope, float(2 * (scores[i] - scores[j])), centre)

    @property
    def b(self) -> Array:
        """The coefficients of x: (d,)."""
        return self.slope - 2 * self.A @ self.centre

    @property
    def c(self) -> float:
        """The value at the origin."""
        return float(self(np.zeros((1, len(self.centre))))[0])

    def __call__(self, X: ArrayLike) -> Array:
        """The value of xᵀ A x + bᵀ x + c for rows (n, d): (n,)."""
        rows = np.asarray(X, dtype=np.float64) - self.centre
        values: Array = np.vecdot(rows @ self.A, rows) + rows @ self.slope + self.constant
        return values
