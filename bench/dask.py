"""What Dask costs, and what other libraries on Dask or Spark take for the same data.

Run as ``python -m bench.dask``. Every contender has the same two cores. The cluster, the Spark session
and dask-ml's arrays are set up before the clock runs; planning a pass is in its time.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import data, report
from bench.arguments import add_data, add_growth, parser_of, size
from bench.contest import Contender, Result, contest, limit_threads, times_table
from bench.passes import BLAS, SCAN_GROUPS, blas_products, growth, parquet_pass, scan_row_groups

LOOP = "streamgda: plain loop over the blocks, 1 thread"
SYNCHRONOUS = "streamgda: Dask graph, 1 thread"
THREADS = "streamgda: Dask graph, 2 threads"
CLUSTER = "streamgda: cluster, 2 processes of 1 thread"
DIAG = "streamgda: diag statistics, 2 threads"
ZARR_CHUNKS = (8_192, 16_384, 65_536)
ZARR = {rows: f"streamgda: Zarr in chunks of {rows:,} rows, 2 threads" for rows in ZARR_CHUNKS}
ZARR_READ = {rows: f"Zarr: bare read of chunks of {rows:,} rows, 2 threads" for rows in ZARR_CHUNKS}
DASK_ML = "dask-ml: GaussianNB, from Zarr"
DASK_FRAME = "dask.dataframe: mean and var per class, from Parquet"
SPARK = "Spark MLlib: GaussianNB, local[2], from Parquet"


def plain_loop(folder: Path) -> Callable[[], Any]:
    """The same splits, blocks and merges, one after the other, without Dask."""
    from streamgda import ClassStatistics, scan_parquet
    from streamgda.jobs.passes.accumulate import accumulate_splits
    from streamgda.statistics.kernels.blas import single_blas_thread

    def run() -> Any:
        splits = scan_parquet(folder, "y").splits()
        with single_blas_thread():
            return sum(accumulate_splits([split], ClassStatistics()) for split in splits)

    return run


class ClusterPass:
    """A pass on worker processes, which are there until `close`."""

    def __init__(self, folder: Path, processes: int) -> None:
        from distributed import Client, LocalCluster

        limit_threads(1)  # each worker has one; together they have as many as the others
        self.folder = folder
        self.cluster = LocalCluster(n_workers=processes, threads_per_worker=1, dashboard_address=":0")
        self.client = Client(self.cluster)

    def __call__(self) -> Any:
        """One pass."""
        from streamgda import accumulate, scan_parquet

        return accumulate(scan_parquet(self.folder, "y"), scheduler=self.client)

    def close(self) -> None:
        """Stop the workers."""
        self.client.close()
        self.cluster.close()


def zarr_pass(folder: Path) -> Callable[[], Any]:
    """A pass over the same rows in Zarr."""
    from streamgda import accumulate, scan_zarr

    return lambda: accumulate(scan_zarr(folder), scheduler="threads")


def zarr_read(folder: Path, threads: int) -> Callable[[], Any]:
    """The same chunks read and thrown away."""
    import zarr

    def read(start: int) -> int:
        group = zarr.open_group(folder, mode="r")
        stop = start + group["X"].chunks[0]
        return len(group["X"][start:stop]) + len(group["y"][start:stop])

    def run() -> int:
        array = zarr.open_group(folder, mode="r")["X"]
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(read, range(0, array.shape[0], array.chunks[0])))

    return run


def dask_ml(folder: Path, classes: int) -> Callable[[], Any]:
    """dask-ml's GaussianNB; its fit is lazy, so its parameters are computed."""
    import dask
    import dask.array as da
    from dask_ml.naive_bayes import GaussianNB

    X, y = da.from_zarr(folder / "X"), da.from_zarr(folder / "y")

    def run() -> Any:
        model = GaussianNB(classes=range(classes)).fit(X, y)
        return dask.compute(model.theta_, model.sigma_)

    return run


def dask_frame(folder: Path) -> Callable[[], Any]:
    """What one would write with dask.dataframe."""
    import dask.dataframe as dd

    return lambda: dd.read_parquet(folder).groupby("y").agg(["mean", "var"]).compute(scheduler="threads")


