"""Choose the Dask scheduler of a pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeAlias

from streamgda.sources.base import Source

if TYPE_CHECKING:
    from distributed import Client

    # What `dask.compute` takes as its scheduler.
    Scheduler: TypeAlias = str | Executor | Client | Callable[..., Any] | None
else:
    Scheduler = Any  # annotations resolve without loading distributed


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
        If the scheduler is a cluster or its address, where a client is needed.
    """
    _check_no_cluster(scheduler)
    if not source.is_local or not _leaves_the_process(scheduler):
        return scheduler
    if scheduler is None:
        return "threads"
    raise TypeError(
        f"{source!r} can be read in this process only: use scheduler='threads' or 'synchronous', or write "
        "its rows to Parquet for scan_parquet"
    )


def client_of(scheduler: Scheduler) -> Client | None:
    """The client that runs what this scheduler is given; None if it runs on this machine."""
    from dask.base import get_scheduler

    return getattr(get_scheduler(scheduler=scheduler), "__self__", None)


def _check_no_cluster(scheduler: object) -> None:
    is_address = isinstance(scheduler, str) and "://" in scheduler
    if is_address or hasattr(scheduler, "get_client"):
        argument = repr(scheduler) if is_address else "cluster"
        raise ValueError(
            f"Dask computes through a client of a cluster: give scheduler=distributed.Client({argument}), "
            f"not {scheduler!r}"
        )


def _leaves_the_process(scheduler: Scheduler) -> bool:
    from dask.base import get_scheduler, named_schedulers

    if client_of(scheduler) is not None:
        return True
    return get_scheduler(scheduler=scheduler) is named_schedulers["processes"]
