"""The features that a source computes, as the first step of a pipeline: from frames and dicts to features."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from streamgda.data.blocks.arrays import as_arrow, as_table, check_known_numbers, column_labels, with_places
from streamgda.data.blocks.dates import is_date
from streamgda.data.blocks.records import check_lists
from streamgda.data.blocks.schema import Columns
from streamgda.data.blocks.wording import check_known, listed
from streamgda.data.sources.columns.expressions import (
    ColumnExpression,
    deserialised,
    in_words,
    serialised,
    values_of,
    with_dates_of,
)
from streamgda.data.sources.columns.lists import are_of_one_list, is_list, places_of
from streamgda.data.sources.columns.types import is_number


class ComputedColumns(TransformerMixin, BaseEstimator):
    """A transformer that computes features from the columns of rows, as `with_columns` of a source does.

    `as_pipeline` of a model makes it. Its parameters are texts, so that it can be kept without pickle.

    Parameters
    ----------
    features : sequence of str
        The features, in order: those that are columns themselves, and those that are computed.
    expressions : mapping of str to str
        Each feature that is computed, as an expression of Arrow in Base64.
    columns : str
        The schema of the columns that they refer to, in Base64. Values of other types, such as dates in
        text, are cast.
    """

    def __init__(self, features: Sequence[str], expressions: Mapping[str, str], columns: str) -> None:
        self.features, self.expressions, self.columns = features, expressions, columns

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"{type(self).__name__}({listed(self.features)})"  # without kilobytes of Base64

    @classmethod
    def of(cls, features: Sequence[str], computed: Mapping[str, ColumnExpression]) -> Self:
        """The step that makes these features, some of which are computed."""
        schema = pa.unify_schemas([column.columns for column in computed.values()])
        texts = {name: _text(serialised(column.expression)) for name, column in computed.items()}
        step = cls(list(features), texts, _text(schema.serialize()))
        _ = step.computed  # raises for an expression that cannot be kept
        return step

    @property
    def computed(self) -> dict[str, pc.Expression]:
        """The expressions, by the names of the features."""
        return {name: _expression(text) for name, text in self.expressions.items()}

    @property
    def referenced(self) -> pa.Schema:
        """The columns that the expressions refer to."""
        return _schema(self.columns)

    @property
    def stored(self) -> list[str]:
        """The features that are columns themselves."""
        return [name for name in self.features if name not in self.expressions]

    @property
    def to_scan(self) -> list[str]:
        """The features with which a source is scanned; a number that is referred to if all are computed."""
        numbers = [field.name for field in _schema(self.columns) if is_number(field.type)]
        return self.stored or numbers[:1]

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The columns that it reads."""
        return np.array(list(dict.fromkeys([*self.stored, *_schema(self.columns).names])), dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many columns it reads."""
        return len(self.feature_names_in_)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learnt."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the features."""
        return np.array(self.features, dtype=object)

    def transform(self, X: Any) -> Any:
        """The features of the rows of a frame, of an Arrow table or of dicts, as a frame.

        If dicts leave out a column, a feature of that name is left out too. The result is then a dict of
        columns, and the model decides whether it needs the feature.
        """
        table, absent = self._table_of(X)
        schema = _schema(self.columns)
        needed = with_dates_of(schema, table.select(schema.names))
        batch = pa.record_batch([_cast(needed[field.name], field) for field in schema], schema=schema)
        columns = {name: ColumnExpression(one, schema) for name, one in self.computed.items()}
        try:
            computed = values_of(batch, columns)
        except pa.ArrowException as error:
            raise ValueError(f"the rows: {in_words(error)}") from error
        values = {**{name: table[name] for name in self.stored}, **computed}
        features = {name: values[name] for name in self.features if name not in absent}
        return pa.table(features).to_pandas() if len(features) == len(self.features) else features

    def _table_of(self, X: Any) -> tuple[pa.Table, set[str]]:
        """The columns that are read; those that dicts leave out are null, and their names come second."""
        names, schema = self.feature_names_in_.tolist(), _schema(self.columns)
        lists = [field.name for field in schema if is_list(field.type)]
        numbers = [field.name for field in schema if is_number(field.type)]
        dates = [field.name for field in schema if is_date(field.type)]
        every = (*self.stored, *(place for name in lists for place in places_of(name, 1)))
        rows = as_table(X, every, numbers=numbers, dates=dates)
        known = Columns(tuple(self.stored))
        placed = with_places(rows, known)
        is_matrix = isinstance(placed, np.ndarray) and placed.shape[1:] == (len(self.stored),)
        if is_matrix and are_of_one_list(known):
            placed = pa.table(dict(zip(self.stored, placed.T, strict=True)))
        if column_labels(placed) is None:
            raise ValueError(f"rows need the names of their columns, {listed(names)}; give a frame")
        check_known_numbers(placed, numbers)
        table = as_arrow(placed, "the rows")
        # Expressions refer to whole lists, in whose place are columns of their places now.
        for name in {*lists}.intersection(column_labels(rows) or ()).difference(table.column_names):
            table = table.append_column(name, as_arrow(rows, "the rows")[name])
        absent = set(names).difference(table.column_names) if isinstance(X, dict | list | tuple) else set()
        check_lists(table, absent.intersection(self.stored), names)
        for name in sorted(absent):
            table = table.append_column(name, pa.nulls(len(table)))
        check_known(names, table.column_names, "the rows")
        return table, absent


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """A column in the type that expressions need; ValueError if it holds something else."""
    try:
        return column.cast(field.type).combine_chunks()
    except pa.ArrowException as error:
        what = f"column {field.name!r} holds {column.type}, and {field.type} is needed"
        raise ValueError(f"{what}: {error}") from error


def _text(content: pa.Buffer) -> str:
    return base64.b64encode(content).decode()


@lru_cache
def _expression(text: str) -> pc.Expression:
    return deserialised(base64.b64decode(text))


@lru_cache
def _schema(text: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    except OSError as error:
        raise ValueError(f"the columns of an expression are damaged: {error}") from error
