"""Rows in memory, as an array or a data frame of pandas, Polars or Arrow, cut into blocks.

Most functions read a frame as a whole. A call for each column would take longer than the prediction of a row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import chain, zip_longest
from numbers import Number
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks import labels, wording
from streamgda.data.blocks.block import (
    INTEGERS_OF_FLOATS,
    NOWHERE,
    Block,
    Matrix,
    Missing,
    Places,
    cut_into_blocks,
)
from streamgda.data.blocks.dates import datetimes_of, days, is_date
from streamgda.data.blocks.labels import Codes, Labels
from streamgda.data.blocks.parts import Part, rows_of_parts
from streamgda.data.blocks.schema import UNNAMED, Lists, MadeColumns, Schema, column_of, is_time
from streamgda.data.blocks.sparse import SparseRows, is_sparse
from streamgda.data.blocks.wording import RowError
from streamgda.data.registry import LISTS


def library_of(X: Any) -> str:
    """The name of the library that defines the type of an object."""
    return type(X).__module__.partition(".")[0]


def as_table(
    X: Any, known: Sequence[str] = (), *, numbers: Collection[str] = (), dates: Collection[str] = ()
) -> Any:
    """Rows of Arrow, and dicts of rows or of columns, as an Arrow table of plain types; else as they are.

    A dict is one row if it holds a single value. It is one row, too, if it lacks all features of a model,
    `known`, and has a list of numbers whose places are among them. The columns that are named as `numbers`
    or `dates` must hold these.
    """
    if library_of(X) == "pyarrow" and hasattr(X, "schema") and hasattr(X, "columns"):
        return as_arrow(X)
    X = [X] if type(X) is dict and (any(map(_is_single, X.values())) or _is_one_list(X, known)) else X
    rows = X if isinstance(X, list | tuple) and X and type(X[0]) is dict else None
    if not (rows or type(X) is dict):
        return X
    import pyarrow as pa  # where it is used

    if rows:
        names = dict.fromkeys(chain.from_iterable(rows))  # of all rows: Arrow takes those of the first
        X = {name: [row.get(name) for row in rows] for name in names}
    if unnamed := [name for name in X if not isinstance(name, str)]:
        raise ValueError(f"keys of rows are the names of columns, which are text; got {unnamed[0]!r:.80}")
    for name in X.keys() & {*numbers}:
        check_numbers(X[name], name)
    each = X.items()
    return pa.table({name: _in_arrow(name, values, holds_dates=name in dates) for name, values in each})


def _in_arrow(name: Any, values: Any, *, holds_dates: bool = False) -> Any:
    """The values of a key of records as a column of Arrow; dates of any type as timestamps in UTC.

    Texts are dates if the column is known to hold them.

    Raises
    ------
    RowError
        If a value is of another type than those before, or beyond what Arrow holds.
    """
    import pyarrow as pa

    values = list(values) if getattr(values, "ndim", 1) > 1 else values  # a matrix is a column of lists
    if not isinstance(values, list | tuple) and getattr(values, "dtype", None) != np.dtype(object):
        return values
    values = list(values)
    if holds_dates or any(isinstance(value, date | np.datetime64) for value in values):
        return pa.array(datetimes_of(values, name))
    try:
        return _array(values)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        row = bisect_left(range(len(values)), True, key=lambda last: not _fits(values[: last + 1]))
        fault = f": column {name!r} holds {values[row]!r:.80}: {error}. A column holds values of one type"
        raise RowError(row, fault) from error


def _array(values: list[Any]) -> Any:
    """An array of Arrow; of uint64, if there is an integer that only this type holds."""
    import pyarrow as pa

    largest = max((value for value in values if type(value) is int), default=0)
    return pa.array(values, pa.uint64() if 1 << 63 <= largest < 1 << 64 else None, from_pandas=True)


def _fits(values: Any) -> bool:
    """Whether Arrow has a type for values of Python."""
    import pyarrow as pa

    try:
        _array(values)
    except (pa.ArrowException, TypeError, OverflowError):
        return False
    return True


def check_numbers(values: Iterable[Any], name: Any) -> None:
    """Raise RowError for the first value of a column that is text, a container or beyond float64."""
    for row, value in enumerate(values):
        is_wide = isinstance(value, int) and abs(value) >= 1 << 1024
        if is_wide or isinstance(value, _NO_NUMBERS):
            why = "is beyond float64" if is_wide else "is none"
            raise RowError(row, f": column {name!r} holds numbers, and {value!r:.80} {why}; give a number")


_NO_NUMBERS = (str, bytes, list, tuple, dict, set, complex, np.ndarray)


def check_known_numbers(frame: Any, names: Collection[str]) -> None:
    """Raise RowError if a column of a frame with one of these names holds something else than numbers."""
    for name in columns_of_other_types(frame):
        if name in names:
            column = frame[name]
            check_numbers(column.to_pylist() if hasattr(column, "to_pylist") else column, name)


def _is_single(value: Any) -> bool:
    """Whether a value of a dict is no column, so that the dict is a row."""
    return not isinstance(value, list | tuple) and np.ndim(value) == 0


def _is_one_list(columns: dict[Any, Any], known: Sequence[str]) -> bool:
    """Whether a dict is a row that lacks all features, but has a list of numbers whose places they are."""
    if not columns.keys().isdisjoint(known):
        return False
    lists = set(map(column_of, known))
    return any(
        name in lists and any(isinstance(value, Number) for value in values)
        for name, values in columns.items()
    )


def as_arrow(frame: Any, origin: str = "the frame") -> Any:
    """A frame of pandas, Polars or Arrow as a table, without the index of a pandas frame.

    Raises
    ------
    ValueError
        If Arrow has no type for a column.
    """
    import pyarrow as pa

    from streamgda.data.blocks.types import plain_table

    library = library_of(frame)
    try:
        if library == "pandas":
            table = pa.Table.from_pandas(frame, preserve_index=False)
        else:
            table = frame if isinstance(frame, pa.Table) else pa.table(frame)
        return plain_table(table)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        reason = "; ".join(map(str, error.args[::-1]))  # the column, then why
        raise ValueError(f"{origin}: {reason}. A column holds values of one type") from error


def times_as_days(frame: Any) -> Any:
    """A frame whose dates, times and durations are numbers of days; as it is if it has none."""
    kinds = set(column_types(frame))  # many columns have few types
    has_objects = np.dtype(object) in kinds and library_of(frame) == "pandas"
    if not any(map(is_time, kinds)) and not (has_objects and _has_times_among_objects(frame)):
        return frame
    table = as_arrow(frame).replace_schema_metadata()  # which tells the types that columns had in pandas
    for i, field in enumerate(table.schema):
        if is_time(field.type):
            table = table.set_column(i, field.name, [days(table.column(i).combine_chunks())])
    return table.to_pandas().set_axis(column_labels(frame), axis=1)


def _has_times_among_objects(frame: Any) -> bool:
    """Whether the first value of a column of objects is a date, a time or a duration of Python."""
    columns = (frame.iloc[:, i] for i, kind in enumerate(frame.dtypes) if kind == "object")
    return any(isinstance(_first(one), _TIMES) for one in columns)


_TIMES = (date, time, timedelta)


def _first(column: Any) -> Any:
    """The first value of a column of pandas; None if it has none."""
    return next(iter(column.dropna()), None)


def date_columns(frame: Any) -> tuple[str, ...]:
    """The names of the columns of a frame that hold dates; none of an array."""
    names = column_names(frame) if hasattr(frame, "__array__") else None  # a lazy one is refused later
    if names is None:
        return ()
    kinds = column_types(frame)
    dated = {kind for kind in set(kinds) if is_date(kind)}
    objects = np.dtype(object) if library_of(frame) == "pandas" else None
    return tuple(
        name
        for name, kind in zip(names, kinds, strict=False)
        if kind in dated or (kind == objects and isinstance(_first(frame[name]), date))
    )


def column_labels(X: Any) -> list[Any] | None:
    """The labels of the columns of a frame; None for an array."""
    if library_of(X) == "pyarrow" and hasattr(X, "schema"):  # its `columns` are not names
        return list(X.schema.names)
    return list(X.columns) if hasattr(X, "columns") else None


def column_types(X: Any) -> list[Any]:
    """The types of the columns of a frame, in order, those of Arrow as plain ones; none of an array."""
    if library_of(X) == "pyarrow" and hasattr(X, "schema"):
        from streamgda.data.blocks.types import plain_type

        return list(map(plain_type, X.schema.types))
    is_column = getattr(X, "ndim", 2) == 1  # which scikit-learn refuses
    return [] if is_column else list(getattr(X, "dtypes", ()))


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a frame, if all of them are text."""
    labels = column_labels(X)
    if labels is None or not all(issubclass(kind, str) for kind in set(map(type, labels))):
        return None
    return tuple(labels)


