"""A pass of hours: fewer tasks with the same bits, retries, a checkpoint, progress and a log."""

import logging
import operator
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

from streamgda import ClassStatistics, StatisticsLedger, accumulate, load, scan_arrow, scan_parquet
from streamgda.data.storage import retries
from streamgda.jobs.passes import graph, plan
from streamgda.jobs.passes.accumulate import accumulate_splits
from tests.interrupted import ended_by, until
from tests.logged_filesystem import GatedHandler, NotingHandler, note

N_FILES = 70  # the states of eight and of 64 groups, and some left over
ROWS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    for i in range(N_FILES):
        y = rng.integers(0, 3, ROWS)
        table = pa.table({"a": rng.normal(size=ROWS) + y, "b": rng.normal(size=ROWS) * 1e3, "y": y})
        pq.write_table(table, folder / f"{i:02}.parquet")
    return folder


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)


EACH = {"rows_per_task": 1}  # a group for each file


def tree_of(states):
    """Eight states merged in order, then eight of those, and so on."""
    while len(states) > 1:
        states = [reduce(operator.add, states[i : i + 8]) for i in range(0, len(states), 8)]
    return states[0]


@pytest.fixture(scope="module")
def expected(folder):
    splits = scan_parquet(folder, "y").splits()
    assert len(splits) == N_FILES
    return tree_of([accumulate_splits([split], ClassStatistics()) for split in splits])


# ---------------------------------------------------------------------- fewer tasks, the same bits


@pytest.mark.slow
@pytest.mark.parametrize("in_sequence", [plan.IN_SEQUENCE, 10])
def test_tasks_that_read_or_merge_eight_states_give_the_bits_of_the_tree(
    folder, expected, client, monkeypatch, in_sequence
):
    monkeypatch.setattr(plan, "IN_SEQUENCE", in_sequence)
    source = scan_parquet(folder, "y")
    for scheduler in ("synchronous", "threads", client):
        assert accumulate(source, scheduler=scheduler, **EACH) == expected
    assert accumulate(source, rows_per_task=100 * ROWS).allclose(expected)


def tasks_of(n_groups, state_bytes):
    """The tasks of a pass on a cluster that depend on each other, if states have this size."""
    made = graph.Graph()
    read = plan.Plan([[k] for k in range(n_groups)], accumulate_splits, ClassStatistics())
    needed, waiting = {}, [made.add_plans([read])]
    tasks = made.after({}, state_bytes)
    while waiting:
        key = waiting.pop()
        needed[key] = tasks[key]
        waiting.extend(tasks[key][1:])
    return needed.values()


def test_a_cluster_has_a_task_for_eight_merges_and_beyond_some_thousands_for_eight_groups():
    assert len(tasks_of(64, state_bytes=1000)) == 1 + 64 + 8 + 1
    assert len(tasks_of(8**5, state_bytes=0)) == 1 + sum(8**k for k in range(5))


def test_large_states_are_merged_in_pairs_on_a_cluster_also_if_they_become_large_by_merging():
    assert max(map(len, tasks_of(64, graph.LARGE_STATE))) == 3  # a function and two states
    few_classes_each = [len(task) for task in tasks_of(64, graph.LARGE_STATE // 8)]
    assert few_classes_each.count(9) == 8
    assert few_classes_each.count(3) == 7


@pytest.mark.slow_cases("500")
@pytest.mark.parametrize("progress", [False, lambda told: None])
@pytest.mark.parametrize("n_classes", [3, 500])
def test_states_of_many_classes_are_merged_in_pairs_with_the_same_bits(
    tmp_path, client, monkeypatch, n_classes, progress
):
    sizes = []
    after = graph.Graph.after

    def noting_size(self, states, state_bytes):
        sizes.append(state_bytes)
        return after(self, states, state_bytes)

    monkeypatch.setattr(graph.Graph, "after", noting_size)
    rng = np.random.default_rng(0)
    for i in range(10):
        X, y = rng.normal(size=(2 * n_classes, 24)), np.arange(2 * n_classes) % n_classes
        pq.write_table(pa.table([*X.T, y], names=[*map(str, range(24)), "y"]), tmp_path / f"{i}.parquet")
    source = scan_parquet(tmp_path, "y")
    there = accumulate(source, scheduler=client, progress=progress, **EACH)
    assert there == accumulate(source, scheduler="synchronous", **EACH)
    assert (sizes[0] >= graph.LARGE_STATE) == (n_classes == 500)


@pytest.mark.parametrize("fourth", [False, True])
def test_a_state_travels_as_half_of_its_squares_and_arrives_with_all_bits(fourth):
    rng = np.random.default_rng(0)
    state = ClassStatistics(fourth_moments=fourth)
    for _ in range(3):
        state.update(rng.normal(size=(500, 60)) * 1e3, rng.integers(0, 4, 500), rng.random(500))
    sent = pickle.dumps(state)
    assert len(sent) < (0.85 if fourth else 0.6) * state.nbytes  # third moments are not symmetric
    arrived = pickle.loads(sent)
    for kept, came in zip(state._moments.arrays, arrived._moments.arrays, strict=True):
        assert kept.tobytes() == came.tobytes()
    assert arrived.update([[0.0] * 60], [1]) == state.update([[0.0] * 60], [1])


# ---------------------------------------------------------------------- progress and log


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "kind", "n_tasks"), [(5, pa.int8(), 8), (90_000, pa.string(), 4)])
def test_tasks_are_longer_where_states_are_large(n_classes, kind, n_tasks, tmp_path):
    n_rows = 1 << 21
    labels = pa.array(np.random.default_rng(0).integers(n_classes, size=n_rows)).cast(kind)
    rows = pa.table({"x": np.arange(n_rows, dtype=np.float32), "y": labels})
    pq.write_table(rows[:0], tmp_path / "0.parquet")
    pq.write_table(rows, tmp_path / "1.parquet", row_group_size=1 << 17)
    told = []
    state = accumulate(scan_parquet(tmp_path, "y"), "diag", progress=told.append)
    assert (state.n_rows, told[-1].total_tasks) == (n_rows, n_tasks)


