"""The names of the files in a ledger: made here, and recognised here before a file is opened or deleted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow.fs as pafs

from streamgda.sources.base import InputFile
from streamgda.storage.documents import digest
from streamgda.storage.versions import children
from streamgda.storage.writing import LOCK, finished_name

MANIFEST = "manifest.parquet"

TOTAL = "total.parquet"

ENTRIES = "entries"

_ENTRY = r"(?:[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{8}|fold-[0-9a-f]{32})\.parquet"


def entry_name(file: InputFile, read_options: Mapping[str, Any]) -> str:
    """The name of the entry of a file in its present version.

    If the target is a partition key, its labels are integers as long as all names of folders are integers.
    Otherwise all of them are text, and the entries get other names, since those with integers cannot be used.
    If files are verified, contents with the same size and time have different footers, and so different
    names.
    """
    if isinstance(file.partition.get(str(read_options.get("target"))), str):
        read_options = {**read_options, "labels": "text"}
    seen = file.version.identity if file.footer is None else (*file.version.identity, file.footer)
    parts = digest(file.path), digest(seen, 8), digest(read_options, 4)
    return f"{'-'.join(parts)}.parquet"


def fold_name(entries: Iterable[str]) -> str:
    """The name of the entry that several entries are folded into."""
    return f"fold-{digest(sorted(entries))}.parquet"


def is_entry_name(name: object) -> bool:
    """Whether a name has the form that `entry_name` and `fold_name` give."""
    return isinstance(name, str) and re.fullmatch(_ENTRY, name) is not None


def is_entry(name: str) -> bool:
    """Whether a file in the folder of entries is an entry, or an unfinished entry that a crash left."""
    return is_entry_name(finished_name(name) or name)


def is_unfinished(name: str) -> bool:
    """Whether a file in the folder of a ledger is an unfinished manifest or total that a crash left."""
    return finished_name(name) in {MANIFEST, TOTAL}


def foreign_names(filesystem: pafs.FileSystem, folder: str) -> list[str]:
    """The files in the folder of a ledger, and among its entries, that no ledger writes.

    A total without entries is not that of a ledger.
    """
    entries = children(filesystem, f"{folder}/{ENTRIES}")
    own = {MANIFEST, ENTRIES, LOCK, *([TOTAL] if entries else [])}
    outside = [name for name in children(filesystem, folder) if name not in own and not is_unfinished(name)]
    return outside + [f"{ENTRIES}/{name}" for name in entries if not is_entry(name)]
