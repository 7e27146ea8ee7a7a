"""Rows in memory that hold lists are learnt and scored as those of a file."""

from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamgda import (
    Categorical,
    ClassStatistics,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    cross_validate,
    evaluate,
    scan_arrow,
)
from tests.data.sources import test_lists
from tests.data.sources.test_lists import NAMES, lists_of

rows = partial(test_lists.rows, 40, dtype=np.float32)
arrow = partial(lists_of, kind="fixed")


def polars():
    return pytest.importorskip("polars")


FRAMES = {
    "arrays in pandas": lambda X: pd.DataFrame({"emb": list(X)}, index=np.arange(len(X)) + 7),
    "lists in pandas": lambda X: pd.DataFrame({"emb": [list(map(float, row)) for row in X]}),
    "Arrow's in pandas": lambda X: pa.table({"emb": arrow(X)}).to_pandas(types_mapper=pd.ArrowDtype),
    "lists of Polars": lambda X: polars().DataFrame({"emb": [list(map(float, row)) for row in X]}),
    "arrays of Polars": lambda X: polars().from_arrow(pa.table({"emb": arrow(X)})),
    "lists of Arrow": lambda X: pa.table({"emb": pa.array(list(X))}),
    "batch of Arrow": lambda X: pa.record_batch({"emb": arrow(X)}),
    "tensors of Arrow": lambda X: pa.table({"emb": lists_of(X, "tensor")}),
    "dicts": lambda X: [{"emb": list(map(float, row))} for row in X],
    "dict of lists": lambda X: {"emb": [list(map(float, row)) for row in X]},
}
"""Frames of one column of lists."""

COLUMNS = {
    **{name: (lambda X, made=made: made(X)["emb"]) for name, made in FRAMES.items() if "dict" not in name},
    "array of rows": lambda X: pd.Series(list(X)).to_numpy(),
    "list of rows": list,
    "matrix": lambda X: X,
}
"""The column alone, or its rows."""


@pytest.mark.parametrize("made", FRAMES.values(), ids=FRAMES)
def test_frames_of_lists_are_learnt_and_scored_as_their_matrix(made):
    X, y = rows()
    frame, whole = made(X), pd.DataFrame(X, columns=NAMES)
    expected = LinearDiscriminantAnalysis().fit(whole, y)
    model = LinearDiscriminantAnalysis().fit(frame, y)
    assert tuple(model.feature_names_in_) == NAMES
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(frame), expected.predict_proba(whole), rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(whole), expected.predict_proba(whole), rtol=1e-5)
    more = LinearDiscriminantAnalysis().partial_fit(made(X[:25]), y[:25]).partial_fit(made(X[25:]), y[25:])
    np.testing.assert_allclose(more.coef_, expected.coef_, rtol=1e-5)
    state = ClassStatistics().update(made(X[:9]), y[:9]).update(made(X[9:]), y[9:])
    np.testing.assert_allclose(state.scatter, ClassStatistics().update(X, y).scatter, rtol=1e-5)
    assert evaluate(model, frame, y).accuracy == evaluate(expected, whole, y).accuracy


@pytest.mark.parametrize("made", COLUMNS.values(), ids=COLUMNS)
def test_a_model_of_one_list_takes_the_column_and_its_rows(made, recwarn):
    X, y = rows()
    table = pa.table({"emb": arrow(X), "kind": y})
    model = QuadraticDiscriminantAnalysis().fit(scan_arrow(table, "kind"))
    expected = model.predict_proba(table.select(["emb"]))
    np.testing.assert_allclose(model.predict_proba(made(X)), expected, rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(made(X[:1])), expected[:1], rtol=1e-5)
    learnt = QuadraticDiscriminantAnalysis().fit(made(X), y)
    np.testing.assert_allclose(learnt.predict_proba(made(X)), expected, rtol=1e-4)
    assert not recwarn.list


