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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import ADAPTERS_MANAGER, _get_output_config

from streamgda.data.blocks.block import FILL_IN
from streamgda.data.blocks.labels import position_of
from streamgda.data.blocks.schema import Schema
from streamgda.data.blocks.wording import RowError
from streamgda.models.estimators.classifier import finalised
from streamgda.models.estimators.formula import ScoreFormula, check_formula, formula_of
from streamgda.models.estimators.lazy import rows_anywhere
from streamgda.models.estimators.moment import at_one_moment
from streamgda.models.estimators.reading import check_rows
from streamgda.models.estimators.scores import Finalised, RowScores, score_each, score_finalised
from streamgda.models.gaussians.components import pooled_covariance, weighted_offsets
from streamgda.models.gaussians.posteriors import largest
from streamgda.models.gaussians.products import large_mean_tails
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array

Codes = NDArray[np.intp]

_FEW_CLASSES = 32
_FEWEST_ROWS = 256
_VALUES_AT_ONCE = 1 << 14  # 128 kB stay in the cache, and malloc does not return them to the system
_VALUES_OF_PRODUCTS = 1 << 16  # more, since each block costs a product for each class


@dataclass(frozen=True, eq=False)
class Contributions:
    """The scores of K classes as functions of u = (x − m, 1), where m is the mean of all rows learnt.

    A score is Σ_j (slope_j u_j − u_j (H u)_j + spread_j), over the temperature. The terms of the sum are the
    contributions, and the last one is the mean of the score over all rows. H is half the precision of the
    class, and with the covariance S of all rows the spreads are the diagonal of H S.

    Attributes
    ----------
    state : Finalised
        The densities of the model.
    schema : Schema
        What the features are.
    depends : bool
        Whether numbers depend on categories.
    mean, mean_tail : ndarray of shape (d,)
        m, as the sum of two numbers; the second is None if the first suffices.
    slopes : ndarray of shape (K, d + 1)
        The slopes.
    spreads : ndarray of shape (K, d + 1), or None
        The spreads; None if they are zero.
    halves : ndarray of shape (K, d + 1) or (K, d + 1, d + 1), or None
        H, or its diagonal; None if it is zero.
    """

    state: Finalised[Any]
    schema: Schema
    depends: bool
    mean: Array
    mean_tail: Array | None
    slopes: Array
    spreads: Array | None = None
    halves: Array | None = None

    @classmethod
    def of(cls, model: Any) -> Self:
        """Those of a fitted model, which it keeps until it learns.

        Raises
        ------
        ValueError
            If its log-odds are not quadratic in the features, or if fewer than two classes have a density.
        """
        if model.maps_rows:
            raise ValueError(
                f"{type(model).__name__} has contributions of mapped features alone; RidgeClassifier and "
                "LinearDiscriminantAnalysis have those of features"
            )
        check_formula(model, "the sum of contributions")
        state = finalised(model)
        return state.once("contributions", lambda: cls._of_classes(state.seen, model.statistics_))

    @classmethod
    def _of_classes(cls, state: Finalised[Any], statistics: Statistics) -> Self:
        if len(state.classes) - len(state.densities.singular) < 2:
            raise ValueError("contributions are to the log-odds of two classes, and rows determine fewer")
        formula = formula_of(state)
        if len(formula.constants) != len(formula.starts):
            raise ValueError(
                "contributions are those of classes that are no mixtures; got "
                f"{len(formula.starts)} classes of {len(formula.constants)} parts"
            )
        mean = statistics.overall_mean()
        shares = statistics.weights / statistics.weights.sum()
        mean_tail = shares @ ((statistics.means - mean) + statistics.mean_tails)
        gaps = (mean - formula.centres) + mean_tail
        if formula.mean_tails is not None:
            gaps -= formula.mean_tails
        slopes = np.zeros((len(formula.constants), len(mean))) if formula.linear is None else formula.linear
        means = formula.constants + slopes @ mean
        spreads = halves = None
        if formula.kind == "linear":
            means = means + gaps[0] @ formula.matrices
            slopes = slopes + formula.matrices.T
        else:
            halves, of_gaps, spreads = _quadratic_terms(formula, gaps, statistics)
            means = means - (np.vecdot(gaps, of_gaps) + spreads.sum(axis=1))
            slopes = slopes - 2 * of_gaps
        tails = large_mean_tails(mean_tail[None], statistics.total_variance()[None])
        return cls(
            state,
            statistics.schema,
            formula.kind != "diagonal" and formula.linear is not None,
            mean,
            None if tails is None else tails[0],
            np.column_stack([slopes, means]) / formula.temperature,
            *(None if terms is None else _padded(terms) / formula.temperature for terms in (spreads, halves)),
        )

    @property
    def n_values(self) -> int:
        """How many features have contributions."""
        return len(self.mean) if self._places is None else len(self._places)

    def write(self, scores: RowScores, pair: tuple[Any, Any], result: Array) -> None:
        """Write the contributions to log-odds, and last the mean of these over all rows: (n, p + 1).

        Parameters
        ----------
        scores : RowScores
            Rows.
        pair : tuple
            The positions of two classes among those that have rows: of all rows, or of each. None stands for
            the likeliest class, or the likeliest other one.
        result : ndarray of shape (n, p + 1)
            Where to write.
        """
        self._check_known(scores)
        first, second = pair
        if first is None or second is None:
            best = largest(self.state.of_seen(scores.posterior_scores), 2)
            first = best[:, 0] if first is None else first
            second = np.where(best[:, 0] == first, best[:, 1], best[:, 0])
        one, other = (np.broadcast_to(codes, len(result)) for codes in (first, second))
        n_values = _VALUES_AT_ONCE if self.halves is None or self.halves.ndim == 2 else _VALUES_OF_PRODUCTS
        size = max(_FEWEST_ROWS, n_values // self.slopes.shape[1])
        for start in range(0, len(result), size):
            some = slice(start, start + size)
            values = scores.rows[some]
            values = values if isinstance(values, np.ndarray) else values.toarray()
            with np.errstate(over="ignore", invalid="ignore"):  # of far rows, and of a prior of 0
                self._write(values, one[some], other[some], result[some])
                is_finite = np.isfinite(result[some, :-1].sum())
            if not is_finite and not (finite := np.isfinite(result[some, :-1]).all(axis=1)).all():
                row = scores._position(start + int(np.argmin(finite)))
                raise RowError(row, " is too far from the classes: squared distances exceed float64")

    def _write(self, values: Array, one: Codes, other: Codes, result: Array) -> None:
        """Write the contributions of so few rows that they stay in the cache."""
        rows = np.empty((len(values), self.slopes.shape[1]))
        np.subtract(values, self.mean, out=rows[:, :-1])
        if self.mean_tail is not None:
            rows[:, :-1] -= self.mean_tail
        rows[:, -1] = 1.0
        gaps = _gaps_of(one, other, len(self.slopes))
        terms = gaps(self.slopes)
        if self.halves is not None and self.halves.ndim == 2:
            terms -= gaps(self.halves) * rows
        elif self.halves is not None:
            self._subtract_products(terms, rows, one, other)
        terms *= rows
        if self.spreads is not None:
            terms += gaps(self.spreads)
        if self._places is None:
            result[:] = terms
            return
        for j, place in enumerate(self._places):
            np.sum(terms[:, place], axis=1, out=result[:, j])
        result[:, -1] = terms[:, -1]

    def _subtract_products(self, terms: Array, rows: Array, one: Codes, other: Codes) -> None:
        """Subtract H u of one class, less that of the other, from the terms of each row."""
        assert self.halves is not None
        if len(self.slopes) == 2:
            products = rows @ (self.halves[1] - self.halves[0])
            products *= (one - other)[:, None]
            terms -= products
            return
        products = np.empty_like(rows)
        for codes, add in ((one, np.subtract), (other, np.add)):
            for k in np.flatnonzero(np.bincount(codes)):
                own = np.flatnonzero(codes == k)
                products[own] = rows[own] @ self.halves[k]
            add(terms, products, out=terms)

    def among_seen(self, scores: RowScores, codes: Codes) -> Codes:
        """The positions of classes of rows among those that have rows; ValueError for one that has none."""
        if (places := scores.finalised.places) is None:
            return codes
        own = np.minimum(np.searchsorted(places, codes), len(places) - 1)
        if (wrong := places[own] != codes).any():
            label = scores.finalised.classes[codes[wrong][0]].item()
            row = scores._position(int(np.argmax(wrong)))
            raise RowError(row, f": no row of class {label!r} has come, so its log-odds are infinite")
        return own

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
        for name, place in zip(self.schema.encoded, self.schema.sums_to_one, strict=True):
            unknown = ~scores.rows[:, place].any(axis=1)
            if self.depends and unknown.any():
                row = scores._position(int(np.argmax(unknown)))
                raise RowError(row, f": the category of column {name!r} is unknown, and numbers depend on it")


def _quadratic_terms(
    formula: ScoreFormula, gaps: Array, statistics: Statistics
) -> tuple[Array, Array, Array]:
    """Half the precisions of classes; times gaps from their means; and the diagonals of them times S."""
    if formula.kind == "diagonal":
        halves = formula.matrices**2 / 2
        return halves, halves * gaps, halves * statistics.total_variance()
    offsets = weighted_offsets(statistics)
    covariance = pooled_covariance(statistics) + offsets.T @ offsets
    halves = formula.matrices @ np.swapaxes(formula.matrices, 1, 2) / 2
    return halves, np.einsum("kij,kj->ki", halves, gaps), np.einsum("kij,ij->ki", halves, covariance)


def _padded(terms: Array) -> Array:
    """The terms of the classes with zeros for the last entry of u."""
    return np.pad(terms, [(0, 0)] + [(0, 1)] * (terms.ndim - 1))


def _gaps_of(one: Codes, other: Codes, n_classes: int) -> Callable[[Array], Array]:
    """A function of values of the classes: those of one less those of the other, for each row."""
    codes = one * n_classes + other
    pairs = np.arange(n_classes**2)
    if n_classes > _FEW_CLASSES:
        pairs, codes = np.unique(codes, return_inverse=True)
    ones, others = np.divmod(pairs, n_classes)
    return lambda values: np.take(values[ones] - values[others], codes, axis=0)


@rows_anywhere(
    columns=lambda model: [*getattr(model, "feature_names_in_", range(model.n_features_in_)), "base"]
)
def contributions(model: Any, X: Any, *, label: Any, against: Any) -> Array:
    """The contributions of features to the log-odds of two classes, and last the base value: (n, p + 1)."""
    rows = check_rows(model, X, other_remedy=FILL_IN)
    with at_one_moment(model):
        own = Contributions.of(model)
        pair = _positions(model, own.state, label, against)
    result = np.empty((rows.shape[0], own.n_values + 1))
    blocks = score_finalised(own.state, rows, model.missing)
    score_each(lambda scores: own.write(scores, pair, result[scores.positions]), blocks, rows.shape[0])
    return result


@dataclass(frozen=True, eq=False)
class Reasons:
    """The contributions of the columns of rows: those of the places of a list are added up.

    Attributes
    ----------
    contributions : Contributions
        Those of the features.
    names : list of str
        The names of the columns; those of features without names are x0, x1 and so on.
    places : ndarray of int of shape (p,)
        The column of each feature.
    """

    contributions: Contributions
    names: list[str]
    places: Codes

    @classmethod
    def of(cls, model: Any) -> Self:
        """Those of a fitted model; ValueError if it has none."""
        lists = {
            f"{name}_{i}": name
            for name, length in model.statistics_.schema_of_rows.lists
            for i in range(length)
        }
        columns = [lists.get(name, str(name)) for name in _names_of(model)]
        names = list(dict.fromkeys(columns))
        return cls(Contributions.of(model), names, np.array([names.index(name) for name in columns], np.intp))

    def of_rows(self, scores: RowScores, codes: Codes) -> Array:
        """The contributions to the log-odds of a class of each row against the likeliest other one."""
        own = self.contributions
        values = np.empty((len(codes), own.n_values + 1))
        own.write(scores, (own.among_seen(scores, codes), None), values)
        return self.by_column(values[:, :-1])

    def by_column(self, values: Array) -> Array:
        """The sums of the contributions of the features of each column."""
        if len(self.names) == values.shape[1]:
            return values
        return values @ np.eye(len(self.names))[self.places]


def _names_of(model: Any) -> list[str]:
    """The names of the features of rows, or x0, x1 and so on."""
    return [*getattr(model, "feature_names_in_", (f"x{j}" for j in range(model.n_features_in_)))]


def in_output_of(model: Any, X: Any, values: Array) -> Any:
    """Values of features as what `set_output` or scikit-learn's configuration asks for."""
    kind = _get_output_config("transform", model)["dense"]
    if kind == "default" or not isinstance(values, np.ndarray):
        return values
    return ADAPTERS_MANAGER.adapters[kind].create_container(values, X, columns=_names_of(model))


def _positions(model: Any, state: Finalised[Any], label: Any, against: Any) -> tuple[Any, Any]:
    """The positions of two labels among the classes that have rows; None for one that each row decides.

    Raises
    ------
    ValueError
        If there is no such class, it has no density, or both are the same.
    """
    if label is None and against is not None:
        raise ValueError("against= is the class beside label=; give label= too")
    pair: list[int | None] = [None, None]
    for i, one in enumerate((label, against)):
        if one is None:
            continue
        position_of(one, model.known_labels)  # raises if there is no such class
        if one not in state.classes.tolist():
            raise ValueError(f"no row of class {one!r} has come, so its log-odds are infinite")
        pair[i] = place = position_of(one, state.classes)
        if place in state.densities.singular:
            raise state.densities.singular[place]()
    if label is not None and pair[0] == pair[1]:
        raise ValueError(f"log-odds are those of two classes; got {label!r} twice")
    return pair[0], pair[1]
