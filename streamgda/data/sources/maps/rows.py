"""The step of a pipeline before a map: it makes of rows in memory what the map gets of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from streamgda.data.blocks.arrays import (
    as_arrow,
    check_in_memory,
    column_names,
    times_as_days,
    with_columns,
    with_places,
)
from streamgda.data.blocks.dates import days, is_date
from streamgda.data.blocks.records import as_known_table, known_dates_as_days
from streamgda.data.blocks.schema import Lists, Names, Schema, is_time
from streamgda.data.blocks.sparse import is_sparse
from streamgda.data.blocks.types import decoded_type
from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.columns.stored import StoredColumns
from streamgda.data.sources.maps.maps import takes_documents, takes_sparse

_REMEDY = "null, if the model and its maps take missing values"


@dataclass(frozen=True)
class StoredSchema(Schema):
    """The columns of a source, of which some may be text or categories before its maps."""

    feature_names: Names = ()
    dates: Names = ()
    lists: Lists = ()
    encoded: Names = ()


class StoredRows(TransformerMixin, BaseEstimator):
    """A transformer that makes of frames, tables, dicts and arrays what a map gets when a source is read.

    `as_pipeline` of a model adds it. Columns of tables are found by their names, and numbers are float64.

    Parameters
    ----------
    schema : Schema
        The columns.
    columns : sequence of str or None
        The columns in the order in which the map takes them, in a frame; None if it takes an array.
    documents : bool
        Whether it takes a list of texts.
    sparse : bool
        Whether it takes sparse rows, too.
    """

    def __init__(self, schema: Any, columns: Any, documents: bool, sparse: bool) -> None:
        self.schema, self.columns, self.documents, self.sparse = schema, columns, documents, sparse

    @classmethod
    def before(cls, transformer: Any, source: Any) -> Self:
        """The step before a map of the features of a source, of which earlier maps made some or none."""
        schema, names = source.schema, source.feature_names
        dates = tuple(name for name in names if name in schema.names and is_date(schema.field(name).type))
        columns = names if source.encoded else getattr(transformer, "feature_names_in_", None)
        return cls(
            StoredSchema(names, dates, (), source.encoded),
            None if columns is None else list(columns),
            takes_documents(transformer),
            takes_sparse(transformer),
        )

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The columns, as they are stored."""
        return np.array(self.schema.names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many columns there are."""
        return len(self.schema.names)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learnt."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> Any:
        """What the map gets of these rows."""
        check_in_memory(X)
        X = with_places(as_known_table(X, self.schema, fills=False, remedy=_REMEDY), self.schema)
        X = known_dates_as_days(X, self.schema)
        if (labels := column_names(X)) is None:
            return X if self.documents else self._of_array(times_as_days(X))
        names = list(self.schema.names)
        check_known(names, labels, "the rows")
        table = as_arrow(with_columns(X, names), "the rows")
        values = {name: self._stored(name, table[name].combine_chunks()) for name in names}
        if self.documents:
            return StoredColumns(values).documents()
        return (
            StoredColumns(values).frame()[self.columns] if self.columns else np.stack([*values.values()], 1)
        )

    def _stored(self, name: str, column: Any) -> Any:
        """A column of Arrow as a source gives it: numbers as an array."""
        if name in self.schema.encoded:
            return column.cast(pa.string() if pa.types.is_null(column.type) else decoded_type(column.type))
        return days(column) if is_time(column.type) else column.to_pandas().to_numpy(np.float64)

    def _of_array(self, X: Any) -> Any:
        """Rows without names, whose columns are in order."""
        if is_sparse(X):
            if self.sparse:
                return X
            X = X.toarray()
        rows, names = np.asarray(X), self.schema.names
        if rows.dtype.kind == "m":
            rows = rows / np.timedelta64(1, "D")
        if rows.dtype.kind in "biuf" or (rows.dtype.kind == "O" and not self.schema.encoded):
            rows = rows.astype(np.float64)
        if self.columns is None or rows.shape[1:] != (len(names),):
            return rows
        import pandas as pd

        return pd.DataFrame(rows, columns=list(names))[self.columns]


def steps_of_maps(source: Any) -> list[tuple[str, Any]]:
    """The maps of a source as steps of a pipeline, each after one that makes rows what it gets in a pass."""
    steps: list[tuple[str, Any]] = []
    while n_maps := len(source.maps):
        transformer, number = source.maps[-1], f"_{n_maps}" if n_maps > 1 else ""
        while len(source.maps) == n_maps:
            source = source.source
        steps.insert(0, (f"map{number}", transformer))
        if source.feature_names is not None:
            rows = StoredRows.before(transformer, source)
            if n_maps == 1 or rows.columns is not None or not rows.sparse:  # maps make arrays
                steps.insert(0, (f"rows{number}", rows))
    return steps
