"""predict_dataset as a user sees it: the same rows in the same order, whatever happens on the way."""

import os
import re
import shutil
import signal

import dask
import dask.dataframe as dd
import duckdb
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.exceptions import NotFittedError
from zarr.storage import MemoryStore

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    accumulate,
    predict_dataset,
    scan,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from streamgda.jobs.scoring.outputs import zarr as zarr_output
from streamgda.jobs.scoring.outputs.parquet import ParquetOutput
from tests.data.tables import zarr_group
from tests.interrupted import full_disk, interrupt, let_pass
from tests.jobs.scoring.conftest import ALL, NAMES, check, frame_of, read, stamps
from tests.strategies import MODELS

UNFINISHED = f"{'0' * 32}.unfinished"  # how the name of a file ends that is being written


@pytest.mark.parametrize("model", MODELS[1:])
def test_predictions_are_those_in_memory_in_the_order_of_the_rows(source, whole, tmp_path, model):
    fitted = model().fit(source)
    written = predict_dataset(fitted, source, tmp_path / "out", columns=ALL, keep=["row", "kind"])
    scored = pd.read_parquet(tmp_path / "out")
    assert (written.n_rows, written.n_parts, written.n_found, written.n_dropped) == (773, 5, 0, 0)
    assert scored["row"].tolist() == whole["row"].tolist()
    assert scored["kind"].tolist() == whole["kind"].tolist()
    assert scored.columns.tolist()[:3] == ["row", "kind", "predicted_label"]
    check(scored, fitted, whole[NAMES], ALL)


def test_a_path_and_files_without_a_target(model, whole, folder, tmp_path):
    for file in folder.iterdir():
        table = pq.read_table(file)
        pq.write_table(table.select(["w", "row", "u", "v"]), file)
    predict_dataset(model, folder, tmp_path / "out", columns=ALL)
    check(pd.read_parquet(tmp_path / "out"), model, whole[NAMES], ALL)
    predict_dataset(model, f"{folder}/*.parquet", tmp_path / "again", columns=ALL)
    assert pd.read_parquet(tmp_path / "again").equals(pd.read_parquet(tmp_path / "out"))
    with pytest.raises(ValueError, match="no target is named"):
        accumulate(scan_parquet(folder, features=NAMES))


def test_a_model_of_exact_statistics(source, model, tmp_path):
    exact = QuadraticDiscriminantAnalysis(exact=True).fit(source)
    predict_dataset(exact, source, tmp_path / "out", columns=["label"])
    predict_dataset(model, source, tmp_path / "expected", columns=["label"])
    assert pq.read_table(tmp_path / "out").equals(pq.read_table(tmp_path / "expected"))
    assert predict_dataset(exact, source, tmp_path / "out", columns=["label"]).n_found == 5


@pytest.mark.slow_cases("out.zarr-cluster", "out-threads")
@pytest.mark.parametrize("scheduler", ["threads", "cluster"])
@pytest.mark.parametrize("out", ["out", "out.zarr"])
def test_every_scheduler_writes_the_same_bits(model, source, tmp_path, scheduler, out, request, monkeypatch):
    monkeypatch.setattr(zarr_output, "_MOST_ROWS_OF_CHUNK", 64)
    used = request.getfixturevalue("client") if scheduler == "cluster" else scheduler
    for place, how in (("here", "synchronous"), ("there", used)):
        written = predict_dataset(model, source, tmp_path / place / out, columns=ALL, scheduler=how)
        assert written.n_parts == (5 if out == "out" else 3)
    pd.testing.assert_frame_equal(read(tmp_path / "there" / out), read(tmp_path / "here" / out))


@pytest.mark.parametrize("classes", [[0, 1, 2], [False, True], ["a", "b"]])
def test_labels_keep_their_type(tmp_path, classes):
    y = np.array(classes)[np.arange(40) % len(classes)]
    table = pa.table({"x": np.random.default_rng(0).normal(size=40) + np.arange(40) % len(classes), "y": y})
    pq.write_table(table, tmp_path / "in.parquet")
    model = GaussianNB().fit(scan_parquet(tmp_path / "in.parquet", "y"))
    for out in ("out", "out.zarr"):
        predict_dataset(model, tmp_path / "in.parquet", tmp_path / out)
        check(read(tmp_path / out), model, table.select(["x"]).to_pandas())
    assert pq.read_table(tmp_path / "out")["predicted_label"].type == table["y"].type
    labels = zarr.open_group(tmp_path / "out.zarr", mode="r")["predicted_label"]
    assert labels.dtype == (np.dtypes.StringDType() if y.dtype.kind == "U" else y.dtype)


