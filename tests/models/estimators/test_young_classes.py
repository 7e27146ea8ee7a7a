"""A stream in which a class begins with fewer rows than its covariance takes."""

import pickle
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    evaluate,
    load,
    scan_parquet,
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    return rng.normal(size=(90, 3)) + 3 * y[:, None], np.array(["a", "b", "c"])[y]


def learnt(X, y, **params):
    old = y != "c"
    return QuadraticDiscriminantAnalysis(**params).partial_fit(X[old], y[old])


@pytest.mark.parametrize("params", [{}, {"shrinkage": "oas"}, {"missing": "marginal"}, {"exact": True}])
def test_a_mistyped_label_changes_no_prediction_of_the_others(rows, params):
    X, y = rows
    X = X.round(3)
    model = learnt(X, y, **params)
    before = model.predict_proba(X)
    model.partial_fit(X[:1], ["typo"])
    if params.get("shrinkage"):  # which shrinks one row to a covariance of zero
        params = {}
    with pytest.warns(UserWarning, match="class typo gets no posterior until .* rank 0 of 3, from 1 row;"):
        after = model.predict_proba(X)
    np.testing.assert_array_equal(after[:, 2], 0.0)
    np.testing.assert_allclose(after[:, :2], before, rtol=0.05, atol=1e-6)
    np.testing.assert_array_equal(model.predict_log_proba(X)[:, 2], -np.inf)
    np.testing.assert_array_equal(model.mahalanobis(X)[:, 2], np.inf)
    np.testing.assert_array_equal(model.mahalanobis(X, ["typo"] * len(X)), np.inf)
    np.testing.assert_array_equal(model.p_values(X)[:, 2], 0.0)
    assert set(model.sample(200, random_state=0)[1]) == {"a", "b"}
    with pytest.raises(np.linalg.LinAlgError, match="class typo"):
        model.sample(1, "typo")
    model.statistics_.drop_class("typo")
    np.testing.assert_allclose(model.predict_proba(X), before, rtol=1e-12)


def test_it_warns_once_and_again_of_another_class(rows):
    X, y = rows
    model = learnt(X, y).partial_fit(X[:1], ["new"])
    with pytest.warns(UserWarning, match="class new"):
        model.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X[1:2], ["new"]).predict(X)
    model.partial_fit(X[:1], ["newer"])
    with pytest.warns(UserWarning, match="class newer"):
        model.predict(X)


def test_it_gets_posteriors_as_soon_as_it_can_be_estimated(rows):
    X, y = rows
    model, new = learnt(X, y), X[y == "c"]
    for i in range(4):
        model.partial_fit(new[i : i + 1], ["c"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posteriors = model.predict_proba(new)[:, 2]
        assert (posteriors > 0).any() == (i == 3)
    model.partial_fit(new[4:], ["c"] * len(new[4:]))
    np.testing.assert_allclose(
        model.predict_proba(X),
        QuadraticDiscriminantAnalysis().fit(X, y).predict_proba(X),
        rtol=1e-9,
        atol=1e-12,
    )


def test_fit_raises_unless_asked_to_skip(rows):
    X, y = rows
    y = np.append(y, "one")
    X = np.vstack([X, X[:1]])
    for params in ({}, {"singular": "raise"}):
        with pytest.raises(np.linalg.LinAlgError, match="y has only 1 sample in class one, .*rank 0 of 3"):
            QuadraticDiscriminantAnalysis(**params).fit(X, y)
    with pytest.warns(UserWarning, match="class one"):
        model = QuadraticDiscriminantAnalysis(singular="skip").fit(X, y)
    assert set(model.predict(X)) == {"a", "b", "c"}
    with pytest.raises(np.linalg.LinAlgError, match="class one"):
        model.to_sklearn()
    strict = QuadraticDiscriminantAnalysis(singular="raise").partial_fit(X, y)
    with pytest.raises(np.linalg.LinAlgError, match="class one"):
        strict.predict(X)


def test_a_young_class_travels_and_is_evaluated(rows, tmp_path):
    X, y = rows
    model = learnt(X, y).partial_fit(X[:1], ["new"])
    model.save(tmp_path / "model.parquet")
    for twin in (load(tmp_path / "model.parquet"), pickle.loads(pickle.dumps(model))):
        with pytest.warns(UserWarning, match="class new"):
            evaluation = evaluate(twin, X, y)
        assert evaluation.confusion_matrix[:, evaluation.classes == "new"].sum() == 0


def test_a_pass_whose_model_is_singular_is_kept(rows, tmp_path):
    X, y = rows
    table = pa.table({"u": X[:, 0], "v": X[:, 1], "w": X[:, 0] + X[:, 1], "y": y})
    pq.write_table(table, tmp_path / "rows.parquet")
    model = QuadraticDiscriminantAnalysis()
    with pytest.raises(np.linalg.LinAlgError, match=r"collinear in it: 'u', 'v', 'w'.*kept in statistics_"):
        model.fit(scan_parquet(tmp_path / "rows.parquet", "y"))
    assert model.statistics_.n_rows == 90
    assert model.set_params(reg_param=0.1).score(table.drop_columns("y").to_pandas(), y) > 0.8


def test_merge_takes_statistics_that_hold_what_the_model_needs(rows):
    once = QuadraticDiscriminantAnalysis().fit(*rows)
    merged = QuadraticDiscriminantAnalysis().merge(once.statistics_).merge(once)
    assert merged.statistics_ == once.statistics_ + once.statistics_
    assert once.statistics_.n_rows == 90
    tied = LinearDiscriminantAnalysis().merge(once.statistics_)
    assert tied.statistics_.covariance_type == "tied"
    with pytest.raises(ValueError, match="exact=True asks for exact statistics"):
        QuadraticDiscriminantAnalysis(exact=True).merge(once.statistics_)


@pytest.mark.parametrize("kind", [ClassStatistics, ExactClassStatistics])
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_a_dropped_class_leaves_no_trace(kind, covariance_type):
    X, y = [[1.0, 2.0], [2.0, 0.0], [5.0, 5.0], [1.0, 1.0]], [0, 0, 1, 0]
    state = kind(covariance_type).update(X, y)
    others = kind(covariance_type).update([X[0], X[1], X[3]], [0, 0, 0])
    assert state.drop_class(1) == others
    with pytest.raises(ValueError, match="1 is none of the classes: 0"):
        state.drop_class(1)
    assert state.drop_class(0).n_rows == 0


def test_a_shared_scatter_keeps_its_classes():
    with pytest.raises(ValueError, match="one scatter of all classes, so class 1 stays in it"):
        ClassStatistics("tied").update([[1.0], [2.0], [4.0]], [0, 1, 1]).drop_class(1)
