"""The estimators on Dask collections: fitted as in memory, and lazy in prediction."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    evaluate,
    progressive_score,
)
from tests.strategies import FOUR_MODELS

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, size=1000)
X = RNG.normal(size=(1000, 2)) + Y[:, None]
FRAME = pd.DataFrame(X, columns=["u", "v"])
METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples"]


@pytest.mark.slow_cases("GaussianDisc", "Linear")
@pytest.mark.parametrize("model", FOUR_MODELS)
def test_fitted_as_in_memory(model):
    expected = model().fit(X, Y, sample_weight=Y + 1).statistics_
    rows, labels = da.from_array(X, chunks=(300, 1)), da.from_array(Y, chunks=250)
    assert model().fit(rows, labels, sample_weight=labels + 1).statistics_.allclose(expected, rtol=1e-12)
    frame = dd.from_pandas(FRAME.assign(y=Y, w=Y + 1), npartitions=4)
    fitted = model().fit(frame[["u", "v"]], frame["y"], sample_weight=frame["w"])
    assert fitted.statistics_.allclose(expected, rtol=1e-12)
    assert fitted.feature_names_in_.tolist() == ["u", "v"]
    named = model().fit(frame, "y", sample_weight="w")
    assert named.statistics_.allclose(expected, rtol=1e-12)


@pytest.mark.slow_cases("GaussianDisc", "Linear", "Quadratic")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", FOUR_MODELS)
def test_arrays_in_lazy_arrays_out(model, method):
    fitted = model().fit(X, Y)
    lazy = getattr(fitted, method)(da.from_array(X, chunks=(300, 1)))
    expected = getattr(fitted, method)(X)
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-12)


@pytest.mark.slow_cases("GaussianDisc", "Linear", "Quadratic")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", FOUR_MODELS)
def test_frames_in_lazy_frames_out(model, method):
    fitted = model().fit(FRAME, np.array(["a", "b", "c"])[Y])
    frame = FRAME.set_index(pd.Index(np.arange(1000) * 7, name="key"))
    lazy = getattr(fitted, method)(dd.from_pandas(frame, npartitions=4))
    expected = getattr(fitted, method)(frame)
    computed = lazy.compute()
    assert isinstance(lazy, dd.Series if expected.ndim == 1 else dd.DataFrame)
    assert computed.index.equals(frame.index)
    if expected.ndim == 2:
        assert computed.columns.tolist() == lazy.columns.tolist() == ["a", "b", "c"]
    if method == "predict":
        assert (computed == expected).all()
    else:
        np.testing.assert_allclose(computed, expected, rtol=1e-12)


def test_nothing_is_computed_before_it_is_asked_for():
    def load(block):
        raise AssertionError("computed")

    fitted = GaussianNB().fit(X, Y)
    rows = da.zeros((1000, 2), chunks=(100, 2)).map_blocks(load, dtype=float, meta=np.empty((0, 2)))
    fitted.predict(rows)
    with pytest.raises(AssertionError, match="computed"):
        fitted.predict(rows).compute()


@pytest.mark.slow_cases("GaussianDisc", "Linear")
@pytest.mark.parametrize("model", FOUR_MODELS)
def test_what_is_learnt_later_does_not_change_lazy_scores(model):
    fitted = model().fit(FRAME, Y)
    arrays = {method: getattr(fitted, method)(FRAME) for method in METHODS}
    lazy = {method: getattr(fitted, method)(dd.from_pandas(FRAME, npartitions=3)) for method in METHODS}
    fitted.partial_fit(FRAME + 3, Y + 1)
    fitted.set_params(priors=[0.7, 0.1, 0.1, 0.1])
    for method, expected in arrays.items():
        np.testing.assert_allclose(lazy[method].compute(), expected, rtol=1e-12)
    assert not np.allclose(fitted.score_samples(FRAME), arrays["score_samples"])


@pytest.mark.parametrize("method", METHODS)
def test_what_cannot_be_scored_is_refused_before_anything_is_computed(method):
    score = getattr(GaussianNB().fit(FRAME, Y), method)
    frame = dd.from_pandas(FRAME, npartitions=2)
    for rows in (frame, da.zeros((4, 2), chunks=2)):
        with pytest.raises(NotFittedError):
            getattr(GaussianNB(), method)(rows)
    for rows, message in (
        (frame.assign(w=1.0), "unseen at fit time:\n- w"),
        (frame.assign(w="text"), "unseen at fit time:\n- w"),
        (frame[["u"]], "yet now missing:\n- v"),
        (frame[["v", "u"]], "feature names"),
        (frame.rename(columns={"u": "x"}), "feature names"),
        (frame.assign(v="text"), "columns 'v' hold text"),
        (da.zeros((4, 3), chunks=2), "X has 3 features, but GaussianNB is expecting 2"),
        (da.zeros(4, chunks=2), "two dimensions"),
        (frame["u"], "two dimensions"),
    ):
        with pytest.raises(ValueError, match=message):
            score(rows)


ROWS = [X, X.tolist(), pd.DataFrame(X), da.from_array(X), dd.from_pandas(pd.DataFrame(X), npartitions=2)]


@pytest.mark.parametrize("rows", ROWS, ids=lambda rows: type(rows).__module__)
def test_a_call_with_too_many_arguments_is_refused_whatever_the_rows_are(rows):
    model = GaussianNB().fit(X, Y)
    expected = model.predict_set(X, 0.5)
    for sets in (model.predict_set(rows, 0.5), model.predict_set(rows, quantile=0.5)):
        np.testing.assert_array_equal(np.asarray(sets), expected)
    for call in (
        lambda: model.predict(rows, 0.5),
        lambda: model.predict_set(rows),
        lambda: model.predict_set(rows, 0.5, 0.7),
        lambda: model.predict_set(rows, 0.5, quantile=0.7),
        lambda: model.predict_set(rows, 0.5, quantiles=0.7),
    ):
        with pytest.raises(TypeError, match="argument"):
            call()


def test_columns_whose_names_are_numbers():
    fitted = GaussianNB().fit(X, Y)
    lazy = fitted.predict(dd.from_pandas(pd.DataFrame(X), npartitions=3))
    assert (lazy.compute() == fitted.predict(X)).all()


def test_chunks_of_unknown_length_and_without_rows():
    fitted = QuadraticDiscriminantAnalysis().fit(X, Y)
    rows = da.from_array(X, chunks=(100, 2))
    kept = rows[rows[:, 0] > 1.5]
    some = fitted.predict_proba(kept).compute()
    np.testing.assert_allclose(some, fitted.predict_proba(X[X[:, 0] > 1.5]), rtol=1e-12)
    nothing = fitted.predict(rows[rows[:, 0] > 100])
    assert nothing.compute().shape == (0,)


def test_partial_fit_learns_a_collection_and_a_progressive_score_takes_rows_in_memory():
    rows, labels = da.from_array(X, chunks=100), da.from_array(Y, chunks=100)
    once = GaussianNB().fit(rows, labels)
    twice = GaussianNB().partial_fit(rows, labels).partial_fit(rows, labels)
    assert twice.statistics_ == once.statistics_ + once.statistics_
    with pytest.raises(TypeError, match="a Dask collection goes to fit"):
        progressive_score(GaussianNB(), [(rows, labels), (rows, labels)])


def test_models_with_equal_parameters_have_predictions_of_their_own():
    """Dask tells what it computes apart by tokens of the models."""
    first, second = GaussianNB().fit(X, Y), GaussianNB().fit(X, 2 - Y)
    assert dask.base.tokenize(first) == dask.base.tokenize(first) != dask.base.tokenize(second)
    rows = da.from_array(X, chunks=(100, 2))
    labels, others = dask.compute(first.predict(rows), second.predict(rows))
    np.testing.assert_array_equal(labels, first.predict(X))
    np.testing.assert_array_equal(others, second.predict(X))


def test_text_with_labels_beside_it_and_files_that_dask_would_join(tmp_path):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"city": rng.choice(["Oslo", "Rome"], 60), "age": rng.normal(size=60)})
    rows["kind"] = np.where((rows["city"] == "Rome") ^ (rng.random(60) < 0.3), "buys", "leaves")
    rows["weight"] = rng.integers(1, 4, 60)
    for start in 0, 20, 40:
        rows[start : start + 20].to_parquet(tmp_path / f"{start}.parquet")
    frame = dd.read_parquet(tmp_path)
    X, y = frame[["city", "age"]], frame["kind"]
    assert y.optimize().npartitions < y.npartitions == 3  # it reads one column of small files together
    model = LinearDiscriminantAnalysis().fit(X, y, sample_weight=frame["weight"])
    expected = LinearDiscriminantAnalysis().fit(rows[["city", "age"]], rows["kind"], rows["weight"])
    assert model.categories_ == {"city": ["Oslo", "Rome"]}
    np.testing.assert_allclose(model.predict_proba(rows), expected.predict_proba(rows), rtol=1e-12)
    assert evaluate(model, X, y).accuracy == expected.score(rows, rows["kind"])
    assert model.partial_fit(X[["age", "city"]], y).statistics_.n_rows == 120
    with pytest.raises(ValueError, match=r"'city' .* cannot be features; leave them out, or learn text as"):
        LinearDiscriminantAnalysis(categories=None).fit(X, y)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("wrong", [np.nan, 1e300])
@pytest.mark.parametrize("is_array", [False, True])
def test_an_error_of_a_row_says_in_which_partition_it_is(is_array, wrong):
    model, rows = GaussianNB().fit(X if is_array else FRAME, Y), X.copy()
    rows[733, 1] = wrong
    frame = pd.DataFrame(rows, columns=["u", "v"])
    lazy = da.from_array(rows, chunks=(250, 2)) if is_array else dd.from_pandas(frame, npartitions=4)
    for call in (model.predict, model.predict_proba, model.predict_log_proba):
        with pytest.raises(ValueError, match=r"^partition 2, row 233"):
            call(lazy).compute()
    with pytest.raises(ValueError, match=r"^row 733"):
        model.predict(rows if is_array else frame)
