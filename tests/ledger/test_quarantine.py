"""A file that has drifted is kept apart until it is accepted or rejected, whatever happens in between."""

import os
import random
import signal
import time
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from streamgda import StatisticsLedger, accumulate, drift
from tests.ledger.test_ledger import in_fork, in_processes, put, rows, scan
from tests.strategies import KINDS

LIMITS = {"max_shift": 1.0}
SHIFTED = "class ant: the mean of u has shifted by "


@pytest.fixture
def data(tmp_path):
    """Three files that are alike."""
    for day in range(3):
        put(tmp_path / "data" / f"{day}.parquet", rows(200), day)
    return tmp_path / "data"


@pytest.fixture
def ledger(tmp_path, data):
    """What holds them, and keeps a fourth apart that does not lie where they do."""
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(scan(data), **LIMITS)
    put(data / "3.parquet", rows(200, 9.0), 3)
    ledger.refresh(scan(data), **LIMITS)
    return ledger


def of(data, *names):
    """A pass over some of the files."""
    return accumulate(scan([data / f"{name}.parquet" for name in names]))


def entries(ledger):
    return sorted(path.name for path in Path(ledger.path, "entries").iterdir())


def test_an_alarm_stands_until_it_is_answered(data, ledger):
    """With limits or without, and also where another file is to be read."""
    for options in (LIMITS, {}, {"max_shift": 100.0}, {"verify": True}):
        report = ledger.refresh(scan(data), **options)
        assert list(report.quarantined) == list(ledger.quarantined) == ["3.parquet"]
        assert report.quarantined["3.parquet"].startswith(SHIFTED)
        assert f"\nquarantined 3.parquet: {SHIFTED}" in str(report)
        assert (report.reused, report.rows_held) == (("0.parquet", "1.parquet", "2.parquet"), 600)
        assert ledger.statistics() == StatisticsLedger(ledger.path).statistics()
        assert ledger.statistics().allclose(of(data, *"012"), rtol=1e-12)
    assert list(ledger.refresh(scan(data), dry_run=True).quarantined) == ["3.parquet"]
    put(data / "4.parquet", rows(200), 4)
    report = ledger.refresh(scan(data), **LIMITS)
    assert (report.added, list(report.quarantined), report.rows_held) == (("4.parquet",), ["3.parquet"], 800)
    assert {found.rows for found in report.drift} == set(of(data, "4").counts.tolist())
    assert ledger.files["path"].to_pylist() == [f"{n}.parquet" for n in (0, 1, 2, 4)]


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_who_accepts_all_has_the_bits_of_no_quarantine_and_reads_nothing(data, tmp_path, kind, exact):
    judged, plain = (StatisticsLedger(tmp_path / name, kind, exact=exact) for name in ("judged", "plain"))
    for night in range(3, 7):
        put(data / f"{night}.parquet", rows(100, 9.0 * (night % 2)), night)
        judged.refresh(scan(data), **LIMITS)
        plain.refresh(scan(data))
    assert list(judged.quarantined) == ["5.parquet"]  # the first refresh had nothing to judge 3 by
    before = entries(judged)
    judged.accept(*judged.quarantined)
    assert judged.statistics() == plain.statistics()
    assert judged.files.equals(plain.files)
    assert judged.refresh(scan(data), **LIMITS).read == ()
    assert entries(judged) == before == entries(plain)
    assert judged.quarantined == {}
    judged.accept("5.parquet")  # again, which changes nothing
    put(data / "7.parquet", rows(100), 7)
    assert judged.refresh(scan(data)).rows_held == plain.refresh(scan(data)).rows_held


