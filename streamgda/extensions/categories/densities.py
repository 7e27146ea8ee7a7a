"""Densities of rows with categories: a table of probabilities times normal densities of the numbers.

p(x, z | k) = Π_j p(z_j | k) · p(x | z, k), where z are the dummies of the categories. In naive Bayes, numbers
do not depend on the categories. In the conditional Gaussian model their mean does: x − c − B z is normal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.labels import rows_by_pattern
from streamgda.data.blocks.wording import RowError
from streamgda.models.gaussians.base import Densities
from streamgda.models.gaussians.products import large_mean_tails
from streamgda.models.gaussians.whitening import Array, Observed, Reason
from streamgda.statistics.floating.moments import two_sum

_MOST_SUMMED = 10_000
"""Combinations of values of unknown categories; each costs a pass over the rows."""


@dataclass(frozen=True, eq=False)
class CategoricalDensities(Densities):
    """The densities of rows of p numbers and D dummies.

    A category is unknown in a row if all dummies of its column are 0, or the dummy of the missing value is 1.
    In naive Bayes its factor is left out. In the conditional model the density is summed over its values.

    Attributes
    ----------
    numbers : Densities
        The densities of x − c − B z.
    centre : ndarray of shape (p,)
        c, near the numbers of all rows.
    slopes : ndarray of shape (K, p, D), (1, p, D) or (0, p, D)
        B of each class, or of all of them; none in naive Bayes.
    log_tables : ndarray of shape (K, D)
        ln p(v | k) of each value. Values of one group have that of the group.
    groups : ndarray of int of shape (D,)
        The dummy that stands for the group of each; −1 for a missing value that is not a category.
    columns : tuple of slice
        The dummies of each column among all dummies.
    means : ndarray of shape (K, p + D)
        The means of the classes.

    References
    ----------
    Krzanowski (1975), "Discrimination and classification using both binary and continuous variables", JASA
    70; Lauritzen & Wermuth (1989), "Graphical models for associations between variables", Annals of
    Statistics 17.
    """

    scores_from_distances: ClassVar[bool] = False

    numbers: Densities
    centre: Array
    slopes: Array
    log_tables: Array
    groups: NDArray[np.intp]
    columns: tuple[slice, ...]
    means: Array

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Those of the numbers given the categories: (K,)."""
        return self.numbers.ranks

    @property
    def singular(self) -> Mapping[int, Reason]:
        """The positions of classes without a density of their numbers, and the reason of each."""
        return self.numbers.singular

    def parts_with(self, constants: Array) -> tuple[Densities, Array, NDArray[np.intp]]:
        """The densities of the numbers given the categories."""
        return self.numbers.parts_with(constants)

    def tables(self, columns: tuple[str, ...]) -> dict[str, Array]:
        """Ln p(v | k) of the categories of each column; NaN for a missing one that is no category."""
        tables = np.where(self.groups >= 0, self.log_tables, np.nan)
        return {name: tables[:, place] for name, place in zip(columns, self.columns, strict=True)}

    def with_rest(self, formula: Any) -> Any:
        """The scores of numbers and dummies, from those of x − c − B z."""
        n_classes, (p, n_dummies) = len(self.log_tables), (formula.centres.shape[1], len(self.groups))
        slopes = np.broadcast_to(self.slopes if self._depends else 0.0, (n_classes, p, n_dummies))
        if formula.kind == "linear":
            matrices = np.vstack([formula.matrices, -slopes[0].T @ formula.matrices])
        elif formula.kind == "diagonal":
            matrices = np.hstack([formula.matrices, np.zeros((n_classes, n_dummies))])
        else:
            of_dummies = -np.swapaxes(slopes, 1, 2) @ formula.matrices
            matrices = np.concatenate([formula.matrices, of_dummies], axis=1)
        beside = ((0, 0), (0, n_dummies))
        centres, rest = two_sum(formula.centres, self.centre)
        constants, mean_tails = formula.constants, None
        if formula.kind == "linear":
            constants = constants - (rest @ formula.matrices)[0]
        else:
            rest = rest if formula.mean_tails is None else rest + formula.mean_tails
            variances = [np.diag(self.numbers.covariance(k)) for k in range(n_classes)]
            mean_tails = large_mean_tails(rest, np.array(variances))
        return replace(
            formula,
            centres=np.pad(centres, beside),
            mean_tails=None if mean_tails is None else np.pad(mean_tails, beside),
            matrices=matrices,
            constants=constants,
            linear=np.pad(self.log_tables, ((0, 0), (p, 0))),
        )

    # ------------------------------------------------------------------ rows

    @property
    def _n_numbers(self) -> int:
        return len(self.centre)

    @property
    def _depends(self) -> bool:
        """Whether the means of the numbers depend on the categories."""
        return len(self.slopes) > 0

    @cached_property
    def _parts(self) -> list[Densities]:
        """The densities of each class alone, if each has slopes of its own; else those of all classes."""
        if len(self.slopes) <= 1:
            return [self.numbers]
        return [self.numbers._of_classes(slice(k, k + 1)) for k in range(len(self.slopes))]

    def _split(self, X: Array) -> tuple[Array, Array]:
        """The numbers of rows less c, and their dummies; those that are no values are 0."""
        p = self._n_numbers
        return np.subtract(X[:, :p], self.centre, order="C"), X[:, p:] * (self.groups >= 0)

    def _of_parts(self, x: Array, z: Array, score: Callable[[Densities, Array], Array]) -> Array:
        """The scores of the numbers given the dummies, side by side: (n, K)."""
        if not self._depends:
            return score(self.numbers, x)
        parts = zip(self._parts, self.slopes, strict=True)
        scores = [score(part, x - z @ slopes.T) for part, slopes in parts]
        return scores[0] if len(scores) == 1 else np.concatenate(scores, axis=1)

    def _known(self, z: Array) -> NDArray[np.bool_]:
        """Which categories of rows are known: (n, n_columns)."""
        return np.array([z[:, column].any(axis=1) for column in self.columns]).T

    def _filled(self, z: Array) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Yield rows in which the same columns are unknown, and their dummies by each choice of values."""
        for of_pattern, rows in rows_by_pattern(~self._known(z)):
            columns = [column for column, lacks in zip(self.columns, of_pattern, strict=True) if lacks]
            values = [_values(self.groups[column]) for column in columns]
            if not self._depends:
                yield rows, z[rows]
                continue
            if (n := prod(map(len, values))) > _MOST_SUMMED:
                raise RowError(
                    rows[0],
                    f": the unknown categories of {len(columns)} columns have {n:,} "
                    f"combinations, and densities are summed over {_MOST_SUMMED:,} at most; fill some in",
                )
            for chosen in product(*values):
                filled = z[rows]
                filled[:, list(chosen)] = 1.0
                yield rows, filled

    def _factors(self, z: Array) -> Array:
        """Σ_j ln p(z_j | k) of the columns that are known: (n, K)."""
        total = np.zeros((len(z), len(self.log_tables)), order="F")
        for column in self.columns:
            known = z[:, column].any(axis=1)
            total[known] += self.log_tables[:, column].T[z[known, column].argmax(axis=1)]
        return total

    def log_density(self, X: Array) -> Array:
        """The log density of rows (n, p + D) under each class: (n, K)."""
        x, z = self._split(X)
        result = np.full((len(X), len(self.log_tables)), -np.inf, order="F")
        for rows, dummies in self._filled(z):
            scores = self._of_parts(x[rows], dummies, lambda part, y: part.log_density(y))
            result[rows] = np.logaddexp(result[rows], scores + self._factors(dummies))
        return result

    def posterior_scores(self, X: Array, log_priors: Array | float = 0.0, out: Array | None = None) -> Array:
        """Ln p(x, k), up to a term that is the same for all classes of a row: (n, K)."""
        x, z = self._split(X)
        if len(self.slopes) > 1 or (self._depends and not self._known(z).all()):
            return self.log_density(X) + log_priors
        scores = self._of_parts(x, z, lambda part, y: part.posterior_scores(y, log_priors))
        return scores + self._factors(z)

    def squared_distances(self, X: Array) -> Array:
        """Those of the numbers given the categories; the least over the values of unknown ones: (n, K)."""
        x, z = self._split(X)
        least = np.full((len(X), len(self.log_tables)), np.inf, order="F")
        for rows, dummies in self._filled(z):
            distances = self._of_parts(x[rows], dummies, lambda part, y: part.squared_distances(y))
            least[rows] = np.minimum(least[rows], distances)
        return least

    def tail_probabilities(self, X: Array, squared_distances: Array) -> Array:
        """Those of the numbers given the categories: (n, K)."""
        if self._depends:
            return super().tail_probabilities(X, squared_distances)
        return self.numbers.tail_probabilities(X[:, : self._n_numbers], squared_distances)

    # ------------------------------------------------------------------ other features, and random rows

    def marginal(self, observed: Observed) -> Self:
        """The marginal densities of the observed numbers and all dummies, given as a mask (p + D,)."""
        numbers = observed[: self._n_numbers]
        return replace(
            self,
            numbers=self.numbers.marginal(numbers),
            centre=self.centre[numbers],
            slopes=self.slopes[:, numbers],
            means=self.means[:, observed],
        )

    def given(self, rest: Array) -> Densities:
        """The normal densities of the numbers in rows with these dummies (D,)."""
        shifts = self.centre + (self.slopes @ rest if self._depends else 0.0)
        numbers: Any = self.numbers
        return cast("Densities", replace(numbers, means=numbers.means + shifts))

    def conditional_mean(self, observed: Observed, marginal: Self, X: Array, posteriors: Array) -> Array:
        """The mean of the missing numbers given the observed ones and the categories: (n, p − p')."""
        x, z = marginal._split(X)
        if self._depends and not self._known(z).all():
            raise ValueError("numbers cannot be imputed in rows of unknown categories, on which they depend")
        numbers = observed[: self._n_numbers]
        if not self._depends:
            return self.numbers.conditional_mean(numbers, marginal.numbers, x, posteriors)
        expected = np.zeros((len(X), int((~numbers).sum())))
        shares = [posteriors] if len(self.slopes) == 1 else posteriors.T[:, :, None]
        parts = zip(self._parts, marginal._parts, self.slopes, shares, strict=True)
        for part, of_observed, slopes, share in parts:
            rest = x - z @ slopes[numbers].T
            expected += part.conditional_mean(numbers, of_observed, rest, share)
            expected += share.sum(axis=1, keepdims=True) * (z @ slopes[~numbers].T + self.centre[~numbers])
        return expected

    def sample(self, k: int, n: int, random: np.random.RandomState) -> Array:
        """Random rows of class k: (n, p + D)."""
        z = np.zeros((n, len(self.groups)))
        for column in self.columns:
            values = _values(self.groups[column])
            shares: Array = np.exp(self.log_tables[k, values])
            z[np.arange(n), random.choice(values, size=n, p=shares / shares.sum())] = 1.0
        x = self.numbers.sample(k, n, random)
        if self._depends:
            x += z @ self.slopes[min(k, len(self.slopes) - 1)].T + self.centre
        return np.concatenate([x, z], axis=1)

    def covariance(self, k: int) -> Array:
        """Raise ValueError: the densities are not normal."""
        raise ValueError("the density of rows with categories is not normal, and is given by no covariance")

    precision = covariance


def _values(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """The dummies that stand for the values of a column."""
    return np.unique(groups[groups >= 0])


def log_tables(counts: Array, groups: NDArray[np.intp], columns: tuple[slice, ...], alpha: float) -> Array:
    """Ln p(v | k) = ln (n_kv + α) / (n_k + α V) of each value v of each column: (K, D).

    Without rows and α, all values are equally probable.

    Parameters
    ----------
    counts : ndarray of shape (K, D)
        The weight of each dummy in each class.
    groups : ndarray of int of shape (D,)
        The dummy that stands for the group of each; −1 for a missing value that is not a category.
    columns : tuple of slice
        The dummies of each column.
    alpha : float
        What is added to each weight.
    """
    together = np.zeros_like(counts)
    np.add.at(together.T, groups[groups >= 0], counts.T[groups >= 0])
    tables = np.zeros_like(counts)
    for column in columns:
        values = _values(groups[column])
        added: Array = together[:, values] + alpha
        added[~added.any(axis=1)] = 1.0
        with np.errstate(divide="ignore"):
            tables[:, values] = np.log(added / added.sum(axis=1, keepdims=True))
    return np.where(groups >= 0, tables[:, groups], 0.0)


def slopes_of(scatter: Array, n_numbers: int, ridge: float) -> Array:
    """B = S_xz (S_zz + κ I)⁻¹ of scatters (..., p + D, p + D) and κ = `ridge`: (..., p, D)."""
    dummies = scatter[..., n_numbers:, n_numbers:] + ridge * np.eye(scatter.shape[-1] - n_numbers)
    slopes = np.linalg.solve(dummies, scatter[..., n_numbers:, :n_numbers])
    return np.asarray(np.swapaxes(slopes, -1, -2), dtype=np.float64)
