"""Class labels: their three kinds, their codes, and the union of two label sets.

A label is an integer, a string or a bool, and all the labels of a state are of one kind. They are
kept sorted, so that the position of a label does not depend on when it was first seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamgda.data.blocks.wording import counted, listed

Labels = NDArray[Any]
Codes = NDArray[Any]

PARTS = ("label", "subclass")  # the columns of divided labels: a label, and the number of a part of its rows

_NAMES = {"b": "bool", "i": "int", "u": "int", "U": "str"}
_INTEGERS = (int, np.integer)
_MOST_BYTES = 1 << 30  # of the labels of all classes together


def no_labels() -> Labels:
    """The label set of a state that has seen nothing."""
    return np.empty(0, dtype=np.int64)


def kind_of(labels: Labels) -> str:
    """The kind of labels in an encoded array: "int", "str" or "bool"; that of subclasses names both."""
    if labels.dtype.names:
        return f"{PARTS[1]}es of {kind_of(labels['label'])}"
    return _NAMES[labels.dtype.kind]


def kinds_known(state: Any) -> dict[str | None, str]:
    """The kinds of the labels of a state, at None, and of the categories of each column, where known."""
    values = {None: whole_classes(state.classes)[0].tolist(), **state.schema_of_rows.values_by_column()}
    firsts = {name: [value for value in known if value is not None][:1] for name, known in values.items()}
    return {name: kind_of(np.array(first)) for name, first in firsts.items() if first}


def divided_labels(classes: Labels, numbers: ArrayLike) -> Labels:
    """Labels of parts of classes: the label of the class and the number of the part, as records.

    Examples
    --------
    >>> divided_labels(np.array(["a", "a", "b"]), [0, 1, 0]).tolist()
    [('a', 0), ('a', 1), ('b', 0)]
    """
    labels = np.empty(len(classes), list(zip(PARTS, (classes.dtype, np.int32), strict=True)))
    for name, values in zip(PARTS, (classes, numbers), strict=True):
        labels[name] = values
    return labels


def whole_classes(labels: Labels) -> tuple[Labels, NDArray[np.intp]]:
    """The classes of sorted labels, and the position of the first label of each.

    A label of a class stands for itself.
    """
    if not labels.dtype.names:
        return labels, np.arange(len(labels))
    return np.unique(labels["label"], return_index=True)


def label_columns(labels: Labels) -> dict[str, NDArray[Any]]:
    """Labels as columns of a table. Those of subclasses are two columns: their classes and their numbers.

    Strings have the width of the longest, whatever rows were once among them.
    """
    labels = trimmed(labels)
    return {name: labels[name] for name in labels.dtype.names or ()} or {"label": labels}


def labels_in(columns: Mapping[str, NDArray[Any]]) -> Labels:
    """The labels that such columns hold.

    Raises
    ------
    ValueError
        As `as_labels` does.
    """
    labels, numbers = as_labels(columns["label"]), columns.get(PARTS[1])
    if numbers is None:
        return labels.copy()
    if numbers.dtype.kind not in "iu" or ((numbers < 0) | (numbers > np.iinfo(np.int32).max)).any():
        raise ValueError(f"column {PARTS[1]!r} holds other things than the numbers of parts")
    return divided_labels(labels, numbers)


def _among(classes: Labels, values: NDArray[Any]) -> NDArray[Any]:
    """Labels with None for those that are none of the classes."""
    import pandas as pd

    if values.dtype.kind in "OS":
        texts = (v.decode(errors="replace") if isinstance(v, bytes) else v for v in values.tolist())
        values = np.fromiter(texts, dtype=object, count=len(values))
    places: NDArray[np.intp] = pd.Index(classes).get_indexer(pd.Index(values))
    return np.array([*classes.tolist(), None], dtype=object)[places]


def encode(labels: ArrayLike, among: Labels | None = None) -> tuple[Labels, Codes, NDArray[np.bool_] | None]:
    """The sorted labels that occur, and a code for each row: the position of its label among them.

    Codes are uint8 or uint16 where they fit. NumPy sorts these types by radix, many times faster than int64.

    Parameters
    ----------
    labels : array-like of shape (n_rows,)
        A label for each row.
    among : ndarray, optional
        The labels that count: a row of any other value, even one that cannot be a label, has none.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
    codes : ndarray of shape (n_rows,)
    unlabelled : ndarray of bool of shape (n_rows,), or None
        The rows without a label (null or NaN), which have code 0; None where all have one.

    Raises
    ------
    ValueError
        If labels are not integers, strings or bools, or the kinds are mixed.
    """
    values = _one_dimensional(labels)
    if among is not None:
        values = _among(among, values)
    unlabelled = _missing(values) if values.dtype.kind in "fO" else None
    if unlabelled is None:
        return *_encode(values), None
    classes, seen = _encode(values[~unlabelled])
    codes = np.zeros(len(values), dtype=seen.dtype)
    codes[~unlabelled] = seen
    return classes, codes, unlabelled


def _encode(values: NDArray[Any]) -> tuple[Labels, Codes]:
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        return _encode_strings(values)
    values = _typed(values)
    if len(values) == 1:
        return values.copy(), np.zeros(1, dtype=code_dtype(1))
    if values.dtype.kind == "i" and len(values):
        lowest = values.min()
        span = int(values.max()) - int(lowest) + 1
        if span <= 2 * len(values):  # where looking up is faster than sorting
            offsets = (values - lowest).astype(code_dtype(span), copy=False)
            seen = np.bincount(offsets, minlength=span) > 0
            classes = np.flatnonzero(seen) + lowest
            if len(classes) == span:
                return classes, offsets
            code_of = np.cumsum(seen) - 1
            return classes, code_of.astype(code_dtype(len(classes)))[offsets]
    classes, codes = np.unique(values, return_inverse=True)
    return trimmed(classes), codes.astype(code_dtype(len(classes)))


def _encode_strings(values: NDArray[Any]) -> tuple[Labels, Codes]:
    """Encode an array of str objects. Only the classes become strings of a fixed width, not the rows."""
    classes = sorted(set(values))
    code_of = {label: code for code, label in enumerate(classes)}
    dtype = code_dtype(len(classes))
    codes = np.fromiter(map(code_of.__getitem__, values), dtype=dtype, count=len(values))
    return _cast(np.array(classes, dtype=object), np.str_), codes


def code_dtype(n_classes: int) -> type[np.unsignedinteger[Any] | np.int64]:
    """The smallest integer type that numbers so many classes."""
    if n_classes <= 1 << 8:
        return np.uint8
    return np.uint16 if n_classes <= 1 << 16 else np.int64


def as_labels(labels: ArrayLike) -> Labels:
    """One label per class as an int64, bool or str array.

    Raises
    ------
    ValueError
        If a label is missing or is not an integer, a string or a bool, or the kinds are mixed.
    """
    if isinstance(labels, list) and labels and all(isinstance(label, tuple) for label in labels):
        classes, numbers = zip(*labels, strict=True)
        return divided_labels(as_labels(list(classes)), numbers)
    values = _one_dimensional(labels)
    if values.dtype.kind in "fO" and _missing(values) is not None:
        raise ValueError("a label is missing (null or NaN)")
    return trimmed(_typed(values))


def _one_dimensional(labels: ArrayLike) -> NDArray[Any]:
    chunked: Any = labels
    if hasattr(labels, "combine_chunks") and str(chunked.type).startswith("dictionary"):
        labels = chunked.combine_chunks()  # of chunks, Arrow gives NumPy some label in place of a null
    # NumPy would make strings of all the labels in a list if one of them is a string.
    values = np.asarray(labels, dtype=None if hasattr(labels, "__array__") else object)
    if isinstance(labels, Iterable) and not values.ndim and not isinstance(labels, str | bytes):
        kind = type(labels).__name__
        is_unordered = isinstance(labels, AbstractSet | Mapping)
        how = "which has no order" if is_unordered else "of which list(y) makes one"
        raise ValueError(f"labels are a list or an array, with one for each row; got a {kind}, {how}")
    if values.ndim != 1:
        raise ValueError(f"labels must be one per row, in one dimension; got shape {values.shape}")
    if isinstance(labels, np.ma.MaskedArray) and labels.mask.any():
        raise ValueError("labels are masked; leave out the rows that have none")
    return values.astype(object) if values.dtype.kind == "T" else values


def _missing(values: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Which labels are null or NaN, among floats or objects; None if there are none."""
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    else:
        missing = np.fromiter(map(is_missing, values), dtype=np.bool_, count=len(values))
    return missing if missing.any() else None


