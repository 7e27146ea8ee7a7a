"""Where answers differ from scikit-learn's on purpose: a test for each row of the guide's table."""

import warnings
from fractions import Fraction
from operator import mul

import numpy as np
import pytest
from sklearn import discriminant_analysis, naive_bayes
from sklearn.calibration import CalibratedClassifierCV
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils import get_tags

from streamgda import GaussianNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from tests.strategies import MODELS

PEERS = {
    GaussianNB: naive_bayes.GaussianNB,
    LinearDiscriminantAnalysis: discriminant_analysis.LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis: discriminant_analysis.QuadraticDiscriminantAnalysis,
}
LDA = discriminant_analysis.LinearDiscriminantAnalysis


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4)) + rng.normal(size=(3, 4))[y], y


def test_partial_fit_smooths_by_all_the_data():
    X, y = rows()
    X *= np.linspace(1, 9, 300)[:, None]

    def streamed(model):
        for batch in np.array_split(np.arange(300), 3):
            model.partial_fit(X[batch], y[batch], classes=[0, 1, 2])
        return model.var_

    whole = naive_bayes.GaussianNB(var_smoothing=0.1).fit(X, y).var_
    np.testing.assert_allclose(streamed(GaussianNB(var_smoothing=0.1)), whole, rtol=1e-10)
    assert np.abs(streamed(naive_bayes.GaussianNB(var_smoothing=0.1)) / whole - 1).max() > 1e-3


def test_classes_need_not_be_announced():
    X, y = rows()
    few = y < 2
    for model in MODELS:
        assert model().partial_fit(X[few], y[few]).classes_.tolist() == [0, 1]
        assert model().partial_fit(X[few], y[few], classes=[0, 1, 2]).classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="classes must be passed"):
        naive_bayes.GaussianNB().partial_fit(X[few], y[few])
    theirs = naive_bayes.GaussianNB().partial_fit(X[few], y[few], classes=[0, 1, 2])
    assert theirs.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
def test_priors_do_not_weigh_the_covariance(solver):
    X, y = rows()
    X[y == 2] *= 5
    priors = [0.1, 0.1, 0.8]
    plain = LDA(solver=solver).fit(X, y).covariance_
    np.testing.assert_allclose(
        LinearDiscriminantAnalysis(solver, priors=priors).fit(X, y).covariance_, plain, rtol=1e-10
    )
    assert np.abs(LDA(solver=solver, priors=priors).fit(X, y).covariance_ / plain - 1).max() > 0.5


def test_rounding_of_a_large_mean_is_no_variance():
    """NumPy's mean of 1e8 + 0.1 is off by its last digit, which scikit-learn takes for a deviation."""
    X, y = rows()
    X[:, 0] = 1e8 + 0.1
    with pytest.warns(UserWarning, match="rank 3 of 4"):
        ours = LinearDiscriminantAnalysis(store_covariance=True).fit(X, y)
    assert (ours.covariance_[0] == 0).all()
    assert LDA(solver="lsqr").fit(X, y).covariance_[0, 0] > 0


def test_a_singular_class_is_named_with_the_features_and_the_remedy():
    X, y = rows()
    X[y == 1, 2] = 7
    with pytest.raises(
        np.linalg.LinAlgError, match="class 1 is.* rank 3 of 4, from 100 rows.*constant in it"
    ):
        QuadraticDiscriminantAnalysis().fit(X, y)
    assert QuadraticDiscriminantAnalysis(shrinkage=0.1).fit(X, y).score(X, y) > 0.3


def test_collinear_features_in_lda_are_told_of():
    X, y = rows()
    X = np.column_stack([X, X[:, 0]])
    with pytest.warns(UserWarning, match="rank 4 of 5"):
        ours = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), LDA().fit(X, y).predict_proba(X), rtol=1e-8)
    with pytest.raises(np.linalg.LinAlgError):
        LDA(solver="eigen").fit(X, y)


