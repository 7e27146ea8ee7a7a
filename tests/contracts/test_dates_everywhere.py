"""A model knows which of its features are dates, and takes dates in any form wherever rows go in."""

import json
import pickle
import re
from datetime import UTC, date, datetime, timedelta, timezone

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgda import (
    ClassStatistics,
    GaussianNB,
    IncompleteStatistics,
    LinearDiscriminantAnalysis,
    MixtureDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RandomFeatureClassifier,
    RandomFeatures,
    StatisticsLedger,
    StatisticsSearchCV,
    accumulate,
    evaluate,
    from_bytes,
    load,
    predict_dataset,
    progressive_score,
    scan,
    scan_arrow,
    scan_dask,
)
from streamgda.data.blocks.dates import datetimes_of, days, days_of_datetimes
from streamgda.plotting import DecisionRegionsDisplay

DAY = timedelta(days=1)
MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(with_text=False):
    """A frame of numbers and dates, whole seconds, perhaps with text beside them, and labels."""
    rng, y = np.random.default_rng(0), np.arange(80) % 2
    seconds = np.round(rng.normal(size=80) * 86400 + 2e5 * y).astype(int)
    when = pd.Timestamp("2026-01-01") + pd.to_timedelta(seconds, unit="s")
    frame = pd.DataFrame({"x": rng.normal(size=80) + y, "when": when})
    return frame.assign(shop=np.where(np.arange(80) % 3, "web", "north")) if with_text else frame, y


# ---------------------------------------------------------------------- days


@settings(max_examples=40)
@given(moment=MOMENTS, zone=ZONES)
def test_a_moment_has_the_same_days_in_every_form(moment, zone):
    expected = (moment.replace(tzinfo=UTC) - EPOCH) / DAY
    there = moment.replace(tzinfo=UTC).astimezone(zone)
    forms = [moment, there, pd.Timestamp(moment), pd.Timestamp(there), np.datetime64(moment)]
    forms += [moment.isoformat(), there.isoformat(), f"{moment.isoformat()}Z", moment.isoformat(" ")]
    found = days_of_datetimes(datetimes_of(forms, "when"))
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=1e-11)
    for kind in (pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "Asia/Dhaka")):
        found = [*found, *days(pa.array([moment], kind))]
    assert len(set(found)) == 1  # to the last bit


@settings(max_examples=40)
@given(day=st.dates(date(1700, 1, 1), date(2250, 1, 1)))
def test_a_day_is_a_whole_number_in_every_form(day):
    expected = (day - date(1970, 1, 1)).days
    forms = [day, day.isoformat(), np.datetime64(day), pd.Timestamp(day), f"{day:%Y%m%d}"]
    assert days_of_datetimes(datetimes_of(forms, "when")).tolist() == [expected] * len(forms)
    kinds = [pa.date32(), pa.date64(), *map(pa.timestamp, ("s", "ms", "us", "ns"))]
    assert [days(pa.array([day]).cast(kind)).tolist() for kind in kinds] == [[expected]] * len(kinds)


# ---------------------------------------------------------------------- rows to score and to learn

FORMS = {
    "text": lambda t: t.isoformat(),
    "text with a zone": lambda t: (
        t.tz_localize("UTC").tz_convert(timezone(timedelta(hours=5, minutes=45))).isoformat()
    ),
    "datetime": lambda t: t.to_pydatetime(),
    "datetime with a zone": lambda t: t.tz_localize("UTC").tz_convert("America/New_York").to_pydatetime(),
    "datetime64": lambda t: t.to_datetime64(),
    "Timestamp": lambda t: t,
    "days": lambda t: days_of_datetimes(np.array([t.to_datetime64()]))[0],
}
TABLES = {
    "records": lambda x, when: [{"when": t, "x": v} for v, t in zip(x, when, strict=True)],
    "a dict of columns": lambda x, when: {"x": x, "when": when},
    "pandas": lambda x, when: pd.DataFrame({"x": x, "when": when}),
    "pandas, of objects": lambda x, when: pd.DataFrame({"x": x, "when": pd.Series(when, dtype=object)}),
    "Arrow": lambda x, when: pa.table({"x": x, "when": when}),
    "Polars": lambda x, when: pytest.importorskip("polars").from_arrow(pa.table({"x": x, "when": when})),
    "lists": lambda x, when: [list(row) for row in zip(x, when, strict=True)],
    "an array of objects": lambda x, when: np.array([*zip(x, when, strict=True)], dtype=object),
}
NAMED = [name for name in TABLES if name not in {"lists", "an array of objects"}]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("form", "table"),
    [(form, table) for form in FORMS for table in TABLES if form != "days" or table not in NAMED],
)
def test_every_form_in_every_table_is_scored_and_learnt_alike(form, table):
    some = rows()[0][:6]
    given_rows = TABLES[table](some["x"].tolist(), [FORMS[form](t) for t in some["when"]])
    for with_text in (False, True):
        if with_text and (form not in {"text", "datetime64"} or table in {"lists", "an array of objects"}):
            continue
        learnt, y = rows(with_text)
        these = _with_shop(given_rows) if with_text else given_rows
        model = GaussianNB().fit(learnt, y)
        expected = model.predict_proba(learnt[:6].assign(**({"shop": "web"} if with_text else {})))
        np.testing.assert_array_equal(model.predict_proba(these), expected)
        more = GaussianNB().fit(learnt, y).partial_fit(these, y[:6])
        if table in NAMED and form == "Timestamp":
            assert ClassStatistics().update(given_rows, y[:6]).schema.dates == ("when",)
        known = learnt[:6].assign(shop="web") if with_text else some
        assert more.statistics_ == model.partial_fit(known, y[:6]).statistics_


