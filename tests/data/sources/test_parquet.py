"""Parquet datasets of every shape, read as what they are; and what is wrong with one, named."""

import base64
import datetime
import decimal
import errno
import os
import pickle
import re

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import csv, feather
from pyarrow.parquet import encryption

from streamgda import (
    ClassStatistics,
    GaussianNB,
    accumulate,
    evaluate,
    predict_dataset,
    scan,
    scan_arrow,
    scan_parquet,
)
from streamgda.data.storage.retries import StorageError
from tests.data.tables import parquet_files
from tests.logged_filesystem import NotingHandler

N = 1000
RNG = np.random.default_rng(0)
U, V, Y = RNG.normal(size=N), RNG.normal(size=N) + 5, RNG.integers(0, 3, size=N)
X = np.column_stack([U, V])
TABLE = pa.table({"u": U, "v": V, "y": Y})


def expected(rows=slice(None), features=("u", "v"), labels=Y):
    columns = TABLE.select(features).to_pandas().to_numpy()
    return ClassStatistics(feature_names=features).update(columns[rows], np.asarray(labels)[rows])


@pytest.fixture
def folder(tmp_path):
    """The table in three files, one of them a level down, row groups of 130 rows."""
    (tmp_path / "more").mkdir()
    for name, start, stop in (("a.parquet", 0, 300), ("b.parquet", 300, 301), ("more/c.parquet", 301, N)):
        pq.write_table(TABLE.slice(start, stop - start), tmp_path / name, row_group_size=130)
    return tmp_path


def test_a_folder_a_glob_a_list_and_a_file(folder):
    assert accumulate(scan_parquet(folder, "y")).allclose(expected(), rtol=1e-12)
    files = [folder / "a.parquet", str(folder / "b.parquet"), folder / "more" / "c.parquet"]
    assert accumulate(scan_parquet(files, "y")) == accumulate(scan_parquet(str(folder), "y"))
    assert accumulate(scan_parquet(folder / "*.parquet", "y")).n_rows == 301
    assert accumulate(scan_parquet(folder / "**" / "*.parquet", "y")).n_rows == N
    assert accumulate(scan_parquet(files[2], "y")).allclose(expected(slice(301, N)), rtol=1e-12)


def test_a_url_of_pyarrows_or_fsspecs(folder):
    assert accumulate(scan_parquet(f"file://{folder}", "y")).n_rows == N
    with fsspec.open("memory://urls/1.parquet", "wb") as file:
        pq.write_table(TABLE, file)
    assert accumulate(scan_parquet("memory://urls", "y")).n_rows == N
    with pytest.raises(ValueError, match="all be on one filesystem"):
        scan_parquet(["memory://urls/1.parquet", folder / "a.parquet"], "y")


@pytest.mark.parametrize(("target", "features"), [("y", ["u", "v"]), ("part", ["u"]), ("y", ["v", "part"])])
def test_hive_partitions(tmp_path, target, features):
    part = (U > 0).astype(np.int64)
    table = TABLE.append_column("part", pa.array(part))
    ds.write_dataset(table, tmp_path, format="parquet", partitioning=["part"], partitioning_flavor="hive")
    state = accumulate(scan_parquet(tmp_path, target, features=features))
    frame = table.to_pandas()
    direct = ClassStatistics(feature_names=features).update(frame[features].to_numpy(), frame[target])
    assert state.allclose(direct, rtol=1e-12)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float64(), pa.string()])
def test_a_column_of_the_files_counts_for_more_than_a_folder_of_its_name(tmp_path, kind):
    folder = tmp_path / "y=7"
    folder.mkdir()
    labels = pc.cast(pa.array(Y), kind)
    pq.write_table(TABLE.set_column(2, "y", labels), folder / "1.parquet")
    for path in (tmp_path, folder, folder / "1.parquet", f"{tmp_path}/*/*.parquet", [folder / "1.parquet"]):
        with pytest.warns(UserWarning, match=r"1\.parquet: column 'y' holds other values than y= in the"):
            state = accumulate(scan_parquet(path, "y"))
        assert state.allclose(expected(labels=Y.astype(str) if kind == pa.string() else Y), rtol=1e-12)
    with pytest.warns(UserWarning, match="holds other values"):
        assert accumulate(scan_parquet(folder, "y", filters=pc.field("y").is_valid())).n_rows == N


def test_a_partition_key_is_a_feature_only_when_asked_for(tmp_path):
    ds.write_dataset(
        TABLE.append_column("day", pa.array(["monday"] * N)),
        tmp_path,
        format="parquet",
        partitioning=["day"],
        partitioning_flavor="hive",
    )
    assert scan_parquet(tmp_path, "y").feature_names == ("u", "v")
    assert accumulate(scan_parquet(tmp_path, "day")).classes.tolist() == ["monday"]
    with pytest.raises(ValueError, match="partition key day='monday' is not a number"):
        accumulate(scan_parquet(tmp_path, "y", features=["u", "day"]))


