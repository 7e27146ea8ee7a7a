"""What learning in a database costs beside reading its rows, in PostgreSQL and DuckDB.

Run as ``python -m bench.sql``. PostgreSQL is a server of its own with one process a query, whose processor
time /proc tells; DuckDB runs in the process of the client. What crosses are the messages of rows of
PostgreSQL's protocol, and the columns of Arrow or the numbers that DuckDB hands over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bench import report
from bench.arguments import parser_of
from streamgda import ClassStatistics, accumulate, accumulate_sql, scan_arrow
from tests.models.estimators.engines import postgres

_TICKS = os.sysconf("SC_CLK_TCK")


def counting_cursor(sizes: list[int]) -> type[Any]:
    """A cursor of psycopg that notes how many bytes the server has sent of the rows."""
    from psycopg import Cursor

    class Counting(Cursor[Any]):
        def fetchall(self) -> Any:
            result = self.pgresult
            for i in range(result.ntuples):
                values = (result.get_value(i, j) or b"" for j in range(result.nfields))
                sizes.append(7 + sum(4 + len(value) for value in values))
            return super().fetchall()

    return Counting


def rows_of_postgres(connection: Any) -> ClassStatistics:
    """The state of the rows that psycopg fetches."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM bench")
        *columns, y = zip(*cursor.fetchall(), strict=True)
    return ClassStatistics().update(np.array(columns).T, np.array(y))


def measured(run: Callable[[], Any], repeats: int, server: Path | None) -> tuple[str, str, str]:
    """Seconds, and the processor time of client and server."""
    found = []
    for _ in range(repeats):
        before = time.perf_counter(), time.process_time(), _processor_time(server)
        run()
        after = time.perf_counter(), time.process_time(), _processor_time(server)
        found.append([late - early for early, late in zip(before, after, strict=True)])
    seconds, client, served = (median(column) for column in zip(*found, strict=True))
    return f"{seconds:.2f}", f"{client:.2f}", f"{served:.2f}" if server else ""


def _processor_time(server: Path | None) -> float:
    if server is None:
        return 0.0
    fields = server.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def main() -> None:
    """Learn the same rows in all ways, and print the table."""
    options = parser_of(__doc__, rows=200_000, features=10, classes=10, repeats=3).parse_args()
    rng = np.random.default_rng(0)
    y = rng.integers(options.classes, size=options.rows)
    X = rng.normal(size=(options.rows, options.features)) + y[:, None]
    numbers = pa.table({**{f"x{k}": X[:, k] for k in range(options.features)}, "y": y})
    expected, rows = accumulate(scan_arrow(numbers, "y")), []
    with duckdb.connect() as database:
        database.execute("SET threads = 1; CREATE TABLE bench AS FROM numbers")
        ways = {
            "rows as Arrow": lambda: accumulate(
                scan_arrow(database.execute("FROM bench").to_arrow_reader(), "y"), scheduler="synchronous"
            ),
            "accumulate_sql": lambda: accumulate_sql(database, "bench", "y"),
        }
        sizes = {"rows as Arrow": numbers.nbytes, "accumulate_sql": 8 * _n_sums(expected)}
        for name, run in ways.items():
            assert run().allclose(expected, rtol=1e-10)
            rows.append((f"DuckDB: {name}", *measured(run, options.repeats, None), _size(sizes[name])))
    if (server := postgres()) is not None:
        names = ", ".join(f"x{k} DOUBLE PRECISION" for k in range(options.features))
        server.execute(f"CREATE TEMP TABLE bench ({names}, y BIGINT)")
        server.execute("SET max_parallel_workers_per_gather = 0")
        with server.cursor() as cursor, cursor.copy("COPY bench FROM STDIN") as copy:
            for row in zip(*numbers.to_pydict().values(), strict=True):
                copy.write_row(row)
        place = Path(f"/proc/{server.info.backend_pid}/stat")
        for name, learn in (
            ("rows by psycopg", rows_of_postgres),
            (
                "accumulate_sql",
                lambda connection: accumulate_sql(connection, "bench", "y", dialect="postgres"),
            ),
        ):
            ordinary, sent = server.cursor_factory, list[int]()
            server.cursor_factory = counting_cursor(sent)
            assert learn(server).allclose(expected, rtol=1e-10)
            server.cursor_factory = ordinary
            times = measured(lambda learn=learn: learn(server), options.repeats, place)
            rows.append((f"PostgreSQL: {name}", *times, _size(sum(sent))))
    headers = ["way to learn", "s", "processor s of the client", "of the server", "kB that cross"]
    title = f"{options.rows:,} × {options.features} float64, {options.classes} classes, one thread"
    report.publish("sql", title, report.table(headers, rows), report.Goals([]), keep=not options.print_only)


def _n_sums(state: ClassStatistics) -> int:
    """The numbers of an answer: a row for each class, of its label, four totals, and sums."""
    d = state.n_features
    return len(state.classes) * (5 + d + d * (d + 1) // 2)


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e3:,.1f}"


if __name__ == "__main__":
    main()
