"""Make a regular expression from a struct of Thrift's compact protocol, which reads others laid out like it.

The chunks of a column have the same fields in all row groups and files of a dataset, and differ in numbers.
The regular expression has the bytes that announce the fields as they are, and in place of each number "any
number". A number to be read is a named group. A match reads a struct six times faster than a loop over its
fields does. A struct with other fields does not match, and is read by a loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from streamgda.storage.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    LIST,
    SET,
    STRUCT,
    TRUE,
    Field,
    read_integer,
    read_list_header,
    read_unsigned,
)

Roles: TypeAlias = Mapping[Field, "str | Roles"]
"""What becomes of the fields of a struct: the name of the group that reads a number; "same" for a number that
must be the same, or a string that must be as long; for a struct within it, the roles of its fields."""

_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"  # 64 bits in groups of seven; the last byte has no high bit

_WIDTHS = {TRUE: 1, FALSE: 1, BYTE: 1, DOUBLE: 8}  # bytes of a value; in a list, bools are bytes

_MOST_BYTES = 1 << 7  # a string without a role has fewer, so that one byte says how many

_STRING = b"(?:%b)" % b"|".join(re.escape(bytes([n])) + b".{%d}" % n for n in range(_MOST_BYTES))


def pattern_of_struct(content: bytes, at: int, roles: Roles) -> bytes:
    """A regular expression for structs with the same fields as one, and lists of the same lengths.

    A number or string without a role may be any; but a string of 128 bytes or more does not match.

    Parameters
    ----------
    content : bytes
        Holds the struct, which is sound.
    at : int
        Where it begins.
    roles : mapping
        Which numbers to read, and what must be the same.
    """
    return _struct(content, at, roles)[0]


def _struct(content: bytes, at: int, roles: Roles) -> tuple[bytes, int]:
    parts = []
    number = 0
    while header := content[at]:
        start, kind = at, header & 15
        number, at = (number + (header >> 4), at + 1) if header >> 4 else read_integer(content, at + 1)
        parts.append(re.escape(content[start:at]))
        if kind > FALSE:  # the value of a bool is its type, and no byte follows
            part, at = _value(content, at, kind, roles.get((number, kind)))
            parts.append(part)
    return b"".join(parts) + rb"\x00", at + 1


def _value(content: bytes, at: int, kind: int, role: Any) -> tuple[bytes, int]:
    if kind == STRUCT:
        return _struct(content, at, role or {})
    if kind in (LIST, SET):
        return _list(content, at)
    if kind in _WIDTHS:
        return b".{%d}" % _WIDTHS[kind], at + _WIDTHS[kind]
    number, end = read_unsigned(content, at)  # of a string, its length
    literal = re.escape(content[at:end])
    if kind == BINARY:
        return literal + b".{%d}" % number if role == "same" else _STRING, end + number
    if role == "same":
        return literal, end
    return b"(?P<%b>%b)" % (role.encode(), _NUMBER) if role else _NUMBER, end


def _list(content: bytes, at: int) -> tuple[bytes, int]:
    start = at
    size, kind, at = read_list_header(content, at)
    parts = [re.escape(content[start:at])]
    for _ in range(size):
        part, at = _value(content, at, kind, None)
        parts.append(part)
    return b"".join(parts), at


def signed(number: bytes) -> int:
    """The number that a group has matched."""
    value, _ = read_integer(number, 0)
    return value
