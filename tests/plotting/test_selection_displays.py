"""Pictures of searches and learning curves: what they draw is what was computed."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError

from streamgda import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsSearchCV,
    learning_curve,
)
from streamgda.plotting import LearningCurveDisplay, ValidationCurveDisplay

WINE = load_wine(return_X_y=True)


def test_a_learning_curve_is_drawn_with_its_spread():
    display = LearningCurveDisplay.from_estimator(
        LinearDiscriminantAnalysis(), *WINE, scoring="accuracy", plot={"score_type": "test"}
    )
    sizes, _, test = learning_curve(LinearDiscriminantAnalysis(), *WINE, scoring="accuracy")
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), sizes)
    np.testing.assert_allclose(line.get_ydata(), test.mean(axis=1))
    assert display.fill_between_ is not None
    assert display.ax_.get_ylabel() == "accuracy"


def test_a_search_is_drawn_against_a_parameter():
    grid = {"reg_param": [0.1, 0.001, 0.01], "shrinkage": [None, 0.01]}
    search = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), grid).fit(*WINE)
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


@pytest.mark.parametrize(("values", "is_by_rank"), [([0, 1e-4, 0.01, 0.5], True), ([0, 0.25, 0.5], False)])
def test_a_grid_with_0_can_be_read(values, is_by_rank):
    display = ValidationCurveDisplay.from_search(searched({"shrinkage": values}), "shrinkage")
    display.figure_.draw_without_rendering()
    assert display.param_range.tolist() == values
    assert display.ax_.get_xscale() == "linear"
    (line,) = display.lines_
    assert line.get_xdata().tolist() == (list(range(4)) if is_by_rank else values)
    ticks = [tick.get_text() for tick in display.ax_.get_xticklabels()]
    assert (ticks == ["0", "0.0001", "0.01", "0.5"]) == is_by_rank


# ---------------------------------------------------------------------- one value


def searched(grid, **options):
    return StatisticsSearchCV(LinearDiscriminantAnalysis(), grid, **options).fit(*WINE)


def test_a_single_value_makes_no_curve():
    with pytest.raises(ValueError, match="a curve needs two values or more; there is 0.1 alone"):
        ValidationCurveDisplay.from_search(searched({"shrinkage": [None, 0.1]}), "shrinkage")
    with pytest.raises(ValueError, match="a curve needs two values or more"):
        LearningCurveDisplay.from_estimator(LinearDiscriminantAnalysis(), *WINE, cv=2)


# ---------------------------------------------------------------------- which candidates


def test_without_a_best_candidate_the_others_are_those_of_the_best_by_what_is_drawn():
    grid = {"shrinkage": [0.1, 0.3], "solver": ["svd", "lsqr"]}
    search = searched(grid, scoring=["accuracy", "neg_log_loss"], refit=False)
    display = ValidationCurveDisplay.from_search(search, "shrinkage", scoring="accuracy")
    assert display.param_range.tolist() == [0.1, 0.3]
    assert display.score_name == "accuracy"


def test_of_several_scorings_that_of_refit_is_drawn():
    search = searched({"shrinkage": [0.1, 0.2]}, scoring=["neg_log_loss", "accuracy"], refit="accuracy")
    display = ValidationCurveDisplay.from_search(search, "shrinkage")
    np.testing.assert_allclose(display.test_scores.mean(axis=1), search.cv_results_["mean_test_accuracy"])


def test_one_scoring_may_be_named():
    search = searched({"shrinkage": [0.1, 0.2]}, scoring="neg_log_loss")
    display = ValidationCurveDisplay.from_search(search, "shrinkage", scoring="neg_log_loss")
    np.testing.assert_allclose(display.test_scores.mean(axis=1), search.cv_results_["mean_test_score"])


SEVERAL = {"scoring": ["accuracy", "f1_macro"], "refit": False}


@pytest.mark.parametrize(
    ("options", "scoring", "message"),
    [
        (SEVERAL, None, "the scorings of the search are 'accuracy', 'f1_macro'; give"),
        (SEVERAL, "roc_auc", "the scorings of the search are 'accuracy', 'f1_macro'; give"),
        ({}, "accuracy", "the scorings of the search are 'log_likelihood'; give one"),
    ],
)
def test_scores_that_the_search_has_not_cannot_be_drawn(options, scoring, message):
    search = searched({"shrinkage": [0.1, 0.2]}, **options)
    with pytest.raises(ValueError, match=message):
        ValidationCurveDisplay.from_search(search, "shrinkage", scoring=scoring)


def test_a_search_is_fitted_before_it_is_drawn():
    with pytest.raises(NotFittedError):
        ValidationCurveDisplay.from_search(
            StatisticsSearchCV(LinearDiscriminantAnalysis(), {"shrinkage": [0.1]}), "shrinkage"
        )
