"""predict_dataset into Zarr: whole or no group, the same rows in the same order, whatever happens."""

import shutil
import signal
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.errors import GroupNotFoundError

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    predict_dataset,
    scan_parquet,
    scan_zarr,
)
from streamgda.jobs.scoring.outputs import zarr as chunks_module
from streamgda.jobs.scoring.outputs.zarr import ZarrOutput, aligned, chunk_length
from tests.data.tables import zarr_group
from tests.interrupted import interrupt, let_pass
from tests.jobs.scoring.conftest import ALL, NAMES, check, frame_of, read, stamps


@pytest.fixture(params=[64, 100, 1 << 16])
def chunk(request, monkeypatch):
    """Rows of a chunk: so many that no file ends where one does, or one that does, or more than there are."""
    monkeypatch.setattr(chunks_module, "_MOST_ROWS_OF_CHUNK", request.param)


# ---------------------------------------------------------------------- what is written


@pytest.mark.slow_cases("100", "65536")
@pytest.mark.usefixtures("chunk")
def test_predictions_are_those_in_memory_in_the_order_of_the_rows(model, source, whole, tmp_path):
    written = predict_dataset(model, source, tmp_path / "out.zarr", columns=ALL, keep=["row", "kind"])
    check(read(tmp_path / "out.zarr"), model, whole[NAMES], ALL)
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert (written.n_rows, written.n_found, written.n_dropped) == (773, 0, 0)
    assert group["row"][:].tolist() == whole["row"].tolist()
    assert group["kind"][:].tolist() == whole["kind"].tolist()
    assert sorted(group.array_keys()) == sorted(["row", "kind", "predicted_label", "probabilities", *ALL[2:]])
    assert group["probabilities"].metadata.dimension_names == ("row", "class")
    assert not list((tmp_path / "out.zarr").glob(".*"))


def test_kept_columns_keep_their_types(model, whole, tmp_path):
    n = np.arange(len(whole))
    kept = {
        "small": n.astype("i1"),
        "large": n.astype("u8") << np.uint64(50),
        "half": n.astype("f2"),
        "flag": n % 3 == 0,
        "day": np.datetime64("2020-01-01") + n,
        "time": np.datetime64("2020-01-01T00:00:00.000001") + n,
        "span": n.astype("m8[ms]"),
    }
    texts = {
        "text": pa.array([f"n° {i}" for i in n], pa.large_string()),
        "category": pa.array(np.array(["x", "yy"])[n % 2]).dictionary_encode(),
    }
    holes = {
        "number": pa.array([None if i % 2 else float(i) for i in n]),
        "moment": pa.array([None if i % 2 else int(i) for i in n], pa.timestamp("us", tz="Europe/Paris")),
        "date": pa.array([None if i % 2 else int(i) for i in n], pa.date32()),
    }
    (tmp_path / "kept" / "shop=7").mkdir(parents=True)
    columns = {name: whole[name].to_numpy() for name in NAMES}
    pq.write_table(
        pa.table({**columns, **kept, **texts, **holes}), tmp_path / "kept" / "shop=7" / "x.parquet"
    )
    names = [*kept, *texts, *holes, "shop"]
    predict_dataset(model, tmp_path / "kept", tmp_path / "out.zarr", columns=["label"], keep=names)
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    for name, values in kept.items():
        assert group[name].dtype == values.dtype
        assert (group[name][:] == values).all()
    for name, values in texts.items():
        assert group[name][:].tolist() == values.to_pylist()
    for name, values in holes.items():
        gaps = np.isnan(group[name][:])
        assert (gaps == (n % 2 == 1)).all()
        assert (group[name][:][~gaps].astype("i8") == n[~gaps]).all(), values
    assert group["shop"][:].tolist() == [7] * len(n)


