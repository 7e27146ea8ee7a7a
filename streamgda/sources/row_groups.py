"""What one task reads of a Parquet dataset: some row groups of a file, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamgda import labels
from streamgda.blocks import Block, Column, Missing, make_block, pieces
from streamgda.labels import Codes, Labels
from streamgda.source import Split
from streamgda.sources import columns

_READ_BUFFER = 1 << 16
_READ_ELEMENTS = 1 << 23
_ROW = "__row_in_group__"


@dataclass(frozen=True)
class Layout:
    """What all the splits of a dataset have in common."""

    filesystem: pafs.FileSystem
    features: tuple[str, ...]
    target: str
    weight: str | None
    filter: ds.Expression | None
    filter_columns: tuple[str, ...]
    missing: Missing

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read."""
        weight = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys((*self.features, self.target, *weight, *self.filter_columns)))


@dataclass(frozen=True)
class RowGroups(Split):
    """Consecutive row groups of a file, with the partition keys that the file stands for."""

    layout: Layout
    path: str
    indices: tuple[int, ...]
    n_rows: int
    partition: Mapping[str, Any]

    def blocks(self) -> Iterator[Block]:
        """Read the row groups, each once, and cut them into blocks."""
        place, start = -1, 0
        for index, batch in self._batches():
            place, start = index, start if index == place else 0
            rows = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            yield from self._blocks_of_batch(index, batch, rows)
            del batch  # or it would be held while the next one is decoded

    def _batches(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Each row group in as few pieces as memory allows: Arrow decodes long runs faster."""
        stored = [name for name in self.layout.columns if name not in self.partition]
        size = max(1, _READ_ELEMENTS // len(self.layout.columns))
        with naming_file(self.path), self.layout.filesystem.open_input_file(self.path) as file:
            parquet = pq.ParquetFile(file, buffer_size=_READ_BUFFER, pre_buffer=False)
            for index in self.indices:
                batches = parquet.iter_batches(size, row_groups=[index], columns=stored, use_threads=False)
                yield from zip(repeat(index), batches)

    def _blocks_of_batch(self, index: int, batch: pa.RecordBatch, rows: NDArray[np.intp]) -> Iterator[Block]:
        if self.layout.filter is not None:
            batch, rows = self._filtered(batch, rows)
        held = dict(zip(batch.schema.names, batch.columns, strict=True))
        classes, codes, unlabelled = self._codes(held.get(self.layout.target), len(rows))
        features = [self._numbers(name, held.get(name), len(rows)) for name in self.layout.features]
        weight = self.layout.weight
        weights = None if weight is None else self._numbers(weight, held.get(weight), len(rows))
        for piece in pieces(len(rows), len(features)):
            seen, numbered = labels.present(classes, codes[piece])
            yield make_block(
                [column[piece] for column in features],
                seen,
                numbered,
                unlabelled=None if unlabelled is None else unlabelled[piece],
                weights=None if weights is None else weights[piece],
                feature_names=self.layout.features,
                missing=self.layout.missing,
                row_name=partial(self._row_name, index, rows[piece]),
            )

    def _row_name(self, index: int, rows: NDArray[np.intp], row: int) -> str:
        return f"{self.path}, row group {index}, row {rows[row]}"

    def _filtered(
        self, batch: pa.RecordBatch, rows: NDArray[np.intp]
    ) -> tuple[pa.RecordBatch, NDArray[np.intp]]:
        table = pa.Table.from_batches([batch]).append_column(_ROW, pa.array(rows))
        for name in set(self.layout.filter_columns) & set(self.partition):
            table = table.append_column(name, pa.array([self.partition[name]] * len(rows)))
        left = table.filter(self.layout.filter).select([*batch.schema.names, _ROW]).combine_chunks()
        kept = left.column(_ROW).to_numpy()
        batches = left.drop_columns([_ROW]).to_batches()
        return (batches[0] if batches else batch.slice(0, 0)), kept

    def _codes(self, column: pa.Array | None, n_rows: int) -> tuple[Labels, Codes, NDArray[np.bool_] | None]:
        if column is None:
            column = pa.array([self.partition[self.layout.target]]).take(pa.array(np.zeros(n_rows, np.int8)))
        try:
            return columns.codes(column)
        except ValueError as error:
            raise ValueError(f"{self.path}: target {self.layout.target!r}: {error}") from error

    def _numbers(self, name: str, column: pa.Array | None, n_rows: int) -> Column:
        if column is not None:
            return columns.numbers(column)
        value = self.partition[name]
        try:
            return np.full(n_rows, np.nan if value is None else float(value))
        except ValueError as error:
            raise ValueError(f"{self.path}: partition key {name}={value!r} is not a number") from error


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Say which file it was that Arrow could not read."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is gone: {error}") from error
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} cannot be read as Parquet, it is damaged or no Parquet file: {error}"
        ) from error
