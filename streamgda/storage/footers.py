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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from streamgda.storage.thrift import BINARY, INT32, INT64, LIST, STRUCT, Struct, read_struct

_SCHEMA, _ROW_GROUPS = (2, LIST), (4, LIST)  # fields of a footer,

# of a column in its schema, or of a group of columns,
_TYPE, _WIDTH, _REPETITION, _N_CHILDREN = (1, INT32), (2, INT32), (3, INT32), (5, INT32)

_CHUNKS, _N_ROWS = (1, LIST), (3, INT64)  # of a row group,

_METADATA, _ENCRYPTED = (3, STRUCT), (8, STRUCT)  # of a chunk,

# of its metadata, where its type is once more,
_PATH, _N_VALUES, _N_BYTES, _N_STORED = (3, LIST), (5, INT64), (6, INT64), (7, INT64)
_DATA, _DICTIONARY, _STATISTICS, _SIZES = (9, INT64), (11, INT64), (12, STRUCT), (16, STRUCT)

# and of its statistics: least and largest values, and the numbers of values by level.
_BOUNDS = (1, BINARY), (2, BINARY), (5, BINARY), (6, BINARY)
_N_CHARACTERS, _N_REPEATED, _N_DEFINED = (1, INT64), (2, LIST), (3, LIST)

_OPTIONAL, _REPEATED = 1, 2  # kinds of repetition

_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # bytes of a value, by its type

_STRINGS = 6  # the type of byte arrays

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
    """The end of a Parquet file: its footer, and what follows on it. A reader of footers needs no more."""
    size = file.size()
    tail: bytes = file.read_at(min(size, _READ_AHEAD), max(size - _READ_AHEAD, 0))
    length = int.from_bytes(tail[-_TAIL:-4], "little") + _TAIL
    if len(tail) < length <= size:
        return bytes(file.read_at(length, size - length))
    return tail[-length:]


def digest_of_footer(tail: bytes) -> str:
    """A hash of a footer, as `read_tail` returns it. It is in saved ledgers, so it may never change."""
    return hashlib.blake2b(tail, digest_size=16).hexdigest()


def check_footer(tail: bytes) -> None:
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
        footer, _ = read_struct(tail)
        leaves = list(_leaves(iter(footer[_SCHEMA])))
        places = sorted(place for group in footer[_ROW_GROUPS] for place in _places(group, leaves))
    if any(stop > start for (_, stop), (start, _) in pairwise(places)):
        raise pa.ArrowInvalid("the footer is damaged: two columns are in one place")


@dataclass(frozen=True)
class _Leaf:
    """A column of the schema: its type, and how often it is repeated and optional with what it is in."""

    kind: int
    width: int | None
    repeated: int
    defined: int


def _leaves(elements: Iterator[Struct], repeated: int = 0, defined: int = 0) -> Iterator[_Leaf]:
    """The columns of the next element of a schema, whose elements are listed depth first."""
    element = next(elements)
    repetition = element.get(_REPETITION, 0)
    repeated += repetition == _REPEATED
    defined += repetition in (_OPTIONAL, _REPEATED)
    for _ in range(element.get(_N_CHILDREN, 0)):
        yield from _leaves(elements, repeated, defined)
    if _TYPE in element:
        kind = element[_TYPE]
        yield _Leaf(kind, _WIDTHS.get(kind, element.get(_WIDTH)), repeated, defined)


def _places(group: Struct, leaves: Sequence[_Leaf]) -> Iterator[tuple[int, int]]:
    """Where the chunks of a row group begin and end."""
    if len(group[_CHUNKS]) != len(leaves):
        raise pa.ArrowInvalid("the footer is damaged: a row group has more or fewer columns than the file")
    for chunk, leaf in zip(group[_CHUNKS], leaves, strict=True):
        if _ENCRYPTED in chunk:
            continue
        metadata = chunk[_METADATA]
        if metadata[_TYPE] != leaf.kind:
            raise pa.ArrowInvalid("the footer is damaged: a column has two types")
        if not leaf.repeated and metadata[_N_VALUES] != group[_N_ROWS]:
            raise pa.ArrowInvalid("the footer is damaged: a column has more or fewer rows than its row group")
        if not _has_sound_statistics(metadata, leaf):
            raise pa.ArrowInvalid("the footer is damaged: its statistics are not of the type of their column")
        start = metadata.get(_DICTIONARY) or metadata[_DATA]
        if metadata[_N_STORED] > 0 and start > 0:
            yield start, start + metadata[_N_STORED]


def _has_sound_statistics(metadata: Struct, leaf: _Leaf) -> bool:
    bounds, sizes = metadata.get(_STATISTICS, {}), metadata.get(_SIZES, {})
    widths = {len(bounds[i]) for i in _BOUNDS if i in bounds}
    return (
        (leaf.kind == _STRINGS or widths <= {0, leaf.width})
        and (leaf.kind == _STRINGS or _N_CHARACTERS not in sizes)
        and len(sizes.get(_N_REPEATED, ())) in (0, leaf.repeated + 1)
        and len(sizes.get(_N_DEFINED, ())) in (0, leaf.defined + 1)
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
                metadata = chunk[_METADATA]
                yield Chunk(metadata[_PATH][0].decode(), metadata[_N_VALUES], metadata[_N_BYTES])


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise pa.ArrowInvalid("the footer is damaged") from error
