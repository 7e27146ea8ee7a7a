"""One contract for every source: the same rows give the same statistics, wherever they come from."""

import collections
import dataclasses
import itertools
import pickle
import re
import threading
import typing
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import duckdb
import numcodecs
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import zarr
from threadpoolctl import threadpool_limits
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

from streamgda import (
    ClassStatistics,
    QuadraticDiscriminantAnalysis,
    accumulate,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.parts import Part
from streamgda.data.sources.base import Source
from streamgda.data.sources.splits import Split
from streamgda.data.storage.threads import read_ahead
from tests.data.tables import zarr_group
from tests.folds import read_folds
from tests.logged_filesystem import NotingHandler, note

N = 1000
RNG = np.random.default_rng(0)
U, V, W = RNG.normal(size=N), RNG.normal(size=N) + 1e6, RNG.integers(0, 4, size=N)
CODES = RNG.integers(0, 3, size=N)
LABELS = {"int": CODES * 7 - 5, "str": np.array(["low", "middle", "high"])[CODES], "bool": CODES > 0}


def rows(labels="int", n_rows=N):
    return pa.table({"u": U, "v": V, "w": W, "y": pa.array(LABELS[labels])}).slice(0, n_rows)


def in_memory(table, weights=None):
    X = np.column_stack([table["u"].to_numpy(), table["v"].to_numpy()])
    y = table["y"].to_numpy(zero_copy_only=False)
    with threadpool_limits(1, "blas"):
        return ClassStatistics().update(X, y, weights)


def same_bits(a, b):
    """Equal, but for the names of the features, which not every source has."""
    return a.allclose(b, rtol=0) and (a.means == b.means).all()


# Layouts of Zarr and Dask whose rows take the same way as those of another source, once they are read.
VARIANTS = ["Format2", "AlongColumns", "Sharded", "MisalignedLabels", "ZarrInMemory"]
VARIANTS += ["FrameAndSeries", "UnknownLength", "OtherChunks"]
TABULAR = ["Dataset", "Library", "Reader", "Polars", "DuckDB", "Scanner", "Pandas", "DaskFrame"]


class SourceContract:
    """What a source must do. A subclass says how rows become one."""

    can_be_read_again = True
    can_leave_the_process = True
    described = ""

    def scan(self, table, folder, *, rows_per_chunk=300, weight=None, missing="raise"):
        """A source of the columns u and v with the target y, stored in chunks of so many rows."""
        raise NotImplementedError

    def test_to_the_last_bit_where_blocks_are_the_same(self, tmp_path):
        source = self.scan(rows(), tmp_path, rows_per_chunk=N)
        assert same_bits(accumulate(source), in_memory(rows()))

    @pytest.mark.slow_cases(*(f"{name}[{labels}" for name in VARIANTS for labels in ["int", "bool"]))
    @pytest.mark.parametrize("labels", LABELS)
    def test_labels_of_every_kind(self, labels, tmp_path):
        state = accumulate(self.scan(rows(labels), tmp_path))
        assert state.classes.tolist() == sorted(set(LABELS[labels].tolist()))
        assert state.allclose(in_memory(rows(labels)), rtol=1e-12)

    @pytest.mark.slow_cases(*VARIANTS)
    def test_chunks_of_one_row(self, tmp_path):
        table = rows(n_rows=40)
        assert accumulate(self.scan(table, tmp_path, rows_per_chunk=1)).allclose(in_memory(table), rtol=1e-12)

    @pytest.mark.slow_cases(*VARIANTS)
    def test_a_single_class(self, tmp_path):
        table = rows().set_column(3, "y", pa.array(np.ones(N, dtype=np.int64)))
        state = accumulate(self.scan(table, tmp_path))
        assert state.classes.tolist() == [1]
        assert state.allclose(in_memory(table), rtol=1e-12)

    @pytest.mark.slow_cases(*VARIANTS)
    def test_weights(self, tmp_path):
        state = accumulate(self.scan(rows(), tmp_path, weight="w"))
        assert state.allclose(in_memory(rows(), weights=W), rtol=1e-12)

    @pytest.mark.slow_cases(*VARIANTS)
    def test_missing_values_are_named_or_dropped(self, tmp_path):
        values = U.copy()
        values[777] = np.nan
        table = rows().set_column(0, "u", pa.array(values))
        with pytest.raises(ValueError, match=r"feature ('u'|0) is NaN"):
            accumulate(self.scan(table, tmp_path / "a"))
        state = accumulate(self.scan(table, tmp_path / "b", missing="drop"))
        assert state.n_dropped == 1
        kept = table.filter(pa.array(np.arange(N) != 777))
        assert state.allclose(in_memory(kept), rtol=1e-12)

    @pytest.mark.slow_cases(*VARIANTS)
    def test_the_states_of_folds_add_up_to_that_of_all_rows(self, tmp_path):
        states = read_folds(self.scan(rows(), tmp_path), 3)
        assert states.folds == [0, 1, 2]
        assert min(states[fold].n_rows for fold in states.folds) > N / 4
        assert states.total().allclose(in_memory(rows()), rtol=1e-12)

    @pytest.mark.slow_cases(*VARIANTS)
    def test_a_first_look(self, tmp_path):
        source = self.scan(rows("str"), tmp_path)
        assert source.n_rows in {N, None}
        assert source._repr_html_().startswith("<pre>")
        if not self.can_be_read_again:
            with pytest.raises(ValueError, match="can be read once"):
                source.head()
            return
        first = source.head(3)
        assert list(first.columns) == source.schema.names
        *features, labels = first.to_numpy().T
        values = np.column_stack([np.stack(column) for column in features])
        assert np.array_equal(values, np.column_stack([U, V])[:3])
        assert labels.tolist() == LABELS["str"][:3].tolist()

    @pytest.mark.slow_cases(*VARIANTS)
    def test_two_parts_have_each_row_once(self, tmp_path):
        values = U.copy()
        values[::50] = np.nan
        table = rows().set_column(0, "u", pa.array(values))
        source = self.scan(table, tmp_path, weight="w", missing="drop")
        if not self.can_be_read_again:
            with pytest.raises(ValueError, match="can be read once"):
                source.split()
            return
        training, test = (accumulate(part) for part in source.split(0.3))
        total, whole = training + test, accumulate(source)
        assert 0.2 * whole.n_rows < test.n_rows < 0.4 * whole.n_rows
        assert (total.n_rows, total.n_dropped) == (whole.n_rows, whole.n_dropped)
        assert total.allclose(whole, rtol=1e-12)

    @pytest.mark.slow_cases(*VARIANTS)
    def test_reading_again_gives_the_same_bits(self, tmp_path):
        source = self.scan(rows(), tmp_path)
        first = accumulate(source)
        if self.can_be_read_again:
            assert accumulate(source) == first
        else:
            with pytest.raises(ValueError, match="is spent"):
                accumulate(source)

    @pytest.mark.slow_cases(*VARIANTS, "Frame[dist", "Dataset[dist", "AnotherLibrary[dist")
    @pytest.mark.parametrize("scheduler", ["threads", "distributed"])
    def test_every_scheduler_gives_the_same_bits(self, scheduler, tmp_path, request):
        source = self.scan(rows(), tmp_path / "a", rows_per_chunk=77)
        if scheduler == "distributed" and not self.can_leave_the_process:
            with pytest.raises(TypeError, match=r"^<Arrow .*> can be read in this process only") as raised:
                accumulate(source, scheduler="processes")
            assert raised.value.__cause__ is None
            assert accumulate(source).n_rows == N  # nothing was taken from it
        else:
            if scheduler == "distributed":
                scheduler = request.getfixturevalue("client")
            again = self.scan(rows(), tmp_path / "b", rows_per_chunk=77)
            assert accumulate(source, scheduler=scheduler) == accumulate(again, scheduler="synchronous")

    @pytest.mark.slow_cases(*VARIANTS)
    def test_no_rows_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match="nothing to accumulate"):
            accumulate(self.scan(rows(n_rows=0), tmp_path))

    @pytest.mark.slow_cases(*VARIANTS)
    def test_progress_ends_at_the_number_of_rows(self, tmp_path, capsys):
        accumulate(self.scan(rows(), tmp_path), progress=True)
        last = capsys.readouterr().err.split("\r")[-1]
        assert re.match(r"1\.00k rows \[|100%\|\W+\| 1\.00k/1\.00k \[", last)

    def test_it_says_what_it_is(self, tmp_path):
        expected = self.described.format(folder=re.escape(str(tmp_path)))
        assert re.fullmatch(f"<{expected}>", repr(self.scan(rows(), tmp_path)))


