"""Faults that were measured in other libraries, each a regression test here."""

from fractions import Fraction

import numpy as np
import pytest
import sklearn.discriminant_analysis
import sklearn.naive_bayes

from streamgda import ClassStatistics, GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from tests.strategies import KINDS

RNG_SEED = 0


def test_smoothing_comes_from_all_the_data_not_from_the_newest_batch():
    """scikit-learn 1.9's GaussianNB: partial_fit differs from fit where var_smoothing matters."""
    rng = np.random.default_rng(RNG_SEED)
    X = rng.normal(size=(300, 3)) * [1, 10, 100] * np.linspace(1, 5, 300)[:, None]
    y = np.arange(300) % 2

    def streamed(model):
        for rows in np.array_split(np.arange(300), 3):
            model.partial_fit(X[rows], y[rows], classes=[0, 1])
        return model

    ours, whole = streamed(GaussianNB(var_smoothing=0.1)), GaussianNB(var_smoothing=0.1).fit(X, y)
    np.testing.assert_allclose(ours.var_, whole.var_, rtol=1e-12)
    reference = sklearn.naive_bayes.GaussianNB(var_smoothing=0.1).fit(X, y)
    np.testing.assert_allclose(ours.var_, reference.var_, rtol=1e-10)
    theirs = streamed(sklearn.naive_bayes.GaussianNB(var_smoothing=0.1))
    assert np.abs(theirs.var_ / reference.var_ - 1).max() > 0.01


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 10, 1000])
def test_a_variance_of_one_at_a_mean_of_1e8(kind, batch):
    """oneDAL, Spark, H2O, vaex and others: variances of 6.5, 1.3 and −170."""
    rng = np.random.default_rng(RNG_SEED)
    X = rng.normal(size=(1000, 1)) + 1e8
    y = np.zeros(1000, dtype=int)
    state = ClassStatistics(kind)
    for start in range(0, 1000, batch):
        state.update(X[start : start + batch], y[start : start + batch])
    values = [Fraction(float(value)) for value in X.ravel()]
    mean = sum(values) / 1000
    exact = float(sum((value - mean) ** 2 for value in values) / 1000)
    np.testing.assert_allclose(state.covariance().ravel(), exact, rtol=1e-14)


def test_streaming_lda_with_new_classes_and_repeated_labels_in_a_batch():
    """Deep_SLDA, Avalanche, CapyMOA: a covariance that is wrong for either, or the total one."""
    rng = np.random.default_rng(RNG_SEED)
    y = np.repeat([0, 1, 2], [10, 150, 40])
    X = rng.normal(size=(200, 2)) + 50.0 * y[:, None]
    model = LinearDiscriminantAnalysis(store_covariance=True)
    for start in range(0, 200, 7):
        model.partial_fit(X[start : start + 7], y[start : start + 7])
    within = sum(np.cov(X[y == label].T, bias=True) * np.mean(y == label) for label in range(3))
    np.testing.assert_allclose(model.covariance_, within, rtol=1e-12)
    assert np.abs(model.covariance_).max() < 2


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


@pytest.mark.filterwarnings("ignore")
def test_more_classes_than_features_in_dask_ml():
    """The IndexError itself, where dask-ml is installed."""
    naive_bayes = pytest.importorskip("dask_ml.naive_bayes")
    import dask.array as da

    y = np.arange(100) % 5
    X = np.random.default_rng(RNG_SEED).normal(size=(100, 2)) + y[:, None]
    rows, labels = da.from_array(X, chunks=(50, 2)), da.from_array(y, chunks=50)
    assert GaussianNB().fit(rows, labels).predict_proba(rows).compute().shape == (100, 5)
    theirs = naive_bayes.GaussianNB().fit(rows, labels)
    with pytest.raises(IndexError):
        theirs.predict_proba(rows).compute()


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
