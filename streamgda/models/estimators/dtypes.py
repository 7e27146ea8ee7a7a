"""The types of the rows and labels that a model was fitted to, which its results have too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streamgda.data.blocks.labels import Labels
from streamgda.statistics.covariances import Array

Floats = NDArray[np.floating[Any]]

_NUMBERS = [np.dtype(code).name for code in np.typecodes["AllInteger"] + np.typecodes["Float"]]


@dataclass(frozen=True)
class FittedTypes:
    """The types of rows and labels, as NumPy names them.

    Statistics are in float64 and labels in int64, whatever the types of the data. Results are converted to
    the types of the data.

    Attributes
    ----------
    rows : str
        "float32" if all rows were in float32; else "float64".
    labels : str
        The type of labels that are numbers; "int64" for other labels, which are not converted. Floats are
        whole and become integers, as those of a file do.
    """

    rows: str = "float64"
    labels: str = "int64"

    def __post_init__(self) -> None:
        """Raise ValueError for types that no rows or labels have, since a file may name any type."""
        if self.rows not in ("float32", "float64") or self.labels not in _NUMBERS:
            raise ValueError(f"rows of type {self.rows!r} and labels of type {self.labels!r} are unknown")

    @classmethod
    def of(cls, X: Any, y: Any) -> Self:
        """The types of rows and labels that are arrays, frames or sequences."""
        rows, of_labels = _dtype_of(X), _dtype_of(y)
        labels = of_labels.name if of_labels.kind in "iuf" else "int64"
        return cls("float32" if rows == np.float32 else "float64", labels)

    def with_rows(self, X: Any) -> FittedTypes:
        """The types after more rows, if all rows before were in float32."""
        return self if _dtype_of(X) == np.float32 else replace(self, rows="float64")

    def of_labels(self, classes: Labels) -> Labels:
        """The classes in the type of the labels, if it can hold all of them."""
        if classes.dtype.kind != "i" or not np.issubdtype(self.labels, np.integer):
            return classes
        converted = classes.astype(self.labels)
        return converted if np.array_equal(converted, classes) else classes

    def of_rows(self, values: Array) -> Floats:
        """Values in the type of the rows."""
        return values.astype(self.rows, copy=False)

    def of_products(self, X: Any) -> DTypeLike:
        """The type of products of such rows with values of `of_rows`."""
        return np.dtype(self.rows if _dtype_of(X) == np.float32 else np.float64)


def _dtype_of(values: Any) -> np.dtype[Any]:
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype
    if hasattr(values, "__dlpack__"):  # of another library, on any device
        return np.dtype("float32" if str(dtype).endswith("float32") else "float64")
    return np.asarray(values).dtype