def test_filters_partitions_and_other_filesystems(whole, tmp_path):
    for day, part in whole.groupby(np.arange(len(whole)) // 400):
        (tmp_path / "days" / f"day={day}").mkdir(parents=True, exist_ok=True)
        part.to_parquet(tmp_path / "days" / f"day={day}" / "x.parquet", index=False)
    source = scan_parquet(tmp_path / "days", "kind", features=NAMES, filters=[("u", ">", 0.5)])
    model = GaussianNB().fit(source)
    memory = fsspec.filesystem("memory")
    predict_dataset(model, source, "/parts", keep=["day", "row"], filesystem=memory)
    scored = pd.concat(
        pd.read_parquet(memory.open(name)) for name in sorted(memory.ls("/parts", detail=False))
    )
    rows = whole[whole["u"] > 0.5]
    assert scored["row"].tolist() == rows["row"].tolist()
    assert scored["day"].tolist() == [0 if i < 400 else 1 for i in rows.index]
    check(scored, model, rows[NAMES])


def test_rows_with_missing_values(whole, tmp_path):
    holed = whole.copy()
    holed.loc[5, "v"] = np.nan
    holed.to_parquet(tmp_path / "in.parquet")
    file = tmp_path / "in.parquet"
    model = QuadraticDiscriminantAnalysis().fit(whole[NAMES], whole["kind"])
    for n_found in (0, 1):
        source = scan_parquet(file, features=NAMES, missing="drop")
        written = predict_dataset(model, source, tmp_path / "out", keep=["row"])
        assert (written.n_rows, written.n_found, written.n_dropped) == (772, n_found, 1)
        assert pd.read_parquet(tmp_path / "out")["row"].tolist() == whole["row"].drop(5).tolist()
    for out in ("out", "new"):
        with pytest.raises(ValueError, match=r"in\.parquet, row group 0, row 5: feature 'v' is NaN"):
            predict_dataset(model, file, tmp_path / out, keep=["row"])
    assert not list((tmp_path / "new").iterdir())
    marginal = QuadraticDiscriminantAnalysis(missing="marginal").fit(whole[NAMES], whole["kind"])
    columns = ("label", "probabilities", "log_density")
    predict_dataset(marginal, file, tmp_path / "out", columns=columns)
    check(pd.read_parquet(tmp_path / "out"), marginal, holed[NAMES], columns)


def test_an_infinity_is_named_where_missing_values_may_be(whole, tmp_path):
    """And not the missing value that comes before it."""
    holed = whole.copy()
    holed.loc[5, "v"], holed.loc[7, "u"] = np.nan, np.inf
    holed.to_parquet(tmp_path / "in.parquet")
    marginal = QuadraticDiscriminantAnalysis(missing="marginal").fit(whole[NAMES], whole["kind"])
    with pytest.raises(ValueError, match=r"in\.parquet, row group 0, row 7: feature 'u' is infinity"):
        predict_dataset(marginal, tmp_path / "in.parquet", tmp_path / "out")


@pytest.mark.slow_cases("raise")
@pytest.mark.parametrize("missing", ["raise", "drop"])
def test_zarr(whole, tmp_path, missing):
    holed = whole.copy()
    if missing == "drop":
        holed.loc[[3, 500], "v"] = np.nan
    beside = {"y": whole["kind"].to_numpy(dtype="U7"), "row": whole["row"]}
    zarr_group(tmp_path / "in.zarr", 100, zarr_format=2, X=holed[NAMES], **beside)
    model = GaussianNB().fit(scan_zarr(tmp_path / "in.zarr", missing="drop"))
    rows = holed.dropna()
    source = tmp_path / "in.zarr" if missing == "raise" else scan_zarr(tmp_path / "in.zarr", missing="drop")
    written = predict_dataset(model, source, tmp_path / "out", keep=["row", "y"])
    assert (written.n_rows, written.n_dropped) == (len(rows), len(whole) - len(rows))
    scored = pd.read_parquet(tmp_path / "out")
    assert scored["row"].tolist() == rows["row"].tolist()
    assert scored["y"].tolist() == rows["kind"].tolist()
    assert (scored["predicted_label"].to_numpy() == model.predict(rows[NAMES].to_numpy())).all()
    assert predict_dataset(model, source, tmp_path / "out", keep=["row", "y"]).n_found == written.n_parts
    with pytest.raises(ValueError, match="there is no array 'rwo'"):
        predict_dataset(model, source, tmp_path / "out", keep=["rwo"])
    with pytest.raises(ValueError, match="no target is named"):
        accumulate(scan_zarr(tmp_path / "in.zarr", None))


# ---------------------------------------------------------------------- going on


def test_started_again_it_writes_what_is_not_there(model, source, tmp_path):
    out = tmp_path / "out"
    predict_dataset(model, source, out, keep=["row"])
    whole, before = pq.read_table(out), stamps(out)
    (out / "part-00001.parquet").unlink()
    left = out / f".predict_dataset.run-{'0' * 32}"
    left.mkdir()
    (left / UNFINISHED).write_bytes(b"PAR1 and then the machine stopped")
    written = predict_dataset(model, source, out, keep=["row"])
    assert (written.n_rows, written.n_parts, written.n_found) == (773, 5, 4)
    after = stamps(out)
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} == {"part-00001.parquet"}
    assert pq.read_table(out).equals(whole)
    assert predict_dataset(model, source, out, keep=["row"]).n_found == 5


