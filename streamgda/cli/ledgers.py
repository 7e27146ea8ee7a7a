"""The options of ledgers: what is kept, which files make a model, and how far files may drift."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from streamgda.cli.models import ModelOptions
from streamgda.cli.options import Number, Option, bad_usage, bundled, split_names

if TYPE_CHECKING:
    from streamgda import StatisticsLedger


def date_option(name: str, text: str, default: str) -> Option:
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


def options_held(path: str) -> dict[str, Any]:
    """The options with which the ledger at a path was made; none, if it holds nothing yet or is damaged."""
    from streamgda import StatisticsLedger
    from streamgda.ledger.manifest import options_of

    try:
        return options_of(StatisticsLedger(path).read_options)
    except ValueError:  # refresh says what is wrong
        return {}


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
    [
        click.option(
            "--covariance-type",
            type=click.Choice(["full", "tied", "diag"]),
            help="The scatter that the ledger keeps: full serves all models, tied lda, diag nb.  "
            "[default: as before, full]",
        ),
        click.option("--fourth-moments", is_flag=True, help="Keep what --shrinkage auto needs."),
        click.option("--exact", is_flag=True, help="Exact sums: files that go or change leave no trace."),
    ],
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
    [
        click.option(
            "--where", metavar="PATTERN", help="Make the model of files like '2026/*'.  [default: of all]"
        ),
        date_option("--since", "Make the model of files modified at or after this time.", "of all"),
        click.option(
            "--half-life",
            type=Number(0, 1e6, min_open=True),
            metavar="DAYS",
            help="Let the weight of a file halve in so many days.  [default: age does not count]",
        ),
        click.option(
            "--age",
            metavar="KEY,...",
            callback=split_names,
            help="With --half-life: the partition key that dates a file, such as day; or year,month,day.  "
            "[default: when it was modified]",
        ),
    ],
)


# ---------------------------------------------------------------------- drift


@dataclass(frozen=True)
class Drift:
    """How far a new file may lie from what is held, and answers to the alarms of earlier ones."""

    max_shift: float | None
    max_divergence: float | None
    max_share_shift: float | None
    no_new_classes: bool
    accept: tuple[str, ...]
    reject: tuple[str, ...]

    @property
    def limits(self) -> dict[str, Any]:
        """The arguments of `StatisticsLedger.refresh`."""
        return {name: limit for name, limit in vars(self).items() if name not in {"accept", "reject"}}

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
    Drift,
    [
        click.option(
            "--max-shift",
            type=Number(0),
            help="Quarantine a new file if a mean shifts by more standard deviations, beyond three standard "
            "errors.  [default: any]",
        ),
        click.option(
            "--max-divergence",
            type=Number(0),
            help="Quarantine a new file if the divergence of a class is larger.  [default: any]",
        ),
        click.option(
            "--max-share-shift",
            type=Number(0),
            help="Quarantine a new file if the share of a class moves by more standard errors.  "
            "[default: any]",
        ),
        click.option("--no-new-classes", is_flag=True, help="Quarantine a new file with a new class."),
        click.option(
            "--accept",
            metavar="FILE",
            multiple=True,
            help="Let a quarantined or rejected file count; its path as reported, or a pattern.  "
            "[default: none]",
        ),
        click.option(
            "--reject",
            metavar="FILE",
            multiple=True,
            help="Leave a file out until it changes.  [default: none]",
        ),
    ],
)
