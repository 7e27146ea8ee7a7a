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


def blas_products(rows: int, features: int, classes: int, threads: int) -> Callable[[], Any]:
    """The products that full statistics take, on numbers in cache: what BLAS alone costs."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    from streamgda.blocks.block import rows_per_block

    size = rows_per_block(features)
    block = np.random.default_rng(0).normal(size=(features, max(1, size // classes)))
    products = rows // block.shape[1]

    def multiply(count: int) -> None:
        for _ in range(count):
            block @ block.T

    def run() -> None:
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
            list(pool.map(multiply, [products // threads] * threads))

    return run


def growth_table(options: argparse.Namespace) -> str:
    """Time and peak memory of full statistics for more and more rows."""
    rows = []
    for millions in options.scale:
        folder = data.make(options.data, int(millions * 1e6), options.features, options.classes)
        name = f"{millions:g} million"
        result = contest([Contender(name, parquet_pass, (folder, "full"))], options.repeats)[name]
        rows.append((name, f"{result.median:.3f}", f"{millions / result.median:.2f}", f"{result.peak:.0f}"))
    return report.table(["rows", "median s", "million rows/s", "peak MB above the interpreter's"], rows)
