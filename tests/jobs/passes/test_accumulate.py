"""The pass: the same bits wherever it runs, each row group read once, memory bounded, progress shown."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import dask
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from dask.callbacks import Callback
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_info, threadpool_limits

from streamgda import ClassStatistics, QuadraticDiscriminantAnalysis, accumulate, scan_arrow, scan_parquet
from streamgda.data.sources.base import Source
from streamgda.jobs.passes.accumulate import accumulate_splits
from streamgda.jobs.passes.graph import _noting
from tests.data.sources.test_wide_row_groups import rows_and_peak
from tests.interrupted import until
from tests.logged_filesystem import GatedHandler, NotingHandler
from tests.strategies import KINDS

N_ROWS, N_FEATURES, N_FILES = 400_000, 5, 7


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, size=N_ROWS)
    return rng.normal(size=(N_ROWS, N_FEATURES)) + y[:, None] + 1e6, y


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    """Seven files of unequal length, with row groups of 30,000 rows: several tasks and a tree of merges."""
    X, y = rows
    folder = tmp_path_factory.mktemp("pass")
    columns = {f"x{j}": X[:, j] for j in range(N_FEATURES)}
    table = pa.table({**columns, "unused": X[:, 0], "y": y})
    for i in range(N_FILES):
        start, stop = N_ROWS * i * i // N_FILES**2, N_ROWS * (i + 1) * (i + 1) // N_FILES**2
        part = table.slice(start, stop - start)
        pq.write_table(part, folder / f"{i}.parquet", row_group_size=30_000, use_dictionary=False)
    return folder


FEATURES = [f"x{j}" for j in range(N_FEATURES)]


def source(folder, **options):
    return scan_parquet(folder, "y", features=FEATURES, **options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_scheduler_and_number_of_workers_gives_the_same_bits(folder, rows, kind):
    one = accumulate(source(folder), kind, scheduler="synchronous")
    for workers in (1, 2, 5):
        with dask.config.set(num_workers=workers):
            assert accumulate(source(folder), kind, scheduler="threads") == one
    with ThreadPoolExecutor(3) as pool:
        assert accumulate(source(folder), kind, scheduler=pool) == one
    assert one.allclose(ClassStatistics(kind, feature_names=FEATURES).update(*rows), rtol=1e-12)


@pytest.mark.slow
def test_processes_give_the_same_bits(folder):
    with dask.config.set({"num_workers": 2, "multiprocessing.context": "spawn"}):  # Dask's own default
        assert accumulate(source(folder), scheduler="processes") == accumulate(source(folder))


@pytest.mark.slow
def test_an_active_client_is_used_and_gives_the_same_bits(folder, client, capsys):
    expected = accumulate(source(folder), scheduler="synchronous")
    for progress in (False, True):
        before = tasks_run(client)
        with client.as_current():
            assert accumulate(source(folder), progress=progress) == expected
        ran = tasks_run(client) - before
        assert sum("accumulate_splits" in key for key in ran) > 1
    assert " 400k/400k [" in last_redraw(capsys)
    assert accumulate(source(folder), scheduler=client) == expected


def last_redraw(capsys):
    """What a progress bar shows at its end."""
    return capsys.readouterr().err.split("\r")[-1]


def tasks_run(client):
    """The keys of the tasks in the workers' logs."""
    logs = client.run(lambda dask_worker: [story[0] for story in dask_worker.state.log])
    return {str(key) for log in logs.values() for key in log}


def test_blas_has_one_thread_during_a_pass_and_then_as_many_as_before(rows):
    """So that the bits of products do not depend on the number of cores."""
    X, y = rows
    table = pa.table({"x": X[:1000, 0], "y": y[:1000]})
    seen = []

    def batches():
        for batch in table.to_batches(max_chunksize=100):
            seen.extend(blas_threads())
            yield batch

    def stream():
        return scan_arrow(pa.RecordBatchReader.from_batches(table.schema, batches()), "y")

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        accumulate(stream())
        _noting(accumulate_splits, stream().splits(), ClassStatistics())  # as a worker of a cluster does
        assert blas_threads() == before
    assert set(before) == {2}
    assert set(seen) == {1}


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.slow
@pytest.mark.parametrize("progress", [False, True])
def test_a_worker_killed_in_the_middle_changes_nothing(folder, tmp_path, progress):
    """SIGKILL while tasks run and results wait on the worker: the same bits, no row twice or lost."""
    expected = accumulate(source(folder), scheduler="synchronous")
    log, gate = tmp_path / "reads", tmp_path / "gate"
    slow = source(folder, filesystem=pafs.PyFileSystem(GatedHandler(log, {5: gate})))
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with ThreadPoolExecutor(1) as background, cluster, Client(cluster) as client:
        victim = client.run(os.getpid).popitem()[1]
        passing = background.submit(accumulate, slow, scheduler=client, progress=progress)
        until(lambda: len(log.read_text().splitlines()) >= N_FILES + 3)  # behind the footers
        os.kill(victim, signal.SIGKILL)
        assert not passing.done()
        gate.touch()
        state = passing.result(timeout=300)
    assert state == expected
    assert state.n_rows == N_ROWS


