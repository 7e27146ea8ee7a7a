"""On a device, a model of random features is that of the host; the CPU is a device of PyTorch too."""

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator

from streamgda import ClassStatistics, RandomFeatureClassifier, RandomFeatures, load, scan_parquet
from streamgda.extensions.ridge.path import RidgePath

torch = pytest.importorskip("torch")

X, Y = load_wine(return_X_y=True)
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2, len(X))
FRAME = pd.DataFrame(X, columns=[f"c{j}" for j in range(13)]).assign(kind=Y, weight=WEIGHTS)
FIXED = {"features": FrozenEstimator(RandomFeatures(60).fit(X[::2])), "products": "float64"}
NOWHERE = "cuda:99"


def assert_same(there, here):
    """Models of equal statistics and probabilities; the last digit of a mapped row is not the same."""
    assert there.statistics_.counts.tolist() == here.statistics_.counts.tolist()
    assert there.statistics_.allclose(here.statistics_, 1e-6)
    assert there.alpha_ == pytest.approx(here.alpha_, rel=1e-6)
    rows = FRAME[here.feature_names_in_] if hasattr(here, "feature_names_in_") else X
    np.testing.assert_allclose(there.predict_proba(rows), here.predict_proba(rows), atol=1e-6)
    assert there.validation_log_loss_ == pytest.approx(here.validation_log_loss_, rel=1e-6)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_a_source_gives_the_model_of_the_host(tmp_path, weight):
    for i in range(4):
        pq.write_table(pa.Table.from_pandas(FRAME[i::4]), tmp_path / f"{i}.parquet")
    source = scan_parquet(tmp_path, "kind", weight=weight, exclude=[] if weight else ["weight"])
    features = RandomFeatures(60, metric="diag")
    here, there = (
        RandomFeatureClassifier(features=features, products="float64", device=device)
        for device in (None, "cpu")
    )
    assert_same(there.fit(source, scheduler="threads"), here.fit(source))


@pytest.mark.parametrize("devices", [("cpu", None), (None, "cpu"), ("cpu", "cpu")])
def test_batches_and_merges_of_either_side_are_one_fit(devices):
    halves, here = (slice(0, 120), slice(120, None)), RandomFeatureClassifier(**FIXED).fit(X, Y)
    batches, parts = RandomFeatureClassifier(**FIXED), []
    for some, device in zip(halves, devices, strict=True):
        batches.set_params(device=device).partial_fit(X[some], Y[some])
        parts.append(RandomFeatureClassifier(**FIXED, device=device).partial_fit(X[some], Y[some]))
    assert_same(batches, here)
    assert_same(parts[0].merge(parts[1]), here)
    assert_same(RandomFeatureClassifier(**FIXED, device=devices[0]).fit(X, Y), here)


@settings(max_examples=20)
@given(st.integers(2, 40), st.integers(50, 90), st.floats(1e-3, 10))
def test_a_path_is_solved_as_on_the_host(n_features, n_rows, alpha):
    rng = np.random.default_rng(n_features)
    rows, labels = rng.normal(size=(n_rows, n_features)), np.arange(n_rows) % 3
    state = ClassStatistics("tied").update(rows, labels)
    here, there = (RidgePath.of(state, scale=True, device=device) for device in (None, "cpu"))
    np.testing.assert_allclose(there.criterion(alpha), here.criterion(alpha), rtol=1e-9, atol=1e-9)
    ours, theirs = here.at(alpha), there.at(alpha)
    np.testing.assert_allclose(theirs.coefficients, ours.coefficients, rtol=1e-9, atol=1e-9)
    weights = np.ones(n_rows)
    expected = ours.left_out(rows, labels, weights)
    np.testing.assert_allclose(theirs.left_out(rows, labels, weights), expected, rtol=1e-8, atol=1e-8)


def test_a_value_that_is_missing_is_named():
    rows = np.where(np.arange(len(X))[:, None] == 7, np.nan, X)
    with pytest.raises(ValueError, match="row 7: feature 0 is NaN"):
        RandomFeatureClassifier(**FIXED, device="cpu").fit(rows, Y)


def test_a_saved_model_predicts_where_the_device_is_not(tmp_path):
    here = RandomFeatureClassifier(**FIXED).fit(X[:150], Y[:150])
    here.set_params(device=NOWHERE).save(tmp_path / "model.parquet")
    served = load(tmp_path / "model.parquet")
    assert served.device == NOWHERE
    np.testing.assert_array_equal(served.predict_proba(X), here.predict_proba(X))
    with pytest.raises(ValueError, match=NOWHERE):
        served.partial_fit(X[150:], Y[150:])
    with pytest.raises(ValueError, match=NOWHERE):
        served.fit(X, Y)
    served.set_params(device=None).partial_fit(X[150:], Y[150:])
    assert served.statistics_.n_rows == len(X)


def test_without_pytorch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="examples"):
        RandomFeatureClassifier(device="cpu").fit(X, Y)
