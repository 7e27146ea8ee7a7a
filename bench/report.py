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
- **Not reached, and what was tried.** Small files: pyarrow alone takes four times as long per row to open and
  decode them as the standard layout. Joining rows of small files into larger blocks gains up to 10 % on two
  threads, for a hundred lines more. Column chunks laid out alike are checked by one regular expression, 0.2 s
  for 1,000 footers instead of 1.3 s; each footer is still decoded when files are planned and when they are
  read. Zarr in chunks of 65,536 rows: of 1.09 s of processor time, reading takes 0.42, gathering row-major
  values by class 0.24, centring 0.12 and products 0.19. To keep them row-major saves 1.5 of the 9.3 ms of a
  block, and loses 0.8 where they are centred and multiplied.
- **Many short classes** are summed up about an anchor, with no gathering by class. Of 20 features of 10,000
  classes a third of the time still goes into adding values and squares to the sums of their classes, one by
  one, and a tenth into merging tables. A full matrix for each class needs its rows side by side: of 50
  features of 1,000 classes, centring them takes as long as decoding, gathering half of that.
- **Five patterns of missing values**: in memory they cost 2.0 to 2.4 complete passes of processor time (3.3
  to 11.9 before each block was sorted once by pattern and class); from Parquet nulls are decoded besides.
- **Peak memory of wide rows** is what the decoder holds, the pages of a whole row group of 128 MB, on each
  thread: 245 MB on one for 2,048 columns, and 489 MB on two. One thread would take half the memory, and
  twice the time.
- **Ratios that vary**: LDA (lsqr) ÷ tied was 3.4 to 6, and DuckDB ÷ diag 0.8 to 1.1, over several evenings.
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
