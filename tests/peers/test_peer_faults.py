"""Faults that were measured in other libraries, each a regression test here."""

import numpy as np
import pytest
import sklearn.discriminant_analysis
import sklearn.naive_bayes

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

RNG_SEED = 0


@pytest.mark.slow
def test_float32_rows_are_summed_in_float64():
    """scikit-learn's LDA: means of 996.3 for a million float32 rows near 1000."""
    rng = np.random.default_rng(RNG_SEED)
    X = (rng.normal(size=(1_000_000, 2)) + 1000).astype(np.float32)
    y = rng.integers(0, 2, size=len(X))
    for model in (GaussianNB(), LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis()):
        means = model.fit(X, y).statistics_.means
        exact = [X[y == label].astype(np.float64).mean(axis=0) for label in (0, 1)]
        np.testing.assert_allclose(means, exact, rtol=1e-13)
    theirs = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    assert np.abs(theirs.means_ - exact).max() > 0.1


@pytest.mark.parametrize("unit", [1e-12, 0.005, 1.0, 1e12])
def test_the_verdict_on_rank_does_not_depend_on_units(unit):
    """scikit-learn's QDA: a feature of standard deviation 0.005 is "not full rank"."""
    rng = np.random.default_rng(RNG_SEED)
    X = rng.normal(size=(500, 3))
    y = np.arange(500) % 2
    scaled = X * [unit, 1, 1]
    for model in (QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis):
        expected = model().fit(X, y).predict_proba(X)
        np.testing.assert_allclose(model().fit(scaled, y).predict_proba(scaled), expected, rtol=1e-8)
    if unit <= 0.005:
        with pytest.raises(np.linalg.LinAlgError, match="not full rank"):
            sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis().fit(scaled, y)
    collinear = np.column_stack([scaled, scaled[:, 0] + scaled[:, 1] * unit])
    with pytest.raises(np.linalg.LinAlgError, match="class 0 is.* rank 3 of 4, from 250 rows"):
        QuadraticDiscriminantAnalysis().fit(collinear, y)


def test_more_classes_than_features_priors_used_and_constant_features_survived():
    """dask-ml's GaussianNB: IndexError, priors never used, zero variance unprotected."""
    rng = np.random.default_rng(RNG_SEED)
    y = np.arange(100) % 5
    X = np.column_stack([y + rng.normal(size=100), np.ones(100)])
    model = GaussianNB(priors=[0.6, 0.1, 0.1, 0.1, 0.1]).fit(X, y)
    assert np.isfinite(model.predict_log_proba(X)).all()
    reference = sklearn.naive_bayes.GaussianNB(priors=[0.6, 0.1, 0.1, 0.1, 0.1]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), rtol=1e-6)
    with pytest.raises(
        ValueError, match="class 0: feature 1 is constant in it, and var_smoothing adds nothing"
    ):
        GaussianNB(var_smoothing=0).fit(X, y)


def test_a_batch_touches_the_classes_that_are_in_it_and_no_others():
    """cuML #8316: partial_fit updated the wrong row. RubixML #450: smoothing piled up on the absent."""
    rng = np.random.default_rng(RNG_SEED)
    X, y = rng.normal(size=(90, 2)), np.repeat(["c", "a", "b"], 30)
    model = GaussianNB(var_smoothing=0.5).partial_fit(X, y)
    before = model.statistics_.copy()
    model.partial_fit(rng.normal(size=(7, 2)) + 9, ["b"] * 7)
    for name in ("counts", "weights", "means", "scatter"):
        ours, old = getattr(model.statistics_, name), getattr(before, name)
        assert (ours[[0, 2]] == old[[0, 2]]).all()
        assert (ours[1] != old[1]).all()
