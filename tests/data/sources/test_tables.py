"""Tables of Delta, Iceberg and Lance, as their own libraries write and read them."""

import datetime
import json
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from streamgda import (
    ClassStatistics,
    LinearDiscriminantAnalysis,
    StatisticsLedger,
    accumulate,
    predict_dataset,
    scan_arrow,
    scan_parquet,
)


def rows(n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "u": rng.normal(size=n_rows),
            "v": rng.normal(size=n_rows),
            "part": rng.integers(0, 3, n_rows),
            "y": rng.choice(["a", "b"], n_rows),
        }
    )


def check_same_rows(state, table):
    """The state is that of the columns u and v of a table."""
    rows = table.select(["u", "v"])
    assert state.allclose(ClassStatistics().update(rows, table["y"].to_pylist()), rtol=1e-10)


# ---------------------------------------------------------------------- Delta


@pytest.fixture
def deltalake():
    return pytest.importorskip("deltalake")


def commit(folder, *actions):
    """Write the next version of the log of a Delta table by hand."""
    log = Path(folder) / "_delta_log"
    name = f"{len(list(log.glob('*.json'))):020}.json"
    (log / name).write_text("\n".join(map(json.dumps, actions)))


def test_a_delta_table_has_the_rows_of_its_log(deltalake, tmp_path):
    folder = str(tmp_path / "a table 100%")
    deltalake.write_deltalake(folder, rows(), partition_by=["part"])
    deltalake.write_deltalake(folder, rows(seed=1), partition_by=["part"], mode="append")
    table = deltalake.DeltaTable(folder)
    table.delete("part = 1")
    table.delete("u < 0")

    source = scan_parquet(table, "y")

    left = pa.table(table.to_pyarrow_table())
    assert len(source.files()) == 2 < len(list(Path(folder).rglob("*.parquet")))
    assert source.feature_names == ("u", "v")
    check_same_rows(accumulate(source), left)
    chosen = scan_parquet(table, "y", features=["u", "v"], filters=[("part", "==", 2), ("v", ">", 0)])
    assert len(chosen.files()) == 1
    check_same_rows(accumulate(chosen), left.filter((pc.field("part") == 2) & (pc.field("v") > 0)))


KEYS = {
    "number": pa.array([1, 2**40, None], pa.int64()),
    "text": ["c/d = 100%", "07", None],
    "day": [datetime.date(2020, 1, 2), datetime.date(2021, 1, 1), None],
    "time": pa.array([datetime.datetime(2020, 1, 1, 3, 4, 5, 678)] * 3, pa.timestamp("us", "UTC")),
    "flag": [True, False, None],
    "price": pa.array([Decimal("1.20"), Decimal("-3.00"), None], pa.decimal128(10, 2)),
    "real": [0.1, 2.0, None],
}


def test_keys_of_delta_have_the_values_and_types_of_the_log(deltalake, tmp_path):
    written = pa.table({"u": [1.0, 2.0, 3.0], "y": [0, 1, 1], **KEYS})
    deltalake.write_deltalake(tmp_path / "t", written, partition_by=list(KEYS))
    table = deltalake.DeltaTable(tmp_path / "t")
    model = LinearDiscriminantAnalysis().fit(pa.table({"u": [0.0, 1.0, 3.0]}), [0, 0, 1])

    predict_dataset(model, scan_parquet(table), tmp_path / "scored", keep=["u", *KEYS])
    assert predict_dataset(model, table, tmp_path / "scored", keep=["u", *KEYS]).n_found == 3

    kept = pq.read_table(tmp_path / "scored").sort_by("u").select(["u", *KEYS])
    assert kept.to_pylist() == written.select(["u", *KEYS]).to_pylist()
    for name, value in [
        ("number", 2**40),
        ("text", "07"),
        ("day", datetime.date(2021, 1, 1)),
        ("flag", False),
    ]:
        filters = [(name, "==", value)]
        assert accumulate(scan_parquet(table, "y", features=["u"], filters=filters)).means == [[2.0]], name
    state = accumulate(scan_parquet(table, "y", features=["number", "flag", "real"], missing="drop"))
    np.testing.assert_array_equal(state.means, [[1.0, 1.0, 0.1], [2.0**40, 0.0, 2.0]])
    by_text = accumulate(scan_parquet(table, "text", features=["u"], missing="drop"))
    assert list(by_text.classes) == ["07", "c/d = 100%"]


