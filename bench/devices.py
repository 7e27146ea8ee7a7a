"""A GPU beside the host: batches that lie there are learnt and predicted, and random features of any rows.

Run as ``python -m bench.devices``. It needs PyTorch, and says so where that sees no GPU. ``--device cpu``
takes PyTorch's arrays in the memory of the host, which shows that it runs, and nothing else. Rows are of
float32. A call to learn is a `partial_fit` with labels on the device, the state's way to the host included.
Predicted are probabilities, which stay where the rows lie. These figures are medians. Random features are
those of one fit of `RandomFeatureClassifier` to rows of the host, with its map, solution and calibration.
"""

from __future__ import annotations

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import sklearn
from tqdm import tqdm

from bench import report
from bench.arguments import parser_of
from bench.contest import median_time
from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
)

LEARNT: list[tuple[str, type[Any], int, int, int]] = [
    ("tied", LinearDiscriminantAnalysis, 256, 768, 10),
    ("tied", LinearDiscriminantAnalysis, 8_192, 768, 10),
    ("tied", LinearDiscriminantAnalysis, 8_192, 768, 1_000),
    ("tied", LinearDiscriminantAnalysis, 8_192, 2_048, 10),
    ("tied", LinearDiscriminantAnalysis, 1_000_000, 50, 10),
    ("full", QuadraticDiscriminantAnalysis, 8_192, 768, 10),
    ("full", QuadraticDiscriminantAnalysis, 1_000_000, 50, 10),
    ("diag", GaussianNB, 1_000_000, 50, 10),
]
PREDICTED: list[tuple[str, type[Any], int, int]] = [
    ("LDA", LinearDiscriminantAnalysis, 1_000_000, 50),
    ("LDA", LinearDiscriminantAnalysis, 65_536, 768),
    ("naive Bayes", GaussianNB, 1_000_000, 50),
    ("QDA", QuadraticDiscriminantAnalysis, 1_000_000, 50),
]

ROWS_MAPPED = 100_000


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The median time of a call, after one to warm up."""
    call()
    return median_time(call, repeats)


def batch(n_rows: int, n_features: int, n_classes: int, device: str) -> list[tuple[Any, Any]]:
    """Rows with labels, on the host and on the device."""
    import torch

    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    X = rng.standard_normal((n_rows, n_features), np.float32) + rng.standard_normal((n_classes, 1))[y]
    X = X.astype(np.float32)
    return [(X, y), (torch.asarray(X, device=device), torch.asarray(y, device=device))]


def learnt(device: str, most: int, repeats: int) -> Iterator[tuple[str, ...]]:
    """Milliseconds of a batch that is learnt, on the device and on the host."""
    for kind, estimator, n_rows, n_features, n_classes in tqdm(LEARNT, desc="learnt", leave=False):
        batches = batch(min(n_rows, most), n_features, n_classes, device)
        here, there = (
            seconds(partial(estimator().partial_fit(*rows).partial_fit, *rows), repeats) for rows in batches
        )
        shape = f"{min(n_rows, most):,} × {n_features:,}, {n_classes:,} classes"
        yield f"{kind}: {shape}", f"{there * 1e3:.2f}", f"{here * 1e3:.1f}", f"{here / there:.1f}"


def predicted(device: str, most: int, repeats: int) -> Iterator[tuple[str, ...]]:
    """Millions of rows whose probabilities take a second, on the device and on the host."""
    for name, estimator, n_rows, n_features in tqdm(PREDICTED, desc="predicted", leave=False):
        (X, y), (there, _) = batch(min(n_rows, most), n_features, 10, device)
        predict = estimator().fit(X, y).predict_proba
        rates = [len(X) / seconds(partial(predict, rows), repeats) / 1e6 for rows in (there, X)]
        yield f"{name}, {n_features} features", *map("{:.3g}".format, rates), f"{rates[0] / rates[1]:.1f}"


def mapped(device: str, most: int, sizes: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Seconds of a fit of random features, on the device and on the host."""
    (X, y), _ = batch(min(ROWS_MAPPED, most), 54, 7, device)
    for n in tqdm(sizes, desc="random features", leave=False):
        times = []
        for place in (device, None):
            RandomFeatureClassifier(features=10, device=place).fit(X[:1_000], y[:1_000])  # to warm up
            start = time.perf_counter()
            RandomFeatureClassifier(features=n, device=place).fit(X, y)
            times.append(time.perf_counter() - start)
        yield f"{n:,}", *map("{:.2f}".format, times), f"{times[1] / times[0]:.1f}"


def main() -> None:
    """Measure and keep the tables, or say why there are none."""
    parser = parser_of(__doc__, repeats=20, rows=1_000_000)
    parser.add_argument("--device", default="cuda", help="of PyTorch; default: cuda")
    parser.add_argument(
        "--mapped", type=int, nargs="+", default=[2_000, 4_000, 8_000], help="random features"
    )
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"not measured: {error}; the extra `examples` brings PyTorch")
        return
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("not measured: PyTorch sees no GPU here")
        return
    with sklearn.config_context(array_api_dispatch=True):
        arguments = options.device, options.rows, options.repeats
        tables = [
            report.table(["learnt", "device, ms", "host, ms", "ratio"], list(learnt(*arguments))),
            report.table(["predicted, million/s", "device", "host", "ratio"], list(predicted(*arguments))),
            report.table(
                ["random features", "device, s", "host, s", "ratio"],
                list(mapped(*arguments[:2], options.mapped)),
            ),
        ]
    name = torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device
    title = f"rows of float32 on {name} and on the host, medians of {options.repeats} calls"
    report.publish("devices", title, *tables, keep=not options.print_only)


if __name__ == "__main__":
    main()
