"""Exact states from outside, and as columns: of a file, and of the integer sums of an SQL engine."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks import labels
from streamgda.blocks.labels import Labels
from streamgda.blocks.wording import named
from streamgda.statistics.covariances import CovarianceKind
from streamgda.statistics.exact.numbers import ExactArray, PythonIntegers
from streamgda.statistics.exact.sums import Sums
from streamgda.statistics.labelled import Labelled
from streamgda.statistics.validation import Columns, as_counts, check_columns

_FURTHEST = 1 << 12  # far beyond the squares of float64; a file that claims more would cost memory


# ---------------------------------------------------------------------- a state as columns


def to_columns(state: Labelled[Sums]) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    """The arrays of a state, a row for each class, and the positions of the lowest planes."""
    columns = {**labels.label_columns(labels.trimmed(state.classes)), "count": state.counts}
    positions = {}
    for name, numbers in zip(_names(state.kind), state.moments.arrays, strict=True):
        planes = np.moveaxis(numbers.digits, 0, 1)
        columns[f"{name}_digits"] = planes.reshape(len(planes), math.prod(planes.shape[1:]))
        positions[name] = numbers.position
    return columns, positions


def _names(kind: CovarianceKind) -> tuple[str, str, str]:
    return "weight", "sum", "pooled_outer_sum" if kind.is_pooled else "outer_sum"


def from_columns(
    kind: CovarianceKind, columns: Columns, positions: Mapping[str, Any], n_features: int
) -> Labelled[Sums]:
    """The state that such arrays hold, its classes in any order.

    Raises
    ------
    ValueError
        If a column is missing, shapes do not agree, a class stands twice or is empty, or no rows have these
        sums.
    """
    names = _names(kind)
    check_columns(("label", "count", *(f"{name}_digits" for name in names)), columns)
    n_classes = len(columns["label"])
    zeros = Sums.zeros(kind, n_classes, n_features)
    if not n_classes:
        return Labelled.empty(zeros, n_features)
    arrays = [
        ExactArray.from_planes(
            _planes(columns[f"{name}_digits"], like.shape, name), _position(positions[name])
        )
        for name, like in zip(names, zeros.arrays, strict=True)
    ]
    return _labelled(labels.labels_in(columns), np.asarray(columns["count"]), Sums(kind, *arrays))


def _planes(digits: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[np.int64]:
    """Planes of digits, (n_planes, *shape), from a row of digits for each class."""
    size = max(1, math.prod(shape[1:]))
    if digits.dtype.kind not in "iu" or digits.ndim != 2 or len(digits) != shape[0] or digits.shape[1] % size:
        raise ValueError(f"{name}_digits has shape {digits.shape}, which does not agree with the rest")
    planes = digits.reshape(shape[0], digits.shape[1] // size, *shape[1:])
    return np.moveaxis(planes, 1, 0).astype(np.int64)


def _position(value: Any) -> int:
    """The position of a plane among the metadata of a file, which may be anything."""
    if type(value) is not int or abs(value) > _FURTHEST:
        raise ValueError(f"a position is {value!r}, where a whole number of at most {_FURTHEST} is due")
    return value


# ---------------------------------------------------------------------- a state from sums


def from_sums(
    kind: CovarianceKind,
    classes: Labels,
    counts: NDArray[Any],
    weights: NDArray[Any],
    sums: PythonIntegers,
    outer_sums: PythonIntegers,
) -> Labelled[Sums]:
    """The state that has these raw sums, which are integers, for classes in any order.

    Raises
    ------
    ValueError
        If one is no integer, shapes do not agree, a class stands twice or is empty, or no rows have these
        sums.
    """
    if sums.ndim != 2 or not len(classes) == len(counts) == len(weights) == len(sums):
        raise ValueError("counts, weights and sums must have one row for each class")
    expected = kind.shape(*sums.shape)
    if outer_sums.shape != expected:
        raise ValueError(f"outer_sums must have shape {expected} for {kind.name!r}; got {outer_sums.shape}")
    products = kind.packed(outer_sums)
    if (kind.unpacked(products, *sums.shape) != outer_sums).any():
        raise ValueError("outer_sums must be symmetric")
    arrays = [ExactArray.from_integers(_whole(array)) for array in (weights, sums, products)]
    return _labelled(classes, counts, Sums(kind, *arrays))


def _whole(numbers: NDArray[Any]) -> PythonIntegers:
    """Numbers as Python integers."""
    values = [_as_integer(value) for value in numbers.flat]
    return np.array(values, dtype=object).reshape(numbers.shape)


def _as_integer(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(
            f"exact sums are integers; got {value!r} of type {type(value).__name__}, which may be rounded"
        ) from error


def _labelled(classes: Labels, counts: NDArray[Any], sums: Sums) -> Labelled[Sums]:
    """The state that has these sums, for classes in any order.

    Raises
    ------
    ValueError
        If a class stands twice or is empty, or no rows have these sums.
    """
    if len(np.unique(classes)) != len(classes) or counts.shape != classes.shape:
        raise ValueError("there must be one count for each class, and each class once")
    counts, weights = as_counts(counts), sums.weights.fractions()
    for k in np.flatnonzero(~((counts > 0) & (weights >= counts).astype(bool))):
        raise ValueError(f"class {named(classes[k])} has count {counts[k]} and weight {weights[k]}")
    if any(weight.denominator != 1 for weight in weights):
        raise ValueError("the weights of exact statistics are whole numbers")
    if not len(classes):
        return Labelled.empty(sums, sums.n_features)
    if not sums.rounded().are_of_rows(counts):
        raise ValueError("a variance would be negative, or a correlation exceed 1: these sums are of no rows")
    order = np.argsort(classes)
    return Labelled(classes[order], counts[order], sums.take(order))
