"""The feature-major buffer that the rows of a block are gathered into, class by class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamgda.blocks.block import Column, Features
from streamgda.statistics.covariances import Array

_ELEMENTS_PER_PAGE = 512
_ELEMENTS_PER_CACHE_LINE = 8
_TILE_ROWS = 256


class Workspace:
    """The feature-major buffer that blocks are gathered into, kept from one block to the next."""

    def __init__(self) -> None:
        self._buffer: Array = np.empty((0, 0))
        self._column: Array = np.empty(0)
        self.lacked_features = False  # whether a value was missing in the last block

    def rows(self, n_features: int, n_rows: int) -> Array:
        """Room for (n_features, n_rows).

        The starts of long rows are a whole number of pages and one cache line apart. If they were a power of
        two apart, the same class of different features would fall on the same cache sets.
        """
        n_features_held, stride = self._buffer.shape
        if n_features_held < n_features or stride < n_rows:
            stride = n_rows
            if n_rows >= _ELEMENTS_PER_PAGE:
                pages = -(-n_rows // _ELEMENTS_PER_PAGE)
                stride = pages * _ELEMENTS_PER_PAGE + _ELEMENTS_PER_CACHE_LINE
            self._buffer = np.empty((max(n_features, n_features_held), stride))
        return self._buffer[:n_features, :n_rows]

    def as_float64(self, column: Column) -> Array:
        """The column itself if it is of float64; else a copy in the room for one feature."""
        if column.dtype == np.float64:
            return column
        converted = self.column(len(column))
        np.copyto(converted, column, casting="unsafe")
        return converted

    def column(self, n_rows: int) -> Array:
        """Room for one feature."""
        if len(self._column) < n_rows:
            self._column = np.empty(n_rows)
        return self._column[:n_rows]


def gather(features: Features, order: NDArray[np.intp], rows: Array, workspace: Workspace) -> None:
    """Copy the features, class by class, as float64 into the feature-major buffer."""
    if isinstance(features, np.ndarray) and features.strides[0] >= features.strides[1]:
        for start in range(0, len(order), _TILE_ROWS):
            tile = order[start : start + _TILE_ROWS]
            rows[:, start : start + len(tile)] = features.take(tile, axis=0, mode="wrap").T
    else:
        _gather_columns(columns_of(features) or (), order, rows, workspace)


def columns_of(features: Features) -> Sequence[Column] | None:
    """The columns, each in one run of memory; None where the rows lie side by side."""
    if not isinstance(features, np.ndarray):
        return features
    return list(features.T) if features.strides[0] < features.strides[1] else None


def transpose_rows(features: NDArray[np.generic], rows: Array) -> None:
    """Copy an array in C order, as float64, into the feature-major buffer."""
    for start in range(0, len(features), _TILE_ROWS):
        tile = features[start : start + _TILE_ROWS]
        rows[:, start : start + len(tile)] = tile.T


def _gather_columns(
    columns: Sequence[Column], order: NDArray[np.intp], rows: Array, workspace: Workspace
) -> None:
    if len(order) == len(columns[0]) and (order[1:] > order[:-1]).all():  # the rows are in order already
        for source, row in zip(columns, rows, strict=True):
            np.copyto(row, source, casting="unsafe")
        return
    column = workspace.column(len(columns[0]))  # `order` may take only a part of it
    for source, row in zip(columns, rows, strict=True):
        # The copy converts, and it brings the column into the cache in one straight run: the
        # gather jumps, and would wait for memory at every jump.
        np.copyto(column, source, casting="unsafe")
        column.take(order, out=row, mode="wrap")
