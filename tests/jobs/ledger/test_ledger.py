"""A ledger reads what is new and nothing else, and holds what a fit from scratch would."""

import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import time
import traceback
import tracemalloc
import uuid
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import StandardScaler

from streamgda import (
    GaussianNB,
    RandomFeatureClassifier,
    RandomFeatures,
    StatisticsLedger,
    accumulate,
    drift,
    load,
    load_statistics,
    scan_arrow,
    scan_parquet,
)
from streamgda import scan as scan_files
from streamgda.jobs.ledger.entries import as_lists
from tests.interrupted import ended_by, full_disk
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
        assert (report.changed, report.dropped) == (changed, gone)
        scratch = accumulate(scan(data), kind, exact=exact)
        assert ledger.statistics().allclose(scratch, rtol=1e-12)
        assert report.rows_held == scratch.n_rows == ledger.statistics().n_rows
        assert report.rows == 150 + 30 * len(changed)
    if exact:
        assert ledger.statistics() == scratch
        with pytest.raises(ValueError, match="cannot decay"):
            ledger.statistics(dict.fromkeys(ledger.files["path"].to_pylist(), 0.5))


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


@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_of_one_size_and_time_that_swap_names_are_read_anew(tmp_path, monkeypatch, kind, is_older):
    """Here by links to their folders. An older ledger knows no inodes, and still reads nothing anew."""
    places = [tmp_path / "data" / f"k={key}" for key in range(2)]
    for place, values in zip(places, ([1.0, 2.0], [3.0, 5.0]), strict=True):
        path = tmp_path / f"v{place.name}" / f"a.{kind}"
        put(path, pa.table({"u": values}))
        if kind == "csv":
            path.write_text("\n".join(["u", *map(str, values)]))
        os.utime(path, (1e9, 1e9))
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(path.parent)
    ledger, source = (
        StatisticsLedger(tmp_path / "ledger", exact=True),
        scan_files(tmp_path / "data", "k", features=["u"]),
    )
    with monkeypatch.context() as older:
        if is_older:
            listed = lambda records: {k: v for k, v in as_lists(records).items() if k != "inode"}  # noqa: E731
            older.setattr("streamgda.jobs.ledger.entries.as_lists", listed)
        ledger.refresh(source)
    assert len(ledger.refresh(source).reused) == 2
    for path, new in zip(places, reversed([place.readlink() for place in places]), strict=True):
        path.unlink()
        path.symlink_to(new)
    assert len(ledger.refresh(source).changed) == 2
    assert ledger.statistics().means.ravel().tolist() == [4, 1.5]
    assert len(ledger.refresh(source).reused) == 2


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
    paths = [tmp_path / "data" / f"{n}.parquet" for n in range(2)]
    put(paths[0], rows(3000))
    ledger.refresh(scan(tmp_path / "data"))
    put(paths[1], rows(1000, 0.5, ("ant", "bee", "cat")))
    report = ledger.refresh(scan(tmp_path / "data"))
    assert type(vars(report.compared(1 << 20))["drift"]) is not tuple  # the states are compared when one asks
    assert pickle.loads(pickle.dumps(report)).to_pandas().equals(report.to_pandas())
    assert asdict(report)["drift"][0]["rows"] == vars(report)["drift"][0].rows
    frame, expected = report.to_pandas(), drift(*(accumulate(scan(path)) for path in paths))
    assert report.new_classes == expected.new_classes == ("cat",)
    pd.testing.assert_frame_equal(frame, expected.to_pandas(), rtol=1e-9)
    assert frame.loc["ant", "feature"] == "u"
    assert frame.loc["ant", "shift"] == pytest.approx(0.5, abs=0.2)
    lines = str(report).splitlines()
    assert lines[0] == "read 1 file (1 new, 0 changed), reused 1, dropped 0"
    assert lines[1:3] == ["1,000 rows read, 4,000 held", "new classes: cat"]
    assert "divergence" in lines[3]


