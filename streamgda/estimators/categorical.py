"""What models learn from the categories of a table: tables of probabilities, and numbers given categories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.categories import Categories
from streamgda.gaussians.base import Densities
from streamgda.gaussians.categorical import CategoricalDensities, log_tables, of_classes, slopes_of
from streamgda.gaussians.densities import SeparateGaussians
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.floating.state import ClassStatistics

Treatment = Literal["dummies", "naive", "separate", "common"]
"""How a model treats categories.

"dummies": each is a feature of 0 and 1. The others give each class a table of probabilities. Then numbers are
independent of the categories ("naive"), or their means depend on them by slopes of each class ("separate") or
by slopes common to all classes ("common").
"""


@dataclass(frozen=True)
class GivenCategories:
    """The numbers of a table given its categories, and the probabilities of the categories.

    Attributes
    ----------
    numbers : Statistics
        The state of x − B z, where z are the dummies; with κ B Bᵀ in its scatter, as the ridge asks for.
    excess : ndarray
        That part of the scatter, in its shape.
    slopes : tuple of ndarray of shape (p, D)
        B of each class or of all of them; none in naive Bayes.
    counts, log_tables : ndarray of shape (K, D)
        The weight of each dummy in each class, and ln p(v | k) of each value.
    groups : ndarray of int of shape (D,)
        The dummy that stands for the group of each; −1 for one that is no value.
    columns : tuple of slice
        The dummies of each column.
    means : ndarray of shape (K, p + D)
        The means of the classes.
    """

    numbers: Statistics
    excess: Array
    slopes: tuple[Array, ...]
    counts: Array
    log_tables: Array
    groups: NDArray[np.intp]
    columns: tuple[slice, ...]
    means: Array

    @classmethod
    def of(cls, statistics: Statistics, model: Any) -> Self:
        """Take the state of a table apart, as the parameters of a model say.

        Raises
        ------
        ValueError
            If no column is of numbers.
        """
        treatment, ridge = model._treatment, getattr(model, "categorical_ridge", 0.0)
        categories = statistics.categories
        assert categories is not None  # models of numbers do not ask
        p = categories.n_numbers
        if not p:
            raise ValueError(
                "all columns have categories, and a density needs a column of numbers; "
                "LinearDiscriminantAnalysis with categorical_model='dummies' needs none"
            )
        means, weights = statistics.means, statistics.weights
        columns = tuple(slice(place.start - p, place.stop - p) for place in categories.slices)
        counts = np.maximum(means[:, p:] * weights[:, None], 0.0)
        groups = _groups(categories, columns, counts.sum(axis=0), model)
        tables = log_tables(counts, groups, columns, model.alpha)
        made = partial(cls, counts=counts, log_tables=tables, groups=groups, columns=columns, means=means)
        if treatment == "naive":
            return made(statistics.select(np.arange(p)), np.zeros(()), ())
        scatter = statistics.scatter
        is_pooled = scatter.ndim == 2
        learnt = scatter if is_pooled or treatment == "separate" else scatter.sum(axis=0)
        of_groups, slopes = _slopes(learnt, p, groups, ridge)
        residual = np.concatenate([np.broadcast_to(np.eye(p), (*slopes.shape[:-1], p)), -slopes], axis=-1)
        excess: Array = ridge * of_groups @ np.swapaxes(of_groups, -1, -2)
        if treatment == "common" and not is_pooled:
            excess = (weights / weights.sum())[:, None, None] * excess
        rest = residual @ scatter @ np.swapaxes(residual, -1, -2) + excess
        diagonal = np.einsum("...ii->...i", rest)
        np.maximum(diagonal, 0.0, out=diagonal)
        numbers = ClassStatistics.from_moments(
            statistics.classes,
            statistics.counts,
            (residual @ means[:, :, None])[:, :, 0],
            rest,
            weights=weights,
            covariance_type=statistics.covariance_type,
            feature_names=categories.numbers,
        )
        return made(numbers, excess, tuple(slopes.reshape(-1, *slopes.shape[-2:])))

    def densities(self, numbers: Densities) -> CategoricalDensities:
        """The densities of rows, from those of the numbers given the categories."""
        parts: tuple[Densities, ...] = (numbers,)
        if len(self.slopes) > 1:
            assert isinstance(numbers, SeparateGaussians)  # each class has its own slopes
            parts = of_classes(numbers)
        return CategoricalDensities(
            parts, self.slopes, self.log_tables, self.groups, self.columns, self.means
        )

    @property
    def log_likelihood(self) -> float:
        """Σ ln p(z | k) of the rows learnt."""
        known = (self.groups >= 0) & (self.counts > 0)
        return float(np.sum(self.counts * self.log_tables, where=known))

    @property
    def n_parameters(self) -> float:
        """The number of free probabilities and slopes."""
        n_free = len(np.unique(self.groups[self.groups >= 0])) - len(self.columns)
        return float(n_free * (len(self.counts) + len(self.slopes) * self.numbers.n_features))


def _groups(
    categories: Categories, columns: tuple[slice, ...], weights: Array, model: Any
) -> NDArray[np.intp]:
    """The dummy that stands for the group of each; −1 for a missing value that is no value of its own."""
    groups, most = np.arange(len(weights)), model.max_categories
    for column, values in zip(columns, categories.values, strict=True):
        if model.missing == "marginal" and values[-1] is None and len(values) > 1:
            groups[column.stop - 1] = -1
        own = groups[column][groups[column] >= 0]
        if most is not None and len(own) > most:
            rare = own[np.argsort(-weights[own], kind="stable")[most - 1 :]]
            groups[rare] = rare[0]
    return groups


def _slopes(scatter: Array, p: int, groups: NDArray[np.intp], ridge: float) -> tuple[Array, Array]:
    """The slopes of each group at its dummy, with zeros elsewhere, and those of all dummies.

    A missing value that is no value of its own has slopes of its own.
    """
    own = np.where(groups < 0, np.arange(len(groups)), groups)
    together = np.zeros((p + len(own),) * 2)
    together[np.arange(p), np.arange(p)] = 1.0
    together[p + own, p + np.arange(len(own))] = 1.0
    of_groups = slopes_of(together @ scatter @ together.T, p, ridge)
    return of_groups, of_groups[..., own]
