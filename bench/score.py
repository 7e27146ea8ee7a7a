"""Score Parquet to Parquet and evaluate, beside the same with scikit-learn.

Run as ``python -m bench.score``. QDA, fitted to the same rows. The contender of scikit-learn reads, predicts
and writes the same columns batch by batch, as a user would write it; its BLAS has all the threads. For the
metrics, what scikit-learn works on (labels and probabilities) is in memory before its clock runs.

For memory, a folder of more rows holds the same files under more names.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench import data, report
from bench.arguments import add_data, add_growth, parser_of, size
from bench.contest import Contender, Result, contest, limit_threads
from bench.passes import parquet_pass

OURS = "streamgda: predict_dataset"
SKLEARN = "scikit-learn: predict_proba, batch by batch"
EVALUATE = "streamgda: evaluate, from Parquet"
UPDATE = "streamgda: Evaluation.update, in memory"
METRICS = "scikit-learn: metrics, in memory"
TO_ZARR = "streamgda: predict_dataset, to Zarr"
ALL_COLUMNS = "streamgda: predict_dataset, density and distance too"
BATCH = 65_536


@cache
def fitted(folder: Path) -> Any:
    """A model of the first file."""
    from streamgda import QuadraticDiscriminantAnalysis, scan_parquet

    return QuadraticDiscriminantAnalysis().fit(scan_parquet(folder / "0000.parquet", "y"))


def predict_parts(folder: Path, out: Path, columns: tuple[str, ...]) -> Callable[[], Any]:
    """What is timed: one call, planning included."""
    parquet_pass(folder, "full")  # imports what is used
    importlib.import_module("zarr")
    from streamgda import predict_dataset

    model = fitted(folder)

    def run() -> None:
        shutil.rmtree(out, ignore_errors=True)
        predict_dataset(model, folder, out, columns=columns, scheduler="threads")

    return run


def predict_batches(folder: Path, out: Path) -> Callable[[], Any]:
    """The loop that one would write with scikit-learn and pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    model = fitted(folder).to_sklearn()
    names = ["predicted_label", *(f"probability_{label}" for label in model.classes_)]
    features = list(model.feature_names_in_)
    del model.feature_names_in_  # or it would warn of rows that are no data frame

    def batches(path: Path) -> Iterator[pa.Table]:
        for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=features):
            rows = np.column_stack([column.to_numpy() for column in batch.columns])
            probabilities = model.predict_proba(rows)
            labels = model.classes_[probabilities.argmax(axis=1)]
            yield pa.table([labels, *np.ascontiguousarray(probabilities.T)], names=names)

    def run() -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        for path in sorted(folder.iterdir()):
            tables = batches(path)
            first = next(tables)
            with pq.ParquetWriter(out / path.name, first.schema, use_dictionary=names[:1]) as writer:
                writer.write_table(first)
                for table in tables:
                    writer.write_table(table)

    return run


def evaluate_source(folder: Path) -> Callable[[], Any]:
    """Reading, predicting and evaluating."""
    parquet_pass(folder, "full")  # imports what is used
    from streamgda import evaluate, scan_parquet

    model = fitted(folder)
    return lambda: evaluate(model, scan_parquet(folder, "y"), scheduler="threads")


