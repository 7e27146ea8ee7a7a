"""The estimators against scikit-learn and scipy.stats, on data cut in any way; and how they are used."""

import itertools
import pickle
import tracemalloc
import warnings

import duckdb
import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.discriminant_analysis
import sklearn.naive_bayes
from scipy.special import logsumexp

from streamgda import (
    ClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RidgeClassifier,
    evaluate,
    predict_dataset,
    scan_arrow,
    scan_parquet,
)
from tests.reference import log_joint
from tests.strategies import MODELS


def random_rows(n_classes, n_features, dtype=np.float64, n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, size=n_rows)
    mixing = rng.normal(size=(n_classes, n_features, n_features)) + 2 * np.eye(n_features)
    means = rng.normal(size=(n_classes, n_features))
    X = np.einsum("nj,nij->ni", rng.normal(size=(n_rows, n_features)), mixing[y]) + means[y]
    if np.dtype(dtype).kind == "i":
        X = X * 10
    return X.astype(dtype), y


@pytest.mark.parametrize(
    ("name", "values", "models"),
    [
        ("var_smoothing", [-1.0, "auto"], MODELS[:1]),
        ("tol", [-1.0, "auto"], MODELS[1:]),
        ("pooling", [-0.1, 1.1, "Bayes"], MODELS[::2]),
        ("shrinkage", [-0.1, 1.1, "ledoit", np.nan], MODELS[1:]),
        ("reg_param", [-0.1, 1.1, np.nan], MODELS[2:]),
        ("covariance_model", ["VIV"], [GaussianDiscriminantAnalysis]),
        ("missing", ["drop"], MODELS),
    ],
)
def test_parameters_that_are_none(name, values, models):
    for model, value in itertools.product(models, values):
        with pytest.raises(ValueError, match=f"'{name}' parameter of {model.__name__} must be"):
            model(**{name: value}).fit(*random_rows(2, 2))


def test_priors_that_are_no_numbers(model):
    for priors, message in (({0: "half", 1: 0.5}, "must be numbers"), ([0.5, np.nan], "non-negative|be 1")):
        with pytest.raises(ValueError, match=message):
            model(priors=priors).fit(*random_rows(2, 2))


def test_what_is_no_batch_of_rows(model, tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0, 1]}), tmp_path / "1.parquet")
    source, fitted = scan_parquet(tmp_path, "y"), model().partial_fit([[1.0], [2.0]], [0, 1])
    ridge = RidgeClassifier().fit([[1.0], [2.0], [4.0]], [0, 1, 1])
    for call in (fitted.score, fitted.calibrate, ridge.calibrate):
        with pytest.raises(ValueError, match=r"\.(score|calibrate) requires y, a label for each row"):
            call([[1.0], [2.0]])
    for call in (fitted.predict, fitted.score_samples, fitted.score, fitted.calibrate, ridge.calibrate):
        with pytest.raises(TypeError, match="a source goes to fit.* predict_dataset .*best_temperature"):
            call(source)
    with pytest.raises(TypeError, match="scan makes a source of it"):
        fitted.fit("rows.parquet", [0, 1])
    with pytest.raises(ValueError, match="brings its own target"):
        model().fit(source, [0, 1])


ROWS = pa.table({"u": [0.0, 1.0, 3.0, 5.0], "y": [0, 0, 1, 1]})


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (
            lambda frame: pytest.importorskip("polars").from_arrow(frame).lazy(),
            r"LazyFrame .*: collect\(\) it",
        ),
        (duckdb.from_arrow, r"Relation .*: take its df\(\)"),
        (lambda frame: frame.to_reader(), r"RecordBatchReader .*: read_all\(\) it"),
    ],
)
def test_rows_that_are_yet_to_be_computed_are_to_be_made_or_scanned(make, remedy, tmp_path):
    fitted, labels = GaussianNB().fit(scan_arrow(make(ROWS), "y")), ROWS["y"]
    for consume in (
        lambda rows: GaussianNB().fit(rows, labels),
        lambda rows: fitted.partial_fit(rows, labels),
        lambda rows: ClassStatistics().update(rows, labels),
        lambda rows: evaluate(fitted, rows, labels),
    ):
        with pytest.raises(TypeError, match=remedy + r", or read it by scan_arrow\(frame, target\)$"):
            consume(make(ROWS.select(["u"])))
    for predict in (fitted.predict, fitted.predict_proba, lambda rows: fitted.score(rows, labels)):
        with pytest.raises(TypeError, match=remedy + "; .* are predicted by predict_dataset$"):
            predict(make(ROWS.select(["u"])))
    predict_dataset(fitted, make(ROWS.select(["u"])), tmp_path / "out")
    assert pq.read_table(tmp_path / "out")["predicted_label"].to_pylist() == labels.to_pylist()