class TabularContract(SourceContract):
    """What a source of named columns must do besides."""

    def test_null_labels_are_named_or_dropped(self, tmp_path):
        column = pa.array([None, *LABELS["str"][1:]])
        table = rows().set_column(3, "y", column)
        with pytest.raises(ValueError, match="row 0 has no label"):
            accumulate(self.scan(table, tmp_path / "a"))
        state = accumulate(self.scan(table, tmp_path / "b", missing="drop"))
        assert (state.n_rows, state.n_dropped) == (N - 1, 1)

    def test_dictionaries_that_differ_from_chunk_to_chunk(self, tmp_path):
        table = rows("str")
        chunks = [
            table["y"].slice(start, 300).combine_chunks().dictionary_encode() for start in range(0, N, 300)
        ]
        table = table.set_column(3, "y", pa.chunked_array(chunks))
        assert accumulate(self.scan(table, tmp_path)).allclose(in_memory(rows("str")), rtol=1e-12)

    def test_columns_by_name_or_pattern_are_no_features_by_default(self, tmp_path):
        table = rows().append_column("id", pa.array(np.arange(N))).append_column("id[2]", pa.array(["x"] * N))
        for exclude in (["w", "id", "id[2]"], ["id*", "[w]"], ["i?", "w", "id[2]", "nosuch*"]):
            source = self.scan(table, tmp_path / str(len(exclude)), features=None, exclude=exclude)
            assert source.feature_names == ("u", "v")
        assert same_bits(accumulate(source), accumulate(self.scan(table, tmp_path / "again")))
        weighted = self.scan(table, tmp_path / "w", features=None, exclude=["id*"], weight="w")
        assert weighted.feature_names == ("u", "v")
        for options, message in (
            ({"features": None, "exclude": ["ID", "w"]}, "there is no column 'ID'; did you mean 'id'"),
            ({"features": None, "exclude": "id"}, "exclude must be a list of column names"),
            ({"features": ["u"], "exclude": ["id"]}, "give features or exclude, not both"),
            ({"features": None, "exclude": ["[a-z]*"]}, "at least one"),
        ):
            with pytest.raises(ValueError, match=message):
                self.scan(table, tmp_path / "bad", **options)

    @pytest.mark.slow_cases(
        *(f"{source}[{name}" for source in TABULAR for name in ["user", "Id", "Pas", "row"])
    )
    @pytest.mark.parametrize("name", ["id", "user_id", "Id", "PassengerId", "rowid", "__index_level_0__"])
    def test_an_identifier_that_is_a_feature_by_default_is_mentioned(self, tmp_path, name):
        table = rows().drop_columns("w").append_column(name, pa.array(np.arange(N)))
        with pytest.warns(UserWarning, match=f"also '{name}'. A column .*exclude=.'{name}'.") as warned:
            source = self.scan(table, tmp_path, features=None)
        assert len(warned) == 1
        assert Path(warned[0].filename) == Path(__file__)  # where the user has called
        assert source.feature_names == ("u", "v", name)
        assert self.scan(table, tmp_path, features=["u", name]).feature_names == ("u", name)
        assert self.scan(table, tmp_path, features=None, exclude=[name]).feature_names == ("u", "v")

    @pytest.mark.slow_cases(
        *(f"{source}[{name}" for source in TABULAR for name in ["ac", "SO", "gr", "ids", "in"])
    )
    @pytest.mark.parametrize("name", ["width", "acid", "SOLID", "grid", "ids", "index_of_refraction", "mid"])
    def test_other_columns_are_features_without_a_word(self, tmp_path, name):
        table = rows().drop_columns("w").append_column(name, pa.array(np.arange(N)))
        assert name in self.scan(table, tmp_path, features=None).feature_names

    def test_measures_that_are_called_an_index_are_no_identifiers(self, tmp_path):
        table = rows().drop_columns("w").append_column("index", pa.array(np.arange(N) / 2))
        assert "index" in self.scan(table, tmp_path, features=None).feature_names

    def test_features_are_named(self, tmp_path):
        assert self.scan(rows(), tmp_path).feature_names == ("u", "v")
        assert accumulate(self.scan(rows(), tmp_path)).feature_names == ("u", "v")


def chunked(table, rows_per_chunk):
    """The table in chunks of so many rows, with an empty one among them."""
    batches = table.combine_chunks().to_batches(max_chunksize=rows_per_chunk)
    return pa.Table.from_batches([*batches[:1], *table.slice(0, 0).to_batches(), *batches[1:]], table.schema)


COLUMNS = {"features": ["u", "v"]}


class TestParquet(TabularContract):
    described = "Parquet {folder}/0.parquet and 1 more: 2 features, target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        folder.mkdir(exist_ok=True)
        pq.write_table(table.slice(0, 0), folder / "0.parquet")
        pq.write_table(table, folder / "1.parquet", row_group_size=rows_per_chunk)
        return scan_parquet(folder, "y", **{**COLUMNS, **options})


class TestTable(TabularContract):
    described = "Arrow Table: 2 features, target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        return scan_arrow(chunked(table, rows_per_chunk), "y", **{**COLUMNS, **options})


class TestParquetDataset(TabularContract):
    described = "Parquet {folder}/1.parquet: 2 features, target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        folder.mkdir(exist_ok=True)
        pq.write_table(table, folder / "1.parquet", row_group_size=rows_per_chunk)
        return scan_arrow(ds.dataset(folder), "y", **{**COLUMNS, **options})


class TestFeatherDataset(TabularContract):
    described = "Arrow FileSystemDataset: 2 features, target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        folder.mkdir(exist_ok=True)
        pa.feather.write_feather(table.slice(0, 0), folder / "0.feather")
        pa.feather.write_feather(table.combine_chunks(), folder / "1.feather", chunksize=rows_per_chunk)
        return scan_arrow(ds.dataset(folder, format="feather"), "y", **{**COLUMNS, **options})


class StreamContract(TabularContract):
    can_leave_the_process = False
    described = "Arrow Stream: 2 features, target 'y'"


class TestReader(StreamContract):
    can_be_read_again = False
    described = "Arrow RecordBatchReader: 2 features, target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        return scan_arrow(chunked(table, rows_per_chunk).to_reader(), "y", **{**COLUMNS, **options})


class TestPolars(StreamContract):
    def scan(self, table, folder, *, rows_per_chunk=None, **options):
        pl = pytest.importorskip("polars")
        return scan_arrow(pl.from_arrow(table), "y", **{**COLUMNS, **options})


class TestLazyPolars(StreamContract):
    def scan(self, table, folder, *, rows_per_chunk=None, **options):
        pl = pytest.importorskip("polars")
        return scan_arrow(pl.from_arrow(table).lazy().filter(pl.col("v") > 0), "y", **{**COLUMNS, **options})


class TestDuckDB(StreamContract):
    def scan(self, table, folder, *, rows_per_chunk=None, **options):
        return scan_arrow(duckdb.from_arrow(table), "y", **{**COLUMNS, **options})


class TestScanner(StreamContract):
    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        scanner = ds.dataset(chunked(table, rows_per_chunk)).scanner()
        return scan_arrow(scanner, "y", **{**COLUMNS, **options})


class OtherFragment(ds.Fragment):
    """A fragment as Lance has it: its methods are its own, and not those of pyarrow's class."""

    def __init__(self, table):
        self.table = table

    def scanner(self, columns):
        return ds.dataset(self.table).scanner(columns=columns)

    def __reduce__(self):
        return OtherFragment, (self.table,)


