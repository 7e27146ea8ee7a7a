"""Parameters of estimators that are options: how they are set, checked and saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.utils._param_validation import HasMethods

from streamgda.data.blocks.options import RENAMED, Option, check_not_renamed, option_of
from streamgda.data.registry import OPTIONS


def with_whole_options(model: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters to set, where ``option__parameter`` is replaced by a new option that has this parameter.

    The option of a model never changes, by whose identity the model knows whether it is still the same.

    Raises
    ------
    ValueError
        If there is no such parameter, or the model has no option that could have it.
    """
    known = model.get_params(deep=False)
    check_not_renamed(known, params, ValueError)
    whole: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in params.items():
        option, _, part = name.partition("__")
        if part and option in OPTIONS and option in known:
            parts.setdefault(option, {})[part] = value
        else:
            whole[name] = value
    for name, changes in parts.items():
        value = option_of(name, whole.get(name, known[name]))
        if not isinstance(value, Option):
            kind, arguments = OPTIONS[name].kind.__name__, ", ".join(f"{k}={v!r}" for k, v in changes.items())
            raise ValueError(f"{name}={value!r} has no parameters; set {name}={kind}({arguments})")
        whole[name] = value.with_params(**changes)
    return whole


def to_plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters to save, with the parameters of each option in its place."""
    return {name: v.to_plain() if isinstance(v, Option) else v for name, v in params.items()}


def from_plain(kind: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Saved parameters as estimators of a class take them now, those of older versions included."""
    renamed = {name: RENAMED[name] for name in RENAMED.keys() & params.keys() - set(kind._get_param_names())}
    whole = {name: value for name, value in params.items() if name not in renamed}
    for option, entry in OPTIONS.items():
        saved = whole.get(option, entry.word)
        old = {name or it: params[it] for it, (owner, name) in renamed.items() if owner == option}
        if isinstance(saved, Mapping):
            whole[option] = entry.kind.from_plain(saved)
        elif old and saved == entry.word:
            value = entry.kind.from_old(**old)
            whole[option] = entry.word if value == entry.kind() else value
    return whole


class OptionOf(HasMethods):
    """The constraint of a parameter to an option of the class that belongs to it."""

    def __init__(self, name: str) -> None:
        super().__init__("get_params")
        self.name = name

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is such an option."""
        return isinstance(val, OPTIONS[self.name].kind)

    def __str__(self) -> str:
        return f"a {OPTIONS[self.name].kind.__name__}"
