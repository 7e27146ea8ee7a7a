"""Databases that run a SELECT over the rows of a table: a new one is a function and a line in `OPENED`."""

import atexit
import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path

import duckdb
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
    return psycopg.connect(host=str(folder), dbname="postgres", user="test", autocommit=True)


POSTGRES_TYPES = {
    "double": "DOUBLE PRECISION", "float": "REAL", "int64": "BIGINT", "bool": "BOOLEAN", "string": "TEXT",
    "large_string": "TEXT", "date32[day]": "DATE", "null": "TEXT", "list<element: double>": "FLOAT8[]",
}  # fmt: skip


@contextmanager
def opened_postgres(table, zone):
    if (connection := postgres()) is None:
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    table = arrow_of(table)
    names = ['"' + name.replace('"', '""') + '"' for name in table.column_names]
    dates = {True: "TIMESTAMP", False: "TIMESTAMPTZ"}
    types = [
        dates[one.tz is None] if pa.types.is_timestamp(one) else POSTGRES_TYPES[str(one)]
        for one in table.schema.types
    ]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    connection.execute(
        f"SET TIME ZONE '{zone}'; DROP TABLE IF EXISTS rows; CREATE TABLE \"rows\" ({columns})"
    )
    with connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(names))
        cursor.executemany(
            f'INSERT INTO "rows" VALUES ({places})', [*zip(*table.to_pydict().values(), strict=True)]
        )
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
    "spark": opened_spark,
}
"""A connection to a database with a table `rows`, by dialect: Arrow or a frame goes in."""


def answers(dialect, query, table, zone="UTC"):
    """What a SELECT returns over a table `rows`, as tuples."""
    with OPENED[dialect](table, zone) as connection:
        return list(map(tuple, answered(connection, query)[1]))


ENGINES = {dialect: partial(answers, dialect) for dialect in OPENED}
in_duckdb, in_sqlite = ENGINES["duckdb"], ENGINES["sqlite"]

DIALECTS = [pytest.param(name, marks=pytest.mark.slow) if name == "spark" else name for name in ENGINES]
