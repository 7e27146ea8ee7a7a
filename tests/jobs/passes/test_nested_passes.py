"""Passes inside of Dask's tasks, which wait for other tasks of the same workers."""

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from distributed import Client, LocalCluster, get_client, get_worker, worker_client

from streamgda import (
    GaussianNB,
    StatisticsLedger,
    accumulate,
    evaluate,
    predict_dataset,
    scan_dask,
    scan_parquet,
)
from streamgda.jobs.passes.compute import opening_on
from tests.jobs.passes.conftest import N_ROWS


@pytest.fixture(scope="module")
def client():
    """A cluster of one thread, which the task that makes a pass holds."""
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client


def learnt(folder):
    return accumulate(scan_parquet(folder, "y"), rows_per_task=1).n_rows


def nested_twice(folder):
    frame = dd.from_pandas(pd.DataFrame({"a": range(4), "y": [0, 1, 0, 1]}, dtype=float), npartitions=3)
    frame = frame.map_partitions(
        lambda rows: rows.assign(b=learnt(folder)), meta={"a": "f8", "y": "f8", "b": "i8"}
    )
    return int(accumulate(scan_dask(frame, "y")).means[0, 1])


def after_leaving_the_thread(folder):
    with worker_client():
        return learnt(folder)


def opened_there(folder):
    return sum(opening_on(get_client())(learnt, [folder, folder])) // 2


def every_kind(folder):
    source = scan_parquet(folder, "y")
    model = GaussianNB().fit(source)
    n_written = predict_dataset(model, source, f"{folder}.predicted", columns=["label"]).n_rows
    ledger = StatisticsLedger(f"{folder}.ledger")
    ledger.refresh(source)
    assert evaluate(model, source).n_rows == ledger.statistics().n_rows == n_written
    return n_written


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    [learnt, nested_twice, after_leaving_the_thread, opened_there, every_kind],
    ids=lambda task: task.__name__,
)
def test_a_pass_in_a_task_lends_its_thread_to_the_tasks_that_it_waits_for(client, folder, task):
    several = [client.submit(task, folder, pure=False) for _ in range(1 if task is every_kind else 3)]
    assert client.gather(several) == [N_ROWS] * len(several)


@pytest.mark.slow
def test_a_delayed_function_and_the_partitions_of_a_frame_make_passes(client, folder):
    results = client.compute([dask.delayed(learnt)(folder) for _ in range(3)], sync=True)
    assert results == [N_ROWS] * 3
    frame = dd.from_pandas(pd.DataFrame({"x": range(4)}), npartitions=4)
    mapped = frame.map_partitions(lambda rows: rows.assign(n=learnt(folder)), meta={"x": "i8", "n": "i8"})
    assert mapped["n"].sum().compute(scheduler=client) == 4 * N_ROWS


async def learnt_in_a_coroutine(folder):
    return learnt(folder)


def test_a_coroutine_is_told_what_to_do(client, folder):
    with pytest.raises(RuntimeError, match="call it in a function that is no coroutine"):
        client.submit(learnt_in_a_coroutine, folder).result()


def n_threads(folder):
    before = len(get_worker().executor._threads)
    learnt(folder)
    return before, len(get_worker().executor._threads)


@pytest.mark.slow
def test_the_thread_is_given_back(client, folder):
    for _ in range(3):
        assert client.submit(n_threads, folder, pure=False).result() == (1, 1)