def test_rows_that_are_read_again_are_not_new(data, ledger):
    """The files of a lost table are read again; their rows have been seen, and count once ever after."""
    ledger.refresh(scan(data))
    put(data / "4.parquet", rows(30), 4)
    ledger.refresh(scan(data))
    Path(ledger.path, "entries", ledger._existing().records[0].table).unlink()
    report = ledger.refresh(scan(data))
    assert report.changed == tuple(f"{n}.parquet" for n in range(4))
    assert (report.rows, report.drift, report.new_classes) == (160, (), ())
    put(data / "5.parquet", rows(50, 0.5), 5)
    before = accumulate(scan([data / f"{n}.parquet" for n in range(5)]))
    report = ledger.refresh(scan(data))
    expected = drift(before, accumulate(scan(data / "5.parquet"))).drift
    for found, due in zip(report.drift, expected, strict=True):
        assert (found.rows, found.prior_before) == (due.rows, due.prior_before)
        np.testing.assert_allclose(found.shift, due.shift, rtol=1e-9)
    assert load(Path(ledger.path, "ledger.parquet")).n_rows == 240


@pytest.mark.parametrize("folds", [None, 2])
def test_files_that_look_like_copies_are_named_once(data, tmp_path, folds):
    ledger = StatisticsLedger(tmp_path / "ledger", folds=folds)
    ledger.refresh(scan(data))
    shutil.copy(data / "1.parquet", data / "0-copy.parquet")
    with pytest.warns(UserWarning, match="0-copy.parquet seems to be a copy of 1.parquet, "):
        assert ledger.refresh(scan(data)).rows_held == 200
    (data / "1.parquet").rename(data / "9.parquet")
    with pytest.warns(UserWarning, match="9.parquet seems to be a copy of 0-copy.parquet"):
        ledger.refresh(scan(data))
    (data / "9.parquet").rename(data / "8.parquet")
    assert ledger.refresh(scan(data), exclude=["0-copy.parquet"]).added == ("8.parquet",)
    for name in ("empty", "also empty"):
        put(data / f"{name}.parquet", rows(0))
    ledger.refresh(scan(data), exclude=["0-copy.parquet"])


# ---------------------------------------------------------------------- some of it


@pytest.fixture
def by_region(tmp_path, ledger):
    for day in range(6):
        region = "north" if day % 2 else "south"
        put(tmp_path / "data" / f"region={region}" / f"day={day}" / "1.parquet", rows(20 + day), day)
    ledger.refresh(scan(tmp_path / "data", features=["u", "v"]))
    return tmp_path / "data"


def test_a_ledger_among_the_files_that_it_keeps_up_with(data):
    with pytest.raises(ValueError, match="lies in the folder of the dataset"):
        StatisticsLedger(data / "ledger").refresh(scan(data))
    assert not (data / "ledger").exists()
    hidden = StatisticsLedger(data / "_ledger")
    for expected in (4, 0):
        assert len(hidden.refresh(scan(data)).added) == expected


def test_a_key_of_numbers_may_become_one_of_names(tmp_path, ledger):
    put(tmp_path / "data" / "region=1" / "0.parquet", rows(10))
    ledger.refresh(scan(tmp_path / "data", features=["u", "v"]))
    put(tmp_path / "data" / "region=north" / "0.parquet", rows(20))
    ledger.refresh(scan(tmp_path / "data", features=["u", "v"]))
    assert ledger.files["region"].to_pylist() == ["1", "north"]
    assert ledger.statistics({"region=north/0.parquet": 1}).n_rows == 20


def test_a_key_takes_no_column_of_the_list_of_files(tmp_path, ledger):
    for size in ("big", "7"):
        put(tmp_path / "data" / f"size={size}" / f"path={size}" / "day=1" / "0.parquet", rows(10))
    ledger.refresh(scan(tmp_path / "data"))
    assert ledger.files.column_names == ["path", "size", "modified", "rows", "dropped", "day"]
    assert ledger.files["size"].type == pa.int64()
    assert ledger.statistics(dict.fromkeys(ledger.files["path"].to_pylist(), 1)).n_rows == 20


def test_labels_of_folders_that_become_text_are_read_again(tmp_path, ledger):
    """Whole numbers, as long as all the folders' names are; then text, also when the others are gone."""
    data = tmp_path / "data"

    def refresh():
        source = scan_parquet(data, "label", features=["u", "v"])
        report = ledger.refresh(source, dry_run=True)
        assert ledger.refresh(source).read == report.read
        assert ledger.statistics() == accumulate(source)
        return report, ledger.statistics().classes.tolist()

    for name in ("1", "2"):
        put(data / f"label={name}" / "0.parquet", rows(10))
    assert refresh()[1] == [1, 2]
    put(data / "label=x" / "0.parquet", rows(10))
    with pytest.warns(UserWarning, match=r"hive_types=\{'label': 'string'\}"):
        report, labels = refresh()
    assert (report.added, len(report.changed), labels) == (("label=x/0.parquet",), 2, ["1", "2", "x"])
    shutil.rmtree(data / "label=x")
    report = ledger.refresh(scan_parquet(data, "label", features=["u", "v"]))
    assert (report.dropped, report.read) == (("label=x/0.parquet",), ())
    assert ledger.statistics().classes.tolist() == ["1", "2"]


