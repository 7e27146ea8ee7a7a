"""Classes that lean on the pooled covariance, against rational arithmetic and the formulas as published."""

from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import multigammaln
from sklearn.datasets import load_iris, load_wine

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from streamgda.models.gaussians.regularisation import log_evidence, most_likely_prior_rows
from tests.reference import exact_moments

MODELS = [QuadraticDiscriminantAnalysis, GaussianNB]
BOTH = pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)


@pytest.fixture
def rows():
    """Classes of 1, 3, 20 and 80 rows of three features with covariances of their own."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [1, 3, 20, 80])
    mixing = rng.normal(size=(4, 3, 3)) + 2 * np.eye(3)
    return 4 * y[:, None] + np.einsum("nij,nj->ni", mixing[y], rng.normal(size=(len(y), 3))), y


def covariances_of(model):
    if hasattr(model, "var_"):
        return model.var_
    return np.array(model.set_params(store_covariance=True).covariance_)


# ---------------------------------------------------------------------- a share


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("shrinkage", [None, 0.125])
def test_a_share_is_friedmans_formula_in_rational_arithmetic(rows, share, shrinkage):
    X, y = rows
    X, weights = X.round(3), 1.0 + y / 4
    model = QuadraticDiscriminantAnalysis(
        pooling=share, shrinkage=shrinkage, store_covariance=True, singular="skip"
    ).fit(X, y, weights)
    naive = GaussianNB(pooling=share, var_smoothing=0).fit(X, y, weights)
    moments = list(exact_moments(X, y, weights).values())
    own, all_of_it, gamma = Fraction(1 - share), Fraction(share), Fraction(shrinkage or 0)
    total = sum(weight for weight, _, _ in moments)
    pooled = [[sum(other[i][j] for _, _, other in moments) for j in range(3)] for i in range(3)]
    for k, (weight, _, scatter) in enumerate(moments):
        divisor = own * weight + all_of_it * total
        mixed = [
            [(own * scatter[i][j] + all_of_it * pooled[i][j]) / divisor for j in range(3)] for i in range(3)
        ]
        mean_variance = sum(mixed[i][i] for i in range(3)) / 3
        expected = [
            [float((1 - gamma) * mixed[i][j] + gamma * mean_variance * (i == j)) for j in range(3)]
            for i in range(3)
        ]
        np.testing.assert_allclose(model.covariance_[k], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(naive.var_[k], [float(mixed[j][j]) for j in range(3)], rtol=1e-12)
        for one in (model, naive):
            assert one.pooling_[k] == pytest.approx(float(all_of_it * total / divisor))
            assert one.prior_rows_ == pytest.approx(float(all_of_it * total / own) if own else np.inf)


def test_a_share_of_one_is_lda_and_of_zero_is_qda():
    X, y = load_wine(return_X_y=True)
    linear, quadratic = LinearDiscriminantAnalysis().fit(X, y), QuadraticDiscriminantAnalysis().fit(X, y)
    pooled = QuadraticDiscriminantAnalysis(pooling=1.0).fit(X, y)
    np.testing.assert_allclose(
        pooled.predict_log_proba(X), linear.predict_log_proba(X), rtol=1e-10, atol=1e-10
    )
    assert pooled.bic_ == pytest.approx(linear.bic_, rel=1e-12)
    assert pooled.prior_rows_ == np.inf
    none = QuadraticDiscriminantAnalysis(pooling=0).fit(X, y)
    np.testing.assert_array_equal(none.predict_log_proba(X), quadratic.predict_log_proba(X))
    assert none.bic_ == quadratic.bic_
    np.testing.assert_array_equal(none.pooling_, 0.0)


# ---------------------------------------------------------------------- by evidence


def evidence_of_definition(prior_rows, weights, scatters, pooled):
    """The log evidence as it is published, by determinants of the matrices themselves."""
    d = len(pooled)
    nu, psi = prior_rows + d + 1, prior_rows * pooled
    log_det_psi = np.linalg.slogdet(psi)[1]
    return sum(
        nu / 2 * log_det_psi
        - (nu + n - 1) / 2 * np.linalg.slogdet(psi + scatter)[1]
        + multigammaln((nu + n - 1) / 2, d)
        - multigammaln(nu / 2, d)
        - (n - 1) * d / 2 * np.log(np.pi)
        for n, scatter in zip(weights, scatters, strict=True)
    )


def best_of_definition(weights, blocks):
    """Where the evidence of (scatters, pooled) blocks is largest."""
    found = minimize_scalar(
        lambda log_c: -sum(evidence_of_definition(np.exp(log_c), weights, *block) for block in blocks),
        bounds=(np.log(1e-2), np.log(1e4)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return np.exp(found.x)


def test_qda_finds_the_most_probable_number_of_prior_rows(rows):
    X, y = rows
    model = QuadraticDiscriminantAnalysis(pooling="bayes", store_covariance=True).fit(X, y)
    weights, scatter = model.statistics_.weights, model.statistics_.scatter
    pooled = scatter.sum(axis=0) / weights.sum()
    c = model.prior_rows_
    assert c == pytest.approx(best_of_definition(weights, [(scatter, pooled)]), rel=1e-5)
    for k, n in enumerate(weights):
        expected = (c * pooled + scatter[k]) / (c + n - 1)
        np.testing.assert_allclose(model.covariance_[k], expected, rtol=1e-12)
    np.testing.assert_allclose(model.pooling_, c / (c + weights - 1), rtol=1e-12)


def test_naive_bayes_finds_one_number_for_all_features(rows):
    X, y = rows
    model = GaussianNB(pooling="bayes", var_smoothing=0).fit(X, y)
    weights, squares = model.statistics_.weights, model.statistics_.scatter
    pooled = squares.sum(axis=0) / weights.sum()
    blocks = [(squares[:, j, None, None], pooled[j, None, None]) for j in range(3)]
    c = model.prior_rows_
    assert c == pytest.approx(best_of_definition(weights, blocks), rel=1e-5)
    expected = (c * pooled + squares) / (c + weights - 1)[:, None]
    np.testing.assert_allclose(model.var_, expected, rtol=1e-12)


@given(seed=st.integers(0, 10**6), spread=st.floats(0, 4), dimension=st.integers(1, 4))
def test_no_number_of_prior_rows_is_more_probable(seed, spread, dimension):
    """Also where the evidence has more than one maximum, and where it rises to the end."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 60, size=5).astype(float)
    eigenvalues = rng.chisquare(rows, size=(dimension, 5)).T
    eigenvalues *= np.exp(spread * rng.normal(size=(5, dimension)))
    found = most_likely_prior_rows(eigenvalues, rows)
    most = log_evidence(found, eigenvalues, rows)
    for c in np.geomspace(1e-6, 6e7, 60):
        assert log_evidence(c, eigenvalues, rows) <= most + 1e-6 * max(1, abs(most))


