"""What a thing is: a hash of plain values with their types, by which states and outputs are found again.

JSON tells None, bools, whole numbers, floats and texts apart. Anything else becomes an object of JSON, under
the name of its type. A dataclass is told by all its fields, and so by a new one too; but not by those that it
leaves out of comparisons or declares with ``metadata=UNTOLD``. Other objects are told by their property
`identity`, or by their parameters. An object that has neither is another one each time, since nothing tells
whether it is still the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache, singledispatch
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from streamgda.data.storage.documents import digest

UNTOLD = {"identity": False}
"""The metadata of a field of a dataclass that tells nothing which its other fields do not tell."""

_PLAIN = frozenset({type(None), bool, int, float, str})


def identity_of(*values: Any) -> str:
    """A hash of values with their types, in 32 hexadecimal digits; the same on any machine.

    Examples
    --------
    >>> identity_of({"key": 1}) == identity_of({"key": np.int64(1)})
    True
    >>> len({identity_of(value) for value in (1, 1.0, True, "1", b"1", None, Decimal(1))})
    7
    """
    return digest(canonical(values))


def canonical(value: Any) -> Any:
    """A value as JSON holds it: another one for each other value or type.

    NumPy's scalars count as the equal values of Python, and tuples as lists.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [each if type(each) in _PLAIN else canonical(each) for each in value]
    if isinstance(value, np.generic) and type(value.item()) in _PLAIN:
        return value.item()
    return {kind.__name__: _told(value)}


def fields_of(value: Any) -> list[Any]:
    """The values of the fields of a dataclass that tell it from others."""
    kind: Any = type(value)
    return [getattr(value, name) for name in _names_of_fields(kind)]


@cache
def _names_of_fields(kind: Any) -> tuple[str, ...]:
    told = (field for field in fields(kind) if field.compare and field.metadata.get("identity", True))
    return tuple(field.name for field in told)


@singledispatch
def _told(value: Any) -> Any:
    """What tells an object from others of its type."""
    if hasattr(type(value), "identity"):
        return canonical(value.identity)
    if is_dataclass(value):
        return canonical(fields_of(value))
    if hasattr(value, "get_params"):
        return canonical(value.get_params(deep=False))
    return uuid.uuid4().hex


_told.register(
    str | bytes | complex | date | time | timedelta | Decimal | PurePath | uuid.UUID | np.generic, repr
)
_told.register(Enum, lambda value: value.name)
_told.register(AbstractSet, lambda values: sorted(map(canonical, values), key=repr))
_told.register(Mapping, lambda pairs: sorted(map(canonical, pairs.items()), key=repr))
_told.register(pa.Schema, lambda schema: canonical([list(schema), schema.metadata]))
_told.register(pa.Field, lambda one: canonical([one.name, one.type, one.nullable, one.metadata]))
_told.register(
    pa.DataType, lambda kind: [str(kind), *map(canonical, map(kind.field, range(kind.num_fields)))]
)


@_told.register
def _(values: np.ndarray) -> Any:
    if values.dtype.hasobject:
        return [list(values.shape), canonical(values.ravel().tolist())]
    little = values.astype(values.dtype.newbyteorder("<"))
    return [little.dtype.str, list(values.shape), digest(little.tobytes().hex())]