class OtherDataset(ds.Dataset):
    """A dataset as Lance has it."""

    def __init__(self, tables):
        self.tables = tables

    @property
    def schema(self):
        return self.tables[0].schema

    def get_fragments(self, **filters):
        return [OtherFragment(table) for table in self.tables]

    def __reduce__(self):
        return OtherDataset, (self.tables,)


class TestDatasetOfAnotherLibrary(TabularContract):
    described = "Arrow OtherDataset: 2 features, target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        starts = range(0, max(len(table), 1), max(rows_per_chunk, 300))
        parts = [table.slice(start, max(rows_per_chunk, 300)) for start in starts]
        return scan_arrow(OtherDataset(parts), "y", **{**COLUMNS, **options})


class TestPandas(StreamContract):
    def scan(self, table, folder, *, rows_per_chunk=None, **options):
        return scan_arrow(table.to_pandas(), "y", **{**COLUMNS, **options})


def write_zarr(table, folder, rows_per_chunk, *, columns_per_chunk=2, label_rows=None, **options):
    """The table as a group of arrays X, y and w."""
    group = zarr.open_group(folder, mode="w", zarr_format=options.pop("zarr_format", 3))
    X = np.column_stack([table["u"].to_numpy(), table["v"].to_numpy()])
    chunks = (max(1, rows_per_chunk), columns_per_chunk)
    shards = options.pop("rows_per_shard", None)
    shards = None if shards is None else (shards, 2)
    group.create_array("X", shape=X.shape, dtype=X.dtype, chunks=chunks, shards=shards)[:] = X
    for name in ("y", "w"):
        values = table[name].to_numpy(zero_copy_only=False)
        dtype = str if values.dtype == object else values.dtype
        length = max(1, label_rows or rows_per_chunk)
        group.create_array(name, shape=values.shape, dtype=dtype, chunks=(length,))[:] = values
    return group


class TestZarr(SourceContract):
    described = "Zarr file://{folder}: features 'X', target 'y'"
    layout: typing.ClassVar = {}

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        write_zarr(table, folder, rows_per_chunk, **self.layout)
        return scan_zarr(str(folder), **options)


class TestZarrFormat2(TestZarr):
    layout: typing.ClassVar = {"zarr_format": 2}


class TestZarrChunkedAlongColumns(TestZarr):
    layout: typing.ClassVar = {"columns_per_chunk": 1}


class TestZarrSharded(TestZarr):
    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        write_zarr(table, folder, rows_per_chunk, rows_per_shard=2 * rows_per_chunk)
        return scan_zarr(folder, **options)


class TestZarrMisalignedLabels(TestZarr):
    layout: typing.ClassVar = {"label_rows": 70}


class TestZarrInMemory(TestZarr):
    described = r"Zarr memory://\d+: features 'X', target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        store = zarr.storage.MemoryStore()
        return scan_zarr(write_zarr(table, store, rows_per_chunk), **options)


def partitioned(table, rows_per_chunk):
    """The table as a dask DataFrame with partitions of so many rows, and empty ones among them."""
    frame = table.to_pandas()
    frames = [frame.iloc[start : start + rows_per_chunk] for start in range(0, len(frame), rows_per_chunk)]
    frames = [*frames[:1], frame.iloc[:0], *frames[1:]]
    return dd.from_delayed([dask.delayed(part) for part in frames], meta=frame.iloc[:0])


class TestDaskFrame(TabularContract):
    described = "Dask frame of 5 partitions: 2 features, target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        return scan_dask(partitioned(table, rows_per_chunk), "y", **{**COLUMNS, **options})


class TestDaskArrays(SourceContract):
    described = "Dask rows with a target beside them, 4 partitions"
    chunk_of_labels = None

    def scan(self, table, folder, *, rows_per_chunk=300, weight=None, **options):
        X = np.column_stack([table["u"].to_numpy(), table["v"].to_numpy()])
        y = table["y"].to_numpy(zero_copy_only=False)
        length = self.chunk_of_labels or rows_per_chunk
        X, y = da.from_array(X, chunks=(rows_per_chunk, 1)), da.from_array(y, chunks=length)
        w = None if weight is None else da.from_array(table[weight].to_numpy(), chunks=length)
        return scan_dask(X, y, weight=w, **options)


class TestDaskArraysOfOtherChunks(TestDaskArrays):
    chunk_of_labels = 77


class TestDaskArraysOfUnknownLength(SourceContract):
    described = "Dask rows with a target beside them, 5 partitions"

    def scan(self, table, folder, *, rows_per_chunk=300, weight=None, **options):
        frame = partitioned(table, rows_per_chunk)
        w = None if weight is None else frame[weight].values
        y = frame["y"].astype(object) if frame["y"].dtype == "str" else frame["y"]
        return scan_dask(frame[["u", "v"]].values, y.values, weight=w, **options)


class TestDaskFrameAndSeries(SourceContract):
    described = "Dask rows with a target beside them, 5 partitions"

    def scan(self, table, folder, *, rows_per_chunk=300, weight=None, **options):
        frame = partitioned(table, rows_per_chunk)
        w = None if weight is None else frame[weight]
        return scan_dask(frame[["u", "v"]], frame["y"], weight=w, **options)


@dataclasses.dataclass(frozen=True)
class Archive(Split):
    """A NumPy archive: a split of a source that the package does not know."""

    path: Path
    missing: str
    parts: tuple[Part, ...] = ()

    @property
    def n_rows(self):
        with np.load(self.path, allow_pickle=True) as arrays:
            return len(arrays["y"])

    def blocks(self):
        with np.load(self.path, allow_pickle=True) as arrays:
            beside = arrays["y"], arrays.get("w")
            how = {"missing": self.missing, "origin": str(self.path), "parts": self.parts}
            yield from array_blocks(arrays["X"], *beside, **how)


@dataclasses.dataclass(frozen=True)
class ArchiveSource(Source):
    """A folder of archives, made as `streamgda.data.sources` says how to write a source."""

    folder: Path
    missing: str
    parts: tuple[Part, ...] = ()

    def __repr__(self):
        return f"<Archives in {self.folder}>"

    def splits(self):
        return [Archive(path, self.missing, self.parts) for path in sorted(self.folder.glob("*.npz"))]

    def with_part(self, part):
        return dataclasses.replace(self, parts=(*self.parts, part))


class TestSourceFromOutside(SourceContract):
    described = r"Archives in {folder}"

    def scan(self, table, folder, *, rows_per_chunk=300, weight=None, missing="raise"):
        folder.mkdir(exist_ok=True)
        for start in range(0, len(table), rows_per_chunk):
            part = table.slice(start, rows_per_chunk)
            arrays = {"X": np.column_stack([part["u"], part["v"]]), "y": part["y"].to_numpy()}
            if weight is not None:
                arrays["w"] = part[weight].to_numpy()
            np.savez(folder / f"{start:05}.npz", **arrays)
        return ArchiveSource(folder, missing)


@pytest.mark.parametrize("index", ["filtered", "named", "several", "a column"])
def test_the_index_of_a_pandas_frame_is_no_feature_unless_asked_for(tmp_path, index):
    frame = rows().to_pandas()
    frame = frame[frame["w"] > 0].drop(columns="w")
    expected = ClassStatistics().update(frame[["u", "v"]].to_numpy(), frame["y"])
    if index == "named":
        frame.index.name = "id"
    elif index == "several":
        frame.index = pd.MultiIndex.from_arrays([frame.index, frame.index % 7])
    elif index == "a column":
        frame = frame.set_index("y")
    frame.to_parquet(tmp_path / "1.parquet")
    for source in (
        scan_arrow(frame, "y"),
        scan_arrow(pa.Table.from_pandas(frame), "y"),
        scan_parquet(tmp_path, "y"),
    ):
        assert source.feature_names == ("u", "v")
        assert same_bits(accumulate(source), expected)
    if index == "named":
        assert scan_parquet(tmp_path, "y", features=["id"]).feature_names == ("id",)


