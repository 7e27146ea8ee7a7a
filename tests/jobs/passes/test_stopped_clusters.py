"""Clusters that stop to compute during a pass."""

import os
import signal
import warnings
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

from streamgda import accumulate, scan_parquet
from streamgda.jobs.passes import cluster as clusters
from streamgda.jobs.passes.compute import compute_plan
from streamgda.jobs.passes.plan import Plan
from tests.interrupted import until
from tests.jobs.passes.test_passes import NoRows
from tests.logged_filesystem import NotingHandler


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "SECONDS_BETWEEN_LOOKS", 0.2)
    for i in range(8):
        pq.write_table(pa.table({"a": np.arange(4.0), "y": [0, 1, 0, 1]}), tmp_path / f"{i}.parquet")
    slow = pafs.PyFileSystem(NotingHandler(tmp_path / "_log", delay=0.1))
    return scan_parquet(tmp_path, "y", filesystem=slow)


def cluster_of(n_workers):
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address=":0")


def pause(dask_worker):
    from distributed.core import Status

    dask_worker.memory_manager.memory_pause_fraction = False  # or it would go on by itself
    dask_worker.status = Status.paused


@contextmanager
def warned(said):
    """Wait until a warning says this."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        until(lambda: any(said in str(one.message) for one in caught))


@pytest.mark.slow  # it waits for looks at the cluster
@pytest.mark.parametrize("progress", [False, lambda done: None], ids=["quiet", "told"])
def test_a_pass_waits_for_workers_that_are_paused_or_not_there_and_says_so(source, progress):
    with ThreadPoolExecutor(1) as background, cluster_of(1) as cluster, Client(cluster) as client:
        client.run(pause)
        with warned("all workers of the cluster are paused"):
            passing = background.submit(accumulate, source, scheduler=client, progress=progress)
        with warned("the cluster has no workers: the pass waits"):
            cluster.scale(0)
        assert not passing.done()
        cluster.scale(1)
        assert passing.result(timeout=300).n_rows == 32


@pytest.mark.slow
def test_a_worker_that_stopped_to_answer_is_said(source, monkeypatch):
    monkeypatch.setattr(clusters, "SECONDS_OF_SILENCE", 2.0)
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with ThreadPoolExecutor(1) as background, cluster, Client(cluster) as client:
        [(worker, process)] = client.run(os.getpid).items()
        os.kill(process, signal.SIGSTOP)
        try:
            with warned(f"1 worker of the cluster stopped to answer: '{worker}'"):
                passing = background.submit(accumulate, source, scheduler=client)
        finally:
            os.kill(process, signal.SIGCONT)
        assert passing.result(timeout=300).n_rows == 32


@pytest.mark.slow
def test_what_dask_says_of_lost_work_comes_as_it_is(source):
    with ThreadPoolExecutor(1) as background, cluster_of(1) as cluster, Client(cluster) as client:
        client.run(pause)
        passing = background.submit(accumulate, source, scheduler=client)
        until(lambda: cluster.scheduler.tasks)
        with Client(cluster.scheduler_address, set_as_default=False) as other:
            other.restart(wait_for_workers=False)
        with pytest.raises(CancelledError, match="scheduler-restart"):
            passing.result(timeout=300)
    with pytest.raises(RuntimeError, match="the client is closed: connect a new one"):
        accumulate(source, scheduler=client)


class LargeState:
    nbytes = 43_500_000


def too_large(first, second):
    raise MemoryError


def test_an_error_of_memory_says_how_large_a_state_is():
    plan = Plan([[NoRows()]] * 2, lambda splits, shared: LargeState(), None, too_large)
    said = "A task holds up to 3 states, each of about 43.5 MB.* give each worker more of it"
    with cluster_of(1) as cluster, Client(cluster) as client, pytest.raises(MemoryError, match=said):
        compute_plan(plan, client, False)
