"""The table of options, and messages in its words: ``missing='drop'`` becomes ``--missing drop``."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import shlex
from typing import Any

TABLE: dict[str, Any] = json.loads(pkgutil.get_data("streamgda.cli", "options.json") or "{}")
"""Commands and options, as ``python -m tests.cli.table`` writes them."""

_FLAGS: dict[str, str] = {
    name: next(one for one in settings["param_decls"] if one.startswith("--")).partition("/")[0]
    for place in TABLE["options"].values()
    for name, settings in place.items()
}

_IN_PYTHON = re.compile(
    r"(?P<call>\b\w+\((?:[^()]|\([^()]*\))*\))"  # such as what repr shows, which is left as it is
    r"|(?<![\w/])(?P<name>\w+)=(?![^\s,;'\"\[]*/)"  # no folder of a partition
    r"(?:(?P<kind>[A-Z]\w*)\((?P<params>[^()]*)\)|(?P<value>\[[^\]]*\]|\"[^\"]*\"|'[^']*'|[\w.-]*\w|\.{3}))?"
)


def flag(name: str) -> str:
    """A parameter as the option that stands for it."""
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def as_options(message: str) -> str:
    """A message with the options that stand for its parameters."""
    return _IN_PYTHON.sub(_as_option, message)


def _as_option(found: re.Match[str]) -> str:
    """One parameter with its value, or what looks like a call."""
    name, kind, params, value = found["name"], found["kind"], found["params"], found["value"]
    if name not in _FLAGS:
        inside = re.fullmatch(r"set_params\((.*)\)", found[0])
        return as_options(inside[1]) if inside else found[0]
    if kind is not None and params.startswith("columns="):
        value = params.removeprefix("columns=")
    elif kind is not None and name == "missing":
        value = repr(f"{kind.lower()} {params.replace(',', '')}")
    elif kind is not None:
        return found[0]
    if value in {None, "True"}:
        return _FLAGS[name]
    return f"no {_FLAGS[name]}" if value in {"False", "None"} else f"{_FLAGS[name]} {_as_word(value)}"


def _as_word(value: str) -> str:
    """A value as a word of a shell."""
    try:
        plain = ast.literal_eval(value) if value[0] in "['\"" else value
    except (ValueError, SyntaxError):  # it has been abridged
        return value
    return shlex.quote(",".join(map(str, plain))) if isinstance(plain, list) else shlex.quote(plain)