def with_places(X: Any, known: Schema = UNNAMED) -> Any:
    """Rows with a column for each place of their lists; as they are if they have no lists.

    Parameters
    ----------
    X : frame, column of lists, or array of rows
        A column becomes a table of its places, and an array of arrays a matrix.
    known : Schema, optional
        What a model has learnt, which tells the lengths of lists. Columns that it does not know stay.

    Raises
    ------
    ValueError
        If the lists of a column have no one length, or another one than the model has learnt.
    """
    if not hasattr(X, "__array__"):
        return X
    if (names := column_labels(X)) is None:
        is_lists = getattr(X, "ndim", 1) == 1 and _holds_lists(X, getattr(X, "type", getattr(X, "dtype", "")))
        return resolve_name(LISTS)(X, (), known) if is_lists else X
    kinds = column_types(X)
    others = {kind for kind in set(kinds) if not str(kind).lower().startswith(_OF_LISTS)}
    if len(others) == len(set(kinds)):
        return X
    each = zip(names, kinds, strict=True)
    lists = [name for name, kind in each if kind not in others and _holds_lists(X[name], kind)]
    return resolve_name(LISTS)(X, lists, known) if lists else X


def list_columns(X: Any, features: Sequence[str] | None) -> Lists:
    """Which columns of some rows hold lists whose places are features, and the lengths of the lists."""
    own = set(map(str, column_labels(X) or [getattr(X, "name", None)]))
    others = own.difference(features or ())
    made = {*(features or ())} - own if others else ()
    lengths = Counter(map(column_of, made))
    return tuple(sorted((name, lengths[name]) for name in others if f"{name}_0" in made))


