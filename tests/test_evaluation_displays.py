"""scikit-learn's displays from an evaluation: the same pictures as from all the scores."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn import calibration, metrics
from sklearn.datasets import load_breast_cancer, load_iris

from streamgda import GaussianNB, evaluate
from streamgda.plotting import (
    CalibrationDisplay,
    ConfusionMatrixDisplay,
    PrecisionRecallDisplay,
    RocCurveDisplay,
)

KINDS = np.array(["setosa", "versicolor", "virginica"])


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    y = np.array(["malignant", "benign"])[y]
    return GaussianNB().fit(X[:, :4], y), X[:, :4], y


def three_classes():
    X, y = load_iris(return_X_y=True)
    return GaussianNB().fit(X[:, :2], KINDS[y]), X[:, :2], KINDS[y]


def legend_of(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_the_roc_curve_of_two_classes_is_scikit_learns():
    model, X, y = two_classes()
    ours = RocCurveDisplay.from_evaluation(evaluate(model, X, y), plot_chance_level=True)
    theirs = metrics.RocCurveDisplay.from_estimator(model, X, y, pos_label="malignant")
    at = np.linspace(0, 1, 101)
    drawn, expected = (np.interp(at, *display.line_.get_data()) for display in (ours, theirs))
    np.testing.assert_allclose(drawn, expected, atol=0.02)
    assert legend_of(ours)[0] == f"malignant (AUC = {theirs.roc_auc:.2f})"
    assert legend_of(ours)[1].startswith("Chance level")
    assert ours.ax_.get_xlabel() == "False Positive Rate"


def test_the_precision_recall_curve_of_two_classes_is_scikit_learns():
    model, X, y = two_classes()
    ours = PrecisionRecallDisplay.from_evaluation(evaluate(model, X, y), plot_chance_level=True)
    theirs = metrics.PrecisionRecallDisplay.from_estimator(
        model, X, y, pos_label="malignant", plot_chance_level=True
    )
    at = np.linspace(0.01, 0.99, 99)
    drawn, expected = (
        np.interp(at, *(values[::-1] for values in display.line_.get_data())) for display in (ours, theirs)
    )
    np.testing.assert_allclose(drawn, expected, atol=0.02)
    assert legend_of(ours)[0] == f"malignant (AP = {theirs.average_precision:.2f})"
    levels = [display.chance_level_ for display in (ours, theirs)]
    ours_level, theirs_level = (level[0] if isinstance(level, list) else level for level in levels)
    np.testing.assert_allclose(ours_level.get_ydata(), theirs_level.get_ydata())


@pytest.mark.parametrize("display", [RocCurveDisplay, PrecisionRecallDisplay])
def test_each_of_many_classes_has_its_curve_and_colour(display):
    model, X, y = three_classes()
    evaluation = evaluate(model, X, y)
    drawn = display.from_evaluation(evaluation)
    assert [text.split(" (")[0] for text in legend_of(drawn)] == KINDS.tolist()
    assert len({line.get_color() for line in drawn.line_}) == 3
    some = display.from_evaluation(evaluation, labels=["virginica"])
    assert legend_of(some) == [legend_of(drawn)[2]]
    assert some.line_.get_color() == drawn.line_[2].get_color()
    with pytest.raises(ValueError, match="'rose' is none of the classes: 'setosa'"):
        display.from_evaluation(evaluation, labels=["rose"])


def test_the_confusion_matrix_is_that_of_the_predictions():
    model, X, y = three_classes()
    evaluation = evaluate(model, X, y)
    ours = ConfusionMatrixDisplay.from_evaluation(evaluation)
    expected = metrics.confusion_matrix(y, model.predict(X))
    written = [[int(text.get_text()) for text in row] for row in ours.text_]
    assert written == expected.tolist()
    assert [tick.get_text() for tick in ours.ax_.get_xticklabels()] == KINDS.tolist()
    for normalize in ("true", "pred", "all"):
        shares = ConfusionMatrixDisplay.from_evaluation(evaluation, normalize=normalize).confusion_matrix
        np.testing.assert_allclose(
            shares, metrics.confusion_matrix(y, model.predict(X), normalize=normalize), rtol=1e-12
        )
    with pytest.raises(ValueError, match="normalize must be one of"):
        ConfusionMatrixDisplay.from_evaluation(evaluation, normalize="rows")


def test_the_calibration_curve_is_scikit_learns():
    model, X, y = two_classes()
    ours = CalibrationDisplay.from_evaluation(evaluate(model, X, y))
    theirs = calibration.CalibrationDisplay.from_estimator(model, X, y, n_bins=10, pos_label="malignant")
    np.testing.assert_allclose(ours.line_.get_data(), theirs.line_.get_data(), rtol=1e-6)
    assert "malignant" in legend_of(ours)
    assert ours.ax_.get_xlabel() == "Mean predicted probability "


def test_calibration_curves_of_many_classes_share_axes():
    evaluation = evaluate(*three_classes())
    with pytest.raises(ValueError, match="name the class to draw, one of"):
        CalibrationDisplay.from_evaluation(evaluation)
    _, ax = plt.subplots()
    for label in KINDS:
        assert CalibrationDisplay.from_evaluation(evaluation, label, ax=ax).ax_ is ax
    with pytest.raises(ValueError, match="'rose' is none of the classes"):
        CalibrationDisplay.from_evaluation(evaluation, "rose")
    assert {text.get_text() for text in ax.get_legend().get_texts()} >= set(KINDS)


@pytest.mark.parametrize(
    "display", [RocCurveDisplay, PrecisionRecallDisplay, ConfusionMatrixDisplay, CalibrationDisplay]
)
def test_a_display_is_drawn_where_it_is_told_to(display):
    evaluation = evaluate(*two_classes())
    figure, (_, right) = plt.subplots(1, 2)
    drawn = display.from_evaluation(evaluation, ax=right)
    assert drawn.ax_ is right
    assert drawn.figure_ is figure
    assert isinstance(drawn, display)