def update_in_memory(folder: Path) -> Callable[[], Any]:
    """The same measures of scores that are there already, on one thread."""
    from streamgda import Evaluation

    X, y = data.load(folder)
    model = fitted(folder)
    with threadpool_limits(1):
        scores = model.predict_log_proba(_named(model, X))

    def run() -> None:
        evaluation = Evaluation()
        for start in range(0, len(y), BATCH // 4):
            rows = slice(start, start + BATCH // 4)
            evaluation.update(y[rows], scores[rows], model.classes_)
        evaluation.to_frame()

    return run


def metrics_in_memory(folder: Path) -> Callable[[], Any]:
    """The same measures from scikit-learn's functions."""
    from sklearn import metrics
    from sklearn.calibration import calibration_curve

    X, y = data.load(folder)
    model = fitted(folder)
    with threadpool_limits(1):
        probabilities = model.predict_proba(_named(model, X))

    def run() -> None:
        found = model.classes_[probabilities.argmax(axis=1)]
        metrics.confusion_matrix(y, found)
        metrics.accuracy_score(y, found)
        metrics.precision_recall_fscore_support(y, found)
        metrics.log_loss(y, probabilities)
        metrics.brier_score_loss(y, probabilities)
        for k, label in enumerate(model.classes_):
            is_class, probability = y == label, probabilities[:, k]
            metrics.auc(*metrics.roc_curve(is_class, probability)[:2])
            metrics.precision_recall_curve(is_class, probability)
            metrics.average_precision_score(is_class, probability)
            calibration_curve(is_class, probability, n_bins=10)

    return run


def _named(model: Any, X: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=model.feature_names_in_, copy=False)


def times_table(results: dict[str, Result], rows: int) -> str:
    """Every contender: median, rows per second and peak memory."""
    cells = [
        (name, f"{r.median:.2f}", f"{rows / r.median / 1e6:.2f}", f"{r.peak:.0f}")
        for name, r in results.items()
    ]
    return report.table(["contender", "median s", "million rows/s", "peak MB"], cells)


def goals(results: dict[str, Result]) -> report.Goals:
    """The ratios, and whether the goal was reached."""
    time = {name: result.median for name, result in results.items()}
    return report.Goals(
        [
            report.at_least("scikit-learn batch by batch ÷ predict_dataset", time[SKLEARN] / time[OURS], 2),
            report.at_least("scikit-learn's metrics ÷ Evaluation.update", time[METRICS] / time[UPDATE], 1),
            report.at_least(
                "scikit-learn's metrics ÷ evaluate from Parquet", time[METRICS] / time[EVALUATE], 1
            ),
        ]
    )


def memory(folder: Path, work: Path, options: argparse.Namespace) -> tuple[str, report.Goals]:
    """Time and peak memory for more and more rows; the memory should stay level."""
    table, peaks = [], dict[str, list[float]]()
    for millions in options.scale:
        many, out = _repeated(folder, work / f"{millions}", options.rows, round(millions * 1e6)), work / "out"
        contenders = [
            Contender("predict_dataset", predict_parts, (many, out, ("label", "probabilities"))),
            Contender("evaluate", evaluate_source, (many,)),
        ]
        for name, result in contest(contenders, 1).items():
            rate = millions / result.median
            peaks.setdefault(name, []).append(result.peak)
            table.append(
                (f"{name}, {millions:g} million", f"{result.median:.2f}", f"{rate:.2f}", f"{result.peak:.0f}")
            )
    goals = [
        report.at_most(f"peak memory of {name}, most ÷ fewest rows", of_rows[-1] / of_rows[0], 1.25)
        for name, of_rows in peaks.items()
    ]
    headers = ["rows", "seconds", "million rows/s", "peak MB above the interpreter's"]
    return report.table(headers, table), report.Goals(goals)


def _repeated(folder: Path, target: Path, rows: int, wanted: int) -> Path:
    """A folder of links to the files, over and over, until there are so many rows."""
    files = sorted(folder.iterdir())
    target.mkdir(parents=True)
    for i in range(max(1, wanted * len(files) // rows)):
        os.link(files[i % len(files)], target / f"{i:04}.parquet")
    return target


def main() -> None:
    """Run the contests and keep their tables."""
    parser = parser_of(__doc__, rows=2_000_000, features=50, classes=10, repeats=5, threads=2)
    add_growth(parser)
    add_data(parser)
    options = parser.parse_args()
    limit_threads(options.threads)
    folder = data.make(options.data, options.rows, options.features, options.classes)
    with tempfile.TemporaryDirectory(dir=options.data) as place:
        work = Path(place)
        every = ("label", "probabilities", "log_density", "distance")
        results = contest(
            [
                Contender(OURS, predict_parts, (folder, work / "ours", every[:2])),
                Contender(TO_ZARR, predict_parts, (folder, work / "ours.zarr", every[:2])),
                Contender(ALL_COLUMNS, predict_parts, (folder, work / "all", every)),
                Contender(SKLEARN, predict_batches, (folder, work / "theirs")),
                Contender(EVALUATE, evaluate_source, (folder,)),
                Contender(UPDATE, update_in_memory, (folder,)),
                Contender(METRICS, metrics_in_memory, (folder,)),
            ],
            options.repeats,
        )
        details = goals(results), "Memory, by the number of rows:", *memory(folder, work, options)
    title = f"{size(options)}, QDA, {options.threads} threads"
    report.publish("score", title, times_table(results, options.rows), *details, keep=not options.print_only)


if __name__ == "__main__":
    main()
