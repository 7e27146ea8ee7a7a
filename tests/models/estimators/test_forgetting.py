"""Models that forget: with a half-life, a row counts by its age, as by a weight of a single fit."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    SubclassCenters,
    from_bytes,
    progressive_score,
    scan_arrow,
)
from streamgda.models.estimators import ESTIMATORS, estimator_named

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, size=240)
X = RNG.normal(size=(240, 3)) + Y[:, None] * [1.0, 0.5, -1.0]
SIZES = [40, 1, 0, 1, 98, 60, 40]
ENDS = np.cumsum(SIZES)
BATCHES = [slice(end - size, end) for end, size in zip(ENDS, SIZES, strict=True)]
LEARNT_LATER = np.concatenate([np.full(size, 240 - end) for size, end in zip(SIZES, ENDS, strict=True)])
CENTERS = SubclassCenters({label: X[Y == label][:2] for label in range(3)}, np.eye(3))
KINDS = [estimator_named(name) for name in ESTIMATORS if name != "MixtureDiscriminantAnalysis"]
MODELS = [
    *(kind() for kind in KINDS if "half_life" in kind().get_params()),
    MixtureDiscriminantAnalysis(subclasses=CENTERS),
    LinearDiscriminantAnalysis(missing="marginal"),
]


def same(model, other, rtol=1e-12):
    return model.statistics_.allclose(other.statistics_, rtol=rtol) and np.allclose(
        model.predict_proba(X), other.predict_proba(X), rtol=1e-8, atol=1e-12
    )


@pytest.mark.slow_cases("1000.0")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model}"[:45])
@pytest.mark.parametrize("half_life", [20, 1000.0])
def test_a_model_that_forgets_is_one_fit_with_weights_by_age(model, half_life):
    weighted = type(model)(**model.get_params()).fit(X, Y, 0.5 ** (LEARNT_LATER / half_life))
    model.set_params(half_life=half_life)
    rows, source = (type(model)(**model.get_params()) for _ in range(2))
    for batch in BATCHES:
        rows.partial_fit(X[batch], Y[batch])
        if len(Y[batch]):
            table = pa.table({**dict(zip("abc", X[batch].T, strict=True)), "y": Y[batch]})
            source.partial_fit(scan_arrow(table, "y"))
    assert same(rows, weighted)
    assert rows.statistics_.n_rows == 240
    np.testing.assert_allclose(source.statistics_.weights, rows.statistics_.weights, rtol=1e-12)
    assert rows.fit(X, Y).statistics_.weights.sum() == 240  # one batch, whose rows are of one age


@pytest.mark.filterwarnings("ignore:no batch came after")  # where the first rows are of one class
@pytest.mark.slow
@settings(max_examples=25)
@given(
    order=st.permutations(range(6)),
    cut=st.integers(0, 6),
    unit=st.sampled_from(["D", "h"]),
    ways=st.lists(st.sampled_from(["rows", "source", "progressive"]), min_size=6, max_size=6),
)
def test_with_times_rows_count_by_age_in_any_order_way_and_model(order, cut, unit, ways):
    days = np.sort(RNG.uniform(0, 30, size=240))
    for rows, way in zip(days.reshape(6, 40), ways, strict=True):
        rows[:] = rows[-1] if way == "source" else rows
    frame = pd.DataFrame(X, columns=list("abc"))
    weighted = QuadraticDiscriminantAnalysis().fit(frame, Y, 0.5 ** ((days.max() - days) / 7))
    times = pd.Timestamp("2026-01-01", tz="Europe/Berlin") + pd.to_timedelta(days, unit="D")
    if unit == "h":
        times = days * 24
    models = [QuadraticDiscriminantAnalysis(half_life=7 if unit == "D" else 168) for _ in range(2)]
    for i, part in enumerate(order):
        rows = slice(40 * part, 40 * part + 40)
        model, batch, now = models[i >= cut], frame[rows], times[rows]
        if ways[part] == "progressive":
            progressive_score(model, [(batch.assign(when=now), Y[rows])], time="when")
        elif ways[part] == "source":
            model.partial_fit(scan_arrow(batch.assign(y=Y[rows]), "y"), time=now[-1])
        else:
            model.partial_fit(batch, Y[rows], sample_weight=np.ones(40), time=now)
        models[i >= cut] = from_bytes(model.to_bytes())
    one, other = models if cut < 6 else models[::-1]
    found = one.merge(other) if 0 < cut < 6 else models[int(cut == 0)]
    newest = times.max().timestamp() / 86400 if unit == "D" else times.max()
    assert found._newest.values == pytest.approx(newest, rel=1e-12)
    assert found.statistics_.allclose(weighted.statistics_, rtol=1e-9)


DATES = [date(2026, 1, day) for day in (1, 2, 3, 6)]
ZONED = pd.Series(pd.to_datetime(DATES)).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
ONE = [[1.0, 2.0, 3.0]], [0]


@pytest.mark.parametrize(
    "times",
    [
        [0, 1, 2, 5],
        np.array([0, 1, 2, 5], object),
        DATES,
        [str(day) for day in DATES],
        ["2026-01-01", DATES[1], ZONED[2], np.datetime64("2026-01-06")],
        np.array(DATES, "datetime64[s]"),
        pd.Index(DATES, dtype="datetime64[ns]"),
        ZONED,
        ZONED.astype(object),
        pa.chunked_array([DATES]),
        [f"{day}T09:00+09:00" for day in DATES],
    ],
    ids=range(11),
)
def test_times_are_numbers_or_dates_in_any_container(times):
    learner = GaussianNB(half_life=2).partial_fit(X[:4], Y[:4], time=times)
    weights = np.bincount(Y[:4], 0.5 ** (np.array([5, 4, 3, 0]) / 2))
    np.testing.assert_allclose(learner.statistics_.weights, weights[weights > 0], rtol=1e-14)
    with pytest.raises(ValueError, match=r"X has 4 rows.*\(0,\)"):
        learner.partial_fit(X[:4], Y[:4], time=[])


SECOND = datetime(2026, 2, 1, tzinfo=UTC)
NO_TIMES = [
    *(True, timedelta(1), np.timedelta64(1, "ns"), pd.NaT, pd.NA, np.nan, np.inf, 1j, "noon", "1/2/26", "5"),
    *(date(2262, 5, 1), datetime.max, datetime.max.replace(tzinfo=UTC), "9999-12-31", np.datetime64("2999")),
]


@pytest.mark.parametrize("wrong", NO_TIMES, ids=repr)
def test_what_is_no_time_is_refused_with_its_row_and_changes_nothing(wrong):
    model = GaussianNB(half_life=2).partial_fit(X, Y, time="2026-01-31")
    before = model.to_bytes()
    with pytest.raises(ValueError, match="the batch (has no time|is dated later than tomorrow)"):
        model.partial_fit(X, Y, time=wrong)
    for container in (list, np.array) if wrong is not True else (list,):  # NumPy makes 1 of it
        is_array = container is np.array and isinstance(wrong, np.generic)
        with pytest.raises(ValueError, match="row (0|1) (has no time|is dated later than tomorrow)"):
            model.partial_fit(X[:2], Y[:2], time=container([wrong, wrong] if is_array else [SECOND, wrong]))
    assert model.to_bytes() == before


KIND = "times are (dates|numbers) here, and were (dates|numbers) before; give times of one kind"


@pytest.mark.parametrize("times", [[5.0, SECOND], ["2026-01-05", 20260105], np.array([SECOND, 5], object)])
def test_dates_and_numbers_are_not_mixed_in_one_batch(times):
    with pytest.raises(ValueError, match="some times are dates and some are numbers"):
        GaussianNB(half_life=2).partial_fit(X[:2], Y[:2], time=times)


@pytest.mark.parametrize(("kind", "other"), [(lambda day: DATES[day % 4], 20260120), (float, SECOND)])
def test_a_time_of_the_other_kind_is_refused_whatever_the_way_in(kind, other):
    """Ten batches, and one of the other kind: no row is lost without a word."""
    rows = pd.DataFrame(X).add_prefix("x")
    model, other_model = (GaussianNB(half_life=7) for _ in range(2))
    for day, batch in enumerate(np.split(np.arange(240), 10)):
        model.partial_fit(rows.iloc[batch], Y[batch], time=kind(day))
    other_model.partial_fit(rows, Y, time=other)
    rows = rows[:40]
    frame = rows.assign(when=[other] * 40)
    before = model.to_bytes()
    for learner in (model, from_bytes(before), GaussianNB(half_life=7).merge(model)):
        for wrong in (
            lambda learner: learner.partial_fit(rows, Y[:40], time=other),
            lambda learner: learner.partial_fit(rows, Y[:40], time=[other] * 40),
            lambda learner: learner.partial_fit(rows, Y[:40], sample_weight=np.zeros(40), time=other),
            lambda learner: learner.partial_fit(scan_arrow(rows.assign(y=Y[:40]), "y"), time=other),
            lambda learner: learner.merge(other_model),
            lambda learner: progressive_score(learner, [(frame, Y[:40])], time="when"),
            lambda learner: progressive_score(learner, scan_arrow(frame.assign(y=Y[:40]), "y"), time="when"),
        ):
            with pytest.raises(ValueError, match=KIND):
                wrong(learner)
        assert learner.statistics_ == model.statistics_
    assert model.to_bytes() == before


def test_a_batch_of_no_weight_moves_nothing():
    for time in (["2026-01-05", "2026-03-05"], [5, 500], [None, None]):
        model = GaussianNB(half_life=2).partial_fit(X, Y, time=time[0])
        weights = model.statistics_.weights
        model.partial_fit(X, Y, sample_weight=np.zeros(240), time=time[1])
        model.partial_fit(X + np.nan, Y, missing="drop", time=time[1])
        np.testing.assert_array_equal(model.statistics_.weights, weights)
        model.partial_fit(*ONE, time=time[0])
        late = 0 if time[0] else 1
        np.testing.assert_allclose(model.statistics_.weights.sum(), 240 * 0.5 ** (late / 2) + 1, rtol=1e-12)


def test_a_warning_says_when_the_weight_of_what_was_known_is_lost():
    model = GaussianNB(half_life=7).partial_fit(X, Y, time=1.0)
    model.partial_fit(X, Y, time=7 * 39.0)
    before = model.to_bytes()
    with pytest.raises(UserWarning, match="the rows learnt before are more than 40 half-lives older"):
        model.partial_fit(X, Y, time=1.7e9)
    with pytest.raises(UserWarning, match="the rows of this batch are more than 40 half-lives older"):
        model.partial_fit(X, Y, time=-8.0)
    assert model.to_bytes() == before  # a warning that is an error refuses the batch


def test_a_model_saved_without_the_kind_of_its_times_takes_that_of_the_next():
    model = GaussianNB(half_life=7).partial_fit(X, Y, time="2026-01-05")
    model._newest = model._newest._replace(are_dates=None)
    old = from_bytes(model.to_bytes())
    old.partial_fit(X, Y, time=date(2026, 1, 12))
    assert old.statistics_.weights.sum() == 360
    with pytest.raises(ValueError, match=KIND):
        old.partial_fit(X, Y, time=20465.0)


def test_the_rows_of_a_source_are_of_one_time():
    table = pa.table({**dict(zip("abc", X.T, strict=True)), "y": Y})
    model = GaussianNB(half_life=2).partial_fit(X, Y)
    for day in ("2026-03-01", pd.Timestamp("2026-03-05"), np.datetime64("2026-03-03")):
        model.partial_fit(scan_arrow(table, "y"), time=day)
    assert model.statistics_.weights.sum() == pytest.approx(240 * (1 / 4 + 1 / 4 + 1 + 1 / 2), rel=1e-12)


def test_a_class_of_which_nothing_came_for_long_is_gone():
    model = LinearDiscriminantAnalysis(half_life=1).partial_fit(X, Y)
    with pytest.warns(UserWarning, match="count for nothing now"):
        for _ in range(5):
            model.partial_fit(X[Y > 0], Y[Y > 0])
    assert model.classes_.tolist() == [1, 2]
    np.testing.assert_allclose(model.means_, [X[Y == label].mean(axis=0) for label in (1, 2)], rtol=1e-9)


def test_a_batch_that_is_refused_ages_nothing():
    model = GaussianNB(half_life=10).partial_fit(X, Y, time=1.0)
    before = model.to_bytes()
    for wrong in (
        lambda: model.partial_fit([[np.nan, 0, 0]], [0], time=9.0),
        lambda: model.partial_fit([[0.0, 0, 0]], ["a"], time=9.0),
        lambda: model.partial_fit(X, Y, time=np.nan),
        lambda: model.partial_fit(X, Y),
        lambda: model.partial_fit(scan_arrow(pa.table({"a": X[:, 0], "y": Y}), "y"), time=np.ones(240)),
        lambda: model.partial_fit(X, Y, time=np.ones(5)),
        lambda: model.partial_fit(X, Y, time=np.ones((240, 1)), sample_weight=np.ones(240)),
        lambda: model.partial_fit(X, Y, time=np.ones(240), sample_weight=np.ones(5)),
    ):
        message = (
            r"NaN|labels|no time|give time|one number or date|X has 240 rows, (time|sample_weight) has shape"
        )
        with pytest.raises(ValueError, match=message):
            wrong()
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("params", "time", "message"),
    [
        ({}, 1.0, "time says how old rows are"),
        ({"half_life": 0}, None, "half_life"),
        ({"half_life": 2, "exact": True}, None, "exact=True needs half_life=None"),
    ],
)
def test_half_lives_that_make_no_sense_are_refused(params, time, message):
    with pytest.raises(ValueError, match=message):
        GaussianNB(**params).partial_fit(X, Y, time=time)
