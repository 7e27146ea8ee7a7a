"""`accumulate_sql`: the statistics of a table, of which only sums leave the database.

A statement sums up Σ w, Σ w (x − p) and Σ w (x − p)(x − p)ᵀ by class, about a pivot p that is near the rows:
the mean of the first ones. Where a class is more than ten deviations from it, the sums are asked for again
about the mean of each class. So the scatter loses no more than two of the sixteen digits of float64.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamgda.data.blocks.labels import Labels, as_labels, is_missing, no_labels
from streamgda.data.blocks.wording import counted, listed
from streamgda.data.sources.columns.choosing import choose_roles
from streamgda.extensions.databases.connecting import connected
from streamgda.models.estimators.dialects import DIALECTS, Dialect, joined, number
from streamgda.statistics.covariances import CovarianceType, kind_named
from streamgda.statistics.floating.moments import two_sum
from streamgda.statistics.floating.state import ClassStatistics

Array = NDArray[np.float64]
_Terms: TypeAlias = Sequence[tuple[tuple[int, ...], str]]

_ROWS_OF_PIVOT = 1000
_FAR = 100.0  # the square of as many deviations as a class may be from the pivot
_LEAST = number(1e-153)  # smaller deviations count as 0: their squares underflow, an error in Postgres
_SELECT = re.compile(r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|from|values)\b.*\s", re.I | re.S)
_KINDS = {
    "bool": r"(nullable\()?bool",
    "date": r"(nullable\()?(date|timestamp|(7|10|12)$)",
    "number": r"(nullable\()?(u?(tiny|small|medium|big|huge)?int(eger)?\d*|float\d*|double|real|halffloat|"
    r"decimal\d*|numeric|number|bignumeric|[0-5]|8|9|13|246)( precision)?(\(.*\))?(\[[a-z]+\d*\])?\)?$",
}
"""Types as databases, Arrow and, by numbers, MySQL's protocol name them."""
_TIMESTAMP_OF_MYSQL = "7"  # shown in the zone of the session, as no other of its dates
_OF_MODULES = {
    **{name: name for name in ("duckdb", "sqlite", "snowflake", "bigquery", "datafusion")},
    **dict.fromkeys(("psycopg", "pg8000", "asyncpg", "postgres"), "postgres"),
    **dict.fromkeys(("mysql", "mariadb"), "mysql"),
    **dict.fromkeys(("clickhouse", "chdb"), "clickhouse"),
    **dict.fromkeys(("spark", "databricks"), "spark"),
}
_READ_ROWS = (
    "or read the rows: accumulate(scan_arrow(...)) learns categories, lists, maps and incomplete rows"
)


def accumulate_sql(
    connection: Any,
    query: str,
    target: str,
    *,
    features: Sequence[str] | None = None,
    covariance_type: CovarianceType = "full",
    weight: str | None = None,
    missing: str = "raise",
    dialect: str | None = None,
) -> ClassStatistics:
    """Return the statistics of a table in a database, which sums them up itself. No rows leave it.

    The state is that of `accumulate` up to rounding, and merges with others. The statements only read, in the
    transaction of the connection if it has begun one. There are one or two after those for types and a pivot,
    and more if a state has more than 1,000 numbers a class.

    Parameters
    ----------
    connection
        A connection of DB-API 2.0 or ADBC, or a session with a method ``sql`` (Spark, DataFusion). Or a URL,
        which ADBC opens to read: ``postgresql://user@host/database``, ``sqlite://`` or ``duckdb://`` with the
        path of a file.
    query : str
        The name of a table, with points between schemas and tables, or a SELECT.
    target : str
        The column of labels.
    features : sequence of str, optional
        The columns of features: numbers, bools and dates, which become days since 1970 in UTC. By default all
        columns but the target and the weight.
    covariance_type : {"full", "tied", "diag"}, default="full"
        What to keep of the scatter within the classes; see `ClassStatistics`.
    weight : str, optional
        The column of weights. Rows of weight 0 are left out.
    missing : {"raise", "drop"}, default="raise"
        Whether a row with NULL, NaN or infinity, or without a label or a weight, is an error, or left out and
        counted.
    dialect : str, optional
        What the database speaks, as of `to_sql`. By default the connection tells it.

    Raises
    ------
    TypeError
        If this is no connection, or its cursors return dicts.
    ImportError, FileNotFoundError
        If the driver for a URL is not installed, or its file does not exist.
    ValueError
        If the dialect is not known, a column is missing or cannot be summed up, a value is missing, a weight
        is negative or infinite, or the table changes between two statements.

    Examples
    --------
    >>> import sqlite3
    >>> from streamgda import accumulate_sql
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE fish AS SELECT 1 AS size, 'cod' AS kind UNION SELECT 3, 'cod'")
    >>> accumulate_sql(connection, "SELECT size, kind FROM fish WHERE size < 9", "kind").means
    array([[2.]])
    >>> connection.close()
    """
    if missing not in ("raise", "drop"):
        raise ValueError(
            f"missing is 'raise' or 'drop' in a database; got {missing!r}. Take one, {_READ_ROWS}"
        )
    if not (isinstance(connection, str) or hasattr(connection, "cursor") or hasattr(connection, "sql")):
        raise TypeError(
            f"{type(connection).__name__} is no connection of DB-API 2.0 or ADBC, nor a session or a URL; "
            "SQLAlchemy has one, engine.raw_connection()"
        )
    with connected(connection) if isinstance(connection, str) else nullcontext(connection) as opened:
        dialect = _dialect_of(opened) if dialect is None else dialect
        if dialect not in DIALECTS:
            raise ValueError(f"dialect must be one of {listed(list(DIALECTS))}; got {dialect!r}")
        rows = _rows_of(opened, DIALECTS[dialect], query, target, features, weight)
        return _state_of(rows, covariance_type, missing)


