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

    Where the target is a partition key, its labels are whole numbers until a folder's name is none; then
    all of them are text, and the entries of one kind are no use for the other. Two contents of a file of
    the same size and time have two footers, and two names, where they are verified.
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
    """Whether a name is one that `entry_name` or `fold_name` makes: never that of another kind of file."""
    return isinstance(name, str) and re.fullmatch(_ENTRY, name) is not None


def is_entry(name: str) -> bool:
    """Whether a file among the entries is one, or what a crash left of writing one."""
    return is_entry_name(finished_name(name) or name)


def is_unfinished(name: str) -> bool:
    """Whether a file in the ledger's own folder is what a crash left of writing the manifest or the total."""
    return finished_name(name) in {MANIFEST, TOTAL}


def foreign_names(filesystem: pafs.FileSystem, folder: str) -> list[str]:
    """What lies in the folder of a ledger, and among its entries, that no ledger writes."""
    own = {MANIFEST, TOTAL, ENTRIES, LOCK}
    outside = [name for name in children(filesystem, folder) if name not in own and not is_unfinished(name)]
    entries = children(filesystem, f"{folder}/{ENTRIES}")
    return outside + [f"{ENTRIES}/{name}" for name in entries if not is_entry(name)]
