"""What rounding leaves is not taken for variance, and what is given is not taken for something else."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn import naive_bayes

from streamgda import ClassStatistics, GaussianNB, IncompleteStatistics, LinearDiscriminantAnalysis


@pytest.mark.slow_cases("0.7", "1.1")
@pytest.mark.parametrize("weight", [0.3, 0.7, 1.1])
def test_a_dummy_that_equals_the_class_is_constant_for_lda(weight):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 60)
        X = np.column_stack([rng.normal(size=60) + y, y.astype(float)])
        with pytest.warns(UserWarning, match="rank 1 of 2"):
            model = LinearDiscriminantAnalysis().fit(X, y, sample_weight=np.full(60, weight))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = LinearDiscriminantAnalysis().fit(X[:, :1], y, sample_weight=model.statistics_.weights[y])
        assert np.abs(model.coef_).max() < 1e3
        assert model.coef_[0, 1] == 0
        assert alone.classes_.tolist() == model.classes_.tolist()


def test_decay_makes_no_variance_of_a_constant_dummy():
    rng = np.random.default_rng(0)
    state = ClassStatistics("tied")
    for _ in range(50):
        y = rng.integers(0, 2, 20)
        state.decay(0.9).update(np.column_stack([rng.normal(size=20), y.astype(float)]), y)
    with pytest.warns(UserWarning, match="rank 1 of 2"):
        model = LinearDiscriminantAnalysis.from_statistics(state)
    assert model.coef_[0, 1] == 0


def test_naive_bayes_without_smoothing_refuses_what_varies_by_rounding_alone():
    rng = np.random.default_rng(1)
    y = np.arange(60) % 2
    X = np.column_stack([rng.normal(size=60), np.where(y, 0.1, rng.normal(size=60))])
    for scale in (1.0, 1e-150, 1e10):
        with pytest.raises(ValueError, match="class 1: feature 1 is constant in it"):
            GaussianNB(var_smoothing=0).fit(X * scale, y, sample_weight=rng.uniform(0.1, 3, 60))


def test_a_weighted_peer_is_taken_over_with_its_own_smoothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * [1.0, 30.0]
    y = rng.integers(0, 2, 200)
    X[y == 1] += [2.0, 0.0]
    weights = np.where(np.abs(X[:, 1]) > 20, 1e-3, 1.0)
    peer = naive_bayes.GaussianNB(var_smoothing=1e-3).fit(X, y, sample_weight=weights)
    ours = GaussianNB.from_sklearn(peer)
    assert ours.epsilon_ == pytest.approx(peer.epsilon_, rel=1e-12)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [GaussianNB, LinearDiscriminantAnalysis])
def test_priors_that_sum_to_1_but_for_rounding_are_scaled_to_1(kind):
    X, y = [[0.0], [1.0], [2.0], [4.0]], [0, 0, 1, 1]
    model = kind(priors=[0.3, 0.69999]).fit(X, y)
    priors = model.class_prior_ if kind is GaussianNB else model.priors_
    assert priors.sum() == pytest.approx(1.0, abs=1e-15)


def test_the_mean_of_few_rows_is_rounded_once_though_the_first_lies_far_from_it():
    X = np.zeros((11, 1))
    X[0] = 0.001
    assert ClassStatistics().update(X, np.zeros(11, int)).means[0, 0] == float(Fraction(0.001) / 11)


@pytest.mark.parametrize("sort", [ClassStatistics, IncompleteStatistics])
@pytest.mark.parametrize("values", [[1e308], [1e155, -1e155]])
@pytest.mark.parametrize("weight", [1.0, 1e-310, 1e150])
def test_numbers_near_the_largest_are_refused_or_infinite_without_warnings(sort, kind, values, weight):
    try:
        state = sort(kind).update(np.array(values)[:, None], [0] * len(values), [weight] * len(values))
        read = [
            state.sums,
            state.outer_sums,
            state.covariance(),
            state.overall_mean(),
            state.total_variance(),
        ]
    except ValueError:
        return
    assert not any(np.isnan(array).any() for array in read)
