"""Categories: the values of columns that are not numbers, and rows in which such columns are coded.

A column with categories stands for one feature for each of its values, a dummy: 1 in the rows that have the
value and 0 in all others. A value that no row has is a dummy of zeros. So rows of unlike categories are
brought to the same features by name and value, whatever codes they had.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, compress, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamgda.data.blocks.block import Block
from streamgda.data.blocks.labels import Codes, Labels, code_dtype
from streamgda.data.blocks.schema import Lists, MadeColumns, Schema, among, check_same_names, lists_among
from streamgda.data.blocks.wording import callers_level, counted, listed, value_named
from streamgda.data.sources.columns.names import is_identifier
from streamgda.extensions.categories.text import read_as_what
from streamgda.models.gaussians.whitening import constant_features
from streamgda.statistics.base import Statistics
from streamgda.statistics.covariances import CovarianceKind
from streamgda.statistics.floating.moments import Moments
from streamgda.statistics.kernels import Workspace

Value = str | int | bool | None

MOST_CATEGORIES = 2_000
"""The most categories of a column: the size of a state grows with the square of their number."""

_FEWEST_OF_IDENTIFIER = 20
_SHARE_OF_IDENTIFIER = 0.9


@dataclass(frozen=True)
class Categories(Schema):
    """The columns of a table with categories, and their values.

    Its features are the columns of numbers, in order, and then a dummy for each value of each other column.

    Attributes
    ----------
    numbers : tuple of str
        The columns of numbers.
    columns : tuple of str
        The columns with categories.
    values : tuple of tuple of str, int, bool or None
        The values of each of these columns, sorted; None, which stands for a missing value, comes last.
    dates : tuple of str
        The columns of numbers that hold dates.
    lists : tuple of pairs of str and int
        The columns of lists of which numbers are places, and the lengths of the lists.

    Examples
    --------
    >>> categories = Categories(("age",), ("colour",), (("blue", "red", None),))
    >>> categories.feature_names
    ('age', 'colour=blue', 'colour=red', 'colour=(missing)')
    >>> categories.union(Categories(("age",), ("colour",), (("green",),))).values
    (('blue', 'green', 'red', None),)
    """

    saved_as: ClassVar[str] = "categories"

    numbers: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    dates: tuple[str, ...] = ()
    lists: Lists = ()

    def with_types(self, dates: tuple[str, ...], lists: Lists) -> Categories:
        """The same columns, where the numbers of these names are dates, or places of these lists."""
        return replace(self, dates=among(dates, self.numbers), lists=lists_among(lists, self.numbers))

    def n_numbers(self, n_features: int = 0) -> int:
        """How many columns are numbers."""
        return len(self.numbers)

    @property
    def encoded(self) -> tuple[str, ...]:
        """The columns with categories."""
        return self.columns

    @cached_property
    def encoding(self) -> Any:
        """The option that names these columns."""
        from streamgda.extensions.categories.reading import Categorical

        return Categorical(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table: those of numbers, then those with categories."""
        return (*self.numbers, *self.columns)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of numbers, and "column=value" for each dummy, "(missing)" for a missing value."""
        dummies = (
            f"{column}={value_named(value)}"
            for column, values in zip(self.columns, self.values, strict=True)
            for value in values
        )
        return (*self.numbers, *dummies)

    def is_normal_for(self, model: Any) -> bool:
        """Whether the categories are features like others."""
        from streamgda.extensions.categories.reading import Categorical

        return Categorical.of(model).treatment(model) in {None, "features"}

    def viewed(self, view: Any, model: Any) -> Any:
        """What a model reads of statistics with categories."""
        from streamgda.extensions.categories.treatments import viewed

        return viewed(self, view, model)

    def values_by_column(self) -> dict[str, list[Any]]:
        """The categories of each column."""
        return dict(zip(self.columns, map(list, self.values), strict=True))

    def before(self, peer: Any) -> Any:
        """A pipeline that takes frames, encodes their categories as dummies, and ends with a fitted peer."""
        import pandas as pd
        from sklearn.compose import ColumnTransformer
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import OneHotEncoder

        known: list[Any] = []
        for values in self.values:
            is_text = any(isinstance(value, str) for value in values)
            plain = [np.nan if value is None else value for value in values]
            known.append(np.array(plain, dtype=object if is_text else None))
        encoder = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False)
        numbers, others = list(self.numbers), list(self.columns)
        columns = ColumnTransformer([("numbers", "passthrough", numbers), ("categories", encoder, others)])
        row = pd.DataFrame({name: values[:1] for name, values in zip(others, known, strict=True)})
        columns.fit(row.assign(**dict.fromkeys(numbers, 0.0))[list(self.names)])
        peer.n_features_in_ = len(self.feature_names)
        peer.__dict__.pop("feature_names_in_", None)
        return Pipeline([("columns", columns), ("model", peer)])

    def sql_of(self, sql: Any, *, depends: bool) -> tuple[list[str], list[str]]:
        """The codes of each row's values, NULL for one that was not learnt, and the dummies made of them.

        The dummies of a value that was not learnt are 0. They are NULL where densities are summed over all
        values.
        """
        codes, dummies = [], []
        columns = zip(self.columns, self.values, self.slices, strict=True)
        for c, (column, values, place) in enumerate(columns):
            name = sql.name(column)
            tests = ["IS NULL" if value is None else f"= {sql.literal(value)}" for value in values]
            cases = " ".join(f"WHEN {name} {test} THEN {i}" for i, test in enumerate(tests))
            codes.append(f"CASE {cases} END AS gda_c{c}")
            other = f"WHEN gda_c{c} IS NOT NULL THEN 0e0" if depends else "ELSE 0e0"
            for code, j in enumerate(range(place.start, place.stop)):
                dummies.append(f"CASE WHEN gda_c{c} = {code} THEN 1e0 {other} END AS gda_x{j}")
        return codes, dummies

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where the dummies of each column, which sum to one, stand among the features."""
        bounds = accumulate(map(len, self.values), initial=self.n_numbers())
        return tuple(slice(start, stop) for start, stop in pairwise(bounds))

    sums_to_one = slices

    def union(self, other: Schema) -> Categories:
        """The categories of both.

        Raises
        ------
        ValueError
            If the two have other columns, or values of different types.
        """
        if not isinstance(other, Categories):
            check_same_names(self.feature_names, other.feature_names)
            return self
        if self == other:
            return self
        if (self.numbers, self.columns) != (other.numbers, other.columns):
            raise ValueError(
                f"tables with other columns cannot be merged: numbers are {list(self.numbers)} and "
                f"{list(other.numbers)}, categories are {list(self.columns)} and {list(other.columns)}"
            )
        values = tuple(map(_united, self.columns, self.values, other.values))
        dates, lists = (*self.dates, *other.dates), (*self.lists, *other.lists)
        return replace(self, values=values).with_types(dates, lists)

    def places_in(self, other: Any) -> NDArray[np.intp] | None:
        """Where the features stand among those of `other`, which has all of them."""
        if self.values == other.values:
            return None
        parts = [np.arange(self.n_numbers())]
        for ours, theirs, place in zip(self.values, other.values, other.slices, strict=True):
            parts.append(place.start + _positions(ours, theirs))
        return np.concatenate(parts)

    def check_size(self, n_rows: int, features: Any = None) -> None:
        """Raise ValueError if a column has more categories than a state may have."""
        if max(map(len, self.values), default=0) > MOST_CATEGORIES:
            numbers = features.numbers if isinstance(features, MixedColumns) else ()
            self._refuse(n_rows, [column.min() == column.max() for column in numbers])

    def check_no_identifier(self, statistics: Statistics) -> None:
        """Raise ValueError if a column has a value of its own in nearly every row of these statistics."""
        n_rows = statistics.n_rows
        if max(map(len, self.values), default=0) > _most_categories(n_rows):
            means = statistics.overall_mean()[None]
            self._refuse(n_rows, constant_features(statistics.total_variance(), means))

    def misread(self) -> dict[str, str]:
        """What columns of dates or numbers hold that are learnt as text, and how to read them."""
        told = {name: read_as_what(name, values) for name, values in self.values_by_column().items()}
        return {name: holds for name, holds in told.items() if holds}

    def _refuse(self, n_rows: int, is_constant: Iterable[bool]) -> None:
        """Name the columns with too many values, and the columns to use, without constant numbers."""
        values_of, most = self.values_by_column(), _most_categories(n_rows)
        wrong = {name: values for name, values in values_of.items() if len(values) > most}
        told = {name: read_as_what(name, values) for name, values in wrong.items()}
        found = [
            f"column {name!r} has {counted(len(values), 'category')} in {counted(n_rows, 'row')}: "
            + (told[name] or _fault(len(values), n_rows))
            for name, values in wrong.items()
        ]
        others = [name for name in wrong if not told[name]]
        alike = [name for name, values in values_of.items() if len(values) == 1]
        vain = {*wrong, *alike, *compress(self.numbers, is_constant)}
        usable = [name for name in self.names if name not in vain and not is_identifier(name)]
        those = listed(others) if len(others) < len(wrong) else "it" if len(wrong) == 1 else "them"
        out = f". Leave {those} out, of a source with exclude={others!r}" if others else ""
        named = f", or name the columns to use, as features={usable!r}" if others and usable else ""
        raise ValueError("; ".join(found) + out + named)

    def to_document(self) -> dict[str, Any]:
        """The categories as plain values, from which `from_plain` makes them again."""
        return {"numbers": self.numbers, "columns": self.columns, "values": self.values}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The categories of which these are the plain values.

        Raises
        ------
        ValueError
            If they are not sorted, not of one type, or not as many as there are columns.
        """
        numbers, columns = (tuple(map(str, plain[name])) for name in ("numbers", "columns"))
        values = tuple(map(tuple, plain["values"]))
        for name, own in zip(columns, values, strict=True):
            if _united(name, own, own) != own:
                raise ValueError(f"the categories of column {name!r} are not sorted")
        return cls(numbers, columns, values)


def _most_categories(n_rows: int) -> float:
    return min(max(_SHARE_OF_IDENTIFIER * n_rows, _FEWEST_OF_IDENTIFIER), MOST_CATEGORIES)


def _fault(n_values: int, n_rows: int) -> str:
    return "it identifies rows" if n_values > n_rows / 2 else f"{MOST_CATEGORIES:,} are the most"


def _united(name: str, ours: tuple[Value, ...], theirs: tuple[Value, ...]) -> tuple[Value, ...]:
    """The sorted values of a column that are in one of two sets."""
    values = [value for value in (*ours, *theirs) if value is not None]
    kinds = {type(value): value for value in values}
    if len(kinds) > 1:
        examples = " and ".join(map(repr, kinds.values()))
        raise ValueError(
            f"column {name!r} has categories of different types, such as {examples}; make all of them strings"
        )
    missing = (None,) if None in ours or None in theirs else ()
    return (*sorted(set(values)), *missing)


def _positions(ours: tuple[Value, ...], theirs: tuple[Value, ...]) -> NDArray[np.intp]:
    """The position of each value in another set; for a value that is not in it, the size of the set.

    Text and others are compared as text: in CSV, other rows of the file decide whether 1 is a number.
    """
    is_text = {isinstance(value, str) for value in (*ours, *theirs) if value is not None}
    if len(is_text) == 2:
        ours, theirs = (tuple(v if v is None else str(v) for v in values) for values in (ours, theirs))
    place = {value: position for position, value in enumerate(theirs)}
    return np.array([place.get(value, len(theirs)) for value in ours], dtype=np.intp)


def coded(values: Labels, codes: Codes, missing: NDArray[np.bool_] | None) -> tuple[tuple[Value, ...], Codes]:
    """The values of a column, and the code of each row, with a category for the rows that are `missing`."""
    known: tuple[Value, ...] = tuple(values.tolist())
    if missing is None:
        return known, codes
    return (*known, None), np.where(missing, len(known), codes).astype(code_dtype(len(known) + 1))


@dataclass(frozen=True)
class MixedColumns(MadeColumns):
    """The features of rows with categories, of which only the numbers and the codes are in memory.

    As a sequence, it holds a column for each feature. A dummy is made when it is asked for.

    Attributes
    ----------
    schema : Categories
        The columns and their values.
    numbers : sequence of ndarray of shape (n_rows,)
        The columns of numbers.
    codes : sequence of ndarray of shape (n_rows,)
        The position in the values of each row's value, for each column with categories. A code that is the
        number of values stands for a value that is not among them.
    """

    schema: Categories
    numbers: Sequence[NDArray[Any]]
    codes: Sequence[Codes]

    def __len__(self) -> int:
        return len(self.numbers) + sum(map(len, self.schema.values))

    def __getitem__(self, index: Any) -> Any:
        if index < len(self.numbers):
            return self.numbers[index]
        for codes, place in zip(self.codes, self.schema.slices, strict=True):
            if index < place.stop:
                return (codes == index - place.start).view(np.uint8)
        raise IndexError(index)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.codes[0])

    @property
    def n_columns(self) -> int:
        """How many columns are in memory."""
        return len(self.numbers) + len(self.codes)

    def rows(self, rows: slice | NDArray[np.intp]) -> MixedColumns:
        """Some of the rows."""
        numbers, codes = ([column[rows] for column in columns] for columns in (self.numbers, self.codes))
        return replace(self, numbers=numbers, codes=codes)

    def reduced(self, block: Block, kind: CovarianceKind, workspace: Workspace) -> Moments | None:
        """The moments of the classes, without dummies in memory; None if no column is of numbers."""
        if not self.numbers:
            return None
        from streamgda.extensions.categories.reduction import reduce_mixed

        return reduce_mixed(block, self, kind, workspace)

    def encoded(self, schema: Categories) -> NDArray[np.float64]:
        """The rows as numbers and dummies of these categories: (n_rows, n_features).

        Warns
        -----
        UserWarning
            If rows have a category that is not among these. All dummies of its column are then 0.
        """
        known = self.onto(schema)
        if unseen := known.n_unseen():
            where = ", ".join(f"{name!r} in {counted(n, 'row')}" for name, n in unseen.items())
            warnings.warn(
                f"categories that no learnt row has, missing ones too, count as none at all: of {where}",
                stacklevel=callers_level(),
            )
        return np.stack([*known], axis=1, dtype=np.float64)

    def onto(self, categories: Categories) -> MixedColumns:
        """The same rows with other categories of the same columns. A value not among them has no dummy."""
        if categories.values == self.schema.values:
            return replace(self, schema=categories)
        codes = [
            np.append(_positions(ours, theirs), len(theirs)).astype(code_dtype(len(theirs) + 1))[column]
            for ours, theirs, column in zip(self.schema.values, categories.values, self.codes, strict=True)
        ]
        return replace(self, schema=categories, codes=codes)

    def by_name(self) -> dict[str, NDArray[Any]]:
        """The columns by their names, with the values of the categories, which must all be known."""
        decoded = [
            np.array(values, dtype=object)[codes]
            for values, codes in zip(self.schema.values, self.codes, strict=True)
        ]
        return dict(zip(self.schema.names, (*self.numbers, *decoded), strict=True))

    def n_unseen(self) -> dict[str, int]:
        """The rows of each column whose value is not among its categories, where there are such rows."""
        known = zip(self.schema.columns, self.schema.values, self.codes, strict=True)
        counts = {name: int((codes == len(values)).sum()) for name, values, codes in known}
        return {name: count for name, count in counts.items() if count}