@pytest.mark.parametrize("far", [1e3, 1e6, 1e8])
def test_a_far_class_costs_the_others_no_digits(far):
    X, y = random_rows(3, 4)
    beside = np.random.default_rng(5).normal(size=(50, 4)) + far
    model = LinearDiscriminantAnalysis().fit(np.vstack([X, beside]), np.append(y, np.full(50, 3)))
    within = model.set_params(store_covariance=True).covariance_
    scores = log_joint(X, model.means_, [within] * 4, model.priors_)
    evidence = logsumexp(scores, axis=1)
    expected = scores - evidence[:, None]
    np.testing.assert_allclose(model.predict_proba(X), np.exp(expected), rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X)[:, :3], expected[:, :3], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(model.score_samples(X), evidence, rtol=0, atol=1e-11)
    assert (model.predict(X) == expected.argmax(axis=1)).all()


def test_the_log_posterior_of_a_sure_class_keeps_its_digits(model):
    y = np.arange(100) % 2
    X = np.random.default_rng(0).normal(size=(100, 3)) + 10 * y[:, None]
    fitted = model().fit(X, y)
    odds = fitted.decision_function([[0.0, 0.0, 0.0]])
    assert odds < -40  # so that 1 + exp(odds) is 1
    log_posteriors = fitted.predict_log_proba([[0.0, 0.0, 0.0]])
    np.testing.assert_allclose(log_posteriors[:, 0], -np.exp(odds), rtol=1e-9)


# ---------------------------------------------------------------------- how they are used


def test_models_of_another_kind_are_not_merged(model):
    X, y = random_rows(3, 3)
    merged = model().merge(model().fit(X, y))
    assert merged.n_features_in_ == 3
    with pytest.raises(TypeError, match="models of one kind"):
        merged.merge(sklearn.naive_bayes.GaussianNB().fit(X, y))


def test_one_full_state_serves_every_model(model):
    X, y = random_rows(3, 3)
    state = ClassStatistics().update(X, y)
    fitted = model.from_statistics(state, priors=[0.2, 0.3, 0.5])
    np.testing.assert_allclose(
        fitted.predict_proba(X),
        model(priors=[0.2, 0.3, 0.5]).fit(X, y).predict_proba(X),
        rtol=1e-8,
        atol=1e-12,
    )
    fitted.partial_fit(X, y)
    assert state.n_rows == len(y)


def test_parameters_are_finalised_when_first_needed(model):
    X, y = random_rows(3, 3)
    fitted = model().fit(X, y)
    before = fitted.predict_proba(X[:5])
    part = ClassStatistics(fitted.statistics_.covariance_type).update(X[::2] + 1, y[::2])
    fitted.statistics_.merge(part)
    merged = fitted.predict_proba(X[:5])
    assert not np.allclose(merged, before)
    fitted.statistics_ -= part
    np.testing.assert_allclose(fitted.predict_proba(X[:5]), before, rtol=1e-9)
    refitted = model(priors=[0.8, 0.1, 0.1]).fit(X, y)
    changed = model().fit(X, y).set_params(priors=[0.8, 0.1, 0.1])
    np.testing.assert_array_equal(changed.predict_proba(X), refitted.predict_proba(X))
    if model is GaussianNB:
        fitted.var_smoothing = 0.5
        np.testing.assert_allclose(fitted.var_, GaussianNB(var_smoothing=0.5).fit(X, y).var_, rtol=1e-9)


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples"]
)
def test_masked_values_are_not_scored(model, method):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    score = getattr(model().fit(X, y), method)
    masked = np.ma.array(X, mask=np.eye(30, 2) > 0)
    with pytest.raises(ValueError, match="features are masked"):
        score(masked)
    assert (score(np.ma.array(X, mask=False)) == score(X)).all()


