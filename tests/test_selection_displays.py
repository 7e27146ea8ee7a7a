"""Pictures of searches and learning curves: what they draw is what was computed."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_wine

from streamgda import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsSearchCV,
    learning_curve,
)
from streamgda.plotting import LearningCurveDisplay, ValidationCurveDisplay


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def test_a_learning_curve_is_drawn_with_its_spread():
    X, y = load_wine(return_X_y=True)
    display = LearningCurveDisplay.from_estimator(
        LinearDiscriminantAnalysis(), X, y, scoring="accuracy", plot={"score_type": "test"}
    )
    sizes, _, test = learning_curve(LinearDiscriminantAnalysis(), X, y, scoring="accuracy")
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), sizes)
    np.testing.assert_allclose(line.get_ydata(), test.mean(axis=1))
    assert display.fill_between_ is not None
    assert display.ax_.get_ylabel() == "accuracy"


def test_a_search_is_drawn_against_a_parameter():
    X, y = load_wine(return_X_y=True)
    grid = {"reg_param": [0.1, 0.001, 0.01], "shrinkage": [None, 0.01]}
    search = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), grid).fit(X, y)
    display = ValidationCurveDisplay.from_search(search, "reg_param", where={"shrinkage": None})
    (line,) = display.lines_
    assert line.get_xdata().tolist() == [0.001, 0.01, 0.1]
    scores = dict(
        zip(map(str, search.cv_results_["params"]), search.cv_results_["mean_test_score"], strict=True)
    )
    expected = [scores[str({"reg_param": value, "shrinkage": None})] for value in (0.001, 0.01, 0.1)]
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert len(ValidationCurveDisplay.from_search(search, "reg_param").param_range) == 3
    with pytest.raises(ValueError, match="no candidate has a number for 'tol'"):
        ValidationCurveDisplay.from_search(search, "tol")
