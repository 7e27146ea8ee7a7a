"""How many requests ledgers, models and passes of small files take in an object store."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.object_store_stub import ObjectStore
from streamgda import Evaluation, GaussianNB, StatisticsLedger, accumulate, evaluate, load, scan_parquet
from tests.data.storage.stores import arrow, fsspec

N_FILES = 12
PLACES = {
    "folder": "rows/data",
    "glob": "rows/data/*.parquet",
    "list": [f"rows/data/{i:02}.parquet" for i in range(N_FILES)],
}
LIBRARIES = {"pyarrow": arrow, "s3fs": fsspec}


@pytest.fixture
def store(tmp_path):
    (tmp_path / "rows" / "data").mkdir(parents=True)
    for i in range(N_FILES):
        put(tmp_path, i)
    with ObjectStore(tmp_path) as store:
        yield store


def put(folder, i, n_rows=5):
    table = pa.table({"x": np.arange(float(n_rows)) + i, "y": np.arange(n_rows) % 2})
    pq.write_table(table, folder / "rows" / "data" / f"{i:02}.parquet", use_dictionary=False)


def requests(store, call):
    """GETs, HEADs and LISTs."""
    store.reset()
    call()
    counts = store.counts()
    return counts["GET"], counts["HEAD"], counts["LIST"]


@pytest.mark.slow_cases("s3fs", "list")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_refresh_lists_once_and_reads_what_is_new(store, tmp_path, library, place):
    filesystem = LIBRARIES[library](store)
    source = scan_parquet(PLACES[place], "y", filesystem=filesystem)
    ledger = StatisticsLedger("rows/ledger", filesystem=filesystem)
    ledger.refresh(source, scheduler="synchronous")
    # The ledger, the data and the entries are listed, and the list of files is read.
    assert requests(store, lambda: ledger.refresh(source)) == (1, 1, 3)
    assert requests(store, lambda: ledger.refresh(source, dry_run=True)) == (1, 1, 3)
    assert requests(store, lambda: ledger.files) == (1, 1, 0)
    assert requests(store, ledger.statistics) == (1, 1, 0)

    put(tmp_path, 3, n_rows=7)
    # The list of files, the file, and the two tables of entries.
    n_gets, n_heads, n_lists = requests(store, lambda: ledger.refresh(source, scheduler="synchronous"))
    assert (n_gets, n_lists) == (4, 4)
    assert n_heads <= 8
    assert ledger.statistics().n_rows == 5 * N_FILES + 2


@pytest.mark.slow_cases("s3fs")
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_saved_is_loaded_by_one_look_and_one_read(store, library):
    filesystem = LIBRARIES[library](store)
    source = scan_parquet("rows/data", "y", filesystem=filesystem)
    model = GaussianNB().fit(source)
    for saved, load_it in ((model, load), (evaluate(model, source), Evaluation.load)):
        saved.save("rows/saved.parquet", filesystem=filesystem)
        assert requests(store, partial(load_it, "rows/saved.parquet", filesystem=filesystem)) == (1, 1, 0)


@pytest.mark.slow_cases("s3fs")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_small_file_is_read_once(store, tmp_path, library):
    source = scan_parquet("rows/data", "y", filesystem=LIBRARIES[library](store))
    n_gets, n_heads, n_lists = requests(store, lambda: accumulate(source))
    # The first file was read when it was scanned. Of each file, the version is seen before and after.
    assert (n_gets, n_heads, n_lists) == (N_FILES - 1, 2 * N_FILES, 0)
    put(tmp_path, 0, n_rows=6)
    assert accumulate(source).n_rows == 5 * N_FILES + 1