def test_categories_numbers_and_lists_stand_beside_each_other_in_frames():
    pl = pytest.importorskip("polars")
    X, y = rows()
    shop = np.where(X[:, 0] > 0, "web", "north")
    frame = pd.DataFrame({"shop": shop, "emb": list(X), "n": np.arange(40) % 5})
    source = scan_arrow(pa.table(frame).append_column("kind", [y]), "kind")
    assert source.feature_names == ("shop", *NAMES, "n")
    model, learnt = (LinearDiscriminantAnalysis().fit(*given) for given in ((source,), (frame, y)))
    np.testing.assert_allclose(learnt.predict_proba(frame), model.predict_proba(frame), rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(pl.from_pandas(frame)), model.predict_proba(frame))
    records = [{**one, "emb": list(map(float, one["emb"]))} for one in frame.to_dict("records")]
    np.testing.assert_allclose(model.predict_proba(records), model.predict_proba(frame), rtol=1e-6)
    named = LinearDiscriminantAnalysis(categories=Categorical(columns=["shop"])).fit(frame, y)
    np.testing.assert_allclose(named.predict_proba(frame), model.predict_proba(frame), rtol=1e-6)
    scores = cross_validate(GaussianNB(), frame, y, cv=3)
    assert len(scores["test_score"]) == 3


def test_a_dict_is_a_table_with_lists_or_a_row_with_one():
    X, y = rows()
    table = {"emb": X, "u": X[:, 0] ** 2}
    model = GaussianNB(missing="marginal").fit(table, y)
    assert list(model.feature_names_in_) == [*NAMES, "u"]
    expected = model.predict_proba(pd.DataFrame({"emb": list(X), "u": table["u"]}))
    np.testing.assert_allclose(model.predict_proba(table), expected, rtol=1e-6)
    for row in {"emb": X[0], "u": table["u"][0]}, {"emb": X[0].tolist(), "u": float(table["u"][0])}:
        np.testing.assert_allclose(model.predict_proba(row), expected[:1], rtol=1e-6)
    without = model.predict_proba({"emb_0": None, "emb_1": None, "emb_2": None, "u": 0.5})
    for row in {"emb": None, "u": 0.5}, [{"u": 0.5}], pd.DataFrame({"emb": [None], "u": [0.5]}):
        np.testing.assert_allclose(model.predict_proba(row), without)


@pytest.mark.parametrize("learn", ["fit", "partial_fit", "predict", "update"])
def test_a_row_of_another_length_is_named_with_both_lengths(learn):
    X, y = rows()
    ragged = [*list(X)[:7], X[7][:2], *list(X)[8:]]
    frame = pd.DataFrame({"emb": ragged})
    model = GaussianNB().fit(pd.DataFrame({"emb": list(X)}), y)
    state = ClassStatistics()
    call = {"fit": GaussianNB().fit, "partial_fit": model.partial_fit, "update": state.update}
    with pytest.raises(ValueError, match=r"row 7.*(2.*3|3.*2)|'emb'.*3.*row 0.*2.*row 7"):
        call[learn](frame, y) if learn in call else model.predict(frame)
    with pytest.raises(ValueError, match=r"row 0: .*'emb'.* 2 numbers, and 3"):
        model.predict(pd.DataFrame({"emb": [X[0][:2]]}))
    with pytest.raises(ValueError, match=r"row 0: .*'emb'.* 2 numbers, and 3"):
        model.predict(pd.Series([X[0][:2]]))


def test_a_null_list_is_missing():
    X, y = rows()
    frame = pd.DataFrame({"emb": [None, *list(X)[1:]]})
    model = GaussianNB(missing="marginal").fit(frame, y)
    assert model.statistics_.n_rows == 40
    np.testing.assert_allclose(model.predict_proba(frame)[0], model.priors_)
    with pytest.raises(ValueError, match="row 0: feature 'emb_0' is NaN or null"):
        GaussianNB().fit(frame, y)