@pytest.mark.slow_cases("64-out.zarr", "100-out", "[65536-out]")
@pytest.mark.parametrize("out", ["out", "out.zarr"])
@pytest.mark.usefixtures("chunk")
def test_from_zarr_arrays_keep_their_types(model, whole, tmp_path, out):
    n = np.arange(len(whole))
    kept = {
        "small": n.astype("i1"),
        "flag": n % 3 == 0,
        "fixed": np.array([f"a{i}" for i in n]),
        "day": np.datetime64("2020-01-01") + n,
        "hour": np.datetime64("2020-01-01T00", "h") + n,
        "span": n.astype("m8[us]"),
        "turned": n.astype(">i4"),
    }
    group = zarr.open_group(tmp_path / "in.zarr", mode="w", zarr_format=2)
    group.create_array("X", data=whole[NAMES].to_numpy(), chunks=(90, 2))
    for name, values in kept.items():
        group.create_array(name, data=values, chunks=(90 if name == "small" else 180,))
    unnamed = QuadraticDiscriminantAnalysis().fit(whole[NAMES].to_numpy(), whole["kind"])
    written = predict_dataset(unnamed, tmp_path / "in.zarr", tmp_path / out, keep=list(kept))
    assert written.n_rows == len(n)
    if out == "out":
        scored = pq.read_table(tmp_path / out)
        found = {name: scored[name].to_numpy() for name in kept}
        assert scored.schema.field("small").type == pa.int8()
        assert scored.schema.field("day").type == pa.date32()
        assert scored.schema.field("hour").type == pa.timestamp("ms")  # the coarsest unit of Parquet
    else:
        check(read(tmp_path / out), model, whole[NAMES])
        found = {name: array[:] for name, array in zarr.open_group(tmp_path / out, mode="r").arrays()}
        assert found["hour"].dtype == np.dtype("M8[s]")
        assert found["turned"].dtype == np.dtype("i4")
        for name in ("small", "flag", "day", "span"):
            assert found[name].dtype == kept[name].dtype
    for name, values in kept.items():
        assert (found[name] == values).all()


def test_a_filter_of_partitions_alone_leaves_rows_their_places(whole, tmp_path):
    for day, part in whole.groupby(np.arange(len(whole)) // 300):
        (tmp_path / "days" / f"day={day}").mkdir(parents=True)
        part.to_parquet(tmp_path / "days" / f"day={day}" / "x.parquet", index=False)
    model = GaussianNB().fit(whole[NAMES], whole["kind"])
    source = scan_parquet(tmp_path / "days", features=NAMES, filters=[("day", ">", 0)])
    predict_dataset(model, source, tmp_path / "out.zarr", columns=["label"], keep=["row", "day"])
    scored = read(tmp_path / "out.zarr")
    check(scored, model, whole[NAMES][300:], ["label"])
    assert scored["row"].tolist() == whole["row"].tolist()[300:]
    assert scored["day"].tolist() == [1] * 300 + [2] * 173


def test_other_filesystems(model, source, whole, tmp_path):
    memory = fsspec.filesystem("memory")
    handler = pafs.PyFileSystem(pafs.FSSpecHandler(memory))
    assert predict_dataset(model, source, "/scored/out.zarr", filesystem=memory).n_found == 0
    assert predict_dataset(model, source, "memory://scored/out.zarr").n_found == 1
    assert predict_dataset(model, source, "/scored/out.zarr", filesystem=handler).n_found == 1
    check(read("memory://scored/out.zarr"), model, whole[NAMES])
    predict_dataset(model, source, tmp_path / "out.zarr", filesystem=pafs.LocalFileSystem())
    check(read(tmp_path / "out.zarr"), model, whole[NAMES])
    mock = pafs._MockFileSystem()  # which is no disk, and no object store
    assert [predict_dataset(model, source, "out", filesystem=mock).n_found for _ in range(2)] == [0, 5]
    assert [predict_dataset(model, source, "out.zarr", filesystem=mock).n_found for _ in range(2)] == [0, 1]
    assert not [
        info for info in mock.get_file_info(pafs.FileSelector("", recursive=True)) if "/." in info.path
    ]


# ---------------------------------------------------------------------- rows and chunks


@pytest.mark.slow
@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any), chunk=st.integers(1, 30))
def test_parts_begin_where_chunks_do_and_hold_each_row_once(sizes, chunk):
    table = zarr.create_group({})
    X = np.arange(sum(sizes), dtype=float)[:, None]
    table.create_array("X", data=X, chunks=(max(sizes), 1))
    (rows,), _ = scan_zarr(table, None).to_score([])
    bounds = np.cumsum([0, *sizes])
    splits = [rows.enclosing(start, stop)[0] for start, stop in pairwise(bounds)]
    parts = aligned(splits, sizes, chunk)
    starts = np.cumsum([0, *(sum(rows.n_rows for rows in part) for part in parts)])
    assert starts[-1] == sum(sizes)
    assert (starts[:-1] % chunk == 0).all()
    read = [block.matrix(0, len(block.codes)) for part in parts for rows in part for block in rows.blocks()]
    assert np.concatenate(read).tolist() == X.tolist()


