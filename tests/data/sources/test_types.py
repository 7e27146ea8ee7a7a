"""The types of columns that are learnt are the same, whichever way a table comes in."""

from decimal import Decimal

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as pds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr

from streamgda import (
    ClassStatistics,
    GaussianNB,
    accumulate,
    predict_dataset,
    scan,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)

pl = pytest.importorskip("polars")


class Centimetres(pa.ExtensionType):
    """A type of Python, which has no hash."""

    def __init__(self):
        super().__init__(pa.float64(), "tests.centimetres")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def extension(kind):
    return lambda column: pa.ExtensionArray.from_storage(kind, column)


def runs(column):
    return pa.RunEndEncodedArray.from_arrays(np.arange(1, len(column) + 1, dtype=np.int32), column)


def whole(v):
    return np.rint(v).astype(np.int64)


def days(seconds):
    return lambda v: whole(v) / (86_400 / seconds)


def word(v):
    return np.array(["a", "b", "c"])[whole(v) % 3]


def pair(v):
    return np.column_stack([v, -v])


# Values of NumPy for quarters, the type of Arrow that holds them, its wrapping, and what is learnt of them.
KINDS = {
    "half": (np.float16, pa.float16(), None, None),
    "float": (np.float32, pa.float32(), None, None),
    "double": (np.float64, pa.float64(), None, None),
    "int8": (whole, pa.int8(), None, None),
    "uint64": (lambda v: whole(v + 50), pa.uint64(), None, None),
    "bool": (lambda v: v > 0, pa.bool_(), None, None),
    "decimal": (lambda v: [Decimal(x) for x in v.tolist()], pa.decimal128(9, 2), None, np.float64),
    "decimal256": (lambda v: [Decimal(x) for x in v.tolist()], pa.decimal256(50, 2), None, np.float64),
    "date": (lambda v: whole(v).astype("M8[D]"), pa.date32(), None, whole),
    "date64": (lambda v: whole(v).astype("M8[D]"), pa.date64(), None, whole),
    "moment": (lambda v: whole(v).astype("M8[s]"), pa.timestamp("s", "UTC"), None, days(1)),
    "nanoseconds": (lambda v: whole(v).astype("M8[s]"), pa.timestamp("ns"), None, days(1)),
    "duration": (lambda v: whole(v).astype("m8[ms]"), pa.duration("ms"), None, days(1e-3)),
    "time": (lambda v: whole(v + 50).astype(np.int32), pa.time32("s"), None, lambda v: days(1)(v + 50)),
    "text": (word, pa.string(), None, None),
    "large text": (word, pa.large_string(), None, None),
    "view": (word, pa.string_view(), None, None),
    "bytes": (word, pa.binary(), None, None),
    "fixed bytes": (word, pa.binary(1), None, None),
    "json": (word, pa.string(), extension(pa.json_()), None),
    "dictionary": (word, pa.string(), pc.dictionary_encode, None),
    "codes": (lambda v: whole(v) % 3, pa.int64(), pc.dictionary_encode, lambda v: (whole(v) % 3).astype(str)),
    "flags": (lambda v: v > 0, pa.bool_(), pc.dictionary_encode, lambda v: (v > 0).astype(str)),
    "lists": (pair, pa.list_(pa.float64()), None, None),
    "large lists": (pair, pa.large_list(pa.float32()), None, None),
    "fixed lists": (pair, pa.list_(pa.float64(), 2), None, None),
    "views": (pair, pa.list_view(pa.float64()), None, None),
    "large views": (pair, pa.large_list_view(pa.float64()), None, None),
    "tensor": (pair, pa.list_(pa.float64(), 2), extension(pa.fixed_shape_tensor(pa.float64(), [2])), None),
    "runs": (np.float64, pa.float64(), runs, None),
    "runs of text": (word, pa.string(), runs, None),
    "centimetres": (np.float64, pa.float64(), extension(Centimetres()), None),
    "bool8": (lambda v: (v > 0).astype(np.int8), pa.int8(), extension(pa.bool8()), None),
}
RUNS, VIEWS, CODES = {"runs", "runs of text"}, {"views", "large views"}, {"codes", "flags"}


