"""What is found again: every field of every object that stands behind an identity changes the identity.

A field that is new fails here until its other value, or why nothing depends on it, is written down.
"""

import os
import shutil
from dataclasses import dataclass, field, fields, replace
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from uuid import UUID

import dask
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from sklearn.covariance import OAS
from zarr.storage import MemoryStore

from streamgda import (
    Categorical,
    GaussianNB,
    RidgeClassifier,
    StatisticsLedger,
    accumulate,
    load,
    predict_dataset,
    scan,
    scan_arrow,
)
from streamgda.data.blocks.parts import Part
from streamgda.data.sources.columns.expressions import ColumnExpression, Filter
from streamgda.data.sources.columns.roles import Roles
from streamgda.data.sources.files.formats import FileRows
from streamgda.data.sources.files.row_groups import ReadOptions, RowGroups
from streamgda.data.sources.maps.mapped import MappedSplit
from streamgda.data.sources.maps.maps import FeatureMap
from streamgda.data.sources.splits import InputFile, RowRange
from streamgda.data.sources.stores import PlannedArrays
from streamgda.data.sources.zarr import ZarrRows, ZarrSource
from streamgda.data.storage.filesystems import Storage
from streamgda.data.storage.identity import canonical, identity_of
from streamgda.data.storage.versions import Version
from streamgda.jobs.ledger.entries import FileRecord
from streamgda.jobs.scoring.columns import PredictionColumns
from streamgda.jobs.scoring.inference import Decision
from streamgda.jobs.scoring.outputs.base import Field
from streamgda.models.estimators import ESTIMATORS, estimator_named
from streamgda.models.estimators.dtypes import FittedTypes
from streamgda.statistics.required import Required

# ---------------------------------------------------------------------- plain values

VALUES = [
    *(None, True, 1, 1.0, np.nextafter(1, 2), 1j, "1", b"1", Decimal(1), Decimal("1.0"), -0.0, 0.0),
    *(float("nan"), float("inf"), np.longdouble(1), "2026-01-01", date(2026, 1, 1)),
    *(np.datetime64("2026-01-01"), np.datetime64("2026-01-01", "s"), [1], [[1]], {1}, {1: 2}, {"1": 2}),
    *({True: 2}, [1, 2], [2, 1], [None], [], {}, "", pa.int32(), pa.int64(), pa.field("a", pa.int32())),
    *(pa.field("a", pa.int32(), False), pa.schema([("a", pa.int32())]), pa.struct([("a", pa.int32())])),
    *(pa.struct([pa.field("a", pa.int32(), False)]), pa.timestamp("s"), pa.timestamp("s", "UTC")),
    *(pa.field("a", pa.int32(), metadata={"b": "c"}), pa.schema([("a", pa.int32())], {"b": "c"})),
    *(pa.field("b", pa.int32()), pa.struct([pa.field("a", pa.int32(), metadata={"b": "c"})])),
    *(
        np.array([1]),
        np.array([1], "u8"),
        np.array([[1]]),
        np.array([1.0]),
        np.array([1], object),
        np.array(["1"], object),
    ),
    *(np.array([[1]], object), time(1), timedelta(1), PurePosixPath("1"), UUID(int=1), OAS()),
    *(OAS(assume_centered=True), *Enum("Kind", ["A", "B"]), [OAS()], {"1": OAS()}),
]


@dataclass
class Compared:
    told: int
    untold: int = field(default=0, compare=False)


def test_values_of_other_types_are_others():
    assert len({identity_of(value) for value in VALUES}) == len(VALUES)
    assert canonical({1: 2, "a": 3}) == canonical({"a": np.uint8(3), np.int64(1): 2})
    assert identity_of(np.array([1]), OAS()) == identity_of(np.array([1], ">i8"), OAS())
    assert identity_of({0, 8}, Compared(1, 2)) == identity_of({8, 0}, Compared(1, 3)) != identity_of({0, 8})
    assert identity_of(object()) != identity_of(object())  # of which nothing tells whether they are the same


# ---------------------------------------------------------------------- fields