def _with_shop(table):
    if isinstance(table, list):
        return [{**row, "shop": "web"} for row in table]
    if isinstance(table, dict):
        return {**table, "shop": ["web"] * 6}
    if isinstance(table, pa.Table):
        return table.append_column("shop", [["web"] * 6])
    if not isinstance(table, pd.DataFrame):
        return type(table)({**table.to_dict(), "shop": ["web"] * 6})
    return table.assign(shop="web")


@pytest.mark.parametrize("blank", [None, "", pd.NaT, np.datetime64("NaT"), float("nan")], ids=repr)
def test_what_is_not_there_is_missing(blank):
    frame, y = rows()
    model = GaussianNB(missing="marginal").fit(frame, y)
    expected = GaussianNB().fit(frame[["x"]], y).predict_proba(frame[["x"]][:1])
    x, when = frame["x"][0], frame["when"][0].isoformat()
    for these in ({"x": x, "when": blank}, [{"x": x, "when": blank}, {"x": x, "when": when}], {"x": x}):
        np.testing.assert_allclose(model.predict_proba(these)[:1], expected, rtol=1e-8)
    one = pd.DataFrame({"x": [x], "when": pd.Series([blank], dtype=object)})
    np.testing.assert_allclose(model.predict_proba(one), expected, rtol=1e-8)
    with pytest.raises(ValueError, match="row 0: feature 'when' is NaN or null"):
        GaussianNB().fit(frame, y).predict({"x": x, "when": blank})


@pytest.mark.parametrize("other", ["soon", "31/12/2026", "2026-13-01", True], ids=repr)
def test_anything_else_is_one_error_that_names_row_column_and_form(other, tmp_path):
    frame, y = rows()
    model = GaussianNB().fit(frame, y)
    when = ["2026-01-01", other]
    frame = pd.DataFrame({"x": 0.0, "when": pd.Series(when, dtype=object)})
    for these in (frame, frame.to_dict("records") if isinstance(other, str) else frame):
        for use in (model.predict, lambda rows: model.partial_fit(rows, [0, 1])):
            with pytest.raises(ValueError, match=r"row 1: column 'when'.*ISO 8601.*2026-01-31"):
                use(these)
    if isinstance(other, str):
        pq.write_table(pa.table({"x": [0.0, 1.0], "when": when}), tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match=r"rows\.parquet.*row 1: column 'when'.*ISO 8601"):
            predict_dataset(model, tmp_path / "rows.parquet", tmp_path / "out")


@pytest.mark.parametrize("table", NAMED)
@pytest.mark.parametrize("number", [1767225600000, 20260106, 20455.5, True], ids=repr)
def test_a_number_in_a_named_column_of_dates_is_refused(number, table):
    frame, y = rows()
    for with_text in (False, True):
        learnt, _ = rows(with_text)
        these = TABLES[table]([0.0] * 6, [number] * 6)
        these = _with_shop(these) if with_text else these
        model = GaussianNB(missing="marginal").fit(learnt, y)
        uses = [model.predict, lambda rows, model=model: model.partial_fit(rows, y[:6])]
        uses += [lambda rows, model=model: model.score(rows, y[:6])]
        if not with_text:
            uses.append(lambda rows: ClassStatistics().update(frame, y).update(rows, y[:6]))
        for use in uses:
            with pytest.raises(ValueError, match=rf"row 0: column 'when'.*{number}.*ISO 8601"):
                use(these)
        nothing = TABLES[table]([0.5] * 2, [None, float("nan")])
        nothing = _with_shop(TABLES[table]([0.5] * 6, [float("nan")] * 6)) if with_text else nothing
        assert np.isfinite(model.predict_proba(nothing)).all()


