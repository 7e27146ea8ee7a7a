"""CSV that is written otherwise than its format says: the error names the options that read it."""

import io
import re

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamgda import GaussianNB, accumulate, scan
from streamgda.data.sources.files.dialects import as_written
from streamgda.data.sources.files.format_options import format_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"width": RNG.normal(size=40).round(2), "n": range(40), "kind": ["a", "b"] * 20})


def written(frame=FRAME, **how):
    return frame.to_csv(index=False, **how)


TEXT = written()
CASES = {
    "; of Excel": written(sep=";"),
    "; and decimal commas": written(sep=";", decimal=","),
    "tabs": written(sep="\t"),
    "bars, quoted": written(sep="|", quoting=1),
    "spaces": written(sep=" "),
    "sep= of Excel": "sep=;\n" + written(sep=";", decimal=","),
    "comments above": "# made by a machine\n# on a day; in May\n" + TEXT,
    "a title above": "Widths, by kind\n\n" + TEXT,
    "UTF-16 of SQL Server": written(sep="\t").encode("utf-16"),
    "UTF-16 without a mark": TEXT.encode("utf-16-le"),
    "carriage returns": written(sep=";", lineterminator="\r\n"),
    "names that repeat": TEXT.replace("n,kind", "width,kind"),
    "delimiters at the ends of rows": TEXT.replace("a\n", "a,\n").replace("b\n", "b,\n"),
    "names of rows, as R has them": TEXT.split("\n")[0] + "\n" + FRAME.to_csv(header=False),
}


def option_named(error):
    return re.search('format="(.*?)"', str(error))[1]


@pytest.mark.parametrize("name", CASES)
def test_the_error_names_the_options_that_read_the_file(name, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(CASES[name] if isinstance(CASES[name], bytes) else CASES[name].encode())
    with pytest.raises(ValueError, match=r"a\.csv.*format=") as caught:
        scan(path, "kind")
    source = scan(path, "kind", exclude=["row"] if "R has" in name else [], format=option_named(caught.value))
    assert len(source.feature_names) == 2
    state = accumulate(source)
    np.testing.assert_allclose(state.means, FRAME.groupby("kind").mean(), rtol=1e-12)


def test_a_file_without_names_is_read_by_numbered_ones(tmp_path):
    (tmp_path / "a.csv").write_text(written(header=False))
    with pytest.raises(ValueError, match=r"no column 'kind'") as caught:
        scan(tmp_path / "a.csv", "kind")
    source = scan(tmp_path / "a.csv", "f2", format=option_named(caught.value))
    assert accumulate(source).n_rows == 40


@pytest.mark.parametrize(("label", "encoding"), [("Bär", "latin1"), ("5 €", "cp1252")])
@pytest.mark.parametrize("n_before", [0, 1000, 200_000], ids=["names", "first block", "later"])
def test_another_encoding_is_named_wherever_it_shows(label, encoding, n_before, tmp_path):
    path = tmp_path / "a.csv"
    header = f"width,{label}\n" if n_before == 0 else "width,kind\n"
    path.write_bytes((header + "1.5,plain\n" * n_before + f"2.5,{label}\n").encode(encoding))
    target = label if n_before == 0 else "kind"
    with pytest.raises(ValueError, match=r"a\.csv.*csv encoding=") as caught:
        accumulate(scan(path, target))
    assert ("line 200002" in str(caught.value)) == (n_before == 200_000)
    if n_before < 200_000:
        assert option_named(caught.value) == f"csv encoding={encoding}"
    state = accumulate(scan(path, target, format=f"csv encoding={encoding}"))
    assert label in state.classes


DAY = pd.date_range("2026-01-20", periods=40)


@pytest.mark.parametrize(
    "columns",
    [
        {"day": "%d.%m.%Y"},
        {"day": "%m/%d/%y %H:%M", "iso": "%Y-%m-%d"},
        {"day": "%d.%m.%Y", "due": "%d/%m/%Y"},
    ],
    ids=["d.m.Y", "m/d/y and ISO", "two ways"],
)
def test_dates_are_read_by_the_options_that_are_named(columns, tmp_path):
    dates = pd.DataFrame({name: DAY.strftime(how) for name, how in columns.items()})
    dates["x"] = FRAME["width"]
    (tmp_path / "a.csv").write_text(written(dates.assign(kind=FRAME["kind"]), sep=";"))
    with pytest.raises(ValueError, match=r"a\.csv") as caught:
        scan(tmp_path / "a.csv", "kind")
    state = accumulate(scan(tmp_path / "a.csv", "kind", format=option_named(caught.value)))
    days = pd.Series((DAY - pd.Timestamp(0)) / pd.Timedelta(days=1))
    expected = days.groupby(FRAME["kind"]).mean()
    for place in range(len(columns)):
        np.testing.assert_allclose(state.means[:, place], expected)


@pytest.mark.parametrize(
    "columns",
    [
        {"day": DAY.strftime("%d/%m/%Y"), "due": DAY.strftime("%m/%d/%Y")},
        {"day": [f"{day:02}/02/2026" for day in range(1, 11)], "x": range(10)},
        {"day": DAY.strftime("%Y-%m-%d"), "x": range(40)},
    ],
    ids=["two orders", "either order", "ISO"],
)
def test_dates_that_two_ways_read_or_none_needs_have_no_parser_named(columns):
    text = written(pd.DataFrame(columns), sep=";")
    assert as_written(format_of("csv"), text.encode()) == "csv delimiter=;"


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ({"sep": ";"}, "delimiter="),
        ({"decimal": ","}, "decimal_point="),
        ({"parse_dates": ["day"]}, "timestamp_parsers="),
        ({"encoding": "latin1"}, "encoding="),
    ],
)
def test_parameters_of_pandas_are_named_as_options_of_the_format(option, remedy):
    with pytest.raises(TypeError, match=f"^{next(iter(option))} is .*format='csv {remedy}"):
        scan("a.csv", "kind", **option)


