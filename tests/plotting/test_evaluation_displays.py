"""scikit-learn's displays from an evaluation: the same pictures as from all the scores."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn import calibration, metrics
from sklearn.datasets import load_breast_cancer, load_iris

from streamgda import Evaluation, GaussianNB, evaluate
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
    ours = RocCurveDisplay.from_evaluation(evaluate(model, X, y))
    theirs = metrics.RocCurveDisplay.from_estimator(model, X, y, pos_label="malignant")
    at = np.linspace(0, 1, 101)
    drawn, expected = (np.interp(at, *display.line_.get_data()) for display in (ours, theirs))
    np.testing.assert_allclose(drawn, expected, atol=0.02)
    assert legend_of(ours)[0] == f"malignant (AUC = {theirs.roc_auc:.2f})"
    assert legend_of(ours)[1].startswith("Chance level")
    assert ours.ax_.get_xlabel() == "False Positive Rate"


def test_the_precision_recall_curve_of_two_classes_is_scikit_learns():
    model, X, y = two_classes()
    ours = PrecisionRecallDisplay.from_evaluation(evaluate(model, X, y))
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
    assert [text.split(" (")[0] for text in legend_of(drawn)][:3] == KINDS.tolist()
    assert len({line.get_color() for line in drawn.line_}) == 3
    some = display.from_evaluation(evaluation, labels=["virginica"])
    assert legend_of(some)[0] == legend_of(drawn)[2]
    assert legend_of(some)[1].startswith("Chance level")
    assert some.line_.get_color() == drawn.line_[2].get_color()
    with pytest.raises(ValueError, match="'rose' is none of the classes: 'setosa'"):
        display.from_evaluation(evaluation, labels=["rose"])


@pytest.mark.parametrize("display", [RocCurveDisplay, PrecisionRecallDisplay, CalibrationDisplay])
def test_one_class_may_be_named_without_a_list(display):
    model, X, y = three_classes()
    evaluation = evaluate(model, X, y)
    expected = legend_of(display.from_evaluation(evaluation, labels=["virginica"]))
    assert legend_of(display.from_evaluation(evaluation, labels="virginica")) == expected
    with pytest.raises(ValueError, match="^'rose' is none of the classes"):
        display.from_evaluation(evaluation, labels="rose")
    evaluation.pos_label = "virginica"
    assert legend_of(display.from_evaluation(evaluation)) == expected
    numbered = evaluate(GaussianNB().fit(X, np.searchsorted(KINDS, y)), X, np.searchsorted(KINDS, y))
    for label in (2, np.int64(2)):
        display.from_evaluation(numbered, labels=label)
    with pytest.raises(ValueError, match="^7 is none of the classes: 0, 1, 2"):
        display.from_evaluation(numbered, labels=7)


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
    with pytest.raises(ValueError, match="'normalize' parameter .* must be"):
        ConfusionMatrixDisplay.from_evaluation(evaluation, normalize="rows")


def test_the_calibration_curve_is_scikit_learns():
    model, X, y = two_classes()
    ours = CalibrationDisplay.from_evaluation(evaluate(model, X, y), min_weight=0)
    theirs = calibration.CalibrationDisplay.from_estimator(model, X, y, n_bins=10, pos_label="malignant")
    np.testing.assert_allclose(ours.line_.get_data(), theirs.line_.get_data(), rtol=1e-6)
    assert "malignant" in legend_of(ours)
    assert ours.ax_.get_xlabel() == "Mean predicted probability"


def test_calibration_curves_of_many_classes_share_axes():
    evaluation = evaluate(*three_classes())
    together = CalibrationDisplay.from_evaluation(evaluation)
    _, ax = plt.subplots()
    for k, label in enumerate(KINDS):
        one = CalibrationDisplay.from_evaluation(evaluation, labels=label, ax=ax)
        assert one.ax_ is ax
        assert one.line_.get_color() == together.line_[k].get_color()
        np.testing.assert_array_equal(one.line_.get_data(), together.line_[k].get_data())
        np.testing.assert_array_equal(one.prob_true, together.prob_true[k])
    assert legend_of(together) == ["Perfectly calibrated", *KINDS]
    assert {text.get_text() for text in ax.get_legend().get_texts()} >= set(KINDS)
    some = CalibrationDisplay.from_evaluation(evaluation, labels=["virginica", "setosa"])
    assert legend_of(some) == ["Perfectly calibrated", "virginica", "setosa"]
    with pytest.raises(ValueError, match="'rose' is none of the classes"):
        CalibrationDisplay.from_evaluation(evaluation, labels="rose")


def judged(n_classes):
    """An evaluation of a good classifier of that many classes."""
    y = np.arange(300 * n_classes) % n_classes
    scores = np.where(y[:, None] == np.arange(n_classes), 2.0, 0.0)
    scores[::50] = 0.0
    names = np.array([f"class {k:03}" for k in range(n_classes)])
    return Evaluation().update(names[y], scores, names)


def test_calibration_before_and_after():
    evaluation = judged(4)
    sums = {"before": evaluation, "after": 0 + evaluation}
    display = CalibrationDisplay.from_evaluations(sums)
    assert len(display.line_) == len(display.prob_true) == 2
    for (name, judged_rows), line in zip(sums.items(), display.line_, strict=True):
        np.testing.assert_array_equal(line.get_data(), judged_rows.mean_calibration_curve()[::-1])
        assert line.get_label() == f"{name} (log loss {judged_rows.log_loss:.3g})"
    alone = CalibrationDisplay.from_evaluations({"before": evaluation}, ax=display.ax_)
    assert alone.ax_ is display.ax_


CURVES = [RocCurveDisplay, PrecisionRecallDisplay, CalibrationDisplay]


@pytest.mark.slow
@pytest.mark.parametrize("display", CURVES)
def test_a_long_legend_stands_beside_the_axes(display):
    for n_classes in (3, 26):
        evaluation = judged(n_classes)
        drawn = display.from_evaluation(evaluation, labels=evaluation.classes)
        drawn.figure_.draw_without_rendering()
        legend, axes = drawn.ax_.get_legend().get_window_extent(), drawn.ax_.get_window_extent()
        assert (legend.x0 >= axes.x1) == (n_classes == 26)
        assert legend.x1 <= drawn.figure_.bbox.x1
        assert axes.width > 0.4 * drawn.figure_.bbox.width
    assert [text.split(" (")[0] for text in legend_of(drawn) if "class 0" in text] == [
        f"class {k:03}" for k in range(26)
    ]
    assert len({(line.get_color(), line.get_linestyle()) for line in drawn.line_}) == 26
    assert display.from_evaluation(judged(80), labels=judged(80).classes).ax_.get_legend() is None


def test_an_area_below_one_is_not_written_as_one():
    y = np.arange(1000) % 2
    for wrong, area in ((0, "1.00"), (1, "0.998"), (10, "0.98")):
        scores = np.column_stack([1.0 - y, y]) + 1e-3 * np.arange(1000)[:, None] / 1000 * [[0, 1]]
        scores[1 : 2 * wrong : 2, 1] = -1
        drawn = RocCurveDisplay.from_evaluation(Evaluation().update(y, scores, [0, 1]))
        assert legend_of(drawn)[0] == f"1 (AUC = {area})"


def test_chance_is_drawn_once_for_models_on_the_same_axes():
    evaluation = evaluate(*two_classes())
    for display in (RocCurveDisplay, PrecisionRecallDisplay):
        ax = display.from_evaluation(evaluation, curve_kwargs={"label": "first"}).ax_
        display.from_evaluation(evaluation, ax=ax, curve_kwargs={"label": "second"})
        names = [text.get_text().split(" (")[0] for text in ax.get_legend().get_texts()]
        assert names == ["first", "Chance level", "second"]


def test_shares_are_written_in_two_digits_and_never_rounded_to_all_or_none():
    truth = np.repeat(["a", "b", "c"], 1000)
    found = truth.copy()
    found[:1], found[1000:1200] = "c", "a"
    scores = 2.0 * (found[:, None] == ["a", "b", "c"])
    evaluation = Evaluation().update(truth, scores, ["a", "b", "c"])
    drawn = ConfusionMatrixDisplay.from_evaluation(evaluation, normalize="true")
    written = [[text.get_text() for text in row] for row in drawn.text_]
    assert written == [[">0.99", "0", "<0.01"], ["0.20", "0.80", "0"], ["0", "0", "1"]]
    assert drawn.im_.get_clim() == (0, 1)
    exact = ConfusionMatrixDisplay.from_evaluation(evaluation, normalize="true", values_format=".3f")
    assert exact.text_[0, 0].get_text() == "0.999"


@pytest.mark.slow
def test_the_confusion_of_many_classes_can_be_read():
    drawn = ConfusionMatrixDisplay.from_evaluation(judged(26))
    drawn.figure_.draw_without_rendering()
    assert {text.get_text() == "" for text in drawn.text_[drawn.confusion_matrix == 0]} == {True}
    cell = drawn.ax_.get_window_extent().width / 26
    assert max(text.get_window_extent().width for text in drawn.text_.flat) < cell
    ticks = [tick.get_window_extent() for tick in drawn.ax_.get_xticklabels()]
    assert all(one.x1 <= next_.x0 for one, next_ in itertools.pairwise(ticks))
    assert ConfusionMatrixDisplay.from_evaluation(judged(41)).text_ is None


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


def test_the_calibration_of_many_classes_is_one_curve():
    evaluation = judged(12)
    drawn = CalibrationDisplay.from_evaluation(evaluation)
    assert legend_of(drawn) == ["Perfectly calibrated", f"All classes (log loss {evaluation.log_loss:.3g})"]
    np.testing.assert_allclose(drawn.line_.get_data(), evaluation.mean_calibration_curve()[::-1])
    y = np.arange(3600) % 12  # the rows of `judged`, asked of each class whether they are of it
    scores = np.where(y[:, None] == np.arange(12), 2.0, 0.0)
    scores[::50] = 0.0
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    truth = (y[:, None] == np.arange(12)).ravel()
    expected = calibration.calibration_curve(truth, probabilities.ravel(), n_bins=10)
    np.testing.assert_allclose(evaluation.mean_calibration_curve(), expected)
    each = CalibrationDisplay.from_evaluation(evaluation, labels=evaluation.classes)
    assert legend_of(each)[1:] == evaluation.classes.tolist()


def test_calibration_leaves_out_bins_of_few_rows():
    p = np.repeat([0.05, 0.35, 0.95], [40, 4, 15])
    evaluation = Evaluation().update(np.arange(59) % 2, np.log(np.column_stack([1 - p, p])), [0, 1])
    for options, expected in (
        ({}, [0.05, 0.95]),
        ({"min_weight": 0}, [0.05, 0.35, 0.95]),
        ({"min_weight": 99}, [0.05]),
    ):
        drawn = CalibrationDisplay.from_evaluation(evaluation, **options)
        np.testing.assert_allclose(drawn.prob_pred, expected)
