"""Means that float64 does not hold: predictions use the digits that the state keeps of them."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

from streamgda import (
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)

MODELS = [
    partial(GaussianNB, var_smoothing=0),
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    GaussianDiscriminantAnalysis,
    partial(GaussianNB, var_smoothing=0, pooling=0.5),
    partial(QuadraticDiscriminantAnalysis, pooling=0.5),
    partial(QuadraticDiscriminantAnalysis, pooling="bayes", predictive="student"),
    partial(GaussianNB, var_smoothing=0, predictive="student"),
]
RNG = np.random.default_rng(0)


def far_rows(offset, n=300):
    """Rows near to an offset in multiples of its spacing, so that they are exact; and how far they are."""
    y = RNG.integers(0, 3, n)
    step = np.spacing(offset)
    gaps = np.rint((RNG.normal(size=(n, 2)) + 0.7 * y[:, None]) / step) * step
    return offset + gaps, gaps, y


@pytest.mark.slow_cases("1000000000000.0", "100000000.0-1e-12-GaussianD")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("offset", "atol"), [(1e8, 1e-12), (1e12, 1e-11), (1e15, 1e-11)])
def test_predictions_far_from_zero_are_those_near_it(model, offset, atol):
    rows, gaps, y = far_rows(offset)
    assert all(
        Fraction(a) - Fraction(offset) == Fraction(b) for a, b in zip(rows[:, 0], gaps[:, 0], strict=True)
    )
    far, near = model().fit(rows, y), model().fit(gaps, y)
    np.testing.assert_allclose(far.predict_log_proba(rows), near.predict_log_proba(gaps), rtol=0, atol=atol)
    np.testing.assert_allclose(far.mahalanobis(rows), near.mahalanobis(gaps), rtol=0, atol=atol)
    np.testing.assert_array_equal(far.predict(rows), near.predict(gaps))


@pytest.mark.parametrize("model", MODELS[:-2])
@pytest.mark.parametrize("offset", [1e8, 1e12, 1e15])
def test_a_boundary_far_from_zero_is_that_near_it(model, offset):
    rows, gaps, y = far_rows(offset)
    far, near = (model().fit(X, y).boundary(0, 2) for X in (rows, gaps))
    np.testing.assert_allclose(far(rows), near(gaps), rtol=0, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_a_missing_value_far_from_zero_changes_nothing_else(model):
    rows, gaps, y = far_rows(1e14)
    far = model(missing="marginal").fit(rows, y)
    near = model(missing="marginal").fit(gaps, y)
    rows[::2, 0] = gaps[::2, 0] = np.nan
    np.testing.assert_allclose(far.predict_log_proba(rows), near.predict_log_proba(gaps), rtol=0, atol=1e-11)
    np.testing.assert_allclose(far.impute(rows) - 1e14, near.impute(gaps), rtol=0, atol=4 * np.spacing(1e14))


@pytest.mark.filterwarnings("ignore::streamgda.DoubtfulModelWarning")  # of the far class
@pytest.mark.parametrize("far", [1e8, 1e12, 1e17])
@pytest.mark.parametrize("labels", [(0, 1, 2), (2, 0, 1)], ids=["first", "last"])
def test_a_class_that_is_far_away_costs_the_others_no_digits(labels, far):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(50, 1)), 3 + rng.normal(size=(50, 1))
    away = far + np.spacing(far) * rng.integers(0, 1000, size=(50, 1))
    X, y = np.concatenate([away, a, b]), np.repeat(labels, 50)
    expected = norm.logpdf(a, a.mean(), a.std()) - norm.logpdf(a, b.mean(), b.std())
    for model in (QuadraticDiscriminantAnalysis(), GaussianNB(var_smoothing=0)):
        found = model.fit(X, y).predict_log_proba(a)
        np.testing.assert_allclose(found[:, labels[1]] - found[:, labels[2]], expected[:, 0], atol=1e-13)
