"""A ledger knows what it reads: a file that does not fit is named or skipped, whatever its name."""

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.preprocessing import StandardScaler

from streamgda import GaussianNB, StatisticsLedger, accumulate, scan, scan_parquet
from streamgda.cli.main import main

RNG = np.random.default_rng(0)
WRITE = {"parquet": pq.write_table, "csv": pa.csv.write_csv}


def day(n_rows=50):
    return pa.table(
        {
            "x": RNG.normal(size=n_rows),
            "when": pa.array([date(2026, 1, i % 28 + 1) for i in range(n_rows)]),
            "shop": RNG.choice(["north", "web"], size=n_rows),
            "kind": RNG.choice(["a", "b"], size=n_rows),
        }
    )


def as_text(table):
    return table.set_column(0, "x", pa.array(["many"] * len(table)))


ODD = {
    "missing": lambda table: table.drop_columns("x"),
    "text": as_text,
    "date": lambda table: table.set_column(0, "x", table["when"]),
    "no target": lambda table: table.drop_columns("kind"),
}


def made(folder, ending):
    """A ledger of three files."""
    (folder / "data").mkdir()
    for name in "bdf":
        WRITE[ending](day(), folder / "data" / f"{name}.{ending}")
    ledger = StatisticsLedger(folder / "ledger")
    ledger.refresh(scan(folder / "data", "kind"))
    return ledger


@pytest.mark.slow_cases("csv-text", "parquet-missing")
@pytest.mark.slow_cases(
    "missing-c", "missing-g", "target-a", "target-c", "date-a", "date-g", "text-a", "text-g"
)
@pytest.mark.slow_cases("csv-no", "csv-date")
@pytest.mark.parametrize("place", ["a", "c", "g"])
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("ending", WRITE)
def test_the_odd_file_is_named_or_skipped_at_any_place(ending, kind, place, tmp_path):
    ledger, odd = made(tmp_path, ending), f"{place}.{ending}"
    WRITE[ending](ODD[kind](day()), tmp_path / "data" / odd)
    WRITE[ending](day(), tmp_path / "data" / f"e.{ending}")
    before = ledger.read_options
    for source in (scan(tmp_path / "data", "kind"), tmp_path / "data"):
        with pytest.raises(ValueError, match=odd):
            ledger.refresh(source)
        report = ledger.refresh(source, on_error="skip")
        assert list(report.skipped) == [odd]
        assert report.rows_held == 200
    assert ledger.read_options == before


@pytest.mark.slow_cases("-c", "csv-g", "parquet-a")
@pytest.mark.parametrize("place", ["a", "c", "g"])
@pytest.mark.parametrize("ending", WRITE)
def test_a_further_column_is_not_read(ending, place, tmp_path):
    ledger = made(tmp_path, ending)
    WRITE[ending](day().append_column("more", [[1.0] * 50]), tmp_path / "data" / f"{place}.{ending}")
    report = ledger.refresh(scan(tmp_path / "data", "kind"))
    assert (report.added, report.skipped) == ((f"{place}.{ending}",), {})
    features = ["x", "when", "shop"]
    whole = accumulate(scan(tmp_path / "data", "kind", features=features))
    assert ledger.statistics().allclose(whole, rtol=1e-12)


@pytest.mark.slow_cases("csv")
@pytest.mark.parametrize("ending", WRITE)
def test_a_map_is_given_the_features_of_the_ledger(ending, tmp_path):
    def mapped():
        source = scan(tmp_path / "data", "kind", exclude=["shop"])
        backwards = source.map(lambda rows: rows[:, ::-1], features=["when", "x"])  # the names of the columns
        return backwards.map(StandardScaler().fit([[0.0, 0], [14, 14]]))  # (x - 7) / 7

    (tmp_path / "data").mkdir()
    WRITE[ending](day(), tmp_path / "data" / f"b.{ending}")
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(mapped())
    WRITE[ending](day().add_column(0, "more", [[1.0] * 50]), tmp_path / "data" / f"a.{ending}")
    WRITE[ending](ODD["missing"](day()), tmp_path / "data" / f"0.{ending}")
    report = ledger.refresh(mapped(), on_error="skip")
    assert (report.added, list(report.skipped)) == ((f"a.{ending}",), [f"0.{ending}"])
    chosen = scan([tmp_path / "data" / f"{name}.{ending}" for name in "ab"], "kind", features=["x", "when"])
    means = accumulate(chosen, "diag").means
    np.testing.assert_allclose(ledger.statistics().means, means[:, ::-1] / 7 - 1, rtol=1e-12)
    assert ledger.refresh(mapped(), on_error="skip").read == ()