def test_log_posteriors_of_far_rows_keep_their_digits():
    X = np.array([[-1.0], [1.0], [9.0], [11.0]])
    y = np.array([0, 0, 1, 1])
    far = np.array([[-200.0]])
    log_odds = -0.5 * (210.0**2 - 200.0**2)  # two classes of variance 1 at 0 and 10, equally common
    ours = LinearDiscriminantAnalysis().fit(X, y).predict_log_proba(far)[0, 1]
    np.testing.assert_allclose(ours, log_odds, rtol=1e-12)
    assert abs(LDA().fit(X, y).predict_log_proba(far)[0, 1] / log_odds - 1) > 0.5


def exact_log_odds(X, y, row):
    """Of class 1 against class 0, equally common, by the densities of two features: in fractions."""
    scores = []
    for k in (0, 1):
        u, v = (list(map(Fraction, column)) for column in X[y == k].T)
        n = len(u)
        mu, mv = sum(u) / n, sum(v) / n
        du, dv = [x - mu for x in u], [x - mv for x in v]
        suu, suv, svv = (sum(map(mul, a, b)) / n for a, b in ((du, du), (du, dv), (dv, dv)))
        x0, x1 = Fraction(row[0]) - mu, Fraction(row[1]) - mv
        determinant = suu * svv - suv**2
        squared = (svv * x0**2 - 2 * suv * x0 * x1 + suu * x1**2) / determinant
        scores.append(-0.5 * (float(squared) + np.log(float(determinant))))
    return scores[1] - scores[0]


def test_nearly_singular_qda_loses_digits_that_the_rows_still_hold():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = rng.normal(size=(300, 2))
    X[:, 1] = X[:, 0] + 1e-4 * X[:, 1]
    X += y[:, None]
    assert 1e-9 < np.linalg.eigvalsh(np.corrcoef(X[y == 0].T))[0] < 1e-8
    expected = [exact_log_odds(X, y, row) for row in X[:20]]
    peer = discriminant_analysis.QuadraticDiscriminantAnalysis(tol=0)
    ours, theirs = (
        np.abs(model.fit(X, y).decision_function(X[:20]) - expected).max()
        for model in (QuadraticDiscriminantAnalysis(tol=1e-5), peer)
    )
    assert theirs < 1e-10
    assert 1e-9 < ours < 1e-6


@pytest.mark.parametrize("model", [GaussianNB, QuadraticDiscriminantAnalysis])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_too_far_to_tell_are_refused(model):
    X, y = rows()
    far = np.full((1, 4), 1e200)
    with pytest.raises(ValueError, match="row 0 is too far"):
        model().fit(X, y).predict_proba(far)
    assert np.isnan(PEERS[model]().fit(X, y).predict_proba(far)).all()


def test_one_class_is_refused(model):
    X, _ = rows()
    with pytest.raises(ValueError, match="at least two classes"):
        model().fit(X, np.zeros(len(X), dtype=int))
    if model is not QuadraticDiscriminantAnalysis:
        assert PEERS[model]().fit(X, np.zeros(len(X), dtype=int)).predict(X).max() == 0


@pytest.mark.parametrize("model", [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis])
def test_weights_are_repetitions(model):
    X, y = rows()
    weights = np.arange(300) % 4 + 1
    weighted = model().fit(X, y, sample_weight=weights)
    repeated = PEERS[model]().fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-8, atol=1e-12)
    with pytest.raises(TypeError, match="sample_weight"):
        PEERS[model]().fit(X, y, sample_weight=weights)


def test_axes_have_the_same_signs_however_the_rows_are_ordered():
    X, y = rows()
    ours, theirs = QuadraticDiscriminantAnalysis(), discriminant_analysis.QuadraticDiscriminantAnalysis()
    found, flipped = [], []
    for first in range(6):
        order = np.roll(np.arange(300), first)
        found.append(np.array(ours.fit(X[order], y[order]).rotations_))
        flipped.append(np.array(theirs.fit(X[order], y[order]).rotations_))
    np.testing.assert_allclose(found, np.broadcast_to(found[0], np.shape(found)), atol=1e-10)
    assert np.ptp(flipped, axis=0).max() > 1


