"""Databases compute the same labels and probabilities from the SELECT of a model."""

import datetime
import json

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError

from streamgda import (
    Categorical,
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    accumulate,
    load,
    scan_arrow,
)
from tests.models.estimators.engines import ALL, ENGINES, in_duckdb, in_sqlite

MODELS = [
    GaussianNB(temperature=3.0),
    LinearDiscriminantAnalysis(priors=[0.5, 0.5, 0.0]),
    QuadraticDiscriminantAnalysis(temperature=0.5),
    QuadraticDiscriminantAnalysis(pooling="bayes"),
    MixtureDiscriminantAnalysis({0: 2, 1: 2}, covariance_type="diag", temperature=2.0),
    MixtureDiscriminantAnalysis({0: 2, 1: 2}, covariance_type="tied"),
]


def check(model, X, dialect):
    table = X.assign(key=np.arange(len(X)))
    found = sorted(ENGINES[dialect](model.to_sql("rows", dialect, keep=["key"]), table))
    keys, labels, *probabilities = zip(*found, strict=True)
    assert list(keys) == list(range(len(X)))
    assert list(labels) == model.predict(X).tolist()
    np.testing.assert_allclose(np.transpose(probabilities), model.predict_proba(X), rtol=0, atol=1e-9)


@pytest.mark.slow_cases(
    "Mixture", "temperature=0.5)-duckdb", "='bayes')-duckdb", "1: 2})-duckdb", "temperature=2.0)-duckdb"
)
@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_databases_agree(model, dialect):
    for load_data in (load_iris, load_wine):
        data = load_data(as_frame=True)
        check(model.fit(data.data, data.target), data.data, dialect)


@pytest.mark.parametrize("dialect", ALL)
def test_names_labels_and_far_classes(dialect):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 1e3 * y[:, None] + 2.0**40
    frame = pd.DataFrame(X, columns=['a "quoted" name', "select"])
    labels = np.array(["it's", 'a "b"', "back\\slash"])[y]
    for estimator in (GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis):
        check(estimator().fit(frame, labels), frame, dialect)


TABLE_MODELS = [
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(categories=Categorical(model="conditional")),
    GaussianNB(categories=Categorical(max_categories=2), temperature=2.0),
    QuadraticDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(pooling="bayes", categories=Categorical(max_categories=2)),
]


def a_table(n_rows=300):
    rng, towns = np.random.default_rng(0), np.array(["Oslo", "it's", "back\\slash", None], object)
    y = rng.integers(0, 3, n_rows)
    table = pd.DataFrame({"a": rng.normal(size=n_rows) + y, "b": rng.normal(size=n_rows) * (1 + y)})
    table["town"], table["grade"] = rng.choice(towns, n_rows), rng.integers(1, 4, n_rows)
    table["a"] += (table["town"] == "Oslo") * y
    return table.assign(fast=rng.random(n_rows) < 0.4), y


@pytest.mark.slow_cases("bayes')-duckdb", "GaussianNB", "LinearDiscriminantAnalysis()")
@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("model", TABLE_MODELS, ids=str)
def test_tables_with_categories(model, dialect):
    X, y = a_table()
    check(clone(model).set_params(categories=Categorical(["town", "grade", "fast"])).fit(X, y), X, dialect)


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.filterwarnings("ignore:categories that no learnt row has")
def test_a_value_that_was_not_learnt(dialect):
    X, y = a_table()
    X = X.astype({"fast": int})  # as a number, which PostgreSQL makes of no BOOLEAN
    new = X[:5].assign(town="Bergen")
    for model in TABLE_MODELS[0], TABLE_MODELS[2]:
        check(clone(model).fit(X, y), new, dialect)
    for model in TABLE_MODELS[1], TABLE_MODELS[3]:  # which sum over the values
        query = clone(model).fit(X, y).to_sql("rows", dialect, keep=["a"])
        assert all(row[1:] == (None,) * 4 for row in ENGINES[dialect](query, new))


def test_dialects_quote():
    X = pd.DataFrame({"a b": [0.0, 2.0, 6.0, 10.0]})
    model = GaussianNB().fit(X, ["it's", "it's", "x\\y", "x\\y"])
    query = model.to_sql("project.rows", "bigquery")
    assert "FROM `project`.`rows`" in query
    assert "CAST(`a b` AS FLOAT64)" in query
    assert r"THEN 'it\'s'" in query
    assert r"THEN 'x\\y'" in query
    query = model.to_sql("rows", "postgres")
    assert 'CAST("a b" AS DOUBLE PRECISION)' in query
    assert "THEN 'it''s'" in query


