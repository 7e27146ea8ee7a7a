"""How many requests Zarr and predictions take in an object store, and passes over a store that fails."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from bench.object_store_stub import ObjectStore
from streamgda import ClassStatistics, GaussianNB, accumulate, predict_dataset, scan_parquet, scan_zarr
from streamgda.data.sources import zarr as zarr_source
from streamgda.data.storage import retries
from streamgda.jobs.scoring import predict
from streamgda.jobs.scoring.outputs import zarr as zarr_output
from streamgda.jobs.scoring.outputs.base import Output
from streamgda.jobs.scoring.outputs.parquet import ParquetOutput
from tests.data.storage.stores import arrow, fsspec, let_libraries_find
from tests.interrupted import until

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4000, 4)), RNG.integers(1, 4, size=4000)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A bucket, and an environment in which libraries find it by themselves."""
    (tmp_path / "rows").mkdir()
    with ObjectStore(tmp_path) as store:
        let_libraries_find(store.endpoint, monkeypatch)
        yield store


def write_group(folder, layout):
    """Ten chunks of each array; in shards, two."""
    group = zarr.open_group(folder, mode="w", zarr_format=2 if layout == "v2" else 3)
    rows_of_shard = 2000 if layout.startswith("sharded") else None
    for name, values in (("X", X), ("y", Y)):
        others = values.shape[1:]
        shards = rows_of_shard and (rows_of_shard, *others)
        group.create_array(name, data=values, chunks=(400, *others), shards=shards)


@pytest.mark.slow_cases("v2", "v3", "by chunks")
@pytest.mark.parametrize(
    ("layout", "documents", "chunks"),
    [("v2", 4, 20), ("v3", 2, 20), ("sharded, read whole", 2, 4), ("sharded, read by chunks", 2, 4 + 20)],
)
def test_a_task_asks_once_for_each_document_and_chunk_and_index_of_a_shard(
    store, tmp_path, monkeypatch, layout, documents, chunks
):
    if layout.endswith("by chunks"):
        monkeypatch.setattr(zarr_source, "_MOST_OF_SHARD", 0)
        monkeypatch.setattr(zarr_source, "READ_ELEMENTS", X[:400].size)
    write_group(tmp_path / "rows" / "group", layout)
    (split,) = scan_zarr("s3://rows/group").splits()
    split.source.store.fs.invalidate_cache()  # as in a process of its own, which has listed nothing
    store.reset()
    assert sum(len(block.codes) for block in split.blocks()) == len(X)
    counts = store.counts()
    assert (counts["GET"], counts["HEAD"], counts["LIST"]) == (documents + chunks, 0, 0)
    assert accumulate(scan_zarr("s3://rows/group")).allclose(ClassStatistics().update(X, Y), rtol=1e-12)


@pytest.mark.slow_cases("v3", "sharded")
@pytest.mark.parametrize("layout", ["v2", "v3", "sharded, read whole"])
def test_planning_asks_for_the_documents_once_more_and_lists_the_group(store, tmp_path, layout):
    write_group(tmp_path / "rows" / "group", layout)
    source = scan_zarr("s3://rows/group")
    store.reset()
    source.splits()
    counts = store.counts()
    assert counts["GET"] <= 4
    assert counts["HEAD"] <= 4
    assert counts["LIST"] <= 4


def write_files(folder, n_files, n_rows=500):
    """Files of as many rows, whose values repeat."""
    folder.mkdir(parents=True)
    for i in range(n_files):
        rows = np.arange(n_rows * i, n_rows * (i + 1)) % len(X)
        table = pa.table({**{f"x{j}": X[rows, j] for j in range(4)}, "y": Y[rows]})
        pq.write_table(table, folder / f"{i}.parquet")


WRITES = ("PUT", "UPLOAD", "PART", "COMPLETE", "COPY", "DELETE")


def scored(store, filesystem, n_files, out):
    """The requests that predictions of a folder take at their output."""
    source = scan_parquet(f"rows/data{n_files}", "y", filesystem=filesystem)
    model = GaussianNB().fit(source)
    store.reset()
    predict_dataset(model, source, out, filesystem=filesystem, scheduler="synchronous")
    return [request for request in store.requests() if "/data" not in request[1]]


def number(requests, *operations):
    return sum(request[0] in operations for request in requests)


