"""What objects are made of, by value: plain content, and other objects.

Objects of Python are taken apart as pickle takes them apart, functions and classes by their code. What an
installed library defines goes by its name and the library's version.
"""

from __future__ import annotations

import copyreg
import functools
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from importlib import metadata
from pathlib import Path
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    EllipsisType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    NotImplementedType,
)
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from streamgda.sources.code import UntoldError, is_reader, is_told_elsewhere, read_by

Parts = tuple[bytes, bool, Iterable[Iterable[tuple[str, Any]]]]
"""The content of an object, whether the order of its parts counts, and groups of parts with their names."""


def parts_of(obj: Any) -> Parts:
    """What an object is made of.

    Raises
    ------
    UntoldError
        If no value tells what the object does.
    Exception
        If the object cannot be pickled.
    """
    rule = _BY_TYPE.get(type(obj))
    if is_told_elsewhere(obj):
        raise UntoldError("what it gives")
    if rule is None:
        rule = next((rule for applies, rule in _RULES if applies(obj)), _pickled)
    return rule(obj)


class _Variables(dict[str, Any]):
    """Values by their names, whose order does not count: those of an object, a class or a module."""


def _listed(content: str, parts: Iterable[Any]) -> Parts:
    return content.encode(), True, ([("", part)] for part in parts)


# ---------------------------------------------------------------------- plain values and containers

_WRITTEN_OUT = (NoneType, bool, int, float, complex, str, bytes)  # whose text tells them apart


def _plain(obj: Any) -> Parts:
    return f"{type(obj).__name__} {obj!r}".encode(), True, ()


def _sequence(obj: Any) -> Parts:
    if all(type(item) in _WRITTEN_OUT for item in obj):
        return f"{type(obj).__name__} of {list(obj)!r}".encode(), True, ()
    return type(obj).__name__.encode(), True, ([(f"[{i}]", item)] for i, item in enumerate(obj))


def _set(obj: Any) -> Parts:
    return b"set", False, ([("", item)] for item in obj)


def _mapping(obj: Mapping[Any, Any]) -> Parts:
    return b"dict", True, ([("", key), (f"[{key!r:.40}]", value)] for key, value in obj.items())


def _variables(obj: Mapping[str, Any]) -> Parts:
    return b"variables", False, ([("", name), (f".{name}", value)] for name, value in obj.items())


def _masked_array(obj: Any) -> Parts:
    return _listed("masked array", [np.asarray(obj.data), np.ma.getmaskarray(obj), obj.fill_value])


def _array(obj: Any) -> Parts:
    if obj.dtype.names:  # the bytes between fields may be anything
        return _listed(f"array {obj.dtype.descr}", [obj[name] for name in obj.dtype.names])
    if obj.dtype.hasobject:
        return _listed(f"array {obj.shape}", [obj.dtype, *obj.ravel().tolist()])
    return f"array {obj.dtype.str} {obj.shape} ".encode() + obj.tobytes(), True, ()


# ---------------------------------------------------------------------- code

_OF_CLASSES = {  # what no answer depends on
    *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__slotnames__", "__parameters__"),
    *("__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl", "__match_args__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__orig_bases__"),
    *("__dataclass_fields__", "__dataclass_params__", "__slots__"),
}

_OF_MODULES = {
    *("__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__"),
    *("__path__", "__spec__", "__annotations__"),
}


def _code(code: CodeType) -> Parts:
    n_arguments = code.co_argcount + code.co_kwonlyargcount + 2
    facts = (
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_names),
        *(code.co_varnames[:n_arguments], code.co_code.hex(), code.co_exceptiontable.hex()),
    )
    return _listed(f"code {facts}", code.co_consts)


def _function(function: FunctionType) -> Parts:
    code = function.__code__
    if code.co_filename == functools.singledispatch.__code__.co_filename and "registry" in vars(function):
        return _listed("singledispatch", [vars(function)["registry"]])  # its cache changes when it is called
    if function.__doc__ is not None and code.co_consts[:1] == (function.__doc__,):
        code = code.replace(co_consts=(None, *code.co_consts[1:]))
    attributes = {name: value for name, value in vars(function).items() if name != "__wrapped__"}
    own = (code, function.__defaults__, function.__kwdefaults__, _Variables(attributes))
    reads = [[("", name), (name, value)] for name, value in read_by(function)]
    return b"function", True, [[("", part) for part in own], *reads]


def _class(obj: type) -> Parts:
    own = {
        name: value
        for name, value in vars(obj).items()
        if name not in _OF_CLASSES and not isinstance(value, MemberDescriptorType)  # of a slot
    }
    return _listed("class", [type(obj), *obj.__bases__, _Variables(own)])