def test_a_rejected_file_stays_out_until_it_changes(data, ledger):
    ledger.reject("3.parquet")
    report = ledger.refresh(scan(data), **LIMITS)
    assert (report.quarantined, report.rejected, report.read) == ({}, ("3.parquet",), ())
    assert str(report).splitlines()[2] == "rejected: 3.parquet"
    assert ledger.statistics().allclose(of(data, *"012"), rtol=1e-12)
    put(data / "3.parquet", rows(150), 4)
    report = ledger.refresh(scan(data), **LIMITS)
    assert (report.changed, report.quarantined, report.rejected) == (("3.parquet",), {}, ())
    assert ledger.statistics().allclose(of(data, *"0123"), rtol=1e-12)


def test_an_answer_can_be_taken_back(data, ledger):
    both = of(data, *"0123")
    ledger.reject("*")  # of the quarantined
    assert ledger.statistics().n_rows == 600
    ledger.accept("3.parquet")
    assert ledger.statistics().allclose(both, rtol=1e-12)
    ledger.reject("3.parquet", "0.parquet")  # any file that is named in full
    assert ledger.statistics().allclose(of(data, *"12"), rtol=1e-12)
    assert ledger.refresh(scan(data)).rejected == ("0.parquet", "3.parquet")


def test_a_later_version_is_judged_anew_and_the_former_counts_no_more(data, ledger):
    put(data / "3.parquet", rows(200, -9.0), 4)
    assert SHIFTED + "-" in ledger.refresh(scan(data), **LIMITS).quarantined["3.parquet"]
    put(data / "3.parquet", rows(200), 5)
    assert ledger.refresh(scan(data), **LIMITS).quarantined == {}
    assert ledger.statistics().allclose(of(data, *"0123"), rtol=1e-12)
    put(data / "0.parquet", rows(200, 9.0), 6)
    assert list(ledger.refresh(scan(data), **LIMITS).quarantined) == ["0.parquet"]
    assert ledger.statistics().allclose(of(data, *"123"), rtol=1e-12)


def test_a_quarantined_file_that_is_deleted_is_dropped(data, ledger):
    (data / "3.parquet").unlink()
    report = ledger.refresh(scan(data), **LIMITS)
    assert (report.dropped, report.quarantined, report.rows_held) == (("3.parquet",), {}, 600)


def test_each_file_is_judged_by_itself_against_what_was_held(data, ledger):
    """The two shifts cancel in the sum of both; each lies far from the others."""
    ledger.reject("3.parquet")
    (data / "3.parquet").unlink()
    for name, shift in (("4", 0.0), ("5", 5.0), ("6", -5.0)):
        put(data / f"{name}.parquet", rows(200, shift), 4)
    report = ledger.refresh(scan(data), **LIMITS)
    assert list(report.quarantined) == ["5.parquet", "6.parquet"]
    together = drift(of(data, *"012"), of(data, *"456"))
    assert together.alarms(**LIMITS) == ()
    expected = drift(of(data, *"012"), of(data, "5")).alarms(**LIMITS)
    assert [text.split(" by ")[0] for text in report.quarantined["5.parquet"].split("; ")] == [
        text.split(" by ")[0] for text in expected
    ]


def test_new_classes_and_shares_that_move(data, ledger, tmp_path):
    ledger.reject("3.parquet")
    put(data / "4.parquet", rows(200, 0.0, ("ant", "bee", "cat")), 4)
    put(data / "5.parquet", rows(200, 0.0, ("ant",)), 5)
    put(data / "6.parquet", rows(200), 6)
    report = ledger.refresh(scan(data), no_new_classes=True, max_share_shift=8.0)
    assert report.quarantined["4.parquet"] == "class cat is new"
    first, second = report.quarantined["5.parquet"].split("; ")
    assert first.startswith("class ant: its share has moved from 0.")
    assert " to 1, by " in first
    assert second.startswith("class bee: its share has moved from 0.")
    assert " to 0, by -" in second
    assert list(report.quarantined) == ["4.parquet", "5.parquet"]