@pytest.mark.slow
def test_a_function_is_told_how_far_a_pass_is(folder, client):
    for scheduler in ("synchronous", "threads", client):
        told = []
        accumulate(scan_parquet(folder, "y"), scheduler=scheduler, progress=told.append, **EACH)
        assert [one.rows for one in told] == sorted({one.rows for one in told})
        assert {(one.total_rows, one.total_tasks) for one in told} == {(N_FILES * ROWS, N_FILES)}
        last = told[-1]
        assert (last.rows, last.tasks) == (N_FILES * ROWS, N_FILES)
        footers = [pq.read_metadata(path) for path in folder.glob("*.parquet")]
        stored = (
            footer.row_group(i).total_byte_size for footer in footers for i in range(footer.num_row_groups)
        )
        assert last.bytes == sum(stored)
        assert last.seconds > 0
        assert len(told) == N_FILES


def test_rows_of_unknown_number_are_told_at_the_end(folder):
    stream = ds.dataset(folder).scanner().to_reader()
    told = []
    accumulate(scan_arrow(stream, "y"), progress=told.append)
    assert [(one.rows, one.total_rows) for one in told] == [(0, None), (N_FILES * ROWS, N_FILES * ROWS)]


def test_a_plan_of_one_task_is_followed_on_a_cluster(folder, client, capsys):
    """Its only part is its root too, which went as soon as it was counted."""
    for _ in range(5):
        state = accumulate(scan_parquet(folder / "00.parquet", "y"), scheduler=client, progress=True)
        assert state.n_rows == ROWS
    assert "12.0/12.0" in capsys.readouterr().err


def test_the_log_has_a_line_when_a_pass_is_planned_started_and_done(folder, caplog):
    with caplog.at_level(logging.INFO, "streamgda"):
        accumulate(scan_parquet(folder, "y"), scheduler="threads", **EACH)
    planned, started, done = caplog.messages
    assert planned == "pass planned: 840 rows in 70 tasks"
    assert started == "pass started on threads"
    assert done.startswith("pass done in ")


# ---------------------------------------------------------------------- retries


class Flaky(NotingHandler):
    """Refuses one opening of some files: the second, which is that of the task that reads them."""

    def __init__(self, log, names, error=OSError, opening=2):
        super().__init__(log)
        self.names, self.error, self.opening = names, error, opening

    def open_input_file(self, path):
        name = Path(path).name
        note(f"{self.log}.opened", name)
        if name in self.names and self.opened().count(name) == self.opening:
            raise self.error(16, "the storage is busy")
        return super().open_input_file(path)

    def opened(self):
        return Path(f"{self.log}.opened").read_text().splitlines()


def flaky(folder, tmp_path, names, error=OSError):
    handler = Flaky(tmp_path / "log", names, error)
    return scan_parquet(folder, "y", filesystem=pafs.PyFileSystem(handler)), handler


REFUSED = ["03.parquet", "40.parquet"]