@pytest.mark.parametrize("keys", [[2, 5], [0.25, -1e300], [0.1, None]])
def test_a_partition_key_that_is_a_number_can_be_a_feature(tmp_path, keys):
    for i, key in enumerate(keys):
        folder = tmp_path / f"key={'__HIVE_DEFAULT_PARTITION__' if key is None else key}"
        folder.mkdir()
        pq.write_table(pa.table({"u": [1.0], "y": [i]}), folder / "1.parquet")
    state = accumulate(scan_parquet(tmp_path, "y", features=["u", "key"], missing="drop"), "diag")
    held = [key for key in keys if key is not None]
    assert state.means[:, 1].tolist() == held
    assert state.n_dropped == len(keys) - len(held)


def test_a_partition_key_of_dates_is_a_feature(tmp_path):
    day = pa.schema([("day", pa.date32())])
    partitioning = ds.partitioning(day, flavor="hive")
    table = TABLE.append_column("day", pa.array([datetime.date(2026, 1, 1)] * N))
    ds.write_dataset(table, tmp_path, format="parquet", partitioning=partitioning)
    dataset = ds.dataset(tmp_path, partitioning=partitioning)
    means = accumulate(scan_arrow(dataset, "y", features=["u", "day"])).means
    assert set(means[:, 1]) == {(datetime.date(2026, 1, 1) - datetime.date(1970, 1, 1)).days}


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.uint16(),
        pa.int64(),
        pa.bool_(),
        pa.float16(),
        pa.float32(),
        pa.decimal128(10, 2),
        pa.decimal256(60, 4),
    ],
)
def test_features_of_every_type(tmp_path, kind):
    values = RNG.integers(0, 2, size=N)
    column = pc.cast(pa.array(values.astype(np.float32)), pa.float16()) if kind == pa.float16() else None
    if pa.types.is_decimal(kind):
        column = pa.array([decimal.Decimal(int(value)) for value in values], kind)
    column = pa.array(values).cast(kind) if column is None else column
    pq.write_table(pa.table({"x": column, "u": U, "y": Y}), tmp_path / "1.parquet", row_group_size=100)
    state = accumulate(scan_parquet(tmp_path, "y"))
    direct = ClassStatistics(feature_names=["x", "u"]).update(np.column_stack([values, U]), Y)
    assert state.allclose(direct, rtol=1e-12)


NAMES = np.array(["low", "mid", "high"])[Y]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (pa.array(NAMES), NAMES),
        (pa.array(NAMES, pa.large_string()), NAMES),
        (pa.array(NAMES).dictionary_encode(), NAMES),
        (pa.array(NAMES).cast(pa.string_view()), NAMES),
        (pa.array(Y, pa.int8()), Y),
        (pa.array(Y, pa.uint32()), Y),
        (pa.array(Y).dictionary_encode(), Y),
        (pa.array(Y.astype(np.float64)), Y),
        (pa.array(Y > 0), Y > 0),
    ],
)
def test_targets_of_every_type(tmp_path, column, labels):
    pq.write_table(TABLE.set_column(2, "y", column), tmp_path / "1.parquet", row_group_size=100)
    state = accumulate(scan_parquet(tmp_path, "y"))
    assert state.allclose(expected(labels=labels), rtol=1e-12)
    assert state.classes.tolist() == sorted(set(labels.tolist()))


@pytest.mark.parametrize(
    "filters", [[("u", ">", 0.5), ("v", "<", 6)], (pc.field("u") > 0.5) & (pc.field("v") < 6)]
)
@pytest.mark.parametrize("features", [["u", "v"], ["v"]])
def test_filters(folder, filters, features):
    state = accumulate(scan_parquet(folder, "y", features=features, filters=filters))
    assert state.allclose(expected((U > 0.5) & (V < 6), tuple(features)), rtol=1e-12)


def test_filters_on_partitions_and_row_groups_skip_what_they_rule_out(tmp_path):
    table = TABLE.append_column("part", pa.array(np.arange(N) // 500)).append_column(
        "t", pa.array(np.arange(N))
    )
    ds.write_dataset(
        table,
        tmp_path,
        format="parquet",
        partitioning=["part"],
        partitioning_flavor="hive",
        max_rows_per_group=100,
        min_rows_per_group=100,
    )
    source = scan_parquet(tmp_path, "y", features=["u", "v"], filters=[("part", "=", 1), ("t", ">=", 750)])
    assert sum(split.n_rows for split in source.splits()) == 300
    assert accumulate(source).allclose(expected(slice(750, N)), rtol=1e-12)


Z = pc.field("z")


@pytest.mark.parametrize(
    "filters",
    [
        Z != 5.0,
        [("z", "!=", 5.0)],
        [("z", "not in", [5.0])],
        ~(Z < 5),
        Z.is_nan(),
        Z.is_null(nan_is_null=True),
        Z.isin([np.nan, 7.0]),
        Z.isin([*np.arange(100.0, 120.0), np.nan, *np.arange(200.0, 220.0)]),
        (Z > 9) | ~(Z >= 0),
    ],
)
def test_a_filter_that_lets_nan_through_finds_it_though_statistics_leave_it_out(tmp_path, filters):
    z = np.array([5.0, np.nan, 5.0, 1.0, 2.0, np.nan, 6.0, 7.0])
    table = pa.table({"u": np.arange(8.0), "z": pa.array(z, from_pandas=False), "y": [0, 1] * 4})
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=3)
    expression = filters if isinstance(filters, pc.Expression) else pq.filters_to_expression(filters)
    kept = table.filter(expression)["u"].to_pylist()
    assert {1.0, 5.0} <= set(kept)
    state = accumulate(scan_parquet(tmp_path, "y", features=["u"], filters=filters))
    assert (state.n_rows, state.sums.sum()) == (len(kept), sum(kept))


