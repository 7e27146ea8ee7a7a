"""Ctrl-C ends what waits for a storage that does not answer."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.object_store_stub import ObjectStore
from streamgda import GaussianNB, scan_parquet
from tests.interrupted import until

WAITING = """
import sys
import pyarrow.fs as pafs
from bench.object_store_stub import CREDENTIALS, ask
from streamgda import StatisticsLedger, accumulate, load, scan_parquet

endpoint, operation = sys.argv[1:]
filesystem = pafs.S3FileSystem(endpoint_override=endpoint, **CREDENTIALS)
source = scan_parquet("rows/data", "y", filesystem=filesystem)
ledger = StatisticsLedger("rows/ledger", filesystem=filesystem)
ask(endpoint, "reset")
ask(endpoint, "set", {"stall_every": 1, "stall": 600})
print("waiting", flush=True)
operations = {
    "load": lambda: load("rows/model.parquet", filesystem=filesystem),
    "scan": lambda: scan_parquet("rows/data", "y", filesystem=filesystem),
    "pass": lambda: accumulate(source, scheduler="threads"),
    "refresh": lambda: ledger.refresh(source, scheduler="synchronous"),
}
try:
    operations[operation]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.slow  # each is a process that imports everything
@pytest.mark.parametrize("operation", ["load", "scan", "pass", "refresh"])
def test_a_store_that_does_not_answer_is_not_waited_for(tmp_path, operation):
    (tmp_path / "rows" / "data").mkdir(parents=True)
    table = pa.table({"x": np.random.default_rng(0).normal(size=20_000), "y": np.arange(20_000) % 2})
    for name in "ab":
        pq.write_table(table, tmp_path / "rows" / "data" / f"{name}.parquet")
    GaussianNB().fit(scan_parquet(tmp_path / "rows" / "data", "y")).save(tmp_path / "rows" / "model.parquet")
    with ObjectStore(tmp_path) as store:
        command = [sys.executable, "-c", WAITING, store.endpoint, operation]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        assert process.stdout.readline() == "waiting\n"
        until(lambda: any(store.counts()[name] for name in ("GET", "HEAD", "LIST")))
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begun < 60  # of ten minutes without an answer; the machine may be busy
        process.kill()  # Arrow's client waits for its own requests when the process ends
        process.communicate()
