"""Why a candidate failed in some folds, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamgda.blocks.wording import Message, abridged

_MOST_NAMED = 10


def reasons_of_folds(failed: Mapping[Any, Message]) -> Message:
    """Each error by fold once, with the folds in which it was met.

    Of errors that differ in amounts alone the first is given, and the folds of the others.
    """
    alike: dict[str, dict[Any, Message]] = {}
    for fold, error in failed.items():
        alike.setdefault(error.without_amounts(), {})[fold] = error
    reasons = Message()
    for errors in alike.values():
        first = next(iter(errors.values()))
        same = [fold for fold, error in errors.items() if error == first]
        rest = [fold for fold, error in errors.items() if error != first]
        likewise = f"; {_listed(rest)}: likewise" if rest else ""
        reasons = Message(reasons, "; " if reasons else "", f"{_listed(same)}: ", first, likewise)
    return reasons


def _listed(folds: list[Any]) -> str:
    return f"fold{'s' if len(folds) > 1 else ''} {abridged(folds, _MOST_NAMED)}"