@pytest.mark.parametrize(
    ("filters", "n_groups"),
    [([("u", ">", 800)], 2), ([("u", "in", [1.0, 999.0])], 2), (pc.field("t") != 0, 9)],
)
def test_row_groups_are_skipped_where_nan_cannot_pass(tmp_path, filters, n_groups):
    table = pa.table({"u": np.arange(1000.0), "t": np.arange(1000) // 100, "y": np.arange(1000) % 2})
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=100)
    source = scan_parquet(tmp_path, "y", features=["u"], filters=filters)
    assert sum(split.n_rows for split in source.splits()) == 100 * n_groups


def test_a_filter_that_lets_nothing_through(folder):
    with pytest.raises(ValueError, match="nothing to accumulate"):
        accumulate(scan_parquet(folder, "y", filters=[("u", ">", 100.0)]))


def test_files_may_differ_in_type_and_order_of_columns(tmp_path):
    pq.write_table(TABLE.slice(0, 500), tmp_path / "1.parquet")
    other = TABLE.slice(500).select(["y", "v", "u"]).set_column(0, "y", pa.array(Y[500:], pa.int8()))
    pq.write_table(other, tmp_path / "2.parquet")
    assert accumulate(scan_parquet(tmp_path, "y")).allclose(expected(), rtol=1e-12)


def test_the_first_file_says_which_columns_are_features(folder):
    more = TABLE.slice(0, 300).append_column("more", pa.array(U[:300]))
    pq.write_table(more, folder / "d.parquet")
    assert scan_parquet(folder, "y").feature_names == ("u", "v")
    assert accumulate(scan_parquet(folder, "y")).n_rows == N + 300
    pq.write_table(more, folder / "a.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet: there is no column 'more', which other files"):
        accumulate(scan_parquet(folder, "y"))
    assert accumulate(scan_parquet(folder, "y", features=["u", "v"])).n_rows == N + 300


# ---------------------------------------------------------------------- what is missing


HOLES = pa.table(
    {
        "u": pa.array([1.0, None, 3.0, 4.0, 5.0, 6.0]),
        "v": pa.array([1, 2, None, 4, 5, 6]),
        "b": pa.array([True, False, True, None, True, False]),
        "w": pa.array([1.0, 1.0, 1.0, 1.0, None, 1.0]),
        "y": pa.array(["a", "a", "b", "b", "a", None]),
    }
)


def test_missing_drop_leaves_out_the_row_and_counts_it(tmp_path):
    pq.write_table(HOLES, tmp_path / "1.parquet", row_group_size=4)
    source = scan_parquet(tmp_path, "y", weight="w", missing="drop")
    state = accumulate(source)
    assert state.n_dropped == 5
    assert state.means.tolist() == [[1.0, 1.0, 1.0]]
    assert accumulate(scan_parquet(tmp_path, "y", features=["u"], missing="drop")).n_dropped == 2


@pytest.mark.parametrize(
    ("target", "options", "place"),
    [
        ("y", {"features": ["u"]}, "0, row 1: feature 'u' is NaN or null.* missing='drop'"),
        ("y", {"features": ["v"]}, "0, row 2: feature 'v' is NaN or null.* missing='drop'"),
        ("y", {"features": ["b"]}, "0, row 3: feature 'b' is NaN or null.* missing='drop'"),
        ("y", {"features": ["x"]}, "1, row 1 has no label"),
        ("b", {"features": ["x"], "weight": "w", "filters": [("x", "!=", 3)]}, "1, row 0 has weight nan"),
    ],
)
def test_what_is_missing_is_named(tmp_path, target, options, place):
    table = HOLES.append_column("x", pa.array(np.arange(6)))
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=4)
    with pytest.raises(ValueError, match=f"1.parquet, row group {place}"):
        accumulate(scan_parquet(tmp_path, target, **options))


@pytest.mark.parametrize("name", ["u", "y"])
@pytest.mark.parametrize("first", [True, False])
def test_a_file_in_which_a_column_is_all_null_has_missing_values_in_it(tmp_path, name, first):
    pq.write_table(TABLE, tmp_path / "b.parquet")
    blank = TABLE.slice(0, 9).set_column(TABLE.schema.get_field_index(name), name, pa.nulls(9))
    pq.write_table(blank, tmp_path / f"{'a' if first else 'c'}.parquet")
    state = accumulate(scan_parquet(tmp_path, "y", missing="drop"))
    assert state.n_dropped == 9
    assert state.allclose(expected(), rtol=1e-12)
    with pytest.raises(ValueError, match=r"(a|c)\.parquet, row group 0, row 0"):
        accumulate(scan_parquet(tmp_path, "y"))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("filters", [None, [("v", ">", -1e9)]])
