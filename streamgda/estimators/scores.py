"""Scores of rows, block by block: posteriors, densities, distances and predicted classes.

Rows with missing values are grouped by the features that are observed. The marginal density of these features
is the Gaussian with their means and covariances (Anderson 2003, "An Introduction to Multivariate Statistical
Analysis", theorem 2.4.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.labels import Labels
from streamgda.estimators.finalised import Finalised
from streamgda.gaussians.base import Densities
from streamgda.gaussians.posteriors import (
    log_evidence,
    log_posteriors,
    posteriors,
    posteriors_and_odds,
    tempered,
    write_posteriors,
)
from streamgda.gaussians.products import TILE_ROWS
from streamgda.gaussians.whitening import Observed
from streamgda.statistics.covariances import Array

Rows = NDArray[np.generic]
Positions = slice | NDArray[np.intp]

_VALUES_PER_BLOCK = 1 << 15  # a few arrays of this size fit in the second-level cache
_SCORES_PER_BLOCK = 1 << 18  # larger, since each block costs a Python step for each class
_FEWEST_ROWS = 144  # if there are many features; with fewer rows, products of matrices take a quarter longer
_FEWEST_OF_PRODUCTS = 480  # if scores are one product; with fewer rows, it takes a tenth longer
_SCORES_OF_PRODUCTS = 1 << 21  # 16 MB


@dataclass(eq=False)
class RowScores:
    """Scores of n rows for K classes. Each is computed when it is read.

    Attributes
    ----------
    finalised : Finalised
        Classes, densities and priors of the model.
    gaussians : Densities
        The densities of the features that are observed in these rows.
    positions : slice or ndarray of int
        The positions of the rows among all rows to be scored.
    rows : ndarray of shape (n, n_observed)
        Their observed features.
    """

    finalised: Finalised[Any]
    gaussians: Densities
    positions: Positions
    rows: Array

    @cached_property
    def posterior_scores(self) -> Array:
        """Ln p(x, k) / T, up to a term that is the same for all classes of a row: (n, K).

        T is the temperature of the model.

        Raises
        ------
        ValueError
            If no class has a finite score for a row.
        """
        gaussians, log_priors = self.gaussians, self.finalised.log_priors
        if not gaussians.scores_from_distances:
            return self._posterior_scores()
        with np.errstate(over="ignore", invalid="ignore"):
            scores = gaussians.posterior_scores_from(self.squared_distances)
            scores += log_priors
        return self._checked_and_tempered(scores)

    def _posterior_scores(self, out: Array | None = None) -> Array:
        """The scores in a new array; or in `out` (n, K), if that saves a copy."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.gaussians.posterior_scores(self.rows, self.finalised.log_priors, out)
        return self._checked_and_tempered(scores)

    @cached_property
    def squared_distances(self) -> Array:
        """Squared Mahalanobis distances from the mean of each class: (n, K)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.gaussians.squared_distances(self.rows)

    @property
    def discriminants(self) -> Array:
        """Ln p(x, k) / T, up to a term that is the same for all rows and classes: (n, K)."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.gaussians.discriminants(self.rows, self.finalised.log_priors)
            self._checked_and_tempered(scores)
            scores /= self.finalised.temperature
        return scores

    @property
    def joint_log_density(self) -> Array:
        """Ln p(x, k): (n, K); −∞ if the squared distance exceeds float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.gaussians.scores_from_distances:
                scores = self.gaussians.log_density_from(self.squared_distances)
            else:
                scores = self.gaussians.log_density(self.rows)
            scores += self.finalised.log_priors
        scores[np.isnan(scores)] = -np.inf
        return scores

    @property
    def log_density(self) -> Array:
        """Ln p(x) under the mixture of the classes: (n,)."""
        return log_evidence(self.joint_log_density)

    @property
    def probabilities(self) -> Array:
        """The posterior probabilities p(k | x): (n, K)."""
        return posteriors(self.posterior_scores)

    def write_probabilities(self, result: Array) -> None:
        """Write the posterior probabilities into `result` (n_rows, K), which holds those of all rows."""
        if isinstance(self.positions, slice):
            out = result[self.positions]
            write_posteriors(self._posterior_scores(out), out)
        else:
            result[self.positions] = self.probabilities

    @property
    def log_probabilities(self) -> Array:
        """Ln p(k | x): (n, K)."""
        return log_posteriors(self.posterior_scores)

    @property
    def log_odds(self) -> Array:
        """Ln p(k | x) / (1 − p(k | x)): (n, K)."""
        return posteriors_and_odds(self.posterior_scores, np.zeros(len(self.rows), np.intp))[1]

    @property
    def codes(self) -> NDArray[np.intp]:
        """The positions of the predicted classes among all classes: (n,)."""
        codes: NDArray[np.intp] = self.posterior_scores.argmax(axis=1)
        return codes

    @property
    def labels(self) -> Labels:
        """The labels of the predicted classes: (n,)."""
        labels: Labels = self.finalised.classes[self.codes]
        return labels

    @property
    def tail_probabilities(self) -> Array:
        """The probability that a row of each class is at least as far from its mean: (n, K)."""
        return self.gaussians.tail_probabilities(self.rows, self.squared_distances)

    @property
    def distance(self) -> Array:
        """The Mahalanobis distance from the mean of the predicted class: (n,)."""
        squared_distances = self.squared_distances[np.arange(len(self.rows)), self.codes]
        return np.sqrt(np.maximum(squared_distances, 0.0))

    def _checked_and_tempered(self, scores: Array) -> Array:
        """Scores by the temperature, or ValueError if a row has no finite one, so that no class is likelier.

        They are up to a term for each row.
        """
        best = scores.max(axis=1)
        if not np.isfinite(best).all():
            row = np.flatnonzero(~np.isfinite(best))[0]
            row = row + self.positions.start if isinstance(self.positions, slice) else self.positions[row]
            raise ValueError(f"row {row} is too far from the classes: squared distances exceed float64")
        temperature = self.finalised.temperature
        return scores if temperature == 1.0 else tempered(scores, temperature)


def score_finalised(
    state: Finalised[Any], rows: Rows, missing: Literal["raise", "marginal"]
) -> Iterator[RowScores]:
    """Yield the scores of rows, block by block. All predictions, in memory and out of core, use this path.

    Parameters
    ----------
    state : Finalised
        The densities of a model, which can be sent to other processes without the statistics.
    rows : ndarray of shape (n_rows, n_features)
        Numbers in the order of the features, as `check_rows` returns them.
    missing : {"raise", "marginal"}
        Whether NaN may mark a missing value.
    """
    is_product = not state.densities.scores_from_distances
    fewest = _FEWEST_OF_PRODUCTS if is_product else _FEWEST_ROWS
    most = (_SCORES_OF_PRODUCTS if is_product else _SCORES_PER_BLOCK) // len(state.classes)
    size = min(max(_VALUES_PER_BLOCK // rows.shape[1], fewest), most)
    size = max(1, -(-size // TILE_ROWS)) * TILE_ROWS
    as_rows = partial(np.ascontiguousarray, dtype=np.float64)  # bits of sums depend on the order in memory
    if missing == "raise" or not np.isnan(rows.sum()):
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            yield RowScores(state, state.densities, some, as_rows(rows[some]))
        return
    for observed, of_pattern in _patterns(rows):
        densities = state.densities if observed.all() else state.densities.marginal(observed)
        for start in range(0, len(of_pattern), size):
            positions = of_pattern[start : start + size]
            values = rows[np.ix_(positions, np.flatnonzero(observed))]
            yield RowScores(state, densities, positions, as_rows(values))


def _patterns(X: Rows) -> Iterator[tuple[Observed, NDArray[np.intp]]]:
    """Yield each pattern of observed features (d,) with the positions of its rows."""
    observed = ~np.isnan(X)
    packed = np.packbits(observed, axis=1)
    keys = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    _, codes = np.unique(keys, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(codes))[:-1]):
        yield observed[rows[0]], rows
