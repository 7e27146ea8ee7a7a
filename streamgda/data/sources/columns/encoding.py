"""How columns that are not numbers become features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pyarrow as pa
from numpy.typing import NDArray

from streamgda.data.blocks.options import option_of
from streamgda.data.blocks.schema import MadeColumns


class Encoding(Protocol):
    """A way to make features of columns that are not numbers."""

    @property
    def columns(self) -> str | Sequence[str]:
        """The names or patterns of the columns that are encoded, or "auto"."""

    @property
    def by_name(self) -> bool:
        """Whether columns are chosen by their names, and not by their types."""

    @property
    def identity(self) -> list[Any]:
        """What features depend on beside the values and the names of columns, as plain values."""

    def chosen(self, features: Sequence[str], stored: pa.Schema, origin: str) -> tuple[str, ...]:
        """The features that are encoded, in order; ValueError for a name that is no feature."""

    def takes(self, arrow_type: pa.DataType) -> bool:
        """Whether a column of this type can be encoded."""

    def read(
        self, columns: Mapping[str, pa.Array], numbers: Mapping[str, NDArray[Any]], origin: str
    ) -> MadeColumns:
        """The features of a batch, of the columns that are encoded, and of its numbers."""


@dataclass(frozen=True)
class KnownDates:
    """The encoding of the columns of a model, and which of them are dates, also where these are texts."""

    encoding: Encoding | None
    dates: tuple[str, ...]


Wanted = Literal["auto"] | Encoding | KnownDates | None
"""What functions that scan, and estimators, take for an encoding."""

AS_STORED = "categorical_features"
"""What ledgers call the names of encoded columns; a new name would make each of their files be read again."""

AS_NAMED = {AS_STORED: "categories"}


LEARNT_AS_TEXT = ", or learn text as categories, with categories='auto'"


def by_names(names: Sequence[str]) -> str:
    """How to say that columns of these names are encoded."""
    option = f"Categorical(columns={list(names)!r})" if names else "None"
    return f"with categories={option}"


def encoding_for(wanted: Wanted) -> Encoding | None:
    """The encoding that a user asks for; None for numbers alone.

    Raises
    ------
    ValueError
        If this is no encoding.
    """
    wanted = wanted.encoding if isinstance(wanted, KnownDates) else wanted
    encoding: Encoding | None = option_of("categories", wanted)
    if encoding is not None and not hasattr(encoding, "chosen"):
        raise ValueError(f"categories must be 'auto', None or Categorical(columns=...); got {wanted!r:.200}")
    return encoding
