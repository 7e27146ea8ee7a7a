"""Parquet and Zarr in an object store: a real S3 server on loopback, credentials from the environment."""

import boto3
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import s3fs
import zarr
from moto.server import ThreadedMotoServer

from streamgda import ClassStatistics, GaussianNB, accumulate, scan_parquet, scan_zarr

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(1000, 3)), RNG.integers(0, 3, size=1000)
NAMES = ["u", "v", "w"]


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
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket="rows")
    yield "rows"
    for item in client.list_objects_v2(Bucket="rows").get("Contents", []):
        client.delete_object(Bucket="rows", Key=item["Key"])
    client.delete_bucket(Bucket="rows")


@pytest.fixture
def parquet(bucket):
    """Two partitions of two row groups or more."""
    filesystem = pafs.FileSystem.from_uri("s3://rows")[0]
    table = pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": Y})
    for day, start in ((1, 0), (2, 400)):
        pq.write_table(
            table.slice(start, 400 if day == 1 else 600),
            f"{bucket}/data/day={day}/1.parquet",
            filesystem=filesystem,
            row_group_size=200,
        )
    return bucket


def expected(rows=slice(None)):
    return ClassStatistics(feature_names=NAMES).update(X[rows], Y[rows])


@pytest.mark.parametrize("path", ["s3://rows/data", "s3://rows/data/*/*.parquet"])
def test_parquet_by_url(parquet, path):
    assert accumulate(scan_parquet(path, "y")).allclose(expected(), rtol=1e-12)


@pytest.mark.parametrize("make", [lambda: pafs.FileSystem.from_uri("s3://rows")[0], s3fs.S3FileSystem])
def test_parquet_by_filesystem(parquet, make):
    source = scan_parquet("rows/data", "y", features=NAMES, filters=[("day", "=", 2)], filesystem=make())
    assert accumulate(source).allclose(expected(slice(400, None)), rtol=1e-12)
    assert accumulate(source, scheduler="processes").allclose(expected(slice(400, None)), rtol=1e-12)


def test_an_object_that_changes_or_vanishes_is_named(parquet):
    splits = scan_parquet("s3://rows/data", "y").splits()
    boto3.client("s3").delete_object(Bucket="rows", Key="data/day=1/1.parquet")
    with pytest.raises(FileNotFoundError, match="rows/data/day=1/1.parquet is gone"):
        list(splits[0].blocks())
    boto3.client("s3").put_object(Bucket="rows", Key="data/day=2/1.parquet", Body=b"something else")
    with pytest.raises(ValueError, match="rows/data/day=2/1.parquet has changed"):
        list(splits[1].blocks())


def test_an_object_that_vanishes_while_it_is_read_is_not_called_damaged(parquet):
    blocks = scan_parquet("s3://rows/data", "y").splits()[0].blocks()
    next(blocks)
    boto3.client("s3").delete_object(Bucket="rows", Key="data/day=1/1.parquet")
    with pytest.raises(OSError, match=r"rows/data/day=1/1.parquet: .*NO_SUCH_KEY") as raised:
        next(blocks)
    assert "damaged" not in str(raised.value)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_by_url(bucket, zarr_format):
    group = zarr.open_group("s3://rows/group", mode="w", zarr_format=zarr_format)
    group.create_array("X", shape=X.shape, dtype=X.dtype, chunks=(300, 2))[:] = X
    group.create_array("y", shape=Y.shape, dtype=Y.dtype, chunks=(300,))[:] = Y
    source = scan_zarr("s3://rows/group")
    assert accumulate(source).allclose(ClassStatistics().update(X, Y), rtol=1e-12)
    assert GaussianNB().fit(source).score(X, Y) == GaussianNB().fit(X, Y).score(X, Y)
    (split,) = source.splits()
    boto3.client("s3").delete_object(
        Bucket="rows", Key="group/X/0.0" if zarr_format == 2 else "group/X/c/0/0"
    )
    with pytest.raises(FileNotFoundError, match="is gone since the pass was planned"):
        list(split.blocks())
