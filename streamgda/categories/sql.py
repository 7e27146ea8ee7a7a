"""Categories and their dummies as columns of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamgda.categories.columns import Categories


def codes_of(categories: Categories, sql: Any) -> Iterator[str]:
    """The position of each row's value among the categories of a column; NULL if it is none of them."""
    for c, (column, values) in enumerate(zip(categories.columns, categories.values, strict=True)):
        name = sql.name(column)
        tests = ["IS NULL" if value is None else f"= {sql.literal(value)}" for value in values]
        cases = " ".join(f"WHEN {name} {test} THEN {i}" for i, test in enumerate(tests))
        yield f"CASE {cases} END AS gda_c{c}"


def dummies_of(categories: Categories, depends: bool) -> Iterator[str]:
    """The dummies of all categories.

    Those of a value that was not learnt are 0. They are NULL where densities are summed over all values.
    """
    for c, place in enumerate(categories.slices):
        other = f"WHEN gda_c{c} IS NOT NULL THEN 0e0" if depends else "ELSE 0e0"
        for code, j in enumerate(range(place.start, place.stop)):
            yield f"CASE WHEN gda_c{c} = {code} THEN 1e0 {other} END AS gda_x{j}"
