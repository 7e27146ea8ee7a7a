"""Classifiers to compare with that learn from batches, with `partial_fit` and `predict_proba`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from streamgda.models.gaussians.whitening import Whitening

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class DeepSLDA:
    """Streaming LDA: running means, a running covariance, and its inverse when it is needed.

    References
    ----------
    Hayes & Kanan (2020), "Lifelong machine learning with deep streaming linear discriminant analysis": rows
    are learnt one by one, and the covariance is shrunk by 1e-4 towards the identity. Here the rows of a batch
    are learnt by one matrix product, and the shrunk covariance is inverted and not pseudo-inverted: both are
    faster.
    """

    def __init__(self, n_features: int, n_classes: int, shrinkage: float = 1e-4) -> None:
        self.means, self.counts = np.zeros((n_classes, n_features)), np.zeros(n_classes)
        self.covariance, self.n_rows = np.eye(n_features), 0
        self.shrinkage = shrinkage
        self.weights: tuple[Array, Array] | None = None

    def partial_fit(self, X: Array, y: Codes) -> DeepSLDA:
        """Update the covariance by the deviations from the means so far, then the means."""
        deviations = X - self.means[y]
        self.covariance *= self.n_rows / (self.n_rows + len(X))
        share = self.n_rows / (self.n_rows + 1) / (self.n_rows + len(X))
        self.covariance += share * (deviations.T @ deviations)
        self.n_rows += len(X)
        np.add.at(self.counts, y, 1.0)
        np.add.at(self.means, y, deviations / self.counts[y, None])
        self.weights = None
        return self

    def predict_proba(self, X: Array) -> Array:
        """The softmax of the linear discriminants."""
        if self.weights is None:
            shrunk = (1 - self.shrinkage) * self.covariance
            shrunk.flat[:: len(shrunk) + 1] += self.shrinkage
            slopes = self.means @ np.linalg.inv(shrunk)
            self.weights = slopes, 0.5 * np.vecdot(slopes, self.means)
        slopes, constants = self.weights
        return softmax(X @ slopes.T - constants, axis=1)


class RiverGaussianNB:
    """river's naive Bayes, row by row."""

    def __init__(self) -> None:
        from river.naive_bayes import GaussianNB

        self.model = GaussianNB()

    def partial_fit(self, X: Array, y: Codes) -> RiverGaussianNB:
        """Learn rows as dictionaries."""
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), label)
        return self

    def predict_proba(self, X: Array) -> list[dict[Any, float]]:
        """A dictionary for each row."""
        return [self.model.predict_proba_one(dict(enumerate(row))) for row in X.tolist()]


class ByEigh:
    """A model of this project that forgets its densities at each batch, and whitens by spectra alone."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def partial_fit(self, X: Array, y: Codes) -> ByEigh:
        """Learn, and forget the densities."""
        self.model.partial_fit(X, y)
        self.model.__dict__.pop("_cache", None)
        return self

    def predict_proba(self, X: Array) -> Array:
        """Finalise anew by `scipy.linalg.eigh`, and predict."""
        usual, Whitening.of = Whitening.of, Whitening.from_spectrum
        try:
            return self.model.predict_proba(X)
        finally:
            Whitening.of = usual
