"""A digest of any object by its values: of a function, by its code and the values of what it names.

joblib hashes values as pickle takes them apart. Functions, classes and modules of installed libraries go by
their names and versions, those of users by what they are made of. What code reads of the machine is refused.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import cached_property, lru_cache, partial, singledispatch
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from joblib.hashing import NumpyHasher

from streamgda.data.sources.maps.code import UntoldError, read_by

_OF_THE_MACHINE = {
    *("os", "posix", "nt", "posixpath", "ntpath", "genericpath", "io", "_io", "pathlib", "sys", "time"),
    *("subprocess", "socket", "shutil", "glob", "tempfile", "platform", "locale", "urllib", "http", "fsspec"),
    *("sqlite3", "_sqlite3", "importlib", "linecache", "mmap", "signal", "getpass", "secrets"),
}
"""Modules whose functions and objects tell what no value tells."""

_READERS = re.compile(
    r"open(_.+)?|connect|(read|scan|fetch)_.+|load(?!s$).*|imread|genfromtxt|fromfile|mem(ory_)?map|eval|exec|globals"
    r"|input|__import__|get_?(err|context|config|option|printoptions|state|default|bufsize).*|(ORC|Parquet|OS)File"
)
"""The names of functions of libraries that read files, settings, or what a text names."""

_MADE_BY_CODE = 1 << 9  # the flag of a class that a statement has made


def value_digest(value: Any, name: str) -> str:
    """A hash of an object by its values, in hexadecimal digits.

    Parameters
    ----------
    value : object
        Such as a fitted transformer, or a function.
    name : str
        What errors call it.

    Raises
    ------
    TypeError
        If it depends on something that has no value to hash, such as an open file. The message names it.

    Examples
    --------
    >>> def scaled_by(factor):
    ...     return lambda rows: factor * rows
    >>> value_digest(scaled_by(2), "a function") == value_digest(scaled_by(2), "a function")
    True
    >>> value_digest(scaled_by(2), "a function") == value_digest(scaled_by(3), "a function")
    False
    """
    try:
        return str(_Hasher("md5").hash(value))
    except UntoldError as error:
        place = " → ".join(error.path)
        raise TypeError(
            f"{name} depends on {place}{': ' if place else ''}{error}. Its value cannot be hashed, "
            "so states and predictions that were made with it cannot be told from others. Do without it, "
            "or without a checkpoint, a ledger and predict_dataset"
        ) from error


class _Hasher(NumpyHasher):
    """Hashes code by what it does, and other objects by their values, whatever they look like in memory."""

    def save(self, obj: Any) -> None:
        """Hash an object."""
        try:
            super().save(self._told(obj))
        except UntoldError:
            raise
        except Exception as error:  # the methods by which pickle takes objects apart may raise anything
            raise UntoldError(f"{obj!r:.80} ({type(error).__name__}: {error})") from error

    def _told(self, obj: Any) -> Any:
        """What is hashed in place of an object."""
        if isinstance(obj, types.FunctionType | type | types.ModuleType):
            if id(obj) in self.memo:
                return obj
            self.memoize(obj)
        return _by_name(obj) or _parts(obj)

    def memoize(self, obj: Any) -> None:
        """Remember an object, which may hold itself. Equal constants may be one object or two."""
        if not isinstance(obj, str | bytes | tuple | list | dict):
            super().memoize(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Hash an object that pickle knows by its name alone, such as Ellipsis."""
        if name is None or not _library_of(type(obj).__module__.partition(".")[0]):
            raise UntoldError(f"{obj!r:.80}, whose code cannot be read")
        self.save((name, type(obj)))

    def save_reduce(
        self, func: Any, args: Any, state: Any = None, *more: Any, obj: Any = None, **named: Any
    ) -> None:
        """Hash an object by how it is made, and its variables in the order of their names."""
        if isinstance(state, tuple) and len(state) == 2 and type(state[1]) is dict:  # of a class with slots
            state = (state[0] or {}) | state[1]
        if type(state) is dict:
            computed = [name for name in state if isinstance(getattr(type(obj), name, None), cached_property)]
            state = {name: state[name] for name in sorted(state, key=str) if name not in computed} or None
        super().save_reduce(func, args, state, *more, obj=obj, **named)

    def _batch_setitems(self, items: Any, *_: Any) -> None:
        """Hash the items of a dict in their order, which code may go by."""
        for key, value in items:
            try:
                self.save(key)
                self.save(value)
            except UntoldError as error:
                error.path.insert(0, f"{key!s:.40}")
                raise
            self.write(b"s")


# ---------------------------------------------------------------------- what objects are made of


