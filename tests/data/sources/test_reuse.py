"""After any change of what rows depend on, what is found again is what a fresh computation gives."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.preprocessing import StandardScaler

from streamgda import (
    LinearDiscriminantAnalysis,
    StatisticsLedger,
    accumulate,
    predict_dataset,
    scan,
    scan_parquet,
    scan_zarr,
)

RNG = np.random.default_rng(0)
X = RNG.integers(1, 50, size=(60, 2))
Y = np.arange(60) % 2
MODEL = LinearDiscriminantAnalysis().fit(X.astype(float), Y)
NAMED = LinearDiscriminantAnalysis().fit(pa.table({"a": X[:, 0], "b": X[:, 1]}), Y)


# ---------------------------------------------------------------------- the ways to find something again


def by_checkpoint(source, folder):
    states = folder / "checkpoint"
    before = set(states.iterdir()) if states.exists() else set()
    state = accumulate(source, checkpoint=states, scheduler="synchronous")
    return state.means, set(states.iterdir()) == before


def by_ledger(source, folder):
    ledger = StatisticsLedger(folder / "ledger")
    report = ledger.refresh(source, scheduler="synchronous")
    return ledger.statistics().means, not report.read


def by_predictions(source, folder):
    model = MODEL if source.feature_names is None else NAMED
    summary = predict_dataset(model, source, folder / "out", scheduler="synchronous")
    table = pq.read_table(folder / "out")
    return table.to_pandas().to_numpy()[:, -1].astype(float), summary.n_found == summary.n_parts


WAYS = [by_checkpoint, by_ledger, by_predictions]


# ---------------------------------------------------------------------- files of Parquet, and what may change


def write_files(folder, rows=X, labels=Y):
    folder.mkdir(exist_ok=True)
    for i in range(2):
        part = slice(30 * i, 30 * i + 30)
        columns = {"a": rows[part, 0], "b": rows[part, 1], "y": labels[part], "z": 1 - labels[part]}
        weights = {"w": 1.0 + rows[part, 0], "date": ["2020-01-01", "2020-01-02", "2020-01-03"] * 10}
        pq.write_table(pa.table({**columns, **weights}), folder / f"{i}.parquet")


def plain(folder, **how):
    return scan_parquet(folder, **{"target": "y", "features": ["a", "b"], **how})


def rewritten(folder):
    write_files(folder, rows=X[::-1])
    return plain(folder)


def added(folder):
    shutil.copy(folder / "0.parquet", folder / "2.parquet")
    return plain(folder)


def removed(folder):
    (folder / "0.parquet").unlink()
    return plain(folder)


def renamed_columns(folder):
    for path in sorted(folder.iterdir()):
        table = pq.read_table(path)
        pq.write_table(table.rename_columns({"a": "b", "b": "a"}), path)
    return plain(folder)


def filtered(folder, value=20):
    return plain(folder, filters=[("a", ">", value)])


def computed(folder, divisor=2):
    return plain(folder).with_columns(b=pc.field("a") / divisor)


def as_text(folder, options=""):
    (folder / "text").mkdir(exist_ok=True)
    if not (folder / "text" / "0.csv").exists():
        pyarrow.csv.write_csv(pq.read_table(folder / "0.parquet"), folder / "text" / "0.csv")
    return scan(folder / "text", "y", features=["a", "b"], format=f"csv {options}")


def mapped(function):
    return lambda folder: plain(folder).map(function, ["a", "b"])


def doubled(rows):
    return rows * 2


OF_FILES = {
    "rows": (plain, rewritten),
    "a new file": (plain, added),
    "a file that is gone": (plain, removed),
    "names of columns": (plain, renamed_columns),
    "features": (lambda folder: plain(folder, features=["b"]), lambda folder: plain(folder, features=["a"])),
    "target": (plain, lambda folder: plain(folder, target="z")),
    "weight": (plain, lambda folder: plain(folder, weight="w")),
    "filter": (filtered, lambda folder: filtered(folder, 21)),
    "another filter": (filtered, plain),
    "computed column": (computed, lambda folder: computed(folder, 3)),
    "type of a value": (computed, lambda folder: computed(folder, 2.0)),
    "options of CSV": (as_text, lambda folder: as_text(folder, "skip_rows_after_names=7")),
    "code": (mapped(doubled), mapped(lambda rows: rows + 2)),
    "a fitted transformer": (
        lambda folder: plain(folder).map(StandardScaler().fit(X), ["a", "b"]),
        lambda folder: plain(folder).map(StandardScaler().fit(X * 2), ["a", "b"]),
    ),
    "a second map": (mapped(doubled), lambda folder: mapped(doubled)(folder).map(doubled, ["a", "b"])),
}


def damage_rows(folder):
    """Change rows behind the back of all versions: whoever reads them fails, or gets other ones."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name[0] != "." and path.suffix != ".json":
            status, content = path.stat(), bytearray(path.read_bytes())
            content[4:20] = bytes(255 - byte for byte in content[4:20])
            path.write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def check(before, after, way, folder):
    first, _ = way(before(folder / "data"), folder)
    changed = after(folder / "data")
    try:
        answer, _ = way(changed, folder)
    except ValueError as error:
        assert way is by_ledger
        assert "use a ledger of its own" in str(error)  # noqa: PT017 - it is one of two right answers
        return
    expected, _ = way(changed, folder / "fresh")
    np.testing.assert_array_equal(answer, expected)
    assert first.shape != answer.shape or not np.array_equal(first, answer)
    damage_rows(folder / "data")
    again, is_reused = way(changed, folder)
    np.testing.assert_array_equal(again, answer)
    assert is_reused