def test_parts_of_another_model_or_input_are_written_anew(model, source, folder, tmp_path):
    out = tmp_path / "out"

    def found(model=model, source=source, **options):
        return predict_dataset(model, source, out, **options).n_found

    assert found() == 0
    assert found() == 5
    assert found(QuadraticDiscriminantAnalysis.from_statistics(model.statistics_, reg_param=0.5)) == 0
    assert found(LinearDiscriminantAnalysis.from_statistics(model.statistics_)) == 0
    assert (
        found(QuadraticDiscriminantAnalysis.from_statistics(model.statistics_, priors=[0.2, 0.3, 0.5])) == 0
    )
    assert found(QuadraticDiscriminantAnalysis.from_statistics(model.statistics_)) == 0
    assert found(columns=["label"]) == 0
    assert found(keep=["row"]) == 0
    assert found() == 0
    frame_of(50, 9).to_parquet(folder / "1.parquet", index=False)
    assert found() == 4
    (folder / "4.parquet").unlink()
    assert found(source=scan_parquet(folder, "kind", features=NAMES)) == 4
    assert len(list(out.iterdir())) == 4


def predict_some(folder, out):
    """Predict three parts, and wait."""
    ParquetOutput.write = let_pass(ParquetOutput.write, 3)
    source = scan_parquet(folder, "kind", features=NAMES)
    model = QuadraticDiscriminantAnalysis().fit(source)
    predict_dataset(model, source, out, keep=["row"], scheduler="threads")


def test_features_in_another_order_make_other_parts(folder, whole, tmp_path):
    model = GaussianNB().fit(whole[NAMES].to_numpy(), whole["kind"])
    predict_dataset(model, scan_parquet(folder, features=NAMES), tmp_path / "out")
    turned = scan_parquet(folder, features=["v", "u", "w"])
    assert predict_dataset(model, turned, tmp_path / "out").n_found == 0
    scored = pd.read_parquet(tmp_path / "out")
    assert (scored["predicted_label"] == model.predict(whole[["v", "u", "w"]].to_numpy())).all()


@pytest.mark.parametrize("store", ["memory://overwritten.zarr", MemoryStore()], ids=["dated", "undated"])
def test_an_overwritten_zarr_group_off_the_disk_is_scored_anew(whole, tmp_path, store):
    group = zarr.open_group(store, mode="w")
    X = group.create_array("X", data=whole[NAMES].to_numpy(), chunks=(100, 3))
    model = GaussianNB().fit(X[:], whole["kind"])
    source = scan_zarr(store, None)
    predict_dataset(model, source, tmp_path / "out", scheduler="synchronous")
    again = predict_dataset(model, source, tmp_path / "out", scheduler="synchronous")
    assert again.n_found == (1 if isinstance(store, str) else 0)
    X[:] = X[:][::-1]
    assert predict_dataset(model, source, tmp_path / "out", scheduler="synchronous").n_found == 0
    scored = pq.read_table(tmp_path / "out")
    assert scored["predicted_label"].to_pylist() == model.predict(X[:]).tolist()


