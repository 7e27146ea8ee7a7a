"""Part of `bench.tables`: lists of 256 numbers in a column, beside 256 columns, DuckDB, Polars and a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import report
from bench.contest import Contender
from bench.passes import parquet_pass

PLACES = 256
CLASSES = 4


def contenders(folder: Path, n_rows: int) -> list[Contender]:
    """The passes over the same numbers, in lists and in columns."""
    lists, columns = make(folder, n_rows)
    return [
        *(
            Contender(f"{kind}: {name}", parquet_pass, (path, kind))
            for kind in ("full", "diag")
            for name, path in ((f"a list of {PLACES}", lists), (f"{PLACES} columns", columns))
        ),
        Contender(f"full: a loop over pyarrow's batches of lists of {PLACES}", by_hand, (lists,)),
        Contender(f"DuckDB: mean and variance per class, of lists of {PLACES}", duckdb_of_lists, (lists,)),
        Contender(f"Polars: mean and variance per class, of lists of {PLACES}", polars_of_lists, (lists,)),
    ]


def goals(results: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """How the passes over lists compare with those over columns."""
    return [
        report.at_most(
            f"{kind}: a list ÷ columns, of the {what}",
            getattr(results[f"{kind}: a list of {PLACES}"], name)
            / getattr(results[f"{kind}: {PLACES} columns"], name),
            1.2,
        )
        for what, name in (("processor", "processor"), ("memory", "peak"))
        for kind in ("full", "diag")
    ]


def make(folder: Path, n_rows: int) -> tuple[Path, Path]:
    """Write the two tables, unless they are there."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists, columns = folder / f"lists-{n_rows}.parquet", folder / f"columns-{n_rows}.parquet"
    if not columns.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n_rows, PLACES)).astype(np.float32), rng.integers(CLASSES, size=n_rows)
        starts = pa.array(np.arange(n_rows + 1, dtype=np.int32) * PLACES)
        listed = {"emb": pa.ListArray.from_arrays(starts, pa.array(X.ravel())), "y": y}
        pq.write_table(pa.table(listed), lists, row_group_size=1 << 15)
        apart = {f"emb_{i}": np.ascontiguousarray(X[:, i]) for i in range(PLACES)}
        pq.write_table(pa.table({**apart, "y": y}), columns, row_group_size=1 << 15)
    return lists, columns


def by_hand(path: Path) -> Callable[[], Any]:
    """Products of the rows of each class, which lose digits where means are large."""
    import numpy as np
    import pyarrow.parquet as pq

    def run() -> Any:
        sums = np.zeros((CLASSES, PLACES))
        products = np.zeros((CLASSES, PLACES, PLACES))
        for batch in pq.ParquetFile(path).iter_batches(1 << 13):
            X = batch["emb"].flatten().to_numpy().reshape(-1, PLACES).astype(np.float64)
            y = batch["y"].to_numpy()
            for k in range(CLASSES):
                own = X[y == k]
                sums[k] += own.sum(axis=0)
                products[k] += own.T @ own
        return sums, products

    return run


def duckdb_of_lists(path: Path) -> Callable[[], Any]:
    """The moments of each place, by DuckDB."""
    import duckdb

    moments = ", ".join(f"avg(emb[{i}]), var_pop(emb[{i}])" for i in range(1, PLACES + 1))
    return lambda: duckdb.sql(f"SELECT y, {moments} FROM '{path}' GROUP BY y").fetchall()


def polars_of_lists(path: Path) -> Callable[[], Any]:
    """The moments of each place, by Polars, as a stream."""
    import polars as pl

    places = [pl.col("emb").list.get(i) for i in range(PLACES)]
    moments = [
        moment.alias(f"{name}_{i}")
        for i, place in enumerate(places)
        for name, moment in (("mean", place.mean()), ("variance", place.var(0)))
    ]
    return lambda: pl.scan_parquet(path).group_by("y").agg(*moments).collect(engine="streaming")
