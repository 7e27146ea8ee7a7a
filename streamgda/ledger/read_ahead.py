"""Fetch small files before they are used, in order, with at most a few megabytes in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition

import pyarrow as pa
import pyarrow.fs as pafs

from streamgda.storage.filesystems import reaching

_READERS = 16  # an object store answers many requests in the time of one

_MOST_BYTES = 1 << 24  # fetched and not yet used; a larger file is fetched when its turn comes


def contents(filesystem: pafs.FileSystem, paths: Sequence[str]) -> Iterator[pa.Buffer]:
    """Yield the contents of some files, in order. While one is used, the next few are fetched.

    A content counts as used when the next one is requested.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    OSError
        If the filesystem cannot be reached.
    """
    budget = _Budget()
    waiting: deque[Future[pa.Buffer]] = deque()
    pool = ThreadPoolExecutor(_READERS)
    try:
        for turn, path in enumerate(paths):
            waiting.append(pool.submit(_fetch, filesystem, path, turn, budget))
            if len(waiting) > _READERS:
                yield waiting.popleft().result()
                budget.advance()
        while waiting:
            yield waiting.popleft().result()
            budget.advance()
    finally:
        budget.close()
        pool.shutdown(cancel_futures=True)


def _fetch(filesystem: pafs.FileSystem, path: str, turn: int, budget: _Budget) -> pa.Buffer:
    try:
        with reaching(path), filesystem.open_input_file(path) as file:
            budget.wait_for(turn, file.size())
            return file.read_buffer()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing; refresh the ledger") from error


class _Budget:
    """The sizes of the files that are fetched and not yet used, and which file is used next."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._sizes: dict[int, int] = {}
        self._turn = 0
        self._is_closed = False

    def wait_for(self, turn: int, size: int) -> None:
        """Wait until there is room for a file, or until it is its turn."""

        def has_room() -> bool:
            return self._is_closed or turn == self._turn or sum(self._sizes.values()) + size <= _MOST_BYTES

        with self._changed:
            self._changed.wait_for(has_room)
            self._sizes[turn] = size

    def advance(self) -> None:
        """Note that the file whose turn it was has been used."""
        with self._changed:
            self._sizes.pop(self._turn, None)
            self._turn += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Wake all threads that wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
