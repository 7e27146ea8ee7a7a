"""The densities of a model, and the scores of rows by them: posteriors, distances and predicted classes.

The densities are computed from statistics and parameters, and are valid until these change.

Rows are scored block by block. Rows with missing values are grouped by the features that are observed. The
marginal density of these features is the Gaussian with their means and covariances (Anderson 2003, "An
Introduction to Multivariate Statistical Analysis", theorem 2.4.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.labels import Labels, rows_by_pattern
from streamgda.data.blocks.wording import RowError
from streamgda.models.gaussians.base import Densities, Gaussians
from streamgda.models.gaussians.posteriors import (
    largest,
    log_evidence,
    log_posteriors,
    order_of,
    posteriors,
    posteriors_and_odds,
    tempered,
    write_posteriors,
)
from streamgda.models.gaussians.products import TILE_ROWS
from streamgda.models.gaussians.whitening import Reason
from streamgda.statistics.covariances import Array
from streamgda.statistics.kernels.threads import in_threads
from streamgda.statistics.missing import MissingRows

G = TypeVar("G", bound=Gaussians)
T = TypeVar("T")
RowValues = NDArray[np.generic]
Positions = slice | NDArray[np.intp]

_VALUES_PER_BLOCK = 1 << 18  # arrays of 2 MB; with smaller ones, threads wait for each other in Python
_SCORES_PER_BLOCK = 1 << 18  # larger, since each block costs a Python step for each class
# Rows of a block of many features. With fewer rows, products of matrices take a quarter longer.
_FEWEST_OF_DISTANCES = 144
_FEWEST_OF_PRODUCTS = 480  # if scores are one product; with fewer rows, it takes a tenth longer
_SCORES_OF_PRODUCTS = 1 << 21  # 16 MB


@dataclass(frozen=True, eq=False)
class Finalised(Generic[G]):
    """The densities and priors of a model, and the changes and parameters that they were computed from.

    Attributes
    ----------
    changes : ndarray of shape (n_seen,)
        The `changes` of the statistics.
    params : dict
        The parameters of the estimator.
    classes : ndarray of shape (n_classes,)
        The labels, in the order of the columns of scores.
    gaussians : Gaussians
        The normal densities of the classes that have rows, with the means and covariances of the model.
    densities : Densities
        The densities of the same classes that score rows: `gaussians`, or those of `predictive`.
    priors, log_priors : ndarray of shape (n_classes,)
        Prior probabilities, and their logarithms. The log prior of a singular class is −∞.
    temperature : float
        What scores are divided by before they become posterior probabilities.
    announced : ndarray or None
        The labels that had been announced.
    places : ndarray of int of shape (n_seen,), or None
        The positions of the classes that have rows among all classes; None if all have rows.
    """

    changes: NDArray[np.int64]
    params: dict[str, Any]
    classes: Labels
    gaussians: G
    densities: Densities
    priors: Array
    log_priors: Array
    temperature: float
    announced: Labels | None
    places: NDArray[np.intp] | None = None
    _seen: Self | None = None
    _derived: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: Any,
        changes: NDArray[np.int64],
        labels: Labels,
        gaussians: G,
        densities: Densities,
        priors: Array,
    ) -> Self:
        """The densities and priors of a model, computed from its current parameters and these statistics."""
        with np.errstate(divide="ignore"):
            log_priors = np.log(priors)
        log_priors[list(densities.singular)] = -np.inf
        params, temperature = model.get_params(deep=False), float(model.temperature)
        of_classes = (labels, gaussians, densities, priors, log_priors)
        return cls(changes, params, *of_classes, temperature, model._announced)

    def among(self, classes: Labels) -> Self:
        """The same with columns for other classes too, of which no row has come: their prior is 0."""
        if len(classes) == len(self.classes):
            return self
        places = np.searchsorted(classes, self.classes)
        priors, log_priors = np.zeros(len(classes)), np.full(len(classes), -np.inf)
        priors[places], log_priors[places] = self.priors, self.log_priors
        return replace(self, classes=classes, priors=priors, log_priors=log_priors, places=places, _seen=self)

    @property
    def seen(self) -> Self:
        """The same for the classes that have rows alone, which are those of the densities."""
        return self._seen or self

    def of_seen(self, values: Array) -> Array:
        """Those columns of values of all classes (n, K) that are of classes that have rows."""
        return values if self.places is None else np.asfortranarray(values[:, self.places])

    @property
    def singular(self) -> list[tuple[Any, Reason]]:
        """The labels of classes without a density, and the reason of each."""
        return [(self.seen.classes[k].item(), reason) for k, reason in self.densities.singular.items()]

    def once(self, name: str, derive: Callable[[], T]) -> T:
        """The cached value of this name, which `derive` computes at the first call."""
        if name not in self._derived:
            self._derived[name] = derive()
        value: T = self._derived[name]
        return value


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
    values : ndarray of shape (n, n_observed)
        Their observed features, in any type.
    check : callable, optional
        Called before rows are scored whose sum is not finite; it raises if a value is not.
    """

    finalised: Finalised[Any]
    gaussians: Densities
    positions: Positions
    values: RowValues
    check: Callable[[], object] | None = None

    @cached_property
    def rows(self) -> Any:
        """The observed features as float64, in C order: bits of sums depend on the order in memory.

        Sparse rows stay in CSR if the densities take such.
        """
        values: Any = self.values
        if not isinstance(values, np.ndarray):
            values = values.astype(np.float64)
            return values if self.gaussians.takes_sparse else values.toarray()
        if values.dtype.itemsize > 8:  # long doubles, of which some may be beyond float64
            with np.errstate(over="ignore"):
                values = values.astype(np.float64)
        rows = np.ascontiguousarray(values, dtype=np.float64)
        if self.check is not None and not np.isfinite(_sum_of(rows)):
            self.check()
        return rows

    @cached_property
    def posterior_scores(self) -> Array:
        """Ln p(x, k) / T, up to a term that is the same for all classes of a row: (n, K).

        T is the temperature of the model.

        Raises
        ------
        ValueError
            If no class has a finite score for a row.
        """
        gaussians, log_priors = self.gaussians, self.finalised.seen.log_priors
        if gaussians.scores_from_distances:
            scores = self._computed(gaussians.posterior_scores_from, self._distances)
            scores += log_priors
        else:
            scores = self._computed(gaussians.posterior_scores, self.rows, log_priors)
        return self._calibrated(scores)

    def _position(self, row: int) -> int:
        """The position of a row of these among all rows to be scored."""
        return int(self.positions.start + row if isinstance(self.positions, slice) else self.positions[row])

    def _computed(self, method: Callable[..., Array], *arguments: Any) -> Array:
        """What a method of densities returns; its error names the position of a row among all rows."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return method(*arguments)
        except RowError as error:
            raise error.moved(self._position) from error

    def among_all(self, values: Array, other: float) -> Array:
        """Values of the classes that have rows, and another value for each of the rest: (n, K)."""
        if self.finalised.places is None:
            return values
        n_classes = len(self.finalised.classes)
        result = np.full((len(values), n_classes), other, order=order_of(n_classes))
        result[:, self.finalised.places] = values
        return result

    @cached_property
    def _distances(self) -> Array:
        """Squared Mahalanobis distances from the means of the classes that have rows."""
        return self._computed(self.gaussians.squared_distances, self.rows)

    @property
    def squared_distances(self) -> Array:
        """Squared Mahalanobis distances from the mean of each class, ∞ for one without rows: (n, K)."""
        return self.among_all(self._distances, np.inf)

    def own_squared_distances(self, codes: NDArray[np.intp]) -> Array:
        """Squared Mahalanobis distances from the means of these classes of the rows: (n,)."""
        if self.finalised.places is not None:
            return self.squared_distances[np.arange(len(codes)), codes]
        return self._computed(self.gaussians.own_squared_distances, self.rows, codes)

    @property
    def discriminants(self) -> Array:
        """Ln p(x, k) / T, up to a term that is the same for all rows and classes: (n, K)."""
        scores = self._computed(self.gaussians.discriminants, self.rows, self.finalised.seen.log_priors)
        self._calibrated(scores)  # is an error if a row has no finite score
        scores /= self.finalised.temperature
        return self.among_all(scores, -np.inf)

    @property
    def joint_log_density(self) -> Array:
        """Ln p(x, k): (n, K); −∞ if the squared distance exceeds float64."""
        if self.gaussians.scores_from_distances:
            scores = self._computed(self.gaussians.log_density_from, self._distances)
        else:
            scores = self._computed(self.gaussians.log_density, self.rows)
        scores += self.finalised.seen.log_priors
        scores[np.isnan(scores)] = -np.inf
        return self.among_all(scores, -np.inf)

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
        if isinstance(self.positions, slice) and self.finalised.places is None:
            out = result[self.positions]
            log_priors = self.finalised.log_priors
            scores = self._computed(self.gaussians.posterior_scores, self.rows, log_priors, out)
            if not write_posteriors(scores, out, self.finalised.temperature):
                self._calibrated(out)  # raises the error of the first row whose posteriors are NaN
        else:
            result[self.positions] = self.probabilities

    @property
    def log_probabilities(self) -> Array:
        """Ln p(k | x): (n, K)."""
        return log_posteriors(self.posterior_scores)

    @property
    def log_odds(self) -> Array:
        """Ln p(k | x) / (1 − p(k | x)): (n, K)."""
        return posteriors_and_odds(self.posterior_scores, np.zeros(self.rows.shape[0], np.intp))[1]

    def best(self, n_best: int = 1) -> NDArray[np.intp]:
        """The positions of the most likely classes among all classes, the predicted one first: (n, n_best).

        Raises
        ------
        ValueError
            If no class has a finite score for a row.
        """
        return largest(self.posterior_scores, n_best)

    @cached_property
    def codes(self) -> NDArray[np.intp]:
        """The positions of the predicted classes among all classes: (n,)."""
        return self.best()[:, 0]

    @property
    def tail_probabilities(self) -> Array:
        """The probability that a row of each class is at least as far from its mean: (n, K)."""
        tail = self.gaussians.tail_probabilities(self.rows, self._distances)
        return self.among_all(tail, 0.0)

    @property
    def distance(self) -> Array:
        """The Mahalanobis distance from the mean of the predicted class: (n,)."""
        squared_distances = self.squared_distances[np.arange(len(self.codes)), self.codes]
        return np.sqrt(np.maximum(squared_distances, 0.0))

    def _calibrated(self, scores: Array) -> Array:
        """Scores of all classes, divided by the temperature; ValueError if a row has no finite one."""
        best = scores.max(axis=1)
        if not np.isfinite(best).all():
            row = self._position(np.flatnonzero(~np.isfinite(best))[0])
            raise RowError(row, " is too far from the classes: squared distances exceed float64")
        temperature = self.finalised.temperature
        scores = scores if temperature == 1.0 else tempered(scores, temperature)
        return scores if self.finalised.places is None else self.among_all(scores, -np.inf)


def score_finalised(
    state: Finalised[Any],
    rows: Any,
    missing: MissingRows,
    codes: NDArray[np.intp] | None = None,
    check: Callable[[], object] | None = None,
) -> Iterator[RowScores]:
    """Yield the scores of rows, block by block. All predictions, in memory and out of core, use this path.

    Parameters
    ----------
    state : Finalised
        The densities of a model, which can be sent to other processes without the statistics.
    rows : ndarray or csr_array of shape (n_rows, n_features)
        Numbers in the order of the features, as `check_rows` returns them.
    missing : {"raise", "marginal"} or Marginal
        Whether NaN may mark a missing value.
    codes : ndarray of int of shape (n_rows,), optional
        The class of each row, if its scores by that class alone are needed. Rows of a class come together.
    check : callable, optional
        As of `RowScores`, if values have not been checked.
    """
    is_product = not state.densities.scores_from_distances
    fewest = _FEWEST_OF_PRODUCTS if is_product else _FEWEST_OF_DISTANCES
    n_values = rows.shape[1]
    if not isinstance(rows, np.ndarray) and state.densities.takes_sparse:
        n_values = 1 + rows.nnz // rows.shape[0]
    n_scores = len(state.classes) if codes is None else 1
    most = (_SCORES_OF_PRODUCTS if is_product else _SCORES_PER_BLOCK) // n_scores
    size = min(max(_VALUES_PER_BLOCK // n_values, fewest), most)
    size = max(1, -(-size // TILE_ROWS)) * TILE_ROWS
    if missing == "raise" or not isinstance(rows, np.ndarray) or not np.isnan(_sum_of(rows)):
        order = None if codes is None else np.argsort(codes, kind="stable")
        for start in range(0, rows.shape[0], size):
            some = slice(start, start + size) if order is None else order[start : start + size]
            yield RowScores(state, state.densities, some, rows[some], check)
        return
    for observed, of_pattern in rows_by_pattern(~np.isnan(rows)):
        densities = state.densities if observed.all() else state.densities.marginal(observed)
        ordered = of_pattern if codes is None else of_pattern[np.argsort(codes[of_pattern], kind="stable")]
        for start in range(0, len(ordered), size):
            positions = ordered[start : start + size]
            values = rows[np.ix_(positions, np.flatnonzero(observed))]
            yield RowScores(state, densities, positions, values)


def _sum_of(rows: Any) -> Any:
    """The sum of all values; it is NaN if one of them is, and finite only if all are."""
    with np.errstate(over="ignore", invalid="ignore"):
        return rows.sum()


def score_each(call: Callable[[RowScores], object], blocks: Iterator[RowScores], n_rows: int) -> None:
    """Call a function of the scores of each block of `n_rows` rows: of all but the first, in threads."""
    first = next(blocks)
    call(first)
    n_rows -= first.values.shape[0]
    del first  # else it stays in memory until the end
    if n_rows:
        deque(in_threads(call, blocks), maxlen=0)
