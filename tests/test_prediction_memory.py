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

MEMORY = """
import resource
import sys
import zarr
from streamgda import load, predict_dataset

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

model, start = load(sys.argv[1]), peak()
predict_dataset(model, sys.argv[2], sys.argv[3], scheduler="synchronous")
print(peak() - start)
"""


@pytest.mark.slow
@pytest.mark.parametrize("out", ["out", "out.zarr"])
def test_memory_does_not_grow_with_classes_times_rows(tmp_path, out):
    """All the probabilities take 800 MB."""
    rng, y = np.random.default_rng(0), np.arange(4000) % 200
    X = pd.DataFrame(rng.normal(size=(4000, 4)) + y[:, None] / 20, columns=list("abcd"))
    GaussianNB().fit(X, y).save(tmp_path / "model")
    pq.write_table(pa.table({name: rng.normal(size=500_000) for name in X.columns}), tmp_path / "in.parquet")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / "model", tmp_path / "in.parquet", tmp_path / out],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 300
