"""Filters of a scan: the columns they refer to, what tells two of them apart, and what is wrong with one."""

import datetime
import operator
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from streamgda import accumulate, scan_parquet
from streamgda.data.sources.columns.expressions import ColumnExpression, Filter

COMPARISONS = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda one, others: one in others,
    "not in": lambda one, others: one not in others,
}

TABLE = pa.table({"u": np.arange(100.0), "id": np.arange(100), "y": np.arange(100) % 2})
MANY, OTHERS = list(range(0, 60, 2)), [*range(0, 20, 2), 21, *range(22, 60, 2)]


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "1.parquet", row_group_size=10)
    return tmp_path / "1.parquet"


def identity(filters, schema=TABLE.schema):
    return Filter.of(filters, schema).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("id", "in", MANY)], [("id", "in", OTHERS)]),
        (pc.field("id").isin(MANY), pc.field("id").isin(OTHERS)),
        ([("id", "in", [2, 4])], [("id", "in", [2, 5])]),
        ([("name", "in", ["x" * 200 + "a" + "x" * 200])], [("name", "in", ["x" * 200 + "b" + "x" * 200])]),
        ([("name", "in", ["a", "b"])], [("name", "in", ['a",\n  "b'])]),
        ([("id", "<", 2)], [("id", "<", 3)]),
    ],
)
def test_filters_that_let_other_rows_through_are_told_apart(one, other):
    schema = TABLE.schema.append(pa.field("name", pa.string()))
    assert identity(one, schema) == identity(one, schema)
    assert identity(one, schema) != identity(other, schema)


def of_column(expression, kind="int64"):
    return ColumnExpression(expression, pa.schema([("x", kind)])).identity


def test_expressions_with_one_text_and_other_answers_have_other_identities():
    x = pc.field("x")
    for one, other in [
        (x / 2, x / 2.0),
        ((x / 2) * 0.5, (x / 2.0) * 0.5),
        (x * pa.scalar(0.1, "float32"), x * 0.1),
        (x + pa.scalar(1, "int8"), x + 1),
        (pc.coalesce(x, pa.scalar(b"ab")), pc.coalesce(x, "6162")),
        (pc.if_else(x > 1, 1, pa.scalar(1, "duration[s]")), pc.if_else(x > 1, 1, 1)),
    ]:
        assert str(one) == str(other)
        assert of_column(one) != of_column(other), one
    assert of_column(x / 2, "double") == of_column(x / 2.0, "double") == str(x / 2)


def test_a_function_that_was_registered_with_arrow_is_refused_by_name():
    def tripled(context, values):
        return pc.multiply(values, 3)

    types = {"x": pa.int64()}, pa.int64()
    pc.register_scalar_function(tripled, "tripled_here", {"summary": "", "description": ""}, *types)
    expression = pc.field("x")._call("tripled_here", [pc.field("x")])
    with pytest.raises(TypeError, match=r"tripled_here\(x\) depends on the function 'tripled_here'"):
        of_column(expression)
    assert of_column(pc.field("x") == "tripled_here(x)") == '(x == "tripled_here(x)")'


