"""What more than one benchmark times: a pass over Parquet, and its parts: a bare scan, bare BLAS products."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import data, report
from bench.contest import Contender, contest

SCAN_GROUPS = "pyarrow: scan, a thread per row group"
SCAN_TUNED = "pyarrow: scan, read as streamgda reads"
DUCKDB_VARIANCE = "DuckDB: avg and var_pop per class, from Parquet"
POLARS = "Polars: mean and var per class, from Parquet"
BLAS = "NumPy: one product per class and block"


def parquet_pass(folder: Path, kind: Any, scheduler: str = "threads") -> Callable[[], Any]:
    """A pass of this project on one of Dask's local schedulers, planning included."""
    for module in ("dask.threaded", "dask.delayed", "pyarrow.dataset", "pyarrow.parquet"):
        importlib.import_module(module)
    from streamgda import accumulate, scan_parquet

    return lambda: accumulate(scan_parquet(folder, "y"), kind, scheduler=scheduler)


def scan_row_groups(folder: Path, threads: int) -> Callable[[], Any]:
    """What pyarrow needs to decode every column, each row group by one of the threads."""
    import pyarrow.parquet as pq

    groups = [
        (path, i) for path in sorted(folder.iterdir()) for i in range(pq.read_metadata(path).num_row_groups)
    ]

    def read(group: tuple[Path, int]) -> int:
        return pq.ParquetFile(group[0]).read_row_group(group[1], use_threads=False).num_rows

    def run() -> int:
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(read, groups))

    return run


def scan_as_we_do(folder: Path, threads: int) -> Callable[[], Any]:
    """The same with the batch and buffer sizes of this project, all columns side by side."""
    import pyarrow.parquet as pq

    from streamgda.data.sources.files.row_groups import read_buffer, rows_per_read

    n_columns = len(pq.read_schema(min(folder.iterdir())).names)

    def read(path: Path) -> int:
        parquet = pq.ParquetFile(path, buffer_size=read_buffer(n_columns), pre_buffer=False)
        batches = parquet.iter_batches(rows_per_read(n_columns - 1), use_threads=False)
        return sum(batch.num_rows for batch in batches)

    def run() -> int:
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(read, sorted(folder.iterdir())))

    return run


def blas_products(
    rows: int, features: int, classes: int, threads: int, kind: str = "full"
) -> Callable[[], Any]:
    """The products that statistics of a kind take, on numbers in cache: what BLAS alone costs.

    Full statistics take a product for each class, of 256 rows and more: shorter ones cost calls, and no more
    arithmetic. Tied ones take one for all classes. Diag ones take the squares of the rows alone. In the end
    the arrays of the state are written once, and tied statistics take the product of the means.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    from streamgda.data.blocks.block import rows_per_block

    together = classes if kind == "full" else 1
    length = min(rows, max(256, rows_per_block(features) // together))
    block = np.random.default_rng(0).normal(size=(features, length))
    products = max(rows // length, threads)

    def multiply(count: int) -> None:
        for _ in range(count):
            if kind == "diag":
                np.einsum("ij,ij->i", block, block)
            else:
                block @ block.T

    def run() -> None:
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
            list(pool.map(multiply, [products // threads] * threads))
            means, _low_parts = np.ones((2, classes, features))
            if kind == "tied":
                means.T @ means
            else:
                np.ones((classes, features) if kind == "diag" else (classes, features, features))

    return run


def duckdb_variance(folder: Path, features: int, threads: int) -> Callable[[], Any]:
    """Mean and variance for each class and column."""
    columns = ", ".join(f"avg(x{j}), var_pop(x{j})" for j in range(features))
    return duckdb_query(f"SELECT y, {columns} FROM '{folder}/*.parquet' GROUP BY y", threads)


def duckdb_query(query: str, threads: int) -> Callable[[], Any]:
    """A query and the fetching of its rows."""
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    return lambda: connection.execute(query).fetchall()


def polars_variance(folder: Path) -> Callable[[], Any]:
    """The same in Polars' lazy engine, streaming."""
    import polars as pl

    columns = pl.all().exclude("y")
    query = (
        pl.scan_parquet(folder / "*.parquet")
        .group_by("y")
        .agg(columns.mean().name.suffix("_mean"), columns.var(ddof=0).name.suffix("_var"))
    )
    return lambda: query.collect(engine="streaming")


def growth(options: argparse.Namespace) -> tuple[str, str, report.Goals]:
    """Peak memory of full statistics for more and more rows, as a sentence, with times, and as a goal."""
    rows, peaks = [], []
    for millions in options.scale:
        folder = data.make(options.data, int(millions * 1e6), options.features, options.classes)
        name = f"{millions:g} million"
        result = contest([Contender(name, parquet_pass, (folder, "full"))], options.repeats)[name]
        rows.append((name, f"{result.median:.3f}", f"{millions / result.median:.2f}", f"{result.peak:.0f}"))
        peaks.append(result.peak)
    what = f"peak memory of {rows[-1][0]} rows ÷ {rows[0][0]}"
    table = report.table(["rows", "median s", "million rows/s", "peak MB above the interpreter's"], rows)
    told = "; ".join(f"{peak:.0f} MB for {row[0]}" for row, peak in zip(rows, peaks, strict=True))
    return (
        f"Peak memory of full statistics above the interpreter's: {told}.",
        table,
        report.Goals([report.at_most(what, peaks[-1] / peaks[0], 1.25)]),
    )
