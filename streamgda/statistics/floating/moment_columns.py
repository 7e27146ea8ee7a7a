"""Floating states as columns of a table, and states from the raw sums or moments of other programs.

A table has a row for each class. A scatter that the classes share is a column of one row, under a name of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.labels import Labels
from streamgda.data.blocks.wording import named
from streamgda.data.storage.documents import TableColumns
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import Array, CovarianceKind
from streamgda.statistics.floating.fourth_moments import FourthMoments
from streamgda.statistics.floating.moments import NOISE, Moments
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.validation import as_counts, check_columns

_SCATTER = {False: "scatter", True: "pooled_scatter"}
"""The column of a scatter, by whether the classes share it. It is copied when it is unpacked."""


def to_columns(state: Labelled[Moments]) -> dict[str, NDArray[Any]]:
    """Vectors and matrices with one row for each class; the scatter packed."""
    moments, n_classes = state.moments, len(state.classes)
    columns = {
        **labels.label_columns(state.classes),
        "count": state.counts,
        "weight": moments.weights,
        "mean": moments.means,
        "mean_tail": moments.low_means,
        _SCATTER[moments.kind.is_pooled]: moments.kind.packed(moments.scatter)[:n_classes],
    }
    if moments.weight_tails.any():
        columns["weight_tail"] = moments.weight_tails
    squares = state.squared_weights
    if squares is not None and (squares != moments.least_squares(state.counts)).any():
        columns["squared_weight"] = squares
    return {**columns, **moments.more_columns()}


def decoded(kind: CovarianceKind, columns: TableColumns, n_features: int) -> Labelled[Moments]:
    """The rows of such columns, whose labels may stand in any order, and more than once.

    Raises
    ------
    ValueError
        If a column is missing, shapes do not agree, or a value is impossible.
    """
    sort = FourthMoments if columns.keys() & {"third_moment", "fourth_moment"} else Moments
    n_classes = len(columns.get("label", ()))
    shapes = _shapes(kind, n_classes, n_features) | sort.more_shapes(kind, n_classes, n_features)
    check_columns(["label", *shapes], columns)
    shapes |= {name: shapes["weight"] for name in ("weight_tail", "squared_weight") if name in columns}
    if not len(columns["label"]):
        return Labelled.empty(sort.zeros(kind, 0, 0), n_features)
    classes = labels.labels_in(columns)
    arrays = {name: _numbers(columns[name], shape, name) for name, shape in shapes.items()}
    counts, weights = arrays["count"], arrays["weight"]
    _check_totals(classes, counts, weights)
    weight_tails = arrays.get("weight_tail", np.zeros_like(weights))
    scatter = kind.unpacked(arrays[_SCATTER[kind.is_pooled]], n_classes, n_features)
    more = sort.more_arrays(kind, arrays)
    moments = sort(kind, weights, weight_tails, arrays["mean"], arrays["mean_tail"], scatter, *more)
    return Labelled(classes, counts, moments, _squares(moments, counts, arrays.get("squared_weight")))


def _shapes(kind: CovarianceKind, n_classes: int, n_features: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the columns that must be there, beside the labels."""
    n_pairs = kind.n_pairs(n_features)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("count", "weight"), (n_classes,))
    shapes |= dict.fromkeys(("mean", "mean_tail"), (n_classes, n_features))
    shapes[_SCATTER[kind.is_pooled]] = (kind.n_packed(n_classes), n_pairs)
    return shapes


