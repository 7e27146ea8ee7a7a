"""Columns as they are stored, for maps of text and of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamgda.data.blocks.schema import Columns, MadeColumns
from streamgda.data.sources.columns.encoding import Encoding


@dataclass(frozen=True)
class AsStored:
    """The columns that another encoding encodes, as they are stored, among the features in this order."""

    encoding: Encoding
    order: tuple[str, ...]

    @property
    def columns(self) -> str | Sequence[str]:
        """The names or patterns of the columns, or "auto"."""
        return self.encoding.columns

    @property
    def by_name(self) -> bool:
        """Whether columns are chosen by their names."""
        return self.encoding.by_name

    @property
    def identity(self) -> list[Any]:
        """What features depend on beside the values and the names of columns."""
        return ["as stored"]

    def chosen(self, features: Sequence[str], stored: pa.Schema, origin: str) -> tuple[str, ...]:
        """The features that are no numbers."""
        return self.encoding.chosen(features, stored, origin)

    def takes(self, arrow_type: pa.DataType) -> bool:
        """Whether a column of this type can be a feature."""
        return self.encoding.takes(arrow_type)

    def read(
        self, columns: Mapping[str, pa.Array], numbers: Mapping[str, NDArray[Any]], origin: str
    ) -> StoredColumns:
        """The columns of a batch."""
        values = {**numbers, **columns}
        return StoredColumns({name: values[name] for name in self.order if name in values})


@dataclass(frozen=True, eq=False)
class StoredColumns(MadeColumns):
    """Columns of numbers, and of Arrow."""

    values: Mapping[str, Any]

    schema = property(lambda columns: Columns(tuple(columns.values)))
    numbers = property(lambda columns: columns)  # what is missing in any column is missing

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.values.values())))

    @property
    def n_columns(self) -> int:
        """How many columns are in memory."""
        return len(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        """A column of numbers; of another one, NaN where a value is missing, and else 0."""
        values = [*self.values.values()][index]
        return [*map(_or_missing, values)] if isinstance(index, slice) else _or_missing(values)

    def rows(self, rows: slice | NDArray[np.intp]) -> Self:
        """Some of the rows."""
        places = None if isinstance(rows, slice) else pa.array(rows)

        def some(values: Any) -> Any:
            if isinstance(values, np.ndarray):
                return values[rows]
            return values[rows] if places is None else values.take(places)

        return replace(self, values={name: some(values) for name, values in self.values.items()})

    def frame(self) -> Any:
        """The rows as a frame of pandas, in which categories are plain values."""
        import pandas as pd

        columns = {
            name: values.copy() if isinstance(values, np.ndarray) else _plain(values).to_pandas()
            for name, values in self.values.items()
        }
        return pd.DataFrame(columns, copy=False)

    def documents(self) -> list[Any]:
        """The values of the only column."""
        (values,) = self.values.values()
        documents: list[Any] = _plain(values).to_pylist()
        return documents


def _or_missing(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        return values
    return np.where(values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False), np.nan, 0.0)


def _plain(values: Any) -> Any:
    """A column of Arrow without a dictionary."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
