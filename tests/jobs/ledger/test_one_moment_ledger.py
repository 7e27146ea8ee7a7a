"""Ledgers that threads share, or whose changes are interrupted: what is read is of one refresh."""

import pickle
import shutil
import time
from collections import Counter
from contextlib import suppress
from itertools import count, cycle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import StatisticsLedger, scan_parquet
from tests.interrupted import check_interruptions
from tests.statistics.test_one_moment import LABELS, PER_BATCH, ROWS, learning

pytestmark = pytest.mark.filterwarnings("ignore:.* seem to be copies of:UserWarning")  # which they are

SECONDS = 0.1
BATCH = len(LABELS)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Three versions of a dataset: small files, larger files, and these beside one that lies far off."""
    folder = tmp_path_factory.mktemp("data")
    for version, n_batches in (("small", 1), ("large", 2), ("far", 2)):
        for n in range(3):
            put(folder / version, n, n_batches)
    put(folder / "far", 3, 2, 99.0)
    return [scan_parquet(folder / version, "kind") for version in ("small", "large", "far")]


def put(folder, n, n_batches, shift=0.0):
    rows = np.tile(ROWS[:, :3] + shift + n * 1e-9, (n_batches, 1))  # no file is a copy of another
    columns = dict(zip("uvw", rows.T, strict=True))
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({**columns, "kind": list(LABELS) * n_batches}), folder / f"{n}.parquet")


def refreshed(ledger, source):
    return ledger.refresh(source, max_shift=9, scheduler="synchronous")


# ---------------------------------------------------------------------- beside other threads


def whole(state):
    """The rows of statistics, which must be whole batches of files of one version."""
    n_batches = state.n_rows // BATCH
    assert n_batches in {3, 6, 8}
    assert state.counts.tolist() == state.weights.tolist() == (n_batches * PER_BATCH).tolist()
    if n_batches < 8:  # the file that lies far off does not count
        np.testing.assert_allclose(state.covariance(), np.ones((3, 3, 3)), rtol=1e-12)
    return state.n_rows


def whole_table(table):
    rows = table.column("rows").to_pylist()
    assert rows in ([BATCH] * 3, [2 * BATCH] * 3, [2 * BATCH] * 4)
    return sum(rows)


def of_one_moment(ledger):
    before, n_rows, after = ledger.files, whole(ledger.statistics()), ledger.files
    if before == after:
        assert n_rows == whole_table(before)


CALLS = {
    "__getstate__": lambda ledger, _: of_one_moment(pickle.loads(pickle.dumps(ledger))),
    "__repr__": lambda ledger, _: repr(ledger),
    "files": lambda ledger, _: whole_table(ledger.files),
    "fold_statistics": lambda ledger, _: whole(ledger.fold_statistics().total()),
    "read_options": lambda ledger, _: (
        ledger.read_options["features"] == ["u", "v", "w"] or pytest.fail("others")
    ),
    "refresh": refreshed,
    "statistics": lambda ledger, _: of_one_moment(ledger),
}


def members():
    own = {name for name in vars(StatisticsLedger) if not name.startswith("_")}
    return sorted(own | {"__getstate__", "__repr__"})


@pytest.mark.slow  # a ledger is refreshed some ten times
@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("name", members())
def test_every_method_is_of_one_refresh(name, is_same, sources, tmp_path):
    """Beside a thread that refreshes the same ledger, or another one of the same folder."""
    folds = 2 if name == "fold_statistics" else None
    ledger = StatisticsLedger(tmp_path / "ledger", folds=folds)
    other = ledger if is_same else StatisticsLedger(tmp_path / "ledger", folds=folds)
    refreshed(ledger, sources[0])
    versions, outcomes = cycle(sources), Counter()

    def unless_busy(call, *arguments):
        with suppress(RuntimeError):  # as the other thread refreshes the ledger now
            call(*arguments)
            return 1
        time.sleep(0.001)
        return 0

    def refresh():
        outcomes["refreshed"] += unless_busy(refreshed, ledger, next(versions))
        of_one_moment(ledger)

    end = time.monotonic() + SECONDS
    with learning(refresh):
        while time.monotonic() < end or not all(outcomes[who] for who in ("refreshed", "called")):
            assert time.monotonic() < end + 300
            outcomes["called"] += unless_busy(CALLS[name], other, sources[0])
    for source in (sources[0], sources[2]):
        refreshed(other, source)
        of_one_moment(ledger)


# ---------------------------------------------------------------------- interrupted at any line


def look(ledger):
    try:
        state, files = ledger.statistics(), ledger.files
    except ValueError:  # before the first refresh
        return None
    return state.digest(), files.column("path").to_pylist()


@pytest.mark.slow  # a ledger is copied and changed some hundred times
@pytest.mark.parametrize(("is_first", "folds"), [(False, None), (True, 2)])
def test_a_refresh_that_is_interrupted_is_done_or_undone(is_first, folds, sources, tmp_path):
    ledger, numbers = StatisticsLedger(tmp_path / "ledger", folds=folds), count()
    if not is_first:
        for source in (sources[0], sources[2]):
            refreshed(ledger, source)

    def copied():
        path = tmp_path / str(next(numbers))
        if not is_first:
            shutil.copytree(ledger.path, path)
        return StatisticsLedger(path, folds=folds)

    def operate(one):
        refreshed(one, sources[2 if is_first else 1])

    assert check_interruptions(copied, operate, look, step=1997) > 5 * 1997