# ---------------------------------------------------------------------- tables of entries


def tables(ledger):
    return sorted(path.name for path in Path(ledger.path, "entries").iterdir())


def named(ledger):
    return sorted({record.table for record in ledger._existing().records})


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
    assert ledger.statistics({"2.parquet": 1}) == parts[1]
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


# ---------------------------------------------------------------------- format 1, for ever


def test_a_ledger_is_opened_as_it_was_made(data, tmp_path):
    tied = StatisticsLedger(tmp_path / "tied", "tied", exact=True)
    with pytest.raises(ValueError, match="holds nothing yet: refresh it with a source first"):
        tied.statistics()
    with pytest.raises(TypeError, match="keeps up with files, as scan finds; got"):
        tied.refresh(scan_arrow(rows(), "kind"))
    tied.refresh(scan(data))
    full = StatisticsLedger(tmp_path / "tied", "full", exact=True)
    match = (
        "with covariance_type='tied', and here it is covariance_type='full'; open it with cov.*='tied', or"
    )
    for use in (full.statistics, lambda: full.refresh(scan(data))):
        with pytest.raises(ValueError, match=match):
            use()
    assert StatisticsLedger(tmp_path / "tied").files.num_rows == 4  # which need not be opened
    with pytest.raises(ValueError, match="covariance_type must be one of"):
        StatisticsLedger(tmp_path, "round")


@pytest.mark.parametrize("folds", [None, 3])
def test_errors_say_how_to_open_a_ledger_of_mapped_rows(data, tmp_path, folds):
    """They name what differs; a rule is named by its kind, and is that of the ledger's file."""
    where, source = tmp_path / "ledger", scan(data)
    reads = (8, source), (9, source), (8, scan(data, features=["v", "u"]))
    rules = (RandomFeatureClassifier(features=n).fit(one).statistics_.rule for n, one in reads)
    rule, other, again = (one.from_document(one.to_document()) for one in rules)
    StatisticsLedger(where, "tied", folds=folds, rule=rule).refresh(source)
    for one, said in (None, "None"), (other, f"{other!r}"), (again, f"another {again!r}"):
        with pytest.raises(ValueError, match="holds") as raised:
            StatisticsLedger(where, "tied", folds=folds, rule=one).statistics()
        holds, _, remedy = str(raised.value).partition(f" rule={said}; ")
        assert holds.endswith(f"holds statistics with rule={rule!r}, and here it is")
        way = remedy.partition(", or")[0].removeprefix("open it with rule=")
        rule_of_ledger = eval(way, {"load_statistics": load_statistics})
        assert StatisticsLedger(where, "tied", folds=folds, rule=rule_of_ledger).refresh(source).read == ()
    with pytest.raises(ValueError, match=r"open it with covariance_type='tied',.* rule=load_statistics\('"):
        StatisticsLedger(where, folds=folds).statistics()


@pytest.mark.parametrize("given", [RandomFeatures(8), GaussianNB(), "rule"], ids=type)
def test_what_is_no_rule_is_refused_when_a_ledger_is_opened(tmp_path, given):
    with pytest.raises(TypeError, match=f"is model.statistics_.rule; got {type(given).__name__}"):
        StatisticsLedger(tmp_path / "ledger", rule=given)


@pytest.mark.parametrize(
    ("made", "now", "said"),
    [
        (lambda one: one, lambda one: one.split(test=0.5)[0], "refresh it with a source without split, or"),
        (lambda one: one.split(test=0.5)[0], lambda one: one, "with a source made as before by split, or"),
        (
            lambda one: one.with_columns(w=pc.field("u")),
            lambda one: one,
            "with a source made as before by with_columns, or",
        ),
        (
            lambda one: one.map(StandardScaler().fit(np.eye(2)), ["a", "b"]).split(test=0.5)[0],
            lambda one: one,
            "with a source made as before by map and split, or",
        ),
    ],
)
def test_errors_say_how_a_source_was_made(data, ledger, made, now, said):
    ledger.refresh(made(scan(data)))
    with pytest.raises(ValueError, match=said):
        ledger.refresh(now(scan(data)))


