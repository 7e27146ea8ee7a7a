"""``streamgda predict``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from streamgda.cli.errors import interruptible
from streamgda.cli.options import Data, some_of, split_names, to_score
from streamgda.cli.outputs import check_apart
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import counted, loaded_model


@click.command()
@click.argument("model", metavar="MODEL")
@to_score
@click.option(
    "--out",
    required=True,
    metavar="PLACE",
    help="A folder of its own for Parquet files; or a Zarr store, if its name ends in .zarr.",
)
@click.option(
    "--columns",
    metavar="A,B,...",
    callback=some_of("label", "probabilities", "log_density", "distance"),
    default="label,probabilities",
    show_default=True,
    help="What to write: some of label, probabilities, log_density, distance.",
)
@click.option(
    "--keep",
    metavar="A,B,...",
    callback=split_names,
    help="Columns of DATA to write beside these.  [default: none]",
)
@running_options
def predict(
    model: str, data: Data, out: str, columns: list[Any], keep: list[str] | None, run: Running
) -> None:
    """Score data of any size with a saved model.

    DATA is as for fit, but needs no labels. Rows and their order are those of the input. The
    predictions are written part by part, each when it is whole; interrupted, the same command goes on where
    it stopped.

    \b
    Examples:
      streamgda predict model.parquet wednesday.parquet --out scored
      streamgda predict model.parquet days --columns label,distance --keep id --out scored
      streamgda predict model.parquet flowers.zarr --out scored.zarr
    """
    from streamgda import predict_dataset

    trained = loaded_model(model, data)
    source = data.unlabelled(trained.statistics_.feature_names)
    check_apart(out if out.rstrip("/").endswith(".zarr") else f"{out}/part.parquet", source)
    remains = f"what is finished stays in {out}, and the same command goes on"
    with interruptible(remains), run.scheduler_options() as where:
        written = predict_dataset(trained, source, out, columns=columns, keep=keep or (), **where)
    dropped = f" ({written.n_dropped:,} dropped)" if written.n_dropped else ""
    found = f", {written.n_found:,} of them from before" if written.n_found else ""
    run.report(
        {**asdict(written), "out": out},
        f"{written.n_rows:,} rows{dropped} in {counted(written.n_parts, 'part')}{found}\nwritten to {out}",
    )
