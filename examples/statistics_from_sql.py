"""A database that already holds the rows computes the statistics: one DuckDB query.

A GROUP BY over the iris flowers gives the count, the sums and the sums of products of each class, which is
all that `ClassStatistics.from_sums` needs. The model is the one that reading every row would give, and the
rows never leave the database. The state is saved as a Parquet table, which the database can read.

Run as ``python statistics_from_sql.py [folder]``.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import combinations_with_replacement
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

import streamgda
from streamgda import ClassStatistics, QuadraticDiscriminantAnalysis

FEATURES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
PAIRS = list(combinations_with_replacement(FEATURES, 2))


def flowers() -> duckdb.DuckDBPyConnection:
    """A database with a table of flowers."""
    iris = load_iris()
    arrived = pd.DataFrame(iris.data, columns=FEATURES).assign(species=iris.target_names[iris.target])
    database = duckdb.connect()
    database.register("arrived", arrived)
    database.execute("create table flowers as select * from arrived")
    return database


def statistics_of(database: duckdb.DuckDBPyConnection) -> ClassStatistics:
    """The statistics of the table, by one query."""
    sums = ", ".join(f"sum({name})" for name in FEATURES)
    products = ", ".join(f"sum({a} * {b})" for a, b in PAIRS)
    query = f"select species, count(*), {sums}, {products} from flowers group by species order by species"
    rows = database.execute(query).fetchall()
    numbers = np.array([row[2:] for row in rows], dtype=float)
    d = len(FEATURES)
    outer_sums = np.empty((len(rows), d, d))
    i, j = np.triu_indices(d)
    outer_sums[:, i, j] = outer_sums[:, j, i] = numbers[:, d:]
    classes, counts = zip(*(row[:2] for row in rows), strict=True)
    return ClassStatistics.from_sums(classes, counts, numbers[:, :d], outer_sums, feature_names=FEATURES)


def main(folder: Path) -> None:
    """Sum in SQL, make the model in Python, read the saved state in SQL."""
    database = flowers()
    statistics = statistics_of(database)
    model = QuadraticDiscriminantAnalysis.from_statistics(statistics)
    iris = database.execute("select * from flowers").df()
    species = iris.pop("species")
    print(f"accuracy on {len(iris)} flowers: {model.score(iris, species):.1%}")
    statistics.save(folder / "flowers.parquet")
    assert streamgda.load(folder / "flowers.parquet") == statistics
    query = f"select label, count, round(mean[3], 3) as petal_length from '{folder}/flowers.parquet'"
    print(database.execute(query).df().to_string(index=False))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
