"""Passes over an object store, beside bare scans of the same columns: time, requests, bytes and memory.

Run as ``python -m bench.objectstore``. A small S3 server on loopback (`bench.object_store_stub`) answers each
request after a given latency, and counts. Each contender has a process of its own, makes its filesystem anew
in each run, and runs once to warm up. The server and the contenders share the cores of the machine, so at
0 ms the server is part of what is timed. DuckDB is not among them: its package from PyPI has no httpfs.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from bench import data, report
from bench.arguments import add_data, parser_of
from bench.contest import Contender, limit_threads, memory
from bench.object_store_stub import CREDENTIALS, ObjectStore, ask

OURS, OURS_FSSPEC = "streamgda: diag, pyarrow's S3", "streamgda: diag, s3fs"
DATASET, PRE_BUFFER = "pyarrow: dataset scan", "pyarrow: iter_batches, pre_buffer"
DASK = "dask.dataframe: sums"
OURS_ZARR, ZARR_READ = "streamgda: diag", "zarr: read"
MOST = {0.0: 2.0, 5.0: 1.6, 20.0: 1.3, 100.0: 1.3}  # times of pyarrow's dataset scan, by latency
GROUPS = (10_000, 100_000, 1_000_000)
FEW = 5

# ---------------------------------------------------------------------- data


def make(home: Path, options: argparse.Namespace) -> None:
    """Write the layouts into a bucket, if that is not done already."""
    rng = np.random.default_rng(0)
    rows, features = options.rows, options.features
    for length in GROUPS:
        if not (target := home / "rows" / groups_name(length)).exists():
            with data.filled(target) as folder:
                table = pa.table({**_columns(rng, rows, features), "y": rng.integers(1, 5, rows)})
                pq.write_table(table, folder / "1.parquet", row_group_size=length, use_dictionary=["y"])
    data.make_layout(home / "rows", files=options.files, rows_per_file=1_000, features=features, classes=5)
    for name in ("zarr-v2", "zarr-v3", "zarr-sharded"):
        if not (target := home / "rows" / name).exists():
            with data.filled(target) as folder:
                _write_group(folder, name, rng.normal(size=(rows, features)), rng.integers(1, 5, rows))


def _columns(rng: np.random.Generator, rows: int, features: int) -> dict[str, Any]:
    return {f"x{j}": rng.normal(size=rows) for j in range(features)}


def _write_group(folder: Path, name: str, X: Any, y: Any) -> None:
    import zarr

    group = zarr.open_group(folder, mode="w", zarr_format=2 if name.endswith("v2") else 3)
    length = min(10_000, len(y))
    shard = 10 * length if name.endswith("sharded") else None
    for key, values in (("X", X), ("y", y)):
        others = values.shape[1:]
        group.create_array(
            key, data=values, chunks=(length, *others), shards=shard and (shard, *others), compressors=None
        )


def groups_name(length: int) -> str:
    """The folder of a file with row groups of this length."""
    return f"groups-of-{length}"


# ---------------------------------------------------------------------- contenders


def filesystem(endpoint: str, library: str) -> Any:
    """A filesystem that knows nothing yet."""
    if library == "pyarrow":
        import pyarrow.fs as pafs

        return pafs.S3FileSystem(endpoint_override=endpoint, **CREDENTIALS)
    import s3fs

    return s3fs.S3FileSystem(key="k", secret="s", endpoint_url=endpoint, skip_instance_cache=True)


def ours(endpoint: str, path: str, library: str, features: Sequence[str]) -> Callable[[], Any]:
    """A pass, planning included."""
    from streamgda import accumulate, scan_parquet

    def run() -> Any:
        source = scan_parquet(path, "y", features=features, filesystem=filesystem(endpoint, library))
        return accumulate(source, "diag", scheduler="threads")

    return run


def dataset(endpoint: str, path: str, columns: Sequence[str]) -> Callable[[], Any]:
    """What pyarrow's scanner needs to decode these columns."""
    import pyarrow.dataset as ds

    def run() -> int:
        found = ds.dataset(path, filesystem=filesystem(endpoint, "pyarrow"))
        return sum(batch.num_rows for batch in found.to_batches(columns=columns))

    return run


