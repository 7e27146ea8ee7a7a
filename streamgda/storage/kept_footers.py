"""Remote Parquet files that were opened lately, and their footers: for a plan, and again for the rows."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.storage.filesystems import is_object_store
from streamgda.storage.versions import Version

_FILE = 1 << 11  # bytes that an opened file takes, about


class KeptFooter(NamedTuple):
    """The end of a file, with its footer; and the file as pyarrow has opened it; fsspec needs none."""

    tail: bytes
    file: pa.NativeFile | None


class KeptFooters:
    """The ends of some files; the oldest are forgotten.

    Parameters
    ----------
    most_bytes : int
        How many bytes to keep in all.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self._kept: dict[tuple[str, Version], tuple[pafs.FileSystem, KeptFooter]] = {}
        self._lock = Lock()

    def keep(
        self,
        filesystem: pafs.FileSystem,
        path: str,
        version: Version,
        tail: bytes,
        file: pa.NativeFile | None,
    ) -> None:
        """Keep the end of a file in some version, and the opened file."""
        with self._lock:
            self._forget((path, version))
            is_name = is_object_store(filesystem)  # elsewhere an open file may hold a connection
            self._kept[path, version] = filesystem, KeptFooter(tail, file if is_name else None)
            self._n_bytes += len(tail) + _FILE
            while self._n_bytes > self._most_bytes:
                self._forget(next(iter(self._kept)))

    def get(self, filesystem: pafs.FileSystem, path: str, version: Version) -> KeptFooter | None:
        """The end of a file in some version, if it is kept."""
        kept = self._kept.get((path, version))
        return kept[1] if kept is not None and kept[0] == filesystem else None

    def _forget(self, key: tuple[str, Version]) -> None:
        if key in self._kept:
            self._n_bytes -= len(self._kept.pop(key)[1].tail) + _FILE


KEPT_FOOTERS = KeptFooters(1 << 24)
"""Those that this process has read."""
