"""One partial_fit of a batch, for every estimator, beside scikit-learn's GaussianNB and the bare formulas.

Run as ``python -m bench.partial_fit``. All in one process, in turn, with one BLAS thread; the time
is the median over the repeats of the mean over a run of calls on a model that has seen data.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from bench import report
from bench.arguments import parser_of
from bench.bare_formulas import BareMoments
from bench.contest import limit_threads

limit_threads(1)

import numpy as np
from sklearn.naive_bayes import GaussianNB as SklearnGaussianNB
from tqdm import tqdm

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

PEER = "scikit-learn GaussianNB"
MODELS = {
    PEER: SklearnGaussianNB,
    "GaussianNB": GaussianNB,
    "LDA": LinearDiscriminantAnalysis,
    "QDA": QuadraticDiscriminantAnalysis,
}
BARE = {"GaussianNB": "diag", "LDA": "tied", "QDA": "full"}
GOALS = {"GaussianNB": 0.157, "LDA": 0.196, "QDA": 0.157}  # of one row, in times of the peer


def seconds_per_call(call: Callable[[], object], calls: int) -> float:
    """Mean time of a run of calls."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def measure(n_rows: int, options: argparse.Namespace) -> dict[str, float]:
    """Median seconds of a call of each model's partial_fit."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(200, options.features)), np.arange(200) % options.classes
    X, y = rng.normal(size=(n_rows, options.features)), rng.integers(0, options.classes, size=n_rows)
    models = {
        name: model().partial_fit(*first, classes=np.arange(options.classes))
        for name, model in MODELS.items()
    }
    for name, kind in BARE.items():
        models[f"bare {name}"] = bare = BareMoments(kind, options.features, options.classes)
        bare.partial_fit(*first)
    calls = max(5, options.calls // n_rows)
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(options.repeats):
        for name, model in models.items():
            times[name].append(seconds_per_call(lambda model=model: model.partial_fit(X, y), calls))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Measure every batch size and keep the table."""
    parser = parser_of(__doc__, features=50, classes=10, repeats=15)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 10, 100, 1000, 10_000])
    parser.add_argument("--calls", type=int, default=2000, help="calls of one row in a run")
    options = parser.parse_args()
    rows, goals = [], []
    for n_rows in tqdm(options.rows, leave=False):
        times = measure(n_rows, options)
        ratios = (
            f"{times[name] / peer:.2f}" for name in BARE for peer in (times[PEER], times[f"bare {name}"])
        )
        rows.append((n_rows, *(f"{1e6 * seconds:.0f}" for seconds in times.values()), *ratios))
        if n_rows == 1:
            goals = [
                report.at_most(f"{name} ÷ {PEER}, one row", times[name] / times[PEER], GOALS[name])
                for name in BARE
            ]
    ratio_names = [f"{name} ÷ {peer}" for name in BARE for peer in (PEER, "bare")]
    table = report.table(["rows", *(f"{name} µs" for name in times), *ratio_names], rows)
    title = f"{options.features} features, {options.classes} classes, 1 BLAS thread"
    report.publish("partial_fit", title, table, report.Goals(goals), keep=not options.print_only)


if __name__ == "__main__":
    main()
