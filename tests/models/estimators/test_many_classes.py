"""Beside many classes, scores lie side by side in memory; rows keep their bits wherever they stand."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, softmax
from scipy.stats import multivariate_normal

from streamgda import ClassStatistics, GaussianNB, LinearDiscriminantAnalysis, evaluate
from streamgda.jobs.scoring.outputs.base import Field
from streamgda.jobs.scoring.outputs.parquet import ParquetOutput
from streamgda.models.gaussians.posteriors import largest, posteriors


@pytest.mark.slow_cases("1500", "Analysis-101")
@pytest.mark.parametrize(("n_features", "n_classes"), [(9, 63), (9, 64), (9, 130), (101, 257), (40, 1500)])
@pytest.mark.parametrize("estimator", [LinearDiscriminantAnalysis, GaussianNB])
def test_a_row_has_the_same_bits_alone_and_in_any_block(estimator, n_features, n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(5 * n_classes) % n_classes
    X = rng.normal(size=(n_classes, n_features))[y] + rng.normal(size=(len(y), n_features))
    model = estimator().fit(X, y)
    whole = model.predict_proba(X)
    for start, stop in [(0, 1), (7, 8), (3, 5), (5, 17), (0, 96), (10, 59), (1, len(X))]:
        assert_array_equal(model.predict_proba(X[start:stop]), whole[start:stop])
    assert_allclose(whole, softmax(model.predict_log_proba(X), axis=1), rtol=1e-12, atol=1e-320)
    assert evaluate(model, X, y).accuracy == model.score(X, y)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_classes", [3, 200])
def test_posteriors_keep_the_digits_that_float64_has_left_near_its_least_number(n_classes, order):
    scores = np.asarray(np.random.default_rng(0).uniform(-800, 0, size=(400, n_classes)), order=order)
    scores[:, 1], scores[0, 2] = 0.0, -np.inf
    ratios = np.array([[math.exp(value) for value in row] for row in scores])
    expected = ratios / ratios.sum(axis=1, keepdims=True)
    assert ((expected > 0) & (expected < np.finfo(np.float64).tiny)).any()
    assert_allclose(posteriors(scores), expected, rtol=1e-13, atol=1e-323)


def test_a_row_is_told_from_hundreds_of_classes_that_are_far_apart():
    rng = np.random.default_rng(0)
    means = 1e3 * rng.normal(size=(1700, 2))
    means[1300:] = means[:400] + rng.normal(size=(400, 2))  # pairs that are near each other
    rows = rng.normal(size=(20, 2)) @ [[1.0, 0.5], [0.0, 2.0]]
    statistics = ClassStatistics.from_moments(
        np.arange(1700), np.full(1700, 10), means, 1700 * rows.T @ rows, covariance_type="tied"
    )
    X, within = means[::100] + rng.normal(size=(17, 2)), rows.T @ rows / 10
    log_densities = np.array([multivariate_normal.logpdf(X, mean, within) for mean in means]).T
    expected = log_densities - log_densities.max(axis=1, keepdims=True)
    model = LinearDiscriminantAnalysis.from_statistics(statistics)
    assert_allclose(model.predict_log_proba(X), log_softmax(expected, axis=1), rtol=1e-9, atol=1e-12)
    assert_array_equal(model.predict_proba(X[7:9]), model.predict_proba(X)[7:9])


def exact_discriminant(row, mean, within):
    """−½ (x − μ)ᵀ Σ⁻¹ (x − μ) of two features, in rational arithmetic."""
    (a, b), (_, c) = [[Fraction(value) for value in line] for line in within.tolist()]
    u, v = (Fraction(x) - Fraction(m) for x, m in zip(row.tolist(), mean.tolist(), strict=True))
    return -(c * u * u - 2 * b * u * v + a * v * v) / (2 * (a * c - b * b))


@pytest.mark.filterwarnings("ignore::streamgda.DoubtfulModelWarning")  # of the far classes
@pytest.mark.parametrize("spread", [10.0, 1e3, 1e8])
@pytest.mark.parametrize("gap", [0.01, 1.0, 30.0])
def test_far_classes_of_correlated_features_keep_their_digits(spread, gap):
    """Pairs of classes, near each other in the direction in which a gap and its parts differ most."""
    rng = np.random.default_rng(0)
    means = spread * np.linspace(-1.0, 1.0, 6)[:, None] + 0.01 * rng.normal(size=(6, 2))
    means = np.concatenate([means, means + gap * np.array([0.01, -0.01])])
    scatter = 1200 * np.array([[1.0, 0.9999], [0.9999, 1.0]])
    statistics = ClassStatistics.from_moments(
        np.arange(12), np.full(12, 100), means, scatter, covariance_type="tied"
    )
    X = means + rng.normal(size=(12, 2)) @ [[0.5, 0.5], [0.005, -0.005]]
    model = LinearDiscriminantAnalysis.from_statistics(statistics)
    for row, found in zip(X, model.predict_log_proba(X), strict=True):
        scores = [exact_discriminant(row, mean, scatter / 1200) for mean in statistics.means]
        expected = log_softmax([float(score - max(scores)) for score in scores])
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------- blocks of classes


@given(st.data())
def test_the_largest_scores_come_in_the_order_of_a_stable_sort(data):
    values = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, -np.inf, np.inf])
    n_rows, n_classes = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 9))
    row = st.lists(values, min_size=n_classes, max_size=n_classes)
    scores = np.array(data.draw(st.lists(row, min_size=n_rows, max_size=n_rows))).reshape(n_rows, n_classes)
    n = data.draw(st.integers(1, n_classes))
    assert_array_equal(largest(scores, n), np.argsort(-scores, axis=1, kind="stable")[:, :n])


def test_parquet_is_not_asked_for_more_columns_than_it_is_read_with(tmp_path):
    probabilities = Field("probabilities", ("probability",) * 1_000_000, pa.float64())
    with pytest.raises(ValueError, match="1,000,000 columns are more than pyarrow reads.*columns=.'label'."):
        ParquetOutput(tmp_path / "out", None, [probabilities])
    assert not (tmp_path / "out").exists()
