"""Pipelines of fitted transformers and a model: what was learnt through a map predicts through it."""

import io
import pickle

import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
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
    StatisticsSearchCV,
    evaluate,
    predict_dataset,
    scan_arrow,
    scan_parquet,
)
from streamgda.cli.main import main

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
    (tmp_path / "data").mkdir()
    pq.write_table(TABLE.slice(0, 150), tmp_path / "data" / "1.parquet", row_group_size=60)
    pq.write_table(TABLE.slice(150), tmp_path / "data" / "2.parquet")
    return scan_parquet(tmp_path / "data", "y")


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
    assert list(pipeline.named_steps) == ["map", "map_2", "model"]
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


@pytest.mark.parametrize("name", ["out", "out.zarr"])
def test_predict_dataset_takes_a_pipeline_and_continues(name, pipeline, source, tmp_path):
    out = tmp_path / name
    first = predict_dataset(pipeline, tmp_path / "data", out, keep=["y"])
    again = predict_dataset(saved_by_joblib(pipeline), tmp_path / "data", out, keep=["y"])
    assert (first.n_rows, first.n_found, again.n_found) == (400, 0, first.n_parts)
    other = Pipeline([("map", StandardScaler().fit(FRAME + 1)), *pipeline.steps[1:]])
    assert predict_dataset(other, tmp_path / "data", out, keep=["y"]).n_found == 0
    if name == "out":
        predict_dataset(pipeline, source, out, keep=["y"])
        np.testing.assert_array_equal(pq.read_table(out)["predicted_label"], pipeline.predict(FRAME))
        assert pq.read_table(out)["y"].to_pylist() == Y.tolist()


def test_a_dask_collection_goes_to_the_pipeline_itself(pipeline):
    frame = dd.from_pandas(FRAME, npartitions=2)
    with pytest.raises(ValueError, match=r"frame\.map_partitions\(pipeline\.predict\)"):
        predict_dataset(pipeline, frame)
    answers = frame.map_partitions(pipeline.predict, meta=np.zeros(0, np.int64)).compute()
    np.testing.assert_array_equal(answers, pipeline.predict(FRAME))


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


def test_the_command_line_takes_pipelines(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mapped = source.map(StandardScaler().fit(FRAME))
    pipeline = QuadraticDiscriminantAnalysis().fit(mapped).as_pipeline(mapped)
    joblib.dump(pipeline, "model.joblib")

    def run(*arguments):
        return CliRunner().invoke(main, [*arguments, "--quiet"], catch_exceptions=False)

    expected = QuadraticDiscriminantAnalysis().fit(SCALER.transform(X), Y)
    np.testing.assert_allclose(
        pipeline.predict_proba(FRAME), expected.predict_proba(SCALER.transform(X)), rtol=1e-9
    )
    assert run("predict", "model.joblib", "data", "--features", "a,b,c", "--out", "scored").exit_code == 0
    np.testing.assert_array_equal(pq.read_table("scored")["predicted_label"], pipeline.predict(FRAME))
    assert "accuracy" in run("evaluate", "model.joblib", "data", "--target", "y").output
