"""A state as columns, one row per class, and back: what is saved, whatever the file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import labels
from streamgda.statistics.covariances import Array, CovarianceKind
from streamgda.statistics.floating.fourth_moments import FourthMoments
from streamgda.statistics.floating.labelled import LabelledMoments
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.validation import Columns, as_counts, require

_FOURTH = {"third_moment", "fourth_moment"}


def to_columns(held: LabelledMoments) -> dict[str, NDArray[Any]]:
    """Vectors and matrices with one row for each class; the scatter packed.

    A scatter that the classes share is a matrix of one row, and of a name of its own.
    """
    columns = {
        "label": held.classes,
        "count": held.counts,
        "weight": held.moments.weights,
        "mean": held.moments.means,
        "mean_tail": held.moments.tails,
        _scatter_column(held.kind): held.kind.packed(held.moments.scatter)[: len(held.classes)],
    }
    if held.moments.fourth is not None:
        columns["third_moment"] = held.moments.fourth.third.reshape(len(held.classes), held.n_features**2)
        columns["fourth_moment"] = held.kind.packed(held.moments.fourth.fourth)
    return columns


def _scatter_column(kind: CovarianceKind) -> str:
    return "pooled_scatter" if kind.name == "tied" else "scatter"


def from_columns(kind: CovarianceKind, columns: Columns, n_features: int) -> LabelledMoments:
    """The state that such columns hold, its classes in any order.

    Raises
    ------
    ValueError
        If a column is missing, shapes do not agree, a label stands twice, or a value cannot be.
    """
    needed = ["label", "count", "weight", "mean", "mean_tail", _scatter_column(kind)]
    has_fourth = not _FOURTH.isdisjoint(columns)
    if has_fourth:
        needed += ["third_moment", "fourth_moment"]
    require(needed, columns)
    if not len(columns["label"]):
        return LabelledMoments.empty(kind, n_features, fourth=has_fourth)
    classes = labels.as_labels(columns["label"]).copy()
    shapes = dict(zip(needed, _shapes(kind, len(classes), n_features), strict=False))
    arrays = {name: _checked(columns[name], shapes[name], name) for name in needed[1:]}
    _check_totals(classes, arrays["count"], arrays["weight"])
    held = LabelledMoments(classes, arrays["count"], _moments(kind, arrays, n_features))
    return held if (classes[1:] > classes[:-1]).all() else _sorted(held)


def _sorted(held: LabelledMoments) -> LabelledMoments:
    order = np.argsort(held.classes)
    classes = held.classes[order]
    if (classes[1:] == classes[:-1]).any():
        raise ValueError("a label stands twice")
    return LabelledMoments(classes, held.counts[order], held.moments.take(order))


def _moments(kind: CovarianceKind, arrays: Columns, n_features: int) -> Moments:
    weights = arrays["weight"]
    scatter = kind.unpacked(arrays[_scatter_column(kind)], len(weights), n_features)
    fourth = _fourth_moments(kind, arrays, n_features) if "fourth_moment" in arrays else None
    return Moments(kind, weights, arrays["mean"], arrays["mean_tail"], scatter, fourth)


def _fourth_moments(kind: CovarianceKind, arrays: Columns, n_features: int) -> FourthMoments:
    third, fourth = arrays["third_moment"], arrays["fourth_moment"]
    return FourthMoments(
        third.reshape(len(third), n_features, n_features), kind.unpacked(fourth, len(third), n_features)
    )


def _shapes(kind: CovarianceKind, n_classes: int, n_features: int) -> list[tuple[int, ...]]:
    per_class, per_mean = (n_classes,), (n_classes, n_features)
    pairs = n_features if kind.name == "diag" else n_features * (n_features + 1) // 2
    scatter = (1 if kind.name == "tied" else n_classes, pairs)
    third = (n_classes, n_features * n_features)
    return [per_class, per_class, per_class, per_mean, per_mean, scatter, third, scatter]


def _checked(values: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    if values.shape != shape:
        raise ValueError(f"column {name!r} has shape {values.shape} where {shape} is due")
    if values.dtype.kind not in "iuf":
        raise ValueError(f"column {name!r} holds {values.dtype} where numbers are due")
    if not np.isfinite(values).all():
        raise ValueError(f"column {name!r} holds NaN or infinity")
    return as_counts(values) if name == "count" else values.astype(np.float64)


def _check_totals(classes: labels.Labels, counts: NDArray[Any], weights: Array) -> None:
    for name, values in (("count", counts), ("weight", weights)):
        for k in np.flatnonzero(~(values > 0)):
            raise ValueError(f"class {classes[k]!s} has {name} {values[k]:g}")
