"""The pass on Dask's schedulers: what it leaves behind, what it says of what is wrong, what it sends."""

import os
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial

import dask
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from distributed import Client, KilledWorker, LocalCluster

from streamgda import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    accumulate,
    evaluate,
    load,
    predict_dataset,
    scan_parquet,
)
from streamgda.data.sources.splits import Split, group_into_tasks
from streamgda.jobs.passes.compute import compute_plan
from streamgda.jobs.passes.plan import Plan
from tests.interrupted import until
from tests.logged_filesystem import GatedHandler

whether_with_progress = pytest.mark.parametrize("progress", [False, True])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six files, each of the rows of a task, in small row groups."""
    folder, rng = tmp_path_factory.mktemp("pass"), np.random.default_rng(0)
    y = rng.integers(0, 3, 200_000)
    table = pa.table({"a": rng.normal(size=len(y)) + y, "b": rng.normal(size=len(y)), "y": y})
    for i in range(6):
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=20_000)
    return folder


class NoRows(Split):
    def blocks(self):
        return iter(())


def known_tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


# ---------------------------------------------------------------------- what a pass leaves behind


@pytest.mark.slow_cases("False")
@whether_with_progress
def test_a_pass_that_fails_leaves_nothing_on_the_cluster(folder, tmp_path, client, progress):
    nan = pa.table({"a": [1.0, np.nan], "b": [1.0, 2.0], "y": [0, 1]})
    pq.write_table(nan, tmp_path / "0.parquet")
    files = [tmp_path / "0.parquet", *sorted(folder.iterdir())]
    with pytest.raises(ValueError, match="is NaN") as raised:
        accumulate(scan_parquet(files, "y"), scheduler=client, progress=progress)
    assert raised.value.__traceback__ is not None  # which holds all the frames, as an interpreter does
    until(lambda: not client.run_on_scheduler(known_tasks))


def interrupt_once_begun(client):
    until(lambda: client.run_on_scheduler(known_tasks))
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.mark.slow_cases("True")
@whether_with_progress
def test_a_pass_that_is_interrupted_leaves_nothing_on_the_cluster(folder, tmp_path, client, progress):
    gate = tmp_path / "gate"
    source = scan_parquet(
        folder, "y", filesystem=pafs.PyFileSystem(GatedHandler(tmp_path / "reads", {0: gate}))
    )
    threading.Thread(target=interrupt_once_begun, args=(client,)).start()
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            accumulate(source, scheduler=client, progress=progress)
    finally:
        gate.touch()
    assert raised.value.__traceback__ is not None
    until(lambda: not client.run_on_scheduler(known_tasks))


# ---------------------------------------------------------------------- what is wrong is said


def test_what_is_no_scheduler_is_refused_before_anything_is_written(folder, tmp_path):
    source = scan_parquet(folder / "0.parquet", "y")
    model = QuadraticDiscriminantAnalysis().fit(source)
    for call in (
        accumulate,
        StatisticsLedger(str(tmp_path / "ledger")).refresh,
        partial(evaluate, model),
        lambda source, scheduler: predict_dataset(model, source, tmp_path / "out", scheduler=scheduler),
    ):
        for scheduler, said in (("foo", r"Expected one of \[distributed"), (3, "Unexpected scheduler: 3")):
            with pytest.raises(ValueError, match=said):
                call(source, scheduler=scheduler)
    assert not (tmp_path / "out").exists()


def test_a_scheduler_that_goes_away_ends_the_pass(folder):
    source = scan_parquet(folder, "y")
    cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=":0")
    with ThreadPoolExecutor(1) as background, cluster, Client(cluster) as client:
        passing = background.submit(accumulate, source, scheduler=client)
        until(lambda: cluster.scheduler.tasks)
        cluster.close()
        with pytest.raises(CancelledError, match="the cluster lost the pass: .* with a new client"):
            passing.result(timeout=300)


def test_workers_that_are_killed_end_the_pass():
    plan = Plan([[NoRows()]], end_the_process, None)
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        client.run_on_scheduler(allow_no_failures)
        with pytest.raises(KilledWorker, match="give each worker more of it, or fewer threads"):
            compute_plan(plan, client, False)


def end_the_process(group, shared):
    os.kill(os.getpid(), signal.SIGKILL)


def allow_no_failures(dask_scheduler):
    dask_scheduler.allowed_failures = 0


@pytest.mark.slow
def test_a_script_without_the_guard_is_told_what_is_missing(folder, tmp_path):
    (tmp_path / "script.py").write_text(f"""
