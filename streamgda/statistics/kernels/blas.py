"""One BLAS thread, so that the bits of matrix products do not depend on the number of cores."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any, ClassVar
from weakref import WeakSet

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of NumPy and SciPy. To look for them takes a millisecond."""
    import scipy.linalg.blas  # noqa: F401  SciPy has a library of its own

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def most_blas_threads() -> int | None:
    """How many threads BLAS may have now; None if no library is known."""
    return max((library.get_num_threads() or 1 for library in _libraries()), default=None)


def _set_numbers(numbers: dict[Any, int]) -> None:
    """Set the number of threads of libraries.

    Some versions of threadpoolctl heed one thread of Python alone, the first to set a number, until that
    is cleared. Here any thread may be the first or the last inside.
    """
    for library, number in numbers.items():
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)
        library.set_num_threads(number)
        if clear is not None:
            clear(force=True)


class single_blas_thread:  # noqa: N801  a context, as contextlib.suppress is
    """A context that any number of threads may enter at once.

    The limit holds for the whole process: the first thread to enter sets it, the last to leave restores it.
    Who is inside is known by weak references: an interruption may come before `__exit__` is called.
    """

    _lock = threading.RLock()  # a handler of signals may enter too
    _inside: ClassVar[WeakSet[single_blas_thread]] = WeakSet()
    _before: ClassVar[dict[Any, int]] = {}  # of the libraries whose number was not one

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                for library in _libraries():
                    if (number := library.get_num_threads()) not in {1, None}:
                        self._before[library] = number
                if self._before:
                    _set_numbers(dict.fromkeys(self._before, 1))
            self._inside.add(self)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside.discard(self)
            if not self._inside and self._before:
                _set_numbers(self._before)
                self._before.clear()

    @classmethod
    def _after_fork_in_child(cls) -> None:
        """Forget the threads of the parent, which a forked process does not have."""
        if cls._inside:
            _set_numbers(cls._before)
            cls._before.clear()
        cls._inside.clear()
        cls._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=single_blas_thread._lock.acquire,
        after_in_parent=single_blas_thread._lock.release,
        after_in_child=single_blas_thread._after_fork_in_child,
    )