@pytest.mark.slow
def test_a_few_rows_that_lie_far_by_chance_are_no_alarm(data, tmp_path):
    """400 files of single rows, of which about 60 lie more than 1.5 deviations away."""
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(scan(data))
    for n in range(400):
        put(data / f"few-{n}.parquet", rows(1), 5)
    assert len(ledger.refresh(scan(data), max_shift=1.5, max_divergence=50.0).quarantined) <= 2


def test_an_entry_that_is_lost_is_read_again_and_stays_apart(data, ledger):
    for name in entries(ledger):
        Path(ledger.path, "entries", name).unlink()
    report = ledger.refresh(scan(data))
    assert (len(report.reread), list(report.quarantined), report.rows_held) == (4, ["3.parquet"], 600)
    ledger.reject("3.parquet")
    ledger.compact()
    put(data / "0.parquet", rows(100), 9)
    report = ledger.refresh(scan(data), **LIMITS)
    assert (report.reread, report.rejected, report.rows_held) == ((), ("3.parquet",), 500)


def test_what_is_quarantined_is_in_no_statistics(data, ledger, tmp_path):
    assert ledger.statistics(half_life=timedelta(days=1)).counts.sum() == 600
    assert ledger.statistics(where="*").n_rows == 600
    with pytest.raises(ValueError, match="holds no file that is chosen, of 3 in all; 1 file quarantined"):
        ledger.statistics(where="3*")
    folded = StatisticsLedger(tmp_path / "folded", folds=3)
    moved = (data / "3.parquet").rename(tmp_path / "3.parquet")
    folded.refresh(scan(data))
    moved.rename(data / "3.parquet")
    assert list(folded.refresh(scan(data), **LIMITS).quarantined) == ["3.parquet"]
    assert folded.fold_statistics().n_rows == 600
    folded.accept("3.parquet")
    assert folded.fold_statistics().n_rows == 800


def test_incomplete_rows_that_come_later_are_judged_too(data, ledger):
    table = rows(200)
    holes = table.set_column(0, "u", [[None if n % 9 == 0 else n % 7 for n in range(200)]])
    put(data / "3.parquet", holes, 5)
    report = ledger.refresh(scan(data, missing="marginal"), **LIMITS)
    assert report.quarantined["3.parquet"].startswith(SHIFTED)
    ledger.accept("3.parquet")
    assert ledger.statistics().n_rows == 800


def test_what_cannot_be_answered_is_said_and_nothing_changes(data, ledger):
    before = Path(ledger.path, "manifest.parquet").read_bytes()
    with pytest.raises(ValueError, match="has no file 'tuesday.parquet'; quarantined: 3.parquet"):
        ledger.accept("3.parquet", "tuesday.parquet")
    assert Path(ledger.path, "manifest.parquet").read_bytes() == before
    ledger.accept("3.parquet")
    with pytest.raises(ValueError, match=r"has no file '9\*'; no file is quarantined"):
        ledger.reject("9*")
    with pytest.raises(ValueError, match="holds nothing yet"):
        StatisticsLedger(f"{ledger.path}-other").accept("3.parquet")


def test_a_manifest_from_before_there_was_a_quarantine_goes_on(data, ledger):
    ledger.accept("3.parquet")
    path = Path(ledger.path, "manifest.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["status", "alarm"]), path)
    assert ledger.statistics().n_rows == 800
    put(data / "4.parquet", rows(200, 30.0), 4)
    assert list(ledger.refresh(scan(data), **LIMITS).quarantined) == ["4.parquet"]


def test_a_status_that_is_none_is_refused(data, ledger):
    path = Path(ledger.path, "manifest.parquet")
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("status"), "status", [["good"] * 4]), path)
    with pytest.raises(ValueError, match="status is 'good'"):
        ledger.statistics()


# ---------------------------------------------------------------------- crashes and crowds


def refresh(data, path):
    StatisticsLedger(path).refresh(scan(data), scheduler="synchronous", **LIMITS)


