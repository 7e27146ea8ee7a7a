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

- **Contest.** Each contender has its own process. It imports, sets up what it needs (data in memory, a
  cluster, a Spark session) and runs once to warm up, so the files are in the page cache. Then the
  contenders take turns, several times. Tables give the median of the seconds, the smallest and the largest.
  For this project the seconds include planning: listing files, reading footers, making the graph. (The
  contenders of `bench.partial_fit` take turns in one process, each with many calls in a row.)
- **With reading.** The seconds of a contender that works on data in memory do not include reading. This
  column adds the median time of reading the same files into a NumPy matrix.
- **Threads.** All contenders have the same number of threads, unless their name gives another. OpenBLAS,
  OpenMP, MKL, Arrow's CPU pool, Polars, DuckDB, Spark and Dask's schedulers are limited to it. Within a
  task of this project BLAS has one thread. The scheduler of a cluster and the driver of Spark are not
  counted.
- **Peak memory** is the largest resident set of a contender's process from the warm-up on, minus its
  resident set after the set-up. 1 MB is 10⁶ bytes. Neither data that a contender was given in memory nor
  the memory of processes that it started is included.
- **Goals** are ratios of medians within the run. A goal that was not reached says so.
- **Not reached, and what was tried.** The points below give the reasons. The table of parts in
  `bench.shapes` shows how the time of a pass is divided.
- **The standard shape** (50 × 10): besides the scan, gathering and centring a value by class takes about 2
  ns, and its products as long. Blocks of 4,096 to 16,384 rows gained nothing for columns.
- **Many short classes**: only squares of few rows of a class are merged one by one, which takes 2 to 3 ns a
  value in cache. In a state of 100,000 classes it takes 12 to 17, since the mean, its low part and the
  scatter of a class are read from memory and written back. Asking for them ahead gained nothing. A pass over
  so many classes also writes and merges a state of 48 MB for each of its tasks. A matrix for all classes
  (400 × 20,000) needs each class side by side, which takes twice as long as its product.
- **Three classes of five features**: labels and their numbers take a third of the time, 9 ns a row.
- **Batches**: with 1,000 rows of 50 features, the bare formulas in NumPy take as long as this project.
- **Small files**: planning 1,000 of them takes 0.65 s in one thread, of which decoding footers takes 0.29
  and checking them 0.21. Each footer is decoded again when its file is read. Keeping the decoded footers
  would save 0.3 s, but hold all of them in memory. Two threads keep 1.4 cores busy, since a task makes many
  short calls that hold the interpreter lock. Gathering all columns in one call gained nothing. Joining rows
  of small files into larger blocks would gain up to 10 %, for a hundred more lines of code.
- **Zarr in chunks of 65,536 rows**: a thread reads the next chunks while rows are learnt. Values that lie
  row by row take 2.4 ns to gather from 8,192 rows on, three times as long as columns. Longer and shorter
  tiles, and asking for rows ahead, gained nothing.
- **Peak memory of wide rows**: eight columns of a row group are decoded at a time. For 2,048 columns, the
  rest is two decoded row groups of 128 MB, and the states, sums and products of two tasks. One thread would
  take half the memory and twice the time.
- **Streams**: finalising an LDA of 50 features and 10 classes is about 3 times as fast as by `eigh`. But
  besides arithmetic, learning a row takes 0.16 ms of Python and finalising 0.13 ms, so both together gain
  less than the goal. Batches of 1,000 rows also gain less than the goal, since learning and scoring take
  most of the time: with 512 features and 1,000 classes, means take 13, scores 16 and posteriors 11 of 50
  ms. Deep SLDA keeps no weights by class, and loses digits far from zero. With 2,048 features and 1,000
  classes, naive Bayes reads and writes tables of 16 MB for each row. Contenders take turns in random order,
  since the order changes the time of calls below 1 ms.
- **Five patterns of missing values**: in memory they take 2.0 to 2.4 times the processor time of a pass
  over complete rows. It was 3.3 to 11.9 times before each block was sorted once by pattern and class. From
  Parquet, decoding the nulls is added.
- **Ratios that vary**: the second core is not always free. Times of the processor with one thread vary less.
"""
_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "dask", "duckdb", "polars")


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    aligned = ["left"] + ["right"] * (len(headers) - 1)
    return tabulate(rows, headers, tablefmt="github", colalign=aligned, disable_numparse=True)


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
