"""A first look at a source: its columns, how many rows it has, and the first of them."""

from datetime import date

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import StandardScaler

from streamgda import scan, scan_arrow, scan_dask, scan_parquet, scan_zarr
from tests.data.tables import zarr_group

TABLE = pa.table(
    {
        "x": [0.5, 1.5, None, 3.5],
        "colour": ["red", None, "blue", "red"],
        "day": [date(2026, 1, day) for day in (1, 2, 3, 4)],
        "n": [1, 2, 3, 4],
        "kind": ["a", "b", None, "a"],
    }
)


@pytest.fixture
def folder(tmp_path):
    for i in range(3):
        pq.write_table(TABLE.slice(i, 2 if i == 2 else 1), tmp_path / f"{i}.parquet")
    return tmp_path


def test_rows_are_shown_as_they_are_stored(folder):
    source = scan_parquet(folder, "kind", features=["x", "colour", "day"], weight="n")
    first = source.head(9)
    assert first.to_dict("list") == TABLE.select(source.schema.names).slice(0, 1).to_pandas().to_dict("list")
    assert source.schema == TABLE.select(["x", "colour", "day", "kind", "n"]).schema
    table = scan_arrow(TABLE, "kind", features=["x", "colour", "day"])
    assert table.head(3).equals(TABLE.select(table.schema.names).slice(0, 3).to_pandas())


def test_one_file_is_opened(folder):
    for name in ("1.parquet", "2.parquet"):
        (folder / name).write_bytes(b"damaged")
    source = scan_parquet(folder, "kind", features=["x"])
    assert source.head()["x"].tolist() == [0.5]
    with pytest.raises(ValueError, match=r"1\.parquet"):
        source.n_rows  # noqa: B018 - it reads all footers


def test_the_first_batch_with_rows_is_shown(folder):
    source = scan_parquet(folder, "kind", features=["n"], filters=pc.field("n") > 2)
    assert source.head()["n"].tolist() == [3, 4]
    nothing = scan_parquet(folder, "kind", features=["n"], filters=pc.field("n") > 9)
    assert nothing.head().columns.tolist() == ["n", "kind"]
    assert len(nothing.head()) == 0


def test_computed_and_mapped_features_are_shown(folder):
    source = scan_parquet(folder, "colour", features=["n"]).with_columns(double=pc.multiply(pc.field("n"), 2))
    assert source.head().to_dict("list") == {"n": [1], "double": [2], "colour": ["red"]}
    assert source.schema.field("double").type == pa.int64()
    scaled = source.map(StandardScaler().fit([[0.0, 0.0], [2.0, 4.0]]))
    assert scaled.head().to_dict("list") == {"n": [0.0], "double": [0.0], "colour": ["red"]}
    assert scaled.schema.types == [pa.float64(), pa.float64(), pa.string()]


@pytest.mark.parametrize(
    ("options", "n_rows"),
    [
        ({}, 4),
        ({"filters": pc.field("n") > 2}, None),
        ({"missing": "drop"}, None),
        ({"missing": "marginal"}, 4),
    ],
)
def test_footers_tell_the_number_of_rows_if_all_are_read(folder, options, n_rows):
    source = scan_parquet(folder, "kind", features=["n"], **options)
    assert source.n_rows == n_rows
    assert source.split(0.5)[0].n_rows is None
    if n_rows is not None:
        assert sum(part.n_rows for part in source.split(0.5, by="files")) == n_rows


def test_other_data(tmp_path):
    pyarrow.csv.write_csv(TABLE, tmp_path / "rows.csv")
    text = scan(tmp_path / "rows.csv", "kind", features=["n", "colour"])
    assert text.n_rows is None
    assert text.head(1).to_dict("list") == {"n": [1.0], "colour": ["red"], "kind": ["a"]}
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    zarr_group(tmp_path / "rows.zarr", X=X, y=np.array([1, 2, 3], np.int16))
    store = scan_zarr(tmp_path / "rows.zarr")
    assert store.schema == pa.schema([("X", pa.list_(pa.float32(), 2)), ("y", pa.int16())])
    assert (store.n_rows, store.head(1)["X"][0].tolist()) == (3, [0.0, 1.0])
    assert scan_zarr(tmp_path / "rows.zarr", target=None).head().columns.tolist() == ["X"]


def test_rows_of_dask_with_features_that_are_named_as_labels_and_weights():
    frame = pd.DataFrame({"y": [1.0, 2.0], "weight": [3.0, 4.0]})
    beside = dd.from_pandas(pd.Series([1, 2]), npartitions=1)
    source = scan_dask(dd.from_pandas(frame, npartitions=1), beside, weight=beside)
    expected = {"y": [1, 2], "weight": [3, 4], "y_": [1, 2], "weight_": [1, 2]}
    assert source.head().to_dict("list") == expected
    assert source.schema.names == [*expected]


def test_a_notebook_shows_columns_and_first_rows(folder):
    html = scan_parquet(folder, "kind", features=["x", "colour", "day"])._repr_html_()
    for fact in ("4 rows", "categories", "days", "double", "2026-01-01", "kind"):
        assert fact in html
    (folder / "0.parquet").rename(folder / "0.gone")
    source = scan_parquet(folder, "kind", features=["x"])
    (folder / "1.parquet").unlink()
    assert "double" in source._repr_html_()  # its columns are known


def test_where_there_are_no_rows(tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "0.parquet")
    for source in (
        scan_parquet(tmp_path, "kind", features=["n"]),
        scan_arrow(TABLE.slice(0, 0), "kind", features=["n"]),
    ):
        assert source.n_rows == 0
        assert source.head().columns.tolist() == ["n", "kind"]


def test_columns_of_lists_are_shown_as_lists(tmp_path):
    table = pa.table({"n": [1, 2], "emb": pa.array([[0.5, 1.5], [2.5, 3.5]]), "kind": ["a", "b"]})
    pq.write_table(table, tmp_path / "1.parquet")
    for source in (scan_parquet(tmp_path, "kind"), scan_arrow(table, "kind")):
        assert source.feature_names == ("n", "emb_0", "emb_1")
        assert source.schema.names == ["n", "emb", "kind"]
        assert [row.tolist() for row in source.head()["emb"]] == table["emb"].to_pylist()
        assert "numbers" in source._repr_html_()
        mapped = source.map(StandardScaler().fit(np.arange(6.0).reshape(2, 3)))
        assert mapped.schema.names == ["n", "emb_0", "emb_1", "kind"] == mapped.head().columns.tolist()


def test_a_notebook_computes_nothing():
    def computed():
        raise AssertionError

    X = da.from_delayed(dask.delayed(computed)(), (3, 2), float)
    assert "Dask rows" in scan_dask(X, da.from_delayed(dask.delayed(computed)(), (3,), int))._repr_html_()
