"""Options of commands: declared from the docstrings of the library, and those of how a command runs."""

from __future__ import annotations

import csv
import functools
import json
import math
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from types import CodeType
from typing import Any, get_args, get_type_hints

import click

from streamgda.storage.paths import without_options

Command = Callable[..., Any]

Option = Callable[[Command], Command]


def bundled(bundle: str, make: Callable[..., Any], options: Mapping[str, Option]) -> Option:
    """Add options to a command. It gets one argument, `bundle`: what `make` returns for their values."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_bundle(**values: Any) -> Any:
            own = {name: values.pop(name) for name in options}
            return command(**values, **{bundle: make(**own)})

        decorated: Command = with_bundle
        for option in reversed(list(options.values())):  # click shows them in reverse order
            decorated = option(decorated)
        return decorated

    return decorate


# ---------------------------------------------------------------------- parameters of the library


@functools.cache
def documented(place: str) -> dict[str, tuple[str, list[str]]]:
    """The parameters of a class, function or method, by its docstring: type and default, and sentences.

    The docstring is read from the code of the module: importing it would import NumPy, and slow down help.
    ``python -OO`` leaves docstrings out. Then the module is imported, and types are those of the signature.

    Parameters
    ----------
    place : str
        Such as "streamgda.passes.accumulate:accumulate". A method goes by its own name.

    Examples
    --------
    >>> documented("streamgda.passes.accumulate:accumulate")["exact"][0]
    'bool, default=False'
    """
    module, _, name = place.partition(":")
    spec = find_spec(module)
    code: CodeType = spec.loader.get_code(module)  # type: ignore[union-attr]
    docstring = next(_docstrings(code, name), None)
    if docstring is None:
        return _by_signature(import_module(module), name)
    section = re.search(r"\n( *)Parameters\n *-+\n(.*?)(?=\n\n\1\S|$)", docstring, re.DOTALL)
    if section is None:
        return {}
    entry = re.compile(rf"^{section[1]}(\w.*?) : (.*)\n((?:{section[1]}    .*\n?|\n)*)", re.MULTILINE)
    return {
        name: (kind, re.split(r"(?<=\.) ", _plain(text)))
        for names, kind, text in entry.findall(section[2])
        for name in names.split(", ")
    }


def _docstrings(code: CodeType, name: str) -> Iterator[str]:
    """Yield the docstring of each class, function or method of a name in some code."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_name == name:
                yield from (text for text in inner.co_consts[:3] if isinstance(text, str) and "\n" in text)
            yield from _docstrings(inner, name)


def _by_signature(module: Any, name: str) -> dict[str, tuple[str, list[str]]]:
    """The parameters of a class, function or method, with types as docstrings have them, and no sentences."""
    classes = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
    function = next(getattr(owner, name) for owner in (module, *classes) if hasattr(owner, name))
    # Fields are named with what the modules of their own classes import.
    hints = get_type_hints(function if is_dataclass(function) else vars(function).get("__init__", function))
    return {
        parameter.name: (f"{_kind_of(hints.get(parameter.name))}, default={parameter.default!r}", [""])
        for parameter in signature(function).parameters.values()
    }


def _kind_of(hint: Any) -> str:
    """A type as docstrings have it."""
    options = get_args(hint) or (hint,)
    literals = [name for option in options for name in get_args(option) or [option]]
    names = [f'"{name}"' for name in literals if isinstance(name, str)]
    for kind in (bool, float, int):
        if kind in options:
            return " or ".join([kind.__name__, *names])
    return f"{{{', '.join(names)}}}" if names else "str"


def _plain(text: str) -> str:
    """Put docstring text on one line for a terminal: remove markup, and write arguments as options."""
    text = re.sub(r"``(\w+)=\"(\w+)\"``", r"--\1 \2", " ".join(text.split()))
    return re.sub(r"; see `[^`]*`", "", text).replace("`", "")


