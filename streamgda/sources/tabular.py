"""Sources of tables: their columns have names and roles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import pyarrow as pa

from streamgda.sources.base import Source
from streamgda.sources.roles import Roles


class TabularSource(Source):
    """A source of columns with names, some of which have roles."""

    _roles: Roles

    @property
    @abstractmethod
    def _known(self) -> tuple[pa.Schema, str]:
        """All the columns, which may get a role; and what errors call the data."""

    def _set_roles(self, roles: Roles) -> None:
        self._roles = roles
        self.feature_names, self.categorical = roles.features, roles.categorical

    def _with_roles(self, roles: Roles) -> Self:
        twin = copy(self)
        twin._set_roles(roles)
        return twin

    @property
    def keeps_missing(self) -> bool:
        """Whether rows in which features are missing are to be learnt."""
        return self._roles.missing == "keep"

    def with_groups(self, column: str) -> Self:
        """The same source, which also reads a column that groups the rows."""
        schema, origin = self._known
        return self._with_roles(self._roles.with_groups(column, schema.names, origin))

    def with_columns(self, **expressions: Any) -> Self:
        """The same source with features that are computed from columns."""
        return self._with_roles(self._roles.with_columns(expressions, *self._known))

    def with_features(self, names: Sequence[str]) -> Self:
        """The same source with some of its features, in this order."""
        return self._with_roles(self._roles.of_features(names))
