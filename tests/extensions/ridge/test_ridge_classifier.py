"""RidgeClassifier: scikit-learn's, with a penalty that the statistics choose, and its calibration."""

import pickle
from functools import partial

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skl2onnx
from sklearn import linear_model
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import streamgda.onnx
from streamgda import (
    ClassStatistics,
    GaussianNB,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RidgeClassifier,
    StatisticsSearchCV,
    cross_validate,
    evaluate,
    learning_curve,
    load,
    predict_dataset,
    scan_parquet,
)
from streamgda.extensions.ridge.path import RidgePath

DATA = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}
RNG = np.random.default_rng(0)


def rows_of(name):
    return DATA[name](return_X_y=True)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("alpha", [1.0, 30.0])
def test_it_is_that_of_scikit_learn(name, alpha):
    X, y = rows_of(name)
    X = X / X.std(axis=0)  # so that twelve digits can be asked for
    model, peer = RidgeClassifier(alpha, scale=False).fit(X, y), linear_model.RidgeClassifier(alpha).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.coef_.ravel(), peer.coef_.ravel(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))
    ours = model.to_sklearn()
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))


@pytest.mark.parametrize(
    ("name", "scale", "alpha", "gcv", "residuals", "df", "n_errors"),
    [
        ("iris", False, 0.1, 0.288117657, 40.406113604, 4.961188431, 23),
        ("iris", False, 1.0, 0.287522456, 40.483174247, 4.672760569, 22),
        ("iris", False, 100.0, 0.344225982, 50.084807787, 2.267240023, 33),
        ("iris", True, 1.0, 0.287615158, 40.479067010, 4.703553975, 23),
        ("wine", True, 1.0, 0.117484535, 17.796144113, 13.796425463, 0),
        ("cancer", True, 1.0, 0.117640592, 60.545027705, 27.851107405, 18),
        ("cancer", True, 100.0, 0.126701045, 68.601670614, 13.948371612, 24),
    ],
)
def test_it_has_published_values(name, scale, alpha, gcv, residuals, df, n_errors):
    X, y = rows_of(name)
    model = RidgeClassifier(alpha, scale=scale).fit(X, y)
    criterion = RidgePath.of(model.statistics_, scale=scale).criterion(alpha)
    assert [model.gcv_, criterion.residual_sum, model.df_] == pytest.approx([gcv, residuals, df], abs=6e-10)
    assert (model.predict(X) != y).sum() == n_errors


def test_the_penalty_is_that_of_the_least_criterion():
    for name, alpha, gcv in [("iris", 1.200039, 0.287604155), ("wine", 6.397480, 0.116975310)]:
        model = RidgeClassifier().fit(*rows_of(name))
        assert model.alpha_ == pytest.approx(alpha, rel=1e-6)
        assert model.gcv_ == pytest.approx(gcv, abs=1e-9)
        assert model.gcv_ <= model.gcv_path_.min()
        assert model.gcv_path_[len(model.alphas_) // 2] == pytest.approx(
            RidgeClassifier(model.alphas_[len(model.alphas_) // 2]).fit(*rows_of(name)).gcv_
        )


@pytest.mark.parametrize("max_df", [0.5, 0.05])
def test_of_many_features_it_is_that_of_the_eigenvectors(max_df):
    rng = np.random.default_rng(1)
    y, X = rng.integers(3, size=400), rng.normal(size=(400, 150)) @ rng.normal(size=(150, 150))
    X[:, :9] += y[:, None] * 3
    model = RidgeClassifier(max_df=max_df).fit(X, y)
    rows, shares = (X - X.mean(axis=0)) / X.std(axis=0), np.bincount(y) / 400
    left, singular, right = np.linalg.svd(rows, full_matrices=False)
    projected = left.T @ (np.eye(3)[y] - shares)
    alphas = np.geomspace(*model.alphas_[[0, -1]], 1000)

    def criterion(alphas):
        shrunk = singular**2 / (singular**2 + np.atleast_1d(alphas)[:, None])
        explained = (2 * shrunk - shrunk**2) @ np.sum(projected**2, axis=1)
        df = 1 + shrunk.sum(axis=1)
        return 400 * (400 * (shares @ (1 - shares)) - explained) / (400 - df) ** 2, df

    assert [model.gcv_, model.df_] == pytest.approx(np.ravel(criterion(model.alpha_)), rel=1e-10)
    gcv, df = criterion(alphas)
    best = alphas[np.argmin(np.where(df <= max_df * 400, gcv, np.inf))]
    assert np.log(model.alpha_) == pytest.approx(np.log(best), abs=0.02)
    assert model.df_ <= max_df * 400
    slopes = right.T @ ((singular / (singular**2 + model.alpha_))[:, None] * projected)
    np.testing.assert_allclose(model.decision_function(X), 2 * (rows @ slopes + shares) - 1, atol=1e-10)


@pytest.mark.parametrize("shape", [(100, 5), (50, 80)])
def test_without_a_penalty_it_is_least_squares_of_collinear_features_too(shape):
    rows, y = RNG.normal(size=shape), RNG.integers(3, size=shape[0])
    X = np.column_stack([rows, rows[:, 0] + rows[:, 1], np.full(len(rows), 0.1)])
    slopes, *_ = np.linalg.lstsq(X, np.eye(3)[y], rcond=None)
    model = RidgeClassifier(0.0).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), 2 * (X @ slopes) - 1, atol=1e-9)