def test_the_file_row_group_and_row_of_a_bad_value_are_named(tmp_path, value, filters):
    bad = U.copy()
    bad[777] = value
    parquet_files(tmp_path, TABLE.set_column(0, "u", pa.array(bad, from_pandas=False)), row_group_size=100)
    word = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=rf"/1.parquet, row group 2, row 77: feature 'u' is {word}"):
        accumulate(scan_parquet(tmp_path, "y", filters=filters))
    dropped = accumulate(scan_parquet(tmp_path, "y", filters=filters, missing="drop"))
    assert dropped.allclose(expected(np.arange(N) != 777), rtol=1e-12)
    assert dropped.n_dropped == 1


# ---------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "Y"}, "a.parquet: there is no column 'Y'; did you mean 'y'"),
        ({"target": "label"}, "there is no column 'label'; there are 'u', 'v', 'y'"),
        ({"target": "y", "features": ["u", "w"]}, "there is no column 'w'"),
        ({"target": "y", "weight": "w"}, "there is no column 'w'"),
        ({"target": "y", "features": ["u", "y"]}, "column 'y' is the target and cannot be a feature too"),
        ({"target": "y", "features": ["u", "v"], "weight": "v"}, "column 'v' is the weight"),
        ({"target": "y", "weight": "y"}, "cannot be both target and weight"),
        ({"target": "y", "features": ["u", "u"]}, "each column once"),
        ({"target": "y", "features": []}, "at least one"),
        ({"target": "y", "features": "u"}, "must be a list"),
        ({"target": "y", "missing": "ignore"}, "must be 'raise' or 'drop'"),
    ],
)
def test_roles_that_columns_cannot_have(folder, arguments, message):
    with pytest.raises(ValueError, match=message):
        scan_parquet(folder, **arguments)


def test_a_target_that_is_no_label(tmp_path):
    days = pa.array([datetime.date(2024, 1, 1)] * N)
    pq.write_table(TABLE.append_column("day", days), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="column 'day' is date32.* cannot be the target"):
        scan_parquet(tmp_path, "day", features=["u"])
    with pytest.raises(ValueError, match="1.parquet: target 'u': .*continuous"):
        accumulate(scan_parquet(tmp_path, "u", features=["v"]))


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (TABLE.select(["u", "y"]), "there is no column 'v'"),
        (
            TABLE.set_column(1, "v", pa.array(["x"] * N)),
            "column 'v' is string; elsewhere it holds numbers, here text",
        ),
        (TABLE.set_column(2, "y", pa.array(NAMES)), "target 'y' is string, in the first file it is int64"),
    ],
)
def test_a_later_file_that_does_not_fit_is_named(folder, odd, message):
    pq.write_table(odd, folder / "more" / "d.parquet")
    with pytest.raises(ValueError, match=f"more/d.parquet: {message}"):
        accumulate(scan_parquet(folder, "y"))


def test_nothing_there(tmp_path):
    for path in (tmp_path / "nosuch", tmp_path / "*.parquet", tmp_path, []):
        with pytest.raises(FileNotFoundError):
            scan_parquet(path, "y")
    pq.write_table(TABLE.slice(0, 0), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="nothing to accumulate"):
        accumulate(scan_parquet(tmp_path, "y"))


@pytest.mark.parametrize(
    "encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "RLE_DICTIONARY"]
)
def test_text_labels_in_every_encoding(tmp_path, encoding):
    labels = np.array(["ant", "bee", ""])[Y]
    stored = {"column_encoding": {"y": encoding}} if encoding != "RLE_DICTIONARY" else {}
    pq.write_table(
        pa.table({"u": U, "s": pa.array([{"y": 1}] * N), "y": labels}),
        tmp_path / "1.parquet",
        use_dictionary=not stored,
        row_group_size=300,
        **stored,
    )
    state = accumulate(scan_parquet(tmp_path, "y", features=["u"]))
    assert state.allclose(expected(features=["u"], labels=labels), rtol=1e-12)


