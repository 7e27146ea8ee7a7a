"""What privacy costs: the error of models of private statistics, by epsilon, beside models of the rows.

Run as ``python -m bench.private``. The datasets are those in the folder that the environment variable
``STREAMGDA_DATA`` names: letter, Covertype and, if it is there, adult; rows are learnt and held out as in
`bench.models`. The bounds of a column are its least and largest value, as if these were public, and −1 and 1
of a column of zeros and ones, so that zeros add nothing. The clip is √d / 2, half of the longest norm, which
needs no look at the rows; δ is 1e-5. Figures are means over draws of OpenDP's noise.
diffprivlib has naive Bayes alone, and gets the same bounds and ε where it can be imported: 0.6.6 cannot with
scikit-learn 1.9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench import report
from bench.arguments import parser_of
from bench.models import Split, _table, splits
from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    private_statistics,
)

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-5
MODELS: dict[str, tuple[type[Any], dict[str, Any], str]] = {
    "LDA": (LinearDiscriminantAnalysis, {}, "tied"),
    "QDA, pooling='bayes'": (QuadraticDiscriminantAnalysis, {"pooling": "bayes"}, "full"),
    "naive Bayes": (GaussianNB, {}, "diag"),
}
GOALS = {0.1: 0.72, 0.3: 0.46, 1.0: 0.35, 3.0: 0.325}  # of LDA on letter
OF_DIFFPRIVLIB = "diffprivlib: naive Bayes"


def datasets(most: int) -> Iterator[tuple[str, Split]]:
    """The datasets by name, split as `bench.models` splits them."""
    for name, drawn in splits(1, most):
        if name in {"letter", "covtype"}:
            yield name, drawn[0]
    adult = Path(os.environ.get("STREAMGDA_DATA", ".")) / "adult.parquet"
    if adult.exists():
        X, y = _table(adult, "income")
        yield "adult", Split.of(X[:32_561][:most], y[:32_561][:most], X[32_561:], y[32_561:])


def error_of(name: str, split: Split, epsilon: float) -> float:
    """The error on rows held out of a model of private statistics, with new noise."""
    model, params, kind = MODELS[name]
    state = private_statistics(
        split.X,
        split.y,
        epsilon=epsilon,
        delta=DELTA,
        bounds=bounds(split),
        clip=split.X.shape[1] ** 0.5 / 2,
        classes=np.unique(split.y),
        covariance_type=kind,
    )
    if not len(state.classes):
        return 1 - float(np.bincount(split.y_test).max()) / len(split.y_test)
    return 1 - float(model.from_statistics(state, **params).score(split.X_test, split.y_test))


def bounds(split: Split) -> np.ndarray:
    """The least and the largest value of each column; −1 and 1 of a column of zeros and ones."""
    low, high = split.X.min(axis=0), split.X.max(axis=0)
    is_binary = (low >= 0) & (high <= 1)
    return np.stack([np.where(is_binary, -1, low), np.where(is_binary, 1, high)], axis=1)


def diffprivlib_error() -> Callable[[Split, float], float] | None:
    """The error of diffprivlib's naive Bayes; None, and why, where it cannot be imported."""
    try:
        models = import_module("diffprivlib.models")
    except ImportError as error:
        print(f"diffprivlib is left out: {error}")
        return None

    def error_of_peer(split: Split, epsilon: float) -> float:
        limits = tuple(bounds(split).T)
        peer = models.GaussianNB(epsilon=epsilon, bounds=limits).fit(split.X, split.y)
        return 1 - float(peer.score(split.X_test, split.y_test))

    return error_of_peer


def main() -> None:
    """Measure and keep the table."""
    parser = parser_of(__doc__, draws=5, most=100_000)
    options = parser.parse_args()
    rows, goals, peer = [], [], diffprivlib_error()
    for dataset, split in datasets(options.most):
        what = f"{dataset}, {len(split.y):,}"
        for name, (model, params, _) in MODELS.items():
            errors = [
                np.mean([error_of(name, split, epsilon) for _ in range(options.draws)])
                for epsilon in tqdm(EPSILONS, desc=f"{dataset}, {name}", leave=False)
            ]
            open_error = 1 - model(**params).fit(split.X, split.y).score(split.X_test, split.y_test)
            rows.append((what, name, *(f"{error:.3f}" for error in (*errors, open_error))))
            if dataset == "letter" and name == "LDA":
                found = dict(zip(EPSILONS, errors, strict=True))
                goals = [
                    report.at_most(f"letter, LDA at ε = {e:g}", found[e], most) for e, most in GOALS.items()
                ]
        if peer is not None:
            errors = [np.mean([peer(split, e) for _ in range(options.draws)]) for e in EPSILONS]
            rows.append((what, OF_DIFFPRIVLIB, *(f"{error:.3f}" for error in errors), ""))
    headers = ["rows learnt", "error of", *(f"ε = {e:g}" for e in EPSILONS), "not private"]
    title = f"error on rows held out, δ = {DELTA:g}, means over {options.draws} draws"
    table = report.table(headers, rows)
    report.publish("private", title, table, report.Goals(goals), keep=not options.print_only)


if __name__ == "__main__":
    main()
