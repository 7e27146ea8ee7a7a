"""Unit costs of a pass, measured, and what 1 TB and 100 TB would cost at these.

Run as ``python -m bench.scale``; it writes SCALE.md.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import data, report
from bench.arguments import add_data, parser_of
from bench.contest import limit_threads

limit_threads(2)

from streamgda.sources.base import ROWS_PER_TASK, Source, Split

SCALE = Path(__file__).with_name("SCALE.md")
BYTES_PER_VALUE = 8
ROWS_OF_TASK = max(1, ROWS_PER_TASK // data.ROWS_PER_FILE) * data.ROWS_PER_FILE  # a task takes whole files


@dataclass(frozen=True)
class UnitCosts:
    """Seconds and bytes, one by one."""

    gigabytes_per_core_second: float
    footer: float
    task_local: float
    task_cluster: float
    merge: float
    state_bytes: int
    split_bytes: int


def median_time(call: Callable[[], Any], repeats: int) -> float:
    """Median seconds of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(options: argparse.Namespace) -> UnitCosts:
    """Every unit cost, on this machine."""
    from distributed import Client, LocalCluster

    from streamgda import accumulate, scan_parquet

    folder = data.make(options.data, options.rows, options.features, options.classes)
    width = {"features": options.features, "classes": options.classes}
    small = data.make_layout(options.data, files=options.files, rows_per_file=1000, **width)
    source, many = scan_parquet(folder, "y"), scan_parquet(small, "y")
    one_core = median_time(lambda: accumulate(source, scheduler="synchronous"), options.repeats)
    state = accumulate(source)
    empty = _EmptySource(options.tasks)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        on_cluster = median_time(lambda: _run_empty(empty, client), options.repeats)
    return UnitCosts(
        gigabytes_per_core_second=options.rows * options.features * BYTES_PER_VALUE / 1e9 / one_core,
        footer=median_time(many.splits, options.repeats) / options.files,
        task_local=median_time(lambda: _run_empty(empty, "threads"), options.repeats) / options.tasks,
        task_cluster=on_cluster / options.tasks,
        merge=median_time(lambda: state + state, 20),
        state_bytes=state.nbytes,
        split_bytes=len(pickle.dumps(source.splits()[0])),
    )


def _run_empty(source: Any, scheduler: Any) -> None:
    from streamgda import accumulate

    try:
        accumulate(source, scheduler=scheduler)
    except ValueError:
        return  # there is nothing to accumulate, which took as long as it takes to find out
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


def projection(costs: UnitCosts, options: argparse.Namespace) -> str:
    """What datasets of 1 and 100 TB take, at these unit costs."""
    rows = []
    for terabytes, cores in ((1, 16), (1, 256), (100, 256), (100, 4096)):
        n_rows = terabytes * 1e12 / (options.features * BYTES_PER_VALUE)
        tasks = n_rows / ROWS_OF_TASK
        files = n_rows / data.ROWS_PER_FILE
        reading = terabytes * 1e3 / costs.gigabytes_per_core_second / cores
        rows.append(
            (
                f"{terabytes} TB on {cores:,} cores",
                f"{n_rows / 1e9:,.1f}",
                f"{tasks:,.0f}",
                _duration(reading),
                _duration(tasks * costs.task_cluster),
                _duration(files * costs.footer),
                f"{tasks * costs.state_bytes / 1e9:,.1f}",
                _duration(tasks * costs.merge / cores),
                f"{terabytes * 1e3 / reading:,.0f}",
            )
        )
    headers = [
        "",
        "rows, billions",
        "tasks",
        "reading and products",
        "scheduler, at most",
        "footers, planning",
        "merge traffic, GB",
        "merging",
        "storage must give, GB/s",
    ]
    return report.table(headers, rows)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def document(costs: UnitCosts, options: argparse.Namespace) -> str:
    """SCALE.md."""
    gigabytes_of_task = ROWS_OF_TASK * options.features * BYTES_PER_VALUE / 1e9
    busy = gigabytes_of_task / costs.gigabytes_per_core_second
    unit_rows = [
        (
            "reading, reducing, merging: GB of float64 per second and core",
            f"{costs.gigabytes_per_core_second:.2f}",
        ),
        ("planning: a file's footer (local disk)", f"{1e3 * costs.footer:.2f} ms"),
        ("a task on Dask's threads, all but its work", f"{1e3 * costs.task_local:.2f} ms"),
        ("a task on a cluster, all but its work (at most)", f"{1e3 * costs.task_cluster:.2f} ms"),
        ("merging two states", f"{1e3 * costs.merge:.2f} ms"),
        ("a state", f"{costs.state_bytes / 1e3:.0f} kB"),
        ("a task's description", f"{costs.split_bytes / 1e3:.1f} kB"),
    ]
    return f"""# What a pass costs at scale

Full statistics of {options.features} float64 features and {options.classes} classes, in files of
{data.ROWS_PER_FILE:,} rows. The unit costs are measured by `python -m bench.scale`; the projections are these
times their numbers, with nothing overlapping. They assume that storage keeps up, which the last column says.

## Unit costs

{report.table(["what", "measured"], unit_rows)}

{report.machine()}

## Projections

{projection(costs, options)}

## What breaks first

1. **Storage.** A core takes in {costs.gigabytes_per_core_second:.1f} GB/s of decoded float64, so
   {12.5 / costs.gigabytes_per_core_second:.0f} cores use up a network of 100 Gbit/s; from there on, more
   workers change nothing.
2. **The scheduler.** One `distributed` scheduler hands out a task in {1e3 * costs.task_cluster:.1f} ms at
   most (wall time by tasks, on 2 cores that it shared with 2 workers). A task of {ROWS_OF_TASK:,} rows keeps
   a core busy for {busy:.2f} s, so one scheduler feeds {busy / costs.task_cluster:,.0f} cores at least. Where
   that is too few, accumulate parts of the dataset as passes of their own and add up their states:
   `sum(states)` is the whole.
3. **Planning.** Footers are read in one process: those of local files in turn, those in an object store by
   16 threads. There a footer costs a round trip or two, tens of milliseconds in place of the local disk's, so
   the column above grows: store more rows in a file, or scan partitions one by one.
4. **Not the merging.** A state is as large as the model, whatever the data; each is sent at most once, and
   merged on the workers.
"""


def main() -> None:
    """Measure, and write the document."""
    parser = parser_of(__doc__, rows=2_000_000, features=50, classes=10, repeats=5)
    add_data(parser)
    parser.add_argument("--files", type=int, default=1000, help="small files, to time their footers")
    parser.add_argument("--tasks", type=int, default=2000, help="empty tasks, to time the scheduler")
    options = parser.parse_args()
    text = document(measure(options), options)
    print(text)
    if not options.print_only:
        SCALE.write_text(text)


if __name__ == "__main__":
    main()