@pytest.mark.parametrize("damage", ["truncated", "no footer", "scrambled pages", "empty"])
@pytest.mark.parametrize("name", ["0.parquet", "z.parquet"])
def test_a_damaged_file_is_named(folder, damage, name):
    path = folder / name
    pq.write_table(TABLE, path, compression="snappy")
    content = path.read_bytes()
    scrambled = content[:4] + bytes(reversed(content[4:3000])) + content[3000:]
    path.write_bytes(
        {
            "truncated": content[: len(content) // 2],
            "no footer": b"PAR1" * 10,
            "scrambled pages": scrambled,
            "empty": b"",
        }[damage]
    )
    with pytest.raises(ValueError, match=f"{name} cannot be read as Parquet"):
        accumulate(scan_parquet(folder, "y"))


def test_a_file_of_another_format_is_told_how_it_is_read(tmp_path):
    path = str(tmp_path / "1.csv")
    csv.write_csv(TABLE.select(["u", "v", "y"]), path)
    with pytest.raises(ValueError, match=r"1.csv cannot be read as Parquet, it is damaged or of") as raised:
        accumulate(scan_parquet(path, "y"))
    (options,) = re.findall("format='csv'", str(raised.value))
    of_file = accumulate(eval(f"scan(path, 'y', {options})", {"scan": scan, "path": path}))
    assert of_file.allclose(accumulate(scan_arrow(TABLE, "y", features=["u", "v"])))


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_a_dictionary_that_arrow_cannot_read_is_not_called_damage(tmp_path, encoding):
    table = pa.table({"u": [1.0, 2.0], "y": pa.array(["a", "b"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "1.parquet", use_dictionary=False, column_encoding={"y": encoding})
    with pytest.raises(ValueError, match=r"1.parquet cannot be read as Parquet, pyarrow reads no dictionary"):
        accumulate(scan(tmp_path, "y"))


def test_parquet_of_any_name_is_read_and_no_other_text_is_called_by_a_format(tmp_path):
    pq.write_table(TABLE, tmp_path / "1.csv")
    assert accumulate(scan_parquet(tmp_path / "1.csv", "y")).n_rows == len(TABLE)
    (tmp_path / "notes").write_text("no data")
    with pytest.raises(
        ValueError, match="notes cannot be read as Parquet, it is damaged or of another format"
    ):
        scan_parquet(tmp_path / "notes", "y")


@pytest.mark.parametrize("read", ["accumulate", "evaluate", "predict", "a schema of its own"])
def test_a_flipped_bit_in_a_page_with_a_checksum_is_found(tmp_path, read):
    path = tmp_path / "1.parquet"
    pq.write_table(TABLE, path, compression="none", use_dictionary=False, write_page_checksum=True)
    model = GaussianNB().fit(scan_parquet(path, "y"))
    content = bytearray(path.read_bytes())
    content[content.index(U.tobytes()) + 77] ^= 1
    path.write_bytes(content)
    source = scan_parquet(path, "y")
    if read == "a schema of its own":
        schema = pa.schema([("u", pa.float32()), ("v", pa.float64()), ("y", pa.int32())])
        source = scan_arrow(ds.dataset(path, schema=schema), "y")
    task = {
        "evaluate": lambda: evaluate(model, source),
        "predict": lambda: predict_dataset(model, source, tmp_path / "out"),
    }.get(read, lambda: accumulate(source))
    with pytest.raises(ValueError, match=r"1\.parquet cannot be read as Parquet, it is damaged.*CRC"):
        task()


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_called_encrypted_and_can_be_read_as_a_stream(tmp_path, plaintext_footer):
    factory, connection = encryption.CryptoFactory(PlainKms), encryption.KmsConnectionConfig()
    options = encryption.EncryptionConfiguration(
        "footer", plaintext_footer=plaintext_footer, column_keys={"column": ["u"]}
    )
    properties = factory.file_encryption_properties(connection, options)
    pq.write_table(TABLE, tmp_path / "1.parquet", encryption_properties=properties)
    keys = ds.ParquetDecryptionConfig(factory, connection, encryption.DecryptionConfiguration())
    file_format = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(decryption_config=keys)
    )
    dataset = ds.dataset(tmp_path, format=file_format)
    message = r"it is encrypted.*scan_arrow\(dataset\.scanner\(\)\.to_reader\(\)"
    elsewhere = pafs.PyFileSystem(pafs.FSSpecHandler(MemoryFileSystem()))
    with elsewhere.open_output_stream("/encrypted/1.parquet") as file:
        file.write((tmp_path / "1.parquet").read_bytes())
    for scanned in (
        lambda: scan_parquet(tmp_path, "y"),
        lambda: scan_parquet("/encrypted", "y", filesystem=elsewhere),
        lambda: scan_arrow(dataset, "y"),
    ):
        with pytest.raises(ValueError, match=message) as raised:
            accumulate(scanned())
        assert "damaged" not in str(raised.value)
    reader = dataset.scanner().to_reader()
    assert accumulate(scan_arrow(reader, "y")).allclose(expected(), rtol=1e-12)


class PlainKms(encryption.KmsClient):
    """A store of keys that wraps them in nothing but base64."""

    def __init__(self, configuration):
        super().__init__()

    def wrap_key(self, key, master):
        return base64.b64encode(key).decode()

    def unwrap_key(self, wrapped, master):
        return base64.b64decode(wrapped)


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), PermissionError, r"denied.*c\.parquet"),
        (PermissionError("Forbidden"), PermissionError, r"c\.parquet: Forbidden"),
        (
            ConnectionResetError(errno.ECONNRESET, "reset by peer"),
            StorageError,
            r"c\.parquet: .*reset by peer",
        ),
        (OSError("no answer"), StorageError, r"c\.parquet: no answer"),
    ],
)
def test_a_file_that_the_storage_does_not_give_is_named_and_not_called_damaged(
    folder, tmp_path, failure, kind, message
):
    filesystem = pafs.PyFileSystem(RefusingHandler(tmp_path / "log", "c.parquet", failure))
    split = scan_parquet(folder, "y", filesystem=filesystem).splits()[-1]
    assert split.path.endswith("c.parquet")
    filesystem.handler.refuses = True
    with pytest.raises(kind, match=message) as raised:
        list(split.blocks())
    assert "damaged" not in str(raised.value)
    arrived = pickle.loads(pickle.dumps(raised.value))  # as from the process of a worker
    assert (type(arrived), str(arrived)) == (type(raised.value), str(raised.value))


