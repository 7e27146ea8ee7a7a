"""Where a pass is computed: what becomes of the scheduler that a user asks for, or does not."""

from __future__ import annotations

from typing import Any

from streamgda.sources.base import Source


def scheduler_for(source: Source, asked: Any) -> Any:
    """The scheduler of a pass over a source, as `dask.compute` takes it.

    A source that can be read in this process only is read by Dask's threads, unless another scheduler
    of this process is asked for or configured.

    Raises
    ------
    TypeError
        If such a source is to be read elsewhere.
    ValueError
        If it is a cluster or its address, where a client is needed.
    """
    _refuse_clusters(asked)
    if not source.is_local or not _leaves_the_process(asked):
        return asked
    if asked is None:
        return "threads"
    raise TypeError(
        f"{source!r} can be read in this process only: use scheduler='threads' or 'synchronous', or write "
        "its rows to Parquet for scan_parquet"
    )


def client_of(scheduler: Any) -> Any:
    """The client of the cluster that a scheduler, or Dask's own rule, stands for; None for other kinds."""
    from dask.base import get_scheduler

    return getattr(get_scheduler(scheduler=scheduler), "__self__", None)


def _refuse_clusters(scheduler: Any) -> None:
    is_address = isinstance(scheduler, str) and "://" in scheduler
    if is_address or hasattr(scheduler, "get_client"):
        argument = repr(scheduler) if is_address else "cluster"
        raise ValueError(
            f"Dask computes through a client of a cluster: give scheduler=distributed.Client({argument}), "
            f"not {scheduler!r}"
        )


def _leaves_the_process(scheduler: Any) -> bool:
    from dask.base import get_scheduler, named_schedulers

    if client_of(scheduler) is not None:
        return True
    return get_scheduler(scheduler=scheduler) is named_schedulers["processes"]