def pre_buffer(endpoint: str, path: str, columns: Sequence[str]) -> Callable[[], Any]:
    """The files one after another, as ParquetFile reads them."""
    import pyarrow.fs as pafs

    def run() -> int:
        at = filesystem(endpoint, "pyarrow")
        paths = [info.path for info in at.get_file_info(pafs.FileSelector(path))]
        files = (pq.ParquetFile(one, filesystem=at, pre_buffer=True) for one in paths)
        return sum(batch.num_rows for file in files for batch in file.iter_batches(columns=columns))

    return run


def dask_sums(endpoint: str, path: str, columns: Sequence[str]) -> Callable[[], Any]:
    """The sums of these columns."""
    import dask.dataframe as dd

    def run() -> Any:
        at = filesystem(endpoint, "pyarrow")
        frame = dd.read_parquet(path, columns=list(columns), filesystem=at)
        return frame.sum().compute(scheduler="threads")

    return run


def zarr_store(endpoint: str, path: str) -> Any:
    """A store on a filesystem that knows nothing yet."""
    import s3fs
    from zarr.storage import FsspecStore

    at = s3fs.S3FileSystem(key="k", secret="s", endpoint_url=endpoint, asynchronous=True)
    at.invalidate_cache()
    return FsspecStore(at, read_only=True, path=path)


def ours_zarr(endpoint: str, path: str) -> Callable[[], Any]:
    """A pass over a Zarr group, planning included."""
    from streamgda import accumulate, scan_zarr

    return lambda: accumulate(scan_zarr(zarr_store(endpoint, path)), "diag", scheduler="threads")


def bare_zarr(endpoint: str, path: str) -> Callable[[], Any]:
    """All of both arrays, in memory."""
    import zarr

    def run() -> list[Any]:
        group: Any = zarr.open_group(zarr_store(endpoint, path), mode="r")
        return [group[name][:] for name in "Xy"]

    return run


def predicting(endpoint: str, path: str, kind: str) -> Callable[[], Any]:
    """Labels and probabilities of all rows, written into the bucket."""
    import uuid

    from streamgda import GaussianNB, accumulate, predict_dataset, scan_parquet

    at = filesystem(endpoint, "s3fs" if kind == "zarr" else "pyarrow")
    source = scan_parquet(path, "y", filesystem=at)
    model = GaussianNB.from_statistics(accumulate(source, "diag"))

    def run() -> Any:
        out = f"out/{uuid.uuid4().hex}" + (".zarr" if kind == "zarr" else "")
        return predict_dataset(model, source, out, filesystem=at, scheduler="threads")

    return run


def contests(endpoint: str, options: argparse.Namespace) -> Iterator[tuple[str, list[Contender]]]:
    """The layouts, and the contenders for each."""
    names = [f"x{j}" for j in range(options.features)]
    small = f"rows/{options.files}-files-1000x{options.features}-5"
    layouts = [(f"row groups of {length:,}", f"rows/{groups_name(length)}", names) for length in GROUPS]
    layouts.append((f"{FEW} of {options.features} columns", f"rows/{groups_name(100_000)}", names[:FEW]))
    layouts.append((f"{options.files:,} files of 1,000 rows", small, names))
    for title, path, features in layouts:
        columns = [*features, "y"]
        yield (
            title,
            [
                Contender(OURS, ours, (endpoint, path, "pyarrow", features)),
                Contender(OURS_FSSPEC, ours, (endpoint, path, "s3fs", features)),
                Contender(DATASET, dataset, (endpoint, path, columns)),
                Contender(PRE_BUFFER, pre_buffer, (endpoint, path, columns)),
                Contender(DASK, dask_sums, (endpoint, path, columns)),
            ],
        )
    for name in ("zarr-v2", "zarr-v3", "zarr-sharded"):
        arguments = (endpoint, f"rows/{name}")
        found = [Contender(OURS_ZARR, ours_zarr, arguments), Contender(ZARR_READ, bare_zarr, arguments)]
        yield name, found
    kinds = {"parquet": "Parquet", "zarr": "Zarr"}
    for title, path in (("row groups of 100,000", f"rows/{groups_name(100_000)}"), (layouts[-1][0], small)):
        found = [Contender(kinds[kind], predicting, (endpoint, path, kind)) for kind in kinds]
        yield f"predictions of {title}", found


# ---------------------------------------------------------------------- measuring


