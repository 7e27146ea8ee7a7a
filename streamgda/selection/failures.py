"""Why a candidate failed in some folds, in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from streamgda.blocks.wording import abridged

_OF_ROWS = re.compile(r"[\d,]+ (?:rows?|samples?)\b|(?<=\bof weight )[\d.e+-]+|(?<=\brank )\d+")

_MOST_NAMED = 10


def reasons_of_folds(failed: Mapping[Any, str]) -> str:
    """Each error by fold once, with the folds in which it was met.

    Of errors that differ in numbers of rows and what hangs on them the first is given, and the folds of the
    others.
    """
    alike: dict[str, dict[Any, str]] = {}
    for fold, error in failed.items():
        alike.setdefault(_OF_ROWS.sub("", error), {})[fold] = error
    return "; ".join(map(_reason, alike.values()))


def _reason(errors: Mapping[Any, str]) -> str:
    """The first of some errors that are alike, and the folds of all."""
    first = next(iter(errors.values()))
    same = [fold for fold, error in errors.items() if error == first]
    rest = [fold for fold, error in errors.items() if error != first]
    return f"{_listed(same)}: {first}" + (f"; {_listed(rest)}: likewise" if rest else "")


def _listed(folds: list[Any]) -> str:
    return f"fold{'s' if len(folds) > 1 else ''} {abridged(folds, _MOST_NAMED)}"
