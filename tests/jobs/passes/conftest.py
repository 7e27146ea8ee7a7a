"""Small files for passes; modules that need other files have a fixture `folder` of their own."""

import numpy as np
import pyarrow as pa
import pytest

from tests.data.tables import parquet_files

N_FILES, N_ROWS = 6, 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N_ROWS)
    table = pa.table({"a": rng.normal(size=N_ROWS) + y, "b": rng.normal(size=N_ROWS), "y": y})
    return parquet_files(tmp_path_factory.mktemp("passes") / "in", table, N_FILES)