def _state_of(rows: _Rows, covariance_type: CovarianceType, missing: str) -> ClassStatistics:
    kind = kind_named(covariance_type)
    i, j = kind.pairs(len(rows.names))
    ask = partial(rows.sums, list(zip(i.tolist(), j.tolist(), strict=True)), pooled=kind.is_pooled)
    sums = ask()
    if missing == "raise" and sums.n_dropped:
        raise rows.missing_values()
    if not len(sums.classes):
        raise ValueError(
            "there is nothing to accumulate: the query has no rows that count "
            f"({sums.n_dropped} dropped, all others of weight zero)"
        )
    if not (np.isfinite(sums.firsts).all() and np.isfinite(sums.products).all()):
        raise ValueError("the features are too large: their squares exceed float64. Rescale them first")
    if sums.are_far(i == j, pooled=kind.is_pooled):
        again = ask(about_classes=True)
        _check_unchanged(sums.counts, again.counts)
        sums = replace(again, n_dropped=sums.n_dropped)
    products = sums.products.sum(axis=0, keepdims=True) if kind.is_pooled else sums.products
    weights = {"weights": sums.totals[:, 1], "squared_weights": sums.totals[:, 2]} if rows.weight else {}
    about = ClassStatistics.from_sums(
        sums.classes,
        sums.totals[:, 0].astype(np.int64),
        sums.firsts,
        kind.unpacked(products, *sums.firsts.shape),
        covariance_type=covariance_type,
        feature_names=rows.names,
        **weights,
    )
    columns, metadata = about.to_columns()
    columns["mean"], columns["mean_tail"] = two_sum(sums.pivots, columns["mean"])
    return ClassStatistics.from_columns(
        columns, {**metadata, "n_dropped": sums.n_dropped, "dates": rows.dates}
    )


def _check_unchanged(counts: Array, others: Array) -> None:
    """ValueError if two statements have not seen the same numbers of rows."""
    if not np.array_equal(counts, others):
        raise ValueError(
            "the table has changed between two statements: their counts differ. Begin a transaction "
            "that sees no changes of others (REPEATABLE READ), or sum up a copy"
        )


@dataclass(frozen=True)
class _Sums:
    """Σ w (x − p) and Σ w (x − p)(x − p)ᵀ of the classes, about a pivot p of each class."""

    classes: Labels
    totals: Array  # (K, 3): the number of rows, Σ w, Σ w²
    firsts: Array  # (K, d)
    products: Array  # (K, pairs); or (1, pairs), of all classes
    pivots: Array  # (K, d)
    n_dropped: int

    counts = property(lambda self: self.totals[:, 0])

    def are_far(self, squares: NDArray[np.bool_], *, pooled: bool) -> bool:
        """Whether digits of a scatter are lost in what the mean is from the pivot."""
        lost, left = self.firsts**2 / self.totals[:, 1:2], self.products[:, squares]
        if pooled:
            lost, left = lost.sum(axis=0), left.sum(axis=0)
        else:  # a single row has no scatter
            lost, left = lost[self.counts > 1], left[self.counts > 1]
        return bool((lost > _FAR * (left - lost)).any())


