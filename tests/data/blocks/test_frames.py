"""Rows in frames of any library: matched by the names of their columns, and taken as one matrix."""

import json
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn import naive_bayes

from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    GaussianNB,
    QuadraticDiscriminantAnalysis,
    StatisticsSearchCV,
    accumulate,
    cross_validate,
    evaluate,
    scan_arrow,
)
from streamgda.data.blocks.arrays import matrix_of
from tests.strategies import MODELS

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 120)
FRAME = pd.DataFrame(RNG.normal(size=(120, 3)) + Y[:, None] * [1, 2, 0], columns=["a", "b", "c"])

LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pytest.importorskip("polars").from_pandas(frame),
    "table": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "chunks": lambda frame: pa.concat_tables(
        pa.Table.from_pandas(part, preserve_index=False) for part in (frame[:50], frame[50:])
    ),
    "batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
}
libraries = pytest.mark.parametrize("made", LIBRARIES.values(), ids=LIBRARIES)


@libraries
@pytest.mark.parametrize("model", MODELS)
def test_a_frame_is_learnt_and_predicted_as_the_array_of_its_rows(model, made):
    rows, frame = FRAME.to_numpy(), made(FRAME)
    of_rows, of_frame = model().fit(rows[:60], Y[:60]), model().fit(made(FRAME[:60]), Y[:60])
    assert of_frame.feature_names_in_.tolist() == ["a", "b", "c"]
    for _ in range(2):
        of_rows.partial_fit(rows[60:], Y[60:])
        of_frame.partial_fit(made(FRAME[60:]), Y[60:])
    np.testing.assert_array_equal(of_frame.predict_proba(frame), of_rows.predict_proba(rows))
    assert evaluate(of_frame, frame, Y) == evaluate(of_rows, rows, Y)


@libraries
def test_columns_in_another_order_are_matched_by_name(made):
    """Those of pandas only where no rule of scikit-learn's makes them an error."""
    swapped = made(FRAME[["c", "a", "b"]])
    for state in (ClassStatistics(), ExactClassStatistics()):
        assert state.copy().update(made(FRAME), Y).update(swapped, Y) == state.update(FRAME, Y).update(
            FRAME, Y
        )
    model = QuadraticDiscriminantAnalysis().fit(made(FRAME), Y)
    if made is LIBRARIES["pandas"]:
        for call in (model.predict, lambda rows: model.partial_fit(rows, Y)):
            with pytest.raises(ValueError, match="must be in the same order"):
                call(swapped)
        return
    np.testing.assert_array_equal(model.predict_proba(swapped), model.predict_proba(made(FRAME)))
    other = QuadraticDiscriminantAnalysis().fit(made(FRAME), Y).partial_fit(made(FRAME), Y)
    assert model.partial_fit(swapped, Y).statistics_ == other.statistics_


@libraries
@pytest.mark.parametrize("use", ["predict", "predict_proba", "partial_fit", "evaluate"])
def test_columns_that_a_model_lacks_or_needs_are_named(made, use):
    model = GaussianNB().fit(made(FRAME), Y)
    call = {
        "partial_fit": lambda rows: model.partial_fit(rows, Y),
        "evaluate": lambda rows: evaluate(model, rows, Y),
    }.get(use, getattr(model, use, None))
    for frame, message in (
        (FRAME.assign(d=1.0), "unseen at fit time:\n- d"),
        (FRAME[["c", "a"]], "yet now missing:\n- b"),
        (FRAME.rename(columns={"a": "z"}), "unseen at fit time:\n- z\n.*missing:\n- a"),
    ):
        with pytest.raises(ValueError, match=message):
            call(made(frame))


@libraries
def test_columns_that_a_state_lacks_or_needs_are_named(made):
    state = ClassStatistics().update(made(FRAME), Y)
    for frame, message in (
        (FRAME.assign(d=1.0, e=2.0), "only the second has 'd', 'e'"),
        (FRAME[["c", "a"]], "only the first has 'b'$"),
        (FRAME.rename(columns={"a": "z"}), "only the first has 'a', only the second has 'z'"),
    ):
        with pytest.raises(ValueError, match=f"states of different features cannot be merged: {message}"):
            state.update(made(frame), Y)
        with pytest.raises(ValueError, match=message):
            GaussianNB().fit(made(FRAME), Y).merge(GaussianNB().fit(made(frame), Y))