OF_LEARNING = {"features", "target", "weight"}  # on which no prediction of this model depends
QUICK = {"rows", "a new file", "code"}  # the changes that are tried by all ways; the others by checkpoints
REPEATED = ["ledger", "predictions"]


@pytest.mark.filterwarnings("ignore:.* seems to be a copy of")
@pytest.mark.slow_cases(
    *(f"{change}-by_{way}" for change in OF_FILES for way in REPEATED if change not in QUICK)
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", OF_FILES)
def test_files_are_found_again_only_if_nothing_has_changed(change, way, tmp_path):
    if way is by_predictions and change in OF_LEARNING:
        return
    write_files(tmp_path / "data")
    (tmp_path / "fresh").mkdir()
    check(*OF_FILES[change], way, tmp_path)


# ---------------------------------------------------------------------- arrays of Zarr, and what may change


def write_arrays(folder, zarr_format):
    group = zarr.open_group(folder, mode="w", zarr_format=zarr_format)
    options = {"chunks": (15, 2), "compressors": None}
    group.create_array("X", shape=X.shape, dtype="<i4", fill_value=7, **options)[:45] = X[:45]
    group.create_array("y", data=Y, chunks=(15,))
    group.create_array("z", data=1 - Y, chunks=(15,))
    group.create_array("w", data=1.0 + X[:, 0], chunks=(15,))


def arrays(folder, **how):
    return scan_zarr(folder, **{"target": "y", **how})


def described(zarr_format, **changes):
    """The source after a change in the document of the features, and in nothing else."""

    def after(folder):
        path = folder / "X" / ("zarr.json" if zarr_format == 3 else ".zarray")
        status, document = path.stat(), json.loads(path.read_text())
        assert document.keys() >= changes.keys()
        path.write_text(json.dumps({**document, **changes}))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return arrays(folder)

    return after


def chunk_rewritten(folder):
    zarr.open_array(folder / "X")[:15] = X[15:30]
    return arrays(folder)


def chunk_written(folder):
    zarr.open_array(folder / "X")[45:] = X[45:]
    return arrays(folder)


def longer(folder):
    for name, values in {"X": X, "y": Y, "z": Y, "w": Y}.items():
        zarr.open_array(folder / name).append(values[:10])
    return arrays(folder)


BIG_ENDIAN = [{"name": "bytes", "configuration": {"endian": "big"}}]

OF_ARRAYS = {
    "a chunk": (3, chunk_rewritten),
    "a chunk that was not there": (2, chunk_written),
    "rows": (3, longer),
    "target": (3, lambda folder: arrays(folder, target="z")),
    "weight": (2, lambda folder: arrays(folder, weight="w")),
    "fill value, format 2": (2, described(2, fill_value=8)),
    "fill value, format 3": (3, described(3, fill_value=8)),
    "type, format 2": (2, described(2, dtype="<f4")),
    "type, format 3": (3, described(3, data_type="uint32", fill_value=9)),
    "byte order, format 2": (2, described(2, dtype=">i4")),
    "byte order, format 3": (3, described(3, codecs=BIG_ENDIAN)),
    "order": (2, described(2, order="F")),
    "filters": (2, described(2, filters=[{"id": "delta", "dtype": "<i4", "astype": "<i4"}])),
    "separator": (2, described(2, dimension_separator="/")),
    "keys": (3, described(3, chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}})),
    "a map": (3, lambda folder: arrays(folder).map(lambda rows: rows * 2, ["a", "b"])),
}


@pytest.mark.slow_cases("target-", "type, ", "byte order", "keys-", "filters-")
@pytest.mark.slow_cases(
    "format 2", *(f"{change}-by_predictions" for change in OF_ARRAYS if change not in QUICK)
)
@pytest.mark.parametrize("way", [by_checkpoint, by_predictions])
@pytest.mark.parametrize("change", OF_ARRAYS)
def test_arrays_are_found_again_only_if_nothing_has_changed(change, way, tmp_path):
    if way is by_predictions and change in OF_LEARNING:
        return
    zarr_format, after = OF_ARRAYS[change]
    write_arrays(tmp_path / "data", zarr_format)
    (tmp_path / "fresh").mkdir()
    check(arrays, after, way, tmp_path)