@dataclass(frozen=True)
class _Rows:
    """The rows of a query, and how a statement begins that sums them up."""

    connection: Any
    sql: Dialect
    source: str
    target: str
    label: str
    is_numeric: bool  # whether labels are numbers
    names: list[str]
    values: list[str]  # the features, and the weight, as numbers
    weight: str | None
    dates: tuple[str, ...]
    pivot: Array

    def sums(self, pairs: Sequence[tuple[int, int]], *, pooled: bool, about_classes: bool = False) -> _Sums:
        """The sums about the pivot, or about the mean of each class."""
        d, value = len(self.names), "gda_z" if about_classes else "gda_d"
        weigh = (lambda text: f"gda_w * {text}") if self.weight else str
        own = [((k,), f"SUM({weigh(f'{value}{k}')})") for k in range(d)]
        own += [((k,), f"MIN(gda_m{k})") for k in range(d) if about_classes]
        products = [((i, j), f"SUM({weigh(f'{value}{i}')} * {value}{j})") for i, j in pairs]
        # Apart, since answers by class would be as large as the rows.
        apart = pooled and len(own) + len(products) > self._most_terms
        classes, numbers, n_dropped = self._summed([*own, *([] if apart else products)], about_classes)
        totals, numbers = numbers[:, :3], numbers[:, 4:]
        firsts, pivots, scatter = np.split(numbers, [d, len(own)], axis=1)
        pivots = pivots if about_classes else np.broadcast_to(self.pivot, firsts.shape)
        if apart and len(classes):
            _, of_all, _ = self._summed(products, about_classes, by_class=False)
            _check_unchanged(totals[:, 0].sum(), of_all[0, 0])
            scatter = of_all[:, 4:]
        return _Sums(classes, totals, firsts, scatter, pivots, n_dropped)

    @property
    def _most_terms(self) -> int:
        return self.sql.most_columns - 5

    def _summed(
        self, terms: _Terms, about_classes: bool, *, by_class: bool = True
    ) -> tuple[Labels, Array, int]:
        """The classes, four totals and the terms of each, and the rows without a label.

        It takes as many statements as the terms need. `by_class=False` sums up all classes as one.
        """
        parts = []
        for start in range(0, len(terms), self._most_terms):
            some = terms[start : start + self._most_terms]
            used = sorted({k for ks, _ in some for k in ks})
            steps = [self._raw(), self._deviations(used), *(self._centred(used) if about_classes else ())]
            totals = [f"{total} AS gda_t{k}" for k, total in enumerate(self._totals())]
            label = "gda_y" if by_class else "1"
            rest = "GROUP BY gda_y" if by_class else "WHERE gda_y IS NOT NULL"
            parts.append(
                self._by_class(
                    self._answer(
                        f"WITH {', '.join(steps)} SELECT {label}, {', '.join(totals)}, "
                        f"{', '.join(term for _, term in some)} FROM gda_{len(steps) - 1} {rest}"
                    ),
                    len(totals) + len(some),
                )
            )
        classes, first, n_dropped = parts[0]
        for others, more, dropped in parts[1:]:
            _check_unchanged(classes, others)
            _check_unchanged(np.append(first[:, 0], n_dropped), np.append(more[:, 0], dropped))
        if self.weight and first[:, 3].any():
            k = int(first[:, 3].argmax())
            raise ValueError(
                f"column {self.weight!r} is negative or infinite in {counted(int(first[k, 3]), 'row')} of "
                f"class {classes[k]}; weights are finite and not negative"
            )
        if not self.weight:
            first[:, 1:3] = first[:, :1]
        return classes, np.concatenate([first, *(part[1][:, 4:] for part in parts[1:])], axis=1), n_dropped

    def _by_class(self, rows: Sequence[Sequence[Any]], n_numbers: int) -> tuple[Labels, Array, int]:
        """The sorted labels, the numbers of each, and how many rows have no label."""
        n_dropped = sum(int(row[1]) for row in rows if is_missing(row[0]))
        known = [row for row in rows if not is_missing(row[0])]
        if not known:
            return no_labels(), np.zeros((0, n_numbers)), n_dropped
        values = [row[0] for row in known]
        if self.is_numeric:  # ADBC hands over a decimal as text
            values = [Decimal(value) if isinstance(value, str) else value for value in values]
        labels = as_labels(values)
        order = np.argsort(labels, kind="stable")
        numbers = np.array([row[1:] for row in known], dtype=object).astype(np.float64)
        return labels[order], numbers[order], n_dropped

    def missing_values(self) -> ValueError:
        """An error that says in which columns how many rows lack something."""
        checked = {self.target: "gda_l IS NOT NULL", **self._checks()}
        sums = ", ".join(f"SUM(CASE WHEN {check} THEN 0 ELSE 1 END)" for check in checked.values())
        steps = f"WITH {self._raw()} SELECT {sums} FROM gda_0{self._of_weight()}"
        (numbers,) = self._answer(steps)
        lacking = [
            f"{name!r} {counted(int(n), 'row')}" for name, n in zip(checked, numbers, strict=True) if n
        ]
        lacking = lacking or [f"{self.target!r}, which has NaN"]
        return ValueError(
            f"values are missing (NULL, NaN or infinity): in column {', '.join(lacking[:10])}. "
            "Mend the data or leave out such rows by missing='drop'"
        )

    def first_means(self) -> Array:
        """The means of some rows, in twelve digits."""
        columns = ", ".join(f"gda_x{k}" for k in range(len(self.names)))
        means = ", ".join(f"AVG(gda_x{k})" for k in range(len(self.names)))
        where = " AND ".join([self._of_weight() or " WHERE 1 = 1", self._is_complete()])
        first = self.sql.step("gda_1", f"SELECT {columns} FROM gda_0{where} LIMIT {_ROWS_OF_PIVOT}")
        (found,) = self._answer(f"WITH {self._raw()}, {first} SELECT {means} FROM gda_1")
        pivot = np.array([0.0 if is_missing(mean) else float(f"{mean:.12g}") for mean in found])
        return np.where(np.isfinite(pivot), pivot, 0.0)

    # ------------------------------------------------------------------ steps

    def _raw(self) -> str:
        names = [*(f"gda_x{k}" for k in range(len(self.names))), *(["gda_w"] if self.weight else [])]
        columns = [f"{value} AS {name}" for value, name in zip(self.values, names, strict=True)]
        return self.sql.step(
            "gda_0", f"SELECT {', '.join([f'{self.label} AS gda_l', *columns])} FROM {self.source}"
        )

    def _checks(self) -> dict[str, str]:
        """Whether a row has each feature and a weight; an infinite weight is judged elsewhere."""
        checks = {name: f"gda_x{k} - gda_x{k} = 0e0" for k, name in enumerate(self.names)}
        return checks | ({self.weight: "ABS(ATAN(gda_w)) < 2e0"} if self.weight else {})

    def _is_complete(self) -> str:
        return joined(["gda_l IS NOT NULL", *self._checks().values()], "({} AND {})")

    def _of_weight(self) -> str:
        return " WHERE (gda_w <> 0e0 OR gda_w IS NULL)" if self.weight else ""

    def _totals(self) -> list[str]:
        """The number of rows, Σ w, Σ w², and how many weights are negative or infinite."""
        if not self.weight:
            return ["COUNT(*)", "0", "0", "0"]
        is_weight = "gda_w >= 0e0 AND gda_w - gda_w = 0e0"
        wrong = f"SUM(CASE WHEN {is_weight} THEN 0 ELSE 1 END)"
        return ["COUNT(*)", "SUM(gda_w)", "SUM(gda_w * gda_w)", wrong]

    def _deviations(self, used: Iterable[int]) -> str:
        columns = [
            f"CASE WHEN {self._is_complete()} THEN gda_l END AS gda_y",
            *(["gda_w"] if self.weight else []),
        ]
        for k in used:
            columns += [f"gda_x{k}", f"{_deviation(k, f'({number(self.pivot[k])})')} AS gda_d{k}"]
        return self.sql.step("gda_1", f"SELECT {', '.join(columns)} FROM gda_0{self._of_weight()}")

    def _centred(self, used: Iterable[int]) -> Iterator[str]:
        """Deviations from the means of the classes, which are numbers as any: no digit of a row is lost."""
        total, weigh = ("SUM(gda_w)", "gda_w * ") if self.weight else ("COUNT(*)", "")
        means = ", ".join(
            f"({number(self.pivot[k])}) + SUM({weigh}gda_d{k}) / {total} AS gda_m{k}" for k in used
        )
        select = f"SELECT gda_y AS gda_c, {means} FROM gda_1 WHERE gda_y IS NOT NULL GROUP BY gda_y"
        yield self.sql.step("gda_2", select)
        weight = "gda_w, " if self.weight else ""
        columns = ", ".join(f"{_deviation(k, f'gda_m{k}')} AS gda_z{k}, gda_m{k}" for k in used)
        yield self.sql.step(
            "gda_3", f"SELECT gda_y, {weight}{columns} FROM gda_1 JOIN gda_2 ON gda_y = gda_c"
        )

    def _answer(self, statement: str) -> list[tuple[Any, ...]]:
        return answered(self.connection, statement)[1]