def test_a_small_distance_between_means_still_tells_classes_apart():
    """The means of classes 0 and 1 are 4 deviations apart, that of class 2 lies 1e5 away."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1e5]])[y]
    ours, theirs = LinearDiscriminantAnalysis().fit(X, y), LDA().fit(X, y)
    assert ours.scalings_.shape == theirs.scalings_.shape == (2, 1)
    near = y < 2
    assert ours.score(X[near], y[near]) > 0.95
    assert theirs.score(X[near], y[near]) < 0.6
    np.testing.assert_allclose(
        ours.predict_proba(X), LDA(tol=1e-9).fit(X, y).predict_proba(X), rtol=1e-4, atol=1e-4
    )


def test_shrinkage_works_with_every_solver():
    X, y = rows()
    for model, solver in ((LinearDiscriminantAnalysis, "lsqr"), (QuadraticDiscriminantAnalysis, "eigen")):
        with pytest.raises(NotImplementedError, match="shrinkage not supported"):
            PEERS[model](solver="svd", shrinkage="auto").fit(X, y)
        ours = model(solver="svd", shrinkage="auto").fit(X, y)
        theirs = PEERS[model](solver=solver, shrinkage="auto").fit(X, y)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-8, atol=1e-10)


def test_naive_bayes_has_log_odds_and_they_are_calibrated():
    X, y = rows()
    assert not hasattr(naive_bayes.GaussianNB(), "decision_function")
    ours, theirs = GaussianNB().fit(X[y < 2], y[y < 2]), naive_bayes.GaussianNB().fit(X[y < 2], y[y < 2])
    log_odds = np.diff(theirs.predict_joint_log_proba(X), axis=1)[:, 0]
    np.testing.assert_allclose(ours.decision_function(X), log_odds, rtol=1e-8, atol=1e-10)
    calibrated = CalibratedClassifierCV(GaussianNB(), cv=3).fit(X, y).predict_proba(X)
    assert (
        np.abs(
            calibrated - CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=3).fit(X, y).predict_proba(X)
        ).max()
        > 0.01
    )


def test_decision_boundaries_of_naive_bayes_show_log_odds_unless_probabilities_are_asked_for():
    X, y = rows()
    X, y = X[y < 2, :2], y[y < 2]
    model = GaussianNB().fit(X, y)
    shown, grid = {}, {"grid_resolution": 5, "plot_method": "contour"}
    for method in ("auto", "predict_proba"):
        shown[method] = DecisionBoundaryDisplay.from_estimator(model, X, response_method=method, **grid)
    theirs = DecisionBoundaryDisplay.from_estimator(naive_bayes.GaussianNB().fit(X, y), X, **grid)
    np.testing.assert_allclose(shown["predict_proba"].response, theirs.response, rtol=1e-9)
    log_odds = model.decision_function(np.column_stack([theirs.xx0.ravel(), theirs.xx1.ravel()]))
    np.testing.assert_allclose(shown["auto"].response.ravel(), log_odds, rtol=1e-12)


def test_tags_and_base_classes():
    for model, peer in PEERS.items():
        assert not get_tags(model()).array_api_support
        assert get_tags(peer()).array_api_support == (peer is not PEERS[QuadraticDiscriminantAnalysis])
    assert issubclass(LDA, LinearClassifierMixin)
    assert not issubclass(LinearDiscriminantAnalysis, LinearClassifierMixin)


def test_weights_in_place_of_priors_give_scikit_learns_covariance():
    X, y = rows()
    X[y == 2] *= 5
    priors, shares = np.array([0.1, 0.1, 0.8]), np.bincount(y) / len(y)
    weighted = LinearDiscriminantAnalysis("lsqr").fit(X, y, sample_weight=(priors / shares)[y])
    theirs = LDA("lsqr", priors=priors).fit(X, y)
    np.testing.assert_allclose(weighted.covariance_, theirs.covariance_, rtol=1e-10)
    np.testing.assert_allclose(weighted.predict_proba(X), theirs.predict_proba(X), rtol=1e-8)


def test_priors_weigh_the_covariance_that_svd_stores_and_does_not_use():
    X, y = rows()
    X[y == 2] *= 5
    ours, theirs = (
        kind(priors=[0.1, 0.1, 0.8], store_covariance=True).fit(X, y)
        for kind in (LinearDiscriminantAnalysis, LDA)
    )
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-8)
    assert np.abs(theirs.covariance_ / ours.covariance_ - 1).max() > 0.5


def test_lsqr_depends_on_the_units_where_the_covariance_is_singular():
    rng = np.random.default_rng(0)
    y = np.arange(9) % 3
    X = rng.normal(size=(9, 12)) + y[:, None]
    units, far = np.logspace(-2, 2, 12), rng.normal(size=(50, 12))
    for kind, same in ((LinearDiscriminantAnalysis, True), (LDA, False)):
        with warnings.catch_warnings(action="ignore"):
            models = kind("lsqr").fit(X, y), kind("lsqr").fit(X * units, y)
        decided = models[0].decision_function(far), models[1].decision_function(far * units)
        assert np.allclose(*decided, rtol=1e-4, atol=1e-4 * np.abs(decided[0]).max()) == same


def test_regularised_qda_takes_classes_of_one_row_and_of_few():
    X, y = rows()
    X, y = np.vstack([X, X[:1] + 9, X[:3] - 9]), np.append(y, [3, 4, 4, 4])
    with pytest.raises(ValueError, match="y has only 1 sample in class 3"):
        PEERS[QuadraticDiscriminantAnalysis](reg_param=0.1).fit(X, y)
    with pytest.raises(ValueError, match="class 4 has 3 samples and 4 features"):
        PEERS[QuadraticDiscriminantAnalysis](reg_param=0.1).fit(X[y != 3], y[y != 3])
    ours = QuadraticDiscriminantAnalysis(reg_param=0.1, store_covariance=True).fit(X, y)
    few = 0.9 * np.cov(X[y == 4].T, bias=True) + 0.1 * np.eye(4)
    np.testing.assert_allclose(ours.covariance_[3], 0.1 * np.eye(4), atol=1e-12)
    np.testing.assert_allclose(ours.covariance_[4], few, atol=1e-12)


def test_reg_param_comes_after_shrinkage_and_is_not_ignored():
    X, y = rows()
    how = {"solver": "eigen", "shrinkage": 0.2, "store_covariance": True}
    ours, theirs = (
        kind(reg_param=0.3, **how).fit(X, y)
        for kind in (QuadraticDiscriminantAnalysis, PEERS[QuadraticDiscriminantAnalysis])
    )
    np.testing.assert_allclose(
        ours.covariance_, 0.7 * np.array(theirs.covariance_) + 0.3 * np.eye(4), rtol=1e-9
    )


def test_rows_of_weight_zero_make_no_class():
    X, y = rows()
    weights = (y != 1).astype(float)
    assert GaussianNB().fit(X, y, sample_weight=weights).classes_.tolist() == [0, 2]
    theirs = naive_bayes.GaussianNB().fit(X, y, sample_weight=weights)
    assert (theirs.classes_.tolist(), theirs.class_prior_[1]) == ([0, 1, 2], 0.0)


def test_smoothing_comes_from_the_weighted_variance():
    X, y = rows()
    weights = np.arange(300) % 5 + 1
    ours, theirs = (
        kind(var_smoothing=0.1).fit(X, y, sample_weight=weights) for kind in (GaussianNB, PEERS[GaussianNB])
    )
    repeated = PEERS[GaussianNB](var_smoothing=0.1).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(ours.var_, repeated.var_, rtol=1e-10)
    assert abs(theirs.epsilon_ / repeated.epsilon_ - 1) > 1e-3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_constant_feature_without_smoothing_is_an_error():
    X, y = rows()
    X[y == 1, 2] = 7
    with pytest.raises(ValueError, match="class 1: feature 2 is constant in it, and var_smoothing adds"):
        GaussianNB(var_smoothing=0).fit(X, y)
    assert np.isnan(naive_bayes.GaussianNB(var_smoothing=0).fit(X, y).predict_proba(X)).any()


def test_moments_of_float32_rows_are_in_float64():
    X, y = rows()
    for model in MODELS:
        ours, theirs = (kind().fit(X.astype(np.float32), y) for kind in (model, PEERS[model]))
        names = ("theta_", "var_") if model is GaussianNB else ("means_",)
        for name in names:
            assert (getattr(ours, name).dtype, getattr(theirs, name).dtype) == (np.float64, np.float32)


def test_labels_held_as_objects():
    X, y = rows()
    whole = y.astype(object)
    with pytest.raises(ValueError, match="Unknown label type"):
        LDA().fit(X, whole)
    assert LinearDiscriminantAnalysis().fit(X, whole).classes_.tolist() == [0, 1, 2]
    names = np.array(["a", "b", "c"], dtype=object)[y]
    assert PEERS[QuadraticDiscriminantAnalysis]().fit(X, names).classes_.dtype == object
    assert QuadraticDiscriminantAnalysis().fit(X, names).classes_.dtype == np.dtype("U1")


def test_nearly_singular_lda_loses_digits_that_the_rows_still_hold():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = rng.normal(size=(300, 2))
    X[:, 1] = X[:, 0] + 2e-4 * X[:, 1]
    X[:, 0] += y
    scatter = [[Fraction(0)] * 2 for _ in range(2)]
    means = []
    for k in (0, 1):
        columns = [list(map(Fraction, column)) for column in X[y == k].T]
        means.append([sum(column) / len(column) for column in columns])
        offsets = [[x - m for x in column] for column, m in zip(columns, means[k], strict=True)]
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            scatter[i][j] += sum(map(mul, offsets[i], offsets[j])) / 300
    (a, b), (_, c) = scatter
    gap = [m1 - m0 for m0, m1 in zip(*means, strict=True)]
    determinant = a * c - b * b
    exact = [float((c * gap[0] - b * gap[1]) / determinant), float((a * gap[1] - b * gap[0]) / determinant)]
    ours, theirs = (
        np.abs(kind(tol=1e-6).fit(X, y).coef_[0] / exact - 1).max()
        for kind in (LinearDiscriminantAnalysis, LDA)
    )
    assert theirs < 1e-11
    assert 1e-11 < ours < 1e-6


@pytest.mark.parametrize("unit", [1e-12, 0.005, 1.0, 1e12])
def test_the_verdict_on_rank_does_not_depend_on_units(unit):
    """scikit-learn's QDA: a feature of standard deviation 0.005 is "not full rank"."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = np.arange(500) % 2
    scaled = X * [unit, 1, 1]
    for model in (QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis):
        expected = model().fit(X, y).predict_proba(X)
        np.testing.assert_allclose(model().fit(scaled, y).predict_proba(scaled), expected, rtol=1e-8)
    if unit <= 0.005:
        with pytest.raises(np.linalg.LinAlgError, match="not full rank"):
            PEERS[QuadraticDiscriminantAnalysis]().fit(scaled, y)
    collinear = np.column_stack([scaled, scaled[:, 0] + scaled[:, 1] * unit])
    with pytest.raises(np.linalg.LinAlgError, match="class 0 is.* rank 3 of 4, from 250 rows"):
        QuadraticDiscriminantAnalysis().fit(collinear, y)