def random_table(rng, kinds, n_rows, share_of_nulls):
    """A table with a column of each kind, and the features that are learnt of each, NaN where it is null."""
    y = rng.permutation(np.arange(n_rows) % 2)
    columns, features = {}, {}
    for name, (values, kind, wrap, learnt) in ((name, KINDS[name]) for name in kinds):
        v = rng.integers(-80, 80, n_rows) / 4
        null = rng.random(n_rows) < share_of_nulls * rng.integers(0, 2)
        each = zip(np.asarray(values(v)).tolist(), null, strict=True)
        column = pa.array([None if gone else value for value, gone in each], kind)
        columns[name] = column if wrap is None else wrap(column)
        known = np.asarray((learnt or values)(v))
        if known.dtype.kind == "U":
            known = np.where(null, "(missing)", known)
            features |= {f"{name}={one}": (known == one) * 1.0 for one in np.unique(known)}
        else:
            known = np.where(null[:, None], np.nan, known.reshape(n_rows, -1).astype(float))
            features |= {
                f"{name}_{i}" if known.shape[1] > 1 else name: known[:, i] for i in range(known.shape[1])
            }
    return pa.table({**columns, "y": y}), features


def csv(table, folder):
    pa.csv.write_csv(table, folder / "a.csv")
    return accumulate(scan(folder / "a.csv", "y", missing="drop"), "diag")


def feather(table, folder):
    pa.feather.write_feather(table, folder / "a.feather")
    return accumulate(scan(folder / "a.feather", "y", missing="drop"), "diag")


def parquet(table, folder):
    pq.write_table(table, folder / "a.parquet", row_group_size=17)
    return accumulate(scan_parquet(folder / "a.parquet", "y", missing="drop"), "diag")


def packed_zarr(table, folder):
    """Quarters as integers, with a scale and a value for what is missing."""
    group, numbers = zarr.open_group(folder / "a.zarr", mode="w"), table.drop_columns("y")
    quarters = np.column_stack(
        [pc.multiply(one.cast("double"), 4).fill_null(-999) for one in numbers.columns]
    )
    packed = group.create_array("X", data=quarters.astype(np.int16), chunks=(7, 1))
    packed.attrs.update(scale_factor=0.25, add_offset=0.0, _FillValue=-999)
    group.create_array("y", data=table["y"].to_numpy())
    return accumulate(scan_zarr(folder / "a.zarr", missing="drop"), "diag")


def scanned(convert):
    return lambda table, folder: accumulate(scan_arrow(convert(table), "y", missing="drop"), "diag")


def objects_in_dask(table, folder):
    with dask.config.set({"dataframe.convert-string": False}):
        rows = table.to_pandas()
        parts = [rows[:0], rows[:30], rows[30:]]
        frame = dd.from_map(lambda i: parts[i], range(3), meta=rows[:0])
        return accumulate(scan_dask(frame, "y", missing="drop"), "diag")


def fitted(convert):
    return lambda table, folder: (
        GaussianNB().fit(convert(table.drop_columns("y")), table["y"].to_numpy()).statistics_
    )


def arrow_types(table):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


