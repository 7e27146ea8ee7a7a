"""Learn tables with categories, beside scikit-learn on encoded columns, a GROUP BY, and numbers alone.

Run as ``python -m bench.tables``. A table has ten numbers and five columns of 10 to 50 strings, and another
one fifteen numbers. The pass over the first is to take at most twice the time of the other. scikit-learn
encodes and fits data that is already in memory. DuckDB counts the rows of each class and category. The first
table is also read from CSV, its numbers alone and with its strings, where DuckDB, Polars and a loop over
Arrow's batches compute the same by class: the mean and variance of each number, the count of each string.
`bench.lists` adds a tenth of the rows with a list of 256 numbers, `bench.dates` rows with ten timestamps.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import dates, lists, report
from bench.arguments import add_data, parser_of
from bench.contest import Contender, contest, limit_threads, times_table
from bench.passes import parquet_pass

NUMBERS = 10
CATEGORIES = {f"c{size}": size for size in (10, 20, 30, 40, 50)}
CLASSES = 4


def main() -> None:
    """Measure and keep the table."""
    parser = parser_of(__doc__, rows=2_000_000, repeats=5, threads=2)
    add_data(parser)
    options = parser.parse_args()
    limit_threads(options.threads)
    folder = make(options.data / f"tables-{options.rows}", options.rows)
    mixed, numbers = folder / "mixed.parquet", folder / "numbers.parquet"
    contenders = [
        Contender(f"{kind}: {name}", parquet_pass, (path, kind))
        for kind in ("tied", "full", "diag")
        for name, path in (("10 numbers and 5 columns of strings", mixed), ("15 numbers", numbers))
    ]
    contenders += [
        Contender("DuckDB: GROUP BY class and category, from Parquet", group_by, (mixed,)),
        Contender("dask-ml: DummyEncoder and GaussianNB, from Parquet", dask_ml_nb, (mixed,)),
        Contender("scikit-learn: OneHotEncoder and LDA lsqr, in memory", one_hot_lda, (mixed,)),
        Contender("scikit-learn: OrdinalEncoder and CategoricalNB, in memory", categorical_nb, (mixed,)),
    ]
    csv = csv_of(mixed)
    contenders += [
        Contender(f"{who}, {what}, from CSV", make_pass, (csv, names))
        for what, names in (("10 numbers", []), ("10 numbers and 5 columns of strings", [*CATEGORIES]))
        for who, make_pass in (
            ("diag", statistics_of_csv),
            ("DuckDB", duckdb_of_csv),
            ("Polars", polars_of_csv),
            ("a loop by hand", by_hand_of_csv),
        )
    ]
    contenders += lists.contenders(folder, options.rows // 10)
    contenders += dates.contenders(folder, options.rows)
    results = contest(contenders, options.repeats)
    taken = {name: result.processor for name, result in results.items()}
    goals = [
        report.at_most(
            f"{kind}: categories ÷ numbers, of the processor",
            taken[f"{kind}: 10 numbers and 5 columns of strings"] / taken[f"{kind}: 15 numbers"],
            2.0,
        )
        for kind in ("tied", "full", "diag")
    ]
    goals += [*lists.goals(results), *dates.goals(results)]
    table = times_table(results, "median s", "processor s", "peak MB", what="one pass")
    title = f"{options.rows:,} rows, {CLASSES} classes"
    report.publish("tables", title, table, report.Goals(goals), keep=not options.print_only)


def make(folder: Path, n_rows: int) -> Path:
    """Write the two tables, unless they are there."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if (folder / "mixed.parquet").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    y = pa.array(rng.integers(CLASSES, size=n_rows))
    numbers = {f"x{i}": rng.normal(size=n_rows) for i in range(NUMBERS + len(CATEGORIES))}
    strings = {
        name: pa.DictionaryArray.from_arrays(
            rng.integers(size, size=n_rows).astype(np.int32), [f"{name} value {i}" for i in range(size)]
        ).dictionary_decode()
        for name, size in CATEGORIES.items()
    }
    pq.write_table(pa.table({**numbers, "y": y}), folder / "numbers.parquet", row_group_size=1 << 17)
    few = dict(list(numbers.items())[:NUMBERS])
    pq.write_table(pa.table({**few, **strings, "y": y}), folder / "mixed.parquet", row_group_size=1 << 17)
    return folder


