"""Databases that a statement can be written for, and how each of them writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Dialect:
    """How a database writes types, names, strings, the largest of two numbers, days and places of lists."""

    double: str = "DOUBLE"
    quote: str = '"'
    greatest: str = "GREATEST"
    escapes: bool = False
    materialised: str = ""
    fence: str = ""  # at the end of a step, which is then not computed anew wherever it is used
    epoch: str = ""
    place: str = "{0}[{1}]"
    kind: str = ""  # the type of a column; "" if only the connection tells it
    exact_text: str = "{0}"  # text of which only equal characters are equal
    most_columns: int = 1000  # of a SELECT

    def days(self, name: str) -> str:
        """A column of dates as days since 1970 in UTC."""
        return f"({self.epoch.format(self.name(name))})"

    def place_of(self, column: str, i: int) -> str:
        """Place i, counted from 0, of a column of lists; NULL for a list that is too short."""
        return self.place.format(self.name(column), i, i + 1)

    def name(self, name: str) -> str:
        """A name of a column or table, quoted."""
        doubled = name.replace(self.quote, 2 * self.quote)
        return f"{self.quote}{doubled}{self.quote}"

    def table(self, name: str) -> str:
        """The name of a table, in which points stand between schemas and tables."""
        return ".".join(map(self.name, name.split(".")))

    def step(self, name: str, select: str) -> str:
        """A named step of a statement."""
        return f"{name} AS {self.materialised}({select}{self.fence})"

    def largest(self, terms: Sequence[str]) -> str:
        """The largest of some numbers."""
        return joined(terms, f"{self.greatest}({{}}, {{}})")

    def literal(self, label: Any) -> str:
        """A label as a constant."""
        if isinstance(label, str) and self.escapes:
            label = label.replace("\\", r"\\").replace("'", r"\'").replace("\n", r"\n")
            return f"'{label}'"
        if isinstance(label, str):
            return "'" + label.replace("'", "''") + "'"
        return number(label) if isinstance(label, float) else str(label).upper()


# Days of dates, times with and without a zone, and text: one without a zone would be of that of the session.
_ZONE = ":[0-9.]+ ?(Z|[+-][0-9:]+)$"
_EPOCH_OF_DUCKDB = (
    f"EPOCH_US(CAST(CASE WHEN CAST({{0}} AS VARCHAR) LIKE '%infinity' THEN NULL "
    f"WHEN REGEXP_MATCHES(CAST({{0}} AS VARCHAR), '{_ZONE}') "
    "THEN CAST({0} AS VARCHAR) ELSE CAST(CAST({0} AS TIMESTAMP) AS VARCHAR) || '+00' END "
    "AS TIMESTAMPTZ)) / 8.64e10"
)
_EPOCH_OF_POSTGRES = (
    f"CAST(EXTRACT(EPOCH FROM CAST(CASE WHEN CAST({{0}} AS TEXT) ~ '({_ZONE})|[^0-9]$' "
    "THEN CAST({0} AS TEXT) ELSE CAST({0} AS TEXT) || ' +00' END AS TIMESTAMPTZ)) "
    "AS DOUBLE PRECISION) / 8.64e4"
)
_EPOCH_OF_SNOWFLAKE = (
    f"CASE WHEN SYSTEM$TYPEOF({{0}}) RLIKE 'TIMESTAMP_L?TZ.*' OR CAST({{0}} AS VARCHAR) RLIKE '.*{_ZONE}' "
    "THEN DATE_PART(EPOCH_MICROSECOND, CAST({0} AS TIMESTAMP_TZ)) "
    "ELSE DATE_PART(EPOCH_MICROSECOND, CAST({0} AS TIMESTAMP_NTZ)) END / 8.64e10"
)
_EPOCH_OF_SPARK = (
    f"UNIX_MICROS(CASE WHEN TYPEOF({{0}}) = 'timestamp' OR CAST({{0}} AS STRING) RLIKE '{_ZONE}' "
    "THEN CAST({0} AS TIMESTAMP_LTZ) "
    "ELSE CAST(CONCAT(CAST(CAST({0} AS TIMESTAMP_NTZ) AS STRING), '+00:00') AS TIMESTAMP_LTZ) END) / 8.64e10"
)
_EPOCH_OF_MYSQL = (
    "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', "
    "CASE WHEN CAST({0} AS CHAR) RLIKE ':[0-9.]+ ?(Z|[+-][0-9]+:[0-9]+)$' "
    "THEN CONVERT_TZ(REGEXP_REPLACE({0}, ' ?(Z|[+-][0-9]+:[0-9]+)$', ''), "
    "RIGHT(REPLACE({0}, 'Z', '+00:00'), 6), '+00:00') ELSE {0} END) / 8.64e10"
)
_DAY_OF_SQLITE = "{0} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'"  # not 'now', nor a number

DIALECTS = {
    "duckdb": Dialect(epoch=_EPOCH_OF_DUCKDB, place="{0}[{2}]", kind="TYPEOF({0})"),
    "postgres": Dialect(
        "DOUBLE PRECISION",
        fence=" OFFSET 0",
        epoch=_EPOCH_OF_POSTGRES,
        place="{0}[{2}]",
        kind="CAST(PG_TYPEOF({0}) AS TEXT)",
    ),
    "bigquery": Dialect(
        "FLOAT64",
        "`",
        escapes=True,
        epoch="UNIX_MICROS(TIMESTAMP({})) / 8.64e10",
        place="{0}[SAFE_OFFSET({1})]",
    ),
    "snowflake": Dialect(escapes=True, epoch=_EPOCH_OF_SNOWFLAKE, kind="SYSTEM$TYPEOF({0})"),
    "spark": Dialect(
        quote="`", escapes=True, epoch=_EPOCH_OF_SPARK, place="GET({0}, {1})", kind="TYPEOF({0})"
    ),
    "sqlite": Dialect(
        "REAL",
        greatest="MAX",
        materialised="MATERIALIZED ",
        epoch=f"CASE WHEN {_DAY_OF_SQLITE} THEN JULIANDAY({{0}}) - 2440587.5e0 END",
        place="JSON_EXTRACT({0}, '$[{1}]')",
        kind="MAX(CASE TYPEOF({0}) WHEN 'null' THEN NULL WHEN 'blob' THEN 'varbinary' WHEN 'text' THEN "
        f"CASE WHEN {_DAY_OF_SQLITE} THEN 'timestamp' ELSE 'varchar' END ELSE TYPEOF({{0}}) END)",
    ),
    "mysql": Dialect(
        quote="`",
        escapes=True,
        epoch=_EPOCH_OF_MYSQL,
        place="JSON_EXTRACT({0}, '$[{1}]')",
        exact_text="CAST(CONVERT({0} USING utf8mb4) AS BINARY)",
    ),
    "datafusion": Dialect(
        epoch="CAST(ARROW_CAST({0}, 'Timestamp(Microsecond, Some(\"+00:00\"))') AS BIGINT) / 8.64e10",
        place="{0}[{2}]",
        kind="ARROW_TYPEOF({0})",
    ),
    "clickhouse": Dialect(
        "Nullable(Float64)",
        escapes=True,
        epoch="toUnixTimestamp64Micro(toDateTime64({0}, 6, 'UTC')) / 8.64e10",
        place="{0}[{2}]",
        kind="toTypeName({0})",
    ),
}
"""The databases that a model can be written for."""


def number(value: float) -> str:
    """A float64 as a constant, of which no digit is lost, and which no database takes for a decimal."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def joined(terms: Sequence[str], form: str = "({} + {})") -> str:
    """Terms in pairs of pairs, so that databases do not find them nested too deeply."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return form.format(joined(terms[:half], form), joined(terms[half:], form))
