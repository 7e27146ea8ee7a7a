"""The base class of sources of columns with names, some of which have roles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Any, Self

import pyarrow as pa

from streamgda.data.blocks.dates import is_date
from streamgda.data.blocks.parts import Part
from streamgda.data.sources.base import Source
from streamgda.data.sources.columns.expressions import ColumnExpression, is_text, type_of
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.columns.types import types_of


class TabularSource(Source):
    """A source of columns with names, some of which have roles."""

    _roles: Roles

    def __init__(self, data: Any, roles: Roles) -> None:
        self._data = data
        self._set_roles(roles)

    @property
    @abstractmethod
    def _known(self) -> tuple[pa.Schema, str]:
        """All the columns, which may get a role; and what errors call the data."""

    def _set_roles(self, roles: Roles) -> None:
        self._roles = roles
        self.feature_names, self.encoded = roles.features, roles.encoded
        self.parts, self.beside, self.missing = roles.parts, roles.beside, roles.missing

    def _with_roles(self, roles: Roles) -> Self:
        twin = copy(self)
        twin._set_roles(roles)
        return twin

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the features, the target and the weight."""
        stored, _ = self._known
        computed = {name: type_of(column.expression, stored) for name, column in self.computed.items()}
        types = {**types_of(self._roles.shown, stored), **computed}
        return pa.schema([(name, types[name]) for name in self._roles.shown])

    def with_groups(self, column: str) -> Self:
        """The same source, which also reads a column that groups the rows."""
        schema, origin = self._known
        return self._with_roles(self._roles.with_groups(column, schema.names, origin))

    def with_part(self, part: Part) -> Self:
        """One of the parts of `split`."""
        schema, origin = self._known
        return self._with_roles(self._roles.with_part(part, schema.names, origin))

    def with_columns(self, **expressions: Any) -> Self:
        """The same source with features that are computed from columns."""
        return self._with_roles(self._roles.with_columns(expressions, *self._known))

    def with_computed(self, referenced: pa.Schema, expressions: Mapping[str, Any]) -> Self:
        """The same source with features of a pipeline, which knows dates that are texts here."""
        schema, origin = self._known
        for name in set(schema.names).intersection(referenced.names):
            field, known = schema.field(name), referenced.field(name).type
            if is_date(known) and is_text(field.type):
                schema = schema.set(schema.get_field_index(name), field.with_type(known))
        return self._with_roles(self._roles.with_columns(expressions, schema, origin))

    @property
    def computed(self) -> dict[str, ColumnExpression]:
        """The features that are computed, by their names."""
        return self._roles.computed

    def with_dates(self, names: Collection[str]) -> Self:
        """The same source, which reads text in these columns as dates."""
        return self._with_roles(self._roles.with_dates(names))

    def as_stored(self) -> Self:
        """The same source, whose columns that are not numbers come as they are stored."""
        return self._with_roles(self._roles.as_stored())

    def with_features(self, names: Sequence[str]) -> Self:
        """The same source with some of its features, in this order."""
        return self._with_roles(self._roles.of_features(names))
