"""Several parameters as one value, which most rooms hand on and only one reads."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, wraps
from inspect import signature
from typing import Any, Self, TypeVar, cast

from streamgda.data.registry import OPTIONS, Entry

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, repr=False)
class Option:
    """Several parameters as one value, which never changes.

    A subclass is declared like this class, with parameters as its fields. Its `__post_init__` checks their
    values.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters. Estimators call them ``option__parameter``."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_params(self, **params: Any) -> Self:
        """The same option with other values of some parameters."""
        known = self.get_params()
        for name in params:
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for {self!r}. Valid parameters are: {list(known)!r}."
                )
        return replace(self, **params)

    @classmethod
    def of_short(cls, value: Any) -> Any:
        """The option that a shorter value stands for; the value itself if it stands for none."""
        return value

    def to_plain(self) -> dict[str, Any]:
        """The parameters as they are saved, from which `from_plain` makes the option again."""
        return self.get_params()

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Any:
        """The value of a parameter that was saved as a dict."""
        return cls(**plain)

    @classmethod
    def from_old(cls, **params: Any) -> Any:
        """The option of a model that an older version saved, when these were parameters of its own."""
        return cls(**params)

    def check(self, model: Any) -> None:
        """Raise ValueError if a model cannot have these parameters."""

    def __sklearn_clone__(self) -> Self:
        return self  # nothing can change it, and models keep their densities while their options are the same

    def __repr__(self) -> str:
        other = (f for f in fields(self) if getattr(self, f.name) != f.default)
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in other)})"


RENAMED: dict[str, tuple[str, str | None]] = {
    "categorical_features": ("categories", "columns"),
    "categorical_model": ("categories", "model"),
    "alpha": ("categories", "alpha"),
    "categorical_ridge": ("categories", "ridge"),
    "max_categories": ("categories", "max_categories"),
    "max_patterns": ("missing", "max_patterns"),
    "max_reads": ("missing", "max_reads"),
    "em_tol": ("missing", "tol"),
    "n_subclasses": ("subclasses", None),
    "subclass_centers": ("subclasses", None),
    "rows_per_class": ("subclasses", "rows_per_class"),
    "random_state": ("subclasses", "random_state"),
}
"""Parameters of older versions: the option that has each now, and its name there, if it is not the option."""


_OF_OTHERS = {
    "test_size": ("test", "test"),
    "sep": ("format", "an option of a format: format='csv delimiter=;'"),
    "decimal": ("format", "an option of a format: format='csv decimal_point=,'"),
    "encoding": ("format", "an option of a format: format='csv encoding=latin1'"),
    "parse_dates": ("format", "an option of a format: format='csv timestamp_parsers=%d.%m.%Y'"),
}
"""Parameters of scikit-learn and pandas: the parameter that does so here, and how it is written."""


def _new_spelling(old: str) -> str:
    """How a parameter of an older version, or of another library, is written here and now."""
    if old in _OF_OTHERS:
        return f"{old} is {_OF_OTHERS[old][1]} here"
    option, name = RENAMED[old]
    if name is None:
        return f"{old} is now {option}"
    return f"{old} is now a parameter of an option: {option}={OPTIONS[option].kind.__name__}({name}=...)"


def check_not_renamed(known: Container[str], names: Iterable[str], error: type[Exception]) -> None:
    """Raise the error, with the new spelling, for a name of an older version or of another library."""
    for old in names:
        new, _ = RENAMED.get(old) or _OF_OTHERS.get(old) or (None, None)
        if new in known and old not in known:
            raise error(_new_spelling(old))


def refusing_renamed(function: F) -> F:
    """Decorate a function, so that its parameters of older versions are a TypeError with the new spelling.

    So are those of other libraries.
    """
    known = signature(function).parameters

    @wraps(function)
    def call(*args: Any, **params: Any) -> Any:
        check_not_renamed(known, params, TypeError)
        return function(*args, **params)

    return cast("F", call)


def option_of(name: str, value: Any) -> Any:
    """The option that the value of a parameter stands for; the value itself if it is no word for one."""
    entry = OPTIONS[name]
    if entry.word is None:
        return entry.kind.of_short(value)
    return _default_of(entry) if isinstance(value, str) and value == entry.word else value


@cache
def _default_of(entry: Entry) -> Option:
    default: Option = entry.kind()
    return default