def csv_of(mixed: Path) -> Path:
    """The table as one file of CSV, unless it is there."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    path = mixed.with_suffix(".csv")
    if not path.exists():
        pyarrow.csv.write_csv(pq.read_table(mixed), path)
    return path


def statistics_of_csv(path: Path, strings: list[str]) -> Callable[[], Any]:
    """The pass of this project over a file of text."""
    from streamgda import accumulate, scan

    return lambda: accumulate(scan(path, "y", features=["x*", *strings]), "diag")


def duckdb_of_csv(path: Path, strings: list[str]) -> Callable[[], Any]:
    """The moments of the numbers and the counts of the strings, by DuckDB, in one read."""
    import duckdb

    moments = ", ".join(f"avg(x{i}), var_pop(x{i})" for i in range(NUMBERS))
    counts = "".join(f", histogram({name})" for name in strings)
    return lambda: duckdb.sql(f"SELECT y, {moments}{counts} FROM '{path}' GROUP BY y").fetchall()


def polars_of_csv(path: Path, strings: list[str]) -> Callable[[], Any]:
    """The moments of the numbers and the counts of the strings, by Polars, as a stream."""
    import polars as pl

    x = pl.col("^x.*$")
    moments = x.mean().name.suffix("_mean"), x.var(0).name.suffix("_variance")
    counts = [pl.col(name).value_counts() for name in strings]
    return lambda: pl.scan_csv(path).group_by("y").agg(*moments, *counts).collect(engine="streaming")


def by_hand_of_csv(path: Path, strings: list[str]) -> Callable[[], Any]:
    """The sums that these are made of, batch by batch, by pyarrow and pandas."""
    import pyarrow.csv

    columns = [*(f"x{i}" for i in range(NUMBERS)), *strings, "y"]
    numbers = columns[:NUMBERS]

    def loop() -> Any:
        total: Any = None
        for batch in pyarrow.csv.open_csv(
            path, convert_options=pyarrow.csv.ConvertOptions(include_columns=columns)
        ):
            frame = batch.to_pandas()
            x, y = frame[numbers], frame["y"]
            sums = [x.groupby(y).sum(), (x**2).groupby(y).sum()]
            sums += [frame.groupby(["y", name]).size() for name in strings]
            total = (
                sums if total is None else [a.add(b, fill_value=0) for a, b in zip(total, sums, strict=True)]
            )
        return total

    return loop


def group_by(path: Path) -> Callable[[], Any]:
    """The counts that naive Bayes needs of each column with categories."""
    import duckdb

    queries = [f"SELECT y, {name}, count(*) FROM '{path}' GROUP BY ALL" for name in CATEGORIES]
    return lambda: [duckdb.sql(query).fetchall() for query in queries]


def one_hot_lda(path: Path) -> Callable[[], Any]:
    """The fit of scikit-learn to dense dummies, from a frame."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.read_parquet(path)
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False, drop="first"), list(CATEGORIES)), remainder="passthrough"
    )
    model = make_pipeline(encoder, LinearDiscriminantAnalysis(solver="lsqr"))
    return lambda: model.fit(frame.drop(columns="y"), frame["y"])


def dask_ml_nb(path: Path) -> Callable[[], Any]:
    """The naive Bayes of dask-ml, which takes dummies for numbers, out of core; its fit is lazy."""
    import dask
    import dask.dataframe as dd
    from dask_ml.naive_bayes import GaussianNB
    from dask_ml.preprocessing import Categorizer, DummyEncoder

    def run() -> Any:
        frame = dd.read_parquet(path)
        dummies = DummyEncoder().fit_transform(Categorizer().fit_transform(frame.drop(columns="y")))
        X = dummies.astype("float64").to_dask_array(lengths=True)
        model = GaussianNB(classes=range(CLASSES)).fit(X, frame["y"].to_dask_array(lengths=True))
        return dask.compute(model.theta_, model.sigma_)

    return run


def categorical_nb(path: Path) -> Callable[[], Any]:
    """The fit of scikit-learn to the codes of the columns with categories alone."""
    import pandas as pd
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    frame = pd.read_parquet(path)
    model = make_pipeline(OrdinalEncoder(), CategoricalNB())
    return lambda: model.fit(frame[list(CATEGORIES)], frame["y"])


if __name__ == "__main__":
    main()
