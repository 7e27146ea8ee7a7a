"""`accumulate_sql` returns the state that reading the rows gives, on each engine that is here."""

import sqlite3
import sys
from contextlib import closing
from decimal import Decimal
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

from streamgda import ClassStatistics, GaussianNB, accumulate, accumulate_sql, load, scan_arrow
from streamgda.cli.main import main
from streamgda.extensions.databases.connecting import connected
from streamgda.models.estimators.dialects import DIALECTS
from tests.models.estimators.engines import ALL, OPENED, postgres

NAMES = ["a", 'a "quoted" name', "select", "back\\slash", "50%", "it's", "a`b", "é"]
WITHOUT_BOOLS = {"sqlite", "mysql"}
LABELS = [["it's", 'a "b"', "back\\slash", "100%", "a", "A", "a ", "ß\n"], range(-3, 5000), [True, False]]


def random_table(seed, n_features=None, n_classes=None):
    """A table with odd names and labels, far and constant columns; with holes, and with weights, at times."""
    rng = np.random.default_rng(seed)
    n_features = n_features or int(rng.choice([2, 3, 5, 9]))
    labels = LABELS[seed % 3] if n_classes is None else range(n_classes)
    labels = list(labels)[: n_classes or 1 + int(rng.integers(8))]
    n_rows = int(rng.integers(2, 300)) + len(labels)
    y = rng.integers(len(labels), size=n_rows)
    spread = 10.0 ** rng.integers(-3, 3, n_features)
    offset = rng.choice([0, 1, 1e3, 1e9], n_features) * rng.choice([-1, 1])
    X = (rng.normal(size=(n_rows, n_features)) + rng.choice([0, 1, 1e4]) * y[:, None]) * spread + offset
    X[:, 0] = np.round(X[:, 0]) if seed % 2 else offset[0]
    columns = {(NAMES[k] if k < len(NAMES) else f"x{k}"): pa.array(X[:, k]) for k in range(n_features)}
    y, holes = [labels[k] for k in y], rng.random((n_rows, 2)) < 0.05
    if seed % 4 > 1:
        for name, hole in zip(list(columns)[:2], holes.T, strict=True):
            values = columns[name].to_pylist()
            odd = [None, np.nan, np.inf, -np.inf]
            columns[name] = pa.array([odd[k % 4] if hole[k] else value for k, value in enumerate(values)])
        y = [None if rng.random() < 0.05 else label for label in y]
    weight = rng.choice([0.0, 0.25, 1.0, 3.0, 1e3], n_rows) if seed % 5 < 2 else None
    table = pa.table({**columns, "the y": y, **({} if weight is None else {"w": weight})})
    return table, {"weight": None if weight is None else "w", "missing": "drop" if seed % 4 > 1 else "raise"}


def check(dialect, table, how, kind):
    options = {name: value for name, value in how.items() if value is not None}
    expected = accumulate(scan_arrow(table, "the y", **options), kind, scheduler="synchronous")
    with OPENED[dialect](table, "Asia/Tokyo") as connection:
        state = accumulate_sql(connection, "rows", "the y", covariance_type=kind, **how)
    if dialect in WITHOUT_BOOLS and expected.classes.dtype == bool:
        expected = expected.relabel({label: int(label) for label in expected.classes.tolist()})
    assert type(state) is ClassStatistics
    assert state.classes.dtype == expected.classes.dtype
    assert state.allclose(expected, rtol=1e-12)
    assert state.n_dropped == expected.n_dropped
    np.testing.assert_allclose(state.effective_counts, expected.effective_counts, rtol=1e-12)


@pytest.mark.parametrize("dialect", ALL)
def test_the_state_is_that_of_reading_the_rows(dialect):
    for seed in range(20):
        check(dialect, *random_table(seed), ["full", "tied", "diag"][seed % 3])


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [name for name in OPENED if name != "spark"])  # which compiles too long
def test_many_random_tables_wide_ones_and_many_classes(dialect):
    for seed in range(20, 60):
        check(dialect, *random_table(seed), ["full", "tied", "diag"][seed % 3])
    check(dialect, *random_table(4, n_features=200), "full")  # 20,100 products, in 21 statements
    check(dialect, *random_table(0, n_features=4, n_classes=5000), "tied")


@pytest.mark.parametrize("dialect", ALL)
def test_dates_bools_and_decimals_are_numbers(dialect):
    when = pd.Timestamp("2026-03-01T23:58:00") + pd.to_timedelta(np.arange(60) ** 2, unit="s")
    frame = pd.DataFrame({"when": when, "day": when.date, "flag": np.arange(60) % 7 < 3})
    table = pa.table(frame).append_column("y", [np.arange(60) % 2])
    cents = pa.array([Decimal(k) / 100 for k in range(60)], pa.decimal128(9, 2))
    table = table if dialect == "sqlite" else table.append_column("cents", cents)
    expected = accumulate(scan_arrow(table, "y"), scheduler="synchronous")
    if dialect == "sqlite":
        frame = frame.assign(when=frame["when"].map(str), day=frame["day"].map(str), y=np.arange(60) % 2)
    with OPENED[dialect](frame if dialect == "sqlite" else table, "Asia/Tokyo") as connection:
        state = accumulate_sql(connection, f"SELECT * FROM {DIALECTS[dialect].table('rows')}", "y")
    assert state.schema.dates == ("when", "day")
    assert state.allclose(expected, rtol=1e-5 if dialect == "sqlite" else 1e-9)
    assert (state + expected).n_rows == 120


