"""What is read of a state while another thread learns is of one moment, and no two threads wait for ever."""

import copy
import inspect
import operator
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from functools import singledispatch

import numpy as np
import pytest

from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    SubclassCenters,
    WindowedStatistics,
    load,
)
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.block import FoldRule
from streamgda.extensions.subclasses.sampled import SampledStatistics
from streamgda.statistics import locking
from streamgda.statistics.folded import FoldStatistics
from streamgda.statistics.locking import Locked
from tests.interrupted import until

FEATURES, SECONDS = 20, 0.02
NAMES = [f"x{j}" for j in range(FEATURES)]

# In each batch, classes a, b and c have 2, 4 and 6 rows: half of them lie 1 above the mean, half 1 below it.
PER_BATCH, MEANS = np.array([2, 4, 6]), np.array([1.0, 2.0, 4.0])
LABELS = np.repeat(["a", "b", "c"], PER_BATCH)
ROWS = np.repeat(MEANS, PER_BATCH)[:, None] + np.tile([1.0, -1.0], 6)[:, None] * np.ones(FEATURES)
GAPS = np.where((np.arange(12) % 6 > 3)[:, None] & (np.arange(FEATURES) < 2), np.nan, ROWS)
CENTERS = SubclassCenters({"c": np.array([[4.0], [99.0]]) * np.ones(FEATURES)}, np.ones(FEATURES))


def apart(state):
    state.rule = CENTERS
    return state


def of_folds():
    return FoldStatistics(ClassStatistics("diag", feature_names=NAMES), FoldRule(2))


KINDS = {
    "full": lambda: ClassStatistics(feature_names=NAMES),
    "tied": lambda: ClassStatistics("tied", feature_names=NAMES),
    "diag": lambda: ClassStatistics("diag", feature_names=NAMES),
    "fourth": lambda: ClassStatistics(feature_names=NAMES, fourth_moments=True),
    "exact": lambda: ExactClassStatistics(feature_names=NAMES),
    "complete": lambda: IncompleteStatistics(feature_names=NAMES),
    "gaps": lambda: IncompleteStatistics("diag", feature_names=NAMES),
    "subclasses": lambda: apart(ClassStatistics(feature_names=NAMES)),
    "window": lambda: WindowedStatistics(3, "diag", feature_names=NAMES),
    "folds": of_folds,
    "sampled": lambda: SampledStatistics(ClassStatistics("diag", feature_names=NAMES), 4),
}


def rows_for(state):
    return GAPS if isinstance(state, IncompleteStatistics) and state.covariance_type == "diag" else ROWS


def learn(state):
    if isinstance(state, WindowedStatistics):
        state.update(ROWS, LABELS)
    else:
        state.update_blocks(array_blocks(rows_for(state), LABELS))
    return state


def some(kind):
    return learn(learn(KINDS[kind]()))


@contextmanager
def learning(*works):
    """Threads that each do some work again and again, and that take turns as often as they can."""
    before, errors, ended = sys.getswitchinterval(), [], threading.Event()

    def run(work):
        try:
            while not ended.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        sys.setswitchinterval(before)
        ended.set()
        for thread in threads:
            thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    assert not errors, errors


# ---------------------------------------------------------------------- forks beside a thread that learns