def test_classes_that_differ_by_chance_share_their_covariance():
    rng = np.random.default_rng(3)
    y = np.arange(4000) % 20
    X = rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 3)) + y[:, None]
    model = QuadraticDiscriminantAnalysis(pooling="bayes").fit(X, y)
    assert (model.pooling_ > 0.9).all()


def test_a_class_of_many_rows_that_does_not_vary_in_a_direction_says_nothing(rows):
    """By the evidence of a scatter of rank 2, from 50 rows, the best number of prior rows would be zero."""
    X, y = rows
    flat = np.random.default_rng(5).normal(size=(50, 3)) * [1, 2, 0]
    model = QuadraticDiscriminantAnalysis(pooling="bayes").fit(np.vstack([X, flat]), np.append(y, [4] * 50))
    weights, scatter = model.statistics_.weights, model.statistics_.scatter
    pooled = scatter.sum(axis=0) / weights.sum()
    expected = best_of_definition(weights[:4], [(scatter[:4], pooled)])
    assert model.prior_rows_ == pytest.approx(expected, rel=1e-5)


@BOTH
@pytest.mark.parametrize("more", [0, 1])
def test_where_most_rows_are_of_classes_that_do_not_vary_all_have_the_pooled_covariance(kind, more, rows):
    """The others count 100 rows, less one for each class; they are a guide as long as those are no more."""
    X, y = rows
    constant = np.full((101 + more, 3), 7.0)
    model = kind(pooling="bayes", **({"var_smoothing": 0} if kind is GaussianNB else {}))
    says = "1 of 5 classes lack a direction, .* hold 50% of the rows. So pooling='bayes' gives all the pooled"
    with pytest.warns(UserWarning, match=says) if more else nullcontext():
        model.fit(np.vstack([X, constant]), np.append(y, [4] * len(constant)))
    if more:
        model.snapshot().partial_fit(constant[:1], [4]).predict(X)  # which does not warn again
    weights, scatter = model.statistics_.weights, model.statistics_.scatter
    pooled = scatter.sum(axis=0) / weights.sum()
    if more:
        assert (model.pooling_ > 0.99999).all()
        np.testing.assert_allclose(covariances_of(model), np.broadcast_to(pooled, scatter.shape), rtol=1e-4)
    else:
        blocks = [(scatter[:4], pooled)]
        if kind is GaussianNB:
            blocks = [(scatter[:4, j, None, None], pooled[j, None, None]) for j in range(3)]
        assert model.prior_rows_ == pytest.approx(best_of_definition(weights[:4], blocks), rel=1e-5)
        assert (model.pooling_[2:4] < 0.9).all()


@BOTH
def test_a_class_of_one_row_leans_on_the_others_and_one_of_millions_does_not(kind, rows):
    X, y = rows
    model = kind(pooling="bayes").fit(X, y, np.where(y == 3, 1e5, 1.0))
    moments = model.statistics_
    pooled = moments.scatter.sum(axis=0) / moments.weights.sum()
    assert model.pooling_[0] == 1.0
    np.testing.assert_allclose(covariances_of(model)[0], pooled, rtol=1e-8)
    np.testing.assert_allclose(covariances_of(model)[3], moments.covariance()[3], rtol=1e-5, atol=1e-5)