def test_options_of_csv_hold_for_later_files(tmp_path, ledger):
    """A ledger reads a path as it read the first source; and says how, where another is read otherwise."""
    data = tmp_path / "data"
    data.mkdir()
    how = "csv delimiter=; null_values=-999"
    for n in range(2):
        (data / f"{n}.csv").write_text(f"u;v;kind\n1;{n};a\n-999;2;a\n3;4;b\n")
        ledger.refresh(scan_files(data, "kind", format=how, missing="drop") if n == 0 else data)
    expected = accumulate(scan_files(data, "kind", format=how, missing="drop"))
    assert (ledger.statistics(), expected.n_dropped) == (expected, 2)
    made = r'refresh it with a source with format="csv .*-999.*", or'
    with pytest.raises(ValueError, match=f"holds statistics with format=.* and here it is format=.*; {made}"):
        ledger.refresh(scan_files(data, "kind", format="csv delimiter=;", missing="drop"))
    (tmp_path / "other.csv").write_text("w;sort\n1;a\n")
    made = r"no column 'kind'.*; the ledger in \S+ was made with target='kind', features=\['u', 'v'\]"
    with pytest.raises(ValueError, match=made):
        ledger.refresh(tmp_path / "other.csv")


# ---------------------------------------------------------------------- memory


@pytest.mark.slow
def test_merged_statistics_are_read_with_the_memory_of_three_states(tmp_path, ledger):
    """Copies of a state count whole: what other threads and caches of this process take meanwhile is less."""
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
    assert round(peak / size) <= 3


# ---------------------------------------------------------------------- what goes wrong


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
    with pytest.raises(ValueError, match=f"{entry.name} is truncated.*; delete it, and refresh the ledger"):
        ledger.statistics({"0.parquet": 1})
    entry.unlink()
    with pytest.raises(FileNotFoundError, match=f"{entry.name} is missing: another refresh has"):
        ledger.statistics({"0.parquet": 1})
    assert ledger.statistics() == before
    assert len(ledger.refresh(scan(data)).changed) == 4
    assert ledger.statistics() == before


def test_a_torn_entry_that_no_list_names_is_read_again(data, ledger):
    ledger.refresh(scan(data))
    before = ledger.statistics()
    Path(ledger.path, "ledger.parquet").unlink()
    entry = next(Path(ledger.path, "entries").iterdir())
    entry.write_bytes(entry.read_bytes()[:100])
    ledger.refresh(scan(data))
    assert ledger.statistics() == before


@pytest.mark.parametrize("length", [0, 100, 3000])
def test_a_torn_list_says_how_to_go_on(data, ledger, length):
    ledger.refresh(scan(data))
    before, entries = ledger.statistics(), everything(Path(ledger.path, "entries"))
    held = Path(ledger.path, "ledger.parquet")
    held.write_bytes(held.read_bytes()[:length])
    with pytest.raises(ValueError, match="ledger.parquet is .*truncated.*; delete it, and refresh"):
        ledger.refresh(scan(data))
    held.unlink()
    ledger.refresh(scan(data))
    assert everything(Path(ledger.path, "entries")) == entries
    assert ledger.statistics() == before


# ---------------------------------------------------------------------- whose files these are


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_entry_of_other_features_is_named(data, ledger):
    ledger.refresh(scan(data))
    (entry,) = Path(ledger.path, "entries").iterdir()
    table = pq.read_table(entry)
    document = json.loads(table.schema.metadata[b"streamgda"])
    document["own"][2] = {"feature_names": ["u", "w"]}
    del document["checksum"]
    pq.write_table(table.replace_schema_metadata({"streamgda": json.dumps(document)}), entry)
    with pytest.raises(ValueError, match=r"'w'"):
        ledger.statistics(dict.fromkeys(ledger.files["path"].to_pylist(), 1))


@pytest.mark.parametrize("name", ["notes.txt", "data/0.parquet", "x.unfinished"])
def test_a_folder_of_other_things_is_refused_and_left_as_it_is(data, ledger, name):
    foreign = Path(ledger.path, name)
    foreign.parent.mkdir(parents=True)
    foreign.write_text("of value to somebody")
    for dry_run in (True, False):
        with pytest.raises(
            ValueError, match=f"folder of other things, such as {name.split('/0')[0]}: name a"
        ):
            ledger.refresh(scan(data), dry_run=dry_run)
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
    assert all(path.read_text() == "of value to somebody" for path in foreign)


