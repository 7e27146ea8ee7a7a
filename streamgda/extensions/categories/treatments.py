"""What models learn from the categories of a table: tables of probabilities, and numbers given categories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.wording import listed
from streamgda.extensions.categories.columns import Categories
from streamgda.extensions.categories.densities import CategoricalDensities, log_tables, slopes_of
from streamgda.extensions.categories.reading import Categorical
from streamgda.models.estimators.view import View
from streamgda.models.gaussians.base import Densities
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array
from streamgda.statistics.floating.state import ClassStatistics


class GivenCategories:
    """The numbers of a table given its categories, and the probabilities of the categories.

    Attributes
    ----------
    numbers : Statistics
        The state of x − c − B z, where z are the dummies; with κ B Bᵀ in its scatter, as the ridge asks for.
    excess : ndarray
        That part of the scatter, in its shape.
    centre : ndarray of shape (p,)
        c, the mean of the numbers of all rows, beside which x − B z keeps its digits; 0 in naive Bayes.
    slopes : ndarray of shape (K, p, D), (1, p, D) or (0, p, D)
        B of each class, or of all of them; none in naive Bayes.
    counts, log_tables : ndarray of shape (K, D)
        The weight of each dummy in each class, and ln p(v | k) of each value.
    groups : ndarray of int of shape (D,)
        The dummy that stands for the group of each; −1 for a missing value that is not a category.
    columns : tuple of slice
        The dummies of each column.
    means : ndarray of shape (K, p + D)
        The means of the classes.
    """

    def __init__(self, statistics: Statistics, model: Any) -> None:
        """Take the state of a table apart, as the parameters of a model say.

        Raises
        ------
        ValueError
            If no column is of numbers, or the rows of a class do not determine its covariances.
        """
        option = Categorical.of(model)
        treatment, ridge = option.treatment(model), option.ridge
        categories = statistics.schema
        assert isinstance(categories, Categories)  # models of numbers do not ask
        p = categories.n_numbers()
        if not p:
            misread = [f"column {name!r} holds {holds}. " for name, holds in categories.misread().items()]
            raise ValueError(
                "".join(misread) + "all columns have categories, and a density needs a column of numbers; "
                "LinearDiscriminantAnalysis with Categorical(model='dummies') needs none"
            )
        means, weights = statistics.means, statistics.weights
        self.means, self.counts = means, np.maximum(means[:, p:] * weights[:, None], 0.0)
        self.columns = tuple(slice(place.start - p, place.stop - p) for place in categories.slices)
        self.groups = _groups(categories, self.columns, self.counts.sum(axis=0), model)
        self.log_tables = log_tables(self.counts, self.groups, self.columns, option.alpha)
        self.excess, self.centre = np.zeros(()), np.zeros(p)
        self.slopes = np.zeros((0, p, len(self.groups)))
        if treatment == "naive":
            self.numbers = statistics.select(np.arange(p))
            return
        if reasons := list(statistics.reasons.values()):
            raise reasons[0]()
        scatter = statistics.scatter
        is_pooled = scatter.ndim == 2
        learnt = scatter if is_pooled or treatment == "separate" else scatter.sum(axis=0)
        of_groups, slopes = _slopes(learnt, p, self.groups, ridge)
        residual = np.concatenate([np.broadcast_to(np.eye(p), (*slopes.shape[:-1], p)), -slopes], axis=-1)
        self.excess = ridge * of_groups @ np.swapaxes(of_groups, -1, -2)
        if treatment == "common" and not is_pooled:
            self.excess = (weights / weights.sum())[:, None, None] * self.excess
        rest = residual @ scatter @ np.swapaxes(residual, -1, -2) + self.excess
        diagonal = np.einsum("...ii->...i", rest)
        np.maximum(diagonal, 0.0, out=diagonal)
        self.centre = statistics.overall_mean()[:p]
        gaps = (means[:, :p] - self.centre) + statistics.mean_tails[:, :p]
        self.slopes = slopes.reshape(-1, *slopes.shape[-2:])
        self.numbers = ClassStatistics.from_moments(
            statistics.classes,
            statistics.counts,
            gaps - (slopes @ means[:, p:, None])[:, :, 0],
            rest,
            weights=weights,
            covariance_type=statistics.covariance_type,
            feature_names=categories.numbers,
        )

    def densities(self, numbers: Densities, view: View) -> CategoricalDensities:
        """The densities of rows, from those of the numbers given the categories: a step of a view's chain."""
        return CategoricalDensities(
            numbers, self.centre, self.slopes, self.log_tables, self.groups, self.columns, self.means
        )

    @property
    def log_likelihood(self) -> float:
        """Σ ln p(z | k) of the rows learnt."""
        known = (self.groups >= 0) & (self.counts > 0)
        return float(np.sum(self.counts * self.log_tables, where=known))

    def log_likelihood_beside(self, gaussians: Any) -> float:
        """What the categories add to the log likelihood of the rows learnt."""
        ridge = gaussians.total_squared_distance(self.excess) / 2 if len(self.slopes) else 0.0
        return float(ridge + self.log_likelihood)

    @property
    def n_parameters(self) -> float:
        """The number of free probabilities and slopes."""
        n_free = len(np.unique(self.groups[self.groups >= 0])) - len(self.columns)
        return float(n_free * (len(self.counts) + len(self.slopes) * self.numbers.n_features))