def test_a_new_class_predicts_as_in_lda_from_its_first_row_on(rows):
    X, y = rows
    model = QuadraticDiscriminantAnalysis(pooling="bayes").partial_fit(X[y > 0], y[y > 0])
    model.partial_fit(X[y == 0], y[y == 0])
    linear = LinearDiscriminantAnalysis().fit(X, y)
    distances, expected = model.mahalanobis(X)[:, 0], linear.mahalanobis(X)[:, 0]
    np.testing.assert_allclose(distances, expected, rtol=1e-10, atol=1e-12)
    assert model.predict(X[:1]) == [0]


# ---------------------------------------------------------------------- one model, however it is learnt


@BOTH
@pytest.mark.parametrize("predictive", ["plugin", "student"])
def test_a_class_of_less_than_one_row_counts_as_one(kind, predictive, rows):
    X, y = rows
    model = kind(pooling="bayes", predictive=predictive)
    model.fit(X, y, np.where(y == 1, 0.25, 1.0))  # three rows of weight 0.75 together
    scatter, weights = model.statistics_.scatter, model.statistics_.weights
    pooled = scatter.sum(axis=0) / weights.sum()
    assert model.pooling_[1] == 1.0
    expected = pooled + scatter[1] / model.prior_rows_
    np.testing.assert_allclose(covariances_of(model)[1], expected, rtol=1e-8)
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_weights_that_sum_to_less_than_one_row_say_nothing_of_a_class():
    X, y = load_iris(return_X_y=True)
    model = QuadraticDiscriminantAnalysis(pooling="bayes").fit(X, y, np.full(150, 1 / 150))
    linear = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_array_equal(model.pooling_, 1.0)
    np.testing.assert_allclose(model.mahalanobis(X), linear.mahalanobis(X), rtol=1e-4)


# ---------------------------------------------------------------------- singular, and wrong


@pytest.mark.parametrize("n_features", [40, 80])
def test_a_sum_of_two_features_changes_no_posterior(n_features):
    """Singular covariances are whitened in another way if features are many."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12 * n_features, n_features)), np.arange(12 * n_features) % 3
    more = np.column_stack([X, X[:, 0] + X[:, 1]])
    model = QuadraticDiscriminantAnalysis(pooling=0.3).fit(X, y)
    with pytest.warns(UserWarning, match="collinear"):
        singular = QuadraticDiscriminantAnalysis(pooling=0.3).fit(more, y)
    np.testing.assert_allclose(
        singular.predict_log_proba(more), model.predict_log_proba(X), rtol=0, atol=1e-9
    )


def test_a_singular_pooled_covariance_is_treated_as_by_lda(rows):
    X, y = rows
    wide = np.column_stack([X, X[:, 0] - X[:, 1], np.ones(len(X))])
    slim = QuadraticDiscriminantAnalysis(pooling="bayes").fit(X, y)
    with pytest.warns(UserWarning, match=r"rank 3 of 5: .*constant \(4\) or collinear \(0, 1, 3\)") as caught:
        model = QuadraticDiscriminantAnalysis(pooling="bayes", missing="marginal").fit(wide, y)
        model.predict(wide)
    assert len(caught) == 1
    assert model.prior_rows_ == pytest.approx(slim.prior_rows_, rel=1e-6)
    np.testing.assert_allclose(model.mahalanobis(wide), slim.mahalanobis(X), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.predict_log_proba(wide), slim.predict_log_proba(X), rtol=1e-7, atol=1e-9)
    wide[:, 2] = np.nan
    some = slim.set_params(missing="marginal").predict_log_proba(np.where([0, 0, 1], np.nan, X))
    np.testing.assert_allclose(model.predict_log_proba(wide), some, rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match="pooled covariance is singular"):
        model.to_sklearn()


def test_a_feature_that_varies_nowhere_is_no_evidence_for_naive_bayes(rows):
    X, y = rows
    wide = np.column_stack([X, np.full(len(X), 7.0)])
    slim, model = (GaussianNB(pooling="bayes").fit(Z, y) for Z in (X, wide))
    assert model.prior_rows_ == pytest.approx(slim.prior_rows_, rel=1e-9)
    with pytest.raises(ValueError, match="feature 3 is constant in it, and var_smoothing adds nothing"):
        GaussianNB(pooling="bayes", var_smoothing=0).fit(wide, y)


def test_one_row_of_each_class_is_not_enough():
    with pytest.raises(ValueError, match="no feature varies within a class"):
        QuadraticDiscriminantAnalysis(pooling="bayes").fit([[0.0], [1.0]], [0, 1])
    model = QuadraticDiscriminantAnalysis(pooling="bayes", reg_param=0.5).fit([[0.0], [1.0]], [0, 1])
    assert model.predict([[0.1], [0.8]]).tolist() == [0, 1]


def test_estimated_shrinkage_does_not_go_with_pooling():
    with pytest.raises(ValueError, match="with pooling='bayes', set shrinkage to a number or to None"):
        QuadraticDiscriminantAnalysis(pooling="bayes", shrinkage="oas").fit(*load_iris(return_X_y=True))
