"""Filesystems that reach the S3 server of the tests."""

import pyarrow.fs as pafs
import s3fs

from bench.object_store_stub import CREDENTIALS


def arrow(store, **options):
    return pafs.S3FileSystem(endpoint_override=store.endpoint, **CREDENTIALS, **options)


def fsspec(store, **options):
    keys = {"key": "key", "secret": "secret", "endpoint_url": store.endpoint}
    return s3fs.S3FileSystem(**keys, skip_instance_cache=True, **options)