def is_missing(value: object) -> bool:
    """Whether a value of Python, NumPy or pandas stands for a missing one: None, NaN or NaT."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or is_na(value)


def is_na(value: object) -> bool:
    """Whether a value is pandas' NA or NaT."""
    return type(value).__name__ in {"NAType", "NaTType"}


def _typed(values: NDArray[Any]) -> Labels:
    """Labels as int64, bool or str.

    Whole numbers held as floats or decimals become integers, and bytes of UTF-8 text. pandas holds integers
    as floats in a column that once had a missing value, Oracle and Snowflake as decimals.
    """
    kind = values.dtype.kind
    if kind in "bU" or values.dtype.names == PARTS:
        return values
    if kind in "iu":
        if kind == "u" and len(values) and values.max() > np.iinfo(np.int64).max:
            raise _too_large(values.max())
        return values.astype(np.int64, copy=False)
    if kind == "f":
        return _from_floats(values)
    if kind in "OS":
        return _from_objects(values.astype(object, copy=False))
    raise ValueError(f"labels of type {values.dtype} are not classes; use integers, strings or bools")


def _from_floats(values: NDArray[Any]) -> Labels:
    fractional = ~np.isfinite(values) | (values != np.floor(values))
    if fractional.any():
        raise _no_class(values[fractional][0])
    rounded = np.abs(values) >= 2.0**53
    if rounded.any():
        raise _too_large(values[rounded][0], "was read as a float, which rounds integers beyond 2**53")
    return values.astype(np.int64)


