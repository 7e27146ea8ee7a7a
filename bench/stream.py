"""A stream: learn one batch, predict the next. For every estimator, beside others that learn from batches.

Run as ``python -m bench.stream``. All in one process, with one BLAS thread, in turn: each time in another
order, since whoever comes after a model with the same code finds it in the cache. Every contender has learnt
the same rows before. Then each time it learns a batch that it has not seen, and predicts the probabilities of
the next one. The times are means over the repeats, of processor time: not medians, since a factor that is
brought up to date is renewed every few batches. For QDA and LDA the prediction is made once more, by
densities that are then there: what it took longer the first time is finalising, and has a ratio of its own.
Learning and scoring, which no finalising makes faster, are most of a batch of 1,000 rows.

- **by eigh**: the same estimator, which takes the spectrum of each covariance anew for each batch.
- **Deep SLDA**: the streaming LDA of Hayes & Kanan (2020) in NumPy, see `bench.peers`.
- **river**: one row at a time, as a dictionary; only where it holds at most 100,000 means.

QDA is left out where its state and factors would take more than 4 GB.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from itertools import islice
from random import shuffle
from typing import Any

from bench import report
from bench.arguments import parser_of
from bench.contest import limit_threads

limit_threads(1)

import numpy as np
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB as SklearnGaussianNB
from tqdm import tqdm

from bench.peers import ByEigh, DeepSLDA, RiverGaussianNB
from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

Array = NDArray[np.float64]
Batch = tuple[Array, NDArray[np.intp]]
Step = tuple[float, float, float]
Times = dict[str, tuple[float, float, float, float]]

SHAPES = [(50, 10), (200, 100), (512, 1000), (2048, 1000)]
QDA, LDA, NB = "QDA", "LDA", "GaussianNB"
QDA_BY_EIGH, LDA_BY_EIGH = "QDA by eigh", "LDA by eigh"
SKLEARN, SLDA, RIVER = "scikit-learn GaussianNB", "Deep SLDA", "river GaussianNB"
FINALISED = {QDA, QDA_BY_EIGH, LDA, LDA_BY_EIGH}
NAMES = [QDA, QDA_BY_EIGH, LDA, LDA_BY_EIGH, SLDA, NB, SKLEARN, RIVER]
MOST_BYTES = 4e9
MOST_MEANS_OF_RIVER = 100_000
POOL = 4096  # rows that batches are cut from, over and over


def contenders(n_features: int, n_classes: int, n_rows: int) -> dict[str, Any]:
    """The models that run for a shape and a size of batches, which have learnt nothing."""
    models: dict[str, Any] = {
        LDA: LinearDiscriminantAnalysis(),
        LDA_BY_EIGH: ByEigh(LinearDiscriminantAnalysis()),
        SLDA: DeepSLDA(n_features, n_classes),
        NB: GaussianNB(),
        SKLEARN: SklearnGaussianNB(),
    }
    if qda_bytes(n_features, n_classes) <= MOST_BYTES:
        models[QDA] = QuadraticDiscriminantAnalysis()
        models[QDA_BY_EIGH] = ByEigh(QuadraticDiscriminantAnalysis())
    if n_rows == 1 and n_features * n_classes <= MOST_MEANS_OF_RIVER:
        models[RIVER] = RiverGaussianNB()
    return models


def qda_bytes(n_features: int, n_classes: int) -> float:
    """Bytes of a state of QDA, of its covariances and of their factors."""
    return 3 * 8.0 * n_classes * n_features**2


def rows_of(n_rows: int, n_features: int, n_classes: int, seed: int) -> Batch:
    """Rows of classes in turn, about random means."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(n_classes, n_features))
    codes = np.arange(n_rows) % n_classes
    return centres[codes] + rng.normal(size=(n_rows, n_features)), codes


def batches_of(pool: Batch, n_rows: int) -> Iterator[Batch]:
    """Batches of consecutive rows of the pool, without end."""
    X, y = pool
    while True:
        for start in range(0, len(X) - n_rows + 1, n_rows):
            yield X[start : start + n_rows], y[start : start + n_rows]