def _groups(
    categories: Categories, columns: tuple[slice, ...], weights: Array, model: Any
) -> NDArray[np.intp]:
    """The dummy that stands for the group of each; −1 for a missing value that is not a category."""
    groups, most = np.arange(len(weights)), Categorical.of(model).max_categories
    for column, values in zip(columns, categories.values, strict=True):
        if model.missing != "raise" and values[-1] is None and len(values) > 1:
            groups[column.stop - 1] = -1
        own = groups[column][groups[column] >= 0]
        if most is not None and len(own) > most:
            rare = own[np.argsort(-weights[own], kind="stable")[most - 1 :]]
            groups[rare] = rare[0]
    return groups


def _slopes(scatter: Array, p: int, groups: NDArray[np.intp], ridge: float) -> tuple[Array, Array]:
    """The slopes of each group at its dummy, with zeros elsewhere, and those of all dummies.

    A missing value that is not a category has slopes of its own.
    """
    own = np.where(groups < 0, np.arange(len(groups)), groups)
    together = np.zeros((p + len(own),) * 2)
    together[np.arange(p), np.arange(p)] = 1.0
    together[p + own, p + np.arange(len(own))] = 1.0
    of_groups = slopes_of(together @ scatter @ together.T, p, ridge)
    return of_groups, of_groups[..., own]


def check(categories: Categories, statistics: Statistics, model: Any) -> None:
    """Raise ValueError if a model takes no categories, or a column with categories identifies rows."""
    categories.check_no_identifier(statistics)
    treatment = Categorical.of(model).treatment(model)
    if treatment is None:
        refused = f"{type(model).__name__} takes no categories, and the statistics have those of "
        raise ValueError(f"{refused}{listed(categories.columns)}; {model._remedy_for_encoded}")
    if treatment in {"separate", "common"} and (
        model.covariance_estimator is not None or getattr(model, "shrinkage", None) == "auto"
    ):
        raise ValueError(
            "shrinkage='auto' and covariance_estimator need more of the numbers given the categories than "
            "their covariances; set shrinkage to 'oas' or a number, or covariance_estimator=None"
        )
    if model.predictive != "plugin" and treatment in {"separate", "common"}:
        raise ValueError(
            "numbers given categories have no Student t densities here; set predictive='plugin', or use "
            "GaussianNB"
        )


def viewed(categories: Categories, view: View, model: Any) -> View:
    """What a model reads of statistics with categories; ValueError if it takes no categories."""
    check(categories, view.numbers, model)
    if categories.is_normal_for(model):
        return view
    conditional = GivenCategories(view.numbers, model)
    return replace(
        view,
        numbers=conditional.numbers,
        chain=(*view.chain, conditional.densities),
        n_parameters=conditional.n_parameters,
        log_likelihood_beside=conditional.log_likelihood_beside,
    )