SCHEMA = pa.schema([("a", pa.float64()), ("b", pa.float64())])
HALF = ColumnExpression(pc.field("a") / 2, SCHEMA)
PART = Part("rows", 0.2, 0, True)
ROLES = Roles(
    ("a", "b"), "y", "w", "raise", "g", {"b": HALF}, ("d",), Categorical(), ("t",), {"e": 3}, None, (PART,)
)
LOCAL = Storage(pafs.LocalFileSystem())
OPTIONS = ReadOptions(LOCAL, ROLES, Filter.of([("a", ">", 1)], SCHEMA), ("k",), "d")
GROUPS = RowGroups(OPTIONS, "d/1", Version(1, 2), {"k": 1}, np.arange(2).tobytes(), 3, 4, b"f")
ROWS = FileRows(OPTIONS, "d/1", Version(1, 2), {}, b"", None, format=ds.CsvFileFormat(), types=SCHEMA)
ZARR = ZarrSource(MemoryStore(), "g", "X", "y", "w", "raise", (), "g", "raise", 3, (PART,))
ARRAYS = ZarrRows(ZARR, 0, 9, {"c/0": (1, 2)}, PlannedArrays("a", {}, (), {}))
COLUMNS = PredictionColumns(GaussianNB(), ("label",), Decision(0.5), 1, np.array(-np.inf))
SCALE = FeatureMap(np.log, ("a",))

OTHERS = [
    (PART, {"by": "files", "test": 0.3, "random_state": 1, "is_test": False}, ()),
    (Version(1, 2), {"size": 2, "modified": 3, "etag": "a", "inode": 4}, ()),
    (HALF, {"expression": pc.field("a") / 3}, ("columns",)),  # which follow from it
    (OPTIONS.filter, {"expression": pc.field("a") > 2}, ("columns",)),
    (
        ROLES,
        {
            "features": ("b", "a"),
            "target": "z",
            "weight": None,
            "missing": "drop",
            "groups": "h",
            "derived": {"b": ColumnExpression(pc.field("a") / 3, SCHEMA)},
            "encoded": (),
            "dates": (),
            "lists": {"e": 4},
            "parts": (replace(PART, test=0.3),),
        },
        # `encoded` tells what is encoded, `features` what is not left out, and `ReadOptions.kinds` the rest.
        ("encoding", "left_out", "kinds"),
    ),
    (
        OPTIONS,
        {
            "storage": Storage(pafs.SubTreeFileSystem("/d", pafs.LocalFileSystem())),
            "filter": None,
            "roles": replace(ROLES, weight=None),
            "keep": (),
            "kinds": {"k": "str"},
        },
        ("root",),  # of which rows depend by the name of their file
    ),
    (
        GROUPS,
        {
            "read_options": replace(OPTIONS, keep=()),
            "path": "d/2",
            "version": Version(1, 3),
            "partition": {"k": True},
            "groups": np.arange(2, 4).tobytes(),
            "n_rows": 4,
            "footer": b"g",
        },
        ("n_bytes", "remote"),
    ),
    (
        ROWS,
        {
            "read_options": replace(OPTIONS, keep=()),
            "path": "d/2",
            "version": Version(1, 3),
            "partition": {"k": date(2026, 1, 1)},
            "groups": b"1",
            "n_rows": 4,
            "footer": b"g",
            "types": SCHEMA.remove(0),
            "written_as": "csv skip_rows=1",
        },
        ("format", "n_bytes", "remote"),  # `written_as` is the format as text
    ),
    (RowRange(GROUPS, 0, 1), {"split": ROWS, "start": 1, "stop": 2}, ()),
    (MappedSplit(GROUPS, SCALE), {"split": ROWS, "step": FeatureMap(np.exp, ("a",))}, ()),
    (SCALE, {"transformer": np.exp, "names": ("b",)}, ()),
    (
        ZARR,
        {
            "path": "h",
            "features": "Z",
            "target": None,
            "weight": None,
            "missing": "drop",
            "kept": ("k",),
            "groups": None,
            "unwritten_labels": "fill",
            "zarr_format": 2,
            "parts": (),
        },
        ("store",),  # which `ZarrRows` tells
    ),
    (
        ARRAYS,
        {
            "source": replace(ZARR, store=MemoryStore({})),
            "start": 1,
            "stop": 8,
            "stored": {},
            "arrays": replace(ARRAYS.arrays, described="b"),
        },
        (),
    ),
    (ARRAYS.arrays, {"described": "b"}, ("documents", "blosc", "shards")),  # which follow from it
    (
        COLUMNS,
        {"columns": ("set",), "decision": Decision(0.6), "top": 2, "least_odds": np.array(0.0)},
        ("model",),  # which is told apart from some parameters
    ),
    (Decision(0.5, None, 1), {"threshold": 0.6, "costs": np.eye(2), "positive": 0, "quantile": 1.0}, ()),
    (
        Field("p", ("p_a",), pa.float64(), {"classes": [True]}),
        {"name": "q", "columns": ("p_b",), "type": pa.float32(), "attributes": {"classes": [1]}},
        (),
    ),
    (Required(), {"covariance_type": "diag", "fourth_moments": True, "exact": True}, ()),
    (FittedTypes(), {"rows": "float32", "labels": "uint8"}, ()),
]


