"""Learn from rows in which blocks of columns are missing, as joins of tables leave them.

Run as ``python -m bench.incomplete``. Each row lacks one of four blocks of columns, or none, so there are
five patterns. QDA is fitted from Parquet to the complete rows and to the incomplete ones, and, in memory,
after scikit-learn's imputations; after the iterative one to the first rows alone, since it takes hundreds of
times as long. The error is the largest difference from the model of the same rows when nothing is missing:
of a mean, in standard deviations, and of a covariance, relative to two of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from bench import data, report
from bench.arguments import add_data, parser_of, size
from bench.contest import Contender, contest, limit_threads

BLOCKS = 4
MOST_ITERATIVE = 10_000  # rows for the iterative imputation


def main() -> None:
    """Measure and keep the table."""
    parser = parser_of(__doc__, rows=2_000_000, features=50, classes=10, repeats=3, threads=2)
    add_data(parser)
    options = parser.parse_args()
    limit_threads(options.threads)
    complete = data.make(options.data, options.rows, options.features, options.classes)
    incomplete = with_holes(complete)
    few = min(options.rows, MOST_ITERATIVE)
    iterative = f"IterativeImputer + scikit-learn QDA, in memory, {few:,} rows"
    names = {
        "complete rows, from Parquet": (from_parquet, (complete,)),
        "five patterns, from Parquet": (from_parquet, (incomplete,)),
        "mean imputation + scikit-learn QDA, in memory": (after_means, (incomplete,)),
        iterative: (after_regressions, (incomplete, few)),
    }
    contenders = [Contender(name, make, arguments) for name, (make, arguments) in names.items()]
    results = contest(contenders[:-1], options.repeats) | contest(contenders[-1:], 1)
    references = dict.fromkeys(names, moments(from_parquet(complete)()))
    references[iterative] = moments(_after(complete, None, few)())
    rows = [
        (
            name,
            f"{results[name].median:.2f}",
            f"{results[name].peak:.0f}",
            *(f"{error:.2g}" for error in errors(moments(make(*arguments)()), references[name])),
        )
        for name, (make, arguments) in names.items()
    ]
    first, second, *_ = (results[name].median for name in names)
    goals = report.Goals([report.at_most("five patterns ÷ complete rows", second / first, 2.0)])
    headers = ["QDA", "median s", "peak MB", "largest error of a mean", "of a covariance"]
    table = report.table(headers, rows)
    report.publish("incomplete", size(options), table, goals, keep=not options.print_only)


def with_holes(folder: Path) -> Path:
    """A copy of the files in which each row lacks one of four blocks of columns, or none."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = folder.with_name(f"{folder.name}-incomplete")
    for number, path in enumerate(sorted(folder.rglob("*.parquet"))):
        target = copy / path.relative_to(folder)
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        table = pq.read_table(path)
        lacking = np.random.default_rng(number).integers(0, BLOCKS + 1, len(table))
        features = [name for name in table.column_names if name != "y"]
        for j, name in enumerate(features):
            values = table[name].to_numpy()
            mask = lacking == 1 + j * BLOCKS // len(features)
            table = table.set_column(
                table.column_names.index(name), name, pa.array(values, mask=mask).cast(table[name].type)
            )
        pq.write_table(table, target, row_group_size=pq.ParquetFile(path).metadata.row_group(0).num_rows)
    return copy


def from_parquet(folder: Path) -> Callable[[], Any]:
    """The fit of this project, out of core."""
    from streamgda import QuadraticDiscriminantAnalysis, scan_parquet

    options = {"missing": "marginal", "store_covariance": True}
    return lambda: QuadraticDiscriminantAnalysis(**options).fit(scan_parquet(folder, "y"))


def after_means(folder: Path) -> Callable[[], Any]:
    """The fit of scikit-learn after mean imputation."""
    from sklearn.impute import SimpleImputer

    return _after(folder, SimpleImputer)


def after_regressions(folder: Path, most: int) -> Callable[[], Any]:
    """The fit of scikit-learn to the first rows after its iterative imputation, by regressions."""
    import_module("sklearn.experimental.enable_iterative_imputer")  # which makes the import below possible
    return _after(folder, import_module("sklearn.impute").IterativeImputer, most)


def _after(folder: Path, imputer: type[Any] | None, most: int | None = None) -> Callable[[], Any]:
    import pyarrow.dataset as ds
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    dataset = ds.dataset(folder)
    table = dataset.to_table() if most is None else dataset.head(most)
    X, y = table.drop_columns("y").to_pandas().to_numpy(), table["y"].to_numpy()

    def run() -> Any:
        with warnings.catch_warnings(action="ignore"):  # imputations do not converge in ten rounds
            rows = X if imputer is None else imputer().fit_transform(X)
            return QuadraticDiscriminantAnalysis(store_covariance=True).fit(rows, y)

    return run


def moments(model: Any) -> tuple[Any, Any]:
    """Means, and covariances of maximum likelihood up to a factor of n / (n − 1)."""
    import numpy as np

    return np.asarray(model.means_), np.asarray(model.covariance_)


def errors(found: tuple[Any, Any], reference: tuple[Any, Any]) -> tuple[float, float]:
    """The largest error of a mean, and of a covariance, in standard deviations."""
    import numpy as np

    deviations = np.sqrt(np.einsum("kii->ki", reference[1]))
    units = deviations[:, :, None] * deviations[:, None, :]
    of_means = np.abs(found[0] - reference[0]) / deviations
    of_covariances = np.abs(found[1] - reference[1]) / units
    return float(of_means.max()), float(of_covariances.max())


if __name__ == "__main__":
    main()
