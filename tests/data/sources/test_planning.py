"""Planning a Parquet dataset: what it asks of the storage, what it keeps, and where footers are read."""

import gc
import os
import pickle
import shutil
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import streamgda
from bench.object_store_stub import ObjectStore
from streamgda import StatisticsLedger, accumulate, scan_parquet
from streamgda.data.sources.splits import group_into_tasks
from streamgda.data.storage import footers
from streamgda.data.storage.filesystems import resolve
from streamgda.data.storage.footers import read_footer
from streamgda.jobs.passes.compute import opening_on
from tests.data.storage.stores import arrow
from tests.logged_filesystem import NotingHandler, note

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


@pytest.mark.slow
def test_what_is_kept_of_a_file_is_little(folder, monkeypatch):
    monkeypatch.setattr(footers.DECODED, "_most_bytes", 0)  # a cache, which does not grow with the files
    scan_parquet(folder, "y").splits()  # what is imported stays
    tracemalloc.start(20)
    source = scan_parquet(folder, "y")
    splits = source.splits()
    gc.collect()
    ours = tracemalloc.Filter(True, f"{Path(streamgda.__file__).parent}/*", all_frames=True)
    kept = tracemalloc.take_snapshot().filter_traces([ours])  # threads of clusters take memory meanwhile
    tracemalloc.stop()
    assert len(splits) == N_FILES
    assert 10_000 < sum(trace.size for trace in kept.traces) < 500 * N_FILES + 50_000


def test_splits_are_a_sequence_that_is_cut_and_pickled_like_a_list(folder):
    splits = scan_parquet(folder, "y").splits()
    assert splits[0].rows_of_group == {0: 5, 1: 5, 2: 5, 3: 5}
    assert [split.path for split in splits[2:5]] == [split.path for split in list(splits)[2:5]]
    assert splits[-1].partition == {"day": 1}
    runs = list(group_into_tasks(splits, rows_per_task=100))
    assert [len(run) for run in runs] == [5] * (N_FILES // 5)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert list(pickle.loads(pickle.dumps(runs[1], protocol))) == list(splits)[5:10]
    with pytest.raises(IndexError):
        splits[N_FILES]


class Noting(NotingHandler):
    """The local filesystem, which notes which process opens each file."""

    def open_input_file(self, path):
        note(self.log, f"{os.getpid()}\t{path}")
        return self._local.open_input_file(path)


@pytest.mark.slow
def test_footers_of_many_files_are_read_on_the_workers_of_a_cluster(folder, tmp_path, client):
    log = tmp_path / "log"
    filesystem = pafs.PyFileSystem(Noting(log))
    source = scan_parquet(str(folder), "y", filters=[("day", "=", 1)], filesystem=filesystem)
    log.unlink()
    planned = list(source.planned(opening_on(client)))
    opened = Counter(line.split("\t")[1] for line in log.read_text().splitlines())
    assert opened == dict.fromkeys((split.path for split in planned), 1)
    assert f"{os.getpid()}\t" not in log.read_text()
    assert planned == list(source.splits())
    assert accumulate(source, scheduler=client) == accumulate(source, scheduler="synchronous")


@pytest.mark.parametrize("how", ["pass", "refresh"])
def test_what_is_wrong_with_a_file_is_said_by_name_before_the_pass_on_a_cluster(
    folder, tmp_path, client, how
):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    pq.write_table(table(7).drop_columns(["x3"]), copy / "day=1" / "0207.parquet")
    source = scan_parquet(copy, "y")
    with pytest.raises(ValueError, match=r"0207\.parquet: there is no column 'x3', which other files"):
        if how == "pass":
            accumulate(source, scheduler=client)
        else:
            StatisticsLedger(tmp_path / "ledger").refresh(source, scheduler=client)


def test_a_file_that_changes_between_the_list_and_its_footer_is_not_taken_for_the_one_that_was_listed(
    tmp_path,
):
    pq.write_table(table(0), tmp_path / "0.parquet")
    source = scan_parquet(tmp_path, "y")
    files = source.files()
    pq.write_table(table(1), tmp_path / "0.parquet")
    os.utime(tmp_path / "0.parquet", ns=(10**18, 10**18))
    (file,) = source.plans(files)
    with pytest.raises(ValueError, match=r"0\.parquet has changed since the pass was planned"):
        list(file.splits[0].blocks())


def test_a_ledger_follows_a_store_that_lists_milliseconds_and_tells_seconds_of_one_file(tmp_path):
    (tmp_path / "rows").mkdir()
    pq.write_table(table(0), tmp_path / "rows" / "0.parquet")
    os.utime(tmp_path / "rows" / "0.parquet", ns=(1_700_000_000_123_000_000,) * 2)
    with ObjectStore(tmp_path) as store:
        ledger = StatisticsLedger(tmp_path / "ledger")
        source = scan_parquet("rows", "y", filesystem=arrow(store))
        assert ledger.refresh(source).added == ("0.parquet",)
        assert ledger.refresh(source).reused == ("0.parquet",)


def test_a_decoded_footer_is_part_of_no_cycle(tmp_path):
    """Else it would stay in memory until garbage is collected, which is seldom."""
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"x": [1.0, 2.0]}), path)
    storage, name = resolve(path)
    metadata = read_footer(storage, name).decoded(storage).metadata
    assert not any(isinstance(one, pq.ParquetSchema) for one in gc.get_referrers(metadata))
