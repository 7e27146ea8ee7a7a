"""Arrow tables in memory, read in slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from streamgda.blocks.block import Block
from streamgda.sources.arrow_source import ArrowSource
from streamgda.sources.base import ROWS_PER_TASK, Split
from streamgda.sources.batches import blocks_of_batches
from streamgda.sources.roles import Roles


class TableSource(ArrowSource[pa.Table]):
    """A table in memory."""

    def splits(self) -> list[TableSlice]:
        """Slices of the table, whatever its chunks."""
        starts = range(0, self._data.num_rows, ROWS_PER_TASK)
        table = self._data.select(list(self._roles.columns))
        return [TableSlice(table.slice(start, ROWS_PER_TASK), self._roles, start) for start in starts]


@dataclass(frozen=True)
class TableSlice(Split):
    """Some rows of a table in memory."""

    table: pa.Table
    roles: Roles
    start: int

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def blocks(self) -> Iterator[Block]:
        """Cut the rows into blocks, whatever the chunks of the table."""
        return blocks_of_batches(self.table.to_batches(), self.roles, "the table", self.start)

    def __reduce__(self) -> tuple[Callable[..., TableSlice], tuple[pa.Buffer, Roles, int]]:
        """Send its own rows to another process: Arrow's pickle of a slice holds the whole table."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table)
        return _received_slice, (sink.getvalue(), self.roles, self.start)


def _received_slice(content: pa.Buffer, roles: Roles, start: int) -> TableSlice:
    with pa.ipc.open_stream(content) as stream:
        return TableSlice(stream.read_all(), roles, start)
