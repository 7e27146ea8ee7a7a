"""A ledger reads what is new and nothing else, and holds what a fit from scratch would."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
import traceback
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from streamgda import ClassStatistics, StatisticsLedger, accumulate, drift, load, scan_arrow, scan_parquet
from streamgda.ledger import folder as entries
from streamgda.storage import documents, fetching
from streamgda.storage.filesystems import Storage
from tests.interrupted import full_disk
from tests.logged_filesystem import NotingHandler
from tests.strategies import KINDS

RNG = np.random.default_rng(0)
DAY = timedelta(days=1)
FOOTER = 1 << 16  # what Arrow reads of the end of a file in one go
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def rows(n=40, shift=0.0, labels=("ant", "bee")):
    y = RNG.choice(labels, size=n)
    return pa.table({"u": RNG.normal(size=n) + shift, "v": RNG.normal(size=n) + (y == "bee"), "kind": y})


def put(path, table, day=0):
    """Write a file as if on some day."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    stamp = (EPOCH + day * DAY).timestamp()
    os.utime(path, (stamp, stamp))


def scan(folder, **options):
    return scan_parquet(folder, "kind", **options)


@pytest.fixture
def data(tmp_path):
    for day in range(4):
        put(tmp_path / "data" / f"{day}.parquet", rows(), day)
    return tmp_path / "data"


@pytest.fixture
def ledger(tmp_path):
    return StatisticsLedger(tmp_path / "ledger")


# ---------------------------------------------------------------------- night after night


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_night_after_night_it_holds_what_a_fit_from_scratch_does(tmp_path, kind, exact):
    """Files come, are rewritten and go; only those are read, and the state is that of all that is there."""
    data, ledger = tmp_path / "data", StatisticsLedger(tmp_path / "ledger", kind, exact=exact)
    for night in range(4 if exact else 10):
        for n in range(3):
            put(data / f"part={night}" / f"{n}.parquet", rows(50, night), night)
        changed = gone = ()
        if night >= 2:
            changed, gone = (f"part={night - 1}/0.parquet",), (f"part={night - 2}/1.parquet",)
            put(data / changed[0], rows(30, -night), night)
            (data / gone[0]).unlink()
        report = ledger.refresh(scan(data))
        assert report.added == tuple(f"part={night}/{n}.parquet" for n in range(3))
        assert (report.changed, report.dropped, report.reread) == (changed, gone, ())
        scratch = accumulate(scan(data), kind, exact=exact)
        assert ledger.statistics().allclose(scratch, rtol=1e-12)
        assert report.rows_held == scratch.n_rows == ledger.statistics().n_rows
        assert report.rows == 150 + 30 * len(changed)
    if exact:
        ledger.compact()
        assert ledger.statistics() == scratch
        with pytest.raises(ValueError, match="cannot decay"):
            ledger.statistics(half_life=DAY)


def test_columns_may_come_in_another_order(data, ledger):
    """As when the first file is another one, whose order all take that is not asked for."""
    ledger.refresh(scan(data))
    put(data / "-1.parquet", rows().select(["v", "kind", "u"]), 5)
    source = scan(data)
    assert source.feature_names == ("v", "u")
    assert ledger.refresh(source, dry_run=True).read == ("-1.parquet",)
    assert ledger.refresh(source).read == ("-1.parquet",)
    assert ledger.statistics().feature_names == ("u", "v")
    assert ledger.statistics().allclose(accumulate(scan(data, features=["u", "v"])), rtol=1e-12)
    with pytest.raises(ValueError, match=r"with features=\['u', 'v'\], and here it is features=\['v'\]"):
        ledger.refresh(scan(data, features=["v"]))


def test_the_history_leaves_no_trace(data, tmp_path, ledger):
    """The same files give the same bits, however the ledger came to hold them."""
    first = data / "0.parquet"
    original = first.read_bytes()
    ledger.refresh(scan(data))
    put(first, rows(500, 1e9), 9)
    ledger.refresh(scan(data))
    first.unlink()
    ledger.refresh(scan(data))
    first.write_bytes(original)
    ledger.refresh(scan(data))
    fresh = StatisticsLedger(tmp_path / "fresh")
    fresh.refresh(scan(data))
    assert ledger.statistics() == fresh.statistics()


def test_a_night_without_change_reads_no_data(data, tmp_path, ledger):
    """A scan looks at the end of the first file, where its schema is; nothing else is opened."""
    put(data / "0.parquet", rows(20_000))
    handler = NotingHandler(tmp_path / "log")
    filesystem = pafs.PyFileSystem(handler)
    ledger.refresh(scan(str(data), filesystem=filesystem))
    assert {path for path, _, _ in handler.reads} == {str(data / f"{n}.parquet") for n in range(4)}
    (tmp_path / "log").write_text("")
    source = scan(str(data), filesystem=filesystem)
    before = {path: path.stat().st_mtime_ns for path in Path(ledger.path).rglob("*.parquet")}
    report = ledger.refresh(source)
    size = (data / "0.parquet").stat().st_size
    assert size > 5 * FOOTER
    assert {path for path, _, _ in handler.reads} == {str(data / "0.parquet")}
    assert all(start >= size - FOOTER for _, start, _ in handler.reads)
    assert (len(report.reused), report.read, report.rows) == (4, (), 0)
    assert {path: path.stat().st_mtime_ns for path in Path(ledger.path).rglob("*.parquet")} == before


def test_a_dry_run_says_and_does_nothing(data, ledger):
    report = ledger.refresh(scan(data), dry_run=True)
    assert len(report.added) == 4
    assert "would read 4 files (4 new, 0 changed), reused 0, dropped 0" in str(report)
    assert not Path(ledger.path).exists()
    ledger.refresh(scan(data))
    put(data / "1.parquet", rows(), 8)
    (data / "2.parquet").unlink()
    report = ledger.refresh(scan(data), dry_run=True)
    assert (report.changed, report.dropped, len(report.reused)) == (("1.parquet",), ("2.parquet",), 2)
    assert ledger.files.num_rows == 4


def test_a_source_that_was_made_before_sees_what_came_after(data, ledger):
    source = scan(data)
    ledger.refresh(source)
    put(data / "9.parquet", rows(), 9)
    assert ledger.refresh(source).added == ("9.parquet",)