def _too_large(value: Any, why: str = "does not fit a 64-bit signed integer") -> ValueError:
    return ValueError(
        f"label {int(value)} {why}. Text has no such bound: cast the column where it is stored, or read CSV "
        "with column_types={'id': 'string'} in format, with the name of the column"
    )


def _no_class(value: Any) -> ValueError:
    return ValueError(
        f"label {value!s} is not a class (Unknown label type: continuous); classes and categories are "
        "integers, strings or bools"
    )


def _from_objects(values: NDArray[Any]) -> Labels:
    kinds = {type(value) for value in values}
    if kinds & {bytes, Decimal}:
        values = np.array([_plain(value) for value in values], object)
        kinds = {type(value) for value in values}
    for dtype, types in ((np.str_, (str,)), (np.bool_, (bool, np.bool_)), (np.int64, _INTEGERS)):
        if all(issubclass(kind, types) and (kind is not bool or dtype is np.bool_) for kind in kinds):
            return _cast(values, dtype)
    if bool not in kinds and all(issubclass(kind, (float, np.floating, *_INTEGERS)) for kind in kinds):
        return _from_floats(values.astype(np.float64))
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise ValueError(
        f"labels must be all integers, all strings or all bools; found {names}. "
        "Unknown label type: mixed or unknown"
    )