@pytest.mark.slow
def test_the_identity_of_a_filter_is_the_same_in_every_process():
    code = f"""
import pyarrow as pa
from streamgda.data.sources.columns.expressions import ColumnExpression, Filter
schema = pa.schema([("id", "int64"), ("u", "float64")])
print(Filter.of([("id", "in", {MANY}), ("u", ">", 1 / 3)], schema).identity)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == identity([("id", "in", MANY), ("u", ">", 1 / 3)])


@pytest.mark.parametrize("filters", [[("id", "<", 5)], [("id", "in", MANY[:20])], pc.field("u") > 0.5])
def test_the_identity_of_a_short_filter_is_the_text_that_ledgers_hold(filters):
    expression = filters if isinstance(filters, pc.Expression) else pq.filters_to_expression(filters)
    assert identity(filters) == str(expression)


@pytest.mark.parametrize("value", [-1, 0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**70), 2**70])
@pytest.mark.parametrize("column", ["wide", "narrow", "real"])
def test_whole_numbers_of_any_size_are_compared(tmp_path, column, value):
    values = {
        "wide": [0, 1, 2**63, 2**64 - 1],
        "narrow": [-(2**31), -1, 1, 2**31 - 1],
        "real": [-1e30, 0, 1, 1e30],
    }
    types = {"wide": pa.uint64(), "narrow": pa.int32(), "real": pa.float64()}
    columns = {name: pa.array(those, types[name]) for name, those in values.items()}
    pq.write_table(pa.table({**columns, "u": [1.0, 2.0, 3.0, 4.0], "y": [0] * 4}), tmp_path / "1.parquet")
    known = [float(one) if column == "real" else one for one in values[column]]
    for name, compare in COMPARISONS.items():
        other = [value, 1] if name in {"in", "not in"} else value
        due = [u for u, one in zip((1.0, 2.0, 3.0, 4.0), known, strict=True) if compare(one, other)]
        source = scan_parquet(tmp_path, "y", features=["u"], filters=[(column, name, other)], missing="drop")
        tables = [table for split in source.splits() for table in split.tables()]
        assert [u for table in tables for u in table["u"].to_pylist()] == due, (name, other)


def test_zero_among_values_finds_rows_of_a_row_group_of_zeros(tmp_path):
    for x in ([0.0, 1.0, 2.0, 3.0], [-0.0, 0.0, 2.0, 3.0]):
        pq.write_table(pa.table({"x": x, "y": [0, 1] * 2}), tmp_path / "1.parquet", row_group_size=1)
        chosen = pc.field("x").isin([3.0, 0.0])
        n_rows = pq.read_table(tmp_path / "1.parquet").filter(chosen).num_rows
        assert accumulate(scan_parquet(tmp_path, "y", filters=chosen)).n_rows == n_rows


# ---------------------------------------------------------------------- the columns it refers to


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ([("c3", ">", 0)], ["c3"]),
        ([("c33", ">", 0), ("c3", "in", [1])], ["c3", "c33"]),
        (pc.field("s", "c1") > 0, ["s"]),
        (pc.field("t") == "c7", ["t"]),
        (pc.match_substring(pc.field("t"), "c7") | pc.field("c9").is_null(), ["c9", "t"]),
    ],
)
def test_only_the_columns_that_a_filter_refers_to_are_read(filters, names):
    fields = [(f"c{i}", pa.int64()) for i in range(5000)]
    schema = pa.schema([*fields, ("s", pa.struct([("c1", pa.int64())])), ("t", pa.string())])
    assert Filter.of(filters, schema).columns.names == names


def test_a_filter_takes_columns_by_name_and_not_by_position(path):
    for filters in (pc.field(0) > 1, (pc.field("id") > 3) & (pc.field(0) > 1)):
        with pytest.raises(ValueError, match="filters: columns go by name, not by position"):
            scan_parquet(path, "y", features=["u"], filters=filters)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ([("Uu", ">", 1)], "there is no column 'Uu'; did you mean 'u'?"),
        ([[("u", ">", 1)], [("idd", "<", 5)]], "there is no column 'idd'; did you mean 'id'?"),
        (pc.field("idd") > 1, "there is no column 'idd'; did you mean 'id'?"),
        ("u > 1", "u > 1: .*; a list of comparisons .* or a pyarrow expression, is needed"),
        ([("u", ">", 1), ("id",)], "('id',)]: .*; a list of comparisons .* is needed"),
        ([("u", ">", "a")], "[('u', '>', 'a')]: the types double, string do not go together"),
        ([("u", "~", 1)], "[('u', '~', 1)]: .* is not a valid operator in predicates.; .*"),
        (pc.field("u") > "a", """(u > "a"): the types double, string do not go together"""),
        *((filters, ".*") for filters in (5, [], [("u", "in", 5)], pc.field("u") + 1)),
    ],
)
def test_what_is_wrong_with_a_filter_is_told_in_its_own_words(path, filters, message):
    whole = ".*".join(map(re.escape, message.split(".*")))
    with pytest.raises(ValueError, match=f"^filters: .*{whole}$"):
        scan_parquet(path, "y", features=["u"], filters=filters)


DATES = pa.array([datetime.date(2026, 3, day) for day in range(1, 6)])


@pytest.mark.parametrize(
    "kind",
    [pa.date32(), pa.date64(), *map(pa.timestamp, ("s", "ns")), pa.timestamp("s", "Asia/Dhaka")],
    ids=str,
)
def test_texts_are_the_dates_that_they_are_compared_with(kind):
    table = pa.table({"day": DATES.cast(pa.timestamp("us")).cast(kind), "x": range(5)})
    for filters, expected in [
        ([("day", "<", "2026-03-03")], [0, 1]),
        ([("day", "<", "2026-03-03T12:00")], [0, 1, 2]),
        ([("day", "<", "2026-03-03T01:00:00.5+05:00")], [0, 1]),
        ([("day", "in", ["2026-03-03", datetime.date(2026, 3, 4), "2026-03-05T01:00"])], [2, 3]),
        ([("day", "not in", {"20260303"})], [0, 1, 3, 4]),
        ([[("day", "=", "2026-03-03")], [("x", "=", 0)]], [0, 2]),
    ]:
        assert table.filter(Filter.of(filters, table.schema).expression)["x"].to_pylist() == expected
    if kind == pa.date32():
        of_text, of_date = [("day", "<", "2026-03-03")], [("day", "<", datetime.date(2026, 3, 3))]
        assert identity(of_text, table.schema) == identity(of_date, table.schema)
    for other in ("soon", 20260303, True, ["2026-03-03", 5]):
        with pytest.raises(ValueError, match=r"^filters: column 'day' .* ISO 8601"):
            Filter.of([("day", "in" if isinstance(other, list) else "<", other)], table.schema)
    with pytest.raises(ValueError, match=r"do not go together; .*datetime\.date"):
        Filter.of(pc.field("day") < "2026-03-03", table.schema)


@pytest.mark.parametrize("zones", [(None, "UTC"), ("Asia/Dhaka", None), (None, "Asia/Dhaka", None)])
def test_times_with_and_without_a_zone_are_compared_in_utc(tmp_path, zones):
    noons = [datetime.datetime(2026, 3, day, 12, tzinfo=datetime.UTC) for day in range(1, 6)]
    for i, zone in enumerate(zones):
        times = pa.array([noon.replace(tzinfo=None) for noon in noons], pa.timestamp("ms"))
        table = pa.table({"t": times.cast(pa.timestamp("ms", zone)), "x": range(5), "y": ["a"] * 5})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=1)
    for value in ("2026-03-03T12:00", "2026-03-03T13:00+01:00", noons[2], noons[2].replace(tzinfo=None)):
        for comparison, given, expected in [(">=", value, 3), ("in", [value, noons[0]], 2), ("<", value, 2)]:
            source = scan_parquet(tmp_path, "y", features=["x"], filters=[("t", comparison, given)])
            assert accumulate(source).n_rows == expected * len(zones)


def test_a_file_whose_column_the_filter_cannot_compare_is_not_called_damaged(tmp_path):
    pq.write_table(TABLE, tmp_path / "1.parquet")
    pq.write_table(TABLE.set_column(1, "id", pa.array(list(map(str, range(100))))), tmp_path / "2.parquet")
    message = "2.parquet: filters: the types int64, string do not go together"
    with pytest.raises(ValueError, match=message) as raised:
        accumulate(scan_parquet(tmp_path, "y", features=["u"], filters=[("id", ">", 1)]))
    assert "damaged" not in str(raised.value)
    assert "kernel" not in str(raised.value)
