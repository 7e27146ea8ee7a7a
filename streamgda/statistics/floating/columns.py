"""Floating states as columns of a table, with a row for each class.

A scatter that the classes share is a column of one row, under a name of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import labels
from streamgda.blocks.labels import Labels
from streamgda.blocks.wording import named
from streamgda.statistics.covariances import Array, CovarianceKind
from streamgda.statistics.floating.fourth_moments import FourthMoments
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.validation import Columns, as_counts, check_columns

_PACKED = {"scatter", "pooled_scatter", "fourth_moment"}  # they are copied when they are unpacked

_FOURTH = {"third_moment", "fourth_moment"}


def to_columns(state: Labelled[Moments]) -> dict[str, NDArray[Any]]:
    """Vectors and matrices with one row for each class; the scatter packed."""
    held, n_classes = state.moments, len(state.classes)
    columns = {
        "label": state.classes,
        "count": state.counts,
        "weight": held.weights,
        "mean": held.means,
        "mean_tail": held.low_means,
        _scatter_column(held.kind): held.kind.packed(held.scatter)[:n_classes],
    }
    if held.low_weights.any():
        columns["weight_tail"] = held.low_weights
    if held.fourth is not None:
        columns["third_moment"] = held.fourth.third.reshape(n_classes, held.n_features**2)
        columns["fourth_moment"] = held.kind.packed(held.fourth.fourth)
    return columns


def from_columns(kind: CovarianceKind, columns: Columns, n_features: int) -> Labelled[Moments]:
    """The state that such columns hold, its classes in any order.

    Raises
    ------
    ValueError
        If a column is missing, shapes do not agree, a label stands twice, or a value cannot be.
    """
    has_fourth = not _FOURTH.isdisjoint(columns)
    shapes = _shapes(kind, len(columns.get("label", ())), n_features, has_fourth=has_fourth)
    check_columns(["label", *shapes], columns)
    if "weight_tail" in columns:
        shapes["weight_tail"] = shapes["weight"]
    if not len(columns["label"]):
        return Labelled.empty(Moments.zeros(kind, 0, 0, fourth=has_fourth), n_features)
    classes = labels.as_labels(columns["label"]).copy()
    arrays = {name: _numbers(columns[name], shape, name) for name, shape in shapes.items()}
    _check_totals(classes, arrays["count"], arrays["weight"])
    state = Labelled(classes, arrays["count"], _moments(kind, arrays, n_features))
    return state if (classes[1:] > classes[:-1]).all() else _sorted(state)


def _scatter_column(kind: CovarianceKind) -> str:
    return "pooled_scatter" if kind.is_pooled else "scatter"


def _shapes(
    kind: CovarianceKind, n_classes: int, n_features: int, *, has_fourth: bool
) -> dict[str, tuple[int, ...]]:
    """The shapes of the columns that must be there, beside the labels."""
    n_pairs = kind.n_pairs(n_features)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("count", "weight"), (n_classes,))
    shapes |= dict.fromkeys(("mean", "mean_tail"), (n_classes, n_features))
    shapes[_scatter_column(kind)] = (kind.n_packed(n_classes), n_pairs)
    if has_fourth:
        shapes |= {"third_moment": (n_classes, n_features**2), "fourth_moment": (n_classes, n_pairs)}
    return shapes


def _numbers(values: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    if values.shape != shape:
        raise ValueError(f"column {name!r} has shape {values.shape} where {shape} is due")
    if values.dtype.kind not in "iuf":
        raise ValueError(f"column {name!r} holds {values.dtype} where numbers are due")
    if not np.isfinite(values).all():
        raise ValueError(f"column {name!r} holds NaN or infinity")
    return as_counts(values) if name == "count" else values.astype(np.float64, copy=name not in _PACKED)


def _check_totals(classes: Labels, counts: NDArray[Any], weights: Array) -> None:
    for name, values in (("count", counts), ("weight", weights)):
        for k in np.flatnonzero(~(values > 0)):
            raise ValueError(f"class {named(classes[k])} has {name} {values[k]:g}")


def _moments(kind: CovarianceKind, arrays: Columns, n_features: int) -> Moments:
    weights = arrays["weight"]
    scatter = kind.unpacked(arrays[_scatter_column(kind)], len(weights), n_features)
    fourth = _fourth_moments(kind, arrays, n_features) if "fourth_moment" in arrays else None
    low_weights = arrays.get("weight_tail", np.zeros_like(weights))
    return Moments(kind, weights, low_weights, arrays["mean"], arrays["mean_tail"], scatter, fourth)


def _fourth_moments(kind: CovarianceKind, arrays: Columns, n_features: int) -> FourthMoments:
    third, fourth = arrays["third_moment"], arrays["fourth_moment"]
    return FourthMoments(
        third.reshape(len(third), n_features, n_features), kind.unpacked(fourth, len(third), n_features)
    )


def _sorted(state: Labelled[Moments]) -> Labelled[Moments]:
    order = np.argsort(state.classes)
    classes = state.classes[order]
    if (classes[1:] == classes[:-1]).any():
        raise ValueError("a label stands twice")
    return Labelled(classes, state.counts[order], state.moments.take(order))
