"""Choose between candidates by cross-validation, beside scikit-learn's `GridSearchCV` and one fit.

Run as ``python -m bench.search``. A search of QDA with 5 folds and 40 candidates (ten of `reg_param` by four
of `shrinkage`) reads Parquet once, scored by the joint log-likelihood. Scored by the accuracy of rows, it
reads twice and has fewer candidates, so that a run does not take too long; the table says how many. Both
stand beside one pass for one fit, and beside one pass that evaluates one model: a row is held out once by
each candidate, so a search by accuracy is to take at most two fits and as many evaluations as candidates.

`GridSearchCV` of scikit-learn's QDA has its rows in memory, which is not counted, and the same folds; so has
that of dask-ml, which runs the fits on two threads. It fits
each candidate to four fifths of the rows, five times, so it is given fewer candidates and fewer rows, and
what is compared is the time for each candidate and row; the table says how many of both it had. It takes
`reg_param` alone; the accuracy of scikit-learn's default scorer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import data, report
from bench.arguments import add_data, parser_of, size
from bench.contest import Contender, Result, cells, contest, limit_threads
from bench.passes import parquet_pass

FOLDS = 5
LIKELIHOOD = "streamgda: search, joint log-likelihood, one read"
LIKELIHOOD_OF_ONE = "streamgda: one candidate, joint log-likelihood, one read"
ACCURACY = "streamgda: search, accuracy, two reads"
ACCURACY_OF_ONE = "streamgda: one candidate, accuracy, two reads"
FIT = "streamgda: one fit (QDA)"
EVALUATE = "streamgda: evaluate one model"
PEER = "scikit-learn: GridSearchCV of QDA, in memory"
DASK_ML = "dask-ml: GridSearchCV of the same, threads"


def grid(candidates: int) -> dict[str, list[Any]]:
    """So many candidates, a multiple of four; or one."""
    if candidates == 1:
        return {"reg_param": [0.1], "shrinkage": [None]}
    numbers = candidates // 4
    return {"reg_param": [i / numbers for i in range(numbers)], "shrinkage": [None, 0.1, 0.2, 0.5]}


def search(folder: Path, candidates: int, scoring: str) -> Callable[[], Any]:
    """A search over a source, planning included."""
    parquet_pass(folder, "full")  # imports what is used
    from streamgda import QuadraticDiscriminantAnalysis, StatisticsSearchCV, scan_parquet

    found = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), grid(candidates), cv=FOLDS, scoring=scoring)
    return lambda: found.fit(scan_parquet(folder, "y"), scheduler="threads")


def fit(folder: Path) -> Callable[[], Any]:
    """One pass and the model of it."""
    parquet_pass(folder, "full")
    from streamgda import QuadraticDiscriminantAnalysis, accumulate, scan_parquet

    def run() -> Any:
        statistics = accumulate(scan_parquet(folder, "y"), "full", scheduler="threads")
        return QuadraticDiscriminantAnalysis.from_statistics(statistics)

    return run


def evaluate_one(folder: Path) -> Callable[[], Any]:
    """One pass that scores all rows by one model."""
    import streamgda

    model = fit(folder)()
    return lambda: streamgda.evaluate(model, streamgda.scan_parquet(folder, "y"), scheduler="threads")


def grid_search(folder: Path, rows: int, candidates: int, library: str) -> Callable[[], Any]:
    """The search of another library, on the first rows in memory, with the same kind of folds."""
    import importlib

    import pyarrow.parquet as pq
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    from streamgda import HashedKFold

    table = pq.read_table(folder).slice(0, rows)
    y = table.column("y").to_numpy()
    X = table.drop_columns(["y"]).to_pandas().to_numpy()
    numbers = [(i + 1) / (candidates + 1) for i in range(candidates)]
    found = importlib.import_module(f"{library}.model_selection").GridSearchCV(
        QuadraticDiscriminantAnalysis(), {"reg_param": numbers}, cv=HashedKFold(FOLDS), refit=False
    )
    return functools.partial(found.fit, X, y)


def contenders(folder: Path, work: dict[str, tuple[int, int]]) -> list[Contender]:
    """All that the table compares."""
    return [
        Contender(FIT, fit, (folder,)),
        Contender(EVALUATE, evaluate_one, (folder,)),
        Contender(LIKELIHOOD_OF_ONE, search, (folder, 1, "log_likelihood")),
        Contender(LIKELIHOOD, search, (folder, work[LIKELIHOOD][1], "log_likelihood")),
        Contender(ACCURACY_OF_ONE, search, (folder, 1, "accuracy")),
        Contender(ACCURACY, search, (folder, work[ACCURACY][1], "accuracy")),
        Contender(PEER, grid_search, (folder, *work[PEER], "sklearn")),
        Contender(DASK_ML, grid_search, (folder, *work[DASK_ML], "dask_ml")),
    ]


def times_table(results: dict[str, Result], work: dict[str, tuple[int, int]]) -> str:
    """Every contender: rows, candidates, median, spread, time for a candidate and a million rows, memory."""
    rows = []
    for name, result in results.items():
        n_rows, candidates = work[name]
        each = result.median / candidates / n_rows * 1e6
        median, spread, peak = cells(result, "median s", "min–max s", "peak MB")
        rows.append((name, f"{n_rows:,}", candidates, median, spread, f"{each:.4f}", peak))
    headers = ["contender", "rows", "candidates", "median s", "min–max s", "s per candidate and 10⁶ rows"]
    return report.table([*headers, "peak MB"], rows)


def goals(results: dict[str, Result], work: dict[str, tuple[int, int]]) -> report.Goals:
    """The ratios that were to be reached, and whether they were."""
    seconds = {name: result.median for name, result in results.items()}

    def each(name: str) -> float:
        n_rows, candidates = work[name]
        return seconds[name] / n_rows / candidates

    candidates = work[ACCURACY][1]
    expected = 2 * seconds[FIT] + candidates * seconds[EVALUATE]
    rows = [
        report.at_most("search by log-likelihood ÷ one fit", seconds[LIKELIHOOD] / seconds[FIT], 2),
        report.at_most(
            f"search by accuracy ÷ (2 fits + {candidates} evaluations)", seconds[ACCURACY] / expected, 1
        ),
        report.at_least(
            "GridSearchCV ÷ search by log-likelihood, per candidate and row",
            each(PEER) / each(LIKELIHOOD),
            50,
        ),
        report.at_least(
            "GridSearchCV ÷ search by accuracy, per candidate and row", each(PEER) / each(ACCURACY), 50
        ),
    ]
    return report.Goals(rows)


def main() -> None:
    """Measure, print, and keep the results."""
    made = parser_of(
        __doc__,
        rows=2_000_000,
        features=50,
        classes=10,
        repeats=3,
        candidates=40,
        accuracy_candidates=8,
        peer_rows=200_000,
        peer_candidates=4,
        threads=2,
    )
    add_data(made)
    options = made.parse_args()
    limit_threads(options.threads)
    folder = data.make(options.data, options.rows, options.features, options.classes)
    peer_rows = min(options.peer_rows, options.rows)
    ours = {FIT: 1, EVALUATE: 1, LIKELIHOOD_OF_ONE: 1, ACCURACY_OF_ONE: 1}
    ours |= {LIKELIHOOD: options.candidates, ACCURACY: options.accuracy_candidates}
    work = {name: (options.rows, candidates) for name, candidates in ours.items()}
    work |= dict.fromkeys((PEER, DASK_ML), (peer_rows, options.peer_candidates))
    results = contest(contenders(folder, work), options.repeats)
    title = f"{size(options)}, {FOLDS} folds, {options.threads} threads"
    tables = times_table(results, work), goals(results, work)
    report.publish("search", title, *tables, keep=not options.print_only)


if __name__ == "__main__":
    main()
