"""Small files for passes; modules that need others have a folder of their own."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

N_FILES, N_ROWS = 6, 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("passes") / "in", np.random.default_rng(0)
    folder.mkdir()
    for i in range(N_FILES):
        y = rng.integers(0, 2, 50)
        table = pa.table({"a": rng.normal(size=50) + y, "b": rng.normal(size=50), "y": y})
        pq.write_table(table, folder / f"{i}.parquet")
    return folder