@pytest.mark.slow_cases("cluster", "processes", "threads")
@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes", "cluster"])
def test_a_refusal_of_storage_costs_a_retry_and_no_row_is_read_twice(
    folder, expected, tmp_path, client, scheduler
):
    source, _ = flaky(folder, tmp_path, REFUSED)
    where = client if scheduler == "cluster" else scheduler
    with pytest.warns(UserWarning, match="storage failed 2 times and was asked again; .*busy"):
        assert accumulate(source, scheduler=where, **EACH) == expected


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("opening", [1, 2])  # for the footer, and for the rows
def test_the_log_of_a_retry_names_the_file(folder, tmp_path, caplog, opening):
    handler = Flaky(tmp_path / "log", REFUSED, opening=opening)
    source = scan_parquet(folder, "y", filesystem=pafs.PyFileSystem(handler))
    with pytest.warns(UserWarning, match="storage failed"), caplog.at_level(logging.WARNING, "streamgda"):
        accumulate(source, scheduler="synchronous", **EACH)
    assert [[name in line for name in REFUSED] for line in caplog.messages] == [[True, False], [False, True]]


def test_without_retries_the_error_is_raised(folder, tmp_path):
    source, _ = flaky(folder, tmp_path, REFUSED)
    with pytest.raises(OSError, match="busy"):
        accumulate(source, retries=0, scheduler="synchronous")


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("retries", -1, 0),
        ("retries", 1.5, 0),
        ("retries", True, 0),
        ("rows_per_task", 0, 1),
        ("rows_per_task", "all", 1),
    ],
)
def test_a_number_that_makes_no_sense_is_said(folder, name, value, least):
    said = f"^{name} must be a whole number, at least {least}; got {value!r}$"
    with pytest.raises(ValueError, match=said):
        accumulate(scan_parquet(folder, "y"), **{name: value})


@pytest.mark.slow
def test_a_refusal_of_storage_is_no_reason_to_skip_a_file(folder, tmp_path):
    source, _ = flaky(folder, tmp_path, REFUSED)
    ledger = StatisticsLedger(str(tmp_path / "ledger"), "diag")
    with pytest.warns(UserWarning, match="storage failed"):
        report = ledger.refresh(source, on_error="skip")
    assert (ledger.statistics().n_rows, report.skipped) == (N_FILES * ROWS, {})


def test_a_stream_is_not_read_again():
    def batches():
        yield pa.record_batch({"x": [1.0], "y": [0]})
        raise OSError(16, "the storage is busy")

    schema = pa.schema({"x": pa.float64(), "y": pa.int64()})
    stream = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises((OSError, ValueError), match="busy"):
        accumulate(scan_arrow(stream, "y"))


# ---------------------------------------------------------------------- checkpoint


def ended_at(folder, tmp_path, name, **options):
    """A pass that ends with an error when it reads a file."""
    source, handler = flaky(folder, tmp_path, [name], PermissionError)
    with pytest.raises(PermissionError):
        accumulate(source, scheduler="synchronous", **EACH, **options)
    return source, handler


@pytest.mark.slow
def test_a_pass_that_is_started_again_reads_what_is_missing(folder, expected, tmp_path):
    kept = tmp_path / "kept"
    source, handler = ended_at(folder, tmp_path, "60.parquet", checkpoint=kept)
    assert len(list(kept.iterdir())) == 7  # of eight files each, before that of the 61st
    before = len(handler.opened())
    told = []
    assert accumulate(source, checkpoint=kept, progress=told.append, **EACH) == expected
    assert len(handler.opened()) <= before + N_FILES + 14  # the footers, and what is missing
    assert told[-1].rows == N_FILES * ROWS
    before = len(handler.opened())
    assert accumulate(source, checkpoint=kept, **EACH) == expected
    assert len(handler.opened()) <= before + N_FILES
    assert sum(load(path).n_rows for path in kept.iterdir()) == N_FILES * ROWS


def test_a_pass_that_has_failed_writes_no_state_later(folder, tmp_path, monkeypatch):
    """The threads that read other files then go on."""
    kept = tmp_path / "kept"
    with ended_by("20.parquet", "streamgda.jobs.passes.accumulate", monkeypatch):
        accumulate(scan_parquet(folder, "y"), scheduler="threads", checkpoint=kept, **EACH)
    assert sorted(load(path).n_rows for path in kept.iterdir()) == [8 * ROWS, 8 * ROWS]


@pytest.mark.slow
def test_a_cluster_keeps_the_states_that_threads_keep_and_takes_them_up(
    folder, expected, tmp_path, client, monkeypatch
):
    source = scan_parquet(folder, "y")
    kept = tmp_path / "kept"
    monkeypatch.setattr(plan, "IN_SEQUENCE", 10)
    assert accumulate(source, scheduler=client, checkpoint=kept, **EACH) == expected
    assert len(list(kept.iterdir())) == 2  # of 64 groups, and of the last six
    here = tmp_path / "here"
    assert accumulate(source, scheduler="threads", checkpoint=here, **EACH) == expected
    states = [{path.name: load(path) for path in folder.iterdir()} for folder in (kept, here)]
    assert states[0] == states[1]
    next(kept.iterdir()).unlink()
    assert accumulate(source, scheduler=client, checkpoint=kept, **EACH) == expected


