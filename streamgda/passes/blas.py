"""One BLAS thread in each task, since tasks run in parallel already."""

from __future__ import annotations

import threading
from functools import cache
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController


class _SingleBlasThread:
    """A context that any number of threads may enter at once.

    The limit holds for the whole process: the first thread to enter sets it, the last to leave restores it.
    So the bits of matrix products do not depend on the number of cores.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


single_blas_thread = _SingleBlasThread()