def test_a_record_batch():
    (batch,) = rows().to_batches()
    assert same_bits(accumulate(scan_arrow(batch, "y", **COLUMNS)), in_memory(rows()))


def test_a_large_table_is_read_in_slices_that_are_sent_without_the_rest_of_it():
    length = 600_000
    table = pa.table(
        {
            "x": np.arange(length, dtype=float),
            "note": pa.array(["unused"] * length),
            "y": pa.array(np.arange(length) % 3).cast(pa.string()).dictionary_encode(),
        }
    )
    source = scan_arrow(table, "y", features=["x"])
    assert accumulate(source, scheduler="threads") == accumulate(source, scheduler="synchronous")
    splits = source.splits()
    sent = [pickle.dumps(split) for split in splits]
    assert len(sent) == 3
    for split, content in zip(splits, sent, strict=True):
        assert split.n_rows * 12 < len(content) < split.n_rows * 12 * 1.01 + 2000
        again = pickle.loads(content)
        assert (again.table, again.roles, again.start) == (split.table, split.roles, split.start)


@pytest.mark.parametrize("progress", [False, True])
def test_a_stream_is_read_here_where_a_client_is_active(client, progress):
    expected = in_memory(rows())
    with client.as_current():
        source = scan_arrow(rows().to_reader(), "y", **COLUMNS)
        assert same_bits(accumulate(source, progress=progress), expected)
        model = QuadraticDiscriminantAnalysis().fit(scan_arrow(rows().to_pandas(), "y", **COLUMNS))
        assert same_bits(model.statistics_, expected)
        with pytest.raises(TypeError, match="in this process only"):
            accumulate(scan_arrow(rows().to_reader(), "y", **COLUMNS), scheduler="distributed")


def test_a_configured_scheduler_of_this_process_reads_a_stream():
    seen = []

    def scheduler(graph, keys, **kwargs):
        seen.append(keys)
        return dask.get(graph, keys, **kwargs)

    source = scan_arrow(duckdb.from_arrow(rows()), "y", **COLUMNS)
    with dask.config.set(scheduler=scheduler):
        accumulate(source)
    assert len(seen) == 1
    with dask.config.set(scheduler="processes"):
        assert same_bits(accumulate(source), in_memory(rows()))


def test_datasets_in_memory_stay_in_their_process():
    table = rows()
    dataset = ds.dataset([ds.dataset(table.slice(0, 10)), ds.dataset(table.slice(10))])
    source = scan_arrow(dataset, "y", **COLUMNS)
    with dask.config.set(scheduler="processes"):
        assert accumulate(source).allclose(in_memory(table), rtol=1e-12)
    with pytest.raises(TypeError, match="in this process only"):
        accumulate(source, scheduler="processes")


def test_what_is_no_arrow_data_is_refused():
    with pytest.raises(TypeError, match="something with __arrow_c_stream__; got list"):
        scan_arrow([1, 2, 3], "y")
    with pytest.raises(TypeError, match=r"the path rows.parquet; scan takes paths"):
        scan_arrow("rows.parquet", "y")
    with pytest.raises(ValueError, match=r"the data: columns 'y' \(string\) cannot be features"):
        scan_arrow(rows("str"), "u", categories=None)
    with pytest.raises(ValueError, match="the data: there is no column 'z'"):
        scan_arrow(pd.DataFrame({"x": [1.0]}), "z")


def test_a_row_of_a_stream_is_named_by_its_place_in_it():
    values = np.zeros(100_000)
    values[77_777] = np.inf
    table = pa.table({"x": values, "y": np.arange(100_000) % 2})
    with pytest.raises(ValueError, match="the stream, row 77777: feature 'x' is infinity"):
        accumulate(scan_arrow(table.to_reader(max_chunksize=1000), "y"))


# ---------------------------------------------------------------------- what is particular to Zarr


class NotingStore(zarr.storage.WrapperStore):
    """A store that logs each read, from any process."""

    def __init__(self, store, log):
        super().__init__(store)
        self.log = log

    def _with_store(self, store):
        return NotingStore(store, self.log)

    @property
    def reads(self):
        """(key, byte range) of each read of a chunk."""
        lines = [line.split("\t") for line in self.log.read_text().splitlines()]
        return [
            (key, byte_range) for key, byte_range in lines if key.startswith(("X/", "y/")) and is_chunk(key)
        ]

    async def get(self, key, prototype, byte_range=None):
        note(self.log, f"{key}\t{byte_range}")
        return await self._store.get(key, prototype, byte_range)


def is_chunk(key):
    return not key.endswith(("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"))


def chunk_files(folder):
    """The keys of all the chunks of X and y."""
    files = (path for name in "Xy" for path in (folder / name).rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder))
        for path in files
        if path.name not in ("zarr.json", ".zarray", ".zattrs")
    }


@pytest.mark.slow_cases("distributed-layout1", "distributed-layout2", "distributed-layout3")
@pytest.mark.parametrize("layout", [{}, {"columns_per_chunk": 1}, {"label_rows": 77}, {"zarr_format": 2}])
@pytest.mark.parametrize("scheduler", ["threads", "distributed"])
def test_each_chunk_is_read_once(tmp_path, layout, scheduler, request):
    if scheduler == "distributed":
        scheduler = request.getfixturevalue("client")
    write_zarr(rows(), tmp_path / "group", 100, **layout)
    store = NotingStore(zarr.storage.LocalStore(tmp_path / "group", read_only=True), tmp_path / "log")
    accumulate(scan_zarr(store), scheduler=scheduler)
    assert collections.Counter(key for key, _ in store.reads) == dict.fromkeys(
        chunk_files(tmp_path / "group"), 1
    )


@pytest.mark.slow_cases("7-1")
@pytest.mark.parametrize(("chunk", "label_chunk"), [(100, 77), (30, 1009), (7, 1), (100, 100)])
def test_a_long_task_holds_few_chunks_and_reads_each_once(tmp_path, monkeypatch, chunk, label_chunk):
    monkeypatch.setattr("streamgda.data.sources.zarr.READ_ELEMENTS", 2 * 150)
    write_zarr(rows(), tmp_path / "group", chunk, label_rows=label_chunk)
    store = NotingStore(zarr.storage.LocalStore(tmp_path / "group", read_only=True), tmp_path / "log")
    source = scan_zarr(store, weight="w")
    (split,) = source.splits()
    next(split.blocks())
    first = collections.Counter(key.split("/")[0] for key, _ in store.reads)
    assert first["X"] * chunk <= 2 * 150  # one part, and the next one that is read meanwhile
    assert first["y"] * label_chunk < 2 * 150 + label_chunk
    # Another store, since the threads that read ahead are not waited for, and may still note a chunk.
    store = NotingStore(zarr.storage.LocalStore(tmp_path / "group", read_only=True), tmp_path / "whole")
    state = accumulate(scan_zarr(store, weight="w"))
    assert state.allclose(in_memory(rows(), W), rtol=1e-12)
    assert set(collections.Counter(store.reads).values()) == {1}


def test_each_chunk_in_a_shard_is_read_once(tmp_path):
    write_zarr(rows(), tmp_path / "group", 100, rows_per_shard=500)
    store = NotingStore(zarr.storage.LocalStore(tmp_path / "group", read_only=True), tmp_path / "log")
    accumulate(scan_zarr(store))
    assert set(collections.Counter(store.reads).values()) == {1}
    whole = {key for key, byte_range in store.reads if byte_range == "None"}
    assert not whole & {key for key, byte_range in store.reads if byte_range != "None"}


def test_a_chunk_that_was_never_written_is_zeros(tmp_path):
    group = write_zarr(rows(), tmp_path, 100)
    group["X"][300:400] = 0.0
    assert not (tmp_path / "X" / "c" / "3" / "0").exists()
    X = np.column_stack([U, V])
    X[300:400] = 0
    assert accumulate(scan_zarr(tmp_path)).allclose(ClassStatistics().update(X, LABELS["int"]), rtol=1e-12)


