"""The unit costs of a pass at scale, measured on this machine, for `bench.scale`."""

from __future__ import annotations

import argparse
import pickle
import shutil
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.fs as pafs

from bench import data
from bench.contest import median_time
from bench.object_store_stub import CREDENTIALS, ObjectStore
from streamgda.data.sources.base import Source
from streamgda.data.sources.splits import ROWS_PER_TASK, Split

BYTES_PER_VALUE = 8

LATENCIES = (0.02, 0.1)


@dataclass(frozen=True)
class Planning:
    """What this process spends on each file to plan a pass: milliseconds of processor, bytes."""

    milliseconds: float
    kept: float
    peak: float


@dataclass(frozen=True)
class PassOverhead:
    """Milliseconds of processor for each group of a pass on a cluster, of this process and its scheduler."""

    groups: int
    progress: bool
    client: float
    scheduler: float


@dataclass(frozen=True)
class Remote:
    """Seconds for each small file of an object store, to plan and to read."""

    latency: float
    planning: float
    reading: float


@dataclass(frozen=True)
class UnitCosts:
    """Seconds and bytes, one by one."""

    gigabytes_per_core_second: float
    merge: float
    state_bytes: int
    wire_bytes: int
    split_bytes: int
    here: Planning
    there: Planning
    listed: Planning
    n_listed: int
    overheads: list[PassOverhead]
    remotes: list[Remote]


def measure(options: argparse.Namespace) -> UnitCosts:
    """Every unit cost, on this machine."""
    from streamgda import accumulate, scan_parquet
    from streamgda.jobs.passes.compute import opening_on

    folder = data.make(options.data, options.rows, options.features, options.classes)
    source = scan_parquet(folder, "y")
    state = accumulate(source)
    small = _many_files(options)
    remotes = [_remote(options, latency) for latency in LATENCIES]
    with own_cluster() as (client, scheduler):
        there = _planning(lambda: scan_parquet(small, "y"), options.files, opening_on(client))
        overheads = [
            _overhead(groups, progress, client, scheduler)
            for groups in options.groups
            for progress in (False, True)
        ]
    one_core = median_time(
        lambda: accumulate(source, scheduler="synchronous"), options.repeats, time.process_time
    )
    return UnitCosts(
        gigabytes_per_core_second=options.rows * options.features * BYTES_PER_VALUE / 1e9 / one_core,
        merge=median_time(lambda: state + state, 20),
        state_bytes=state.nbytes,
        wire_bytes=len(pickle.dumps(state)),
        split_bytes=len(pickle.dumps(source.splits()[0])),
        here=_planning(lambda: scan_parquet(small, "y"), options.files, map),
        there=there,
        listed=_planning(
            lambda: _scan_listing(small, options.listed), options.listed, _answered_like_the_first
        ),
        n_listed=options.listed,
        overheads=overheads,
        remotes=remotes,
    )


# ---------------------------------------------------------------------- a cluster of its own


_CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=':0') as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def own_cluster() -> Iterator[tuple[Any, psutil.Process]]:
    """A client of a cluster, and the process of its scheduler; the workers have others."""
    from distributed import Client

    command = [sys.executable, "-c", _CLUSTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2)
            yield client, psutil.Process(process.pid)
        process.stdin.close()


# ---------------------------------------------------------------------- planning


def _many_files(options: argparse.Namespace) -> Path:
    """So many copies of a small file."""
    width = {"features": options.features, "classes": options.classes}
    (one,) = data.make_layout(options.data, files=1, rows_per_file=100, **width).iterdir()
    target: Path = options.data / f"{options.files}-copies-{options.features}-{options.classes}"
    if not target.exists():
        with data.filled(target) as unfinished:
            for i in range(options.files):
                shutil.copyfile(one, unfinished / f"{i:06}.parquet")
    return target


