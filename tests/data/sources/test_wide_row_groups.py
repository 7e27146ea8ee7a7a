"""Parquet files of many columns, of which row groups are decoded some columns at a time."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import accumulate, scan_parquet
from streamgda.data.blocks.arrays import array_blocks
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.required import Required

WIDTH = 300
TYPES = (np.float64, np.float32, np.float16, np.int8, np.uint16, np.int64)


@pytest.fixture(scope="module")
def table():
    """Columns of many types, some with nulls, and labels stored as a dictionary of each row group."""
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.integers(0, 100, size=3_001).astype(TYPES[j % 6]) for j in range(WIDTH)}
    with_nulls = pa.array(columns["x0"], mask=np.arange(3_001) % 7 == 0)
    labels = np.sort(rng.integers(0, 5, size=3_001))
    return pa.table({**columns, "x0": with_nulls, "y": [f"kind {k}" for k in labels]})


@pytest.fixture
def file(table, tmp_path):
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=1_000)
    return tmp_path / "1.parquet"


def complete(table):
    return table.filter(pa.compute.is_valid(table["x0"]))


def matrix(table):
    return np.column_stack([table[f"x{j}"].to_numpy().astype(np.float64) for j in range(WIDTH)])


def test_all_values_and_labels_come_out_in_order(table, file):
    blocks = [
        block
        for split in scan_parquet(file, "y", features=[f"x{j}" for j in range(1, WIDTH)]).splits()
        for block in split.blocks()
    ]
    for j in range(1, WIDTH):
        assert np.array_equal(np.concatenate([b.features[j - 1] for b in blocks]), table[f"x{j}"])
        assert {b.features[j - 1].dtype for b in blocks} == {np.dtype(TYPES[j % 6])}
    assert [str(label) for b in blocks for label in b.classes[b.codes]] == table["y"].to_pylist()


@pytest.mark.slow_cases("synchronous")
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_the_statistics_are_those_of_the_rows_in_memory(table, file, scheduler):
    found = accumulate(scan_parquet(file, "y", missing="drop"), "tied", exact=True, scheduler=scheduler)
    rows = complete(table)
    expected = empty_statistics(Required("tied", exact=True))
    for block in array_blocks(matrix(rows), rows["y"].to_numpy()):
        expected.update(block.matrix(0, len(block.codes)), block.classes[block.codes])
    assert found.n_dropped == table.num_rows - rows.num_rows
    assert np.array_equal(found.means, expected.means)
    assert np.array_equal(found.scatter, expected.scatter)


def test_a_filter_and_weights_count(table, tmp_path):
    weighted = table.append_column("w", pa.array(np.arange(table.num_rows) % 3))
    pq.write_table(weighted, tmp_path / "2.parquet", row_group_size=1_000)
    source = scan_parquet(tmp_path / "2.parquet", "y", weight="w", exclude=["x0"], filters=[("x3", "<", 50)])
    kept = weighted.filter(pa.compute.field("x3") < 50)
    weights, X = kept["w"].to_numpy(), matrix(kept)[:, 1:]
    found = accumulate(source, "diag")
    for k, label in enumerate(found.classes):
        of_class = kept["y"].to_numpy() == label
        mean = np.average(X[of_class], axis=0, weights=weights[of_class])
        np.testing.assert_allclose(found.means[k], mean, rtol=1e-12)


def test_an_error_names_the_row_group_and_the_row(table, file):
    with pytest.raises(ValueError, match=r"1\.parquet, row group 0, row 0: feature 'x0' is NaN or null"):
        accumulate(scan_parquet(file, "y"))
    values = np.zeros(3_001)
    values[2_345] = np.nan
    pq.write_table(
        table.set_column(0, "x0", pa.array(values)).set_column(5, "x5", pa.array(values)),
        file,
        row_group_size=1_000,
    )
    with pytest.raises(ValueError, match=r"row group 2, row 345: feature 'x0' is NaN or null"):
        accumulate(scan_parquet(file, "y"))


def test_a_damaged_page_is_an_error_of_the_file(table, tmp_path):
    path = tmp_path / "1.parquet"
    pq.write_table(table, path, row_group_size=1_000, write_page_checksum=True)
    chunk = pq.read_metadata(path).row_group(1).column(200)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 5] ^= 255
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"1\.parquet cannot be read as Parquet"):
        accumulate(scan_parquet(path, "y", missing="drop"))


def rows_and_peak(folder, kind):
    """How many rows are read in a process of its own, and the most memory that Arrow has held there."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as fork:
        return fork.submit(_read, folder, kind).result()


def _read(folder, kind):
    return accumulate(scan_parquet(folder, "y"), kind).n_rows, pa.default_memory_pool().max_memory()


def test_arrow_holds_few_columns_at_a_time(tmp_path):
    """Row groups of 8 MB; Arrow would hold two of each, and the batch, if it decoded all their columns."""
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=6_000) for j in range(500)}
    pq.write_table(
        pa.table({**columns, "y": rng.integers(0, 3, size=6_000)}),
        tmp_path / "1.parquet",
        row_group_size=2_000,
    )
    n_rows, peak = rows_and_peak(tmp_path, "tied")
    assert n_rows == 6_000
    assert peak < 4e6