@pytest.mark.parametrize("chunk", ["X/c/3/0", "y/c/3"])
def test_a_chunk_that_vanishes_or_is_written_anew_is_named(tmp_path, chunk):
    group = write_zarr(rows(), tmp_path, 100)
    (split,) = scan_zarr(tmp_path).splits()
    group[chunk[0]][300:310] = 1
    with pytest.raises(ValueError, match=f"{chunk} has changed since the pass was planned"):
        list(split.blocks())
    (tmp_path / chunk).unlink()
    with pytest.raises(FileNotFoundError, match=f"{chunk} is gone"):
        list(split.blocks())


@pytest.mark.slow_cases("-7", "-500")
@pytest.mark.parametrize("lost", [1, 7, 500])
@pytest.mark.parametrize(
    ("zarr_format", "codec", "chunk"), [(2, numcodecs.Blosc(), "X/1.0"), (3, BloscCodec(), "X/c/1/0")]
)
def test_a_blosc_chunk_that_lost_its_end_is_named(tmp_path, zarr_format, codec, chunk, lost):
    group = zarr.open_group(tmp_path, mode="w", zarr_format=zarr_format)
    X = np.column_stack([U, V])
    group.create_array("X", data=X, chunks=(100, 2), compressors=codec)
    group.create_array("y", data=LABELS["int"], chunks=(100,))
    assert accumulate(scan_zarr(tmp_path)).allclose(in_memory(rows()), rtol=1e-12)
    content = (tmp_path / chunk).read_bytes()
    (tmp_path / chunk).write_bytes(content[:-lost])
    with pytest.raises(
        ValueError, match=f"damaged: .*{chunk} has {len(content) - lost:,} bytes of {len(content):,}"
    ):
        accumulate(scan_zarr(tmp_path))


@pytest.mark.slow_cases("codecs1", "codecs2", "None")
@pytest.mark.parametrize("rows_per_shard", [None, 500])
@pytest.mark.parametrize(
    "codecs", [[Crc32cCodec()], [BloscCodec(), Crc32cCodec()], [ZstdCodec(checksum=True)]]
)
def test_a_flipped_bit_in_a_chunk_with_a_checksum_is_found(tmp_path, codecs, rows_per_shard):
    group = zarr.open_group(tmp_path, mode="w")
    shards = None if rows_per_shard is None else (rows_per_shard, 2)
    X = np.column_stack([U, V])
    group.create_array("X", data=X, chunks=(100, 2), shards=shards, compressors=codecs)
    group.create_array("y", data=LABELS["int"], chunks=(100,))
    source, stored = scan_zarr(tmp_path), tmp_path / "X" / "c" / "1" / "0"
    assert accumulate(source).allclose(in_memory(rows()), rtol=1e-12)
    content = stored.read_bytes()
    for bit in np.linspace(0, 8 * len(content) - 1, 12, dtype=int):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        stored.write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot be read, a chunk is damaged"):
            accumulate(scan_zarr(tmp_path))


@pytest.mark.slow_cases("lost1", "lost2")
@pytest.mark.slow_cases("start")
@pytest.mark.parametrize("index_location", ["start", "end"])
@pytest.mark.parametrize("is_read_whole", [True, False])
@pytest.mark.parametrize("lost", [slice(0, 1), slice(0, 8), slice(900, 908)])
def test_a_shard_that_lost_bytes_is_not_read_from_other_places(
    tmp_path, monkeypatch, index_location, is_read_whole, lost
):
    if not is_read_whole:
        monkeypatch.setattr("streamgda.data.sources.zarr._MOST_OF_SHARD", 0)
    group = zarr.open_group(tmp_path, mode="w")
    shards = {"shape": (500, 2), "index_location": index_location}
    group.create_array(
        "X", data=np.arange(2_000.0).reshape(1_000, 2), chunks=(50, 2), shards=shards, compressors=None
    )
    group.create_array("y", data=np.arange(1_000) % 2)
    accumulate(scan_zarr(tmp_path))
    path = tmp_path / "X/c/0/0"
    content = bytearray(path.read_bytes())
    del content[lost]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"X.*(c/0/0 has lost bytes|cannot be read, a chunk is damaged)"):
        accumulate(scan_zarr(tmp_path))


@pytest.mark.slow_cases("-None")
@pytest.mark.parametrize("rows_per_shard", [None, 500])
@pytest.mark.parametrize("chunk", ["X/c/1/0", "y/c/1"])
def test_a_file_that_lost_its_content_is_not_read_as_fill_values(tmp_path, chunk, rows_per_shard):
    write_zarr(rows(), tmp_path, 100, rows_per_shard=rows_per_shard)
    (tmp_path / chunk).write_bytes(b"")
    with pytest.raises(ValueError, match=f"a chunk is damaged: .*{chunk} is empty"):
        accumulate(scan_zarr(tmp_path))


class ForbiddenStore(zarr.storage.WrapperStore):
    """A store that may be listed but whose chunks may not be read."""

    def _with_store(self, store):
        return ForbiddenStore(store)

    async def get(self, key, prototype, byte_range=None):
        if is_chunk(key):
            raise PermissionError("Forbidden")
        return await self._store.get(key, prototype, byte_range)


def test_a_chunk_that_may_not_be_read_is_not_called_damaged(tmp_path, client):
    write_zarr(rows(), tmp_path, 100)
    source = scan_zarr(ForbiddenStore(zarr.storage.LocalStore(tmp_path, read_only=True)))
    for scheduler in ("synchronous", client):
        with pytest.raises(PermissionError, match=f"{tmp_path.name}: Forbidden"):
            accumulate(source, scheduler=scheduler)


def test_labels_and_features_that_cannot_serve_are_named_by_their_place(tmp_path):
    group = zarr_group(tmp_path, X=np.zeros((3, 2)), y=[0.5, 1.5, 2.5])
    with pytest.raises(ValueError, match=rf"{tmp_path.name}: label 0.5 is not a class"):
        accumulate(scan_zarr(tmp_path))
    group["y"][:] = [0, 1, 1]
    group["X"][2, 1] = np.inf
    with pytest.raises(ValueError, match=rf"{tmp_path.name}, row 2: feature 1 is infinity"):
        accumulate(scan_zarr(tmp_path))
    X, y = da.zeros((4, 2), chunks=(2, 2)), da.from_array(np.array([0.0, 1.0, 1.0, 0.5]), chunks=2)
    with pytest.raises(ValueError, match="^partition 1: label 0.5 is not a class"):
        accumulate(scan_dask(X, y))


def test_a_group_that_grows_after_the_plan_is_named(tmp_path):
    group = write_zarr(rows(), tmp_path, 100)
    (split,) = scan_zarr(tmp_path).splits()
    for name in ("X", "y", "w"):
        group[name].resize((N + 1, *group[name].shape[1:]))
    with pytest.raises(ValueError, match="has changed since the pass was planned"):
        list(split.blocks())


def test_large_arrays_are_read_in_parts_with_the_same_bits_on_every_scheduler(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600_000, 2)), rng.integers(0, 2, size=600_000)
    zarr_group(tmp_path, 50_000, X=X, y=y)
    source = scan_zarr(tmp_path)
    assert len(source.splits()) == 3
    state = accumulate(source, scheduler="threads")
    assert state == accumulate(source, scheduler="synchronous")
    assert state.allclose(ClassStatistics().update(X, y))


@pytest.mark.parametrize("given", ["path", "store", "group"])
def test_a_relative_path_is_where_it_was_when_it_was_scanned(tmp_path, monkeypatch, given):
    for i, folder in enumerate(("here", "there")):
        write_zarr(rows(n_rows=100 * (i + 1)), tmp_path / folder / "group", 100)
    monkeypatch.chdir(tmp_path / "here")
    store = {
        "path": "group",
        "store": zarr.storage.LocalStore("group", read_only=True),
        "group": zarr.open_group("group", mode="r"),
    }[given]
    source = scan_zarr(store)
    splits = source.splits()
    monkeypatch.chdir(tmp_path / "there")
    assert same_bits(accumulate(source), in_memory(rows(n_rows=100)))
    assert sum(len(block.codes) for split in splits for block in split.blocks()) == 100
    assert repr(source) == f"<Zarr file://{tmp_path}/here/group: features 'X', target 'y'>"


