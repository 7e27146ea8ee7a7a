"""The likelihood of the rows learnt, from the state alone, against scipy.stats and published values."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from tests.reference import covariances_of, log_joint

IRIS = load_iris(return_X_y=True)
MODELS = [
    QuadraticDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.1, priors=[0.5, 0.3, 0.2]),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(shrinkage="oas"),
    GaussianNB(var_smoothing=1e-3),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_it_is_the_sum_of_the_log_densities_of_the_rows(model):
    X, y = IRIS
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    if hasattr(model, "store_covariance"):
        model.set_params(store_covariance=True)
    model.fit(X, y, weights)
    means = model.statistics_.means
    priors = np.bincount(y, weights) / weights.sum() if model.priors is None else model.priors
    expected = weights @ log_joint(X, means, covariances_of(model), priors)[np.arange(len(y)), y]
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-12)
    n_free = model.n_parameters_
    assert model.bic_ == pytest.approx(2 * expected - n_free * np.log(weights.sum()), rel=1e-12)
    assert model.aic_ == pytest.approx(2 * expected - 2 * n_free, rel=1e-12)
    n_of_priors = 2 if model.priors is None else 0
    assert model.set_params(priors=[0.2, 0.3, 0.5]).n_parameters_ == n_free - n_of_priors


def test_rows_of_a_class_that_cannot_be_estimated_have_no_likelihood():
    X, y = IRIS
    model = QuadraticDiscriminantAnalysis(singular="skip")
    with pytest.warns(UserWarning, match="class 3 gets no posterior"):
        model.fit(np.vstack([X, X[:1]]), np.append(y, 3))
    assert model.log_likelihood_ == -np.inf