def test_what_sql_does_not_have_is_refused():
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.normal(size=(600, 150))).rename(columns="x{}".format), np.arange(600) % 2
    with pytest.raises(ValueError, match="coefficients, and a statement takes at most 20,000"):
        QuadraticDiscriminantAnalysis().fit(X, y).to_sql("rows")
    few = X[["x0", "x1"]]
    for model, message in (
        (GaussianNB().fit(few.to_numpy(), y), "SQL needs names of columns"),
        (GaussianNB(missing="marginal").fit(few, y), "SQL takes complete rows alone"),
        (QuadraticDiscriminantAnalysis(predictive="student").fit(few, y), "SQL takes no student densities"),
    ):
        with pytest.raises(ValueError, match=message):
            model.to_sql("rows")
    with pytest.raises(ValueError, match="dialect must be one of"):
        GaussianNB().fit(few, y).to_sql("rows", "oracle")
    with pytest.raises(NotFittedError):
        GaussianNB().to_sql("rows")


@pytest.mark.slow_cases("inf", "1e", "Mixture", "bayes", "nan-")
@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("value", [None, np.nan, np.inf, -np.inf, 1e200, -1e200, 1e308], ids=str)
def test_rows_without_a_score_have_no_label(model, value, dialect):
    """One feature says nothing in any class, so that its coefficients may be zero."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.assign(constant=np.tile([0.0, 1.0, 1.0, 0.0, 0.5], 30))
    query = clone(model).fit(X, y).to_sql("rows", dialect)
    for name in ("petal width (cm)", "constant"):
        table = X.iloc[[0, 75, 140]].reset_index(drop=True)
        table.loc[1, name] = value
        answers = ENGINES[dialect](
            query, table.astype("Float64") if value is None else arrow_or(table, dialect)
        )
        assert answers[1] == (None,) * 4, name
        assert None not in answers[0]
        assert None not in answers[2]


def arrow_or(table, dialect):
    """Arrow, in which NaN is none of the missing values, or a frame for SQLite, which has no NaN."""
    return table if dialect == "sqlite" else pa.table({name: table[name].to_numpy() for name in table})


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("model", MODELS[:3], ids=str)
def test_numbers_whose_squares_are_too_small_for_float64(model, dialect):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.assign(small=np.tile([-2.0, 2.0, -1.0, 1.0, 0.0, 0.0, -3.0, 3.0, 1.0, -1.0], 15))
    model = clone(model).fit(X, y)
    new = X.iloc[[0, 75, 140, 3, 60]].reset_index(drop=True)
    new["small"] = [1e-170, -1e-170, 1e-300, 5e-324, -2e-310]
    new.loc[3, "petal width (cm)"] = 1e-200
    check(model, new, dialect)
    far = pd.DataFrame({"a": [0.0, 2e-100, 1e-100, 3e-100] * 9, "b": np.arange(36.0)})
    check(clone(model).set_params(priors=None).fit(far, [0, 0, 1, 1] * 9), far, dialect)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("model", MODELS[:3], ids=str)
def test_nan_in_a_file_has_no_label_though_its_statistics_leave_it_out(model, kind, tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    rows = X.iloc[[0, 75, 140]].astype(kind).reset_index(drop=True)
    rows.loc[1, "petal width (cm)"] = np.nan
    pq.write_table(pa.table({name: rows[name].to_numpy() for name in rows}), tmp_path / "rows.parquet")
    query = clone(model).fit(X, y).to_sql("rows")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW rows AS FROM '{tmp_path}/rows.parquet'")
        answers = connection.sql(query).fetchall()
    assert answers[1] == (None,) * 4
    assert None not in answers[0] + answers[2]


def test_a_feature_of_no_weight_is_needed_all_the_same():
    X = pd.DataFrame({"a": [0.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 3.0], "b": [0.0, 0.0, 1.0, 1.0] * 2})
    model = LinearDiscriminantAnalysis().fit(X, [0] * 4 + [1] * 4)
    assert not model.coef_[0, 1]
    table = X.assign(b=pd.array([None, 1.0, 0.0, 1.0] * 2, dtype="Float64"))
    answers = in_duckdb(model.to_sql("rows"), table)
    assert answers[0] == (None, None, None)
    assert None not in answers[1]


@pytest.mark.parametrize("keep", ["ab", ["gda_x0"], ["GDA_best"], ["label"], ["Probability_1"]])
def test_columns_to_keep_are_none_of_the_result(keep):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match="keep lists columns|would stand beside one of the SELECT"):
        model.to_sql("rows", keep=keep)
    with pytest.raises(ValueError, match="names its own tables"):
        model.to_sql("gda_0")


def dated(n_rows=60):
    """A frame with dates, whole seconds of which make a difference, and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    seconds = np.round(rng.normal(size=n_rows) * 90 + 150 * y).astype(int)
    when = pd.Timestamp("2026-03-01T23:58:00") + pd.to_timedelta(seconds, unit="s")
    return pd.DataFrame({"x": rng.normal(size=n_rows), "when": when}), y


