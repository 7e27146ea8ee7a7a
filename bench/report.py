"""Print results as Markdown, and keep them in RESULTS.md with how, and on what, they were measured."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """# Results

Each section is one run of `python -m bench.NAME`, on the machine and with the versions that stand below it.

- **Contest.** Each contender has a process of its own. There it imports, sets up what it needs (data in
  memory, a cluster, a Spark session) and runs once to warm up, so the files are in the page cache. Then all
  run in turn, several times over: seconds are the median, and the least and the most. For this project they
  include planning: listing files, reading footers, making the graph. (The contenders of `bench.partial_fit`
  take turns in one process, each for a run of many calls.)
- **With reading.** Where a contender works on data in memory, its seconds leave reading out; this column adds
  the median of reading the same files into a NumPy matrix.
- **Threads.** All contenders have the same number, where their name says no other: OpenBLAS, OpenMP, MKL,
  Arrow's CPU pool, Polars, DuckDB, Spark and Dask's schedulers are limited to it. Within a task of this
  project BLAS has one thread. The scheduler of a cluster and the driver of Spark come on top.
- **Peak memory** is the most that a contender's process held from the warm-up on (its resident set), less
  what it held once it was set up; 1 MB is 10⁶ bytes. Data that a contender was given in memory is not in it,
  nor is what other processes hold that it started.
- **Goals** are ratios of medians within the run. A goal that was not reached says so.
- **Not reached, and what was tried.** The table of parts in `bench.shapes` says where the time of a pass
  goes.
- **The standard shape** (50 × 10): values are gathered by class at 1.2 to 1.8 ns each, of 3.4 in all
  beside the scan. Rows about earlier means, products of equal length stacked, blocks of 4,096 to 16,384
  rows, and means by `np.dot` gained nothing, or took up to 30 % longer. Centring and squaring in one loop
  would gain 3 %.
- **Many short classes** are summed up about an anchor, with no gathering by class. Adding values and
  squares to the sums of their classes, one by one, takes 1.4 to 2.2 ns a value, looking the anchor up
  about 1, subtracting it 0.7, squaring 0.5. `bincount`, sparse matrices, complex numbers (a value and its
  square in one) and sums kept in the cache gained nothing. A full matrix for each class needs its rows
  side by side: of 50 features of 1,000 classes, centring them takes as long as decoding, gathering half
  of that.
- **Small files**: planning 1,000 of them takes 0.65 s in one thread, of which decoding footers takes 0.29
  and checking them 0.21. Each footer is decoded again when its file is read; to keep it would save 0.3 s,
  and hold all footers in memory. Two threads keep 1.4 cores busy, as a task makes many short calls that
  hold the interpreter. Gathering all columns in one call gained nothing. Joining rows of small files into
  larger blocks gains up to 10 %, for a hundred lines more.
- **Zarr in chunks of 65,536 rows**: a thread reads the next chunks while rows are learnt, which gains a
  tenth. The two threads of the pass are busy with gathering row-major values, centring and products
  meanwhile. To keep values row-major saves 1.5 of the 9.3 ms of a block, and loses 0.8 where they are
  centred and multiplied.
- **Peak memory of wide rows**: eight columns of a row group are decoded at a time. What remains for 2,048
  columns are two row groups as decoded, of 128 MB, and the states, sums and products of two tasks. One
  thread would take half the memory, and twice the time.
- **Streams**: finalising an LDA of 50 × 10 alone is about 3 times as fast as by `eigh`. Learning a row
  takes 0.16 ms and finalising 0.13 ms of Python beside any arithmetic, so both together gain less than
  the goal. So do batches of 1,000 rows, of which learning and scoring take most: at 512 × 1,000, means
  take 13, scores 16 and posteriors 11 of 50 ms. Deep SLDA keeps neither weights by class nor digits far
  from zero. At 2,048 × 1,000 naive Bayes reads and writes tables of 16 MB for each row. Contenders take
  turns in random order, as the place in the order changes the time of calls below 1 ms.
- **Five patterns of missing values**: in memory they cost 2.0 to 2.4 complete passes of processor time (3.3
  to 11.9 before each block was sorted once by pattern and class); from Parquet nulls are decoded besides.
- **Ratios that vary** over several days, as the second core is not always free: the standard shape took
  1.4 to 1.7 times its limit, and diag 1.5 to 2.2; LDA (lsqr) ÷ tied was 3.4 to 6, DuckDB ÷ diag 0.8 to
  1.1, and scikit-learn's LDA ÷ ours at 512 × 1,000 1.47 to 1.58.
"""
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "dask", "duckdb", "polars")


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    return tabulate(rows, headers, tablefmt="github", colalign=["left"] + ["right"] * (len(headers) - 1))


def at_most(what: str, value: float, goal: float) -> tuple[str, str, str, str]:
    """A row that says whether a ratio stayed at or below a goal."""
    return what, f"{value:.2f}", f"≤ {goal}", "reached" if value <= goal else "not reached"


def at_least(what: str, value: float, goal: float) -> tuple[str, str, str, str]:
    """A row that says whether a ratio reached a goal."""
    return what, f"{value:.2f}", f"≥ {goal}", "reached" if value >= goal else "not reached"


def machine() -> str:
    """What it was measured on: processor, cores, memory, versions and date."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    return (
        f"{datetime.datetime.now(tz=datetime.UTC).date()}; {cpu[1] if cpu else platform.machine()}, "
        f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB; "
        f"Python {platform.python_version()}, {versions}."
    )


def publish(section: str, text: str, *, keep: bool) -> None:
    """Print a section and, if it is to be kept, put it in RESULTS.md in place of the last of its name."""
    print(text)
    if not keep:
        return
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    block = f"{begin}\n{text}\n\n{machine()}\n{end}"
    _, mark, sections = (RESULTS.read_text() if RESULTS.exists() else "").partition("<!--")
    known = f"{HEAD}\n{mark}{sections}"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    replaced, found = pattern.subn(lambda _: block, known)
    RESULTS.write_text(replaced if found else f"{known.rstrip()}\n\n{block}\n")
