"""Read structs of Thrift's compact protocol that are laid out alike, each by one regular expression.

The chunks of a column have the same fields in all row groups and files of a dataset, and differ in numbers.
A regular expression that was made from one of them reads the next ten times faster than a loop does.
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
"""Of numbers to read, the names of their groups; "same" for what must be the same; of structs, their own."""

_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"  # 64 bits in groups of seven; the last byte has no high bit

_WIDTHS = {TRUE: 1, FALSE: 1, BYTE: 1, DOUBLE: 8}  # in a list, bools are bytes

_BYTES = b"(?:%b)" % b"|".join(re.escape(bytes([n])) + b".{%d}" % n for n in range(1 << 7))


def pattern_of_struct(content: bytes, at: int, roles: Roles) -> bytes:
    """A regular expression for structs with the same fields as one, and lists of the same lengths.

    Numbers and bytes without a role may be any, but bytes are fewer than 128.

    Parameters
    ----------
    content : bytes
        Holds the struct, which is sound.
    at : int
        Where it begins.
    roles : mapping
        What to read, and what must be the same.
    """
    return _struct(content, at, roles)[0]


def _struct(content: bytes, at: int, roles: Roles) -> tuple[bytes, int]:
    parts = []
    number = 0
    while header := content[at]:
        start, kind = at, header & 15
        number, at = (number + (header >> 4), at + 1) if header >> 4 else read_integer(content, at + 1)
        parts.append(re.escape(content[start:at]))
        if kind > FALSE:  # a bool is its header
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
    number, end = read_unsigned(content, at)
    literal = re.escape(content[at:end])
    if kind == BINARY:
        return literal + b".{%d}" % number if role == "same" else _BYTES, end + number
    if role and role != "same":
        return b"(?P<%b>%b)" % (role.encode(), _NUMBER), end
    return literal if role else _NUMBER, end


def _list(content: bytes, at: int) -> tuple[bytes, int]:
    start = at
    size, kind, at = read_list_header(content, at)
    parts = [re.escape(content[start:at])]
    for _ in range(size):
        part, at = _value(content, at, kind, None)
        parts.append(part)
    return b"".join(parts), at


def signed(number: bytes) -> int:
    """A number that a group has matched, with its sign."""
    value, _ = read_integer(number, 0)
    return value
