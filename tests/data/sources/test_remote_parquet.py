"""Parquet in an object store: read by few requests, ahead, each byte once, to the bits of a local disk."""

import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bench.object_store_stub import ObjectStore
from streamgda import ClassStatistics, GaussianNB, accumulate, evaluate, predict_dataset, scan_parquet
from streamgda.data.sources.files import row_groups
from streamgda.data.storage import fetching
from streamgda.data.storage.reading import RangedFile
from streamgda.jobs.passes.accumulate import accumulate_splits
from streamgda.jobs.passes.compute import compute_plan
from streamgda.jobs.passes.plan import Plan
from tests.data.storage.stores import arrow, fsspec
from tests.interrupted import until

NAMES = [f"x{j}" for j in range(10)]
TAIL = 1 << 16  # bytes at the end of a file, which have the footer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file of three row groups, in each of which a column takes 160 KB, and the same rows in 20 files."""
    home, rng = tmp_path_factory.mktemp("store"), np.random.default_rng(0)
    table = pa.table({**{name: rng.normal(size=60_000) for name in NAMES}, "y": rng.integers(0, 3, 60_000)})
    for name in ("long", "short"):
        (home / "rows" / name).mkdir(parents=True)
    writing = {"use_dictionary": False, "compression": "none"}
    pq.write_table(table, home / "rows/long/1.parquet", row_group_size=20_000, **writing)
    for i in range(20):
        pq.write_table(table.slice(i * 3_000, 3_000), home / f"rows/short/{i:02}.parquet", **writing)
    return home


@pytest.fixture(scope="module")
def server(folder):
    with ObjectStore(folder) as store:
        yield store


@pytest.fixture
def store(server):
    server.set(latency=0.0, at_once=0, fail_every=0, truncate_every=0)
    server.reset()
    return server


LIBRARIES = pytest.mark.parametrize("library", [arrow, fsspec])


def read(source):
    """The blocks of a source, as one task after another reads them."""
    return [block for split in fetching.fetch_ahead(source.splits()) for block in split.blocks()]


def same_bits(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("means", "scatter"))


# ---------------------------------------------------------------------- requests and bytes


def counts_of_reading(store, source):
    splits = source.splits()
    store.reset()
    for split in fetching.fetch_ahead(splits):
        for _ in split.blocks():
            pass
    return store.counts()


def needed(path, columns):
    """The bytes that some columns of a file take, without the part that lies in its tail."""
    metadata, n_bytes = pq.read_metadata(path), 0
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(i)
            if chunk.path_in_schema in columns:
                n_bytes += chunk.total_compressed_size
    return n_bytes


@pytest.mark.slow_cases("fsspec")
@LIBRARIES
def test_a_file_takes_a_request_for_its_footer_and_one_for_twelve_megabytes(store, folder, library):
    source = scan_parquet("rows/long", "y", filesystem=library(store))
    counts = counts_of_reading(store, source)
    size = (folder / "rows/long/1.parquet").stat().st_size
    assert counts["GET"] <= 2 + size // (12 << 20)
    assert counts["HEAD"] <= 1  # the version when all has come
    assert counts["bytes_sent"] <= size


def test_no_request_is_longer_than_twelve_megabytes_however_many_columns_adjoin():
    ranges = [(start << 20, (start + 1) << 20) for start in range(40)]
    requests = [(one.start >> 20, one.stop >> 20) for one in fetching.requests_for(ranges)]
    assert requests == [(0, 12), (12, 24), (24, 36), (36, 40)]


@pytest.mark.slow_cases("fsspec")
@LIBRARIES
def test_a_pass_lists_once_and_opens_each_file_and_reads_its_footer_once(store, library):
    """It asks for a version when a file is opened and when it is read, and of the first file once more."""
    for name, n_files in {"long": 1, "short": 20}.items():
        filesystem = library(store)
        store.reset()
        accumulate(scan_parquet(f"rows/{name}", "y", filesystem=filesystem))
        counts = store.counts()
        assert counts["GET"] <= 2 * n_files
        assert counts["HEAD"] <= 2 * n_files + 1
        assert counts["LIST"] == 1


@pytest.mark.slow_cases("fsspec")
@LIBRARIES
def test_columns_that_are_not_asked_for_are_not_fetched(store, folder, library):
    features = ["x1", "x2", "x7"]
    source = scan_parquet("rows/long", "y", features=features, filesystem=library(store))
    counts = counts_of_reading(store, source)
    n_bytes = needed(folder / "rows/long/1.parquet", {*features, "y"})
    assert counts["bytes_sent"] <= 1.05 * n_bytes + TAIL
    assert counts["GET"] <= 1 + 3 * 3  # x1 and x2 lie side by side in each row group


