"""``streamgda plot``."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.data import Data, to_draw
from streamgda.cli.figures import WITH_CHOICE, figure_of, require_matplotlib
from streamgda.cli.options import bad_usage, split_names
from streamgda.cli.outputs import check_folder_of, write_atomically
from streamgda.cli.running import Running, running_options
from streamgda.cli.trained import loaded_model

if TYPE_CHECKING:
    from streamgda import Evaluation

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
    run.tell({"kind": kind, "out": out}, f"drawn to {out}")


def _evaluation(model: Any, data: Data, run: Running) -> Evaluation:
    from streamgda import evaluate

    with run.anywhere() as where:
        return evaluate(model, data.labelled(model.statistics_.feature_names), **where)
