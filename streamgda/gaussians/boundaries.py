"""The surface on which two classes are as likely as one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from streamgda.gaussians.densities import Gaussians
from streamgda.gaussians.whitening import Array


@dataclass(frozen=True, eq=False)
class QuadraticBoundary:
    """The surface xᵀ A x + bᵀ x + c = 0 between two classes; above zero, the first is the likelier.

    Half of xᵀ A x + bᵀ x + c is the log-odds ln p(i | x) − ln p(j | x). Called with rows, it gives the value
    for each. It takes them from `centre`, between the two means, so that no digits are lost where features
    have large means; `b` and `c` go with features as they are.

    Attributes
    ----------
    A : ndarray of shape (d, d)
        Σ_j⁻¹ − Σ_i⁻¹. Zero where the classes share a covariance.
    slope : ndarray of shape (d,)
        The coefficients of x − centre.
    constant : float
        The value at the centre.
    centre : ndarray of shape (d,)
        Half way between the means of the two classes.

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
    def between(cls, gaussians: Gaussians, log_priors: Array, i: int, j: int) -> Self:
        """The boundary between classes i and j, of log densities and log priors."""
        centre = gaussians.means[i] / 2 + gaussians.means[j] / 2
        of_i, of_j = gaussians.precision(i), gaussians.precision(j)
        to_i, to_j = of_i @ (gaussians.means[i] - centre), of_j @ (gaussians.means[j] - centre)
        scores = gaussians.log_density(centre[None, :])[0] + log_priors
        return cls(of_j - of_i, 2 * (to_i - to_j), float(2 * (scores[i] - scores[j])), centre)

    @property
    def b(self) -> Array:
        """The coefficients of x: (d,)."""
        linear: Array = self.slope - 2 * self.A @ self.centre
        return linear

    @property
    def c(self) -> float:
        """The value at the origin."""
        return float(self(np.zeros((1, len(self.centre))))[0])

    def __call__(self, X: ArrayLike) -> Array:
        """The value of xᵀ A x + bᵀ x + c for rows (n, d): (n,)."""
        rows = np.asarray(X, dtype=np.float64) - self.centre
        values: Array = np.vecdot(rows @ self.A, rows) + rows @ self.slope + self.constant
        return values