class RefusingHandler(NotingHandler):
    """A filesystem that, from a certain time on, refuses to open a file."""

    refuses = False

    def __init__(self, log, name, failure):
        super().__init__(log)
        self._name, self._failure = name, failure

    def open_input_file(self, path):
        if self.refuses and path.endswith(self._name):
            raise self._failure
        return super().open_input_file(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_without_permission_to_read_is_named(folder):
    (folder / "more" / "c.parquet").chmod(0)
    with pytest.raises(PermissionError, match=r"c\.parquet"):
        accumulate(scan_parquet(folder, "y"))


def test_a_file_that_vanishes_is_named(folder):
    source = scan_parquet(folder, "y")
    (folder / "more" / "c.parquet").unlink()
    with pytest.raises(FileNotFoundError, match="c.parquet"):
        accumulate(source)


@pytest.mark.parametrize("when", ["before it is read", "while it is read"])
def test_a_file_that_changes_after_the_plan_is_named(folder, when):
    path = folder / "a.parquet"
    split = next(split for split in scan_parquet(folder, "y").splits() if split.path == str(path))
    blocks = split.blocks()
    if when == "while it is read":
        next(blocks)
    pq.write_table(TABLE.slice(0, 299), path.with_suffix(".new"), row_group_size=130)
    path.with_suffix(".new").replace(path)
    with pytest.raises(ValueError, match="a.parquet has changed since the pass was planned"):
        list(blocks)


def test_a_source_reads_a_file_as_it_is_now(tmp_path):
    """Not by the footer that an earlier look at it left behind."""
    path = tmp_path / "1.parquet"
    pq.write_table(TABLE.slice(0, 100), path)
    source = scan_parquet(path, "y")
    pq.write_table(TABLE, path, row_group_size=100)
    assert accumulate(source).n_rows == N
    pq.write_table(TABLE.slice(0, 150), path, row_group_size=10)
    assert accumulate(source).n_rows == 150


@pytest.fixture
def null_partition(tmp_path):
    for part, start in (("a", 0), ("__HIVE_DEFAULT_PARTITION__", 500)):
        (tmp_path / f"part={part}").mkdir()
        pq.write_table(TABLE.slice(start, 500), tmp_path / f"part={part}" / "1.parquet")
    return tmp_path


def test_a_partition_without_a_key_has_no_labels(null_partition):
    state = accumulate(scan_parquet(null_partition, "part", features=["u"], missing="drop"))
    assert state.classes.tolist() == ["a"]
    assert (state.n_rows, state.n_dropped) == (500, 500)
    with pytest.raises(ValueError, match="1.parquet, row group 0, row 0 has no label"):
        accumulate(scan_parquet(null_partition, "part", features=["u"]))


def test_a_key_that_no_partition_has_is_null(tmp_path):
    """The first night of a dataset may have rows without a key alone."""
    (tmp_path / "part=__HIVE_DEFAULT_PARTITION__" / "day=1").mkdir(parents=True)
    pq.write_table(TABLE, tmp_path / "part=__HIVE_DEFAULT_PARTITION__" / "day=1" / "1.parquet")
    source = scan_parquet(tmp_path, "y", features=["u", "v"])
    assert accumulate(source).n_rows == N
    predict_dataset(GaussianNB().fit(source), source, tmp_path / "_out", keep=["part", "day"])
    kept = pq.read_table(tmp_path / "_out", columns=["part", "day"])
    assert kept.schema.types == [pa.string(), pa.int32()]
    assert kept["part"].null_count == N
    with pytest.raises(ValueError, match=f"no rows that count \\({N} dropped"):
        accumulate(scan_parquet(tmp_path, "part", features=["u"], missing="drop"))


def test_a_filter_on_a_partition_without_a_key(null_partition):
    filters = [[("part", "in", ["a"])], [("u", ">", 0.5)]]
    state = accumulate(scan_parquet(null_partition, "y", features=["u"], filters=filters))
    assert state.n_rows == pq.read_table(null_partition, filters=filters).num_rows


def test_columns_may_differ_in_case_alone(tmp_path):
    pq.write_table(pa.table({"X": [1.0, 2.0], "x": [3.0, 4.0], "k": [0, 1]}), tmp_path / "1.parquet")
    assert accumulate(scan_parquet(tmp_path, "k")).means.tolist() == [[1.0, 3.0], [2.0, 4.0]]


DOUBLED = pa.Table.from_arrays(
    [pa.array([1.0, 2.0]), pa.array([3, 4]), pa.array([5, 6]), pa.array([0, 1])], names=["u", "a", "a", "y"]
)


@pytest.mark.parametrize("use", ["feature", "filter", "kept", "not at all"])
def test_a_column_that_a_later_file_has_twice_is_refused_where_it_is_read(tmp_path, use):
    pq.write_table(pa.table({"u": [1.0, 3.0], "a": [1, 2], "y": [0, 1]}), tmp_path / "1.parquet")
    model = GaussianNB().fit(scan_parquet(tmp_path, "y", features=["u"]))
    pq.write_table(DOUBLED, tmp_path / "2.parquet")
    options = {"feature": {"features": ["u", "a"]}, "filter": {"filters": [("a", "=", 3)]}}.get(use, {})
    source = scan_parquet(tmp_path, "y", **{"features": ["u"], **options})
    if use == "not at all":
        assert accumulate(source).n_rows == 4
        return
    with pytest.raises(ValueError, match=r"2\.parquet: there is more than one column 'a'"):
        if use == "kept":
            predict_dataset(model, source, tmp_path / "out", keep=["a"])
        else:
            accumulate(source)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [pa.int32(), pa.string()])