def _numbers(values: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    if values.shape != shape:
        raise ValueError(f"column {name!r} has shape {values.shape} where {shape} is due")
    if values.dtype.kind not in "iuf":
        raise ValueError(f"column {name!r} holds {values.dtype} where numbers are due")
    if not np.isfinite(values).all():
        raise ValueError(f"column {name!r} holds NaN or infinity")
    if name == "count":
        return as_counts(values)
    return values.astype(np.float64, copy=name not in _SCATTER.values())


def _check_totals(classes: Labels, counts: NDArray[Any], weights: Array) -> None:
    for name, values in (("count", counts), ("weight", weights)):
        if not (values > 0).all():
            k = (values > 0).argmin()
            raise ValueError(f"class {named(classes[k])} has {name} {values[k]:g}")


def _squares(moments: Moments, counts: NDArray[np.int64], squares: Array | None = None) -> Array | None:
    """Σ w² of each class, where it is not given (or 0) that of rows of equal weight."""
    if np.array_equal(moments.weights, counts) and (squares is None or np.array_equal(squares, counts)):
        return None
    equal = moments.least_squares(counts)
    return equal if squares is None else np.where(squares > 0, squares, equal)


# ---------------------------------------------------------------------- states below each other


class JoinedStates:
    """Some states of one sort and of the same features, in the order in which they are merged.

    Parameters
    ----------
    joined : ClassStatistics
        The classes of all the states, one state after the other, each with a scatter of its own.
    ends : sequence of int
        Where each state begins, and where the last one ends.
    dropped : sequence of int
        How many rows each has left out.
    """

    def __init__(self, joined: Statistics, ends: Sequence[int], dropped: Sequence[int]) -> None:
        self._joined, self._ends, self._dropped = joined, ends, dropped

    @property
    def n_rows(self) -> int:
        """How many rows went into all the states."""
        return int(self._joined._labelled.counts[self._ends[0] : self._ends[-1]].sum())

    def __iter__(self) -> Iterator[Statistics]:
        """Each of the states. ValueError if a label stands in one of them twice."""
        for (start, stop), n_dropped in zip(pairwise(self._ends), self._dropped, strict=True):
            yield self._state(self._rows(start, stop).in_order(), n_dropped)

    def __radd__(self, total: Statistics) -> Statistics:
        """The sum of a state and these, each added by itself: at once where that has the same bits."""
        rows, total = self._rows(self._ends[0], self._ends[-1]), total.copy()
        if self._merge_in_turn(total, rows):
            return total._merge(self._state(rows, sum(self._dropped)))
        for state in self:
            total += state
        return total

    def _merge_in_turn(self, total: Statistics, rows: Labelled[Moments]) -> bool:
        """Whether one merge of all the rows is that of state after state: no class stands in one twice."""
        is_alike = type(total) is type(self._joined) and not rows.classes.dtype.names
        if not is_alike or not len(total._labelled.classes):
            return False
        ascends = rows.classes[1:] > rows.classes[:-1]
        ascends[np.array(self._ends[1:-1], np.intp) - self._ends[0] - 1] = True
        return rows.moments.merges_in_turn and bool(ascends.all())

    def _rows(self, start: int, stop: int) -> Labelled[Moments]:
        rows, joined = slice(start, stop), self._joined._labelled
        counts, squares = joined.counts[rows], joined.squared_weights
        if squares is not None:
            squares = None if np.array_equal(squares[rows], counts) else squares[rows]
        return Labelled(labels.trimmed(joined.classes[rows]), counts, joined.moments.take(rows), squares)

    def _state(self, rows: Labelled[Moments], n_dropped: int) -> Statistics:
        return self._joined._twin(rows, _n_dropped=n_dropped)


# ---------------------------------------------------------------------- states from outside


def from_sums(given: Labelled[Moments]) -> Labelled[Moments]:
    """The state of raw sums, which are given in place of its means and its scatter.

    Raises
    ------
    ValueError
        If no rows have these sums.
    """
    sums, weights = given.moments, given.moments.weights[:, None]
    squares = sums.diagonal
    scatter = sums.scatter - sums.kind.outer(sums.means / np.sqrt(weights))
    moments = replace(sums, means=sums.means / weights, scatter=scatter)
    return _possible(replace(given, moments=moments), squares, NOISE * squares, "these sums")


def from_moments(given: Labelled[Moments]) -> Labelled[Moments]:
    """The same state; ValueError if no rows have its scatter."""
    return _possible(given, np.abs(given.moments.diagonal), 0.0, "this scatter")


def given_arrays(
    kind: CovarianceKind,
    classes: ArrayLike,
    counts: ArrayLike,
    weights: ArrayLike | None,
    squared_weights: ArrayLike | None,
    **both: ArrayLike,
) -> Labelled[Moments]:
    """The arrays that a user gives of classes in any order, as a state: sorted, with symmetric products.

    Two arrays are given by name: one in place of the means, and one in place of the scatter.

    Raises
    ------
    ValueError
        If shapes do not agree, or a class stands twice or is empty.
    """
    known, numbers = labels.as_labels(classes).copy(), as_counts(np.atleast_1d(counts))
    masses = np.atleast_1d(np.array(counts if weights is None else weights, np.float64))
    _check_counts(known, numbers, masses)
    named_arrays = {name: np.array(array, np.float64) for name, array in both.items()}
    _check_shapes(kind, len(known), **named_arrays)
    vectors, products = named_arrays.values()
    moments = Moments.zeros(kind, *vectors.shape)
    moments.weights, moments.means = masses, vectors
    moments.scatter = kind.unpacked(kind.packed(products), *vectors.shape)
    squares = None if squared_weights is None else np.atleast_1d(np.array(squared_weights, np.float64))
    _check_squares(moments, numbers, squares)
    return Labelled(known, numbers, moments, _squares(moments, numbers, squares)).in_order()


def _possible(state: Labelled[Moments], squares: Array, noise: Array | float, name: str) -> Labelled[Moments]:
    """The state, whose scatter is a difference of such `squares`; ValueError if no rows have it."""
    moments = state.moments
    moments.clip(squares, noise, f"{name} cannot be of any rows")
    if not moments.kind.is_semidefinite(moments.scatter, squares):
        raise ValueError(f"{name} cannot be of any rows: a scatter is not positive semidefinite")
    return state


def _check_counts(classes: Labels, counts: NDArray[Any], weights: Array) -> None:
    if not len(classes) == len(counts) == len(weights):
        raise ValueError("counts and weights must have one entry for each class")
    if len(np.unique(classes)) != len(classes):
        raise ValueError("a class stands twice")
    if not np.isfinite(weights).all():
        raise ValueError("weights must be finite")
    empty = (counts <= 0) | ~(weights > 0)
    if empty.any():
        raise ValueError(f"class {named(classes[empty][0])} has no rows")


def _check_squares(moments: Moments, counts: NDArray[Any], squares: Array | None) -> None:
    """Raise ValueError if no weights of so many rows have these sums of squares: (Σ w)² ≤ n Σ w² and Σ w²."""
    if squares is None:
        return
    if squares.shape != counts.shape:
        raise ValueError("squared_weights must have one entry for each class")
    least, most = moments.least_squares(counts), moments.weights**2
    if not ((squares >= least * (1 - 1e-9)) & (squares <= most * (1 + 1e-9))).all():
        raise ValueError("squared_weights must lie between (Σ w)² / count and (Σ w)²: no rows have these")


def _check_shapes(kind: CovarianceKind, n_classes: int, **arrays: Array) -> None:
    """Check an array with a vector for each class and one in the scatter's shape, given by name."""
    (vectors_name, vectors), (products_name, products) = arrays.items()
    if vectors.ndim != 2 or len(vectors) != n_classes:
        raise ValueError(f"{vectors_name} must have one row for each class; got shape {vectors.shape}")
    expected = kind.shape(*vectors.shape)
    if products.shape != expected:
        raise ValueError(
            f"{products_name} must have shape {expected} for {kind.name!r}; got {products.shape}"
        )
    if not (np.isfinite(vectors).all() and np.isfinite(products).all()):
        raise ValueError(f"{vectors_name} and {products_name} must be finite")
    if not kind.is_symmetric(products):
        raise ValueError(f"{products_name} must be symmetric")
