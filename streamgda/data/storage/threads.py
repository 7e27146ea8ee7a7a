"""Threads for which neither the end of a pass nor Ctrl-C waits, and the end of the process only a moment.

A storage that does not answer may keep a thread for a minute. Python joins the threads of its own
`ThreadPoolExecutor` before a process ends.
"""

from __future__ import annotations

import atexit
import io
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar
from weakref import ref

S = TypeVar("S")
T = TypeVar("T")

ENDING = threading.Event()
"""Set when the process ends."""

_CALLS = set[Future[Any]]()  # that run

_SECONDS_AT_EXIT = 2.0


class DaemonThreads(Executor):
    """An executor whose threads end with the process, whatever they do.

    A call sees the context variables of the thread that submitted it. At the end of `with`, calls that have
    not begun are cancelled, and those that have are not waited for.

    Parameters
    ----------
    n_threads : int
        The most calls that run at once. Threads start when they are needed.
    name : str
        What the names of the threads begin with.
    """

    def __init__(self, n_threads: int, name: str) -> None:
        self._max_workers = n_threads  # where Dask looks for it
        self._name, self._n_threads, self._is_shut = name, 0, False
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._idle, self._lock = threading.Semaphore(0), threading.Lock()

    def submit(self, call: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function in one of the threads."""
        future: Future[T] = Future()
        with self._lock:
            if self._is_shut:
                raise RuntimeError("the threads have been shut down")
            self._calls.put((future, partial(copy_context().run, call, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and self._n_threads < self._max_workers:
                self._n_threads += 1
                name = f"{self._name}-{self._n_threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def help(self) -> bool:
        """Make the next call that waits for a thread, in the thread of the caller; False if there is none."""
        try:
            entry = self._calls.get_nowait()
        except Empty:
            return False
        if entry is None:
            self._calls.put(None)  # for the threads
            return False
        if entry[0].set_running_or_notify_cancel():
            try:
                entry[0].set_result(entry[1]())
            except Exception as error:  # Ctrl-C is raised at once
                entry[0].set_exception(error)
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Cancel the calls that have not begun, and let each thread end after its call."""
        with self._lock:
            self._is_shut = True
            while cancel_futures and not self._calls.empty():
                if (entry := self._calls.get()) is not None:
                    entry[0].cancel()
            self._calls.put(None)

    def _work(self) -> None:
        while True:
            if self._calls.empty():
                self._idle.release()
            if (following := self._calls.get()) is None:
                self._calls.put(None)  # for the next thread
                return
            _run(*following)
            del following  # or what it returned would be kept until the next call


def wait_for(call: Callable[[], T]) -> T:
    """Call a function that may wait for a storage; in the main thread, Ctrl-C ends the wait at once."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    with DaemonThreads(1, "streamgda-request") as thread:
        return thread.submit(call).result()


def read_ahead(
    read: Callable[[S], T],
    places: Iterable[S],
    n_ahead: int,
    n_threads: int | None = None,
    *,
    helps: bool = False,
) -> Generator[T]:
    """Yield what is read at some places, in order. Threads read at the next `n_ahead` places meanwhile.

    There are `n_ahead` threads, unless `n_threads` is given. With `helps`, the caller reads too while it
    would wait. An error of reading a place is raised when the turn of that place comes.
    """
    if not n_ahead:
        yield from map(read, places)
        return
    coming, waiting = iter(places), deque[Future[T]]()
    with DaemonThreads(n_threads or n_ahead, "streamgda-readers") as readers:
        try:
            while True:
                room = n_ahead + 1 - len(waiting)
                waiting.extend(readers.submit(read, place) for place in islice(coming, room))
                if not waiting:
                    return
                while helps and not waiting[0].done() and readers.help():
                    pass
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    _CALLS.add(future)
    try:
        result = call()
    except BaseException as error:  # which `future.result` raises
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        _CALLS.discard(future)


# ---------------------------------------------------------------------- files that other threads read


class SharedFile:
    """A file for threads of a library. Nothing else refers to it, so it is freed when they have let it go.

    If such a thread reads or frees the file when the interpreter has ended, Python aborts the process, or it
    never ends. So at exit the file gives no more bytes, and the process waits a moment until it is freed.
    What reads the file does so in a block of `ending_at_exit`, or it would take the end of the bytes for the
    end of the file.

    Parameters
    ----------
    file : object
        With the methods `read` and `tell`.
    """

    closed = False

    def __init__(self, file: Any) -> None:
        self._file, self._lock = file, threading.Lock()
        _FILES.add(ref(self, _FILES.discard))

    def read(self, n_bytes: int) -> bytes:
        """Read the next bytes."""
        try:
            with self._lock:
                content: bytes = self._file.read(n_bytes)
                return content
        finally:
            del self  # the traceback of an error keeps the names of this frame

    def tell(self) -> int:
        """The place in the file."""
        place: int = self._file.tell()
        return place

    def close(self) -> None:
        """Do nothing, as who has opened the file closes it."""

    def end(self, deadline: float) -> bool:
        """Give no more bytes; False if the storage does not answer before a moment of `time.monotonic`."""
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        self._file = io.BytesIO()
        self._lock.release()
        return True


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Let go of what was opened."""


@contextmanager
def ending_at_exit() -> Iterator[None]:
    """End the thread after a block if the process ends, as shared files are cut off then."""
    try:
        yield
    finally:
        if ENDING.is_set():
            raise SystemExit


def close_at_exit(reader: Closable) -> None:
    """Close the reader of a `SharedFile` at exit, unless it is gone by then."""
    _READERS.add(ref(reader, _READERS.discard))


# No WeakSet: its callback is Python, in which the process may end before the file is freed.
_FILES, _READERS = set[ref[SharedFile]](), set[ref[Closable]]()


def _living(known: set[ref[T]]) -> list[T]:
    return [thing for thing in (one() for one in list(known)) if thing is not None]


@atexit.register
def _end_calls() -> None:
    """End the calls that run when the process ends, as after an error, and wait a moment for them.

    If the interpreter ends first, it also ends threads of Arrow that read through a file of Python, and Arrow
    waits for these forever.
    """
    readers = _living(_READERS)  # so that they are freed by no other thread
    ENDING.set()
    deadline = time.monotonic() + _SECONDS_AT_EXIT
    have_ended = [file.end(deadline) for file in _living(_FILES)]
    wait(list(_CALLS), _SECONDS_AT_EXIT)
    if not all(have_ended):
        return  # the end of a reader would wait for the storage
    for reader in readers:
        reader.close()
    deadline = time.monotonic() + _SECONDS_AT_EXIT
    while _FILES and time.monotonic() < deadline:
        time.sleep(0.001)


def _forget_threads() -> None:
    _CALLS.clear()
    _FILES.clear()
    _READERS.clear()


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_forget_threads)