@pytest.mark.parametrize(("value", "others", "untold"), OTHERS, ids=[type(v).__name__ for v, *_ in OTHERS])
def test_each_field_changes_the_identity(value, others, untold):
    assert others.keys() | set(untold) == {field.name for field in fields(value)}
    changed = [replace(value, **{name: other}) for name, other in others.items()]
    found = [identity_of(one) for one in (value, replace(value), *changed)]
    assert found[0] == found[1]
    assert len(set(found)) == len(others) + 1


def test_each_field_of_roles_changes_what_ledgers_keep():
    (others,) = (others for value, others, _ in OTHERS if value is ROLES)
    for name, other in others.items():
        assert replace(ROLES, **{name: other}).read_options != ROLES.read_options, name


def test_the_name_of_a_file_counts_where_rows_are_divided():
    for roles, n_identities in ((ROLES, 2), (replace(ROLES, parts=()), 1)):
        options = replace(OPTIONS, roles=roles)
        named = {identity_of(replace(GROUPS, read_options=replace(options, root=root))) for root in ("d", "")}
        assert len(named) == n_identities


def test_what_a_ledger_knows_a_file_by():
    file = InputFile("1", "d/1", Version(1, 2), {"k": 1}, name="1")
    others = {"path": "2", "version": Version(1, 3), "partition": {"k": True}, "name": "d/1"}
    others["row_groups"] = [1], 2
    files = [file, *(replace(file, **{k: v}) for k, v in others.items())]
    records = [FileRecord.of(one) for one in (*files, replace(file, version=Version(1, 2, inode=3)))]
    assert len({record.identity for record in records}) == len(records)
    assert [records[0].known_as(one) == one for one in records[1:]] == [False] * len(others) + [True]
    assert FileRecord.of(replace(file, row_groups=([0, 1], 2))).identity == records[0].identity
    before = FileRecord.of(replace(file, name=""))  # of a ledger that knew no names, or divides no rows
    assert before.identity == records[0].identity
    both = [FileRecord.of(replace(file, partition=keys)) for keys in ({"k": 1, "l": 2}, {"l": 2, "k": 1})]
    assert both[0].identity == both[1].identity
    days = [FileRecord.of(replace(file, partition={"k": day})) for day in (date(2026, 1, 1), "2026-01-01")]
    assert days[0].identity != days[1].identity


def test_a_ledger_reads_the_row_groups_that_it_has_not_read(tmp_path):
    pq.write_table(pa.table({"a": X[:, 0], "y": Y}), tmp_path / "1.parquet", row_group_size=20)
    every, ledger = ds.dataset(tmp_path / "1.parquet"), StatisticsLedger(tmp_path / "_ledger")
    (part,) = (one.subset(row_group_ids=[1]) for one in every.get_fragments())
    some = ds.FileSystemDataset([part], every.schema, part.format, every.filesystem)
    for dataset, n_rows in ((some, 20), (every, 60), (some, 20)):
        report = ledger.refresh(scan_arrow(dataset, "y"))
        assert (len(report.read), ledger.statistics().n_rows) == (1, n_rows)
    assert ledger.refresh(scan_arrow(some, "y")).reused


@pytest.mark.parametrize("name", ESTIMATORS)
def test_each_parameter_changes_the_identity_of_a_model(name):
    model = estimator_named(name)()
    found = {model._identity(): "none"}
    for parameter in model.get_params(deep=False):
        other = estimator_named(name)()
        setattr(other, parameter, "another value")
        assert found.setdefault(other._identity(), parameter) == parameter
        if parameter in model._told_by_statistics:
            assert other._identity(apart_from=model._told_by_statistics) == model._identity(
                apart_from=model._told_by_statistics
            )


# ---------------------------------------------------------------------- models and their predictions

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), np.arange(60) % 2


