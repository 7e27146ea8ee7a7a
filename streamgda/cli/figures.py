"""The displays of the library as figures of no window."""

from __future__ import annotations

from typing import Any

WITH_CHOICE = ("regions", "roc", "precision-recall", "calibration")


def require_matplotlib() -> None:
    """Choose a backend without windows.

    Raises
    ------
    ImportError
        If matplotlib is not installed; the message says how to.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'streamgda[plot]'") from error
    matplotlib.use("Agg")


def figure_of(kind: str, subject: Any, show: list[str] | None) -> Any:
    """The figure of a model or an evaluation.

    Parameters
    ----------
    kind : str
        Which display.
    subject : estimator or Evaluation
        What it is of.
    show : list of str or None
        The features or classes to show.
    """
    from streamgda import plotting

    if kind == "regions":
        chosen: dict[str, Any] = {} if show is None else {"features": _features(subject, show)}
        return plotting.DecisionRegionsDisplay.from_estimator(subject, **chosen).figure_
    if kind == "projection":
        return plotting.LinearProjectionDisplay.from_estimator(subject).figure_
    if kind == "confusion":
        return plotting.ConfusionMatrixDisplay.from_evaluation(subject).figure_
    labels = None if show is None else _labels(subject, show)
    if kind == "calibration":
        return _calibration(subject, labels)
    curves: dict[str, Any] = {
        "roc": plotting.RocCurveDisplay,
        "precision-recall": plotting.PrecisionRecallDisplay,
    }
    return curves[kind].from_evaluation(subject, labels=labels).figure_


def _features(model: Any, show: list[str]) -> list[int | str]:
    """Features by name, or, where they have none, by position."""
    if hasattr(model, "feature_names_in_"):
        return [*show]
    return [int(feature) if feature.isdecimal() else feature for feature in show]


def _labels(evaluation: Any, show: list[str]) -> list[Any]:
    """The classes that are written so."""
    written = {str(label): label for label in evaluation.classes.tolist()}
    return [written.get(name, name) for name in show]


def _calibration(evaluation: Any, labels: list[Any] | None) -> Any:
    """The curves of several classes on the same axes."""
    from streamgda.plotting import CalibrationDisplay

    classes = evaluation.classes.tolist()
    axes: Any = None
    for label in labels or (classes[1:] if len(classes) == 2 else classes):
        axes = CalibrationDisplay.from_evaluation(evaluation, label, ax=axes).ax_
    return axes.figure