def test_a_key_of_folders_that_is_a_column_of_a_later_file_is_refused_where_it_is_read(tmp_path, kind):
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
    pq.write_table(TABLE, tmp_path / "day=1" / "1.parquet")
    own = pc.cast(pa.array([7] * N), kind)
    pq.write_table(TABLE.append_column("day", own), tmp_path / "day=2" / "2.parquet")
    for options in (
        {"target": "day", "features": ["u"]},
        {"target": "y", "features": ["u"], "filters": [("day", ">", 1)]},
    ):
        with pytest.raises(ValueError, match=r"2\.parquet: 'day' is a column of this file, and"):
            accumulate(scan_parquet(tmp_path, **options))
    assert accumulate(scan_parquet(tmp_path, "y", features=["u"])).n_rows == 2 * N


@pytest.mark.slow_cases("True-one")
@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.null(), pa.string(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us")),
        (pa.decimal128(5, 2), pa.decimal128(12, 4), pa.decimal128(12, 4)),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_kept_columns_have_a_type_that_holds_those_of_all_files(tmp_path, one, other, both, reverse):
    (tmp_path / "in").mkdir()
    held = {}
    for name, kind in zip(("1", "2"), (other, one) if reverse else (one, other), strict=True):
        value = 2**40 if kind == pa.int64() else 7
        column = pa.nulls(N) if kind == pa.null() else column_of(value, kind)
        pq.write_table(TABLE.append_column("kept", column), tmp_path / "in" / f"{name}.parquet")
        held[name] = column.cast(both).to_pylist()
    model = GaussianNB().fit(scan_parquet(tmp_path / "in", "y", features=["u", "v"]))
    source = scan_parquet(tmp_path / "in", features=["u", "v"])
    predict_dataset(model, source, tmp_path / "out", columns=["label"], keep=["kept"])
    written = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert [table.schema.field("kept").type for table in written] == [both, both]
    assert [table["kept"].to_pylist() for table in written] == [held["1"], held["2"]]


def column_of(value, kind):
    """A column of one value, through text where that is the way to its type."""
    if pa.types.is_dictionary(kind):
        return pa.array([str(value)] * N).dictionary_encode().cast(kind)
    return pa.array([value] * N).cast(pa.string() if pa.types.is_decimal(kind) else kind).cast(kind)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_columns_of_views_are_filtered_and_kept_as_strings_are(tmp_path, kind):
    values = pa.array(NAMES).cast(kind)
    holed = TABLE.set_column(0, "u", pa.array([None, *U[1:]])).append_column("name", values)
    pq.write_table(holed, tmp_path / "1.parquet", row_group_size=100)
    assert NAMES[0] != "low"
    value = "low" if kind == pa.string_view() else b"low"
    model = GaussianNB().fit(scan_parquet(tmp_path, "y", features=["v"]))
    for filters, rows in (
        (None, np.arange(N) > 0),
        ([("name", "=", value)], (np.arange(N) > 0) & (NAMES == "low")),
        ([("name", "in", [value])], (np.arange(N) > 0) & (NAMES == "low")),
        ([("v", "<", 5.0)], (np.arange(N) > 0) & (V < 5)),
    ):
        options = {"features": ["u", "v"], "filters": filters, "missing": "drop"}
        assert accumulate(scan_parquet(tmp_path, "y", **options)).allclose(expected(rows), rtol=1e-12)
        source = scan_parquet(tmp_path, features=["v"], filters=filters)
        predict_dataset(model, source, tmp_path / "_out", columns=["label"], keep=["name"])
        written = pq.read_table(tmp_path / "_out")["name"].cast(pa.large_string()).to_pylist()
        first = [NAMES[0]] if filters is None or (V[0] < 5 and filters[0][0] == "v") else []
        assert written == [*first, *NAMES[rows]]


@pytest.mark.parametrize("way", ["table", "feather", "zarr"])
def test_categories_whose_names_are_views_are_kept_as_strings_are(tmp_path, way):
    """As Polars gives its categories to Arrow."""
    names, codes = np.unique(NAMES, return_inverse=True)
    values = pa.DictionaryArray.from_arrays(codes.astype(np.uint32), pa.array(names, pa.string_view()))
    table, out = TABLE.append_column("name", values), tmp_path / ("_out.zarr" if way == "zarr" else "_out")
    if way == "feather":
        feather.write_feather(table, tmp_path / "1.feather")
    source = scan(tmp_path, features=["v"]) if way == "feather" else scan_arrow(table, features=["v"])
    model = GaussianNB().fit(scan_arrow(TABLE, "y", features=["v"]))
    predict_dataset(model, source, out, columns=["label"], keep=["name"])
    written = zarr.open(out)["name"][:] if way == "zarr" else pq.read_table(out)["name"]
    np.testing.assert_array_equal(written, NAMES)


def test_kept_columns_that_no_type_holds_are_refused(tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(TABLE, tmp_path / "in" / "1.parquet")
    pq.write_table(TABLE.set_column(2, "y", pa.array(NAMES)), tmp_path / "in" / "2.parquet")
    source = scan_parquet(tmp_path / "in", features=["u", "v"])
    model = GaussianNB().fit(scan_parquet(tmp_path / "in" / "1.parquet", "y"))
    with pytest.raises(ValueError, match=r"2\.parquet: column 'y' is string, and int64 in other files"):
        predict_dataset(model, source, tmp_path / "out", keep=["y"])
    assert not (tmp_path / "out").exists()


def test_a_dataset_inside_a_hidden_folder_is_not_itself_hidden(tmp_path, monkeypatch):
    (tmp_path / ".cache" / "rows").mkdir(parents=True)
    pq.write_table(TABLE, tmp_path / ".cache" / "rows" / "1.parquet")
    monkeypatch.chdir(tmp_path / ".cache")
    for filesystem in (None, fsspec.filesystem("file")):
        assert accumulate(scan_parquet("rows", "y", filesystem=filesystem)).n_rows == N


def test_long_labels_take_no_memory_for_each_row(tmp_path):
    values = pa.array(["a" * 5_000, "b" * 5_000])
    labels = pa.DictionaryArray.from_arrays(pa.array(np.arange(100_000) % 2, pa.int32()), values)
    pq.write_table(
        pa.table({"u": np.arange(100_000.0), "y": labels}), tmp_path / "1.parquet", store_schema=False
    )
    before = pa.total_allocated_bytes()
    peaks = []
    for split in scan_parquet(tmp_path, "y").splits():
        for block in split.blocks():
            peaks.append(pa.total_allocated_bytes() - before)
            assert block.classes.tolist() == values.to_pylist()
    assert max(peaks) < 10_000_000  # the labels of all rows are 500 MB


def test_labels_that_numpy_strings_cannot_hold(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "k": ["a\0", "a"]}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="null character"):
        accumulate(scan_parquet(tmp_path, "k"))


@pytest.mark.parametrize(
    ("dictionary", "labels"),
    [(["high", "bad\0", "low"], ["high", "low"]), ([2.0, 0.5, 1.0], [2, 1]), ([7, None, 3], [7, 3])],
)
def test_what_a_dictionary_has_beyond_the_labels_of_rows_does_not_matter(dictionary, labels):
    indices = pa.array([2, 0, None, 2, 0])
    column = pa.DictionaryArray.from_arrays(indices, pa.array(dictionary))
    table = pa.table({"u": np.arange(5.0), "y": column})
    state = accumulate(scan_arrow(table, "y", missing="drop"))
    names = [labels[1], labels[0], labels[1], labels[0]]
    assert state.n_dropped == 1
    assert state.allclose(ClassStatistics().update([[0.0], [1.0], [3.0], [4.0]], names), rtol=1e-12)
    bad = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(dictionary))
    with pytest.raises(ValueError, match="no label" if None in dictionary else "target 'y'"):
        accumulate(scan_arrow(pa.table({"u": [0.0, 1.0], "y": bad}), "y"))


