"""Passes after a fork, and passes that are interrupted while the storage does not answer."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from streamgda.data.storage.threads import DaemonThreads

# In a process of its own, since the threads of the clusters of other tests do not fork.
AFTER_A_FORK = """
import os, signal, sys, threading
import fsspec
from streamgda import GaussianNB, accumulate, evaluate, predict_dataset, scan_parquet
folder = sys.argv[1]
fsspec.filesystem("memory").put(folder + "/", "/data/", recursive=True)

def everything(out):
    source = scan_parquet(folder, "y")
    states = [accumulate(source, rows_per_task=1)]
    states.append(accumulate(scan_parquet("memory://data", "y"), rows_per_task=1))
    model = GaussianNB().fit(source)
    assert predict_dataset(model, source, out).n_rows == evaluate(model, source).n_rows
    return states

before = everything(f"{folder}.before-{sys.argv[2]}")
stop = threading.Event()

def go_on():
    while not stop.is_set():
        accumulate(scan_parquet("memory://data", "y"), rows_per_task=1)

busy = threading.Thread(target=go_on)
if sys.argv[2] == "busy":
    busy.start()
for k in range(2):
    if (child := os.fork()) == 0:
        signal.alarm(120)
        os._exit(0 if everything(f"{folder}.after-{sys.argv[2]}-{k}") == before else 3)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
"""


@pytest.mark.slow  # it imports everything anew
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.parametrize("parent", ["idle", "busy"])
def test_a_forked_process_makes_passes(folder, parent):
    command = [sys.executable, "-W", "ignore", "-c", AFTER_A_FORK, folder, parent]
    subprocess.run(command, check=True, timeout=300)


FORK_BESIDE_A_LOCK = """
import os, sys, threading, time
from streamgda.jobs.passes.cluster import _submitting
from streamgda.data.storage.footers import DECODED

lock = {"footers": DECODED._lock, "submission": _submitting}[sys.argv[1]]
taken = threading.Event()

def work():
    with lock:
        taken.set()
        time.sleep(0.3)

threading.Thread(target=work).start()
taken.wait()
if (child := os.fork()) == 0:
    os._exit(0 if lock.acquire(timeout=1) else 3)
assert os.waitpid(child, 0)[1] == 0
with lock:
    pass
"""


@pytest.mark.slow  # it imports everything anew
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.parametrize("lock", ["footers", "submission"])
def test_a_forked_process_waits_for_no_thread_of_its_parent(lock):
    command = [sys.executable, "-W", "ignore", "-c", FORK_BESIDE_A_LOCK, lock]
    subprocess.run(command, check=True, timeout=300)


INTERRUPTED = """
import sys, time
import pyarrow.fs as pafs
from tests.logged_filesystem import NotingHandler
from streamgda import accumulate, scan_parquet

class Silent(NotingHandler):
    n_opened = 0

    def open_input_file(self, path):
        self.n_opened += 1
        if self.n_opened > int(sys.argv[2]):
            print("silent", flush=True)
            time.sleep(600)
        return super().open_input_file(path)

source = scan_parquet(sys.argv[1], "y", filesystem=pafs.PyFileSystem(Silent(sys.argv[1] + ".log")))
accumulate(source, rows_per_task=1, scheduler="threads")
"""


@pytest.mark.slow  # it imports everything anew
@pytest.mark.parametrize("n_answers", [2, 7], ids=["planning", "reading"])
def test_a_script_ends_at_an_interrupt_though_the_storage_does_not_answer(folder, n_answers):
    command = [sys.executable, "-c", INTERRUPTED, folder, str(n_answers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:
        assert script.stdout.readline().startswith("silent")  # of one thread or several
        script.send_signal(signal.SIGINT)
        _, errors = script.communicate(timeout=120)  # of ten minutes, on a busy machine
    # At exit, Arrow sometimes ends Python by an error of its own, if a thread is in a filesystem of Python.
    assert "KeyboardInterrupt" in errors.splitlines()


ENDED_BY_AN_ERROR = """
import sys
from streamgda import accumulate, scan
accumulate(scan(sys.argv[1], "y"), scheduler="threads")
"""


@pytest.mark.slow  # it imports everything anew
def test_a_script_ends_at_an_error_though_threads_read_other_files(tmp_path):
    rows = "".join(f"{k % 7},{k % 2}\n" for k in range(200_000))
    for k in range(4):
        (tmp_path / f"{k}.csv").write_text("x,y\n" + ("nan,0\n" if k == 0 else "") + rows)
    command = [sys.executable, "-c", ENDED_BY_AN_ERROR, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "0.csv, row 0: feature 'x' is NaN" in done.stderr.splitlines()[-1]


ENDED_WHILE_ARROW_READS = """
import sys, threading, time
import pyarrow as pa
from pyarrow.dataset import CsvFileFormat, JsonFileFormat
from streamgda.data.sources.files.decoding import decode_file

class Slow:
    closed = False
    def read(self, n_bytes):
        time.sleep(0.05)
        return b"".join(b'{"x": %d}\\n' % k for k in range(n_bytes // 20))

def read():
    batches = decode_file(formats[sys.argv[1]], pa.PythonFile(Slow(), mode="r"), "rows").batches
    next(batches)
    begun.set()
    if sys.argv[2] == "beside":
        for _ in batches:
            pass
        print("complete")

formats, begun = {"csv": CsvFileFormat(), "json": JsonFileFormat()}, threading.Event()
if sys.argv[2] == "beside":
    threading.Thread(target=read, daemon=True).start()
    begun.wait()
else:
    read()
sys.exit(3)
"""


@pytest.mark.slow  # it imports everything anew
@pytest.mark.parametrize("where", ["alone", "beside"])
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_process_ends_though_arrow_reads_ahead(kind, where):
    """A thread that reads beside it does not take what it has read for the whole file."""
    command = [sys.executable, "-c", ENDED_WHILE_ARROW_READS, kind, where]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


# ---------------------------------------------------------------------- the threads


def test_daemon_threads_run_some_calls_at_once_and_cancel_what_has_not_begun():
    is_over = threading.Event()
    with DaemonThreads(2, "test") as threads:
        assert list(threads.map(lambda k: k**2, range(20))) == [k**2 for k in range(20)]
        with pytest.raises(ZeroDivisionError):
            threads.submit(lambda: 1 / 0).result()
        last = [threads.submit(is_over.wait, 60) for _ in range(5)]
    is_over.set()
    assert [one.cancelled() for one in last[2:]] == [True] * 3
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(int)