@pytest.mark.parametrize("where", ["file", "glob", "list"])
def test_files_globs_and_lists_are_named_in_full(data, ledger, where):
    path = {"file": data / "0.parquet", "glob": data / "[01].parquet", "list": [data / "0.parquet"]}[where]
    ledger.refresh(scan(path))
    assert ledger.files["path"].to_pylist()[0] == str(data / "0.parquet")
    assert not ledger.refresh(scan(path)).read


@pytest.mark.parametrize("scheduler", ["threads", "distributed"])
def test_every_scheduler_gives_the_same_ledger(data, tmp_path, scheduler, request, capsys):
    here = StatisticsLedger(tmp_path / "here")
    here.refresh(scan(data), scheduler="synchronous")
    there = StatisticsLedger(tmp_path / "there")
    client = request.getfixturevalue("client") if scheduler == "distributed" else scheduler
    there.refresh(scan(data), scheduler=client, progress=True)
    assert "160/160" in capsys.readouterr().err.replace(" ", "").replace(".0", "")
    assert there.statistics() == here.statistics()
    assert there.files.drop_columns(["modified"]).equals(here.files.drop_columns(["modified"]))


def test_files_that_filters_rule_out_are_no_part_of_it(tmp_path, ledger):
    for part in range(3):
        put(tmp_path / "data" / f"part={part}" / "1.parquet", rows())
    source = scan(tmp_path / "data", features=["u", "v"], filters=[("part", ">", 0), ("u", "<", 0.5)])
    assert len(ledger.refresh(source).read) == 2
    assert ledger.statistics().allclose(accumulate(source), rtol=1e-12)


def test_files_without_rows_are_held_and_dropped_rows_counted(data, ledger):
    put(data / "empty.parquet", rows(0))
    put(
        data / "holes.parquet",
        pa.table({"u": [1.0, None, 3.0], "v": [1.0, 1.0, 2.0], "kind": ["a", "a", "b"]}),
    )
    source = scan(data, missing="drop")
    ledger.refresh(source)
    assert not ledger.refresh(source).read
    assert ledger.statistics().n_dropped == 1
    assert ledger.statistics().allclose(accumulate(source), rtol=1e-12)
    table = ledger.files.to_pydict()
    held = dict(zip(table["path"], zip(table["rows"], table["dropped"], strict=True), strict=True))
    assert (held["empty.parquet"], held["holes.parquet"]) == ((0, 0), (2, 1))


# ---------------------------------------------------------------------- the report


def test_the_report_says_how_far_the_new_data_lies(tmp_path, ledger):
    """Against the definitions, by SciPy's determinants and inverses."""
    before, after = rows(3000), rows(1000, 0.5, ("ant", "bee", "cat"))
    put(tmp_path / "data" / "0.parquet", before)
    ledger.refresh(scan(tmp_path / "data"))
    put(tmp_path / "data" / "1.parquet", after)
    report = ledger.refresh(scan(tmp_path / "data"))
    assert report.new_classes == ("cat",)
    assert [of_class.label for of_class in report.drift] == ["ant", "bee"]
    for of_class in report.drift:
        old, new = (_gaussian(table, of_class.label) for table in (before, after))
        np.testing.assert_allclose(of_class.shift, (new[0] - old[0]) / np.sqrt(np.diag(old[1])), rtol=1e-9)
        assert of_class.divergence == pytest.approx(_kl(old, new) + _kl(new, old), rel=1e-9)
        assert of_class.prior_before == pytest.approx(np.mean(before["kind"].to_numpy() == of_class.label))
        assert of_class.prior == pytest.approx(np.mean(after["kind"].to_numpy() == of_class.label))
    frame = report.to_pandas()
    assert frame.loc["ant", "feature"] == "u"
    assert frame.loc["ant", "shift"] == pytest.approx(0.5, abs=0.2)
    lines = str(report).splitlines()
    assert lines[0] == "read 1 file (1 new, 0 changed), reused 1, dropped 0"
    assert lines[1:3] == ["1,000 rows read, 4,000 held", "new classes: cat"]
    assert "divergence" in lines[3]


def _gaussian(table, label):
    frame = table.to_pandas()
    of_class = frame[frame["kind"] == label][["u", "v"]].to_numpy()
    return of_class.mean(axis=0), np.cov(of_class.T, bias=True)


def _kl(p, q):
    gap, inverse = q[0] - p[0], np.linalg.inv(q[1])
    logs = np.linalg.slogdet(q[1])[1] - np.linalg.slogdet(p[1])[1]
    return (np.trace(inverse @ p[1]) - len(gap) + gap @ inverse @ gap + logs) / 2


@pytest.mark.parametrize("total", ["kept", "lost"])
def test_rows_that_are_read_again_are_not_new(data, ledger, total):
    """The files of a lost table are read again; their rows have been seen, and count once ever after."""
    ledger.refresh(scan(data))
    put(data / "4.parquet", rows(30), 4)
    ledger.refresh(scan(data))
    Path(ledger.path, "entries", ledger.files["entry"].to_pylist()[0]).unlink()
    if total == "lost":
        Path(ledger.path, "total.parquet").unlink()
    report = ledger.refresh(scan(data))
    assert report.reread == tuple(f"{n}.parquet" for n in range(4))
    assert (report.rows, report.drift, report.new_classes) == (160, (), ())
    put(data / "5.parquet", rows(50, 0.5), 5)
    before = accumulate(scan([data / f"{n}.parquet" for n in range(5)]))
    report = ledger.refresh(scan(data))
    expected = drift(before, accumulate(scan(data / "5.parquet"))).drift
    for found, due in zip(report.drift, expected, strict=True):
        assert (found.rows, found.prior_before) == (due.rows, due.prior_before)
        np.testing.assert_allclose(found.shift, due.shift, rtol=1e-9)
    assert load(Path(ledger.path, "total.parquet")).n_rows == 240


def test_a_total_that_counted_rows_twice_is_not_believed(data, ledger):
    """Version 0.1 before its release wrote such totals."""
    ledger.refresh(scan(data))
    total = Path(ledger.path, "total.parquet")
    table, twice = pq.read_table(total), load(total)
    (twice + twice).save(total, overwrite=True)
    written = pq.read_table(total).replace_schema_metadata(table.schema.metadata)
    pq.write_table(written, total)
    put(data / "4.parquet", rows(50), 4)
    ledger.refresh(scan(data))
    assert load(total).n_rows == 210


