"""Work that is stopped in the middle: by a signal, by a disk that is full, or at any line."""

import gc
import itertools
import linecache
import multiprocessing
import os
import resource
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import dask
import pytest

import streamgda
from streamgda.jobs.passes.accumulate import accumulate_splits

PACKAGE = str(Path(streamgda.__file__).parent)


def until(condition, seconds=300):
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def let_pass(method, n, mark=os.devnull):
    """A method that does its work n times, and then makes a file and waits for the end of its process."""
    calls = itertools.count()

    def first_calls(*arguments):
        if next(calls) >= n:
            Path(mark).touch()
            threading.Event().wait()
        return method(*arguments)

    return first_calls


def interrupt(how, begun, work, *arguments):
    """Do some work in another process, and send that a signal as soon as the work has begun."""
    process = multiprocessing.get_context("forkserver").Process(target=work, args=arguments)
    process.start()
    deadline = time.monotonic() + 300
    while not begun() and time.monotonic() < deadline:
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, how)
    process.join(300)
    assert process.exitcode not in (0, None)


@contextmanager
def full_disk(n_bytes):
    """Let no file grow beyond some bytes: the kernel refuses it as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def interrupted_at(n, operate):
    """Raise KeyboardInterrupt before the n-th line of the package that an operation runs.

    Returns the place of this line, or None if the operation ended before it came there.
    """
    left, place = n, None

    def of_call(frame, *_):
        if place is not None or not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        last = frame.f_lineno

        def of_line(frame, event, _):
            nonlocal left, place, last
            if event == "line" and place is None:
                # Python never stops between the last call of a `with` and the release of its lock.
                text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
                is_release, last = frame.f_lineno < last and text.startswith("with "), frame.f_lineno
                left -= not is_release
                if not left and not is_release:
                    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                    raise KeyboardInterrupt
            return of_line

        return of_line

    before = sys.gettrace()
    gc.disable()  # or it may close a generator of the package, where Python swallows the interruption
    sys.settrace(of_call)
    try:
        operate()
    except KeyboardInterrupt:
        pass
    else:
        assert place is None, f"the interruption at {place} was swallowed"
    finally:
        sys.settrace(before)
        gc.enable()
    return place


def check_interruptions(make, operate, look, *, step=1):
    """Interrupt an operation at each of its lines, or every `step` lines; it must be done, or undone.

    Parameters
    ----------
    make : callable
        Makes an object.
    operate : callable
        Changes the object. After an interruption that undid it, it is called again, and must then work.
    look : callable
        Returns what can be seen of the object, which is compared by ``==``.

    Returns
    -------
    int
        How many lines the operation has, or at most `step` more.
    """
    before, done = look(make()), make()
    operate(done)
    after = look(done)
    assert before != after
    n, place = 1, ""
    while place is not None:
        one = make()
        place = interrupted_at(n, lambda one=one: operate(one))
        found = look(one)
        assert found == after or (place and found == before), f"half done when interrupted at {place}"
        if found == before:
            operate(one)
            assert look(one) == after, f"other than without the interruption at {place}"
        n += step
    return n - step


def wait_for_threads():
    """Wait for the threads of a pass that has ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("streamgda-readers"):
            thread.join(60)
            assert not thread.is_alive()


@contextmanager
def ended_by(name, module, monkeypatch):
    """Let a pass end at a file while threads read those behind it, which go on after the end."""
    begun, is_over = threading.Event(), threading.Event()

    def read(splits, empty):
        (split,) = splits
        found = split.path.rpartition("/")[2]
        if found == name:
            assert begun.wait(60)
            raise ValueError("bad rows")
        if found > name:
            begun.set()
            assert is_over.wait(60)
        return accumulate_splits([split], empty)

    with monkeypatch.context() as patched, dask.config.set(num_workers=4):
        patched.setattr(f"{module}.accumulate_splits", read)
        with pytest.raises(ValueError, match="bad rows"):
            yield
        is_over.set()
        wait_for_threads()
