"""The fourteen covariance models: published values, laws of the fits, and the estimator in every place."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize
from sklearn.datasets import load_iris, load_wine

from streamgda import (
    ClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from streamgda.extensions.edda.parsimonious import MODELS, fit
from streamgda.models.gaussians.axes import principal_axes
from tests.reference import log_joint

IRIS = load_iris(return_X_y=True)
PUBLISHED = {  # log-likelihood without the shares of the classes, and number of parameters
    "EII": (-279.8759, 13),
    "VII": (-253.1732, 15),
    "EEI": (-219.2965, 16),
    "VEI": (-190.6670, 18),
    "EVI": (-199.4338, 22),
    "VVI": (-161.2582, 24),
    "EEE": (-98.4119, 22),
    "VEE": (-80.8898, 24),
    "EVE": (-76.7508, 28),
    "VVE": (-56.1908, 30),
    "EEV": (-56.0086, 34),
    "VEV": (-29.2557, 36),
    "EVV": (-49.5657, 40),
    "VVV": (-23.5837, 42),
}


def log_likelihood(covariances, scatter, weights):
    """Σ ln p(x | k), by the definition."""
    terms = zip(covariances, scatter, weights, strict=True)
    return sum(
        -0.5 * n * (len(C) * np.log(2 * np.pi) + np.linalg.slogdet(C)[1])
        - 0.5 * np.trace(np.linalg.solve(C, W))
        for C, W, n in terms
    )


def scatters(seed, n_classes=3, n_features=3, rows=12, unit=1.0):
    """The scatters and weights of random rows, of classes with covariances of their own."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(n_classes, n_features, n_features)) * unit ** np.arange(n_features)
    X = rng.normal(size=(n_classes, rows, n_features)) @ mixing
    y = np.repeat(np.arange(n_classes), rows)
    state = ClassStatistics().update(X.reshape(-1, n_features), y)
    return state.scatter, state.weights


# ---------------------------------------------------------------------- the fits


@pytest.mark.parametrize("model", MODELS)
def test_iris_has_the_published_likelihood(model):
    fitted = GaussianDiscriminantAnalysis(covariance_model=model).fit(*IRIS)
    expected, n_parameters = PUBLISHED[model]
    assert fitted.log_likelihood_ - 150 * np.log(1 / 3) == pytest.approx(expected, abs=6e-5)
    assert fitted.n_parameters_ == n_parameters + 2
    assert fitted.covariance_model_ == model
    assert fitted.bic_ == {
        model: pytest.approx(2 * fitted.log_likelihood_ - np.log(150) * (n_parameters + 2))
    }
    assert fitted.aic_ == pytest.approx(2 * fitted.log_likelihood_ - 2 * (n_parameters + 2))


def test_iris_is_of_the_published_model():
    model = GaussianDiscriminantAnalysis().fit(*IRIS)
    assert model.covariance_model_ == "VEV"
    assert max(model.bic_, key=model.bic_.get) == "VEV"
    assert list(model.bic_) == list(MODELS)
    assert not model.failures_
    assert (model.predict(IRIS[0]) != IRIS[1]).sum() == 3


@pytest.mark.slow_cases("EVE", "VVE")
@pytest.mark.parametrize("model", MODELS)
def test_covariances_are_those_of_their_volumes_shapes_and_orientations(model):
    fitted = GaussianDiscriminantAnalysis(covariance_model=model).fit(*load_wine(return_X_y=True))
    volumes, shapes, axes = fitted.volumes_, fitted.shapes_, fitted.orientations_
    for k, covariance in enumerate(fitted.covariance_):
        rebuilt = axes[k] * (volumes[k] * shapes[k]) @ axes[k].T
        np.testing.assert_allclose(rebuilt, covariance, rtol=1e-9, atol=1e-9 * np.abs(covariance).max())
        np.testing.assert_allclose(axes[k] @ axes[k].T, np.eye(13), atol=1e-12)
    np.testing.assert_allclose(np.log(shapes).sum(axis=1), 0, atol=1e-9)
    for part, letter in ((volumes, model[0]), (shapes, model[1]), (axes, model[2])):
        assert (np.ptp(part, axis=0).max() < 1e-9 * np.abs(part).max()) == (letter != "V")


