"""Sparse rows: CSR arrays of SciPy, of which only the stored values are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from streamgda.data.blocks.schema import UNNAMED, MadeColumns, Schema

DENSE = "give them dense, as by X.toarray()"


def is_sparse(X: Any) -> bool:
    """Whether this is an array or a matrix of `scipy.sparse`."""
    return type(X) is not np.ndarray and scipy.sparse.issparse(X)


@dataclass(frozen=True, eq=False)
class SparseRows(MadeColumns):
    """Rows (n, d) in CSR, each value stored once and in the order of columns."""

    csr: Any
    schema: Schema = UNNAMED

    numbers = property(lambda rows: rows)

    @classmethod
    def of(cls, X: Any) -> Self:
        """The rows of an array or a matrix of any format, which stays as it is.

        Raises
        ------
        ValueError
            If there are no columns, or the values are not real numbers.
        """
        csr = scipy.sparse.csr_array(X) if X.ndim == 2 else X
        if X.ndim != 2 or not X.shape[1]:
            raise ValueError(f"X must have two dimensions, rows and features; got shape {X.shape}")
        if csr.dtype.kind not in "fiub":
            raise ValueError(f"X must hold real numbers; got {csr.dtype}")
        if not csr.has_canonical_format:
            csr = csr.copy()  # whose arrays are those of X
            csr.sum_duplicates()
        return cls(csr)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        dtype: np.dtype[Any] = self.csr.dtype
        return dtype

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.csr.shape[0])

    @property
    def n_columns(self) -> int:
        """How many columns take as much memory as the stored values."""
        return 1 + int(self.csr.nnz) // max(1, self.n_rows)

    def __len__(self) -> int:
        return int(self.csr.shape[1])

    def __getitem__(self, index: Any) -> Any:
        return self.csr[:, [index]].toarray()[:, 0]

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        columns = self.csr.tocsc()
        return (columns[:, [j]].toarray()[:, 0] for j in range(len(self)))

    def rows(self, rows: slice | NDArray[np.intp]) -> Self:
        """Some of the rows."""
        return replace(self, csr=self.csr[rows])

    def dense(self) -> NDArray[np.float64]:
        """The rows with their zeros, as float64."""
        dense: NDArray[np.float64] = self.csr.astype(np.float64).toarray()
        return dense

    def are_finite(self) -> NDArray[np.bool_]:
        """Which rows have neither NaN nor infinity."""
        finite = np.ones(self.n_rows, np.bool_)
        wrong = np.flatnonzero(~np.isfinite(self.csr.data))
        finite[np.searchsorted(self.csr.indptr, wrong, side="right") - 1] = False
        return finite
