"""Databases that run a SELECT over the rows of a table: a new one is a function and a line in `OPENED`."""

import atexit
import getpass
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from streamgda.extensions.databases.learning import answered


def arrow_of(table):
    return table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)


@contextmanager
def opened_duckdb(table, zone):
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone='{zone}'")
        connection.register("rows", table)
        yield connection


@contextmanager
def opened_sqlite(table, zone):
    """Dates are text here, and no zone of the session matters."""
    frame = table.to_pandas() if isinstance(table, pa.Table) else table
    with closing(sqlite3.connect(":memory:")) as connection:
        frame.to_sql("rows", connection, index=False)
        yield connection


@cache
def postgres():
    """A connection to a server of its own, whose files are deleted in the end."""
    programs = [shutil.which("initdb"), *map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    if not (found := [one for one in programs if one]):
        return None
    psycopg = pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="postgres"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    who = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "nobody")
        who = {"user": "nobody", "extra_groups": []}
    control = [Path(found[-1]).with_name("pg_ctl"), "-D", folder / "data", "-w", "-l", folder / "log"]
    options = f"-F -k {folder} -c listen_addresses=''"
    for words in (["initdb", "-o", "-A trust -U test --no-sync -E UTF8"], ["start", "-o", options]):
        subprocess.run([*control, *words], check=True, cwd=folder, stdout=subprocess.DEVNULL, **who)
    atexit.register(
        subprocess.run, [*control, "stop", "-m", "immediate"], cwd="/", capture_output=True, **who
    )
    options = {"autocommit": True, "prepare_threshold": None}  # a statement would keep the types of a table
    return psycopg.connect(host=str(folder), dbname="postgres", user="test", **options)


POSTGRES_TYPES = {
    "double": "DOUBLE PRECISION", "float": "REAL", "int64": "BIGINT", "bool": "BOOLEAN", "string": "TEXT",
    "large_string": "TEXT", "date32[day]": "DATE", "null": "TEXT", "list<element: double>": "FLOAT8[]",
    "decimal128(9, 2)": "NUMERIC(9, 2)", True: "TIMESTAMP", False: "TIMESTAMPTZ",
}  # fmt: skip
OFFSETS = {"UTC": "+00:00", "Asia/Tokyo": "+09:00", "America/New_York": "-05:00"}
MYSQL_TYPES = POSTGRES_TYPES | {"float": "FLOAT", True: "DATETIME(6)", False: "DATETIME(6)"}


def create(connection, table, types, quote):
    """Create a table `rows` with these rows, in types by those of Arrow, or by whether times have no zone."""
    table = arrow_of(table)
    names = [quote + name.replace(quote, 2 * quote) + quote for name in table.column_names]
    kinds = [one.tz is None if pa.types.is_timestamp(one) else str(one) for one in table.schema.types]
    columns = ", ".join(f"{name} {types[kind]}" for name, kind in zip(names, kinds, strict=True))
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {quote}rows{quote}")
        cursor.execute(f"CREATE TABLE {quote}rows{quote} ({columns})")
        places = ", ".join(["%s"] * len(names))
        rows = [*zip(*table.to_pydict().values(), strict=True)]
        cursor.executemany(f"INSERT INTO {quote}rows{quote} VALUES ({places})", rows)


@contextmanager
def opened_postgres(table, zone):
    if (connection := postgres()) is None:
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    connection.execute(f"SET TIME ZONE '{zone}'")
    create(connection, table, POSTGRES_TYPES, '"')
    yield connection


@cache
def mysql():
    """A connection to a server of MariaDB of its own, whose files are deleted in the end."""
    if shutil.which("mariadb-install-db") is None:
        return None
    pymysql = pytest.importorskip("pymysql")
    folder = Path(tempfile.mkdtemp(prefix="mariadb"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    who = ["--no-defaults", f"--datadir={folder}/data", f"--user={getpass.getuser()}"]
    install = ["mariadb-install-db", *who, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(install, check=True, capture_output=True)
    server = ["mariadbd", *who, f"--socket={folder}/socket", "--skip-networking", f"--pid-file={folder}/pid"]
    process = subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.kill)
    for _ in range(300):
        if Path(folder, "socket").exists():
            break
        time.sleep(0.1)
    connection = pymysql.connect(
        unix_socket=f"{folder}/socket", user="root", autocommit=True, charset="utf8mb4"
    )
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE test CHARACTER SET utf8mb4")
    connection.select_db("test")
    return connection


@contextmanager
def opened_mysql(table, zone):
    """NaN and infinity are no numbers here, and times have no zone."""
    if (connection := mysql()) is None:
        pytest.skip("MariaDB is not installed: there is no mariadb-install-db")
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
    create(connection, without_odd_numbers(arrow_of(table)), MYSQL_TYPES, "`")
    with connection.cursor() as cursor:
        cursor.execute(f"SET time_zone = '{OFFSETS[zone]}'")
    yield connection


def without_odd_numbers(table):
    """NULL in place of NaN and infinity, and times in UTC."""
    for name in table.column_names:
        column, place = table[name], table.column_names.index(name)
        if pa.types.is_floating(column.type):
            values = [None if one is None or not np.isfinite(one) else one for one in column.to_pylist()]
            table = table.set_column(place, name, pa.array(values, column.type))
        elif pa.types.is_timestamp(column.type) and column.type.tz:
            table = table.set_column(place, name, column.cast(pa.timestamp("us", "UTC")))
    return table


@contextmanager
def opened_datafusion(table, zone):
    datafusion = pytest.importorskip("datafusion")
    session = datafusion.SessionContext()
    session.from_arrow(arrow_of(table), name="rows")
    yield session


@contextmanager
def opened_clickhouse(table, zone):
    chdb = pytest.importorskip("chdb.dbapi")
    rows = arrow_of(table)  # noqa: F841 - which Python(rows) finds
    with closing(chdb.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("DROP TABLE IF EXISTS rows")
        cursor.execute("CREATE TABLE rows ENGINE = Memory AS SELECT * FROM Python(rows)")
        yield connection


@cache
def spark():
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = session.config("spark.sql.timestampType", "TIMESTAMP_NTZ")  # of columns without a zone
    return session.config("spark.sql.shuffle.partitions", "1").getOrCreate()


@contextmanager
def opened_spark(table, zone):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark is not installed: there is no java")
    spark().conf.set("spark.sql.session.timeZone", zone)
    spark().createDataFrame(arrow_of(table)).createOrReplaceTempView("rows")
    yield spark()


OPENED = {
    "duckdb": opened_duckdb,
    "sqlite": opened_sqlite,
    "postgres": opened_postgres,
    "datafusion": opened_datafusion,
    "clickhouse": opened_clickhouse,
    "mysql": opened_mysql,
    "spark": opened_spark,
}
"""A connection to a database with a table `rows`, by dialect: Arrow or a frame goes in."""


def answers(dialect, query, table, zone="UTC"):
    """What a SELECT returns over a table `rows`, as tuples."""
    with OPENED[dialect](table, zone) as connection:
        return list(map(tuple, answered(connection, query)[1]))


ENGINES = {dialect: partial(answers, dialect) for dialect in OPENED}
in_duckdb, in_sqlite = ENGINES["duckdb"], ENGINES["sqlite"]

SLOW = {"clickhouse", "mysql", "spark"}
ALL = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ENGINES]