def _module(module: ModuleType) -> Parts:
    if library := _library_of(module):
        return f"module {module.__name__} {library}".encode(), True, ()
    return _variables({name: value for name, value in vars(module).items() if name not in _OF_MODULES})


def _builtin_method(method: BuiltinMethodType) -> Parts:
    if isinstance(method.__self__, ModuleType):
        raise UntoldError(f"{method!r:.80}, whose code cannot be read")
    return _listed(f"method {method.__name__}", [method.__self__])


def _ufunc(obj: np.ufunc) -> Parts:
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), obj.__name__, None) is obj:
            return f"{module}.{obj.__name__} {_library_of(sys.modules[module])}".encode(), True, ()
    raise UntoldError(f"{obj!r:.80}, whose code cannot be read")


def _vectorized(obj: np.vectorize) -> Parts:
    options = [vars(obj)[name] for name in ("pyfunc", "otypes", "signature", "excluded", "cache")]
    return _listed("vectorize", options)  # beside them it has what it made when it was called


def _changing(obj: Any) -> Parts:
    raise UntoldError(f"{obj!r:.80}, which changes when it is read")


# ---------------------------------------------------------------------- other objects


def _pickled(obj: Any) -> Parts:
    """An object as pickle takes it apart: how it is made, and its state."""
    reduce = copyreg.dispatch_table.get(type(obj))
    reduction: Any = obj.__reduce_ex__(4) if reduce is None else reduce(obj)
    if isinstance(reduction, str):  # the name of the only such object
        return _listed(reduction, [type(obj), _Variables(getattr(obj, "__dict__", {}))])
    make, arguments, state, items, pairs = (*reduction, None, None, None)[:5]
    if isinstance(state, tuple) and len(state) == 2 and type(state[1]) is dict:  # of a class with slots
        state = (state[0] or {}) | state[1]
    if type(state) in {dict, NoneType} and hasattr(obj, "__dict__"):
        state = _not_yet_computed(obj) | (state or {})
    variables = _Variables(state) if type(state) is dict and state else state or None
    return _listed("object", [make, arguments, variables, list(items or ()), list(pairs or ())])


def _not_yet_computed(obj: Any) -> dict[str, Any]:
    """The values of cached properties that nobody has asked for yet; asking for one changes the object."""
    own_kinds = [kind for kind in type(obj).__mro__ if not _library_of(kind)]
    names = [
        name
        for kind in own_kinds
        for name, value in vars(kind).items()
        if isinstance(value, functools.cached_property) and name not in vars(obj)
    ]
    return {name: getattr(copy(obj), name) for name in names}


# ---------------------------------------------------------------------- installed libraries

_STDLIB = sysconfig.get_path("stdlib")


def _is_of_library(obj: Any) -> bool:
    """Whether this is a function or class that a library has under its name."""
    name = getattr(obj, "__qualname__", None)
    module = getattr(obj, "__module__", None)
    if not callable(obj) or not isinstance(name, str) or not isinstance(module, str):
        return False
    target: Any = sys.modules.get(module)
    for part in name.split("."):
        target = getattr(target, part, None)
    return target is obj and bool(_library_of(obj))


def _by_name(obj: Any) -> Parts:
    if is_reader(obj):
        raise UntoldError("what it gives")
    return f"{obj.__module__}.{obj.__qualname__} {_library_of(obj)}".encode(), True, ()


def _partial(obj: functools.partial[Any]) -> Parts:
    return _listed("partial", [obj.func, obj.args, obj.keywords])


def _is_wrapper(obj: Any) -> bool:
    """Whether a class of a library has made this of a function, as functools.lru_cache does."""
    return callable(obj) and getattr(obj, "__wrapped__", None) is not None and _library_of(type(obj)) != ""


def _wrapper(obj: Any) -> Parts:
    return _listed(type(obj).__name__, [obj.__wrapped__, getattr(obj, "targetoptions", None)])


def _library_of(obj: Any) -> str:
    """The library with its version that a module, function or class belongs to; "" if it is no library's."""
    top, _, _ = str(obj.__name__ if isinstance(obj, ModuleType) else obj.__module__).partition(".")
    module = sys.modules.get(top)
    if module is None:
        return ""
    file = getattr(module, "__file__", None)
    places = [Path(place) for place in ([file] if file else getattr(module, "__path__", ()))]
    is_installed = any({"site-packages", "dist-packages"} & set(place.parts) for place in places)
    if top in sys.stdlib_module_names and not is_installed:
        is_of_python = all(place.is_relative_to(_STDLIB) for place in places)
        return f"Python {sys.version_info.major}.{sys.version_info.minor}" if is_of_python else ""
    if not is_installed and top != __name__.partition(".")[0]:
        return ""
    version = getattr(module, "__version__", None)
    return f"{top} {version}" if isinstance(version, str) else _installed_versions(top)