@pytest.mark.parametrize("n_tables", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_batches_in_any_split_and_order_choose_the_same_penalty(n_tables):
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        n_rows, n_features = rng.integers([30, 1], [300, 12])
        y = rng.integers(rng.integers(2, 6), size=n_rows)
        X = rng.normal(size=(n_rows, n_features)) @ rng.normal(size=(n_features, n_features))
        X += y[:, None] * rng.normal(size=n_features) * rng.choice([0, 0.3, 2])
        whole, batches = RidgeClassifier().fit(X, y), RidgeClassifier()
        for rows in np.array_split(rng.permutation(n_rows), rng.integers(2, 9)):
            batches.partial_fit(X[rows], y[rows], classes=np.unique(y))
        assert np.log(batches.alpha_) == pytest.approx(np.log(whole.alpha_), rel=0, abs=1e-9)
        np.testing.assert_allclose(batches.predict_proba(X), whole.predict_proba(X), rtol=0, atol=1e-10)


def test_weights_are_repetitions_and_small_ones_do_not_hide_the_rows():
    X, y = load_iris(return_X_y=True)
    weights = np.random.default_rng(3).integers(0, 4, 150)
    model = RidgeClassifier(1.0, scale=False).fit(X, y, weights)
    criterion = RidgePath.of(model.statistics_, scale=False).criterion(1.0)
    assert [model.gcv_, criterion.residual_sum, model.df_] == pytest.approx(
        [0.266748782, 59.888960693, 4.791829856], abs=6e-10
    )
    light = RidgeClassifier().fit(X, y, np.full(150, 0.01))
    assert light.df_ <= 75
    assert (light.predict(X) == y).mean() > 0.8


def test_interpolation_is_not_chosen():
    X = np.random.default_rng(0).normal(size=(40, 200))
    model = RidgeClassifier().fit(X, np.arange(40) % 2)
    assert model.df_ <= 20
    assert RidgeClassifier(max_df=0.1).fit(X, np.arange(40) % 2).df_ <= 4 < model.df_


@pytest.mark.parametrize("seed", [10, 15, 29, 41])
def test_rows_that_are_almost_on_a_line_have_a_penalty(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 150)) * 10 ** rng.uniform(-3, -1) + rng.normal(size=(8, 1))
    assert RidgeClassifier().fit(X, np.arange(8) % 4).df_ <= 4 + 1e-6


@pytest.mark.parametrize("seed", [2, 21])
def test_the_most_degrees_of_freedom_may_be_the_best(seed):
    rng, y = np.random.default_rng(seed), np.arange(60) % 2
    X = rng.normal(size=(60, 80)) + 0.7 * y[:, None] * (np.arange(80) % 2)
    model = RidgeClassifier(scale=False).fit(X * 10 ** rng.uniform(-3, 3, 80), y)
    path = RidgePath.of(model.statistics_, scale=False)
    tried = [path.criterion(alpha) for alpha in np.geomspace(*path.alphas[[0, -1]], 60)]
    assert model.gcv_ <= min(one.gcv for one in tried if one.df <= 30)
    assert model.df_ <= 30


def test_it_reads_full_states_and_refuses_others():
    X, y = load_wine(return_X_y=True)
    full = RidgeClassifier.from_statistics(ClassStatistics("full").update(X, y))
    np.testing.assert_allclose(
        full.decision_function(X), RidgeClassifier().fit(X, y).decision_function(X), atol=1e-10
    )
    with pytest.raises(ValueError, match="tied"):
        RidgeClassifier.from_statistics(ClassStatistics("diag").update(X, y))
    incomplete = MixtureDiscriminantAnalysis  # any model that learns where features are missing
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="learns from complete rows"):
        RidgeClassifier.from_statistics(incomplete(1, missing="marginal").fit(X, y).statistics_)
    with pytest.raises(ValueError, match="NaN"):
        RidgeClassifier().fit(X, y)