@pytest.mark.parametrize("length", ["length", "Länge"])
@pytest.mark.parametrize("place", [0, 3000], ids=["first", "later"])
def test_utf8_among_files_of_another_encoding_is_named_and_not_learnt(length, place, tmp_path):
    rows = "".join(f"{i},{'Bonn' if i < place else 'Köln'},{'ab'[i % 2]}\n" for i in range(place + 100))
    text = f"{length},town,kind\n{rows}"
    (tmp_path / "a.csv").write_bytes(text.encode("latin1"))
    how = "csv encoding=latin1 block_size=1000"
    assert set(accumulate(scan(tmp_path, "kind", format=how)).schema.values[0]) <= {"Bonn", "Köln"}
    (tmp_path / "b.csv").write_bytes(text.encode("utf8"))
    with pytest.raises(ValueError, match=r"b\.csv.*UTF-8, and not latin1") as caught:
        accumulate(scan(tmp_path, "kind", format=how))
    assert option_named(caught.value) == "csv block_size=1000"


TOWNS = {"utf8": "Köln", "utf-8": "Köln", "utf-16": "Köln", "latin1": "Köln", "cp1252": "Köln"}
TOWNS |= {"cp1251": "Москва", "cp1253": "Αθήνα", "big5": "台北", "gbk": "联通", "shift_jis": "東京"}


@pytest.mark.parametrize(("encoding", "town"), TOWNS.items())
def test_text_is_read_by_its_own_encoding(encoding, town, tmp_path):
    (tmp_path / "a.csv").write_bytes(f"x,kind\n1,{town}\n2,b\n3,Ä".encode(encoding, "ignore"))
    state = accumulate(scan(tmp_path, "kind", format=f"csv encoding={encoding}", missing="marginal"))
    assert town in state.classes


