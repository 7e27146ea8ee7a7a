"""Labels, names and numbers in messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def listed(values: Sequence[Any], most: int = 10) -> str:
    """The first few labels or names in a line, and an ellipsis if there are more; "none" of none."""
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
    """A label in a message; in quotes where it could not be seen without, as "" and " a"."""
    text = str(label)
    return text if text and text == text.strip() else repr(text)
