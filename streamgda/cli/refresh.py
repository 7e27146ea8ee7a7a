"""``streamgda refresh``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from streamgda.cli.errors import interruptible
from streamgda.cli.options import Data, ModelOptions, bad_usage, model_options, to_learn
from streamgda.cli.outputs import check_apart, check_replaceable
from streamgda.cli.running import Running, running_options


@click.command()
@click.argument("ledger", metavar="LEDGER")
@to_learn
@click.option(
    "--covariance-type",
    type=click.Choice(["full", "tied", "diag"]),
    default="full",
    show_default=True,
    help="The scatter that the ledger keeps: full serves all models, tied lda, diag nb.",
)
@click.option("--fourth-moments", is_flag=True, help="Keep what --shrinkage auto needs.")
@click.option("--exact", is_flag=True, help="Exact sums: files that go or change leave no trace.")
@click.option("--dry-run", is_flag=True, help="Say what would be read, and do nothing.")
@click.option("--out", metavar="FILE", help="Save a model of all the files of the ledger.  [default: none]")
@model_options(default=None)
@running_options
def refresh(
    ledger: str, data: Data, model: ModelOptions, dry_run: bool, out: str | None, run: Running, **kept: Any
) -> None:
    """Keep up with a dataset whose files come, change and go.

    LEDGER is a folder of small statistics, one entry for each file of DATA; it is made if there is none.
    DATA are Parquet files as for fit. Files that are new or have changed are read, those that are gone are
    dropped, and the report says how far the new rows lie from the old. A refresh that is killed or
    interrupted changes nothing; the next one goes on.

    \b
    Example, for every night:
      streamgda refresh ledger days --target kind --model qda --out model.parquet
    """
    from streamgda import StatisticsLedger

    model.check()
    if (out is None) != (model.model is None) or (out is not None and dry_run):
        raise bad_usage("--out and --model go together, without --dry-run.")
    source = data.labelled()
    if out is not None:
        check_replaceable(out)
        check_apart(out, source)
    held = StatisticsLedger(ledger, **kept)
    with (
        interruptible("the ledger is as it was, and the next refresh goes on"),
        run.scheduler_options() as options,
    ):
        report = held.refresh(source, dry_run=dry_run, **options)
    run.output({**asdict(report), "read": report.read, "out": out}, str(report))
    if out is not None:
        model.build(held.statistics()).save(out)
        run.note(f"saved in {out}")
