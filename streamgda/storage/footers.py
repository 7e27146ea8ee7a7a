"""Read and check the footer of a Parquet file, before pyarrow looks at the columns of its row groups.

pyarrow ends the process where that part of a footer is damaged: its ``ColumnChunk(int i)`` is declared
without ``except +``, so the exception of the C++ library is not caught; nor are those of the statistics by
which row groups are filtered. The fields are those of ``parquet.thrift`` [1]_.

References
----------
.. [1] https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from streamgda.storage.column_chunks import METADATA, N_BYTES, N_VALUES, PATH, STRINGS, ChunkReader, Form
from streamgda.storage.thrift import (
    INT32,
    INT64,
    LIST,
    READ_ERRORS,
    Field,
    Reader,
    Struct,
    read_list,
    read_struct,
)

# The fields of a footer.
_SCHEMA, _ROW_GROUPS, _KEY_VALUES, _COLUMN_ORDERS = ((i, LIST) for i in (2, 4, 5, 7))

# The fields of an element of the schema: a column, or a group of columns.
_TYPE, _WIDTH, _REPETITION, _N_CHILDREN = (1, INT32), (2, INT32), (3, INT32), (5, INT32)

_OPTIONAL, _REPEATED = 1, 2  # kinds of repetition

# The fields of a row group.
_CHUNKS, _N_ROWS = (1, LIST), (3, INT64)

_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # bytes of a value, by the type of its column

_TAIL = 8  # bytes after the footer: its length, and "PAR1", or "PARE" if it is encrypted

_READ_AHEAD = 1 << 16  # bytes that hold most footers


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


def read_tail(file: pa.NativeFile) -> bytes:
    """The end of a Parquet file: its footer, the length of that, and four letters."""
    size = file.size()
    tail: bytes = file.read_at(min(size, _READ_AHEAD), max(size - _READ_AHEAD, 0))
    length = int.from_bytes(tail[-_TAIL:-4], "little") + _TAIL
    if len(tail) < length <= size:
        return bytes(file.read_at(length, size - length))
    return tail[-length:]


def digest_of_footer(tail: bytes) -> str:
    """A hash of a footer, as `read_tail` returns it. It is in saved ledgers, so it may never change."""
    return hashlib.blake2b(tail, digest_size=16).hexdigest()


class FooterCheck:
    """Checks the footers of the files of a dataset, one after the other.

    They are much alike: a schema or other list with the same bytes as in the file before is not read again.
    """

    def __init__(self) -> None:
        self._chunks = ChunkReader()
        rows = partial(read_struct, readers={_CHUNKS: self._chunks.read_all})
        self._readers: dict[Field, Reader] = {
            _SCHEMA: _Repeated(_read_leaves),
            _ROW_GROUPS: partial(read_list, reader=rows),
            _KEY_VALUES: _Repeated(read_list),
            _COLUMN_ORDERS: _Repeated(read_list),
        }

    def __call__(self, tail: bytes) -> None:
        """Check that each row group has a chunk for each column, of its type and in a place of its own.

        What is encrypted is passed over.

        Parameters
        ----------
        tail : bytes
            As `read_tail` returns it.

        Raises
        ------
        pyarrow.ArrowInvalid
            If the footer is damaged; it is a ValueError.
        """
        if tail.endswith(b"PARE"):
            return
        with _reading():
            footer, _ = read_struct(tail, readers=self._readers)
            leaves = footer[_SCHEMA]
            places = sorted(
                place for group in footer[_ROW_GROUPS] for place in _checked_places(group, leaves)
            )
        if any(stop > start for (_, stop), (start, _) in pairwise(places)):
            raise pa.ArrowInvalid("the footer is damaged: two columns are in one place")


class _Repeated:
    """Reads a list, unless its bytes are those of the last one; then returns the same value again."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._last: tuple[bytes, Any] | None = None

    def __call__(self, content: bytes, at: int) -> tuple[Any, int]:
        last = self._last
        if last is not None and content.startswith(last[0], at):
            return last[1], at + len(last[0])
        value, end = self._read(content, at)
        self._last = content[at:end], value
        return value, end


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A column of the schema that holds values.

    Attributes
    ----------
    kind : int
        The type of its values.
    width : int or None
        The bytes of a value; None for strings.
    repeated, defined : int
        How many of the column and the groups that enclose it are repeated, and how many are repeated or
        optional: the highest repetition level and definition level.
    """

    kind: int
    width: int | None
    repeated: int
    defined: int


def _read_leaves(content: bytes, at: int) -> tuple[list[_Leaf], int]:
    elements, at = read_list(content, at)
    return list(_leaves(iter(elements))), at


def _leaves(elements: Iterator[Struct], repeated: int = 0, defined: int = 0) -> Iterator[_Leaf]:
    """The leaves of the next element of a schema, whose elements are listed depth first."""
    element = next(elements)
    repetition = element.get(_REPETITION, 0)
    repeated += repetition == _REPEATED
    defined += repetition in (_OPTIONAL, _REPEATED)
    for _ in range(element.get(_N_CHILDREN, 0)):
        yield from _leaves(elements, repeated, defined)
    if _TYPE in element:
        kind = element[_TYPE]
        yield _Leaf(kind, _WIDTHS.get(kind, element.get(_WIDTH)), repeated, defined)


def _checked_places(group: Struct, leaves: Sequence[_Leaf]) -> Iterator[tuple[int, int]]:
    """Check the chunks of a row group, and yield where each begins and ends."""
    n_rows = group[_N_ROWS]
    if len(group[_CHUNKS]) != len(leaves):
        raise pa.ArrowInvalid("the footer is damaged: a row group has more or fewer columns than the file")
    for chunk, leaf in zip(group[_CHUNKS], leaves, strict=True):
        if chunk is None:  # encrypted
            continue
        form, n_values, n_stored, start = chunk
        if form.kind != leaf.kind:
            raise pa.ArrowInvalid("the footer is damaged: a column has two types")
        if not leaf.repeated and n_values != n_rows:
            raise pa.ArrowInvalid("the footer is damaged: a column has more or fewer rows than its row group")
        if not _has_sound_statistics(form, leaf):
            raise pa.ArrowInvalid("the footer is damaged: its statistics are not of the type of their column")
        if n_stored > 0 and start > 0:
            yield start, start + n_stored


@lru_cache
def _has_sound_statistics(form: Form, leaf: _Leaf) -> bool:
    """Whether bounds have the width of a value, and counts are for each level, where there are any."""
    return (
        (leaf.kind == STRINGS or form.widths <= {0, leaf.width})
        and (leaf.kind == STRINGS or not form.counts_characters)
        and form.n_repeated in (0, leaf.repeated + 1)
        and form.n_defined in (0, leaf.defined + 1)
    )


def chunks(file: pa.NativeFile) -> Iterator[Chunk]:
    """The column chunks of a Parquet file, in order.

    Raises
    ------
    pyarrow.ArrowInvalid
        If the footer is damaged; it is a ValueError.
    """
    with _reading():
        footer, _ = read_struct(read_tail(file))
        for group in footer[_ROW_GROUPS]:
            for chunk in group[_CHUNKS]:
                metadata = chunk[METADATA]
                yield Chunk(metadata[PATH][0].decode(), metadata[N_VALUES], metadata[N_BYTES])


@contextmanager
def _reading() -> Iterator[None]:
    """Turn what damaged bytes may raise into one error."""
    try:
        yield
    except (*READ_ERRORS, TypeError, AttributeError, RuntimeError, UnicodeDecodeError, re.error) as error:
        raise pa.ArrowInvalid("the footer is damaged") from error
