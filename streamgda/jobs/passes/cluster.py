"""Run the graphs of passes on the workers of a `distributed.Client`, and watch over the cluster meanwhile."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamgda.data.blocks.wording import counted, listed
from streamgda.data.storage.paths import one_line
from streamgda.jobs.passes.graph import LARGE_STATE, Graph, Outcome
from streamgda.jobs.passes.plan import FAN_IN, batched
from streamgda.jobs.passes.progress import Listener

if TYPE_CHECKING:
    from distributed import Client

SECONDS_BETWEEN_LOOKS = 10.0
SECONDS_OF_SILENCE = 10.0  # a worker tells the scheduler every second or so that it is there

# Evaluated here and sent by value, since the scheduler may lack this library.
_KNOWS = "lambda dask_scheduler, key: key in dask_scheduler.tasks"
_LISTS_FOR_WORKERS = 2  # as many lists of files are planned by the workers, and fewer are planned here
_LISTS_AT_A_TIME = 256
_submitting = threading.Lock()
if hasattr(os, "register_at_fork"):  # or a forked process would wait for a thread that it does not have
    os.register_at_fork(
        before=_submitting.acquire, after_in_parent=_submitting.release, after_in_child=_submitting.release
    )


def compute_there(graph: Graph, root: Hashable, client: Client, listener: Listener) -> Outcome:
    """Run a graph on a cluster. The result of each reading task is released as soon as it is counted."""
    from distributed import as_completed

    keys = list(graph.reading)
    keys_to_count = keys if listener.tell else []
    with _waiting_for(client, graph):
        first = keys[: sum(client.nthreads().values()) or FAN_IN]
        futures = dict(zip(first, _futures_of(client, graph.whole(), first), strict=True))
        try:
            if root not in futures:
                _submit_rest(client, graph, [root, *keys_to_count], futures)
            parts = [futures[key] for key in keys_to_count]
            for part in as_completed(parts, client.loop):  # `as_current` would configure all threads
                if part.status != "finished":
                    break
                listener.advance(graph.reading[part.key])
                if part.key != root:  # of a plan of one task
                    part.release()
            outcome: Outcome = futures[root].result()
            return outcome
        finally:
            _release(futures.values())


def _submit_rest(
    client: Client, graph: Graph, keys: Iterable[Hashable], futures: dict[Hashable, Any]
) -> None:
    """Submit the tasks that follow the first ones, when the size of a state tells how states are merged.

    Until then each thread has a task, and no states pile up. Futures of the first tasks are released if they
    are not among the keys.
    """
    from distributed import as_completed

    first = next(as_completed(list(futures.values()), client.loop))
    if first.status != "finished":
        first.result()  # raises its error
    n_bytes = client.nbytes([first.key], summary=False)[first.key]
    states, more = dict(futures), list(dict.fromkeys(key for key in keys if key not in futures))
    futures.update(zip(more, _futures_of(client, graph.after(states, n_bytes), more), strict=True))
    root = futures[more[0]]
    while not (client.run_on_scheduler(eval(_KNOWS, {}), key=root.key) or root.done()):
        time.sleep(0.01)  # a state that is released before is lost
    _release(futures.pop(key) for key in states.keys() - keys)


def _release(futures: Iterable[Any]) -> None:
    for future in futures:
        future.release()


def _futures_of(client: Client, graph: Mapping[Any, Any], keys: Sequence[Hashable]) -> Any:
    """The futures of some tasks of a graph.

    What tasks share is sent once, as a task of its own, so Dask's warning of large graphs has no remedy.
    Scattered data would also be sent once, but would be lost if its worker ended. The warning can be turned
    off for all threads only: for as long as a graph is sent, and by one pass at a time.
    """
    import dask

    with _submitting, dask.config.set({"distributed.admin.large-graph-warning-threshold": sys.maxsize}):
        return client.get(graph, keys, sync=False)


def map_there(client: Client, function: Callable[[Any], Any], lists: Sequence[Any]) -> Iterator[Any]:
    """Apply a function to lists on the workers of a cluster, some at a time, so few results wait here."""
    if len(lists) < _LISTS_FOR_WORKERS:
        yield from map(function, lists)
        return
    for some in batched(lists, _LISTS_AT_A_TIME):
        with _waiting_for(client):
            futures = client.map(function, some, pure=False)
            try:
                results = client.gather(futures)
            finally:
                _release(futures)
        yield from results


@contextmanager
def _waiting_for(client: Client, graph: Graph | None = None) -> Iterator[None]:
    """Watch over a cluster while it computes. If this is a task itself, others may have its thread meanwhile.

    Errors of Dask come as they are, with a note of what to do.
    """
    from distributed import KilledWorker

    if client.status in {"closed", "closing"}:
        raise RuntimeError("the client is closed: connect a new one, or give scheduler='threads'")
    end = threading.Event()
    try:
        threading.Thread(target=_watch, args=(client, end), daemon=True).start()
        _check_versions(client)
        with _without_thread():
            yield
    except CancelledError as error:
        error.add_note("the cluster lost the pass: start it anew, with a new client if the scheduler went")
        raise
    except (KilledWorker, MemoryError) as error:
        error.add_note(_remedy(graph))
        raise
    finally:
        end.set()


def _remedy(graph: Graph | None) -> str:
    """What helps where memory runs out, with the size of the states if one of them was made."""
    remedy = "Where memory ran out, give each worker more of it, or fewer threads"
    if graph is None or graph.state_bytes is None:
        return remedy
    n_states, size = 3 if graph.state_bytes >= LARGE_STATE else FAN_IN + 1, graph.state_bytes / 1e6
    return f"A task holds up to {n_states} states, each of about {size:,.1f} MB, beside its rows. {remedy}"


def _watch(client: Client, end: threading.Event) -> None:
    """Warn when workers stop to compute. Dask itself says nothing of it."""
    before: str | None = None
    while not end.wait(SECONDS_BETWEEN_LOOKS):
        try:
            why = _why_it_waits(client)
        except Exception:  # without its scheduler, the pass itself ends
            return
        if why not in (None, before) and not end.is_set():
            warnings.warn(why, stacklevel=2)
        before = why


def _why_it_waits(client: Client) -> str | None:
    """What keeps the workers of a cluster from computing; None if nothing does."""
    workers, now = client.scheduler_info()["workers"], client.run_on_scheduler(time.time)
    statuses = {worker["status"] for worker in workers.values()}
    if not statuses & {"running", "paused"}:  # or they are closing
        return "the cluster has no workers: the pass waits for them. Start some, or interrupt"
    if "running" not in statuses:
        return (
            "all workers of the cluster are paused, as when their memory is nearly full: the pass waits. "
            "Free memory, give them more, or interrupt"
        )
    silent = [name for name, worker in workers.items() if now - worker["last_seen"] > SECONDS_OF_SILENCE]
    if silent:
        return (
            f"{counted(len(silent), 'worker')} of the cluster stopped to answer: {listed(silent)}. The pass "
            "waits for their tasks. Let them go on, or end them, and other workers take the tasks"
        )
    return None


@contextmanager
def _without_thread() -> Iterator[None]:
    """Let other tasks use the thread of a worker, if this is one, while its task waits for them.

    The methods of an actor have threads of their own, in which no other task runs. A task may have left its
    thread already, as in `distributed.worker_client`.
    """
    from distributed import get_worker, rejoin, secede
    from distributed.threadpoolexecutor import thread_state

    try:
        worker = get_worker()
    except ValueError:  # this is no task
        yield
        return
    has_left = not getattr(thread_state, "proceed", False)
    if has_left or thread_state.executor is worker.executors["actor"]:
        yield
        return
    secede()
    try:
        yield
    finally:
        rejoin()


def _check_versions(client: Client) -> None:
    """Raise RuntimeError if a worker lacks this library, or has another version of it.

    A worker that cannot import what it is sent drops its connection, and the pass would wait for ever.
    """
    ours = import_module("streamgda").__version__
    expression = "__import__('streamgda').__version__"
    for worker, version in client.run(eval, expression, on_error="return").items():
        if isinstance(version, ImportError) or (isinstance(version, str) and version != ours):
            raise RuntimeError(  # another error says that the worker has just gone
                f"worker {worker} of the cluster has another streamgda than the {ours} of this process "
                f"({one_line(version)}): install the same on all machines of the cluster"
            )
