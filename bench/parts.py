"""Where a pass spends its time: profiled on one thread, and divided among the parts of the code."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from bench import report
from bench.passes import parquet_pass

Function: TypeAlias = tuple[str, int, str]  # its file, its line and its name

PARTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "planning": (("files/planning.py", "plan_batch"),),
    "decoding": (("files/row_groups.py", "_batches_of"),),
    "labels": (("sources/batches.py", "labels_of"), ("blocks/labels.py", "drop_unused")),
    "gathering": (("streamgda/statistics/kernels/__init__.py", "gather"),),
    "centring": (("streamgda/statistics/kernels/__init__.py", "centre"),),
    "products": (("statistics/covariances.py", "add"), ("statistics/covariances.py", "products")),
    "sums by class": (
        ("streamgda/statistics/kernels/__init__.py", "add"),
        ("streamgda/statistics/kernels/__init__.py", "end"),
    ),
    "means": (("floating/reduction.py", "add_rows"), ("floating/moments.py", "merge")),
}
"""The functions that each part consists of: how the path of their file ends, and their name."""


def part_of(function: Function) -> str | None:
    """The part that a function belongs to, if any."""
    file, _, name = function
    for part, functions in PARTS.items():
        if any(file.endswith(path) and name == known for path, known in functions):
            return part
    return None


def shares(folder: Path, kind: Any) -> tuple[float, dict[str, float]]:
    """The seconds of a pass on one thread, and the share of each part in per cent.

    Where one part calls another, that time counts for the part that is called, and not for the caller.
    """
    run = parquet_pass(folder, kind, "synchronous")
    run()
    profile = cProfile.Profile()
    profile.runcall(run)
    profiled: Any = pstats.Stats(profile)
    found = dict.fromkeys(PARTS, 0.0)
    for function, profiled_call in profiled.stats.items():
        seconds, callers = profiled_call[-2:]
        if (part := part_of(function)) is not None:
            found[part] += seconds
            for caller, of_caller in callers.items():
                if (outer := part_of(caller)) is not None:
                    found[outer] -= of_caller[-1]
    found["other"] = profiled.total_tt - sum(found.values())
    return profiled.total_tt, {part: 100 * seconds / profiled.total_tt for part, seconds in found.items()}


def parts_table(layouts: Mapping[str, tuple[Path, Any]]) -> str:
    """The shares of the parts for each layout: its name, its folder and the kind of statistics."""
    rows = []
    for name, (folder, kind) in layouts.items():
        seconds, found = shares(folder, kind)
        rows.append((name, f"{seconds:.2f}", *(f"{share:.0f} %" for share in found.values())))
    return report.table(["one thread", "s", *PARTS, "other"], rows)
