"""The rule by which rows of a state go through a map, and these rows. Each map has a rule of its own."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from streamgda.data.blocks.block import Block, rows_of
from streamgda.data.blocks.schema import UNNAMED, Columns, MadeColumns, Schema, is_of_one_thread, schema_in
from streamgda.data.blocks.wording import listed


class MapRule:
    """The rule by which the rows of a state go through a map.

    Parameters
    ----------
    features : transformer
        The map, fitted to rows with the features of the schema.
    schema : Schema, optional
        What the features of the rows are. By default they are columns of numbers, with the names that the map
        was fitted to.
    """

    saved_as: ClassVar[str]
    _map: ClassVar[type[Any]]
    """The class of the map."""
    _columns: ClassVar[type[MapColumns]]
    """The class of the features that the map makes of the rows of a block."""
    _options: ClassVar[tuple[str, ...]] = ()
    """What is saved besides, by the names of parameters and attributes."""

    made: Columns = UNNAMED
    """The features that the map makes."""

    def __init__(self, features: Any, schema: Schema | None = None) -> None:
        check_is_fitted(features)
        names = getattr(features, "feature_names_in_", None)
        self.features = copy(features)  # which may be fitted again
        self.schema = schema or Columns(None if names is None else tuple(map(str, names)))

    def __repr__(self) -> str:
        options = (f"{name}={getattr(self, name)!r}" for name in self._options)
        return f"{type(self).__name__}({', '.join([repr(self.features), *options])})"

    def __eq__(self, other: object) -> bool:
        """Whether the map is the same, and all that is saved with it."""
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.to_document() == other.to_document()

    def assign(self, block: Block) -> Block:
        """The same rows, with the features that the map makes of them.

        Raises
        ------
        ValueError
            If the rows have other columns than those of the map.
        """
        known, given = self.schema, block.schema
        is_same = None in (known.names, given.names) or known.names == given.names
        if known.saved_as != given.saved_as or not is_same:
            raise ValueError(
                f"{block.row_name(0)}: rows with the columns {listed(given.names or [])} do not go through a "
                f"map of rows with the columns {listed(known.names or [])}"
            )
        rows = block.in_schema(known)
        if rows.n_features != self.features.n_features_in_:
            raise ValueError(
                f"{block.row_name(0)}: the map is of {self.features.n_features_in_} features; got rows of "
                f"{rows.n_features}"
            )
        made = self._columns(self, rows.features)
        return replace(block, features=made, feature_names=self.made.feature_names, dates=(), lists=())

    def check_same(self, other: Any) -> None:
        """Raise ValueError unless rows went through the same map."""
        if not isinstance(other, type(self)) or self._identity != other._identity:
            raise ValueError(
                f"states of rows that went through other maps cannot be merged, {self!r} and {other!r}; fit "
                f"one {self._map.__name__} and hand it to both"
            )

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return {
            "features": self.features.to_document(),
            "schema": json.loads(json.dumps(self.schema.to_metadata())),  # tuples as lists
        }

    def to_document(self) -> dict[str, Any]:
        """Plain values that JSON holds, and `from_document` reads."""
        return {**self._identity, **{name: getattr(self, name) for name in self._options}}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The rule that `to_document` made plain values of; ValueError if they are not such."""
        try:
            schema, options = document["schema"], {name: document[name] for name in cls._options}
            names = schema["feature_names"]
            schema = schema_in(schema, None if names is None else tuple(names))
            return cls(cls._map.from_document(document["features"]), schema, **options)
        except (KeyError, TypeError) as error:
            raise ValueError(f"these are no mapped rows: {error!r}") from error


@dataclass(frozen=True)
class MapColumns(MadeColumns):
    """The features that a map makes of rows, of which only the rows are in memory.

    Attributes
    ----------
    rule : MapRule
        The map.
    given : ndarray, sequence of ndarray or MadeColumns
        The features of the rows, in the schema of the rule.
    """

    rule: Any
    given: Any

    schema = property(attrgetter("rule.made"))
    of_one_thread = property(lambda rows: is_of_one_thread(rows.given))

    @property
    def numbers(self) -> Any:  # type: ignore[override]  # a field of other rows
        """The columns of numbers that go into the map: only there can a value be missing."""
        if isinstance(self.given, np.ndarray):
            return self.given.T
        return self.given.numbers if isinstance(self.given, MadeColumns) else self.given

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.given) if isinstance(self.given, np.ndarray) else len(self.given[0])

    @property
    def n_columns(self) -> int:
        """How many columns are in memory."""
        return self.given.n_columns if isinstance(self.given, MadeColumns) else len(self.numbers)

    def rows(self, rows: slice | NDArray[np.intp]) -> Self:
        """Some of the rows."""
        return replace(self, given=rows_of(self.given, rows))

    def before(self, block: Block) -> Block:
        """The block with these features, as it was before the map."""
        return replace(block, features=self.given, feature_names=self.rule.schema.feature_names)

    def __len__(self) -> int:
        return int(self.rule.features.n_outputs)

    def __getitem__(self, index: Any) -> Any:
        return self._all.T[index]

    @cached_property
    def _all(self) -> Any:
        """What the map makes of all rows."""
        return self._made_of(Block(self.given, np.array([0]), np.zeros(self.n_rows, np.intp)))

    @abstractmethod
    def _made_of(self, rows: Block) -> Any:
        """What the map makes of the rows of a block: (n_rows, n_outputs)."""
