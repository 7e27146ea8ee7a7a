"""Read Thrift's compact protocol [1]_, in which footers of Parquet files and headers of pages are written.

A struct is a sequence of fields. The first byte of a field has its type in the lower four bits, and in the
upper four how much its number exceeds that of the field before; zero there says that the number itself
follows. A zero byte ends the struct.

References
----------
.. [1] https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

Field: TypeAlias = tuple[int, int]
"""The number of a field in its struct, and its type."""

Struct: TypeAlias = dict[Field, Any]
"""The values of the fields of a struct."""

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at a position; returns the value, and the position behind it."""

TRUE, FALSE, BYTE, INT16, INT32, INT64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)

READ_ERRORS = LookupError, OverflowError, RecursionError
"""What the readers of this module raise for damaged content."""

_NO_READERS: Mapping[Field, Reader] = MappingProxyType({})

_LAST_SHIFT = 63  # of a number of 64 bits, in groups of seven


def read_struct(
    content: bytes, at: int = 0, readers: Mapping[Field, Reader] = _NO_READERS
) -> tuple[Struct, int]:
    """The fields of a struct, and the position behind it.

    Numbers are read in the loop itself, without calls: a footer has some forty fields for each column of a
    row group.

    Parameters
    ----------
    content : bytes
        Holds the struct.
    at : int, default=0
        Where it begins.
    readers : mapping of Field to Reader, optional
        How to read some fields that are lists or structs.

    Raises
    ------
    LookupError, OverflowError, RecursionError
        If the content is damaged, `READ_ERRORS`.
    """
    fields: Struct = {}
    number = 0
    while header := content[at]:
        at += 1
        kind = header & 15
        if header >> 4:
            number += header >> 4
        else:
            number, at = read_integer(content, at)
        if kind <= FALSE:
            fields[number, kind] = kind == TRUE
        elif BYTE < kind <= INT64:
            value = content[at]
            at += 1
            if value > 127:
                value, at = read_unsigned(content, at - 1)
            fields[number, kind] = (value >> 1) ^ -(value & 1)
        elif (number, kind) in readers:
            fields[number, kind], at = readers[number, kind](content, at)
        elif kind == STRUCT:
            fields[number, kind], at = read_struct(content, at)
        else:
            fields[number, kind], at = _READERS[kind](content, at)
    return fields, at + 1


def read_list(content: bytes, at: int, reader: Reader | None = None) -> tuple[list[Any], int]:
    """The elements of a list, and the position behind it; its structs by a reader of their own, if given."""
    size, kind, at = read_list_header(content, at)
    read, values = reader if reader and kind == STRUCT else _READERS[kind], []
    for _ in range(size):
        value, at = read(content, at)
        values.append(value)
    return values, at


def read_list_header(content: bytes, at: int) -> tuple[int, int, int]:
    """The number of elements of a list, their type, and the position of the first.

    Both are in one byte; 15 in its upper half says that the number of elements follows.
    """
    size, kind = content[at] >> 4, content[at] & 15
    at += 1
    if size == 15:
        size, at = read_unsigned(content, at)
    return size, kind, at


def _byte(content: bytes, at: int) -> tuple[int, int]:
    return content[at], at + 1


def _double(content: bytes, at: int) -> tuple[bytes, int]:
    if at + 8 > len(content):
        raise IndexError("the content ends within a number")
    return content[at : at + 8], at + 8


def _binary(content: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_unsigned(content, at)
    return content[at : at + size], at + size


def read_unsigned(content: bytes, at: int) -> tuple[int, int]:
    """A number of at most 64 bits, in groups of seven, the lowest first; the last byte has no high bit."""
    value = shift = 0
    while (byte := content[at]) > 127:
        if shift == _LAST_SHIFT:
            raise OverflowError("a number has more than 64 bits")
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
    return value | byte << shift, at + 1


def read_integer(content: bytes, at: int) -> tuple[int, int]:
    """A signed number; 0, −1, 1, −2 are written as 0, 1, 2, 3."""
    value, at = read_unsigned(content, at)
    return (value >> 1) ^ -(value & 1), at


_READERS: dict[int, Reader] = {
    **dict.fromkeys((TRUE, FALSE, BYTE), _byte),  # in a list, bools are bytes
    **dict.fromkeys((INT16, INT32, INT64), read_integer),
    DOUBLE: _double,
    BINARY: _binary,
    **dict.fromkeys((LIST, SET), read_list),
    STRUCT: read_struct,
}