def test_small_row_groups_are_read_together_and_their_rows_named_apart(tmp_path):
    table = pa.table({"x": np.arange(12.0), "y": [0, 1] * 6, "z": np.arange(12)})
    path = tmp_path / "1.parquet"
    pq.write_table(table, path, row_group_size=2)
    (split,) = scan_parquet(path, "y", features=["x"]).splits()
    batches = list(split._batches())
    assert [batch.num_rows for batch, _ in batches] == [12]
    _, places = batches[0]
    assert places(7) == f"{path}, row group 3, row 1"
    apart = scan_parquet(
        path, "y", features=["x"], filters=(pc.field("z") < 3) | (pc.field("z") > 6)
    ).splits()
    found = [(batch["x"].to_pylist(), places) for batch, places in apart[0]._batches()]
    assert [values for values, _ in found] == [[0, 1, 2], [7, 8, 9, 10, 11]]
    assert found[1][1](0) == f"{path}, row group 3, row 1"
    assert found[1][1].numbers(5).tolist() == [7, 8, 9, 10, 11]
    damaged = table.set_column(0, "x", pa.array([*range(9), np.nan, 10, 11], pa.float64()))
    pq.write_table(damaged, path, row_group_size=2)
    with pytest.raises(ValueError, match=r"1\.parquet, row group 4, row 1: feature 'x' is NaN"):
        accumulate(scan_parquet(path, "y", features=["x"]))