def _planning(scan: Callable[[], Any], files: int, each: Any) -> Planning:
    """What planning costs this process: once for time, and once for memory."""
    start = time.process_time()
    splits = scan().planned(each)
    seconds = time.process_time() - start
    assert len(splits) == files
    del splits
    tracemalloc.start()
    source = scan()
    splits = source.planned(each)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(splits) == files
    return Planning(1e3 * seconds / files, kept / files, peak / files)


def _answered_like_the_first(function: Callable[[Any], Any], lists: Sequence[Any]) -> Iterator[Any]:
    """What workers would answer: each list arrives in bytes of its own, but only the first is planned."""
    whole, last = pickle.dumps(function(lists[0])), len(lists[-1])
    for files in lists:
        planned, noted = pickle.loads(whole)
        yield planned[: last if files is lists[-1] else None], noted


def _scan_listing(folder: Path, files: int) -> Any:
    from streamgda import scan_parquet

    return scan_parquet("many", "y", filesystem=pafs.PyFileSystem(_Listing(next(folder.iterdir()), files)))


class _Listing(pafs.FileSystemHandler):
    """A folder "many" of so many files, all of them with the bytes of one."""

    def __init__(self, file: Path, files: int) -> None:
        self._content, self._files = file.read_bytes(), files

    def get_type_name(self) -> str:
        return "listing"

    def normalize_path(self, path: str) -> str:
        return path

    def _info(self, path: str) -> pafs.FileInfo:
        if path == "many":
            return pafs.FileInfo(path, type=pafs.FileType.Directory)
        return pafs.FileInfo(path, type=pafs.FileType.File, size=len(self._content), mtime_ns=10**18)

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        if selector.base_dir != "many":
            return []
        return [self._info(f"many/{i:07}.parquet") for i in range(self._files)]

    def open_input_file(self, path: str) -> Any:
        return pa.BufferReader(self._content)

    def _refuse(self, *arguments: Any) -> Any:
        raise OSError("this filesystem is for reading")

    open_input_stream = open_output_stream = open_append_stream = create_dir = delete_dir = _refuse
    delete_dir_contents = delete_root_dir_contents = delete_file = move = copy_file = _refuse


# ---------------------------------------------------------------------- overhead of a pass


def _overhead(groups: int, progress: bool, client: Any, scheduler: psutil.Process) -> PassOverhead:
    from streamgda import accumulate

    def spent() -> tuple[float, float]:
        times = scheduler.cpu_times()
        return time.process_time(), times.user + times.system

    def no_one(told: Any) -> None:
        pass

    before = spent()
    try:
        accumulate(_EmptySource(groups), scheduler=client, progress=no_one if progress else False)
    except ValueError:  # there is nothing to accumulate, which took as long as it takes to find out
        here, there = (1e3 * (now - then) / groups for now, then in zip(spent(), before, strict=True))
        return PassOverhead(groups, progress, here, there)
    raise AssertionError("the splits were to be empty")


class _EmptySplit(Split):
    n_rows = ROWS_PER_TASK

    def blocks(self) -> Iterator[Any]:
        return iter(())


class _EmptySource(Source):
    def __init__(self, tasks: int) -> None:
        self.tasks = tasks

    def splits(self) -> list[Split]:
        return [_EmptySplit() for _ in range(self.tasks)]


# ---------------------------------------------------------------------- an object store


def _remote(options: argparse.Namespace, latency: float) -> Remote:
    from streamgda import accumulate, scan_parquet

    files = min(options.files, 200)
    width = {"features": options.features, "classes": options.classes}
    folder = data.make_layout(options.data / "bucket", files=files, rows_per_file=1000, **width)
    with ObjectStore(options.data, latency=latency) as store:
        filesystem = pafs.S3FileSystem(endpoint_override=store.endpoint, **CREDENTIALS)
        source = scan_parquet(f"bucket/{folder.name}", "y", filesystem=filesystem)
        planning = median_time(source.splits, 1)
        whole = median_time(lambda: accumulate(source, scheduler="threads"), 1)
    return Remote(latency, planning / files, max(0.0, whole - planning) / files)
