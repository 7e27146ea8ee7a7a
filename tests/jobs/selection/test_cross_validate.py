"""Scores of one estimator, and learning curves, against scikit-learn."""

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.datasets import load_wine
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import get_scorer

from streamgda import (
    GaussianNB,
    HashedKFold,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    cross_validate,
    learning_curve,
)


def test_scores_are_those_of_scikit_learn():
    X, y = load_wine(return_X_y=True)
    scoring = ["accuracy", "neg_log_loss", "f1_macro"]
    ours = cross_validate(LinearDiscriminantAnalysis(), X, y, cv=4, scoring=scoring)
    theirs = model_selection.cross_validate(
        LinearDiscriminantAnalysis(), X, y, cv=HashedKFold(4), scoring=scoring
    )
    assert set(ours) == set(theirs)
    for name in scoring:
        np.testing.assert_allclose(ours[f"test_{name}"], theirs[f"test_{name}"], atol=1e-8)
    alone = cross_validate(LinearDiscriminantAnalysis(), X, y, cv=4, scoring="accuracy")
    np.testing.assert_array_equal(alone["test_score"], ours["test_accuracy"])


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "log_likelihood"])
def test_a_learning_curve_is_of_models_fitted_to_some_folds(scoring):
    X, y = load_wine(return_X_y=True)
    sizes, train, test = learning_curve(GaussianNB(), X, y, cv=5, scoring=scoring)
    folds = HashedKFold(5).folds(len(X))

    def log_likelihood(model, X, y):
        return model.predict_joint_log_proba(X)[np.arange(len(y)), y].mean()

    score = log_likelihood if scoring == "log_likelihood" else get_scorer(scoring)
    learnt = []
    for i, n_parts in enumerate([1, 2, 4]):
        for fold in range(5):
            part = np.isin(folds, [(fold + k) % 5 for k in range(1, n_parts + 1)])
            model = GaussianNB().fit(X[part], y[part])
            learnt.append(part.sum())
            assert test[i, fold] == pytest.approx(score(model, X[folds == fold], y[folds == fold]), abs=1e-8)
            assert train[i, fold] == pytest.approx(score(model, X[part], y[part]), abs=1e-8)
    np.testing.assert_array_equal(sizes, np.rint(np.reshape(learnt, (3, 5)).mean(axis=1)))


def test_a_part_that_does_not_determine_the_model_has_no_score():
    X, y = load_wine(return_X_y=True)
    _, _, test = learning_curve(QuadraticDiscriminantAnalysis(), X, y, cv=10, n_parts=[1, 9])
    assert np.isnan(test[0]).all()
    assert np.isfinite(test[1]).all()
    with pytest.raises(ValueError, match="n_parts are whole numbers from 1 to 4"):
        learning_curve(GaussianNB(), X, y, n_parts=[5])


def test_a_fold_that_fails_has_the_error_score():
    X, y = load_wine(return_X_y=True)
    X = np.column_stack([X, np.zeros(len(X))])
    fold = np.arange(len(X)) % 3
    X[np.flatnonzero(fold == 0), -1] = np.arange((fold == 0).sum())
    X[np.flatnonzero(fold == 1)[::2], -1] = 1.0
    with pytest.raises(ValueError, match="fits failed"):
        cross_validate(QuadraticDiscriminantAnalysis(), X[:, [0, 0]], y)
    X[fold == 1, -1] = 0.0
    with pytest.warns(FitFailedWarning, match="1 of 3 fits failed"):
        scores = cross_validate(QuadraticDiscriminantAnalysis(), X, y, fold=fold, error_score=-1.0)
    assert scores["test_score"][0] == -1.0