def _plain(value: Any) -> Any:
    """The text of bytes and the integer of a decimal; other values as they are."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"the value {value!r:.80} is bytes that are no text in UTF-8; make text or integers of it "
                "first, such as by bytes.hex, or leave the column out if it is no label"
            ) from error
    if isinstance(value, Decimal):
        if value != value.to_integral_value():  # also for numbers of more digits than a context has
            raise _no_class(value)
        return int(value)
    return value


def _cast(values: NDArray[Any], dtype: type[Any]) -> Labels:
    if dtype is np.str_:
        _check_width(len(values), max(map(len, values), default=0), values)
    try:
        cast: Labels = values.astype(dtype)
    except OverflowError as error:
        raise _too_large(max(values, key=abs)) from error
    if dtype is np.str_ and any(value.endswith("\0") for value in values):
        raise ValueError("a label ends in a null character, which NumPy's strings cannot hold")
    return cast


def _check_width(n_labels: int, width: int, among: NDArray[Any]) -> None:
    """Raise ValueError if `n_labels` strings of this width would take too much memory."""
    if 4 * n_labels * width > _MOST_BYTES:
        longest = max(map(str, among), key=len)
        raise ValueError(
            f"a label has {len(longest):,} characters: {longest[:40]!r}… Labels are held at the width of "
            f"the longest, which takes too much memory beside {counted(n_labels - 1, 'other class')}. Is "
            "this the target? Shorten such labels"
        )


def trimmed(classes: Labels) -> Labels:
    """Strings at the width of the longest of them; other labels as they are."""
    if classes.dtype.names:
        return divided_labels(trimmed(classes["label"]), classes[PARTS[1]])
    if classes.dtype.kind != "U":
        return classes
    width = max(int(np.strings.str_len(classes).max(initial=0)), 1)
    return classes.astype(f"U{width}", copy=False)


def drop_unused(classes: Labels, codes: Codes) -> tuple[Labels, Codes]:
    """Drop the classes that no code refers to, and renumber the others."""
    used = np.bincount(codes, minlength=len(classes)) > 0
    if used.all():
        return classes, codes
    renumbered = (np.cumsum(used) - 1).astype(code_dtype(len(classes)))
    return trimmed(classes[used]), renumbered[codes]


def first_positions(codes: Codes, n_codes: int) -> NDArray[np.intp]:
    """The position at which each code first occurs; every code has to occur.

    Examples
    --------
    >>> first_positions(np.array([2, 0, 2, 1, 0]), 3)
    array([1, 3, 0])
    """
    first = np.empty(n_codes, dtype=np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several assignments the last one stays
    return first


def positions_by_code(codes: NDArray[np.integer], n_codes: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each code that occurs, of 0 … n_codes − 1, with the positions where it stands, in order.

    Examples
    --------
    >>> [(code, rows.tolist()) for code, rows in positions_by_code(np.array([2, 0, 2]), 4)]
    [(0, [1]), (2, [0, 2])]
    """
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(n_codes + 1)).tolist()
    for code, (start, stop) in enumerate(pairwise(bounds)):
        if start < stop:
            yield code, order[start:stop]


def rows_by_pattern(mask: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """Yield each different row of a mask, with the positions where it stands, in order."""
    packed = np.ascontiguousarray(np.packbits(mask, axis=1))
    kinds, codes = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_inverse=True)
    for _, rows in positions_by_code(codes, len(kinds)):
        yield mask[rows[0]], rows


def union(ours: Labels, theirs: Labels) -> Labels:
    """The sorted union of a sorted label set and other labels; no copy where the first contains them all.

    Raises
    ------
    ValueError
        If the two are of different kinds.
    """
    if not len(ours) or not len(theirs):
        return ours if len(ours) else theirs
    differ = ours.dtype.kind != theirs.dtype.kind
    if differ or (ours.dtype.names and kind_of(ours) != kind_of(theirs)):
        raise ValueError(
            f"labels of different kinds cannot be one set of classes: {kind_of(ours)} "
            f"(such as {ours[0].item()!r}) and {kind_of(theirs)} (such as {theirs[0].item()!r})"
        )
    if ours.dtype.kind == "U":
        longest = max(ours, theirs, key=lambda labels: labels.dtype.itemsize)
        if max(len(ours), len(theirs)) * longest.dtype.itemsize > _MOST_BYTES // 2:
            n_labels = len({*ours.tolist(), *theirs.tolist()})  # before NumPy compares labels at this width
            _check_width(n_labels, longest.dtype.itemsize // 4, longest)
    places = ours.searchsorted(theirs)
    is_new = ours.take(places, mode="clip") != theirs
    if not is_new.any():
        return ours
    wide, new = ours.astype(np.promote_types(ours.dtype, theirs.dtype), copy=False), np.unique(theirs[is_new])
    return np.insert(wide, ours.searchsorted(new), new)


def position_of(label: Any, classes: Labels) -> int:
    """Where a label stands among the classes.

    Raises
    ------
    ValueError
        If it is none of them.
    """
    known: list[Any] = classes.tolist()
    if label not in known:
        raise ValueError(f"{label!r} is none of the classes: {listed(known)}")
    return known.index(label)


def positions_among(labels: ArrayLike, classes: Labels) -> NDArray[np.intp]:
    """Where the label of each row stands among the sorted classes; ValueError if a label is none of them."""
    own, codes, unlabelled = encode(labels)
    if unlabelled is not None:
        raise ValueError(f"row {unlabelled.argmax()} has no label")
    if len(other := np.setdiff1d(union(classes, own), classes)):  # the union checks that all are of one kind
        position_of(other[0].item(), classes)
    return np.searchsorted(classes, own)[codes]
