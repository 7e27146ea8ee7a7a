"""The rule by which the rows of a state go through a forest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from streamgda.data.blocks.block import Block, rows_of
from streamgda.data.blocks.schema import UNNAMED, Columns, MadeColumns, Schema, schema_in
from streamgda.data.blocks.wording import listed
from streamgda.extensions.leaves.features import LeafFeatures
from streamgda.extensions.leaves.state import LeafStatistics
from streamgda.statistics.required import Required

_REQUIRED = Required("tied")


class LeafRows:
    """The rule by which the rows of a state go through a forest.

    Parameters
    ----------
    features : LeafFeatures
        The forest, fitted to rows with the features of the schema.
    schema : Schema, optional
        What the features of the rows are. By default they are columns of numbers, with the names that the
        forest was fitted to.
    """

    saved_as: ClassVar[str] = "leaves"

    def __init__(self, features: LeafFeatures, schema: Schema | None = None) -> None:
        check_is_fitted(features)
        names = getattr(features, "feature_names_in_", None)
        self.features = copy(features)  # which may be fitted again
        self.schema = schema or Columns(None if names is None else tuple(map(str, names)))

    def __repr__(self) -> str:
        return f"LeafRows({self.features!r})"

    def empty(self, required: Required = _REQUIRED) -> LeafStatistics:
        """The state of no rows; ValueError if more is required than counts."""
        if required != _REQUIRED:
            raise ValueError(
                "leaves are counted with covariance_type='tied' alone, and "
                f"{' and '.join(required.in_words())} were asked for"
            )
        return LeafStatistics(self)

    def __eq__(self, other: object) -> bool:
        """Whether the forest is the same."""
        return self._document == other._document if isinstance(other, LeafRows) else NotImplemented

    @cached_property
    def _document(self) -> dict[str, Any]:
        return self.to_document()

    def assign(self, block: Block) -> Block:
        """The same rows, with their leaves as features.

        Raises
        ------
        ValueError
            If the rows have other columns than those of the forest.
        """
        known, given = self.schema, block.schema
        is_same = None in (known.names, given.names) or known.names == given.names
        if known.saved_as != given.saved_as or not is_same:
            raise ValueError(
                f"{block.row_name(0)}: rows with the columns {listed(given.names or [])} do not go through a "
                f"forest of rows with the columns {listed(known.names or [])}"
            )
        rows = block.in_schema(known)
        if rows.n_features != self.features.n_features_in_:
            raise ValueError(
                f"{block.row_name(0)}: the forest is of {self.features.n_features_in_} features; got rows of "
                f"{rows.n_features}"
            )
        return replace(
            block, features=LeafColumns(self, rows.features), feature_names=None, dates=(), lists=()
        )

    def check_same(self, other: Any) -> None:
        """Raise ValueError unless rows went through the same forest."""
        if self != other:
            raise ValueError(
                f"states of rows that went through other forests cannot be merged, {self!r} and "
                f"{other!r}; fit one LeafFeatures and hand it to both"
            )

    def to_document(self) -> dict[str, Any]:
        """Plain values that JSON holds, and `from_document` reads."""
        return {  # tuples as lists
            "features": self.features.to_document(),
            "schema": json.loads(json.dumps(self.schema.to_metadata())),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The rule that `to_document` made plain values of; ValueError if they are not such."""
        try:
            schema = document["schema"]
            names = schema["feature_names"]
            return cls(
                LeafFeatures.from_document(document["features"]),
                schema_in(schema, None if names is None else tuple(names)),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"these are no rows of leaves: {error!r}") from error


@dataclass(frozen=True)
class LeafColumns(MadeColumns):
    """The leaves of rows, of which only the rows are in memory.

    Attributes
    ----------
    rule : LeafRows
        The forest.
    given : ndarray, sequence of ndarray or MadeColumns
        The features of the rows, in the schema of the rule.
    """

    rule: LeafRows
    given: Any

    schema = UNNAMED

    @property
    def numbers(self) -> Any:  # type: ignore[override]
        """The columns of numbers that go into the forest: only there can a value be missing."""
        if isinstance(self.given, np.ndarray):
            return self.given.T
        return self.given.numbers if isinstance(self.given, MadeColumns) else self.given

    def leaves_of(self, block: Block) -> NDArray[np.int32]:
        """The leaves of the rows of the block with these features: (n_rows, n_trees).

        Raises
        ------
        ValueError
            If a value is NaN or infinite.
        """
        rows = replace(block, features=self.given, feature_names=self.rule.schema.feature_names)
        matrix = rows.matrix(0, self.n_rows)
        if not np.isfinite(matrix).all():
            rows.raise_for_values()
        return self.rule.features.leaves(matrix)

    def __len__(self) -> int:
        return self.rule.features.n_outputs

    def __getitem__(self, index: Any) -> Any:
        codes = np.zeros(self.n_rows, np.intp)
        return (
            (self.leaves_of(Block(self.given, np.array([0]), codes)) == index).any(axis=1).astype(np.float64)
        )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.given) if isinstance(self.given, np.ndarray) else len(self.given[0])

    @property
    def n_columns(self) -> int:
        """How many columns are in memory."""
        return self.given.n_columns if isinstance(self.given, MadeColumns) else len(self.numbers)

    def rows(self, rows: slice | NDArray[np.intp]) -> LeafColumns:
        """Some of the rows."""
        return LeafColumns(self.rule, rows_of(self.given, rows))

    def reduced(self, block: Any, kind: Any, workspace: Any) -> None:
        """None: a state of leaves adds them up itself."""