_OF_LISTS = ("object", "list", "large_list", "fixed_size_list", "array", "extension", "null")
"""How the types of columns begin that may hold lists, or nothing in place of lists."""


def _holds_lists(column: Any, kind: Any) -> bool:
    """Whether a column is of lists, by its type, or if that is of objects, by its first value."""
    if str(kind) == "object":
        first = next((value for value in column if value is not None), None)
        return first is None or isinstance(first, list | tuple | np.ndarray)
    return str(kind).lower().startswith(_OF_LISTS)


def in_order_of(X: Any, names: Sequence[str] | None) -> Any:
    """The rows as a table, if they are dicts, and in the order of `names`, if they have exactly these."""
    X = X if type(X) is np.ndarray else as_table(X)
    present = None if names is None or not hasattr(X, "__array__") else column_names(X)
    if names is None or present is None or present == tuple(names) or sorted(present) != sorted(names):
        return X
    return with_columns(X, list(names))


def with_columns(X: Any, names: list[Any]) -> Any:
    """A frame with some of its columns, in this order."""
    return X.select(names) if library_of(X) in {"polars", "pyarrow"} else X[names]


def columns_of_other_types(X: Any) -> list[Any]:
    """The labels of the columns of a frame that hold neither numbers nor bools."""
    if not (names := column_labels(X)):
        return []
    each = zip_longest(names, column_types(X))  # some frames do not tell their types
    return [name for name, kind in each if not _is_number(kind)]


def _is_number(kind: Any) -> bool:
    """Whether a column type of pandas, Polars or Arrow is one of numbers or bools."""
    if hasattr(kind, "kind"):
        return kind.kind in "fiub"
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool", "decimal"))


def matrix_of(X: Any) -> NDArray[Any] | None:
    """The rows of a frame of integers and floats; None for other frames, and for some with nulls."""
    library = library_of(X)
    if library == "pandas":
        matrix = _matrix_of_pandas(X)
    elif library == "polars":
        kinds: set[Any] = set(map(type, X.dtypes))  # a class has a quicker hash than its instances
        matrix = X.to_numpy() if all(kind.is_numeric() for kind in kinds) else None
    elif library == "pyarrow" and hasattr(X, "schema"):
        matrix = _matrix_of_arrow(X)
    else:
        return None
    return matrix if matrix is not None and matrix.dtype.kind in "fiu" else None


