"""What single calls compute, in NumPy alone: no checks, labels that are codes, means in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class BareMoments:
    """Counts, means and scatter by class, with batches merged into them (Chan, Golub & LeVeque 1983)."""

    def __init__(self, kind: str, n_features: int, n_classes: int) -> None:
        shapes = {"diag": (n_classes, n_features), "tied": (n_features, n_features)}
        self.kind = kind
        self.counts, self.means = np.zeros(n_classes), np.zeros((n_classes, n_features))
        self.scatter = np.zeros(shapes.get(kind, (n_classes, n_features, n_features)))

    def partial_fit(self, X: Array, y: NDArray[np.intp]) -> None:
        """Add the rows of a batch."""
        for k in np.unique(y):
            rows = X[y == k]
            mean = rows.mean(axis=0)
            centred, gap, before = rows - mean, mean - self.means[k], self.counts[k]
            n = before + len(rows)
            between = before * len(rows) / n
            if self.kind == "diag":
                self.scatter[k] += np.einsum("ij,ij->j", centred, centred) + between * gap * gap
            else:
                scatter = self.scatter if self.kind == "tied" else self.scatter[k]
                scatter += centred.T @ centred + between * np.outer(gap, gap)
            self.means[k] += gap * (len(rows) / n)
            self.counts[k] = n


class BarePosteriors:
    """Posteriors by the density of each class, from the parameters of a fitted model of ours."""

    def __init__(self, model: Any) -> None:
        statistics = model.statistics_
        covariance, means = statistics.covariance(), statistics.means
        if statistics.covariance_type == "diag":
            covariance = model.var_  # with its smoothing
            precisions = 1 / covariance
            self.squares, self.slopes = -0.5 * precisions.T, (means * precisions).T
            norms = np.log(covariance).sum(axis=1) + (means**2 * precisions).sum(axis=1)
        elif statistics.covariance_type == "tied":
            self.slopes = np.linalg.solve(covariance, means.T)
            norms = np.einsum("kj,jk->k", means, self.slopes)
        else:
            self.whitening = np.linalg.inv(np.linalg.cholesky(covariance)).transpose(0, 2, 1)
            self.centres = (means[:, None] @ self.whitening)[:, 0]
            norms = np.linalg.slogdet(covariance).logabsdet
        self.kind, self.offsets = statistics.covariance_type, np.log(model.priors_) - norms / 2

    def predict_proba(self, X: Array) -> Array:
        """The posteriors of some rows."""
        if self.kind == "full":
            deviations = X @ self.whitening - self.centres[:, None]
            scores = np.einsum("kij,kij->ik", deviations, deviations) * -0.5
        else:
            scores = X @ self.slopes
            if self.kind == "diag":
                scores += (X * X) @ self.squares
        scores += self.offsets
        posteriors: Array = np.exp(scores - scores.max(axis=1, keepdims=True))
        posteriors /= posteriors.sum(axis=1, keepdims=True)
        return posteriors