@libraries
def test_a_column_of_groups_is_no_feature(made):
    grouped = FRAME.assign(site=np.arange(120) // 2)
    by_column = StatisticsSearchCV(GaussianNB(), {}, cv=3, groups="site").fit(made(grouped), Y)
    by_values = StatisticsSearchCV(GaussianNB(), {}, cv=3, groups=grouped["site"]).fit(made(FRAME), Y)
    assert by_column.best_score_ == by_values.best_score_
    assert by_column.feature_names_in_.tolist() == ["a", "b", "c"]


# ---------------------------------------------------------------------- one matrix of all columns

INTEGERS = np.array([1, 2**53 + 1, -5])

COLUMNS = {
    "floats": {"u": [1.5, 2.0, 3.0], "v": [0.0, 1.0, 2.0]},
    "float32": {"u": np.float32([1.5, 2.0, 3.0])},
    "integers": {"u": INTEGERS, "v": INTEGERS[::-1]},
    "floats and integers": {"u": [1.5, 2.0, 3.0], "v": INTEGERS},
    "short integers": {"u": np.int8([1, 2, 3]), "v": np.int64([1, 2, 3])},
    "integers of both signs": {"u": np.uint64([2**64 - 1, 1, 2]), "v": np.int64([-1, 2, 3])},
    "bools": {"u": [True, False, True], "v": [1.0, 2.0, 3.0]},
    "missing": {"u": [1.0, None, 2.0], "v": [1.0, 2.0, 3.0]},
    "missing integers": {"u": pd.array([1, None, 2], dtype="Int64"), "v": [1.0, 2.0, 3.0]},
    "pandas' own": {"u": pd.array([1, 2, 3], dtype="Int64"), "v": pd.array([1.5, 2.0, 3.0], dtype="Float64")},
    "Arrow's in pandas": {"u": pd.array([1.5, 2.0, 3.0], dtype="double[pyarrow]"), "v": [1, 2, 3]},
}


@libraries
@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_a_matrix_made_at_once_has_the_numbers_of_the_columns(columns, made):
    frame = made(pd.DataFrame(columns))
    matrix = matrix_of(frame)
    if matrix is not None:  # else it is made by NumPy
        for j, column in enumerate(pd.DataFrame(columns).items()):
            expected = (
                column[1].to_numpy(dtype=matrix.dtype, na_value=np.nan)
                if column[1].isna().any()
                else column[1]
            )
            np.testing.assert_array_equal(matrix[:, j], np.asarray(expected).astype(matrix.dtype))


@pytest.mark.parametrize("made", [pd.DataFrame, pa.table], ids=["pandas", "arrow"])
def test_all_columns_that_are_no_numbers_are_named_at_once(made):
    wrong = ["p", "q", "r"]
    good = made({"a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 3.0]})
    y = [0, 1, 1]
    bad = made({"a": wrong, "b": wrong})
    model = GaussianNB(categories=None).fit(good, y)
    for call in (model.predict, lambda rows: model.partial_fit(rows, y)):
        with pytest.raises(ValueError, match="^row .: column '[ab]' holds numbers, and '"):
            call(bad)
    calls = (
        lambda rows: ClassStatistics().update(rows, y),
        lambda rows: GaussianNB(categories=None).fit(rows, y),
    )
    for call in calls:
        with pytest.raises(
            ValueError, match="^columns 'a', 'b' hold text, .* leave such columns out, or enc"
        ):
            call(bad)
        with pytest.raises(ValueError, match="columns 'b' hold text"):
            call(made({"a": [1.0, 2.0, 4.0], "b": wrong}))


def test_a_source_names_all_columns_that_are_no_numbers_and_the_remedy():
    table = pa.table(
        {"a": [1.0, 2.0], "when": pa.array([1, 2], pa.date32()), "note": ["p", "q"], "y": [0, 1]}
    )
    remedy = r"leave them out, with exclude=\['note'\], or name .* features=\['a', 'when'\]"
    with pytest.raises(ValueError, match=r"columns 'note' \(string\) cannot.*" + remedy):
        scan_arrow(table, "y", categories=None)
    assert scan_arrow(table, "y", exclude=["when", "note"]).feature_names == ("a",)


@pytest.mark.slow_cases("-100")
@pytest.mark.parametrize("n_features", [4, 100])
@pytest.mark.parametrize("made", [v for k, v in LIBRARIES.items() if k != "chunks"])
@pytest.mark.parametrize("use", ["predict", "predict_proba", "partial_fit"])
def test_a_row_takes_fewer_calls_than_scikit_learn(made, n_features, use):
    """Calls of Python and C, which say what a row costs however busy the machine is."""
    X = pd.DataFrame(RNG.normal(size=(60, n_features)), columns=[f"x{j}" for j in range(n_features)])
    y = np.arange(60) % 3
    row = made(X[:1])

    def calls(model):
        call = getattr(model, use)
        arguments = (row, y[:1]) if use == "partial_fit" else (row,)
        call(*arguments)
        counted = []
        sys.setprofile(lambda frame, event, what: counted.append(event in {"call", "c_call"}))
        try:
            call(*arguments)
        finally:
            sys.setprofile(None)
        return sum(counted)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn knows no names of a record batch
        assert calls(GaussianNB().fit(made(X), y)) < calls(naive_bayes.GaussianNB().fit(made(X), y))


# ---------------------------------------------------------------------- what is no frame


def test_dicts_are_learnt_and_predicted_by_name():
    records = FRAME.to_dict("records")
    model = GaussianNB().fit(FRAME, Y)
    expected = model.predict_proba(FRAME)
    shuffled = [dict(reversed(record.items())) for record in records]
    for rows in (records, tuple(records), FRAME.to_dict("list")):
        assert GaussianNB().fit(rows, Y).statistics_ == model.statistics_
        assert GaussianNB().partial_fit(rows, Y).statistics_ == model.statistics_
        assert ClassStatistics("diag").update(rows, Y) == model.statistics_
        scores = [cross_validate(GaussianNB(), given, Y)["test_score"] for given in (rows, FRAME)]
        np.testing.assert_array_equal(*scores)
    stream = GaussianNB()
    for record, label in zip([records[0], *shuffled[1:]], Y.tolist(), strict=True):
        stream.partial_fit(record, [label])
    np.testing.assert_allclose(stream.predict_proba(FRAME), expected)
    state = ClassStatistics("diag").update(records[:5], Y[:5])
    assert state.update(shuffled[5:], Y[5:]).allclose(model.statistics_)
    np.testing.assert_array_equal(model.predict_proba(shuffled), expected)
    np.testing.assert_array_equal(model.predict_proba(records[0]), expected[:1])
    np.testing.assert_array_equal(model.predict_proba(FRAME.to_dict("list")), expected)
    with pytest.raises(ValueError, match="leave out 'a', 'b', 'c'.*missing='marginal'"):
        model.predict({"other": 1.0})
    for learn in (GaussianNB().fit, ClassStatistics().update):
        with pytest.raises(ValueError, match="NaN"):
            learn([*records[:-1], {**records[-1], "another": 1.0}], Y)
    with pytest.raises(ValueError, match=r"got the string 'ok'. Of one row they are \['ok'\]"):
        GaussianNB().partial_fit(records[0], "ok")


@pytest.mark.parametrize("missing", ["raise", "marginal"])
@pytest.mark.parametrize(
    "value", [0.5, 3, -(2**53) - 1, 2**65, 10**400, True, np.float32(1), None, "1", [1.0]]
)
def test_a_dict_of_numbers_is_read_as_the_table_of_it(value, missing):
    model, answers = GaussianNB(missing=missing).fit(FRAME, Y), []
    record = {"c": 0.25, "b": value, "a": 2}
    for rows in ((record,), [record], record):  # a tuple becomes a table
        try:
            answers.append(model.decision_function(rows).tolist())
        except (ValueError, OverflowError) as error:
            answers.append([str(error)])
    assert answers[0] == answers[1] == answers[2]


def test_batches_and_datasets_of_other_libraries_are_refused_with_what_to_do():
    xarray = pytest.importorskip("xarray")
    batches = ((FRAME, Y) for _ in range(3))
    for learn in (GaussianNB().fit, GaussianNB().partial_fit):
        with pytest.raises(TypeError, match=r"for X, y in batches: model.partial_fit\(X, y\)"):
            learn(batches)
    dataset = xarray.Dataset.from_dataframe(FRAME)
    with pytest.raises(TypeError, match=r"a Dataset of xarray is no table: its .to_dataframe\(\) is one"):
        GaussianNB().fit(dataset, Y)
    with pytest.raises(
        TypeError, match=r"got Dataset. .*with_format\('arrow'\)\[:\] of datasets, .to_dataframe"
    ):
        scan_arrow(dataset, "kind")
    assert GaussianNB().fit(dataset.to_dataframe(), Y).statistics_ == GaussianNB().fit(FRAME, Y).statistics_


def test_dicts_with_categories():
    rows = pd.DataFrame({"size": [1.0, 2.0, 4.0, 5.0], "colour": ["red", "red", None, "blue"]})
    model = GaussianNB().fit(rows, [0, 0, 1, 1])
    expected = model.predict_proba(rows)
    records = rows.to_dict("records")  # NaN among strings
    assert GaussianNB().fit(records, [0, 0, 1, 1]).statistics_ == model.statistics_
    np.testing.assert_array_equal(model.predict_proba({"colour": "red", "size": 1}), expected[:1])
    np.testing.assert_array_equal(model.predict_proba([{"colour": None, "size": 4.0}]), expected[2:3])


def test_an_array_of_xarrays_in_memory_is_an_array():
    xarray = pytest.importorskip("xarray")
    rows = xarray.DataArray(FRAME.to_numpy(), dims=("row", "feature"))
    model = GaussianNB().fit(rows, Y)
    assert model.statistics_ == GaussianNB().fit(FRAME.to_numpy(), Y).statistics_
    assert (model.predict(rows) == model.predict(FRAME.to_numpy())).all()
    with pytest.raises(
        TypeError,
        match=r"a dask DataFrame or array is needed, such as the .data of an xarray; .* got DataArray",
    ):
        model.fit(rows.chunk(row=50), Y)


def test_halves_beside_other_numbers_are_taken():
    batch = pa.record_batch({"a": pa.array([1.0, 2.0, 6.0], pa.float16()), "b": [1, 2, 3]})
    for frame in (batch, pa.Table.from_batches([batch])):
        assert ClassStatistics().update(frame, ["k"] * 3).means.tolist() == [[3, 2]]


def test_bools_with_nulls_and_lists_with_none_are_predicted():
    rows = np.column_stack([Y > 0, FRAME["a"]]).astype(float)
    model = GaussianNB(missing="marginal").fit(pd.DataFrame(rows, columns=["a", "b"]), Y)
    nulls = [[True, 1.0], [None, 2.0], [False, None]]
    columns = {"a": pa.array([True, None, False]), "b": [1.0, 2.0, None]}
    expected = model.predict_proba(pd.DataFrame([[1, 1], [np.nan, 2], [0, np.nan]], columns=["a", "b"]))
    for frame in (pa.table(columns), pa.record_batch(columns)):
        np.testing.assert_array_equal(model.predict_proba(frame), expected)
    model = GaussianNB(missing="marginal").fit(rows, Y)
    np.testing.assert_array_equal(model.predict_proba(nulls), expected)
    with pytest.raises(ValueError, match="row 1: feature 0 is NaN or null"):
        GaussianNB().fit(rows, Y).predict(nulls)


def test_features_by_patterns():
    table = pa.table(
        {name: [1.0, 2.0, 4.0, 5.0] for name in ("x2", "z", "x1", "w", "x[1]")} | {"xy": [0, 0, 1, 1]}
    )

    def features(*names, **roles):
        return scan_arrow(table, "xy", features=list(names), **roles).feature_names

    assert features("x*") == ("x2", "x1", "x[1]")  # in the order of the data, without the target
    assert features("z", "x?") == ("z", "x2", "x1")
    assert features("x1", "x*", "z") == ("x1", "x2", "x[1]", "z")  # what is named keeps its place
    assert features("x*", "x?", "w") == ("x2", "x1", "x[1]", "w")
    assert features("[wz]", weight="w") == ("z",)
    assert features("x[1]") == ("x[1]",)  # a name before a pattern
    assert accumulate(scan_arrow(table, "xy", features=["x?"])).feature_names == ("x2", "x1")
    with pytest.raises(ValueError, match=r"there is no column 'q\*'"):
        features("q*")


# ---------------------------------------------------------------------- records that leave out keys


@pytest.mark.parametrize("kind", MODELS)
def test_a_key_that_is_left_out_is_missing(kind):
    model = kind(missing="marginal").fit(FRAME, Y)
    full = {"a": 0.5, "b": 0.1, "c": 0.2}
    for absent in (["b"], ["c", "a"], ["a", "b", "c"][:3]):
        record = {name: value for name, value in full.items() if name not in absent} or {"a": None}
        expected = model.predict_proba(pd.DataFrame([{**full, **dict.fromkeys(absent, np.nan)}]))
        for rows in (record, [record], json.loads(json.dumps(record)), {**full, **dict.fromkeys(absent)}):
            np.testing.assert_array_equal(model.predict_proba(rows), expected)
    several = [full, {"a": 0.5}]
    expected = model.predict_proba(pd.DataFrame(several))
    np.testing.assert_array_equal(model.predict_proba(several), expected)


def test_such_records_are_learnt_too():
    learn = [({"a": 1.0, "c": 0.5}, 0), ({"a": 1.5, "b": 2.0, "c": 0.0}, 1), ({"b": 1.0}, 1)]
    frames = [pd.DataFrame([record], columns=["a", "b", "c"]).astype(float) for record, _ in learn]
    ours, theirs = (GaussianNB(missing="marginal").fit(FRAME, Y) for _ in range(2))
    for (record, label), frame in zip(learn, frames, strict=True):
        ours.partial_fit(record, [label])
        theirs.partial_fit(frame, [label])
    assert ours.statistics_ == theirs.statistics_
    plain = GaussianNB().fit(FRAME, Y).partial_fit({"a": 1.0}, [0], missing="drop")
    assert (plain.statistics_.n_rows, plain.statistics_.n_dropped) == (120, 1)


def test_without_marginal_the_keys_and_the_remedy_are_named():
    model = GaussianNB().fit(FRAME, Y)
    with pytest.raises(ValueError, match=r"leave out 'a', 'c'.*set_params\(missing='marginal'\)"):
        model.predict({"b": 1.0})
    with pytest.raises(ValueError, match=r"leave out 'b'.*missing='marginal'"):
        model.partial_fit([{"a": 1.0, "c": 1.0}], [0])
    with pytest.raises(ValueError, match="unseen at fit time:\\n- d"):  # and no key may be misspelt
        model.set_params(missing="marginal").predict({"a": 1.0, "d": 2.0})


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=repr)
def test_what_stands_for_a_missing_value_among_objects_is_missing(missing):
    holes = FRAME.where(RNG.random(FRAME.shape) > 0.2)
    holes.iloc[2, 1] = np.nan
    objects = holes.astype(object).where(holes.notna(), missing)
    kinds, hole = {"kind": RNG.choice(["u", "v"], 120)}, objects.iloc[2, 1]
    for given, floats in [(objects, holes), (objects.to_numpy(), holes.to_numpy())]:
        model, expected = (GaussianNB(missing="marginal").fit(rows, Y) for rows in (given, floats))
        assert model.statistics_ == expected.statistics_
        np.testing.assert_array_equal(model.predict_proba(given), expected.predict_proba(floats))
        for learn in (GaussianNB().fit, ClassStatistics().update):
            with pytest.raises(ValueError, match="is NaN or null"):
                learn(given, Y)
    model, expected = (
        GaussianNB(missing="marginal").fit(rows.assign(**kinds), Y) for rows in (objects, holes)
    )
    assert model.statistics_ == expected.statistics_
    assert objects.iloc[2, 1] is hole  # the frame is as it was


def test_categories_and_computed_columns_may_be_left_out():
    shops = np.array(["north", "web", None], dtype=object)
    model = GaussianNB(missing="marginal").fit(FRAME.assign(shop=shops[np.arange(120) % 3]), Y)
    row = {"a": 0.5, "b": 0.1, "c": 0.2}
    expected = model.predict_proba({**row, "shop": None})
    np.testing.assert_array_equal(model.predict_proba(row), expected)
    source = scan_arrow(pa.table(FRAME).append_column("y", [Y]), "y", features=["a", "b"]).with_columns(
        double=pc.multiply(pc.field("c"), 2)
    )
    piped = GaussianNB(missing="marginal").fit(source)
    pipeline = piped.as_pipeline(source)
    expected = piped.predict_proba({"a": 0.5, "double": 0.4})
    np.testing.assert_array_equal(pipeline.predict_proba({"a": 0.5, "c": 0.2}), expected)
    np.testing.assert_array_equal(pipeline.predict_proba([{"a": 0.5, "b": None, "c": 0.2}]), expected)
    pipeline[-1].set_params(missing="raise")
    with pytest.raises(ValueError, match=r"leave out 'b'.*set_params\(missing='marginal'\)"):
        pipeline.predict({"a": 0.5, "c": 0.2})
    with pytest.raises(ValueError, match="'double' is NaN or null"):
        pipeline.predict({"a": 0.5, "b": 0.2})
