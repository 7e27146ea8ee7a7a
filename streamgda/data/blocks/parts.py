"""The parts of a source for training and testing: its rows, files or groups of rows, divided by a hash.

As for folds, the hash is of the place of a row or of a value in it. So rows keep their part when others come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import Places, hash_of, mixed
from streamgda.data.blocks.labels import Codes, Labels

_HASHES = 1 << 64


@dataclass(frozen=True)
class Part:
    """One of the two parts into which `Source.split` divides a source.

    Attributes
    ----------
    by : str
        "rows", "files", or the name of a column.
    test : float
        The share of the test part.
    random_state : int
        Which of many divisions.
    is_test : bool
        Whether this is the test part.
    """

    by: str
    test: float
    random_state: int
    is_test: bool

    def __post_init__(self) -> None:
        """Take Python's numbers; raise an error for a share, a column or a number that cannot be."""
        if isinstance(self.test, bool) or not isinstance(self.test, int | float | np.integer | np.floating):
            raise TypeError(f"test must be a number, the share of the test part; got {self.test!r:.80}")
        if not 0 < float(self.test) < 1:
            raise ValueError(f"test is the share of the test part, between 0 and 1; got {self.test!r}")
        if not isinstance(self.by, str):
            raise TypeError(f"by must be 'rows', 'files' or the name of a column; got {self.by!r:.80}")
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, int | np.integer):
            raise TypeError(f"random_state must be a whole number; got {self.random_state!r:.80}")
        # Equal numbers of other types make the same division.
        object.__setattr__(self, "test", float(self.test))
        object.__setattr__(self, "random_state", int(self.random_state))

    def __str__(self) -> str:
        """What the part is called where its source is shown."""
        return f"{'test' if self.is_test else 'training'} part by {self.by} (test={self.test:g})"

    @property
    def column(self) -> str | None:
        """The name of the column whose values are divided; None if rows or files are."""
        return None if self.by in {"rows", "files"} else self.by

    @property
    def share_of_rows(self) -> float:
        """About which share it has of the rows that a pass reads; 1 if it is divided by files."""
        return 1.0 if self.by == "files" else self.test if self.is_test else 1 - self.test

    def has_file(self, name: str, depth: int) -> bool:
        """Whether it may have rows of a file; False only if files are divided, and this one is not in it."""
        return self.by != "files" or bool(self._has(np.array([self._hash(name, depth)], np.uint64))[0])

    def rows(
        self, places: Places, n_rows: int, column: Callable[[str], tuple[Labels, Codes]] | None, depth: int
    ) -> NDArray[np.bool_]:
        """Which rows of a block it has, from their places or from the labels and codes of its column.

        The depth is its place among the parts of a source: each of them divides by a hash of its own.
        """
        if self.column is None:
            start = self._hash(places.dataset, depth)
            return self._has(mixed(places.numbers(n_rows).astype(np.uint64), start))
        assert column is not None  # a source without columns refuses to be split by one
        values, codes = column(self.column)
        sums = (crc32(str(value).encode()) for value in values.tolist())  # quick, as there may be very many
        hashed = mixed(np.fromiter(sums, np.uint64, len(values)), self._hash("", depth))
        return self._has(hashed)[codes]

    def _hash(self, text: str, depth: int) -> int:
        return hash_of(f"split {self.random_state} {depth} {text}")

    def _has(self, hashed: NDArray[np.uint64]) -> NDArray[np.bool_]:
        is_in_test: NDArray[np.bool_] = hashed < np.uint64(int(self.test * _HASHES))
        return is_in_test if self.is_test else ~is_in_test


def rows_of_parts(
    parts: Sequence[Part],
    places: Places,
    n_rows: int,
    column: Callable[[str], tuple[Labels, Codes]] | None = None,
) -> NDArray[np.intp]:
    """The positions of the rows that are in all the parts, each of which divides the one before it.

    Parameters
    ----------
    parts : sequence of Part
        Those of one source. Parts by files are skipped: files of other parts are not read.
    places : Places
        Those of the rows.
    n_rows : int
        How many rows there are.
    column : callable, optional
        Returns the labels in a column, and the code of each row.
    """
    chosen = np.ones(n_rows, np.bool_)
    for depth, part in enumerate(parts):
        if part.by != "files":
            chosen &= part.rows(places, n_rows, column, depth)
    return np.flatnonzero(chosen)
