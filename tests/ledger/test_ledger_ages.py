"""The age of the files of a ledger comes from their own time, from partition keys, or from given dates."""

import os
import time
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgda import StatisticsLedger, accumulate, scan_parquet

RNG = np.random.default_rng(5)
DAY = timedelta(days=1)
NAMES = {0: "2026-01-30", 1: "2026-01-31", 3: "2026-02-02"}  # dates, by days since the first


def put(path, n=30):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"u": RNG.normal(size=n), "kind": ["ant", "bee"] * (n // 2)}), path)
    os.utime(path, (1.7e9, 1.7e9))  # all copied on one day, as by a backup


def held(folder, paths, **options):
    for path in paths:
        put(folder / "data" / path)
    ledger = StatisticsLedger(folder / "ledger", **options)
    ledger.refresh(scan_parquet(folder / "data", "kind", features=["u"]))
    return ledger


def decayed(folder, paths_by_day, half_life):
    """The statistics of each file alone, weighed by its age and added up."""
    newest = max(paths_by_day)
    parts = [
        accumulate(scan_parquet(folder / "data" / path, "kind", features=["u"])).decay(
            0.5 ** ((newest - day) / half_life)
        )
        for day, path in paths_by_day.items()
    ]
    return sum(parts)


@pytest.mark.parametrize(
    ("template", "age"),
    [
        ("day={:%Y-%m-%d}/a.parquet", "day"),
        ("day={:%Y%m%d}/a.parquet", "day"),
        ("hour={:%Y-%m-%dT12}/a.parquet", "hour"),
        ("year={:%Y}/month={0:%m}/day={0:%d}/a.parquet", ["year", "month", "day"]),
    ],
)
def test_partition_keys_date_the_files(tmp_path, template, age):
    paths = {
        day: template.replace("{0", "{").format(*[date.fromisoformat(name)] * 3)
        for day, name in NAMES.items()
    }
    ledger = held(tmp_path, paths.values())
    assert ledger.statistics(half_life=DAY).weights.sum() == 90
    aged = ledger.statistics(half_life=2 * DAY, age=age)
    assert aged.allclose(decayed(tmp_path, paths, 2), rtol=1e-12)
    assert aged.weights.sum() == pytest.approx(30 * (1 + 2**-1 + 2**-1.5))


@pytest.mark.parametrize("made", [str, date.fromisoformat, datetime.fromisoformat])
def test_dates_may_be_given_by_path(tmp_path, made):
    paths = {day: f"{name}.parquet" for day, name in NAMES.items()}
    ledger = held(tmp_path, paths.values())
    dates = {path: made(path.removesuffix(".parquet")) for path in ledger.files["path"].to_pylist()}
    aged = ledger.statistics(half_life=2 * DAY, age=dates)
    assert aged.allclose(decayed(tmp_path, paths, 2), rtol=1e-12)
    some = ledger.statistics(half_life=2 * DAY, age={"2026-01-31.parquet": "2026-01-31"}, where="*31*")
    assert some.weights.sum() == 30
    with pytest.raises(ValueError, match="age of 2026-01-30.parquet: 'None' is no date"):
        ledger.statistics(half_life=DAY, age={"2026-01-31.parquet": "2026-01-31"})


def test_months_are_dates_too_and_zones_count(tmp_path):
    ledger = held(tmp_path, ["month=2026-01/a.parquet", "month=2026-03/a.parquet"])
    assert ledger.statistics(half_life=59 * DAY, age="month").weights.sum() == pytest.approx(45)
    (here, there) = ledger.files["path"].to_pylist()
    zoned = {here: "2026-01-01T12:00+02:00", there: datetime(2026, 1, 1, 12, tzinfo=UTC)}
    two_hours = ledger.statistics(half_life=timedelta(hours=2), age=zoned)
    assert two_hours.weights.sum() == pytest.approx(45)


def test_a_folder_dated_in_the_future_does_not_empty_the_others(tmp_path):
    today = f"{datetime.now(tz=UTC):%Y-%m-%d}"
    ledger = held(tmp_path, [f"day={today}/a.parquet", "day=9999-01-01/a.parquet"])
    assert ledger.statistics(half_life=DAY, age="day").weights.sum() >= 30 * (1 + 0.5**2)


def test_folds_are_weighed_by_given_ages_too(tmp_path):
    ledger = held(tmp_path, [f"day={name}/a.parquet" for name in NAMES.values()], folds=3)
    folds = ledger.fold_statistics(half_life=DAY, age="day")
    assert folds.total().weights.sum() == pytest.approx(30 * (1 + 1 / 4 + 1 / 8))


@pytest.mark.slow_cases("options3", "options5")
@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (
            "day=2026-01-30/a.parquet",
            {"age": "hour"},
            r"day=2026-01-30/a.parquet has no partition key 'hour'; its keys: 'day'",
        ),
        ("a.parquet", {"age": "day"}, r"a.parquet has no partition key 'day'; its keys: none"),
        (
            "day=__HIVE_DEFAULT_PARTITION__/a.parquet",
            {"age": "day"},
            "has no partition key 'day'; its keys: none",
        ),
        ("day=17/a.parquet", {"age": "day"}, "age of day=17/a.parquet: '17' is no date, such as 2026-01-31"),
        ("y=2026/m=13/a.parquet", {"age": ["y", "m"]}, "age of y=2026/m=13/a.parquet: '2026-13' is no date"),
        ("a.parquet", {"age": {"a.parquet": "soon"}}, "age of a.parquet: 'soon' is no date"),
        ("a.parquet", {"age": "day", "half_life": None}, "counts with half_life alone; give both"),
        ("a.parquet", {"half_life": -DAY}, "a half-life must be longer than zero"),
    ],
)
def test_an_age_that_is_not_known_is_refused(tmp_path, path, options, message):
    beside = ["day=2026-01-30/b.parquet"] if "HIVE" in path else []
    ledger = held(tmp_path, [path, *beside])
    with pytest.raises(ValueError, match=message):
        ledger.statistics(**{"half_life": DAY, **options})


