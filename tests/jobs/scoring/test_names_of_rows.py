"""An error names a row as a user counts it: in the array, or in the row group of the file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import GaussianNB, evaluate, predict_dataset, scan_arrow, scan_parquet, scan_zarr
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.block import Places
from tests.data.tables import zarr_group

N_ROWS, N_FEATURES, FAR = 5000, 300, 3777
RNG = np.random.default_rng(0)
Y = np.arange(N_ROWS) % 2
X = RNG.normal(size=(N_ROWS, N_FEATURES))
MODEL = GaussianNB(var_smoothing=0.0).fit(X, Y)
X[FAR, 5] = 1e300
NAMES = [f"x{j}" for j in range(N_FEATURES)]


@pytest.fixture(scope="module")
def rows():
    return pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": Y})


def in_parquet(rows, folder):
    pq.write_table(rows, folder / "rows.parquet", row_group_size=4000)
    return scan_parquet(folder / "rows.parquet", "y"), f"row group 0, row {FAR} is"


def in_later_group(rows, folder):
    pq.write_table(rows, folder / "rows.parquet", row_group_size=3700)
    return scan_parquet(folder / "rows.parquet", "y"), "row group 1, row 77 is"


def in_batches(rows, folder):
    batches = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=900))
    return scan_arrow(batches, "y"), f"row {FAR} is"


def in_zarr(rows, folder):
    zarr_group(folder / "rows.zarr", 1000, X=X, y=Y)
    return scan_zarr(folder / "rows.zarr"), f"rows.zarr, row {FAR} is"


@pytest.mark.slow_cases("predict-in_zarr")
@pytest.mark.slow_cases("predict-in_p", "evaluate-in_later", "evaluate-in_zarr")
@pytest.mark.parametrize("make", [in_parquet, in_later_group, in_batches, in_zarr])
@pytest.mark.parametrize("use", ["predict", "evaluate"])
def test_a_row_of_a_dataset_is_named(rows, tmp_path, make, use):
    source, name = make(rows, tmp_path)
    with pytest.raises(ValueError, match=f"{name} too far") as raised:
        if use == "predict":
            predict_dataset(MODEL, source, tmp_path / "out")
        else:
            evaluate(MODEL, source)
    assert ": row" not in str(raised.value)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_row_of_an_array_is_named(method, order):
    with pytest.raises(ValueError, match=f"^row {FAR} is too far"):
        getattr(MODEL, method)(np.asarray(X, order=order))


def test_a_row_without_a_group_is_named_where_a_slab_begins():
    groups = np.array([1.0, np.nan])
    with pytest.raises(ValueError, match=r"^rows\.zarr, row 1001 has no group"):
        list(array_blocks(np.ones((2, 1)), [0, 1], places=Places("rows.zarr", 1000), groups=groups))


def test_a_row_without_a_fold_is_named_in_its_file(tmp_path):
    fold = pa.array([0] * 90 + [None] + [1] * 9)
    pq.write_table(
        pa.table({"x": np.arange(100.0), "y": [0, 1] * 50, "fold": fold}), tmp_path / "rows.parquet"
    )
    source = scan_parquet(tmp_path / "rows.parquet", "y", features=["x"]).with_groups("fold")
    with pytest.raises(ValueError, match=r"row group 0, row 90: column 'fold' has no value"):
        [list(split.blocks()) for split in source.splits()]
