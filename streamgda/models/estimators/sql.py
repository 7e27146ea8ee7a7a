"""A model as one SELECT, for databases: scores, probabilities and labels by their own arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streamgda.data.blocks.wording import listed
from streamgda.models.estimators.dialects import DIALECTS, Dialect, joined, number
from streamgda.models.estimators.formula import ScoreFormula, score_formula
from streamgda.statistics.covariances import Array

_PREFIX = "gda_"  # of the names that a SELECT has for its own
_LARGEST_TERM = 1e150  # the sum of the squares of so many terms as a SELECT may have is finite
_LEAST_ROOT = 1e-150  # whose square is not 0: Postgres raises an error where a product underflows
_LEAST_TERM = 1e-250  # so that no product of what two numbers differ by underflows
_MOST_COEFFICIENTS = 20_000  # about 1 MB, the longest statement of BigQuery and Snowflake


def exponential(gap: str) -> str:
    """The exponential of a number up to 0. Postgres raises an error where it underflows."""
    return f"CASE WHEN {gap} > -700e0 THEN EXP({gap}) WHEN {gap} <= -700e0 THEN 0e0 END"


def select_of(model: Any, table: str, dialect: str, keep: Iterable[str]) -> str:
    """What `GenerativeClassifier.to_sql` returns."""
    formula = score_formula(model, "SQL")
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {listed(list(DIALECTS))}; got {dialect!r}")
    if not hasattr(model, "feature_names_in_"):
        raise ValueError("SQL needs names of columns; fit the model to a data frame or a source with names")
    _check_size(formula)
    if table.casefold().startswith(_PREFIX):
        raise ValueError(f"the SELECT names its own tables {_PREFIX}0 and so on; got the table {table!r}")
    sql, labels = DIALECTS[dialect], model.classes_.tolist()
    columns = [sql.name(column) for column in _names_to_keep(keep, labels)]
    steps = _Steps(sql, columns, sql.table(table))
    _add_features(steps, model, formula)
    scored = _add_scores(steps, formula)
    _add_powers(steps, scored, formula.temperature)
    cases = " ".join(f"WHEN gda_j{k} = gda_best THEN {sql.literal(labels[k])}" for k in scored)
    shares = [f"gda_e{k} / gda_sum" if k in scored else "0e0 * gda_sum" for k in range(len(labels))]
    named = [
        f"{share} AS {sql.name(f'probability_{label}')}" for share, label in zip(shares, labels, strict=True)
    ]
    return steps.ended_by(f"CASE {cases} END AS {sql.name('label')}", *named)


class _Steps:
    """The tables of a SELECT, each of which is made from the one before, with the columns to keep."""

    def __init__(self, sql: Dialect, keep: Sequence[str], table: str) -> None:
        self.sql, self._keep, self._table = sql, keep, table
        self._tables: list[str] = []

    def add(self, *columns: str) -> None:
        """Add a table with these columns."""
        select = self._select(columns)
        self._table = f"{_PREFIX}{len(self._tables)}"
        self._tables.append(self.sql.step(self._table, select))

    def ended_by(self, *columns: str) -> str:
        """The whole statement, with these columns as its result."""
        return "WITH " + ",\n".join(self._tables) + f"\n{self._select(columns)}"

    def _select(self, columns: Sequence[str]) -> str:
        return f"SELECT {', '.join([*self._keep, *columns])} FROM {self._table}"


def _check_size(formula: ScoreFormula) -> None:
    linear = 0 if formula.linear is None else np.count_nonzero(formula.linear)
    n_coefficients = np.count_nonzero(formula.matrices) + linear
    if n_coefficients > _MOST_COEFFICIENTS:
        raise ValueError(
            f"the model has {n_coefficients:,} coefficients, and a statement takes at most "
            f"{_MOST_COEFFICIENTS:,}; use fewer features, or LinearDiscriminantAnalysis or GaussianNB"
        )


def _add_features(steps: _Steps, model: Any, formula: ScoreFormula) -> None:
    """Add the numbers as gda_x0, gda_x1 and so on, and what is made of other columns."""
    schema, sql = model.statistics_.schema, steps.sql
    names = [name for name in model.feature_names_in_.tolist() if name not in schema.encoded]
    values = [
        sql.days(name)
        if name in schema.dates
        else f"CAST({_column(dict(schema.lists), sql, name)} AS {sql.double})"
        for name in names
    ]
    largest, least = _limits(formula)
    numbers = [_number_or_null(value, largest[j], least[j], f"gda_x{j}") for j, value in enumerate(values)]
    depends = formula.linear is not None and formula.kind != "diagonal"
    codes, made = schema.sql_of(sql, depends=depends)
    steps.add(*numbers, *codes)
    if made:
        steps.add(*(f"gda_x{j}" for j in range(len(names))), *made)


def _column(lists: Mapping[str, int], sql: Dialect, name: str) -> str:
    """The column of a feature, or the place of a column of lists."""
    column, _, place = name.rpartition("_")
    is_place = place.isdecimal() and int(place) < lists.get(column, 0)
    return sql.place_of(column, int(place)) if is_place else sql.name(name)


def _add_scores(steps: _Steps, formula: ScoreFormula) -> list[int]:
    """Add the scores of the classes as gda_j0 and so on; return the classes that have one.

    That of several subclasses is the logarithm of the sum of the exponentials of their scores, gda_s0 and so
    on, of which gda_h0 is the highest.
    """
    members = [own[np.isfinite(formula.constants[own])] for own in formula.members]
    steps.add(*(f"{_score(formula, i)} AS gda_s{i}" for own in members for i in own))
    classes = [k for k, own in enumerate(members) if len(own)]
    highest = [f"{steps.sql.largest([f'gda_s{i}' for i in members[k]])} AS gda_h{k}" for k in classes]
    steps.add(*(f"gda_s{i}" for k in classes for i in members[k]), *highest)
    sums = {k: joined([exponential(f"(gda_s{i} - gda_h{k})") for i in members[k]]) for k in classes}
    steps.add(*(f"gda_h{k}{f' + LN({sums[k]})' if len(members[k]) > 1 else ''} AS gda_j{k}" for k in classes))
    return classes


def _add_powers(steps: _Steps, classes: Sequence[int], temperature: float) -> None:
    """Add the highest score, and the exponentials of what others lack of it, with their sum."""
    scores = [f"gda_j{k}" for k in classes]
    steps.add(*scores, f"{steps.sql.largest(scores)} AS gda_best")
    gaps = [f"(({score} - gda_best) / {number(temperature)})" for score in scores]
    powers = [f"gda_e{k}" for k in classes]
    made = [f"{exponential(gap)} AS {power}" for gap, power in zip(gaps, powers, strict=True)]
    steps.add(*scores, "gda_best", *made)
    steps.add(*scores, "gda_best", *powers, f"{joined(powers)} AS gda_sum")


def _score(formula: ScoreFormula, i: int) -> str:
    """The score of a subclass, of the columns gda_x0, gda_x1 and so on."""
    centre = formula.centres[i if len(formula.centres) > 1 else 0]
    centre = np.where(abs(centre) < _limits(formula)[1], 0, centre)
    deviations = [f"(gda_x{j} - ({number(value)}))" for j, value in enumerate(centre)]
    if formula.mean_tails is not None:
        lower = zip(deviations, formula.mean_tails[i], strict=True)
        deviations = [f"({deviation} - ({number(low)}))" for deviation, low in lower]

    own = _coefficients(formula, i)
    unused = ~own.any(axis=1)  # of no weight in the score, which is NULL all the same where they are

    def product(column: int) -> str:
        needed = (own[:, column] != 0) | (unused if column == 0 else False)
        return joined([f"{number(own[j, column])} * {deviations[j]}" for j in np.flatnonzero(needed)])

    constant = number(formula.constants[i])
    if formula.linear is not None:
        terms = [f"{number(value)} * gda_x{j}" for j, value in enumerate(formula.linear[i]) if value]
        constant = f"{constant} + {joined(terms or ['0e0'])}"
    if formula.kind == "linear":
        return f"{constant} + {product(0)}"
    used = [k for k, column in enumerate(own.T) if column.any() or not k]
    squares = [f"POWER(ABS({product(k)}) + {number(_LEAST_ROOT)}, 2)" for k in used]
    return f"{constant} - 0.5e0 * {joined(squares)}"


def _coefficients(formula: ScoreFormula, i: int) -> Array:
    """What the deviations of a subclass are multiplied with: (d, r)."""
    if formula.kind == "linear":
        return formula.matrices[:, [i]]
    return np.diag(formula.matrices[i]) if formula.kind == "diagonal" else formula.matrices[i]


def _limits(formula: ScoreFormula) -> tuple[Array, Array]:
    """How large each feature may be, so that no score exceeds float64, and which are taken for 0: (d,)."""
    d = formula.centres.shape[1]
    each = abs(np.concatenate([_coefficients(formula, i) for i in range(len(formula.constants))], axis=1))
    with np.errstate(divide="ignore", over="ignore"):
        largest: Array = np.minimum(_LARGEST_TERM / (each.max(axis=1) * d), np.finfo(np.float64).max)
        least: Array = _LEAST_TERM / np.where(each, each, np.inf).min(axis=1)
    return largest, least


def _number_or_null(value: str, largest: float, least: float, name: str) -> str:
    """A column of numbers; NULL for too large ones and NaN.

    Databases take NaN for the largest number, equal to itself. DuckDB leaves out a comparison that holds for
    the minimum and maximum that a Parquet file states, which NaN is not part of; but NaN less NaN is not 0.
    """
    return (
        f"CASE WHEN ABS({value}) < {number(least)} THEN 0e0 "
        f"WHEN ABS({value}) <= {number(largest)} AND {value} - {value} = 0e0 THEN {value} END AS {name}"
    )


def _names_to_keep(keep: Iterable[str], labels: list[Any]) -> list[str]:
    """The columns to keep; ValueError for a single string, and for names that the SELECT has for its own."""
    if isinstance(keep, str):
        raise ValueError(f"keep lists columns, such as [{keep!r}]; got the string {keep!r}")
    names, own = list(keep), {"label", *(f"probability_{label}".casefold() for label in labels)}
    for name in names:
        if name.casefold().startswith(_PREFIX) or name.casefold() in own:
            raise ValueError(f"a column {name!r} would stand beside one of the SELECT; rename it in a view")
    return names
