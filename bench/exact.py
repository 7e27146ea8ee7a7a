"""Exact statistics from Parquet, beside the default pass and scikit-learn in memory, on the same data.

Run as ``python -m bench.exact``. Everything runs with the same number of threads. scikit-learn's times are of
data in memory; reading it is not counted. float32 and whole numbers are the same rows, rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import data, report
from bench.arguments import add_data, parser_of
from bench.contest import Contender, Result, contest, limit_threads, median_time, times_table
from bench.fit import sklearn_fit
from bench.passes import parquet_pass

QDA = "scikit-learn: QDA, in memory"
NAMES = {"float64": "float64", "float32": "float32", "int16": "whole numbers (int16)"}
KINDS = ("full", "tied", "diag")
COLUMNS = ("median s", "min–max s", "peak MB")


def exact_statistics(folder: Path, kind: Any) -> Callable[[], Any]:
    """One pass with exact sums, planning included."""
    parquet_pass(folder, kind)  # imports what is used
    from streamgda import accumulate, scan_parquet

    return lambda: accumulate(scan_parquet(folder, "y"), kind, exact=True, scheduler="threads")


def name_of(dtype: str, kind: str, how: str) -> str:
    """What the table calls a pass."""
    return f"streamgda: {how} {kind} statistics of {NAMES[dtype]}"


def contenders(folders: dict[str, Path]) -> list[Contender]:
    """All that the table compares."""
    passes = [("float64", kind) for kind in KINDS] + [(dtype, "full") for dtype in ("float32", "int16")]
    ways = {"default": parquet_pass, "exact": exact_statistics}
    return [
        *(
            Contender(name_of(dtype, kind, how), prepare, (folders[dtype], kind))
            for dtype, kind in passes
            for how, prepare in ways.items()
        ),
        Contender(QDA, sklearn_fit, (folders["float64"], "QDA")),
    ]


def goals(results: dict[str, Result], memory: float) -> report.Goals:
    """The ratios that were to be reached, and whether they were."""
    time_of = {name: result.median for name, result in results.items()}

    def ratio(dtype: str, kind: str, goal: float) -> tuple[str, str, str, str]:
        exact, default = (time_of[name_of(dtype, kind, how)] for how in ("exact", "default"))
        return report.at_most(f"exact ÷ default, {kind}, {NAMES[dtype]}", exact / default, goal)

    rows = [
        *(ratio("float64", kind, 5) for kind in KINDS),
        ratio("float32", "full", 3),
        ratio("int16", "full", 3),
        report.at_least(
            "scikit-learn QDA in memory ÷ exact full",
            time_of[QDA] / time_of[name_of("float64", "full", "exact")],
            1,
        ),
        report.at_most("memory of the state, exact ÷ default, full, float64", memory, 10),
    ]
    return report.Goals(rows)


def state_table(folder: Path, repeats: int) -> tuple[str, float]:
    """What is done to states that are there already, and how much larger the exact one is."""
    from streamgda import ExactClassStatistics, accumulate, scan_parquet

    exact = accumulate(scan_parquet(folder, "y"), exact=True)
    of_file = accumulate(scan_parquet(next(iter(sorted(folder.iterdir()))), "y"), exact=True)
    floating = exact.to_float()
    tasks: dict[str, Callable[[], Any]] = {
        "add the state of a file": lambda: exact + of_file,
        "subtract the state of a file": lambda: exact - of_file,
        "read the means and covariances off": lambda: (exact.copy().means, exact.copy().covariance()),
        "turn it into a floating state": lambda: exact.copy().to_float(),
    }
    rows = [(name, f"{1000 * median_time(task, repeats):.1f}") for name, task in tasks.items()]
    rows += [
        ("bytes of the exact state", f"{exact.nbytes:,}"),
        ("bytes of the floating one", f"{floating.nbytes:,}"),
    ]
    assert isinstance(exact, ExactClassStatistics)
    return report.table(["of a full state", "ms"], rows), exact.nbytes / floating.nbytes


def main() -> None:
    """Run the contest and keep its tables."""
    parser = parser_of(__doc__, rows=2_000_000, features=50, classes=10, repeats=7, threads=2)
    add_data(parser)
    options = parser.parse_args()
    limit_threads(options.threads)
    size = (options.rows, options.features, options.classes)
    folders = {dtype: data.make(options.data, *size, dtype=dtype) for dtype in NAMES}
    results = contest(contenders(folders), options.repeats)
    states, memory = state_table(folders["float64"], options.repeats)
    title = f"{size[0]:,} × {size[1]}, {size[2]} classes, {options.threads} threads"
    details = goals(results, memory), states
    report.publish("exact", title, times_table(results, *COLUMNS), *details, keep=not options.print_only)


if __name__ == "__main__":
    main()