@pytest.mark.parametrize("dialect", ALL)
def test_errors_name_columns(dialect):
    table = pa.table(
        {"a": [1.0, None, 2.0, 4.0], "town": ["x", "y", "x", "y"], "y": [1, 1, 0, None], "w": [1.0, 1, -1, 1]}
    )
    with OPENED[dialect](table, "UTC") as connection:
        query = f"SELECT * FROM {DIALECTS[dialect].table('rows')}"
        learn = partial(accumulate_sql, connection, f"{query} -- all\n;", "y", features=["a"])
        with pytest.raises(ValueError, match=r"in column 'y' 1 row, 'a' 1 row\. Mend"):
            learn()
        assert learn(missing="drop").counts.tolist() == [1, 1]
        assert learn(missing="drop").n_dropped == 2
        with pytest.raises(ValueError, match="'w' is negative or infinite in 1 row of class 0"):
            learn(missing="drop", weight="w")
        with pytest.raises(ValueError, match=r"'town' is of the type .*accumulate\(scan_arrow"):
            learn(features=["a", "town"])
        with pytest.raises(ValueError, match=r"got 'marginal'.*accumulate\(scan_arrow"):
            learn(missing="marginal")
        for options, message in (
            ({"features": ["b"]}, "there is no column 'b'"),
            ({"features": ["a", "y"]}, "'y' is the target and cannot be a feature too"),
            ({"features": ["a", "w"], "weight": "w"}, "'w' is the weight and cannot be a feature too"),
            ({"weight": "y"}, "cannot be both target and weight"),
        ):
            with pytest.raises(ValueError, match=message):
                learn(**options)
        with pytest.raises(ValueError, match="nothing to accumulate"):
            accumulate_sql(connection, f"{query} WHERE 1 = 0", "y", features=["a", "w"])
        with pytest.raises(ValueError, match="dialect must be one of"):
            learn(dialect="oracle")


def filled(scheme, folder, table):
    """The URL of a database with these rows in a table `rows`, written by another driver."""
    path = folder / "a b#é.db"
    if scheme == "duckdb":
        with duckdb.connect(path) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE rows AS FROM given")
    elif scheme == "sqlite":
        with closing(sqlite3.connect(path)) as connection:
            table.to_pandas().to_sql("rows", connection, index=False)
    else:
        with OPENED["postgres"](table, "Asia/Tokyo") as connection:
            connection.execute("ALTER TABLE rows ALTER kind TYPE NUMERIC(9, 2)")
            return f"postgresql:///postgres?user=test&host={connection.info.host}"
    return f"{scheme}://{path}"


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite", "postgresql"])
def test_a_url_is_opened_to_read_and_commands_take_it(scheme, tmp_path, monkeypatch):
    adbc = pytest.importorskip(f"adbc_driver_{scheme}.dbapi")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)) + 1e6, np.arange(200) % 3
    X[3, 0] = np.nan
    columns = {"a": X[:, 0], "it's": X[:, 1], "w": 0.5 + y, "extra": [*"ab"] * 100, "kind": y}
    table = pa.table(columns)
    url = filled(scheme, tmp_path, table)
    how = {"features": ["a", "it's"], "weight": "w", "missing": "drop"}
    expected = accumulate(scan_arrow(table, "kind", **how), scheduler="synchronous")
    words = ["--sql", url, "--target", "kind", "--out", "model.parquet", "--features", "a,it's", "--quiet"]
    words += ["--weight", "w"]
    for data in ("rows", "SELECT * FROM rows"):
        assert CliRunner().invoke(main, ["fit", data, *words]).stderr.startswith("Error: values are missing")
        said = CliRunner().invoke(main, ["fit", data, *words, "--missing", "drop"])
        assert (said.exit_code, said.stderr) == (0, "")
        assert load("model.parquet").statistics_.allclose(expected, rtol=1e-12)
    with connected(url) as connection, pytest.raises(adbc.Error), closing(connection.cursor()) as cursor:
        cursor.execute("DELETE FROM rows")
    for data, more, code, message in (
        ("none", [], 1, "none"),
        ("rows", ["--filter", "a>1", "--test", "0.2"], 2, "--sql takes no --filter, --test"),
        ("rows", ["--model", "mda"], 2, "needs more than the sums of a database"),
        ("rows", ["--missing", "marginal"], 1, "missing is 'raise' or 'drop' in a database"),
    ):
        said = CliRunner().invoke(main, ["fit", data, *words, *more])
        assert (said.exit_code, message in said.stderr, said.stderr.count("\n")) == (code, True, 1), (
            said.stderr
        )