# How a table comes in; the kinds that the way cannot hold, or the only ones; and whether it may have nulls.
OLD_ARROW = {*VIEWS, "fixed lists", "tensor"}  # which Parquet holds, with nulls, from Arrow 26 on
NOT_IN_PARQUET = {*RUNS, *(OLD_ARROW if int(pa.__version__.split(".")[0]) < 26 else ())}
OF_POLARS = {*RUNS, *VIEWS, *CODES, "decimal256"}
WAYS = {
    "arrow": (scanned(lambda table: table), (), True),
    "pandas": (scanned(pa.Table.to_pandas), (), True),
    "pandas with types of Arrow": (scanned(arrow_types), (), True),
    "dask": (objects_in_dask, (), True),
    "polars": (scanned(pl.from_arrow), OF_POLARS, True),
    "lazy polars": (scanned(lambda table: pl.from_arrow(table).lazy()), OF_POLARS, True),
    "parquet": (parquet, NOT_IN_PARQUET, True),
    "feather": (feather, (), True),
    "csv": (csv, {*KINDS} - {"float", "double", "int8", "bool", "decimal", "date", "moment", "text"}, True),
    "packed zarr": (packed_zarr, {*KINDS} - {"half", "float", "double"}, True),
    "fit of arrow": (fitted(lambda table: table), (), False),
    "fit of a batch": (fitted(lambda table: table.combine_chunks().to_batches()[0]), (), False),
    "fit of pandas": (fitted(pa.Table.to_pandas), (), False),
    "fit of pandas with types of Arrow": (fitted(arrow_types), RUNS, False),
    "fit of polars": (fitted(pl.from_arrow), OF_POLARS, False),
    "fit of dicts": (fitted(pa.Table.to_pylist), CODES, False),
}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
@pytest.mark.parametrize("way", WAYS)
def test_a_random_table_is_learnt_as_numpy_has_it(way, seed, tmp_path):
    learn, others, may_lack = WAYS[way]
    rng = np.random.default_rng(seed)
    kinds = [kind for kind in KINDS if kind not in others and (seed == 0 or rng.random() < 0.3)] or ["double"]
    table, features = random_table(rng, kinds, 90 if seed == 0 else rng.integers(40, 400), 0.02 * may_lack)
    complete = ~np.isnan(np.column_stack(list(features.values()))).any(1)
    y = table["y"].to_numpy()
    means = {name: [values[complete & (y == k)].mean() for k in (0, 1)] for name, values in features.items()}
    state = learn(table, tmp_path)
    names = table.column_names[:-1] if way == "packed zarr" else state.schema.feature_names
    assert {*names} == {*means}
    assert state.means.T == pytest.approx(np.array([means[name] for name in names]), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("is_known", [True, False], ids=["registered", "unknown"])
@pytest.mark.parametrize("way", ["parquet", "arrow"])
def test_a_type_of_python_is_its_storage_and_stays_in_what_is_kept(tmp_path, is_known, way):
    wrapped = pa.ExtensionArray.from_storage(Centimetres(), pa.array([1.0, 2.0, 4.0, 8.0]))
    table = pa.table({"cm": wrapped, "x": [1.0, 2.0, 3.0, 5.0], "y": [0, 0, 1, 1]})
    pq.write_table(table, tmp_path / "a.parquet")
    if is_known:
        pa.register_extension_type(Centimetres())
    try:
        path = tmp_path / "a.parquet"
        data, read = (path, scan_parquet) if way == "parquet" else (pq.read_table(path), scan_arrow)
        assert accumulate(read(data, "y"), "diag").means.tolist() == [[1.5, 1.5], [6, 4]]
        assert accumulate(read(data, "y", exclude=["cm"])).n_rows == 4
        assert accumulate(read(data, "y", features=["x"], weight="cm")).n_rows == 4
        model = GaussianNB().fit(table.select(["x"]), [0, 0, 1, 1])
        predict_dataset(model, read(data), tmp_path / "out", keep=["cm"])
        kept = pq.read_table(tmp_path / "out")["cm"]
        assert kept.cast(pa.float64()).to_pylist() == [1, 2, 4, 8]
        assert isinstance(kept.type, Centimetres) == is_known
    finally:
        if is_known:
            pa.unregister_extension_type("tests.centimetres")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([bytes(range(16))] * 2, pa.uuid()),
        pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1.0, 2.0])]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([["a"], ["b"]]),
    ],
    ids=lambda column: str(column.type),
)
def test_other_types_are_refused_by_name(column):
    table = pa.table({"odd": column, "x": [1.0, 2.0]})
    for learn in (lambda: GaussianNB().fit(table, [0, 1]), lambda: scan_arrow(table)):
        with pytest.raises(ValueError, match="columns? 'odd'"):
            learn()
    assert scan_arrow(table, exclude=["odd"]).feature_names == ("x",)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "encoding",
    [
        {"dtype": "i2", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768},
        {"dtype": "i1", "scale_factor": 0.5, "_Unsigned": "true", "_FillValue": -1},
        {"dtype": "u1", "add_offset": -3.0, "_FillValue": 250},
        {"dtype": "i4", "_FillValue": -1},
        {"dtype": "f4", "missing_value": 1e20, "_FillValue": np.float32(1e20)},
        {"_FillValue": None},
    ],
    ids=str,
)
def test_arrays_of_zarr_as_xarray_writes_and_reads_them(encoding, zarr_format, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 100, (40, 2)).astype(float)
    values[3, 1] = np.nan
    y, w = np.append(rng.integers(0, 2, 39), np.nan), rng.integers(1, 5, 40) / 4.0
    rows = xr.Dataset(
        {"X": (("row", "feature"), values), "y": ("row", y), "w": ("row", w), "kept": ("row", w)}
    )
    packed = {"dtype": "i2", "scale_factor": 0.25, "_FillValue": 0}
    encodings = {"X": encoding, "y": {"dtype": "i8", "_FillValue": 1 << 40}, "w": packed, "kept": packed}
    rows.to_zarr(tmp_path / "a", encoding=encodings, zarr_format=zarr_format, consolidated=False)
    read = xr.open_zarr(tmp_path / "a", consolidated=False).load()
    X, complete = read["X"].to_numpy().astype(float), read["y"].notnull() & read["X"].notnull().all("feature")
    source = scan_zarr(tmp_path / "a", weight="w", missing="drop")
    state = accumulate(source, "diag")
    assert (state.n_rows, state.n_dropped) == (38, 2)
    means = [np.average(X[complete & (y == k)], axis=0, weights=w[complete & (y == k)]) for k in (0, 1)]
    np.testing.assert_allclose(state.means, means, rtol=1e-6 if encoding.get("dtype") == "f4" else 1e-12)
    model = GaussianNB().fit(source)
    predict_dataset(model, scan_zarr(tmp_path / "a", None, missing="drop"), tmp_path / "out", keep=["kept"])
    assert pq.read_table(tmp_path / "out")["kept"].to_pylist() == np.delete(w, 3).tolist()


