"""Ordinary code runs with either library under one import line, with the same results."""

import io
import pickle
import re

import joblib
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import discriminant_analysis, naive_bayes
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, SelectFromModel, SequentialFeatureSelector
from sklearn.inspection import DecisionBoundaryDisplay, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import streamgda

mpl.use("Agg")

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


def shrunk_lda(lib):
    model = lib.LDA(solver="lsqr", shrinkage="auto").fit(X, Y)
    return model.predict(X), model.predict_proba(X), model.coef_, model.intercept_


def positional_arguments(lib):
    model = lib.LDA("eigen", 0.1, [0.2, 0.3, 0.5], 1)
    return model.get_params()["priors"], model.set_params(priors=None).fit(X, Y).transform(X)


def reduced_and_plotted(lib):
    model = lib.LDA(n_components=2)
    return model.fit_transform(X, Y), model.explained_variance_ratio_, model.scalings_, model.xbar_


def a_pipeline_with_neighbours(lib):
    return (
        make_pipeline(StandardScaler(), lib.LDA(n_components=1), KNeighborsClassifier()).fit(X, Y).predict(X)
    )


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


def a_random_search(lib):
    smoothing = {"var_smoothing": np.logspace(-9, 0, 50)}
    search = RandomizedSearchCV(lib.GaussianNB(), smoothing, n_iter=5, random_state=0, cv=3).fit(X, Y)
    return search.best_params_["var_smoothing"], search.cv_results_["mean_test_score"]


def cross_validated(lib):
    models = (lib.LDA(), lib.QDA(), lib.GaussianNB(), lib.QDA(solver="eigen", shrinkage="auto"))
    return [cross_val_score(model, X, Y, scoring="neg_log_loss") for model in models]


def cross_validated_decisions(lib):
    models = (lib.LDA(), lib.LDA("lsqr"), lib.QDA())
    return [cross_val_predict(model, X, Y, method="decision_function", cv=3) for model in models]


def calibrated(lib):
    models = (lib.LDA(), lib.LDA("eigen"), lib.QDA())
    return [CalibratedClassifierCV(model, cv=3).fit(X, Y).predict_proba(X) for model in models]


def stacked(lib):
    parts = [("lda", lib.LDA()), ("nb", lib.GaussianNB()), ("qda", lib.QDA())]
    return StackingClassifier(parts, LogisticRegression(), cv=3).fit(X, Y).predict_proba(X)


def voted(lib):
    parts = [("lda", lib.LDA()), ("nb", lib.GaussianNB()), ("qda", lib.QDA())]
    return VotingClassifier(parts, voting="soft", weights=[1, 2, 1]).fit(X, Y).predict_proba(X)


def bagged_and_boosted(lib):
    bagged = BaggingClassifier(lib.QDA(), n_estimators=5, random_state=0).fit(X, Y)
    boosted = AdaBoostClassifier(lib.GaussianNB(), n_estimators=5, random_state=0).fit(X, Y)
    return bagged.predict_proba(X), boosted.predict_proba(X)


def one_against_the_rest(lib):
    one_vs_one = OneVsOneClassifier(lib.LDA("lsqr", 0.1)).fit(X, Y)
    return OneVsRestClassifier(lib.LDA()).fit(X, Y).predict_proba(X), one_vs_one.decision_function(X)


def a_decision_boundary(lib):
    model = lib.QDA().fit(X.iloc[:, :2], Y)
    display = DecisionBoundaryDisplay.from_estimator(
        model, X.iloc[:, :2], grid_resolution=20, response_method="predict"
    )
    return display.response


def cloned_and_pickled(lib):
    model = clone(lib.LDA("eigen", priors=[0.1, 0.2, 0.7], shrinkage=None)).set_params(priors=None)
    return pickle.loads(pickle.dumps(model.fit(X, Y))).predict_proba(X)


def dumped_by_joblib(lib):
    file = io.BytesIO()
    joblib.dump(lib.QDA(reg_param=0.1).fit(X, Y), file)
    file.seek(0)
    return joblib.load(file).predict_log_proba(X)


def fitted_in_parallel(lib):
    fit = joblib.delayed(lambda model, share: clone(model).fit(X[::share], Y[::share]).score(X, Y))
    models = (lib.LDA(), lib.QDA(), lib.GaussianNB())
    return joblib.Parallel(n_jobs=2, backend="threading")(fit(model, k) for model in models for k in (1, 2))


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


def curves(lib):
    smoothing = [1e-9, 1e-3, 1.0]
    validated = validation_curve(
        lib.GaussianNB(), X, Y, param_name="var_smoothing", param_range=smoothing, cv=3
    )
    shrunk = lib.LDA("lsqr", "auto")
    learnt = learning_curve(shrunk, X, Y, train_sizes=[40, 90], cv=3, shuffle=True, random_state=0)
    return learnt[1:], validated


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


def by_hand(lib):
    model = lib.LDA("lsqr", store_covariance=True).fit(X, Y)
    linear = X.to_numpy() @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(linear, model.decision_function(X), rtol=1e-8)
    return model.covariance_, model.means_, model.priors_, model.n_features_in_, list(model.feature_names_in_)


def mahalanobis_by_hand(lib):
    model = lib.QDA(store_covariance=True).fit(X, Y)
    offsets = X.to_numpy() - model.means_[1]
    axes = (offsets @ model.rotations_[1]) ** 2 / model.scalings_[1]
    return axes.sum(axis=1), np.einsum("ni,ij,nj->n", offsets, np.linalg.inv(model.covariance_[1]), offsets)


def scored(lib):
    models = (lib.LDA(), lib.QDA(), lib.GaussianNB())
    probabilities = [model.fit(X[::2], Y[::2]).predict_proba(X[1::2]) for model in models]
    return [(log_loss(Y[1::2], p), roc_auc_score(Y[1::2], p, multi_class="ovr")) for p in probabilities]


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
    shrunk_lda,
    positional_arguments,
    reduced_and_plotted,
    a_pipeline_with_neighbours,
    a_search_over_solvers,
    a_search_within_a_pipeline,
    a_random_search,
    cross_validated,
    cross_validated_decisions,
    calibrated,
    stacked,
    voted,
    bagged_and_boosted,
    one_against_the_rest,
    a_decision_boundary,
    cloned_and_pickled,
    dumped_by_joblib,
    fitted_in_parallel,
    frames_out,
    some_columns,
    curves,
    batches,
    what_matters,
    by_hand,
    mahalanobis_by_hand,
    scored,
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


@pytest.mark.slow_cases("a_threshold", "a_search_over", "cross_validated", "what_matters")
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
