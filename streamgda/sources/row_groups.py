"""What one task reads of a Parquet dataset: some row groups of a file, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamgda.blocks import Block
from streamgda.filesystems import Version, current_version
from streamgda.source import READ_ELEMENTS, Split
from streamgda.sources.batches import blocks_of_batch
from streamgda.sources.faults import decoding, opening
from streamgda.sources.roles import Roles

READ_BUFFER = 1 << 16
_ROW = "__row_in_group__"


@dataclass(frozen=True)
class Layout:
    """What all the splits of a dataset have in common."""

    filesystem: pafs.FileSystem
    roles: Roles
    filter: ds.Expression | None
    filter_columns: pa.Schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(dict.fromkeys((*self.roles.columns, *self.filter_columns.names)))


@dataclass(frozen=True)
class RowGroups(Split):
    """Consecutive row groups of a file, with the partition keys that the file stands for."""

    layout: Layout
    path: str
    version: Version
    rows_of_group: Mapping[int, int]
    partition: Mapping[str, Any]

    @property
    def n_rows(self) -> int:
        """How many rows the row groups hold, by the footer."""
        return sum(self.rows_of_group.values())

    def blocks(self) -> Iterator[Block]:
        """Read the row groups, each once, and cut them into blocks."""
        self._check_unchanged()
        with opening(self.path):
            file = self.layout.filesystem.open_input_file(self.path)
        with file:
            with decoding(self.path):
                parquet = pq.ParquetFile(file, buffer_size=READ_BUFFER, pre_buffer=False)
            for index in self.rows_of_group:
                yield from self._blocks_of_group(parquet, index)
        self._check_unchanged()

    def _blocks_of_group(self, parquet: pq.ParquetFile, index: int) -> Iterator[Block]:
        start = 0
        for batch in self._batches(parquet, index):
            rows = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            yield from self._blocks_of_batch(index, batch, rows)
            del batch  # or it would be held while the next one is decoded

    def _batches(self, parquet: pq.ParquetFile, index: int) -> Iterator[pa.RecordBatch]:
        """A row group in as few pieces as memory allows: Arrow decodes long runs faster."""
        stored = [name for name in self.layout.columns if name not in self.partition]
        size = max(1, READ_ELEMENTS // len(self.layout.columns))
        with decoding(self.path):
            yield from parquet.iter_batches(size, row_groups=[index], columns=stored, use_threads=False)

    def _check_unchanged(self) -> None:
        if current_version(self.layout.filesystem, self.path) != self.version:
            raise ValueError(f"{self.path} has changed since the pass was planned; start the pass again")

    def _blocks_of_batch(self, index: int, batch: pa.RecordBatch, rows: NDArray[np.intp]) -> Iterator[Block]:
        if self.layout.filter is not None:
            batch, rows = self._filtered(batch, rows)

        def row_name(row: int) -> str:
            return f"{self.path}, row group {index}, row {rows[row]}"

        return blocks_of_batch(batch, self.layout.roles, self.path, row_name, self.partition)

    def _filtered(
        self, batch: pa.RecordBatch, rows: NDArray[np.intp]
    ) -> tuple[pa.RecordBatch, NDArray[np.intp]]:
        table = pa.Table.from_batches([batch]).append_column(_ROW, pa.array(rows))
        for field in self.layout.filter_columns:
            if field.name in self.partition:
                values = pa.array([self.partition[field.name]] * len(rows), field.type)
                table = table.append_column(field, values)
        try:
            left = table.filter(self.layout.filter).select([*batch.schema.names, _ROW]).combine_chunks()
        except (pa.ArrowException, TypeError) as error:
            raise ValueError(f"{self.path}: filters: {error}") from error
        kept = left.column(_ROW).to_numpy()
        batches = left.drop_columns([_ROW]).to_batches()
        return (batches[0] if batches else batch.slice(0, 0)), kept
