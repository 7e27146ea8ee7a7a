"""Which model predicts best, learnt from 1 %, 10 % and all of the rows: error, log loss and seconds.

Run as ``python -m bench.models``. The real datasets are those in the folder that the environment variable
``STREAMGDA_DATA`` names (letter, shuttle, Covertype), and scikit-learn's. Each model is learnt from random
rows, at least two of each class, and predicts rows that are held out; figures are means over several draws.
"bayes" is QDA with ``pooling="bayes"``, "student" the same with ``predictive="student"``. "grid" is
scikit-learn's QDA, whose ``reg_param`` GridSearchCV chooses among eight by five folds. The last table is of a
stream in which twenty letters appear one after the other.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.parquet as pq
from sklearn import datasets
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis as SklearnQDA
from sklearn.model_selection import GridSearchCV
from tqdm import tqdm

from bench import report
from bench.arguments import parser_of
from streamgda import (
    ClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)

SHARES = (0.01, 0.1, 1.0)
MODELS: dict[str, Callable[[], Any]] = {
    "NB": GaussianNB,
    "LDA": LinearDiscriminantAnalysis,
    "QDA": QuadraticDiscriminantAnalysis,
    "bayes": lambda: QuadraticDiscriminantAnalysis(pooling="bayes"),
    "student": lambda: QuadraticDiscriminantAnalysis(pooling="bayes", predictive="student"),
    "EDDA": GaussianDiscriminantAnalysis,
    "grid": lambda: GridSearchCV(
        SklearnQDA(), {"reg_param": [0, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.6]}, scoring="neg_log_loss", cv=5
    ),
}
STREAMED: dict[str, Callable[..., Any]] = {
    "NB": GaussianNB,
    "LDA": LinearDiscriminantAnalysis,
    "QDA": lambda **params: QuadraticDiscriminantAnalysis(singular="skip", **params),
    "QDA, shrinkage 0.1": lambda **params: QuadraticDiscriminantAnalysis(
        singular="skip", shrinkage=0.1, **params
    ),
    "bayes": lambda **params: QuadraticDiscriminantAnalysis(pooling="bayes", **params),
    "student": lambda **params: QuadraticDiscriminantAnalysis(
        pooling="bayes", predictive="student", **params
    ),
}
FEW = 0.1  # shares of the rows below it are printed alone
ROWS_OF_NEW = (1, 2, 3, 5, 10, 17, 30, 100)


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows held out, with their labels as codes."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Self:
        """Rows to learn from, and those of the rows held out whose class is among them."""
        is_learnt = np.isin(y_test, y)
        return cls(X, y, X_test[is_learnt], y_test[is_learnt])

    def part(self, share: float, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A random share of the rows to learn from, at least two of each class."""
        order = random.permutation(len(self.y))
        rank = np.empty(len(order), dtype=int)  # of each row among those of its class, in this order
        for k in np.unique(self.y):
            members = order[self.y[order] == k]
            rank[members] = np.arange(len(members))
        least = order[rank[order] < 2]
        others = order[rank[order] >= 2]
        rows = np.append(least, others[: max(0, round(share * len(order)) - len(least))])
        return self.X[rows], self.y[rows]


def splits(draws: int, most: int) -> Iterator[tuple[str, list[Split]]]:
    """The datasets, by name, split for each draw; small ones in another way each time.

    Of those with more rows to learn from than `most`, there are so many at random.
    """
    random = np.random.default_rng(0)
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, [_halved(X.astype(float), y, random) for _ in range(draws)]
    folder = os.environ.get("STREAMGDA_DATA")
    if folder:
        X, y = _table(Path(folder) / "letter.parquet", "letter")
        yield "letter", [Split.of(X[:16_000][:most], y[:16_000][:most], X[16_000:], y[16_000:])] * draws
        learn, test = (_table(Path(folder) / f"shuttle_{part}.parquet", "class") for part in ("trn", "tst"))
        yield "shuttle", [Split.of(learn[0][:most], learn[1][:most], *test)] * draws
        X, y = _table(Path(folder) / "covtype.parquet", "cover_type")
        rows = random.permutation(len(y))
        learn_rows, test_rows = rows[:most], rows[most:][:50_000]
        yield "covtype", [Split.of(X[learn_rows], y[learn_rows], X[test_rows], y[test_rows])] * draws


def _halved(X: np.ndarray, y: np.ndarray, random: np.random.Generator) -> Split:
    """Half of each class to learn from, the other half held out."""
    order = random.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    learn, test = order[::2], order[1::2]
    return Split(X[learn], y[learn], X[test], y[test])


def _table(path: Path, target: str) -> tuple[np.ndarray, np.ndarray]:
    frame = pq.read_table(path).to_pandas()
    return frame.drop(columns=target).to_numpy(dtype=float), np.unique(frame[target], return_inverse=True)[1]


@dataclass(frozen=True)
class Score:
    """The error and the log loss on rows held out, and the seconds that the fit took."""

    error: float
    log_loss: float
    seconds: float


