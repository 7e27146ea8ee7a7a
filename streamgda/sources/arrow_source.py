"""What sources of Arrow data have in common: the data, and the roles of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Generic, Protocol, Self, TypeVar

from streamgda.blocks.wording import counted
from streamgda.sources.base import Source
from streamgda.sources.roles import Roles

D = TypeVar("D", bound="Described")


class Described(Protocol):
    """Data with a schema."""

    @property
    def schema(self) -> Any:
        """Its columns."""


class ArrowSource(Source, Generic[D]):
    """Arrow data with the roles of its columns; made by `scan_arrow`."""

    def __init__(self, data: D, roles: Roles) -> None:
        self._data = data
        self._roles = roles
        self.feature_names = roles.features

    @property
    def keeps_missing(self) -> bool:
        """Whether rows in which features are missing are to be learnt."""
        return self._roles.missing == "keep"

    def with_groups(self, column: str) -> Self:
        """The same source, which also reads a column that groups the rows."""
        return self._with_roles(self._roles.with_groups(column, self._data.schema.names, "the data"))

    def with_features(self, names: Sequence[str]) -> Self:
        """The same source with some of its features, in this order."""
        return self._with_roles(replace(self._roles, features=tuple(names)))

    def _with_roles(self, roles: Roles) -> Self:
        twin = copy(self)
        twin._roles, twin.feature_names = roles, roles.features
        return twin

    def __repr__(self) -> str:
        return (
            f"<Arrow {type(self._data).__name__}: {counted(len(self._roles.features), 'feature')}, "
            f"target {self._roles.target!r}>"
        )