def exit_code_of_fork(work, seconds=120):
    """How a fork of this process ends that does some work; None if it is not done after some seconds."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of Python 3.12, of threads
        child = os.fork()
    if not child:
        with suppress(BaseException):
            work()
            os._exit(0)
        os._exit(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := os.waitpid(child, os.WNOHANG))[0]:
            return os.waitstatus_to_exitcode(found[1])
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def learns_whole_batches(state):
    n_rows = state.n_rows
    assert n_rows
    assert n_rows % len(LABELS) == 0
    check(learn(state), some("full"))
    assert state.n_rows == n_rows + len(LABELS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_fork_beside_threads_that_learn_has_whole_states_and_goes_on():
    state, other = some("full"), some("full")
    with learning(lambda: learn(state), lambda: state.merge(other), lambda: learn(other)):
        assert exit_code_of_fork(lambda: learns_whole_batches(state)) == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
@pytest.mark.parametrize("kind", [QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis])
def test_forks_beside_threads_that_learn_and_predict_learn_and_predict(kind):
    X, y = np.random.default_rng(0).normal(size=(200, FEATURES)), np.arange(200) % 3
    model = kind().partial_fit(X, y)

    def work():
        n_rows = model.statistics_.n_rows
        assert n_rows % 200 == 0
        model.predict(X)
        model.partial_fit(X, y).predict(X)
        assert model.statistics_.n_rows == n_rows + 200

    with learning(lambda: model.partial_fit(X, y), lambda: model.predict(X)):
        assert [exit_code_of_fork(work) for _ in range(20)] == [0] * 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_fork_beside_a_lock_that_is_not_given_back_raises_at_once(monkeypatch):
    monkeypatch.setattr("streamgda.statistics.locking._PATIENCE", 0.05)
    state, other, held, ended = some("full"), some("full"), threading.Event(), threading.Event()

    def hold():
        with state.lock:
            held.set()
            ended.wait(240)

    def refused():
        learn(other)
        with pytest.raises(RuntimeError, match="fork while no thread learns"):
            learn(state)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    found = exit_code_of_fork(refused)
    ended.set()
    thread.join()
    assert found == 0
    learn(state)  # in this process, the locks are free again


# ---------------------------------------------------------------------- what is read is of whole batches


def check(result, quiet):
    """Check that a result is of whole batches: its sums are a multiple of those of other batches."""
    if isinstance(result, Locked):
        check_multiple(*([*sums_of(one.copy())] for one in (result, quiet)))
    elif isinstance(result, list | tuple):
        for ours, theirs in zip(result, quiet, strict=True):
            check(ours, theirs)
    elif isinstance(result, np.ndarray) and result.dtype.kind in "fi":
        check_multiple(result, quiet)


@singledispatch
def sums_of(state):
    """Sums of which each is that of a batch times the number of batches; of a copy of a state."""
    labelled = state._labelled
    yield labelled.counts
    for part in labelled.by_pattern.values() if state.missing != "raise" else [labelled]:
        moments = part.moments.rounded() if state.exact else part.moments
        yield from (
            part.counts,
            moments.weights,
            moments.scatter,
            moments.weights[:, None] * moments.rounded_means,
        )


@sums_of.register
def _(state: FoldStatistics):
    return sums_of(state.total())


@sums_of.register
def _(state: SampledStatistics):
    yield from sums_of(state.statistics)
    yield from (own.weights.sum() for own in state.samples.values())


@sums_of.register
def _(state: WindowedStatistics):
    yield [len(state)]
    yield from sums_of(state.statistics)


def check_multiple(ours, theirs):
    ours, theirs = (np.concatenate([np.ravel(each) for each in some]) for some in (ours, theirs))
    if (large := np.flatnonzero(np.abs(theirs) > 1e-9)).size:  # the rest is rounding
        ours, theirs = (each / each[large[0]] for each in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def saved(state, path):
    state.save(path / "state.parquet", overwrite=True)
    return (WindowedStatistics.load if isinstance(state, WindowedStatistics) else load)(
        path / "state.parquet"
    )


def added_in_place(state, other):
    other += state
    return other


# How methods that take arguments are called, of a state, another one like it, and a folder.
CALLS = {
    "__add__": lambda s, o, p: (s + o, o + s, s + s),
    "__eq__": lambda s, o, p: operator.eq(s, s) or pytest.fail("other than itself"),
    "__getitem__": lambda s, o, p: [s[fold] for fold in s.folds],
    "__getstate__": lambda s, o, p: (pickle.loads(pickle.dumps(s)), copy.copy(s), copy.deepcopy(s)),
    "__iadd__": lambda s, o, p: added_in_place(s, o),
    "__radd__": lambda s, o, p: sum([s, o]),
    "__sub__": lambda s, o, p: (s - s).n_rows,
    "absorbs": lambda s, o, p: s.absorbs(o) or pytest.fail("not its like"),
    "alike": lambda s, o, p: s.alike(o),
    "allclose": lambda s, o, p: s.allclose(s) or pytest.fail("other than itself"),
    "append": lambda s, o, p: s.append(learn(KINDS["diag"]())),
    "by_pattern": lambda s, o, p: [
        sums for _, part in s.by_pattern() for sums in (part.weights, part.counts)
    ],
    "moments_for": lambda s, o, p: s.moments_for().weights,
    "completed": lambda s, o, p: s.completed().weights,
    "decay": lambda s, o, p: s.decay(1.0),
    "drop_class": lambda s, o, p: s.copy().drop_class(s.classes[0].item()),
    "held_out": lambda s, o, p: [rest for _, rest in s.held_out()],
    "linear_map": lambda s, o, p: s.linear_map(np.eye(FEATURES)),
    "merge": lambda s, o, p: o.merge(s),
    "merged": lambda s, o, p: s.merged(s.folds),
    "narrowed": lambda s, o, p: s.narrowed(s.required),
    "of_classes": lambda s, o, p: s.of_classes(np.arange(3)),
    "simplest": lambda s, o, p: s.simplest().weights,
    "relabel": lambda s, o, p: s.relabel({label: label for label in s.classes.tolist()}),
    "save": lambda s, o, p: saved(s, p),
    "select": lambda s, o, p: s.select(NAMES),
    "state_of": lambda s, o, p: s.state_of(array_blocks(rows_for(s), LABELS)),
    "to_bytes": lambda s, o, p: len(s.to_bytes()) > 0,
    "to_columns": lambda s, o, p: s.from_columns(*s.to_columns()),
    "to_covariance_type": lambda s, o, p: s.to_covariance_type(
        s.covariance_type, fourth_moments=s.has_fourth_moments
    ),
    "update": lambda s, o, p: s.update(rows_for(s), LABELS) and None,
    "update_blocks": lambda s, o, p: s.update_blocks(array_blocks(rows_for(s), LABELS)),
    "in_schema": lambda s, o, p: s.in_schema(s.schema),
}
REFUSED = {  # with what every state of the kind refuses
    "decay": {"exact"},
    "drop_class": {"tied", "subclasses"},
    "linear_map": {"diag", "fourth", "complete", "gaps"},
    "relabel": {"subclasses"},
    "fourth_moments": {"gaps"},
}
# What makes a state of what is given, or says nothing of one, as class methods do.
UNREAD = {"joined", "__init__", "__new__", "__setstate__", "__reduce__", "__reduce_ex__", "__hash__"}


def called(name, state, other, path):
    """What a method gives, called without arguments if the table does not say with which."""
    return CALLS[name](state, other, path) if name in CALLS else getattr(state, name)()


def members(kind):
    state = KINDS[kind]()
    sort = type(state)
    own = {name for base in sort.__mro__ if base.__module__.startswith("streamgda") for name in vars(base)}
    methods = {n for n in own - UNREAD if not isinstance(inspect.getattr_static(sort, n), classmethod)}
    methods = {n for n in methods if callable(getattr(sort, n)) or isinstance(getattr(sort, n), property)}
    public = {n for n in methods if not n.startswith("_") or n.startswith("__")}
    return sorted(public | {n for n in vars(state) if not n.startswith("_")})


def cases():
    """Each method of each kind. Those that another kind defines, which comes before, are slow."""
    seen = set()
    for kind, make in KINDS.items():
        for name in members(kind):
            if kind not in REFUSED.get(name, ()):
                definition = inspect.getattr_static(type(make()), name, name)
                yield pytest.param(kind, name, marks=[pytest.mark.slow] if definition in seen else [])
                seen.add(definition)


@pytest.mark.parametrize(("kind", "name"), list(cases()))
def test_every_method_is_of_one_moment(kind, name, tmp_path):
    def call(state):
        if not callable(getattr(type(state), name, None)):
            return getattr(state, name)
        return called(name, state, some(kind), tmp_path)

    state, quiet = some(kind), call(some(kind))
    end = time.monotonic() + SECONDS
    with learning(lambda: learn(state)):
        while time.monotonic() < end:
            check(call(state), quiet)
            check(state, some(kind))


@pytest.mark.slow_cases("gaps", "exact", "fourth", "subclasses", "tied")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taken_out_of_a_state_does_not_change_with_later_rows(kind, tmp_path):
    methods = {name for name in members(kind) if callable(getattr(type(KINDS[kind]()), name, None))}
    for name in sorted(methods - {name for name in REFUSED if kind in REFUSED[name]}):
        state = some(kind)
        result = called(name, state, some(kind), tmp_path)
        before = contents(result)
        learn(state)
        assert result is state or contents(result) == before, name


def contents(result):
    if isinstance(result, Locked):
        return [np.asarray(sums).tobytes() for sums in sums_of(result.copy())]
    if isinstance(result, list | tuple):
        return [contents(one) for one in result]
    return result.tobytes() if isinstance(result, np.ndarray) and result.dtype != object else None


# ---------------------------------------------------------------------- no two threads wait for each other


def taken_out(a, b):
    with suppress(ValueError):  # if there are more rows in b by now
        return a - b


BOTH = {
    "__add__": lambda a, b: a + b,
    "__eq__": lambda a, b: a == b,
    "__getstate__": lambda a, b: (pickle.dumps((a, b)), copy.deepcopy([a, b])),
    "__iadd__": added_in_place,
    "__sub__": taken_out,
    "allclose": lambda a, b: a.allclose(b),
    "digest": lambda a, b: (a.digest(), b.digest()),
    "merge": lambda a, b: a.merge(b),
}


@pytest.mark.slow_cases("gaps", "complete", "fourth", "subclasses", "tied", "diag")
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in BOTH if hasattr(type(KINDS[kind]()), name)]
)
def test_no_two_threads_wait_for_each_other(kind, name):
    a, b = some(kind), some(kind)
    with learning(lambda: BOTH[name](a, b), lambda: BOTH[name](b, a), lambda: learn(a)):
        time.sleep(SECONDS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_what_a_signal_raises_while_a_fork_waits_is_raised_after_it(number, monkeypatch):
    class ToldError(Exception):
        """What the handler raises."""

    def tell(*_):
        raise ToldError

    def hold():
        with state.lock:
            is_held.set()
            is_told.wait()

    def send():
        until(lambda: locking._busy)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(locking, "_PATIENCE", 120.0)
    state, is_held, is_told = ClassStatistics(), threading.Event(), threading.Event()
    holding, before = threading.Thread(target=hold), signal.signal(number, tell)
    holding.start()
    is_held.wait()
    sending, child, start = threading.Thread(target=send), None, time.monotonic()
    sending.start()
    try:
        with pytest.raises(ToldError):
            child = os.fork()
            if child == 0:
                os._exit(0)
            time.sleep(60)
        if child:  # None if the error came before it was set
            os.waitpid(child, 0)
        assert time.monotonic() - start < 60
        assert signal.getsignal(number) is tell
    finally:
        signal.signal(number, before)
        is_told.set()
        holding.join()
        sending.join()
