"""A sliding window holds what a fit of its last batches holds, and loses no digit on the way."""

import gc
import sys
from collections import deque
from datetime import date
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgda import ClassStatistics, GaussianNB, WindowedStatistics, load, load_metadata
from tests.contracts import test_laws
from tests.strategies import KINDS, kinds

RNG = np.random.default_rng(0)


class TestWindow(test_laws.TestFull):
    """A window of some states is their sum, also after others have left it."""

    def total(self, parts):
        window = WindowedStatistics(len(parts), self.kind)
        for part in (*parts[::-1], *parts):
            window.append(part)
        return window.statistics


@given(kinds, st.integers(1, 5), st.lists(st.integers(0, 4), max_size=12))
def test_the_window_is_a_fit_of_the_last_batches(kind, n_batches, sizes):
    window = WindowedStatistics(n_batches, kind)
    last = deque(maxlen=n_batches)
    for size in sizes:
        X, y = RNG.normal(size=(size, 2)) + 1e6, RNG.integers(0, 3, size=size)
        window.update(X, y)
        last.append((X, y))
        X, y = (np.concatenate(parts) for parts in zip(*last, strict=True))
        assert len(window) == len(last)
        assert window.statistics.allclose(ClassStatistics(kind).update(X, y), rtol=1e-9)
        assert window.statistics.n_rows == len(y)


def test_a_giant_that_has_passed_leaves_no_trace():
    """Where states are subtracted, what a batch of 10^12 leaves behind would swamp the rest."""
    window = WindowedStatistics(3, "diag")
    for scale in (1.0, 1e12, 1.0, 1.0, 1.0):
        window.update([[scale], [-scale]], [0, 0])
    values = [Fraction(v) for v in (1, -1) * 3]
    assert window.statistics.scatter == float(sum(v * v for v in values))
    assert window.statistics.means == 0


def test_columns_are_matched_by_name():
    frame = pd.DataFrame({"u": [1.0, 2.0], "v": [30.0, 40.0]})
    window = WindowedStatistics(3).update(frame, [0, 0]).update(frame[["v", "u"]], [0, 0])
    assert window.statistics.feature_names == ("u", "v")
    assert window.statistics.means.tolist() == [[1.5, 35.0]]


def test_a_batch_that_is_refused_changes_nothing():
    window = (
        WindowedStatistics(2, feature_names=["u", "v"]).update(np.eye(2), [0, 1]).update(np.eye(2), [1, 2])
    )
    before = window.statistics
    with pytest.raises(ValueError, match="NaN"):
        window.update([[np.nan, 0.0]], [0])
    with pytest.raises(ValueError, match="different kinds"):
        window.update([[0.0, 0.0]], ["a"])
    with pytest.raises(ValueError, match="3 features|features"):
        window.append(ClassStatistics().update(np.eye(3), [0, 1, 2]))
    for kind in set(KINDS) - {"full"}:
        with pytest.raises(ValueError, match="covariance types"):
            window.append(ClassStatistics(kind).update(np.eye(2), [0, 1]))
    assert window.statistics == before
    assert window.statistics.feature_names == ("u", "v")


def test_batches_and_results_are_not_shared():
    part = ClassStatistics("diag").update([[1.0], [2.0]], [0, 1])
    window = WindowedStatistics(3, "diag").append(part)
    part.update([[100.0]], [0])
    window.statistics.update([[100.0]], [0])
    assert window.statistics.n_rows == 2
    assert GaussianNB.from_statistics(window.update([[3.0]], [1]).statistics).theta_.tolist() == [
        [1.0],
        [2.5],
    ]


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ({"n_batches": 2.5}, "n_batches must be a whole number, at least 1; got 2.5"),
        ({"n_batches": 0}, "n_batches must be a whole number, at least 1; got 0"),
        ({"n_rows": 0}, "n_rows must be a whole number, at least 1; got 0"),
        ({"n_rows": -3}, "n_rows must be a whole number, at least 1; got -3"),
        ({"seconds": float("nan")}, "seconds must be a positive number; got nan"),
        ({"seconds": 0}, "seconds must be a positive number; got 0"),
        ({}, "give one of n_batches, n_rows and seconds; got none"),
        ({"n_rows": 9, "seconds": 60}, "give one of n_batches, n_rows and seconds; got n_rows, seconds"),
    ],
)
def test_a_window_without_room_is_refused(ends, message):
    with pytest.raises(ValueError, match=message):
        WindowedStatistics(**ends)