def score(make: Callable[[], Any], X: np.ndarray, y: np.ndarray, split: Split) -> Score | None:
    """Fit a model and score it; None if the rows do not determine it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        try:
            model = make().fit(X, y)
            seconds = time.perf_counter() - start
            probabilities = model.predict_proba(split.X_test)
        except (ValueError, np.linalg.LinAlgError):
            return None
    truth = np.searchsorted(model.classes_, split.y_test)
    of_truth = probabilities[np.arange(len(truth)), truth]
    if not np.isfinite(of_truth).all():
        return None
    log_loss = float(-np.log(np.maximum(of_truth, np.finfo(float).tiny)).mean())
    return Score(float((probabilities.argmax(axis=1) != truth).mean()), log_loss, seconds)


def mean(scores: list[Score | None]) -> Score | None:
    """The mean of the draws; None if a draw did not determine the model."""
    known = [one for one in scores if one is not None]
    if len(known) < len(scores):
        return None
    return Score(*(float(np.mean([getattr(one, name) for one in known])) for name in vars(known[0])))


Results = dict[tuple[str, float], dict[str, Score | None]]


def measure(draws: int, most: int) -> tuple[Results, dict[tuple[str, float], int]]:
    """The scores of all models on all datasets and sizes, and the rows that each size means."""
    results: Results = {}
    sizes = {}
    for name, drawn in splits(draws, most):
        for share in tqdm(SHARES, desc=name, leave=False):
            random, different = np.random.default_rng(1), drawn
            if share == 1 and drawn[0] is drawn[-1]:  # all rows are the same ones each time
                different = drawn[:1]
            parts = [(*split.part(share, random), split) for split in different]
            sizes[name, share] = len(parts[0][1])
            results[name, share] = {
                model: mean([score(make, *part) for part in parts]) for model, make in MODELS.items()
            }
    return results, sizes


# ---------------------------------------------------------------------- a stream of new classes


def stream(n_new: int, n_old: int) -> list[tuple[Any, ...]] | None:
    """The accuracy on held-out rows of a new letter, after so many rows of it; means over the new letters.

    Each letter is new once all before it have been learnt. The priors are equal.
    """
    folder = os.environ.get("STREAMGDA_DATA")
    if not folder:
        return None
    X, y = _table(Path(folder) / "letter.parquet", "letter")
    learn, test = np.arange(len(y)) < 16_000, np.arange(len(y)) >= 16_000
    order = np.random.default_rng(0).permutation(26)[: n_old + n_new]
    right = {name: np.zeros(len(ROWS_OF_NEW)) for name in STREAMED}
    state = ClassStatistics()
    for k in order[:n_old]:
        state.update(X[learn & (y == k)], y[learn & (y == k)])
    for k in tqdm(order[n_old:], desc="new letters", leave=False):
        new, held_out, n_before = X[learn & (y == k)], X[test & (y == k)], 0
        for i, n_rows in enumerate(ROWS_OF_NEW):
            state.update(new[n_before:n_rows], np.full(n_rows - n_before, k))
            n_before = n_rows
            for name, make in STREAMED.items():
                right[name][i] += _share_predicted(make, state, held_out, k)
        state.update(new[n_before:], np.full(len(new) - n_before, k))
    return [(name, *(f"{value / n_new:.3f}" for value in values)) for name, values in right.items()]


def _share_predicted(make: Callable[..., Any], state: ClassStatistics, rows: np.ndarray, k: int) -> float:
    """The share of rows that a model of these statistics gives to class k."""
    n_classes = len(state.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(priors=np.full(n_classes, 1 / n_classes))
        return float((type(model).from_statistics(state, **_params(model)).predict(rows) == k).mean())


def _params(model: Any) -> dict[str, Any]:
    return {name: value for name, value in model.get_params(deep=False).items() if name != "exact"}


# ---------------------------------------------------------------------- tables


def _cells(scores: dict[str, Score | None], names: tuple[str, ...], field: str, digits: str) -> list[str]:
    found = [scores[name] for name in names]
    return ["–" if one is None else f"{getattr(one, field):{digits}}" for one in found]


def tables(
    results: Results, sizes: dict[tuple[str, float], int], streamed: list[tuple[Any, ...]] | None
) -> list[str | report.Goals]:
    """The errors and log losses, and details."""
    names = tuple(MODELS)
    rows: dict[str, list[tuple[str, ...]]] = {"few": [], "many": [], "seconds": []}
    for (name, share), scores in results.items():
        what = f"{name}, {share:.0%}", f"{sizes[name, share]:,}"
        errors, losses = _cells(scores, names, "error", ".4f"), _cells(scores, names, "log_loss", ".3f")
        cells = (f"{error} / {loss}" for error, loss in zip(errors, losses, strict=True))
        rows["few" if share < FEW else "many"].append((*what, *cells))
        rows["seconds"].append((*what, *_cells(scores, names, "seconds", ".3f")))
    headers = ["test error / log loss", "rows learnt", *names]
    parts = [
        report.table(headers, rows["many"]),
        report.table(headers, rows["few"]),
        "Seconds of the fit, in memory:\n\n" + report.table(["", *headers[1:]], rows["seconds"]),
        report.Goals(_goals(results)),
    ]
    if streamed:
        headers = ["rows of the new letter", *map(str, ROWS_OF_NEW)]
        parts.append(
            "Twenty letters appear one after the other: share of the held-out rows of a new letter that are "
            "recognised, equal priors, means over the letters:\n\n" + report.table(headers, streamed)
        )
    return parts


def _goals(results: Results) -> Iterator[tuple[str, str, str, str]]:
    for (name, share), scores in results.items():
        rivals = [one.log_loss for one in (scores["LDA"], scores["QDA"]) if one is not None]
        for model in ("bayes", "student"):
            found = scores[model]
            if found is not None and rivals:
                yield report.at_most(
                    f"{name}, {share:.0%}, log loss of {model} ÷ LDA or QDA",
                    found.log_loss / min(rivals),
                    1.02,
                )


def main() -> None:
    """Measure and keep the tables."""
    parser = parser_of(__doc__, draws=3, most=50_000, new=20, old=6)
    options = parser.parse_args()
    results, sizes = measure(options.draws, options.most)
    title = f"means over {options.draws} draws, at most {options.most:,} rows to learn from"
    main_table, *details = tables(results, sizes, stream(options.new, options.old))
    report.publish("models", title, str(main_table), *details, keep=not options.print_only)


if __name__ == "__main__":
    main()
