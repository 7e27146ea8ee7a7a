"""Messages of errors and warnings: names and numbers in them, and parts that the command line rewords."""

from __future__ import annotations

import difflib
import re
from ast import literal_eval
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

_MARKED = re.compile(r"⟨(.*?)⟩", re.DOTALL)

_SETTING = re.compile(r"(\w+)(?:=(.*))?", re.DOTALL)


class Setting(NamedTuple):
    """A parameter in a message, with a value or without; or an estimator, by the name of its class."""

    name: str
    value: Any = ...

    def __str__(self) -> str:
        return self.name if self.value is ... else f"{self.name}={self.value!r}"


class InPython(NamedTuple):
    """Words for users of Python, and the words that replace them in other interfaces."""

    text: str
    elsewhere: str

    def __str__(self) -> str:
        return self.text


class Amount(str):
    """A part that depends on the number of rows."""


Part = str | Setting | InPython


class Message(str):
    """The message of an error or a warning, with parts that other interfaces reword.

    A text is written with marks around some parts: ``⟨missing='drop'⟩`` or ``⟨missing⟩`` is a parameter,
    ``⟨words for Python|words for others⟩`` says something in two ways, and ``⟨#37 rows⟩`` is an amount.

    Parameters
    ----------
    *texts : str
        Texts with marks, or messages.

    Examples
    --------
    >>> message = Message("row 7 is incomplete; leave it out, with ⟨missing='drop'⟩")
    >>> print(message)
    row 7 is incomplete; leave it out, with missing='drop'
    >>> message.put(lambda setting: f"--{setting.name} {setting.value}")
    'row 7 is incomplete; leave it out, with --missing drop'
    """

    parts: tuple[Part, ...]

    def __new__(cls, *texts: str) -> Self:
        """Join the texts."""
        parts = [
            part for text in texts for part in (text.parts if isinstance(text, Message) else _parts(text))
        ]
        message = super().__new__(cls, "".join(map(str, parts)))
        message.parts = tuple(parts)
        return message

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """The message of an error."""
        text = error.args[0] if error.args else ""
        return cls(text if isinstance(text, Message) else str(error))

    def put(self, words: Callable[[Setting], str]) -> str:
        """The message for another interface, in which `words` gives the text of a parameter."""
        return "".join(
            words(part) if isinstance(part, Setting) else getattr(part, "elsewhere", str(part))
            for part in self.parts
        )

    def without_amounts(self) -> str:
        """The message without its amounts. Errors that differ only in amounts have the same one."""
        return "".join(str(part) for part in self.parts if not isinstance(part, Amount))


def _parts(text: str) -> list[Part]:
    """The parts of a text, unmarked and marked ones in turn."""
    return [_part(piece) if i % 2 else piece for i, piece in enumerate(_MARKED.split(text))]


def _part(marked: str) -> Part:
    if marked.startswith("#"):
        return Amount(marked[1:])
    if setting := _SETTING.fullmatch(marked):
        name, value = setting.groups()
        if value is None:
            return Setting(name)
        with suppress(ValueError, SyntaxError):
            value = literal_eval(value)
        return Setting(name, value)
    return InPython(*marked.rpartition("|")[::2])


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


def check_known(names: Iterable[str], known: Collection[str], origin: str, kind: str = "column") -> None:
    """Raise ValueError for the first column that is not there, with the name that may have been meant."""
    there = set(known)
    for name in names:
        if name not in there:
            folded = {str(other).casefold(): other for other in known}
            close = difflib.get_close_matches(str(name).casefold(), folded, n=1)
            hint = f"did you mean {folded[close[0]]!r}?" if close else f"there are {listed(list(known), 20)}"
            raise ValueError(Message(origin, f": there is no {kind} {name!r}; {hint}"))


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
        return ValueError(Message(name(self.row), self.fault))
