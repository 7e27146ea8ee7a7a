"""How much memory predict_dataset takes: that of some rows, whatever there is in all."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import GaussianNB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of one program")

MEMORY = """
import re
import sys
from pathlib import Path
import zarr
from streamgda import load, predict_dataset

def peak():  # of this program; ru_maxrss counts what started it too
    return int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

model, start = load(sys.argv[1]), peak()
predict_dataset(model, sys.argv[2], sys.argv[3], keep=sys.argv[4:], scheduler="synchronous")
print(peak() - start)
"""


def memory(model, table, folder, out, *keep):
    """The megabytes that predictions take beyond those of the libraries and the model."""
    model.save(folder / "model")
    pq.write_table(table, folder / "in.parquet")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, folder / "model", folder / "in.parquet", folder / out, *keep],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("out", ["out", "out.zarr"])
def test_memory_does_not_grow_with_classes_times_rows(tmp_path, out):
    """All the probabilities take 400 MB."""
    rng, y = np.random.default_rng(0), np.arange(4000) % 200
    X = pd.DataFrame(rng.normal(size=(4000, 4)) + y[:, None] / 20, columns=list("abcd"))
    table = pa.table({name: rng.normal(size=250_000) for name in X.columns})
    assert memory(GaussianNB().fit(X, y), table, tmp_path, out) < 200


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length_of_kept_strings(tmp_path):
    """All the strings take 800 MB."""
    X = pd.DataFrame({"a": np.arange(8.0)})
    text = [f"{i:>4000}" for i in range(200_000)]
    table = pa.table({"a": np.arange(200_000.0), "text": text})
    assert memory(GaussianNB().fit(X, np.arange(8) % 2), table, tmp_path, "out", "text") < 400
