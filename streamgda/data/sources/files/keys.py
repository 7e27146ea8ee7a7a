"""The keys in the names of folders, such as store=7: what is written there, and as what it is read.

What is written decides alone: "7" is the whole number 7 and "07" is text, whatever other folders are listed.
A role, a model or a user may ask for another type of the same key.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa

from streamgda.data.blocks.wording import callers_level, check_known

Keys: TypeAlias = Mapping[str, Any]

_NULL = "__HIVE_DEFAULT_PARTITION__"

_DIGITS = re.compile("-?[0-9]+")

_OF_NUMBERS = (pa.int32(), pa.int64())

TYPES = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_()}
"""The types of the kinds of labels and categories."""

_COMPARED = (pa.string(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us"))
"""The types of what a filter may compare keys with."""


@dataclass(frozen=True)
class Absent:
    """In the place of a key: no value, in rows of a file that lacks a column of its table."""

    kind: pa.DataType


def keys_in(folder: str, columns: Collection[str] = ()) -> dict[str, Any]:
    """The keys in the path of a folder, but those that are columns too.

    A key is a whole number if its digits are written as usual, else text.

    Examples
    --------
    >>> keys_in("sales/store=7/zip=07/day=2026-01-31")
    {'store': 7, 'zip': '07', 'day': '2026-01-31'}
    """
    parts = (part.partition("=") for part in folder.split("/"))
    pairs = ((unquote(name), unquote(value)) for name, equals, value in parts if equals)
    return {name: _as_written(value) for name, value in pairs if name not in columns}


def _as_written(text: str) -> Any:
    if text == _NULL:
        return None
    with suppress(ValueError):
        if str(int(text)) == text:
            return _in_64_bits(text)
    return text


def _in_64_bits(digits: str) -> Any:
    """A whole number; as text if it is too large for one of Arrow."""
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 63 else digits


def by_name(keys: Mapping[str, Keys]) -> dict[str, set[Any]]:
    """The values of each key in all the folders."""
    values: dict[str, set[Any]] = {}
    for pairs in keys.values():
        for name, value in pairs.items():
            values.setdefault(name, set()).add(value)
    return values


def declared_types(types: Mapping[str, Any], keys: Mapping[str, Keys]) -> dict[str, pa.Field]:
    """The keys whose types a user gives, as the parameter `hive_types`.

    Raises
    ------
    ValueError
        If there is no such key, or no such type.
    """
    check_known(list(types), list(by_name(keys)), "hive_types")
    return {name: pa.field(name, _type_named(kind)) for name, kind in types.items()}


def _type_named(kind: Any) -> pa.DataType:
    try:
        return kind if isinstance(kind, pa.DataType) else pa.type_for_alias(str(kind))
    except ValueError as error:
        raise ValueError(f"hive_types: {kind!r} is no type of Arrow, such as 'string' or 'int64'") from error


def typed(folder: str, keys: Keys, declared: Mapping[str, pa.Field]) -> Keys:
    """The keys of a folder, some as values of declared types; ValueError if one cannot be that."""
    values = dict(keys)
    for name in declared.keys() & keys.keys():
        kind = declared[name].type
        try:
            values[name] = as_type(keys[name], kind).as_py()
        except pa.ArrowInvalid as error:
            raise ValueError(f"{folder}: {name}={keys[name]} is no {kind}, as hive_types has it") from error
    return values


def type_of_keys(values: Iterable[Any]) -> pa.DataType:
    """The type that holds all values of a key: of whole numbers, if all are, else of text."""
    values = {value for value in values if value is not None}
    if values and all(isinstance(value, int) for value in values):
        return next(kind for kind in _OF_NUMBERS if _fits(values, kind))
    return pa.string()


def types_to_compare(values: Iterable[Any]) -> list[pa.DataType]:
    """The types as which all values of a key may be compared, the usual one first."""
    values = set(values)
    return [kind for kind in dict.fromkeys((type_of_keys(values), *_COMPARED)) if _fits(values, kind)]


def _fits(values: Iterable[Any], kind: pa.DataType) -> bool:
    try:
        return all(as_type(value, kind) is not None for value in values)
    except (pa.ArrowInvalid, OverflowError):
        return False


def as_type(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A key as a value of Arrow.

    Raises
    ------
    pyarrow.ArrowInvalid
        If it cannot be of this type.
    """
    if isinstance(value, int | str) and not isinstance(value, bool):
        return pa.scalar(str(value), pa.string()).cast(kind)
    return pa.scalar(None if isinstance(value, Absent) else value, kind)


def read_as(value: Any, kind: str | None) -> Any:
    """A key as a label or a category of a kind; as it is where it cannot be one.

    Examples
    --------
    >>> read_as("07", "int"), read_as(7, "str"), read_as("7b", "int"), read_as(7.5, "int")
    (7, '7', '7b', 7.5)
    >>> read_as("9" * 20, "int")
    '99999999999999999999'
    """
    if kind == "str" and value is not None:
        return str(value)
    if kind == "bool":
        return {"true": True, "false": False}.get(str(value).lower(), value)
    if kind == "int" and isinstance(value, str) and _DIGITS.fullmatch(value):
        return _in_64_bits(value)
    return value


def fits(values: Iterable[Any], kind: str) -> bool:
    """Whether all values of a key can be of a kind."""
    return kind == "str" or all(
        value is None or not isinstance(read_as(value, kind), str) for value in values
    )


def warn_of_mixed(name: str, values: Iterable[Any]) -> None:
    """Warn if some values of a key are numbers and some are text, as they are written."""
    kinds = {type(value): value for value in values if value is not None}
    if len(kinds) > 1:
        some, others = (f"{name}={value}" for value in kinds.values())
        warnings.warn(
            f"key {name!r} of folders is read as text, since {some} and {others} are there; where all are "
            f"whole numbers, it is read as these. Say its type, as hive_types={{{name!r}: 'string'}} "
            f"(--hive-types {name}=string)",
            stacklevel=callers_level(),
        )


def is_key(key: Any, value: Any) -> bool:
    """Whether a value in a file is that of a key in its path."""
    with suppress(TypeError, ValueError):
        return float(value) == float(key)
    return str(value).startswith(str(key)) if isinstance(value, date) else str(value) == str(key)


def warn_of_differing(name: str, path: str) -> None:
    """Warn that a column holds other values than the key of its name in the path of a file."""
    warnings.warn(
        f"{path}: column {name!r} holds other values than {name}= in the path; the column is read. Leave it "
        f"out of the files, or rename the folders, if that is wrong",
        stacklevel=callers_level(),
    )
