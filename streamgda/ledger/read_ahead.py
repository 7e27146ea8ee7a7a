"""Fetch small files before they are used, in order, with at most a few megabytes in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.storage.filesystems import reaching

_READERS = 16  # an object store answers many requests in the time of one

_MOST_BYTES = 1 << 24  # fetched and not yet used; a larger file is fetched when its turn comes


def contents(filesystem: pafs.FileSystem, paths: Sequence[str], sizes: Sequence[int]) -> Iterator[pa.Buffer]:
    """Yield the contents of some files, in order. While one is used, the next few are fetched.

    A content counts as used when the next one is requested.

    Parameters
    ----------
    filesystem, paths
        Where the files are.
    sizes : sequence of int
        The bytes in each file.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    OSError
        If the filesystem cannot be reached.
    """
    waiting: deque[Future[pa.Buffer]] = deque()
    n_asked = n_bytes = 0
    pool = ThreadPoolExecutor(_READERS)
    try:
        for turn, size in enumerate(sizes):
            ahead = slice(n_asked, turn + _READERS)
            for path, following in zip(paths[ahead], sizes[ahead], strict=True):
                if waiting and n_bytes + following > _MOST_BYTES:
                    break
                waiting.append(pool.submit(_fetch, filesystem, path))
                n_asked, n_bytes = n_asked + 1, n_bytes + following
            yield waiting.popleft().result()
            n_bytes -= size
    finally:
        pool.shutdown(cancel_futures=True)


def _fetch(filesystem: pafs.FileSystem, path: str) -> pa.Buffer:
    try:
        with reaching(path), filesystem.open_input_file(path) as file:
            return file.read_buffer()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing; refresh the ledger") from error