def _matrix_of_pandas(X: Any) -> NDArray[Any] | None:
    kinds = set(X.dtypes)
    if not all(kind.kind in "fiu" and not hasattr(kind, "fill_value") for kind in kinds):  # as sparse types
        return None
    if all(isinstance(kind, np.dtype) for kind in kinds):
        matrix: NDArray[Any] = X.to_numpy()
        return matrix
    return X.to_numpy(np.float64) if any(kind.kind == "f" for kind in kinds) else None


def _matrix_of_arrow(X: Any) -> NDArray[Any] | None:
    batches = X.combine_chunks().to_batches() if hasattr(X, "to_batches") else [X]
    if not batches:
        return None
    try:
        matrix: NDArray[Any] = batches[0].to_tensor().to_numpy()
    except (TypeError, NotImplementedError):  # nulls, columns of no numbers, or float16 beside others
        return None
    return matrix if matrix.dtype.kind == "f" or len(set(X.schema.types)) == 1 else None


def array_blocks(
    X: ArrayLike | MadeColumns,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    feature_names: tuple[str, ...] | None = None,
    *,
    missing: Missing = "raise",
    origin: str | None = None,
    places: Places | None = None,
    groups: ArrayLike | None = None,
    parts: Sequence[Part] = (),
    dates: tuple[str, ...] = (),
    lists: Lists = (),
    among: Labels | None = None,
) -> Iterator[Block]:
    """Blocks of the rows of X with their labels and weights.

    An error names the `origin` of the rows, such as a file, and the number of the row. If `places` is given,
    the names of rows follow from it instead. If `parts` by rows are given, the blocks have the rows of the
    parts. Features named by `dates` are dates, as those of a frame that are of such a type. `lists` are the
    columns of lists whose places are features. `among` are the labels that count, as for `labels.encode`.

    Raises
    ------
    ValueError
        If X is not a matrix of numbers, if lengths differ, or if labels are not integers, strings or bools.
    """
    try:
        X = SparseRows.of(X) if type(X) is not np.ndarray and is_sparse(X) else X
        made = None if isinstance(X, np.ndarray) or not isinstance(X, MadeColumns) else X
        if type(X) is not np.ndarray and made is None:
            dates = dates or date_columns(X)
        matrix = _matrix(X) if made is None else made
        n_rows = len(matrix) if made is None else made.n_rows
        classes, codes, unlabelled = labels.encode(y, among)
        weights = None if sample_weight is None else _weights(sample_weight)
        for name, other in (("y", codes), ("sample_weight", weights)):
            if other is not None and other.shape != (n_rows,):
                raise ValueError(f"X has {wording.counted(n_rows, 'row')}, {name} has shape {other.shape}")
    except ValueError as error:
        if origin is None:
            raise
        raise ValueError(f"{origin}: {error}") from error
    row_name = places or (Places(origin, dataset=origin) if origin else NOWHERE)
    block = Block(
        matrix,
        classes,
        codes,
        weights,
        feature_names or (None if type(X) is np.ndarray else column_names(X)),
        row_name=row_name,
        groups=None if groups is None else group_codes(groups, n_rows, row_name),
        dates=dates,
        lists=lists,
    )
    if parts:
        rows = rows_of_parts(parts, row_name, n_rows)
        block, unlabelled = block.take(rows), None if unlabelled is None else unlabelled[rows]
    return cut_into_blocks(block, missing, unlabelled)


def group_codes(groups: ArrayLike, n_rows: int, row_name: Places = NOWHERE) -> tuple[Labels, Codes]:
    """The labels of the groups of rows, and the code of each row. `row_name` names a row in an error.

    Raises
    ------
    ValueError
        If the number of groups is not the number of rows, or a group is missing.
    """
    values, codes, missing = labels.encode(groups)
    if codes.shape != (n_rows,):
        raise ValueError(f"groups or folds have shape {codes.shape} for {wording.counted(n_rows, 'row')}")
    if missing is not None:
        raise ValueError(f"{row_name(int(np.argmax(missing)))} has no group or fold (null or NaN)")
    return values, codes


