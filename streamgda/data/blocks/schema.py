"""What the features of rows are: the columns of a table, or what is made of them.

The core knows columns of numbers. Another room may have a schema of its own, and rows that make their
features when these are asked for. `SCHEMAS` says where the schemas of saved states are defined.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.wording import MISSING, callers_level, listed
from streamgda.data.registry import SCHEMAS

Names = tuple[str, ...]
Lists = tuple[tuple[str, int], ...]
"""Columns of lists whose places are features, and the lengths of the lists; sorted."""


def is_time(kind: Any) -> bool:
    """Whether a type of Arrow, pandas or Polars is of dates, times or durations, which are learnt as days."""
    return str(kind).lower().startswith(("date", "time", "duration"))


class Schema(ABC):
    """The features of rows, in order."""

    saved_as: ClassVar[str | None] = None
    """The key in the metadata of a saved state, and in `SCHEMAS`; None if only names are saved."""

    is_numeric: ClassVar[bool] = False
    """Whether all columns of the table are numbers."""

    dates: Names = ()
    """The columns of numbers that hold dates, as days."""

    lists: Lists = ()
    """The columns of lists of which features are places."""

    def with_types(self, dates: Names, lists: Lists) -> Schema:
        """The same features, some of which are known as dates, or as places of lists."""
        return self

    @property
    @abstractmethod
    def feature_names(self) -> Names | None:
        """The names of the features, where known."""

    @property
    def names(self) -> Names | None:
        """The names of the columns of a table from which the features are made."""
        return self.feature_names

    @property
    def encoded(self) -> Names:
        """The columns of a table that are not numbers."""
        return ()

    @property
    def encoding(self) -> Any:
        """The `streamgda.data.sources.columns.encoding.Encoding` of these columns; None if there are none."""
        return None

    @property
    def sums_to_one(self) -> tuple[slice, ...]:
        """Features of which the sum is 1 in every row, so that they are collinear."""
        return ()

    def is_normal_for(self, model: Any) -> bool:
        """Whether all features are normal in the densities of a model."""
        return True

    def viewed(self, view: Any, model: Any) -> Any:
        """What a model reads of statistics with these features (`streamgda.models.estimators.view.View`)."""
        return view

    def values_by_column(self) -> dict[str, list[Any]]:
        """The values of each column that is no number."""
        return {}

    def before(self, peer: Any) -> Any:
        """A model of scikit-learn that takes the columns of a table, made of one that takes the features."""
        return peer

    def sql_of(self, sql: Any, *, depends: bool) -> tuple[list[str], list[str]]:
        """Columns of SQL that other features are computed from, and these features."""
        return [], []

    def n_numbers(self, n_features: int) -> int:
        """How many features, the first ones, are columns of numbers."""
        return n_features

    def union(self, other: Schema) -> Schema:
        """The schema of the rows of both; ValueError if their features do not go together."""
        check_same_names(self.feature_names, other.feature_names)
        both = other if self.feature_names is None or other.saved_as else self
        if (self.dates, self.lists) == (other.dates, other.lists):
            return both
        return both.with_types((*self.dates, *other.dates), (*self.lists, *other.lists))

    def is_alike(self, other: Schema) -> bool:
        """Whether the features are the same, as far as their names are known; not how they were stored."""
        unknown = self.feature_names is None or other.feature_names is None
        return self.saved_as == other.saved_as and (
            unknown or self == other.with_types(self.dates, self.lists)
        )

    def places_in(self, other: Schema) -> NDArray[np.intp] | None:
        """Where the features stand among those of a union; None if they are the same."""
        return None

    def check_size(self, n_rows: int, features: Any = None) -> None:  # noqa: B027 - numbers have no limit
        """Raise ValueError if a state cannot have so many features; those of a block may be `features`."""

    def misread(self) -> dict[str, str]:
        """What columns hold that were read as something else, and how to read them."""
        return {}

    def warn_of_misread(self, warned: Container[str] = ()) -> dict[str, str]:
        """Warn of columns that hold something else than they were read as, and return them."""
        misread = self.misread()
        for name, holds in misread.items():
            if name not in warned:
                said = f"column {name!r} is learnt as categories, and holds {holds}"
                warnings.warn(said, stacklevel=callers_level())
        return misread

    def to_document(self) -> Any:
        """Plain values that JSON holds, and `from_plain` of the class reads."""
        return None

    def to_metadata(self) -> dict[str, Any]:
        """What a saved state holds of its schema."""
        names: dict[str, Any] = {"feature_names": self.feature_names}
        names |= {"dates": self.dates} if self.dates else {}
        names |= {"lists": dict(self.lists)} if self.lists else {}
        return names if self.saved_as is None else {**names, self.saved_as: self.to_document()}


@dataclass(frozen=True)
class Columns(Schema):
    """Features that are columns of numbers, with or without names."""

    is_numeric: ClassVar[bool] = True

    feature_names: Names | None = None
    dates: Names = ()
    lists: Lists = ()

    def __post_init__(self) -> None:
        names = self.feature_names or ()
        if len(set(names)) < len(names):
            name = next(name for place, name in enumerate(names) if name in names[:place])
            raise ValueError(f"there are two features {name!r}; give each a name of its own")

    def with_types(self, dates: Names, lists: Lists) -> Columns:
        """The same features, some of which are known as dates, or as places of lists."""
        names = self.feature_names
        return replace(self, dates=among(dates, names), lists=lists_among(lists, names))


def column_of(place: str) -> str:
    """The column of lists of which a feature would be a place, by its name: emb of emb_3."""
    return place.rpartition("_")[0]


def among(names: Sequence[str], known: Names | None) -> Names:
    """Those of the known names that are among the names, in the order of the known ones."""
    return tuple(name for name in known or () if name in names)


def lists_among(lists: Lists, known: Names | None) -> Lists:
    """The columns of lists that have a place among the names, each with its longest length."""
    if not lists:
        return ()
    columns = set(map(column_of, known or ()))
    return tuple(one for one in dict(sorted(lists)).items() if one[0] in columns)


UNNAMED = Columns()


class MadeColumns(Sequence[NDArray[Any]], ABC):
    """Rows whose features are made of other columns when they are asked for; a column for each feature."""

    schema: Schema
    numbers: Sequence[NDArray[Any]]
    """The columns of numbers, which are the first features."""
    of_one_thread: bool = False
    """Whether the thread that gave the rows must read them, as on a device."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """How many columns are in memory."""

    @abstractmethod
    def rows(self, rows: slice | NDArray[np.intp]) -> Self:
        """Some of the rows."""

    def by_name(self) -> dict[str, NDArray[Any]]:
        """The columns of the table, by their names."""
        return dict(zip(self.schema.feature_names or (), self, strict=False))

    def onto(self, schema: Any) -> Self:
        """The same rows in another schema of the same columns."""
        return self

    def encoded(self, schema: Any) -> NDArray[np.float64]:
        """The rows as numbers in another schema, with a warning of values that it does not have."""
        return np.stack([*self], axis=1).astype(np.float64)

    def reduced(self, block: Any, kind: Any, workspace: Any) -> Any:
        """The moments of the classes of the block with these features; None if there is no shorter way."""
        return None


def is_of_one_thread(features: Any) -> bool:
    """Whether the thread that gave the features of rows must read them."""
    return isinstance(features, MadeColumns) and features.of_one_thread


def schema_in(metadata: Mapping[str, Any], names: Names | None) -> Schema:
    """The schema that a saved state has; ValueError if it is damaged."""
    dates = tuple(metadata.get("dates", ()))
    lists = tuple((str(name), int(length)) for name, length in dict(metadata.get("lists", {})).items())
    schema: Schema = Columns(names)
    for key, place in SCHEMAS.items():
        if metadata.get(key) is not None:
            schema = resolve_name(place).from_plain(metadata[key])
            known = [name.removesuffix(MISSING) for name in schema.feature_names or ()]
            if known != [name.removesuffix(MISSING) for name in names or ()]:  # which 0.2 saved without it
                raise ValueError(f"the features are not those of the {key}")
    return schema.with_types(dates, lists) if dates or lists else schema


def check_same_names(ours: Names | None, theirs: Names | None) -> None:
    """Raise ValueError if two states both have feature names, and these differ."""
    if ours is None or theirs is None or ours == theirs:
        return
    sides = {"first": (ours, set(theirs)), "second": (theirs, set(ours))}
    alone = {side: [name for name in names if name not in others] for side, (names, others) in sides.items()}
    differences = [f"only the {side} has {listed(names)}" for side, names in alone.items() if names] or [
        f"feature {position} is {here!r} in one and {there!r} in the other"
        for position, (here, there) in enumerate(zip(ours, theirs, strict=False))
        if here != there
    ][:1]
    raise ValueError(f"states of different features cannot be merged: {', '.join(differences)}")
