"""Run the plan of a pass on one of Dask's schedulers, with or without a progress bar."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamgda.passes.blas import single_blas_thread
from streamgda.passes.plan import Plan, total
from streamgda.passes.schedulers import Scheduler, client_of
from streamgda.storage.messages import one_line

if TYPE_CHECKING:
    from distributed import Client

SECONDS_WITHOUT_WORKERS = 10

Advance = Callable[[int], object]


def compute_plan(plan: Plan, scheduler: Scheduler, progress: bool) -> Any:
    """Run a plan and return its state, each task on one BLAS thread.

    Parameters
    ----------
    plan : Plan
        What to compute.
    scheduler : Scheduler
        What `dask.compute` takes.
    progress : bool
        Whether to show rows done, rows per second and the time left.
    """
    with single_blas_thread:
        return _with_progress(plan, scheduler) if progress else _compute(plan, scheduler, None)


def _with_progress(plan: Plan, scheduler: Scheduler) -> Any:
    from tqdm.auto import tqdm

    with tqdm(total=total(plan.rows), unit=" rows", unit_scale=True) as bar:
        state = _compute(plan, scheduler, bar.update)
        if bar.total is None:
            bar.update(state.n_rows + state.n_dropped - bar.n)
    return state


def _compute(plan: Plan, scheduler: Scheduler, advance: Advance | None) -> Any:
    client = client_of(scheduler)
    if client is None:
        return _compute_here(plan, scheduler, advance)
    with _warning_without_workers(client), _saying_what_was_lost(), _sending(plan.shared):
        return plan.root.compute(scheduler=scheduler) if advance is None else _follow(client, plan, advance)


# ---------------------------------------------------------------------- on this machine


def _compute_here(plan: Plan, scheduler: Scheduler, advance: Advance | None) -> Any:
    """Run the plan on a scheduler of this machine, which calls back after each task.

    Dask sends six tasks at a time to a process, which suits tasks much smaller than these.
    """
    import dask
    from dask.callbacks import Callback

    rows = {part.key: n_rows for part, n_rows in zip(plan.parts, plan.rows, strict=True)}
    callback = Callback(posttask=lambda key, *_: advance(rows.get(key) or 0) if advance else None)
    try:
        with callback, dask.config.set(chunksize=dask.config.get("chunksize", 1)):
            return plan.root.compute(scheduler=scheduler)
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process ended before its task did: it was killed, as when memory runs out, or this "
            'is a script that starts processes outside of if __name__ == "__main__":'
        ) from error


# ---------------------------------------------------------------------- on a cluster


def _follow(client: Client, plan: Plan, advance: Advance) -> Any:
    """Run the plan on a cluster; each part is released as soon as its rows are counted."""
    from distributed import as_completed

    futures = client.compute([*plan.parts, plan.root])
    *parts, root = futures
    rows = {part.key: n_rows for part, n_rows in zip(parts, plan.rows, strict=True)}
    try:
        with client.as_current():
            for part in as_completed(parts):
                if part.status != "finished":
                    break
                advance(rows[part.key] or 0)
                part.release()
        return root.result()
    finally:
        for future in futures:
            future.release()


@contextmanager
def _warning_without_workers(client: Client) -> Iterator[None]:
    """Warn if the cluster has no workers after a while, in which an adaptive one starts some."""

    def check() -> None:
        if client.status == "running" and not client.nthreads():
            warnings.warn(
                "the cluster has no workers: the pass waits for them. Start some, or interrupt", stacklevel=2
            )

    timer = threading.Timer(SECONDS_WITHOUT_WORKERS, check)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _saying_what_was_lost() -> Iterator[None]:
    """Raise RuntimeError for a pass whose cluster lost workers or its scheduler."""
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            "workers of the cluster ended, one after the other, before the same task did: they were killed, "
            f"as when memory runs out. Give each more memory or fewer threads. {one_line(error)}"
        ) from error
    except CancelledError as error:
        raise RuntimeError(
            "the pass was cancelled, as when the scheduler of the cluster ends or cannot be reached. Start "
            f"it again with a new client. {one_line(error)}"
        ) from error


@contextmanager
def _sending(shared: object) -> Iterator[None]:
    """Let a graph be larger than those that Dask warns of by the size of what its tasks share.

    It is sent once, as a task of its own. Scattered data would be sent once too, but be lost with its worker.
    """
    import dask
    from dask.utils import parse_bytes

    key = "distributed.admin.large-graph-warning-threshold"
    with dask.config.set({key: parse_bytes(dask.config.get(key)) + _pickled_bytes(shared)}):
        yield


def _pickled_bytes(value: object) -> int:
    import cloudpickle

    buffers: list[Any] = []  # of arrays, which are not copied
    rest: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(memoryview(buffer).nbytes for buffer in buffers)
