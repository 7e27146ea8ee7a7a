"""Pipelines of fitted transformers and a model: what was learnt through a map predicts through it."""

import base64
import io
import pickle
from contextlib import suppress

import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RidgeClassifier,
    StatisticsSearchCV,
    evaluate,
    from_bytes,
    load_model,
    predict_dataset,
    scan_arrow,
    scan_parquet,
)
from streamgda.cli.main import main
from tests.data.tables import parquet_files

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (np.hypot(X[:, 0], X[:, 1]) > 1.2).astype(np.int64)
FRAME = pd.DataFrame(X, columns=list("abc"))
TABLE = pa.table({**{name: X[:, j] for j, name in enumerate("abc")}, "y": Y})
SCALER = StandardScaler().fit(X)
SAMPLER = RBFSampler(n_components=40, random_state=0).fit(X)
MADE = SAMPLER.transform(SCALER.transform(X))


@pytest.fixture
def source(tmp_path):
    return scan_parquet(parquet_files(tmp_path / "data", TABLE, row_group_size=60), "y")


@pytest.fixture
def pipeline(source):
    mapped = source.map(SCALER).map(SAMPLER)
    return LinearDiscriminantAnalysis().fit(mapped).as_pipeline(mapped)


def saved_by_joblib(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


@pytest.mark.parametrize(
    "saved", [lambda one: one, saved_by_joblib, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_a_pipeline_predicts_what_was_learnt_through_its_maps(pipeline, saved):
    pipeline = saved(pipeline)
    expected = LinearDiscriminantAnalysis().fit(MADE, Y)
    assert list(pipeline.named_steps) == ["rows", "map", "map_2", "model"]
    assert pipeline.feature_names_in_.tolist() == list("abc")
    np.testing.assert_allclose(pipeline.predict_proba(FRAME), expected.predict_proba(MADE), rtol=1e-9)
    assert pipeline.score(FRAME, Y) == expected.score(MADE, Y)


def test_evaluate_takes_a_pipeline_with_rows_of_any_kind(pipeline, source):
    expected = evaluate(pipeline[-1], MADE, Y)
    for data in (
        (source,),
        (scan_arrow(TABLE.select(["c", "y", "a", "b"]), "y"),),  # features are found by name
        (FRAME, Y),
        (dd.from_pandas(FRAME.assign(y=Y), npartitions=2), "y"),
    ):
        found = evaluate(pipeline, *data)
        np.testing.assert_array_equal(found.confusion_matrix, expected.confusion_matrix)
        np.testing.assert_allclose(found.log_loss, expected.log_loss, rtol=1e-9)


@pytest.mark.slow_cases("zarr")
@pytest.mark.parametrize("name", ["out", "out.zarr"])
def test_predict_dataset_takes_a_pipeline_and_continues(name, pipeline, source, tmp_path):
    out = tmp_path / name
    first = predict_dataset(pipeline, tmp_path / "data", out, keep=["y"])
    again = predict_dataset(saved_by_joblib(pipeline), tmp_path / "data", out, keep=["y"])
    assert (first.n_rows, first.n_found, again.n_found) == (400, 0, first.n_parts)
    other = Pipeline([("map", StandardScaler().fit(FRAME + 1)), *pipeline.steps[2:]])
    assert predict_dataset(other, tmp_path / "data", out, keep=["y"]).n_found == 0
    if name == "out":
        predict_dataset(pipeline, source, out, keep=["y"])
        np.testing.assert_array_equal(pq.read_table(out)["predicted_label"], pipeline.predict(FRAME))
        assert pq.read_table(out)["y"].to_pylist() == Y.tolist()


def test_a_dask_collection_goes_to_the_pipeline_itself(pipeline):
    frame = dd.from_pandas(FRAME, npartitions=2)
    answers = frame.map_partitions(pipeline.predict, meta=np.zeros(0, np.int64)).compute()
    np.testing.assert_array_equal(answers, pipeline.predict(FRAME))


@pytest.mark.slow_cases("neg_log", "log_lik")
@pytest.mark.parametrize("scoring", ["log_likelihood", "neg_log_loss", "accuracy"])
def test_a_search_takes_and_gives_a_pipeline(scoring, source):
    polynomial = PolynomialFeatures(include_bias=False).fit(FRAME)
    pipeline = Pipeline([("map", polynomial), ("model", QuadraticDiscriminantAnalysis())])
    grid = {"model__reg_param": [0.0, 0.1, 0.9]}
    search = StatisticsSearchCV(pipeline, grid, scoring=scoring).fit(source)
    plain = StatisticsSearchCV(
        QuadraticDiscriminantAnalysis(), {"reg_param": [0.0, 0.1, 0.9]}, scoring=scoring
    )
    plain.fit(source.map(polynomial))
    assert search.best_params_ == {"model__reg_param": plain.best_params_["reg_param"]}
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    best = search.best_estimator_
    assert best.steps[0] == ("map", polynomial)
    made = pd.DataFrame(polynomial.transform(FRAME), columns=polynomial.get_feature_names_out())
    np.testing.assert_allclose(search.predict_proba(FRAME), plain.predict_proba(made), rtol=1e-9)
    if scoring != "log_likelihood":
        assert search.score(FRAME, Y) == pytest.approx(
            {"accuracy": best.score(FRAME, Y), "neg_log_loss": -evaluate(best, FRAME, Y).log_loss}[scoring]
        )


def test_a_search_of_rows_in_memory_is_that_of_scikit_learn():
    folds = np.arange(400) % 4
    frame = FRAME.assign(fold=folds)
    pipeline = Pipeline([("map", FrozenEstimator(SCALER)), ("model", GaussianNB())])
    grid = {"model__var_smoothing": [1e-9, 0.5]}
    ours = StatisticsSearchCV(pipeline, grid, scoring="accuracy", fold="fold").fit(frame, Y)
    theirs = GridSearchCV(pipeline, grid, cv=PredefinedSplit(folds)).fit(X, Y)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])


def test_a_search_of_batches_goes_through_the_map():
    pipeline = Pipeline([("map", SAMPLER), ("model", GaussianNB())])
    search = StatisticsSearchCV(pipeline, {"model__var_smoothing": [1e-9, 0.5]})
    for start in range(0, 400, 100):
        search.partial_fit(X[start : start + 100], Y[start : start + 100])
    whole = StatisticsSearchCV(pipeline, {"model__var_smoothing": [1e-9, 0.5]}).fit(X, Y)
    np.testing.assert_allclose(search.predict_proba(X), whole.predict_proba(X), rtol=1e-9)


def test_a_model_of_other_features_makes_no_pipeline(source):
    model = LinearDiscriminantAnalysis().fit(source)
    with pytest.raises(ValueError, match="has learnt other features than those of"):
        model.as_pipeline(source.map(SAMPLER))
    np.testing.assert_array_equal(model.as_pipeline(source).predict(FRAME), model.predict(FRAME))


# ---------------------------------------------------------------------- features that a source computes

SALES = pd.DataFrame(
    {
        "price": np.exp(X[:, 0] + Y),
        "colour": np.where(X[:, 1] + Y > 0.5, "red", "blue"),
        "sold": pd.to_datetime("2026-01-01") + pd.to_timedelta(RNG.integers(0, 60, size=400), unit="D"),
        "paid": np.round(X[:, 2], 2),
        "y": Y,
    }
)
COMPUTED = {"price": pc.log10(pc.field("price")), "weekday": pc.day_of_week(pc.field("sold"))}
MODELS = [LinearDiscriminantAnalysis(), GaussianNB(), QuadraticDiscriminantAnalysis(), RidgeClassifier()]


@pytest.fixture
def sales(tmp_path):
    SALES.to_parquet(tmp_path / "sales.parquet")
    filters = [("paid", ">", -1.0)]
    source = scan_parquet(tmp_path / "sales.parquet", "y", features=["colour", "price"], filters=filters)
    return source.with_columns(**COMPUTED)


def seen(source):
    """The features that a source computes of all rows, as a frame."""
    weekday, price = SALES["sold"].dt.day_of_week, np.log10(SALES["price"])
    return SALES.assign(weekday=weekday, price=price)[list(source.feature_names)]


@pytest.mark.slow_cases("Quadratic", "Linear", "GaussianNB")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_pipeline_computes_what_its_source_computed(model, sales, tmp_path):
    pipeline = model.fit(sales).as_pipeline(sales)
    expected = model.predict_proba(seen(sales))
    assert pipeline.feature_names_in_.tolist() == ["colour", "price", "sold"]  # and not "paid" of the filter
    assert len(repr(pipeline)) < 150
    assert str(pipeline[0]) == "ComputedColumns('price', 'weekday', 'colour')"
    pipeline.save(tmp_path / "pipeline.parquet")
    for one in (
        pipeline,
        load_model(tmp_path / "pipeline.parquet"),
        from_bytes(pipeline.to_bytes()),
        saved_by_joblib(pipeline),
    ):
        for rows in (SALES, pa.Table.from_pandas(SALES), SALES.to_dict("records")):
            np.testing.assert_allclose(one.predict_proba(rows), expected, rtol=1e-12)
        request = {"sold": "2026-01-05", "price": 1, "colour": "red"}  # as JSON has it
        frame = pd.DataFrame([request]).assign(sold=pd.Timestamp("2026-01-05"))
        np.testing.assert_array_equal(one.predict_proba(request), one.predict_proba(frame))
    again = load_model(tmp_path / "pipeline.parquet")
    found = evaluate(again, sales)
    assert found.accuracy == evaluate(again, SALES[SALES["paid"] > -1], Y[SALES["paid"] > -1]).accuracy
    predict_dataset(again, tmp_path / "sales.parquet", tmp_path / "out", keep=["y"])
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out")["predicted_label"], pipeline.predict(SALES))


def test_maps_come_after_what_is_computed(sales):
    numbers = sales.with_features(["weekday", "price"])
    mapped = numbers.map(PolynomialFeatures(include_bias=False).fit(seen(numbers)))
    pipeline = LinearDiscriminantAnalysis().fit(mapped).as_pipeline(mapped)
    assert list(pipeline.named_steps) == ["columns", "rows", "map", "model"]
    rows = SALES[SALES["paid"] > -1]
    assert evaluate(pipeline, numbers).accuracy == pipeline.score(rows, rows["y"])
    assert evaluate(pipeline, scan_arrow(SALES, "y", features=["paid"])).accuracy == pipeline.score(SALES, Y)
    with pytest.raises(TypeError, match=r"PolynomialFeatures.* is of another library.*joblib\.dump"):
        pipeline.save("pipeline.parquet")


def test_all_features_may_be_computed(sales, tmp_path):
    source = sales.with_features(["price"])
    pipeline = GaussianNB().fit(source).as_pipeline(source)
    predict_dataset(pipeline, tmp_path / "sales.parquet", tmp_path / "out")
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out")["predicted_label"], pipeline.predict(SALES))


def test_rows_without_the_columns_are_refused(sales):
    pipeline = LinearDiscriminantAnalysis().fit(sales).as_pipeline(sales)
    with pytest.raises(ValueError, match="no column 'sold'"):
        pipeline.predict(SALES.drop(columns="sold"))
    with pytest.raises(ValueError, match="names of their columns, 'colour', 'price', 'sold'; give a frame"):
        pipeline.predict(SALES.to_numpy())
    with pytest.raises(ValueError, match="colour"):
        evaluate(pipeline, scan_arrow(SALES, "y", features=["price"]))


def test_other_columns_are_left_out_by_name_or_refused_as_scikit_learn_does(sales):
    pipeline = LinearDiscriminantAnalysis().fit(sales).as_pipeline(sales)
    moved = SALES[SALES.columns[::-1]].assign(more=1.0)
    np.testing.assert_array_equal(pipeline.predict(moved), pipeline.predict(SALES))
    rows = pd.DataFrame({"u": [1.0, 2.0, 5.0, 7.0], "v": [0.0, 2.0, 1.0, 1.0]})
    source = scan_arrow(pa.table(rows.assign(y=[0, 0, 1, 1])), "y")
    mapped = source.map(StandardScaler().fit(rows))
    plain, through = (GaussianNB().fit(one).as_pipeline(one) for one in (source, mapped))
    for other in (rows[["v", "u"]], rows.assign(more=1.0)):
        with pytest.raises(ValueError, match="The feature names should match"):
            plain.predict(other)
        np.testing.assert_array_equal(through.predict_proba(other), through.predict_proba(rows))


@pytest.mark.slow
def test_damaged_expressions_are_refused_and_crash_nothing(sales):
    pipeline = LinearDiscriminantAnalysis().fit(sales).as_pipeline(sales)
    params, refused = pipeline[0].get_params(), 0
    for i in range(300):
        content = bytearray(base64.b64decode(params["expressions"]["weekday"]))
        content[RNG.integers(len(content))] = RNG.integers(256)
        texts = {**params["expressions"], "weekday": base64.b64encode(content[: i or None]).decode()}
        columns = type(pipeline[0])(**{**params, "expressions": texts})
        content = type(pipeline)([("columns", columns), pipeline.steps[1]]).to_bytes()
        with suppress(ValueError):
            from_bytes(content)
            refused -= 1
        refused += 1
    assert refused > 200
    nested = scan_arrow(
        pa.table({"x": [{"a": 1.0}, {"a": 2.0}], "b": [1.0, 2.0], "y": [0, 1]}), "y", features=["b"]
    )
    nested = nested.with_columns(a=pc.field("x", "a"))
    with pytest.raises(ValueError, match="refers to parts of a column"):
        GaussianNB().fit(nested).as_pipeline(nested)


def test_the_command_line_takes_saved_pipelines(sales, tmp_path):
    pipeline = QuadraticDiscriminantAnalysis().fit(sales).as_pipeline(sales)
    path, data = str(tmp_path / "pipeline.parquet"), str(tmp_path / "sales.parquet")
    pipeline.save(path)

    def run(*arguments):
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    run("predict", path, data, "--out", str(tmp_path / "scored"), "--quiet")
    labels = pq.read_table(tmp_path / "scored")["predicted_label"]
    np.testing.assert_array_equal(labels, pipeline.predict(SALES))
    assert f"{pipeline.score(SALES, Y):.4f}" in run("evaluate", path, data, "--target", "y")
    assert "kind: QuadraticDiscriminantAnalysis" in run("inspect", path)
    run("update", path, data, "--target", "y", "--quiet")
    assert load_model(path).statistics_.n_rows == pipeline.statistics_.n_rows + 400
    weighted = QuadraticDiscriminantAnalysis().fit(seen(sales), Y, 1.0 + (SALES["paid"] > -1))
    np.testing.assert_allclose(
        load_model(path).predict_proba(SALES), weighted.predict_proba(seen(sales)), rtol=1e-9
    )


@pytest.mark.slow_cases("estimator1")
@pytest.mark.parametrize(
    "estimator", [GaussianNB(), Pipeline([("map", StandardScaler().fit(FRAME)), ("model", GaussianNB())])]
)
def test_a_search_is_taken_where_a_model_is(estimator, source, tmp_path, monkeypatch):
    prefix = "model__" if isinstance(estimator, Pipeline) else ""
    search = StatisticsSearchCV(estimator, {f"{prefix}var_smoothing": [1e-9, 0.5]}).fit(source)
    best = search.best_estimator_
    assert evaluate(search, source).accuracy == best.score(FRAME, Y)
    predict_dataset(search, source, tmp_path / "out")
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out")["predicted_label"], best.predict(FRAME))
    monkeypatch.chdir(tmp_path)
    if prefix:
        with pytest.raises(TypeError, match=r"joblib\.dump"):
            search.save("search.parquet")
    else:
        search.save("search.parquet")
        np.testing.assert_array_equal(load_model("search.parquet").predict(FRAME), best.predict(FRAME))
    joblib.dump(search, "search.joblib")
    said = CliRunner().invoke(main, ["evaluate", "search.joblib", "data", "--target", "y"])
    assert f"{best.score(FRAME, Y):.4f}" in said.output