def test_arrays_that_cannot_serve(tmp_path):
    group = write_zarr(rows(), tmp_path, 100)
    group.create_array("short", shape=(3,), dtype="int64")
    group.create_array("complex", shape=(N, 2), dtype="complex128")
    group.create_array("words", shape=(N,), dtype=str)
    group.create_array("nothing", shape=(N, 0), chunks=(10, 1), dtype=float)
    for options, message in (
        (
            {"target": "z"},
            "there is no array 'z'; there are 'X', 'complex', 'nothing', 'short', 'w', 'words', 'y'",
        ),
        ({"target": ""}, "there is no array ''"),
        ({"weight": ""}, "there is no array ''"),
        ({"target": "short"}, "'short' is \\(3,\\)"),
        ({"target": "X"}, "must be arrays of their own"),
        ({"features": "w"}, rf"must be \(n_rows, n_features\) and the others \(n_rows,\); 'w' is \({N},\)"),
        ({"features": "complex"}, "complex128 and cannot be the features"),
        ({"target": "complex"}, "complex128 and cannot be the target"),
        ({"weight": "words"}, "array 'words' is .* and cannot be the weight"),
        ({"features": "nothing"}, f"{tmp_path.name}: 'nothing' has no columns"),
        ({"missing": "ignore"}, "must be 'raise' or 'drop'"),
    ):
        with pytest.raises(ValueError, match=message):
            scan_zarr(tmp_path, **options)
    with pytest.raises(FileNotFoundError):
        scan_zarr(tmp_path / "nosuch")


