"""Where rows stand in their data: what an error calls them, and what their folds depend on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Places:
    """The places of the rows of a block. Called with a row, counted within the block, it names the row.

    Attributes
    ----------
    origin : str
        What to call the data in an error, such as the path of a file; "" for arrays.
    start : int
        The number of the first row in the data so called.
    kept : ndarray of int, or None
        The rows, counted from `start`; None if they are all, in order.
    dataset : str
        What tells the file from the others of its dataset, wherever the dataset is; "" where there is one.
    before : int
        How many rows of the file come before number 0, as in other row groups.
    """

    origin: str = ""
    start: int = 0
    kept: NDArray[np.intp] | None = None
    dataset: str = ""
    before: int = 0

    def __call__(self, row: int) -> str:
        """The name of a row in an error."""
        number = self.number_of(row)
        return f"{self.origin}, row {number}" if self.origin else f"row {number}"

    def number_of(self, row: int) -> int:
        """The number of a row in the data so called."""
        return self.start + (row if self.kept is None else int(self.kept[row]))

    def after(self, start: int) -> Places:
        """The places of all rows but the first `start`."""
        if not start:
            return self
        if self.kept is None:
            return replace(self, start=self.start + start)
        return replace(self, kept=self.kept[start:])

    def take(self, rows: NDArray[np.intp]) -> Places:
        """The places of some of the rows."""
        return replace(self, kept=rows if self.kept is None else self.kept[rows])

    def numbers(self, n_rows: int) -> NDArray[np.int64]:
        """The numbers of the first rows in their file."""
        kept = np.arange(n_rows) if self.kept is None else self.kept[:n_rows]
        return (self.before + self.start + kept).astype(np.int64)
