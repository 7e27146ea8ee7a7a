"""A model as one SELECT, for databases: scores, probabilities and labels by their own arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgda.blocks.categories import Categories
from streamgda.blocks.wording import listed
from streamgda.estimators.formula import ScoreFormula, score_formula

_MOST_COEFFICIENTS = 20_000  # about 1 MB, the longest statement of BigQuery and Snowflake


@dataclass(frozen=True)
class Dialect:
    """How a database writes types, names, strings and the largest of two numbers."""

    double: str = "DOUBLE"
    quote: str = '"'
    greatest: str = "GREATEST"
    escapes: bool = False
    materialised: str = ""

    def name(self, name: str) -> str:
        """A name of a column or table, quoted."""
        doubled = name.replace(self.quote, 2 * self.quote)
        return f"{self.quote}{doubled}{self.quote}"

    def literal(self, label: Any) -> str:
        """A label as a constant."""
        if isinstance(label, str) and self.escapes:
            label = label.replace("\\", r"\\").replace("'", r"\'").replace("\n", r"\n")
            return f"'{label}'"
        if isinstance(label, str):
            return "'" + label.replace("'", "''") + "'"
        return number(label) if isinstance(label, float) else str(label).upper()


DIALECTS = {
    "duckdb": Dialect(materialised="MATERIALIZED "),
    "postgres": Dialect("DOUBLE PRECISION", materialised="MATERIALIZED "),
    "bigquery": Dialect("FLOAT64", "`", escapes=True),
    "snowflake": Dialect(escapes=True),
    "spark": Dialect(quote="`", escapes=True),
    "sqlite": Dialect("REAL", greatest="MAX", materialised="MATERIALIZED "),
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


def exponential(gap: str) -> str:
    """The exponential of a number up to 0. Postgres raises an error where it underflows."""
    return f"CASE WHEN {gap} > -700e0 THEN EXP({gap}) WHEN {gap} <= -700e0 THEN 0e0 END"


def select_of(model: Any, table: str, dialect: str, keep: Iterable[str]) -> str:
    """What `GenerativeClassifier.to_sql` returns."""
    formula = score_formula(model, "SQL")
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {listed(list(DIALECTS))}; got {dialect!r}")
    sql = DIALECTS[dialect]
    if not hasattr(model, "feature_names_in_"):
        raise ValueError("SQL needs names of columns; fit the model to a data frame or a source with names")
    n_coefficients = np.count_nonzero(formula.matrices)
    if formula.linear is not None:
        n_coefficients += np.count_nonzero(formula.linear)
    if n_coefficients > _MOST_COEFFICIENTS:
        raise ValueError(
            f"the model has {n_coefficients:,} coefficients, and a statement takes at most "
            f"{_MOST_COEFFICIENTS:,}; use fewer features, or LinearDiscriminantAnalysis or GaussianNB"
        )
    kept = [sql.name(column) for column in keep]
    steps: list[str] = []
    source = ".".join(sql.name(part) for part in table.split("."))

    def step(*columns: str) -> None:
        nonlocal source
        select = f"SELECT {', '.join([*kept, *columns])} FROM {source}"
        source = f"gda_{len(steps)}"
        steps.append(f"{source} AS {sql.materialised}({select})")

    categories = model.statistics_.categories
    names = model.feature_names_in_.tolist() if categories is None else categories.numbers
    numbers = [f"CAST({sql.name(name)} AS {sql.double}) AS gda_x{j}" for j, name in enumerate(names)]
    if categories is None:
        step(*numbers)
    else:
        step(*numbers, *_codes(categories, sql))
        step(*(f"gda_x{j}" for j in range(len(names))), *_dummies(categories, formula))
    members = [own[np.isfinite(formula.constants[own])] for own in formula.by_class]
    step(*(f"{_score(formula, i)} AS gda_s{i}" for own in members for i in own))
    greatest, classes = f"{sql.greatest}({{}}, {{}})", [k for k, own in enumerate(members) if len(own)]
    highest = {k: joined([f"gda_s{i}" for i in members[k]], greatest) for k in classes}
    step(*(f"gda_s{i}" for k in classes for i in members[k]), *(f"{highest[k]} AS gda_h{k}" for k in classes))
    sums = {k: joined([exponential(f"(gda_s{i} - gda_h{k})") for i in members[k]]) for k in classes}
    step(*(f"gda_h{k}{f' + LN({sums[k]})' if len(members[k]) > 1 else ''} AS gda_j{k}" for k in classes))
    scores = [f"gda_j{k}" for k in classes]
    step(*scores, f"{joined(scores, greatest)} AS gda_best")
    gaps = {k: f"((gda_j{k} - gda_best) / {number(formula.temperature)})" for k in classes}
    step(*scores, "gda_best", *(f"{exponential(gaps[k])} AS gda_e{k}" for k in classes))
    powers = [f"gda_e{k}" for k in classes]
    step(*scores, "gda_best", *powers, f"{joined(powers)} AS gda_sum")
    labels = model.classes_.tolist()
    cases = " ".join(f"WHEN gda_j{k} = gda_best THEN {sql.literal(labels[k])}" for k in classes)
    shares = [f"gda_e{k} / gda_sum" if k in sums else "0e0 * gda_sum" for k in range(len(labels))]
    named = [
        f"{share} AS {sql.name(f'probability_{label}')}" for share, label in zip(shares, labels, strict=True)
    ]
    result = [*kept, f"CASE {cases} END AS {sql.name('label')}", *named]
    return "WITH " + ",\n".join(steps) + f"\nSELECT {', '.join(result)} FROM {source}"


def _codes(categories: Categories, sql: Dialect) -> Iterator[str]:
    """The position of each row's value among the categories of a column; NULL if it is none of them."""
    for c, (column, values) in enumerate(zip(categories.columns, categories.values, strict=True)):
        name = sql.name(column)
        tests = ["IS NULL" if value is None else f"= {sql.literal(value)}" for value in values]
        cases = " ".join(f"WHEN {name} {test} THEN {i}" for i, test in enumerate(tests))
        yield f"CASE {cases} END AS gda_c{c}"


