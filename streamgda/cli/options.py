"""How options are declared, and handed to a command together."""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import click

Command = Callable[..., Any]

Option = Callable[[Command], Command]


def bad_usage(message: str) -> click.UsageError:
    """The error for options that do not go together; it points to the help of the command."""
    return click.UsageError(message, click.get_current_context())


def bundled(name: str, kind: type[Any], options: Sequence[Option]) -> Option:
    """Add options to a command, which takes their values as one dataclass in the argument `name`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_bundle(**values: Any) -> Any:
            own = {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}
            return command(**values, **{name: kind(**own)})

        decorated: Command = with_bundle
        for option in reversed(options):  # click lists last what decorates first
            decorated = option(decorated)
        return decorated

    return decorate


class Number(click.FloatRange):
    """A number within bounds. NaN, which no bound rules out, is none."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """The number that a text stands for."""
        number: float = super().convert(value, parameter, context)
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", parameter, context)
        return number


def split_names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Split names at commas; a name with a comma, or a space at its end, is put in double quotes."""
    if value is None:
        return None
    (names,) = csv.reader([value], skipinitialspace=True)
    names = names if '"' in value else [name.strip() for name in names]
    if not all(names or [""]):  # a shell variable that is not set; it would mean all columns
        raise click.BadParameter(f"{value!r}: a name is empty.")
    return names


def some_of(*choices: str) -> Any:
    """The callback of an option that takes some of a few names, with commas between them."""

    def split(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
        names = split_names(context, parameter, value) or []
        for name in names:
            if name not in choices:
                raise click.BadParameter(f"{name!r} is none of {', '.join(choices)}.")
        return names

    return split
