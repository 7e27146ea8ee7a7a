"""Dates, times and durations are features: days since 1970 in UTC, and days."""

from datetime import UTC, date, datetime, time, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as pds
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from streamgda import ClassStatistics, GaussianNB, accumulate, predict_dataset, scan, scan_arrow, scan_parquet

NOON = datetime(1970, 1, 3, 12)


@pytest.mark.parametrize(
    ("values", "kind", "days"),
    [
        ([date(1970, 1, 3), date(1969, 12, 31)], pa.date32(), [2, -1]),
        (
            [NOON.replace(tzinfo=timezone(timedelta(hours=6))), NOON.replace(tzinfo=UTC)],
            pa.timestamp("us", "Asia/Dhaka"),
            [2.25, 2.5],
        ),
        ([timedelta(hours=6), timedelta(days=-2)], pa.duration("ms"), [0.25, -2]),
        ([675, 86_400_000], pa.duration("ns"), [7.8125e-12, 1e-6]),
        ([time(6), time(18)], pa.time32("s"), [0.25, 0.75]),
        ([True, False], pa.bool_(), [1, 0]),
    ],
)
def test_each_type_in_days(values, kind, days):
    table = pa.table({"when": pa.array(values, kind), "y": [0, 1]})
    assert accumulate(scan_arrow(table, "y"), "diag").means.ravel().tolist() == days


def test_a_time_of_orc_that_nanoseconds_do_not_hold_is_an_error_with_the_remedy(tmp_path):
    table = pa.table(
        {"x": [1.0, 2.0], "day": pa.array([0, 253402214400], pa.timestamp("s")), "y": ["a", "b"]}
    )
    pyarrow.orc.write_table(table, tmp_path / "a.orc")
    try:
        pyarrow.orc.read_table(tmp_path / "a.orc")
    except pa.ArrowInvalid:
        pass
    else:
        return  # Arrow 23 wraps such times without a word, as the docstring of scan says
    with pytest.raises(ValueError, match=r"a\.orc: .* leave such a column out, or write it to Parquet"):
        accumulate(scan(tmp_path, "y"))
    assert accumulate(scan(tmp_path, "y", exclude=["day"])).n_rows == 2


def test_a_null_is_missing_and_a_computed_date_is_a_feature():
    table = pa.table({"when": pa.array([None, date(1970, 1, 2)]), "y": [0, 1]})
    with pytest.raises(ValueError, match="row 0: feature 'when' is NaN or null"):
        accumulate(scan_arrow(table, "y"))
    source = scan_arrow(table.slice(1), "y").with_columns(
        later=pa.compute.add(pa.compute.field("when"), timedelta(days=2))
    )
    assert accumulate(source, "diag").means.tolist() == [[1, 3]]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("kind", "counts"), [("date32", "int32"), ("timestamp[us]", "int64")])
def test_infinity_as_databases_write_it_is_no_date(kind, counts, sign):
    column = pa.array([0, sign * int(np.iinfo(counts).max)], counts).cast(kind)
    with pytest.raises(ValueError, match="row 1: feature 'when' is infinity"):
        accumulate(scan_arrow(pa.table({"when": column, "y": [0, 1]}), "y"))


def test_times_of_spark_and_hive_beyond_nanoseconds_are_read_whichever_way(tmp_path):
    whens = [datetime(9999, 12, 31), datetime(1000, 1, 1, 6), datetime(2026, 1, 1)]
    table = pa.table({"when": pa.array(whens, pa.timestamp("us")), "x": [1.0, 2.0, 4.0], "y": [0, 1, 2]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    means = [[2932896, 1], [-354285 + 0.25, 2], [20454, 4]]
    named = pds.dataset(path, schema=table.schema)  # by a schema of its own, of other columns
    asked = pds.dataset(path, format=pds.ParquetFileFormat(coerce_int96_timestamp_unit="us"))
    for source in (
        scan_parquet(path, "y"),
        scan(path, "y", format=pds.ParquetFileFormat(coerce_int96_timestamp_unit="ns")),
        scan_arrow(pds.dataset(path), "y"),
        scan_arrow(asked, "y"),
        scan_arrow(named, "y"),
    ):
        assert accumulate(source, "diag").means.tolist() == means
        assert source.head()["when"].tolist() == whens
    assert accumulate(scan_parquet(path, "y", filters=[("when", ">", "2300-01-01")])).classes.tolist() == [0]
    model = GaussianNB().fit(table.select(["x"]), [0, 1, 0])
    predict_dataset(model, pds.dataset(path), tmp_path / "out", keep=["when"])
    assert pq.read_table(tmp_path / "out")["when"].to_pylist() == whens
    with pytest.raises(ValueError, match="out of bounds timestamp"):
        accumulate(scan_arrow(pds.dataset([pds.dataset(path)] * 2), "y"))


def test_statistics_and_models_take_frames_of_dates_as_sources_do():
    day, lasts = [date(2026, 1, 1), date(2026, 1, 4)], [timedelta(hours=6), timedelta(hours=9)]
    objects = pd.DataFrame({"day": pd.Series([None, *day], dtype=object), "x": 1.0})[
        1:
    ]  # as a database gives
    typed = pa.table({"day": day, "lasts": lasts})
    for frame, days in (
        (objects, [20454, 20457]),
        (typed, [20454, 20457]),
        (typed.select(["lasts"]), [0.25, 0.375]),
        (typed.to_pandas(types_mapper=pd.ArrowDtype), [20454, 20457]),
    ):
        state = ClassStatistics("diag").update(frame, [0, 1])
        assert state.means[:, 0].tolist() == days
        source = scan_arrow(pa.table(frame).append_column("y", [[0, 1]]), "y", features=state.feature_names)
        assert accumulate(source, "diag").digest() == state.digest()
        assert GaussianNB().fit(frame, [0, 1]).predict(frame).tolist() == [0, 1]


def test_all_columns_in_the_way_are_named_with_features_to_paste():
    nested = pa.array([["a"], ["b"]])
    table = pa.table({"id": [1, 2], "x": [0.5, 1.5], "many": nested, "more": nested, "y": [0, 1]})
    with pytest.raises(ValueError, match="'many'.*'more'") as caught:
        scan_arrow(table, "y")
    assert "features=['x']" in str(caught.value)


def test_dates_in_one_file_and_numbers_in_another_are_an_error(tmp_path):
    pq.write_table(pa.table({"when": [date(2026, 1, 1)], "y": [0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"when": [7.0], "y": [0]}), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet: column 'when' is double; elsewhere it holds dates"):
        accumulate(scan(tmp_path, "y"))