def test_bad_batches_leave_the_model_as_it_was(model):
    X, y = random_rows(2, 2)
    frame = pd.DataFrame(X, columns=["u", "v"])
    fitted = model().fit(frame, y)
    state, before = fitted.statistics_.copy(), fitted.predict_proba(frame)
    hole = frame.copy()
    hole.loc[7, "v"] = np.nan
    text = frame.assign(v="x")
    for batch, labels, message in (
        (hole, y, "row 7: feature 'v' is NaN"),
        (text, y, "row 0: column 'v' holds numbers, and 'x' is none"),
        (frame[["v", "u"]], y, "names"),
        (frame.assign(w=1.0), y, "names"),
        (X[:, :1], y, "1 features"),
        (frame, y[:-1], "X has 3,000 rows, y has shape"),
        (frame, y + 0.5, "continuous"),
        (frame, y.astype(str), "different kinds"),
    ):
        with pytest.raises(ValueError, match=message), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted.partial_fit(batch, labels)
    assert fitted.statistics_ == state
    np.testing.assert_array_equal(fitted.predict_proba(frame), before)


def test_a_first_batch_without_weight_is_refused_and_a_later_one_changes_nothing(model):
    X, y = random_rows(2, 2)
    nothing, streamed = np.zeros(len(y)), model()
    with pytest.raises(ValueError, match="every sample weight is zero"):
        streamed.partial_fit(X, y, sample_weight=nothing)
    assert vars(streamed) == vars(model())
    before = streamed.partial_fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(streamed.partial_fit(X, y, sample_weight=nothing).predict_proba(X), before)


@pytest.mark.parametrize("names", [["v", "u"], ["u", "v", "w"], None])
def test_a_failed_fit_leaves_a_fitted_model_as_it_was(model, names):
    X, y = random_rows(2, 3)
    good = pd.DataFrame(X[:, :2], columns=["u", "v"])
    fitted = model().fit(good, y)
    before = fitted.predict_proba(good)
    bad = X if names is None else pd.DataFrame(X[:, : len(names)], columns=names)
    for labels in (np.zeros(len(y), dtype=int), y + 0.5):
        with pytest.raises(ValueError, match="class"):
            fitted.fit(bad, labels)
        assert fitted.feature_names_in_.tolist() == ["u", "v"]
        np.testing.assert_array_equal(fitted.predict_proba(good), before)


def test_a_merged_model_knows_the_names():
    X, y = random_rows(2, 2)
    model = GaussianNB().fit(X, y).merge(GaussianNB().fit(pd.DataFrame(X, columns=["u", "v"]), y))
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(pd.DataFrame(X[:, ::-1], columns=["v", "u"]), y)


def test_collinear_features_are_found_at_any_tolerance():
    for seed in range(3):
        X, y = random_rows(2, 2, seed=seed)
        X = np.column_stack([X, X.sum(axis=1)])
        parts = zip(np.array_split(X, 100), np.array_split(y, 100), strict=True)
        for state in ClassStatistics().update(X, y), sum(ClassStatistics().update(*part) for part in parts):
            for tol in (0.0, 1e-20):
                with pytest.raises(np.linalg.LinAlgError, match="class 0 is not full.* It has rank 2 of 3"):
                    QuadraticDiscriminantAnalysis.from_statistics(state, tol=tol)