@pytest.mark.slow_cases("fsspec")
@LIBRARIES
def test_small_files_take_two_requests_each_and_those_of_several_are_made_at_once(store, folder, library):
    source = scan_parquet("rows/short", "y", filesystem=library(store))
    store.set(latency=30.0, at_once=8)
    counts = counts_of_reading(store, source)
    assert counts["GET"] <= 2 * 20
    assert counts["bytes_sent"] <= sum(path.stat().st_size for path in folder.glob("rows/short/*"))
    assert counts["most_at_once"] >= 8


@pytest.mark.slow
def test_what_is_predicted_and_evaluated_is_read_by_as_few_requests(store, folder, tmp_path):
    source = scan_parquet("rows/short", "y", filesystem=arrow(store))
    model = GaussianNB().fit(source)
    size = sum(path.stat().st_size for path in folder.glob("rows/short/*"))
    for read in (
        lambda: evaluate(model, source, scheduler="synchronous"),
        lambda: predict_dataset(model, source, tmp_path / "out", scheduler="synchronous"),
        lambda: predict_dataset(model, source, tmp_path / "out.zarr", scheduler="synchronous"),
    ):
        store.reset()
        store.set(latency=30.0, at_once=8)
        read()
        assert store.counts()["bytes_sent"] <= size + 2 * 20 * TAIL  # with footers when it is planned
        assert store.counts()["most_at_once"] >= 8


@pytest.mark.slow_cases("synchronous")
@pytest.mark.parametrize(("scheduler", "n_at_once"), [("synchronous", 1), ("threads", 2)])
def test_what_the_next_tasks_read_is_fetched_while_one_is_at_work(store, scheduler, n_at_once):
    """Each file, of which two columns that lie apart are read, is a task."""
    splits = scan_parquet("rows/short", "y", features=["x0"], filesystem=arrow(store)).splits()
    plan = Plan([[split] for split in splits], accumulate_splits, ClassStatistics())
    with dask.config.set(num_workers=2):
        store.reset()
        store.set(latency=30.0, at_once=2 * n_at_once + 1)
        compute_plan(plan, scheduler, progress=False)
    counts = store.counts()
    assert counts["GET"] == 2 * len(splits)
    assert counts["most_at_once"] > 2 * n_at_once


def test_no_more_is_fetched_ahead_than_the_budget(store, monkeypatch):
    monkeypatch.setattr(fetching, "BYTES_TOGETHER", 1_000_000)  # less than four files
    splits = scan_parquet("rows/short", "y", filesystem=arrow(store)).splits()
    store.reset()
    ahead = fetching.fetch_ahead(splits)
    next(ahead)
    until(lambda: store.counts()["GET"] >= 3)
    time.sleep(0.2)
    assert store.counts()["GET"] == 3


def test_a_long_row_group_is_never_held_whole(store, monkeypatch):
    """A row group has 1.8 MB, a step 200 KB, and as many rows as two batches."""
    in_steps_of(200_000, monkeypatch)
    monkeypatch.setattr(fetching, "_REQUEST", 50_000)
    monkeypatch.setattr(row_groups, "_READ_ELEMENTS", 1 << 14)
    held = []

    def noted(file, part):
        answer = request(file, part)
        held.append(sum(one.stop - one.start for one in file._parts if one.answer is not None))
        return answer

    request = RangedFile._request
    monkeypatch.setattr(RangedFile, "_request", noted)
    assert rows_of(scan_parquet("rows/long", "y", filesystem=arrow(store))) == 60_000
    assert 200_000 < max(held) <= 2 * 200_000 + 50_000


# ---------------------------------------------------------------------- the same bits


def in_steps_of(n_bytes, monkeypatch):
    for module in (fetching, row_groups):
        monkeypatch.setattr(module, "BYTES_TOGETHER", n_bytes)


@pytest.mark.slow_cases("fsspec", "67108864-short", "500000-long")
@LIBRARIES
@pytest.mark.parametrize("name", ["long", "short"])
@pytest.mark.parametrize("step", [fetching.BYTES_TOGETHER, 500_000])
def test_the_bits_are_those_of_local_files(store, folder, library, name, step, monkeypatch):
    """With steps of 500 KB, row groups of 1.8 MB are read in shares."""
    in_steps_of(step, monkeypatch)
    local = accumulate(scan_parquet(folder / "rows" / name, "y"))
    for scheduler in ("synchronous", "threads"):
        source = scan_parquet(f"rows/{name}", "y", filesystem=library(store))
        assert same_bits(accumulate(source, scheduler=scheduler), local)