def spark(folder: Path, features: int, threads: int) -> Callable[[], Any]:
    """Spark's GaussianNB."""
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local[{threads}]")
        .config("spark.driver.memory", "6g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    assembler = VectorAssembler(inputCols=[f"x{j}" for j in range(features)], outputCol="features")
    rows = assembler.transform(session.read.parquet(str(folder))).select("features", "y")
    return lambda: NaiveBayes(modelType="gaussian", labelCol="y").fit(rows)


def as_zarr(parquet: Path, rows_per_chunk: int) -> Path:
    """The same rows as a Zarr group, uncompressed: random digits do not compress."""
    import zarr

    target = parquet.with_name(f"{parquet.name}-{rows_per_chunk}.zarr")
    if not target.exists():
        X, y = data.load(parquet)
        with data.filled(target) as unfinished:
            group = zarr.open_group(unfinished, mode="w")
            for name, values in (("X", X), ("y", y)):
                chunks = (rows_per_chunk, *values.shape[1:])
                group.create_array(name, data=values, chunks=chunks, compressors=None)
    return target


def contenders(folder: Path, options: argparse.Namespace) -> list[Contender]:
    """All that the table compares."""
    rows, features, classes, threads = options.rows, options.features, options.classes, options.threads
    groups = {size: as_zarr(folder, size) for size in ZARR_CHUNKS}
    found = [
        Contender(SCAN_GROUPS, scan_row_groups, (folder, threads)),
        Contender(BLAS, blas_products, (rows, features, classes, threads)),
        Contender(LOOP, plain_loop, (folder,)),
        Contender(SYNCHRONOUS, parquet_pass, (folder, "full", "synchronous")),
        Contender(THREADS, parquet_pass, (folder, "full", "threads")),
        Contender(CLUSTER, ClusterPass, (folder, threads)),
        *(Contender(ZARR_READ[size], zarr_read, (group, threads)) for size, group in groups.items()),
        *(Contender(ZARR[size], zarr_pass, (group,)) for size, group in groups.items()),
        Contender(DIAG, parquet_pass, (folder, "diag", "threads")),
        Contender(DASK_ML, dask_ml, (groups[ZARR_CHUNKS[-1]], classes)),
        Contender(DASK_FRAME, dask_frame, (folder,)),
    ]
    if shutil.which("java"):
        found.append(Contender(SPARK, spark, (folder, features, threads)))
    return found


def goals(results: dict[str, Result]) -> report.Goals:
    """The ratios that were to be reached, and whether they were."""
    time = {name: result.median for name, result in results.items()}
    table = [
        report.at_most("graph ÷ plain loop, 1 thread", time[SYNCHRONOUS] / time[LOOP], 1.1),
        report.at_least("2 threads ÷ cluster of 2 processes", time[THREADS] / time[CLUSTER], 0.85),
        *(
            report.at_most(
                f"Zarr ÷ (bare read + BLAS), chunks of {rows:,} rows",
                time[ZARR[rows]] / (time[ZARR_READ[rows]] + time[BLAS]),
                1.5,
            )
            for rows in ZARR_CHUNKS
        ),
        *(
            report.at_least(f"{name.split(':')[0]} ÷ diag", time[name] / time[DIAG], 1)
            for name in (DASK_ML, DASK_FRAME, SPARK)
            if name in time
        ),
    ]
    return report.Goals(table)


def layouts(folder: Path, options: argparse.Namespace) -> tuple[str, report.Goals]:
    """The time of a row in layouts that are hard to read, beside the standard one and a bare scan of each."""
    width = {"features": options.features, "classes": options.classes}
    many = data.make_layout(options.data, files=options.files, rows_per_file=1000, **width)
    one = data.make_layout(options.data, files=1, rows_per_file=options.rows_in_one, **width)
    found_in = {
        "standard": (folder, options.rows),
        f"{options.files:,} files of 1,000 rows": (many, options.files * 1000),
        f"1 row group of {options.rows_in_one:,} rows": (one, options.rows_in_one),
    }
    found = []
    for name, (path, _) in found_in.items():
        found.append(Contender(name, parquet_pass, (path, "full", "threads")))
        found.append(Contender(f"{name}: scan", scan_row_groups, (path, options.threads)))
    results = contest(found, options.repeats)
    standard = results["standard"].median / options.rows
    rows, goals = [], []
    for name, (_, n_rows) in found_in.items():
        per_row = results[name].median / n_rows
        scan = results[f"{name}: scan"].median / n_rows
        peak = f"{results[name].peak:.0f}"
        rows.append((name, f"{1e9 * per_row:.0f}", f"{1e9 * scan:.0f}", f"{per_row / standard:.2f}", peak))
        goals.append(report.at_most(f"a row of {name} ÷ standard", per_row / standard, 2))
    headers = ["layout", "ns per row", "bare pyarrow scan, ns per row", "÷ standard", "peak MB"]
    return report.table(headers, rows), report.Goals(goals[1:])


def main() -> None:
    """Run the contest and keep its tables."""
    parser = parser_of(__doc__, rows=2_000_000, features=50, classes=10, repeats=7, threads=2)
    add_data(parser)
    add_growth(parser)
    parser.add_argument("--files", type=int, default=1000, help="small files")
    parser.add_argument("--rows-in-one", type=int, default=5_000_000, help="rows of the one large row group")
    options = parser.parse_args()
    limit_threads(options.threads)
    folder = data.make(options.data, options.rows, options.features, options.classes)
    results = contest(contenders(folder, options), options.repeats)
    title = f"{size(options)}, {options.threads} threads"
    details = [] if SPARK in results else ["Spark was skipped: no Java was found."]
    details += [goals(results), *growth(options), *layouts(folder, options)]
    report.publish(
        "dask", title, times_table(results, "median s", "min–max s"), *details, keep=not options.print_only
    )


if __name__ == "__main__":
    main()
