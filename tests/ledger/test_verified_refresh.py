"""A refresh that verifies sees a file that was changed in place, with its size and its time restored."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from streamgda import StatisticsLedger, accumulate, scan_parquet
from tests.logged_filesystem import NotingHandler

NAMES = ("0.parquet", "1.parquet", "2.parquet")


def scan(folder, **options):
    return scan_parquet(folder, "kind", **options)


def write(path, shift, **options):
    """Write a file that has the same size and time whatever its values."""
    u = np.random.default_rng(len(path.name)).normal(size=200) + shift
    table = pa.table({"u": u, "kind": ["ant", "bee"] * 100})
    pq.write_table(table, path, compression="none", use_dictionary=["kind"], **options)
    os.utime(path, (1.7e9, 1.7e9))


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    for day, name in enumerate(NAMES):
        write(tmp_path / "data" / name, day)
    return tmp_path / "data"


@pytest.fixture
def ledger(tmp_path, data):
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(scan(data))
    return ledger


def change_in_place(path, shift=9.0, **options):
    before = path.stat()
    write(path, shift, **options)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def holds_what_is_there(ledger, data):
    return ledger.statistics().allclose(accumulate(scan(data)), rtol=1e-12)


def forget_footers(ledger):
    """Make the manifest one that was written before ledgers kept digests of footers."""
    path = Path(ledger.path, "manifest.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["footer"]), path)


@pytest.mark.slow
def test_a_change_in_place_is_seen_by_the_footer(data, ledger):
    """There and back again; each time the entry is another one."""
    for shift in (9.0, 1.0, 9.0):
        held = ledger.statistics()
        change_in_place(data / "1.parquet", shift)
        assert ledger.refresh(scan(data)).reused == NAMES
        assert ledger.statistics() == held
        dry = ledger.refresh(scan(data), verify=True, dry_run=True)
        report = ledger.refresh(scan(data), verify=True)
        assert report.changed == dry.changed == ("1.parquet",)
        assert (report.reused, report.rows, report.rows_held) == (("0.parquet", "2.parquet"), 200, 600)
        assert {drift.rows for drift in report.drift} == {100}
        assert holds_what_is_there(ledger, data)
        for verify in (False, True):
            assert ledger.refresh(scan(data), verify=verify).reused == NAMES
        assert len(list(Path(ledger.path, "entries").iterdir())) == len(
            set(ledger.files["entry"].to_pylist())
        )


def test_where_nothing_has_changed_the_footers_alone_are_read(data, tmp_path, ledger):
    filesystem = pafs.PyFileSystem(NotingHandler(tmp_path / "log"))
    for name in NAMES:
        values = np.arange(50_000.0) + int(name[0])
        pq.write_table(pa.table({"u": values, "kind": ["ant"] * 50_000}), data / name)
    ledger.refresh(scan(data))
    source, before = scan(str(data), filesystem=filesystem), ledger.statistics()
    (tmp_path / "log").write_text("")
    assert ledger.refresh(source, verify=True).reused == NAMES
    reads = filesystem.handler.reads
    assert {Path(path).name for path, _, _ in reads} == set(NAMES)
    assert all(start >= (data / "0.parquet").stat().st_size - (1 << 16) for _, start, _ in reads)
    assert ledger.statistics() == before


def test_an_old_manifest_without_footers_goes_on_and_gets_them(data, ledger):
    forget_footers(ledger)
    assert ledger.files["footer"].null_count == 3
    assert ledger.refresh(scan(data)).reused == NAMES
    assert ledger.files["footer"].null_count == 3
    assert ledger.refresh(scan(data), verify=True).reused == NAMES
    assert len(set(ledger.files["footer"].to_pylist()) - {None}) == 3
    change_in_place(data / "2.parquet")
    assert ledger.refresh(scan(data), verify=True).changed == ("2.parquet",)
    assert holds_what_is_there(ledger, data)


def test_a_ledger_of_format_1_is_verified_without_reading_rows(tmp_path):
    shutil.copytree(Path(__file__).parents[1] / "data" / "format-1-ledgers", tmp_path / "home")
    for day in (1, 2):  # the times at which it was made: 2 and 3 January 2026
        stamp = 1_767_225_600 + day * 86_400
        os.utime(tmp_path / "home" / "data" / f"day={day}" / "0.parquet", (stamp, stamp))
    ledger = StatisticsLedger(tmp_path / "home" / "whole")
    report = ledger.refresh(scan(tmp_path / "home" / "data", features=["u", "v"]), verify=True)
    assert (len(report.reused), report.read) == (2, ())
    assert ledger.files["footer"].null_count == 0


def test_a_file_that_was_damaged_in_place_is_named_or_skipped(data, ledger):
    held, content = ledger.statistics(), (data / "1.parquet").read_bytes()
    (data / "1.parquet").write_bytes(content[:-20] + bytes(20))
    os.utime(data / "1.parquet", (1.7e9, 1.7e9))
    with pytest.raises(ValueError, match=r"1\.parquet cannot be read as Parquet"):
        ledger.refresh(scan(data), verify=True)
    report = ledger.refresh(scan(data), verify=True, on_error="skip")
    assert (list(report.skipped), report.changed, report.reused) == (["1.parquet"], (), NAMES)
    assert ledger.statistics() == held


def test_a_footer_that_stays_the_same_tells_nothing(data, tmp_path):
    """Without statistics of columns, other values of the same size have the same footer."""
    for day, name in enumerate(NAMES):
        write(data / name, day, write_statistics=False)
    ledger = StatisticsLedger(tmp_path / "plain")
    with pytest.warns(UserWarning, match="seems to be a copy of"):
        ledger.refresh(scan(data))
    change_in_place(data / "1.parquet", write_statistics=False)
    assert ledger.refresh(scan(data), verify=True).reused == NAMES
