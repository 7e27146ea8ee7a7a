"""Parquet and Zarr in an object store: a real S3 server on loopback, credentials from the environment."""

import re
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import boto3
import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import s3fs
import zarr
from moto.server import ThreadedMotoServer

from streamgda import (
    ClassStatistics,
    GaussianNB,
    StatisticsLedger,
    accumulate,
    predict_dataset,
    scan_parquet,
    scan_zarr,
)
from streamgda.data.storage import fetching
from streamgda.jobs.scoring.outputs import zarr as chunks
from tests.data.storage.stores import let_libraries_find
from tests.data.tables import zarr_group

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(1000, 3)), RNG.integers(0, 3, size=1000)
NAMES = ["u", "v", "w"]
TABLE = pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": Y})


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint, monkeypatch):
    """An empty bucket, and an environment in which libraries find it by themselves."""
    let_libraries_find(endpoint, monkeypatch)
    store().create_bucket(Bucket="rows")
    yield "rows"
    for item in store().list_objects_v2(Bucket="rows").get("Contents", []):
        store().delete_object(Bucket="rows", Key=item["Key"])
    store().delete_bucket(Bucket="rows")


@cache
def store():
    """A client of the server. To make one takes longer than what most tests ask of it."""
    return boto3.client("s3")


@pytest.fixture
def parquet(bucket):
    """Two partitions of two row groups or more."""
    filesystem = pafs.FileSystem.from_uri("s3://rows")[0]
    for day, rows in ((1, TABLE[:400]), (2, TABLE[400:])):
        path = f"{bucket}/data/day={day}/1.parquet"
        pq.write_table(rows, path, filesystem=filesystem, row_group_size=200)
    return bucket


def expected(rows=slice(None)):
    return ClassStatistics(feature_names=NAMES).update(X[rows], Y[rows])


@pytest.mark.slow_cases("data]")
@pytest.mark.parametrize("path", ["s3://rows/data", "s3://rows/data/*/*.parquet"])
def test_parquet_by_url(parquet, path):
    assert accumulate(scan_parquet(path, "y")).allclose(expected(), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: pafs.FileSystem.from_uri("s3://rows")[0], s3fs.S3FileSystem])
def test_parquet_by_filesystem(parquet, make):
    source = scan_parquet("rows/data", "y", features=NAMES, filters=[("day", "=", 2)], filesystem=make())
    assert accumulate(source).allclose(expected(slice(400, None)), rtol=1e-12)
    with dask.config.set({"multiprocessing.context": "spawn"}):  # with the environment of this test
        assert accumulate(source, scheduler="processes").allclose(expected(slice(400, None)), rtol=1e-12)


@pytest.mark.slow_cases("<lambda>0", "S3File")
@pytest.mark.parametrize(
    "filesystem", [lambda: None, lambda: pafs.FileSystem.from_uri("s3://rows")[0], s3fs.S3FileSystem]
)
def test_a_delta_table(bucket, endpoint, filesystem):
    deltalake = pytest.importorskip("deltalake")
    options = {"aws_endpoint": endpoint, "aws_allow_http": "true", "aws_s3_allow_unsafe_rename": "true"}
    table = TABLE.append_column("day", [["one day"] * 400 + ["other"] * 600])
    url = f"s3://{bucket}/a table"
    deltalake.write_deltalake(url, table, partition_by=["day"], storage_options=options)

    source = scan_parquet(deltalake.DeltaTable(url, storage_options=options), "y", filesystem=filesystem())

    assert accumulate(source).allclose(expected(), rtol=1e-12)


@pytest.mark.slow
def test_an_iceberg_table(bucket, endpoint, tmp_path):
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog(
        "tests",
        uri=f"sqlite:///{tmp_path}/c.db",
        warehouse=f"s3://{bucket}/ware",
        **{"s3.endpoint": endpoint},
    )
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", TABLE.schema)
    table.append(TABLE)

    source = scan_parquet(table, "y")

    assert accumulate(source).allclose(expected(), rtol=1e-12)
    catalog.close()


@pytest.mark.parametrize(
    "url", ["s3://somebody:hu/sh@rows/1.parquet", "nowhere://somebody:hush@127.0.0.1:1/x"]
)
def test_a_url_that_cannot_be_opened_is_shown_without_its_password(url):
    with pytest.raises(ValueError, match="rows/1.parquet|127.0.0.1:1/x") as raised:
        scan_parquet(url, "y")
    told = "".join(traceback.format_exception(raised.value, limit=0))
    assert not re.search("somebody|hu/?sh", told)


def test_an_object_that_changes_or_vanishes_is_named(parquet):
    splits = scan_parquet("s3://rows/data", "y").splits()
    store().delete_object(Bucket="rows", Key="data/day=1/1.parquet")
    with pytest.raises(FileNotFoundError, match="rows/data/day=1/1.parquet is gone"):
        list(splits[0].blocks())
    store().put_object(Bucket="rows", Key="data/day=2/1.parquet", Body=b"something else")
    with pytest.raises(ValueError, match="rows/data/day=2/1.parquet has changed"):
        list(splits[1].blocks())