@pytest.mark.slow_cases("threads")
@pytest.mark.parametrize("scheduler", ["threads", "distributed"])
def test_each_row_group_is_read_once_and_no_other_column_at_all(folder, scheduler, tmp_path, request):
    if scheduler == "distributed":
        scheduler = request.getfixturevalue("client")
    handler = NotingHandler(tmp_path / "reads")
    accumulate(source(folder, filesystem=pafs.PyFileSystem(handler)), scheduler=scheduler)
    for path in folder.iterdir():
        times = times_read(path, handler)
        assert times[:-FOOTER].any() or len(times) < 2 * FOOTER
        for chunk in chunks(pq.read_metadata(path)):
            data = slice(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size)
            assert (times[:-FOOTER][data] == (chunk.path_in_schema != "unused")).all()


FOOTER = 1 << 16  # Arrow reads the footer with whatever comes before it in the last 64 KiB


def times_read(path, handler):
    """How often each byte of a file was read."""
    times = np.zeros(path.stat().st_size, dtype=int)
    for name, start, length in handler.reads:
        if name == str(path):
            times[start : start + length] += 1
    return times


def chunks(metadata):
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            yield metadata.row_group(group).column(column)


def test_a_plan_reads_footers_alone(folder, tmp_path):
    handler = NotingHandler(tmp_path / "reads")
    source(folder, filesystem=pafs.PyFileSystem(handler)).splits()
    for path in folder.iterdir():
        times = times_read(path, handler)
        assert not times[:-FOOTER].any()
        assert times[-1]


def test_a_task_is_small_to_send(folder):
    import cloudpickle

    splits = source(folder).splits()
    assert len(splits) > 4
    assert max(len(cloudpickle.dumps(split)) for split in splits) < 2_000


@pytest.mark.slow
def test_a_huge_row_group_is_read_in_bounded_memory(tmp_path):
    """A row group of 432 MB, in a process of its own whose Arrow memory is watched."""
    column = np.random.default_rng(0).normal(size=6_000_000)
    table = pa.table({**{f"x{j}": column for j in range(8)}, "y": np.arange(len(column)) % 2})
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=len(column))
    n_rows, peak = rows_and_peak(tmp_path, "full")
    assert n_rows == len(column)
    assert peak < 250e6


def test_a_bar_in_the_terminal_counts_rows(folder, capsys):
    accumulate(source(folder), progress=True)
    shown = last_redraw(capsys)
    assert shown.startswith("100%")
    assert " 400k/400k [" in shown
    assert "rows/s" in shown
    accumulate(source(folder))
    assert capsys.readouterr().err == ""


def test_progress_that_is_no_function_is_refused(folder):
    with pytest.raises(TypeError, match="progress must be True, False or a function; got 3"):
        accumulate(source(folder), progress=3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_bar_in_a_notebook_is_a_widget(folder):
    code = f"""
from streamgda import accumulate, scan_parquet
accumulate(scan_parquet({str(folder)!r}, "y", features={FEATURES!r}), progress=True).n_rows
"""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, kernel_name="python3").execute()
    views = [output.data for output in notebook.cells[0].outputs if "data" in output]
    assert any("application/vnd.jupyter.widget-view+json" in view for view in views)
    assert views[-1]["text/plain"] == str(N_ROWS)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "distributed"])
def test_an_error_in_a_task_arrives_as_it_was_raised(folder, tmp_path, scheduler, request):
    if scheduler == "distributed":
        scheduler = request.getfixturevalue("client")
    bad = pq.read_table(folder / "6.parquet")
    values = bad["x1"].to_numpy().copy()
    values[31_000] = np.inf
    pq.write_table(bad.set_column(1, "x1", pa.array(values)), tmp_path / "6.parquet", row_group_size=30_000)
    for progress in (False, True):
        with pytest.raises(ValueError, match="6.parquet, row group 1, row 1000: feature 'x1' is infinity"):
            accumulate(source(tmp_path), scheduler=scheduler, progress=progress)


def test_a_failed_fit_leaves_the_model_as_it_was(folder, tmp_path):
    model = QuadraticDiscriminantAnalysis().fit(source(folder))
    before = model.statistics_.copy()
    pq.write_table(
        pa.table({**{name: [1.0, np.nan] for name in FEATURES}, "y": [0, 1]}), tmp_path / "1.parquet"
    )
    with pytest.raises(ValueError, match="NaN"):
        model.fit(source(tmp_path))
    assert model.statistics_ == before


def test_an_unknown_kind_is_refused_before_anything_is_read(folder):
    for kind in ("spherical", ["full"], None):
        with pytest.raises(ValueError, match="covariance_type must be one of"):
            accumulate(source(folder), kind)


@pytest.mark.slow
@pytest.mark.parametrize("width", [2, 100])
def test_what_waits_to_be_merged_does_not_grow_with_the_splits(tmp_path, width):
    """200 tasks, one after the other: one state for each level of the tree, and the one that is read."""
    table = pa.table({**{f"x{j}": np.zeros(2) for j in range(width)}, "y": [0, 1]})
    pq.write_table(table, tmp_path / "1.parquet")
    (split,) = scan_parquet(tmp_path, "y").splits()
    held = []

    class Repeated(Source):
        n_features = width

        def splits(self):
            return [replace(split, n_rows=1 << 18)] * 200

    def count(key, result, dsk, state, worker):
        found = {id(value) for value in state["cache"].values() if isinstance(value, ClassStatistics)}
        held.append(len(found))  # a state that others were merged into is the result of more than one task

    with Callback(posttask=count), dask.config.set(num_workers=1):
        assert accumulate(Repeated(), scheduler="threads").n_rows == 400
    assert len(held) > 200
    assert max(held) <= 3 + 2  # with the empty one that all tasks share
