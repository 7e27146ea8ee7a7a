"""Read the column chunks of footers: the first ones field by field, later ones by regular expressions.

A footer is checked before pyarrow sees it (`streamgda.storage.footers`), and of many small files there is
little else to read. `streamgda.storage.layouts` makes the regular expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from streamgda.storage.layouts import Roles, pattern_of_struct, signed
from streamgda.storage.thrift import (
    BINARY,
    INT32,
    INT64,
    LIST,
    STRUCT,
    Struct,
    read_list_header,
    read_struct,
)

# The fields of a chunk.
METADATA, _ENCRYPTED = (3, STRUCT), (8, STRUCT)

# The fields of its metadata.
_TYPE, PATH, _CODEC = (1, INT32), (3, LIST), (4, INT32)
N_VALUES, N_BYTES, _N_STORED, _DATA, _DICTIONARY = ((i, INT64) for i in (5, 6, 7, 9, 11))
_STATISTICS, _SIZES = (12, STRUCT), (16, STRUCT)

# The fields of its statistics: the least and largest value, in two versions.
_BOUNDS = (1, BINARY), (2, BINARY), (5, BINARY), (6, BINARY)

# The fields of its sizes: bytes of strings, and values by repetition level and by definition level.
_N_CHARACTERS, _N_REPEATED, _N_DEFINED = (1, INT64), (2, LIST), (3, LIST)

STRINGS = 6  # the type of strings, among those of a column

_ROLES_OF_STRINGS: Roles = {
    _TYPE: "same",
    _CODEC: "same",
    N_VALUES: "values",
    _N_STORED: "stored",
    _DATA: "data",
    _DICTIONARY: "dictionary",
}

_ROLES: Roles = {**_ROLES_OF_STRINGS, _STATISTICS: dict.fromkeys(_BOUNDS, "same")}

_READ_FIRST = 64  # chunks, field by field: a regular expression takes as long to make as a hundred to read

_MOST_LAYOUTS = 16  # to try, one after the other


@dataclass(frozen=True, eq=False)
class Form:
    """What is the same in all chunks that are laid out alike.

    Attributes
    ----------
    kind, codec : int
        The type of the values, and the codec of the pages.
    widths : frozenset of int
        How many bytes the least and largest values in the statistics have.
    counts_characters : bool
        Whether the bytes of strings are counted.
    n_repeated, n_defined : int
        For how many repetition and definition levels values are counted.
    """

    kind: int
    codec: int
    widths: frozenset[int]
    counts_characters: bool
    n_repeated: int
    n_defined: int

    @classmethod
    def of(cls, metadata: Struct) -> Form:
        """The form of a chunk with this metadata."""
        bounds, sizes = metadata.get(_STATISTICS, {}), metadata.get(_SIZES, {})
        return cls(
            metadata[_TYPE],
            metadata[_CODEC],
            frozenset(len(bounds[i]) for i in _BOUNDS if i in bounds),
            _N_CHARACTERS in sizes,
            len(sizes.get(_N_REPEATED, ())),
            len(sizes.get(_N_DEFINED, ())),
        )


PlacedChunk: TypeAlias = tuple[Form, int, int, int]
"""The form of a chunk, how many values it has, how many bytes in the file, and where these begin."""


class ChunkReader:
    """Reads the chunks of row groups, one row group after the other."""

    def __init__(self) -> None:
        self._n_read = 0
        self._layouts: list[_Layout] = []
        self._last_of_column: dict[int, _Layout] = {}  # by the position of the column

    def read_all(self, content: bytes, at: int) -> tuple[list[PlacedChunk | None], int]:
        """The chunks of a row group, None for encrypted ones, and the position behind them."""
        size, kind, at = read_list_header(content, at)
        if kind != STRUCT:
            raise TypeError("not a list of chunks")
        chunks = []
        for column in range(size):
            chunk, at = self._read(content, at, column)
            chunks.append(chunk)
        return chunks, at

    def _read(self, content: bytes, at: int, column: int) -> tuple[PlacedChunk | None, int]:
        last = self._last_of_column.get(column)
        for layout in self._layouts if last is None else (last, *self._layouts):
            if found := layout.pattern.match(content, at):
                self._last_of_column[column] = layout
                return layout.read(found), found.end()
        struct, end = read_struct(content, at)
        if _ENCRYPTED in struct:
            return None, end
        metadata = struct[METADATA]
        self._n_read += 1
        if self._n_read > _READ_FIRST and len(self._layouts) < _MOST_LAYOUTS:
            self._layouts.append(_Layout.of(content, at, metadata))
        start = metadata.get(_DICTIONARY) or metadata[_DATA]
        return (Form.of(metadata), metadata[N_VALUES], metadata[_N_STORED], start), end


@dataclass(frozen=True)
class _Layout:
    """Chunks with the same fields: a regular expression for them, the groups to read, and their form."""

    pattern: re.Pattern[bytes]
    groups: tuple[str, ...]
    form: Form

    @classmethod
    def of(cls, content: bytes, at: int, metadata: Struct) -> _Layout:
        """The layout of the chunk at a position."""
        roles = _ROLES_OF_STRINGS if metadata[_TYPE] == STRINGS else _ROLES
        pattern = re.compile(pattern_of_struct(content, at, {METADATA: roles}), re.DOTALL)
        groups = ("values", "stored", "data", "dictionary")
        return cls(pattern, groups if _DICTIONARY in metadata else groups[:-1], Form.of(metadata))

    def read(self, found: re.Match[bytes]) -> PlacedChunk:
        """The chunk that was found."""
        n_values, n_stored, *starts = map(signed, found.group(*self.groups))
        return self.form, n_values, n_stored, starts[-1] or starts[0]