# ---------------------------------------------------------------------- some of it


@pytest.fixture
def by_region(tmp_path, ledger):
    for day in range(6):
        region = "north" if day % 2 else "south"
        put(tmp_path / "data" / f"region={region}" / f"day={day}" / "1.parquet", rows(20 + day), day)
    ledger.refresh(scan(tmp_path / "data", features=["u", "v"]))
    return tmp_path / "data"


@pytest.mark.parametrize(
    "where",
    ["region=north/*", [("region", "=", "north")], [[("day", "in", [1, 3, 5])]], pc.field("rows") % 2 == 1]
    if hasattr(pc.field("rows"), "__mod__")
    else ["region=north/*", [("region", "=", "north")], [("day", "in", [1, 3, 5])]],
)
def test_some_entries_by_path_or_partition(by_region, ledger, where):
    north = accumulate(scan(by_region, features=["u", "v"], filters=[("region", "=", "north")]))
    assert ledger.statistics(where=where).allclose(north, rtol=1e-12)


def test_some_entries_by_time_and_all_by_age(by_region, ledger):
    parts = [
        accumulate(scan(by_region, features=["u", "v"], filters=[("day", "=", day)])) for day in range(6)
    ]
    assert ledger.statistics(since=EPOCH + 4 * DAY).allclose(parts[4] + parts[5], rtol=1e-12)
    decayed = sum(part.decay(0.5 ** ((5 - day) / 2)) for day, part in enumerate(parts))
    assert ledger.statistics(half_life=2 * DAY).allclose(decayed, rtol=1e-9)


def test_a_file_that_is_dated_in_the_future_is_as_old_as_now(tmp_path, ledger):
    now = datetime.now(tz=UTC)
    for name, date in (("old", now - 2 * DAY), ("new", now - DAY), ("future", now + 36_500 * DAY)):
        put(tmp_path / "data" / f"{name}.parquet", rows(40), (date - EPOCH) / DAY)
    ledger.refresh(scan(tmp_path / "data"))
    assert ledger.statistics(half_life=DAY).weights.sum() == pytest.approx(40 * (1 + 1 / 2 + 1 / 4), rel=1e-3)
    held = ledger.statistics(half_life=DAY, where="*[wd].parquet").weights.sum()
    assert held == pytest.approx(40 * (1 / 2 + 1), rel=1e-3)


@pytest.mark.slow_cases("choice1", "choice2", "choice4")
@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        ({"since": "2026-01-01"}, TypeError, "a time is needed, such as .*'2026-01-01'"),
        ({"since": EPOCH.date()}, TypeError, "a time is needed"),
        ({"where": 5}, ValueError, "where: 5 is neither a pattern"),
        ({"where": [("region", "=")]}, ValueError, "where: .* is neither"),
        ({"where": [("planet", "=", "mars")]}, ValueError, "where: .*planet.{0,400}$"),  # in one line
        ({"where": [("rows", "=", 1 << 64)]}, ValueError, "where: .* is neither"),
        ({"where": "region=west/*"}, ValueError, "the ledger in .* holds no file that is chosen, of 6 .*l$"),
    ],
)
def test_what_cannot_choose_entries(by_region, ledger, choice, error, message):
    with pytest.raises(error, match=message):
        ledger.statistics(**choice)


def test_a_ledger_among_the_files_that_it_keeps_up_with(data):
    with pytest.raises(ValueError, match="lies in the folder of the dataset"):
        StatisticsLedger(data / "ledger").refresh(scan(data))
    assert not (data / "ledger").exists()
    hidden = StatisticsLedger(data / "_ledger")
    for expected in (4, 0):
        assert len(hidden.refresh(scan(data)).added) == expected


def test_a_foreign_file_under_the_name_of_an_entry(data, ledger):
    ledger.refresh(scan(data))
    (entry, *_) = ledger.files["entry"].to_pylist()
    Path(ledger.path, "manifest.parquet").unlink()
    accumulate(scan(data)).save(Path(ledger.path, "entries", entry), overwrite=True)
    with pytest.raises(ValueError, match=f"{entry} is no entry of a ledger; delete the file"):
        ledger.refresh(scan(data))


def test_a_key_of_numbers_may_become_one_of_names(tmp_path, ledger):
    put(tmp_path / "data" / "region=1" / "0.parquet", rows(10))
    ledger.refresh(scan(tmp_path / "data", features=["u", "v"]))
    put(tmp_path / "data" / "region=north" / "0.parquet", rows(20))
    ledger.refresh(scan(tmp_path / "data", features=["u", "v"]))
    assert ledger.files["region"].to_pylist() == ["1", "north"]
    assert ledger.statistics(where=[("region", "=", "north")]).n_rows == 20


def test_labels_of_folders_that_become_text_are_read_again(tmp_path, ledger):
    """Whole numbers, as long as all the folders' names are; then text, zeros in front and all."""
    data = tmp_path / "data"

    def refresh():
        source = scan_parquet(data, "label", features=["u", "v"])
        report = ledger.refresh(source, dry_run=True)
        assert ledger.refresh(source).read == report.read
        assert ledger.statistics() == accumulate(source)
        return report, ledger.statistics().classes.tolist()

    for name in ("01", "02"):
        put(data / f"label={name}" / "0.parquet", rows(10))
    assert refresh()[1] == [1, 2]
    put(data / "label=x" / "0.parquet", rows(10))
    report, labels = refresh()
    assert (report.added, len(report.reread), labels) == (("label=x/0.parquet",), 2, ["01", "02", "x"])
    assert not refresh()[0].read
    shutil.rmtree(data / "label=x")
    report, labels = refresh()
    assert (len(report.reread), labels) == (2, [1, 2])


# ---------------------------------------------------------------------- tables of entries


def tables(ledger):
    return sorted(path.name for path in Path(ledger.path, "entries").iterdir())


def named(ledger):
    return sorted(set(ledger.files["entry"].to_pylist()))