def _rows_of(
    connection: Any, sql: Dialect, query: str, target: str, features: Sequence[str] | None, weight: str | None
) -> _Rows:
    """The rows of a query whose columns can be summed up; ValueError for any other column."""
    text = query.strip().rstrip(";")
    source = f"({text}\n) gda_rows" if _SELECT.match(text) else sql.table(text)
    described, _ = answered(connection, f"SELECT * FROM {source} WHERE 1 = 0")
    columns = pa.schema([(name, pa.null()) for name in described])  # whose types the database judges
    roles = choose_roles(
        columns,
        "the query",
        target,
        features,
        (),
        None,
        weight,
        "raise",
        columns,
        columns.empty_table().select,
    )
    names = list(roles.features)
    numbers = [*names, weight] if weight else names
    types = _types_of(connection, sql, source, described, [target, *numbers])
    if weight and _kind(types[weight]) == "date":
        raise ValueError(f"column {weight!r} is {types[weight]} and cannot be the weight")
    values = [_value(sql, name, types[name]) for name in numbers]
    label = sql.name(target)
    kind = _kind(types[target])
    label = sql.exact_text.format(label) if kind is None else label
    dates = tuple(name for name in names if _kind(types[name]) == "date")
    zero = np.zeros(len(names))
    rows = _Rows(connection, sql, source, target, label, kind == "number", names, values, weight, dates, zero)
    return replace(rows, pivot=rows.first_means())


