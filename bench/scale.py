"""Unit costs of a pass, measured, and what 1 TB and 100 TB would cost at these.

Run as ``python -m bench.scale``; it writes SCALE.md, and its goals into RESULTS.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench import data, report
from bench.arguments import add_data, parser_of
from bench.contest import limit_threads

limit_threads(2)

from bench.unit_costs import BYTES_PER_VALUE, PassOverhead, Planning, UnitCosts, measure
from streamgda.data.sources.splits import ROWS_PER_TASK
from streamgda.jobs.passes.graph import FAN_IN

SCALE = Path(__file__).with_name("SCALE.md")
ROWS_OF_TASK = max(1, ROWS_PER_TASK // data.ROWS_PER_FILE) * data.ROWS_PER_FILE  # a task takes whole files


def projection(costs: UnitCosts, options: argparse.Namespace) -> str:
    """What datasets of 1 and 100 TB take, at these unit costs."""
    rows, slowest = [], costs.remotes[-1]
    for terabytes, cores in ((1, 16), (1, 256), (100, 256), (100, 4096)):
        n_rows = terabytes * 1e12 / (options.features * BYTES_PER_VALUE)
        groups, files = n_rows / ROWS_OF_TASK, n_rows / data.ROWS_PER_FILE
        reading = terabytes * 1e3 / costs.gigabytes_per_core_second / cores
        overhead = _largest(costs)
        rows.append(
            (
                f"{terabytes} TB on {cores:,} cores",
                f"{n_rows / 1e9:,.1f}",
                f"{groups:,.0f}",
                _duration(reading),
                _duration(files * costs.there.milliseconds / 1e3),
                f"{files * costs.there.kept / 1e6:,.0f}",
                _duration(files * costs.here.milliseconds / 1e3 / cores),
                _duration(groups * (overhead.client + overhead.scheduler) / 1e3),
                f"{groups / FAN_IN * costs.wire_bytes / 1e9:,.1f}",
                _duration(files * (slowest.planning + slowest.reading) / cores),
                f"{terabytes * 1e3 / reading:,.0f}",
            )
        )
    headers = [
        "",
        "rows, billions",
        "groups",
        "reading and products",
        "planning, client",
        "planning, client's MB",
        "footers, on the workers",
        "graph and scheduler",
        "states sent, GB",
        f"waiting at {1e3 * slowest.latency:.0f} ms",
        "storage must give, GB/s",
    ]
    return report.table(headers, rows)


def _largest(costs: UnitCosts) -> PassOverhead:
    """The overhead of the pass of most groups, without progress."""
    return max(costs.overheads, key=lambda one: (one.groups, not one.progress))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def unit_table(costs: UnitCosts, options: argparse.Namespace) -> str:
    """What was measured."""
    plans = {
        f"{options.files:,} files, in one process": costs.here,
        f"{options.files:,} files, on a cluster: the client": costs.there,
        f"{costs.n_listed:,} files of a simulated listing: the client": costs.listed,
    }
    rows = [
        (
            "reading, reducing, merging: GB of float64 per second and core",
            f"{costs.gigabytes_per_core_second:.2f}",
        ),
        *((f"planning {what}, a file", _planning(plan)) for what, plan in plans.items()),
        *(
            (
                f"a pass of {one.groups:,} groups on a cluster{', with progress' * one.progress}, a group",
                f"{one.client:.2f} ms client + {one.scheduler:.2f} ms scheduler",
            )
            for one in costs.overheads
        ),
        *(
            (
                f"an object store at {1e3 * one.latency:.0f} ms, a small file, 16 requests at once",
                f"{1e3 * one.planning:.1f} ms to plan + {1e3 * one.reading:.1f} ms to read",
            )
            for one in costs.remotes
        ),
        ("merging two states", f"{1e3 * costs.merge:.2f} ms"),
        ("a state in memory", f"{costs.state_bytes / 1e3:.0f} kB"),
        ("a state as it is sent", f"{costs.wire_bytes / 1e3:.0f} kB"),
        ("the description of a group of one file", f"{costs.split_bytes / 1e3:.1f} kB"),
    ]
    return report.table(["what", "measured"], rows)


def _planning(plan: Planning) -> str:
    return f"{plan.milliseconds:.3f} ms, {plan.kept / 1e3:.2f} kB kept, {plan.peak / 1e3:.2f} kB at most"


def goals(costs: UnitCosts) -> report.Goals:
    """What a file and a group may cost the one client and the one scheduler."""
    overhead = _largest(costs)
    rows = [
        report.at_most("planning on a cluster: the client's ms a file", costs.there.milliseconds, 0.1),
        report.at_most("planning on a cluster: the client's kB a file", costs.there.kept / 1e3, 0.5),
        report.at_most("planning in one process: ms a file", costs.here.milliseconds, 1),
        report.at_most("planning in one process: kB a file", costs.here.kept / 1e3, 2),
        report.at_most(
            f"a pass of {overhead.groups:,} groups: ms of client and scheduler a group",
            overhead.client + overhead.scheduler,
            0.6,
        ),
    ]
    return report.Goals(rows)


def document(costs: UnitCosts, options: argparse.Namespace) -> str:
    """SCALE.md."""
    overhead, slowest = _largest(costs), costs.remotes[-1]
    row = options.features * BYTES_PER_VALUE
    per_row = row / 1e9 / costs.gigabytes_per_core_second
    control = (overhead.client + overhead.scheduler) / 1e3
    remote = slowest.planning + slowest.reading
    return f"""# What a pass costs at scale