def test_compact_writes_one_table_with_the_same_bits(by_region, ledger):
    for day in (7, 8):
        put(by_region / "region=north" / f"day={day}" / "1.parquet", rows(20), day)
        ledger.refresh(scan(by_region, features=["u", "v"]))
    assert len(tables(ledger)) == 3
    whole, some = ledger.statistics(), ledger.statistics(where="region=north/*")
    assert ledger.compact() == len(tables(ledger)) == 1
    assert (ledger.statistics(), ledger.statistics(where="region=north/*")) == (whole, some)
    assert not ledger.refresh(scan(by_region, features=["u", "v"])).read
    assert (ledger.compact(), tables(ledger)) == (1, named(ledger))


@pytest.mark.slow
def test_tables_stay_few_and_most_of_each_is_used(data, ledger):
    """Small tables are joined, and one of which most files have changed is written anew."""
    for night in range(20):
        put(data / f"{night:02}.parquet", rows(5), night)
        ledger.refresh(scan(data))
        assert tables(ledger) == named(ledger)
        assert len(tables(ledger)) <= 17
    assert len(tables(ledger)) < 10
    ledger.compact()
    for night in range(15):
        put(data / f"{night:02}.parquet", rows(6), 30)
    ledger.refresh(scan(data))
    assert sum(int(name[33:-8]) for name in tables(ledger)) < 2 * 24
    assert tables(ledger) == named(ledger)
    assert ledger.statistics().allclose(accumulate(scan(data)), rtol=1e-12)


@pytest.mark.slow
def test_large_tables_are_not_written_again_and_again(data, ledger, monkeypatch):
    monkeypatch.setattr("streamgda.ledger.entries.TABLE_BYTES", 400)
    monkeypatch.setattr("streamgda.ledger.ledger.TABLE_BYTES", 400)
    for n in range(20):
        put(data / f"{n}.parquet", rows(9), n)
    ledger.refresh(scan(data))
    before = tables(ledger)
    assert len(before) > 17
    put(data / "99.parquet", rows(9), 9)
    ledger.refresh(scan(data))
    assert len(set(tables(ledger)) - set(before)) == 1
    assert ledger.statistics() == fresh_statistics(data, ledger)


def fresh_statistics(data, ledger):
    fresh = StatisticsLedger(f"{ledger.path}-fresh")
    fresh.refresh(scan(data))
    return fresh.statistics()


@pytest.mark.slow_cases("tied", "full")
@pytest.mark.parametrize("kind", KINDS)
def test_states_of_every_sort_share_a_ledger(tmp_path, kind):
    """With labels of one kind, weights or none, dropped rows, empty files, and one class or more."""
    data, ledger = tmp_path / "data", StatisticsLedger(tmp_path / "ledger", kind)
    holes = pa.table({"u": [1.0, None, 3.0], "v": [1.0, 1.0, 2.0], "kind": ["a", "a", "b"]})
    for n, table in enumerate(
        [rows(0), rows(9), holes, rows(1), rows(7, labels=("long name", "b")), rows(4)]
    ):
        weights = np.ones(len(table)) if n % 2 else RNG.random(len(table))
        put(data / f"{n}.parquet", table.append_column("w", pa.array(weights)), n)
    source = scan(data, weight="w", missing="drop")
    ledger.refresh(source)
    parts = [accumulate(scan(path, weight="w", missing="drop"), kind) for path in sorted(data.iterdir())[1:]]
    assert ledger.statistics() == sum(parts)
    assert ledger.statistics(where="2.parquet") == parts[1]
    assert not ledger.refresh(source).read