@pytest.mark.parametrize(
    ("dtype", "attributes", "meant"),
    [
        ("i2", {"valid_range": [2, 6]}, [2, 6, None]),
        ("i2", {"valid_min": 2, "valid_max": 6, "scale_factor": 0.5}, [1, 3, None]),
        ("i2", {"valid_max": 3.0, "scale_factor": 0.5}, [1, 3, None]),
        ("i1", {"_Unsigned": "true", "valid_max": -2}, [2, 6, 254]),
        ("u1", {"_Unsigned": "false"}, [2, 6, -2]),
        ("f8", {"missing_value": [-2.0, 254.0]}, [2, 6, None]),
        ("i2", {"missing_value": 65_538}, [2, 6, 254]),
        ("i8", {"_FillValue": 6}, [2, None, 254]),
        ("i2", {"scale_factor": "fast"}, "attribute scale_factor is 'fast'"),
        ("i2", {"valid_range": [3]}, r"attribute valid_range is \[3\]: it has 1 values"),
    ],
    ids=str,
)
def test_attributes_of_cf_and_netcdf(dtype, attributes, meant, tmp_path):
    group = zarr.open_group(tmp_path, mode="w")
    last = 254 if dtype in ("i2", "i8", "f8") else -2
    X = group.create_array(
        "X", data=np.array([[2], [6], [last % 256 if dtype == "u1" else last]]).astype(dtype)
    )
    group.create_array("y", data=np.array([0, 1, 2]))
    X.attrs.update(attributes)
    if isinstance(meant, str):
        with pytest.raises(ValueError, match=meant):
            scan_zarr(tmp_path)
        return
    source = scan_zarr(tmp_path, missing="drop")
    assert accumulate(source, "diag").means.ravel().tolist() == [
        value for value in meant if value is not None
    ]
    (split,) = source.splits()
    X.attrs["scale_factor"] = 7.0
    assert scan_zarr(tmp_path).splits()[0].identity != split.identity
    with pytest.raises(ValueError, match="has changed since the pass was planned"):
        list(split.blocks())