def test_what_lies_deeper_is_no_entry(data, ledger):
    ledger.refresh(scan(data))
    before = ledger.statistics()
    entry = next(Path(ledger.path, "entries").iterdir())
    (entry.parent / "deeper").mkdir()
    entry.rename(entry.parent / "deeper" / entry.name)
    assert len(ledger.refresh(scan(data)).changed) == 4
    assert ledger.statistics() == before


# ---------------------------------------------------------------------- crashes, crowds and full disks

FORKED = multiprocessing.get_context("forkserver")


def in_processes(n=1):
    """Processes that begin with nothing but imports."""
    return ProcessPoolExecutor(n, FORKED)


def refresh(data, ledger):
    ledger.refresh(scan(data), scheduler="synchronous")


def hold_the_lock(ledger, locked):
    with ledger._locked(dry_run=False):
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
            Path(home, "ledger.parquet").unlink(missing_ok=True)  # all of it is to be found again
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
    with pytest.raises(RuntimeError, match="another process is refreshing .*ledger; try again"):
        ledger.refresh(scan(data))
    holder.kill()
    holder.join()
    assert len(ledger.refresh(scan(data)).added) == 4  # who is killed leaves no lock behind


def test_many_processes_at_once_leave_a_right_ledger(data, ledger):
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
    entry = f"entries/{'0' * 32}.parquet"
    unfinished = f"{'3' * 32}.unfinished"
    for name in (entry, f"{entry}.{unfinished}", f".ledger.parquet.{unfinished}"):
        Path(ledger.path, name).write_bytes(b"left behind")
    for name in (f"{'1' * 32}.run", f"{'2' * 32}.run-ended"):
        Path(ledger.path, "entries", name).mkdir()
        Path(ledger.path, "entries", name, unfinished).write_bytes(b"left behind")
    ledger.refresh(scan(data))
    assert tables(ledger) == named(ledger)
    assert not [*Path(ledger.path).rglob("*.unfinished"), *Path(ledger.path).rglob("*.run*")]


def test_what_cannot_be_deleted_does_not_undo_a_refresh(data, ledger):
    ledger.refresh(scan(data))
    obstacle = Path(ledger.path, "entries", f"{'1' * 32}.run")  # a folder is expected
    obstacle.write_bytes(b"")
    put(data / "9.parquet", rows(), 9)
    with pytest.warns(UserWarning, match="the refresh is complete, but .* cannot be deleted"):
        assert ledger.refresh(scan(data)).added == ("9.parquet",)
    obstacle.unlink()
    assert ledger.statistics().n_rows == 200
    assert not ledger.refresh(scan(data)).read


def test_without_a_lock_tables_of_other_refreshes_have_a_day_of_grace(data):
    filesystem, folder = fsspec.filesystem("memory"), f"/{uuid.uuid4().hex}"
    ledger = StatisticsLedger(folder, filesystem=filesystem)
    ledger.refresh(scan(data))
    young, old = (f"{folder}/entries/{digit * 32}.parquet" for digit in "01")
    for path, age in ((young, DAY / 2), (old, 2 * DAY)):
        filesystem.pipe(path, b"of another refresh")
        filesystem.store[path].created = datetime.now(UTC) - age
    ledger.refresh(scan(data))
    assert filesystem.exists(young)
    assert not filesystem.exists(old)


# ---------------------------------------------------------------------- some files, limits, many tables


def test_some_files_count_less_or_not_at_all(by_region, ledger):
    parts = [
        accumulate(scan(by_region, features=["u", "v"], filters=[("day", "=", day)])) for day in range(6)
    ]
    files = ledger.files.to_pandas()
    north = files[files["region"] == "north"]
    weights = dict(zip(north["path"], 0.5 ** ((5 - north["day"]) / 2), strict=True))
    decayed = sum(parts[day].copy().decay(0.5 ** ((5 - day) / 2)) for day in (1, 3, 5))
    assert ledger.statistics(weights).allclose(decayed, rtol=1e-9)
    with pytest.raises(ValueError, match=r"holds no file 'region=west'"):
        ledger.statistics({"region=west": 1})


