"""What the code of a function names beside its arguments: globals, variables of enclosing functions, imports.

Of a module these are the attributes that the code names; of other objects, the whole.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}

_REBOUND = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"}

_TOLD_BY_THE_MACHINE = {"now", "utcnow", "today", "open"}  # methods of dates, times and file systems


class UntoldError(TypeError):
    """What an object does is not told by its values; `path` leads to the reason from where it is used."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str] = []


def read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names in the code of a function, and their values; None for what is not there.

    Raises
    ------
    UntoldError
        If it reads the clock, opens something, or rebinds a name that it reads.
    """
    used = _names_in(function.__code__)
    attributes = {name for how, name in used if how in {"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"}}
    if told := attributes & _TOLD_BY_THE_MACHINE:
        raise UntoldError(f"what .{min(told)} tells")
    free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    names = sorted({name for how, name in used if how in _GLOBAL})
    changed = {name for how, name in used if how in _REBOUND and name in {*free, *names}}
    if changed:
        raise UntoldError(f"{min(changed)}, which it changes itself")
    known = vars(builtins) | function.__globals__ | {"__name__": None}  # which bodies of classes read
    values = {name: known.get(name) for name in names}
    values |= {name: _content(cell) for name, cell in free.items()}
    values |= {name: _imported(name, function) for how, name in sorted(used) if how == "IMPORT_NAME"}
    yield from _followed(values, sorted(attributes))


@lru_cache(1000)
def _names_in(code: CodeType) -> frozenset[tuple[str, str]]:
    """How code and the functions and classes within it use names: the instructions and the names."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    used = {
        (one.opname, "." * steps[i - 2].argval + one.argval if one.opname == "IMPORT_NAME" else one.argval)
        for i, one in enumerate(steps)
        if isinstance(one.argval, str)
    }
    return frozenset(used).union(*(_names_in(part) for part in code.co_consts if isinstance(part, CodeType)))


def _content(cell: CellType) -> Any:
    """The value of a variable of an enclosing function; None if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _imported(name: str, function: FunctionType) -> ModuleType | None:
    """A module that code imports; None if it is not there."""
    try:
        return import_module(name, function.__globals__.get("__package__"))
    except (ImportError, TypeError):
        return None


def _followed(values: dict[str, Any], attributes: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield values, and in place of modules their attributes that code names."""
    waiting, seen = list(values.items())[::-1], set()
    while waiting:
        name, value = waiting.pop()
        there = [one for one in attributes if isinstance(value, ModuleType) and hasattr(value, one)]
        if not there:
            yield name, value
        elif value.__name__ not in seen:
            seen.add(value.__name__)
            waiting += [(f"{name}.{one}", getattr(value, one)) for one in there]