def test_equal_keys_of_other_types_are_not_taken_for_each_other(deltalake, tmp_path):
    """Whatever has been read before by the process: True, 1 and 1.0 are equal, and hash alike."""
    for times, values in enumerate([[True, False], [1, 0], [True, False]]):
        folder = tmp_path / str(times)
        table = pa.table({"x": [1.0, 2.0], "kind": values, "key": values})
        deltalake.write_deltalake(folder, table, partition_by=["kind", "key"])
        source = scan_parquet(deltalake.DeltaTable(folder), "kind", features=["x"])
        assert accumulate(source, "diag").classes.dtype == np.array(values).dtype
        ledger = StatisticsLedger(tmp_path / f"ledger {times}")
        ledger.refresh(source)
        assert ledger.files["key"].type == pa.array(values).type


def test_keys_of_delta_that_the_files_store_too(deltalake, tmp_path):
    deltalake.write_deltalake(tmp_path, rows(), partition_by=["part"])
    for path in tmp_path.rglob("*.parquet"):
        stored = pq.read_table(path, partitioning=None)
        key = int(path.parent.name.removeprefix("part="))
        pq.write_table(stored.append_column("part", [[key] * len(stored)]), path)

    source = scan_parquet(deltalake.DeltaTable(tmp_path), "y", features=["u", "v"])

    check_same_rows(accumulate(source), rows())


def added_in_delta(folder, old, new):
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(folder / "t", old)
    deltalake.write_deltalake(folder / "t", new, mode="append", schema_mode="merge")
    return scan_parquet, deltalake.DeltaTable(folder / "t")


def added_in_iceberg(folder, old, new):
    sql, warehouse = pytest.importorskip("pyiceberg.catalog.sql"), folder / "warehouse"
    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=warehouse.as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", old.schema)
    table.append(old)
    with table.update_schema() as schema:
        schema.union_by_name(new.schema)
    table.append(new)
    return scan_parquet, table


def declared_in_a_dataset(folder, old, new, names=("0", "1")):
    for name, part in zip(names, (old, new), strict=True):
        pq.write_table(part, folder / f"{name}.parquet")
    return scan_arrow, ds.dataset(folder, schema=new.schema)


ADDED = [added_in_delta, added_in_iceberg, declared_in_a_dataset, partial(declared_in_a_dataset, names="10")]


@pytest.mark.parametrize("make", ADDED, ids=["delta", "iceberg", "old file first", "new file first"])
def test_rows_of_before_a_column_was_added_lack_it(tmp_path, make):
    new = rows(seed=1).append_column("shop", pa.array(["n", "s"] * 30))
    scan, table = make(tmp_path, rows().select(["u", "y"]), new)

    read = partial(scan, table, "y", features=["u", "v"])
    with pytest.raises(ValueError, match="row 0: feature 'v' is NaN or null"):
        accumulate(read())
    check_same_rows(accumulate(read(missing="drop")), new)
    state = accumulate(read(missing="marginal"))
    assert (state.n_rows, state.counts.sum()) == (120, 120)
    assert accumulate(scan(table, "y", features=["u"])).n_rows == 120
    model = LinearDiscriminantAnalysis().fit(scan(table, "y", features=["u", "shop"]))
    assert model.categories_ == {"shop": ["n", "s", None]}
    predict_dataset(model, scan(table, "y", features=["u", "shop"]), tmp_path / "out", keep=["v", "u"])
    out = pq.read_table(tmp_path / "out")
    assert (out.schema.field("v").type, out["v"].null_count) == (pa.float64(), 60)
    ledger = StatisticsLedger(tmp_path / "ledger")
    assert len(ledger.refresh(read(missing="drop")).read) == 2
    assert ledger.statistics().n_rows == 60
    if scan is scan_parquet:
        for filters, n_rows in (([("v", ">", -99)], 60), (pc.field("shop").is_null(), 60)):
            source = scan(table, "y", features=["u"], filters=filters)
            assert (accumulate(source).n_rows, source.n_rows) == (n_rows, None)


def test_files_outside_of_the_folder_of_a_delta_table(deltalake, tmp_path):
    deltalake.write_deltalake(tmp_path / "one", rows())
    deltalake.write_deltalake(tmp_path / "two", rows(seed=1))
    path = next((tmp_path / "two").glob("*.parquet")).rename(tmp_path / "a b.parquet")
    added = {"path": f"file://{tmp_path}/a%20b.parquet", "size": path.stat().st_size, "modificationTime": 1}
    commit(tmp_path / "one", {"add": {**added, "partitionValues": {}, "dataChange": True}})

    source = scan_parquet(deltalake.DeltaTable(tmp_path / "one"), "y", features=["u", "v"])

    check_same_rows(accumulate(source), pa.concat_tables([rows(), rows(seed=1)]))