def test_what_to_json_makes_of_dates_is_refused_and_a_matrix_of_days_is_not():
    frame, y = rows()
    model = LinearDiscriminantAnalysis().fit(frame, y)
    with pytest.raises(ValueError, match=r"row 0: column 'when'.*ISO 8601"):
        milliseconds = frame["when"].astype("datetime64[ms]").astype("int64")  # as to_json writes dates
        model.predict(json.loads(frame.assign(when=milliseconds).to_json(orient="records")))
    days_of = frame.assign(when=days_of_datetimes(frame["when"].to_numpy()))
    with pytest.warns(UserWarning, match="feature names"):
        found = model.predict_proba(days_of.to_numpy())
    np.testing.assert_array_equal(found, model.predict_proba(frame))
    with pytest.raises(ValueError, match=r"row 0: column 'when'.*ISO 8601"):
        model.predict_proba(dd.from_pandas(days_of, npartitions=2)).compute()


def test_a_pipeline_refuses_numbers_for_dates_and_gives_computed_dates_to_its_model():
    frame, y = rows()
    source = scan_arrow(pa.table(frame).append_column("y", [y]), "y")
    hours = source.with_columns(when=pc.hour(pc.field("when")))
    later = source.with_columns(when=pc.add(pc.field("when"), pa.scalar(timedelta(days=1))))
    for computed in (hours, later):
        model = LinearDiscriminantAnalysis().fit(computed)
        pipeline = model.as_pipeline(computed)
        assert pipeline.predict_proba(frame).shape == (80, 2)
        texts = [{"x": x, "when": t.isoformat()} for x, t in zip(frame["x"], frame["when"], strict=True)]
        np.testing.assert_array_equal(pipeline.predict_proba(texts), pipeline.predict_proba(frame))
        for number in (1767225600000, 20260106, True, 2.5):
            for these in ({"x": 0.5, "when": number}, pd.DataFrame({"x": [0.5], "when": [number]})):
                with pytest.raises(ValueError, match=r"row 0: column 'when'.*ISO 8601"):
                    pipeline.predict(these)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ({"x": "0,1"}, "row {}: column 'x' holds numbers, and '0,1' is none"),
        ({"x": "0.1"}, "row {}: column 'x' holds numbers, and '0.1' is none"),
        ({"x": [1]}, "row {}: column 'x' holds numbers, and [1] is none"),
        ({"x": 10**400}, "row {}: column 'x' holds numbers, and 1000"),
        ({"x": 10**25}, "column 'x'"),
        ({"x": 1j}, "row {}: column 'x'"),
        ({"when": 5}, "row {}: column 'when' holds dates, and 5 is none"),
        ({"when": {}}, "row {}: column 'when' holds dates, and {{}} is none"),
        ({"emb": [10**25, 1]}, "column 'emb'"),
        ({"emb": ["a", 1]}, "column 'emb'"),
        ({"emb": "a"}, "column 'emb'"),
        ({"emb": 5}, "column 'emb'"),
    ],
    ids=lambda value: f"{value!s:.30}",
)
def test_what_a_column_cannot_hold_is_one_error_of_a_service(bad, fault):
    frame, y = rows()
    lists = pa.array(np.random.default_rng(1).normal(size=(80, 2)).tolist())
    table = pa.table(frame.assign(shop=["a", "a", "b", "b"] * 20, y=y)).append_column("emb", lists)
    source = scan_arrow(table, "y")
    computed = source.with_columns(root=pc.sqrt(pc.abs(pc.field("x"))), hour=pc.hour(pc.field("when")))
    model = LinearDiscriminantAnalysis(shrinkage=0.1).fit(source)
    good = {"x": 0.5, "when": "2026-01-02", "emb": [1, 2], "shop": "a"}
    pipeline = LinearDiscriminantAnalysis(shrinkage=0.1).fit(computed).as_pipeline(computed)
    for one in (model, pipeline):
        assert one.predict(good).shape == (1,)
        for row, these in ((0, {**good, **bad}), (1, [good, {**good, **bad}])):
            with pytest.raises(ValueError, match=re.escape(fault.format(row))):
                one.predict(these)
        with pytest.raises(ValueError, match="column"):
            one.predict(pd.DataFrame([good, {**good, **bad}], dtype=object))