@pytest.mark.parametrize("model", MODELS)
def test_no_covariances_near_the_fit_are_likelier(model):
    """The gradient of the likelihood along the model is zero, by differences in every parameter."""
    scatter, weights = scatters(7, n_classes=2, n_features=3)
    fitted = fit(model, scatter, weights)
    best = log_likelihood(fitted.covariances, scatter, weights)
    rng = np.random.default_rng(0)
    for _ in range(40):
        step = 1e-3
        volume = rng.normal(size=(2 if model[0] == "V" else 1, 1))
        shape = rng.normal(size=(2 if model[1] == "V" else 1, 3)) * (model[1] != "I")
        turn = rng.normal(size=(2 if model[2] == "V" else 1, 3, 3)) * (model[2] != "I")
        shape -= shape.mean(axis=1, keepdims=True)
        scales = fitted.volumes[:, None] * fitted.shapes * np.exp(step * (volume + shape))
        axes = fitted.orientations @ np.array([expm(step * (T - T.T)) for T in turn])
        near = np.einsum("kij,kj,klj->kil", axes, scales, axes)
        assert log_likelihood(near, scatter, weights) <= best + 1e-9 * abs(best)


@pytest.mark.slow_cases("1.0", "100.0-EVE", "100.0-VVE", "10000.0-EVE")
@pytest.mark.parametrize("model", ["EVE", "VVE"])
@pytest.mark.parametrize("unit", [1.0, 1e2, 1e4])
def test_common_axes_solve_the_equations_of_flury(model, unit):
    """Of each pair of axes, the weighted sum of dᵢᵀ W dⱼ (1/f_j − 1/f_i) is zero: Flury (1984), eq. 2.8."""
    for seed in range(2):
        scatter, weights = scatters(seed, n_classes=6, n_features=4, rows=8, unit=unit)
        axes = fit(model, scatter, weights).orientations[0]
        turned = np.linalg.cholesky(scatter).transpose(0, 2, 1) @ axes
        moments = np.einsum("kij,kil->kjl", turned, turned)
        along = np.einsum("kii->ki", moments)
        if model == "EVE":
            weights = np.exp(np.log(along).mean(axis=1))
        terms = weights[:, None, None] * moments * (1 / along[:, None, :] - 1 / along[:, :, None])
        assert (np.abs(terms.sum(axis=0)) <= 2e-5 * np.abs(terms).sum(axis=0)).all()


def test_axes_keep_their_digits_in_unlike_units():
    """Eigenvalues 24 powers of ten apart: their product and harmonic mean are those of the correlations."""
    units = np.array([1e-6, 1.0, 1e6])
    correlations = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, -0.5], [0.25, -0.5, 1.0]])
    values, vectors = principal_axes(correlations * np.outer(units, units))
    assert np.prod(values) == pytest.approx(np.linalg.det(correlations), rel=1e-12)
    assert 1 / (1 / values).sum() == pytest.approx(1e-12 / np.linalg.inv(correlations)[0, 0], rel=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_axes_of_rows_in_all_directions_but_one_keep_their_digits(places):
    """The product of the eigenvalues above zero is the sum of the minors without one feature, in integers."""
    rows = np.random.default_rng(0).integers(-9, 9, (3, 4)) * np.array([1, 10**3, 10**6, 10**9])[places]
    scatter = rows.T.astype(object) @ rows.astype(object)
    values, vectors = principal_axes(scatter.astype(np.float64))
    minors = 0
    for i in range(4):
        a, b, c = np.delete(np.delete(scatter, i, 0), i, 1)  # of Python's integers
        minors += a @ np.array(
            [b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]]
        )
    assert np.prod(values[:3]) == pytest.approx(float(minors), rel=1e-10)
    along = np.abs(rows @ vectors[:, 3]) / (np.abs(rows) @ np.abs(vectors[:, 3]))
    assert (along <= 1e-10).all()  # no row has a part along the last axis


