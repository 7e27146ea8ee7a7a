"""Tell errors of a storage from others, repeat calls that failed by them, and note how often."""

from __future__ import annotations

import errno
import logging
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from gzip import BadGzipFile
from typing import TypeVar

from streamgda.data.storage.paths import one_line

T = TypeVar("T")

RETRIES = 3

FIRST_PAUSE = 1.0  # seconds before the first retry; each pause is twice as long as the one before

LASTING = (
    *(ValueError, TypeError, NotImplementedError, MemoryError, ImportError, Warning),
    *(FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError),
)
"""Errors of a storage that the same call would raise again."""

# Arrow raises a bare OSError both for bytes that it cannot decode and for an object store that gives
# none. Only the text tells which it was; these are the words of its clients of S3, Azure and GCS.
_OBJECT_STORES = ("AWS Error", "Azure Error", "google::cloud::Status")

_LASTING_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP)

_REFUSALS = re.compile(
    "ACCESS_DENIED|NO_SUCH_BUCKET|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH"
    "|Not a regular file|is a directory"
)
"""What Arrow's filesystems say in an error that the same call would raise again."""


class StorageError(ConnectionError):
    """The storage did not answer, or not in full. The same call may succeed later.

    Only calls of a storage's client raise it, inside of `storing`. So it tells an outage from damaged bytes,
    and from the errors of a user's functions, of whatever type those are.
    """

    was_repeated = False
    """Whether the call was repeated already, as often as it was to be."""


_log = logging.getLogger("streamgda")

_random = random.SystemRandom()  # without a state, which a retry would change for the user's numbers

_retry_errors: ContextVar[list[str] | None] = ContextVar("retry_errors", default=None)


def retried(call: Callable[[], T], place: str = "") -> T:
    """Call a storage's client, and call it again after a pause if it fails.

    Errors that a retry cannot help, such as a missing file, a refused permission or a wrong value, are raised
    at once.

    Parameters
    ----------
    call : callable
        Without parameters. Each call must begin anew, so it must not use anything that can be read only once.
    place : str, optional
        What is read or written. It is put before an error that does not name it.

    Raises
    ------
    StorageError
        If the last call failed too.

    Examples
    --------
    >>> retried(lambda: "the bytes")
    'the bytes'
    """
    return repeated(storing(place)(call))


def repeated(call: Callable[[], T], retries: int = RETRIES) -> T:
    """Call a function, and call it again after a pause if it raises a `StorageError`.

    Any other error, such as one of a user's function that it calls, is raised at once. The pauses are about
    1, 2 and 4 seconds. Each retry is a line in the log and is noted for `noting_retries`.
    """
    for k in range(retries + 1):
        try:
            return call()
        except StorageError as error:
            if k == retries or error.was_repeated:
                error.was_repeated = True
                raise
            message = f"{type(error.__cause__ or error).__name__}: {one_line(error)}"
        # Or all tasks would try again at the same time.
        pause = FIRST_PAUSE * 2**k * _random.uniform(0.75, 1.25)
        _log.warning("retry %d of %d in %.1f s: %s", k + 1, retries, pause, message)
        if (errors := _retry_errors.get()) is not None:
            errors.append(message)
        time.sleep(pause)  # not in the handler, which holds what the failed call had read
    raise AssertionError


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
def storing(place: str = "") -> Iterator[None]:
    """Raise any error of a storage's client as a `StorageError` that names a place.

    Errors that the same call would raise again keep their types. Only calls of a client belong in the block,
    and none that decode what it gave.
    """
    try:
        yield
    except StorageError as error:
        error.args = (_named(error, place),)
        raise
    except LASTING:
        raise
    except Exception as error:  # each client has its own types of errors
        if isinstance(error, OSError) and (error.errno in _LASTING_NUMBERS or _REFUSALS.search(str(error))):
            raise
        raise StorageError(_named(error, place)) from error


def _named(error: Exception, place: str) -> str:
    message = one_line(error) or type(error).__name__
    return message if place in message else f"{place}: {message}"


@contextmanager
def noting_retries() -> Iterator[list[str]]:
    """Collect the errors after which `retried` tried again in this block, and in this thread."""
    errors: list[str] = []
    token = _retry_errors.set(errors)
    try:
        yield errors
    finally:
        _retry_errors.reset(token)


@contextmanager
def warning_of_retries() -> Iterator[list[str]]:
    """Warn of the retries in a block when it ends. The block may add those of other threads.

    Examples
    --------
    >>> with warning_of_retries() as errors:
    ...     errors.extend(retried(list))
    """
    with noting_retries() as errors:
        yield errors
    if errors:
        times = "once" if len(errors) == 1 else f"{len(errors):,} times"
        message = f"storage failed {times} and was asked again; the last error: {errors[-1]}"
        warnings.warn(message, stacklevel=4)
