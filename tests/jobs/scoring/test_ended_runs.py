"""After a run has ended, by whatever end, nothing of it writes: its threads and tasks may still compute."""

import itertools
import pathlib
import signal
import sys
import threading
import time
from contextlib import suppress

import dask
import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from streamgda import LinearDiscriminantAnalysis, predict_dataset
from streamgda.jobs.scoring.outputs import zarr as zarr_output
from streamgda.jobs.scoring.outputs.base import Output
from streamgda.jobs.scoring.outputs.parquet import ParquetOutput
from streamgda.jobs.scoring.outputs.zarr import ZarrOutput
from tests.interrupted import until, wait_for_threads
from tests.jobs.scoring.conftest import NAMES, check, read

OUTPUTS = {"out": ParquetOutput, "out.zarr": ZarrOutput}
INTERRUPTED = threading.Event()
STEPS = {"write": None, "put": (Output, "put"), "rename": (pathlib.Path, "replace")}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """So that a Zarr group has several parts, some of several chunks."""
    monkeypatch.setattr(zarr_output, "_MOST_ROWS_OF_CHUNK", 64)


@pytest.fixture
def other(model):
    return LinearDiscriminantAnalysis.from_statistics(model.statistics_)


def contents(out):
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def noted_interrupts():
    def note(*_):
        INTERRUPTED.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_main():
    """Send Ctrl-C until Python has seen it: just before a thread waits, it does not wake it."""
    INTERRUPTED.clear()
    while not INTERRUPTED.is_set():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        INTERRUPTED.wait(1)


class Run:
    """A run that ends in its first part, when the threads of others have come to a step and wait there."""

    def __init__(self, monkeypatch, output, how, step):
        self.how, self.is_on = how, True
        self.waiting, self.gone_on = threading.Event(), threading.Event()
        self.waited, self.left = [], []
        monkeypatch.setattr(output, "write", self.ending(output.write, waits=step == "write"))
        if STEPS[step]:
            owner, name = STEPS[step]
            monkeypatch.setattr(owner, name, self.waiting_before(getattr(owner, name)))

    def ending(self, write, waits):
        others = self.waiting_before(write) if waits else write

        def write_or_end(output, part, *arguments):
            if not self.is_on or part.name not in ("part-00000.parquet", "0"):
                return others(output, part, *arguments)
            assert self.waiting.wait(300)
            if self.how == "error":
                raise ValueError("the first part cannot be scored")
            interrupt_main()
            assert self.gone_on.wait(300)
            return write(output, part, *arguments)

        return write_or_end

    def waiting_before(self, step):
        def wait_and_step(*arguments, **options):
            if not self.is_on or threading.current_thread() is threading.main_thread():
                return step(*arguments, **options)
            self.waited.append(step)
            self.waiting.set()
            try:
                assert self.gone_on.wait(300)
                return step(*arguments, **options)
            finally:
                self.left.append(step)

        return wait_and_step

    def ends(self, *arguments, **options):
        with dask.config.set(num_workers=4), pytest.raises((ValueError, KeyboardInterrupt)):
            predict_dataset(*arguments, scheduler="threads", **options)
        self.is_on = False

    def goes_on(self):
        """Let its threads do what they waited to do, and wait for them."""
        self.gone_on.set()
        wait_for_threads()
        until(lambda: len(self.left) >= len(self.waited))


@pytest.mark.slow_cases("interrupt", "error-put", "error-rename-out.zarr")
@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", ["error", "interrupt"])
def test_what_goes_on_of_an_ended_run_changes_nothing_of_the_next(
    model, other, source, whole, tmp_path, monkeypatch, out, how, step
):
    run = Run(monkeypatch, OUTPUTS[out], how, step)
    run.ends(model, source, tmp_path / out, keep=["row"])
    assert not list((tmp_path / out).glob(".predict_dataset.[rl]*"))
    predict_dataset(other, source, tmp_path / out, scheduler="synchronous")
    before = contents(tmp_path / out)
    run.goes_on()
    assert contents(tmp_path / out) == before
    assert not list((tmp_path / out).glob(".*"))
    check(read(tmp_path / out), other, whole[NAMES])


