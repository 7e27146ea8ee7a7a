"""Files and tables of other formats: how they are told from a Parquet dataset, and what reads them.

In the folder of a Delta, Iceberg or Hudi table, a log says which of the Parquet files are rows of the table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

import pyarrow.fs as pafs

from streamgda.storage.versions import children

SUFFIXES = (".parquet", ".parq", ".pq")
"""How the names of Parquet files end."""

OTHER_FORMATS = (
    "it is damaged or of another format (write CSV, Feather, ORC or JSON as Parquet; or learn from it in "
    "Python, by scan_arrow(pyarrow.dataset.dataset(path, format='csv'), ...))"
)
"""What may be wrong with a file that is not named as Parquet."""

_TABLES = (
    (
        "a Delta table",
        re.compile(r"(?:^|/)_delta_log(?=/|$)"),
        "scan_parquet(deltalake.DeltaTable({root!r}), ...)",
    ),
    (
        "an Iceberg table",
        re.compile(r"(?:^|/)metadata/[^/]*\.metadata\.json$"),
        "scan_parquet(catalog.load_table(...), ...)",
    ),
    (
        "a Hudi table",
        re.compile(r"(?:^|/)\.hoodie(?=/|$)"),
        (
            "scan_arrow(pyarrow.Table.from_batches(HudiTableBuilder.from_base_uri({root!r}).build()"
            ".read_snapshot()), ...)"
        ),
    ),
)
"""The name of each table format, what marks the folder of such a table, and what reads it."""


def check_no_table_format(listed: Iterable[str], files: Collection[str]) -> None:
    """Raise ValueError if files lie in a folder of a table format.

    Parameters
    ----------
    listed : iterable of str
        All paths that are known to be there, from one folder on.
    files : collection of str
        What would be read as rows.
    """
    roots = {
        (name, reader, path[: mark.start()])
        for path in listed
        for name, pattern, reader in _TABLES
        if (mark := pattern.search(path))
    }
    for name, reader, root in roots:
        inside = f"{root}/" if root else ""
        if any(file.startswith(inside) for file in files):
            raise ValueError(
                f"{root or 'the folder'} is {name}, and its log says which rows of its files are still "
                f"part of it; to read these, use {reader.format(root=root)}"
            )


def marks_above(filesystem: pafs.FileSystem, folder: str) -> Iterator[str]:
    """Yield the paths that mark a table format in the folders above a folder of its data files.

    The names of folders of data files have hive keys or, in Iceberg, one of them is "data".
    """
    parent, _, name = folder.rpartition("/")
    while "=" in name:
        yield from _marks_in(filesystem, parent)
        parent, _, name = parent.rpartition("/")
    if name == "data":
        yield from _marks_in(filesystem, parent)


def _marks_in(filesystem: pafs.FileSystem, folder: str) -> Iterator[str]:
    inside = f"{folder}/" if folder else ""
    with suppress(OSError):  # a user may be allowed to read the partition alone
        yield from (f"{inside}{name}" for name in children(filesystem, folder))
        yield from (f"{inside}metadata/{name}" for name in children(filesystem, f"{inside}metadata"))
