"""The directions that separate the classes best: linear discriminants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from streamgda.gaussians.whitening import Array, Whitening


@dataclass(frozen=True)
class Projection:
    """The directions v at which vᵀ B v / vᵀ Σ v is stationary, the largest value first.

    B is the covariance between the classes, Σ the covariance within them.

    Attributes
    ----------
    scalings : ndarray of shape (d, n_components)
        One direction per column, with vᵀ Σ v = 1. The largest element is positive, so that rounding in the
        data does not flip the sign.
    explained_variance_ratio : ndarray of shape (n_components,)
        The share of each direction in the variance between the classes.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.15 and 4.16.
    """

    scalings: Array
    explained_variance_ratio: Array

    @classmethod
    def of(cls, between: Array, within: Whitening, n_components: int) -> Self:
        """The first directions in the range of the covariance within the classes.

        Parameters
        ----------
        between : ndarray of shape (d, d)
            The covariance between the classes.
        within : Whitening
            The whitening of the covariance within them.
        n_components : int
            The largest number of directions to keep.
        """
        whitened = within.matrix.T @ between @ within.matrix
        values, vectors = scipy.linalg.eigh((whitened + whitened.T) / 2)
        values, vectors = values[::-1], vectors[:, ::-1]
        scalings = within.matrix @ vectors[:, :n_components]
        largest = np.abs(scalings).argmax(axis=0)
        scalings *= np.sign(scalings[largest, np.arange(scalings.shape[1])])
        total = values.sum()
        shares = values / total if total else np.zeros_like(values)  # zero if all means are equal
        return cls(scalings, shares[:n_components])