def test_lda_of_many_classes_keeps_one_matrix(tmp_path):
    """5,000 classes × 60 features: a matrix for each class would be 144 MB (scikit-learn #10898)."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(20_000) % 5_000)
    table = pa.table({**{f"x{j}": rng.normal(size=20_000) + y for j in range(60)}, "y": y})
    pq.write_table(table, tmp_path / "1.parquet")
    source = scan_parquet(tmp_path, "y")
    tracemalloc.start()
    try:
        model = LinearDiscriminantAnalysis().fit(source)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(model.classes_) == 5_000
    assert peak < 80e6


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_row_without_a_label_is_not_scored(missing):
    fitted = GaussianNB().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
    with pytest.raises(ValueError, match="a label is missing"):
        fitted.score([[0.0], [1.0]], np.array(["a", missing], dtype=object))


def test_rows_whose_sum_is_too_large_for_float64_are_scored(model):
    X, y = random_rows(2, 3)
    far = [[1e308, 1e308, 1e308], [-1e308, -1e308, 1e308]]
    np.testing.assert_array_equal(model().fit(X, y).score_samples(far), [-np.inf, -np.inf])
    marginal = model(missing="marginal").fit(X, y)
    np.testing.assert_array_equal(marginal.score_samples([far[0], far[0]]), [-np.inf, -np.inf])


def test_a_row_whose_scores_differ_by_more_than_float64_holds_is_of_one_class_for_certain():
    X, y = np.array([[-3.0], [-1.0], [-1.0], [1.0], [1.0], [3.0]]), [0, 0, 1, 1, 2, 2]
    model = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_array_equal(model.predict_proba([[8e307]]), [[0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(model.predict_log_proba([[8e307]]), [[-np.inf, -1.6e308, 0.0]])


@pytest.mark.parametrize("missing", ["raise", "marginal"])
def test_a_missing_category_is_not_made_a_number(model, missing):
    X, y = random_rows(2, 2, dtype=np.int64, n_rows=200)
    frame = pd.DataFrame(X, columns=["a", "b"]).astype({"a": "category"})
    fitted = model(missing=missing, categories=None).fit(frame, y)
    frame.loc[3, "a"] = None
    for method in (fitted.predict, lambda rows: fitted.partial_fit(rows, y)):
        with pytest.raises(ValueError, match="column 'a' is categorical and has missing values"):
            method(frame)


def test_a_batch_without_rows_changes_nothing(model):
    X, y = random_rows(3, 2, n_rows=60)
    for params in ({}, {"missing": "marginal"}, {"exact": True}):
        fitted = model(**params).partial_fit(X[:0], y[:0])
        assert not hasattr(fitted, "classes_")
        fitted.partial_fit(X, y)
        before = fitted.predict_log_proba(X)
        fitted.partial_fit(X[:0], y[:0]).partial_fit(X[:0], y[:0], sample_weight=[])
        np.testing.assert_array_equal(fitted.predict_log_proba(X), before)
        with pytest.raises(ValueError, match="X has 3 features"):
            fitted.partial_fit(np.empty((0, 3)), [])
        with pytest.raises(ValueError, match="0 sample"):
            fitted.fit(X[:0], y[:0])


@pytest.mark.parametrize("params", [{}, {"shrinkage": "auto"}])
def test_a_model_whose_arrays_joblib_maps_from_a_file_learns(params, tmp_path):
    X, y = random_rows(3, 3, n_rows=60)
    model = QuadraticDiscriminantAnalysis(**params).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    some = y != y[0]
    expected = model.partial_fit(X[some], y[some]).statistics_
    assert mapped.partial_fit(X[some], y[some]).statistics_ == expected


def test_a_pickle_of_another_version_says_so(monkeypatch):
    model = GaussianNB().fit([[0.0], [1.0], [5.0], [7.0]], [0, 0, 1, 1])
    pickled, unfitted = pickle.dumps(model), pickle.dumps(GaussianNB(var_smoothing=0.5))
    monkeypatch.setattr("streamgda.__version__", "99.0")
    with pytest.raises(ValueError, match=r"GaussianNB was pickled by streamgda \S+, and this is 99.0.*save"):
        pickle.loads(pickled)
    assert pickle.loads(unfitted).var_smoothing == 0.5
    state = {name: value for name, value in model.__getstate__().items() if name != "_version"}
    with pytest.raises(ValueError, match="pickled by streamgda 0.2.0 or earlier"):
        GaussianNB().__setstate__(state)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_warning_is_of_the_line_that_led_to_it(method):
    rows, labels = np.column_stack([np.arange(20.0), np.ones(20)]), np.arange(20) % 2
    with pytest.warns(UserWarning, match="has rank 1 of 2") as caught:
        getattr(LinearDiscriminantAnalysis(), method)(rows, labels).predict(rows)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("column", [pd.Series([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0])])
def test_a_column_in_the_place_of_rows_is_refused_as_scikit_learn_does(column):
    with pytest.raises(ValueError, match="Expected .*2D array|Expected a 2-dimensional container"):
        GaussianNB().fit(column, [0, 1, 0])