def test_features_that_do_not_vary_count_nothing():
    X, y = load_iris(return_X_y=True)
    wider = np.column_stack([X, np.full(150, 0.1), X[:, 0] * 1e9])
    wider[:, -1] = 7e8
    model = RidgeClassifier().fit(wider, y)
    np.testing.assert_array_equal(model.coef_[:, -2:], 0)
    np.testing.assert_allclose(
        model.decision_function(wider), RidgeClassifier().fit(X, y).decision_function(X), atol=1e-8
    )


# ---------------------------------------------------------------------- leaving rows out, and calibration


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_left_out_in_closed_form(weighted):
    X, y = load_iris(return_X_y=True)
    weights = RNG.uniform(0.5, 2, 150) if weighted else np.ones(150)
    model = RidgeClassifier(1.0, scale=False).fit(X, y, weights)
    left = RidgePath.of(model.statistics_, scale=False).at(1.0).left_out(X, y, weights)
    if not weighted:
        assert ((np.eye(3)[y] - left) ** 2).sum() == pytest.approx(42.925305647, abs=1e-9)
    for i in range(0, 150, 15):
        rest = np.arange(150) != i
        refit = linear_model.RidgeClassifier(1.0).fit(X[rest], y[rest], weights[rest])
        expected = (refit.decision_function(X[[i]])[0] + 1) / 2
        np.testing.assert_allclose(left[i], expected, atol=1e-10)


@pytest.mark.slow_cases("softmax")
@pytest.mark.parametrize("method", ["temperature", "softmax", "auto"])
def test_calibration_lowers_the_log_loss_of_new_rows(method, tmp_path):
    X, y = load_digits(return_X_y=True)
    model = RidgeClassifier().fit(X[::2], y[::2])
    before, labels = evaluate(model, X[1::2], y[1::2]), model.predict(X[1::2])
    assert model.calibrate(X[::2], y[::2], method=method) is model
    after = evaluate(model, X[1::2], y[1::2])
    assert after.log_loss < before.log_loss
    assert after.log_loss == pytest.approx(model.validation_log_loss_, rel=0.25)
    assert 1 - after.accuracy == pytest.approx(model.validation_error_, abs=0.04)
    if method == "temperature":
        assert (model.predict(X[1::2]) == labels).all()
        assert after.best_temperature == pytest.approx(model.temperature, rel=0.3)
    model.save(tmp_path / "model.parquet")
    for twin in (load(tmp_path / "model.parquet"), pickle.loads(pickle.dumps(model)), model.snapshot()):
        np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
    decision = model.decision_function(X)
    np.testing.assert_allclose(decision, X @ model.coef_.T + model.intercept_, atol=1e-10)
    np.testing.assert_array_equal(model.classes_[decision.argmax(axis=1)], model.predict(X))
    assert not hasattr(model.fit(X[::2], y[::2]), "validation_error_")


@pytest.mark.parametrize("method", ["temperature", "softmax"])
def test_rows_that_are_all_predicted_rightly_do_not_make_a_model_certain(method):
    X, y = load_iris(return_X_y=True)
    model = RidgeClassifier().fit(X[:100:10], y[:100:10]).calibrate(X[:100:10], y[:100:10], method=method)
    assert model.validation_error_ == 0
    assert model.validation_log_loss_ > 0.02
    assert 0.6 < model.predict_proba(X[:100]).max(axis=1).mean() < 0.99


def test_calibration_says_what_it_lacks():
    X, y = load_iris(return_X_y=True)
    model = RidgeClassifier().fit(X, y)
    with pytest.raises(ValueError, match="9 is none of the classes"):
        model.calibrate(X[:2], [1, 9])
    with pytest.raises(ValueError, match="needs 5 rows of each class"):
        model.calibrate(X[:60], y[:60], method="softmax")
    for short in ((y[:9],), (y, np.ones(9))):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.calibrate(X, *short)
    with pytest.raises(ValueError, match="row 3 has weight -1.0"):
        model.calibrate(X, y, np.where(np.arange(150) == 3, -1.0, 1.0))
    with pytest.raises(ValueError, match="no row has a weight"):
        model.calibrate(X, y, np.zeros(150))
    with pytest.raises(ValueError, match="method is 'auto'"):
        model.calibrate(X, y, method="isotonic")
    model.calibrate(X, y, method="softmax").partial_fit(X[:5] + 9, [3] * 5)
    with pytest.warns(UserWarning, match="calibrated for other classes"):
        model.predict(X)
    assert model.predict_proba(X).shape == (150, 4)


