"""Part of `bench.tables`: ten timestamps, beside their days as ten numbers, DuckDB and Polars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import report
from bench.contest import Contender
from bench.passes import parquet_pass

COLUMNS = 10
CLASSES = 4


def contenders(folder: Path, n_rows: int) -> list[Contender]:
    """The passes over the same moments, as timestamps and as days."""
    timestamps, days = make(folder, n_rows)
    return [
        Contender(f"diag: {COLUMNS} timestamps", parquet_pass, (timestamps, "diag")),
        Contender(f"diag: their days as {COLUMNS} numbers", parquet_pass, (days, "diag")),
        Contender("DuckDB: mean and variance per class, of timestamps", duckdb_of_dates, (timestamps,)),
        Contender("Polars: mean and variance per class, of timestamps", polars_of_dates, (timestamps,)),
    ]


def goals(results: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """How the pass over timestamps compares with that over days."""
    of_dates, of_days = (
        results[f"diag: {name}"].processor
        for name in (f"{COLUMNS} timestamps", f"their days as {COLUMNS} numbers")
    )
    return [report.at_most("diag: timestamps ÷ days, of the processor", of_dates / of_days, 2.0)]


def make(folder: Path, n_rows: int) -> tuple[Path, Path]:
    """Write the two tables, unless they are there."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    timestamps, days = folder / f"timestamps-{n_rows}.parquet", folder / f"days-{n_rows}.parquet"
    if not days.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(1)
        counts = 1_767_225_600_000_000 + rng.integers(10**14, size=(COLUMNS, n_rows))
        y = pa.array(rng.integers(CLASSES, size=n_rows))
        for path, values in ((timestamps, counts.view("datetime64[us]")), (days, counts / 8.64e10)):
            columns = {f"x{i}": pa.array(one) for i, one in enumerate(values)}
            pq.write_table(pa.table({**columns, "y": y}), path, row_group_size=1 << 17)
    return timestamps, days


def duckdb_of_dates(path: Path) -> Callable[[], Any]:
    """The moments of the days, by DuckDB."""
    import duckdb

    days = [f"epoch_us(x{i}) / 8.64e10" for i in range(COLUMNS)]
    moments = ", ".join(f"avg({one}), var_pop({one})" for one in days)
    return lambda: duckdb.sql(f"SELECT y, {moments} FROM '{path}' GROUP BY y").fetchall()


def polars_of_dates(path: Path) -> Callable[[], Any]:
    """The moments of the days, by Polars, as a stream."""
    import polars as pl

    days = pl.col("^x.*$").dt.epoch("us") / 8.64e10
    moments = days.mean().name.suffix("_mean"), days.var(0).name.suffix("_variance")
    return lambda: pl.scan_parquet(path).group_by("y").agg(*moments).collect(engine="streaming")