def test_a_ledger_follows_a_delta_table(deltalake, tmp_path):
    deltalake.write_deltalake(tmp_path / "t", rows())
    table = deltalake.DeltaTable(tmp_path / "t")
    ledger, source = StatisticsLedger(tmp_path / "ledger"), scan_parquet(table, "y", features=["u", "v"])
    ledger.refresh(source)
    deltalake.write_deltalake(tmp_path / "t", rows(seed=1), mode="append")
    assert str(ledger.refresh(source)).startswith("read 0 files")

    table.update_incremental()

    assert str(ledger.refresh(source)).startswith("read 1 file (1 new, 0 changed), reused 1, dropped 0")
    table.optimize.compact()
    assert str(ledger.refresh(source)).startswith("read 1 file (1 new, 0 changed), reused 0, dropped 2")
    check_same_rows(ledger.statistics(), pa.concat_tables([rows(), rows(seed=1)]))


# Of four rows, the second is deleted: a bitmap in the log itself, in the format of Delta's protocol.
DELETION_VECTOR = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0rr91",
    "sizeInBytes": 34,
    "cardinality": 1,
}


def test_deletion_vectors_are_refused_by_name(deltalake, tmp_path):
    configuration = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(tmp_path, rows(4), configuration=configuration)
    assert accumulate(scan_parquet(deltalake.DeltaTable(tmp_path), "y")).n_rows == 4  # there are none yet
    path = next(tmp_path.glob("*.parquet"))
    file = {"path": path.name, "size": path.stat().st_size, "modificationTime": 1, "dataChange": True}
    commit(
        tmp_path,
        {"remove": {"path": path.name, "deletionTimestamp": 1, "dataChange": True}},
        {
            "add": {
                **file,
                "partitionValues": {},
                "stats": '{"numRecords": 4}',
                "deletionVector": DELETION_VECTOR,
            }
        },
    )
    table = deltalake.DeltaTable(tmp_path)

    with pytest.raises(ValueError, match=r"uses 'deletionVectors', .* use scan_arrow\(.*table\.scan\(\)"):
        scan_parquet(table, "y")
    left = scan_arrow(pa.RecordBatchReader.from_stream(table.scan()), "y", features=["u", "v"])
    check_same_rows(accumulate(left), rows(4).take([0, 2, 3]))


