"""``streamgda refresh``: what a ledger keeps, which files make the model, and how far files may drift."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from streamgda.blocks.wording import abridged, counted, named
from streamgda.cli.data import Data, to_learn
from streamgda.cli.errors import Quarantined, describe, interruptible
from streamgda.cli.models import ModelOptions, model_options
from streamgda.cli.options import Number, Option, bad_usage, bundled, of_library, split_names
from streamgda.cli.running import Running, running_options
from streamgda.cli.saved import check_apart, check_replaceable, options_held, out_option

if TYPE_CHECKING:
    from streamgda import StatisticsLedger
    from streamgda.estimators.classifier import GaussianClassifier

_LEDGER = "streamgda.ledger.ledger:StatisticsLedger"

_REFRESH = "streamgda.ledger.ledger:refresh"

_ALARMS = "streamgda.ledger.drift:alarms"

_MOST_CLASSES = 3  # of few rows, in a message


def _date_option(name: str, text: str, default: str) -> Option:
    """An option that takes a date or a time, in the time zone of the machine unless it has its own."""
    return click.option(name, metavar="DATE", callback=_date, help=f"{text}  [default: {default}]")


def _date(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone()
    except ValueError:
        raise click.BadParameter(f"{value!r} is no date such as 2026-01-31 or 2026-01-31T06:00.") from None


# ---------------------------------------------------------------------- what a ledger keeps


@dataclass(frozen=True)
class Keep:
    """What a ledger keeps of each file; what is not given is as the ledger has it."""

    covariance_type: str | None
    fourth_moments: bool
    exact: bool

    def open(self, path: str, model: ModelOptions | None) -> StatisticsLedger:
        """The ledger; a new one keeps what the model needs.

        Raises
        ------
        ValueError
            If the model needs more than the ledger keeps.
        """
        from streamgda import StatisticsLedger

        needed = model.kind(**model.params).required_statistics() if model else {}
        held = options_held(path)
        given = {name: value for name, value in vars(self).items() if value}
        ledger = StatisticsLedger(path, **({**held, **given} if held else self._of_new(needed)))
        if needed:
            _check_serves(ledger, needed)
        return ledger

    def _of_new(self, needed: dict[str, Any]) -> dict[str, Any]:
        return {
            "covariance_type": self.covariance_type or "full",
            "fourth_moments": self.fourth_moments or needed.get("fourth_moments", False),
            "exact": self.exact,
        }


def _check_serves(ledger: StatisticsLedger, needed: dict[str, Any]) -> None:
    if ledger.covariance_type not in ("full", needed["covariance_type"]):
        raise ValueError(
            f"the ledger keeps --covariance-type {ledger.covariance_type}, and the model needs "
            f"{needed['covariance_type']}: refresh another ledger, with --covariance-type full"
        )
    if needed.get("fourth_moments") and not ledger.fourth_moments:
        raise ValueError(
            "the ledger keeps no fourth moments, which --shrinkage auto needs: use --shrinkage oas, or "
            "refresh another ledger, with --fourth-moments"
        )


keep_options = bundled(
    "keep",
    Keep,
    {
        "covariance_type": of_library(
            _LEDGER,
            "covariance_type",
            help="The scatter that the ledger keeps: full serves all models, tied lda, diag nb.  "
            "[default: as before, full]",
        ),
        "fourth_moments": of_library(_LEDGER, "fourth_moments"),
        "exact": of_library(_LEDGER, "exact"),
    },
)


# ---------------------------------------------------------------------- which files make the model


@dataclass(frozen=True)
class Choice:
    """Which files of a ledger the model is made of, and what they count by their age."""

    where: str | None
    since: datetime | None
    half_life: float | None
    age: list[str] | None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `StatisticsLedger.statistics`."""
        days = None if self.half_life is None else timedelta(days=self.half_life)
        return {"where": self.where, "since": self.since, "half_life": days, "age": self.age}

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())


choice_options = bundled(
    "choice",
    Choice,
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
            metavar="KEY,...",
            callback=split_names,
            help="With --half-life: the partition key that dates a file, such as day; or year,month,day.  "
            "[default: when it was modified]",
        ),
    },
)


# ---------------------------------------------------------------------- drift


@dataclass(frozen=True)
class Drift:
    """Answers to the alarms of earlier files, and how far a new file may lie from what is held."""

    accept: tuple[str, ...]
    reject: tuple[str, ...]
    limits: dict[str, Any]

    @classmethod
    def of(cls, accept: tuple[str, ...], reject: tuple[str, ...], **limits: Any) -> Drift:
        """These options; the limits are arguments of `StatisticsLedger.refresh`."""
        return cls(accept, reject, limits)

    def answer(self, ledger: StatisticsLedger, *, dry_run: bool) -> None:
        """Accept and reject the files that are named."""
        if dry_run and (self.accept or self.reject):
            raise bad_usage("--dry-run does nothing, so --accept and --reject are for another time.")
        if twice := set(self.accept) & set(self.reject):
            raise bad_usage(f"{min(twice)} is to be accepted and rejected: name it once.")
        if self.accept:
            ledger.accept(*self.accept)
        if self.reject:
            ledger.reject(*self.reject)


drift_options = bundled(
    "drift",
    Drift.of,
    {
        **{
            name: of_library(_ALARMS, name, applies_to="Before a new file is quarantined", default="any")
            for name in ("max_shift", "max_divergence", "max_share_shift")
        },
        "no_new_classes": of_library(
            _ALARMS, "no_new_classes", help="Quarantine a new file with a new class."
        ),
        "accept": click.option(
            "--accept",
            metavar="FILE",
            multiple=True,
            help="Let a quarantined or rejected file count; its path as reported, or a pattern.  "
            "[default: none]",
        ),
        "reject": click.option(
            "--reject",
            metavar="FILE",
            multiple=True,
            help="Leave a file out until it changes.  [default: none]",
        ),
    },
)


# ---------------------------------------------------------------------- the command


@click.command()
@click.argument("ledger", metavar="LEDGER")
@to_learn
@keep_options
@of_library(_REFRESH, "dry_run")
@click.option(
    "--skip-unreadable", is_flag=True, help="Go on without files that cannot be read; the report names them."
)
@of_library(_REFRESH, "verify")
@_date_option(
    "--compact-before", "Fold the entries of files modified before this time into one, at the end.", "none"
)
@drift_options
@out_option("Save a model of the files of the ledger.  [default: none]")
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