@pytest.mark.slow_cases("fsspec")
@pytest.mark.parametrize(
    ("make", "out", "writes", "reads", "looks"),
    [
        (arrow, "rows/out{}", 3, 1, 1),  # begin, send and complete; and the footer, when all are written
        (fsspec, "rows/out{}", 1, 1, 1),
        (fsspec, "rows/out{}.zarr", 3, 0, 3),  # the chunks of two arrays and a mark
    ],
)
def test_each_further_part_of_predictions_takes_few_requests(
    store, tmp_path, monkeypatch, make, out, writes, reads, looks
):
    monkeypatch.setattr(zarr_output, "_MOST_ROWS_OF_CHUNK", 512)
    counts = {}
    for n_files in (2, 6):
        write_files(tmp_path / "rows" / f"data{n_files}", n_files)
        counts[n_files] = scored(store, make(store), n_files, out.format(n_files))

    def more(*operations):
        return number(counts[6], *operations) - number(counts[2], *operations)

    assert more(*WRITES) == 4 * writes
    assert more("GET") == 4 * reads
    assert more("HEAD", "LIST") == 4 * looks  # at the run, before each write


@pytest.mark.slow_cases("fsspec")
@pytest.mark.parametrize(
    ("make", "out", "looks", "looks_again"),
    [(arrow, "rows/out", 7, 6), (fsspec, "rows/out", 8, 6), (fsspec, "rows/out.zarr", 20, 9)],
)
def test_a_handful_of_requests_begins_and_completes_predictions_or_finds_them(
    store, tmp_path, make, out, looks, looks_again
):
    write_files(tmp_path / "rows" / "data1", 1)
    first, again = (scored(store, make(store), 1, out) for _ in range(2))
    assert number(first, "HEAD", "LIST", "GET") <= looks
    assert number(again, "HEAD", "LIST", "GET") <= looks_again
    assert number(again, *WRITES) == 0


@pytest.mark.slow
def test_parts_are_written_while_the_next_are_predicted(store, tmp_path, monkeypatch):
    put, begun = Output.put, []

    def put_beside_others(output, name, *arguments, **options):
        begun.extend([name] * name.startswith("part-"))
        until(lambda: len(begun) >= 3 or not name.startswith("part-"))
        put(output, name, *arguments, **options)

    monkeypatch.setattr(Output, "put", put_beside_others)
    write_files(tmp_path / "rows" / "data6", 6)
    scored(store, arrow(store), 6, "rows/out")
    assert len(begun) == 6


@pytest.mark.slow
@pytest.mark.parametrize("out", ["rows/out", "rows/out.zarr"])
def test_the_next_tasks_rows_are_fetched_while_parts_are_written(store, tmp_path, monkeypatch, out):
    """Each file is a part, and each part a task."""
    monkeypatch.setattr(predict, "_ROWS_PER_TASK", 1)
    monkeypatch.setattr(zarr_output, "_MOST_ROWS_OF_CHUNK", 4000)
    output = zarr_output.ZarrOutput if out.endswith("zarr") else ParquetOutput
    write, fetched, expected = output.write, [], [5, 6, 7, 7]  # three of planning

    def number_fetched():
        return sum(request[0] == "GET" and "data" in request[1] for request in store.requests())

    def wait_and_write(*arguments):
        until(lambda: number_fetched() >= expected[len(fetched)])
        time.sleep(0.3)
        fetched.append(number_fetched())
        return write(*arguments)

    monkeypatch.setattr(output, "write", wait_and_write)
    write_files(tmp_path / "rows" / "data4", 4, n_rows=4000)  # more than planning reads
    scored(store, fsspec(store), 4, out)
    assert fetched == expected


FAULTS = {
    "503 on every fourth": {"fail_every": 4},
    "every fifth body ends early": {"truncate_every": 5},
    "every seventh is never answered": {"stall_every": 7, "stall": 0.2},
    "all fail for a while": {"fail_every": 1, "most_faults": 3},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:storage failed:UserWarning")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("how", ["pyarrow", "s3fs", "zarr"])
def test_a_pass_over_a_failing_store_gives_the_same_bits(store, tmp_path, monkeypatch, how, fault):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    if how == "zarr":
        write_group(tmp_path / "rows" / "group", "v3")
        source = scan_zarr("s3://rows/group")
    else:
        write_files(tmp_path / "rows" / "data", 8)
        filesystem = arrow(store) if how == "pyarrow" else fsspec(store)
        source = scan_parquet("rows/data", "y", filesystem=filesystem)
    expected = accumulate(source)
    store.reset()
    store.set(**FAULTS[fault], only="GET")
    assert accumulate(source) == expected
    assert store.counts()["faults"] > 0
