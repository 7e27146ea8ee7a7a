"""Print results as Markdown, and keep them in RESULTS.md with what they were measured on."""

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
    known = RESULTS.read_text() if RESULTS.exists() else "# Results\n"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    replaced, found = pattern.subn(lambda _: block, known)
    RESULTS.write_text(replaced if found else f"{known}\n{block}\n")
