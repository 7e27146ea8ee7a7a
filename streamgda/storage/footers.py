"""How many values and bytes the columns of a Parquet file have, by its footer.

pyarrow knows these numbers too, but ends the process where such a part of a footer is damaged: its
``ColumnChunk(int i)`` is declared without ``except +``, so the exception of the C++ library is not caught.
The footer is a Thrift struct in the compact protocol [1]_; its fields are those of ``parquet.thrift`` [2]_.

References
----------
.. [1] https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
.. [2] https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_ROW_GROUPS, _CHUNKS, _METADATA, _PATH, _N_VALUES, _N_BYTES = 4, 1, 3, 3, 5, 6  # numbers of fields

_BOOLS = _TRUE, _ = 1, 2  # types of fields that have no content; in a list they are bytes

_TAIL = 8  # bytes after the footer: its length, and "PAR1"


@dataclass(frozen=True)
class Chunk:
    """A column of numbers or strings in one row group.

    Attributes
    ----------
    column : str
        The column that it belongs to.
    n_values : int
        Its values, nulls and those within lists included.
    n_bytes : int
        What its pages take when they are decompressed.
    """

    column: str
    n_values: int
    n_bytes: int


def chunks(file: pa.NativeFile) -> Iterator[Chunk]:
    """The column chunks of a Parquet file, in order.

    Raises
    ------
    ValueError
        If the footer is damaged.
    """
    try:
        footer = _Compact(_footer_of(file)).struct()
        for group in footer[_ROW_GROUPS]:
            for chunk in group[_CHUNKS]:
                metadata = chunk[_METADATA]
                yield Chunk(metadata[_PATH][0].decode(), metadata[_N_VALUES], metadata[_N_BYTES])
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise ValueError("the footer is damaged") from error


def _footer_of(file: pa.NativeFile) -> bytes:
    length, _ = struct.unpack("<I4s", file.read_at(_TAIL, file.size() - _TAIL))
    content: bytes = file.read_at(length, file.size() - _TAIL - length)
    return content


class _Compact:
    """Read Thrift's compact protocol: structs as dicts by the numbers of their fields."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0
        self._readers: dict[int, Callable[[], Any]] = {
            3: self._byte,
            **dict.fromkeys((4, 5, 6), self._integer),
            7: lambda: self._bytes(8),
            8: lambda: self._bytes(self._unsigned()),
            **dict.fromkeys((9, 10), self._list),
            12: self.struct,
        }

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._integer()
            kind = header & 15
            fields[number] = self._readers[kind]() if kind not in _BOOLS else kind == _TRUE
        return fields

    def _list(self) -> list[Any]:
        header = self._byte()
        size, kind = header >> 4, header & 15
        read = self._byte if kind in _BOOLS else self._readers[kind]
        return [read() for _ in range(size if size < 15 else self._unsigned())]

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, size: int) -> bytes:
        self._at += size
        return self._content[self._at - size : self._at]

    def _unsigned(self) -> int:
        """A number in groups of seven bits, the lowest first."""
        byte, value, shift = self._byte(), 0, 0
        while byte & 128:
            value, shift, byte = value | (byte & 127) << shift, shift + 7, self._byte()
        return value | byte << shift

    def _integer(self) -> int:
        """A signed number; 0, −1, 1, −2 are written as 0, 1, 2, 3."""
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
