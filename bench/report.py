"""Print results as Markdown, and keep them in RESULTS.md with how, and on what, they were measured."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """# Results

Each section is one run of `python -m bench.NAME`, on the machine and with the versions that stand below it.
The program prints more than its main table.

- **Contest.** Each contender has its own process, is set up (data in memory, a cluster, a Spark session) and
  runs once to warm up. Then the contenders take turns; tables give medians. The seconds of this project
  include planning: listing files, reading footers. "With reading" adds the time of reading the files into
  NumPy. The contenders of `bench.partial_fit` and `bench.stream` take turns in one process.
- **Threads.** All contenders have as many, unless their name says otherwise, in every library that has any.
- **Peak memory** is the largest resident set of a process from the warm-up on, minus that after the set-up,
  without data that it was given in memory and without other processes. 1 MB is 10⁶ bytes.
- **Goals** are ratios of medians within a run. The second core is not always free: trust processor times.
- **Not reached, and why.** Many short classes: the mean and scatter of each are read and written for a few
  rows of a block, 12 to 17 ns a value. Small files: a footer is decoded again where decoded footers take more
  than 64 MB. Zarr: rows that lie row by row take 2.4 ns a value to gather. Wide rows: two decoded row
  groups wait. Streams: a row takes 0.3 ms of Python, and 1,000 rows take their time in learning and scoring;
  Deep SLDA keeps no weights by class, and loses digits far from zero. Row groups of a million rows come from
  a store in shares of all columns, so that at most 128 MB wait. Missing values: decoding nulls comes on top.
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


class Goals:
    """Ratios that were to be reached, as `at_most` and `at_least` make their rows: a table, or a sentence."""

    def __init__(self, rows: Iterable[Sequence[str]]) -> None:
        self.rows = list(rows)

    def __str__(self) -> str:
        return table(["goal", "measured", "wanted", ""], self.rows)

    def sentence(self) -> str:
        """How many were reached, and each that was not."""
        missed = [
            f"{what} {measured} ({goal})"
            for what, measured, goal, verdict in self.rows
            if verdict == "not reached"
        ]
        reached = f"{len(self.rows) - len(missed)} of {len(self.rows)} goals reached."
        return f"{reached} Not reached: {'; '.join(missed)}." if missed else reached


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


def publish(section: str, title: str, main: str, *details: str | Goals, keep: bool) -> None:
    """Print what was measured and, if it is to be kept, put the main table and the goals in RESULTS.md.

    They take the place of the last section of this name. Other details are printed alone.
    """
    title = f"## bench.{section}: {title}"
    print(title, main, *details, sep="\n\n")
    if not keep:
        return
    goals = Goals(row for one in details if isinstance(one, Goals) for row in one.rows)
    below = f"{goals.sentence()}\n{machine()}" if goals.rows else machine()
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    block = f"{begin}\n{title}\n\n{main}\n\n{below}\n{end}"
    _, mark, sections = (RESULTS.read_text() if RESULTS.exists() else "").partition("<!--")
    known = f"{HEAD}\n{mark}{sections}"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    replaced, found = pattern.subn(lambda _: block, known)
    RESULTS.write_text(replaced if found else f"{known.rstrip()}\n\n{block}\n")
