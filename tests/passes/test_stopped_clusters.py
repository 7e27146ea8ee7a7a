"""Clusters that stop to compute during a pass, and clients that cannot compute."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

from streamgda import accumulate, scan_dask, scan_parquet
from streamgda.passes import cluster as clusters
from streamgda.passes.compute import compute_plan
from streamgda.passes.plan import Plan
from tests.logged_filesystem import NotingHandler
from tests.passes.test_passes import NoRows, until


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


def go_on(dask_worker):
    from distributed.core import Status

    dask_worker.status = Status.running


def until_said(caplog, said):
    until(lambda: any(said in message for message in caplog.messages))


@pytest.mark.slow  # it waits for looks at the cluster
def test_workers_that_go_and_come_back_are_each_said_once(source, caplog):
    with cluster_of(1) as cluster, Client(cluster) as client, ThreadPoolExecutor(1) as background:
        with pytest.warns(UserWarning, match="the cluster has no workers") as warned:
            passing = background.submit(accumulate, source, scheduler=client, rows_per_task=1)
            time.sleep(0.3)
            cluster.scale(0)
            until_said(caplog, "has no workers")
            time.sleep(0.6)
            cluster.scale(1)
            assert passing.result(timeout=60).n_rows == 32
        assert len([one for one in warned if "no workers" in str(one.message)]) == 1


@pytest.mark.slow
def test_workers_that_are_paused_are_said(source, caplog):
    with cluster_of(1) as cluster, Client(cluster) as client, ThreadPoolExecutor(1) as background:
        client.run(pause)
        with pytest.warns(UserWarning, match="all workers of the cluster are paused"):
            passing = background.submit(accumulate, source, scheduler=client, rows_per_task=1)
            until_said(caplog, "are paused")
        client.run(go_on)
        until_said(caplog, "the pass goes on")
        assert passing.result(timeout=60).n_rows == 32


@pytest.mark.parametrize(
    "demanded", [{"workers": ["absent"]}, {"resources": {"GPU": 1}}], ids=["workers", "resources"]
)
def test_tasks_that_no_worker_may_run_are_said(source, caplog, demanded):
    def annotated():
        with dask.annotate(allow_other_workers=False, **demanded):
            return accumulate(source, scheduler=client)

    with cluster_of(1) as cluster, Client(cluster) as client, ThreadPoolExecutor(1) as background:
        with pytest.warns(UserWarning, match="no worker of the cluster may run some tasks"):
            passing = background.submit(annotated)
            until_said(caplog, "may run some tasks")
        client.restart(wait_for_workers=False)
        with pytest.raises(RuntimeError, match="the cluster lost the pass"):
            passing.result(timeout=60)


def test_a_client_that_is_closed_is_said(source):
    with cluster_of(0) as cluster:
        client = Client(cluster)
        client.close()
        with pytest.raises(RuntimeError, match="the client is closed: connect a new one"):
            accumulate(source, scheduler=client)


SCHEDULER = """
import sys
from distributed import LocalCluster
cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=":0", protocol="tcp")
print(cluster.scheduler_address, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow  # it starts a process
def test_a_scheduler_that_went_before_the_pass_is_said_at_once(source, monkeypatch):
    command = [sys.executable, "-c", SCHEDULER]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as scheduler,
        Client(scheduler.stdout.readline().strip()) as client,
        monkeypatch.context() as patch,
    ):
        scheduler.kill()
        scheduler.wait()
        patch.setattr(client, "status", "running")  # it may not know yet, or learn it now
        begun = time.monotonic()
        with pytest.raises(
            RuntimeError, match="the scheduler of the cluster cannot be reached|the client is closed"
        ):
            accumulate(source, scheduler=client)
        assert time.monotonic() - begun < 8  # on a busy machine


def test_data_that_was_lost_with_its_worker_is_said_as_such():
    with cluster_of(1) as cluster, Client(cluster) as client, ThreadPoolExecutor(1) as background:
        rows, labels = client.scatter([np.zeros((4, 2)), np.array([0, 1, 0, 1])])
        X = da.from_delayed(dask.delayed(rows), (4, 2), "f8")
        y = da.from_delayed(dask.delayed(labels), (4,), "i8")
        cluster.scale(0)
        until(lambda: not client.nthreads())
        passing = background.submit(accumulate, scan_dask(X, y), scheduler=client)
        with pytest.raises(RuntimeError, match="data that was scattered or persisted went with its worker"):
            passing.result(timeout=60)


class LargeState:
    nbytes = 43_500_000


def too_large(first, second):
    raise MemoryError


def test_an_error_of_memory_says_how_large_a_state_is():
    plan = Plan([[NoRows()]] * 2, lambda splits, shared: LargeState(), None, too_large)
    said = "too little memory for its task. A task holds up to 3 states, each of about 43.5 MB"
    with cluster_of(1) as cluster, Client(cluster) as client, pytest.raises(MemoryError, match=said):
        compute_plan(plan, client, False)