def answer(path, accepts):
    ledger = StatisticsLedger(path)
    (ledger.accept if accepts else ledger.reject)("3.parquet")


@pytest.mark.slow
def test_killed_at_any_moment_a_drifted_file_never_counts_unless_it_is_accepted(data, tmp_path):
    home = tmp_path / "home"
    with in_processes() as pool:
        assert pool.submit(kill_at_many_moments, data, home).result() == 40


def kill_at_many_moments(data, home):
    """Let a good and a bad file come each turn, kill the refresh or the answer after a while, and look."""
    draw, ledger, kills = random.Random(0), StatisticsLedger(home), 0
    refresh(data, home)
    put(data / "3.parquet", rows(200, 9.0), 3)
    start = time.perf_counter()
    assert os.waitpid(in_fork(refresh, data, home), 0)[1] == 0
    usual = time.perf_counter() - start
    for turn in range(200):
        if kills == 40:
            break
        put(data / "2.parquet", rows(200), turn)
        put(data / "3.parquet", rows(200, 9.0), turn)
        refreshed = turn % 2 == 0
        child = in_fork(refresh, data, home) if refreshed else in_fork(answer, home, turn % 4 == 1)
        time.sleep(draw.random() * usual * 0.5)
        os.kill(child, signal.SIGKILL)
        killed = os.waitpid(child, 0)[1] == signal.SIGKILL
        kills += killed
        usual *= 1.05 if killed else 0.9  # the first may have been measured on a busy machine
        found = ledger.statistics()
        assert found.n_rows == (800 if turn % 4 == 1 and not ledger.quarantined else 600)
        assert (found.means[:, 0] < 1).all() or found.n_rows == 800
        assert os.waitpid(in_fork(refresh, data, home), 0)[1] == 0
        assert list(ledger.quarantined) == ["3.parquet"]
        assert ledger.statistics().allclose(of(data, *"012"), rtol=1e-12)
        assert set(entries(ledger)) == {record.entry for record in ledger._folder.read_manifest().sorted()}
    return kills


def test_a_limit_that_is_not_known_is_refused_though_nothing_is_read(data, ledger):
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_shfit'"):
        ledger.refresh(scan(data), max_shfit=1)


def test_a_lost_manifest_loses_no_answer(data, ledger):
    """Files in quarantine and rejected files do not count in a ledger that is made anew from its entries."""
    ledger.reject("1.parquet")
    before = ledger.statistics(), ledger.quarantined, ledger.rejected
    assert (list(before[1]), before[2]) == (["3.parquet"], ("1.parquet",))
    Path(ledger._folder.manifest_path).unlink()
    ledger.refresh(scan(data))
    assert (ledger.statistics(), ledger.quarantined, ledger.rejected) == before

    ledger.accept("1.parquet", "3.parquet")
    n_rows = ledger.statistics().n_rows
    Path(ledger._folder.manifest_path).unlink()
    ledger.refresh(scan(data))
    assert (ledger.quarantined, ledger.rejected, ledger.statistics().n_rows) == ({}, (), n_rows)


def test_a_list_of_answers_that_is_lost_or_was_never_written_is_restored_by_a_refresh(data, ledger):
    """Ledgers of 0.2 had none, and kept the answers in the manifest alone."""
    ledger.reject("1.parquet")
    before = ledger.statistics(), ledger.quarantined, ledger.rejected
    listed = Path(ledger.path, "quarantine.parquet")
    listed.unlink()
    assert ledger.refresh(scan(data), dry_run=True).read == ()
    assert not listed.exists()
    assert ledger.refresh(scan(data)).read == ()
    Path(ledger._folder.manifest_path).unlink()
    ledger.refresh(scan(data))
    assert (ledger.statistics(), ledger.quarantined, ledger.rejected) == before

    ledger.accept("1.parquet", "3.parquet")
    listed.unlink()
    ledger.refresh(scan(data))
    assert not listed.exists()  # as there is nothing to list