@pytest.mark.parametrize(
    ("ends", "first", "wrong", "message"),
    [
        ({"n_batches": 2}, None, [5], "time counts in a window of seconds alone"),
        ({"seconds": 60}, None, [5], "had no time, so this one needs none"),
        ({"seconds": 60}, 5, [None], "had a time, so this one needs one"),
        ({"seconds": 60}, 5, [4], "a batch of time 4.0 comes after one of time 5.0"),
        ({"seconds": 60}, 5, [np.nan, np.inf, True, "6", date(2026, 1, 5)], "is a number of seconds"),
    ],
)
def test_the_times_of_a_window_are_all_given_or_all_by_the_clock(ends, first, wrong, message):
    window = WindowedStatistics(**ends).update([[1.0]], [0], time=first)
    for known in (window, WindowedStatistics.from_bytes(window.to_bytes()), window.copy()):
        for time in wrong:
            with pytest.raises(ValueError, match=message):
                known.update([[1.0]], [0], time=time)
        assert known.to_bytes() == window.to_bytes()


def test_a_clock_that_is_set_back_stops_no_window(monkeypatch):
    window = WindowedStatistics(seconds=60)
    for now in (1000.0, 400.0, 1059.0, 1060.0):
        monkeypatch.setattr("time.time", lambda now=now: now)
        window.update([[1.0]], [0])
    assert len(window) == 2


def test_a_batch_costs_as_much_however_many_are_in_the_window():
    batch = ClassStatistics("diag").update([[1.0]], [0])

    def n_lines_of_a_batch(n):
        window = WindowedStatistics(n_rows=n, covariance_type="diag")
        for _ in range(n // 2):
            window.append(batch)
        lines = []
        gc.disable()  # or what it calls would be counted
        sys.settrace(lambda *_: lambda *_: lines.append(1))
        try:
            window.append(batch)
        finally:
            sys.settrace(None)
            gc.enable()
        return len(lines)

    assert n_lines_of_a_batch(400) == n_lines_of_a_batch(8)


def test_a_window_ends_by_rows_or_by_time():
    by_rows, by_time = WindowedStatistics(n_rows=10), WindowedStatistics(seconds=60)
    for second, size in ((0, 4), (30, 5), (60, 3), (89, 6), (200, 40)):
        X, y = RNG.normal(size=(size, 2)), np.arange(size) % 2
        by_rows.update(X, y)
        by_time.update(X, y, time=second)
        rows = {0: 4, 30: 9, 60: 8, 89: 9, 200: 40}  # the newest batch stays, however many its rows
        assert by_rows.statistics.n_rows == rows[second]
        assert by_time.statistics.n_rows == {0: 4, 30: 9, 60: 8, 89: 14, 200: 40}[second]
    assert repr(by_rows) == "WindowedStatistics(n_rows=10, covariance_type='full', batches=1, rows=40)"
    with pytest.raises(ValueError, match="of time 199.0 comes after one of time 200.0"):
        by_time.update([[0.0, 0.0]], [0], time=199)
    assert by_time.statistics.n_rows == 40


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("exact", [False, True])
def test_a_saved_window_goes_on_where_it_was(tmp_path, exact):
    path = tmp_path / "window.parquet"
    window = WindowedStatistics(covariance_type="tied", exact=exact, feature_names=["u", "v"], seconds=3)
    for time in range(9):
        back = WindowedStatistics.from_bytes(window.to_bytes())
        window.save(path, metadata={"offset": time})
        for other in (back, WindowedStatistics.load(path)):
            assert other.statistics == window.statistics
            assert repr(other) == repr(window)
        X, y = RNG.normal(size=(4, 2)), RNG.choice(["a", "b"], 4)
        for one in (window, back):
            one.update(X, y, time=time)
        assert back.statistics == window.statistics
    assert load_metadata(path)["metadata"] == {"offset": 8}
    with pytest.raises(ValueError, match=r"'WindowedStatistics', which WindowedStatistics\.load reads"):
        load(path)
    window.statistics.save(path)
    with pytest.raises(ValueError, match="holds no window: its kind is '(Exact)?ClassStatistics'"):
        WindowedStatistics.load(path)
