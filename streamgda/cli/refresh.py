"""``streamgda refresh``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from streamgda.blocks.wording import abridged, counted, named
from streamgda.cli.data import Data, to_learn
from streamgda.cli.errors import Quarantined, describe, interruptible
from streamgda.cli.ledgers import (
    Choice,
    Drift,
    Keep,
    choice_options,
    date_option,
    drift_options,
    keep_options,
)
from streamgda.cli.models import ModelOptions, model_options
from streamgda.cli.options import bad_usage
from streamgda.cli.outputs import check_apart, check_replaceable, file_of_model
from streamgda.cli.running import Running, running_options

if TYPE_CHECKING:
    from streamgda import StatisticsLedger
    from streamgda.estimators.classifier import GaussianClassifier


@click.command()
@click.argument("ledger", metavar="LEDGER")
@to_learn
@keep_options
@click.option("--dry-run", is_flag=True, help="Say what would be read, and do nothing.")
@click.option(
    "--skip-unreadable", is_flag=True, help="Go on without files that cannot be read; the report names them."
)
@click.option(
    "--verify", is_flag=True, help="Look at the footers of files too whose size and time are as they were."
)
@date_option(
    "--compact-before", "Fold the entries of files modified before this time into one, at the end.", "none"
)
@drift_options
@click.option(
    "--out",
    callback=file_of_model,
    metavar="FILE",
    help="Save a model of the files of the ledger.  [default: none]",
)
@choice_options
@model_options(otherwise="qda, with --out")
@running_options
def refresh(
    ledger: str,
    data: Data,
    keep: Keep,
    dry_run: bool,
    skip_unreadable: bool,
    verify: bool,
    compact_before: datetime | None,
    drift: Drift,
    out: str | None,
    choice: Choice,
    model: ModelOptions,
    run: Running,
) -> None:
    """Keep up with a dataset whose files come, change and go.

    LEDGER is a folder of small statistics, one entry for each file of DATA; it is made if there is none.
    DATA are Parquet files as for fit. Files that are new or have changed are read, those that are gone are
    dropped, and the report says how far the new rows lie from the old. A refresh that is killed or
    interrupted changes nothing; the next one goes on.

    With --max-shift and the like, a new file that lies too far from what is held is quarantined: it is in no
    model, and the exit code is 3, until --accept or --reject answers, or the file changes or goes.

    \b
    Examples, the first for every night:
      streamgda refresh ledger days --target kind --max-shift 1 --out model.parquet
      streamgda refresh ledger days --target kind --reject 2026-01-31.parquet --out model.parquet
    """
    model = _check_usage(model, choice, out)
    source = data.labelled()
    if out is not None:
        check_replaceable(out)
        check_apart(out, source)
    held = keep.open(ledger, model if out is not None else None)
    drift.answer(held, dry_run=dry_run)
    with (
        interruptible("the ledger is as it was, and the next refresh goes on"),
        run.scheduler_options() as options,
    ):
        report = held.refresh(
            source,
            dry_run=dry_run,
            on_error="skip" if skip_unreadable else "raise",
            verify=verify,
            **drift.limits,
            **options,
        )
    saved = None
    try:
        if out is not None and not dry_run:
            _model_of(held, model, choice).save(out)
            saved = out
    finally:
        text = f"{report}\nsaved in {saved}" if saved else str(report)
        run.report({**asdict(report), "read": report.read, "out": saved}, text)
    for path, reason in report.skipped.items():
        run.insist(f"skipped {path}: {reason}")
    if compact_before is not None and not dry_run:
        run.note(f"folded {counted(held.compact(before=compact_before), 'entry')} into one")
    if report.quarantined:
        raise Quarantined(report.quarantined)


def _model_of(ledger: StatisticsLedger, model: ModelOptions, choice: Choice) -> GaussianClassifier[Any]:
    """The model of the chosen files; if none can be made, say which files hold the classes of few rows."""
    statistics = ledger.statistics(**choice.options)
    try:
        return model.build(statistics)
    except ValueError as error:
        few = [
            (label, count)
            for label, count in zip(statistics.classes.tolist(), statistics.counts, strict=True)
            if count <= statistics.n_features
        ]
        where = [
            f"class {named(label)} has {counted(count, 'row')}, in {abridged(ledger.files_with(label), 3)}"
            for label, count in few[:_MOST_CLASSES]
        ]
        raise ValueError("; ".join([describe(error).rstrip("."), *where])) from error


_MOST_CLASSES = 3


def _check_usage(model: ModelOptions, choice: Choice, out: str | None) -> ModelOptions:
    """The model to make: that of fit where none is named."""
    if out is None and model.model is not None:
        raise bad_usage("--model needs --out, the file to save the model in.")
    if out is None and choice:
        raise bad_usage("--where, --since, --half-life and --age are for the model that --out saves.")
    if choice.age and choice.half_life is None:
        raise bad_usage("--age says how old a file is, which counts with --half-life alone.")
    if out is not None:
        model = model.or_default()
    model.check()
    return model