def of_library(
    place: str,
    name: str,
    argument: str = "",
    *,
    sentences: int = 1,
    applies_to: str = "",
    default: str = "",
    **settings: Any,
) -> Option:
    """The option that gives a parameter of the library.

    Parameters
    ----------
    place : str
        The class, function or method that has the parameter, as for `documented`.
    name : str
        The parameter.
    argument : str, optional
        The argument of the command, by which the option is named too; the parameter by default.
    sentences : int, default=1
        How many sentences of the parameter's description the help text has.
    applies_to : str, optional
        Text before these sentences, such as the models that have the parameter.
    default : str, optional
        The default that the help shows. If it is not given, the help shows the default of the parameter.
    **settings
        Arguments of `click.option`. They replace those derived from the type.
    """
    kind, said = documented(place)[name]
    text = " ".join(said[:sentences])
    if applies_to:
        text = f"{applies_to}: {text[:1].lower()}{text[1:]}"
    known, _, standard = kind.partition(", default=")
    if known == "bool":
        settings["is_flag"] = True
    else:
        settings = {**_type_of(known), **settings}
        standard = standard.strip('"').replace("None", "")
        text += f"  [default: {default or standard or 'none'}]"
    option = "--" + re.sub("_+", "-", argument or name)
    return click.option(option, argument or name, **{"help": text, **settings})


def _type_of(kind: str) -> dict[str, Any]:
    """The settings of an option for a type in a docstring. Negative numbers are refused."""
    names = re.findall(r'"(\w+)"', kind)
    if kind.startswith("{"):
        return {"type": click.Choice(names)}
    if kind.startswith("float"):
        if names:  # the estimator checks which names it takes
            return {"type": literal, "metavar": "|".join([*names, "SHARE"])}
        return {"type": Number(min=0, max=1 if "[0, 1]" in kind else None), "metavar": "X"}
    return {"type": click.IntRange(min=1), "metavar": "N"} if kind.startswith("int") else {}


# ---------------------------------------------------------------------- values


class Number(click.FloatRange):
    """A number within bounds. NaN passes every bound, so it is refused separately."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """The number that a text stands for."""
        number: float = super().convert(value, parameter, context)
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", parameter, context)
        return number


def literal(text: str) -> Any:
    """A number, bool, date or time if the text is one and has no quotes, else a string."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for convert in (int, float, date.fromisoformat, datetime.fromisoformat):
        with suppress(ValueError):
            return convert(text)
    return text


def _split_names(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[str] | None:
    """Split names at commas; a name with a comma, or a space at its end, is put in double quotes."""
    names: list[str] = []
    for value in values:
        (row,) = csv.reader([value], skipinitialspace=True)
        names += row if '"' in value else [name.strip() for name in row] or [""]
    if not all(names):  # an unset shell variable; an empty value would mean all columns
        raise click.BadParameter(f"{','.join(values)!r}: a name is empty.")
    return names or None


NAMES: dict[str, Any] = {"metavar": "A,B,...", "multiple": True, "callback": _split_names}
"""The settings of an option that lists names. The names of an option that is repeated are all taken."""


# ---------------------------------------------------------------------- how a command runs and reports


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
        if self.as_json:
            click.echo(json.dumps(_jsonable(document), indent=2, allow_nan=False))
        else:
            click.echo(without_options(text))

    def note(self, text: str) -> None:
        """Write a note for people. With --json or --quiet nothing is written."""
        if not (self.as_json or self.quiet):
            click.echo(without_options(text))

    def insist(self, text: str) -> None:
        """Write to stderr what the user must know even if the report is not written."""
        if self.quiet and not self.as_json:
            click.echo(f"Warning: {without_options(text)}", err=True)

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
            from distributed import Client, Security

            security = Security().get_connection_args("client")
            if self.scheduler.startswith("tls:") and security["ssl_context"] is None:
                raise ValueError(
                    f"{self.scheduler} needs certificates: name them in Dask's configuration, or in the "
                    "environment as DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__CLIENT__CERT and "
                    "...__CLIENT__KEY"
                )
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


def _jsonable(value: Any) -> Any:
    """Convert a value for JSON: NumPy values become Python values, and NaN and infinity become null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _jsonable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(part) for part in value]
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
