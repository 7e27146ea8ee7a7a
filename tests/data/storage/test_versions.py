"""What tells versions of a file apart, in stores that say different things of it."""

import os
import zipfile
from datetime import UTC, datetime
from email.utils import formatdate

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import StatisticsLedger, accumulate, scan_parquet
from streamgda.data.storage import versions
from streamgda.data.storage.versions import version_of_info
from tests.data.storage.web import WebServer

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def put(path, first):
    """A file whose size does not depend on its rows."""
    rows = pa.table({"x": np.array([first, 2, 3, 4], np.int64), "y": [0, 1, 0, 1]})
    pq.write_table(rows, path, compression="none", use_dictionary=False)
    os.utime(path, (first * 1_000.0, first * 1_000.0))


# What the stores of fsspec say of a file, in two versions.
SAID = {
    "http": [
        {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"},
        {"Last-Modified": "Thu, 01 Jan 2026 00:00:01 GMT"},
    ],
    "http with a hash": [{"Content-MD5": "a"}, {"Content-MD5": "b"}],
    "ftp": [{"modify": "20260101000000", "unix.mode": "0644"}, {"modify": "20260101000001"}],
    "webhdfs": [{"modificationTime": 1, "accessTime": 5}, {"modificationTime": 2, "accessTime": 5}],
    "github": [{"sha": "a", "mode": "100644"}, {"sha": "b", "mode": "100644"}],
    "git": [{"hex": "a"}, {"hex": "b"}],
    "zip": [{"CRC": 1, "date_time": (2026, 1, 1, 0, 0, 0)}, {"CRC": 2, "date_time": (2026, 1, 1, 0, 0, 0)}],
    "sftp": [{"mtime": TIME, "time": TIME}, {"mtime": TIME.replace(second=1), "time": TIME}],
    "memory": [{"created": TIME}, {"created": TIME.replace(second=1)}],
    "s3": [{"ETag": "a", "LastModified": TIME}, {"ETag": "b", "LastModified": TIME}],
    "another": [{"revision": 1, "accessed": TIME}, {"revision": 2, "accessed": TIME}],
}
CHANGING = {
    "accessTime": 9,
    "time": TIME.replace(second=9),
    "accessed": TIME.replace(second=9),
    "url": "h?sig=2",
}


@pytest.mark.parametrize("store", SAID)
def test_versions_of_one_size_are_told_apart_by_what_the_store_says(store):
    one, other = ({"name": "x", "size": 9, "type": "file", "url": "h?sig=1", **said} for said in SAID[store])
    assert version_of_info(one) != version_of_info(other)
    assert version_of_info(one) == version_of_info(dict(one))
    later = {key: CHANGING.get(key, value) for key, value in one.items()}
    assert version_of_info(later) == version_of_info(one)  # it was read meanwhile


def by_time(path):
    return {"Last-Modified": formatdate(path.stat().st_mtime, usegmt=True)}


def test_a_web_server_without_etags_tells_versions_by_their_times(tmp_path):
    put(tmp_path / "1.parquet", 1)
    with WebServer(tmp_path) as server:
        server.version_of = by_time
        source = scan_parquet(f"http://{server.host}/1.parquet", "y")
        ledger, kept = StatisticsLedger(tmp_path / "ledger"), tmp_path / "kept"
        before = accumulate(source, checkpoint=kept)
        assert [len(ledger.refresh(source).read) for _ in range(2)] == [1, 0]
        put(tmp_path / "1.parquet", 7)
        source = scan_parquet(f"http://{server.host}/1.parquet", "y")
        after = accumulate(source, checkpoint=kept)
        assert (before.means[0, 0], after.means[0, 0]) == (2, 5)
        assert len(ledger.refresh(source).read) == 1
        assert ledger.statistics() == after


def test_a_version_of_size_alone_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "_warned_of", [])
    put(tmp_path / "1.parquet", 1)
    with WebServer(tmp_path) as server:
        server.version_of = lambda path: {}
        source = scan_parquet(f"http://{server.host}/1.parquet", "y")
        accumulate(source)  # nothing is found again
        with pytest.warns(UserWarning, match="1.parquet: its store says the size of a file and nothing else"):
            accumulate(source, checkpoint=tmp_path / "kept")
        StatisticsLedger(tmp_path / "ledger").refresh(source)


def test_a_footer_of_before_is_not_used_where_no_version_tells_that_the_file_has_changed(tmp_path):
    put(tmp_path / "1.parquet", 1)
    with WebServer(tmp_path) as server:
        server.version_of = lambda path: {}
        source = scan_parquet(f"http://{server.host}/1.parquet", "y", filters=[("x", ">", 5)])
        put(
            tmp_path / "1.parquet", 7
        )  # of the same size; the statistics of the old footer leave all rows out
        assert accumulate(source).n_rows == 1


def test_members_of_archives_are_told_apart(tmp_path):
    for first in (1, 7):
        put(tmp_path / "1.parquet", first)
        with zipfile.ZipFile(tmp_path / "rows.zip", "w") as archive:
            archive.writestr(zipfile.ZipInfo("1.parquet"), (tmp_path / "1.parquet").read_bytes())
        inside = fsspec.filesystem("zip", fo=str(tmp_path / "rows.zip"))
        state = accumulate(
            scan_parquet("1.parquet", "y", filesystem=inside),
            checkpoint=tmp_path / "kept",
            scheduler="synchronous",
        )
        assert state.means[0, 0] == (first + 3) / 2