def test_other_features_that_are_asked_for_are_an_error(tmp_path):
    ledger = made(tmp_path, "parquet")
    for options in ({"features": ["x"]}, {"exclude": ["shop"]}, {"categories": None, "exclude": ["shop"]}):
        with pytest.raises(ValueError, match="holds statistics with features"):
            ledger.refresh(scan_parquet(tmp_path / "data", "kind", **options))


def test_a_new_ledger_needs_a_source(tmp_path):
    pq.write_table(day(), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="refresh it with a source first"):
        StatisticsLedger(tmp_path / "ledger").refresh(tmp_path / "1.parquet")


def test_the_command_line_needs_a_target_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days").mkdir()
    pa.csv.write_csv(day(), "days/1.csv")
    refresh = ["refresh", "ledger", "days"]
    assert "Missing option '--target'" in CliRunner().invoke(main, refresh).stderr
    said = CliRunner().invoke(main, [*refresh, "--target", "kind", "--exclude", "when", "--quiet"])
    assert said.exit_code == 0, said.stderr
    pa.csv.write_csv(day(), "days/2.csv")
    assert "read 1 file (1 new, 0 changed), reused 1" in CliRunner().invoke(main, refresh).stdout


def sold(folder, name="a"):
    """A file with dates and numbers as text, as spreadsheets write them."""
    lines = [f"{i % 28 + 1:02}.03.2026;{i % 7} 100,5 €;{i % 5};{'ab'[i % 2]}\n" for i in range(200)]
    (folder / f"{name}.csv").write_text("day;paid;x;kind\n" + "".join(lines), encoding="utf8")


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("folds", [None, 2])
def test_the_first_refresh_warns_of_text_that_holds_dates_or_numbers_as_fit_does(folds, tmp_path, recwarn):
    sold(tmp_path)
    source = scan(tmp_path, "kind", format="csv delimiter=;")
    ledger = StatisticsLedger(tmp_path / "_ledger", folds=folds)
    ledger.refresh(source)
    told = {str(one.message) for one in recwarn}
    assert len(told) == 2
    assert {name for name in ("day", "paid") if any(f"'{name}'" in one for one in told)} == {"day", "paid"}
    recwarn.clear()
    GaussianNB().fit(source)
    assert told <= {str(one.message) for one in recwarn}
    recwarn.clear()
    sold(tmp_path, "b")
    ledger.refresh(source)
    assert ["seems to be a copy of" in str(one.message) for one in recwarn] == [True]


def test_a_source_of_another_format_needs_a_ledger_of_its_own(tmp_path):
    sold(tmp_path)
    ledger = StatisticsLedger(tmp_path / "_ledger")
    options = {"features": ["day", "x"], "categories": "auto"}
    with pytest.warns(UserWarning, match="'day'"):
        ledger.refresh(scan(tmp_path, "kind", format="csv delimiter=;", **options))
    repaired = scan(tmp_path, "kind", format="csv delimiter=; timestamp_parsers=%d.%m.%Y", exclude=["paid"])
    with pytest.raises(ValueError, match=r"timestamp_parsers.*a ledger of its own") as raised:
        ledger.refresh(repaired)
    assert "exclude" not in str(raised.value)


@pytest.mark.parametrize("way", ["path", "source"])
def test_a_ledger_of_computed_columns_needs_a_source_with_them(way, tmp_path):
    names = [f"column_{i}" for i in range(30)]
    table = pa.table({**{name: RNG.normal(size=50) for name in names}, "kind": ["a", "b"] * 25})
    pq.write_table(table, tmp_path / "a.parquet")
    ledger, source = StatisticsLedger(tmp_path / "_ledger", "diag"), scan(tmp_path, "kind")
    ledger.refresh(source.with_columns(twice=pa.compute.field("column_1") * 2))
    with pytest.raises(ValueError, match=r"'twice'.*with_columns") as raised:
        ledger.refresh(str(tmp_path) if way == "path" else source)
    assert len(str(raised.value)) < 500