def test_a_url_sees_one_moment(tmp_path):
    pytest.importorskip("adbc_driver_postgresql")
    url = filled("postgresql", tmp_path, pa.table({"a": [1.0, 2.0], "kind": [0, 0]}))
    with connected(url) as connection, closing(connection.cursor()) as cursor:
        for _ in range(2):
            cursor.execute("SELECT COUNT(*) FROM rows")
            assert cursor.fetchall() == [(2,)]
            postgres().execute("INSERT INTO rows VALUES (3.0, 1)")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("oracle://me:secret@host/x", "oracle://host/x is no URL .* accumulate_sql takes a connection"),
        ("rows.duckdb", "no URL of a database"),
        ("sqlite://none.db", "none.db"),
    ],
)
def test_what_is_no_database_is_one_error(url, message):
    pytest.importorskip("adbc_driver_sqlite")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        accumulate_sql(url, "rows", "y")


def test_a_driver_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_manager.dbapi", None)
    with pytest.raises(ImportError, match="pip install adbc-driver-postgresql"):
        accumulate_sql("postgres://host/database", "rows", "y")


class Own(sqlite3.Connection):
    """A connection that does not tell its database."""


def test_what_is_no_connection_or_tells_too_little():
    with pytest.raises(TypeError, match=r"object is no connection.*raw_connection\(\)"):
        accumulate_sql(object(), "rows", "y")
    with closing(sqlite3.connect(":memory:", factory=Own)) as connection:
        with pytest.raises(ValueError, match="name it by dialect="):
            accumulate_sql(connection, "rows", "y")
        connection.row_factory = lambda cursor, row: {"a": row}
        with pytest.raises(TypeError, match="return dicts"):
            accumulate_sql(connection, "SELECT 1 AS a, 2 AS y", "y", dialect="sqlite")


@pytest.mark.parametrize(
    ("dialect", "rows"), [("duckdb", "range(10) t(i)"), ("postgres", "generate_series(0, 9) t(i)")]
)
def test_an_infinite_date_is_missing(dialect, rows):
    day = "CAST(CASE WHEN i < 8 THEN CONCAT('2026-01-0', i + 1) ELSE '-infinity' END AS DATE)"
    with OPENED[dialect](pa.table({"y": [1]}), "UTC") as connection:
        learn = partial(accumulate_sql, connection, f"SELECT i % 2 AS y, {day} AS a FROM {rows}", "y")
        with pytest.raises(ValueError, match="'a' 2 rows"):
            learn()
        state = learn(missing="drop")
        assert (state.means.ravel().tolist(), state.n_dropped) == ([20457, 20458], 2)
        answer = GaussianNB.from_statistics(state).to_sql("days", dialect).removeprefix("WITH ")
        found = connection.execute(f"WITH days AS (SELECT {day} AS a FROM {rows}), {answer}").fetchall()
        assert [row[0] is None for row in found] == [False] * 8 + [True] * 2


def test_numbers_near_the_ends_of_float64():
    with duckdb.connect() as connection:
        query = "SELECT i % 2 AS y, {} * i AS a, i AS b FROM range(20) t(i)"
        with pytest.raises(ValueError, match="the features are too large"):
            accumulate_sql(connection, query.format("9e306"), "y")
        state = accumulate_sql(connection, query.format("1e-160"), "y")
        np.testing.assert_allclose(state.means, [[0, 9], [0, 10]], rtol=1e-14, atol=1e-153)


MANY = """
    WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 1999)
    SELECT {columns}, i % 8 AS y FROM n WHERE {where}
"""


@pytest.mark.parametrize("n_features", [2, 45])
def test_statements(n_features):
    """Rows far from zero are read once; of a tied scatter comes one for all classes; changes are noticed."""
    columns = ", ".join(f"1e6 + i * {k + 2} % 31 AS x{k}" for k in range(n_features))
    fetched, asked = [], []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = lambda cursor, row: fetched.append(len(row)) or row
        connection.set_trace_callback(asked.append)
        learn = partial(accumulate_sql, connection, target="y", covariance_type="tied")
        learn(MANY.format(columns=columns, where=1))
        assert sum("GROUP BY" in statement for statement in asked) == 1
        assert sum(fetched) < 8 * 60 + 2 * n_features**2
        far = columns.replace("1e6", "1e6 * (i % 8)")
        for changes in ("RANDOM() % 2 = 0",) if n_features > 43 else ():
            with pytest.raises(ValueError, match="changed between two statements"):
                learn(MANY.format(columns=columns, where=changes))
        with pytest.raises(ValueError, match="changed between two statements"):
            learn(MANY.format(columns=far, where="RANDOM() % 2 = 0"))
