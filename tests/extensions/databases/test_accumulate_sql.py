"""`accumulate_sql` returns the state that reading the rows gives, on each engine that is here."""

import numpy as np
import pyarrow as pa
import pytest

from streamgda import ClassStatistics, accumulate, accumulate_sql, scan_arrow
from tests.models.estimators.engines import DIALECTS, OPENED

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
        expected = expected.relabel({False: 0, True: 1})
    assert type(state) is ClassStatistics
    assert state.classes.dtype == expected.classes.dtype
    assert state.allclose(expected, rtol=1e-12)
    assert state.n_dropped == expected.n_dropped
    np.testing.assert_allclose(state.effective_counts, expected.effective_counts, rtol=1e-12)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_state_is_that_of_reading_the_rows(dialect):
    for seed in range(20):
        check(dialect, *random_table(seed), ["full", "tied", "diag"][seed % 3])
