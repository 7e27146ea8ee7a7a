"""Rows left out in closed form, against refitting, scikit-learn's LeaveOneOut and MASS."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, LeaveOneOut

from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsSearchCV,
    cross_validate,
    scan_parquet,
)
from streamgda.selection.downdates import downdate_of

LDA, QDA = LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

ESTIMATORS = [
    LDA(),
    LDA(shrinkage=0.3, priors=[0.2, 0.3, 0.5]),
    QDA(),
    QDA(reg_param=0.1, priors=[0.2, 0.3, 0.5]),
    QDA(reg_param=0.01, shrinkage=0.2),
    QDA(shrinkage=1.0),
    GaussianNB(),
    GaussianNB(var_smoothing=0.1),
    GaussianNB(var_smoothing=0, priors=[0.2, 0.3, 0.5]),
    QDA(pooling=0.3),
    QDA(pooling=0.6, shrinkage=0.1, reg_param=0.2, priors=[0.2, 0.3, 0.5]),
    QDA(pooling=1.0),
    GaussianNB(pooling=0.3),
]


@pytest.mark.slow_cases("Quadratic", "pooling=0.3", "var_smoothing=0", "0.3)-False")
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_each_row_is_scored_as_by_the_model_of_all_the_others(estimator, is_weighted):
    X, y = load_iris(return_X_y=True)
    weights = (
        np.random.default_rng(0).integers(1, 4, len(y)).astype(float) if is_weighted else np.ones(len(y))
    )
    floating, exact = (
        downdate_of(estimator, state().update(X, y, weights)).log_joint(X, y, weights)
        for state in (ClassStatistics, ExactClassStatistics)
    )
    for i in range(0, len(y), 11):
        others = np.arange(len(y)) != i
        model = type(estimator)(**estimator.get_params()).fit(X[others], y[others], weights[others])
        expected = model.predict_log_proba(X[[i]])[0] + model.score_samples(X[[i]])
        np.testing.assert_allclose(floating[i], expected, rtol=1e-10)
        np.testing.assert_allclose(exact[i], expected, rtol=1e-10)


def unbiased(log_joint, X, y, *, shared):
    """The same with unbiased covariances in place of those of maximum likelihood."""
    n_features = X.shape[1]
    scores = np.empty_like(log_joint)
    for i in range(len(y)):
        X_left, y_left = np.delete(X, i, axis=0), np.delete(y, i)
        for k, label in enumerate(np.unique(y)):
            rows = X_left[y_left == label]
            n_rows, lost = (len(X_left), 3) if shared else (len(rows), 1)
            # ln det Σ is the same for all classes that share Σ
            constant = 0 if shared else np.linalg.slogdet(np.cov(rows.T, bias=True))[1]
            squared = -2 * log_joint[i, k] - constant
            factor = n_rows / (n_rows - lost)
            scores[i, k] = -0.5 * (
                squared / factor + constant + (0 if shared else n_features * np.log(factor))
            )
    return scores


@pytest.mark.parametrize(
    ("estimator", "errors", "row_71"),
    [
        (LDA(priors=[1 / 3] * 3), 3, [1.302e-28, 0.177272670, 0.822727330]),
        (QDA(priors=[1 / 3] * 3), 4, [0, 0.161642251, 0.838357749]),
    ],
)
def test_iris_as_mass_has_it(estimator, errors, row_71):
    """MASS 7.3, lda and qda with CV=TRUE and equal priors; its covariances are unbiased."""
    X, y = load_iris(return_X_y=True)
    log_joint = downdate_of(estimator, ClassStatistics().update(X, y)).log_joint(X, y, np.ones(len(y)))
    log_joint -= np.log(1 / 3) - 0.5 * 4 * np.log(2 * np.pi)
    posteriors = softmax(unbiased(log_joint, X, y, shared=isinstance(estimator, LDA)), axis=1)
    assert (posteriors.argmax(axis=1) != y).sum() == errors
    np.testing.assert_allclose(posteriors[70], row_71, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(posteriors[70, 1:], row_71[1:], atol=6e-10)


@pytest.mark.slow_cases("accuracy-Quad", "accuracy-Linear", "neg_log_loss-Gauss", "neg_log_loss-Quad")
@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (LDA(), {"shrinkage": [None, 0.1]}),
        (QDA(), {"reg_param": [0.0, 0.1]}),
        (GaussianNB(), {"var_smoothing": [1e-9, 0.01]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_scores_are_those_of_leave_one_out(estimator, grid, scoring, tmp_path):
    X, y = (values[::5] for values in load_iris(return_X_y=True))
    X = X + np.random.default_rng(0).normal(scale=0.3, size=X.shape)

    def log_loss(model, X, y):
        return model.predict_log_proba(X)[np.arange(len(y)), y].mean()

    scorer = log_loss if scoring == "neg_log_loss" else scoring  # that of scikit-learn wants two labels
    theirs = GridSearchCV(estimator, grid, cv=LeaveOneOut(), scoring=scorer).fit(X, y).cv_results_
    pd.DataFrame(X, columns=list("abcd")).assign(kind=y).to_parquet(tmp_path / "rows.parquet")
    search = StatisticsSearchCV(estimator, grid, cv="loo", scoring=scoring).fit(
        scan_parquet(tmp_path, "kind")
    )
    for name in ("mean_test_score", "std_test_score", "rank_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], theirs[name], atol=1e-8, err_msg=name)
    assert search.n_reads_ == 2
    assert not [name for name in search.cv_results_ if name.startswith("split")]


def test_measures_of_all_rows_together():
    X, y = load_iris(return_X_y=True)
    scores = cross_validate(QDA(), X, y, cv="loo", scoring=["f1_macro", "log_likelihood", "roc_auc"])
    assert scores["test_f1_macro"].shape == (1,)
    assert 0.97 < scores["test_f1_macro"][0] < scores["test_roc_auc"][0] < 1
    left_out = downdate_of(QDA(), ClassStatistics().update(X, y)).log_joint(X, y, np.ones(len(y)))
    assert scores["test_log_likelihood"][0] == pytest.approx(left_out[np.arange(len(y)), y].mean(), abs=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [LDA(shrinkage="auto"), QDA(shrinkage="oas"), QDA(pooling="bayes"), GaussianNB(predictive="student")],
    ids=str,
)
def test_without_a_closed_form_nothing_is_read(estimator):
    with pytest.raises(ValueError, match="no closed form"):
        cross_validate(estimator, *load_iris(return_X_y=True), cv="loo")


def test_what_one_row_less_does_not_determine_is_an_error():
    X, y = load_iris(return_X_y=True)
    few = np.r_[:50, 50:56, 100:150]  # without one, six rows of a class span four dimensions
    assert cross_validate(QDA(), X[few], y[few], cv="loo")["test_score"] > -10
    few = few[few != 50]
    with pytest.raises(ValueError, match="class 1: without one of its 5 rows, the covariance is singular"):
        cross_validate(QDA(), X[few], y[few], cv="loo")
    with pytest.raises(ValueError, match="class 1 has one row, without which it is gone"):
        cross_validate(GaussianNB(), X[:51], y[:51], cv="loo")
    with pytest.raises(ValueError, match="single rows, which groups and folds do not allow"):
        cross_validate(GaussianNB(), X, y, cv="loo", groups=y)


def test_a_row_without_which_a_covariance_is_singular_is_named():
    X, y = load_iris(return_X_y=True)
    X = X.copy()
    X[:50, 3] = 0.2
    X[7, 3] = 0.3  # the only one of its class in which the feature differs
    for estimator in (QDA(), GaussianNB(var_smoothing=0)):
        with pytest.raises(ValueError, match="row 7 of class 0: without it, nothing is left of a variance"):
            cross_validate(estimator, X, y, cv="loo")
    with pytest.raises(ValueError, match="row 7 of class 0: without it, .* constant in it: 3"):
        cross_validate(QDA(exact=True), X, y, cv="loo")


def refitted(estimator, X, y):
    """Ln p(x, k) of each row by fits to the others."""
    fitted = []
    for i in range(len(y)):
        model = clone(estimator).fit(np.delete(X, i, axis=0), np.delete(y, i))
        fitted.append(model.predict_log_proba(X[[i]])[0] + model.score_samples(X[[i]])[0])
    return np.array(fitted)


def left_out_and_refitted(estimator, X, y):
    """Ln p(x, true class) of each row by the models of the others: in closed form, and by fits."""
    truth = np.unique(y, return_inverse=True)[1]
    downdate = downdate_of(estimator, ClassStatistics().update(X, y))
    left_out = downdate.log_joint(X, truth, np.ones(len(y)))
    return left_out[np.arange(len(y)), truth], refitted(estimator, X, y)[np.arange(len(y)), truth]


FAR = np.array([[100.0], [100.3], [99.2], [101.1], [100.4], [99.9]])
TWO_AND_FOUR = np.array([0, 0, 1, 1, 1, 1])


@pytest.mark.parametrize("offset", [0.1, 3e5 + 0.1, 1e9 + 0.1])
@pytest.mark.parametrize("estimator", [GaussianNB(), GaussianNB(pooling=0.3), GaussianNB(var_smoothing=0.01)])
def test_one_row_of_two_leaves_no_variance_however_far_from_zero(estimator, offset):
    left_out, fitted = left_out_and_refitted(estimator, FAR + offset, TWO_AND_FOUR)
    np.testing.assert_allclose(left_out, fitted, rtol=1e-9)
    with pytest.raises(ValueError, match="row 0 of class 0: without it, class 0: feature 0 is constant"):
        cross_validate(GaussianNB(var_smoothing=0), FAR + offset, TWO_AND_FOUR, cv="loo")


@pytest.mark.slow_cases("pooling")
@pytest.mark.parametrize("estimator", [LDA(), QDA(), QDA(pooling=0.4)], ids=str)
def test_means_far_from_zero_keep_their_digits(estimator):
    X = np.random.default_rng(0).normal([3e9, -7e8], 1e-4, size=(30, 2))
    X[15:, 0] += 2e-4
    left_out, fitted = left_out_and_refitted(estimator, X, np.repeat([0, 1], 15))
    np.testing.assert_allclose(left_out, fitted, rtol=1e-10)


def test_smoothing_without_the_row_that_is_almost_all_of_the_variance():
    X = np.array([[0.3], [1e9], [0.1], [0.7], [0.2], [0.9]])
    left_out, fitted = left_out_and_refitted(GaussianNB(var_smoothing=0.1), X, TWO_AND_FOUR)
    np.testing.assert_allclose(left_out, fitted, rtol=1e-6)


WIDE = np.array([[0.0], [30.0], [5.0], [10.0], [-20.0], [13.0]]) * 1000


@pytest.mark.parametrize("parameters", [{"reg_param": 0.01}, {"reg_param": 0.01, "shrinkage": 0.3}], ids=str)
def test_a_ridge_alone_is_left_of_a_class_of_two(parameters):
    left_out, fitted = left_out_and_refitted(QDA(**parameters), WIDE, TWO_AND_FOUR)
    np.testing.assert_allclose(left_out, fitted, rtol=1e-10)


@pytest.mark.slow_cases("20")
@pytest.mark.parametrize("n_repeats", [1, 20])
def test_an_outlier_leaves_little_of_what_its_class_is_shrunk_towards(n_repeats):
    X = np.tile([[0.1, 0.2], [0.4, 0.7], [0.3, 0.1], [0.0, 0.9]], (n_repeats, 1))
    X = np.vstack([X, [[3e4, 1e3]], X + 0.5])
    y = np.repeat([0, 1], [4 * n_repeats + 1, 4 * n_repeats])
    left_out, fitted = left_out_and_refitted(QDA(shrinkage=0.5), X, y)
    np.testing.assert_allclose(left_out, fitted, rtol=1e-6)
    left_out, fitted = left_out_and_refitted(QDA(shrinkage=0.5, pooling=0.3, reg_param=1e-3), X, y)
    np.testing.assert_allclose(left_out, fitted, rtol=1e-6)


@pytest.mark.parametrize("shrinkage", [0.3, 1.0])
def test_shrinkage_of_one_row_alone_is_an_error(shrinkage):
    X = [[0.1, 0.2], [0.4, 0.7], [1, 2], [0, 1], [2, 0.5], [1, 1]]
    with pytest.raises(ValueError, match="row 0 of class 0: without it, y has only 1 sample in class 0"):
        cross_validate(QDA(shrinkage=shrinkage), X, TWO_AND_FOUR, cv="loo")


@pytest.mark.slow_cases("-1000000.0", "-10000000000.0")
@pytest.mark.parametrize("ratio", [1e6, 1e10, 1e14])
@pytest.mark.parametrize(
    "estimator",
    [QDA(reg_param=1e-3), QDA(reg_param=1e-8), QDA(shrinkage=1e-12), LDA(shrinkage=1e-12)],
    ids=str,
)
def test_regularised_covariances_keep_their_digits_in_all_units(estimator, ratio):
    units = np.geomspace(ratio**-0.5, ratio**0.5, 4)
    X = np.random.default_rng(0).normal(size=(26, 4)) * units
    left_out, fitted = left_out_and_refitted(estimator, X, np.repeat([0, 1], [12, 14]))
    np.testing.assert_allclose(left_out, fitted, rtol=1e-11)


def test_lda_wants_a_feature_that_varies():
    with pytest.raises(ValueError, match="no feature varies within a class"):
        cross_validate(LDA(), [[0], [0], [1], [1], [3], [3]], [0, 0, 1, 1, 2, 2], cv="loo")
    with pytest.raises(ValueError, match="row 4 of class 2: without it, nothing is left of a variance"):
        cross_validate(LDA(), [[0], [0], [1], [1], [3], [4]], [0, 0, 1, 1, 2, 2], cv="loo")


@pytest.mark.slow_cases(
    "-1000000.0",
    "pooling=0.4",
    "pooling=1.0",
    "pooling=0.6",
    "pooling=0.3)-1000",
    "reg_param=0.01",
    "shrinkage=0.3)-1000",
    "var_smoothing=0)-1000",
    "smoothing=0.1)-1000",
    "shrinkage=1.0)-1000",
)
@pytest.mark.parametrize("distance", [1e2, 1e5, 1e6, 1e12])
@pytest.mark.parametrize("estimator", [*ESTIMATORS, QDA(pooling=0.4)], ids=str)
@pytest.mark.filterwarnings("ignore:the covariance within the classes has rank")
def test_a_far_row_is_scored_as_by_a_fit_or_named_and_the_others_are_not_concerned(estimator, distance):
    random = np.random.default_rng(int(distance))
    X, y = random.normal(size=(30, 3)), np.repeat([0, 1, 2], 10)
    X[:, 0] += y
    X[7] += distance * random.normal(size=3)
    try:
        expected = refitted(estimator, X, y)
    except np.linalg.LinAlgError:  # beside the far row nothing of its class varies
        with pytest.raises(ValueError, match="class 0"):
            downdate_of(estimator, ClassStatistics().update(X, y)).log_joint(X, y, np.ones(len(y)))
        return
    downdate, others = downdate_of(estimator, ClassStatistics().update(X, y)), np.arange(30) != 7
    left_out = downdate.log_joint(X[others], y[others], np.ones(29))
    np.testing.assert_allclose(left_out, expected[others], rtol=1e-6)
    with contextlib.ExitStack() as may_be_named:
        if distance > 1e5:
            nothing = "row 0 of class 0: without it, nothing is left of a variance, or less"
            may_be_named.enter_context(pytest.raises(ValueError, match=nothing))
        far = downdate.log_joint(X[[7]], y[[7]], np.ones(1))
        np.testing.assert_allclose(far, expected[[7]], rtol=2e-6)


@pytest.mark.slow_cases("Quadratic", "-10000.0", "-1000000000000.0")
@pytest.mark.parametrize("distance", [1e4, 1e8, 1e12])
@pytest.mark.parametrize("estimator", [LDA(), GaussianNB(), QDA(pooling=0.4, shrinkage=0.1)], ids=str)
@pytest.mark.filterwarnings("ignore:the covariance within the classes has rank")
def test_exact_states_keep_all_digits_of_what_a_far_row_leaves(estimator, distance):
    random = np.random.default_rng(int(distance))
    X, y = random.normal(size=(20, 3)), np.repeat([0, 1], 10)
    X[3] += distance
    estimator = clone(estimator).set_params(exact=True)
    downdate = downdate_of(estimator, ExactClassStatistics().update(X, y))
    left_out = downdate.log_joint(X, y, np.ones(20))
    expected = refitted(estimator, X, y)
    np.testing.assert_allclose(left_out[3], expected[3], rtol=1e-10)
    np.testing.assert_allclose(left_out, expected, rtol=1e-8)  # the far row is in the models of the others


@pytest.mark.slow_cases("Quadratic", "shrinkage")
@pytest.mark.parametrize(
    "estimator",
    [QDA(pooling=0.3), QDA(pooling=1.0), QDA(pooling=0.5, shrinkage=0.1), LDA(), LDA(shrinkage=0.2)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:the covariance within the classes has rank")
def test_constant_and_collinear_features_are_left_out_as_by_a_fit(estimator):
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, np.full(150, 0.3), X[:, 0] - X[:, 1]])[::3]
    left_out, fitted = left_out_and_refitted(estimator, X, y[::3])
    np.testing.assert_allclose(left_out, fitted, rtol=1e-9)


@pytest.mark.parametrize("estimator", [GaussianNB(), GaussianNB(pooling=0.2)], ids=str)
def test_a_flag_of_one_row_of_a_class(estimator):
    X = np.random.default_rng(0).integers(0, 2, size=(24, 3)).astype(float)
    y = np.repeat([0, 1], 12)
    X[:12, 2] = 0
    X[5, 2] = 1
    np.testing.assert_allclose(*left_out_and_refitted(estimator, X, y), rtol=1e-5)


@pytest.mark.parametrize("estimator", [LDA(), QDA(), GaussianNB()], ids=str)
@pytest.mark.parametrize("cv", ["loo", 2])
def test_one_class_is_the_same_error_as_for_folds(estimator, cv):
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ValueError, match="The number of classes has to be greater than one. Got 1 class."):
        cross_validate(estimator, X, np.zeros(9, dtype=int), cv=cv)
