"""Run the plans of passes on one of Dask's schedulers.

BLAS has one thread in a task, since tasks run in parallel already. No setting of Dask's is changed, since
passes may overlap: what differs for a pass goes with the call.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from streamgda.blocks.wording import counted
from streamgda.gaussians.blas import single_blas_thread
from streamgda.passes.graph import Amount, Graph, Outcome, Plan
from streamgda.passes.progress import Listener, Progress, telling
from streamgda.sources.base import Map, Source, Upcoming
from streamgda.storage.retries import warning_of_retries
from streamgda.storage.threads import DaemonThreads

if TYPE_CHECKING:
    from distributed import Client

    # What `dask.compute` takes as its scheduler.
    Scheduler: TypeAlias = str | Executor | Client | Callable[..., Any] | None
else:
    Scheduler = Any  # annotations resolve without loading distributed

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
    from dask.base import get_scheduler, named_schedulers

    try:
        get: Callable[..., Any] = get_scheduler(scheduler=scheduler) or named_schedulers["threads"]
    except RuntimeError as error:
        if "asynchronous" not in str(error):
            raise
        raise RuntimeError(
            "a pass waits for its tasks, which neither an asynchronous client nor a coroutine can do: give "
            "another client, or scheduler='threads', and call it in a function that is no coroutine"
        ) from error
    return get


def client_of(scheduler: Scheduler) -> Client | None:
    """The client behind this scheduler; None if the scheduler runs tasks on this machine."""
    owner = getattr(_get_of(scheduler), "__self__", None)
    return owner if "Client" in type(owner).__name__ else None  # as Dask tells it


def threads_of(scheduler: Scheduler) -> int | None:
    """How many threads of this process run tasks; None if tasks run, or may run, in other processes."""
    from dask.base import named_schedulers

    get = _get_of(scheduler)
    if get is named_schedulers["threads"]:
        return _n_threads()
    return 1 if get is named_schedulers["sync"] else None


def _n_threads() -> int:
    """How many threads Dask's configuration asks for."""
    import dask
    from dask.system import CPU_COUNT

    pool = dask.config.get("pool", None)
    return getattr(pool, "_max_workers", None) or dask.config.get("num_workers", None) or CPU_COUNT


def opening_on(scheduler: Scheduler) -> Map:
    """What opens the files of a source to plan a pass: the workers of a cluster, if there are many files.

    Parameters
    ----------
    scheduler : Scheduler
        What `dask.compute` takes.
    """
    client = client_of(scheduler)
    if client is None:
        return map
    from streamgda.passes.cluster import map_there

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
    """Run several plans in one graph, as `compute_plan` runs one, and return their states."""
    if not (isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress must be True, False or a function; got {progress!r}")
    client, begun = client_of(scheduler), time.monotonic()
    with _fetching_ahead(scheduler) as upcoming:
        graph = Graph(client is not None, upcoming)
        root, amount = graph.add_plans(plans), sum(graph.reading.values(), Amount())
        rows = "an unknown number of rows" if amount.rows is None else f"{amount.rows:,} rows"
        _log.info("pass planned: %s in %s", rows, counted(amount.tasks, "task"))
        with (
            single_blas_thread(),
            warning_of_retries() as noted,
            telling(progress, graph.reading) as listener,
        ):
            _log.info("pass begun on %s", client or scheduler or "Dask's default scheduler")
            if client is None:
                outcome = _compute_here(graph, root, scheduler, listener)
            else:
                from streamgda.passes.cluster import compute_there

                outcome = compute_there(graph, root, client, listener)
            noted.extend(outcome.noted)
            states = [outcome.state] if len(plans) == 1 else outcome.state
            if progress is not False:
                listener.finish(states)
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


def _compute_here(graph: Graph, root: Hashable, scheduler: Scheduler, listener: Listener) -> Outcome:
    """Run a graph on a scheduler of this machine, which calls back after each task."""
    from dask.base import named_schedulers
    from dask.callbacks import Callback
    from dask.order import order

    if graph.upcoming is not None:
        graph.upcoming.arrange(order(graph.tasks))
    told = Callback(posttask=lambda key, *_: listener.advance(key))._callback
    options: dict[str, Any] = {"callbacks": [told, *Callback.active]}
    get = _get_of(scheduler)
    if get is named_schedulers["threads"]:
        return _on_threads(partial(get, graph.whole(), root, **options))
    if get is named_schedulers["processes"]:
        return _in_processes(partial(get, graph.whole(), root, **options))
    outcome: Outcome = get(graph.whole(), root, **(options if _takes_callbacks(get) else {}))
    return outcome


def _on_threads(compute: Callable[..., Outcome]) -> Outcome:
    """Run a graph on the pool of Dask's configuration, or else on threads of its own.

    The threads of Dask's own pool are gone in a forked process, and a process that ends waits for them.
    """
    import dask

    if dask.config.get("pool", None) is not None:
        return compute()
    with DaemonThreads(_n_threads(), "streamgda-pass") as pool:
        return compute(pool=pool)


def _in_processes(compute: Callable[..., Outcome]) -> Outcome:
    """Run a graph in processes.

    By default, Dask fuses tasks, and sends six at a time to a process. This suits much smaller tasks than
    these, so both are turned off.
    """
    import dask

    try:
        return compute(chunksize=dask.config.get("chunksize", 1), optimize_graph=False)
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process ended before its task did: it was killed, as when memory runs out, or this "
            'is a script that starts processes outside of if __name__ == "__main__":'
        ) from error


def _takes_callbacks(get: Callable[..., Any]) -> bool:
    """Whether a scheduler, which may be a function of the user's, has Dask's parameter `callbacks`."""
    parameters = inspect.signature(get).parameters.values()
    return any(one.name == "callbacks" or one.kind is one.VAR_KEYWORD for one in parameters)


def _forget_dasks_threads() -> None:
    """Let Dask start threads anew in a forked process, which has none of those of its parent."""
    if (threaded := sys.modules.get("dask.threaded")) is not None:
        vars(threaded)["default_pool"] = None
        threaded.pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_dasks_threads)
