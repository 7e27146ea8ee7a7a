"""An outage of a storage is waited for, and is never called damage, wherever it happens."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from bench.object_store_stub import ObjectStore
from streamgda import (
    Evaluation,
    GaussianNB,
    StatisticsLedger,
    accumulate,
    evaluate,
    load,
    predict_dataset,
    scan_parquet,
)
from streamgda.data.storage import retries
from tests.data.storage import stores

FAULTS = {
    "503": {"fail_every": 1},
    "a body that ends early": {"truncate_every": 1},
    "a body that is shorter than asked for": {"shorten_every": 1},
    "a connection that is closed": {"stall_every": 1, "stall": 0.01},
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.001)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with rows, a ledger of them, a model and an evaluation."""
    folder = tmp_path_factory.mktemp("store")
    rng = np.random.default_rng(0)
    (folder / "rows" / "data").mkdir(parents=True)
    for i in range(2):
        table = pa.table({"x": rng.normal(size=40), "z": rng.normal(size=40), "y": np.arange(40) % 2})
        pq.write_table(table, folder / "rows" / "data" / f"{i}.parquet", use_dictionary=False)
    source = scan_parquet(folder / "rows" / "data", "y")
    model = GaussianNB().fit(source)
    model.save(folder / "rows" / "model.parquet")
    evaluate(model, source).save(folder / "rows" / "evaluation.parquet")
    return folder


@pytest.fixture
def store(filled, tmp_path):
    shutil.copytree(filled, tmp_path / "store")
    with ObjectStore(tmp_path / "store") as store:
        yield store


def arrow(store):
    """Its client does not ask again by itself."""
    return stores.arrow(store, retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1))


def fsspec(store):
    filesystem = stores.fsspec(store, config_kwargs={"retries": {"total_max_attempts": 1}})
    filesystem.retries = 1
    return filesystem


def refreshed(filesystem):
    source = scan_parquet("rows/data", "y", filesystem=filesystem)
    return StatisticsLedger("rows/ledger", filesystem=filesystem).refresh(source, scheduler="synchronous")


def predicted(filesystem):
    source = scan_parquet("rows/data", "y", filesystem=filesystem)
    model = load("rows/model.parquet", filesystem=filesystem)
    predict_dataset(model, source, "rows/out", filesystem=filesystem, scheduler="synchronous")


OPERATIONS = {
    "refresh": refreshed,
    "statistics": lambda filesystem: StatisticsLedger("rows/ledger", filesystem=filesystem).statistics(),
    "load": lambda filesystem: load("rows/model.parquet", filesystem=filesystem),
    "evaluation": lambda filesystem: Evaluation.load("rows/evaluation.parquet", filesystem=filesystem),
    "accumulate": lambda filesystem: accumulate(scan_parquet("rows/data", "y", filesystem=filesystem)),
    "predict": predicted,
}
READS = "GET HEAD LIST"


@pytest.mark.slow_cases("load-a body", "load-a conn")
@pytest.mark.slow_cases("fsspec", "predict", "accumulate", "statistics", "refresh-a", "evaluation-a")
@pytest.mark.filterwarnings("ignore:storage failed:UserWarning")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("make", [arrow, fsspec])
def test_any_read_may_fail_once_and_all_may_fail_for_ever(store, make, operation, fault):
    call, filesystem = OPERATIONS[operation], make(store)
    if operation in {"statistics", "refresh", "predict"}:
        refreshed(filesystem)
        predicted(filesystem)  # what follows is resumed
    store.reset()
    call(filesystem)
    counts = store.counts()
    shown = "GET" if fault.startswith("a body") else READS
    n_reads = sum(counts[name] for name in shown.split())
    assert n_reads
    for n in range(1, n_reads + 1):
        store.set(**{**FAULTS[fault], next(iter(FAULTS[fault])): n}, most_faults=1, only=shown)
        call(make(store))
    store.set(**FAULTS[fault], most_faults=-1, only=shown)
    with pytest.raises(OSError, match=r"rows/") as raised:
        call(make(store))
    assert "damage" not in str(raised.value)
    assert "delete" not in str(raised.value)
