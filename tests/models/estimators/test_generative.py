"""Sampling, completing, outliers and boundaries, beside scipy, numeric integration and large samples."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.spatial import distance
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_iris

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from streamgda.models.estimators import ESTIMATORS, estimator_named
from tests.reference import gaussians_of, log_joint

PRIORS = [0.5, 0.2, 0.3]
LABELS = np.array(["ash", "birch", "cedar"])

WITH_DISTANCES = [
    name for name, entry in ESTIMATORS.items() if not {"ridge", "leaves"} & {*entry.module.split(".")}
]


def rows_of_three_classes(n_features=4, n_rows=600, offset=5.0):
    rng = np.random.default_rng(3)
    codes = np.arange(n_rows) % 3
    mixing = rng.normal(size=(3, n_features, n_features)) + 2 * np.eye(n_features)
    X = np.einsum("nj,nij->ni", rng.normal(size=(n_rows, n_features)), mixing[codes])
    return X + 2 * rng.normal(size=(3, n_features))[codes] + offset, LABELS[codes]


def fitted(model, *shape, missing="raise", **named):
    return model(priors=PRIORS, missing=missing).fit(*rows_of_three_classes(*shape, **named))


def with_holes(X, share=0.4):
    holed = X.copy()
    holed[np.random.default_rng(0).random(X.shape) < share] = np.nan
    return holed


# ---------------------------------------------------------------------- sampling


@pytest.mark.slow_cases("GaussianNB")
def test_a_large_sample_has_the_shares_and_in_every_direction_the_normal_densities_of_the_model(model):
    X, y = rows_of_three_classes()
    fitted_model = fitted(model)
    drawn, labels = fitted_model.sample(60_000, random_state=0)
    observed = [(labels == label).sum() for label in LABELS]
    assert stats.chisquare(observed, np.multiply(PRIORS, len(labels))).pvalue > 0.001
    for label, mean, covariance in zip(LABELS, *gaussians_of(fitted_model, X, y), strict=True):
        for direction in np.random.default_rng(0).normal(size=(5, 4)):
            scale = np.sqrt(direction @ covariance @ direction)
            along = (drawn[labels == label] - mean) @ direction / scale
            assert stats.kstest(along, "norm").pvalue > 0.001
    assert set(fitted_model.sample(20, "birch")[1]) == {"birch"}


def test_a_seed_gives_the_same_rows_again(model):
    fitted_model = fitted(model)
    once, again = (fitted_model.sample(50, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(once[0], again[0])
    np.testing.assert_array_equal(once[1], again[1])
    assert (fitted_model.sample(50, random_state=8)[0] != once[0]).any()
    state = np.random.RandomState(7)
    np.testing.assert_array_equal(fitted_model.sample(50, random_state=state)[0], once[0])
    assert (fitted_model.sample(50, random_state=state)[0] != once[0]).any()
    X, y = fitted_model.sample()
    assert X.shape == (1, 4)
    assert y.shape == (1,)


def test_a_class_without_prior_is_drawn_only_when_asked_for():
    model = GaussianNB(priors=[0.0, 0.5, 0.5]).fit(*rows_of_three_classes())
    assert set(model.sample(500, random_state=0)[1]) == {"birch", "cedar"}
    assert set(model.sample(5, "ash")[1]) == {"ash"}


@pytest.mark.parametrize("labels", [[-3, 0, 5], [False, True, True]])
def test_labels_of_every_kind_can_be_asked_for(labels):
    X, y = rows_of_three_classes()
    model = GaussianNB().fit(X, np.array(labels)[np.searchsorted(LABELS, y)])
    for label in model.classes_:
        assert model.sample(3, label)[1].tolist() == [label] * 3


def test_samples_of_a_singular_covariance_stay_in_its_range():
    X, y = rows_of_three_classes()
    with pytest.warns(UserWarning, match="rank 4 of 6"):
        model = LinearDiscriminantAnalysis().fit(np.column_stack([X, X[:, 0] - X[:, 1], np.full(600, 7)]), y)
    rows, _ = model.sample(1000, random_state=0)
    np.testing.assert_allclose(rows[:, 4], rows[:, 0] - rows[:, 1], atol=1e-9)
    np.testing.assert_allclose(rows[:, 5], 7)


# ---------------------------------------------------------------------- imputation


def regressions(model, X, y, row):
    """E[missing | observed] of a row, by the textbook's formula and scipy's densities."""
    there, means, covariances = ~np.isnan(row), *gaussians_of(model, X, y)
    scores, expected = [], []
    for prior, mean, covariance in zip(PRIORS, means, covariances, strict=True):
        of_observed = covariance[np.ix_(there, there)]
        scores.append(prior)
        if there.any():
            scores[-1] *= stats.multivariate_normal(mean[there], of_observed).pdf(row[there])
        slope = np.linalg.solve(of_observed, row[there] - mean[there])
        expected.append(mean[~there] + covariance[np.ix_(~there, there)] @ slope)
    return np.average(expected, axis=0, weights=scores)


@pytest.mark.slow_cases("Quadratic", "GaussianNB")
def test_missing_features_get_their_conditional_mean(model):
    X, y = rows_of_three_classes(6)
    fitted_model = fitted(model, 6)
    holed = with_holes(X)
    completed = fitted_model.impute(holed)
    missing = np.isnan(holed)
    np.testing.assert_array_equal(completed[~missing], X[~missing])
    for row, guess in zip(holed[:100], completed, strict=False):
        expected = regressions(fitted_model, X, y, row)
        np.testing.assert_allclose(guess[np.isnan(row)], expected, rtol=1e-6, atol=1e-6)


def test_what_is_imputed_besides(model):
    fitted_model = fitted(model)
    X = rows_of_three_classes()[0]
    np.testing.assert_array_equal(fitted_model.impute(X), X)
    nothing = fitted_model.impute(np.full((2, 4), np.nan))
    np.testing.assert_allclose(nothing, [np.dot(PRIORS, fitted_model.statistics_.means)] * 2, rtol=1e-12)
    single = fitted_model.impute(with_holes(X).astype(np.float32))
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, fitted_model.impute(with_holes(X)), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="infinity"):
        fitted_model.impute([[1, 2, np.inf, np.nan]])
    with pytest.raises(ValueError, match="3 features"):
        fitted_model.impute([[1, 2, np.nan]])


@pytest.mark.parametrize("model", [GaussianNB, QuadraticDiscriminantAnalysis])
def test_a_row_too_far_to_tell_its_class_is_named(model):
    fitted_model = fitted(model)
    for predict in fitted_model.impute, fitted_model.predict, fitted_model.predict_proba:
        with pytest.raises(ValueError, match="row 1 is too far from the classes"):
            predict([[1, 2, 3, 4], [1e200, 2, 3, np.nan if predict == fitted_model.impute else 4]])
    many = np.tile([1.0, 2, 3, 4], (60_000, 1))  # in several steps
    many[50_000, 0] = 1e200
    with pytest.raises(ValueError, match="row 50000 is too far from the classes"):
        fitted_model.set_params(temperature=2.0).predict_proba(many)


def test_a_feature_that_others_determine_is_recovered():
    X, y = rows_of_three_classes()
    with pytest.warns(UserWarning, match="rank 4 of 5"):
        model = LinearDiscriminantAnalysis().fit(np.column_stack([X, X[:, 0] - X[:, 1]]), y)
    holed = np.column_stack([X, np.full(len(X), np.nan)])
    np.testing.assert_allclose(model.impute(holed)[:, 4], X[:, 0] - X[:, 1], atol=1e-9)


# ---------------------------------------------------------------------- distances and outliers


def test_distances_and_p_values_are_scipys(model):
    X, y = rows_of_three_classes()
    fitted_model = fitted(model)
    expected = np.array(
        [
            [distance.mahalanobis(row, mean, np.linalg.inv(c)) for row in X]
            for mean, c in zip(*gaussians_of(fitted_model, X, y), strict=True)
        ]
    ).T
    np.testing.assert_allclose(fitted_model.mahalanobis(X), expected, rtol=1e-6)
    np.testing.assert_allclose(fitted_model.p_values(X), stats.chi2.sf(expected**2, 4), rtol=1e-5)


@pytest.mark.slow_cases("GaussianDisc")
@pytest.mark.parametrize("missing", ["raise", "marginal"])
@pytest.mark.parametrize("kind", WITH_DISTANCES)
def test_distances_to_a_class_for_each_row_are_those_among_all(kind, missing):
    X, y = rows_of_three_classes()
    model = estimator_named(kind)(missing=missing).partial_fit(X, y, classes=[*LABELS, "alder"])
    if "predictive" in model.get_params():
        model.set_params(predictive="student")
    X, own = with_holes(X) if missing == "marginal" else X, np.random.default_rng(1).permutation(y)
    own[7] = "alder"  # of which no row has come
    columns = np.searchsorted(model.classes_, own)
    for relative in (False, True):
        among_all = model.mahalanobis(X, relative=relative)[np.arange(len(X)), columns]
        np.testing.assert_allclose(model.mahalanobis(X, own, relative=relative), among_all, rtol=1e-9)
    with pytest.raises(ValueError, match="'elm' is none of the classes: 'alder', 'ash'"):
        model.mahalanobis(X[:1], ["elm"])
    with pytest.raises(ValueError, match="row 1 has no label"):
        model.mahalanobis(X[:2], ["ash", None])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.mahalanobis(X[:2], ["ash"])


def test_relative_distances_of_flowers():
    """Values computed from the definition of Ren et al. (2021), by independent code."""
    rows = [(5, 3, 1.5, 0.2), (6, 3, 4.5, 1.5), (9, 1, 1, 5)]
    least = LinearDiscriminantAnalysis().fit(*load_iris(return_X_y=True)).mahalanobis(rows, relative=True)
    np.testing.assert_allclose(least.min(axis=1), [-0.508522662, 0.802035629, 8.746486274], rtol=1e-8)


@pytest.mark.parametrize("kind", [kind for kind in WITH_DISTANCES if kind != "GaussianNB"])
def test_relative_distances_are_less_the_distance_from_all_rows(kind):
    X, y = rows_of_three_classes()
    model = estimator_named(kind)().fit(X, y)
    from_all = EmpiricalCovariance().fit(X).mahalanobis(X)
    expected = model.mahalanobis(X) ** 2 - from_all[:, None]
    np.testing.assert_allclose(model.mahalanobis(X, relative=True), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "model", [LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis(pooling=0.5)], ids=str
)
def test_distances_and_p_values_are_of_the_range_where_a_feature_is_twice_there(model):
    X, y = rows_of_three_classes()
    twice = np.column_stack([X, X[:, 0]])
    with pytest.warns(UserWarning, match="rank 4 of 5"):
        doubled, plain = clone(model).fit(twice, y), model.fit(X, y)
    relative = doubled.mahalanobis(twice, relative=True)
    np.testing.assert_allclose(relative, plain.mahalanobis(X, relative=True), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(doubled.p_values(twice), plain.p_values(X), rtol=1e-6)


def test_p_values_of_rows_with_holes_go_by_what_is_there(model):
    X, _ = rows_of_three_classes()
    fitted_model = fitted(model, missing="marginal")
    holed = with_holes(X)
    holed[0] = np.nan
    n_there = (~np.isnan(holed)).sum(axis=1, keepdims=True)
    some = n_there[:, 0] > 0
    squared = fitted_model.mahalanobis(holed) ** 2
    p_values = fitted_model.p_values(holed)
    np.testing.assert_allclose(p_values[some], stats.chi2.sf(squared, n_there)[some], rtol=1e-9)
    assert (squared[0] == 0).all()
    assert (p_values[0] == 1).all()


def test_a_mean_is_at_no_distance_from_itself(model):
    """Also where the means lie thousands of deviations apart, and from zero."""
    X, y = rows_of_three_classes(offset=1e6)
    fitted_model = model().fit(X + 1e5 * np.searchsorted(LABELS, y)[:, None], y)
    distances = fitted_model.mahalanobis(fitted_model.statistics_.means)
    assert np.diag(distances).max() < 1e-7
    assert (distances + np.eye(3) > 0.9).all()


def test_distances_are_finite_as_far_as_their_squares_are(model):
    """A model whose classes have the standard deviation 1, so that values are distances up to rounding."""
    far = model().fit(*one_deviation()).mahalanobis([[1.3e154], [-1.3e154], [1.35e154], [1e155]])
    np.testing.assert_allclose(far[:2], 1.3e154, rtol=1e-6)
    assert np.isinf(far[2:]).all()
    assert np.isneginf(model().fit(*one_deviation()).score_samples([[1.35e154]])).all()


def one_deviation():
    return np.array([[-1.0], [1.0], [5.0], [7.0]] * 50), np.array([0, 0, 1, 1] * 50)


# ---------------------------------------------------------------------- boundaries


PAIRS = [(i, j) for i in range(3) for j in range(3) if i != j]


def test_a_boundary_is_the_difference_of_log_densities(model):
    X, y = rows_of_three_classes()
    fitted_model = fitted(model)
    means, covariances = gaussians_of(fitted_model, X, y)
    scores = log_joint(X, means, covariances, PRIORS).T
    for i, j in PAIRS:
        boundary = fitted_model.boundary(LABELS[i], LABELS[j])
        expected = np.linalg.inv(covariances[j]) - np.linalg.inv(covariances[i])
        np.testing.assert_allclose(boundary.A, expected, atol=1e-6)
        values = 2 * (scores[i] - scores[j])
        np.testing.assert_allclose(boundary(X), values, rtol=1e-6, atol=1e-5)
        by_hand = np.einsum("ni,ij,nj->n", X, boundary.A, X) + X @ boundary.b + boundary.c
        np.testing.assert_allclose(by_hand, values, rtol=1e-6, atol=1e-5)


def test_a_class_without_a_density_has_no_boundary():
    X, y = rows_of_three_classes()
    model = QuadraticDiscriminantAnalysis().partial_fit(X, y).partial_fit(X[:1], ["z"])
    with pytest.warns(UserWarning, match="class z gets no posterior"):
        model.predict(X[:1])
    for pair in (("z", LABELS[0]), (LABELS[0], "z")):
        with pytest.raises(np.linalg.LinAlgError, match="only 1 sample in class z"):
            model.boundary(*pair)


def test_boundaries_of_shared_covariances_are_planes():
    model = fitted(LinearDiscriminantAnalysis)
    boundary = model.boundary("ash", "birch")
    assert not boundary.A.any()
    np.testing.assert_allclose(boundary.b, 2 * (model.coef_[0] - model.coef_[1]), rtol=1e-9)
    np.testing.assert_allclose(boundary.c, 2 * (model.intercept_[0] - model.intercept_[1]), rtol=1e-9)
    naive = fitted(GaussianNB).boundary("ash", "birch").A
    assert (naive == np.diag(np.diag(naive))).all()


def test_a_class_without_prior_lies_nowhere():
    model = QuadraticDiscriminantAnalysis(priors=[0, 0, 1]).fit(*rows_of_three_classes())
    assert (model.boundary("cedar", "ash")([[5.0] * 4, [-90.0] * 4]) == np.inf).all()
    with pytest.raises(ValueError, match="'ash' and 'birch' both have a prior of zero"):
        model.boundary("ash", "birch")


# ---------------------------------------------------------------------- how they are used


def test_a_class_that_is_not_there_is_named(model):
    fitted_model = fitted(model)
    for ask in (lambda: fitted_model.sample(3, "elm"), lambda: fitted_model.boundary("ash", "elm")):
        with pytest.raises(ValueError, match="'elm' is none of the classes: 'ash', 'birch', 'cedar'"):
            ask()
    with pytest.raises(ValueError, match="between two classes; got 'ash' twice"):
        fitted_model.boundary("ash", "ash")
    with pytest.raises(ValueError, match="n_samples == 0, must be >= 1"):
        fitted_model.sample(0)
    with pytest.raises(TypeError, match="n_samples must be an instance of int"):
        fitted_model.sample(2.5)


@pytest.mark.slow_cases("Quadratic", "Linear")
def test_dask_rows_give_lazy_results(model):
    X, y = rows_of_three_classes()
    names = list("abcd")
    fitted_model = model(missing="marginal").fit(pd.DataFrame(X, columns=names), y)
    holed = pd.DataFrame(with_holes(X), columns=names)
    for method in ("impute", "mahalanobis", "p_values"):
        expected = getattr(fitted_model, method)(holed)
        lazy = getattr(fitted_model, method)(dd.from_pandas(holed, npartitions=3))
        framed = lazy.compute()
        np.testing.assert_allclose(framed, expected, rtol=1e-12)
        assert framed.columns.tolist() == (names if method == "impute" else LABELS.tolist())
    relative = fitted_model.mahalanobis(dd.from_pandas(holed, npartitions=3), relative=True).compute()
    np.testing.assert_array_equal(relative, fitted_model.mahalanobis(holed, relative=True))
    with pytest.raises(TypeError, match="rows are needed here, in memory"):
        fitted_model.mahalanobis(dd.from_pandas(holed, npartitions=3), y)
    plain = model(missing="marginal").fit(X, y)
    lazy = plain.impute(da.from_array(holed.to_numpy(), chunks=(100, 2)))
    np.testing.assert_allclose(lazy.compute(), plain.impute(holed.to_numpy()), rtol=1e-12)
