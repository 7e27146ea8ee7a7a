"""How strings are read, so that long ones take bounded memory.

A column may be stored as a dictionary of its distinct strings, and an index for each row: a megabyte of them
can stand for gigabytes of strings. Such a column is read as a dictionary too. Of the others, few rows are
decoded at a time where strings are long.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

import pyarrow.parquet as pq

from streamgda.storage.ranges import chunks_of

_BYTES_AT_A_TIME = 1 << 20  # by the mean length of a row group; a few rows may be many times as long

# The most that a dictionary and its indices take. Writers give up a dictionary that grows to 1 MB, and then
# store strings; the footer does not say so, but these take more.
_BYTES_OF_DICTIONARY = 1 << 21
_BYTES_OF_INDEX = 5


def read_as_dictionaries(
    metadata: pq.FileMetaData, groups: Collection[int], labels: Collection[str], kept: Collection[str]
) -> list[str]:
    """The labels, and those of the kept columns that are stored as dictionaries, in some row groups.

    Strings that are stored by their differences or lengths are left out: Arrow makes no dictionary of them.
    """
    found = chain.from_iterable(chunks_of(metadata, groups, {*labels, *kept}))
    chunks = [chunk for chunk in found if chunk.physical_type == "BYTE_ARRAY"]
    plain = {chunk.path_in_schema for chunk in chunks if not _has_indices(chunk)}
    in_differences = {
        chunk.path_in_schema for chunk in chunks if any("DELTA" in encoding for encoding in chunk.encodings)
    }
    strings = {chunk.path_in_schema for chunk in chunks}.intersection(kept) - plain
    return sorted({*labels, *strings} - in_differences)


def rows_at_a_time(metadata: pq.FileMetaData, groups: Collection[int], names: Collection[str]) -> int:
    """How many rows take 1 MB in some columns, if they are as long as in the mean."""
    n_rows = sum(metadata.row_group(i).num_rows for i in groups)
    chunks = chain.from_iterable(chunks_of(metadata, groups, names))
    n_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    return max(int(_BYTES_AT_A_TIME * n_rows / max(n_bytes, 1)), 1)


def _has_indices(chunk: pq.ColumnChunkMetaData) -> bool:
    most = _BYTES_OF_DICTIONARY + _BYTES_OF_INDEX * chunk.num_values
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)
