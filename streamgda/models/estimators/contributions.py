"""What each feature contributes to the log-odds of two classes: exact Shapley values over all rows learnt.

The log-odds are a quadratic function f(x) = xᵀ A x + bᵀ x + c of the features and the dummies of categories.
With the mean m and the covariance S of all rows X that the model has learnt, its interventional Shapley
values are b∘(x − m) + (x − m)∘A(x + m) − diag(A S), and they add up to f(x) − E f(X). No rows are needed
beside the statistics, and nothing is drawn. Those of the dummies of a column add up to the value of the
column.

References
----------
Lundberg & Lee (2017), "A unified approach to interpreting model predictions", NIPS; Janzing, Minorics &
Bloebaum (2020), "Feature relevance quantification in explainable AI: a causal problem", AISTATS, of the
interventional values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.labels import position_of
from streamgda.data.blocks.schema import Schema
from streamgda.data.blocks.wording import RowError
from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.formula import ScoreFormula, check_formula, formula_of
from streamgda.models.estimators.scores import RowScores
from streamgda.models.gaussians.components import pooled_covariance, weighted_offsets
from streamgda.statistics.covariances import Array

Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Contributions:
    """The scores of K classes as functions of u = x − m, the deviations from the mean m of all rows learnt.

    With the precision P of a class, of zeros if scores are linear, and the covariance S of all rows, a score
    is mean + Σ_j (slope_j u_j − ½ u_j (P u)_j + spread_j), and the terms of the sum are the contributions.

    Attributes
    ----------
    formula : ScoreFormula
        The scores.
    schema : Schema
        What the features are.
    mean : ndarray of shape (d,)
        m.
    means : ndarray of shape (K,)
        The mean of each score over all rows.
    slopes, spreads : ndarray of shape (K, d)
        The spreads are half the diagonal of P S.
    precisions : ndarray of shape (K, d) or (K, d, d), or None
        P, or its diagonal; None if it is zero.
    """

    formula: ScoreFormula
    schema: Schema
    mean: Array
    means: Array
    slopes: Array
    spreads: Array
    precisions: Array | None

    @classmethod
    def of(cls, model: Any) -> Self:
        """Those of a fitted model.

        Raises
        ------
        ValueError
            If its log-odds are not quadratic in the features.
        """
        state, statistics = finalised(model), model.statistics_
        if model.maps_rows:
            raise ValueError(
                f"{type(model).__name__} has contributions of mapped features alone; RidgeClassifier and "
                "LinearDiscriminantAnalysis have those of features"
            )
        check_formula(model, "the sum of contributions")
        formula = formula_of(state)
        if len(formula.constants) != len(formula.starts) or state.places is not None:
            raise ValueError(
                "contributions are those of classes that are no mixtures, each with rows; got "
                f"{len(formula.starts)} classes of {len(formula.constants)} parts"
            )
        mean = statistics.overall_mean()
        slopes = np.zeros((len(formula.constants), len(mean))) if formula.linear is None else formula.linear
        means, spreads, precisions = formula.constants + slopes @ mean, np.zeros_like(slopes), None
        gaps = mean - formula.centres - (0.0 if formula.mean_tails is None else formula.mean_tails)
        if formula.kind == "linear":
            return cls(
                formula,
                statistics.schema,
                mean,
                means + gaps[0] @ formula.matrices,
                slopes + formula.matrices.T,
                spreads,
                precisions,
            )
        if formula.kind == "diagonal":
            precisions = formula.matrices**2
            spreads = precisions * statistics.total_variance() / 2
            of_gaps = precisions * gaps
        else:
            offsets = weighted_offsets(statistics)
            covariance = pooled_covariance(statistics) + offsets.T @ offsets
            precisions = formula.matrices @ np.swapaxes(formula.matrices, 1, 2)
            spreads = np.einsum("kij,ij->ki", precisions, covariance) / 2
            of_gaps = np.einsum("kij,kj->ki", precisions, gaps)
        means = means - (np.vecdot(gaps, of_gaps) / 2 + spreads.sum(axis=1))
        return cls(formula, statistics.schema, mean, means, slopes - of_gaps, spreads, precisions)

    def of_rows(self, scores: RowScores, first: int | None, second: int | None) -> Array:
        """The contributions of the features to log-odds, and the mean of these over all rows: (n, p + 1)."""
        self._check_known(scores)
        rows, n_classes = scores.rows - self.mean, len(self.means)
        if first is None or second is None:
            best = scores.best(2)
            one = best[:, 0] if first is None else np.full(len(rows), first)
            other = np.where(best[:, 0] == one, best[:, 1], best[:, 0])
        else:
            one, other = np.full(len(rows), first), np.full(len(rows), second)
        pairs, codes = np.unique(one * n_classes + other, return_inverse=True)
        ones, others = np.divmod(pairs, n_classes)
        total = rows * (self.slopes[ones] - self.slopes[others])[codes]
        if self.precisions is not None:
            total += (self.spreads[ones] - self.spreads[others])[codes]
            if self.precisions.ndim == 2:
                total -= rows * rows * ((self.precisions[ones] - self.precisions[others]) / 2)[codes]
            else:
                for k, sign, own in _by_class(one, other):
                    total[own] -= (sign / 2) * rows[own] * (rows[own] @ self.precisions[k])
        if self._places is not None:
            total = np.stack([total[:, place].sum(axis=1) for place in self._places], axis=1)
        packed = np.empty((len(rows), total.shape[1] + 1))
        packed[:, :-1], packed[:, -1] = total, (self.means[ones] - self.means[others])[codes]
        packed /= self.formula.temperature
        return packed

    @cached_property
    def _places(self) -> list[slice] | None:
        """The columns of each feature, of which a category has several; None if all have one."""
        schema = self.schema
        dummies = dict(zip(schema.encoded, schema.sums_to_one, strict=True))
        if not dummies:
            return None
        numbers = (slice(j, j + 1) for j in range(len(self.mean)))
        return [dummies[name] if name in dummies else next(numbers) for name in schema.names or ()]

    def _check_known(self, scores: RowScores) -> None:
        """Raise ValueError for a row of unknown categories on which numbers depend: scores are then sums."""
        depends = self.formula.kind != "diagonal" and self.formula.linear is not None
        for name, place in zip(self.schema.encoded, self.schema.sums_to_one, strict=True):
            unknown = ~scores.rows[:, place].any(axis=1)
            if depends and unknown.any():
                row = scores._position(int(np.argmax(unknown)))
                raise RowError(row, f": the category of column {name!r} is unknown, and numbers depend on it")


def _by_class(one: Codes, other: Codes) -> Iterator[tuple[int, float, Codes]]:
    """Yield each class that is one of two, 1 or −1, and the rows of which it is."""
    for sign, codes in ((1.0, one), (-1.0, other)):
        for k in np.unique(codes).tolist():
            yield k, sign, np.flatnonzero(codes == k)


def names_of_rows(model: Any) -> Any:
    """The names of the features of rows, or their numbers, as names of columns."""
    return getattr(model, "feature_names_in_", range(model.n_features_in_))


def positions(model: Any, label: Any, against: Any) -> tuple[int | None, int | None]:
    """The positions of two labels among the classes; None for one that each row decides.

    Raises
    ------
    ValueError
        If there is no such class, no class beside, or both are the same.
    """
    classes = model.known_labels
    if len(classes) < 2:
        raise ValueError("log-odds are those of two classes, and the model knows one")
    if label is None and against is not None:
        raise ValueError("against= is the class beside label=; give label= too")
    pair = [None if one is None else position_of(one, classes) for one in (label, against)]
    if pair[0] is not None and pair[0] == pair[1]:
        raise ValueError(f"log-odds are those of two classes; got {label!r} twice")
    return pair[0], pair[1]