@pytest.mark.parametrize("exact", [False, True])
def test_files_that_exceed_a_limit_change_nothing_until_they_are_accepted(data, tmp_path, exact):
    ledger = StatisticsLedger(tmp_path / "ledger", exact=exact)
    ledger.refresh(scan(data), max_shift=1)
    before = ledger.statistics()
    put(data / "5.parquet", rows(shift=9), 5)
    put(data / "6.parquet", rows(), 6)
    for _ in range(2):
        report = ledger.refresh(scan(data), max_shift=1)
        assert list(report.alarms_by_file) == ["5.parquet"]
        assert "the mean of u has shifted by" in str(report)
        assert (ledger.statistics(), ledger.files.num_rows, report.rows_held) == (before, 4, 160)
    with pytest.raises(TypeError, match="max_shft"):
        ledger.refresh(scan(data), max_shft=1)
    kept = {path: path.stat().st_mtime_ns for path in Path(ledger.path, "entries").iterdir()}
    assert ledger.refresh(scan(data), max_shift=1, accept=True).rows_held == 240
    assert {path: path.stat().st_mtime_ns for path in Path(ledger.path, "entries").iterdir()} == kept
    fresh = StatisticsLedger(tmp_path / "fresh", exact=exact)
    fresh.refresh(scan(data))
    assert ledger.statistics() == fresh.statistics()


def test_a_file_that_is_excluded_does_not_count(data, ledger):
    ledger.refresh(scan(data), max_shift=1)
    put(data / "5.parquet", rows(shift=9), 5)
    put(data / "6.parquet", rows(), 6)
    assert ledger.refresh(scan(data), max_shift=1).is_refused
    report = ledger.refresh(scan(data), max_shift=1, exclude=["5.parquet", "0.parquet"])
    assert (report.added, report.dropped, report.is_refused) == (("6.parquet",), ("0.parquet",), False)
    others = [data / f"{n}.parquet" for n in (1, 2, 3, 6)]
    assert ledger.statistics().allclose(accumulate(scan(others)), rtol=1e-12)
    with pytest.raises(ValueError, match=r"exclude: the source has no file '7.parquet'"):
        ledger.refresh(scan(data), exclude=["7.parquet"])


def test_nothing_is_written_after_a_refresh_that_has_failed(data, ledger, monkeypatch):
    """The threads that read other files then go on, and what they have read comes too late."""
    monkeypatch.setattr("streamgda.jobs.ledger.refresh._FILES_PER_TASK", 1)
    with ended_by("0.parquet", "streamgda.jobs.ledger.refresh", monkeypatch):
        ledger.refresh(scan(data), scheduler="threads")
    assert tables(ledger) == []
    assert not ledger.refresh(scan(data)).reused


def test_a_ledger_of_an_older_format_is_refused(data, tmp_path):
    old = Path(__file__).parents[2] / "files" / "format-3-ledger"
    shutil.copytree(old, tmp_path / "old")
    ledger = StatisticsLedger(tmp_path / "old")
    for use in (ledger.statistics, lambda: ledger.files, lambda: ledger.refresh(scan(data))):
        with pytest.raises(ValueError, match=r"the ledger in \S+ is of an older format: name a new folder$"):
            use()
    assert everything(tmp_path / "old").keys() == {
        tmp_path / "old" / p.relative_to(old) for p in everything(old)
    }


def test_many_small_tables_are_joined(data, tmp_path, ledger, monkeypatch):
    monkeypatch.setattr("streamgda.jobs.ledger.entries._MOST_SMALL", 3)
    for night in range(8):
        put(data / f"{night:02}.parquet", rows(5), night)
        report = ledger.refresh(scan(data))
        assert (report.changed, report.rows) == ((), 5 if night else 165)
        assert tables(ledger) == named(ledger)
        assert len(tables(ledger)) <= 4
    fresh = StatisticsLedger(tmp_path / "fresh")
    fresh.refresh(scan(data))
    assert ledger.statistics() == fresh.statistics()


def test_tables_that_are_joined_are_as_full_each_time(data, ledger, monkeypatch):
    for number in range(60):
        put(data / f"{number:02}.parquet", rows(5), number)
    monkeypatch.setattr("streamgda.jobs.ledger.entries._TABLE_BYTES", 1 << 11)
    monkeypatch.setattr("streamgda.jobs.ledger.entries._MOST_SMALL", 1)
    ledger.refresh(scan(data))
    before = tables(ledger)
    for _ in range(2):
        ledger.refresh(scan(data))
        assert tables(ledger) == before
    assert 2 < len(before) < 30
