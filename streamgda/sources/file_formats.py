"""Files of other formats than Parquet, known by their names, and what reads them."""

from __future__ import annotations

import re

_READERS = (
    (r"csv|txt", "CSV", "pyarrow.dataset.dataset({path!r}, format='csv')"),
    (r"tsv|tab", "tab-separated", "polars.scan_csv({path!r}, separator='\\t')"),
    (r"json|jsonl|ndjson", "JSON", "pyarrow.dataset.dataset({path!r}, format='json')"),
    (r"feather|arrow|ipc", "Arrow or Feather", "pyarrow.dataset.dataset({path!r}, format='feather')"),
    (r"arrows", "an Arrow stream", "pyarrow.ipc.open_stream({path!r})"),
    (r"orc", "ORC", "pyarrow.dataset.dataset({path!r}, format='orc')"),
)

_COMPRESSED = r"(?:\.(?:gz|bz2|zst|lz4))?"


def other_format(path: str) -> str:
    """Say what a file is if it is no Parquet, by its name, and how to read it; "" for other names."""
    for suffixes, name, reader in _READERS:
        if re.search(rf"\.(?:{suffixes}){_COMPRESSED}$", path, re.IGNORECASE):
            return (
                f"it is {name} by its name. Write it as Parquet; or, to learn from it as it is, use "
                f"scan_arrow({reader.format(path=path)}, ...)"
            )
    return ""