def measured(contender: Contender, endpoint: str, latencies: Sequence[float], repeats: int) -> list[Any]:
    """Seconds for each latency; then, of the last, processor time, the requests of a run, and the peak."""
    ask(endpoint, "set", {"latency": 0.0})
    run = contender.prepare(*contender.arguments)
    run()
    Path("/proc/self/clear_refs").write_text("5")
    at_start, seconds, processor = memory("VmRSS"), [], 0.0
    for latency in latencies:
        ask(endpoint, "set", {"latency": latency / 1000})
        times = []
        for _ in range(repeats):
            gc.collect()
            ask(endpoint, "reset")
            start, processor = time.perf_counter(), time.process_time()
            run()
            times.append(time.perf_counter() - start)
            processor = time.process_time() - processor
        seconds.append(statistics.median(times))
    counts = ask(endpoint, "counts")
    writes = sum(counts.get(name, 0) for name in ("PUT", "PART", "UPLOAD", "COMPLETE", "COPY", "DELETE"))
    return [
        *(f"{one:.2f}" for one in seconds),
        f"{processor:.2f}",
        *(counts.get(name, 0) for name in ("GET", "HEAD", "LIST")),
        writes,
        f"{(counts['bytes_sent'] + counts['bytes_received']) / 1e6:.1f}",
        f"{memory('VmHWM') - at_start:.0f}",
    ]


def measured_all(endpoint: str, options: argparse.Namespace, threads: int) -> list[list[Any]]:
    """All layouts and contenders, with so many threads."""
    rows: list[list[Any]] = []
    for title, found in tqdm(list(contests(endpoint, options)), desc=f"{threads} threads", leave=False):
        for contender in found if not options.only or any(part in title for part in options.only) else ():
            spawn = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=spawn) as process:
                asked = (contender, endpoint, options.latencies, options.repeats)
                rows.append([title, contender.name, *process.submit(measured, *asked).result()])
    return rows


def beside_bare(
    rows: Sequence[Sequence[Any]], options: argparse.Namespace, threads: int
) -> tuple[list[tuple[str, ...]], report.Goals]:
    """Seconds, requests and memory of a pass as multiples of a bare read, and the goals of files of rows."""
    of = {(title, name): cells for title, name, *cells in rows}
    found, goals, n = [], [], len(options.latencies)
    for (title, name), cells in of.items():
        bare = of.get((title, ZARR_READ if name == OURS_ZARR else DATASET))
        if name not in (OURS, OURS_ZARR) or bare is None:
            continue
        ratios = [float(one) / float(other) for one, other in zip(cells[:n], bare[:n], strict=True)]
        what = f"{title}, {threads} {'thread' if threads == 1 else 'threads'}"
        beside = (f"{cells[place]} ({bare[place]})" for place in (n, n + 1, -1))
        found.append((what, *(f"{ratio:.2f}" for ratio in ratios), *beside))
        for latency, ratio in zip(options.latencies, ratios, strict=True):
            most = 3 if not latency and title.endswith("files of 1,000 rows") else MOST.get(latency)
            if most is not None and name == OURS:
                goals.append(report.at_most(f"{what}, {latency:g} ms", ratio, most))
    return found, report.Goals(goals)


def main() -> None:
    """Measure and keep the tables."""
    parser = parser_of(__doc__, rows=1_000_000, features=50, files=1_000, repeats=3)
    parser.add_argument("--latencies", type=float, nargs="+", default=[0, 5, 20, 100], help="milliseconds")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="*", help="layouts whose titles hold one of these, not kept")
    add_data(parser)
    options = parser.parse_args()
    home = options.data / f"store-{options.rows}x{options.features}-{options.files}"
    (home / "out").mkdir(parents=True, exist_ok=True)
    make(home, options)
    main_rows: list[tuple[str, ...]] = []
    details: list[str | report.Goals] = []
    at = [f"{one:g} ms" for one in options.latencies]
    headers = ["layout", "contender", *(f"s at {one}" for one in at), "processor s"]
    headers += ["GET", "HEAD", "LIST", "writes", "MB", "peak MB"]
    with ObjectStore(home) as store:
        for threads in options.threads:
            limit_threads(threads)
            rows = measured_all(store.endpoint, options, threads)
            ratios, goals = beside_bare(rows, options, threads)
            main_rows += ratios
            details += [f"Threads: {threads}", report.table(headers, rows), goals]
    title = f"{options.rows:,} × {options.features} float64"
    beside = [f"{what} (bare)" for what in ("processor s", "GET", "peak MB")]
    table = report.table(["pass ÷ bare read of pyarrow or Zarr", *at, *beside], main_rows)
    report.publish("objectstore", title, table, *details, keep=not (options.print_only or options.only))


if __name__ == "__main__":
    main()