@pytest.mark.parametrize("name", ["EEV", "VEV"])
def test_a_class_in_all_directions_but_one_is_the_same_in_any_order(name):
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [6, 30])
    X = rng.normal(size=(36, 6)) * np.logspace(-4, 4, 6)
    order = rng.permutation(36)
    model = GaussianDiscriminantAnalysis(covariance_model=name)
    answers = [
        model.fit(X[rows][:, columns], y[rows]).predict_log_proba(X[:, columns])
        for rows, columns in ((np.arange(36), np.arange(6)), (order, [3, 1, 0, 5, 4, 2]))
    ]
    np.testing.assert_allclose(*answers, rtol=1e-7, atol=1e-9)


# ---------------------------------------------------------------------- the estimator


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("EEE", LinearDiscriminantAnalysis()),
        ("VVV", QuadraticDiscriminantAnalysis()),
        ("VVI", GaussianNB(var_smoothing=0)),
    ],
)
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_it_is_linear_quadratic_and_naive(name, peer, load):
    X, y = load(return_X_y=True)
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    model = GaussianDiscriminantAnalysis(covariance_model=name).fit(X, y, weights)
    peer.fit(X, y, weights)
    np.testing.assert_allclose(model.predict_log_proba(X), peer.predict_log_proba(X), rtol=1e-10, atol=1e-10)
    assert model.log_likelihood_ == pytest.approx(peer.log_likelihood_, rel=1e-10)
    assert model.n_parameters_ == peer.n_parameters_
    assert model.bic_[name] == pytest.approx(peer.bic_, rel=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_marginal_densities_are_those_of_the_observed_features(model):
    X, y = IRIS
    fitted = GaussianDiscriminantAnalysis(covariance_model=model, missing="marginal").fit(X, y)
    holes = X.copy()
    holes[:, [0, 2]] = np.nan
    means, covariances = fitted.means_[:, [1, 3]], np.array(fitted.covariance_)[:, [1, 3]][:, :, [1, 3]]
    joint = log_joint(X[:, [1, 3]], means, covariances, fitted.priors_)
    np.testing.assert_allclose(fitted.score_samples(holes), np.logaddexp.reduce(joint, axis=1), rtol=1e-9)


# ---------------------------------------------------------------------- too few rows


def test_models_that_few_rows_do_not_determine_are_left_out_and_explained():
    X, y = IRIS
    few = np.r_[0:50, 50:100, 100:103]  # three rows of class 2, four features
    model = GaussianDiscriminantAnalysis().fit(X[few], y[few])
    assert set(model.failures_) == {"VVV", "EVV", "EVE", "VVE", "EEV", "VEV"}
    assert set(model.bic_) == set(MODELS) - set(model.failures_)
    assert "class 2: the covariance has rank 2 of 4, from 3 rows" in model.failures_["VVV"]
    with pytest.raises(np.linalg.LinAlgError, match=r"covariance_model='VVV' .*class 2: .*from 3 rows.*EEE"):
        GaussianDiscriminantAnalysis(covariance_model="VVV").fit(X[few], y[few])


@pytest.mark.parametrize("name", ["EEV", "VEV"])
def test_axes_of_a_class_need_rows_in_all_directions_but_one(name):
    """Two directions without variance may be turned in their plane with the same likelihood."""
    X, y = IRIS
    model = GaussianDiscriminantAnalysis(covariance_model=name)
    assert model.fit(X[:104], y[:104]).shapes_.shape == (3, 4)  # four rows of class 2, four features
    with pytest.raises(np.linalg.LinAlgError, match=r"class 2: .*rank 2 of 4, from 3 rows"):
        model.fit(X[:103], y[:103])
    with pytest.raises(np.linalg.LinAlgError, match=r"class 0: .*rank 3 of 4, from 4 rows"):
        model.fit(X[[0, 1, 2, 3, 50, 51, 52, 53]], y[[0, 1, 2, 3, 50, 51, 52, 53]])  # no shape of full rank


def flat_and_round(n_flat):
    """Rows of a class that varies along one of two axes, and 40 rows of one that varies along both."""
    X = np.random.default_rng(0).normal(size=(n_flat + 40, 2)) * [1, 5]
    X[:n_flat, 1] = 3.0
    return X, np.repeat([0, 1], [n_flat, 40])


@cache
def failures(n_flat):
    """The models without a fit to these rows, and why, found once for the tests of all models."""
    return GaussianDiscriminantAnalysis().fit(*flat_and_round(n_flat)).failures_


@pytest.mark.parametrize("name", ["VEE", "VEI", "VEV"])
@pytest.mark.parametrize(
    "n_flat", [pytest.param(40, marks=pytest.mark.slow), pytest.param(41, marks=pytest.mark.slow), 400]
)
def test_volumes_have_no_maximum_if_half_of_the_rows_are_flat(name, n_flat):
    """A flatter shape costs the other class no more than it gains this one, as for Tyler's estimator."""
    X, y = flat_and_round(n_flat)
    with pytest.raises(
        np.linalg.LinAlgError, match=rf"'{name}' .* has no maximum, .*equal volume \(EEE, EEI"
    ):
        GaussianDiscriminantAnalysis(covariance_model=name).fit(X, y)
    assert "has no maximum" in failures(n_flat)[name]


def test_volumes_have_a_maximum_if_fewer_are():
    model = GaussianDiscriminantAnalysis(covariance_model="VEI").fit(*flat_and_round(30))
    scatter, weights = model.statistics_.scatter, model.statistics_.weights

    def deviance(logs):
        shape = np.diag(np.exp([logs[2], -logs[2]]))
        return -log_likelihood(np.exp(logs[:2])[:, None, None] * shape, scatter, weights)

    best = minimize(deviance, np.zeros(3), tol=1e-10)
    assert log_likelihood(np.array(model.covariance_), scatter, weights) >= -best.fun - 1e-9
    np.testing.assert_allclose(np.log(model.volumes_), best.x[:2], atol=1e-4)


def test_a_class_of_one_row_leaves_models_of_equal_volume():
    X, y = IRIS
    model = GaussianDiscriminantAnalysis().partial_fit(X[:101], y[:101])
    assert set(model.bic_) == {"EII", "EEI", "EEE"}
    assert "class 2: the covariance has rank 0 of 4, from 1 row; " in model.failures_["VEE"]
    assert model.predict(X[[0, 60, 100]]).tolist() == [0, 1, 2]


def test_features_that_are_constant_or_collinear_are_named():
    X, y = IRIS
    names = ["a", "b", "c", "d", "sum", "one"]
    rows = pd.DataFrame(np.column_stack([X, X.sum(axis=1), np.ones(len(X))]), columns=names)
    model = GaussianDiscriminantAnalysis().fit(rows, y)
    assert set(model.bic_) == {"EII", "VII"}
    assert "constant ('one')" in model.failures_["EEE"]
    assert "'sum'" in model.failures_["EEE"]
    with pytest.raises(np.linalg.LinAlgError, match="constant in it: 'one'"):
        GaussianDiscriminantAnalysis(covariance_model="VVI").fit(rows, y)
    with pytest.raises(np.linalg.LinAlgError, match="no feature varies"):
        GaussianDiscriminantAnalysis().fit([[0.0], [1.0], [0.0], [1.0]], [0, 1, 0, 1])


def test_common_axes_of_many_features_are_left_to_be_asked_for():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 101)), np.repeat([0, 1], 250)
    model = GaussianDiscriminantAnalysis().fit(X, y)
    assert set(model.failures_) == {"EVE", "VVE"}
    assert "name the model to fit it" in model.failures_["VVE"]


def test_of_models_that_are_the_same_the_simplest_is_chosen():
    X, y = IRIS
    assert GaussianDiscriminantAnalysis().fit(X[:, :1], y).covariance_model_ in {"EII", "VII"}


@pytest.mark.slow_cases("-508")
@pytest.mark.parametrize("exponent", [500, 508, -500])
@pytest.mark.parametrize("model", MODELS)
def test_a_common_unit_of_any_size_changes_no_posterior(model, exponent):
    """Squares are numbers of all digits between about 2^-511 and 2^511."""
    random = np.random.default_rng(4)
    X, y = random.normal(size=(40, 3)), np.repeat([0, 1], 20)
    X[y == 1, 0] += 1
    plain = GaussianDiscriminantAnalysis(covariance_model=model).fit(X, y)
    scaled = GaussianDiscriminantAnalysis(covariance_model=model).fit(np.ldexp(X, exponent), y)
    rows = np.ldexp(X, exponent)
    np.testing.assert_allclose(scaled.predict_log_proba(rows), plain.predict_log_proba(X), rtol=1e-9)
