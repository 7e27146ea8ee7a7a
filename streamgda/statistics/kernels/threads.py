"""Rows in memory are shared among threads, each with one BLAS thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from streamgda.data.storage.threads import read_ahead
from streamgda.statistics.kernels.blas import most_blas_threads, single_blas_thread

S = TypeVar("S")
T = TypeVar("T")

_MOST_BYTES = 1 << 30  # of results that threads work on at once


def in_threads(
    call: Callable[[S], T], values: Iterable[S], n_bytes_of: Callable[[S], int] = lambda value: 1
) -> Iterator[T]:
    """Yield what a call makes of each value, in their order.

    If there are several values, there are as many threads as BLAS may have here. So one number limits both,
    whether OMP_NUM_THREADS, threadpoolctl, joblib or Dask has set it, and a call in one of these threads
    starts no others. The caller's thread is one of them: a thread that only waits often takes Python's lock
    from those at work. One value is left to the thread of the caller, and BLAS as it is.

    Parameters
    ----------
    call : callable
        Of one value. An error is raised when the turn of its value comes.
    values : iterable
        The thread of the caller takes them from it, two for each thread at a time.
    n_bytes_of : callable, optional
        About how large the result for a value is. If that for the first one is large, there are fewer
        threads: the results that they make take at most a gigabyte, and those that wait for their turn
        another.
    """
    values = iter(values)
    first = list(islice(values, 2))
    if len(first) < 2:
        yield from map(call, first)
        return
    n_threads = min(most_blas_threads() or _n_cores(), _MOST_BYTES // n_bytes_of(first[0]))
    values = chain(first, values)
    del first  # else it stays in memory until the end
    with single_blas_thread():
        n_ahead = 2 * n_threads - 1 if n_threads > 1 else 0  # while one value takes long, others go on
        yield from read_ahead(call, values, n_ahead, n_threads - 1, helps=True)


def _n_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
