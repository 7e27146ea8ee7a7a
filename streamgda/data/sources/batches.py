"""Arrow record batches and frames in memory as blocks; their columns as numbers and labels."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamgda.data.blocks import labels
from streamgda.data.blocks.arrays import as_arrow
from streamgda.data.blocks.block import (
    INTEGERS_OF_FLOATS,
    Block,
    Column,
    Features,
    Matrix,
    Places,
    cut_into_blocks,
    rows_per_block,
    without_missing,
)
from streamgda.data.blocks.dates import datetimes_of, days, is_date
from streamgda.data.blocks.labels import Codes, Labels
from streamgda.data.blocks.parts import rows_of_parts
from streamgda.data.blocks.schema import MadeColumns, Schema, is_time
from streamgda.data.blocks.types import plain
from streamgda.data.blocks.wording import RowError, check_known
from streamgda.data.sources.columns.choosing import check_types
from streamgda.data.sources.columns.encoding import Wanted, by_names
from streamgda.data.sources.columns.expressions import in_words, values_of
from streamgda.data.sources.columns.lists import first_other, lengths_of, side_by_side
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.columns.types import label_kind
from streamgda.data.sources.splits import ScorableSplit

_ORIGIN = "the frame"


class BatchSplit(ScorableSplit):
    """A part of a source whose rows come in batches of Arrow. Columns without a role are passed over."""

    __slots__ = ()

    roles: Roles
    keep: tuple[str, ...] = ()  # the columns to keep beside predictions

    @abstractmethod
    def _batches(self) -> Iterable[tuple[pa.RecordBatch, Places]]:
        """Read the rows, in order, with their places."""

    @property
    def identity(self) -> Any:
        """Another one each time, where no version of the data tells whether it has changed."""
        return uuid.uuid4().hex

    @property
    def keeps_all_rows(self) -> bool:
        """Whether no row is left out."""
        return self.roles.keeps_all_rows

    def blocks(self, among: Labels | None = None) -> Iterator[Block]:
        """Read the rows, in order."""
        for batch, places in self._batches():
            yield from _blocks_of_batch(*_in_parts(batch, places, self.roles), self.roles, among)
            del batch  # or it would be in memory while the next one is decoded

    def tables(self) -> Iterator[pa.Table]:
        """Read the features, the target and the weight as they are stored, in order."""
        for batch, places in self._batches():
            part, places_of_part = _in_parts(batch, places, self.roles)
            columns = _columns_of(part, self.roles, places_of_part)
            yield pa.table({name: columns[name] for name in self.roles.shown})
            del batch, part, columns

    def features(self) -> Iterator[tuple[Block, Mapping[str, pa.Array]]]:
        """Read the features of each batch as a block of one class, and the columns to keep."""
        for every, places_of_all in self._batches():
            batch, places = _in_parts(every, places_of_all, self.roles)
            del every
            features, names = _features(_columns_of(batch, self.roles, places), self.roles, places)
            one_class, codes = np.zeros(1, np.int64), np.zeros(batch.num_rows, np.uint8)
            block = Block(features, one_class, codes, feature_names=names, row_name=places)
            yield without_missing(block, {name: batch.column(name) for name in self.keep}, self.roles.missing)
            del batch, features, block


def _blocks_of_batch(
    batch: pa.RecordBatch, row_name: Places, roles: Roles, among: Labels | None
) -> Iterator[Block]:
    origin = row_name.origin
    if roles.target is None:
        raise ValueError(
            f"{origin}: no target is named; name the column of labels where the data is scanned, as target="
        )
    columns = _columns_of(batch, roles, row_name)
    classes, codes, unlabelled = labels_of(columns[roles.target], f"{origin}: target {roles.target!r}", among)
    features, names = _features(columns, roles, row_name)
    block = Block(
        features,
        classes,
        codes,
        None if roles.weight is None else _number(columns, roles.weight, origin),
        names,
        row_name=row_name,
        groups=None if roles.groups is None else _groups(columns[roles.groups], roles.groups, row_name),
        dates=_dates(columns, roles),
        lists=tuple(sorted(roles.lists.items())),
    )
    return cut_into_blocks(block, roles.missing, unlabelled)


def _in_parts(batch: pa.RecordBatch, places: Places, roles: Roles) -> tuple[pa.RecordBatch, Places]:
    """The rows of a batch that are in the parts to be read, and their places."""
    if not roles.parts:
        return batch, places

    def read(name: str) -> tuple[Labels, Codes]:
        return _groups(plain(batch.column(name)), name, places)

    rows = rows_of_parts(roles.parts, places, batch.num_rows, read)
    return batch.take(pa.array(rows)), places.take(rows)


def rebatched(
    batches: Iterable[pa.RecordBatch], roles: Roles, places: Places, keep: Sequence[str] = ()
) -> Iterator[tuple[pa.RecordBatch, Places]]:
    """The rows in batches of a block each, the same however they were cut before.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        In order.
    roles : Roles
        What the columns are.
    places : Places
        Those of the rows, from the first one on.
    keep : sequence of str
        Other columns to keep.
    """
    columns = list(dict.fromkeys((*roles.columns, *keep)))
    size = rows_per_block(len(roles.features))
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch.select(columns))
        rows += batch.num_rows
        while rows >= size:
            table = pa.Table.from_batches(waiting)
            yield _one_batch(table.slice(0, size)), places
            waiting, rows, places = table.slice(size).to_batches(), rows - size, places.after(size)
    if rows:
        yield _one_batch(pa.Table.from_batches(waiting)), places


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches()
    return batch


# ---------------------------------------------------------------------- the columns of a batch


def _columns_of(batch: pa.RecordBatch, roles: Roles, row_name: Places) -> dict[str, pa.Array]:
    """The columns of a batch, with dates in place of texts of dates, and the features that are computed."""
    columns = dict(zip(batch.schema.names, map(plain, batch.columns), strict=True))
    for name in roles.dates:
        if name in columns and label_kind(columns[name].type) == "str":
            try:
                columns[name] = pa.array(datetimes_of(columns[name].to_pylist(), name))
            except RowError as error:
                raise error.named(row_name) from error
    if roles.derived:
        try:
            columns |= values_of(batch, roles.computed)
        except RowError as error:
            raise error.named(row_name) from error
        except pa.ArrowException as error:
            raise ValueError(f"{row_name.origin}: {in_words(error)}") from error
    return columns


def _features(
    columns: Mapping[str, pa.Array], roles: Roles, row_name: Places
) -> tuple[Features | MadeColumns, tuple[str, ...]]:
    """The features among the columns of a batch, and their names."""
    if not roles.encoded:
        return _numbers(columns, roles, row_name), roles.features
    features = made_columns(columns, roles, row_name)
    return features, features.schema.feature_names or ()


def made_columns(columns: Mapping[str, pa.Array], roles: Roles, row_name: Places) -> MadeColumns:
    """The features among the columns of a batch, by name, of which some are encoded."""
    assert roles.encoding is not None  # by which they are encoded
    encoded = {name: columns[name] for name in roles.encoded}
    names = [name for name in roles.features if name not in encoded]
    numbers = _numbers(columns, roles, row_name)
    each = list(numbers.T) if isinstance(numbers, np.ndarray) else numbers
    made = roles.encoding.read(encoded, dict(zip(names, each, strict=True)), row_name.origin)
    dates = _dates(columns, roles)
    return made.onto(made.schema.with_types(dates, ())) if dates else made


def _dates(columns: Mapping[str, pa.Array], roles: Roles) -> tuple[str, ...]:
    """The features among the columns of a batch that are dates."""
    names = (name for name in (*roles.dates, *roles.derived) if name in columns)
    return tuple(name for name in names if is_date(columns[name].type))


def _numbers(columns: Mapping[str, pa.Array], roles: Roles, row_name: Places) -> Features:
    """The features that are numbers: a matrix if some are places of lists, whose numbers lie in rows."""
    origin = row_name.origin
    if not roles.lists:
        return [_number(columns, name, origin) for name in roles.features if name not in roles.encoded]
    lists = {
        name: matrix_of_lists(columns[name], length, name, row_name) for name, length in roles.lists.items()
    }
    return side_by_side(
        [
            _number(columns, name, origin)[:, None] if places is None else lists[name][:, places]
            for name, places in roles.runs
            if name not in roles.encoded
        ]
    )


def _number(columns: Mapping[str, pa.Array], name: str, origin: str) -> Column:
    try:
        return numbers(columns[name])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        value = columns[name][0].as_py()
        raise ValueError(
            f"{origin}: partition key {name}={value!r} is not a number; to learn it as text, scan "
            + by_names([name])
        ) from error


def labels_of(
    column: pa.Array, called: str, among: Labels | None = None
) -> tuple[Labels, Codes, NDArray[np.bool_] | None]:
    """What `codes` returns of a column; errors begin with what the column is called."""
    try:
        return codes(column, among)
    except ValueError as error:
        raise ValueError(f"{called}: {error}") from error


def _groups(column: pa.Array, name: str, row_name: Places) -> tuple[Labels, Codes]:
    """The values of the column that groups the rows or names their folds, and their codes."""
    if pa.types.is_nested(column.type):
        raise ValueError(
            f"{row_name.origin}: column {name!r} is {column.type} and cannot group rows; name a column of "
            "integers, text, bools or dates"
        )
    if is_time(column.type):
        values, codes = np.unique(moments := days(column), return_inverse=True)
        missing = np.isnan(moments) if column.null_count else None
    else:
        values, codes, missing = labels_of(column, f"{row_name.origin}: groups or folds {name!r}")
    if missing is not None:
        raise ValueError(
            f"{row_name(int(np.argmax(missing)))}: column {name!r} has no value, "
            "so the row is of no fold or part. Mend the data, or leave out such rows by a filter"
        )
    return values, codes


# ---------------------------------------------------------------------- frames in memory


def learnt_columns(frame: Any, wanted: Wanted) -> MadeColumns | None:
    """The columns of a frame of pandas, Polars or Arrow to learn from; None if all are numbers.

    Parameters
    ----------
    frame : frame
        All its columns are features.
    wanted : "auto", Encoding or None
        Which features are encoded, and how.

    Raises
    ------
    ValueError
        If a column can be no feature.
    """
    table = as_arrow(frame)
    # "marginal" lets rows with NaN through: the model decides later, by its own parameter.
    schema = table.schema.remove_metadata()  # pandas's index in an Arrow table is a column as all others
    roles = Roles(tuple(schema.names), None, None, "marginal").with_encoded(wanted, schema, _ORIGIN)
    return columns_of_frame(table, roles) if roles.encoded else None


def known_columns(frame: Any, schema: Schema) -> MadeColumns:
    """The columns of a frame that a model has learnt, with the values that the frame has.

    Raises
    ------
    ValueError
        If there is no such column, or it cannot have its role.
    """
    table = as_arrow(frame)
    assert schema.names is not None
    check_known(schema.names, table.schema.names, _ORIGIN)
    roles = Roles(schema.names, None, None, "marginal").with_encoded(schema.encoding, table.schema, _ORIGIN)
    return columns_of_frame(table, roles)


def columns_of_frame(table: pa.Table, roles: Roles, origin: str = _ORIGIN) -> MadeColumns:
    """The features of a table, of which some are encoded.

    Raises
    ------
    ValueError
        If a column can be no feature.
    """
    check_types(roles, table.schema, origin, is_frame=True)
    columns = {name: table.column(name).combine_chunks() for name in roles.features}
    return made_columns(columns, roles, Places(origin))


# ---------------------------------------------------------------------- columns as numbers and as codes


def numbers(column: pa.Array) -> NDArray[Any]:
    """A column as numbers, with NaN for nulls. It is not copied if Arrow holds it as NumPy does."""
    try:
        values: NDArray[Any] = column.to_numpy()
    except pa.ArrowInvalid:  # NumPy has no equivalent of nulls, packed bools, decimals and some times
        if is_time(column.type):
            return days(column)
        if pa.types.is_integer(column.type) and column.type.bit_width == 64:
            return _integers_with_nulls(column)
        if pa.types.is_decimal(column.type):
            return _decimals(column)
        values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return days(column) if values.dtype.kind in "mM" else values


def _integers_with_nulls(column: pa.Array) -> NDArray[Any]:
    """As float64 if that holds them exactly, else as long double, so that a source does not round."""
    try:
        values: NDArray[Any] = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = pc.fill_null(column, 0).to_numpy().astype(np.longdouble)
        values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return values


def _decimals(column: pa.Array) -> NDArray[Any]:
    """As float64; if some are beyond 2^53, as integers or as long double, so that a source does not round."""
    values: NDArray[Any] = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if not (np.abs(values) >= INTEGERS_OF_FLOATS).any():
        return values
    try:
        return numbers(pc.cast(column, pa.int64()))
    except pa.ArrowInvalid:
        if np.dtype(np.longdouble).itemsize == values.itemsize:  # this platform has no longer floats
            return values
        return np.array([_longer(v) for v in column.to_pylist()], dtype=np.longdouble)


def _longer(value: Decimal | None) -> np.longdouble:
    """The decimal as a long double, which is no float64 value unless the decimal is one."""
    nearest = np.longdouble("nan" if value is None else str(value))
    is_exact = value is None or Decimal(float(value)) == value or nearest != float(value)
    return nearest if is_exact else nearest * (1 + np.finfo(np.longdouble).eps)


def matrix_of_lists(column: pa.Array, length: int, name: str, row_name: Callable[[int], str]) -> Matrix:
    """The numbers in a column of lists, (n_rows, length), with NaN for nulls and in rows whose list is null.

    They are not copied if no list is null and Arrow holds them as NumPy does.

    Raises
    ------
    ValueError
        If a list has another length.
    """
    if pa.types.is_null(column.type):
        column = pa.nulls(len(column), pa.list_(pa.float64()))
    lists, lengths = column, lengths_of(column)
    if (other := first_other(lengths, length)) is not None:
        raise ValueError(
            f"{row_name(other)}: the list in column {name!r} has {lengths[other]} numbers, and {length} are "
            "the features. Mend or leave out such rows"
        )
    values = lists.flatten()
    if lists.null_count:
        there = lists.is_valid().to_numpy(zero_copy_only=False)
        rows = np.cumsum(there) - 1
        places = (rows[:, None] * length + np.arange(length)).ravel()
        values = values.take(pa.array(places, mask=~np.repeat(there, length)))
    return numbers(values).reshape(-1, length)


def codes(column: pa.Array, among: Labels | None = None) -> tuple[Labels, Codes, NDArray[np.bool_] | None]:
    """The sorted labels of a column, a code for each row, and which rows have no label, if any.

    A row without a label has code 0. `among` are the labels that count, as for `labels.encode`.
    """
    if pa.types.is_null(column.type):
        return labels.no_labels(), np.zeros(len(column), np.uint8), np.ones(len(column), np.bool_)
    if pa.types.is_integer(column.type) and not column.null_count:
        return labels.encode(column.to_numpy(), among)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    null = encoded.indices.is_null().to_numpy(zero_copy_only=False)
    positions = pc.fill_null(encoded.indices, 0).to_numpy()
    # Unused values may be no labels.
    is_used = np.bincount(positions[~null], minlength=len(encoded.dictionary)) > 0
    values = np.empty(len(is_used), dtype=object)
    values[:] = encoded.dictionary.to_pylist()
    classes, class_codes, no_label = labels.encode(values[is_used], among)
    # Where all is null, nothing is in the dictionary.
    code_of = np.zeros(max(len(is_used), 1), dtype=class_codes.dtype)
    code_of[np.flatnonzero(is_used)] = class_codes
    if no_label is not None:
        is_none = np.zeros(len(is_used), np.bool_)
        is_none[is_used] = no_label
        null = null | is_none[positions]
    return *labels.drop_unused(classes, code_of[positions]), null if null.any() else None
