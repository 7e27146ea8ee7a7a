"""The parameter `temperature`: posteriors ∝ p(x, k)^(1 / T), wherever they are asked for."""

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    cross_validate,
    evaluate,
    load,
    predict_dataset,
    scan_parquet,
)
from tests.strategies import FOUR_MODELS

ALL = [*FOUR_MODELS, MixtureDiscriminantAnalysis]
RNG = np.random.default_rng(0)
Y = np.array(["ant", "bee", "cat"])[np.arange(120) % 3]
X = RNG.normal(size=(120, 3)) + 2 * RNG.normal(size=(3, 3))[np.arange(120) % 3]


@pytest.mark.slow_cases("GaussianDisc")
@pytest.mark.parametrize("kind", ALL)
def test_posteriors_are_those_of_divided_scores(kind):
    model, tempered = kind().fit(X, Y), kind(temperature=2.5).fit(X, Y)
    expected = log_softmax(model.predict_log_proba(X) / 2.5, axis=1)
    np.testing.assert_allclose(tempered.predict_log_proba(X), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(tempered.predict_proba(X), np.exp(expected), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(tempered.decision_function(X), model.decision_function(X) / 2.5, rtol=1e-14)
    np.testing.assert_array_equal(tempered.predict(X), model.predict(X))
    for densities in ("score_samples", "mahalanobis", "p_values"):
        np.testing.assert_array_equal(getattr(tempered, densities)(X), getattr(model, densities)(X))
    if kind in FOUR_MODELS:  # of mixtures there is none
        assert tempered.log_likelihood_ == model.log_likelihood_


@pytest.mark.slow_cases("GaussianDisc")
@pytest.mark.parametrize("kind", ALL)
def test_it_takes_effect_without_a_fit_and_is_saved(kind, tmp_path):
    model = kind().fit(X, Y)
    before = model.predict_proba(X)
    model.set_params(temperature=0.5)
    tempered = model.predict_proba(X)
    np.testing.assert_allclose(tempered, before**2 / (before**2).sum(axis=1, keepdims=True), rtol=1e-12)
    model.save(tmp_path / "model.parquet")
    loaded = load(tmp_path / "model.parquet")
    assert loaded.temperature == 0.5
    np.testing.assert_array_equal(loaded.predict_proba(X), tempered)
    np.testing.assert_array_equal(model.set_params(temperature=1.0).predict_proba(X), before)
    model.set_params(temperature=0)
    with pytest.raises(ValueError, match="'temperature' parameter of .* must be a float in the range"):
        model.predict_proba(X)


@pytest.mark.slow_cases("Discriminant")
@pytest.mark.parametrize("kind", ALL)
def test_answers_out_of_core_have_it(kind, tmp_path):
    model = kind(temperature=3.0).fit(X, Y)
    expected = model.predict_proba(X)
    lazy = da.from_array(X, chunks=(50, -1))
    np.testing.assert_array_equal(model.predict_proba(lazy).compute(), expected)
    names = [f"probability_{label}" for label in model.classes_]
    pq.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "kind": Y}), tmp_path / "rows.parquet")
    source = scan_parquet(tmp_path / "rows.parquet", "kind")
    model = kind(temperature=3.0).fit(source)
    predict_dataset(model, source, tmp_path / "scored", columns=["probabilities"])
    np.testing.assert_array_equal(pq.read_table(tmp_path / "scored").to_pandas()[names], expected)
    own = expected[np.arange(len(Y)), np.searchsorted(model.classes_, Y)]
    assert evaluate(model, source).log_loss == pytest.approx(-np.log(own).mean(), rel=1e-12)
    model.set_params(temperature=1.0)
    predict_dataset(model, source, tmp_path / "scored", columns=["probabilities"])
    assert abs(pq.read_table(tmp_path / "scored").to_pandas()[names] - expected).max(axis=None) > 1e-3


@pytest.mark.slow_cases("Quadratic", "Linear")
@pytest.mark.parametrize("kind", FOUR_MODELS[:3])
def test_held_out_rows_are_scored_with_it(kind):
    scoring = ["accuracy", "log_likelihood", "neg_log_loss"]
    plain = cross_validate(kind(), X, Y, cv=3, scoring=scoring)
    tempered = cross_validate(kind(temperature=4.0), X, Y, cv=3, scoring=scoring)
    for name in scoring[:2]:
        np.testing.assert_array_equal(tempered[f"test_{name}"], plain[f"test_{name}"])
    assert (tempered["test_neg_log_loss"] != plain["test_neg_log_loss"]).all()


@given(st.floats(1e-300, 1e300), st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=4))
def test_any_temperature_leaves_the_order_of_scores(temperature, mean):
    labels = np.repeat(np.arange(3), 2)
    model = GaussianNB(var_smoothing=0.0).fit(np.array([0.0, 1, 2, 4, 3, 9])[:, None], labels)
    rows = np.array(mean)[:, None]
    expected = model.predict(rows)
    model.set_params(temperature=temperature)
    np.testing.assert_array_equal(model.predict(rows), expected)
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("solver", ["svd", "lsqr", "eigen"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scikit_learn_has_it_in_the_coefficients_of_lda(solver, n_classes):
    some = np.isin(Y, ["ant", "bee", "cat"][:n_classes])
    model = LinearDiscriminantAnalysis(solver, temperature=2.0).fit(X[some], Y[some])
    linear = X[some] @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X[some]), np.squeeze(linear), rtol=1e-9, atol=1e-9)
    peer = model.to_sklearn()
    np.testing.assert_allclose(peer.predict_proba(X), model.predict_proba(X), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kind", [FOUR_MODELS[0], *FOUR_MODELS[2:]])
def test_models_without_coefficients_refuse_to_lose_it(kind):
    with pytest.raises(ValueError, match="has no temperature; set temperature=1"):
        kind(temperature=2.0).fit(X, Y).to_sklearn()
