"""Rows held as an array or a data frame, cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamgda import labels
from streamgda.blocks import Block, Matrix, make_block, name_row, pieces


def array_blocks(
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Iterator[Block]:
    """Blocks of the rows of X with their labels and weights.

    Raises
    ------
    ValueError
        If X is not a matrix of numbers, or lengths differ, or a label is missing or of no known kind.
    """
    names = feature_names or _column_names(X)
    refuse_text_columns(X)
    matrix = _matrix(X)
    classes, codes = labels.encode(y)
    weights = None if sample_weight is None else np.asarray(sample_weight)
    for name, other in (("y", codes), ("sample_weight", weights)):
        if other is not None and other.shape != (len(matrix),):
            raise ValueError(f"X has {len(matrix)} rows, {name} has shape {other.shape}")
    return (_block(matrix, classes, codes, weights, names, piece) for piece in pieces(*matrix.shape))


def _block(
    matrix: Matrix,
    classes: labels.Labels,
    codes: labels.Codes,
    weights: Any,
    names: tuple[str, ...] | None,
    rows: slice,
) -> Block:
    seen, numbered = labels.present(classes, codes[rows])
    return make_block(
        matrix[rows],
        seen,
        numbered,
        weights=None if weights is None else weights[rows],
        feature_names=names,
        row_name=lambda row: name_row(rows.start + row),
    )


def refuse_text_columns(X: Any) -> None:
    """Raise ValueError naming the first column of a data frame that holds text."""
    for name in _column_names(X) or ():
        values = np.asarray(X[name][:1])
        if values.dtype.kind in "UTS" or (values.dtype.kind == "O" and isinstance(values.flat[0], str)):
            raise ValueError(
                f"column {name!r} holds text and cannot be a feature; leave it out, or encode it"
            )


def _column_names(X: Any) -> tuple[str, ...] | None:
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def _matrix(X: ArrayLike) -> Matrix:
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and features; got shape {matrix.shape}")
    if matrix.dtype.kind in "fiub":
        return matrix
    try:
        return matrix.astype(np.float64, casting="same_kind" if matrix.dtype.kind == "c" else "unsafe")
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold real numbers; got {matrix.dtype}: {error}") from error
