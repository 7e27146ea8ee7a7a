"""``streamgda refresh``: what a ledger keeps, which files make the model, and how far files may drift."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.data import Data, ModelOptions, model_options, to_learn
from streamgda.cli.errors import Quarantined, interruptible
from streamgda.cli.running import (
    NAMES,
    Number,
    Option,
    Running,
    bundled,
    documented,
    of_library,
    running_options,
)
from streamgda.cli.saved import check_replaceable, options_held, out_option
from streamgda.storage.paths import shown

if TYPE_CHECKING:
    from streamgda import StatisticsLedger

_LEDGER = "streamgda.ledger.ledger:StatisticsLedger"

_REFRESH = "streamgda.ledger.ledger:refresh"

_ALARMS = "streamgda.ledger.drift:alarms"


def _date_option(name: str, text: str, default: str) -> Option:
    """An option that takes a date or a time, in the local time zone unless the value names one."""
    return click.option(name, metavar="DATE", callback=_date, help=f"{text}  [default: {default}]")


def _date(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone()
    except ValueError:
        raise click.BadParameter(f"{value!r} is no date such as 2026-01-31 or 2026-01-31T06:00.") from None


_KEPT = bundled(
    "kept",
    dict,
    {
        name: of_library(_LEDGER, name, default="as before, full")
        for name, (kind, _) in documented(_LEDGER).items()
        if name == "covariance_type" or kind.startswith("bool")
    },
)

_LIMITS = bundled(
    "limits",
    dict,
    {
        name: of_library(_ALARMS, name, applies_to="Quarantine of new files", default="any")
        for name in documented(_ALARMS)
    },
)

_CHOICE = bundled(
    "choice",
    dict,
    {
        "where": click.option(
            "--where", metavar="PATTERN", help="Make the model of files like '2026/*'.  [default: of all]"
        ),
        "since": _date_option("--since", "Make the model of files modified at or after this time.", "of all"),
        "half_life": click.option(
            "--half-life",
            type=Number(min=0, max=1e6, min_open=True),
            metavar="DAYS",
            help="Let the weight of a file halve in so many days.  [default: age does not count]",
        ),
        "age": click.option(
            "--age",
            **{**NAMES, "metavar": "KEY,..."},
            help="With --half-life: the partition key that dates a file, such as day; or year,month,day.  "
            "[default: when it was modified]",
        ),
    },
)


@click.command()
@click.argument("ledger", metavar="LEDGER")
@to_learn
@_KEPT
@of_library(_REFRESH, "dry_run")
@click.option(
    "--skip-unreadable", is_flag=True, help="Go on without files that cannot be read; the report names them."
)
@of_library(_REFRESH, "verify")
@_LIMITS
@click.option(
    "--accept",
    metavar="FILE",
    multiple=True,
    help="Let a quarantined or rejected file count; its path as reported, or a pattern.  [default: none]",
)
@click.option(
    "--reject", metavar="FILE", multiple=True, help="Leave a file out until it changes.  [default: none]"
)
@out_option("Save a model of the files of the ledger.  [default: none]")
@_CHOICE
@model_options(otherwise="qda, with --out")
@running_options
def refresh(
    ledger: str,
    data: Data,
    kept: dict[str, Any],
    dry_run: bool,
    skip_unreadable: bool,
    verify: bool,
    limits: dict[str, Any],
    accept: tuple[str, ...],
    reject: tuple[str, ...],
    out: str | None,
    choice: dict[str, Any],
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
    _check_usage(model, choice, out)
    source = data.labelled()
    if out is not None:
        check_replaceable(out, source)
    held = _opened(ledger, kept, model if out is not None else None)
    held.missing = None if isinstance(data.missing, str) else data.missing
    _answer(held, accept, reject, dry_run=dry_run)
    with (
        interruptible("the ledger is as it was, and the next refresh goes on"),
        run.scheduler_options() as options,
    ):
        report = held.refresh(
            source,
            dry_run=dry_run,
            on_error="skip" if skip_unreadable else "raise",
            verify=verify,
            **limits,
            **options,
        )
    saved = None
    try:
        if out is not None and not dry_run:
            half_life = choice["half_life"] and timedelta(days=choice["half_life"])
            learnt = held.statistics(**{**choice, "half_life": half_life})
            model.build(learnt, data.of_models).save(out)
            saved = out
    finally:
        text = f"{report}\nsaved in {saved}" if saved else str(report)
        run.report({**asdict(report), "read": report.read, "out": saved and shown(saved)}, text)
    for path, reason in report.skipped.items():
        run.insist(f"skipped {path}: {reason}")
    if report.quarantined:
        raise Quarantined(report.quarantined)


def _check_usage(model: ModelOptions, choice: dict[str, Any], out: str | None) -> None:
    asked = (model.model, *choice.values())
    if out is None and any(value is not None for value in asked):
        raise click.UsageError(
            "--model, --where, --since, --half-life and --age are for the model that --out saves."
        )
    if choice["age"] and choice["half_life"] is None:
        raise click.UsageError("--age says how old a file is, which counts with --half-life alone.")
    (model if out is None else model.or_default()).check()


def _opened(path: str, kept: dict[str, Any], model: ModelOptions | None) -> StatisticsLedger:
    """Open the ledger with its stored options and the given ones. A new ledger keeps what the model needs.

    Raises
    ------
    ValueError
        If the model needs more than the ledger keeps.
    """
    from streamgda import MixtureDiscriminantAnalysis, StatisticsLedger

    made = model.new() if model else None
    needed = made.required_statistics() if made else None
    held = options_held(path) or dict.fromkeys(needed.extra if needed else (), True)
    given = {name: value for name, value in kept.items() if value}
    ledger = StatisticsLedger(path, **{**held, **given})
    if needed and not ledger.required.suffices(needed):
        options = [
            f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}"
            for name, value in needed.keywords().items()
            if value
        ]
        raise ValueError(
            f"{ledger!r} keeps less than the model needs: refresh another, with {' '.join(options)}; or "
            "choose another --model, or --shrinkage oas"
        )
    is_mixture = isinstance(made, MixtureDiscriminantAnalysis) and made.subclasses != 1
    if is_mixture and ledger.rule is None:
        raise ValueError(
            "a ledger has the centres of the subclasses before it reads the files: make it in Python, by "
            "StatisticsLedger(path, rule=model.draw_centers(source)), or fit the model"
        )
    return ledger


def _answer(
    ledger: StatisticsLedger, accept: tuple[str, ...], reject: tuple[str, ...], *, dry_run: bool
) -> None:
    if dry_run and (accept or reject):
        raise click.UsageError("--dry-run does nothing, so --accept and --reject are for another time.")
    if accept:
        ledger.accept(*accept)
    if reject:
        ledger.reject(*reject)
