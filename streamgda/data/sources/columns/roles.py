"""The roles of columns: which are features, target and weight, and how they become features."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from streamgda.data.blocks.block import Missing
from streamgda.data.blocks.parts import Part
from streamgda.data.blocks.schema import is_time
from streamgda.data.blocks.wording import check_known, counted
from streamgda.data.sources.columns.encoding import AS_STORED, Encoding, KnownDates, Wanted, encoding_for
from streamgda.data.sources.columns.expressions import ColumnExpression, in_words, referenced_columns, type_of
from streamgda.data.sources.columns.lists import places_of
from streamgda.data.sources.columns.stored import AsStored
from streamgda.data.sources.columns.types import is_number, label_kind, types_of
from streamgda.data.storage.identity import UNTOLD, fields_of


@dataclass(frozen=True)
class Roles:
    """The columns to read, and what becomes of rows in which a value is missing."""

    features: tuple[str, ...]
    target: str | None
    weight: str | None
    missing: Missing
    groups: str | None = None
    derived: Mapping[str, ColumnExpression] = field(default_factory=dict, hash=False)
    encoded: tuple[str, ...] = ()
    encoding: Encoding | None = None
    dates: tuple[str, ...] = ()
    lists: Mapping[str, int] = field(default_factory=dict, hash=False)  # the lengths of columns of lists
    # The columns that were excluded, if no features were named.
    left_out: frozenset[str] | None = field(default=None, metadata=UNTOLD)
    parts: tuple[Part, ...] = ()
    # Of labels and categories, if known; `ReadOptions.kinds` tells as which they are read.
    kinds: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=UNTOLD)

    @property
    def identity(self) -> list[Any]:
        """What tells these roles from others: the encoding only where columns are encoded."""
        return fields_of(self if self.encoded else replace(self, encoding=None))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All the columns that have a role."""
        columns = (self.target, self.weight, self.groups, *(part.column for part in self.parts))
        beside = dict.fromkeys(name for name in columns if name is not None)
        if not (self.derived or self.lists):
            return (*self.features, *beside)
        own = (name for name in self.features if name not in self.derived)
        stored = (self.places[name][0] if name in self.places else name for name in own)
        referenced = (name for column in self.computed.values() for name in column.columns.names)
        return tuple(dict.fromkeys((*stored, *referenced, *beside)))

    @cached_property
    def places(self) -> dict[str, tuple[str, int]]:
        """The column of lists of which a feature is a place, and the number of the place."""
        return {
            place: (name, i)
            for name, length in self.lists.items()
            for i, place in enumerate(places_of(name, length))
        }

    @cached_property
    def runs(self) -> list[tuple[str, slice | None]]:
        """The features in order: each column, and neighbouring places of a column of lists together."""
        runs: list[tuple[str, slice | None]] = []
        for name in self.features:
            column, i = (name, None) if name in self.derived else self.places.get(name, (name, None))
            before = runs[-1][1] if runs and runs[-1][0] == column else None
            if i is not None and before is not None and before.stop == i:
                runs[-1] = column, slice(before.start, i + 1)
            else:
                runs.append((column, None if i is None else slice(i, i + 1)))
        return runs

    @property
    def computed(self) -> dict[str, ColumnExpression]:
        """The features that are computed, by their names."""
        return {name: self.derived[name] for name in self.features if name in self.derived}

    @property
    def read_options(self) -> dict[str, Any]:
        """What is read of each file, as plain values, in which ledgers have it."""
        derived = self.computed.items() if self.derived else ()
        columns = {name: column.identity for name, column in derived}
        return {
            "target": self.target,
            "features": list(self.features),
            "weight": self.weight,
            "missing": self.missing,
            **({} if self.groups is None else {"groups": self.groups}),
            **({"columns": columns} if self.derived else {}),
            **({"lists": dict(self.lists)} if self.lists else {}),
            **({"dates": list(self.dates)} if self.dates else {}),
            **({AS_STORED: self.encoded_as} if self.encoded else {}),
            **({"split": [[*astuple(part)] for part in self.parts]} if self.parts else {}),
        }

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns of labels and weights."""
        return tuple(name for name in (self.target, self.weight) if name is not None)

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the features, where lists are whole; then those of labels and weights."""
        return (*dict.fromkeys(name for name, _ in self.runs), *self.beside)

    @property
    def in_words(self) -> str:
        """How many features there are, the target, and which part of the rows is read."""
        n_features = counted(len(self.features), "feature")
        return "; ".join([f"{n_features}, target {self.target!r}", *map(str, self.parts)])

    @property
    def keeps_all_rows(self) -> bool:
        """Whether no row is left out of what is read."""
        return self.missing != "drop" and all(part.by == "files" for part in self.parts)

    @property
    def encoded_as(self) -> list[Any]:
        """The columns that are encoded; and what their features depend on besides, if on anything."""
        besides = [] if self.encoding is None else self.encoding.identity
        return [list(self.encoded), *besides] if besides else list(self.encoded)

    def as_read(self, read_options: Mapping[str, Any]) -> Self:
        """The same roles with the features that were read before, unless other ones are asked for."""
        features = read_options.get("features", ())
        others = {*(self.left_out or ()), self.target, self.weight}
        if not features or others & {*features} or not self.derived.keys() <= {*features}:
            return self
        if self.left_out is None and self.features != tuple(features):
            return self
        stored_as = read_options.get(AS_STORED, ())
        encoded = stored_as[0] if stored_as and isinstance(stored_as[0], list) else stored_as
        by_type = self.encoding is not None and not self.encoding.by_name
        return replace(
            self,
            features=tuple(features),
            dates=tuple(read_options.get("dates", ())),
            lists=dict(read_options.get("lists", {})),
            encoded=tuple(encoded) if by_type else self.encoded,
        )

    def with_groups(self, column: str, names: Collection[str], origin: str) -> Self:
        """The same roles, and a column that groups the rows or names their folds.

        Raises
        ------
        ValueError
            If there is no such column, or it has a role.
        """
        self._check_groups(column, names, origin)
        return replace(self, groups=column)

    def with_part(self, part: Part, names: Collection[str], origin: str) -> Self:
        """The same roles for a part of the rows; errors are those of `with_groups`."""
        if part.column is not None:
            self._check_groups(part.column, names, origin)
        return replace(self, parts=(*self.parts, part))

    def _check_groups(self, column: str, names: Collection[str], origin: str) -> None:
        check_known([column], names, origin)
        if column in {*self.features, self.target, self.weight}:
            reason = f"column {column!r} is a feature or has another role and cannot group the rows too"
            raise ValueError(reason + f"; of a feature, scan with exclude=[{column!r}]")

    def of_features(self, names: Sequence[str]) -> Self:
        """The same roles with some of the features, in this order."""
        encoded = tuple(name for name in names if name in self.encoded)
        dates = tuple(name for name in names if name in self.dates)
        used = {self.places[name][0] for name in names if name in self.places}
        lists = {name: length for name, length in self.lists.items() if name in used}
        return replace(self, features=tuple(names), encoded=encoded, dates=dates, lists=lists)

    def with_encoded(self, wanted: Wanted, stored: pa.Schema, origin: str) -> Self:
        """The same roles, where the features that are wanted are encoded, and dates are known.

        Raises
        ------
        ValueError
            If one of them is no feature.
        """
        encoding = encoding_for(wanted)
        encoded = () if encoding is None else encoding.chosen(self.features, stored, origin)
        for name in encoded:
            if name in self.places:
                raise ValueError(
                    f"{origin}: feature {name!r} is a place of the lists in column {self.places[name][0]!r}, "
                    "whose numbers are no categories; name other columns"
                )
        known = wanted.dates if isinstance(wanted, KnownDates) else ()
        dates = tuple(
            name
            for name, kind in types_of(self.features, stored).items()
            if is_time(kind) or (name in known and (label_kind(kind) == "str" or pa.types.is_null(kind)))
        )
        return replace(self, encoded=encoded, encoding=encoding, dates=dates)

    def as_stored(self) -> Self:
        """The same roles, where the features that are encoded come as they are stored."""
        assert self.encoding is not None  # by which they are encoded
        return replace(self, encoding=AsStored(self.encoding, self.features))

    def with_dates(self, names: Collection[str]) -> Self:
        """The same roles, where text in these columns is read as dates."""
        dates = tuple(name for name in self.encoded if name in names)
        encoded = tuple(name for name in self.encoded if name not in names)
        return replace(self, encoded=encoded, dates=(*self.dates, *dates)) if dates else self

    def with_columns(self, computed: Mapping[str, Any], schema: pa.Schema, origin: str) -> Self:
        """The same roles, and features that are computed from columns of a table.

        Raises
        ------
        ValueError
            If an expression cannot be evaluated or makes no numbers, or the name is not that of a feature.
        """
        derived = {}
        for name, expression in computed.items():
            if name in {self.target, self.weight, self.groups}:
                raise ValueError(f"column {name!r} is the target, the weight or the groups and no feature")
            if name in self.lists:
                raise ValueError(
                    f"{origin}: column {name!r} holds lists, whose places are features; give the result "
                    "another name"
                )
            try:
                kind = type_of(expression, schema)
            except (pa.ArrowException, TypeError) as error:
                raise ValueError(f"{origin}: {name}={expression!s:.80}: {in_words(error)}") from error
            if not (is_number(kind) or is_time(kind)):
                raise ValueError(
                    f"{origin}: {name}={expression!s:.80} is {kind} and cannot be a feature; make a number "
                    "of it, such as by pyarrow.compute.utf8_length of a text"
                )
            derived[name] = ColumnExpression(expression, referenced_columns(expression, schema))
        features = dict.fromkeys((*self.features, *derived))
        return replace(self, features=tuple(features), derived={**self.derived, **derived})
