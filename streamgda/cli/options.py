"""Declare options from the docstrings of the library, and pass their values to a command."""

from __future__ import annotations

import csv
import functools
import math
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import click

Command = Callable[..., Any]

Option = Callable[[Command], Command]


def bad_usage(message: str) -> click.UsageError:
    """The error for options that do not go together; it points to the help of the command."""
    return click.UsageError(message, click.get_current_context())


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


class Documented(NamedTuple):
    """A parameter in a docstring: its type and default, and what it is, sentence by sentence."""

    kind: str
    sentences: list[str]


@functools.cache
def documented(place: str) -> dict[str, Documented]:
    """The parameters of a class, function or method, by its docstring.

    The docstring is read from the source file: importing the module would import NumPy, and slow down help.

    Parameters
    ----------
    place : str
        Such as "streamgda.passes.accumulate:accumulate". A method goes by its own name.

    Examples
    --------
    >>> documented("streamgda.passes.accumulate:accumulate")["exact"].kind
    'bool, default=False'
    """
    module, _, name = place.partition(":")
    spec = find_spec(module)
    source: str = spec.loader.get_source(module)  # type: ignore[union-attr]
    found = re.search(rf'^ *(?:class|def) {name}\b.*?"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
    section = re.search(r"\n( *)Parameters\n *-+\n(.*?)(?=\n\n\1\S|$)", found[1] if found else "", re.DOTALL)
    if section is None:
        return {}
    entry = re.compile(rf"^{section[1]}(\w.*?) : (.*)\n((?:{section[1]}    .*\n?|\n)*)", re.MULTILINE)
    return {
        name: Documented(kind, re.split(r"(?<=\.) ", _plain(text)))
        for names, kind, text in entry.findall(section[2])
        for name in names.split(", ")
    }


def _plain(text: str) -> str:
    """Put docstring text on one line for a terminal: remove markup, and write arguments as options."""
    text = re.sub(r"``(\w+)=\"(\w+)\"``", r"--\1 \2", " ".join(text.split()))
    return re.sub(r"; see `[^`]*`", "", text).replace("`", "")


def of_library(
    place: str, name: str, *, sentences: int = 1, applies_to: str = "", default: str = "", **settings: Any
) -> Option:
    """The option that gives a parameter of the library.

    Parameters
    ----------
    place : str
        The class, function or method that has the parameter, as for `documented`.
    name : str
        The parameter.
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
        text = f"{applies_to}: {text[0].lower()}{text[1:]}"
    known, _, standard = kind.partition(", default=")
    if known == "bool":
        settings["is_flag"] = True
    else:
        settings = {**_type_of(known), **settings}
        standard = standard.strip('"').replace("None", "")
        text += f"  [default: {default or standard or 'none'}]"
    return click.option("--" + name.replace("_", "-"), **{"help": text, **settings})


def _type_of(kind: str) -> dict[str, Any]:
    """The settings of an option for a type in a docstring. Negative numbers are refused."""
    names = re.findall(r'"(\w+)"', kind)
    if kind.startswith("{"):
        return {"type": click.Choice(names)}
    if kind.startswith("float"):
        number = Number(*names, min=0, max=1 if "[0, 1]" in kind else None)
        return {"type": number, "metavar": "|".join([*names, "SHARE"]) if names else "X"}
    return {"type": click.IntRange(min=1), "metavar": "N"} if kind.startswith("int") else {}


# ---------------------------------------------------------------------- values


class Number(click.FloatRange):
    """A number within bounds, or one of a few names. NaN passes every bound, so it is refused separately."""

    def __init__(self, *names: str, **bounds: Any) -> None:
        super().__init__(**bounds)
        self.names = names

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """The number that a text stands for, or the name."""
        if value in self.names:
            return value
        try:
            number: float = super().convert(value, parameter, context)
        except click.BadParameter:
            if not self.names:
                raise
            self.fail(f"{value!r} is none of {', '.join(self.names)} and a number from 0 to 1.")
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", parameter, context)
        return number


def split_names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Split names at commas; a name with a comma, or a space at its end, is put in double quotes."""
    if value is None:
        return None
    (names,) = csv.reader([value], skipinitialspace=True)
    names = names if '"' in value else [name.strip() for name in names]
    if not all(names or [""]):  # an unset shell variable; an empty value would mean all columns
        raise click.BadParameter(f"{value!r}: a name is empty.")
    return names
