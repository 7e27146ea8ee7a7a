"""The likelihood of the rows learnt, from the state alone, against scipy.stats and published values."""

import numpy as np
import pytest
from sklearn.covariance import OAS, LedoitWolf
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
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


@pytest.mark.parametrize(("shrinkage", "peer"), [("oas", OAS()), ("auto", LedoitWolf())])
def test_estimated_shrinkage_counts_by_its_shares(shrinkage, peer):
    X, y = IRIS
    of_classes = [X[y == k] for k in range(3)]
    if shrinkage == "auto":
        of_classes = [StandardScaler().fit_transform(rows) for rows in of_classes]
    shares = np.array([peer.fit(rows).shrinkage_ for rows in of_classes])
    of_target = 4 if shrinkage == "auto" else 1  # variances, or one variance
    each = (1 - shares) * 10 + shares * of_target
    qda = QuadraticDiscriminantAnalysis(shrinkage=shrinkage, reg_param=0.2).fit(X, y)
    assert qda.n_parameters_ == pytest.approx(3 * 4 + 2 + 0.8 * each.sum(), rel=1e-9)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X, y)
    if shrinkage == "oas":  # of the pooled covariance
        share = peer.fit(np.concatenate([rows - rows.mean(axis=0) for rows in of_classes])).shrinkage_
        each = (1 - share) * 10 + share
    assert lda.n_parameters_ == pytest.approx(3 * 4 + 2 + np.mean(each), rel=1e-9)


@pytest.mark.parametrize(
    ("single", "params"),
    [
        (QuadraticDiscriminantAnalysis(pooling="bayes", reg_param=0.5), {"reg_param": 0.5}),
        (QuadraticDiscriminantAnalysis(shrinkage="oas"), {"shrinkage": "oas", "pooling": None}),
        (LinearDiscriminantAnalysis(shrinkage=0.3), {"shrinkage": 0.3, "covariance_type": "tied"}),
        (GaussianNB(pooling="bayes", priors=[0.5, 0.3, 0.2]), {"covariance_type": "diag"}),
    ],
    ids=str,
)
def test_mixtures_count_as_the_model_of_their_subclasses(single, params):
    priors = single.priors
    mixture = MixtureDiscriminantAnalysis(1, priors=priors, **params).fit(*IRIS)
    assert mixture.n_parameters_ == single.fit(*IRIS).n_parameters_
    more = MixtureDiscriminantAnalysis(2, priors=priors, covariance_type="tied").fit(*IRIS)
    assert more.n_parameters_ == 6 * 4 + 10 + (3 if priors else 5)


def test_rows_of_a_class_that_cannot_be_estimated_have_no_likelihood():
    X, y = IRIS
    model = QuadraticDiscriminantAnalysis(singular="skip")
    with pytest.warns(UserWarning, match="class 3 gets no posterior"):
        model.fit(np.vstack([X, X[:1]]), np.append(y, 3))
    assert model.log_likelihood_ == -np.inf