import dask
from streamgda import accumulate, scan_parquet
dask.config.set({{"multiprocessing.context": "spawn", "num_workers": 1}})
accumulate(scan_parquet({str(folder)!r}, "y"), scheduler="processes")
""")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: a worker process ended before its task")
    assert 'if __name__ == "__main__":' in last


# ---------------------------------------------------------------------- what goes to the workers


class Values:
    """A state that is a set."""

    n_rows = n_dropped = 0

    def __init__(self, values):
        self.values = values

    def __add__(self, other):
        return Values(self.values | other.values)


def process_of(group, shared):
    """The process that runs this task, once another one runs a task too."""
    (shared / str(os.getpid())).touch()
    until(lambda: len(list(shared.iterdir())) == 2)
    return Values({os.getpid()})


def test_each_process_has_its_share_of_the_tasks(tmp_path):
    """Dask hands six tasks at a time to a process where it is not told otherwise."""
    plan = Plan([[NoRows()]] * 4, process_of, tmp_path)
    with dask.config.set(num_workers=2):
        assert len(compute_plan(plan, "processes", False).values) == 2


def size_of(group, shared):
    return Values({shared.nbytes})


@pytest.mark.slow_cases("False")
@whether_with_progress
def test_a_large_model_is_sent_without_a_warning(client, progress):
    """Dask warns of graphs above 10 MB, and we send a model once, as a task of its own."""
    model = np.zeros(2_000_000)
    plan = Plan([[NoRows()]] * 20, size_of, model)
    assert compute_plan(plan, client, progress).values == {model.nbytes}


# ---------------------------------------------------------------------- warnings


@pytest.mark.slow_cases("Quadratic")
@pytest.mark.parametrize("kind", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis])
def test_the_copy_of_a_model_in_a_worker_does_not_repeat_its_warning(folder, tmp_path, kind):
    """Warnings of a worker are lines in its log, or errors where it is told so."""
    rows = pq.read_table(folder / "0.parquet").to_pandas()
    rows["twice"] = 2 * rows["a"]
    X, y = rows[["a", "b", "twice"]], rows["y"].where(rows.index > 0, 9)
    model = kind().partial_fit(X if kind is LinearDiscriminantAnalysis else X[["a", "b"]], y)
    model.save(tmp_path / "model.parquet")
    rows.to_parquet(tmp_path / "rows.parquet")
    X = X[list(model.feature_names_in_)]
    with dask.config.set({"multiprocessing.initializer": raise_warnings, "num_workers": 2}):
        for compute in (
            lambda model: evaluate(
                model, scan_parquet(tmp_path / "rows.parquet", "y", features=list(X)), scheduler="processes"
            ),
            lambda model: model.predict(dd.from_pandas(X, npartitions=4)).compute(scheduler="processes"),
        ):
            with pytest.warns(UserWarning, match="rank") as warned:
                compute(load(tmp_path / "model.parquet"))
            assert len(warned) == 1


def raise_warnings():
    warnings.simplefilter("error")


# ---------------------------------------------------------------------- how much a task reads


@pytest.mark.parametrize(("n_features", "parts"), [(None, 104), (50, 104), (2048, 13), (10**9, 1)])
def test_a_task_reads_fewer_rows_where_they_are_wide(n_features, parts):
    """Parts of 2,500 rows, up to 262,144 in a task: 32,768 of 2,048 features, which are 512 MB."""
    found = list(group_into_tasks(range(200), n_features, n_rows=lambda part: 2500))
    assert [part for group in found for part in group] == list(range(200))
    assert max(map(len, found)) == parts
