"""``streamgda plot``."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.data import Data, to_plot
from streamgda.cli.running import Running, bad_usage, running_options, split_names
from streamgda.cli.saved import check_folder_of, load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from streamgda import Evaluation

_OF_MODELS = ("regions", "projection")

_OF_EVALUATIONS = ("roc", "precision-recall", "confusion", "calibration")

_WITH_SHOW = ("regions", "roc", "precision-recall", "calibration")

_ENDINGS = (".png", ".pdf", ".svg")


def _picture(context: click.Context, parameter: click.Parameter, path: str) -> str:
    if Path(path).suffix.lower() not in _ENDINGS:
        raise click.BadParameter(f"{path!r} does not end in one of {', '.join(_ENDINGS)}.")
    return path


@click.command()
@click.argument("kind", type=click.Choice([*_OF_MODELS, *_OF_EVALUATIONS]))
@click.argument("saved_in", metavar="MODEL")
@to_plot
@click.option(
    "--show",
    metavar="A,B,...",
    callback=split_names,
    help="regions: the two features to show; roc, precision-recall, calibration: the classes.  "
    "[default: the first two features; all classes, or the second of two]",
)
@click.option(
    "--normalize",
    type=click.Choice(["true", "pred", "all"]),
    help="confusion: shares of the rows of each true class, each predicted class, or all.  [default: counts]",
)
@click.option("--out", required=True, callback=_picture, metavar="FILE", help="A .png, .pdf or .svg.")
@running_options
def plot(
    kind: str,
    saved_in: str,
    data: Data,
    show: list[str] | None,
    normalize: str | None,
    out: str,
    run: Running,
) -> None:
    """Draw a saved model, or how well it does on labelled data.

    KIND is one of:

    \b
      regions           decision regions of two features, with ellipses of the classes
      projection        the directions in which lda finds the classes farthest apart
      roc               ROC curves
      precision-recall  precision-recall curves
      confusion         the confusion matrix
      calibration       how often rows with a given probability belong to the class

    The first two need only MODEL. The last four also need DATA, as for evaluate, and read it once.

    \b
    Examples:
      streamgda plot regions model.parquet --show length,width --out regions.png
      streamgda plot roc model.parquet labelled.parquet --target kind --out roc.svg
    """
    from streamgda.storage.filesystems import resolve
    from streamgda.storage.writing import replacing

    _check_usage(kind, data, show, normalize)
    use_no_windows()
    check_folder_of(out)
    subject: Any = load_model(saved_in, data)
    if kind in _OF_EVALUATIONS:
        subject = _evaluate(subject, data, run)
    buffer = BytesIO()
    figure_of(kind, subject, show, normalize).savefig(
        buffer, format=Path(out).suffix[1:].lower(), dpi=150, bbox_inches="tight"
    )
    with replacing(*resolve(out)) as file:
        file.write(buffer.getvalue())
    run.report({"kind": kind, "out": out}, f"drawn to {out}")


def _check_usage(kind: str, data: Data, show: list[str] | None, normalize: str | None) -> None:
    if bool(data.data) != (kind in _OF_EVALUATIONS):
        needs = "needs DATA" if kind in _OF_EVALUATIONS else "is drawn of the model alone, without DATA"
        raise bad_usage(f"{kind} {needs}.")
    if show and kind not in _WITH_SHOW:
        raise bad_usage(f"--show is not for {kind}.")
    if normalize and kind != "confusion":
        raise bad_usage(f"--normalize is not for {kind}.")


def use_no_windows() -> None:
    """Choose the backend of matplotlib that draws to memory.

    Raises
    ------
    ImportError
        If matplotlib is not installed; the message says how to install it.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    matplotlib.use("Agg")


def _evaluate(model: Any, data: Data, run: Running) -> Evaluation:
    from streamgda import evaluate
    from streamgda.scoring.inference import features_of

    with run.scheduler_options() as options:
        source = data.labelled(features_of(model), getattr(model, "categories_", ()))
        return evaluate(model, source, **options)


def figure_of(kind: str, subject: Any, show: list[str] | None, normalize: str | None = None) -> Figure:
    """The figure of a model or an evaluation.

    Parameters
    ----------
    kind : str
        Which display.
    subject : estimator or Evaluation
        What it draws.
    show : list of str or None
        The features or classes to show.
    normalize : str or None
        The shares of a confusion matrix.
    """
    from streamgda import plotting

    displays: dict[str, Any] = {
        "regions": plotting.DecisionRegionsDisplay.from_estimator,
        "projection": plotting.LinearProjectionDisplay.from_estimator,
        "confusion": plotting.ConfusionMatrixDisplay.from_evaluation,
        "roc": plotting.RocCurveDisplay.from_evaluation,
        "precision-recall": plotting.PrecisionRecallDisplay.from_evaluation,
        "calibration": plotting.CalibrationDisplay.from_evaluation,
    }
    figure: Figure = displays[kind](subject, **_options(kind, subject, show, normalize)).figure_
    return figure


def _options(kind: str, subject: Any, show: list[str] | None, normalize: str | None) -> dict[str, Any]:
    if kind == "confusion":
        return {"normalize": normalize}
    if show is None:
        return {}
    return {"features": _features(subject, show)} if kind == "regions" else {"labels": _labels(subject, show)}


def _features(model: Any, show: list[str]) -> list[int | str]:
    """The features by name, or by position if the model has no feature names."""
    if hasattr(model, "feature_names_in_"):
        return [*show]
    return [int(feature) if feature.isdecimal() else feature for feature in show]


def _labels(evaluation: Evaluation, show: list[str]) -> list[Any]:
    """The labels that are printed as these names."""
    printed = {str(label): label for label in evaluation.classes.tolist()}
    return [printed.get(name, name) for name in show]