@singledispatch
def _parts(obj: Any) -> Any:
    """Plain values, or objects, that tell an object; the object itself if pickle takes it apart well."""
    if isinstance(obj, Iterator):
        raise UntoldError(f"{obj!r:.80}, which changes when it is read")
    if hasattr(obj, "tocoo"):  # a sparse matrix
        in_order = obj.tocoo(copy=True)
        in_order.sum_duplicates()
        return obj.format, obj.shape, np.array(in_order.coords, np.int64), in_order.data
    if hasattr(type(obj), "get_tree_stats"):  # of scikit-learn, with its counts of calls in the middle
        make, arguments, state = obj.__reduce_ex__(4)
        return "tree", make, arguments, state[:7], state[11:]
    if type(obj).__name__ == "DataFrame" and type(obj).__module__.startswith("pandas"):
        return "frame", [(name, column.array) for name, column in obj.items()], obj.columns, obj.index
    if callable(obj) and hasattr(obj, "__wrapped__"):  # such as what functools.lru_cache makes
        return type(obj), obj.__wrapped__, getattr(obj, "targetoptions", None)
    return obj


@_parts.register
def _(function: types.FunctionType) -> Any:
    if "registry" in vars(function) and function.__code__ is _parts.__code__:  # type: ignore[attr-defined]  # singledispatch makes a function
        return "singledispatch", dict(vars(function)["registry"])  # its cache changes when it is called
    own = function.__code__, function.__defaults__, function.__kwdefaults__, vars(function)
    return "function", *own, dict(read_by(function))


@_parts.register
def _(code: types.CodeType) -> Any:
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return "code", code.co_code, code.co_exceptiontable, code.co_names, names, counts, code.co_consts


@_parts.register
def _(obj: type) -> Any:
    if not obj.__flags__ & _MADE_BY_CODE:
        return "class", obj.__qualname__, _library_of("builtins")
    of_python = types.MemberDescriptorType, types.GetSetDescriptorType
    own = {name: vars(obj)[name] for name in sorted(vars(obj)) if name[:2] != "__" and name != "_abc_impl"}
    own |= {name: value for name, value in sorted(vars(obj).items()) if hasattr(value, "__get__")}
    return "class", type(obj), obj.__bases__, {k: v for k, v in own.items() if not isinstance(v, of_python)}


@_parts.register
def _(module: types.ModuleType) -> Any:
    if library := _library_of(module.__name__.partition(".")[0]):
        return module.__name__, library
    return "module", {name: value for name, value in sorted(vars(module).items()) if name[:2] != "__"}


@_parts.register
def _(obj: np.ufunc | types.BuiltinFunctionType) -> Any:
    if not isinstance(getattr(obj, "__self__", sys), types.ModuleType):  # a method
        return obj
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), obj.__name__, None) is obj:
            return obj.__name__, _library_of(module.partition(".")[0])
    raise UntoldError(f"{obj!r:.80}, whose code cannot be read")


@_parts.register
def _(obj: np.ndarray) -> Any:
    if isinstance(obj, np.ma.MaskedArray):
        return "masked", np.asarray(obj.data), np.ma.getmaskarray(obj), obj.fill_value
    return np.asarray(obj).ravel().reshape(obj.shape) if type(obj) in {np.ndarray, np.memmap} else obj


_parts.register(set | frozenset, lambda obj: ("set", sorted(_Hasher("md5").hash(item) for item in obj)))
_parts.register(staticmethod | classmethod, lambda obj: (type(obj).__name__, obj.__func__))
_parts.register(property, lambda obj: ("property", obj.fget, obj.fset, obj.fdel))
_parts.register(cached_property, lambda obj: ("property", obj.func))
_parts.register(partial, lambda obj: ("partial", obj.func, obj.args, obj.keywords))
_parts.register(np.vectorize, lambda obj: ("vectorize", obj.pyfunc, obj.otypes, obj.signature, obj.excluded))
_parts.register(pa.Array | pa.ChunkedArray, lambda obj: (str(obj.type), obj.to_pylist()))


# ---------------------------------------------------------------------- installed libraries


def _by_name(obj: Any) -> tuple[str, str] | None:
    """The name of a function or class that a library has under it, and the library with its version.

    Raises
    ------
    UntoldError
        If it reads the machine.
    """
    name, module = getattr(obj, "__qualname__", None), getattr(obj, "__module__", None)
    if not callable(obj) or not isinstance(name, str) or not isinstance(module, str):
        return None
    target: Any = sys.modules.get(module)
    for part in name.split("."):
        target = getattr(target, part, None)
    top = module.partition(".")[0]
    if target is not obj or not (library := _library_of(top)):
        return None
    if top in _OF_THE_MACHINE or _READERS.fullmatch(obj.__name__):
        raise UntoldError(f"what {module}.{name} tells")
    return f"{module}.{name}", library


@lru_cache(1000)
def _library_of(top: str) -> str:
    """A library with its version, by the name of its module; "" for what is no library's."""
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
    is_installed = bool({"site-packages", "dist-packages"} & set(Path(file).parts))
    is_of_python = not file or Path(file).is_relative_to(sysconfig.get_path("stdlib"))
    if top in sys.stdlib_module_names and is_of_python and not is_installed:
        return f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if not is_installed and top != "streamgda":
        return ""
    version = getattr(module, "__version__", None)
    names = [] if isinstance(version, str) else metadata.packages_distributions().get(top, [])
    return " ".join(f"{name} {metadata.version(name)}" for name in sorted(set(names))) or f"{top} {version}"
