"""One partial_fit of a batch, for every estimator, beside scikit-learn's GaussianNB.

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
    rows = []
    for n_rows in tqdm(options.rows, leave=False):
        times = measure(n_rows, options)
        slowest = max(times[name] for name in MODELS if name != PEER)
        rows.append(
            (n_rows, *(f"{1e6 * times[name]:.0f}" for name in MODELS), f"{slowest / times[PEER]:.2f}")
        )
    headers = ["rows", *(f"{name} µs" for name in MODELS), "slowest of ours ÷ scikit-learn"]
    title = f"## bench.partial_fit: {options.features} features, {options.classes} classes, 1 BLAS thread"
    report.publish("partial_fit", f"{title}\n\n{report.table(headers, rows)}", keep=not options.print_only)


if __name__ == "__main__":
    main()