def readable(X: Any) -> Any:
    """The rows, with days for dates and times; an error for masked values, lazy frames and columns of text.

    Raises
    ------
    TypeError
        For a lazy frame or another stream.
    ValueError
        For masked values, columns of text, and arrays of times, whose unit is not that of days.
    """
    check_in_memory(X)
    if _is_masked(X):
        raise ValueError("features are masked; leave out the rows or columns that are")
    X = _decoded(times_as_days(X))
    others = columns_of_other_types(X)
    if wrong := [name for name in others if _holds_text(X, name)]:
        raise ValueError(
            f"columns {wording.listed(wrong, 20)} hold text, and features are numbers; leave such "
            "columns out, or encode them. scan_arrow(frame, target) learns text as categories"
        )
    if library_of(X) == "pandas" and others:
        X = X.copy(deep=False)
        for name in others:
            X[name] = _without_na(X[name].to_numpy())
    if isinstance(X, np.ndarray):
        return real(X, "X") if X.dtype.kind in "mM" else _without_na(X)
    return X


def _holds_text(X: Any, name: Any) -> bool:
    """Whether a column holds text; ValueError if it holds neither text nor numbers."""
    _check_categories(X[name], name)
    try:
        values = np.asarray(X[name])
    except NotImplementedError as error:  # of Arrow
        raise ValueError(f"column {name!r} cannot be a feature, leave it out: {error}") from error
    known: Any = (v for v in values if not labels.is_missing(v)) if values.dtype.kind == "O" else ()
    first = next(iter(known), 0)
    if np.ndim(first) or values.ndim > 1:
        raise ValueError(f"column {name!r} holds lists of values that are no numbers; leave it out")
    if values.dtype.kind in "UTS" or isinstance(first, str | bytes):
        return True
    if not isinstance(first, Number | np.bool_):
        raise ValueError(
            f"column {name!r} holds {first!r:.80}, which is neither a number nor a date; make one of it, "
            "or leave it out"
        )
    return False


def _decoded(X: Any) -> Any:
    """A frame with the values of Arrow's dictionaries, of which NumPy gets some value in place of a null."""
    if library_of(X) == "pyarrow" and hasattr(X, "schema"):
        for i, field in enumerate(X.schema):
            if str(field.type).startswith("dictionary"):
                X = X.set_column(i, field.name, X.column(i).cast(field.type.value_type))
    return X


TABLES_OF_DATASETS = {"datasets": "with_format('arrow')[:]", "xarray": "to_dataframe()"}
"""What makes a table of the `Dataset` of a library."""

OR_SCAN = ", or read it by scan_arrow(frame, target)"


def check_in_memory(X: Any, otherwise: str = OR_SCAN) -> None:
    """Raise TypeError for rows that are not in memory yet, such as a Polars LazyFrame or a DuckDB relation.

    Parameters
    ----------
    X : object
        What a user gave for rows.
    otherwise : str
        The second remedy in the message, in the terms of the function that the user called.
    """
    call = TABLES_OF_DATASETS.get(library_of(X)) if type(X).__name__ == "Dataset" else None
    if call is not None:
        raise TypeError(f"a Dataset of {library_of(X)} is no table: its .{call} is one")
    if hasattr(X, "__array__"):
        return
    if isinstance(X, Iterator) and not hasattr(X, "__arrow_c_stream__"):
        raise TypeError(
            f"rows are needed here, in memory, and got a {type(X).__name__}; of batches learn one after the "
            "other: for X, y in batches: model.partial_fit(X, y)"
        )
    if hasattr(X, "collect_batches") or hasattr(X, "__arrow_c_stream__"):
        made = next((f"{name}() it" for name in ("collect", "read_all") if hasattr(X, name)), "")
        made = made or ("take its df()" if hasattr(X, "df") else "make a table of it")
        raise TypeError(f"a {type(X).__name__} has no rows in memory: {made}{otherwise}")


def _check_categories(column: Any, name: str) -> None:
    """Refuse missing values among categories of integers: pandas would make them the lowest integer."""
    values = getattr(getattr(column, "dtype", None), "categories", None)
    if getattr(getattr(values, "dtype", None), "kind", "") in set("iub") and column.isna().any():
        raise ValueError(
            f"column {name!r} is categorical and has missing values; make numbers of it first, such as by "
            "astype('float64')"
        )


