"""The options that say where a pass runs and how a command reports."""

from __future__ import annotations

import json
import math
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from streamgda.cli.options import bundled
from streamgda.storage.paths import shown

_LOCAL_SCHEDULERS = ("threads", "synchronous", "processes")

_ADDRESS = re.compile(r"((tcp|tls|ws|wss|ucx)://)?[^\s/]*:\d+/?")

_SECONDS_TO_CONNECT = 5


@dataclass(frozen=True)
class Reporting:
    """Write to stdout: one JSON document, or text. Errors and progress go to stderr."""

    as_json: bool
    quiet: bool
    debug: bool

    def output(self, document: Mapping[str, Any], text: str) -> None:
        """Write the result that the command is run for."""
        click.echo(json.dumps(_plain(document), indent=2, allow_nan=False) if self.as_json else shown(text))

    def note(self, text: str) -> None:
        """Write a note for people. With --json or --quiet nothing is written."""
        if not (self.as_json or self.quiet):
            click.echo(shown(text))

    def insist(self, text: str) -> None:
        """Write to stderr what the user must know even if the report is not written."""
        if self.quiet and not self.as_json:
            click.echo(f"Warning: {shown(text)}", err=True)

    def report(self, document: Mapping[str, Any], text: str) -> None:
        """Write what the command did. With --quiet the text is not written."""
        if self.as_json or not self.quiet:
            self.output(document, text)


@dataclass(frozen=True)
class Running(Reporting):
    """Where a pass runs, and whether it shows progress."""

    scheduler: str | None
    progress: bool | None

    @contextmanager
    def scheduler_options(self) -> Iterator[dict[str, Any]]:
        """The arguments `scheduler` and `progress` of the library; a client is closed at the end."""
        is_shown = sys.stderr.isatty() if self.progress is None else self.progress
        options = {"scheduler": self.scheduler, "progress": is_shown and not self.quiet}
        if self.scheduler is None or self.scheduler in _LOCAL_SCHEDULERS:
            with _processes_ending_at_interrupts():
                yield options
        else:
            from distributed import Client

            with Client(self.scheduler, timeout=_SECONDS_TO_CONNECT, set_as_default=False) as client:
                yield {**options, "scheduler": client}


@contextmanager
def _processes_ending_at_interrupts() -> Iterator[None]:
    """At Ctrl-C, end the worker processes at once, without messages. Dask would wait for their tasks."""
    import dask

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a script ignores SIGINT in background jobs; keep that
        signal.signal(signal.SIGINT, _interrupt)
    try:
        with dask.config.set({"multiprocessing.initializer": _default_interrupts}):
            yield
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: object) -> None:
    import multiprocessing

    for process in multiprocessing.active_children():
        process.terminate()
    raise KeyboardInterrupt


def _default_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # SIG_DFL ends the process; Python's handler raises


def _plain(value: Any) -> Any:
    """Convert a value for JSON: NumPy values become Python values, and NaN and infinity become null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _scheduler(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or value in _LOCAL_SCHEDULERS or _ADDRESS.fullmatch(value):
        return value
    raise click.BadParameter(
        f"{value!r} is none of {', '.join(_LOCAL_SCHEDULERS)}, and no address such as tcp://host:8786."
    )


def _noted(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    """Return the value of a flag, and store it in the context, where error and warning messages use it."""
    context.meta[f"streamgda.{parameter.name}"] = value
    return value


_REPORTING = {
    "as_json": click.option("--json", "as_json", is_flag=True, help="Report as one JSON document on stdout."),
    "quiet": click.option(
        "-q",
        "--quiet",
        is_flag=True,
        callback=_noted,
        is_eager=True,
        help="Write nothing but errors, and the result of evaluate, inspect and --json, and of search "
        "without --out.",
    ),
    "debug": click.option(
        "--debug", is_flag=True, callback=_noted, is_eager=True, help="Show the traceback of an error."
    ),
}

_SCHEDULING = {
    "scheduler": click.option(
        "--scheduler",
        metavar="ADDRESS",
        callback=_scheduler,
        help="Of a Dask cluster, such as tcp://host:8786; or threads, synchronous, processes.  "
        "[default: threads]",
    ),
    "progress": click.option(
        "--progress/--no-progress",
        default=None,
        help="Show a progress bar on stderr.  [default: in a terminal]",
    ),
}

reporting_options = bundled("run", Reporting, _REPORTING)

running_options = bundled("run", Running, {**_SCHEDULING, **_REPORTING})
