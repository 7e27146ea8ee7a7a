"""Run the plans of passes on one of Dask's schedulers, and tell how far they are.

BLAS has one thread in a task, since tasks run in parallel already.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from threadpoolctl import threadpool_limits

from streamgda.blocks.wording import Message, counted
from streamgda.passes.graph import Amount, Graph, Outcome, Plan
from streamgda.sources.base import Map, Source, Upcoming
from streamgda.storage.paths import one_line
from streamgda.storage.retries import warning_of_retries

if TYPE_CHECKING:
    from distributed import Client

    # What `dask.compute` takes as its scheduler.
    Scheduler: TypeAlias = str | Executor | Client | Callable[..., Any] | None
else:
    Scheduler = Any  # annotations resolve without loading distributed

SECONDS_WITHOUT_WORKERS = 10
_LISTS_FOR_WORKERS = 2  # as many lists of files are planned by the workers, and fewer are planned here
_LISTS_AT_A_TIME = 256
_log = logging.getLogger("streamgda")


def scheduler_for(source: Source, scheduler: Scheduler) -> Scheduler:
    """The scheduler of a pass over a source.

    A source that can be read in this process only is read by Dask's threads, unless another scheduler of
    this process is given or configured.

    Parameters
    ----------
    source : Source
        What the pass reads.
    scheduler : Scheduler
        What the user gave; None follows Dask's own rule.

    Raises
    ------
    TypeError
        If the source can be read in this process only, and the scheduler would read it in another.
    ValueError
        If Dask does not know the scheduler.
    """
    from dask.base import get_scheduler, named_schedulers

    in_processes = get_scheduler(scheduler=scheduler) is named_schedulers["processes"]
    if not source.is_local or not (in_processes or client_of(scheduler)):
        return scheduler
    if scheduler is None:
        return "threads"
    raise TypeError(
        Message(
            f"{source!r} can be read in this process only: use ⟨scheduler='threads'⟩ or 'synchronous', or "
            "write its rows to Parquet for scan_parquet"
        )
    )


def client_of(scheduler: Scheduler) -> Client | None:
    """The client behind this scheduler; None if the scheduler runs tasks on this machine."""
    from dask.base import get_scheduler

    return getattr(get_scheduler(scheduler=scheduler), "__self__", None)


def threads_of(scheduler: Scheduler) -> int | None:
    """How many threads of this process run tasks; None if tasks run, or may run, in other processes."""
    import dask
    from dask.base import get_scheduler, named_schedulers
    from dask.system import CPU_COUNT

    get = get_scheduler(scheduler=scheduler)
    if get in {None, named_schedulers["threads"]}:
        return dask.config.get("num_workers", None) or CPU_COUNT
    return 1 if get is named_schedulers["sync"] else None


# ---------------------------------------------------------------------- in each task


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
                self._limit = threadpool_limits(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


single_blas_thread = _SingleBlasThread()


@dataclass(frozen=True)
class PassProgress:
    """How far a pass is. A function given as ``progress=`` is called with it after each task.

    Attributes
    ----------
    rows : int
        Rows read so far, or loaded from a checkpoint.
    total_rows : int or None
        All rows of the pass; None if they can be counted only by reading them.
    tasks, total_tasks : int
        How many groups of rows are done, and how many there are.
    bytes : int or None
        The bytes of the row groups of Parquet read so far, in all columns and before compression, as the
        footers say; None of other sources.
    seconds : float
        Since the pass began.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from streamgda import accumulate, scan_arrow
    >>> table = pa.table({"x": [1.0, 3.0, 8.0], "y": [0, 0, 1]})
    >>> told = []
    >>> _ = accumulate(scan_arrow(table, "y"), progress=told.append)
    >>> told[-1].rows, told[-1].total_rows, told[-1].tasks
    (3, 3, 1)
    """

    rows: int
    total_rows: int | None
    tasks: int
    total_tasks: int
    bytes: int | None
    seconds: float


# Whether to show a bar; or a function to call with a `PassProgress`.
Progress: TypeAlias = bool | Callable[[PassProgress], object]


class _Listener:
    """Counts the tasks that are done, and calls a function with the progress.

    Parameters
    ----------
    tell : callable
        The function to call.
    followed : mapping
        By the key of a task, what it reads.
    """

    def __init__(self, tell: Callable[[PassProgress], object], followed: Mapping[Hashable, Amount]) -> None:
        self.followed, self._tell = followed, tell
        self._amount = sum(followed.values(), Amount())
        self._done, self._begun = Amount(), time.monotonic()

    def advance(self, key: Hashable) -> None:
        """Count a task that is done."""
        if key in self.followed:
            self._done += self.followed[key]
            self._say(self._done.rows or 0, self._amount.rows)

    def finish(self, n_rows: int) -> None:
        """Report the end of a pass whose number of rows was not known before it was read."""
        self._say(n_rows, n_rows)

    def _say(self, rows: int, total_rows: int | None) -> None:
        seconds = time.monotonic() - self._begun
        tasks, total_tasks = self._done.tasks, self._amount.tasks
        self._tell(PassProgress(rows, total_rows, tasks, total_tasks, self._done.bytes, seconds))


@contextmanager
def _telling(progress: Progress, followed: Mapping[Hashable, Amount]) -> Iterator[_Listener]:
    """Yield the listener of a pass: it shows a bar if `progress` is True, and counts no task if False."""
    if progress is True:
        from tqdm.auto import tqdm

        with tqdm(total=sum(followed.values(), Amount()).rows, unit=" rows", unit_scale=True) as bar:
            yield _Listener(lambda told: bar.update(told.rows - bar.n), followed)
    elif progress is False:
        yield _Listener(lambda told: None, {})
    else:
        yield _Listener(progress, followed)


def compute_plan(plan: Plan, scheduler: Scheduler, progress: Progress) -> Any:
    """Run a plan and return its state, each task on one BLAS thread.

    Parameters
    ----------
    plan : Plan
        What to compute.
    scheduler : Scheduler
        What `dask.compute` takes.
    progress : bool or callable
        Whether to show rows done, rows per second and the time left; or a function that is called after each
        task.

    Warns
    -----
    UserWarning
        If the storage failed and rows were read again; the warning says how often.
    """
    return compute_plans([plan], scheduler, progress)[0]


def compute_plans(plans: Sequence[Plan], scheduler: Scheduler, progress: Progress) -> list[Any]:
    """Run several plans in one graph, as `compute_plan` runs one, and return their states."""
    if not (isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress must be True, False or a function; got {progress!r}")
    client, begun = client_of(scheduler), time.monotonic()
    with _fetching_ahead(scheduler) as upcoming:
        graph = Graph(client is not None, upcoming)
        root, amount = graph.add_plans(plans), sum(graph.reading.values(), Amount())
        rows = "an unknown number of rows" if amount.rows is None else f"{amount.rows:,} rows"
        _log.info("pass planned: %s in %s", rows, counted(amount.tasks, "task"))
        with single_blas_thread, warning_of_retries() as noted, _telling(progress, graph.reading) as listener:
            _log.info("pass begun on %s", client or scheduler or "Dask's default scheduler")
            if client is None:
                outcome = _compute_here(graph, root, scheduler, listener)
            else:
                outcome = _compute_there(graph, root, client, listener)
            noted.extend(outcome.noted)
            states = [outcome.state] if len(plans) == 1 else outcome.state
            if progress is not False and amount.rows is None:
                listener.finish(sum(state.n_rows + state.n_dropped for state in states))
    _log.info("pass done in %.1f s", time.monotonic() - begun)
    return states


# ---------------------------------------------------------------------- on this machine


@contextmanager
def _fetching_ahead(scheduler: Scheduler) -> Iterator[Upcoming | None]:
    """Yield what fetches data for the next tasks if tasks run in threads of this process, else None."""
    n_threads = threads_of(scheduler)
    if n_threads is None:
        yield None
        return
    from streamgda.storage.fetching import Ahead  # and with it pyarrow, where it is used

    with Ahead(n_threads + 1) as ahead:
        yield Upcoming(ahead, n_threads)


def _compute_here(graph: Graph, root: Hashable, scheduler: Scheduler, listener: _Listener) -> Outcome:
    """Run a graph on a scheduler of this machine, which calls back after each task.

    By default, Dask fuses tasks, and sends six at a time to a process. This suits much smaller tasks than
    these, so both are turned off.
    """
    import dask
    from dask.base import compute_as_if_collection
    from dask.callbacks import Callback
    from dask.delayed import Delayed
    from dask.order import order

    if graph.upcoming is not None:
        graph.upcoming.arrange(order(graph.tasks))
    options = {"chunksize": dask.config.get("chunksize", 1), "optimization.fuse.active": False}
    callback = Callback(posttask=lambda key, *_: listener.advance(key))
    try:
        with callback, dask.config.set(options):
            outcome: Outcome = compute_as_if_collection(Delayed, graph.whole(), root, scheduler=scheduler)
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process ended before its task did: it was killed, as when memory runs out, or this "
            'is a script that starts processes outside of if __name__ == "__main__":'
        ) from error
    return outcome


# ---------------------------------------------------------------------- on a cluster


def _compute_there(graph: Graph, root: Hashable, client: Client, listener: _Listener) -> Outcome:
    """Run a graph on a cluster. The result of each reading task is released as soon as it is counted.

    What tasks share is sent once, as a task of its own, so Dask's warning of large graphs has no remedy.
    Scattered data would also be sent once, but would be lost if its worker ended.
    """
    import dask
    from distributed import as_completed

    keys = list({root: None} | dict.fromkeys(listener.followed))
    with _watching(client):
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": sys.maxsize}):
            futures = dict(zip(keys, client.get(graph.whole(), keys, sync=False), strict=True))
        try:
            parts = [futures[key] for key in listener.followed]
            for part in as_completed(parts, client.loop):  # `as_current` would configure all threads
                if part.status != "finished":
                    break
                listener.advance(part.key)
                if part.key != root:  # of a plan of one task
                    part.release()
            outcome: Outcome = futures[root].result()
            return outcome
        finally:
            for future in futures.values():
                future.release()


def _check_versions(client: Client) -> None:
    """Raise RuntimeError if a worker lacks this library, or has another version of it.

    A worker that cannot import what it is sent drops its connection, and the pass would wait for ever.
    """
    ours = import_module("streamgda").__version__
    asked = "__import__('streamgda').__version__"
    for worker, version in client.run(eval, asked, on_error="return").items():
        if isinstance(version, ImportError):
            held = f"cannot import streamgda ({one_line(version)})"
        elif isinstance(version, str) and version != ours:
            held = f"has streamgda {version}"
        else:  # or the worker has just gone
            continue
        raise RuntimeError(
            f"worker {worker} of the cluster {held}: install streamgda {ours}, the version of this "
            "process, on all machines of the cluster"
        )


def opening_on(scheduler: Scheduler) -> Map:
    """What opens the files of a source to plan a pass: the workers of a cluster, if there are many files.

    Parameters
    ----------
    scheduler : Scheduler
        What `dask.compute` takes.
    """
    client = client_of(scheduler)
    return map if client is None else partial(_map_there, client)


def _map_there(client: Client, function: Callable[[Any], Any], lists: Sequence[Any]) -> Iterator[Any]:
    """Apply a function to lists on the workers of a cluster, some at a time, so few results wait here."""
    if len(lists) < _LISTS_FOR_WORKERS:
        yield from map(function, lists)
        return
    for start in range(0, len(lists), _LISTS_AT_A_TIME):
        with _watching(client):
            futures = client.map(function, lists[start : start + _LISTS_AT_A_TIME], pure=False)
            try:
                found = client.gather(futures)
            finally:
                for future in futures:
                    future.release()
        yield from found


@contextmanager
def _watching(client: Client) -> Iterator[None]:
    """Watch over a cluster while it computes.

    Warn if it has no workers after a while; an adaptive cluster starts some in that time. Raise RuntimeError
    if it loses workers or its scheduler.
    """
    from distributed import KilledWorker

    def check() -> None:
        if client.status == "running" and not client.nthreads():
            warnings.warn(
                "the cluster has no workers: the pass waits for them. Start some, or interrupt", stacklevel=2
            )

    _check_versions(client)
    timer = threading.Timer(SECONDS_WITHOUT_WORKERS, check)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (KilledWorker, CancelledError) as error:
        raise RuntimeError(
            "the cluster lost the pass: its workers were killed, as when memory runs out, or its scheduler "
            "cannot be reached. Give each worker more memory or fewer threads, or start the pass again with "
            f"a new client. {one_line(error)}"
        ) from error
    finally:
        timer.cancel()
