"""Columns of text, integers and bools are read as categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from numpy.typing import NDArray

from streamgda.categories.columns import Categories, MixedColumns, coded
from streamgda.sources.batches import labels_of
from streamgda.sources.roles import label_kind, matching


@dataclass(frozen=True)
class Categorical:
    """Which columns of a table have categories.

    Parameters
    ----------
    columns : "from_dtype" or sequence of str
        All columns that hold strings or dictionaries; or those with these names or patterns.
    """

    columns: Literal["from_dtype"] | Sequence[str] = "from_dtype"

    def __post_init__(self) -> None:
        if isinstance(self.columns, str) and self.columns != "from_dtype":
            raise ValueError(
                "categorical_features must be 'from_dtype', a list of column names or None; got "
                f"{self.columns!r}"
            )

    def chosen(self, features: Sequence[str], stored: pa.Schema, origin: str) -> tuple[str, ...]:
        """The features with categories, in order; ValueError for a name that is no feature."""
        if isinstance(self.columns, str):
            found = {
                field.name
                for field in stored
                if label_kind(field.type) == "str" or pa.types.is_dictionary(field.type)
            }
        else:
            found = matching(map(str, self.columns), features, origin)
        return tuple(name for name in features if name in found)

    def takes(self, arrow_type: pa.DataType) -> bool:
        """Whether a column of this type can have categories."""
        return label_kind(arrow_type) is not None

    def read(
        self,
        columns: Mapping[str, pa.Array],
        encoded: tuple[str, ...],
        numbers: Mapping[str, NDArray[Any]],
        origin: str,
    ) -> MixedColumns:
        """The numbers of a batch, and the codes of the columns with categories."""
        found = [coded(*labels_of(columns[name], f"{origin}: column {name!r}")) for name in encoded]
        categories = Categories(tuple(numbers), encoded, tuple(values for values, _ in found))
        return MixedColumns(categories, list(numbers.values()), [codes for _, codes in found])
