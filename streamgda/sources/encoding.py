"""How columns that are not numbers become features, and where the usual way is defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, Literal, Protocol

import pyarrow as pa
from numpy.typing import NDArray

from streamgda.blocks.schema import MadeColumns

CategoricalFeatures = Literal["from_dtype"] | Sequence[str] | None


class Encoding(Protocol):
    """A way to make features of columns that are not numbers."""

    def chosen(self, features: Sequence[str], stored: pa.Schema, origin: str) -> tuple[str, ...]:
        """The features that are encoded, in order; ValueError for a name that is no feature."""

    def takes(self, arrow_type: pa.DataType) -> bool:
        """Whether a column of this type can be encoded."""

    def read(
        self,
        columns: Mapping[str, pa.Array],
        encoded: tuple[str, ...],
        numbers: Mapping[str, NDArray[Any]],
        origin: str,
    ) -> MadeColumns:
        """The features of a batch, of its columns that are `encoded`, and of those of `numbers`."""


CATEGORIES = "streamgda.categories.reading:Categorical"
"""The encoding of columns whose names are given, or that hold text."""


def encoding_for(wanted: CategoricalFeatures | Encoding) -> Encoding | None:
    """The encoding that a user asks for by the parameter `categorical_features`; None for numbers alone."""
    encoding: Any = wanted
    if wanted is not None and not hasattr(wanted, "read"):
        encoding = resolve_name(CATEGORIES)(wanted)
    chosen: Encoding | None = encoding
    return chosen
