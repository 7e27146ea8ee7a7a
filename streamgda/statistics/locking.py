"""Locks of states: each is read at one moment, and two threads never wait for each other.

A fork takes all of them, so that the new process has no lock of a thread that it does not have, and no state
in the midst of a change.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cached_property, partial, wraps
from operator import index
from threading import RLock, Thread, current_thread, get_ident, main_thread
from time import monotonic, sleep
from typing import Any, Never, ParamSpec, Self, SupportsIndex, TypeAlias, TypeVar
from weakref import ref

import streamgda.statistics.kernels.blas  # noqa: F401  a fork takes its lock after those of states, as threads do

P = ParamSpec("P")
R = TypeVar("R")

Lock: TypeAlias = AbstractContextManager[Any]


class Locked:
    """An object with a lock of its own, which its copies and pickles do not share.

    Attributes
    ----------
    lock : context manager
        Held while the object changes, and while more than one of its arrays is read. A thread that holds it
        reads several quantities of the same rows while others learn.
    """

    lock: Lock

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Give the object its lock, however it is made."""
        self = super().__new__(cls)
        self.lock = RLock()
        _alive[id(self)] = ref(self, partial(_alive.pop, id(self)))  # which it calls when this is gone
        return self

    def copy(self) -> Self:
        """An object that does not change with this one."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Have all protocols of pickle make the object by `__new__`, which 0 and 1 do not."""
        return super().__reduce_ex__(max(index(protocol), 2))

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: a copy, since its arrays are read when the lock is free again."""
        return {name: value for name, value in vars(self.copy()).items() if name != "lock"}


# ---------------------------------------------------------------------- forks

_alive: dict[int, ref[Locked]] = {}
_forking = RLock()  # held while `_taken` and `_busy` are of one fork
_taken: list[Any] = []
_busy: list[Locked] = []
_interrupts: list[BaseException] = []
_PATIENCE = 10.0  # seconds; a thread that holds a lock may itself wait for the one that forks


class _HalfChanged:
    """The lock of an object that another thread was changing all the while the process forked."""

    def __enter__(self) -> Never:
        raise RuntimeError(
            f"another thread held this state for more than {_PATIENCE:g} s while the process was forked, so "
            "it may be half changed here; fork while no thread learns, or start processes by 'spawn'"
        )

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""


def _take_all() -> None:
    """Take the locks of all objects. While one is busy, it waits for this one alone."""
    _forking.acquire()
    end = monotonic() + _PATIENCE
    while True:
        try:
            _take_those_free()
            if not _busy or monotonic() > end:
                return
            _release_all()
            _take(_busy[0].lock, max(end - monotonic(), 0.0))  # and keeps it while it takes the others
        except BaseException as error:  # of a signal, which Python would print and forget here
            _interrupts.append(error)
            end = 0.0


def _take_those_free() -> None:
    _busy.clear()
    there = (known() for known in _alive.copy().values())
    _busy.extend(one for one in there if one is not None and not _take(one.lock))


def _take(lock: Any, timeout: float = 0.0) -> bool:
    _taken.append(lock)  # before, as a signal may come in between
    is_taken: bool = lock.acquire(timeout=timeout)
    if not is_taken:
        _taken.pop()
    return is_taken


def _release_all() -> None:
    while _taken:
        with suppress(RuntimeError):  # a signal came before it was taken
            _taken.pop().release()


def _after_fork() -> None:
    _release_all()
    _busy.clear()
    _forking.release()


def _after_fork_in_parent() -> None:
    """Raise what a signal has raised meanwhile, once the fork has ended: Python forgets errors in here."""
    errors = _interrupts.copy()
    _interrupts.clear()
    _after_fork()
    if errors and current_thread() is main_thread():  # which alone runs handlers of signals
        before = signal.getsignal(signal.SIGINT)

        def interrupt(*_: object) -> Never:
            signal.signal(signal.SIGINT, before)
            raise errors[0]

        signal.signal(signal.SIGINT, interrupt)
        Thread(target=_interrupt_after, args=(get_ident(),), daemon=True).start()


def _interrupt_after(thread: int) -> None:
    """Interrupt the main thread when it has left the function that runs at a fork."""
    sleep(0.001)
    while _is_in_fork(thread):
        sleep(0.001)
    signal.pthread_kill(thread, signal.SIGINT)


def _is_in_fork(thread: int) -> bool:
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not _after_fork_in_parent.__code__:
        frame = frame.f_back
    return frame is not None


def _after_fork_in_child() -> None:
    for one in _busy:
        one.lock = _HalfChanged()
        _alive.pop(id(one), None)  # a fork of this process takes no such lock
    modules = [module for name, module in sys.modules.items() if name.startswith("streamgda.")]
    classes = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    for known in (known for one in classes for known in vars(one).values()):
        if isinstance(known, cached_property) and hasattr(known, "lock"):
            known.lock = RLock()  # up to Python 3.11, all objects of a class share it (cpython #87634)
    _interrupts.clear()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_all, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )


# ---------------------------------------------------------------------- several states


@contextmanager
def both_locked(one: Locked, other: Locked) -> Iterator[None]:
    """Hold the locks of two objects, taken in one order: threads that hold both never wait for each other.

    Examples
    --------
    >>> from streamgda import ClassStatistics
    >>> a, b = ClassStatistics(), ClassStatistics()
    >>> with both_locked(a, b):  # no other thread changes either of them here
    ...     both = a.n_rows, b.n_rows
    """
    first, second = (one, other) if id(one) < id(other) else (other, one)
    with first.lock, second.lock:
        yield


def holding_locks(read: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that reads states more than once: it holds their locks."""

    @wraps(read)
    def read_moment(*args: P.args, **kwargs: P.kwargs) -> R:
        states = [one for one in (*args, *kwargs.values()) if isinstance(one, Locked)]
        with ExitStack() as stack:
            for one in sorted(states, key=id):
                stack.enter_context(one.lock)
            return read(*args, **kwargs)

    return read_moment
