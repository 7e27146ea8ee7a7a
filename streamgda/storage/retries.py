"""Tell errors of a storage from others, repeat calls that failed by them, and note how often."""

from __future__ import annotations

import logging
import random
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from gzip import BadGzipFile
from typing import TypeVar

from streamgda.storage.paths import one_line

T = TypeVar("T")

RETRIES = 3

FIRST_PAUSE = 1.0  # seconds before the first retry; each pause is twice as long as the one before

LASTING = (
    *(ValueError, TypeError, NotImplementedError, MemoryError),
    *(FileNotFoundError, PermissionError, ImportError, Warning),
)
"""Errors that the same call would raise again. The clients of object stores have many others for outages:
bare OSErrors and exceptions of their own."""

# Arrow raises a bare OSError both for bytes that it cannot decode and for an object store that gives
# none. Only the text tells which it was; these are the words of its clients of S3, Azure and GCS.
_OBJECT_STORES = ("AWS Error", "Azure Error", "google::cloud::Status")

_log = logging.getLogger("streamgda")

_noted: ContextVar[list[str] | None] = ContextVar("noted", default=None)


def retried(call: Callable[[], T], retries: int = RETRIES, place: str = "") -> T:
    """Call a function that reads or writes storage, and call it again after a pause if it fails.

    Each retry is a line in the log and is noted for `noting_retries`. Errors that a retry cannot help, such
    as a missing file, a refused permission or a wrong value, are raised at once.

    Parameters
    ----------
    call : callable
        Without parameters. Each call must begin anew, so it must not use anything that can be read only once.
    retries : int, default=3
        How often to call it again. The pauses are about 1, 2 and 4 seconds.
    place : str, optional
        What is read or written. It is put before an error that does not name it.

    Examples
    --------
    >>> retried(lambda: "the bytes")
    'the bytes'
    """
    for k in range(retries):
        try:
            return call()
        except LASTING:
            raise
        except Exception as error:  # each client of a storage has its own types of errors
            told = one_line(error)
            named = told if place in told else f"{place}: {told}"
            said = f"{type(error).__name__}: {named}"
        # Or all tasks would try again at the same time.
        pause = FIRST_PAUSE * 2**k * random.uniform(0.75, 1.25)
        _log.warning("retry %d of %d in %.1f s: %s", k + 1, retries, pause, said)
        if (noted := _noted.get()) is not None:
            noted.append(said)
        time.sleep(pause)  # not in the handler, which holds what the failed call had read
    return call()


def is_of_storage(error: Exception) -> bool:
    """Whether an error is of the storage, and not of bytes that were read and make no sense."""
    if not isinstance(error, OSError) or isinstance(error, BadGzipFile):
        return False
    return (
        type(error) is not OSError
        or error.errno is not None
        or any(client in str(error) for client in _OBJECT_STORES)
    )


@contextmanager
def storing() -> Iterator[None]:
    """Raise any error of a client of a storage as one for which `is_of_storage` is true."""
    try:
        yield
    except LASTING:
        raise
    except Exception as error:
        if is_of_storage(error):
            raise
        raise ConnectionError(one_line(error)) from error


@contextmanager
def noting_retries() -> Iterator[list[str]]:
    """Collect the errors after which `retried` tried again in this block, and in this thread."""
    noted: list[str] = []
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


@contextmanager
def warning_of_retries() -> Iterator[list[str]]:
    """Warn of the retries in a block when it ends. The block may add those of other threads.

    Examples
    --------
    >>> with warning_of_retries() as noted:
    ...     noted.extend(retried(list))
    """
    with noting_retries() as noted:
        yield noted
    if noted:
        times = "once" if len(noted) == 1 else f"{len(noted):,} times"
        said = f"storage failed {times} and was asked again; the last error: {noted[-1]}"
        warnings.warn(said, stacklevel=4)