@pytest.mark.parametrize(
    ("sizes", "chunk"),
    [
        ([245_760] * 5 + [17], 61_440),  # row groups of DuckDB's
        ([200_000] * 3, 50_000),
        ([1 << 18, 1 << 18, 5], 1 << 16),
        ([250_000, 3, 400_000], 1 << 16),
        ([1000], 1000),
        ([1_000_000], 1 << 16),
        ([1000] * 300, 1 << 16),
    ],
)
def test_chunks_end_where_splits_do_if_they_can(sizes, chunk):
    assert chunk_length(sizes, 1 << 16) == chunk


@pytest.mark.slow
def test_chunks_of_many_classes_stay_small(tmp_path):
    y = np.arange(6000) % 2000
    X = np.random.default_rng(0).normal(size=(6000, 1)) + y[:, None]
    zarr_group(tmp_path / "in.zarr", X=X)
    predict_dataset(GaussianNB().fit(X, y), tmp_path / "in.zarr", tmp_path / "out.zarr")
    assert zarr.open_group(tmp_path / "out.zarr", mode="r")["probabilities"].chunks == (2048, 2000)


# ---------------------------------------------------------------------- going on


def predict_some(folder, out):
    """Predict three parts, and wait."""
    ZarrOutput.write = let_pass(ZarrOutput.write, 3)
    chunks_module._MOST_ROWS_OF_CHUNK = 64
    source = scan_parquet(folder, "kind", features=NAMES)
    model = QuadraticDiscriminantAnalysis().fit(source)
    predict_dataset(model, source, out, keep=["row"], scheduler="threads")


@pytest.mark.slow_cases("2")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_started_again(tmp_path, how, monkeypatch):
    monkeypatch.setattr(chunks_module, "_MOST_ROWS_OF_CHUNK", 64)
    folder, out = tmp_path / "in", tmp_path / "out.zarr"
    folder.mkdir()
    for seed in range(20):
        frame_of(100, seed).to_parquet(folder / f"{seed:02}.parquet", index=False)

    def marks_of():
        return {path.name for path in (out / ".predict_dataset.unfinished" / "parts").glob("*")}

    interrupt(how, lambda: len(marks_of()) == 3, predict_some, folder, out)
    with pytest.raises(GroupNotFoundError):
        zarr.open_group(out, mode="r")
    marks = marks_of()
    before = stamps(out)
    source = scan_parquet(folder, "kind", features=NAMES)
    model = QuadraticDiscriminantAnalysis().fit(source)
    written = predict_dataset(model, source, out, keep=["row"])
    assert (written.n_rows, written.n_found) == (2000, len(marks))
    assert 3 <= len(marks) < written.n_parts
    whole = pd.read_parquet(folder)
    scored = read(out)
    check(scored, model, whole[NAMES])
    assert scored["row"].tolist() == whole["row"].tolist()
    after = stamps(out)
    kept = sum(before.get(name) == stamp for name, stamp in after.items() if "row/c." in name)
    assert kept >= len(marks)
    assert not [name for name in after if name.startswith(".")]


def test_started_again_it_writes_what_is_not_there(model, source, whole, tmp_path):
    out = tmp_path / "out.zarr"
    predict_dataset(model, source, out)
    before = stamps(out)
    written = predict_dataset(model, source, out)
    assert (written.n_rows, written.n_found, written.n_parts) == (773, 1, 1)
    assert stamps(out) == before
    shutil.rmtree(out / "probabilities")
    assert predict_dataset(model, source, out).n_found == 0
    check(read(out), model, whole[NAMES])


