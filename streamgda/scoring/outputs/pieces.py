"""Blocks cut into pieces whose predictions and kept columns take little memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamgda.blocks.block import Block

_BYTES_OF_PIECE = 1 << 25


def pieces(
    block: Block, kept: Mapping[str, pa.Array | NDArray[Any]], n_columns: int, written: pa.Schema
) -> Iterator[tuple[Block, dict[str, pa.Array]]]:
    """Cut a block into pieces of about 32 MB of predictions and kept columns; at least one, and in order.

    Parameters
    ----------
    block : Block
        Rows.
    kept : mapping of str to Arrow or NumPy arrays
        Columns of the same rows.
    n_columns : int
        How many columns of predictions there will be, of eight bytes a value.
    written : pyarrow.Schema
        The types that the columns will have; strings in a dictionary may become strings.
    """
    columns = {
        name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in kept.items()
    }
    n_bytes: float | NDArray[np.float64] = 8.0 * n_columns
    for name, column in columns.items():
        n_bytes = n_bytes + _bytes_of_rows(column, written.field(name).type)
    for start, stop in pairwise(_bounds(n_bytes, len(block.codes))):
        yield block.between(start, stop), {name: column[start:stop] for name, column in columns.items()}


def _bytes_of_rows(column: pa.Array, written: pa.DataType) -> float | NDArray[np.float64]:
    """The bytes of each row of a column; their mean, where all are about as long."""
    is_decoded = pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(written)
    values = column.dictionary if is_decoded else column
    if not _has_lengths(values.type):
        return float(column.nbytes / max(len(column), 1))
    lengths: NDArray[np.float64] = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.float64)
    return lengths[pc.fill_null(column.indices, 0).to_numpy()] if is_decoded and len(lengths) else lengths


def _has_lengths(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _bounds(n_bytes: float | NDArray[np.float64], n_rows: int) -> Iterator[int]:
    """Where the pieces begin, and the end of the last; `n_bytes` are those of a row, or of each."""
    if isinstance(n_bytes, float):
        yield from range(0, max(n_rows, 1), max(int(_BYTES_OF_PIECE / n_bytes), 1))
        yield n_rows
        return
    ends = np.cumsum(n_bytes)
    start, before = 0, 0.0
    yield start
    while start < n_rows:
        start = max(int(np.searchsorted(ends, before + _BYTES_OF_PIECE, side="right")), start + 1)
        before = ends[start - 1]
        yield start
    if not start:
        yield 0
