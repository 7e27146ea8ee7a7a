"""The S3 server of the benchmarks and tests: it holds what is written, and counts what is asked."""

import time

import boto3
import pyarrow.fs as pafs
import pytest
import s3fs
from botocore.config import Config
from botocore.exceptions import ClientError

from bench.object_store_stub import CREDENTIALS, ObjectStore


@pytest.fixture
def store(tmp_path):
    (tmp_path / "rows").mkdir()
    with ObjectStore(tmp_path) as store:
        yield store


def arrow(store):
    return pafs.S3FileSystem(endpoint_override=store.endpoint, **CREDENTIALS)


def fsspec(store):
    return s3fs.S3FileSystem(
        key="key", secret="secret", endpoint_url=store.endpoint, skip_instance_cache=True
    )


@pytest.mark.slow_cases("256-", "0-<", "12582912-<")
@pytest.mark.parametrize("make", [arrow, lambda store: pafs.PyFileSystem(pafs.FSSpecHandler(fsspec(store)))])
@pytest.mark.parametrize("n_bytes", [0, 256, 12 << 20])
def test_what_is_written_is_listed_read_copied_and_removed(store, make, n_bytes):
    filesystem, content = make(store), bytes(range(256)) * (n_bytes // 256)
    with filesystem.open_output_stream("rows/a b/c&d/1.bin") as file:
        file.write(content)
    filesystem.copy_file("rows/a b/c&d/1.bin", "rows/a b/2.bin")
    found = filesystem.get_file_info(pafs.FileSelector("rows", recursive=True))
    assert {info.path for info in found} == {
        "rows/a b",
        "rows/a b/2.bin",
        "rows/a b/c&d",
        "rows/a b/c&d/1.bin",
    }
    assert {info.size for info in found if info.is_file} == {len(content)}
    with filesystem.open_input_file("rows/a b/2.bin") as file:
        assert file.read() == content
        assert not content or file.read_at(3, 7) == content[7:10]
    filesystem.delete_file("rows/a b/2.bin")
    filesystem.delete_dir("rows/a b/c&d")
    left = filesystem.get_file_info(pafs.FileSelector("rows", recursive=True))
    assert not [info for info in left if info.is_file]


def test_a_listing_has_pages_and_milliseconds_and_head_has_seconds(store):
    client = boto3.client("s3", endpoint_url=store.endpoint, aws_access_key_id="k", aws_secret_access_key="s")
    for key in ("b/1", "b-1", "b/2", "c"):
        client.put_object(Bucket="rows", Key=key, Body=key.encode())
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="rows", PaginationConfig={"PageSize": 3})
    listed = [item for page in pages for item in page["Contents"]]
    assert [item["Key"] for item in listed] == ["b-1", "b/1", "b/2", "c"]
    head = client.head_object(Bucket="rows", Key="c")
    assert (head["ETag"], head["ContentLength"]) == (listed[3]["ETag"], 1)
    assert head["LastModified"] == listed[3]["LastModified"].replace(microsecond=0)
    assert any(item["LastModified"].microsecond for item in listed)


def test_requests_and_bytes_are_counted_and_take_their_time(store):
    filesystem = arrow(store)
    with filesystem.open_output_stream("rows/1.bin") as file:
        file.write(b"0123456789")
    store.reset()
    store.set(latency=0.05)
    start = time.perf_counter()
    with filesystem.open_input_file("rows/1.bin") as file:
        assert file.read_at(4, 3) == b"3456"
    assert time.perf_counter() - start >= 0.1
    assert store.counts() == {"HEAD": 1, "GET": 1, "bytes_sent": 4, "bytes_received": 0, "most_at_once": 1}
    assert store.requests() == [("HEAD", "rows/1.bin", 0), ("GET", "rows/1.bin", 4)]


def test_faults_come_when_asked_for(store):
    config = Config(retries={"total_max_attempts": 1, "mode": "standard"}, read_timeout=1)
    client = boto3.client(
        "s3", endpoint_url=store.endpoint, aws_access_key_id="k", aws_secret_access_key="s", config=config
    )
    client.put_object(Bucket="rows", Key="1", Body=b"0123456789")

    def read():
        return client.get_object(Bucket="rows", Key="1")["Body"].read()

    store.set(fail_every=2, only="GET")
    assert read() == b"0123456789"
    with pytest.raises(ClientError, match="SlowDown"):
        read()
    store.set(fail_every=0, truncate_every=1, most_faults=1)
    with pytest.raises(Exception, match="IncompleteRead|Connection"):
        read()
    assert read() == b"0123456789"
    store.set(truncate_every=0, stall_every=1, stall=2, most_faults=1)
    with pytest.raises(Exception, match="timed out|Timeout|timeout"):
        read()
    assert store.counts()["faults"] == 3