def test_another_model_or_input_starts_anew(model, source, folder, whole, tmp_path):
    out = tmp_path / "out.zarr"

    def found(model=model, source=source, **options):
        return predict_dataset(model, source, out, **options).n_found

    assert (found(keep=["row"]), found(keep=["row"])) == (0, 1)
    assert found() == 0
    assert sorted(path.name for path in out.iterdir()) == ["predicted_label", "probabilities", "zarr.json"]
    lda = LinearDiscriminantAnalysis.from_statistics(model.statistics_)
    assert found(lda) == 0
    check(read(out), lda, whole[NAMES])
    frame_of(50, 9).to_parquet(folder / "1.parquet", index=False)
    assert (found(lda), found(lda)) == (0, 1)
    assert zarr.open_group(out, mode="r")["predicted_label"].shape == (820,)


class _StopError(BaseException):
    """As if the process had been killed here."""


class Stopper:
    """Stops a run before the step of a number: any that makes, notes, writes or removes something."""

    def __init__(self, monkeypatch):
        self.left, self.has_stopped = 0, False
        for name in ("begin", "make_folder", "remove", "put", "write", "finish"):
            monkeypatch.setattr(ZarrOutput, name, self._counted(getattr(ZarrOutput, name)))

    def _counted(self, step):
        def counted(*arguments, **options):
            self.left -= 1
            if self.left == 0:
                self.has_stopped = True
                raise _StopError
            return step(*arguments, **options)

        return counted

    def stops(self, steps, *arguments, **options):
        self.left, self.has_stopped = steps, False
        with suppress(_StopError):
            predict_dataset(*arguments, scheduler="synchronous", **options)
        self.left = 0  # threads may have gone on beyond it
        return self.has_stopped


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Object at .predict_dataset"
)  # which a stopped run leaves in a whole group
@pytest.mark.parametrize("before", [0, 6], ids=["over_all", "over_some"])
def test_stopped_at_any_step_it_is_whole_or_no_group(model, source, whole, tmp_path, before, monkeypatch):
    """What was there before, wholly or after six steps, is of another model."""
    out, columns = tmp_path / "out.zarr", ("label", "log_density")
    other = LinearDiscriminantAnalysis.from_statistics(model.statistics_)
    stopper = Stopper(monkeypatch)
    stopped = []
    while not stopped or stopped[-1]:
        stopper.stops(before, other, source, out, keep=["row"])
        stopped.append(stopper.stops(len(stopped) + 1, model, source, out, columns=columns))
        if not stopped[-1] or (out / "zarr.json").exists():
            group = zarr.open_group(out, mode="r")
            right, asked = (model, columns) if "log_density" in group else (other, ("label", "probabilities"))
            check(read(out), right, whole[NAMES], asked)
        assert not stopper.stops(0, model, source, out, columns=columns)
        check(read(out), model, whole[NAMES], columns)
    assert len(stopped) > 8


# ---------------------------------------------------------------------- what is refused


def test_what_is_not_of_predictions_is_left_alone(model, source, tmp_path):
    out = tmp_path / "out.zarr"
    zarr.create_group(out).create_array("X", data=np.ones(3))
    before = stamps(out)
    with pytest.raises(ValueError, match=r"out\.zarr holds X, which is no part of predictions"):
        predict_dataset(model, source, out)
    assert stamps(out) == before
    predict_dataset(model, source, tmp_path / "ours.zarr")
    (tmp_path / "ours.zarr" / "notes.txt").write_text("years of work")
    before = stamps(tmp_path / "ours.zarr")
    for options in ({}, {"columns": ["label"]}):
        with pytest.raises(ValueError, match=r"holds notes\.txt, which is no part of predictions"):
            predict_dataset(model, source, tmp_path / "ours.zarr", **options)
        assert stamps(tmp_path / "ours.zarr") == before
    old = tmp_path / "old.zarr"
    zarr.create_group(old, zarr_format=2)
    with pytest.raises(ValueError, match=r"old\.zarr holds \.zattrs, which is no part"):
        predict_dataset(model, source, old)
    (tmp_path / "file.zarr").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"file\.zarr is a file"):
        predict_dataset(model, source, tmp_path / "file.zarr")
    assert (tmp_path / "file.zarr").read_bytes() == b"something else"