def test_what_is_no_span_is_refused(tmp_path):
    ledger = held(tmp_path, ["a.parquet"])
    with pytest.raises(TypeError, match=r"a half-life is a timedelta, such as timedelta\(days=30\); got 30"):
        ledger.statistics(half_life=30)


@pytest.fixture
def zone(monkeypatch):
    """Sets the time zone of this process."""

    def set_to(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


def test_a_ledger_is_the_same_in_every_time_zone(tmp_path, zone):
    paths = [f"day={day}/a.parquet" for day in NAMES.values()]
    zone("Pacific/Kiritimati")
    ledger = held(tmp_path, paths)
    before = [ledger.statistics(half_life=DAY, age=age) for age in ("day", None)]
    source = scan_parquet(tmp_path / "data", "kind", features=["u"])
    for name in ("Pacific/Pago_Pago", "Europe/Paris", "UTC"):
        zone(name)
        again = StatisticsLedger(tmp_path / "ledger")
        assert again.refresh(source).reused == tuple(paths)
        assert [again.statistics(half_life=DAY, age=age) for age in ("day", None)] == before


def test_a_time_without_a_zone_is_the_same_in_every_time_zone(tmp_path, zone):
    ledger = held(tmp_path, ["a.parquet", "b.parquet", "c.parquet"])
    stamps = [1_767_225_600 + 3600 * hour for hour in (-6, 0, 6)]  # around midnight, UTC
    for path, stamp in zip(sorted((tmp_path / "data").iterdir()), stamps, strict=True):
        os.utime(path, (stamp, stamp))
    ledger.refresh(scan_parquet(tmp_path / "data", "kind", features=["u"]))
    midnight = datetime(2026, 1, 1)
    expected = ledger.statistics(since=midnight.replace(tzinfo=UTC))
    assert expected == ledger.statistics(where="[bc].parquet")
    for name in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        zone(name)
        assert ledger.statistics(since=midnight) == expected


def test_a_filter_by_a_moment_reads_the_same_rows_in_every_time_zone(tmp_path, zone):
    zone("America/New_York")
    moments = pa.array([datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(24)])
    zoned = moments.cast(pa.timestamp("us", "Asia/Tokyo"))
    pq.write_table(
        pa.table({"u": RNG.normal(size=24), "at": zoned, "kind": [0, 1] * 12}), tmp_path / "a.parquet"
    )
    for name in ("UTC", "Asia/Tokyo", "America/New_York"):
        zone(name)
        since = [("at", ">=", datetime(2026, 1, 1, 20, tzinfo=UTC))]
        assert accumulate(scan_parquet(tmp_path, "kind", features=["u"], filters=since)).n_rows == 4
    with pytest.raises(ValueError, match=r"'at' is timestamp\[us, tz=Asia/Tokyo\].* cannot be"):
        scan_parquet(tmp_path, target="at", features=["u"])
