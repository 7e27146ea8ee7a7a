"""What the code of a function reads beside its arguments: globals, and variables of enclosing functions.

Names are found in the bytecode and followed through plain attributes: code with ``settings.scale`` reads the
scale alone, and code with ``module.CONSTANT`` the constant.
"""

from __future__ import annotations

import builtins
import datetime
import dis
import inspect
import os
import re
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any, NamedTuple

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}

_FREE = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}

_LOCAL = {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST"} | {
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW"
}

_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}

_BETWEEN = {"CACHE", "EXTENDED_ARG"}  # instructions that do nothing

_REBOUND = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"}

_ELSEWHERE: tuple[Any, ...] = (
    *(open, eval, exec, globals, input),
    *(os.environ, os.getenv, getattr(os, "environb", os.environ), getattr(os, "getenvb", os.getenv)),
)

_READERS = re.compile(
    "open(_.+)?|load(txt|mat)?|(read|scan)_.+|imread|genfromtxt|fromfile|connect|(ORC|Parquet|OS)File|FileIO"
    "|mem(ory_)?map|getlines?|import_module|__import__|expandvars|urlopen|_getframe"
    "|[Pp]open|check_output|getoutput|system|l?stat|getsize|getmtime|listdir|getcwd|time(_ns)?|localtime"
)
"""The names of functions of libraries that read files, or modules that code names by a text, and of those
that ask the system."""

_READING_METHODS = {"open", "read_text", "read_bytes", "stat", "now", "utcnow", "today"}  # of paths and dates


class UntoldError(TypeError):
    """What a function reads is not told by the values that it refers to."""


class _Reference(NamedTuple):
    """A name in code, and the attributes that are taken from its value in turn."""

    name: str
    attributes: tuple[str, ...]
    is_free: bool  # a variable of an enclosing function


def read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function reads beside its arguments, by the names in its code.

    Raises
    ------
    UntoldError
        If it reads files or the environment, or rebinds a name that it reads.
    """
    codes = [
        [one for one in dis.get_instructions(code) if one.opname not in _BETWEEN]
        for code in _nested(function.__code__)
    ]
    rebound = {one.argval for code in codes for one in code if one.opname in _REBOUND}
    methods = {one.argval for code in codes for one in code if one.opname in _ATTRIBUTE} & _READING_METHODS
    if methods:
        raise UntoldError(f"what .{min(methods)} gives")
    variables: dict[str, Any] = {}
    for code in codes:
        yield from _imported(code, function.__globals__, variables)
    for reference in dict.fromkeys(found for code in codes for found in _references(code)):
        known = function.__code__.co_freevars if reference.is_free else function.__globals__
        if reference.name in rebound and reference.name in known:
            raise UntoldError(f"{reference.name}, which it changes itself")
        if not reference.is_free or reference.name in known:
            yield _followed(_value(function, reference), reference)
        elif reference.name in variables:  # others belong to this function or to one within it
            yield _followed(variables[reference.name], reference)


def _followed(value: Any, reference: _Reference) -> tuple[str, Any]:
    """What a reference to a value leads to, and the part of it that is plain data."""
    label = reference.name
    for attribute in reference.attributes:
        if not _is_data(value, attribute):
            break
        value, label = getattr(value, attribute), f"{label}.{attribute}"
    if is_told_elsewhere(value):
        raise UntoldError(f"what {label} gives")
    return label, value


def is_told_elsewhere(obj: Any) -> bool:
    """Whether what code gets of this object is told by files or by the environment, and by no value."""
    return any(obj is other for other in _ELSEWHERE)


def is_reader(function: Any) -> bool:
    """Whether a function of a library, by its name, reads files or modules that its arguments name."""
    return _READERS.fullmatch(function.__name__) is not None and function is not datetime.time


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _references(code: list[dis.Instruction]) -> Iterator[_Reference]:
    for i, one in enumerate(code):
        is_of_class = one.argval == "__name__" and code[i + 1].argval == "__module__"  # the body of a class
        if one.opname in _GLOBAL | _FREE | _LOCAL and not is_of_class:
            attributes = []
            for other in code[i + 1 :]:
                if other.opname not in _ATTRIBUTE:
                    break
                attributes.append(other.argval)
            name = one.argval[-1] if isinstance(one.argval, tuple) else one.argval  # two loads in one
            yield _Reference(name, tuple(attributes), one.opname not in _GLOBAL)


def _value(function: FunctionType, reference: _Reference) -> Any:
    """The value of a name; None if nothing has this name yet."""
    if not reference.is_free:
        return function.__globals__.get(reference.name, vars(builtins).get(reference.name))
    i = function.__code__.co_freevars.index(reference.name)
    try:
        return (function.__closure__ or ())[i].cell_contents
    except ValueError:
        return None


def _is_data(value: Any, name: str) -> bool:
    """Whether an attribute is plain data of a module, a class or an object, which no code computes."""
    if isinstance(value, ModuleType):
        return hasattr(value, name)
    if isinstance(value, type):
        data = inspect.getattr_static(value, name, value)
        return type(value) is type and data is not value and not hasattr(type(data), "__get__")
    if not isinstance(type(value).__getattribute__, WrapperDescriptorType):
        return False
    of_class = inspect.getattr_static(type(value), name, None)
    if isinstance(of_class, MemberDescriptorType):
        return hasattr(value, name)
    return name in getattr(value, "__dict__", ()) and not hasattr(type(of_class), "__set__")


def _imported(
    code: list[dis.Instruction], names_there: dict[str, Any], variables: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The modules that code imports, or what it takes from them by name; None for one that is not there.

    Also set the variables to which the code assigns them.
    """
    module: Any = None
    value: Any = None
    names: tuple[str, ...] = ()
    for i, one in enumerate(code):
        if one.opname == "IMPORT_NAME":
            level, names = code[i - 2].argval, code[i - 1].argval or ()
            try:
                module = __import__(one.argval, names_there, None, names, level)
            except ImportError:
                module = None
            is_renamed = code[i + 1].opname == "IMPORT_FROM"  # "import a.b as c"
            value = sys.modules.get(one.argval) if is_renamed else module
            if module is None or not names:
                yield one.argval, sys.modules.get(one.argval)
        elif one.opname == "IMPORT_FROM" and names and module is not None:
            value = getattr(module, one.argval, None)
            yield f"{module.__name__}.{one.argval}", value
        elif one.opname.startswith("STORE_") and value is not None:
            variables[one.argval], value = value, None