def test_a_group_is_not_scored_into_itself(model, whole, tmp_path):
    place = tmp_path / "in.zarr"
    zarr.create_group(place).create_array("X", data=whole[NAMES].to_numpy(), chunks=(100, 3))
    (tmp_path / "link.zarr").symlink_to(place)
    before = stamps(place)
    for out in ("in.zarr", "link.zarr", "in.zarr/scored", "in.zarr/scored.zarr", "x/../in.zarr"):
        with pytest.raises(ValueError, match="choose another place"):
            predict_dataset(model, place, tmp_path / out)
        assert stamps(place) == before


def test_rows_that_may_be_left_out_need_parquet(model, folder, tmp_path):
    for options in ({"missing": "drop"}, {"filters": [("u", ">", 0)]}):
        with pytest.raises(ValueError, match=r"missing='drop' leaves, is not"):
            predict_dataset(model, scan_parquet(folder, features=NAMES, **options), tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.usefixtures("chunk")
def test_a_row_that_cannot_be_scored_is_named_by_its_file(model, tmp_path):
    frame = frame_of(250)
    frame.loc[130, "v"] = np.nan
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=100)
    with pytest.raises(ValueError, match=r"in\.parquet, row group 1, row 30: feature 'v' is NaN"):
        predict_dataset(model, tmp_path / "in.parquet", tmp_path / "out.zarr")
    with pytest.raises(GroupNotFoundError):
        zarr.open_group(tmp_path / "out.zarr", mode="r")


def test_no_rows_make_no_group(model, tmp_path):
    frame_of(0).to_parquet(tmp_path / "in.parquet", index=False)
    with pytest.raises(ValueError, match="the input has no rows"):
        predict_dataset(model, scan_parquet(tmp_path / "in.parquet", features=NAMES), tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None] * 60), r"in\.parquet, row group 0, row 1: 'x' is null.* of int64"),
        (pa.array(["a", None] * 60), r"'x' is null.* of string cannot hold; write Parquet"),
        (pa.array([True, None] * 60), r"'x' is null.* of bool"),
        (pa.array([Decimal("1.5")] * 120), r"'x' is decimal128\(2, 1\), which no Zarr array can hold"),
        (pa.array([[1.0]] * 120), r"'x' is list<element: double>, which no Zarr array can hold"),
        (
            pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((120, 2))),
            r"'x' is .*fixed_shape_tensor.*, which no Zarr array can hold; write Parquet",
        ),
    ],
)
def test_kept_columns_that_zarr_cannot_hold(model, tmp_path, column, message):
    frame = frame_of(120)
    table = pa.table({**{name: frame[name].to_numpy() for name in NAMES}, "x": column})
    pq.write_table(table, tmp_path / "in.parquet")
    source = scan_parquet(tmp_path / "in.parquet", features=NAMES)
    with pytest.raises(ValueError, match=message):
        predict_dataset(model, source, tmp_path / "out.zarr", keep=["x"])
    assert predict_dataset(model, source, tmp_path / "out", keep=["x"]).n_rows == 120


def test_a_kept_column_of_another_type_in_another_file(model, tmp_path):
    (tmp_path / "mixed").mkdir()
    for i, kind in enumerate(["int8", "int64", "int64"]):
        frame_of(10, i).assign(x=np.full(10, 1000 * (i == 2), kind)).to_parquet(
            tmp_path / "mixed" / f"{i}.parquet"
        )
    predict_dataset(
        model, scan_parquet(tmp_path / "mixed", features=NAMES), tmp_path / "out.zarr", keep=["x"]
    )
    kept = zarr.open_group(tmp_path / "out.zarr", mode="r")["x"]
    assert kept.dtype == np.int64
    assert kept[:].tolist() == [0] * 20 + [1000] * 10


@pytest.mark.parametrize("name", ["a/b", "__x", ".x", "zarr.json", "log_density", "probabilities"])
def test_names_that_are_taken_or_cannot_be(model, tmp_path, name):
    frame_of(20).rename(columns={"row": name}).to_parquet(tmp_path / "in.parquet")
    with pytest.raises(ValueError, match=f"column '{name}' cannot be kept"):
        predict_dataset(model, tmp_path / "in.parquet", tmp_path / "out.zarr", columns=ALL, keep=[name])
    assert not (tmp_path / "out.zarr").exists()