TYPES = {
    "timestamps": lambda when: when,
    "of nanoseconds": lambda when: when.astype("datetime64[ns]"),
    "with a zone": lambda when: when.dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata"),
    "text": lambda when: when.map(pd.Timestamp.isoformat),
    "text with a zone": lambda when: when.dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata").map(str),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("dialect", ALL)
def test_dates_are_cast_to_days(dialect, kind):
    X, y = dated()
    model = LinearDiscriminantAnalysis().fit(X, y)
    table = X.assign(when=TYPES[kind](X["when"]), key=np.arange(len(X)))
    query = model.to_sql("rows", dialect, keep=["key"])
    is_text = dialect == "sqlite"
    table = table.assign(when=table["when"].map(str)) if is_text else pa.table(table)
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        found = sorted(ENGINES[dialect](query, table, zone))
        atol = 1e-5 if is_text else 1e-7
        np.testing.assert_allclose([row[2:] for row in found], model.predict_proba(X), rtol=0, atol=atol)


def test_times_of_day_and_durations_are_days_that_a_view_makes():
    times = [datetime.time(i % 24, i * 7 % 60, 5) for i in range(60)]
    table = pa.table({"started": times, "took": pa.array(np.arange(60) ** 2 * 1000, pa.duration("ms"))})
    model = GaussianNB().fit(table, np.arange(60) % 24 > 11)
    with duckdb.connect() as connection:
        connection.register("stored", table)
        days = ", ".join(f"EXTRACT(EPOCH FROM {name}) / 86400 AS {name}" for name in table.column_names)
        connection.sql(f"CREATE VIEW rows AS SELECT {days} FROM stored")
        found = connection.sql(model.to_sql("rows")).fetchall()
    np.testing.assert_allclose([row[1:] for row in found], model.predict_proba(table), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dialect", ALL)
def test_days_and_what_is_no_date_in_databases(dialect):
    X, y = dated()
    X["when"] = X["when"].dt.floor("D") + pd.to_timedelta(y * 3, unit="D")
    model = GaussianNB().fit(X, y)
    days = X.assign(when=X["when"].dt.date)
    text = days.assign(when=days["when"].map(str))
    for table in (text,) if dialect == "sqlite" else (text, days):
        check(model, table, dialect)
    ((label, *_),) = ENGINES[dialect](model.to_sql("rows", dialect), X[:1].assign(when=pd.NaT))
    assert label is None
    for other in ("bigquery", "snowflake"):
        query = model.to_sql("rows", other)
        assert query.count("EPOCH") or query.count("UNIX_MICROS")


@pytest.mark.parametrize("how", ["frame", "source", "batches", "saved", "statistics", "dask"])
def test_places_of_lists_are_read_of_the_column_of_lists(how, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 3)) + y[:, None]
    u = np.where(X[:, 2] > 0, "a", "b")
    frame = pd.DataFrame({"emb": list(X), "u": u, "u_0": X[:, 1] ** 2})
    source = scan_arrow(pa.table(frame).append_column("kind", [y]), "kind")
    model = LinearDiscriminantAnalysis()
    if how == "statistics":
        model = LinearDiscriminantAnalysis.from_statistics(accumulate(source))
    elif how == "dask":
        lists = pd.Series(list(X), dtype=pd.ArrowDtype(pa.list_(pa.float64())))
        model.fit(
            dd.from_pandas(frame.assign(emb=lists), npartitions=2),
            dd.from_pandas(pd.Series(y), npartitions=2),
        )
    elif how == "batches":
        model.partial_fit(source).partial_fit(frame, y)
    else:
        model.fit(*((frame, y) if how == "frame" else (source,)))
    if how == "saved":
        model.save(tmp_path / "model.parquet")
        model = load(tmp_path / "model.parquet")
    expected = model.predict_proba(frame)
    found = in_duckdb(model.to_sql("rows"), pa.table(frame))
    np.testing.assert_allclose([row[1:] for row in found], expected, rtol=1e-9, atol=1e-12)
    texts = frame.assign(emb=[json.dumps(row.tolist()) for row in X])
    found = in_sqlite(model.to_sql("rows", "sqlite"), texts)
    np.testing.assert_allclose([row[1:] for row in found], expected, rtol=1e-9, atol=1e-12)
    places = {"postgres": '"emb"[3]', "bigquery": "`emb`[SAFE_OFFSET(2)]", "snowflake": '"emb"[2]'}
    for dialect, place in {**places, "spark": "GET(`emb`, 2)"}.items():
        assert place in model.to_sql("rows", dialect)
    short = pa.table({"emb": [X[0].tolist(), X[0, :2].tolist(), None], "u": ["a"] * 3, "u_0": [1.0] * 3})
    assert [row[0] is None for row in in_duckdb(model.to_sql("rows"), short)] == [False, True, True]