def test_all_that_a_model_has_learnt_changes_its_identity(tmp_path):
    plain, other = GaussianNB().fit(X, Y), GaussianNB().fit(X[::-1] * 2, Y)
    texts, mended = (
        GaussianNB().fit(scan_arrow(pa.table({"c": labels, "x": X[:, 0], "y": Y}), "y"))
        for labels in (["A", "B"] * 30, ["a", "b"] * 30)
    )
    announced = GaussianNB().partial_fit(X, Y, classes=[0, 1, 2])
    ridge = RidgeClassifier().fit(X, Y)
    calibrated = RidgeClassifier().fit(X, Y).calibrate(X, Y)
    bools, floats = GaussianNB().fit(X, Y == 1), GaussianNB().fit(X.astype(np.float32), Y)
    models = [plain, other, texts, mended, announced, ridge, calibrated, bools, floats, GaussianNB()]
    found = [model._identity() for model in models]
    assert len(set(found)) == len(models)
    plain.predict_proba(X)  # which computes and remembers densities
    plain.save(tmp_path / "model.parquet")
    again = load(tmp_path / "model.parquet")
    models = plain, again, GaussianNB().fit(X, Y)
    assert len({dask.base.tokenize(model) for model in models}) == 1


@pytest.mark.filterwarnings("ignore:categories that no learnt row has")
def test_predictions_of_a_model_of_mended_categories_are_its_own(tmp_path):
    mended = pa.table({"c": ["a", "b"] * 30, "x": X[:, 0]})
    pq.write_table(mended, tmp_path / "today.parquet")
    for labels in (["A", "B"] * 30, ["a", "b"] * 30):
        model = GaussianNB().fit(scan_arrow(pa.table({"c": labels, "x": X[:, 0], "y": Y}), "y"))
        predict_dataset(model, tmp_path / "today.parquet", tmp_path / "out")
    scored = pq.read_table(tmp_path / "out")
    assert scored["predicted_label"].to_pylist() == model.predict(mended).tolist()


@pytest.mark.parametrize("wider", [pa.float64(), pa.int64(), pa.large_string()])
def test_all_parts_of_an_output_have_one_schema(tmp_path, wider):
    model, first = GaussianNB().fit(pa.table({"a": X[:, 0]}), Y), pa.int32()
    first = pa.string() if pa.types.is_large_string(wider) else pa.int32()
    (tmp_path / "data").mkdir()
    for name, kind in (("1", first), ("2", wider)):
        table = pa.table({"a": X[:, 0], "id": pa.array(range(60)).cast(kind)})
        pq.write_table(table, tmp_path / "data" / f"{name}.parquet")
        predict_dataset(model, tmp_path / "data", tmp_path / "out", keep=["id"])
    assert pq.read_table(tmp_path / "out")["id"].to_pylist() == [*table["id"].to_pylist()] * 2


