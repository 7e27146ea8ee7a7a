"""``streamgda predict``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from streamgda.blocks.wording import counted
from streamgda.cli.data import Data, to_predict
from streamgda.cli.errors import interruptible
from streamgda.cli.options import some_of, split_names
from streamgda.cli.outputs import check_apart, place_of_predictions
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import load_model


@click.command()
@click.argument("saved_in", metavar="MODEL")
@to_predict
@click.option(
    "--out",
    required=True,
    callback=place_of_predictions,
    metavar="PLACE",
    help="A folder of its own for Parquet files; or a Zarr store, if its name ends in .zarr.  Predictions of "
    "another input or model that are there are replaced.",
)
@click.option(
    "--columns",
    metavar="A,B,...",
    callback=some_of("label", "probabilities", "log_density", "distance"),
    default="label,probabilities",
    show_default=True,
    help="Some of label, probabilities, log_density, distance.",
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

    \b
    Examples:
      streamgda predict model.parquet wednesday.parquet --out scored
      streamgda predict model.parquet days --columns label,distance --keep id --out scored
      streamgda predict model.parquet flowers.zarr --out scored.zarr
    """
    from streamgda import predict_dataset

    model = load_model(saved_in, data)
    source = data.unlabelled(model.statistics_.feature_names)
    check_apart(out if out.rstrip("/").endswith(".zarr") else f"{out}/part.parquet", source)
    remains = f"what is finished stays in {out}, and the same command goes on"
    with interruptible(remains), run.scheduler_options() as options:
        written = predict_dataset(model, source, out, columns=columns, keep=keep or (), **options)
    dropped = f" ({written.n_dropped:,} dropped)" if written.n_dropped else ""
    found = f", {written.n_found:,} of them from before" if written.n_found else ""
    rows, parts = counted(written.n_rows, "row"), counted(written.n_parts, "part")
    run.report(
        {**asdict(written), "out": out},
        f"{rows}{dropped} in {parts}{found}\nwritten to {out}",
    )