@pytest.mark.slow_cases("tied", "full-labels1", "diag")
@pytest.mark.parametrize("labels", [("ant", "bee", "a long name"), (3, 1, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_states_that_are_merged_at_once_have_the_bits_of_one_by_one(tmp_path, kind, labels):
    """Whichever classes they have, also new ones, and whichever tables they lie in."""
    data, ledger = tmp_path / "data", StatisticsLedger(tmp_path / "ledger", kind)
    for every in ({0, 3, 6, 9}, {*range(18)} - {0, 3, 6, 9}):  # whose files lie between each other
        for n in every:
            y = RNG.choice(labels[: 1 + n // 4], size=1 + n % 5)
            put(data / f"{n:02}.parquet", pa.table({"u": RNG.normal(1e6, size=len(y)), "kind": y}))
        ledger.refresh(scan(data))
    assert len(tables(ledger)) == 2
    parts = [accumulate(scan(path), kind) for path in sorted(data.iterdir())]
    assert ledger.statistics().digest() == sum(parts).digest()


# ---------------------------------------------------------------------- open tables


def test_sql_reads_the_whole_ledger(data, ledger):
    """Tables also hold files that have changed, and the manifest says which rows count."""
    import duckdb

    ledger.refresh(scan(data))
    put(data / "1.parquet", rows(30), 9)
    ledger.refresh(scan(data))
    held = duckdb.sql(f"select path, rows from '{ledger.path}/manifest.parquet' order by path").fetchall()
    assert held == [(f"{n}.parquet", 30 if n == 1 else 40) for n in range(4)]
    query = f"""
        select label, sum(count) from read_parquet('{ledger.path}/entries/*.parquet', filename=true) entry
        join '{ledger.path}/manifest.parquet' file on entry.path = file.path
            and parse_filename(entry.filename) = file.entry
        where status = 'held' group by label order by label
    """
    state = ledger.statistics()
    assert duckdb.sql(query).fetchall() == list(zip(state.classes, state.counts, strict=True))


# ---------------------------------------------------------------------- format 1, for ever


@pytest.mark.parametrize(
    ("name", "filters", "scatter"),
    [
        ("whole", None, [[0.421875, 0.625], [0.625, 1.0]]),
        ("filtered", [("u", "<", 0.75)], [[0.03125, 0], [0, 0]]),
    ],
)
def test_a_ledger_of_format_1_goes_on(old_ledgers, name, filters, scatter):
    """Its entries are known, with the manifest and without it, and are written anew by the first refresh."""
    ledger = StatisticsLedger(old_ledgers / name)
    source = scan(old_ledgers / "data", features=["u", "v"], filters=filters)
    before = ledger.statistics()
    np.testing.assert_allclose(before.scatter[0], scatter, rtol=1e-12)
    shutil.copytree(ledger.path, f"{ledger.path}-lost")
    assert len(ledger.refresh(source).reused) == 2
    assert (len(tables(ledger)), tables(ledger)) == (1, named(ledger))
    assert ledger.statistics() == before
    assert ledger.statistics(where=[("day", "=", 2)]).n_rows == (3 if filters is None else 2)
    lost = StatisticsLedger(f"{ledger.path}-lost")
    Path(lost.path, "manifest.parquet").unlink()
    assert lost.refresh(source).rows_held == before.n_rows
    assert (lost.statistics(), tables(lost)) == (before, tables(ledger))


@pytest.fixture
def old_ledgers(tmp_path):
    """Ledgers that version 0.1 wrote, and the files that they hold."""
    home = shutil.copytree(Path(__file__).parents[1] / "data" / "format-1-ledgers", tmp_path / "home")
    for day in (1, 2):
        stamp = (EPOCH + day * DAY).timestamp()
        os.utime(home / "data" / f"day={day}" / "0.parquet", (stamp, stamp))
    return home


def test_files_that_an_old_version_has_folded_are_read_again(old_ledgers):
    ledger = StatisticsLedger(old_ledgers / "folded")
    whole = ledger.statistics()
    for use in (
        lambda: ledger.statistics(where=[("day", "=", 1)]),
        lambda: ledger.statistics(half_life=DAY),
        lambda: ledger.reject("day=1/0.parquet"),
    ):
        with pytest.raises(ValueError, match="has folded day=1/0.parquet with other files; refresh the led"):
            use()
    ledger.compact()
    assert ledger.statistics() == whole
    source = scan(old_ledgers / "data", features=["u", "v"])
    assert (len(ledger.refresh(source).reread), tables(ledger)) == (2, named(ledger))
    assert ledger.statistics().allclose(whole, rtol=1e-12)
    assert ledger.statistics(where=[("day", "=", 2)]).n_rows == 3


def test_an_old_version_refuses_a_ledger(data, ledger, monkeypatch):
    """It would take a table for the entry of one file."""
    ledger.refresh(scan(data))
    monkeypatch.setattr(documents, "FORMAT_VERSION", 3)
    for use in (lambda: ledger.refresh(scan(data)), ledger.statistics):
        with pytest.raises(ValueError, match="has format 4, and this version .* reads up to format 3: upgr"):
            use()


def test_a_ledger_is_opened_as_it_was_made(data, tmp_path):
    tied = StatisticsLedger(tmp_path / "tied", "tied", exact=True)
    with pytest.raises(ValueError, match="holds nothing yet: refresh it with a source first"):
        tied.statistics()
    with pytest.raises(TypeError, match="keeps up with files, such as scan_parquet finds; got"):
        tied.refresh(scan_arrow(rows(), "kind"))
    tied.refresh(scan(data))
    full = StatisticsLedger(tmp_path / "tied", "full", exact=True)
    match = "statistics with covariance_type='tied', and here it is covariance_type='full'; open it as it was"
    for use in (full.statistics, lambda: full.refresh(scan(data))):
        with pytest.raises(ValueError, match=match):
            use()
    assert StatisticsLedger(tmp_path / "tied").files.num_rows == 4  # which need not be opened
    with pytest.raises(ValueError, match="covariance_type must be one of"):
        StatisticsLedger(tmp_path, "round")


# ---------------------------------------------------------------------- memory


@pytest.mark.slow
def test_two_states_are_in_memory_at_once_and_little_else(tmp_path, ledger):
    """The total and the next one; what NumPy needs to unpack and merge them is a fraction of one."""
    d = 150
    for n in range(6):
        X = RNG.normal(size=(40, d))
        table = pa.table({**{f"x{j}": X[:, j] for j in range(d)}, "kind": np.arange(40) % 16})
        put(tmp_path / "data" / f"{n}.parquet", table)
    ledger.refresh(scan(tmp_path / "data"))
    size = ledger.statistics().nbytes
    tracemalloc.start()
    ledger.statistics()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * size


@pytest.mark.parametrize("sizes", [[10] * 40, [1000] * 5, [10, 1000] * 10])
def test_files_are_fetched_ahead_within_a_budget(tmp_path, monkeypatch, sizes):
    monkeypatch.setattr(fetching, "_MOST_UNUSED", 100_000)
    fetch = partial(entries._fetch, Storage(pafs.LocalFileSystem()))
    paths = [str(tmp_path / str(n)) for n in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        Path(path).write_bytes(bytes([size % 251]) * size * 1000)
    n_bytes = [1000 * size for size in sizes]
    before = pa.total_allocated_bytes()
    for size, content in zip(sizes, fetching.read_ahead(fetch, paths, 16, n_bytes), strict=True):
        assert content.size == size * 1000
        assert pa.total_allocated_bytes() - before <= 100_000 + 1000 * max(sizes) + 1000
        del content
    with pytest.raises(FileNotFoundError, match="gone is missing"):
        list(fetching.read_ahead(fetch, [*paths, str(tmp_path / "gone")], 16, [*n_bytes, 0]))


# ---------------------------------------------------------------------- what goes wrong


def test_rows_may_be_dropped_from_now_on(data, ledger):
    """Where nothing was missing, nothing would have been dropped; and back, as long as that holds."""
    ledger.refresh(scan(data))
    ledger.refresh(scan(data, missing="drop"))
    assert not ledger.refresh(scan(data)).read
    put(data / "9.parquet", pa.table({"u": [np.nan, 1.0], "v": [1.0, 2.0], "kind": ["ant", "bee"]}), 9)
    with pytest.raises(ValueError, match="9.parquet, row group 0, row 0"):
        ledger.refresh(scan(data))
    report = ledger.refresh(scan(data, missing="drop"))
    assert (report.added, len(report.reused)) == (("9.parquet",), 4)
    assert ledger.read_options["missing"] == "drop"
    assert ledger.statistics().allclose(accumulate(scan(data, missing="drop")), rtol=1e-12)
    with pytest.raises(ValueError, match="missing='drop', and here it is missing='raise'"):
        ledger.refresh(scan(data))


def test_an_empty_ledger_says_so(ledger):
    with pytest.raises(ValueError, match="holds nothing yet: refresh it with a source first"):
        ledger.statistics()


def test_a_file_that_cannot_be_read_leaves_the_old_state(data, ledger):
    ledger.refresh(scan(data))
    before = ledger.statistics()
    put(data / "8.parquet", rows(10))
    put(data / "9.parquet", pa.table({"u": [np.nan], "v": [1.0], "kind": ["ant"]}))
    with pytest.raises(ValueError, match="9.parquet, row group 0, row 0: .*'u'"):
        ledger.refresh(scan(data))
    assert ledger.statistics() == before
    put(data / "9.parquet", rows(10))
    assert ledger.refresh(scan(data)).added == ("8.parquet", "9.parquet")
    assert ledger.statistics().n_rows == 180


@pytest.mark.slow_cases("processes")
@pytest.mark.parametrize("scheduler", ["synchronous", "processes"])
def test_files_that_cannot_be_read_are_skipped_and_tried_again(data, ledger, scheduler):
    def refresh():
        return ledger.refresh(scan(data), on_error="skip", scheduler=scheduler)

    refresh()
    held = ledger.statistics()
    put(data / "1.parquet", pa.table({"u": [np.nan], "v": [1.0], "kind": ["ant"]}), 5)
    put(data / "7.parquet", pa.table({"u": [1.0], "kind": ["ant"]}), 7)
    put(data / "8.parquet", rows(20), 8)
    (data / "9.parquet").write_bytes(b"half a file")
    for again in (False, True):
        report = refresh()
        assert (report.added, report.changed) == (() if again else ("8.parquet",), ())
        assert list(report.skipped) == ["1.parquet", "7.parquet", "9.parquet"]
        assert "1.parquet, row group 0, row 0: " in report.skipped["1.parquet"]
        assert "there is no column 'v'" in report.skipped["7.parquet"]
        assert "9.parquet" in report.skipped["9.parquet"]
        assert "\nskipped 7.parquet: " in str(report)
        assert "1.parquet" in report.reused
        assert ledger.statistics().allclose(held + accumulate(scan(data / "8.parquet")), rtol=1e-12)
    for name in ("1", "7", "9"):
        put(data / f"{name}.parquet", rows(10), 9)
    report = refresh()
    assert (report.added, report.changed, report.skipped) == (("7.parquet", "9.parquet"), ("1.parquet",), {})
    assert ledger.statistics().allclose(accumulate(scan(data)), rtol=1e-12)
    with pytest.raises(ValueError, match="on_error must be 'raise' or 'skip'; got 'ignore'"):
        ledger.refresh(scan(data), on_error="ignore")


def test_the_first_file_by_name_may_be_the_torn_one(data, ledger):
    content = (data / "0.parquet").read_bytes()
    (data / "0.parquet").write_bytes(content[: len(content) // 2])
    report = ledger.refresh(scan(data), on_error="skip")
    assert list(report.skipped) == ["0.parquet"]
    assert len(report.added) == 3
    with pytest.raises(ValueError, match=r"0\.parquet cannot be read as Parquet"):
        ledger.refresh(scan(data))
    (data / "0.parquet").write_bytes(content)
    assert ledger.refresh(scan(data), on_error="skip").added == ("0.parquet",)
    assert ledger.statistics().allclose(accumulate(scan(data)), rtol=1e-12)


class _Rewriting(NotingHandler):
    """A filesystem on which a file is written anew, in place, while it is read."""

    def __init__(self, log, victim):
        super().__init__(log)
        self.victim = str(victim)

    def open_input_file(self, path):
        file = super().open_input_file(path)
        if path == self.victim and Path(self.log).exists() and "armed" in Path(self.log).read_text():
            os.utime(path)
        return file


def test_a_file_that_changes_while_it_is_read_is_named(data, tmp_path, ledger):
    ledger.refresh(scan(data))
    before = ledger.statistics()
    put(data / "9.parquet", rows(), 9)
    filesystem = pafs.PyFileSystem(_Rewriting(tmp_path / "log", data / "9.parquet"))
    source = scan(str(data), filesystem=filesystem)
    (tmp_path / "log").write_text("armed\n")
    with pytest.raises(ValueError, match="9.parquet has changed since the pass was planned"):
        ledger.refresh(source)
    assert ledger.statistics() == before


def test_a_damaged_entry_is_named_and_can_be_read_again(data, ledger):
    ledger.refresh(scan(data))
    before = ledger.statistics()
    entry = next(Path(ledger.path, "entries").iterdir())
    entry.write_bytes(entry.read_bytes()[:100])
    with pytest.raises(
        ValueError, match=f"{entry.name} is truncated.*; delete the file, and refresh the ledger"
    ):
        ledger.statistics()
    entry.unlink()
    with pytest.raises(FileNotFoundError, match=f"{entry.name} is missing; refresh the ledger"):
        ledger.statistics()
    assert len(ledger.refresh(scan(data)).reread) == 4
    assert ledger.statistics() == before


def test_a_torn_entry_that_no_manifest_names_is_read_again(data, ledger):
    ledger.refresh(scan(data))
    before = ledger.statistics()
    Path(ledger.path, "manifest.parquet").unlink()
    entry = next(Path(ledger.path, "entries").iterdir())
    entry.write_bytes(entry.read_bytes()[:100])
    ledger.refresh(scan(data))
    assert ledger.statistics() == before


@pytest.mark.parametrize("length", [0, 100, 3000])
def test_a_torn_manifest_says_how_to_go_on(data, ledger, length):
    ledger.refresh(scan(data))
    before, entries = ledger.statistics(), everything(Path(ledger.path, "entries"))
    manifest = Path(ledger.path, "manifest.parquet")
    manifest.write_bytes(manifest.read_bytes()[:length])
    with pytest.raises(ValueError, match="manifest.parquet is truncated.*; delete it, and refresh"):
        ledger.refresh(scan(data))
    manifest.unlink()
    ledger.refresh(scan(data))
    assert everything(Path(ledger.path, "entries")) == entries
    assert ledger.statistics() == before


@pytest.mark.parametrize("length", [0, 100, 2000])
def test_a_torn_total_is_computed_again(data, ledger, length):
    ledger.refresh(scan(data))
    total = Path(ledger.path, "total.parquet")
    total.write_bytes(total.read_bytes()[:length])
    put(data / "4.parquet", rows(50), 4)
    assert len(ledger.refresh(scan(data)).drift) == 2
    assert load(total).n_rows == 210


def test_a_manifest_that_is_none_is_refused(data, ledger):
    ledger.refresh(scan(data))
    manifest = Path(ledger.path, "manifest.parquet")
    with pytest.raises(
        ValueError, match="holds no statistics and no model .* its kind is 'StatisticsLedger'"
    ):
        load(manifest)
    ClassStatistics().update([[1.0]], ["a"]).save(manifest, overwrite=True)
    with pytest.raises(ValueError, match="is no manifest of a ledger: its kind is 'ClassStatistics'"):
        ledger.statistics()


# ---------------------------------------------------------------------- whose files these are


def rewrite_manifest(ledger, **columns):
    """Put other values into columns of the manifest."""
    path = Path(ledger.path, "manifest.parquet")
    table = pq.read_table(path)
    for name, values in columns.items():
        position = table.column_names.index(name)
        table = table.set_column(position, name, pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path)


@pytest.mark.slow_cases("rows-None", "schema-None", "dropped-None", "partition-None", "path-None")
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("entry", "../../data/0.parquet", "entry is '../../data/0.parquet'"),
        ("entry", "0.parquet", "entry is '0.parquet'"),
        ("entry", None, "entry is None"),
        ("path", None, "path is None"),
        ("path", "1.parquet", "1.parquet is listed more than once"),
        ("rows", None, "rows is None"),
        ("dropped", None, "dropped is None"),
        ("schema", None, "schema is None"),
        ("partition", None, "partition is None"),
    ],
)
def test_a_manifest_that_is_not_consistent_is_refused_before_anything_is_done(
    data, ledger, column, value, message
):
    ledger.refresh(scan(data))
    values = ledger.files[column].to_pylist() if column != "partition" else ["{}"] * 4
    rewrite_manifest(ledger, **{column: [value, *values[1:]]})
    put(data / "9.parquet", rows(), 9)
    before = everything(data.parent)
    for use in (lambda: ledger.refresh(scan(data)), ledger.statistics, ledger.compact, lambda: ledger.files):
        with pytest.raises(ValueError, match=f"manifest.parquet is damaged or not consistent: .*{message}"):
            use()
    assert everything(data.parent) == before


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow_cases("lie1", "lie2")
@pytest.mark.parametrize(
    ("lie", "is_refused"),
    [
        ({"entry": "../../data/0.parquet"}, True),
        ({"entry": f"{'0' * 32}-4.parquet"}, True),
        ({"rows": None}, True),
        ({"path": "7.parquet"}, False),
        ({"modified": None}, False),
    ],
)
def test_a_table_that_lies_about_itself_is_refused_or_its_file_is_read_again(data, ledger, lie, is_refused):
    """A table that no manifest names is taken up by what it says of itself."""
    ledger.refresh(scan(data))
    before = ledger.statistics()
    Path(ledger.path, "manifest.parquet").unlink()
    entry = next(Path(ledger.path, "entries").iterdir())
    table = pq.read_table(entry)
    document = json.loads(table.schema.metadata[b"streamgda"])
    document["holdings"][0] |= lie
    del document["checksum"]
    pq.write_table(table.replace_schema_metadata({"streamgda": json.dumps(document)}), entry)
    if is_refused:
        with pytest.raises(ValueError, match=f"{entry.name} is .*; delete the file, and refresh the ledger"):
            ledger.refresh(scan(data))
        entry.unlink()
    ledger.refresh(scan(data))
    assert ledger.statistics() == before


def test_an_entry_with_fewer_rows_than_its_files_is_refused(data, ledger):
    """Somebody has written it anew, with checksums that hold."""
    ledger.refresh(scan(data))
    entry = next(Path(ledger.path, "entries").iterdir())
    pq.write_table(pq.read_table(entry).slice(0, 1), entry)
    with pytest.raises(
        ValueError, match=f"{entry.name} is damaged: it has 1 rows, and lists 8; delete the file"
    ):
        ledger.statistics()
    entry.unlink()
    ledger.refresh(scan(data))
    assert ledger.statistics().n_rows == 160


def test_an_entry_under_the_name_of_another_is_refused(data, ledger):
    ledger.refresh(scan(data))
    put(data / "4.parquet", rows(), 4)
    ledger.refresh(scan(data))
    first, second = (Path(ledger.path) / "entries").iterdir()
    second.write_bytes(first.read_bytes())
    with pytest.raises(ValueError, match=rf"{second.name} is the entry of another file.* refresh the ledger"):
        ledger.statistics()
    second.unlink()
    ledger.refresh(scan(data))
    assert ledger.statistics().n_rows == 200


def test_an_entry_of_other_features_is_named(data, ledger):
    ledger.refresh(scan(data))
    (entry,) = Path(ledger.path, "entries").iterdir()
    table = pq.read_table(entry)
    document = json.loads(table.schema.metadata[b"streamgda"])
    document["own"][2] = {"feature_names": ["u", "w"]}
    del document["checksum"]
    pq.write_table(table.replace_schema_metadata({"streamgda": json.dumps(document)}), entry)
    with pytest.raises(ValueError, match=r"entries/.*\.parquet does not fit the other entries: .* 'w'"):
        ledger.statistics()


@pytest.mark.parametrize(
    "name", ["notes.txt", "entries/notes.txt", "data/0.parquet", "total.parquet", "x.unfinished"]
)
def test_a_folder_of_other_things_is_refused_and_left_as_it_is(data, ledger, name):
    foreign = Path(ledger.path, name)
    foreign.parent.mkdir(parents=True)
    foreign.write_text("of value to somebody")
    for dry_run in (True, False):
        with pytest.raises(
            ValueError, match=f"folder of other things, such as {name.split('/0')[0]}, and no ledger"
        ):
            ledger.refresh(scan(data), dry_run=dry_run)
    with pytest.raises(ValueError, match="folder of other things"):
        ledger.compact()
    assert [path for path in Path(ledger.path).rglob("*") if path.is_file()] == [foreign]


def test_foreign_files_that_come_later_stay(data, ledger):
    ledger.refresh(scan(data))
    foreign = [
        Path(ledger.path, name)
        for name in ("entries/0.parquet", "entries/x.unfinished", "x.unfinished", "notes.txt")
    ]
    for path in foreign:
        path.write_text("of value to somebody")
    put(data / "1.parquet", rows(), 9)
    ledger.refresh(scan(data))
    ledger.compact()
    assert all(path.read_text() == "of value to somebody" for path in foreign)


def test_what_lies_deeper_is_no_entry(data, ledger):
    ledger.refresh(scan(data))
    before = ledger.statistics()
    entry = next(Path(ledger.path, "entries").iterdir())
    (entry.parent / "deeper").mkdir()
    entry.rename(entry.parent / "deeper" / entry.name)
    assert len(ledger.refresh(scan(data)).reread) == 4
    assert ledger.statistics() == before


# ---------------------------------------------------------------------- crashes, crowds and full disks

FORKED = multiprocessing.get_context("forkserver")


def in_processes(n=1):
    """Processes that begin with nothing but imports."""
    return ProcessPoolExecutor(n, FORKED)


def refresh(data, ledger):
    ledger.refresh(scan(data), scheduler="synchronous")


def rewrite_and_refresh(data, ledger):
    for _ in range(15):
        for path in sorted(data.iterdir())[:2]:
            pq.write_table(pq.read_table(path).slice(0, 30), path)
            os.utime(path)
        refresh(data, ledger)


def hold_the_lock(ledger, locked):
    with ledger._folder.lock():
        locked.set()
        time.sleep(60)


@pytest.mark.slow
def test_killed_at_fifty_moments_nothing_is_lost_or_counted_twice(tmp_path):
    data, home = tmp_path / "data", tmp_path / "ledger"
    for n in range(6):
        put(data / f"{n}.parquet", rows(30), n)
    with in_processes() as pool:
        assert pool.submit(kill_at_fifty_moments, data, home).result() == 50
    fresh = StatisticsLedger(tmp_path / "fresh")
    fresh.refresh(scan(data))
    assert StatisticsLedger(home).statistics() == fresh.statistics()


def kill_at_fifty_moments(data, home):
    """Change the data, refresh in a fork that is killed after a while, see what is there, and refresh."""
    draw, ledger, kills = random.Random(0), StatisticsLedger(home), 0
    refresh(data, StatisticsLedger(f"{home}-first"))  # imports what is used
    start = time.perf_counter()
    assert os.waitpid(in_fork(refresh, data, ledger), 0)[1] == 0
    usual = time.perf_counter() - start
    for turn in range(250):
        if kills == 50:
            break
        change = data / f"{turn % 6}.parquet"
        pq.write_table(pq.read_table(change).slice(1), change)
        if turn % 3 == 0:
            Path(home, "manifest.parquet").unlink(missing_ok=True)  # all of it is to be found again
        if turn % 10 == 0:
            shutil.rmtree(home)  # all of it is to be done again
        child = in_fork(refresh, data, ledger)
        time.sleep(draw.random() * usual * (1.1 if turn % 10 == 0 else 0.5))
        os.kill(child, signal.SIGKILL)
        killed = os.waitpid(child, 0)[1] == signal.SIGKILL
        kills += killed
        usual *= 1.05 if killed else 0.9  # the first may have been measured on a busy machine
        assert rows_held(ledger) <= 180  # never more than there ever was
        assert os.waitpid(in_fork(refresh, data, ledger), 0)[1] == 0
        assert ledger.statistics().n_rows == sum(pq.read_metadata(path).num_rows for path in data.iterdir())
        assert not list(home.rglob("*.unfinished"))
        assert tables(ledger) == named(ledger)
    return kills


def rows_held(ledger):
    try:
        return ledger.statistics().n_rows
    except ValueError as error:
        if "holds nothing yet" in str(error):
            return 0
        raise


def in_fork(work, *arguments):
    """The id of a fork of this process that does some work and ends."""
    child = os.fork()
    if child:
        return child
    try:
        work(*arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def test_of_two_processes_at_once_one_does_it_and_the_other_stops_with_a_clear_word(data, ledger):
    locked = FORKED.Event()
    holder = FORKED.Process(target=hold_the_lock, args=(ledger, locked))
    holder.start()
    assert locked.wait(60)
    for use in (lambda: ledger.refresh(scan(data)), ledger.compact, lambda: ledger.accept("0.parquet")):
        with pytest.raises(RuntimeError, match="another process is refreshing .*ledger; try again"):
            use()
    holder.kill()
    holder.join()
    assert len(ledger.refresh(scan(data)).added) == 4  # who is killed leaves no lock behind


def test_many_processes_at_once_leave_a_right_ledger(data, tmp_path, ledger):
    with in_processes(3) as racers:
        races = [racers.submit(refresh, data, ledger) for _ in range(3)]
        errors = [race.exception() for race in races]
    assert None in errors
    assert all(error is None or "another process is refreshing" in str(error) for error in errors)
    assert ledger.statistics().allclose(accumulate(scan(data)), rtol=1e-12)
    assert tables(ledger) == named(ledger)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_full_disk_is_one_error_and_the_old_state_stays(data, ledger, on_error):
    ledger.refresh(scan(data))
    before = ledger.statistics()
    put(data / "9.parquet", rows(), 9)
    full = "^cannot write .*File too large; what was there before is kept"
    with full_disk(1000), pytest.raises(OSError, match=full):
        ledger.refresh(scan(data), on_error=on_error)
    assert ledger.statistics() == before
    assert tables(ledger) == named(ledger)
    assert ledger.refresh(scan(data)).added == ("9.parquet",)


def test_what_a_crash_has_left_is_cleared_away(data, ledger):
    ledger.refresh(scan(data))
    entry = f"entries/{'0' * 32}-4.parquet"
    unfinished = f"{'3' * 32}.unfinished"
    for name in (entry, f"{entry}.{unfinished}", f"manifest.parquet.{unfinished}"):
        Path(ledger.path, name).write_bytes(b"left behind")
    ledger.refresh(scan(data))
    assert tables(ledger) == named(ledger)
    assert not list(Path(ledger.path).rglob("*.unfinished"))


@pytest.mark.slow
def test_who_reads_while_a_refresh_ends_gets_the_old_state_or_the_new(data, ledger):
    """A refresh may delete an entry that a reader is about to open; the reader then looks again."""
    ledger.refresh(scan(data))
    seen = set()
    with in_processes() as pool:
        written = pool.submit(rewrite_and_refresh, data, ledger)
        while not written.done():
            with suppress(FileNotFoundError):  # two refreshes ended within one reading
                seen.add(ledger.statistics().n_rows)
            time.sleep(0.001)
        written.result()
    assert seen <= {160, 150, 140}
    assert ledger.statistics().n_rows == 140