def test_options_that_were_given_are_kept(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(written(FRAME, sep=";", decimal=",", na_rep="?"))
    with pytest.raises(ValueError, match=r"a\.txt") as caught:
        scan(path, "kind", format="csv null_values=?")
    assert option_named(caught.value) == "csv delimiter=; decimal_point=, null_values=?"


def test_one_file_among_others_is_named(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    (tmp_path / "b.csv").write_text(written(sep=";"))
    with pytest.raises(ValueError, match=r'b\.csv .*format="csv delimiter=;".*no column'):
        accumulate(scan(tmp_path, "kind"))


def test_a_file_that_is_read_as_it_is_written_has_no_options_named(tmp_path):
    (tmp_path / "a.txt").write_text(written(sep=";", decimal=",", header=False))
    how = "csv delimiter=; decimal_point=, column_names=x,y,kind"
    with pytest.raises(ValueError, match="no column 'sort'") as caught:
        scan(tmp_path / "a.txt", "sort", format=how)
    assert "format=" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["a\n1\n2\n", '"x;y",kind\n1,a\n', "a,b\n", "", "a;b\n1,2\n;;\n", "2024,2025,y\n1,2,a\n"]
)
def test_a_file_that_no_other_options_read_better_has_none_named(text):
    assert as_written(format_of("csv"), text.encode()) == ""


@given(st.data())
def test_a_table_that_is_written_as_usual_has_none_named(data):
    """Whatever texts it holds: an error of another kind says nothing of the format."""
    names = data.draw(
        st.lists(st.text("abc ", min_size=1).map("x{}".format), min_size=2, max_size=4, unique=True)
    )
    cell = st.one_of(st.floats(-9, 9), st.integers(-9, 9), st.text('ab;|, .1"é', max_size=6))
    rows = data.draw(st.lists(st.tuples(*[cell] * len(names)), min_size=1, max_size=9))
    assert as_written(format_of("csv"), written(pd.DataFrame(rows, columns=names)).encode()) == ""


@example([1.5e-267] * 3, ";", ",", 0, "utf-8")
@given(
    numbers=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=20),
    sep=st.sampled_from([";", "\t", "|"]),
    decimal=st.sampled_from([".", ","]),
    above=st.integers(0, 3),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin1"]),
)
def test_what_is_named_reads_every_number(numbers, sep, decimal, above, encoding):
    """Whatever the delimiter, decimal point, lines above and encoding, beside pandas, which wrote it."""
    frame = pd.DataFrame({"x": numbers, "größe": numbers[::-1], "kind": "ä"})
    text = ("a note\n" * above + written(frame, sep=sep, decimal=decimal)).encode(encoding)
    made = format_of(as_written(format_of("csv"), text))
    options = made.default_fragment_scan_options
    read = pyarrow.csv.read_csv(
        io.BytesIO(text), options.read_options, made.parse_options, options.convert_options
    ).to_pandas()
    assert [*read] == [*frame]
    pd.testing.assert_frame_equal(read, frame, check_dtype=False, rtol=1e-15)


def test_a_column_that_a_delimiter_at_the_end_of_each_line_makes_is_none(tmp_path):
    (tmp_path / "a.csv").write_text("x,kind,\n1,a,\n2,b,\n")
    source = scan(tmp_path / "a.csv", "kind")
    assert source.feature_names == ("x",)
    assert accumulate(source).n_rows == 2


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_the_types_are_those_of_the_first_file_with_rows(ending, tmp_path):
    """Spark writes a file for each partition, also for those without rows."""
    rows = {"csv": TEXT, "jsonl": FRAME.to_json(orient="records", lines=True)}[ending]
    none = {"csv": "width,n,kind\n", "jsonl": ""}[ending]
    for i, text in enumerate([none, rows, none, rows]):
        (tmp_path / f"{i}.{ending}").write_text(text)
    assert accumulate(scan(tmp_path, "kind")).n_rows == 80


def test_codes_with_leading_zeros_may_be_text(tmp_path):
    (tmp_path / "a.csv").write_text("zip,x,kind\n00501,1,a\n00501,2,b\n10001,3,b\n")
    source = scan(tmp_path / "a.csv", "kind", format="csv column_types={'zip': 'string'}")
    assert accumulate(source).schema.feature_names == ("x", "zip=00501", "zip=10001")


@pytest.mark.parametrize("n_before", [1, 40_000], ids=["first block", "later"])
def test_names_among_the_rows_are_told(n_before, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(TEXT + FRAME.to_csv(index=False, header=False) * (n_before // 40) + TEXT)
    with pytest.raises(ValueError, match="'width'.*names? .*again.*delete such lines"):
        GaussianNB().fit(scan(path, "kind"))


def test_a_line_with_fewer_values_is_told_with_its_number(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT + "Total: 40\n")
    with pytest.raises(ValueError, match=r"a\.csv.*number of values.*#42: Expected 3 columns, got 1: Total"):
        scan(tmp_path / "a.csv", "kind")
