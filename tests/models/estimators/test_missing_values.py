"""Rows with missing values, judged by the marginal density of what they have."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from streamgda import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from streamgda.models.gaussians.whitening import Whitening
from tests.reference import gaussians_of, log_joint


@pytest.fixture(scope="module")
def training():
    rng = np.random.default_rng(3)
    y = np.arange(900) % 3
    X = rng.normal(size=(900, 9)) @ rng.normal(size=(9, 9)) + rng.normal(size=(3, 9))[y] + 5
    return X, y


def with_holes(X):
    holed = X.copy()
    holed[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    return holed


def test_the_density_of_what_is_there_decides(model, training):
    X, y = training
    fitted = model(missing="marginal").fit(X, y)
    holed = with_holes(X[:30])
    holed[:5] = X[:5]  # complete rows too
    means, covariances = gaussians_of(fitted, X, y)
    expected = np.empty((30, 3))
    for row, joint in zip(holed, expected, strict=True):
        there = ~np.isnan(row)
        joint[:] = log_joint(row[there], means[:, there], covariances[:, there][:, :, there], [1 / 3] * 3)
    log_density = logsumexp(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.score_samples(holed), log_density[:, 0], rtol=1e-9)
    np.testing.assert_allclose(fitted.predict_log_proba(holed), expected - log_density, rtol=1e-7, atol=1e-9)
    assert np.array_equal(fitted.predict(holed), expected.argmax(axis=1))
    assert fitted.score(holed, y[:30]) == np.mean(expected.argmax(axis=1) == y[:30])
    decisions = fitted.decision_function(holed)
    gaps = expected - expected[:, :1]
    np.testing.assert_allclose(decisions - decisions[:, :1], gaps, rtol=1e-7, atol=1e-8)


def test_a_row_without_values_has_the_prior_as_its_posterior(model, training):
    priors = [0.2, 0.3, 0.5]
    fitted = model(missing="marginal", priors=priors).fit(*training)
    nothing = np.full((2, 9), np.nan)
    np.testing.assert_allclose(fitted.predict_proba(nothing), [priors] * 2, rtol=1e-12)
    np.testing.assert_allclose(fitted.score_samples(nothing), 0, atol=1e-12)


def test_a_missing_value_is_an_error_unless_asked_for(model, training):
    X, y = training
    holed = with_holes(X)
    row, feature = np.argwhere(np.isnan(holed))[0]
    remedy = r".* set_params\(missing='marginal'\)$"
    with pytest.raises(ValueError, match=f"^row {row}: feature {feature} is NaN or null{remedy}"):
        model().fit(X, y).predict(holed)
    names = list("abcdefghi")
    named = model().fit(pd.DataFrame(X, columns=names), y)
    with pytest.raises(ValueError, match=f"^row {row}: feature '{names[feature]}' is NaN or null{remedy}"):
        named.predict(pd.DataFrame(holed, columns=names))
    assert len(named.set_params(missing="marginal").predict(pd.DataFrame(holed, columns=names))) == len(X)
    with pytest.raises(ValueError, match="is NaN or null.* learn from what is observed.* missing='marginal'"):
        model().fit(holed, y)
    with pytest.raises(ValueError, match="infinity"):
        model(missing="marginal").fit(X, y).predict(np.where(np.isnan(holed), np.inf, holed))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "score_samples"])
def test_values_of_many_rows_that_threads_check_are_told_as_those_of_few(method, model, training):
    fitted, rows = model().fit(*training), np.tile(training[0], (40, 1))
    expected = getattr(fitted, method)(rows[:900])
    assert np.array_equal(getattr(fitted, method)(rows)[-900:], expected)
    for value, message in ((np.nan, "^row 35999: feature 8 is NaN or null"), (-np.inf, "infinity")):
        rows[-1, -1] = value
        with pytest.raises(ValueError, match=message):
            getattr(fitted, method)(rows)


@pytest.mark.parametrize("missing", ["raise", "marginal"])
def test_a_projection_of_a_missing_value_is_mended_by_filling_it_in(training, missing):
    X, y = training
    linear, holed = LinearDiscriminantAnalysis(missing=missing).fit(X, y), with_holes(X)
    row, feature = np.argwhere(np.isnan(holed))[0]
    with pytest.raises(ValueError, match=f"^row {row}: feature {feature} is NaN .* complete rows") as raised:
        linear.transform(holed)
    assert str(raised.value).endswith("model.transform(model.impute(X))")
    assert "set_params" not in str(raised.value)
    assert np.isfinite(linear.transform(linear.impute(holed))).all()


def test_a_row_too_far_to_tell_is_named_by_its_place_among_all_rows(training):
    X, y = training
    fitted = QuadraticDiscriminantAnalysis(missing="marginal").fit(X, y)
    holed = with_holes(X)
    holed[612] = 1e200
    with pytest.raises(ValueError, match="row 612 is too far"):
        fitted.predict(holed)


def test_marginals_of_a_singular_lda_work_in_their_range(training):
    X, y = training
    doubled = np.column_stack([X, X[:, 0]])
    with pytest.warns(UserWarning, match="rank 9 of 10"):
        fitted = LinearDiscriminantAnalysis(missing="marginal").fit(doubled, y)
    holed = doubled[:50].copy()
    holed[:, 9] = np.nan  # what is left is regular, and all there is to know
    plain = LinearDiscriminantAnalysis().fit(X, y).predict_proba(X[:50])
    np.testing.assert_allclose(fitted.predict_proba(holed), plain, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("model", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis])
def test_units_change_no_marginal(model, training):
    X, y = training
    units = np.logspace(-140, 140, 9)
    holed = with_holes(X[:200])
    expected = model(missing="marginal").fit(X, y).predict_log_proba(holed)
    in_units = model(missing="marginal").fit(X * units, y).predict_log_proba(holed * units)
    np.testing.assert_allclose(in_units, expected, rtol=1e-10, atol=1e-10)


def test_a_marginal_that_rounding_makes_singular_is_judged_by_its_spectrum():
    regular = Whitening(np.ones((3, 3)), least_eigenvalue=0.0, matrix=np.eye(3), log_pdet=0.0)
    marginal = regular.marginal(np.array([True, False, True]), np.zeros((1, 2)))
    assert marginal.rank == 1
    np.testing.assert_allclose(marginal.matrix.T @ marginal.covariance @ marginal.matrix, [[1.0]])
