"""The roles of columns: which are features, target and weight, and whether their types allow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from streamgda.data.blocks.block import Missing, check_missing
from streamgda.data.blocks.parts import Part
from streamgda.data.blocks.schema import is_time
from streamgda.data.blocks.wording import check_known, counted, listed
from streamgda.data.sources.column_names import chosen, is_identifier, matching, warn_of_identifiers
from streamgda.data.sources.columns import FirstRows, is_number, label_kind, types_of, uninformative
from streamgda.data.sources.encoding import (
    AS_STORED,
    LEARNT_AS_TEXT,
    Encoding,
    KnownDates,
    Wanted,
    encoding_for,
)
from streamgda.data.sources.expressions import ColumnExpression, in_words, referenced_columns, type_of
from streamgda.data.sources.lists import expanded, is_list, length_of, places_of

_DATES_IN_TEXT = ", or parse dates, such as by pandas.to_datetime"

_RENAME = "rename all but one"


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
    left_out: frozenset[str] | None = None  # the columns that were excluded, if no features were named
    parts: tuple[Part, ...] = ()

    @classmethod
    def choose(
        cls,
        schema: pa.Schema,
        origin: str,
        target: str | None,
        features: Sequence[str] | None,
        exclude: Sequence[str],
        wanted: Wanted,
        weight: str | None,
        missing: Missing,
        stored: pa.Schema | None = None,
        first_rows: FirstRows | None = None,
    ) -> Self:
        """The roles that a user asks for, by the parameters of the functions that scan.

        Where no features are named, they are all the stored columns that have no role and are not excluded. A
        pattern among the features stands for the stored columns that match it. This warns if no features are
        named and a column named like an identifier becomes one.

        Parameters
        ----------
        schema : pyarrow.Schema
            All the columns. A type that is not known is null.
        origin : str
            What to call the data.
        target, features, exclude, weight, missing
            As for `scan_parquet`.
        wanted : "auto", Encoding or None
            Which features are encoded, and how.
        stored : pyarrow.Schema, optional
            The columns that may be features by default, and whose types are checked; all by default.
        first_rows : callable, optional
            Reads the first rows of some columns, if an error is to propose features.

        Raises
        ------
        ValueError
            If a column is not there, would have two roles, or has a type that its role cannot have.
        """
        check_missing(missing)
        for role, name in (("target", target), ("weight", weight)):
            if name is not None and not isinstance(name, str):
                raise TypeError(f"{role} is the name of one column; got {name!r:.80}")
        for argument, names in (("features", features), ("exclude", exclude)):
            if isinstance(names, str):
                raise ValueError(f"{argument} must be a list of column names; got the string {names!r}")
        if features is not None and exclude:
            raise ValueError("give features or exclude, not both: exclude takes all columns but some")
        all_names, stored = schema.names, schema if stored is None else stored
        index = (stored.pandas_metadata or {}).get("index_columns", [])  # of the frame that was written
        candidates = [name for name in stored.names if name not in (*index, target, weight)]
        left_out = None
        if features is None:
            left_out = frozenset(matching(map(str, exclude), all_names, origin))
            feature_names = [name for name in candidates if name not in left_out]
        else:
            feature_names = chosen(list(map(str, features)), all_names, candidates, origin)
        expanded_names, lists = expanded(feature_names, stored, origin, first_rows)
        roles = cls(expanded_names, target, weight, missing, lists=lists, left_out=left_out)
        roles.check_there(all_names, origin)
        roles._check_apart(origin)
        roles = roles.with_encoded(wanted, stored, origin)
        roles.check_types(stored, origin, first_rows)
        if features is None and target is not None:
            warn_of_identifiers(feature_names, stored, origin)
        return roles

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
    def identity(self) -> dict[str, Any]:
        """The expressions of the features that are computed, and the lengths of lists, as plain values."""
        columns = {name: column.identity for name, column in self.computed.items()}
        made = {"columns": columns} if self.derived else {}
        return {**made, "lists": dict(self.lists)} if self.lists else made

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
        stored_as: Any = read_options.get(AS_STORED, ())
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

    def check_file(self, schema: pa.Schema, origin: str) -> None:
        """Raise ValueError if a file with these columns is not as the roles need it."""
        self.check_there(schema.names, origin)
        self.check_types(schema, origin)

    def check_there(self, names: Collection[str], origin: str) -> None:
        """Raise ValueError for a column that is not there, with the name that may have been meant."""
        first = () if self.target is None else (self.target,)
        check_known((*first, *self.columns), names, origin)

    def _check_apart(self, origin: str) -> None:
        if self.target is not None and self.target == self.weight:
            raise ValueError(f"column {self.target!r} cannot be both target and weight")
        for role, name in (("target", self.target), ("weight", self.weight)):
            if name in self.features:
                raise ValueError(f"column {name!r} is the {role} and cannot be a feature too")
        if not self.features:
            raise ValueError(
                f"{origin}: there is at least one feature needed, and no column is left to be one"
            )
        if len(set(self.features)) != len(self.features):
            if self.left_out is not None:
                (name, _), *_ = Counter(self.features).most_common()
                raise ValueError(f"{origin}: there is more than one column {name!r}; {_RENAME}")
            raise ValueError(f"features must name each column once; got {list(self.features)!r}")

    def _check_features(
        self, types: dict[str, pa.DataType], origin: str, first_rows: FirstRows | None, is_frame: bool
    ) -> None:
        present = [name for name in self.features if name in types and name not in self.derived]
        wrong = [name for name in present if not self._can_be_feature(name, types[name])]
        if not wrong:
            return
        kinds = ", ".join(f"{name!r} ({types[name]})" for name in wrong)
        usable = [name for name in present if name not in wrong and not is_identifier(name)]
        text = [name for name in wrong if label_kind(types[name]) is not None]
        raise ValueError(
            f"{origin}: columns {kinds} cannot be features; "
            + ("leave them out" if is_frame else self._left_out(wrong, usable, text, first_rows))
            + (LEARNT_AS_TEXT if text else "")
            + (_DATES_IN_TEXT if text and is_frame else "")
        )

    def _left_out(
        self, wrong: list[str], usable: list[str], text: list[str], first_rows: FirstRows | None
    ) -> str:
        """How to scan data without the columns that cannot be features."""
        vain = uninformative(first_rows, usable)
        usable = [name for name in usable if name not in vain]
        is_target = f"if {text[0]!r} holds the labels, say target={text[0]!r}; else " if text else ""
        return (
            (is_target if self.target is None else "")
            + f"leave them out, with exclude={wrong!r}"
            + (f", or name the columns to use, as features={usable!r}" if usable else "")
            + (f" ({listed(vain)} have one value in the first rows, or one in each)" if vain else "")
        )

    def _can_be_feature(self, name: str, arrow_type: pa.DataType) -> bool:
        if self.encoding is not None and name in self.encoded:
            return self.encoding.takes(arrow_type)
        is_text_of_date = name in self.dates and label_kind(arrow_type) == "str"
        return is_number(arrow_type) or is_time(arrow_type) or is_text_of_date

    def _check_as_elsewhere(self, types: dict[str, pa.DataType], origin: str) -> None:
        """Raise ValueError for lists of another length, or dates in a column of numbers, or the other way."""
        for name, length in self.lists.items():
            kind = types.get(name)
            if kind is not None and not (is_list(kind) and length_of(kind) in {None, length}):
                raise ValueError(
                    f"{origin}: column {name!r} is {kind}; elsewhere it holds lists of {length} numbers"
                )
        for name in self.features:
            is_wrong = is_number if name in self.dates else is_time
            if name in types and name not in self.derived and is_wrong(types[name]):
                kinds = ["dates or times", "numbers"]
                there, here = kinds if name in self.dates else kinds[::-1]
                raise ValueError(
                    f"{origin}: column {name!r} is {types[name]}; elsewhere it holds {there}, here {here}"
                )

    def check_types(
        self, schema: pa.Schema, origin: str, first_rows: FirstRows | None = None, *, is_frame: bool = False
    ) -> None:
        """Raise ValueError if a column of the schema has a type that its role cannot have.

        Columns that the schema lacks, or whose type is null, are not checked. The remedies are those for
        data that is scanned, or for a frame that a model is given.
        """
        for name in self.columns:
            if len(schema.get_all_field_indices(name)) > 1:
                raise ValueError(f"{origin}: there is more than one column {name!r}; {_RENAME}")
        types = types_of(self.columns, schema)
        kinds = {name: kind for name, kind in types.items() if not pa.types.is_null(kind)}
        self._check_features(kinds, origin, first_rows, is_frame)
        if not is_frame:
            self._check_as_elsewhere(kinds, origin)
        if self.target is not None and self.target in kinds and label_kind(kinds[self.target]) is None:
            raise ValueError(
                f"{origin}: column {self.target!r} is {kinds[self.target]} and cannot be the target; labels "
                "are integers, strings or bools"
            )
        if self.weight in kinds and not is_number(kinds[self.weight]):
            raise ValueError(
                f"{origin}: column {self.weight!r} is {kinds[self.weight]} and cannot be the weight"
            )
