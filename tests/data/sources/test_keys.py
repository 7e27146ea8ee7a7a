"""Keys of folders are read by what is written, or as they are known, and never by what else is listed."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from streamgda import (
    Categorical,
    LinearDiscriminantAnalysis,
    StatisticsLedger,
    accumulate,
    evaluate,
    predict_dataset,
    scan,
    scan_arrow,
    scan_parquet,
)

STORES = {"1": 0.1, "2": 0.9, "7b": 0.5, "01": 0.8}
BY_STORE = {"features": ["x", "store"], "categories": Categorical(columns=["store"])}


def put(folder, share=0.5, n=400):
    rng = np.random.default_rng(int(share * 10))
    y = (rng.random(n) < share).astype(int)
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"x": rng.normal(size=n) + 0.2 * y, "y": y}), folder / "a.parquet")


@pytest.fixture
def stores(tmp_path):
    for store, share in STORES.items():
        put(tmp_path / "data" / f"store={store}", share)
    return tmp_path / "data"


@pytest.fixture
def model(stores):
    return LinearDiscriminantAnalysis().fit(scan_parquet(stores, "y", **BY_STORE))


def paths_to(folder):
    return folder, folder / "a.parquet", f"{folder}/*.parquet", [folder / "a.parquet"], [folder]


@pytest.mark.parametrize("store", STORES)
def test_a_model_reads_a_key_as_it_knows_it_whatever_else_is_listed(stores, model, store):
    table = pd.read_parquet(stores / f"store={store}" / "a.parquet")
    due = model.score(table[["x"]].assign(store=store), table["y"])
    assert model.categories_ == {"store": sorted(STORES)}
    for path in paths_to(stores / f"store={store}"):
        assert evaluate(model, scan_parquet(path, "y", **BY_STORE)).accuracy == due
        assert scan(path, "y", **BY_STORE).head()["store"].tolist() == [store] * 5
    alone = LinearDiscriminantAnalysis().fit(scan_parquet(stores / f"store={store}", "y", **BY_STORE))
    assert alone.partial_fit(scan_parquet(stores, "y", **BY_STORE)).categories_ == model.categories_


def test_predictions_of_one_folder_are_those_of_all(stores, model, tmp_path):
    predict_dataset(model, stores, tmp_path / "all", keep=["store"])
    predict_dataset(model, stores / "store=1", tmp_path / "one", keep=["store"])
    every, one = (pq.read_table(tmp_path / name).drop_columns("probability_0") for name in ("all", "one"))
    assert every.filter(pc.field("store") == "1").equals(one)


def test_a_model_of_numbers_reads_keys_as_numbers(stores):
    frame = pd.DataFrame({"x": np.arange(8.0), "store": [1, 2] * 4})
    options = Categorical(columns=["store"])
    model = LinearDiscriminantAnalysis(categories=options).fit(frame, [0, 0, 1, 1] * 2)
    source = scan_parquet([stores / "store=1", stores / "store=2"], "y", **BY_STORE)
    parts = [pd.read_parquet(stores / f"store={store}" / "a.parquet").assign(store=store) for store in (1, 2)]
    rows = pd.concat(parts)
    assert evaluate(model, source).accuracy == model.score(rows[["x", "store"]], rows["y"])
    with pytest.warns(UserWarning, match="no learnt row has"):
        predict_dataset(model, stores, stores.parent / "out", keep=["store"])
    assert sorted(pq.read_table(stores.parent / "out")["store"].unique().to_pylist()) == ["1", "2", "7b"]


def test_a_ledger_takes_a_key_of_text_after_keys_of_numbers(tmp_path):
    ledger, read = StatisticsLedger(tmp_path / "ledger"), []
    for store, share in STORES.items():
        put(tmp_path / "data" / f"store={store}", share)
        read.append(ledger.refresh(scan_parquet(tmp_path / "data", "y", **BY_STORE)).read)
    assert [len(paths) for paths in read] == [1, 1, 1, 1]
    assert not ledger.refresh(tmp_path / "data").read
    assert ledger.statistics() == accumulate(scan_parquet(tmp_path / "data", "y", **BY_STORE))


def test_labels_are_read_as_a_model_knows_them_or_as_they_are_declared(tmp_path):
    for kind in ("1", "2", "7b"):
        put(tmp_path / f"kind={kind}")
    of_numbers = [tmp_path / "kind=1", tmp_path / "kind=2"]
    mixed = scan_parquet(tmp_path, "kind", features=["x"])
    with pytest.warns(
        UserWarning, match=r"kind=7b .* hive_types=\{'kind': 'string'\} \(--hive-types kind=str"
    ):
        assert accumulate(mixed).classes.tolist() == ["1", "2", "7b"]
    declared = scan_parquet(tmp_path, "kind", features=["x"], hive_types={"kind": "string"})
    model = LinearDiscriminantAnalysis().fit(declared)
    assert evaluate(model, mixed).accuracy == evaluate(model, declared).accuracy
    with pytest.warns(UserWarning, match="'kind' of folders is read as text"):
        predict_dataset(model, tmp_path, tmp_path.with_name(f"{tmp_path.name} out"), keep=["kind"])
    for path in paths_to(tmp_path / "kind=1"):
        source = scan_parquet(path, "kind", features=["x"])
        assert accumulate(source).classes.tolist() == [1]
        assert evaluate(model, source).n_rows == 400
        assert model.partial_fit(source).classes_.tolist() == ["1", "2", "7b"]
    assert accumulate(scan_parquet(of_numbers, "kind", features=["x"])).classes.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"store": "int64"}, "store=7b: store=7b is no int64, as hive_types has it"),
        ({"stores": "int64"}, "hive_types: there is no column 'stores'; did you mean 'store'"),
        ({"store": "number"}, "'number' is no type of Arrow"),
    ],
)
def test_types_that_keys_cannot_have_are_named(stores, types, message):
    with pytest.raises(ValueError, match=message):
        scan_parquet(stores, "y", hive_types=types)


@pytest.mark.parametrize(
    ("keys", "filters", "n_passing"),
    [
        (["1", "2"], [("key", "<", 2)], 1),
        (["1", "2"], [("key", "in", ["1"])], 1),
        (["1", "2", "7b"], [("key", "=", "1")], 1),
        (["1", "01"], pc.field("key") == "1", 1),
        (["1", "01"], (pc.field("key") == 1) | (pc.field("x") > 1e9), 2),
        (["01", "02", "12"], [("key", ">=", 2)], 2),
        (["0.5", "2"], [("key", ">", 0.7)], 1),
        (["2026-11-05", "2026-11-06"], [("key", "<", datetime.date(2026, 11, 6))], 1),
        (["2026-11-05", "2026-11-06"], [("key", "<", "2026-11-06")], 1),
    ],
)
@pytest.mark.parametrize("is_category", [False, True])
def test_a_filter_compares_keys_as_text_numbers_or_dates(tmp_path, keys, filters, n_passing, is_category):
    for key in keys:
        put(tmp_path / f"key={key}")
    options = {"features": ["x", "key"], "categories": Categorical(columns=["key"])} if is_category else {}
    state = accumulate(scan_parquet(tmp_path, "y", filters=filters, **options))
    assert state.n_rows == 400 * n_passing


def test_a_filter_that_keys_cannot_pass_says_what_they_are(stores):
    with pytest.raises(ValueError, match=r"do not go together; folders have store=.*, so give text"):
        scan_parquet(stores, "y", filters=[("store", "=", 1)])


def test_text_that_a_dataset_or_a_table_declares_is_text(tmp_path):
    put(tmp_path / "store=7")
    for kind, encoded in ((pa.string(), ("store",)), (pa.int32(), ())):
        partitioning = ds.partitioning(pa.schema([("store", kind)]), flavor="hive")
        for source in (
            scan_arrow(ds.dataset(tmp_path, partitioning=partitioning), "y", features=["x", "store"]),
            scan_parquet(tmp_path, "y", features=["x", "store"], hive_types={"store": kind}),
        ):
            assert source.encoded == encoded
            assert accumulate(source).n_rows == 400


def test_declared_types_are_those_of_a_ledger_and_not_of_a_table(tmp_path):
    put(tmp_path / "data" / "day=2026-11-05")
    read = {"features": ["x", "day"], "hive_types": {"day": "date32"}}
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(scan_parquet(tmp_path / "data", "y", **read))
    put(tmp_path / "data" / "day=2026-11-06")
    assert len(ledger.refresh(tmp_path / "data").read) == 1
    assert ledger.statistics() == accumulate(scan_parquet(tmp_path / "data", "y", **read))
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(
        tmp_path / "t", pa.table({"x": [1.0], "y": [0], "day": ["a"]}), partition_by=["day"]
    )
    with pytest.raises(ValueError, match="a table has types of its own"):
        scan_parquet(deltalake.DeltaTable(tmp_path / "t"), "y", hive_types={"day": "string"})