def test_an_object_that_vanishes_while_it_is_read_is_not_called_damaged(bucket, monkeypatch):
    monkeypatch.setattr(fetching, "BYTES_TOGETHER", 0)  # nothing is fetched ahead
    monkeypatch.setattr(fetching, "_REQUEST", 1 << 16)
    table = pa.table({"u": RNG.normal(size=60_000), "y": np.zeros(60_000, np.int8)})
    filesystem = pafs.FileSystem.from_uri("s3://rows")[0]
    pq.write_table(table, "rows/1.parquet", filesystem=filesystem, row_group_size=30_000)
    blocks = scan_parquet("s3://rows/1.parquet", "y").splits()[0].blocks()
    next(blocks)
    store().delete_object(Bucket="rows", Key="1.parquet")
    gone = r"rows/1.parquet(: .*(NO_SUCH_KEY|RESOURCE_NOT_FOUND)| is gone)"
    with pytest.raises(OSError, match=gone) as raised:
        list(blocks)
    assert "damaged" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_by_url(bucket, zarr_format):
    zarr_group("s3://rows/group", 300, zarr_format=zarr_format, X=X, y=Y)
    source = scan_zarr("s3://rows/group")
    assert accumulate(source).allclose(ClassStatistics().update(X, Y), rtol=1e-12)
    assert GaussianNB().fit(source).score(X, Y) == GaussianNB().fit(X, Y).score(X, Y)
    (split,) = source.splits()
    store().delete_object(Bucket="rows", Key="group/X/0.0" if zarr_format == 2 else "group/X/c/0/0")
    with pytest.raises(FileNotFoundError, match="is gone since the pass was planned"):
        list(split.blocks())


FILESYSTEMS = {
    "url": None,
    "pyarrow": lambda: pafs.FileSystem.from_uri("s3://rows")[0],
    "fsspec": s3fs.S3FileSystem,
}


def at(how, path):
    """A path with the filesystem that it is on, or the URL of both."""
    make = FILESYSTEMS[how]
    return (f"s3://{path}", None) if make is None else (path, make())


@pytest.mark.slow  # two clients of a server for each case
@pytest.mark.parametrize("read", FILESYSTEMS)
@pytest.mark.parametrize("write", FILESYSTEMS)
def test_predictions_do_not_go_among_the_objects_that_they_are_made_of(parquet, read, write):
    path, filesystem = at(read, "rows/data")
    source = scan_parquet(path, "y", features=NAMES, filesystem=filesystem)
    out, elsewhere = at(write, "rows/data/scored")
    with pytest.raises(ValueError, match="lies in the folder of the input"):
        predict_dataset(GaussianNB().fit(source), source, out, filesystem=elsewhere)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["url", "fsspec"])
def test_a_zarr_group_in_a_bucket_goes_on_where_it_stopped(parquet, how, monkeypatch):
    monkeypatch.setattr(chunks, "_MOST_ROWS_OF_CHUNK", 150)
    source = scan_parquet("s3://rows/data", "y", features=NAMES)
    model = GaussianNB().fit(source)
    out, elsewhere = at(how, "rows/scored.zarr")

    def predict():
        return predict_dataset(model, source, out, keep=["y"], filesystem=elsewhere, scheduler="synchronous")

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(chunks.ZarrOutput, "write", _interrupted_after_the_first())
        predict()
    with pytest.raises(FileNotFoundError):
        zarr.open_group("s3://rows/scored.zarr", mode="r")
    assert [predict().n_found for _ in range(2)] == [1, 2]
    group = zarr.open_group("s3://rows/scored.zarr", mode="r")
    assert group["y"][:].tolist() == Y.tolist()
    assert group["predicted_label"][:].tolist() == model.predict(pd.DataFrame(X, columns=NAMES)).tolist()
    assert sorted(group.keys()) == ["predicted_label", "probabilities", "y"]


def _interrupted_after_the_first():
    write, written = chunks.ZarrOutput.write, []

    def once(*arguments):
        if written:
            raise KeyboardInterrupt
        written.append(write(*arguments))
        return written[0]

    return once


@pytest.mark.slow
def test_two_refreshes_at_once_in_a_bucket_both_end_right(parquet):
    """There is no lock: the same entries are written twice, and the manifest that is written last stands."""
    source = scan_parquet("s3://rows/data", "y", features=NAMES)
    with ThreadPoolExecutor(3) as racers:
        futures = [
            racers.submit(
                StatisticsLedger("s3://rows/ledger", exact=True).refresh, source, scheduler="synchronous"
            )
            for _ in range(3)
        ]
        assert all(future.result().rows_held == 1000 for future in futures)
    assert StatisticsLedger("s3://rows/ledger", exact=True).statistics() == accumulate(source, exact=True)
    assert not StatisticsLedger("s3://rows/ledger", exact=True).refresh(source).read


@pytest.mark.slow
@pytest.mark.parametrize("how", ["url", "fsspec"])
def test_a_store_that_is_lost_is_one_clear_error(bucket, tmp_path, how, monkeypatch):
    """Nothing listens at the address of the store any more."""
    pq.write_table(pa.table({"u": X[:, 0], "y": Y}), tmp_path / "1.parquet")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    filesystem = (
        s3fs.S3FileSystem(config_kwargs={"retries": {"max_attempts": 0}}) if how == "fsspec" else None
    )
    ledger = StatisticsLedger("rows/ledger" if filesystem else "s3://rows/ledger", filesystem=filesystem)
    with pytest.raises(OSError, match="rows/ledger.* cannot be reached: [^\n]*$"):
        ledger.refresh(scan_parquet(tmp_path, "y"))
