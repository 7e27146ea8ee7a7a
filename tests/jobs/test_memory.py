"""Memory is promised for each task, and measured for each function and format, in a process of its own."""

import multiprocessing
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from streamgda import (
    GaussianNB,
    StatisticsLedger,
    StatisticsSearchCV,
    accumulate,
    evaluate,
    load,
    predict_dataset,
    scan,
    scan_dask,
    scan_zarr,
)
from tests.data.tables import zarr_group

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of one program")

FORKED = multiprocessing.get_context("forkserver")
N_ROWS, WIDTH, AT_ONCE = 300_000, 128, 64 << 20  # 307 MB of float64, of which 64 MiB are read at once


def peak():
    """Of this program, in megabytes; ru_maxrss counts what started it too."""
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def write(folder, n_rows):
    """The same rows as Parquet, CSV and Zarr."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 10, size=(n_rows, WIDTH)), np.arange(n_rows) % 4
    table = pa.table({**{f"x{j}": X[:, j] for j in range(WIDTH)}, "y": y})
    for kind in ("parquet", "csv"):
        (folder / kind).mkdir(parents=True)
    pq.write_table(table, folder / "parquet" / "1.parquet", row_group_size=20_000)
    pc.write_csv(table, folder / "csv" / "1.csv")
    zarr_group(folder / "zarr", 20_000, X=X.astype(np.float64), y=y)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    write(folder / "few", 2_000)
    write(folder / "many", N_ROWS)
    GaussianNB().fit(scan(folder / "few" / "parquet", "y")).save(folder / "model")
    return folder


FORMATS = {
    "parquet": lambda folder: scan(folder / "parquet", "y"),
    "csv": lambda folder: scan(folder / "csv", "y", format="csv"),
    "zarr": lambda folder: scan_zarr(folder / "zarr", "y"),
    "dask": lambda folder: scan_dask(dd.read_csv(folder / "csv" / "1.csv", blocksize="8MB"), "y"),
}
RUN = {"scheduler": "synchronous"}
FUNCTIONS = {
    "accumulate": lambda source, model, out: accumulate(source, **RUN),
    "predict_dataset": lambda source, model, out: predict_dataset(model, source, out / "predictions", **RUN),
    "evaluate": lambda source, model, out: evaluate(model, source, **RUN),
    "refresh": lambda source, model, out: StatisticsLedger(out / "ledger").refresh(source, **RUN),
    "search": lambda source, model, out: StatisticsSearchCV(
        GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, cv=3
    ).fit(source, **RUN),
}
REFUSED = {("predict_dataset", "dask"), ("refresh", "zarr"), ("refresh", "dask")}


def taken(function, kind, data, out):
    """The megabytes that a call takes beyond those of a call with few rows."""
    model = load(data / "model")
    FUNCTIONS[function](FORMATS[kind](data / "few"), model, out / "few")
    start = peak()
    FUNCTIONS[function](FORMATS[kind](data / "many"), model, out / "many")
    return peak() - start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "kind"), [(f, k) for f in FUNCTIONS for k in FORMATS if (f, k) not in REFUSED]
)
def test_a_task_takes_what_is_promised(data, tmp_path, function, kind):
    """As the guide says: three times what is read at once; and three states, or two of each fold."""
    n_states = 2 * 3 if function == "search" else 3
    promised = 3 * AT_ONCE + n_states * 4 * 8 * WIDTH**2
    with ProcessPoolExecutor(1, mp_context=FORKED) as pool:  # a fork begins a peak of its own
        assert pool.submit(taken, function, kind, data, tmp_path).result() < promised / 2**20