@pytest.mark.slow
def test_a_checkpoint_is_of_the_kind_that_is_kept(folder, tmp_path):
    source = scan_parquet(sorted(folder.iterdir())[:9], "y")
    kinds = {}, {"covariance_type": "diag"}, {"fourth_moments": True}, {"exact": True}
    for n, kind in enumerate(kinds, start=1):
        found = accumulate(source, checkpoint=tmp_path, **EACH, **kind)
        assert found == accumulate(source, **EACH, **kind)
        assert len(list(tmp_path.iterdir())) == 2 * n


@pytest.mark.slow
def test_a_state_of_other_rows_is_refused(folder, tmp_path):
    source, kept = scan_parquet(folder, "y"), tmp_path / "kept"
    accumulate(source, checkpoint=kept, **EACH)
    first, second, *_ = sorted(kept.iterdir())
    second.write_bytes(first.read_bytes())
    with pytest.raises(ValueError, match=f"{second.name} holds .* other rows, that of {first.name}"):
        accumulate(source, checkpoint=kept, **EACH)
    second.unlink()
    assert accumulate(source, checkpoint=kept, **EACH) == accumulate(source, **EACH)


def test_what_cannot_be_a_checkpoint_is_said(folder, tmp_path):
    with pytest.raises(TypeError, match="checkpoint= needs files that have versions"):
        accumulate(scan_arrow(pq.read_table(folder), "y"), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="lies in the folder of the dataset"):
        accumulate(scan_parquet(folder, "y"), checkpoint=folder)
    source, kept = scan_parquet(folder, "y"), tmp_path / "kept"
    accumulate(source, checkpoint=kept, **EACH)
    torn = next(kept.iterdir())
    torn.write_bytes(torn.read_bytes()[:-20])
    with pytest.raises(ValueError, match=f"{torn.name} is .*; delete the file, and start the pass again"):
        accumulate(source, checkpoint=kept, **EACH)


# ---------------------------------------------------------------------- clusters that change


WORKER = """
import sys
{before}
from distributed.cli.dask_worker import main
sys.argv = ["dask-worker", {address!r}, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
main()
"""

LACKING = "sys.modules['streamgda'] = None"

OLDER = "import streamgda; streamgda.__version__ = '0.0.1'"


@pytest.mark.slow
@pytest.mark.parametrize(("before", "found"), [(LACKING, "import of streamgda halted; .*"), (OLDER, "0.0.1")])
def test_a_worker_without_this_library_or_with_another_version_is_one_clear_error(folder, before, found):
    said = f"worker tcp.* has another streamgda than the .* of this process \\({found}\\): install"
    cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=":0", protocol="tcp://")
    with cluster, Client(cluster) as client:
        script = WORKER.format(before=before, address=cluster.scheduler_address)
        worker = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
        try:
            client.wait_for_workers(1, timeout=300)
            with pytest.raises(RuntimeError, match=said):
                accumulate(scan_parquet(folder, "y"), scheduler=client)
        finally:
            worker.terminate()
            worker.wait()


@pytest.mark.slow
def test_an_adaptive_cluster_that_grows_and_shrinks_during_a_pass_changes_no_bit(folder, expected, tmp_path):
    """The worker that goes is reading, as all files that are left wait for the gate."""
    gates = {20: tmp_path / "grown", 40: tmp_path / "shrunk"}
    source = scan_parquet(folder, "y", filesystem=pafs.PyFileSystem(GatedHandler(tmp_path / "log", gates)))
    cluster = LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0")
    with ThreadPoolExecutor(1) as background, cluster, Client(cluster, set_as_default=False) as client:
        passing = background.submit(accumulate, source, scheduler=client, **EACH)
        for n_workers, gate in ((2, gates[20]), (1, gates[40])):
            cluster.adapt(minimum=n_workers, maximum=n_workers, interval="50ms", wait_count=1)
            until(lambda n_workers=n_workers: len(client.nthreads()) == n_workers)
            assert not passing.done()
            gate.touch()
        assert passing.result(timeout=300) == expected


@pytest.mark.slow
def test_two_clients_of_a_cluster_pass_at_once(folder, expected, client):
    source = scan_parquet(folder, "y")
    with ThreadPoolExecutor(2) as pool, Client(client.scheduler.address, set_as_default=False) as other:
        passing = [
            pool.submit(accumulate, source, scheduler=one, progress=lambda told: None, **EACH)
            for one in (client, other)
        ]
        assert [one.result(timeout=300) == expected for one in passing] == [True, True]
    assert dask.config.get("scheduler", None) is None