def rows_of(source):
    return sum(len(block.codes) for block in read(source))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(folder):
    source = scan_parquet("/rows/long", "y", filesystem=fsspec_memory(folder))
    assert rows_of(source) == 60_000
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as forked:
        assert forked.submit(rows_of, source).result(timeout=300) == 60_000


def fsspec_memory(folder):
    filesystem = MemoryFileSystem()
    filesystem.store.clear()
    for path in folder.glob("rows/*/*.parquet"):
        filesystem.pipe(f"/{path.relative_to(folder)}", path.read_bytes())
    return filesystem


def test_a_filesystem_of_fsspec_in_memory(folder):
    source = scan_parquet("/rows/short", "y", filesystem=fsspec_memory(folder))
    assert same_bits(accumulate(source), accumulate(scan_parquet(folder / "rows/short", "y")))


def test_wide_and_carried_columns(store, folder, tmp_path):
    """Columns that are decoded a few at a time, strings in dictionaries, nulls and lists beside them."""
    rng, n = np.random.default_rng(1), 3_000
    columns = {f"x{j}": rng.normal(size=n) for j in range(300)}
    texts = pa.array([None if i % 7 == 0 else f"text {i % 11}" * 20 for i in range(n)])
    lists = pa.array([[i, i + 1] for i in range(n)])
    table = pa.table({**columns, "text": texts, "list.of": lists})
    (folder / "rows/wide").mkdir()
    pq.write_table(table, folder / "rows/wide/1.parquet", row_group_size=1_000)
    (split,), _ = scan_parquet("rows/wide", features=list(columns), filesystem=arrow(store)).to_score(
        ["text", "list.of"]
    )
    pairs = list(split.features())
    assert [v for _, kept in pairs for v in kept["text"].to_pylist()] == texts.to_pylist()
    assert [v for _, kept in pairs for v in kept["list.of"].to_pylist()] == lists.to_pylist()
    for j in range(300):
        assert np.array_equal(np.concatenate([block.features[j] for block, _ in pairs]), columns[f"x{j}"])


# ---------------------------------------------------------------------- what goes wrong


@pytest.mark.slow_cases("fsspec")
@LIBRARIES
def test_a_file_that_changes_after_the_plan_is_an_error(store, folder, library):
    (folder / "rows/changing").mkdir(exist_ok=True)
    path = folder / "rows/changing/1.parquet"
    path.write_bytes((folder / "rows/short/00.parquet").read_bytes())
    source = scan_parquet("rows/changing", "y", filesystem=library(store))
    (split,) = source.splits()
    for other in ("long/1", "short/01"):  # of another length, and of other rows in the same places
        path.write_bytes((folder / f"rows/{other}.parquet").read_bytes() + b"-")
        with pytest.raises(ValueError, match=r"changing/1\.parquet has changed since the pass was planned"):
            list(split.blocks())
    path.write_bytes(bytes(path.stat().st_size))  # nothing that can be decoded
    with pytest.raises(ValueError, match=r"changing/1\.parquet has changed since the pass was planned"):
        list(split.blocks())
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match=r"changing/1\.parquet has changed since the pass was planned"):
        list(split.blocks())


@pytest.mark.slow_cases("fsspec")
@LIBRARIES
def test_a_file_that_changes_while_it_is_read_is_an_error(store, folder, library, monkeypatch):
    monkeypatch.setattr(fetching, "BYTES_TOGETHER", 0)  # nothing is fetched ahead
    monkeypatch.setattr(fetching, "_REQUEST", 1 << 16)
    (folder / "rows/replaced").mkdir(exist_ok=True)
    path = folder / "rows/replaced/1.parquet"
    path.write_bytes((folder / "rows/long/1.parquet").read_bytes())
    (split,) = scan_parquet("rows/replaced", "y", filesystem=library(store)).splits()
    blocks = split.blocks()
    next(blocks)
    content = bytearray(path.read_bytes())
    path.write_bytes(content + b"more")
    with pytest.raises(ValueError, match=r"rows/replaced/1\.parquet has changed since the pass was planned"):
        list(blocks)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("raises", [False, True])
def test_a_reader_that_stops_early_leaves_nothing_behind(store, raises):
    source = scan_parquet("rows/short", "y", filesystem=arrow(store))
    list(read(source))  # the threads that all readers share are there now
    store.set(latency=0.05)
    try:
        for split in fetching.fetch_ahead(source.splits()):
            next(split.blocks())
            if raises:
                raise KeyError
            break
    except KeyError:
        pass
    store.set(latency=0.0)
    before = {thread.name for thread in threading.enumerate()}
    assert len(read(source)) == 20  # nothing waits in the threads
    assert len([name for name in before if name.startswith("streamgda-requests")]) <= 25
