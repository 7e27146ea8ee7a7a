"""The estimators on Dask collections: fitted as in memory, and lazy in prediction."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

MODELS = [GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis]
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, size=1000)
X = RNG.normal(size=(1000, 2)) + Y[:, None]
FRAME = pd.DataFrame(X, columns=["u", "v"])
METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples"]


@pytest.mark.parametrize("model", MODELS)
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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", MODELS)
def test_arrays_in_lazy_arrays_out(model, method):
    fitted = model().fit(X, Y)
    lazy = getattr(fitted, method)(da.from_array(X, chunks=(300, 1)))
    expected = getattr(fitted, method)(X)
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", MODELS)
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


def test_chunks_of_unknown_length_and_without_rows():
    fitted = QuadraticDiscriminantAnalysis().fit(X, Y)
    rows = da.from_array(X, chunks=(100, 2))
    kept = rows[rows[:, 0] > 1.5]
    some = fitted.predict_proba(kept).compute()
    np.testing.assert_allclose(some, fitted.predict_proba(X[X[:, 0] > 1.5]), rtol=1e-12)
    nothing = fitted.predict(rows[rows[:, 0] > 100])
    assert nothing.compute().shape == (0,)


def test_a_partial_fit_is_of_rows_in_memory():
    with pytest.raises(TypeError, match="a Dask collection goes to fit"):
        GaussianNB().partial_fit(da.from_array(X, chunks=100), da.from_array(Y, chunks=100))


def test_several_predictions_in_one_computation():
    fitted = GaussianNB().fit(X, Y)
    rows = da.from_array(X, chunks=(100, 2))
    labels, probabilities = dask.compute(fitted.predict(rows), fitted.predict_proba(rows))
    assert (fitted.classes_[probabilities.argmax(axis=1)] == labels).all()
