"""Fit from Parquet, beside a bare scan, bare BLAS products, and other libraries on the same data.

Run as ``python -m bench.fit``. Everything runs with the same number of threads. scikit-learn's times are of
data in memory, and ours of it are with one thread and with all; what reading the files into memory costs is a
row of its own, and the last column adds it. Peak memory is that of the contender's process above what it held
before the first run, so the data that scikit-learn works on in memory is not in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import data, report
from bench.arguments import add_data, add_growth, parser_of, size
from bench.contest import Contender, Result, cells, contest, limit_threads
from bench.passes import (
    BLAS,
    DUCKDB_VARIANCE,
    POLARS,
    SCAN_GROUPS,
    SCAN_TUNED,
    blas_products,
    duckdb_query,
    duckdb_variance,
    growth,
    parquet_pass,
    polars_variance,
    scan_as_we_do,
    scan_row_groups,
)

SCAN_DATASET = "pyarrow: dataset scan"
READ = "pyarrow: read into a NumPy matrix"
OURS = {kind: f"streamgda: {kind} statistics, from Parquet" for kind in ("full", "tied", "diag")}
OURS_NOT_NULL = {kind: f"{name}, nullable=False" for kind, name in OURS.items()}
OURS_IN_MEMORY = {kind: f"streamgda: {kind} statistics, in memory" for kind in OURS}
SKLEARN = {
    "GaussianNB": "scikit-learn: GaussianNB fit",
    "partial_fit": "scikit-learn: GaussianNB partial_fit",
    "lsqr": "scikit-learn: LDA lsqr",
    "svd": "scikit-learn: LDA svd",
    "QDA": "scikit-learn: QDA",
}
TREES = {
    "LightGBM": "LightGBM: one round, a tree for each class",
    "XGBoost": "XGBoost: one round, a tree for each class",
}
ONEDAL = "oneDAL: a covariance for each class, batch by batch"
IN_MEMORY = {*SKLEARN.values(), *TREES.values(), ONEDAL, *OURS_IN_MEMORY.values()}
ONE_THREAD = ", 1 thread"
DUCKDB_COVARIANCE = "DuckDB: covar_pop per class, from Parquet"


def scan_dataset(folder: Path) -> Callable[[], Any]:
    """What pyarrow's scanner needs to decode every column."""
    import pyarrow.dataset as ds

    dataset = ds.dataset(folder)
    return lambda: sum(batch.num_rows for batch in dataset.to_batches())


def read_into_memory(folder: Path) -> Callable[[], Any]:
    """What must happen before scikit-learn can begin."""
    return lambda: data.load(folder)


def in_memory(folder: Path, kind: str, threads: int) -> Callable[[], Any]:
    """Statistics of data in memory, by so many threads."""
    from threadpoolctl import threadpool_limits

    import streamgda

    X, y = data.load(folder)

    def run() -> None:
        with threadpool_limits(threads, "blas"):
            streamgda.ClassStatistics(kind).update(X, y)

    return run


def sklearn_fit(folder: Path, name: str) -> Callable[[], Any]:
    """Scikit-learn's fit of the same data in memory."""
    import numpy as np
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import GaussianNB
    from sklearn.utils import gen_batches

    X, y = data.load(folder)
    classes = np.unique(y)

    def partial_fit() -> None:
        model = GaussianNB()
        for rows in gen_batches(len(y), data.ROWS_PER_GROUP):
            model.partial_fit(X[rows], y[rows], classes=classes)

    return {
        "GaussianNB": lambda: GaussianNB().fit(X, y),
        "partial_fit": partial_fit,
        "lsqr": lambda: LinearDiscriminantAnalysis(solver="lsqr").fit(X, y),
        "svd": lambda: LinearDiscriminantAnalysis(solver="svd").fit(X, y),
        "QDA": lambda: QuadraticDiscriminantAnalysis().fit(X, y),
    }[name]


def one_round(folder: Path, name: str, threads: int) -> Callable[[], Any]:
    """The first round of boosted trees on the same data in memory, of the hundred or more of a fit."""
    import lightgbm
    import xgboost

    X, y = data.load(folder)
    model = {
        "LightGBM": lambda: lightgbm.LGBMClassifier(n_estimators=1, n_jobs=threads, verbosity=-1),
        "XGBoost": lambda: xgboost.XGBClassifier(n_estimators=1, n_jobs=threads),
    }[name]
    return lambda: model().fit(X, y)


def onedal_covariances(folder: Path, threads: int) -> Callable[[], Any]:
    """What QDA needs, from the incremental covariance of scikit-learn-intelex: each class by itself."""
    import daal4py
    import numpy as np
    from sklearn.utils import gen_batches
    from sklearnex.covariance import IncrementalEmpiricalCovariance

    daal4py.daalinit(threads)
    X, y = data.load(folder)
    classes = np.unique(y)

    def run() -> Any:
        states = [IncrementalEmpiricalCovariance() for _ in classes]
        for rows in gen_batches(len(y), data.ROWS_PER_GROUP):
            for state, k in zip(states, classes, strict=True):
                state.partial_fit(X[rows][y[rows] == k])
        return [state.covariance_ for state in states]

    return run


def duckdb_covariance(folder: Path, features: int, threads: int) -> Callable[[], Any]:
    """A covariance for each class, as SQL can ask for it: every pair of columns."""
    pairs = ", ".join(f"covar_pop(x{i}, x{j})" for i in range(features) for j in range(i + 1))
    return duckdb_query(f"SELECT y, {pairs} FROM '{folder}/*.parquet' GROUP BY y", threads)


