"""The digest of a map: it changes with all that the map reads, and with nothing else."""

import decimal
import functools
import importlib
import itertools
import json
import os
import pickle
import re
import sqlite3
import subprocess
import sys
import threading
import time
import types
from datetime import datetime
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsTransformer

from streamgda.data.sources.maps.digests import _library_of, value_digest

# Modules with a function `f` of rows, which reads the number K, and does not read N.
TEXT = """
## a global
S = {K}; U = {N}
def f(X): return X * S
## a helper of a helper
A = {K}
def g(x): return k(x)
def k(x): return x + A
def f(X): return g(X)
## functions that call each other
def f(X, n=3): return g(X, n)
def g(X, n): return h(X, n) if n else X
def h(X, n): return f(X * {K}, n - 1)
## a default of a keyword
def f(X, *, s={K}): return X * s
## a closure
def made(s, u):
  def g(x): return x * s
  def f(X): return g(X)
  return f
f = made({K}, {N})
## a comprehension
S = {K}; U = {N}
def f(X): return [x * S for x in X]
## a function inside
S = {K}
def f(X):
  def g(x): return (lambda y: y * S)(x)
  return g(X)
## a class inside
S = {K}
def f(X):
  class Q:
    s = S
  return X * Q.s
## a lambda in a dict
D = dict(a=lambda X: X * {K})
def f(X): return D['a'](X)
## an attribute
import types
s = types.SimpleNamespace(scale={K}); U = {N}
def f(X): return X * s.scale
## an attribute of a class
class C:
  scale = {K}
def f(X): return X * C.scale
## an attribute of a module
import {M} as m
U = {N}
def f(X): return X * m.S
## an import inside
def f(X):
  from constants import S
  return X * S + {K}
## a module that is imported inside
def f(X):
  import xml.sax.saxutils as s, os.path, constants as m
  return X * m.S * {K}
## a module that is not there
def f(X):
  try:
    import there_is_none as s
  except ImportError:
    return X * {K}
## an attribute of a function
def f(X): return X * f.s
f.s = {K}
## a class
class C:
  s = {K}
  def __call__(self, X): return X * self.s
f = C()
## a base class
class A:
  def s(self): return {K}
class C(A):
  def __call__(self, X): return X * self.s()
f = C()
## super
class A:
  def s(self): return {K}
class C(A):
  def s(self): return super().s()
  def __call__(self, X): return X * self.s()
f = C()
## a metaclass
class M(type):
  @property
  def s(cls): return {K}
class C(metaclass=M): pass
def f(X): return X * C.s
## a property
class C:
  @property
  def s(self): return {K}
  def __call__(self, X): return X * self.s
f = C()
## a cached property
import functools
class C:
  @functools.cached_property
  def s(self): return {K}
  def __call__(self, X): return X * self.s
f = C()
## a descriptor
class D:
  def __get__(self, o, t): return {K}
class C:
  s = D()
def f(X): return X * C.s
## slots
class C:
  __slots__ = ('s',)
  def __init__(self, s): self.s = s
  def __call__(self, X): return X * self.s
f = C({K})
## a state for pickle
import threading
class C:
  def __init__(self, s): self.s, self.lock = s, threading.Lock()
  def __getstate__(self): return dict(s=self.s)
  def __call__(self, X): return X * self.s
f = C({K})
## a method
class C:
  def __init__(self, s): self.s = s
  def m(self, X): return X * self.s
f = C({K}).m
## a partial
import functools
def g(X, s): return X * s
f = functools.partial(g, s={K})
## a partial with the name of its function
import functools
def g(X, s): return X * s
f = functools.update_wrapper(functools.partial(g, s={K}), g)
## a wrapped function
import functools
def d(g):
  @functools.wraps(g)
  def w(X): return g(X)
  return w
@d
def f(X): return X * {K}
## a cached function
import functools
S = {K}
@functools.lru_cache
def g(n): return n * S
def f(X): return X * g(2)
## single dispatch
import functools
@functools.singledispatch
def g(x): return x
@g.register(int)
def _(x): return x * {K}
def f(X): return X * g(3)
## a vectorized function
import numpy as np
@np.vectorize
def f(X): return X * {K}
## an enum
import enum
class E(enum.Enum):
  A = {K}
def f(X): return X * E.A.value
## a dataclass
import dataclasses
@dataclasses.dataclass
class C:
  s: float = {K}
def f(X): return X * C().s
## objects of each other
class S:
  def __init__(self): self.p = P(self)
  def __call__(self, X): return self.p.m(X)
class P:
  def __init__(self, o): self.o, self.k = o, {K}
  def m(self, X): return X * self.k
f = S()
## a set
A = {{'a', 'b', {K}}}
def f(X): return X * max(a for a in A if a not in ('a', 'b'))
## an array
import numpy as np
A = np.array([1.0, {K}])
def f(X): return X * A[1]
## a time of day
import datetime
A = datetime.time({K})
def f(X): return X * A.hour * datetime.time(1).hour
## a frame
import pandas as pd
A = pd.DataFrame(dict(a=[1, {K}], b=['x', 'y']))
def f(X): return X * A.a.sum()
## code from a string
ns = {{}}
exec('S = {K}\\ndef f(X): return X * S', ns)
f = ns['f']
## an estimator
from sklearn.base import BaseEstimator, TransformerMixin
class T(TransformerMixin, BaseEstimator):
  def transform(self, X): return X * {K}
f = T()
"""
PROGRAMS = dict(part.split("\n", 1) for part in TEXT.split("## ")[1:])


