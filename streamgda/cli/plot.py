"""``streamgda plot``."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.options import Data, bad_usage, split_names, to_draw
from streamgda.cli.outputs import check_folder_of, write_atomically
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import loaded_model

if TYPE_CHECKING:
    from streamgda import Evaluation

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


_OF_MODELS = ("regions", "projection")

_OF_EVALUATIONS = ("roc", "precision-recall", "confusion", "calibration")

_ENDINGS = (".png", ".pdf", ".svg")


def _picture(context: click.Context, parameter: click.Parameter, path: str) -> str:
    if Path(path).suffix.lower() not in _ENDINGS:
        raise click.BadParameter(f"{path!r} does not end in one of {', '.join(_ENDINGS)}.")
    return path


@click.command()
@click.argument("kind", type=click.Choice([*_OF_MODELS, *_OF_EVALUATIONS]))
@click.argument("model", metavar="MODEL")
@to_draw
@click.option(
    "--show",
    metavar="A,B,...",
    callback=split_names,
    help="regions: the two features to show; roc, precision-recall, calibration: the classes.  "
    "[default: the first two features; all classes, or the second of two]",
)
@click.option("--out", required=True, callback=_picture, metavar="FILE", help="A .png, .pdf or .svg.")
@running_options
def plot(kind: str, model: str, data: Data, show: list[str] | None, out: str, run: Running) -> None:
    """Draw a saved model, or how well it does on labelled data.

    KIND is one of:

    \b
      regions           decision regions of two features, with ellipses of the classes
      projection        the directions in which lda finds the classes farthest apart
      roc               ROC curves
      precision-recall  precision-recall curves
      confusion         the confusion matrix
      calibration       how often what was given some probability is so

    The last four are drawn of DATA, in one read, as evaluate takes it; the first two of MODEL alone.

    \b
    Examples:
      streamgda plot regions model.parquet --show length,width --out regions.png
      streamgda plot roc model.parquet labelled.parquet --target kind --out roc.svg
    """
    if bool(data.data) != (kind in _OF_EVALUATIONS):
        needs = "needs DATA" if kind in _OF_EVALUATIONS else "is drawn of the model alone, without DATA"
        raise bad_usage(f"{kind} {needs}.")
    if show and kind not in WITH_CHOICE:
        raise bad_usage(f"--show is not for {kind}.")
    require_matplotlib()
    check_folder_of(out)
    subject = loaded_model(model, data)
    if kind in _OF_EVALUATIONS:
        subject = _evaluation(subject, data, run)
    buffer = BytesIO()
    figure_of(kind, subject, show).savefig(
        buffer, format=Path(out).suffix[1:].lower(), dpi=150, bbox_inches="tight"
    )
    write_atomically(out, buffer.getvalue())
    run.report({"kind": kind, "out": out}, f"drawn to {out}")


def _evaluation(model: Any, data: Data, run: Running) -> Evaluation:
    from streamgda import evaluate

    with run.scheduler_options() as where:
        return evaluate(model, data.labelled(model.statistics_.feature_names), **where)
