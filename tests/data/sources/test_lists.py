"""Columns of lists: each place of a list is a feature, in a pass as in predictions."""

import datetime
import json

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, orc

from streamgda import (
    Categorical,
    ClassStatistics,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    accumulate,
    evaluate,
    load,
    predict_dataset,
    scan,
    scan_arrow,
    scan_dask,
    scan_parquet,
)
from streamgda.data.storage.documents import table_digest

NAMES = ("emb_0", "emb_1", "emb_2")


def rows(n_rows=60, seed=0, dtype=np.float64):
    """A matrix (n_rows, 3) and labels of which it tells something."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    return (rng.integers(-40, 40, (n_rows, 3)) + 20 * y[:, None]).astype(dtype), y


def lists_of(X, kind="list"):
    """A column of Arrow whose lists are the rows of a matrix."""
    if kind == "tensor":
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(X))
    values = pa.array(X.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, X.shape[1])
    starts = np.arange(len(X) + 1) * X.shape[1]
    if kind == "large":
        return pa.LargeListArray.from_arrays(pa.array(starts), values)
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values)


def plain(X, y):
    return pa.table({**dict(zip(NAMES, X.T.copy(), strict=True)), "kind": y})


def expected(X, y, **options):
    return accumulate(scan_arrow(plain(X, y), "kind"), **options)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint32", "int64"])
@pytest.mark.parametrize("kind", ["list", "large", "fixed", "tensor"])
def test_the_places_of_lists_are_the_features_whatever_the_type(kind, dtype, tmp_path):
    X, y = rows(dtype="int64") if dtype != "uint32" else (abs(rows()[0]), rows()[1])
    table = pa.table({"emb": lists_of(X.astype(dtype), kind), "kind": y})
    sources = [scan_arrow(table, "kind"), scan_arrow(table, "kind", features=["emb"])]
    if dtype != "float16" or kind != "tensor":  # which Parquet does not hold
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=7)
        sources.append(scan_parquet(tmp_path, "kind"))
    for source in sources:
        assert source.feature_names == NAMES
        state = accumulate(source, "diag")
        np.testing.assert_allclose(state.means, [X[y == k].mean(axis=0) for k in (0, 1)], rtol=1e-14)
        np.testing.assert_allclose(
            state.scatter, [X[y == k].var(axis=0) * np.sum(y == k) for k in (0, 1)], rtol=1e-12
        )


def have_same_sums(one, other):
    sums, others = (table_digest(state.to_columns()[0], {}) for state in (one, other))
    return sums == others


def test_statistics_know_which_features_are_places_of_lists(tmp_path):
    X, y = rows()
    lists = accumulate(scan_arrow(pa.table({"emb": lists_of(X), "kind": y}), "kind"))
    in_memory = ClassStatistics().update(pd.DataFrame({"emb": list(X)}), y)
    columns = accumulate(scan_arrow(plain(X, y), "kind"))
    lists.save(tmp_path / "state.parquet")
    known = (("emb", 3),)
    states = [lists, in_memory, load(tmp_path / "state.parquet"), lists + columns, columns + lists]
    states += [lists.copy().update(pd.DataFrame(X, columns=NAMES), y), lists.select(["emb_2"])]
    assert [state.schema.lists for state in states] == [known] * len(states)
    assert columns.schema.lists == ()
    assert lists.allclose(columns, rtol=0)
    assert load(tmp_path / "state.parquet") == lists
    assert LinearDiscriminantAnalysis().fit(pd.DataFrame(X, columns=NAMES), y).to_sql("rows").count("[") == 0


@pytest.mark.parametrize(
    "features", [["emb_0", "emb_1"], ["emb_1", "emb_0"], ["emb_2"], ["emb_0", "emb_1", "u"]]
)
def test_a_model_of_some_places_takes_rows_with_whole_lists(features, tmp_path):
    pl = pytest.importorskip("polars")
    X, y = rows()
    u = X[:, 2] ** 2
    source = scan_arrow(pa.table({"emb": lists_of(X), "u": u, "kind": y}), "kind", features=features)
    LinearDiscriminantAnalysis().fit(source).save(tmp_path / "model.parquet")
    model = load(tmp_path / "model.parquet")
    columns = pd.DataFrame(dict(zip(NAMES, X.T, strict=True))).assign(u=u)[features]
    lists = pd.DataFrame({"emb": list(X), **({"u": u} if "u" in features else {})})
    expected = model.predict_proba(columns)
    for whole in (lists, pa.table(lists), pl.DataFrame(pa.table(lists)), lists.to_dict("records")):
        np.testing.assert_array_equal(model.predict_proba(whole), expected)
    more = model.partial_fit(lists, y).statistics_
    assert more.allclose(LinearDiscriminantAnalysis().fit(source).partial_fit(columns, y).statistics_)


def test_exact_statistics_of_lists_round_no_integer():
    X, y = np.array([[2**53 + 1, 5], [2**53 + 3, 7], [1, 9]]), [0, 0, 1]
    table = pa.table({"emb": lists_of(X, "fixed"), "u": [0.5, 1.5, 2.5], "kind": y})
    beside = pa.table({"emb_0": X[:, 0], "emb_1": X[:, 1], "u": [0.5, 1.5, 2.5], "kind": y})
    state = accumulate(scan_arrow(table, "kind"), exact=True)
    assert have_same_sums(state, accumulate(scan_arrow(beside, "kind"), exact=True))
    with_null = pa.table({"emb": pa.array([None, *X.tolist()]), "kind": [0, *y]})
    columns = {f"emb_{i}": pa.array([None, *X[:, i].tolist()]) for i in range(2)}
    one, other = (
        accumulate(scan_arrow(one, "kind", missing="drop"), exact=True)
        for one in (with_null, pa.table({**columns, "kind": [0, *y]}))
    )
    assert one.n_dropped == 1
    assert have_same_sums(one, other)


@settings(max_examples=25)
@given(
    X=st.lists(st.lists(st.integers(-1000, 1000), min_size=3, max_size=3), min_size=4, max_size=30),
    null=st.sets(st.integers(0, 29)),
    start=st.integers(0, 3),
    kind=st.sampled_from([pa.list_(pa.float32()), pa.large_list(pa.int16()), pa.list_(pa.float64(), 3)]),
)
def test_a_null_list_is_a_row_without_its_features(X, null, start, kind):
    values = [None if i in null else [None if v == 7 else v for v in row] for i, row in enumerate(X)]
    column = pa.chunked_array([pa.array(values[:2], kind), pa.array(values[2:], kind)]).slice(start)
    y = np.arange(len(values))[start:] % 2
    table = pa.table({"emb": column, "u": np.arange(len(y)) ** 2.0, "kind": y})
    X = np.array([[np.nan] * 3 if row is None else row for row in values], dtype=float)[start:]
    beside = plain(X, y).add_column(3, "u", table["u"])
    if all(row is None for row in values[start:]):
        with pytest.raises(ValueError, match="'emb'"):
            scan_arrow(table, "kind", missing="drop", features=["emb", "u"])
        return
    for missing in ("drop", "marginal"):
        state = accumulate(scan_arrow(table, "kind", missing=missing, features=["emb", "u"]), exact=True)
        other = accumulate(scan_arrow(beside, "kind", missing=missing), exact=True)
        assert state.n_dropped == other.n_dropped
        assert have_same_sums(state, other)


def test_categories_dates_and_lists_stand_beside_each_other(tmp_path):
    X, y = rows(200)
    table = pa.table(
        {
            "shop": np.where(X[:, 0] > 0, "web", "north"),
            "sold": [datetime.date(2026, 1, 1) + datetime.timedelta(days=int(v) ** 2 % 97) for v in X[:, 1]],
            "emb": lists_of(X.astype(np.float32)),
            "n": np.arange(200) % 7,
            "kind": y,
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    apart = table.drop_columns(["emb"])
    for i, name in enumerate(NAMES):
        apart = apart.add_column(2 + i, name, [X[:, i].astype(np.float32)])
    source, beside = scan_parquet(tmp_path, "kind"), scan_arrow(apart, "kind")
    assert source.feature_names == beside.feature_names
    assert source.encoded == ("shop",)
    model, other = (LinearDiscriminantAnalysis().fit(one) for one in (source, beside))
    assert model.statistics_.feature_names == other.statistics_.feature_names
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9)
    assert evaluate(model, source).accuracy == evaluate(other, beside).accuracy


def test_a_list_of_another_length_is_named(tmp_path):
    X, y = rows()
    lists = X.tolist()
    lists[41] = lists[41][:2]
    pq.write_table(pa.table({"emb": X.tolist(), "kind": y}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"emb": lists, "kind": y}), tmp_path / "2.parquet", row_group_size=20)
    with pytest.raises(ValueError, match=r"2\.parquet, row group 2, row 1: .*'emb' has 2 numbers, and 3"):
        accumulate(scan_parquet(tmp_path, "kind"))
    with pytest.raises(ValueError, match=r"2\.parquet.*'emb' holds 3 numbers in row 0 and 2 in row 41"):
        scan_parquet(tmp_path / "2.parquet", "kind")
    wider = pa.table({"emb": lists_of(np.hstack([X, X]), "fixed"), "kind": y})
    pq.write_table(wider, tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet: column 'emb' is .*\[6\]; elsewhere .* 3 numbers"):
        accumulate(scan_parquet(tmp_path, "kind"))


@pytest.mark.parametrize("emb", [[["a"], ["b"]], [[], []], [[1], [1, 2]]])
def test_lists_that_are_no_features_are_named_with_the_remedy(emb):
    table = pa.table({"emb": pa.array(emb), "x": [1.0, 2.0], "kind": [0, 1]})
    with pytest.raises(ValueError, match="'emb'"):
        scan_arrow(table, "kind", features=["emb"])
    assert scan_arrow(table, "kind", exclude=["emb"]).feature_names == ("x",)


def test_a_place_has_no_name_that_a_feature_has():
    table = pa.table({"emb": [[1.0, 2.0]] * 2, "emb_1": [3.0, 4.0], "kind": [0, 1]})
    with pytest.raises(ValueError, match="'emb_1'.*'emb'"):
        scan_arrow(table, "kind")
    assert scan_arrow(table, "kind", features=["emb"]).feature_names == ("emb_0", "emb_1")
    state = accumulate(scan_arrow(table, "kind", features=["emb"]), "diag")
    assert state.means[:, 1].tolist() == [2.0, 2.0]


def test_a_file_whose_lists_are_all_null_has_no_type_for_them(tmp_path):
    X, y = rows()
    pq.write_table(pa.table({"emb": lists_of(X), "kind": y}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"emb": pa.nulls(2), "kind": [0, 1]}), tmp_path / "2.parquet")
    state = accumulate(scan_parquet(tmp_path, "kind", missing="drop"))
    np.testing.assert_allclose(state.scatter, expected(X, y).scatter, rtol=1e-14)
    assert state.n_dropped == 2


@pytest.mark.parametrize(
    ("ending", "write"), [("parquet", pq.write_table), ("feather", feather.write_feather)]
)
def test_a_first_file_of_null_lists_stops_nothing(ending, write, tmp_path):
    X, y = rows()
    source = {
        "target": "kind",
        "missing": "drop",
        "format": "parquet" if write is pq.write_table else "feather",
    }
    (tmp_path / "data").mkdir()
    write(pa.table({"emb": lists_of(X), "kind": y}), tmp_path / "data" / f"2.{ending}")
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(scan(tmp_path / "data", **source))
    nulls = pa.nulls(len(y), pa.list_(pa.float64()))
    write(pa.table({"emb": nulls, "kind": y}), tmp_path / "data" / f"1.{ending}")
    for path in (tmp_path / "data", scan(tmp_path / "data", **source)):
        report = ledger.refresh(path)
        assert (report.rows_held, report.skipped) == (len(y), {})
    assert ledger.files["dropped"].to_pylist() == [len(y), 0]
    (tmp_path / "data" / f"2.{ending}").unlink()
    with pytest.raises(ValueError, match="holds no list .* leave the column out, or write it as lists of a "):
        scan(tmp_path / "data", **source)


def test_some_places_are_features_and_lists_are_computed_with():
    X, y = rows()
    table = pa.table({"emb": lists_of(X), "u": X[:, 0] ** 2, "kind": y})
    some = scan_arrow(table, "kind", features=["emb_2", "u", "emb_0"])
    assert some.feature_names == ("emb_2", "u", "emb_0")
    longer = scan_arrow(table, "kind").with_columns(n=pc.list_value_length(pc.field("emb")))
    assert longer.feature_names == (*NAMES, "u", "n")
    state = accumulate(scan_arrow(table, "kind"))
    part = accumulate(some)
    np.testing.assert_allclose(part.means, state.select(list(some.feature_names)).means, rtol=1e-14)
    np.testing.assert_allclose(part.scatter, state.select(list(some.feature_names)).scatter, rtol=1e-12)
    assert accumulate(longer).means[:, 4].tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="emb_3"):
        scan_arrow(table, "kind", features=["emb_3"])


def test_streams_tell_the_lengths_of_lists_by_their_first_rows():
    pl = pytest.importorskip("polars")
    X, y = rows()
    table = pa.table({"emb": lists_of(X), "kind": y})
    frame = pl.from_arrow(table)
    array = frame.with_columns(pl.col("emb").cast(pl.Array(pl.Float64, 3)))
    null = pa.table({"emb": pa.nulls(8, table.schema.field("emb").type), "kind": y[:8]})
    batches = pa.concat_tables([table[:0], null, table]).to_batches(max_chunksize=8)
    empty = pa.RecordBatch.from_pylist([], table.schema)
    reader = pa.RecordBatchReader.from_batches(table.schema, [empty, *batches])
    for data in (frame, frame.lazy(), array, array.lazy(), reader):
        state = accumulate(scan_arrow(data, "kind", missing="drop"))
        np.testing.assert_array_equal(state.scatter, expected(X, y).scatter)


def test_a_model_of_lists_is_saved_predicts_files_and_keeps_up_with_a_folder(tmp_path):
    X, y = rows()
    table = pa.table({"emb": lists_of(X), "kind": y})
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "1.parquet")
    model = QuadraticDiscriminantAnalysis().fit(scan(tmp_path / "data", "kind"))
    model.save(tmp_path / "model.parquet")
    again = load(tmp_path / "model.parquet")
    assert list(again.feature_names_in_) == list(NAMES)
    predict_dataset(again, str(tmp_path / "data"), tmp_path / "out", columns=["label"], keep=["emb"])
    out = pq.read_table(tmp_path / "out")
    assert out["predicted_label"].to_pylist() == model.predict(plain(X, y).select(NAMES)).tolist()
    assert out["emb"].to_pylist() == table["emb"].to_pylist()
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(scan(tmp_path / "data", "kind"))
    pq.write_table(table[:30], tmp_path / "data" / "2.parquet")
    report = ledger.refresh(tmp_path / "data")
    assert len(report.added) == 1
    assert ledger.statistics().n_rows == len(y) + 30
    assert ledger.statistics().feature_names == NAMES


@pytest.mark.parametrize("ending", ["jsonl", "feather", "orc"])
def test_lists_are_read_of_other_formats(ending, tmp_path):
    X, y = rows()
    table = pa.table({"emb": lists_of(X), "u": X[:, 0] ** 2, "kind": y})
    path = tmp_path / f"rows.{ending}"
    if ending == "jsonl":
        lines = [json.dumps({**row, "emb": list(map(int, row["emb"]))}) for row in table.to_pylist()]
        lines += ['{"emb": [0.5, 1, null], "u": 1, "kind": 0}', '{"emb": null, "u": 1, "kind": 1}']
        path.write_text("\n".join(lines))
    else:
        {"feather": feather.write_feather, "orc": orc.write_table}[ending](table, path)
    state = accumulate(scan(path, "kind", missing="drop"))
    beside = plain(X, y).add_column(3, "u", table["u"])
    np.testing.assert_allclose(state.scatter, accumulate(scan_arrow(beside, "kind")).scatter, rtol=1e-12)
    assert state.n_dropped == (2 if ending == "jsonl" else 0)


def test_a_line_of_json_whose_list_has_another_length_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [f'{{"emb": [{i}, 1, 2], "kind": {i % 2}}}' for i in range(1_500)]
    path.write_text("\n".join([*lines, '{"emb": [1], "kind": 0}']))
    with pytest.raises(ValueError, match=r"rows\.jsonl, row 1500: .*'emb' has 1 numbers, and 3"):
        accumulate(scan(path, "kind"))


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow", None])
def test_lists_in_dask_frames_are_learnt_and_scored(backend, tmp_path):
    X, y = rows()
    table = pa.table({"emb": lists_of(X, "fixed"), "u": X[:, 0] ** 2, "kind": y})
    for i in range(2):
        table.slice(30 * i, 30).to_pandas().to_parquet(tmp_path / f"{i}.parquet")
    options = {} if backend is None else {"dtype_backend": backend}
    frame = dd.read_parquet(tmp_path, **options)
    beside = scan_arrow(plain(X, y).add_column(3, "u", table["u"]), "kind")
    source = scan_dask(frame, "kind")
    assert source.feature_names == (*NAMES, "u")
    np.testing.assert_allclose(accumulate(source).scatter, accumulate(beside).scatter, rtol=1e-12)
    features = frame[["emb", "u"]]
    model = LinearDiscriminantAnalysis().fit(features, frame["kind"])
    other = LinearDiscriminantAnalysis().fit(beside)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9)
    lazy = model.predict_proba(features)
    np.testing.assert_allclose(lazy.compute(), model.predict_proba(table.select(["emb", "u"])), rtol=1e-9)
    assert evaluate(model, scan_dask(frame, "kind")).accuracy == evaluate(other, beside).accuracy


def test_lists_group_no_rows_are_no_categories_and_are_not_replaced(tmp_path):
    X, y = rows()
    table = pa.table({"emb": lists_of(X), "x": X[:, 0], "y": y})
    pq.write_table(table, tmp_path / "rows.parquet")
    part, _ = scan(tmp_path, "y", features=["x"]).split(by="emb")
    with pytest.raises(ValueError, match=r"rows\.parquet: column 'emb' is list.*cannot group"):
        accumulate(part)
    with pytest.raises(ValueError, match=r"rows\.parquet: feature 'emb_1' is a place .* 'emb'"):
        scan(tmp_path, "y", categories=Categorical(columns=["emb_1"]))
    with pytest.raises(ValueError, match=r"rows\.parquet: column 'emb' holds lists.*another name"):
        scan(tmp_path, "y").with_columns(emb=pc.list_element(pc.field("emb"), 0))


def test_an_empty_list_among_the_first_is_one_of_another_length():
    table = pa.table({"emb": pa.array([[], None, [1.0, 2.0]]), "y": [0, 1, 0]})
    with pytest.raises(ValueError, match="2 numbers in row 2 and 0 in row 0"):
        scan_arrow(table, "y")
