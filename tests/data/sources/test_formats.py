"""Files of CSV, JSON lines, Feather and ORC: they are read as Parquet files of the same rows are."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.fs as pafs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import streamgda as sg
from streamgda import accumulate, predict_dataset, scan, scan_arrow
from streamgda.data.sources.files.format_options import format_of, text_of
from tests.data.sources.test_sources import SourceContract
from tests.logged_filesystem import NotingHandler

N = 5000
RNG = np.random.default_rng(0)
TABLE = pa.table(
    {
        "x": RNG.normal(size=N),
        "n": RNG.integers(0, 9, size=N),
        "shop": RNG.choice(["north", "south", "web"], size=N),
        "kind": RNG.choice(["a", "b"], size=N),
    }
)


def write_csv(table, path):
    pa.csv.write_csv(table, path)


def write_json(table, path):
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))


WRITERS = {
    "csv": write_csv,
    "jsonl": write_json,
    "feather": lambda table, path: pyarrow.feather.write_feather(table, path, chunksize=1000),
    "orc": pyarrow.orc.write_table,
    "parquet": pq.write_table,
}


class TestCSV(SourceContract):
    described = "CSV .*rows.csv: 2 features, target 'y'"

    def scan(self, table, folder, *, rows_per_chunk=300, **options):
        folder.mkdir(exist_ok=True)
        write_csv(table, folder / "rows.csv")
        return scan(folder, "y", features=["u", "v"], **options)


@pytest.mark.parametrize("ending", [ending for ending in WRITERS if ending != "parquet"])
def test_a_folder_of_each_format_is_learnt_and_scored_as_parquet_is(ending, tmp_path):
    states = []
    for one in (ending, "parquet"):
        folder = tmp_path / one / "data"
        folder.mkdir(parents=True)
        for i in range(3):
            WRITERS[one](TABLE.slice(i * 1500, 1500), folder / f"{i}.{one}")
        source = scan(folder, "kind")
        states.append(accumulate(source))
    assert states[0].allclose(states[1], rtol=0)
    model = sg.LinearDiscriminantAnalysis.from_statistics(states[0])
    written = predict_dataset(model, scan(folder), tmp_path / "out", keep=["n"])
    assert written.n_rows == 4500
    assert pq.read_table(tmp_path / "out")["n"].to_pylist() == TABLE["n"].to_pylist()[:4500]


PACKED = [("csv.gz", "gzip"), ("jsonl.bz2", "bz2"), ("csv.zst", "zstd"), ("tsv.lz4", "lz4")]


@pytest.mark.parametrize(("ending", "codec"), PACKED)
def test_compressed_text(ending, codec, tmp_path):
    plain = tmp_path / "plain"
    tabs = pa.csv.WriteOptions(delimiter="\t")
    write = {**WRITERS, "tsv": lambda table, path: pa.csv.write_csv(table, path, tabs)}
    write[ending.partition(".")[0]](TABLE, plain)
    for name in "ab":
        with pa.CompressedOutputStream(tmp_path / f"{name}.{ending}", codec) as file:
            file.write(plain.read_bytes())
    assert accumulate(scan(tmp_path / f"*.{ending}", "kind")).n_rows == 2 * N


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_every_scheduler_gives_the_bits_of_a_file_in_one_block(scheduler, tmp_path):
    write_csv(TABLE, tmp_path / "a.csv")
    write_csv(TABLE.slice(7), tmp_path / "b.csv")
    whole = accumulate(scan(tmp_path, "kind"), scheduler="synchronous")
    assert accumulate(scan(tmp_path, "kind", format="csv block_size=16384"), scheduler=scheduler) == whole


def test_keys_filters_weights_and_computed_columns(tmp_path):
    for ending in ("csv", "parquet"):
        for year in (2025, 2026):
            folder = tmp_path / ending / f"year={year}"
            folder.mkdir(parents=True)
            WRITERS[ending](TABLE.slice(year, 2000), folder / f"rows.{ending}")
    options = {"features": ["x", "year"], "weight": "n", "filters": [("n", ">", 2), ("year", "=", 2026)]}
    ours, theirs = (
        scan(tmp_path / ending, "kind", **options).with_columns(double=pa.compute.field("x") * 2)
        for ending in ("csv", "parquet")
    )
    assert accumulate(ours).allclose(accumulate(theirs), rtol=1e-12)


@pytest.mark.parametrize(("ending", "n_lines"), [("csv", 8 * N + 1), ("jsonl", 8 * N)])
def test_a_later_value_that_does_not_fit_is_named_with_file_and_line(ending, n_lines, tmp_path):
    columns = ["x", "kind"]
    long = pa.concat_tables([TABLE.select(columns)] * 8)  # of several blocks, by which Arrow counts lines
    for i in range(2):
        WRITERS[ending](long, tmp_path / f"{i}.{ending}")
    odd = {"csv": '"zz","a"\n', "jsonl": '{"x": "zz", "kind": "a"}\n'}[ending]
    with (tmp_path / f"1.{ending}").open("a") as file:
        file.write(odd)
    with pytest.raises(ValueError, match=rf"1.{ending}.*line {n_lines + 1}.*x") as caught:
        accumulate(scan(tmp_path, "kind"))
    assert "0.csv" not in str(caught.value)


@pytest.mark.parametrize("value", ["true", "2026-01-31", "2026-01-31 06:00:00", "north"])
def test_the_error_for_a_column_that_was_empty_at_first_names_the_option_that_reads_it(value, tmp_path):
    lines = ["x,other,kind", ",1,a", *[",2,b"] * 30, f"{value},1,a", f"{value},2,b"]
    (tmp_path / "0.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r'0.csv, line 33: column .x. .* by the format, as "csv') as caught:
        accumulate(scan(tmp_path, "kind", format="csv block_size=64", missing="drop"))
    told = scan(tmp_path, "kind", format=str(caught.value).split('"')[-2], missing="drop")
    assert accumulate(told).n_rows == (33 if value == "north" else 2)


@pytest.mark.parametrize("value", [True, 2.5, "2026-01-31", "north", [1.5, 2.0]], ids=str)
def test_the_error_for_a_column_of_json_that_was_null_at_first_has_the_remedy(value, tmp_path):
    lines = [{"x": None, "other": i, "kind": "ab"[i % 2]} for i in range(40_000)]
    lines += [{"x": value, "other": i, "kind": "ab"[i % 2]} for i in range(4)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    source = scan(tmp_path, "kind", missing="drop")
    if isinstance(value, float):
        assert accumulate(source).n_rows == 4
        return
    with pytest.raises(
        ValueError, match=r"a.jsonl, line 40001: column 'x' holds no value.* here: \w+\. "
    ) as caught:
        accumulate(source)
    if isinstance(value, list):
        assert str(caught.value).endswith("first, or leave the column out")
        return
    told = scan(tmp_path, "kind", format=str(caught.value).split('"')[-2], missing="drop")
    assert accumulate(told).n_rows == (4 if value is True else 40_004)


@pytest.mark.parametrize("value", [True, 2.5, datetime.date(2026, 1, 31), "north", [1.5, 2.0]], ids=str)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "feather", "parquet"])
def test_a_column_without_values_in_the_first_file_has_the_type_that_the_next_tells(ending, value, tmp_path):
    if ending == "csv" and isinstance(value, list):
        return
    rows = {"x": [None] * 4, "other": [1.0, 2.0, 4.0, 3.0], "kind": list("abab")}
    WRITERS[ending](pa.table(rows), tmp_path / f"0.{ending}")
    WRITERS[ending](pa.table({**rows, "x": [value] * 4}), tmp_path / f"1.{ending}")
    states = []
    for numbers in ("01", "10"):
        source = scan([tmp_path / f"{i}.{ending}" for i in numbers], "kind", missing="drop")
        states.append(accumulate(source))
    assert states[0].allclose(states[1])
    assert states[0].n_rows == (8 if value == "north" else 4)
    if ending == "parquet":
        assert accumulate(scan_arrow(ds.dataset(tmp_path), "kind", missing="drop")) == states[0]


@pytest.mark.parametrize("column", ["shop", "kind"])
def test_numbers_in_csv_are_text_where_a_model_or_a_ledger_knows_text(column, tmp_path):
    rows = {"x": [1.0, 2.0, 4.0, 3.0] * 3, "shop": list("pq1p") * 3, "kind": list("abab") * 3}
    known = pa.table({**rows, column: ["1", "2", "7b", "2"] * 3})
    later = pa.table({**rows, column: [2, 1, 1, 2] * 3})
    (tmp_path / "days").mkdir()
    ledger = sg.StatisticsLedger(tmp_path / "ledger")
    for i, table in enumerate((known, later)):
        write_csv(table, tmp_path / "days" / f"{i}.csv")
        ledger.refresh(scan(tmp_path / "days", "kind"))
    expected = accumulate(scan(tmp_path / "days", "kind"))
    assert ledger.statistics() == expected
    by_name = {"categories": sg.Categorical(columns=["shop"])}
    model = sg.GaussianNB().fit(scan(tmp_path / "days/0.csv", "kind", **by_name))
    source = scan(tmp_path / "days/1.csv", "kind", **by_name)
    frame = later.to_pandas().astype({column: str})
    assert sg.evaluate(model, source).accuracy == model.score(frame[["x", "shop"]], frame["kind"])
    predict_dataset(model, tmp_path / "days/1.csv", tmp_path / "out", keep=["shop"])
    assert pq.read_table(tmp_path / "out")["shop"].to_pylist() == frame["shop"].tolist()
    assert model.partial_fit(source).statistics_ == accumulate(scan(tmp_path / "days", "kind"), "diag")
    told = f"csv column_types={{'{column}': 'int64'}}"
    with pytest.raises(ValueError, match="different"):
        model.partial_fit(scan(tmp_path / "days/1.csv", "kind", format=told, **by_name))


def test_whole_numbers_and_empty_columns_of_the_sample_may_go_on_as_any_number(tmp_path):
    lines = ["x,late,kind", *["1,,a"] * 30, "2.5,7,b", "2.5,8,b"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    source = scan(tmp_path, "kind", format="csv block_size=64", missing="drop")
    assert accumulate(source, "diag").means.tolist() == [[2.5, 7.5]]


def test_a_missing_value_is_that_of_the_row_and_an_absent_column_of_the_file(tmp_path):
    (tmp_path / "a.csv").write_text("x,shop,kind\n1,\\N,a\n2,web,b\n\\N,web,b\n")
    with pytest.raises(ValueError, match=r"a\.csv, row 2: feature 'x' is NaN"):
        accumulate(scan(tmp_path, "kind"))
    found = accumulate(scan(tmp_path, "kind", missing="drop"))
    assert (found.n_rows, found.n_dropped) == (2, 1)
    assert found.schema.feature_names == ("x", "shop=web", "shop=(missing)")
    (tmp_path / "b.csv").write_text("x,kind\n1,a\n")
    with pytest.raises(ValueError, match=r"b\.csv.* no column 'shop'"):
        accumulate(scan(tmp_path, "kind", missing="drop"))


@pytest.mark.parametrize(
    "text",
    [
        *("csv", "json", "feather", "orc", "csv delimiter=';' decimal_point=','", "csv delimiter='\\t'"),
        "csv delimiter=' ' escape_char='\\\\' quote_char=\"'\" null_values=['-999.0', 'no = x'] skip_rows=2",
        "csv quote_char=False column_types={'a': 'decimal128(5, 2)', 'b': 'timestamp[us, tz=UTC]'}",
        "csv strings_can_be_null=False timestamp_parsers=['ISO8601', '%d/%m/%Y %H:%M'] block_size=64",
        "json explicit_schema={'a': 'int8'} newlines_in_values=True",
    ],
)
def test_a_format_with_options_is_a_text_that_makes_it_again(text):
    made = format_of(text)
    assert text_of(made) == text
    assert made.equals(format_of(text_of(made)))


def test_options_as_users_write_them():
    text = 'csv delimiter=; decimal_point=, quote_char=" null_values=NA,-9 header=x'
    with pytest.raises(ValueError, match="format csv: there is no option 'header'"):
        format_of(text)
    options = format_of(text.removesuffix(" header=x")).default_fragment_scan_options.convert_options
    assert (options.decimal_point, options.null_values) == (",", ["NA", "-9"])
    assert format_of(r"csv delimiter=\t").parse_options.delimiter == "\t"
    assert format_of("csv skip_rows=1", ["a.tsv"]).parse_options.delimiter == "\t"
    for odd in (
        "csv skip_rows=x",
        "csv delimiter=ab",
        "csv double_quote=maybe",
        "csv ;",
        "csv column_types=a",
    ):
        with pytest.raises(ValueError, match="^format "):
            format_of(odd)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("sep=;", "delimiter=;"),
        ("decimal=,", "decimal_point=,"),
        ("na_values=-9", "null_values=-9"),
        ("names=a,b", "column_names=a,b"),
        ("skiprows=2", "skip_rows=2"),
        ("dtype={'a': 'string'}", "column_types={'a': 'string'}"),
        ("date_format=%d.%m.%Y", "timestamp_parsers=%d.%m.%Y"),
        ("quotechar='", "quote_char='"),
    ],
)
def test_options_of_pandas_are_told_by_their_names_here(text, options):
    word, now = text.partition("=")[0], options.partition("=")[0]
    with pytest.raises(ValueError, match=f"format csv: {word}= is {now}="):
        format_of(f"csv {text}")
    assert format_of(f"csv {options}").equals(format_of(f"csv {text.replace(word, now, 1)}"))


def test_options_that_no_text_tells_are_refused_by_name(tmp_path):
    write_csv(TABLE, tmp_path / "a.csv")
    types = pa.csv.ConvertOptions(column_types={"shop": pa.dictionary(pa.int32(), pa.string())})
    with pytest.raises(ValueError, match="column_types of 'shop' is dictionary"):
        scan(tmp_path, "kind", format=ds.CsvFileFormat(convert_options=types))
    with (tmp_path / "a.csv").open("a") as file:
        file.write("1,2\n")
    skipping = pa.csv.ParseOptions(invalid_row_handler=lambda row: "skip")
    with pytest.raises(ValueError, match=f"Row #{N + 2}: Expected 4 columns, got 2: 1,2"):
        accumulate(scan(tmp_path, "kind", format=ds.CsvFileFormat(skipping)))


def test_the_row_numbers_that_pandas_writes_are_mentioned(tmp_path):
    TABLE.to_pandas().to_csv(tmp_path / "a.csv")
    with pytest.warns(UserWarning, match="also ''. A column of such a name mostly identifies rows"):
        assert "" in scan(tmp_path, "kind").feature_names
    assert scan(tmp_path, "kind", exclude=[""]).feature_names == ("x", "n", "shop")


def test_formats_are_told_by_names_and_a_folder_of_several_is_an_error(tmp_path):
    (tmp_path / "rows.txt").write_text("x;kind\n1;a\n2;b\n")
    assert accumulate(scan(tmp_path / "rows.txt", "kind", format="csv delimiter=;")).n_rows == 2
    with pytest.raises(ValueError, match="format='csv'"):
        scan(tmp_path / "rows.txt", "kind")
    with pytest.raises(FileNotFoundError, match="holds no file"):
        scan(tmp_path, "kind")
    (tmp_path / "b.tsv").write_text("x\tkind\n1\ta\n2\tb\n")
    for path in (tmp_path, f"{tmp_path}/b*", [f"{tmp_path}/[b]*"]):
        assert accumulate(scan(path, "kind")).n_rows == 2
    write_json(TABLE, tmp_path / "c.jsonl")
    for path in (tmp_path, f"{tmp_path}/[bc].*"):
        with pytest.raises(ValueError, match="several formats: 'csv', 'json'"):
            scan(path, "kind")
    assert accumulate(scan(tmp_path, "kind", format="json", features=["x"])).n_rows == N
    write_csv(TABLE, tmp_path / "odd.parquet")
    with pytest.raises(ValueError, match=r"odd\.parquet"):  # a folder stands for its Parquet files
        scan(tmp_path, "kind")


class Faltering(NotingHandler):
    """A filesystem of which every fifth opening of a file fails."""

    def __init__(self, log):
        super().__init__(log)
        self.n_opened = 0

    def open_input_file(self, path):
        self.n_opened += 1
        if self.n_opened % 5 == 0:
            raise ConnectionResetError("the storage did not answer")
        return super().open_input_file(path)

    open_input_stream = open_input_file


@pytest.mark.parametrize("ending", ["csv", "jsonl", "feather"])
def test_a_storage_that_fails_is_asked_again(ending, tmp_path, monkeypatch):
    monkeypatch.setattr("streamgda.data.storage.retries.FIRST_PAUSE", 0.001)
    (tmp_path / "data").mkdir()
    for i in range(4):
        WRITERS[ending](TABLE.slice(i * 1000, 1000), tmp_path / "data" / f"{i}.{ending}")
    handler = Faltering(tmp_path / "log")
    source = scan(str(tmp_path / "data"), "kind", filesystem=pafs.PyFileSystem(handler))
    with pytest.warns(UserWarning, match="again"):
        state = accumulate(source, scheduler="synchronous")
    assert state == accumulate(scan(tmp_path / "data", "kind"), scheduler="synchronous")
    assert handler.n_opened > 4


def test_memory_is_bounded(tmp_path):
    table = pa.table({"x": RNG.normal(size=400_000), "y": RNG.normal(size=400_000), "kind": [0, 1] * 200_000})
    write_csv(table, tmp_path / "a.csv")
    before, most = pa.total_allocated_bytes(), 0
    for split in scan(tmp_path, "kind").splits():
        for _ in split.blocks():
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < 40e6  # of 16 MB of text in blocks of 1 MB
