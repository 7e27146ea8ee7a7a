"""Rows in memory as a source, so that model selection uses the same code for all kinds of data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamgda.blocks.arrays import array_blocks, check_readable, column_labels, with_columns
from streamgda.blocks.block import Block, Places
from streamgda.estimators.reading import check_batch, check_no_name
from streamgda.sources.base import Source, Split
from streamgda.sources.conversion import as_source, is_dask


class ArraySource(Source):
    """Rows of an array or a data frame, with their labels, weights and groups."""

    is_local = True

    def __init__(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> None:
        if y is None:
            raise ValueError("models are compared on labelled rows, but the target y is None")
        check_batch(X)
        check_no_name(y)
        check_readable(X)
        self.rows, self.labels, self.weights, self.groups = X, y, sample_weight, groups

    def __repr__(self) -> str:
        return f"<rows in memory: {len(self.rows)}>"

    def with_groups(self, column: str) -> ArraySource:
        """The same rows, grouped by a column of the frame. This column is then not a feature."""
        if self.groups is not None:
            return self
        names = column_labels(self.rows) or []
        if column not in names:
            raise ValueError(
                f"there is no column {column!r} to group the rows by; X has {names or 'no names'}"
            )
        rest = with_columns(self.rows, [name for name in names if name != column])
        return ArraySource(rest, self.labels, self.weights, np.asarray(self.rows[column]))

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Cut the rows, which are numbered from `start`, into blocks."""
        places = Places(start=start)
        return array_blocks(self.rows, self.labels, self.weights, groups=self.groups, places=places)

    def splits(self) -> list[Split]:
        """All the rows."""
        return [_Rows(self)]


class _Rows(Split):
    """All the rows of a source in memory."""

    def __init__(self, source: ArraySource) -> None:
        self._source = source

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self._source.rows)

    def blocks(self) -> Iterator[Block]:
        """Cut the rows into blocks."""
        return self._source.blocks()


def source_of(X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Source:
    """Return a source unchanged; make a source of a Dask collection or of rows in memory.

    Raises
    ------
    ValueError
        If labels are missing, or groups are given as an array beside a source.
    """
    if not isinstance(X, Source) and not is_dask(X):
        return ArraySource(X, y, sample_weight, groups)
    if groups is not None:
        raise ValueError("groups and folds of a source are the name of one of its columns, and not an array")
    return as_source(X, y, sample_weight)
