"""Read Thrift's compact protocol [1]_, in which Parquet's footers are written.

References
----------
.. [1] https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Struct: TypeAlias = dict[tuple[int, int], Any]
"""The fields of a struct, by their numbers and types: readers pass over a field of another type."""

TRUE, FALSE, BYTE, INT16, INT32, INT64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)


def read_struct(content: bytes, at: int = 0) -> tuple[Struct, int]:
    """The fields of a struct, and the position behind it.

    The common types are read here, in one loop: a footer has some forty fields for each column of a row
    group.

    Raises
    ------
    IndexError, KeyError, RecursionError
        If the content is damaged.
    """
    fields: Struct = {}
    number = 0
    while header := content[at]:
        at += 1
        kind = header & 15
        if header >> 4:
            number += header >> 4
        else:
            number, at = _integer(content, at)
        if kind <= FALSE:
            fields[number, kind] = kind == TRUE
        elif BYTE < kind <= INT64:
            value = content[at]
            at += 1
            if value > 127:
                value, at = _unsigned(content, at - 1)
            fields[number, kind] = (value >> 1) ^ -(value & 1)
        elif kind == STRUCT:
            fields[number, kind], at = read_struct(content, at)
        else:
            fields[number, kind], at = _READERS[kind](content, at)
    return fields, at + 1


def _list(content: bytes, at: int) -> tuple[list[Any], int]:
    size, kind = content[at] >> 4, content[at] & 15
    at += 1
    if size == 15:
        size, at = _unsigned(content, at)
    read, values = _READERS[kind], []
    for _ in range(size):
        value, at = read(content, at)
        values.append(value)
    return values, at


def _byte(content: bytes, at: int) -> tuple[int, int]:
    return content[at], at + 1


def _double(content: bytes, at: int) -> tuple[bytes, int]:
    return content[at : at + 8], at + 8


def _binary(content: bytes, at: int) -> tuple[bytes, int]:
    size, at = _unsigned(content, at)
    return content[at : at + size], at + size


def _unsigned(content: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first."""
    value = shift = 0
    while (byte := content[at]) > 127:
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
    return value | byte << shift, at + 1


def _integer(content: bytes, at: int) -> tuple[int, int]:
    """A signed number; 0, −1, 1, −2 are written as 0, 1, 2, 3."""
    value, at = _unsigned(content, at)
    return (value >> 1) ^ -(value & 1), at


_READERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    **dict.fromkeys((TRUE, FALSE, BYTE), _byte),  # in a list, bools are bytes
    **dict.fromkeys((INT16, INT32, INT64), _integer),
    DOUBLE: _double,
    BINARY: _binary,
    **dict.fromkeys((LIST, SET), _list),
    STRUCT: read_struct,
}
