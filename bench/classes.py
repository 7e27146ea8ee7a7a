"""LDA of very many classes, from Parquet: memory.

Run as ``python -m bench.classes``. Full statistics of 20,000 classes and 400 features would be 26 GB, and
scikit-learn's LDA needed 100 GB (scikit-learn #10898); the pooled scatter is 1.3 MB.
"""

from __future__ import annotations

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


def main() -> None:
    """Measure and keep the table."""
    parser = parser_of(__doc__, rows=500_000, features=400, classes=20_000, repeats=2, threads=2)
    add_data(parser)
    options = parser.parse_args()
    limit_threads(options.threads)
    folder = data.make(options.data, options.rows, options.features, options.classes)
    name = "streamgda: LDA, fit from Parquet"
    result = contest([Contender(name, fit_lda, (folder, options.features))], options.repeats)[name]
    rows = [
        (
            name,
            f"{result.median:.1f}",
            f"{result.peak:.0f}",
            "reached" if result.peak <= 2000 else "not reached",
        )
    ]
    table = report.table(["", "median s", "peak MB above the interpreter's", "goal ≤ 2,000"], rows)
    report.publish("classes", size(options), table, keep=not options.print_only)


if __name__ == "__main__":
    main()