def measure(shape: tuple[int, int], n_rows: int, options: argparse.Namespace) -> Times:
    """Mean milliseconds that each contender takes to learn, to predict, for both, and to finalise."""
    n_features, n_classes = shape
    models = contenders(n_features, n_classes, n_rows)
    with_qda = QDA in models
    first = rows_of(max(3 * n_features, n_classes * (n_features + 50) if with_qda else 3000), *shape, 1)
    for model in models.values():
        getattr(model, "fit", model.partial_fit)(*first)
        model.predict_proba(first[0][:1])
    batches = batches_of(rows_of(POOL, *shape, 2), n_rows)
    seconds: dict[str, list[Step]] = {name: [] for name in models}
    began, batch, turns = time.process_time(), next(batches), list(models.items())
    for following in islice(batches, options.repeats):
        shuffle(turns)
        for name, model in turns:
            seconds[name].append(step(model, batch, following[0], again=name in FINALISED))
        batch = following
        if time.process_time() - began > options.seconds and len(seconds[LDA]) > 2:
            break
    return {name: means(taken) for name, taken in seconds.items()}


def step(model: Any, batch: Batch, following: Array, *, again: bool) -> Step:
    """Seconds to learn a batch, to predict the following one, and to predict it again."""
    start = time.process_time()
    model.partial_fit(*batch)
    learnt = time.process_time()
    model.predict_proba(following)
    predicted = time.process_time()
    if again:
        getattr(model, "model", model).predict_proba(following)
    return learnt - start, predicted - learnt, time.process_time() - predicted


def means(seconds: list[Step]) -> tuple[float, float, float, float]:
    """Milliseconds to learn, to predict, for both, and to finalise."""
    learn, predict, again = (1e3 * statistics.fmean(values) for values in zip(*seconds, strict=True))
    return learn, predict, learn + predict, predict - again


def timings(shape: tuple[int, int], n_rows: int, times: Times) -> tuple[str, ...]:
    """A row of the table, with cells for contenders that are left out."""
    found = ("/".join(f"{value:.3g}" for value in times[name][:2]) if name in times else "" for name in NAMES)
    return f"{shape[0]:,} × {shape[1]:,}", f"{n_rows:,}", *found


def goals(shape: tuple[int, int], n_rows: int, times: Times) -> list[tuple[str, ...]]:
    """Rows that say which goals were reached."""
    what, found = f"{shape[0]:,} × {shape[1]:,}, {n_rows:,} rows: ", []
    if shape == (50, 10) and n_rows == 1:
        learn = {name: times[name][0] / times[SKLEARN][0] for name in (QDA, LDA, NB)}
        found = [report.at_most(f"{what}learn, {name} ÷ {SKLEARN}", learn[name], 0.5) for name in learn]
    for name, peer, least in _ratios(shape, n_rows):
        if name in times and peer in times:
            ratio = times[peer][2] / times[name][2]
            found.append(report.at_least(f"{what}both, {peer} ÷ {name}", ratio, least))
        if name in times and peer in FINALISED & set(times):
            ratio = times[peer][3] / times[name][3]
            found.append(report.at_least(f"{what}finalising alone, {peer} ÷ {name}", ratio, least))
    return found


def _ratios(shape: tuple[int, int], n_rows: int) -> list[tuple[str, str, float]]:
    if n_rows == 1:
        twentieth = {QDA: (200, 100), LDA: (2048, 1000)}
        return [
            (QDA, QDA_BY_EIGH, 20 if shape == twentieth[QDA] else 3),
            (LDA, LDA_BY_EIGH, 20 if shape == twentieth[LDA] else 3),
            (LDA, SLDA, 1),
            (NB, SKLEARN, 1),
            (NB, RIVER, 1),
        ]
    return [(QDA, QDA_BY_EIGH, 3), (LDA, LDA_BY_EIGH, 3), (LDA, SLDA, 1), (NB, SKLEARN, 1)]


def main() -> None:
    """Measure every shape and size of batches, and keep the tables."""
    parser = parser_of(__doc__, repeats=200, seconds=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 32, 1000], help="rows of a batch")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="how many shapes, the least first")
    options = parser.parse_args()
    table, reached = [], []
    for shape in tqdm(SHAPES[: options.shapes], leave=False):
        for n_rows in tqdm(options.rows, leave=False):
            times = measure(shape, n_rows, options)
            table.append(timings(shape, n_rows, times))
            reached += goals(shape, n_rows, times)
    title = "ms to learn a batch / to predict the next, 1 BLAS thread"
    found = report.table(["features × classes", "rows", *NAMES], table), report.Goals(reached)
    report.publish("stream", title, *found, keep=not options.print_only)


if __name__ == "__main__":
    main()
