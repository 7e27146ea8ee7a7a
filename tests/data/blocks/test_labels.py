"""Labels become classes and codes, whether they lie close together or far apart."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import Categorical, ClassStatistics, GaussianNB, scan, scan_parquet, scan_zarr
from streamgda.data.blocks.labels import encode
from tests.data.tables import zarr_group


@pytest.mark.parametrize("n_rows", [2, 1000, 100_000])
@pytest.mark.parametrize("labels_per_row", [0.9, 1.9, 2.1, 1e6])
@pytest.mark.parametrize("lowest", [0, -(2**62)])
def test_codes_are_the_positions_of_labels_among_the_classes(n_rows, labels_per_row, lowest):
    rng = np.random.default_rng(0)
    y = lowest + rng.integers(0, int(labels_per_row * n_rows), n_rows)
    classes, codes, unlabelled = encode(y)
    assert unlabelled is None
    assert (np.diff(classes) > 0).all()
    assert len(classes) == len(set(y.tolist()))
    np.testing.assert_array_equal(classes[codes], y)


WHOLE = [
    ([Decimal(2), Decimal("1.00"), None, Decimal(2)], pa.decimal128(38, 2)),
    ([Decimal(2), Decimal(2**62), None, Decimal(2)], pa.decimal128(38, 0)),
    ([2.0, 1.0, None, 2.0], pa.float64()),
    ([2.0, 1.0, None, 2.0], pa.float32()),
    ([2, 1, None, 2], pa.int16()),
]
TEXT = [
    (["ç".encode(), b"b", None, b"b"], kind)
    for kind in (pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary()))
]


@pytest.mark.parametrize(("values", "kind"), WHOLE + TEXT, ids=str)
def test_a_frame_and_a_file_of_the_same_values_have_the_same_labels(values, kind, tmp_path):
    """Engines of SQL write whole numbers as decimals, and text as binary."""
    column = pa.array(values, kind)
    filled = pa.array([values[0] if v is None else v for v in values], kind)
    table = pa.table({"x": [1.0, 2.0, 3.0, 5.0], "y": column, "c": filled})
    pq.write_table(table, tmp_path / "rows.parquet")
    there = table.filter(table["y"].is_valid())
    expected = {v.decode() if isinstance(v, bytes) else int(v) for v in values if v is not None}
    categories = Categorical(columns=["c"])
    source = scan_parquet(tmp_path, "y", categories=categories, missing="drop")
    of_file = GaussianNB(categories=categories).partial_fit(source)
    for y in (np.array(values, object)[[0, 1, 3]], there["y"].to_pandas(), there["y"].to_pylist()):
        rows = there.select(["x", "c"])
        of_frame = GaussianNB(categories=categories).partial_fit(rows, np.asarray(y))
        for model in (of_frame, of_file):
            assert model.classes_.tolist() == sorted(expected)
            assert model.classes_.dtype.kind == ("U" if isinstance(values[0], bytes) else "i")
            assert model.categories_ == {"c": sorted(expected)}
            assert model.predict(rows[:2]).dtype == model.classes_.dtype
            assert model.score(rows, y) == np.mean(model.predict(rows) == encode(y)[0][encode(y)[1]])


@pytest.mark.parametrize("chunks", [1, 2])
def test_nulls_of_dictionaries_of_arrow_are_no_labels_and_no_numbers(chunks):
    values = pa.array([3, None, 1, 3, None, 1])
    parts = [values.slice(i * 6 // chunks, 6 // chunks) for i in range(chunks)]
    column = pa.chunked_array([part.dictionary_encode() for part in parts])
    classes, codes, unlabelled = encode(column)
    assert (classes.tolist(), codes[[0, 2, 3, 5]].tolist()) == ([1, 3], [1, 0, 1, 0])
    assert unlabelled is not None
    assert unlabelled.tolist() == values.is_null().to_pylist()
    plain = pa.table({"a": values, "b": [0.0, 1, 2, 4, 3, 5]})
    table = plain.set_column(0, "a", column)
    y = [0, 0, 0, 1, 1, 1]
    model = GaussianNB(missing="marginal", categories=None)
    assert model.fit(table, y).statistics_ == model.fit(plain, y).statistics_
    np.testing.assert_array_equal(model.predict_proba(table), model.predict_proba(plain))


def test_binary_columns_are_text_by_default(tmp_path):
    table = pa.table({"x": [1.0, 2.0, 3.0], "c": [b"n", b"s", b"n"], "y": [b"a", b"b", b"b"]})
    pq.write_table(table, tmp_path / "rows.parquet")
    model = GaussianNB().partial_fit(scan(tmp_path, "y"))
    assert (model.classes_.tolist(), model.categories_) == (["a", "b"], {"c": ["n", "s"]})
    frame = table.to_pandas()
    same = GaussianNB().partial_fit(frame[["x", "c"]], frame["y"])
    assert same.statistics_ == model.statistics_
    assert encode(np.array([b"b", b"a"]))[0].tolist() == ["a", "b"]


def test_bytes_that_are_no_text_and_broken_numbers_are_named(tmp_path):
    table = pa.table({"x": [1.0, 2.0], "c": [b"\xff\xfe", b"s"], "y": ["a", "b"]})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"rows\.parquet: column 'c'.*\\xff.*UTF-8.*leave the column out"):
        GaussianNB().partial_fit(scan(tmp_path, "y"))
    with pytest.raises(ValueError, match=r"rows\.parquet: target 'c'.*\\xff.*UTF-8.*bytes\.hex"):
        GaussianNB().partial_fit(scan(tmp_path, "c", features=["x"]))
    with pytest.raises(ValueError, match=r"label 1\.5 is not a class"):
        encode([Decimal(1), Decimal("1.5")])


@pytest.mark.parametrize(
    "labels", [np.array([b"a", "ç".encode()]), np.array([0.0, 1.0], np.float32)], ids=str
)
def test_arrays_of_zarr_have_the_labels_of_numpy(labels, tmp_path):
    y = np.arange(20) % 2
    X = np.arange(40.0).reshape(20, 2) ** 2
    zarr_group(tmp_path / "rows.zarr", 10, zarr_format=2, X=X, y=labels[y])
    found = GaussianNB().fit(scan_zarr(tmp_path / "rows.zarr")).classes_
    assert found.tolist() == ([0, 1] if labels.dtype.kind == "f" else ["a", "ç"])
    assert found.dtype == GaussianNB().fit(X, labels[y]).classes_.dtype


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2.0**53, Decimal(2**70)])
def test_whole_numbers_too_large_for_a_label_are_told_with_what_reads_them(value):
    dtype = np.uint64 if isinstance(value, int) else None
    for labels in (np.array([1, value], dtype), np.array([1, value], object)):
        with pytest.raises(ValueError, match=rf"label {int(value)} .*column_types="):
            ClassStatistics().update([[1.0], [2.0]], labels)
