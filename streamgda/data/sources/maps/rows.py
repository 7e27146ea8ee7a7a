"""The step of a pipeline before its maps: it makes of rows in memory what the first map gets of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from streamgda.data.blocks.arrays import as_arrow, column_labels, in_days, library_of, with_places
from streamgda.data.blocks.dates import is_date
from streamgda.data.blocks.records import as_known_table, with_days
from streamgda.data.blocks.schema import Columns, Names
from streamgda.data.blocks.wording import check_known
from streamgda.data.sources.maps.maps import takes_documents

_REMEDY = "null, if the model and its maps take missing values"


@dataclass(frozen=True)
class StoredSchema(Columns):
    """The columns of a source before its maps, of which some may be text or categories."""

    encoded: Names = ()


class StoredRows(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that makes of frames, tables and dicts what a map gets when a source is read.

    `as_pipeline` of a model adds it. Arrays, and frames without times or lists, stay as they are.

    Parameters
    ----------
    schema : Schema
        The columns.
    form : {"documents", "frame", "array"}
        What the map takes.
    """

    def __init__(self, schema: Any, form: str) -> None:
        self.schema, self.form = schema, form

    @classmethod
    def of(cls, source: Any) -> Self:
        """The step for the first map of a source."""
        stored, first = source.before_maps, source.maps[0]
        types = stored.schema
        dates = tuple(
            name for name in stored.feature_names if name in types.names and is_date(types.field(name).type)
        )
        is_named = bool(stored.encoded) or hasattr(first, "feature_names_in_")
        form = "documents" if takes_documents(first) else "frame" if is_named else "array"
        return cls(StoredSchema(stored.feature_names, dates, (), stored.encoded), form)

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
        """What the first map gets of these rows."""
        X = with_places(as_known_table(X, self.schema, fills=False, remedy=_REMEDY), self.schema)
        X = with_days(X, self.schema)
        if (labels := column_labels(X)) is None:
            return X
        if self.form == "frame" and library_of(X) == "pandas":  # whose columns the map checks
            return in_days(X)
        names = list(self.schema.names)
        check_known(names, labels, "the rows")
        table = as_arrow(in_days(as_arrow(X, "the rows").select(names)))
        if self.form == "documents":
            return table.column(0).to_pylist()
        frame = table.to_pandas()
        return frame if self.form == "frame" else frame.to_numpy(np.float64)
