"""Names and numbers in the messages of errors and warnings."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 20  # rows of a table in a notebook


def listed(values: Sequence[Any], most: int = 10) -> str:
    """The first few labels or names in a line, and an ellipsis if there are more; "none" if none."""
    return ", ".join(map(repr, values[:most])) + (", …" if len(values) > most else "") or "none"


def abridged(names: Sequence[Any], most: int) -> str:
    """The first few names in a line, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def counted(number: int, noun: str) -> str:
    """A number and its noun, which is in the plural unless the number is one.

    Examples
    --------
    >>> counted(1, "class"), counted(2, "class"), counted(2_000, "entry")
    ('1 class', '2 classes', '2,000 entries')
    """
    plural = f"{noun}es" if noun.endswith("s") else re.sub("y$", "ie", noun) + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def named(label: Any) -> str:
    """The text of a label in a message, in quotes if it is empty or has space around it."""
    text = str(label)
    return text if text and text == text.strip() else repr(text)


MISSING = "(missing)"
"""What a missing value is called."""


def value_named(value: Any) -> str:
    """The text of a value, or none, in a message, a table or the name of a feature."""
    return MISSING if value is None else str(value)


def as_html(text: str, table: pd.DataFrame | None = None) -> str:
    """Text, and a table below it, for notebooks.

    Examples
    --------
    >>> as_html("<Parquet rows.parquet>")
    '<pre>&lt;Parquet rows.parquet&gt;</pre>'
    """
    return f"<pre>{escape(text)}</pre>" + ("" if table is None else table.to_html(max_rows=_SHOWN, border=0))


def check_known(names: Iterable[str], known: Collection[str], origin: str, kind: str = "column") -> None:
    """Raise ValueError for the first column that is not there, with the name that may have been meant."""
    there = set(known)
    for name in names:
        if name not in there:
            close = closest(name, known)
            hint = f"there are {listed(list(known), 20)}" if close is None else f"did you mean {close!r}?"
            raise ValueError(f"{origin}: there is no {kind} {name!r}; {hint}")


def closest(name: object, known: Iterable[object]) -> object:
    """The name that may have been meant by another; None if none is close."""
    folded = {str(other).casefold(): other for other in known}
    close = difflib.get_close_matches(str(name).casefold(), folded, n=1)
    return folded[close[0]] if close else None


def callers_level() -> int:
    """The `stacklevel` of a warning at the first line outside this package that led to it."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("streamgda."):
        frame, level = frame.f_back, level + 1
    return level


class RowError(ValueError):
    """The fault of a row, told by the position of the row among those that a function was given.

    Callers that know where these rows come from raise it anew: with its position among more rows, by `moved`,
    or with the name that the row has for a user, by `named`.

    Examples
    --------
    >>> error = RowError(513, " is too far from the classes")
    >>> error.moved(lambda row: row + 3264)
    RowError(3777, ' is too far from the classes')
    >>> error.named("day.parquet, row {}".format)
    ValueError('day.parquet, row 513 is too far from the classes')
    """

    def __init__(self, row: int, fault: str) -> None:
        super().__init__(int(row), fault)
        self.row, self.fault = int(row), fault

    def __str__(self) -> str:
        return f"row {self.row}{self.fault}"

    def moved(self, position: Callable[[int], int]) -> RowError:
        """The same fault of the row at another position."""
        return RowError(position(self.row), self.fault)

    def named(self, name: Callable[[int], str]) -> ValueError:
        """The same fault with a name of the row."""
        return ValueError(f"{name(self.row)}{self.fault}")