def test_a_stream_from_a_source_keeps_its_dates():
    frame, y = rows()
    source = scan_arrow(pa.table(frame).append_column("y", [y]), "y")
    model = GaussianNB().fit(frame, y)
    expected = GaussianNB().fit(frame, y).partial_fit(frame, y).statistics_
    progressive_score(model, source)
    assert model.statistics_ == expected


def test_regions_are_drawn_of_dates_beside_categories():
    frame, y = rows(with_text=True)
    model = LinearDiscriminantAnalysis().fit(frame, y)
    features = {"features": ["x", "when"], "fixed": {"shop": "web"}, "grid_resolution": 5}
    assert DecisionRegionsDisplay.from_estimator(model, **features).ax_ is not None


# ---------------------------------------------------------------------- what is known stays known


@pytest.mark.parametrize(
    "model",
    [
        GaussianNB(),
        LinearDiscriminantAnalysis(),
        QuadraticDiscriminantAnalysis(missing="marginal"),
        MixtureDiscriminantAnalysis(2),
        RandomFeatureClassifier(features=RandomFeatures(16, random_state=0)),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("with_text", [False, True])
def test_saved_pickled_and_merged_models_know_their_dates(model, with_text, tmp_path):
    with_text = with_text and not isinstance(model, MixtureDiscriminantAnalysis)
    frame, y = rows(with_text)
    model.fit(frame, y)
    record = {"x": 0.5, "when": "2026-01-02T12:00:00+02:00", **({"shop": "web"} if with_text else {})}
    expected = model.predict_proba({**record, "when": datetime(2026, 1, 2, 10)})
    model.save(tmp_path / "model.parquet")
    same = [load(tmp_path / "model.parquet"), from_bytes(model.to_bytes())]
    same.append(pickle.loads(pickle.dumps(model)))
    for one in same:
        assert one.statistics_.schema_of_rows.dates == ("when",)
        np.testing.assert_array_equal(one.predict_proba(json.loads(json.dumps(record))), expected)
    if isinstance(model, GaussianNB | LinearDiscriminantAnalysis | QuadraticDiscriminantAnalysis):
        same[0].merge(same[1])
        assert same[0].statistics_.schema.dates == ("when",)
        assert same[0].statistics_.select(["when"]).schema.dates == ("when",)


def test_states_of_days_and_of_dates_merge_in_either_order():
    frame, y = rows()
    as_numbers = frame.assign(when=days_of_datetimes(frame["when"].to_numpy()))
    known, unknown = (ClassStatistics().update(one, y) for one in (frame, as_numbers))
    assert (known.schema.dates, unknown.schema.dates) == (("when",), ())
    assert (known + unknown).schema.dates == (unknown + known).schema.dates == ("when",)
    assert ((known + unknown) - unknown).allclose(known)
    stream = ClassStatistics().update(as_numbers, y).update(frame, y)
    assert stream.schema.dates == ("when",)
    text = frame.assign(when=[t.isoformat() for t in frame["when"]])
    assert stream.update(text, y).n_rows == 240
    holes = frame.assign(x=frame["x"].mask(y == 0))
    assert IncompleteStatistics().update(holes, y).schema.dates == ("when",)


def test_files_of_before_load_without_dates(tmp_path):
    frame, y = rows()
    model = GaussianNB().fit(frame.assign(when=days_of_datetimes(frame["when"].to_numpy())), y)
    model.save(tmp_path / "model.parquet")
    assert b'"dates"' not in pq.read_metadata(tmp_path / "model.parquet").metadata[b"streamgda"]
    assert load(tmp_path / "model.parquet").statistics_.schema.dates == ()


# ---------------------------------------------------------------------- files


def sources(frame, y, folder):
    table = pa.table(frame).append_column("y", [y])
    pq.write_table(table, folder / "rows.parquet")
    yield scan(folder, "y")
    yield scan_arrow(table, "y")
    yield scan_dask(dd.from_pandas(frame.assign(y=y), npartitions=2), "y")


@pytest.mark.parametrize("with_text", [False, True])
def test_every_source_tells_the_dates_and_text_files_are_read_as_such(with_text, tmp_path):
    frame, y = rows(with_text)
    as_text = frame.assign(when=[f"{t.isoformat()}+00:00" for t in frame["when"]])
    (tmp_path / "in").mkdir()
    (tmp_path / "text").mkdir()
    pq.write_table(pa.table(as_text).append_column("y", [y]), tmp_path / "text" / "rows.parquet")
    as_text.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "rows.jsonl").write_text(
        "\n".join(json.dumps(row) for row in as_text.assign(y=y).to_dict("records"))
    )
    for source in sources(frame, y, tmp_path / "in"):
        model = LinearDiscriminantAnalysis().fit(source)
        assert model.statistics_.schema.dates == ("when",)
        expected = evaluate(model, frame, y).log_loss
        predict_dataset(model, tmp_path / "text", tmp_path / f"out {type(source).__name__}")
        found = (
            pq.read_table(tmp_path / f"out {type(source).__name__}").to_pandas().filter(like="probability")
        )
        np.testing.assert_allclose(found, model.predict_proba(frame), rtol=1e-9)
        for path in (tmp_path / "text", tmp_path / "rows.jsonl", tmp_path / "rows.csv"):
            assert evaluate(model, scan(path, "y")).log_loss == pytest.approx(expected, rel=1e-9)
        lazy = dd.from_pandas(as_text, npartitions=2)
        np.testing.assert_allclose(model.predict_proba(lazy).compute(), model.predict_proba(frame), rtol=1e-9)
        twice = LinearDiscriminantAnalysis().fit(source).partial_fit(scan(tmp_path / "text", "y"))
        assert twice.statistics_.allclose(model.statistics_ + model.statistics_)


def test_a_later_file_may_hold_text(tmp_path):
    frame, y = rows()
    table = pa.table(frame).append_column("y", [y])
    pq.write_table(table, tmp_path / "1.parquet")
    text = pa.array([t.isoformat() for t in frame["when"]])
    pq.write_table(table.set_column(1, "when", text), tmp_path / "2.parquet")
    state = accumulate(scan(tmp_path, "y"))
    one = accumulate(scan(tmp_path / "1.parquet", "y"))
    assert state.allclose(one + one)


def test_ledgers_pipelines_and_searches_know_dates(tmp_path):
    frame, y = rows()
    (tmp_path / "in").mkdir()
    source, *_ = sources(frame, y, tmp_path / "in")
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(source)
    record = {"x": 0.5, "when": "2026-01-02T10:00:00"}
    model = GaussianNB.from_statistics(ledger.statistics())
    expected = model.predict_proba({**record, "when": datetime(2026, 1, 2, 10)})
    np.testing.assert_array_equal(model.predict_proba(record), expected)
    search = StatisticsSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}).fit(frame, y)
    assert search.best_estimator_.predict(record).shape == (1,)
    computed = source.with_columns(hour=pc.hour(pc.field("when")))
    fitted = GaussianNB().fit(computed)
    pipeline = fitted.as_pipeline(computed)
    pipeline.save(tmp_path / "pipeline.parquet")
    expected = fitted.predict_proba({**record, "hour": 10})
    for form in ("2026-01-02T10:00:00", "2026-01-02T12:00:00+02:00", datetime(2026, 1, 2, 10)):
        for one in (pipeline, load(tmp_path / "pipeline.parquet")):
            np.testing.assert_array_equal(one.predict_proba([{**record, "when": form}]), expected)
    text = frame.assign(when=[f"{t.isoformat()}Z" for t in frame["when"]])
    pq.write_table(pa.table(text), tmp_path / "text.parquet")
    predict_dataset(pipeline, tmp_path / "text.parquet", tmp_path / "out")
    found = pq.read_table(tmp_path / "out").to_pandas().filter(like="probability")
    np.testing.assert_allclose(found, pipeline.predict_proba(frame), rtol=1e-9)
    pq.write_table(pa.table(text.assign(when="soon")), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet.*row 0: column 'when' holds dates"):
        predict_dataset(pipeline, tmp_path / "other.parquet", tmp_path / "other")


def test_arrays_of_times_are_refused_as_the_days_of_frames_have_another_unit():
    hours, y = np.arange(20).reshape(10, 2) ** 2 % 17, np.arange(10) % 2
    model = GaussianNB().fit(pd.DataFrame(hours.astype("m8[h]"), columns=["a", "b"]), y)
    numbers = GaussianNB().fit(hours, y)
    refused = "X must hold real numbers; got (timedelta64|datetime64|object).* days, or in a data frame"
    for X in (hours.astype("m8[h]"), hours.astype("M8[h]"), hours.astype("M8[h]").tolist()):
        knows = numbers if isinstance(X, list) else model
        for use in (GaussianNB().fit, knows.score, knows.partial_fit, lambda X, y: evaluate(numbers, X, y)):
            with pytest.raises(ValueError, match=refused):
                use(X, y)