def test_damaged_metadata_of_an_array_are_named(tmp_path):
    zarr_group(tmp_path / "rows.zarr", 4, X=np.zeros((4, 2)), y=np.zeros(4, np.int64))
    (tmp_path / "rows.zarr" / "X" / "zarr.json").write_text("{")
    with pytest.raises(ValueError, match=r"rows\.zarr.*metadata of an array are damaged"):
        scan_zarr(tmp_path / "rows.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_is_no_group(tmp_path, zarr_format):
    group = write_zarr(rows(), tmp_path, 100, zarr_format=zarr_format)
    for array in (tmp_path / "X", str(tmp_path / "y"), group["X"]):
        with pytest.raises((TypeError, ValueError, FileNotFoundError), match="store|is an array"):
            scan_zarr(array)


# ---------------------------------------------------------------------- what is particular to Dask


def test_rows_and_labels_that_do_not_fit():
    X, y = da.zeros((100, 2), chunks=(10, 2)), da.zeros(100, chunks=10, dtype=int)
    for rows_, labels, message in (
        (X, y[:90], "X has 100 rows, the target has 90"),
        (X[X[:, 0] == 0], y.rechunk(50), "the rows have 10 partitions and the target has 2"),
        (X, X, "the target must have one dimension, .* it has 2"),
        (y, y, "rows must have two dimensions, .* they have 1"),
        (X, "y", "not a name"),
    ):
        with pytest.raises(ValueError, match=message):
            accumulate(scan_dask(rows_, labels))
    for weight, message in (
        (y[:90], "X has 100 rows, the weight has 90"),
        (X, "the weight must have one dimension"),
    ):
        with pytest.raises(ValueError, match=message):
            scan_dask(X, y, weight=weight)
    frame = partitioned(rows(), 300)
    with pytest.raises(ValueError, match="the rows have 5 partitions and the weight has 1"):
        scan_dask(frame[["u", "v"]], frame["y"], weight=frame["w"].repartition(npartitions=1))
    labels = np.arange(100) % 2
    remedy = re.escape("dask.array.from_array(y, chunks=X.chunks[0])")
    with pytest.raises(
        TypeError, match=f"the target .* a Dask collection too, such as {remedy}; got ndarray"
    ):
        scan_dask(X, labels)
    assert accumulate(scan_dask(X, da.from_array(labels, chunks=X.chunks[0]))).n_rows == 100
    with pytest.raises(TypeError, match="a Dask collection too, or the name of a column; got ndarray"):
        scan_dask(partitioned(rows(), 300), labels)
    with pytest.raises(TypeError, match="the weight .* must be a Dask collection too.*got list"):
        scan_dask(X, y, weight=[1] * 100)
    with pytest.raises(TypeError, match="dask DataFrame or array is needed, such as .*; got ndarray"):
        scan_dask(np.zeros((3, 2)), "y")
    with pytest.raises(ValueError, match="name columns of a data frame"):
        scan_dask(X, y, features=["u"])
    with pytest.raises(ValueError, match=r"the data frame: columns 'y' \(.*string\) cannot be features"):
        scan_dask(partitioned(rows("str"), 300), "u", categories=None)


@pytest.mark.parametrize("names", [("u", "v"), (0, 1), ("u", 1)])
def test_columns_by_names_of_any_kind(names):
    frame = rows().to_pandas()[["u", "v", "y"]].set_axis([*names, "y"], axis=1)
    source = scan_dask(dd.from_pandas(frame, chunksize=300, sort=False), "y")
    assert source.feature_names == tuple(map(str, names))
    assert accumulate(source).allclose(in_memory(rows()), rtol=1e-12)


@pytest.mark.parametrize("beside", [False, True])
def test_labels_that_are_python_objects_in_partitions_of_which_some_are_empty_or_null(beside):
    frame = rows("str").to_pandas().astype({"y": object})
    frame.loc[300:599, "y"] = None
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(frame, chunksize=300, sort=False).map_partitions(lambda part: part[part.u < 9])
        frame = frame.map_partitions(lambda part: part[part.index < 700])
        assert frame.dtypes["y"].kind == "O"
        target = frame["y"] if beside else "y"
        options = {"missing": "drop"} if beside else {"missing": "drop", **COLUMNS}
        state = accumulate(scan_dask(frame[["u", "v"]] if beside else frame, target, **options))
    known = np.r_[0:300, 600:700]
    assert state.n_dropped == 300
    assert state.allclose(in_memory(rows("str").take(known)), rtol=1e-12)


@pytest.mark.parametrize("kinds", [("Int64", "Float32"), ("boolean", "Int64"), ("int64[pyarrow]", "boolean")])
def test_na_of_pandas_is_a_missing_value(kinds):
    u, v, w = [1, None, 0, 1, 0, 1], [0, 1, None, 1, 1, 0], [2, 1, 1, None, 3, 2]
    frame = pd.DataFrame({"u": pd.array(u, kinds[0]), "v": pd.array(v, kinds[1]), "w": pd.array(w, "Int64")})
    frame["y"] = [0, 1, 0, 1, 0, 1]
    X = frame[["u", "v"]]
    split = dd.from_pandas(frame, npartitions=2, sort=False)
    state = accumulate(scan_dask(split[["u", "v"]], split["y"], weight=split["w"], missing="drop"))
    assert state.n_dropped == 3
    assert state.allclose(
        ClassStatistics().update([[1, 0], [0, 1], [1, 0]], [0, 0, 1], [2, 3, 2]), rtol=1e-12
    )
    with pytest.raises(ValueError, match="row 1: feature 'u' is NaN or null"):
        ClassStatistics().update(X, frame["y"])
    with pytest.raises(ValueError, match="row 3 has weight nan"):
        ClassStatistics().update(np.zeros((6, 2)), frame["y"], frame["w"].astype(object))


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("beside", [False, True])
def test_strings_in_several_arrow_chunks(tmp_path, beside):
    """As partitions have them that Dask makes of several files or partitions."""
    frame = rows("str").to_pandas()
    for i in range(4):
        frame[i * 250 : (i + 1) * 250].to_parquet(tmp_path / f"{i}.parquet")
    halves = [dd.from_pandas(frame[:500], npartitions=2), dd.from_pandas(frame[500:], npartitions=2)]
    for joined in (
        dd.read_parquet(tmp_path).repartition(npartitions=1),
        dd.concat(halves).repartition(npartitions=1),
    ):
        assert pa.Table.from_pandas(joined.compute())["y"].num_chunks > 1
        source = scan_dask(joined[["u", "v"]], joined["y"]) if beside else scan_dask(joined, "y", **COLUMNS)
        assert accumulate(source).allclose(in_memory(rows("str")), rtol=1e-12)


def test_labels_and_weights_are_put_into_the_order_of_the_index():
    frame = rows().to_pandas()
    split = dd.from_pandas(frame, npartitions=10)
    other = split.map_partitions(lambda part: part.sample(frac=1, random_state=1), meta=frame[:0])
    X = split[["u", "v"]]
    expected = accumulate(scan_dask(X, split["y"], weight=split["w"]))
    assert accumulate(scan_dask(X, other["y"], weight=split["w"])) == expected
    assert accumulate(scan_dask(X, split["y"], weight=other["w"])) == expected


def test_labels_whose_index_is_not_that_of_the_rows_are_refused():
    frame = rows().to_pandas()
    X = dd.from_pandas(frame[["u", "v"]], npartitions=10)
    backwards = dd.from_pandas(frame["y"][::-1], npartitions=10, sort=False)
    ambiguous = dd.from_pandas(frame["y"].set_axis(np.arange(N) // 100 * 100), npartitions=10)
    one = r"make one frame, as by X.assign\(target=y\), and name its column"
    for y in (backwards, ambiguous):
        with pytest.raises(
            ValueError, match=f"partition .: the rows and the labels .* other indices.* {one}"
        ):
            accumulate(scan_dask(X, y))
    by_position = accumulate(scan_dask(X.reset_index(drop=True), backwards.reset_index(drop=True)))
    assert (by_position.means == accumulate(scan_dask(X.values, backwards.values)).means).all()


def test_rows_in_an_array_and_labels_in_a_series():
    frame = partitioned(rows(), 300)
    chunks = tuple(frame.map_partitions(len).compute())
    X = da.from_array(np.column_stack([U, V]), chunks=(chunks, 1))
    assert accumulate(scan_dask(X, frame["y"], weight=frame["w"])).allclose(in_memory(rows(), weights=W))
    with pytest.raises(ValueError, match="has 1; repartition one"):
        scan_dask(X, frame["y"].repartition(npartitions=1))


def test_partitions_that_are_not_what_the_frame_says_are_named():
    frame = rows().to_pandas()
    for other, message in (
        (frame.drop(columns="v"), "partition 1: there is no column 'v'"),
        (frame.drop(columns="y"), "partition 1: there is no column 'y'"),
        (frame.assign(v="text"), "partition 1: column 'v' is .*string"),
    ):
        parts = [dask.delayed(frame), dask.delayed(other)]
        lying = dd.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)
        with pytest.raises(ValueError, match=message):
            accumulate(scan_dask(lying, "y"))
    parts = [dask.delayed(frame[["u", "v"]]), dask.delayed(frame[["v", "u"]])]
    swapped = dd.from_delayed(parts, meta=frame[["u", "v"]].iloc[:0], verify_meta=False)
    labels = dd.from_delayed([dask.delayed(frame["y"])] * 2, meta=frame["y"].iloc[:0])
    with pytest.raises(ValueError, match=r"partition 1 has the columns \['v', 'u'\]; .* \['u', 'v'\]"):
        accumulate(scan_dask(swapped, labels))
    with pytest.raises(ValueError, match="the data frame: Sparse"):
        scan_dask(dd.from_pandas(frame.astype({"u": "Sparse[float]"}), npartitions=2), "y")
    with pytest.raises(ValueError, match="rows must have two dimensions"):
        scan_dask(dd.from_pandas(frame, npartitions=2)["u"], dd.from_pandas(frame, npartitions=2)["y"])


def test_partitions_of_unknown_length_that_do_not_match_are_named():
    X, y = da.zeros((100, 2), chunks=(50, 2)), da.zeros(100, chunks=50, dtype=int)
    X = X[da.arange(100, chunks=50) != 70]
    with pytest.raises(ValueError, match="partition 1: X has 49 rows, y has shape"):
        accumulate(scan_dask(X, y))


def test_a_bad_value_is_named_by_its_partition():
    frame = rows().to_pandas()
    frame.loc[777, "u"] = np.inf
    with pytest.raises(ValueError, match="partition 2, row 177: feature 'u' is infinity"):
        accumulate(scan_dask(dd.from_pandas(frame, chunksize=300, sort=False), "y", **COLUMNS))


@pytest.mark.parametrize("scheduler", ["threads", "distributed"])
def test_each_partition_is_computed_once(tmp_path, scheduler, request):
    if scheduler == "distributed":
        scheduler = request.getfixturevalue("client")
    log = tmp_path / "log"

    def load(i):
        note(log, str(i))
        return rows().slice(i * 100, 100).to_pandas()

    frame = dd.from_map(load, range(10), meta=rows().to_pandas().iloc[:0])
    state = accumulate(scan_dask(frame, "y", **COLUMNS), scheduler=scheduler)
    assert sorted(log.read_text().split()) == sorted(map(str, range(10)))
    assert state.allclose(in_memory(rows()), rtol=1e-12)


def test_each_batch_of_a_stream_is_taken_once():
    table, taken = rows(), []

    def batches():
        for batch in table.to_batches(max_chunksize=10):
            taken.append(batch.num_rows)
            yield batch

    accumulate(scan_arrow(pa.RecordBatchReader.from_batches(table.schema, batches()), "y", **COLUMNS))
    assert len(taken) == N / 10


# ---------------------------------------------------------------------- what is particular to Arrow datasets


def test_each_part_of_a_feather_file_is_read_once(tmp_path):
    path = tmp_path / "rows" / "1.feather"
    path.parent.mkdir()
    values = np.random.default_rng(0).normal(size=200_000)
    table = pa.table({"x": values, "y": np.arange(len(values)) % 2})
    pa.feather.write_feather(table, path, chunksize=20_000, compression="uncompressed")
    handler = NotingHandler(tmp_path / "log")
    dataset = ds.dataset(str(path.parent), format="feather", filesystem=pafs.PyFileSystem(handler))
    accumulate(scan_arrow(dataset, "y"))
    times = np.zeros(path.stat().st_size, dtype=int)
    for _, start, length in handler.reads:
        times[start : start + length] += 1
    for start in range(0, len(values), 20_000):
        place = path.read_bytes().index(values[start : start + 20_000].tobytes())
        assert set(times[place : place + 160_000]) == {1}


def test_a_feather_file_that_asks_for_more_than_the_memory_is_named(tmp_path):
    table = pa.table({"x": np.arange(400.0), "y": np.arange(400) % 2})
    pa.feather.write_feather(table, tmp_path / "1.feather", compression="lz4")
    content, lz4 = (tmp_path / "1.feather").read_bytes(), bytes.fromhex("04224d18")
    length, far_more = ((8 * 400).to_bytes(8, "little") + lz4), (1 << 50).to_bytes(8, "little") + lz4
    assert length in content
    (tmp_path / "1.feather").write_bytes(content.replace(length, far_more))
    source = scan_arrow(ds.dataset(tmp_path, format="feather"), "y")
    with pytest.raises(ValueError, match=r"1\.feather cannot be read as Feather, it is damaged or too large"):
        accumulate(source, "diag", scheduler="synchronous")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1 << 34, 1 << 13), "a chunk is damaged or too large for the memory: Unable to allocate"),
        ((1 << 34, 1 << 40), "a chunk is damaged: array is too big"),
    ],
)
def test_a_zarr_group_that_asks_for_more_than_the_memory_is_named(tmp_path, shape, message):
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    group.create_array("X", shape=shape, chunks=shape, dtype="f8")
    group.create_array("y", shape=shape[:1], chunks=shape[:1], dtype="i8")
    with pytest.raises(ValueError, match=rf"rows\.zarr: .*{message}"):
        source = scan_zarr(tmp_path / "rows.zarr", unwritten_labels="fill")
        accumulate(source, "diag", scheduler="synchronous")