def test_other_columns_of_objects_stay_what_they_are():
    frame = pd.DataFrame({"x": [1.0, 2.0], "many": [["a"], ["b"]]})
    with pytest.raises(ValueError, match="many"):
        GaussianNB(categories=None).fit(frame, [0, 1])
    model = GaussianNB().fit(frame[["x"]], [0, 1])
    with pytest.raises(ValueError, match="many"):
        model.predict(frame)


@pytest.mark.parametrize("values", [list, tuple, np.array], ids=["list", "tuple", "array"])
def test_a_dict_of_one_list_is_a_row_and_of_several_the_column(values):
    X, y = rows()
    model = GaussianNB().fit({"emb": X}, y)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba({"emb": values(X[3].tolist())}), expected[3:4])
    np.testing.assert_array_equal(model.predict_proba({"emb": list(X[:3])}), expected[:3])
    again = GaussianNB().fit({"emb": X}, y).partial_fit({"emb": values(X[0].tolist())}, y[:1])
    assert again.statistics_ == model.partial_fit(X[:1], y[:1]).statistics_
    with pytest.raises(ValueError, match=r"row 0.*'emb' has 2 numbers, and 3"):
        model.predict({"emb": values([0.5, 0.5])})


@pytest.mark.parametrize("length", [3, -1], ids=["fixed", "open"])
@pytest.mark.parametrize("features", [["emb"], ["emb", "lang"], ["lang"], ["emb_2", "lang"]], ids=str)
def test_a_pipeline_takes_lists_that_are_features_and_are_computed_with(features, length):
    pl = pytest.importorskip("polars")
    X, y = rows(dtype=np.float64)
    table = pa.table({"emb": pa.array(list(X), pa.list_(pa.float64(), length)), "lang": ["de", "en"] * 20})
    total = pc.add(pc.list_element(pc.field("emb"), 0), pc.list_element(pc.field("emb"), 1))
    source = scan_arrow(table.append_column("y", [y]), "y", features=features).with_columns(total=total)
    pipeline = GaussianNB().fit(source).as_pipeline(source)
    columns = {name: table["lang"].to_pylist() for name in features if name == "lang"}
    columns |= {f"emb_{i}": X[:, i] for i in range(3) if {"emb", f"emb_{i}"} & {*features}}
    frame = pd.DataFrame({**columns, "total": X[:, 0] + X[:, 1]})
    expected = GaussianNB().fit(frame, y).predict_proba(frame)
    row = {
        name: table[name][0].as_py() for name in table.column_names if name != "lang" or columns.get("lang")
    }
    for these in (table, table.to_pandas(), pl.from_arrow(table), table.to_pylist(), row):
        np.testing.assert_allclose(pipeline.predict_proba(these), expected[: 1 if these is row else 40])


NO_LISTS = [["1", "2", "3"], [True, False, True], [Decimal(1)] * 3, [[1.0, 2.0, 3.0]], [], "abc", 3.0]


@pytest.mark.parametrize("value", NO_LISTS, ids=str)
def test_what_is_no_list_of_numbers_is_not_taken_for_missing(value):
    X, y = rows(dtype=np.float64)
    table = pa.table({"emb": pa.array(list(X)), "x": X[:, 0], "lang": ["de", "en"] * 20})
    source = scan_arrow(table.append_column("y", [y]), "y", missing="marginal")
    double = source.with_columns(double=pc.multiply(pc.field("x"), 2.0))
    pipeline = GaussianNB(missing="marginal").fit(double).as_pipeline(double)
    for model in (GaussianNB(missing="marginal").fit(source), pipeline):
        row = {"emb": value, "x": 0.5, "lang": "de"}
        for these in (row, [row]):
            with pytest.raises(ValueError, match="column 'emb' holds"):
                model.predict_proba(these)
        np.testing.assert_array_equal(
            model.predict_proba({**row, "emb": None}), model.predict_proba({"x": 0.5, "lang": "de"})
        )
