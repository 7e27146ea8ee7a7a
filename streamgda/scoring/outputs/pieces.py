"""Blocks cut into pieces whose predictions and kept columns take little memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from streamgda.blocks.block import Block

_BYTES_OF_PIECE = 1 << 25


def pieces(
    block: Block, kept: Mapping[str, pa.Array | NDArray[Any]], n_columns: int
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
    """
    columns = {
        name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in kept.items()
    }
    n_rows = len(block.codes)
    n_bytes = 8 * n_columns * n_rows + sum(column.nbytes for column in columns.values())
    size = max(n_rows * _BYTES_OF_PIECE // max(n_bytes, 1), 1)
    for start in range(0, max(n_rows, 1), size):
        rows = {name: column[start : start + size] for name, column in columns.items()}
        yield block.between(start, start + size), rows


def _as_arrow(values: pa.Array | NDArray[Any]) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values)
