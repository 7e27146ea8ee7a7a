"""Ordinary code runs with either library under one import line, with the same results."""

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import discriminant_analysis, naive_bayes
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier
from sklearn.feature_selection import RFE, SelectFromModel, SequentialFeatureSelector
from sklearn.inspection import DecisionBoundaryDisplay, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_validate
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import streamgda

FRAME = load_iris(as_frame=True)
X, Y = FRAME.data, FRAME.target
X = X + np.random.default_rng(0).normal(scale=0.3, size=X.shape)  # so that something is left to get wrong
TWO = Y > 0


class ScikitLearn:
    GaussianNB = naive_bayes.GaussianNB
    LDA = discriminant_analysis.LinearDiscriminantAnalysis
    QDA = discriminant_analysis.QuadraticDiscriminantAnalysis


class Streamgda:
    GaussianNB = streamgda.GaussianNB
    LDA = streamgda.LinearDiscriminantAnalysis
    QDA = streamgda.QuadraticDiscriminantAnalysis


def positional_arguments(lib):
    model = lib.LDA("eigen", 0.1, [0.2, 0.3, 0.5], 1)
    return model.get_params()["priors"], model.set_params(priors=None).fit(X, Y).transform(X)


def a_search_over_solvers(lib):
    grid = [
        {"solver": ["svd"], "tol": [1e-4, 1e-2]},
        {"solver": ["lsqr", "eigen"], "shrinkage": [None, "auto", 0.1, 0.9]},
    ]
    search = GridSearchCV(lib.LDA(), grid, scoring="neg_log_loss", cv=3).fit(X, Y)
    return search.best_params_["solver"], search.cv_results_["mean_test_score"]


def a_search_within_a_pipeline(lib):
    grid = {"quadraticdiscriminantanalysis__reg_param": [0.0, 0.01, 0.5]}
    pipeline = make_pipeline(PolynomialFeatures(include_bias=False), StandardScaler(), lib.QDA())
    search = GridSearchCV(pipeline, grid, cv=3, error_score=0.0).fit(X, Y)
    return search.best_score_, search.cv_results_["mean_test_score"][1:]


def calibrated(lib):
    models = (lib.LDA(), lib.LDA("eigen"), lib.QDA())
    return [CalibratedClassifierCV(model, cv=3).fit(X, Y).predict_proba(X) for model in models]


def stacked(lib):
    parts = [("lda", lib.LDA()), ("nb", lib.GaussianNB()), ("qda", lib.QDA())]
    return StackingClassifier(parts, LogisticRegression(), cv=3).fit(X, Y).predict_proba(X)


def a_decision_boundary(lib):
    model = lib.QDA().fit(X.iloc[:, :2], Y)
    display = DecisionBoundaryDisplay.from_estimator(
        model, X.iloc[:, :2], grid_resolution=20, response_method="predict"
    )
    return display.response


def frames_out(lib):
    model = lib.LDA().fit(X, Y)
    pandas = model.set_output(transform="pandas").transform(X)
    assert isinstance(pandas, pd.DataFrame)
    return [*pandas.columns, *model.get_feature_names_out()], pandas.to_numpy()


def some_columns(lib):
    petals, sepals = list(X.columns[2:]), list(X.columns[:2])
    columns = ColumnTransformer(
        [("petals", lib.LDA(n_components=1), petals), ("rest", "passthrough", sepals)]
    )
    union = FeatureUnion([("lda", lib.LDA()), ("scaled", StandardScaler())])
    return columns.fit_transform(X, Y), list(columns.get_feature_names_out()), union.fit_transform(X, Y)


def batches(lib):
    model = lib.GaussianNB()
    for start in range(0, 150, 30):
        rows = slice(start, start + 30)
        model.partial_fit(X[rows].to_numpy(), Y[rows], classes=[0, 1, 2])
    return model.theta_, model.class_count_, model.class_prior_, model.classes_


