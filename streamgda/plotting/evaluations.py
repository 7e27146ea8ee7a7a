"""scikit-learn's displays of how well a classifier does, from an `Evaluation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import calibration, metrics

from streamgda.plotting.drawing import colours

if TYPE_CHECKING:
    from streamgda.scoring.evaluation import Evaluation


class RocCurveDisplay(metrics.RocCurveDisplay):
    """scikit-learn's ROC curves, from an `Evaluation`."""

    @classmethod
    def from_evaluation(
        cls, evaluation: Evaluation, *, labels: Sequence[Any] | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the curve of each class against the rest.

        Parameters
        ----------
        evaluation : Evaluation
            What `evaluate` returns.
        labels : sequence of labels, optional
            The classes to draw; all of them where not given, or the second of two.
        ax : matplotlib Axes, optional
            Where to draw; a new figure where not given.
        **options
            Parameters of `sklearn.metrics.RocCurveDisplay.plot`, such as ``plot_chance_level=True``.

        Returns
        -------
        display : RocCurveDisplay
        """
        positions = _positions(evaluation, labels)
        curves = [evaluation.roc_curve(evaluation.classes[k]) for k in positions]
        display = cls(
            fpr=[fpr for fpr, _, _ in curves],
            tpr=[tpr for _, tpr, _ in curves],
            roc_auc=list(evaluation.roc_auc[positions]),
            name=[str(evaluation.classes[k]) for k in positions],
        )
        options.setdefault("curve_kwargs", _styles(evaluation, positions))
        drawn: Self = display.plot(ax=ax, **options)
        return drawn


class PrecisionRecallDisplay(metrics.PrecisionRecallDisplay):
    """scikit-learn's precision-recall curves, from an `Evaluation`."""

    @classmethod
    def from_evaluation(
        cls, evaluation: Evaluation, *, labels: Sequence[Any] | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the curve of each class against the rest.

        Parameters
        ----------
        evaluation : Evaluation
            What `evaluate` returns.
        labels : sequence of labels, optional
            The classes to draw; all of them where not given, or the second of two.
        ax : matplotlib Axes, optional
            Where to draw; a new figure where not given.
        **options
            Parameters of `sklearn.metrics.PrecisionRecallDisplay.plot`.

        Returns
        -------
        display : PrecisionRecallDisplay
        """
        positions = _positions(evaluation, labels)
        curves = [evaluation.precision_recall_curve(evaluation.classes[k]) for k in positions]
        display = cls(
            precision=[precision for precision, _, _ in curves],
            recall=[recall for _, recall, _ in curves],
            average_precision=list(evaluation.average_precision[positions]),
            name=[str(evaluation.classes[k]) for k in positions],
            prevalence_pos_label=list(evaluation.support[positions] / evaluation.support.sum()),
        )
        options.setdefault("curve_kwargs", _styles(evaluation, positions))
        drawn: Self = display.plot(ax=ax, **options)
        return drawn


class ConfusionMatrixDisplay(metrics.ConfusionMatrixDisplay):
    """scikit-learn's confusion matrix, from an `Evaluation`."""

    @classmethod
    def from_evaluation(
        cls, evaluation: Evaluation, *, normalize: str | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw how many rows of each class were taken for each class.

        Parameters
        ----------
        evaluation : Evaluation
            What `evaluate` returns.
        normalize : {"true", "pred", "all"}, optional
            Draw shares of the rows of each class, of the rows taken for each, or of all.
        ax : matplotlib Axes, optional
            Where to draw; a new figure where not given.
        **options
            Parameters of `sklearn.metrics.ConfusionMatrixDisplay.plot`.

        Returns
        -------
        display : ConfusionMatrixDisplay
        """
        shares = _normalised(evaluation.confusion_matrix, normalize)
        drawn: Self = cls(shares, display_labels=evaluation.classes).plot(ax=ax, **options)
        return drawn


class CalibrationDisplay(calibration.CalibrationDisplay):
    """scikit-learn's calibration curve, from an `Evaluation`."""

    @classmethod
    def from_evaluation(
        cls, evaluation: Evaluation, label: Any = None, *, ax: Any = None, **options: Any
    ) -> Self:
        """Draw how often rows that were given some probability of a class are of it.

        Parameters
        ----------
        evaluation : Evaluation
            What `evaluate` returns.
        label : label, optional
            The class; the second where there are two. Draw several on the same `ax`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure where not given.
        **options
            Parameters of `sklearn.calibration.CalibrationDisplay.plot`.

        Returns
        -------
        display : CalibrationDisplay

        Raises
        ------
        ValueError
            If there are more than two classes and no label.
        """
        if label is None:
            if len(evaluation.classes) != 2:
                raise ValueError(f"name the class to draw, one of {evaluation.classes.tolist()}")
            label = evaluation.classes[1]
        (position,) = _positions(evaluation, [label])
        prob_true, prob_pred = evaluation.calibration_curve(label)
        display = cls(prob_true, prob_pred, prob_pred, estimator_name=str(label))
        options.setdefault("color", tuple(colours(len(evaluation.classes))[position]))
        drawn: Self = display.plot(ax=ax, **options)
        return drawn


def _positions(evaluation: Evaluation, labels: Sequence[Any] | None) -> list[int]:
    """Where the classes to draw stand."""
    classes = evaluation.classes.tolist()
    if labels is None:
        return [1] if len(classes) == 2 else list(range(len(classes)))
    unknown = [label for label in labels if label not in classes]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of the classes: {', '.join(map(repr, classes[:10]))}")
    return [classes.index(label) for label in labels]


def _styles(evaluation: Evaluation, positions: list[int]) -> list[dict[str, Any]]:
    palette = colours(len(evaluation.classes))
    return [{"color": tuple(palette[k]), "linestyle": "-", "alpha": 1.0} for k in positions]


def _normalised(matrix: NDArray[Any], by: str | None) -> NDArray[Any]:
    if by is None:
        return matrix
    axes: dict[str, int | None] = {"true": 1, "pred": 0, "all": None}
    if by not in axes:
        raise ValueError(f"normalize must be one of 'true', 'pred', 'all' or None; got {by!r}")
    totals = matrix.sum(axis=axes[by], keepdims=True)
    shares: NDArray[Any] = np.divide(matrix, totals, out=np.zeros(matrix.shape), where=totals > 0)
    return shares