def _value(sql: Dialect, name: str, of_type: str) -> str:
    """A column as a number; ValueError if a database cannot make one of it."""
    kind, column = _kind(of_type), sql.name(name)
    if kind is None:
        raise ValueError(
            f"column {name!r} is of the type {of_type}, and a database sums up numbers, bools and dates: "
            f"leave it out by features, CAST it in the query, {_READ_ROWS}"
        )
    if of_type == _TIMESTAMP_OF_MYSQL:
        return f"(UNIX_TIMESTAMP({column}) / 8.64e4)"
    if kind == "date":
        return sql.days(name)
    column = f"CASE WHEN {column} THEN 1e0 WHEN NOT {column} THEN 0e0 END" if kind == "bool" else column
    return f"CAST({column} AS {sql.double})"


def _types_of(
    connection: Any, sql: Dialect, source: str, described: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    """The types of columns in the words of the database, or of the driver; "number" where all is NULL."""
    if not sql.kind:
        return {name: described[name] for name in names}
    columns = ", ".join(sql.kind.format(sql.name(name)) for name in names)
    _, rows = answered(connection, f"SELECT {columns} FROM {source} LIMIT 1")
    found = rows[0] if rows else [None] * len(names)
    return {name: one or "number" for name, one in zip(names, found, strict=True)}


def _deviation(k: int, pivot: str) -> str:
    deviation = f"gda_x{k} - {pivot}"
    return f"CASE WHEN ABS({deviation}) < {_LEAST} THEN 0e0 ELSE {deviation} END"


def _kind(of_type: str) -> str | None:
    """Whether a type is "number", "bool" or "date"; None for any other."""
    return next((kind for kind, words in _KINDS.items() if re.match(words, of_type, re.I)), None)


def answered(connection: Any, statement: str) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    """The columns of an answer with what the driver calls their types, and the rows."""
    if not hasattr(connection, "cursor"):  # Spark's and DataFusion's sessions
        table = connection.sql(statement)
        table = table.toArrow() if hasattr(table, "toArrow") else table.to_arrow_table()
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return {field.name: str(field.type) for field in table.schema}, rows
    # A cursor of DuckDB is another connection, which sees neither registered nor temporary tables.
    cursor = connection if hasattr(connection, "fetchall") else connection.cursor()
    try:
        cursor.execute(statement)
        rows = list(cursor.fetchall())
        if rows and isinstance(rows[0], Mapping):
            raise TypeError("the cursors of the connection return dicts; rows are tuples by default")
        return {name: str(code) for name, code, *_ in cursor.description}, rows
    finally:
        if cursor is not connection:
            cursor.close()


def _dialect_of(connection: Any) -> str:
    """What the database of a connection speaks, by the module of the driver or by what ADBC tells."""
    text = type(connection).__module__
    if hasattr(connection, "adbc_get_info"):
        text = str(connection.adbc_get_info().get("vendor_name"))
    found = next((name for word, name in _OF_MODULES.items() if word in text.casefold()), None)
    if found is None:
        raise ValueError(f"{text} does not tell its database: name it by dialect=, {listed(list(DIALECTS))}")
    return found