@pytest.mark.parametrize("kept_bytes", [0, 100])
def test_a_torn_part_is_written_again(model, source, whole, tmp_path, kept_bytes):
    out = tmp_path / "out"
    predict_dataset(model, source, out)
    torn = out / "part-00001.parquet"
    torn.write_bytes(torn.read_bytes()[:kept_bytes])
    assert predict_dataset(model, source, out).n_found == 4
    check(pd.read_parquet(out), model, whole[NAMES])


def test_a_torn_file_alone_may_be_of_others(model, source, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-00000.parquet").write_bytes(b"PAR1 and more")
    with pytest.raises(ValueError, match=r"holds part-00000\.parquet, which is no part of predictions"):
        predict_dataset(model, source, tmp_path / "out")


def another_run_within(monkeypatch, output, run):
    """Do something in the middle of a run: when it writes its second part."""
    write, calls = output.write, []

    def write_and_run(*arguments):
        calls.append(None)
        if len(calls) == 2:
            run()
        return write(*arguments)

    monkeypatch.setattr(output, "write", write_and_run)


@pytest.mark.parametrize("out", ["out", "out.zarr"])
def test_a_second_run_at_the_same_time_stops_at_once(model, source, whole, tmp_path, out, monkeypatch):
    monkeypatch.setattr(zarr_output, "_MOST_ROWS_OF_CHUNK", 64)
    errors = []

    def run_another():
        with pytest.raises(RuntimeError) as raised:
            predict_dataset(model, source, tmp_path / out, columns=["label"])
        errors.append(str(raised.value))

    for output in (ParquetOutput, zarr_output.ZarrOutput):
        another_run_within(monkeypatch, output, run_another)
    predict_dataset(model, source, tmp_path / out, scheduler="synchronous")
    (message,) = errors
    assert re.fullmatch(rf"another run of predict_dataset is writing to .*{out}; wait until it .*", message)
    check(read(tmp_path / out), model, whole[NAMES])
    assert not list((tmp_path / out).glob(".*"))


@pytest.mark.parametrize("out", ["both", "both.zarr"])
def test_the_first_of_two_runs_where_there_are_no_locks_fails(model, source, whole, monkeypatch, out):
    monkeypatch.setattr(zarr_output, "_MOST_ROWS_OF_CHUNK", 64)
    memory, other = fsspec.filesystem("memory"), LinearDiscriminantAnalysis.from_statistics(model.statistics_)

    def run_another():
        assert predict_dataset(other, source, f"/{out}", filesystem=memory).n_found == 0

    for output in (ParquetOutput, zarr_output.ZarrOutput):
        another_run_within(monkeypatch, output, run_another)
    with pytest.raises(RuntimeError, match=f"{out} does not hold the predictions of this run: another run"):
        predict_dataset(model, source, f"/{out}", filesystem=memory, scheduler="synchronous")
    assert 0 < predict_dataset(other, source, f"/{out}", filesystem=memory).n_found <= 5
    check(read(f"memory://{out}"), other, whole[NAMES])


@pytest.mark.slow_cases("9")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_started_again(tmp_path, how):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for seed in range(40):
        frame_of(50, seed).to_parquet(folder / f"{seed:02}.parquet", index=False)
    interrupt(how, lambda: len([*out.glob("part-*")]) == 3, predict_some, folder, out)
    for part in out.glob("part-*"):
        assert pq.read_metadata(part).num_rows == 50
    if how == signal.SIGINT:
        assert len(list(out.iterdir())) == 3
    source = scan_parquet(folder, "kind", features=NAMES)
    model = QuadraticDiscriminantAnalysis().fit(source)
    written = predict_dataset(model, source, out, keep=["row"])
    assert (written.n_rows, written.n_parts, written.n_found) == (2000, 40, 3)
    scored, whole = pd.read_parquet(out), pd.read_parquet(folder)
    assert scored["row"].tolist() == whole["row"].tolist()
    check(scored, model, whole[NAMES])


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"columns": ["labels"]}, ValueError, "columns must be some of 'label', 'probabilities'"),
        ({"columns": "label"}, ValueError, "columns must be some of"),
        ({"columns": []}, ValueError, "columns must be some of"),
        ({"keep": ["rwo"]}, ValueError, r"there is no column 'rwo'; did you mean 'row'\?"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    model, source, tmp_path, options, error, message
):
    with pytest.raises(error, match=message):
        predict_dataset(model, source, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow_cases("CSV", "json")
@pytest.mark.parametrize("name", ["x.csv", "x.CSV", "x.json.gz", "x.feather"])
def test_a_name_of_another_format_is_refused_before_anything_is_written(model, source, tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name}: predictions are written as Parquet .* ends in \.zarr"):
        predict_dataset(model, source, tmp_path / name)
    assert not (tmp_path / name).exists()
    assert predict_dataset(model, source, tmp_path / "x.parquet").n_rows == 773


def test_an_arrow_dataset_of_parquet_is_scored_as_its_files_are(model, source, folder, tmp_path):
    of_files = predict_dataset(model, source, tmp_path / "out")
    dataset = scan_arrow(ds.dataset(sorted(map(str, folder.iterdir()))), "kind", features=NAMES)
    assert predict_dataset(model, dataset, tmp_path / "again") == of_files
    assert pq.read_table(tmp_path / "again").equals(pq.read_table(tmp_path / "out"))


def lance_dataset(table, folder):
    lance = pytest.importorskip("lance")
    return lance.write_dataset(table, folder / "in.lance", max_rows_per_file=300)


def feather_dataset(table, folder):
    pyarrow.feather.write_feather(table, folder / "in.feather")
    return ds.dataset(folder / "in.feather", format="feather")


ARROW = {
    "a lazy frame": lambda table, folder: pytest.importorskip("polars").from_arrow(table).lazy(),
    "a frame": lambda table, folder: pytest.importorskip("polars").from_arrow(table),
    "a relation": lambda table, folder: duckdb.from_arrow(table),
    "a reader": lambda table, folder: table.to_reader(max_chunksize=70),
    "a table": lambda table, folder: table,
    "a scanner": lambda table, folder: ds.dataset(table).scanner(),
    "a dataset": feather_dataset,
    "Lance": lance_dataset,
}


@pytest.mark.slow_cases("a table", "a lazy frame")
@pytest.mark.slow_cases("a scanner", "a frame")
@pytest.mark.parametrize("make", ARROW.values(), ids=ARROW)
def test_arrow_data_is_scored_in_batches(model, whole, tmp_path, make):
    table = pa.Table.from_pandas(whole, preserve_index=False)

    data = make(table, tmp_path)
    written = predict_dataset(model, data, tmp_path / "out", columns=ALL, keep=["row", "kind"])

    scored = pd.read_parquet(tmp_path / "out")
    assert (written.n_rows, written.n_found, written.n_dropped) == (773, 0, 0)
    assert scored["row"].tolist() == whole["row"].tolist()
    assert scored["kind"].tolist() == whole["kind"].tolist()
    check(scored, model, whole[NAMES], ALL)


@pytest.mark.slow_cases("dataset", "a reader")
@pytest.mark.parametrize("name", ["a lazy frame", "a reader", "a table", "a dataset"])
def test_arrow_data_with_missing_values(model, whole, tmp_path, name):
    holed = pa.Table.from_pandas(whole).set_column(0, "u", pa.array([*whole["u"][:-1], None]))
    with pytest.raises(ValueError, match=r"row \d+.* 'u' is NaN or null"):
        predict_dataset(model, ARROW[name](holed, tmp_path), tmp_path / "out")
    source = scan_arrow(ARROW[name](holed, tmp_path), features=NAMES, missing="drop")
    written = predict_dataset(model, source, tmp_path / "out", keep=["row"])
    assert (written.n_rows, written.n_dropped) == (772, 1)
    assert pd.read_parquet(tmp_path / "out")["row"].tolist() == whole["row"].tolist()[:-1]


def test_arrow_data_is_always_scored_again(model, whole, tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(whole).lazy()
    predict_dataset(model, frame, tmp_path / "out", columns=["label"])
    later = predict_dataset(
        model, frame.with_columns(u=polars.col("u") + 9), tmp_path / "out", columns=["label"]
    )
    assert (later.n_rows, later.n_found) == (773, 0)
    expected = model.predict(whole[NAMES].assign(u=whole["u"] + 9))
    assert pd.read_parquet(tmp_path / "out")["predicted_label"].tolist() == expected.tolist()


def test_a_stream_has_no_known_rows_and_a_reader_no_second_read(model, whole, tmp_path):
    table = pa.Table.from_pandas(whole)
    predict_dataset(model, table, tmp_path / "table.zarr")
    probabilities = zarr.open_group(tmp_path / "table.zarr", mode="r")["probabilities"]
    np.testing.assert_allclose(probabilities[:], model.predict_proba(whole[NAMES]), rtol=1e-12, atol=1e-300)
    with pytest.raises(ValueError, match="known beforehand; how many a stream has"):
        predict_dataset(model, duckdb.from_arrow(table), tmp_path / "lazy.zarr")
    reader = scan_arrow(table.to_reader(), features=NAMES)
    predict_dataset(model, reader, tmp_path / "out")
    with pytest.raises(ValueError, match="has been read and is spent"):
        predict_dataset(model, reader, tmp_path / "again")
    for keep, data in ([["colour"], table], [["u"], table.select(["u", "v"])]):
        with pytest.raises(ValueError, match=r"the data: there is no column"):
            predict_dataset(model, data, tmp_path / "again", keep=keep)
    with pytest.raises(ValueError, match="no target is named"):
        accumulate(scan_arrow(table, features=NAMES))


def test_a_stream_that_fails_is_not_read_on_as_if_nothing_had_happened(model, whole, tmp_path):
    batches = pa.Table.from_pandas(whole[NAMES]).to_batches(100)

    def failing():
        yield from batches[:2]
        raise OSError("the connection was lost")

    reader = pa.RecordBatchReader.from_batches(batches[0].schema, failing())
    with pytest.raises(ValueError, match="the stream cannot be read .*: the connection was lost"):
        predict_dataset(model, reader, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_models_and_sources_that_do_not_fit(model, source, folder, tmp_path):
    with pytest.raises(NotFittedError):
        predict_dataset(GaussianNB(), source, tmp_path / "out")
    with pytest.raises(ValueError, match="does not have feature 'v' of the model"):
        predict_dataset(model, scan_parquet(folder, features=["u"]), tmp_path / "out")
    nameless = GaussianNB().fit([[0.0], [1.0], [4.0], [6.0]], [0, 0, 1, 1])
    with pytest.raises(
        ValueError, match="has 3 features, the model was fitted to 1; name them where it is sc"
    ):
        predict_dataset(nameless, source, tmp_path / "out")
    with pytest.raises(TypeError, match="a model of this project is needed, got dict"):
        predict_dataset({}, source, tmp_path / "out")
    frame = dd.read_parquet(folder)
    for data in (frame, scan_dask(frame, "kind", features=NAMES)):
        with pytest.raises(TypeError, match=r"give a path, .* of Dask collections, the model's predict"):
            predict_dataset(model, data, tmp_path / "out")
    with pytest.raises(TypeError, match=r"a dataset is needed, got ndarray: give a path, .* model's pred"):
        predict_dataset(model, np.zeros((2, 3)), tmp_path / "out")
    with pytest.raises(ValueError, match="Expected one of .*threads"):
        predict_dataset(model, source, tmp_path / "out", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(FileNotFoundError):
        predict_dataset(model, tmp_path / "nowhere", tmp_path / "out")
    pq.write_table(pa.table({"u": [1.0], "v": [1.0]}), tmp_path / "narrow.parquet")
    with pytest.raises(ValueError, match="there is no column 'w'"):
        predict_dataset(model, tmp_path / "narrow.parquet", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name", ["thesis.unfinished", "part-00000.parquet.unfinished", f"state.parquet.{UNFINISHED}"]
)
def test_a_file_of_others_is_left_alone_whatever_its_name_ends_in(model, source, tmp_path, name):
    out = tmp_path / "out"
    predict_dataset(model, source, out)
    (out / name).write_text("years of work")
    before = stamps(out)
    for options in ({}, {"columns": ["label"]}):
        with pytest.raises(ValueError, match=rf"holds {re.escape(name)}, which is no part of predictions"):
            predict_dataset(model, source, out, **options)
        assert stamps(out) == before


def test_hidden_files_of_others_are_left_alone(model, source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    hidden = [out / name for name in (".lock", ".thesis.unfinished", "_SUCCESS")]
    for file in hidden:
        file.write_text("years of work")
    assert predict_dataset(model, source, out).n_found == 0
    assert predict_dataset(model, source, out).n_found == 5
    assert [file.read_text() for file in hidden] == ["years of work"] * 3


def test_a_part_under_another_name_is_left_alone(model, source, tmp_path):
    out = tmp_path / "out"
    predict_dataset(model, source, out)
    (out / "part-00000.parquet").rename(out / "kept.parquet")
    before = stamps(out)
    with pytest.raises(ValueError, match=r"holds kept\.parquet, which is no part of predictions"):
        predict_dataset(model, source, out, columns=["label"])
    assert stamps(out) == before


def test_a_column_kept_under_the_name_of_a_prediction(model, whole, tmp_path):
    whole.assign(predicted_label=1).to_parquet(tmp_path / "in.parquet")
    with pytest.raises(ValueError, match="'predicted_label' cannot be kept"):
        predict_dataset(model, tmp_path / "in.parquet", tmp_path / "out", keep=["predicted_label"])


def test_progress_counts_the_rows_that_are_left(model, source, tmp_path, capsys):
    predict_dataset(model, source, tmp_path / "out")
    (tmp_path / "out" / "part-00003.parquet").unlink()
    with dask.config.set(scheduler="synchronous"):
        predict_dataset(model, source, tmp_path / "out", progress=True)
    assert "400/400" in capsys.readouterr().err


def test_predictions_do_not_go_among_the_files_that_they_are_made_of(model, folder, source, tmp_path):
    with pytest.raises(ValueError, match="lies in the folder of the input"):
        predict_dataset(model, source, folder / "scored")
    assert not (folder / "scored").exists()
    before = stamps(folder)
    with pytest.raises(ValueError, match="lies in the folder of the input"):
        predict_dataset(model, source, folder)
    assert stamps(folder) == before
    predict_dataset(model, source, tmp_path / "out", keep=NAMES)
    files = {file: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    for again in (tmp_path / "out", [str(file) for file in sorted(files)[1:]]):
        with pytest.raises(ValueError, match="lies in the folder of the input"):
            predict_dataset(model, again, tmp_path / "out")
    assert {file: file.read_bytes() for file in (tmp_path / "out").iterdir()} == files


@pytest.mark.slow_cases("[None-x/..", "[None-in/*/", "[None-link", "[on1")
@pytest.mark.slow_cases("on1-in", "on1-link", "on1-read", "on2-in", "on2-link", "on2-read")
@pytest.mark.parametrize(
    ("read", "out"),
    [
        ("in", "x/../in/scored"),
        ("x/../in", "in/scored"),
        ("in", "link/scored"),
        ("link", "in/scored"),
        ("in/*/*.parquet", "in/scored"),
        ("in/**/part-*.parquet", "in/deep/scored"),
        ("in/0.parquet", "in"),
        (["in/0.parquet", "in/more"], "in/more/scored"),
    ],
)
@pytest.mark.parametrize("on", [None, fsspec.filesystem("file"), pafs.LocalFileSystem()])
def test_the_folder_of_the_input_is_known_by_any_of_its_names(model, folder, tmp_path, read, out, on):
    for name in ("more/1.parquet", "deep/er/part-1.parquet"):
        (folder / name).parent.mkdir(parents=True)
        shutil.copy(folder / "0.parquet", folder / name)
    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to(folder)
    paths = [str(tmp_path / path) for path in ([read] if isinstance(read, str) else read)]
    source = scan_parquet(paths if len(paths) > 1 else paths[0], features=NAMES)
    with pytest.raises(ValueError, match="lies in the folder of the input"):
        predict_dataset(model, source, str(tmp_path / out), filesystem=on)
    assert not (tmp_path / out / "part-00000.parquet").exists()


KINDS_OF_ONE_COLUMN = [
    [pa.array(["b", "a"]).dictionary_encode(), pa.array([f"n{i}" for i in range(300)]).dictionary_encode()],
    [pa.array([None, None], pa.int32()), pa.array(range(300), pa.int32())],
]


@pytest.mark.parametrize("columns", KINDS_OF_ONE_COLUMN)
def test_what_is_kept_reads_as_one_dataset(model, tmp_path, columns):
    """Categories that differ from file to file, nulls, and keys of partitions, one of them null."""
    for day, values in zip(("__HIVE_DEFAULT_PARTITION__", "7"), columns, strict=True):
        frame = frame_of(len(values)).drop(columns="kind")
        table = pa.Table.from_pandas(frame, preserve_index=False).append_column("note", values)
        (tmp_path / "days" / f"day={day}").mkdir(parents=True)
        pq.write_table(table, tmp_path / "days" / f"day={day}" / "1.parquet")
    predict_dataset(model, tmp_path / "days", tmp_path / "out", columns=["label"], keep=["note", "day"])
    notes = [value for values in reversed(columns) for value in values.to_pylist()]
    days = [7] * 300 + [None] * 2
    scored = pq.read_table(tmp_path / "out")
    assert (scored["note"].to_pylist(), scored["day"].to_pylist()) == (notes, days)
    assert ds.dataset(tmp_path / "out").to_table().equals(scored)
    assert scored["day"].type == pa.int32()
    by_duckdb = duckdb.sql(f"select note, day from '{tmp_path}/out/*.parquet'").fetchall()
    assert by_duckdb == list(zip(notes, days, strict=True))


@pytest.mark.parametrize("kind", ["csv", "zarr"])
def test_files_of_one_size_and_time_that_swap_names_are_read_anew(tmp_path, kind):
    for name, values in {"a": [1, 2], "b": [3, 5]}.items():
        path = tmp_path / f"{name}.{kind}"
        if kind == "csv":
            path.write_text("u,y\n{},0\n{},1\n".format(*values))
        else:
            group = zarr.open_group(path, mode="w")
            group.create_array("X", data=np.array([values]).T)
            group.create_array("y", data=np.arange(2))
        for file in (path, *path.rglob("*")):
            os.utime(file, (1e9, 1e9))
    model = GaussianNB(var_smoothing=1).fit([[0.0], [1.0], [5.0], [7.0]], [0, 0, 1, 1])
    found = []
    for first in ([1, 2], [3, 5], [1, 2]):
        source = {"csv": scan, "zarr": scan_zarr}[kind](tmp_path / f"a.{kind}", "y")
        assert accumulate(source, checkpoint=tmp_path / "_states").means.ravel().tolist() == first
        predict_dataset(model, source, tmp_path / "_out")
        found.append(pq.read_table(tmp_path / "_out"))
        assert found[-1].equals(found[0]) == (first == [1, 2])
        for old, new in ("a~", "ba", "~b"):
            (tmp_path / f"{old}.{kind}").rename(tmp_path / f"{new}.{kind}")


@pytest.mark.parametrize(
    "kind", [pa.month_day_nano_interval(), pa.dictionary(pa.int8(), pa.list_(pa.int8()))]
)
def test_kept_columns_that_parquet_cannot_hold(tmp_path, kind):
    model = GaussianNB().fit(pd.DataFrame({"u": [0.0, 1, 5, 7]}), [0, 0, 1, 1])
    table = pa.table({"u": [1.0, 2.0], "k": pa.nulls(2, kind)})
    with pytest.raises(
        ValueError, match=r"column 'k' is (month|dict).*, which pyarrow does not write to Parq"
    ):
        predict_dataset(model, scan_arrow(table, features=["u"]), tmp_path / "out", keep=["k"])
    assert not (tmp_path / "out").exists()


def test_names_that_begin_with_a_tilde(model, whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole.to_parquet("./~x.parquet")
    for out in ("~out", "~out.zarr", "./~"):
        predict_dataset(model, "~x.parquet", out)
        assert (tmp_path / out).is_dir()


def test_a_feature_may_have_any_name(whole, tmp_path):
    table = pa.table({"__row_in_group__": whole["u"], "v": whole["v"], "y": whole["kind"]})
    pq.write_table(table, tmp_path / "in.parquet")
    source = scan_parquet(tmp_path / "in.parquet", "y", filters=[("v", ">", 0)])
    model = GaussianNB().fit(source)
    assert predict_dataset(model, source, tmp_path / "out").n_rows == (whole["v"] > 0).sum()


@pytest.mark.parametrize("out", ["out", "out.zarr"])
def test_a_full_disk_is_one_error_that_names_the_output_and_work_goes_on(model, folder, tmp_path, out):
    full = f"too large.*: '.*{out}, where predictions are written'$"
    with full_disk(3000), pytest.raises(OSError, match=full):
        predict_dataset(model, folder, tmp_path / out, scheduler="synchronous")
    written = [path.name for path in (tmp_path / out).rglob("*")]
    assert not [name for name in written if ".run-" in name]
    assert predict_dataset(model, folder, tmp_path / out).n_rows == 773


class Denied(fsspec.filesystem("memory").__class__):
    """A store that takes no files, and does not say which one it refused."""

    def pipe_file(self, path, value, mode="overwrite", **options):
        raise PermissionError("Access Denied")

    def _open(self, path, mode="rb", **options):
        if mode == "wb":
            raise PermissionError("Access Denied")
        return super()._open(path, mode, **options)


@pytest.mark.parametrize("out", ["/denied", "/denied.zarr"])
def test_an_output_that_is_denied_is_named(model, folder, out):
    with pytest.raises(OSError, match=f"{out}, where predictions are written: Access Denied"):
        predict_dataset(model, folder, out, filesystem=Denied())