@pytest.mark.parametrize("layout", [{}, {"zarr_format": 2}])
def test_a_chunk_of_labels_that_was_never_written_is_named(tmp_path, layout):
    write_zarr(rows(), tmp_path / "rows.zarr", 100, **layout)
    group = zarr.open_group(tmp_path / "rows.zarr")
    group["y"][200:400] = 0  # Zarr removes what holds nothing but the fill value
    labels = np.concatenate([LABELS["int"][:200], np.zeros(200, int), LABELS["int"][400:]])
    filled = rows().set_column(3, "y", pa.array(labels))
    key = "y/2" if layout else "y/c/2"
    with pytest.raises(
        ValueError, match=rf"rows\.zarr: chunk {key} of the labels was never .* would all be 0"
    ):
        accumulate(scan_zarr(tmp_path / "rows.zarr"))
    source = scan_zarr(tmp_path / "rows.zarr", unwritten_labels="fill")
    assert accumulate(source).allclose(in_memory(filled), rtol=1e-12)
    group["X"][200:400] = 0.0  # features are what they are
    assert accumulate(source).n_rows == N
    with pytest.raises(ValueError, match="unwritten_labels must be 'raise' or 'fill'"):
        scan_zarr(tmp_path / "rows.zarr", unwritten_labels="zero")


@pytest.mark.parametrize("form", ["dataset", "stream"])
def test_offsets_that_point_outside_of_a_file_are_named_and_do_no_harm(tmp_path, form):
    labels = [f"label {i % 3}" for i in range(N)]
    table = pa.table({"u": U, "y": labels})
    path = tmp_path / "1.feather"
    pa.feather.write_feather(table, path, compression="uncompressed")
    offsets = (np.arange(N + 1) * len(labels[0])).astype(np.int32).tobytes()
    content = bytearray(path.read_bytes())
    place = content.index(offsets)
    content[place + 400 : place + 404] = np.int32(2**30).tobytes()
    path.write_bytes(content)
    if form == "dataset":
        source, name = (
            scan_arrow(ds.dataset(path, format="feather"), "y"),
            r"1\.feather cannot be read as Feather",
        )
    else:
        reader = pa.ipc.open_file(path)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        stream = pa.RecordBatchReader.from_batches(reader.schema, batches)
        source, name = scan_arrow(stream, "y"), "the stream cannot be read as Arrow"
    with pytest.raises(ValueError, match=f"{name}, .*damaged.*[Oo]ffset"):
        accumulate(source)


def dataset_of(fragments, schema):
    return ds.FileSystemDataset(fragments, schema, ds.ParquetFileFormat(), pafs.LocalFileSystem())


@pytest.mark.parametrize("cuts", [[[2, 5]], [[5], [2]], [[0], [1, 2, 3, 4, 5, 6, 7, 8, 9]]])
def test_a_dataset_of_some_row_groups_is_read_as_those(tmp_path, cuts):
    pq.write_table(rows(), tmp_path / "1.parquet", row_group_size=100)
    (whole,) = ds.dataset(tmp_path).get_fragments()
    dataset = dataset_of([whole.subset(row_group_ids=cut) for cut in cuts], rows().schema)
    source = scan_arrow(dataset, "y", **COLUMNS)
    wanted = np.concatenate([np.arange(100 * group, 100 * group + 100) for cut in cuts for group in cut])
    for one in (source, pickle.loads(pickle.dumps(source))):
        assert accumulate(one).allclose(in_memory(rows().take(wanted)), rtol=1e-12)


def test_a_whole_file_is_read_as_it_is_now_and_some_row_groups_only_where_they_still_are(tmp_path):
    pq.write_table(rows(n_rows=300), tmp_path / "1.parquet", row_group_size=100)
    (fragment,) = ds.dataset(tmp_path).get_fragments()
    whole = scan_arrow(dataset_of([fragment], rows().schema), "y", **COLUMNS)
    part = scan_arrow(dataset_of([fragment.subset(row_group_ids=[1])], rows().schema), "y", **COLUMNS)
    assert (accumulate(whole).n_rows, accumulate(part).n_rows) == (300, 100)
    pq.write_table(rows(), tmp_path / "1.parquet", row_group_size=100)
    assert accumulate(whole).n_rows == N
    with pytest.raises(ValueError, match=r"1\.parquet has other row groups than when"):
        accumulate(part)


def test_the_schema_of_a_dataset_decides_what_its_columns_are(tmp_path):
    pq.write_table(rows(), tmp_path / "1.parquet")
    as_text = pa.schema([("v", pa.float64()), ("u", pa.float32()), ("y", pa.string())])
    state = accumulate(scan_arrow(ds.dataset(tmp_path, schema=as_text), "y"))
    X = np.column_stack([V, U.astype(np.float32)])
    assert state.feature_names == ("v", "u")
    assert state.allclose(ClassStatistics().update(X, LABELS["int"].astype(str)), rtol=1e-12)
    with pytest.raises(ValueError, match=r"columns 'y' \(string\) cannot be features"):
        scan_arrow(ds.dataset(tmp_path, schema=as_text), "u", categories=None)


def test_a_dataset_that_has_no_parts_is_refused_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match="the dataset has no files"):
        scan_arrow(ds.dataset(tmp_path, format="parquet"), "y")
    pq.write_table(rows(), tmp_path / "1.parquet")
    dataset = ds.dataset(tmp_path)
    with pytest.raises(ValueError, match="fragments of a filtered"):
        scan_arrow(dataset.filter(ds.field("u") > 0), "y")
    reader = dataset.scanner(filter=ds.field("u") > 0).to_reader()
    assert accumulate(scan_arrow(reader, "y", **COLUMNS)).n_rows == (U > 0).sum()


def test_a_dataset_of_a_table_is_read_as_the_table_in_any_process():
    source = scan_arrow(ds.dataset(rows()), "y", **COLUMNS)
    assert same_bits(accumulate(source, scheduler="processes"), in_memory(rows()))


def test_a_column_that_changes_its_type_from_file_to_file_is_told_with_the_remedy(tmp_path):
    (tmp_path / "1.csv").write_text("u,y\n1,0\n2,1\n")
    (tmp_path / "2.csv").write_text("u,y\n1.5,0\n2,1\n")
    with pytest.raises(ValueError, match=r"2\.csv cannot be read as CSV, .* or a column is not of the type"):
        accumulate(scan_arrow(ds.dataset(tmp_path, format="csv"), "y"))
    schema = pa.schema([("u", pa.float64()), ("y", pa.int64())])
    state = accumulate(scan_arrow(ds.dataset(tmp_path, format="csv", schema=schema), "y"))
    assert state.means.tolist() == [[1.25], [2.0]]


# ---------------------------------------------------------------------- read ahead


def test_no_thread_is_left_if_the_parts_read_ahead_are_not_all_taken():
    before = set(threading.enumerate())
    ready = read_ahead(int, itertools.count(1), 2)
    assert next(ready) == 1
    readers = set(threading.enumerate()) - before
    assert 1 <= len(readers) <= 2
    ready.close()
    for reader in readers:  # nothing else waits for them
        reader.join(10)
    assert not any(reader.is_alive() for reader in readers)


def test_a_dask_array_of_very_many_small_chunks_is_warned_of():
    X, y = da.zeros((1001, 2), chunks=(1, 2)), da.zeros(1001, chunks=1)
    with pytest.warns(UserWarning, match="X has 1,001 chunks of about 1 row.* X.rechunk") as warned:
        scan_dask(X, y)
    assert [one.filename for one in warned] == [__file__]
    assert scan_dask(X.rechunk("auto"), y).n_features == 2


def test_a_relation_of_duckdb_is_computed_once():
    connection, asked = duckdb.connect(), []
    connection.create_function("noted", lambda x: asked.append(x) or x, ["DOUBLE"], "DOUBLE")
    relation = connection.sql("select noted(i::double) as x, i % 2 as y from range(300) rows(i)")
    assert accumulate(scan_arrow(relation, "y"), "diag").n_rows == len(asked) == 300