def check_no_rounding(X: Any) -> None:
    """Raise ValueError if X holds a number beyond 2^53 that float64 would round.

    Smaller decimals, fractions and numbers in text are rounded to the nearest float64 without an error.
    """
    names, kind = column_labels(X), np.asarray(X).dtype.kind
    has_one_type = hasattr(X, "__array__") and names is None
    if kind in "iub" or (has_one_type and kind not in "OUT"):
        return
    if names is None:
        columns: Iterable[tuple[Any, Any]] = enumerate(np.atleast_2d(np.asarray(X, dtype=object)).T)
    else:
        columns = ((name, X[name]) for name in names)
    for name, column in columns:
        rounded = next(filter(_is_rounded, _candidates(np.asarray(column))), None)
        if rounded is not None:
            numbers = "integers" if isinstance(rounded, int | np.integer) else "numbers"
            raise ValueError(
                f"column {name!r} has {numbers} beyond 2^53, which float64 would round. Give integers alone, "
                "in an array, or subtract an offset from the column"
            )


def _candidates(values: NDArray[Any]) -> Iterable[Any]:
    """The values that float64 may have to round. Floats are not among them."""
    if values.dtype.kind == "O":
        return (v for v in values if isinstance(v, int | np.integer | Decimal | Fraction | str))
    if values.dtype.kind not in "iu":
        return []
    wide: list[Any] = values[(values > INTEGERS_OF_FLOATS) | (values < -INTEGERS_OF_FLOATS)].tolist()
    return wide


def _is_rounded(value: Any) -> bool:
    """Whether this is a number beyond 2^53 that float64 does not hold."""
    try:
        number = Fraction(int(value) if isinstance(value, np.integer) else value)
        return abs(number) > INTEGERS_OF_FLOATS and Fraction(float(number)) != number
    except OverflowError:  # an infinite Decimal is refused later, a finite number beyond float64 here
        return not (isinstance(value, Decimal) and value.is_infinite())
    except ValueError:  # not a number: it is refused later
        return False


def _matrix(X: ArrayLike) -> Matrix:
    """The rows of an array or a frame as a matrix. Raises if they cannot be read."""
    matrix: Any = X
    if type(X) is not np.ndarray:
        X = readable(X)
        matrix = matrix_of(X)
        matrix = np.asarray(X) if matrix is None else matrix
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise ValueError(f"X must have two dimensions, rows and features; got shape {matrix.shape}")
    return matrix if matrix.dtype.kind in "fiub" else real(matrix, "X")


def _weights(sample_weight: ArrayLike) -> NDArray[Any]:
    if _is_masked(sample_weight):
        raise ValueError("weights are masked; leave out the rows that have none")
    return real(np.asarray(sample_weight), "sample_weight")


def _is_masked(values: Any) -> bool:
    return isinstance(values, np.ma.MaskedArray) and bool(np.ma.getmaskarray(values).any())


def real(values: NDArray[Any], name: str) -> NDArray[Any]:
    """An array of numbers. Objects and text become floats, and missing values become NaN.

    Raises
    ------
    ValueError
        If a value is not a real number. The message calls the array `name`.
    """
    if values.dtype.kind in "fiub":
        return values
    try:
        if values.dtype.kind not in "OUT":
            raise TypeError("they are not real numbers")
        return _without_na(values).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        known = _without_na(values).flat  # NaT is a datetime too
        has_times = values.dtype.kind in "mM" or any(isinstance(value, _TIMES) for value in known)
        remedy = ". Give times as numbers of days, or in a data frame, where they are learnt as such"
        raise ValueError(
            f"{name} must hold real numbers; got {values.dtype}: {error}{remedy * has_times}"
        ) from error


def _without_na(values: NDArray[Any]) -> NDArray[Any]:
    """The values with NaN in place of pandas' NA and NaT, which NumPy cannot convert to numbers."""
    if values.dtype.kind != "O":
        return values
    is_na = np.fromiter((labels.is_na(value) for value in values.flat), np.bool_, values.size)
    return np.where(is_na.reshape(values.shape), np.nan, values)
