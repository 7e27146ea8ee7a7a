"""``streamgda predict`` and ``evaluate``: rows scored by a saved model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from streamgda.blocks.wording import counted
from streamgda.cli.data import Data, to_evaluate, to_predict
from streamgda.cli.errors import interruptible
from streamgda.cli.running import NAMES, Running, running_options
from streamgda.cli.saved import check_apart, load_model, out_option
from streamgda.storage.paths import shown


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_predict
@out_option(
    "A folder of its own for Parquet files; or a Zarr store, if its name ends in .zarr.  Predictions of "
    "another input or model that are there are replaced.",
    required=True,
    metavar="PLACE",
)
@click.option(
    "--columns",
    **NAMES,
    default=["label,probabilities"],
    show_default=True,
    help="Some of label, probabilities, log_density, distance.",
)
@click.option("--keep", **NAMES, help="Columns of DATA to write beside these.  [default: none]")
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

    model = load_model(saved_in, data)
    source = data.of_model(model, labelled=False)
    check_apart(out if out.rstrip("/").endswith(".zarr") else f"{out}/part.parquet", source)
    remains = f"what is finished stays in {out}, and the same command goes on"
    with interruptible(remains), run.scheduler_options() as options:
        written = predict_dataset(model, source, out, columns=columns, keep=keep or (), **options)
    dropped = f" ({written.n_dropped:,} dropped)" if written.n_dropped else ""
    found = f", {written.n_found:,} of them from before" if written.n_found else ""
    rows, parts = counted(written.n_rows, "row"), counted(written.n_parts, "part")
    run.report({**asdict(written), "out": shown(out)}, f"{rows}{dropped} in {parts}{found}\nwritten to {out}")


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

    model = load_model(saved_in, data)
    with run.scheduler_options() as options:
        evaluation = streamgda.evaluate(model, data.of_model(model), **options)
    run.output(evaluation.to_dict(), str(evaluation))