def test_files_of_one_size_and_time_that_swap_names_are_read_anew(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for i in range(2):
        table = pa.table({"a": X[30 * i : 30 * i + 30, 0], "y": Y[:30]})
        pq.write_table(table, data / f"{i}.parquet", compression="none", use_dictionary=False)
        os.utime(data / f"{i}.parquet", ns=(10**18, 10**18))
    assert len({path.stat().st_size for path in data.iterdir()}) == 1
    model = GaussianNB().fit(scan(data, "y"))
    predict_dataset(model, data, tmp_path / "out", columns=["log_density"])
    (data / "0.parquet").rename(tmp_path / "kept")
    (data / "1.parquet").rename(data / "0.parquet")
    (tmp_path / "kept").rename(data / "1.parquet")
    predict_dataset(model, data, tmp_path / "out", columns=["log_density"])
    predict_dataset(model, data, tmp_path / "fresh", columns=["log_density"])
    assert pq.read_table(tmp_path / "out") == pq.read_table(tmp_path / "fresh")


def test_the_digest_of_statistics_follows_each_change():
    first = accumulate(scan_arrow(pa.table({"a": [1.0, 2.0, np.nan], "y": [0, 1, 1]}), "y", missing="drop"))
    copy = first.copy()
    seen = {first.digest(), copy.update(pa.table({"a": [3.0]}), [1]).digest(), (first + first).digest()}
    copy = first.copy()
    for name, other in (("schema", first.schema.with_types(("a",), ())), ("_n_dropped", 2)):
        setattr(copy, name, other)  # as a state is described anew, whose rows stay
        seen.add(copy.digest())
    assert len(seen) == 5


# ---------------------------------------------------------------------- the ways to name a dataset


def write_months(at, kind, months=("m1", "m2 é")):
    for i, month in enumerate(months):
        (at / month).mkdir(parents=True)
        for j in range(2):
            start = 400 * i + 200 * j
            table = pa.table({"id": np.arange(start, start + 200.0), "y": np.arange(200) % 2})
            write = pq.write_table if kind == "parquet" else pa.csv.write_csv
            write(table, at / month / f"f{j}.{kind}")


def ways_to_name(at, kind):
    files = sorted(map(str, at.rglob(f"*.{kind}")))
    yield from (at, f"{at}/", f"file://{at}", f"{at}/*/*.{kind}", f"{at}/**/*.{kind}", f"{at}/m*", [at])
    yield from (files, files[::-1], [f"file://{file}" for file in files], [at / "m1", f"{at}/m2 é/"])
    yield [f"{at}/m1/*", *files[2:]]
    yield [f"{at}/m2 é/../m1", at / "m2 é"]
    dataset = ds.dataset(at, format=kind)
    yield from (dataset, ds.dataset(files, format=kind))
    yield ds.dataset(at, format=kind, schema=dataset.schema.append(pa.field("more", pa.string())))


def source_at(way):
    scanned = scan_arrow if isinstance(way, ds.Dataset) else scan
    return scanned(way, "y", features=["id"])


def rows_of(source, folder):
    """The rows of a source, by predictions in a folder."""
    predict_dataset(MODEL, source, folder, columns=["label"], keep=["id"])
    return sorted(pq.read_table(folder)["id"].to_pylist())


MODEL = GaussianNB().fit(pa.table({"id": np.arange(800.0)}), np.arange(800) % 2)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_parts_and_folds_do_not_depend_on_how_a_dataset_is_named(tmp_path, monkeypatch, kind):
    write_months(tmp_path / "d", kind)
    monkeypatch.chdir(tmp_path)
    ways = [*ways_to_name(tmp_path / "d", kind), "d", Path("./d"), f"d/*/*.{kind}"]
    tests = [source_at(way).split(0.3)[1] for way in ways]
    expected = rows_of(tests[0], tmp_path / "0")
    assert 150 < len(expected) < 330
    for number, test in enumerate(tests):
        assert rows_of(test, tmp_path / f"{number}") == expected, ways[number]
    listed = [source_at(way) for way in ways if not isinstance(way, ds.Dataset)]
    files = [[file.name for file in one.split(by="files")[1].files()] for one in listed]
    assert {tuple(sorted(names)) for names in files} == {tuple(sorted(files[0]))}
    folds = []
    for number in (0, 3, 7):  # a folder, a pattern, a list
        ledger = StatisticsLedger(tmp_path / f"ledger {number}", folds=3, exact=True)
        ledger.refresh(listed[number])
        folds.append([ledger.fold_statistics()[fold].digest() for fold in range(3)])
    assert folds[0] == folds[1] == folds[2]


def test_a_partition_alone_is_divided_as_among_all(tmp_path):
    write_months(tmp_path / "d", "parquet", ("month=1", "month=2"))
    every = rows_of(source_at(tmp_path / "d").split()[1], tmp_path / "every")
    one = tmp_path / "d" / "month=2"
    for number, way in enumerate((one, f"{one}/*", sorted(map(str, one.iterdir())), ds.dataset(one))):
        alone = rows_of(source_at(way).split()[1], tmp_path / f"{number}")
        assert alone == [row for row in every if row >= 400]
    file = rows_of(source_at(one / "f1.parquet").split()[1], tmp_path / "file")
    assert file == [row for row in every if row >= 600]


def test_what_was_divided_otherwise_is_not_found_again(tmp_path):
    """A month that is scanned alone has other test rows than among all months."""
    write_months(tmp_path / "d", "parquet")
    files = sorted(map(str, (tmp_path / "d" / "m1").iterdir()))
    ways = files, [*files, str(tmp_path / "d" / "m2 é" / "f0.parquet")]
    ledger, folded = StatisticsLedger(tmp_path / "parts"), StatisticsLedger(tmp_path / "folds", folds=3)
    for way in ways:
        source = source_at(way).split(0.3)[0]
        assert accumulate(source, checkpoint=tmp_path / "states") == accumulate(source)
        shutil.rmtree(tmp_path / "fresh", ignore_errors=True)
        assert rows_of(source, tmp_path / "out") == rows_of(source, tmp_path / "fresh")
        ledger.refresh(source)
        assert ledger.statistics().allclose(accumulate(source), rtol=1e-12)
        report = folded.refresh(source_at(way))
        assert not report.reused
    undivided = StatisticsLedger(tmp_path / "undivided")
    undivided.refresh(source_at(ways[0]))
    assert len(undivided.refresh(source_at(ways[1])).reused) == 2
