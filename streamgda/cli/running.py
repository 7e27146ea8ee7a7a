"""Where the passes of a command run, and how it reports."""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import click
import dask
import pandas as pd

from streamgda.cli.main import given
from streamgda.data.blocks.wording import abridged
from streamgda.data.storage.paths import without_options


def running() -> dict[str, Any]:
    """The arguments `scheduler` and `progress` of the library. A client is closed when the command ends."""
    context = click.get_current_context()
    options = {"scheduler": None, "progress": sys.stderr.isatty(), **given("run")}
    options["progress"] &= not given("report").get("quiet")
    if ":" in str(options["scheduler"]):
        from distributed import Client

        client = Client(options["scheduler"], timeout=5, set_as_default=False)
        options["scheduler"] = context.with_resource(client)
    before = signal.getsignal(signal.SIGINT)
    if options["scheduler"] == "processes" and before is signal.default_int_handler:  # or it is ignored
        ending = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # workers end without a message
        signal.signal(signal.SIGINT, _interrupt)
        context.call_on_close(partial(signal.signal, signal.SIGINT, before))
        context.with_resource(dask.config.set({"multiprocessing.initializer": ending}))
    return options


def _interrupt(number: int, frame: object) -> None:
    """End the worker processes at once; Dask would wait for their tasks."""
    for process in multiprocessing.active_children():
        process.terminate()
    raise KeyboardInterrupt


def report(document: Mapping[str, Any], lines: Iterable[str] = (), *, is_result: bool = False) -> None:
    """Write what a command did to stdout: a JSON document, or lines. With --quiet, those of results alone."""
    options = given("report")
    if options.get("json"):
        plain = json.dumps(document, default=_plain)
        click.echo(json.dumps(json.loads(plain, parse_constant=lambda _: None), indent=2))  # JSON has no NaN
    elif is_result or not options.get("quiet"):
        click.echo(without_options("\n".join(lines or lines_of(document))))


def _plain(value: Any) -> Any:
    if isinstance(value, pd.DataFrame):
        return value.to_dict("records")
    convert = getattr(value, "to_plain", getattr(value, "tolist", value.__str__))
    return convert()


def lines_of(document: Mapping[str, Any]) -> Iterator[str]:
    """A line or a table for each entry of a document that holds something; one for each text of a mapping."""
    for name, value in document.items():
        if isinstance(value, Mapping) and all(isinstance(one, str | pd.DataFrame) for one in value.values()):
            yield from lines_of({f"{name} {key}": one for key, one in value.items()})
        elif isinstance(value, Mapping):
            yield f"{name}: {', '.join(f'{key}={one!r}' for key, one in value.items())}"
        elif isinstance(value, pd.DataFrame):
            yield f"\n{name}:\n{value.to_string(max_rows=20, index=False)}\n"
        elif value:
            yield f"{name}: {abridged(value, 10) if isinstance(value, list | tuple) else value}"