Full statistics of {options.features} float64 features and {options.classes} classes, in files of
{data.ROWS_PER_FILE:,} rows, each a group. `python -m bench.scale` measures the unit costs. A
projection is a unit cost times how often it occurs, as if nothing ran at the same time. It assumes that
storage gives as many GB/s as the last column says.

## Unit costs

{unit_table(costs, options)}

Reading, planning and passes are measured in processor time. The cluster has two workers, and its scheduler a
process of its own. Memory is that of Python's allocator: kept is after planning, at most is during it. In
the simulated listing all files have the same footer, and the answers of the workers are simulated too: it
measures the client alone. Times at a latency are for files of 1,000 rows, read by one process.

{report.machine()}

## Projections

{projection(costs, options)}

"Waiting" assumes files of 1,000 rows, and one process on each core. A file of {data.ROWS_PER_FILE:,}
rows takes more requests, but they are made ahead while rows are learnt.

## What breaks first

1. **Storage, at {12.5 / costs.gigabytes_per_core_second:.0f} cores.** A core takes in
   {costs.gigabytes_per_core_second:.2f} GB/s of decoded float64. So many cores use all of a network of 100
   Gbit/s. More workers do not help.
2. **The client and the scheduler, at {per_row * ROWS_OF_TASK / control:,.0f} cores.** They spend
   {1e3 * control:.2f} ms on a group, and a core is busy with it for {per_row * ROWS_OF_TASK:.2f} s. The
   {100e12 / row / ROWS_OF_TASK:,.0f} groups of 100 TB take {_duration(100e12 / row / ROWS_OF_TASK * control)}
   of their time, for any number of workers. If that is too long, accumulate each part of the dataset in a
   separate pass: `sum(states)` is the state of the whole.
3. **Latency, if files are small.** At {1e3 * slowest.latency:.0f} ms a request, a process takes
   {1e3 * remote:.0f} ms for a file of 1,000 rows. A core needs as long for {remote / per_row:,.0f} rows: with
   fewer rows in a file, a pass waits longer than it computes. Store more rows in a file, or give the
   workers more threads.
4. **Planning, at {16e9 / costs.there.kept / 1e6:.0f} million files**, which fill 16 GB of the client's
   memory. While workers decode the footers, at {costs.here.milliseconds:.2f} ms each, a million files take
   the client {_duration(costs.there.milliseconds * 1e3)} and {costs.there.kept / 1e3:.2f} GB. In one process
   they take {_duration(costs.here.milliseconds * 1e3)}. If that is too much, scan partitions one by one.
5. **Not the merging.** A state is as large as the model, for any number of rows. It is sent once for
   {FAN_IN} groups: {costs.wire_bytes / 1e3:.0f} kB for {FAN_IN * ROWS_OF_TASK * row / 1e6:,.0f} MB of data.
"""


def main() -> None:
    """Measure, and write the document."""
    parser = parser_of(__doc__, rows=2_000_000, features=50, classes=10, repeats=5)
    add_data(parser)
    parser.add_argument("--files", type=int, default=20_000, help="small files to plan")
    parser.add_argument("--listed", type=int, default=1_000_000, help="files of the simulated listing")
    parser.add_argument(
        "--groups", type=int, nargs="*", default=[1_000, 20_000], help="empty groups of a pass"
    )
    options = parser.parse_args()
    costs = measure(options)
    text = document(costs, options)
    print(text)
    if not options.print_only:
        SCALE.write_text(text)
    title = f"{options.files:,} files, {max(options.groups):,} groups; [SCALE.md](SCALE.md) has the rest"
    reached = goals(costs)
    report.publish("scale", title, str(reached), reached, keep=not options.print_only)


if __name__ == "__main__":
    main()