def test_column_mapping_is_refused_by_name(deltalake, tmp_path):
    deltalake.write_deltalake(tmp_path, rows())
    log = next((tmp_path / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    protocol = next(action for action in actions if "protocol" in action)["protocol"]
    protocol |= {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"]}
    described = next(action for action in actions if "metaData" in action)["metaData"]
    described["configuration"] = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "4"}
    schema = json.loads(described["schemaString"])
    for number, column in enumerate(schema["fields"], start=1):
        name = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": column["name"]}
        column["metadata"] = name
    described["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, actions)))

    with pytest.raises(ValueError, match="uses 'columnMapping'"):
        scan_parquet(deltalake.DeltaTable(tmp_path), "y")


def test_a_newer_protocol_of_delta_is_refused_by_name(deltalake, tmp_path, monkeypatch):
    deltalake.write_deltalake(tmp_path, rows())
    table = deltalake.DeltaTable(tmp_path)
    newer = table.protocol()._replace(min_reader_version=3, reader_features=["v2Checkpoint", "sorcery"])
    monkeypatch.setattr(deltalake.DeltaTable, "protocol", lambda table: newer)

    with pytest.raises(ValueError, match="uses 'sorcery'"):
        scan_parquet(table, "y")


def test_a_delta_table_without_files(deltalake, tmp_path):
    table = deltalake.DeltaTable.create(tmp_path, rows().schema)

    with pytest.raises(FileNotFoundError, match="table has no files"):
        scan_parquet(table, "y")


# ---------------------------------------------------------------------- Iceberg


@pytest.fixture
def catalog(tmp_path):
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog(
        "tests", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("n")
    yield catalog
    catalog.close()


@pytest.fixture
def table(catalog):
    """A table of Iceberg with a file for each of three parts."""
    table = catalog.create_table("n.t", rows().schema)
    with table.update_spec() as spec:
        spec.add_identity("part")
    table.append(rows())
    return table


ROLES = {"target": "y", "features": ["u", "v"]}


def test_an_iceberg_table_has_the_rows_of_its_snapshot(table):
    table.append(rows(seed=1))
    table.delete("part == 1 and u > 0")

    source = scan_parquet(table, **ROLES)

    check_same_rows(accumulate(source), table.scan().to_arrow())
    assert scan_parquet(table, "y").feature_names == ("u", "v", "part")
    first = table.scan(snapshot_id=table.history()[0].snapshot_id)
    check_same_rows(accumulate(scan_parquet(first, **ROLES)), rows())
    chosen = scan_parquet(table, **ROLES, filters=[("v", ">", 0)])
    check_same_rows(accumulate(chosen), table.scan("v > 0").to_arrow())


def test_a_scan_of_iceberg_may_leave_out_files_and_columns_but_no_rows(table):
    scan = table.scan("part == 2", selected_fields=("v", "y"))

    assert scan_parquet(scan, "y").feature_names == ("v",)
    part = scan_parquet(table.scan("part == 2"), **ROLES)
    check_same_rows(accumulate(part), rows().filter(pc.field("part") == 2))
    for part in (table.scan("u > 0"), table.scan(limit=5)):
        with pytest.raises(ValueError, match="limit, or a filter .* give filters to scan_parquet"):
            scan_parquet(part, **ROLES)


def test_delete_files_are_refused_by_name(table):
    from pyiceberg.table import FileScanTask

    class Scan(type(table.scan())):
        def plan_files(self):
            file = next(iter(table.scan().plan_files())).file
            return [FileScanTask(file, {file})]

    with pytest.raises(ValueError, match="has delete files.* use scan_arrow"):
        scan_parquet(Scan(table.metadata, table.io), **ROLES)


def test_columns_of_iceberg_that_were_renamed_or_dropped(table):
    with table.update_schema() as schema:
        schema.rename_column("u", "width")
    with pytest.raises(ValueError, match=r"\.parquet: column 'width' of the table has another name"):
        accumulate(scan_parquet(table, "y"))
    with table.update_schema() as schema:
        schema.add_column("u", table.schema().find_field("v").field_type)
    with pytest.raises(ValueError, match="row 0: feature 'u' is NaN or null"):  # and not what it was
        accumulate(scan_parquet(table, "y", features=["u"]))

    renewed = rows(seed=1).rename_columns(["width", "v", "part", "y"]).append_column("u", rows()["u"])
    table.overwrite(renewed)

    source = scan_parquet(table, "y", features=["u", "v"])
    check_same_rows(accumulate(source), renewed)
    with table.update_schema() as schema:
        schema.delete_column("width")
    assert sorted(scan_parquet(table, "y").feature_names) == ["part", "u", "v"]


def test_a_ledger_follows_an_iceberg_table(table, tmp_path):
    ledger, source = StatisticsLedger(tmp_path / "ledger"), scan_parquet(table, **ROLES)
    ledger.refresh(source)
    table.append(rows(seed=1))
    assert str(ledger.refresh(source)).startswith("read 3 files (3 new, 0 changed), reused 3, dropped 0")
    table.delete("part == 0")
    assert str(ledger.refresh(source)).startswith("read 0 files (0 new, 0 changed), reused 4, dropped 2")
    check_same_rows(ledger.statistics(), table.scan().to_arrow())


def test_an_iceberg_table_without_files_and_objects_that_are_no_tables(catalog):
    table = catalog.create_table("n.t", rows().schema)

    with pytest.raises(FileNotFoundError, match="table has no files"):
        scan_parquet(table, "y")
    for other in (catalog, table.schema(), 3, {"a": 1}):
        with pytest.raises(TypeError, match="list of them, or a table of Delta or Iceberg; got"):
            scan_parquet(other, "y")


# ---------------------------------------------------------------------- Lance


def test_a_lance_dataset_has_the_rows_that_are_not_deleted(tmp_path):
    lance = pytest.importorskip("lance")
    dataset = lance.write_dataset(rows(), tmp_path / "t.lance", max_rows_per_file=20)
    dataset.delete("u < 0")

    source = scan_arrow(dataset, **ROLES)

    check_same_rows(accumulate(source), dataset.to_table())
    chosen = scan_arrow(dataset.scanner(filter="v > 0"), **ROLES)
    check_same_rows(accumulate(chosen), dataset.to_table(filter="v > 0"))
    with pytest.raises(TypeError, match="table of Delta or Iceberg; got LanceDataset"):
        scan_parquet(dataset, "y")
