"""``streamgda plot``."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import click

from streamgda.cli.data import Data, to_plot
from streamgda.cli.running import NAMES, Running, literal, running_options
from streamgda.cli.saved import check_folder_of, load_model
from streamgda.storage.paths import shown

_OF_MODELS = {"regions": "DecisionRegionsDisplay", "projection": "LinearProjectionDisplay"}

_OF_EVALUATIONS = {
    "roc": "RocCurveDisplay",
    "precision-recall": "PrecisionRecallDisplay",
    "confusion": "ConfusionMatrixDisplay",
    "calibration": "CalibrationDisplay",
}

_WITHOUT_SHOW = ("projection", "confusion")

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
    **NAMES,
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
    from streamgda import evaluate, plotting
    from streamgda.plotting.drawing import pyplot
    from streamgda.storage.filesystems import replacing, resolve

    _check_usage(kind, data, show, normalize)
    pyplot().switch_backend("Agg")  # which opens no windows
    check_folder_of(out)
    model = load_model(saved_in, data)
    options: dict[str, Any] = {"normalize": normalize} if kind == "confusion" else {}
    if kind in _OF_MODELS:
        if show is not None:
            options["features"] = show if hasattr(model, "feature_names_in_") else list(map(literal, show))
        display = getattr(plotting, _OF_MODELS[kind]).from_estimator(model, **options)
    else:
        with run.scheduler_options() as scheduling:
            evaluation = evaluate(model, data.of_model(model), **scheduling)
        if show is not None:
            printed = {str(label): label for label in evaluation.classes.tolist()}
            options["labels"] = [printed.get(name, name) for name in show]
        display = getattr(plotting, _OF_EVALUATIONS[kind]).from_evaluation(evaluation, **options)
    buffer = BytesIO()
    picture = Path(out).suffix[1:].lower()
    display.figure_.savefig(buffer, format=picture, dpi=150, bbox_inches="tight")
    with replacing(*resolve(out)) as file:
        file.write(buffer.getvalue())
    run.report({"kind": kind, "out": shown(out)}, f"drawn to {out}")


def _check_usage(kind: str, data: Data, show: list[str] | None, normalize: str | None) -> None:
    if bool(data.data) != (kind in _OF_EVALUATIONS):
        needs = "needs DATA" if kind in _OF_EVALUATIONS else "is drawn of the model alone, without DATA"
        raise click.UsageError(f"{kind} {needs}.")
    if show and kind in _WITHOUT_SHOW:
        raise click.UsageError(f"--show is not for {kind}.")
    if normalize and kind != "confusion":
        raise click.UsageError(f"--normalize is not for {kind}.")
