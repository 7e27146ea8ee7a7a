"""Filesystems that reach an S3 server of the tests, and an environment in which libraries find it."""

import pyarrow.fs as pafs
import s3fs

from bench.object_store_stub import CREDENTIALS


def let_libraries_find(endpoint, monkeypatch):
    keys = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**keys, "ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    s3fs.S3FileSystem.clear_instance_cache()


def arrow(store, **options):
    options = {"connect_timeout": 60, "request_timeout": 60, **options}  # seconds; it asks once
    return pafs.S3FileSystem(endpoint_override=store.endpoint, **CREDENTIALS, **options)


def fsspec(store, **options):
    keys = {"key": "key", "secret": "secret", "endpoint_url": store.endpoint}
    return s3fs.S3FileSystem(**keys, skip_instance_cache=True, **options)
