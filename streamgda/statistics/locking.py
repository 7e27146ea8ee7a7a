"""Locks of states: each is read at one moment, and two threads never wait for each other.

A fork takes all of them, so that the new process has no lock of a thread that it does not have, and no state
in the midst of a change.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property, partial, wraps
from threading import RLock
from time import monotonic
from typing import Any, Never, ParamSpec, Self, TypeAlias, TypeVar
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

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: a copy, since its arrays are read when the lock is free again."""
        return {name: value for name, value in vars(self.copy()).items() if name != "lock"}


# ---------------------------------------------------------------------- forks

_alive: dict[int, ref[Locked]] = {}
_forking = RLock()  # held while `_taken` and `_busy` are of one fork
_taken: list[Any] = []
_busy: list[Locked] = []
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
        _busy.clear()
        for one in (known() for known in _alive.copy().values()):
            if one is not None:
                lock: Any = one.lock
                _taken.append(lock) if lock.acquire(blocking=False) else _busy.append(one)
        if not _busy or monotonic() > end:
            return
        _release_all()
        awaited: Any = _busy[0].lock
        if awaited.acquire(timeout=max(end - monotonic(), 0.0)):
            _taken.append(awaited)  # and keeps it while it takes the others


def _release_all() -> None:
    while _taken:
        _taken.pop().release()


def _after_fork() -> None:
    _release_all()
    _busy.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    for one in _busy:
        one.lock = _HalfChanged()
        _alive.pop(id(one), None)  # a fork of this process takes no such lock
    modules = [module for name, module in sys.modules.items() if name.startswith("streamgda.")]
    classes = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    for known in (known for one in classes for known in vars(one).values()):
        if isinstance(known, cached_property) and hasattr(known, "lock"):
            known.lock = RLock()  # up to Python 3.11, all objects of a class share it (cpython #87634)
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


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