@pytest.mark.slow_cases("Mixture")
@pytest.mark.parametrize("kind", [GaussianNB, QuadraticDiscriminantAnalysis, MixtureDiscriminantAnalysis])
def test_other_classifiers_get_a_temperature(kind):
    X, y = load_breast_cancer(return_X_y=True)
    model = kind().fit(X[::2], y[::2])
    before = evaluate(model, X[1::2], y[1::2])
    model.calibrate(X[::2], y[::2])
    after = evaluate(model, X[1::2], y[1::2])
    assert after.log_loss < before.log_loss
    assert before.best_temperature / 2 < model.temperature < before.best_temperature * 2
    held_out = kind().fit(X[::2], y[::2]).calibrate(X[1::2], y[1::2], learnt=False)
    assert held_out.temperature == pytest.approx(before.best_temperature, rel=1e-9)


# ---------------------------------------------------------------------- wherever a model is taken


def test_a_search_computes_one_path_for_all_penalties(monkeypatch):
    X, y = load_wine(return_X_y=True)
    paths = []
    whole = RidgePath._of.__func__
    monkeypatch.setattr(RidgePath, "_of", classmethod(lambda *args: paths.append(1) or whole(*args)))
    grid = {"alpha": ["gcv", 0.1, 1.0, 10.0, 1000.0]}
    search = StatisticsSearchCV(RidgeClassifier(), grid, cv=3, scoring=["accuracy"], refit="accuracy")
    search.fit(X, y)
    assert len(paths) <= 3 + 1  # of each training part, and of all rows
    assert search.best_score_ > 0.97


@pytest.mark.slow
def test_it_goes_wherever_models_go(tmp_path):
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.array(["s", "v", "w"])[y])
    (tmp_path / "data").mkdir()
    for i in range(3):
        pq.write_table(pa.Table.from_pandas(frame[i::3]), tmp_path / "data" / f"{i}.parquet")
    source = scan_parquet(tmp_path / "data", "kind")
    rows = frame[list("abcd")]
    model = RidgeClassifier().fit(source).calibrate(rows, frame["kind"], method="softmax")
    probabilities = model.predict_proba(rows)
    predict_dataset(model, source, tmp_path / "out", columns=["label", "probabilities"])
    written = pd.read_parquet(tmp_path / "out")
    assert (written["predicted_label"].value_counts() == pd.Series(model.predict(rows)).value_counts()).all()
    answer = duckdb.sql(model.to_sql("frame")).df()
    np.testing.assert_allclose(answer.drop(columns="label").to_numpy(), probabilities, atol=1e-12)
    streamgda.onnx.register()
    graph = skl2onnx.to_onnx(model, X, options={"zipmap": False})
    _, answered = onnxruntime.InferenceSession(graph.SerializeToString()).run(None, {"X": X})
    np.testing.assert_allclose(answered, probabilities, atol=1e-12)


def test_it_takes_categories():
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        size=pd.Categorical(np.where(X[:, 0] > 5.8, "l", "s"))
    )
    model = RidgeClassifier(1.0, scale=False).fit(frame, y)
    dummies = np.column_stack([X, X[:, 0] > 5.8, X[:, 0] <= 5.8])
    peer = linear_model.RidgeClassifier(1.0).fit(dummies, y)
    np.testing.assert_allclose(model.decision_function(frame), peer.decision_function(dummies), atol=1e-10)
    np.testing.assert_allclose(
        model.to_sklearn().decision_function(frame), peer.decision_function(dummies), atol=1e-10
    )


def test_densities_are_not_there():
    model = RidgeClassifier().fit(*load_iris(return_X_y=True))
    assert not hasattr(model, "score_samples")
    assert not hasattr(model, "mahalanobis")
    search = StatisticsSearchCV(RidgeClassifier(), {"alpha": [1.0, 2.0]})
    curves = (partial(score, model) for score in (cross_validate, learning_curve))
    for score in (search.fit, search.partial_fit, *curves):
        with pytest.raises(ValueError, match="no densities, and so no log-likelihood: set scoring="):
            score(*load_iris(return_X_y=True))
