"""Locks of states: each is read at one moment, and two threads never wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from threading import RLock
from typing import Any, ParamSpec, Protocol, Self, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Lock: TypeAlias = AbstractContextManager[Any]


class Lockable(Protocol):
    """What several threads may share."""

    @property
    def lock(self) -> Lock:
        """Held while the object changes, and while more than one of its arrays is read."""


class Locked:
    """An object with a lock of its own, which its copies and pickles do not share."""

    lock: Lock
    """Held while the object changes, and while more than one of its arrays is read.

    A thread that holds it reads several quantities of the same rows while others learn.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Give the object its lock, however it is made."""
        self = super().__new__(cls)
        self.lock = RLock()
        return self

    def copy(self) -> Self:
        """An object that does not change with this one."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: a copy, since its arrays are read when the lock is free again."""
        return {name: value for name, value in vars(self.copy()).items() if name != "lock"}


def in_order(one: Lockable, other: Lockable) -> tuple[Lock, Lock]:
    """The locks of two objects, always in one order: threads that hold both never wait for each other.

    Examples
    --------
    >>> from streamgda import ClassStatistics
    >>> a, b = ClassStatistics(), ClassStatistics()
    >>> first, second = in_order(a, b)
    >>> with first, second:  # no other thread changes either of them here
    ...     both = a.n_rows, b.n_rows
    """
    return (one.lock, other.lock) if id(one) < id(other) else (other.lock, one.lock)


def at_one_moment(read: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that reads states more than once: it holds their locks."""

    @wraps(read)
    def read_moment(*args: P.args, **kwargs: P.kwargs) -> R:
        states = [one for one in (*args, *kwargs.values()) if isinstance(one, Locked)]
        with ExitStack() as stack:
            for one in sorted(states, key=id):
                stack.enter_context(one.lock)
            return read(*args, **kwargs)

    return read_moment
