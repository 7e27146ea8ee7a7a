"""The command ``streamgda``, made of the table ``options.json``."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from datetime import date, datetime
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

import click
from click.core import ParameterSource

import streamgda
from streamgda.cli.errors import OneLineErrors
from streamgda.cli.words import TABLE
from streamgda.models.estimators import ESTIMATORS

MODELS = {entry.option: name for name, entry in ESTIMATORS.items()}
"""The estimator for each value of ``--model``."""


def _option(place: str, name: str) -> click.Option:
    settings = dict(TABLE["options"][place][name])
    if "type" in settings:
        settings["type"] = _type_of(settings["type"])
    return click.Option(**settings, callback=partial(_note, place), expose_value=place.endswith("!"))


def _note(place: str, context: click.Context, option: click.Parameter, value: Any) -> Any:
    if option.multiple and value and isinstance(value[0], list):
        value = [*chain.from_iterable(value)]
    if context.get_parameter_source(str(option.name)) is not ParameterSource.DEFAULT:
        context.meta.setdefault(f"streamgda.{place}", {})[option.name] = value
    return value


def given(place: str) -> dict[str, Any]:
    """The parameters of a function of the library that the user has given."""
    return dict(click.get_current_context().meta.get(f"streamgda.{place}", {}))


class Command(click.Command):
    """A command of the table, whose options are made when they are asked for."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """The arguments and options, and ``--help``."""
        if not self.params:
            told = TABLE["commands"][self.name]
            numbers, options = told["arguments"].items(), (option.split(".") for option in told["options"])
            self.params += [
                click.Argument([name], nargs=n, required=True, type=Kind(_path)) for name, n in numbers
            ]
            self.params += [_option(place, name) for place, name in options]
        return super().get_params(context)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Read the options. One of an older version is an error with the new spelling."""
        try:
            return super().parse_args(context, args)
        except click.NoSuchOption as error:
            now = TABLE["renamed"].get(error.option_name, "")
            if any(now.partition(" ")[0] in option.opts for option in self.params):
                raise click.UsageError(f"{error.option_name} is now {now}", context) from error
            raise

    def invoke(self, context: click.Context) -> None:
        """Call the function of the command."""
        context.invoke(getattr(import_module("streamgda.cli.commands"), str(self.name)), **context.params)


main = OneLineErrors(
    "streamgda",
    commands=[Command(name, help=told["help"]) for name, told in TABLE["commands"].items()],
    help=TABLE["help"],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(streamgda.__version__)(main)

# ---------------------------------------------------------------------- values


class Kind(click.types.FuncParamType):  # type: ignore[type-arg]  # of click before 8.4 it has none
    """A kind of values, by the function that makes a value of a text, or raises ValueError."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """The value that a text stands for."""
        try:
            return self.func(value)
        except ValueError as error:
            self.fail(str(error), parameter, context)


def value_of(text: str) -> Any:
    """A number, bool, None, date, time or text in quotes if the text is one; or their list."""
    for read in (ast.literal_eval, date.fromisoformat, datetime.fromisoformat):
        with suppress(ValueError, SyntaxError):
            return read(text)
    named = {"true": True, "false": False, "none": None}
    return named.get(text.lower(), [*map(value_of, text.split(","))] if "," in text else text)


def _names(text: str) -> list[str]:
    """Names with commas between them; a name with a comma, or a space at its end, is put in double quotes."""
    import csv

    (row,) = csv.reader([text], skipinitialspace=True)
    names = row if '"' in text else [name.strip() for name in row]
    if not all(names or [""]) and '""' not in text:  # an unset shell variable; no name would mean all columns
        raise ValueError(f"{text!r}: a name is empty.")
    return names


def _comparisons(text: str) -> list[tuple[str, str, Any]]:
    match = re.fullmatch(r"\s*(.+?)\s*(==|!=|>=|<=|=|>|<)\s*(.*?)\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is no comparison such as 'day>=3' or 'region=north'.")
    return [(match[1], match[2], value_of(match[3]))]


def _types(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in _names(text)]
    if not all(name and kind for name, _, kind in pairs):
        raise ValueError(f"{text!r} is no list of keys and types such as 'store=string,day=date32'.")
    return {name: kind for name, _, kind in pairs}


def _missing(text: str) -> Any:
    """A word, or the option that a word and parameters give, as in ``marginal max_reads=20``."""
    from streamgda.data.registry import OPTIONS

    word, *params = text.split() or [""]
    if not params or word != OPTIONS["missing"].word:
        return text
    pairs = (param.partition("=") for param in params)
    return OPTIONS["missing"].kind().with_params(**{name: value_of(value) for name, _, value in pairs})


def _path(text: str) -> str:
    if not text:  # as of an unset shell variable; an empty path would mean the working directory
        raise ValueError("it is empty.")
    return text


_PARSERS: dict[str, Any] = {
    "A,B,...": _names,
    "COLUMN>=VALUE": _comparisons,
    "KEY=TYPE,...": _types,
    "raise|drop|marginal": _missing,
    "NUMBER": float,
    "INTEGER": int,
    **dict.fromkeys(("TEXT", "FORMAT", "ADDRESS", "FILE"), _path),
}


def _type_of(kind: str | list[str]) -> click.ParamType[Any]:
    kind = list(MODELS) if kind == "MODEL" else kind
    return click.Choice(kind) if isinstance(kind, list) else Kind(_PARSERS.get(kind, value_of))
