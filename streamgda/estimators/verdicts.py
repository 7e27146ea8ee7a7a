"""All that a fitted model says of rows, from one look at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda import posteriors
from streamgda.covariances import Array
from streamgda.estimators.base import GaussianClassifier, refuse_lost


@dataclass(frozen=True)
class Verdicts:
    """What a model says of n rows.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        ln p(x, k), up to what all classes have in common.
    log_density : ndarray of shape (n_rows,), or None
        ln p(x) under the mixture of the classes.
    distance : ndarray of shape (n_rows,), or None
        The Mahalanobis distance from the mean of the class predicted.
    """

    scores: Array
    log_density: Array | None
    distance: Array | None

    @property
    def codes(self) -> NDArray[np.intp]:
        """The positions of the classes predicted: (n_rows,)."""
        codes: NDArray[np.intp] = self.scores.argmax(axis=1)
        return codes

    @property
    def probabilities(self) -> Array:
        """The posteriors p(k | x): (n_rows, n_classes)."""
        return posteriors.posteriors(self.scores)


def judge(
    model: GaussianClassifier[Any], rows: Array, *, log_density: bool = False, distance: bool = False
) -> Verdicts:
    """What a model says of rows that hold its features in its order; NaN only where it allows that.

    Scores are those that its own methods go by, to the last bit.

    Parameters
    ----------
    model : estimator
        Fitted.
    rows : ndarray of shape (n_rows, n_features)
        Float64.
    log_density, distance : bool, default=False
        Whether to work these out too.

    Raises
    ------
    ValueError
        If no class has a finite score for a row.
    """
    log_priors = model._finalised_now().log_priors
    scores = np.empty((len(rows), len(log_priors)), order="F")
    densities = np.empty(len(rows)) if log_density else None
    distances = np.empty(len(rows)) if distance else None
    with np.errstate(over="ignore", invalid="ignore"):
        for where, gaussians, block in model._blocks(rows, missing=model.missing):
            if densities is None and distances is None:
                of_block = gaussians.discriminants(block)
            else:
                squared = gaussians.squared_distances(block)
                of_block = gaussians.contrasts_at(block, squared)
            of_block += log_priors
            refuse_lost(of_block, where)
            scores[where] = of_block
            if densities is not None:
                densities[where] = posteriors.log_evidence(gaussians.log_density_at(squared) + log_priors)
            if distances is not None:
                nearest = squared[np.arange(len(block)), of_block.argmax(axis=1)]
                distances[where] = np.sqrt(np.maximum(nearest, 0.0))
    return Verdicts(scores, densities, distances)
