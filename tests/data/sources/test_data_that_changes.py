"""Fits that read more than once, of data that changes between the reads."""

import os

import dask
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    Marginal,
    QuadraticDiscriminantAnalysis,
    StatisticsSearchCV,
    accumulate,
    cross_validate,
    learning_curve,
    scan_arrow,
    scan_parquet,
    scan_zarr,
)
from tests.data.tables import zarr_group

N = 400


def values(seed, holes=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, N)
    X = rng.normal(size=(N, 4)) + y[:, None]
    if holes:
        X[rng.random(X.shape) < 0.3] = np.nan
    return X, y


def table(X, y):
    return pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "y": y, "group": np.arange(len(y)) // 5})


class Parquet:
    def __init__(self, folder):
        self.folder = folder / "rows"
        self.folder.mkdir()

    def write(self, X, y):
        for i, part in enumerate((slice(None, N // 2), slice(N // 2, None))):
            self.write_file(table(X[part], y[part]), self.folder / f"{i}.part")

    def write_file(self, rows, path):
        pq.write_table(rows, path.with_suffix(".parquet"), row_group_size=50)

    def scan(self, **how):
        return scan_parquet(self.folder, "y", exclude=["group"], **how)


class Feather(Parquet):
    def write_file(self, rows, path):
        feather.write_feather(rows, path.with_suffix(".feather"), chunksize=50)

    def scan(self, **how):
        return scan_arrow(ds.dataset(str(self.folder), format="feather"), "y", exclude=["group"], **how)


class ParquetAsCast(Parquet):
    """Parquet that Arrow reads by a schema of the dataset's own."""

    def scan(self, **how):
        types = {**{f"x{j}": pa.float32() for j in range(4)}, "y": pa.int32(), "group": pa.int32()}
        dataset = ds.dataset(str(self.folder), schema=pa.schema(types))
        return scan_arrow(dataset, "y", exclude=["group"], **how)


class ZarrOnDisk:
    def __init__(self, folder):
        self.place = folder / "rows.zarr"

    def write(self, X, y):
        zarr_group(self.place, 100, X=X, y=y, group=np.arange(len(y)) // 5)

    def scan(self, **how):
        return scan_zarr(self.place, **how)


class ZarrThroughFsspec(ZarrOnDisk):
    """Of a chunk, this store tells neither version nor time when it is read."""

    def __init__(self, folder):
        self.place = f"memory://{folder}"


KINDS = [Parquet, Feather, ParquetAsCast, ZarrOnDisk, ZarrThroughFsspec]


def search(**how):
    return lambda source, get: StatisticsSearchCV(LinearDiscriminantAnalysis(), {}, **how).fit(
        source, scheduler=get
    )


FITS = {
    "search by accuracy": search(scoring="accuracy"),
    "search of Student densities": lambda source, get: StatisticsSearchCV(
        LinearDiscriminantAnalysis(predictive="student"), {}
    ).fit(source, scheduler=get),
    "search by groups": search(scoring="accuracy", cv=2, groups="group"),
    "cross_validate": lambda source, get: cross_validate(
        GaussianNB(), source, scoring="neg_log_loss", scheduler=get
    ),
    "learning_curve": lambda source, get: learning_curve(
        GaussianNB(), source, scoring="accuracy", scheduler=get
    ),
}

INCOMPLETE = {
    "accumulate": lambda source, get: accumulate(
        source, missing=Marginal(max_patterns=2, max_reads=5), scheduler=get
    ),
    "a model": lambda source, get: QuadraticDiscriminantAnalysis(
        missing=Marginal(max_patterns=2, max_reads=5)
    ).fit(source, scheduler=get),
}


def changing(change, after=1):
    """A scheduler that changes the data when so many passes have been made."""
    passes = []

    def get(graph, keys, **options):
        results = dask.get(graph, keys, **options)
        passes.append(1)
        if len(passes) == after:
            change()
        return results

    return get


@pytest.mark.slow_cases("accuracy-Feather", "accuracy-ParquetAsCast")
@pytest.mark.slow_cases("Fsspec", "row-Z", "cross_validate-Z", "groups-Z", "curve-Z", "densities-Z")
@pytest.mark.slow_cases("groups-F", "curve-F", "densities-F")
@pytest.mark.slow_cases(
    "row-ParquetA", "validate-ParquetA", "groups-ParquetA", "curve-ParquetA", "densities-ParquetA"
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit", FITS)
def test_rows_that_change_between_the_reads_of_a_fit_are_an_error(fit, kind, tmp_path):
    data = kind(tmp_path)
    data.write(*values(0))
    get = changing(lambda: data.write(*values(1)))
    with pytest.raises(ValueError, match="changed since the pass was planned"):
        FITS[fit](data.scan(), get)
    FITS[fit](data.scan(), None)  # started again, it reads what is there now


@pytest.mark.slow_cases("Fsspec", "AsCast", "Feather-2", "OnDisk-2", "accumulate-Z")
@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit", INCOMPLETE)
def test_incomplete_rows_that_change_between_the_reads_of_em_are_an_error(fit, kind, after, tmp_path):
    data = kind(tmp_path)
    data.write(*values(0, holes=True))
    get = changing(lambda: data.write(*values(1, holes=True)), after)
    with pytest.raises(ValueError, match="changed since the pass was planned"):
        INCOMPLETE[fit](data.scan(missing="marginal"), get)


def test_a_feather_file_that_changes_while_it_is_read_is_named(tmp_path):
    rows = pa.table({"x": np.arange(3e6), "y": np.arange(3_000_000) % 2})
    feather.write_feather(rows, tmp_path / "1.feather", compression="uncompressed")
    (split,) = scan_arrow(ds.dataset(str(tmp_path), format="feather"), "y").splits()
    blocks = split.blocks()
    next(blocks)
    feather.write_feather(rows.slice(1), tmp_path / "new")
    (tmp_path / "new").replace(tmp_path / "1.feather")
    with pytest.raises(ValueError, match=r"1\.feather has changed since the pass was planned"):
        list(blocks)


def test_a_file_is_read_by_the_footer_that_it_has_now(tmp_path):
    """Its columns may have changed places, though its size and its time have not."""
    path, numbers = tmp_path / "a.parquet", np.arange(6.0)
    columns = {"a": numbers, "b": numbers + 100, "y": np.arange(6) % 2}

    def write(names):
        pq.write_table(pa.table({name: columns[name] for name in names}), path, compression="none")
        os.utime(path, ns=(10**18, 10**18))

    write("aby")
    source = scan_parquet(path, "y", features=["a", "b"])
    assert accumulate(source).means.mean(axis=0).tolist() == [2.5, 102.5]
    write("bay")
    assert accumulate(source).means.mean(axis=0).tolist() == [2.5, 102.5]


def test_a_class_that_a_second_read_finds_first_is_named():
    """Where nothing tells of a change, as in a stream that is made anew for each read."""
    made = []

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            made.append(1)
            X, y = values(0)
            y[0] = 7 if len(made) > 2 else 0  # the first time, for the schema alone
            return table(X, y).to_reader().__arrow_c_stream__(requested_schema)

    with pytest.raises(ValueError, match="class 7 was not among the rows when they were learnt"):
        FITS["search by accuracy"](scan_arrow(Stream(), "y"), None)


@pytest.mark.parametrize("fit", FITS)
def test_a_stream_that_would_be_read_twice_is_refused_before_it_is_read(fit):
    rows, taken = table(*values(0)), []

    def batches():
        for batch in rows.to_batches(max_chunksize=100):
            taken.append(batch.num_rows)
            yield batch

    source = scan_arrow(pa.RecordBatchReader.from_batches(rows.schema, batches()), "y", exclude=["group"])
    with pytest.raises(
        ValueError, match="can be read once, and these scores take a second read: scan a table"
    ):
        FITS[fit](source, None)
    assert not taken
    search = StatisticsSearchCV(LinearDiscriminantAnalysis(), {"shrinkage": [0.0, 0.5]}).fit(source)
    assert search.n_reads_ == 1
    assert sum(taken) == N
