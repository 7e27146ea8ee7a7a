"""How much memory predict_dataset takes: that of some rows, whatever there is in all."""

import sys
from concurrent.futures import ProcessPoolExecutor

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import GaussianNB, load, predict_dataset, scan_parquet
from tests.jobs.test_memory import FORKED, peak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of one program")


def taken(folder, out, keep):
    model, start = load(folder / "model"), peak()
    predict_dataset(model, folder / "in.parquet", folder / out, keep=keep, scheduler="synchronous")
    return peak() - start


def memory(model, table, folder, out, *keep, **writing):
    """The megabytes that predictions take beyond those of the libraries and the model."""
    model.save(folder / "model")
    pq.write_table(table, folder / "in.parquet", **writing)
    with ProcessPoolExecutor(1, mp_context=FORKED) as pool:  # a fork begins a peak of its own
        return pool.submit(taken, folder, out, keep).result()


def taken_by_a_stream(folder, lazily):
    model, start = load(folder / "model"), peak()
    if lazily:
        import polars as pl

        data = pl.scan_parquet(folder / "in.parquet").with_columns(a=pl.col("a") * 2)
    else:
        data = duckdb.sql(f"select a * 2 as a, text from '{folder}/in.parquet'")
    predict_dataset(model, data, folder / "out", columns=["label"], keep=["text"], scheduler="synchronous")
    return peak() - start


@pytest.mark.slow
@pytest.mark.parametrize("lazily", [True, False], ids=["a lazy frame", "a relation"])
def test_memory_does_not_grow_with_the_rows_of_a_stream(tmp_path, lazily):
    """The strings take 600 MB, the file 1 MB."""
    if lazily:
        pytest.importorskip("polars")
    GaussianNB().fit(pd.DataFrame({"a": np.arange(8.0)}), np.arange(8) % 2).save(tmp_path / "model")
    table = pa.table({"a": np.arange(5000.0), "text": [f"{i % 10}" * 300 for i in range(5000)]})
    with pq.ParquetWriter(tmp_path / "in.parquet", table.schema) as writer:
        for _ in range(400):
            writer.write_table(table)
    with ProcessPoolExecutor(1, mp_context=FORKED) as pool:
        assert pool.submit(taken_by_a_stream, tmp_path, lazily).result() < 400


@pytest.mark.slow
@pytest.mark.parametrize("out", ["out", "out.zarr"])
def test_memory_does_not_grow_with_classes_times_rows(tmp_path, out):
    """All the probabilities take 640 MB; those that wait to be written, 230 to 340 MB by chance."""
    rng, y = np.random.default_rng(0), np.arange(4000) % 200
    X = pd.DataFrame(rng.normal(size=(4000, 4)) + y[:, None] / 20, columns=list("abcd"))
    table = pa.table({name: rng.normal(size=400_000) for name in X.columns})
    assert memory(GaussianNB().fit(X, y), table, tmp_path, out) < 400


def test_memory_does_not_grow_with_strings_that_a_dictionary_stands_for(tmp_path):
    """The strings take 400 MB, the file 60 KB."""
    X = pd.DataFrame({"a": np.arange(8.0)})
    texts = pa.array([letter * 100_000 for letter in "abcdefghij"])
    text = pa.DictionaryArray.from_arrays(pa.array(np.arange(4000) % 10, pa.int32()), texts)
    table = pa.table({"a": np.arange(4000.0), "text": text})
    model = GaussianNB().fit(X, np.arange(8) % 2)
    assert memory(model, table, tmp_path, "out", "text", store_schema=False) < 200


@pytest.mark.slow
def test_memory_does_not_grow_where_long_strings_stand_together(tmp_path):
    """Of 500 MB of strings nearly all are in a twentieth of the rows."""
    X = pd.DataFrame({"a": np.arange(8.0)})
    text = [f"s{i}" * (20_000 if i < 5000 else 1) for i in range(100_000)]
    table = pa.table({"a": np.arange(100_000.0), "text": text})
    model = GaussianNB().fit(X, np.arange(8) % 2)
    writing = {"write_batch_size": 64, "use_dictionary": False}
    assert memory(model, table, tmp_path, "out", "text", **writing) < 350


@pytest.mark.slow_cases("limit")
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()], ids=str)
@pytest.mark.parametrize(
    "encoding", [{}, {"use_dictionary": False}, {"dictionary_pagesize_limit": 64}], ids=str
)
def test_strings_of_a_dictionary_are_kept_as_they_are(tmp_path, kind, encoding):
    texts = ["", None, "a", "bc" * 500, "d" * 3]
    table = pa.table({"x": np.arange(300.0), "text": pa.array([texts[i % 5] for i in range(300)]).cast(kind)})
    table = table.set_column(0, "x", pa.array([None, *range(1, 300)], pa.float64()))
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=70, **encoding)
    model = GaussianNB().fit(pd.DataFrame({"x": np.arange(8.0)}), np.arange(8) % 2)
    for filters in (None, [("text", "!=", "a")] if pa.types.is_string(kind) else None):
        source = scan_parquet(tmp_path / "in.parquet", features=["x"], missing="drop", filters=filters)
        out = tmp_path / f"out-{filters is None}"
        predict_dataset(model, source, out, columns=["label"], keep=["text"], scheduler="synchronous")
        expected = table["text"][1:].cast(pa.string()).to_pylist()
        expected = [text for text in expected if filters is None or text not in (None, "a")]
        assert pq.read_table(out)["text"].cast(pa.string()).to_pylist() == expected