def what_matters(lib):
    model = lib.QDA().fit(X, Y)
    importance = permutation_importance(model, X, Y, n_repeats=3, random_state=0).importances
    selected = SequentialFeatureSelector(lib.LDA(), n_features_to_select=2, cv=3).fit(X, Y).get_support()
    eliminated = RFE(lib.LDA(), n_features_to_select=2).fit(X, Y).ranking_
    return importance, selected, eliminated, SelectFromModel(lib.LDA("lsqr")).fit(X, Y).get_support()


def routed_weights(lib):
    weights = np.where(Y == 1, 2.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = lib.GaussianNB(var_smoothing=0.0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        return cross_validate(model, X, Y, params={"sample_weight": weights}, cv=3)["test_score"]


def a_threshold(lib):
    labels = np.where(Y[TWO] == 1, "no", "yes")
    tuned = TunedThresholdClassifierCV(lib.LDA(), scoring="balanced_accuracy", cv=3).fit(X[TWO], labels)
    return tuned.predict(X), tuned.best_threshold_, tuned.best_score_


def messages(lib):
    """What is said where scikit-learn raises an error too."""
    said = []
    for model, rows, labels in (
        (lib.LDA(n_components=3), X, Y),
        (lib.LDA("lsqr"), X[:2], [0, 1]),
        (lib.LDA(priors=[1.5, -0.5, 0.0]), X, Y),
        (lib.QDA(), X[:51], Y[:51]),
        (lib.QDA(), X[:50], Y[:50]),
        (lib.QDA(), X.assign(more=X.iloc[:, 0]), Y),
        (lib.QDA(solver="eigen"), X.assign(more=X.iloc[:, 0]), Y),
        (lib.QDA(), X.iloc[::20], Y[::20]),
        (lib.GaussianNB(priors=[0.5, 0.5]), X, Y),
        (lib.GaussianNB(priors=[0.5, 0.5, 0.5]), X, Y),
        (lib.GaussianNB(priors=[1.5, -0.5, 0.0]), X, Y),
        (lib.LDA("svd", covariance_estimator=lib.LDA()), X, Y),
        (lib.LDA("lsqr", 0.1, covariance_estimator=lib.LDA()), X, Y),
        (lib.LDA("sag"), X, Y),
        (lib.LDA(tol=-1), X, Y),
        (lib.QDA(reg_param=2), X, Y),
    ):
        with pytest.raises(ValueError, match=".") as caught:
            model.fit(rows, labels)
        said.append(str(caught.value))
    return said


SNIPPETS = [
    positional_arguments,
    a_search_over_solvers,
    a_search_within_a_pipeline,
    calibrated,
    stacked,
    a_decision_boundary,
    frames_out,
    some_columns,
    batches,
    what_matters,
    routed_weights,
    a_threshold,
]


def assert_same(ours, theirs):
    if isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for ours_part, theirs_part in zip(ours, theirs, strict=True):
            assert_same(ours_part, theirs_part)
    elif np.asarray(ours).dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)
    else:
        assert np.array_equal(ours, theirs)


@pytest.mark.slow_cases("a_threshold", "a_search_over", "what_matters", "a_search", "stacked")
@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:.*fits failed", "ignore::RuntimeWarning")
@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.__name__)
def test_the_same_with_either_library(snippet):
    assert_same(snippet(Streamgda), snippet(ScikitLearn))


def in_order(message):
    """A message whose choices are sorted; scikit-learn's are in the order of a set."""
    return re.sub(r"(?<=\{)[^}]*", lambda choices: ", ".join(sorted(choices[0].split(", "))), message)


def test_messages_begin_with_scikit_learns():
    for ours, theirs in zip(messages(Streamgda), messages(ScikitLearn), strict=True):
        start = theirs.rstrip(".").replace("a str among {'auto'}", "a str among {'auto', 'oas'}")
        assert in_order(ours).startswith(in_order(start))
