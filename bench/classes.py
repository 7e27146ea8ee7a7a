"""Very many classes, from Parquet: time and memory.

Run as ``python -m bench.classes``. Full statistics of 20,000 classes and 400 features would be 26 GB, and
scikit-learn's LDA needed 100 GB (scikit-learn #10898); the pooled scatter is 1.3 MB. Of a million classes,
the scores of 1,000 rows would be 8 GB; they are computed some rows at a time. No peer learns a million
classes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import data, report
from bench.arguments import add_data, parser_of, size
from bench.contest import Contender, contest, limit_threads


def fit_lda(folder: Path, features: int) -> Callable[[], Any]:
    """The fit, finalisation and the prediction of a few rows."""
    import numpy as np

    from streamgda import LinearDiscriminantAnalysis, scan_parquet

    rows = np.random.default_rng(0).normal(size=(100, features))  # nothing of the files is read untimed

    def run() -> Any:
        model = LinearDiscriminantAnalysis().fit(scan_parquet(folder, "y"))
        del model.feature_names_in_  # or scikit-learn would warn that a matrix has no names
        return model.predict(rows)

    return run


def fit_naive_bayes(folder: Path) -> Callable[[], Any]:
    """The fit and the finalisation of naive Bayes."""
    from streamgda import GaussianNB, scan_parquet

    return lambda: GaussianNB().fit(scan_parquet(folder, "y")).priors_


def rank(folder: Path, rows: int, best: int) -> Callable[[], Any]:
    """The `best` most likely classes of some rows, by a model that is there."""
    import pyarrow.dataset as ds

    from streamgda import GaussianNB, predict_dataset, scan_arrow, scan_parquet

    model = GaussianNB().fit(scan_parquet(folder, "y"))
    table = ds.dataset(folder).head(rows)

    def run() -> Any:
        with tempfile.TemporaryDirectory() as out:
            return predict_dataset(model, scan_arrow(table), out=f"{out}/ranks", columns=["label"], top=best)

    return run


def main() -> None:
    """Measure and keep the table."""
    parser = parser_of(
        __doc__, rows=500_000, features=400, classes=20_000, many=1_000_000, repeats=2, threads=2
    )
    add_data(parser)
    options = parser.parse_args()
    limit_threads(options.threads)
    folder = data.make(options.data, options.rows, options.features, options.classes)
    many = data.make(options.data, 4 * options.many, 20, options.many)
    lda = f"LDA of {options.classes:,} classes: fit from Parquet"
    fitted, ranked = (
        f"naive Bayes of {options.many:,} classes: {what}" for what in ("fit", "top 5 of 1,000")
    )
    contenders = [
        Contender(lda, fit_lda, (folder, options.features)),
        Contender(fitted, fit_naive_bayes, (many,)),
        Contender(ranked, rank, (many, 1000, 5)),
    ]
    results = [contest([one], options.repeats)[one.name] for one in contenders]
    rows = [(one.name, f"{one.median:.1f}", f"{one.processor:.1f}", f"{one.peak:.0f}") for one in results]
    table = report.table(["", "median s", "processor s", "peak MB above the set-up's"], rows)
    goals = report.Goals([report.at_most("peak MB of LDA", results[0].peak, 2000)])
    report.publish("classes", size(options), table, goals, keep=not options.print_only)


if __name__ == "__main__":
    main()