def _dummies(categories: Categories, formula: ScoreFormula) -> Iterator[str]:
    """The dummies of all categories.

    Those of a value that was not learnt are 0. They are NULL where densities are summed over all values.
    """
    depends = formula.linear is not None and formula.kind != "diagonal"
    for c, place in enumerate(categories.slices):
        other = f"WHEN gda_c{c} IS NOT NULL THEN 0e0" if depends else "ELSE 0e0"
        for code, j in enumerate(range(place.start, place.stop)):
            yield f"CASE WHEN gda_c{c} = {code} THEN 1e0 {other} END AS gda_x{j}"


def _score(formula: ScoreFormula, i: int) -> str:
    """The score of a subclass, of the columns gda_x0, gda_x1 and so on."""
    centre = formula.centres[i if len(formula.centres) > 1 else 0]
    deviations = [f"(gda_x{j} - ({number(value)}))" for j, value in enumerate(centre)]
    if formula.low_parts is not None:
        lower = zip(deviations, formula.low_parts[i], strict=True)
        deviations = [f"({deviation} - ({number(low)}))" for deviation, low in lower]

    def product(coefficients: Any) -> str:
        terms = zip(coefficients, deviations, strict=True)
        return joined([f"{number(c)} * {deviation}" for c, deviation in terms if c] or ["0e0"])

    constant = number(formula.constants[i])
    if formula.linear is not None:
        terms = [f"{number(value)} * gda_x{j}" for j, value in enumerate(formula.linear[i]) if value]
        constant = f"{constant} + {joined(terms or ['0e0'])}"
    if formula.kind == "linear":
        return f"{constant} + {product(formula.matrices[:, i])}"
    own = np.diag(formula.matrices[i]) if formula.kind == "diagonal" else formula.matrices[i]
    return f"{constant} - 0.5e0 * {joined([f'POWER({product(c)}, 2)' for c in own.T if c.any()] or ['0e0'])}"
