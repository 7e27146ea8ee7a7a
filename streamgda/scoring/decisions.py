"""Which class is predicted: the likeliest one, or that by a threshold or of the least expected cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.gaussians.posteriors import Array, posteriors
from streamgda.scoring.inference import Model


@dataclass(frozen=True)
class Decision:
    """How classes are ranked by their posterior probabilities.

    Attributes
    ----------
    threshold : float, optional
        From which probability on the second of two classes is predicted.
    costs : ndarray of shape (n_classes, n_classes), optional
        The cost of predicting a class (columns) for a row of a class (rows).
    """

    threshold: float | None = None
    costs: Array | None = None

    @classmethod
    def checked(cls, model: Model, threshold: float | None, costs: ArrayLike | None) -> Decision:
        """The decision of these parameters, or ValueError if the model cannot decide so."""
        n_classes = len(model.statistics_.classes)
        if threshold is not None and costs is not None:
            raise ValueError("threshold and costs each say which class is predicted; give one of them")
        if threshold is not None and (n_classes != 2 or not 0 <= threshold <= 1):
            raise ValueError(
                f"threshold is a probability of the second of two classes; got {threshold!r} for "
                f"{n_classes} classes"
            )
        matrix = None if costs is None else np.asarray(costs, dtype=np.float64)
        if matrix is not None and matrix.shape == (n_classes,) * 2 and not np.isfinite(matrix).all():
            raise ValueError("costs has a value that is NaN or infinite")
        if matrix is not None and matrix.shape != (n_classes,) * 2:
            raise ValueError(
                "costs has a row for each true class and a column for each predicted one, in the order of "
                f"classes_: shape ({n_classes}, {n_classes}); got {matrix.shape}"
            )
        return cls(threshold, matrix)

    def ranked(self, scores: Array, n_best: int = 1) -> NDArray[np.intp]:
        """The positions of the `n_best` classes of each row, the predicted one first: (n, n_best)."""
        losses = self._losses(scores)
        ranked: NDArray[np.intp] = losses.argsort(axis=1, kind="stable") if n_best > 1 else losses.argmin(1)
        return ranked.reshape(len(losses), -1)[:, :n_best]

    def _losses(self, scores: Array) -> Array:
        if self.costs is not None:
            expected: Array = posteriors(scores) @ self.costs
            return expected
        if self.threshold is not None:
            losses = posteriors(scores)
            losses[:, 0] = losses[:, 1]
            losses[:, 1] = np.nextafter(self.threshold, -1)  # at the threshold, the second class
            return losses
        return -scores