NUMBERS = itertools.count()  # so that no module has the name of an earlier one


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """Write a program as a module of its own, and return its function."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "constants.py").write_text("S = 5")

    def function(program, k, n, before=""):
        name = f"program_{next(NUMBERS)}"
        (tmp_path / f"{name}_beside.py").write_text(f"S = {k}")
        (tmp_path / f"{name}.py").write_text(before + PROGRAMS[program].format(K=k, N=n, M=f"{name}_beside"))
        importlib.invalidate_caches()
        return importlib.import_module(name).f

    return function


def digest(obj):
    return value_digest(obj, "the map")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_function_goes_by_what_it_reads(functions, program):
    function, rows = functions(program, 2, 3), np.ones(2)
    before = digest(function)
    assert digest(functions(program, 7, 3)) != before
    assert digest(functions(program, 2, 4, "import math  # comment\n\ndef unused(): pass\n")) == before
    for _ in range(2):
        getattr(function, "transform", function)(rows)
    assert digest(function) == before


IN_ANOTHER_PROCESS = """
import json, pickle, sys
from streamgda.data.sources.maps.digests import value_digest
for content in json.loads(sys.stdin.read()):
    print(value_digest(pickle.loads(bytes.fromhex(content)), "the map"))
"""

NOT_PICKLED = {  # by cloudpickle: locks, weak references, and what the body of a class reads
    *("a cached property", "single dispatch", "a class inside", "an import inside")
}


@pytest.mark.slow  # two processes, which import scikit-learn and pandas
def test_a_digest_is_the_same_in_every_process(functions, tmp_path):
    contents, digests = [], []
    programs = [program for program in PROGRAMS if program not in NOT_PICKLED]
    for program in programs:
        function = functions(program, 2, 3)
        name = [name for name in sys.modules if re.fullmatch(r"program_\d+", name)][-1]
        cloudpickle.register_pickle_by_value(sys.modules[name])
        digests.append(digest(function))
        contents.append(cloudpickle.dumps(function).hex())
    for seed in ("0", "1"):
        said = subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS],
            input=json.dumps(contents),
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        told = dict(zip(programs, said.stdout.split(), strict=True))
        assert told == dict(zip(programs, digests, strict=True))


def test_equal_values_have_equal_digests_whatever_they_look_like_in_memory(tmp_path):
    frame, rows = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}), np.arange(6.0).reshape(2, 3)
    split = pd.concat([frame[["a"]], frame[["b"]]], axis=1)  # the same columns in blocks of their own
    unsorted = sp.csr_array((np.ones(2), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    neighbours = KNeighborsTransformer().fit(np.arange(20.0)[:, np.newaxis])
    used = pickle.loads(pickle.dumps(neighbours))
    used.transform([[3.0]])
    shared = [0.5, "x"]
    np.save(tmp_path / "rows.npy", rows)
    for one, other in [
        (frame, split),
        (rows, np.asfortranarray(rows)),
        (rows, np.load(tmp_path / "rows.npy", mmap_mode="r")),
        (rows, np.vstack([rows, rows])[:2]),
        (frozenset([0, 8]), frozenset([8, 0])),
        (sp.csr_array([[1.0, 1.0]]), unsorted),
        (pa.array(["a", "b"]), pa.array(["z", "a", "b"])[1:]),
        (pa.chunked_array([[1], [2]]).combine_chunks(), pa.array([1, 2])),
        ([shared, shared], [list(shared), list(shared)]),
        (neighbours, used),
        (np.ma.array([1, 2], mask=[0, 1]), pickle.loads(pickle.dumps(np.ma.array([1, 2], mask=[0, 1])))),
    ]:
        assert digest(one) == digest(other), one


def test_values_that_look_alike_have_different_digests():
    values = [1, 1.0, True, "1", b"1", -1.0, 0.0, -0.0, None, "None", [1], (1,), [[1], 2], [1, [2]], {1: 2}]
    values += [{2: 1}, {1}, {"1"}, frozenset()]
    values += [{"a": 1, "b": 2}, {"b": 2, "a": 1}, np.ones(2), np.ones((2, 1)), np.ones(2, np.float32)]
    values += [np.array([1, 256], "<i4"), np.array([1, 256], ">i4"), np.int8(1), np.int16(1), np.log, np.log2]
    values += [np.random.RandomState(0), np.random.RandomState(1), pd.Series([1, 2]), pd.Series([1.0, 2.0])]
    values += [pd.Series([1, 2], name="a"), pd.Series([1, 2], index=[1, 2]), pd.Index([1, 2]), len, max]
    values += [np.ma.array([1, 2], mask=mask) for mask in ([0, 0], [0, 1])]
    assert len({digest(value) for value in values}) == len(values)


@pytest.mark.slow
@given(
    st.recursive(st.floats() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.tuples(inner))
)
def test_the_digest_of_a_copy_is_that_of_the_original(value):
    assert digest(pickle.loads(pickle.dumps(value))) == digest(value)


COUNT = 0
LOCK = threading.Lock()
LINES = iter([1, 2])
MODULE = types.ModuleType("config")
MODULE.lock = LOCK
HERE = Path()


def counting(rows):
    global COUNT  # noqa: PLW0603 - what is refused here
    COUNT += 1
    return rows * COUNT


def remembering():
    last = 0

    def function(rows):
        nonlocal last
        last += 1
        return rows * last

    return function


class Locked:
    def __init__(self):
        self.lock = LOCK

    def __call__(self, rows):
        return rows


def of_the_environment(rows):
    import os as system

    return rows * float(system.environ["SCALE"])


def of_a_file(rows):
    from numpy import loadtxt

    return rows * loadtxt("scale")


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (of_the_environment, "os.environ: what os._Environ tells"),
        (of_a_file, "numpy.loadtxt: what numpy.loadtxt tells"),
        (functools.partial(pd.read_csv, "scale"), "what pandas.*read_csv tells"),
        (lambda rows: rows * np.load("scale.npy"), "what numpy.load tells"),
        (lambda rows: rows * xr.open_dataset("scale.nc").a.values, "xr.open_dataset: what"),
        (lambda rows: rows * sqlite3.connect("scale").total_changes, "sqlite3.connect: what"),
        (lambda rows: rows * float(Path("scale").read_text()), "Path: what pathlib.Path tells"),
        (lambda rows: rows * importlib.import_module("scale").SCALE, "what importlib.import_module tells"),
        (counting, "COUNT, which it changes itself"),
        (remembering(), "last, which it changes itself"),
        (
            lambda rows: rows if LOCK.locked() else -rows,
            r"LOCK: <unlocked _thread.lock .* \(TypeError: cannot pickle",
        ),
        (lambda rows: rows * next(LINES), "LINES: <list_iterator .* changes when it is read"),
        (lambda rows: rows if MODULE.lock else -rows, "MODULE.lock: <unlocked"),
        (lambda rows: rows * float(os.environ["SCALE"]), "os.environ: what os._Environ tells"),
        (
            lambda rows: rows * float(subprocess.check_output(["cat", "scale"])),
            "what subprocess.check_output tells",
        ),
        (lambda rows: rows * np.memmap("scale")[0], "what numpy.memmap tells"),
        (lambda rows: rows * os.path.exists("scale"), "what genericpath.exists tells"),  # noqa: PTH110
        (lambda rows: rows * HERE.exists(), "HERE: what pathlib"),
        (lambda rows: rows * len(np.geterr()), "what numpy.geterr tells"),
        (lambda rows: rows * decimal.getcontext().prec, "decimal.getcontext: what"),
        (lambda rows: rows - time.time(), "what time.time tells"),
        (lambda rows: rows - datetime.now().year, "what .now tells"),
        (lambda rows: rows * float(open("scale").read()), "what io.open tells"),  # noqa: SIM115, PTH123
        (functools.partial(np.multiply, (n for n in range(3))), "<generator .* changes when it is read"),
        (np.frompyfunc(lambda x: x, 1, 1), "whose code cannot be read"),
        (Locked(), "LOCK: <unlocked"),
    ],
)
def test_what_has_no_value_is_refused_by_name(function, named):
    with pytest.raises(TypeError, match=f"^the map depends on .*{named}"):
        digest(function)


def test_the_version_of_a_library_counts(monkeypatch):
    import sklearn

    before, of_arrays = digest(KNeighborsTransformer), digest(np.log)
    monkeypatch.setattr(sklearn, "__version__", "99.0")
    _library_of.cache_clear()
    assert digest(KNeighborsTransformer) != before
    assert digest(np.log) == of_arrays
    _library_of.cache_clear()