@pytest.mark.parametrize("column", [pa.array([1.0, 2.0]), pa.chunked_array([[1.0], [2.0]])])
def test_a_column_of_numbers_is_no_table(column):
    for learn in (ClassStatistics().update, GaussianNB().fit):
        with pytest.raises(ValueError, match=r"two dimensions|Expected 2D array"):
            learn(column, [0, 1])
    with pytest.raises(TypeError, match="Arrow data is a Table"):
        scan_arrow(column)


def test_dicts_hold_the_integers_that_arrays_hold():
    y, wide = [0, 1, 0, 1], [2**63 + 2048 * k for k in range(4)]
    rows = [{"u": value, "x": 1.0} for value in wide]
    table = pa.table({"u": pa.array(wide, pa.uint64()), "x": [1.0] * 4})
    for data in (rows, {"u": wide, "x": [1.0] * 4}):
        state, expected = ClassStatistics("diag").update(data, y), ClassStatistics("diag").update(table, y)
        assert state.digest() == expected.digest()
    with pytest.raises(ValueError, match="row 2: column 'u' holds -1"):
        ClassStatistics("diag").update([*rows[:2], {"u": -1, "x": 1.0}, rows[3]], y)


def test_categoricals_of_numbers_are_categories_whatever_holds_them(tmp_path):
    frame = pd.DataFrame({"x": np.arange(60.0) % 7, "y": np.arange(60) % 2})
    for name, values in {"k": [3, 1, 7], "b": [True, False, True], "f": [2.0, 4.0, 2.0]}.items():
        frame[name] = pd.Categorical(values * 20)
    frame.to_parquet(tmp_path / "pandas.parquet")
    frame.to_feather(tmp_path / "a.feather")
    # Numbers that pandas' metadata alone call categorical, as fastparquet writes them.
    pq.write_table(pq.read_table(tmp_path / "pandas.parquet"), tmp_path / "other.parquet")
    plain = pa.Table.from_pandas(frame).replace_schema_metadata()  # and Arrow, without pandas' metadata
    pq.write_table(plain, tmp_path / "arrow.parquet")
    in_dask = dd.from_pandas(frame, npartitions=2)
    expected = accumulate(scan_arrow(frame, "y"), "diag")
    assert expected.schema.values == ((1, 3, 7), (False, True), (2, 4))
    for source in (
        *(scan_parquet(tmp_path / f"{name}.parquet", "y") for name in ("pandas", "other", "arrow")),
        scan_arrow(pds.dataset(tmp_path / "pandas.parquet"), "y"),
        scan_arrow(pds.dataset(tmp_path / "arrow.parquet"), "y"),
        scan(tmp_path / "a.feather", "y"),
        scan_dask(in_dask, "y"),
        scan_dask(dd.read_parquet(tmp_path / "pandas.parquet"), "y"),
    ):
        assert accumulate(source, "diag").schema == expected.schema
    model = GaussianNB().fit(frame.drop(columns="y"), frame["y"])
    model.partial_fit(scan_parquet(tmp_path / "pandas.parquet", "y"))
    predict_dataset(model, tmp_path / "pandas.parquet", tmp_path / "out", keep=["k"])
    assert pq.read_table(tmp_path / "out")["k"].to_pylist() == [3, 1, 7] * 20
    numbers = scan_parquet(tmp_path / "pandas.parquet", "y", categories=None)
    assert accumulate(numbers, "diag").feature_names == ("x", "k", "b", "f")
