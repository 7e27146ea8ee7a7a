"""Data frames of pandas, Polars and Arrow: the names of their columns, and their rows as one matrix.

Most functions read a frame as a whole. A call for each column would take longer than the prediction of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def library_of(X: Any) -> str:
    """The name of the library that defines the type of an object."""
    return type(X).__module__.partition(".")[0]


def column_labels(X: Any) -> list[Any] | None:
    """The labels of the columns of a frame; None for an array."""
    if library_of(X) == "pyarrow" and hasattr(X, "schema"):  # its `columns` are not names
        return list(X.schema.names)
    return list(X.columns) if hasattr(X, "columns") else None


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a frame, if all of them are text."""
    labels = column_labels(X)
    if labels is None or not all(issubclass(kind, str) for kind in set(map(type, labels))):
        return None
    return tuple(labels)


def in_order_of(X: Any, names: Sequence[str] | None) -> Any:
    """The frame with its columns in the order of `names`, if it has exactly these; else X as it is."""
    held = None if names is None or not hasattr(X, "__array__") else column_names(X)
    if names is None or held is None or held == tuple(names) or sorted(held) != sorted(names):
        return X
    return with_columns(X, list(names))


def with_columns(X: Any, names: list[Any]) -> Any:
    """A frame with some of its columns, in this order."""
    return X.select(names) if library_of(X) in {"polars", "pyarrow"} else X[names]


def columns_of_other_types(X: Any) -> list[str]:
    """The names of the columns of a frame that hold neither numbers nor bools.

    The list is empty for a frame whose columns have no names.
    """
    names = column_names(X) or ()
    if not names:
        return []
    if library_of(X) == "pyarrow":
        return [name for name, kind in zip(names, X.schema.types, strict=True) if not _is_number(kind)]
    kinds = getattr(X, "dtypes", None)
    if kinds is None:
        return list(names)
    return [name for name, kind in zip(names, kinds, strict=True) if not _is_number(kind)]


def _is_number(kind: Any) -> bool:
    """Whether a column type of pandas, Polars or Arrow is one of numbers or bools."""
    if hasattr(kind, "kind"):
        return kind.kind in "fiub"
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool", "decimal"))


def matrix_of(X: Any) -> NDArray[Any] | None:
    """The rows of a frame of integers and floats; None for other frames, and for some with nulls."""
    library = library_of(X)
    if library == "pandas":
        matrix = _matrix_of_pandas(X)
    elif library == "polars":
        kinds: set[Any] = set(map(type, X.dtypes))  # a class has a quicker hash than its instances
        matrix = X.to_numpy() if all(kind.is_numeric() for kind in kinds) else None
    elif library == "pyarrow":
        matrix = _matrix_of_arrow(X)
    else:
        return None
    return matrix if matrix is not None and matrix.dtype.kind in "fiu" else None


def _matrix_of_pandas(X: Any) -> NDArray[Any] | None:
    kinds = set(X.dtypes)
    if not all(kind.kind in "fiu" and not hasattr(kind, "fill_value") for kind in kinds):  # as sparse types
        return None
    if all(isinstance(kind, np.dtype) for kind in kinds):
        return X.to_numpy()  # type: ignore[no-any-return]
    return X.to_numpy(np.float64) if any(kind.kind == "f" for kind in kinds) else None


def _matrix_of_arrow(X: Any) -> NDArray[Any] | None:
    batches = X.combine_chunks().to_batches() if hasattr(X, "to_batches") else [X]
    if not batches:
        return None
    try:
        matrix: NDArray[Any] = batches[0].to_tensor().to_numpy()
    except (TypeError, NotImplementedError):  # nulls, columns of no numbers, or float16 beside others
        return None
    return matrix if matrix.dtype.kind == "f" or len(set(X.schema.types)) == 1 else None