@pytest.mark.parametrize("out", OUTPUTS)
def test_where_there_are_no_locks_a_put_looks_for_its_run(model, other, source, whole, monkeypatch, out):
    memory = fsspec.filesystem("memory")
    run = Run(monkeypatch, OUTPUTS[out], "error", "put")
    run.ends(model, source, f"/ended/{out}", filesystem=memory)
    predict_dataset(other, source, f"/ended/{out}", filesystem=memory, scheduler="synchronous")
    run.goes_on()
    check(read(f"memory://ended/{out}"), other, whole[NAMES])
    assert not [name for name in memory.find("/ended") if "/.predict" in name]


@pytest.mark.parametrize("out", OUTPUTS)
def test_a_filesystem_that_makes_folders_makes_none_of_an_ended_run(
    model, other, source, whole, tmp_path, monkeypatch, out
):
    run, makes_folders = Run(monkeypatch, OUTPUTS[out], "error", "put"), LocalFileSystem(auto_mkdir=True)
    run.ends(model, source, tmp_path / out, filesystem=makes_folders)
    predict_dataset(other, source, tmp_path / out, filesystem=makes_folders, scheduler="synchronous")
    run.goes_on()
    assert not list((tmp_path / out).glob(".*"))
    check(read(tmp_path / out), other, whole[NAMES])


class Ended:
    """Ends a run at the n-th call of a function of the package in a thread that it has."""

    def __init__(self, n, how):
        self.calls, self.n, self.how = itertools.count(1), n, how
        self.is_over = threading.Event()

    def __call__(self, frame, event, _):
        is_ours = "/streamgda/jobs/scoring/" in (name := frame.f_code.co_filename) or "filesystems" in name
        if event == "call" and is_ours and next(self.calls) == self.n:
            if self.how == "error":
                raise ValueError("ended")
            interrupt_main()
            self.is_over.wait(60)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("out", OUTPUTS)
def test_a_run_that_ends_at_any_call_leaves_the_next_alone(model, other, source, whole, tmp_path, out):
    for n, how in zip(range(20, 400, 47), itertools.cycle(["error", "interrupt"]), strict=False):
        ended = Ended(n, how)
        threading.setprofile(ended)
        try:
            with (
                dask.config.set(num_workers=4),
                suppress(ValueError, OSError, RuntimeError, KeyboardInterrupt),
            ):
                predict_dataset(model, source, tmp_path / out, keep=["row"], scheduler="threads")
        finally:
            threading.setprofile(None)
            ended.n = -1
        assert not list((tmp_path / out).glob(".predict_dataset.[rl]*"))
        ended.is_over.set()
        predict_dataset(other, source, tmp_path / out, scheduler="synchronous")
        before = contents(tmp_path / out)
        wait_for_threads()
        assert contents(tmp_path / out) == before
        check(read(tmp_path / out), other, whole[NAMES])
    assert sys.getprofile() is None


def hold_writes(flags, how):
    """In a worker: the first to write ends the run when another waits; that goes on when it is told to."""
    for output in (ParquetOutput, ZarrOutput):
        write = output.write

        def held(self, part, *arguments, write=write):
            try:
                (flags / "first-is-there").touch(exist_ok=False)
            except FileExistsError:
                (flags / "other-is-there").touch()
            else:
                until((flags / "other-is-there").exists)
                if how == "error":
                    raise ValueError("the first part cannot be scored")
            until((flags / "go-on").exists)
            try:
                return write(self, part, *arguments)
            finally:
                (flags / f"left-{time.monotonic_ns()}").touch()

        output.write = held


@pytest.mark.slow
@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("how", ["error", "cancelled"])
def test_what_goes_on_in_a_cluster_changes_nothing(model, other, source, whole, tmp_path, how, out):
    from distributed import CancelledError, Client, Future, LocalCluster

    flags = tmp_path / "flags"
    flags.mkdir()
    # In threads of one worker, the first two parts are begun at once, however the scheduler places tasks.
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        client.run(hold_writes, flags, how)

        def cancel():
            until((flags / "other-is-there").exists)
            client.cancel([Future(key, client) for key in list(client.futures)], force=True)

        try:
            if how == "cancelled":
                threading.Thread(target=cancel).start()
            with pytest.raises((ValueError, CancelledError)):
                predict_dataset(model, source, tmp_path / out, keep=["row"], scheduler=client)
            predict_dataset(other, source, tmp_path / out, scheduler="synchronous")
            before = contents(tmp_path / out)
        finally:
            (flags / "go-on").touch()
        until(lambda: list(flags.glob("left-*")))
        time.sleep(0.2)
        assert contents(tmp_path / out) == before
        check(read(tmp_path / out), other, whole[NAMES])
