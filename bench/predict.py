"""predict_proba of the three models beside scikit-learn's, fitted to the same rows.

Run as ``python -m bench.predict``. Every contender is fitted, to the same rows, before its clock runs, and
has a process and the same threads of its own; ours run with one thread too, and so does the map of random
features. Calls on few rows are timed in one process, in turn, with one
thread, beside the formula alone in NumPy and the ONNX graph of the model in onnxruntime. Wide rows have 512
features: for LDA with 1,000 classes; for QDA, a tenth of the rows with 10 classes, beside the products with
triangles that it cannot do without.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import skl2onnx
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmm
from sklearn import discriminant_analysis, naive_bayes
from threadpoolctl import threadpool_limits

import streamgda
import streamgda.onnx
from bench import report
from bench.arguments import parser_of, size
from bench.bare_formulas import BarePosteriors
from bench.contest import Contender, contest, limit_threads, times_table

MODELS: dict[str, tuple[type, type]] = {
    "QDA": (streamgda.QuadraticDiscriminantAnalysis, discriminant_analysis.QuadraticDiscriminantAnalysis),
    "LDA": (streamgda.LinearDiscriminantAnalysis, discriminant_analysis.LinearDiscriminantAnalysis),
    "GaussianNB": (streamgda.GaussianNB, naive_bayes.GaussianNB),
}
WIDE = 512  # features
GOALS = {"QDA": 0.33, "LDA": 1.0, "GaussianNB": 0.33}
MAP = "RandomFeatures(1000).transform, a tenth of the rows"
GOALS_OF_THREADS = {"QDA, streamgda": 1.7, "LDA, streamgda": 1.4, "GaussianNB, streamgda": 1.4, MAP: 1.7}
ONE_THREAD = ", 1 thread"
HEADERS = ["rows", "model", "streamgda µs", "scikit-learn µs", "bare formula µs", "onnxruntime µs", "÷ bare"]
HEADERS += ["÷ scikit-learn", "goal", ""]
COLUMNS = ("median s", "fastest s", "processor s", "peak MB")


def fitted(estimator: type, n_features: int, n_classes: int, rows_per_class: int = 200) -> Any:
    """A model of some rows, of no more than it takes to tell the classes apart."""
    rng = np.random.default_rng(0)
    y = np.arange(rows_per_class * n_classes) % n_classes
    centres = rng.normal(size=(n_classes, n_features))
    return estimator().fit(centres[y] + rng.normal(size=(len(y), n_features)), y)


def predict_proba(
    estimator: type,
    n_rows: int,
    n_features: int,
    n_classes: int,
    rows_per_class: int = 200,
    threads: int | None = None,
) -> Callable[[], Any]:
    """What is timed: the posteriors of many rows."""
    model = fitted(estimator, n_features, n_classes, rows_per_class)
    rows = np.random.default_rng(1).normal(size=(n_rows, n_features))
    return with_threads(threads, lambda: model.predict_proba(rows))


def random_features(n_rows: int, n_features: int, threads: int) -> Callable[[], Any]:
    """The map of many rows."""
    rows = np.random.default_rng(1).normal(size=(n_rows, n_features))
    features = streamgda.RandomFeatures(1000).fit(rows[:1000])
    return with_threads(threads, lambda: features.transform(rows))


def with_threads(threads: int | None, call: Callable[[], Any]) -> Callable[[], Any]:
    """A call with so many threads; None for those of all contenders."""

    def run() -> None:
        with threadpool_limits(threads):
            call()

    return run


def triangular_products(n_rows: int, n_features: int, n_classes: int) -> Callable[[], Any]:
    """The products that wide QDA cannot do without."""
    triangle = np.asfortranarray(np.tril(np.ones((n_features, n_features))))
    rows = np.random.default_rng(1).normal(size=(n_rows, n_features))
    return lambda: [dtrmm(1.0, triangle, rows.T, lower=True) for _ in range(n_classes)]


def wide_rows(options: argparse.Namespace) -> tuple[str, report.Goals]:
    """Rows of many features."""
    lda, few = (options.wide, WIDE, 1000, 4), options.wide // 10
    names = ["LDA, streamgda", "LDA, scikit-learn", "QDA, streamgda", "QDA, only its products"]
    contenders = [
        Contender(names[0], predict_proba, (MODELS["LDA"][0], *lda)),
        Contender(names[1], predict_proba, (MODELS["LDA"][1], *lda)),
        Contender(names[2], predict_proba, (MODELS["QDA"][0], few, WIDE, 10, WIDE + 100)),
        Contender(names[3], triangular_products, (few, WIDE, 10)),
    ]
    results = contest(contenders, options.repeats)
    ours, theirs, qda, products = (results[name].median for name in names)
    timings = times_table(results, "median s", "peak MB", what=f"{options.wide:,} × {WIDE}; QDA {few:,}")
    goals = [
        report.at_least("LDA: scikit-learn ÷ streamgda", theirs / ours, 1.5),
        report.at_most("QDA ÷ its products", qda / products, 1.5),
    ]
    return timings, report.Goals(goals)


def many_rows(options: argparse.Namespace) -> tuple[list[Sequence[str]], report.Goals, str]:
    """Rows of the table for one call on many rows, what its threads gain, and its memory."""
    shape = options.rows, options.features, options.classes
    contenders = [
        Contender(f"{name}, {whose}", predict_proba, (estimator, *shape))
        for name, pair in MODELS.items()
        for whose, estimator in zip(("streamgda", "scikit-learn"), pair, strict=True)
    ]
    contenders += [
        Contender(f"{name}, streamgda{ONE_THREAD}", predict_proba, (pair[0], *shape, 200, 1))
        for name, pair in MODELS.items()
    ]
    mapped = options.rows // 10, options.features
    contenders += [
        Contender(MAP, random_features, (*mapped, options.threads)),
        Contender(f"{MAP}{ONE_THREAD}", random_features, (*mapped, 1)),
    ]
    results = contest(contenders, options.repeats)
    gains = []
    for name, goal in GOALS_OF_THREADS.items():
        alone, together = results[f"{name}{ONE_THREAD}"], results[name]
        gains.append(report.at_least(f"{name}: 1 thread ÷ all", alone.median / together.median, goal))
        ratio = together.processor / alone.processor
        gains.append(report.at_most(f"{name}, processor time: all ÷ 1 thread", ratio, 1.1))
    rows = []
    for name in MODELS:
        ours, theirs = (results[f"{name}, {whose}"].median for whose in ("streamgda", "scikit-learn"))
        verdict = report.at_most(name, ours / theirs, GOALS[name])[1:]
        rows.append(
            (f"{options.rows:,}", name, f"{1e6 * ours:.0f}", f"{1e6 * theirs:.0f}", "", "", "", *verdict)
        )
    memory = times_table(results, *COLUMNS, what="predict_proba")
    return rows, report.Goals(gains), memory


class OnnxGraph:
    """The ONNX graph of a model, in float64."""

    def __init__(self, model: Any) -> None:
        streamgda.onnx.register()
        row = np.zeros((1, model.n_features_in_))
        graph = skl2onnx.to_onnx(model, row, options={"zipmap": False}).SerializeToString()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def predict_proba(self, rows: NDArray[np.float64]) -> Any:
        """The posteriors of rows."""
        return self.session.run(None, {"X": rows})[1]


def few_rows(options: argparse.Namespace) -> tuple[list[Sequence[str]], report.Goals]:
    """Rows of the table for calls on few rows, in one process and in turn."""
    models = {
        name: [fitted(estimator, options.features, options.classes) for estimator in pair]
        for name, pair in MODELS.items()
    }
    table, goals = [], []
    for n_rows in options.few:
        rows = np.random.default_rng(2).normal(size=(n_rows, options.features))
        for name, pair in models.items():
            contenders = [*pair, BarePosteriors(pair[0]), OnnxGraph(pair[0])]
            ours, theirs, bare, graph = medians = _medians(contenders, rows, options.calls)
            cells = n_rows, name, *(f"{1e6 * seconds:.0f}" for seconds in medians)
            if n_rows == 1:
                goals.append(report.at_most(f"{name} in onnxruntime, µs", 1e6 * graph, 50.0))
            table.append((*cells, f"{ours / bare:.1f}", *report.at_most(name, ours / theirs, 1.0)[1:]))
    return table, report.Goals(goals)


def _medians(models: list[Any], rows: NDArray[np.float64], calls: int) -> list[float]:
    """The median seconds that each model takes for the rows, called in turn."""
    seconds: list[list[float]] = [[] for _ in models]
    for _ in range(calls):
        for model, taken in zip(models, seconds, strict=True):
            start = time.perf_counter()
            model.predict_proba(rows)
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]


def main() -> None:
    """Measure both tables and keep them."""
    parser = parser_of(__doc__, rows=200_000, features=50, classes=10, repeats=9, calls=500, threads=2)
    parser.add_argument("--few", type=int, nargs="+", default=[1, 10, 100], help="sizes of small batches")
    parser.add_argument("--wide", type=int, default=100_000, help="rows of 512 features")
    options = parser.parse_args()
    limit_threads(options.threads)
    (many, gains, memory), wide = many_rows(options), wide_rows(options)
    with threadpool_limits(1):
        few, goals = few_rows(options)
    rows = [*few, *many]
    of_table = report.Goals((f"{row[0]} rows, {row[1]} ÷ scikit-learn", *row[-3:]) for row in rows)
    title = f"{size(options)}, {options.threads} threads"
    table, details = report.table(HEADERS, rows), (of_table, goals, gains, memory, *wide)
    report.publish("predict", title, table, *details, keep=not options.print_only)


if __name__ == "__main__":
    main()
