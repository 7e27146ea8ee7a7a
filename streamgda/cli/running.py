"""How a command runs and reports: scheduler, progress, JSON or text, and what is said at all."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from streamgda.cli.errors import DEBUG
from streamgda.cli.options import bundled

_OF_THIS_MACHINE = ("threads", "synchronous", "processes")

_SECONDS_TO_CONNECT = 5


@dataclass(frozen=True)
class Reporting:
    """What is said on stdout: one JSON document, or text; errors and progress go to stderr."""

    as_json: bool
    quiet: bool

    def output(self, document: Mapping[str, Any], text: str) -> None:
        """Say what the command is for."""
        click.echo(json.dumps(_plain(document), indent=2, allow_nan=False) if self.as_json else text)

    def note(self, text: str) -> None:
        """Say what the command did besides, to people."""
        if not (self.as_json or self.quiet):
            click.echo(text)

    def report(self, document: Mapping[str, Any], text: str) -> None:
        """Say what the command did; the text of it not where quiet is asked for."""
        if self.as_json or not self.quiet:
            self.output(document, text)


@dataclass(frozen=True)
class Running(Reporting):
    """Where a pass runs, and whether it shows how far it has come."""

    scheduler: str | None
    progress: bool | None

    @contextmanager
    def scheduler_options(self) -> Iterator[dict[str, Any]]:
        """What the library's functions take: the scheduler, or the client of a cluster; and progress."""
        shown = sys.stderr.isatty() if self.progress is None else self.progress
        options = {"scheduler": self.scheduler, "progress": shown and not self.quiet}
        if self.scheduler is None or self.scheduler in _OF_THIS_MACHINE:
            with _workers_that_leave_interrupts_to_us():
                yield options
        else:
            from distributed import Client

            with Client(self.scheduler, timeout=_SECONDS_TO_CONNECT, set_as_default=False) as client:
                yield {**options, "scheduler": client}


@contextmanager
def _workers_that_leave_interrupts_to_us() -> Iterator[None]:
    """Let Ctrl-C, which goes to all processes of a terminal, end in one message instead of many."""
    import dask

    with dask.config.set({"multiprocessing.initializer": _ignore_interrupts}):
        yield


def _ignore_interrupts() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _plain(value: Any) -> Any:
    """What JSON can hold: NumPy's values as Python's, and null for what is not finite."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _scheduler(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or value in _OF_THIS_MACHINE or ":" in value:
        return value
    raise click.BadParameter(
        f"{value!r} is none of {', '.join(_OF_THIS_MACHINE)}, and no address such as tcp://host:8786."
    )


def _debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[DEBUG] = value


_REPORTING = [
    click.option("--json", "as_json", is_flag=True, help="Report as one JSON document on stdout."),
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors and what was asked for."),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_debug,
        is_eager=True,
        help="Show the traceback of an error.",
    ),
]

_WHERE = [
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        callback=_scheduler,
        help="Of a Dask cluster, such as tcp://host:8786; or threads, synchronous, processes.  "
        "[default: threads]",
    ),
    click.option(
        "--progress/--no-progress",
        default=None,
        help="Show a progress bar on stderr.  [default: in a terminal]",
    ),
]

reporting_options = bundled("run", Reporting, _REPORTING)

running_options = bundled("run", Running, [*_WHERE, *_REPORTING])
