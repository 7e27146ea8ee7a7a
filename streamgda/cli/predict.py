"""``streamgda predict`` and ``streamgda evaluate``: rows scored by a saved model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from streamgda.blocks.wording import counted
from streamgda.cli.data import Data, to_evaluate, to_predict
from streamgda.cli.errors import interruptible
from streamgda.cli.running import Running, running_options, split_names
from streamgda.cli.saved import TEXT_ENDINGS, check_apart, load_model

_COLUMNS = ("label", "probabilities", "log_density", "distance")


def _place(context: click.Context, parameter: click.Parameter, path: str) -> str:
    """The callback of an option that names the place of predictions."""
    if path == "-" or path.lower().endswith(TEXT_ENDINGS):
        raise click.BadParameter(
            f"{path!r}: predictions are written as Parquet files into a folder, or as a Zarr store if "
            "the name ends in .zarr."
        )
    return path


def _columns(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    """The callback of ``--columns``."""
    names = split_names(context, parameter, value) or []
    for name in names:
        if name not in _COLUMNS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(_COLUMNS)}.")
    return names


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_predict
@click.option(
    "--out",
    required=True,
    callback=_place,
    metavar="PLACE",
    help="A folder of its own for Parquet files; or a Zarr store, if its name ends in .zarr.  Predictions of "
    "another input or model that are there are replaced.",
)
@click.option(
    "--columns",
    metavar="A,B,...",
    callback=_columns,
    default="label,probabilities",
    show_default=True,
    help=f"Some of {', '.join(_COLUMNS)}.",
)
@click.option(
    "--keep",
    metavar="A,B,...",
    callback=split_names,
    help="Columns of DATA to write beside these.  [default: none]",
)
@running_options
def predict(
    saved_in: str, data: Data, out: str, columns: list[Any], keep: list[str] | None, run: Running
) -> None:
    """Score data of any size with a saved model.

    DATA is as for fit, but needs no labels. There is one row of predictions for each row of the input, in its
    order. They are written part by part; after an interruption the same command goes on where it stopped.

    MODEL may be a pipeline of scikit-learn in a file of joblib, whose name ends in .joblib. Such a file can
    run code, so load none that you do not trust.

    \b
    Examples:
      streamgda predict model.parquet wednesday.parquet --out scored
      streamgda predict model.parquet days --columns label,distance --keep id --out scored
      streamgda predict model.parquet flowers.zarr --out scored.zarr
    """
    from streamgda import predict_dataset
    from streamgda.scoring.inference import features_of

    model = load_model(saved_in, data)
    source = data.unlabelled(features_of(model), getattr(model, "categories_", ()))
    check_apart(out if out.rstrip("/").endswith(".zarr") else f"{out}/part.parquet", source)
    remains = f"what is finished stays in {out}, and the same command goes on"
    with interruptible(remains), run.scheduler_options() as options:
        written = predict_dataset(model, source, out, columns=columns, keep=keep or (), **options)
    dropped = f" ({written.n_dropped:,} dropped)" if written.n_dropped else ""
    found = f", {written.n_found:,} of them from before" if written.n_found else ""
    rows, parts = counted(written.n_rows, "row"), counted(written.n_parts, "part")
    run.report({**asdict(written), "out": out}, f"{rows}{dropped} in {parts}{found}\nwritten to {out}")


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_evaluate
@running_options
def evaluate(saved_in: str, data: Data, run: Running) -> None:
    """Evaluate a saved model on labelled data, in one read.

    DATA is as for fit. Accuracy, log loss and Brier score are printed, and for each class precision, recall,
    F1, and the areas under its ROC and precision-recall curves; with --json the confusion matrix too, whose
    rows are the true classes.

    \b
    Example:
      streamgda evaluate model.parquet labelled.parquet --target kind
    """
    import streamgda
    from streamgda.scoring.inference import features_of

    model = load_model(saved_in, data)
    source = data.labelled(features_of(model), getattr(model, "categories_", ()))
    with run.scheduler_options() as options:
        evaluation = streamgda.evaluate(model, source, **options)
    run.output(evaluation.to_dict(), str(evaluation))
