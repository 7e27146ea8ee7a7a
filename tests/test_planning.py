"""Planning a Parquet dataset: what it asks of the storage, what it keeps, and where footers are read."""

import pickle
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import scan_parquet
from streamgda.sources.base import group_into_tasks

N_FILES = 300


def table(i, n_rows=20):
    rng = np.random.default_rng(i)
    y = rng.integers(0, 3, n_rows)
    return pa.table({**{f"x{j}": rng.normal(size=n_rows) + y for j in range(20)}, "y": y})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Many files in two partitions, one with more row groups."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(N_FILES):
        (folder / f"day={i % 2}").mkdir(exist_ok=True)
        pq.write_table(table(i), folder / f"day={i % 2}" / f"{i:04}.parquet", row_group_size=5 + 15 * (i > 0))
    return folder


def test_what_is_kept_of_a_file_is_little(folder):
    scan_parquet(folder, "y").splits()  # what is imported stays
    tracemalloc.start()
    source = scan_parquet(folder, "y")
    splits = source.splits()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(splits) == N_FILES
    assert kept < 500 * N_FILES + 50_000


def test_splits_are_a_sequence_that_is_cut_and_pickled_like_a_list(folder):
    splits = scan_parquet(folder, "y").splits()
    assert splits[0].rows_of_group == {0: 5, 1: 5, 2: 5, 3: 5}
    assert [split.path for split in splits[2:5]] == [split.path for split in list(splits)[2:5]]
    assert splits[-1].partition == {"day": 1}
    runs = list(group_into_tasks(splits, lambda split: split.n_rows, rows_per_task=100))
    assert [len(run) for run in runs] == [5] * (N_FILES // 5)
    assert list(pickle.loads(pickle.dumps(runs[1]))) == list(splits)[5:10]
    with pytest.raises(IndexError):
        splits[N_FILES]
