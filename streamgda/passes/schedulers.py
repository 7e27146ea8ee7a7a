"""The Dask scheduler of a pass, and the limit of one BLAS thread, since tasks run in parallel already."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from threadpoolctl import threadpool_limits

from streamgda.blocks.wording import Message
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
