"""The directions in which the classes lie farthest apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from streamgda.gaussians.whitening import Array, Whitening


@dataclass(frozen=True)
class Projection:
    """The directions v that make vᵀ B v / vᵀ Σ v stationary, the best first.

    B is the covariance between the classes, Σ that within them.

    Attributes
    ----------
    scalings : ndarray of shape (d, n_components)
        A direction in each column, with vᵀ Σ v = 1 and its largest element positive, so that it does not
        turn round with the last digit of the data.
    explained_variance_ratio : ndarray of shape (n_components,)
        The share of each in the variance between the classes.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), "The Elements of Statistical Learning", eq. 4.15 and 4.16.
    """

    scalings: Array
    explained_variance_ratio: Array

    @classmethod
    def of(cls, between: Array, within: Whitening, n_components: int) -> Self:
        """The best directions in the range of the covariance within the classes.

        Parameters
        ----------
        between : ndarray of shape (d, d)
            The covariance between the classes.
        within : Whitening
            That within them.
        n_components : int
            How many directions to keep, as far as there are as many.
        """
        whitened = within.matrix.T @ between @ within.matrix
        values, vectors = scipy.linalg.eigh((whitened + whitened.T) / 2)
        values, vectors = values[::-1], vectors[:, ::-1]
        scalings = within.matrix @ vectors[:, :n_components]
        largest = np.abs(scalings).argmax(axis=0)
        scalings *= np.sign(scalings[largest, np.arange(scalings.shape[1])])
        total = values.sum()
        shares = values / total if total else np.zeros_like(values)  # where all the means are the same
        return cls(scalings, shares[:n_components])
