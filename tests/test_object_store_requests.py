"""How many requests a pass over an object store takes, and what becomes of it where the store fails."""

import numpy as np
import pytest
import s3fs
import zarr

from bench.object_store_stub import ObjectStore
from streamgda import ClassStatistics, accumulate, scan_zarr
from streamgda.sources import zarr_slabs

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4000, 4)), RNG.integers(1, 4, size=4000)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A bucket, and an environment in which libraries find it by themselves."""
    (tmp_path / "rows").mkdir()
    with ObjectStore(tmp_path) as store:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": store.endpoint,
        }.items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        yield store


def write_group(folder, layout):
    """Ten chunks of each array; in shards, two."""
    group = zarr.open_group(folder, mode="w", zarr_format=2 if layout == "v2" else 3)
    rows_of_shard = 2000 if layout.startswith("sharded") else None
    for name, values in (("X", X), ("y", Y)):
        others = values.shape[1:]
        shards = rows_of_shard and (rows_of_shard, *others)
        group.create_array(name, data=values, chunks=(400, *others), shards=shards)


@pytest.mark.parametrize(
    ("layout", "documents", "chunks"),
    [("v2", 4, 20), ("v3", 2, 20), ("sharded, read whole", 2, 4), ("sharded, read by chunks", 2, 4 + 20)],
)
def test_a_task_asks_once_for_each_document_and_chunk_and_index_of_a_shard(
    store, tmp_path, monkeypatch, layout, documents, chunks
):
    if layout.endswith("by chunks"):
        monkeypatch.setattr(zarr_slabs, "_MOST_OF_SHARD", 0)
        monkeypatch.setattr(zarr_slabs, "READ_ELEMENTS", X[:400].size)
    write_group(tmp_path / "rows" / "group", layout)
    (split,) = scan_zarr("s3://rows/group").splits()
    split.source.store.fs.invalidate_cache()  # as in a process of its own, which has listed nothing
    store.reset()
    assert sum(len(block.codes) for block in split.blocks()) == len(X)
    counts = store.counts()
    assert (counts["GET"], counts["HEAD"], counts["LIST"]) == (documents + chunks, 0, 0)
    assert accumulate(scan_zarr("s3://rows/group")).allclose(ClassStatistics().update(X, Y), rtol=1e-12)


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


def test_a_chunk_that_is_longer_or_shorter_than_planned_is_an_error(store, tmp_path):
    group = zarr.open_group(tmp_path / "rows" / "group", mode="w")
    group.create_array("X", data=X, chunks=(400, 4))
    group.create_array("y", data=Y, chunks=(400,))
    (split,) = scan_zarr("s3://rows/group").splits()
    group["X"][:400] = 1.0
    with pytest.raises(ValueError, match="X/c/0/0 has changed since the pass was planned"):
        list(split.blocks())