def contenders(folder: Path, options: argparse.Namespace) -> list[Contender]:
    """All that the table compares."""
    rows, features, classes, threads = options.rows, options.features, options.classes, options.threads
    not_null = data.make(options.data, rows, features, classes, nullable=False)
    return [
        Contender(SCAN_DATASET, scan_dataset, (folder,)),
        Contender(SCAN_GROUPS, scan_row_groups, (folder, threads)),
        Contender(SCAN_TUNED, scan_as_we_do, (folder, threads)),
        Contender(BLAS, blas_products, (rows, features, classes, threads)),
        *(Contender(name, parquet_pass, (folder, kind)) for kind, name in OURS.items()),
        *(Contender(name, parquet_pass, (not_null, kind)) for kind, name in OURS_NOT_NULL.items()),
        Contender(READ, read_into_memory, (folder,)),
        *(Contender(name, sklearn_fit, (folder, which)) for which, name in SKLEARN.items()),
        Contender(DUCKDB_COVARIANCE, duckdb_covariance, (folder, features, threads)),
        Contender(DUCKDB_VARIANCE, duckdb_variance, (folder, features, threads)),
        Contender(POLARS, polars_variance, (folder,)),
    ]


def others_in_memory(folder: Path, threads: int) -> list[Contender]:
    """What people would use instead. They take turns by themselves: with the rest, data would fill 24 GB."""
    trees = [Contender(name, one_round, (folder, which, threads)) for which, name in TREES.items()]
    sums = [Contender(ONEDAL, onedal_covariances, (folder, threads))] if find_spec("daal4py") else []
    return [*trees, *sums]


def ours_in_memory(folder: Path, threads: int) -> list[Contender]:
    """Our statistics of data in memory, with one thread and with all."""
    return [
        Contender(made, in_memory, (folder, kind, number))
        for kind, name in OURS_IN_MEMORY.items()
        for made, number in ((f"{name}{ONE_THREAD}", 1), (name, threads))
    ]


def times_table(results: dict[str, Result]) -> str:
    """Every contender: median, spread, peak memory, and the time with reading for those in memory."""
    columns, read = ("median s", "processor s", "min–max s", "peak MB"), results[READ].median
    rows = [
        (
            name,
            *cells(result, *columns),
            f"{result.median + read:.3f}" if name.removesuffix(ONE_THREAD) in IN_MEMORY else "",
        )
        for name, result in results.items()
    ]
    return report.table(["contender", *columns, "with reading s"], rows)


def goals(results: dict[str, Result]) -> report.Goals:
    """The ratios that were to be reached, and whether they were."""
    time = {name: result.median for name, result in results.items()}

    full, tied, diag = (time[OURS[kind]] for kind in ("full", "tied", "diag"))
    rows = [
        report.at_most("full ÷ (dataset scan + BLAS)", full / (time[SCAN_DATASET] + time[BLAS]), 1.5),
        report.at_most("full ÷ (row-group scan + BLAS)", full / (time[SCAN_GROUPS] + time[BLAS]), 1.5),
        report.at_most(
            "full ÷ (scan read as streamgda reads + BLAS)", full / (time[SCAN_TUNED] + time[BLAS]), 1.5
        ),
        report.at_least("scikit-learn QDA fit ÷ full", time[SKLEARN["QDA"]] / full, 8),
        report.at_least("scikit-learn LDA lsqr ÷ tied", time[SKLEARN["lsqr"]] / tied, 4),
        report.at_least("scikit-learn GaussianNB partial_fit ÷ diag", time[SKLEARN["partial_fit"]] / diag, 2),
        report.at_least("Polars ÷ diag", time[POLARS] / diag, 1),
        report.at_least("DuckDB avg and var_pop ÷ diag", time[DUCKDB_VARIANCE] / diag, 1),
        report.at_least("DuckDB covar_pop ÷ full", time[DUCKDB_COVARIANCE] / full, 1),
    ]
    for kind, name in OURS_IN_MEMORY.items():
        alone, together = results[f"{name}{ONE_THREAD}"], results[name]
        rows.append(
            report.at_least(f"{kind} in memory: 1 thread ÷ all threads", alone.median / together.median, 1.7)
        )
        ratio = together.processor / alone.processor
        rows.append(report.at_most(f"{kind} in memory, processor time: all threads ÷ 1 thread", ratio, 1.1))
    return report.Goals(rows)


def main() -> None:
    """Run the contest and keep its tables."""
    parser = parser_of(__doc__, rows=2_000_000, features=50, classes=10, repeats=7, threads=2)
    add_data(parser)
    add_growth(parser)
    options = parser.parse_args()
    limit_threads(options.threads)
    folder = data.make(options.data, options.rows, options.features, options.classes)
    results = contest(contenders(folder, options), options.repeats)
    for contenders_in_memory in (ours_in_memory, others_in_memory):
        results |= contest(contenders_in_memory(folder, options.threads), options.repeats)
    title = f"{size(options)}, {options.threads} threads"
    memory, *details = growth(options)
    tables = f"{times_table(results)}\n\n{memory}", goals(results), *details
    report.publish("fit", title, *tables, keep=not options.print_only)


if __name__ == "__main__":
    main()
