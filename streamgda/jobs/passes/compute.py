"""Run the plans of passes on one of Dask's schedulers.

BLAS has one thread in a task, since tasks run in parallel already. No setting of Dask's is changed, since
passes may overlap: what differs for a pass goes with the call.
"""

from __future__ import annotations

import inspect
import logging
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from streamgda.data.sources.base import MapFunction, Source
from streamgda.data.sources.running import Progress, Scheduler
from streamgda.data.sources.splits import LazySplit
from streamgda.data.storage.retries import warning_of_retries
from streamgda.data.storage.threads import DaemonThreads
from streamgda.jobs.passes.graph import Graph, Outcome
from streamgda.jobs.passes.plan import Plan
from streamgda.jobs.passes.progress import Listener, telling
from streamgda.statistics.kernels.blas import single_blas_thread

if TYPE_CHECKING:
    from distributed import Client

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
    from dask.base import named_schedulers

    in_processes = _get_of(scheduler) is named_schedulers["processes"]
    if not source.is_local or not (in_processes or client_of(scheduler)):
        return scheduler
    if scheduler is None:
        return "threads"
    raise TypeError(
        f"{source!r} can be read in this process only: use scheduler='threads' or 'synchronous', or "
        "write its rows to Parquet for scan_parquet"
    )


def _get_of(scheduler: Scheduler) -> Callable[..., Any]:
    """The function by which Dask runs a graph on this scheduler."""
    import dask
    from dask.base import get_scheduler, named_schedulers

    if scheduler is None and "distributed" not in sys.modules:  # so no client is active
        scheduler = dask.config.get("scheduler", None) or "threads"
    if isinstance(scheduler, str) and scheduler.lower() in named_schedulers:
        get: Callable[..., Any] = named_schedulers[scheduler.lower()]  # Dask would import distributed
        return get
    try:
        return get_scheduler(scheduler=scheduler) or named_schedulers["threads"]
    except RuntimeError as error:
        if "asynchronous" not in str(error):
            raise
        raise RuntimeError(
            "a pass waits for its tasks, which neither an asynchronous client nor a coroutine can do: give "
            "another client, or scheduler='threads', and call it in a function that is no coroutine"
        ) from error


def client_of(scheduler: Scheduler) -> Client | None:
    """The client behind this scheduler; None if the scheduler runs tasks on this machine."""
    owner = getattr(_get_of(scheduler), "__self__", None)
    return owner if "Client" in type(owner).__name__ else None  # as Dask tells it


def opening_on(scheduler: Scheduler) -> MapFunction:
    """What opens the files of a source to plan a pass: the workers of a cluster, if there are many files.

    Parameters
    ----------
    scheduler : Scheduler
        What `dask.compute` takes.
    """
    client = client_of(scheduler)
    if client is None:
        return map
    from streamgda.jobs.passes.cluster import map_there

    return partial(map_there, client)


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
    """Run several plans, as `compute_plan` runs one, and return their states."""
    if not (isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress must be True, False or a function; got {progress!r}")
    start, groups = time.monotonic(), [group for plan in plans for group in plan.groups]
    with single_blas_thread(), warning_of_retries() as errors, telling(progress, groups) as listener:
        n_rows = "an unknown number of" if listener.total_rows is None else f"{listener.total_rows:,}"
        n_tasks = "one task" if len(groups) == 1 else f"{len(groups):,} tasks"
        _log.info("pass planned: %s rows in %s", n_rows, n_tasks)
        _log.info("pass started on %s", client_of(scheduler) or scheduler or "Dask's default scheduler")
        n_threads = _own_threads(plans, scheduler)
        if n_threads is None:
            outcome = _compute_by_dask(plans, scheduler, listener)
            errors.extend(outcome.errors)
            states = [outcome.state] if len(plans) == 1 else outcome.state
        else:
            # Imported where it is used, since it imports pyarrow.
            from streamgda.jobs.passes.threads import compute_in_threads

            states = compute_in_threads(plans, n_threads, listener)
        listener.finish(states)
    _log.info("pass done in %.1f s", time.monotonic() - start)
    return states


def _own_threads(plans: Sequence[Plan], scheduler: Scheduler) -> int | None:
    """How many threads of ours run plans, or 0 if this thread does; None if Dask runs them.

    Dask runs plans whose rows it computes itself, and all plans if it has a pool or callbacks of the user's.
    """
    import dask
    from dask.base import named_schedulers
    from dask.callbacks import Callback

    get = _get_of(scheduler)
    if get not in {named_schedulers["threads"], named_schedulers["sync"]} or Callback.active:
        return None
    lazy = (isinstance(split, LazySplit) for plan in plans for group in plan.groups for split in group)
    if dask.config.get("pool", None) or any(lazy):
        return None
    return _n_threads() if get is named_schedulers["threads"] else 0


def _n_threads() -> int:
    """How many threads Dask's configuration asks for."""
    import dask
    from dask.system import CPU_COUNT

    return dask.config.get("num_workers", None) or CPU_COUNT


def _compute_by_dask(plans: Sequence[Plan], scheduler: Scheduler, listener: Listener) -> Outcome:
    """Run plans as one graph of Dask's. Its schedulers on this machine call back after each task."""
    import dask
    from dask.base import named_schedulers
    from dask.callbacks import Callback

    graph, client, get = Graph(), client_of(scheduler), _get_of(scheduler)
    root = graph.add_plans(plans)
    if client is not None:
        from streamgda.jobs.passes.cluster import compute_there

        return compute_there(graph, root, client, listener)

    def tell(key: Hashable, *_: Any) -> None:
        if key in graph.reading:
            listener.advance(graph.reading[key])

    options: dict[str, Any] = {"callbacks": [Callback(posttask=tell)._callback, *Callback.active]}
    with DaemonThreads(_n_threads(), "streamgda-pass") as threads:
        if get is named_schedulers["threads"]:  # of whose own pool a forked process has none
            options["pool"] = dask.config.get("pool", None) or threads
        elif get is named_schedulers["processes"]:  # where Dask would fuse tasks, and send six at a time
            options |= {"chunksize": dask.config.get("chunksize", 1), "optimize_graph": False}
        elif not _takes_callbacks(get):
            options = {}
        try:
            return cast("Outcome", get(graph.whole(), root, **options))
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a worker process ended before its task did: it was killed, as when memory runs out, or this "
                'is a script that starts processes outside of if __name__ == "__main__":'
            ) from error


def _takes_callbacks(get: Callable[..., Any]) -> bool:
    """Whether a scheduler, which may be a function of the user's, has Dask's parameter `callbacks`."""
    parameters = inspect.signature(get).parameters.values()
    return any(one.name == "callbacks" or one.kind is one.VAR_KEYWORD for one in parameters)