@functools.cache
def _installed_versions(top: str) -> str:
    names = sorted(set(metadata.packages_distributions().get(top, [])))
    return " ".join(f"{name} {metadata.version(name)}" for name in names)


def _sparse(obj: Any) -> Parts:
    in_order = obj.tocoo(copy=True)
    in_order.sum_duplicates()
    return _listed(f"sparse {obj.format} {obj.shape}", [np.array(in_order.coords, np.int64), in_order.data])


def _of_pandas(obj: Any) -> Parts:
    """The values of an object of pandas, whose layout in memory may differ where it is equal."""
    pd = sys.modules["pandas"]
    parts: list[Any]
    if isinstance(obj, pd.DataFrame):
        parts = [obj.columns, obj.index, *(obj.iloc[:, i].array for i in range(obj.shape[1]))]
    elif isinstance(obj, pd.MultiIndex):
        parts = [list(obj.names), *(obj.get_level_values(i).array for i in range(obj.nlevels))]
    elif isinstance(obj, pd.Series | pd.Index):
        parts = [obj.name, getattr(obj, "index", None), obj.array]
    elif isinstance(obj, pd.Categorical):
        parts = [obj.codes, obj.categories, obj.ordered]
    else:
        parts = [obj.to_numpy()] if isinstance(obj.dtype, np.dtype) else [str(obj.dtype), list(obj)]
    return _listed(type(obj).__name__, parts)


def _tree_of_neighbours(obj: Any) -> Parts:
    """A tree of scikit-learn without its counts of calls, which lie between its arrays and its metric."""
    make, arguments, state = obj.__reduce_ex__(4)
    return _listed("tree", [make, arguments, *state[:7], *state[11:]])


def _is_of_pandas(obj: Any) -> bool:
    pd = sys.modules.get("pandas")
    return pd is not None and isinstance(
        obj, pd.DataFrame | pd.Series | pd.Index | pd.api.extensions.ExtensionArray
    )


_Rule = Callable[[Any], Parts]

_BY_TYPE: dict[type, _Rule] = {
    **dict.fromkeys((*_WRITTEN_OUT, EllipsisType, NotImplementedType), _plain),
    **dict.fromkeys((list, tuple), _sequence),
    **dict.fromkeys((set, frozenset), _set),
    **dict.fromkeys((dict, MappingProxyType), _mapping),
    _Variables: _variables,
    **dict.fromkeys((np.ndarray, np.memmap), _array),
    np.ma.MaskedArray: _masked_array,
    CodeType: _code,
}
"""By the type of an object itself: one of a derived type may be made of more."""


def _is(*kinds: Any) -> Callable[[Any], bool]:
    return lambda obj: isinstance(obj, kinds)


_RULES: tuple[tuple[Callable[[Any], bool], _Rule], ...] = (
    (_is_of_library, _by_name),
    (_is(ModuleType), _module),
    (_is(Iterator), _changing),
    (_is(np.ufunc), _ufunc),
    (_is(FunctionType), _function),
    (_is(type), _class),
    (_is(BuiltinMethodType), _builtin_method),
    (_is(MethodType), lambda obj: _listed("method", [obj.__func__, obj.__self__])),
    (_is(CellType), lambda obj: _listed("cell", [obj.cell_contents])),
    (_is(property), lambda obj: _listed("property", [obj.fget, obj.fset, obj.fdel])),
    (_is(staticmethod, classmethod), lambda obj: _listed(type(obj).__name__, [obj.__func__])),
    (_is(functools.cached_property), lambda obj: _listed("cached property", [obj.func])),
    (_is(np.vectorize), _vectorized),
    (lambda obj: type(obj) is functools.partial, _partial),
    (_is_wrapper, _wrapper),
    (_is(pa.Array, pa.ChunkedArray), lambda obj: _listed(f"Arrow {obj.type}", obj.to_pylist())),
    (_is(pa.Scalar), lambda obj: _listed(f"Arrow {obj.type}", [obj.as_py()])),
    (_is(pa.Table, pa.RecordBatch), lambda obj: _listed("Arrow table", [obj.column_names, *obj.columns])),
    (issparse, _sparse),
    (lambda obj: hasattr(type(obj), "get_tree_stats"), _tree_of_neighbours),
    (_is_of_pandas, _of_pandas),
)
"""The first that applies; `_pickled` for all other objects."""
