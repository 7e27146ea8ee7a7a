"""What errors and warnings say: names that can be seen, lists that end, remedies in the terms of the call."""

import pickle
import re
from functools import partial

import dask.array
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zarr
from sklearn.covariance import EmpiricalCovariance
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from streamgda import (
    ClassStatistics,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    StatisticsLedger,
    StatisticsSearchCV,
    WindowedStatistics,
    accumulate,
    cross_validate,
    drift,
    evaluate,
    learning_curve,
    load,
    predict_dataset,
    progressive_score,
    scan,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from streamgda.data.blocks.block import MissingValueError
from streamgda.data.sources.base import Source
from streamgda.diagnostics import box_m, manova
from tests.data.tables import zarr_group

RNG = np.random.default_rng(8)
X = RNG.normal(size=(60, 2))
ENDINGS = [".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".gz", ".bz2", ".zst", ".lz4", ".feather", ".orc"]
MANY = [f"f{i:02}" for i in range(30)]


# ---------------------------------------------------------------------- labels and names


@pytest.mark.parametrize("label", ["", " ", "ant ", "\tbee"])
def test_a_label_that_cannot_be_seen_is_in_quotes(label):
    y = np.array([label, *["x"] * 59])
    with pytest.raises(np.linalg.LinAlgError, match=re.escape(f"class {label!r}, covariance is ill defined")):
        QuadraticDiscriminantAnalysis().fit(X, y)
    with pytest.warns(UserWarning, match=re.escape(f"class {label!r} gets no posterior")):
        QuadraticDiscriminantAnalysis(singular="skip").fit(X, [label, *"x" * 30, *"z" * 29])
    with pytest.raises(ValueError, match=re.escape(f"only 1 class: {label!r}")):
        GaussianNB().fit(X, [label] * 60)


def test_other_labels_are_as_they_were():
    with pytest.raises(np.linalg.LinAlgError, match="class ant, covariance is ill defined"):
        QuadraticDiscriminantAnalysis().fit(X, ["ant", *["x"] * 59])
    with pytest.raises(np.linalg.LinAlgError, match="class 7, covariance is ill defined"):
        QuadraticDiscriminantAnalysis().fit(X, [7, *[8] * 59])


def test_lists_that_are_cut_end_in_an_ellipsis():
    rows = RNG.normal(size=(60, 30))
    state = ClassStatistics("diag", feature_names=MANY).update(rows, np.arange(60) % 12)
    with pytest.raises(ValueError, match="the features are 'f00', .*, 'f09', …$"):
        state.select(["g"])
    with pytest.raises(ValueError, match=r"of which there are 12: 0, 1, .*, 9, …; priors have shape \(2,\)"):
        GaussianNB.from_statistics(state, priors=[0.5, 0.5])
    table = pa.table({name: rows[:, i] for i, name in enumerate(MANY)})
    with pytest.raises(ValueError, match="there is no column 'zzz'; there are 'f00', .*, 'f19', …$"):
        scan_arrow(table, "zzz")


@pytest.mark.parametrize(
    ("kind", "words"),
    [(iter, "list(y) makes one"), (partial(map, int), "list(y) makes one"), (set, "has no order")],
)
def test_labels_that_are_no_list_are_named(kind, words):
    for learn in (GaussianNB().fit, GaussianNB().partial_fit, ClassStatistics().update):
        with pytest.raises(ValueError, match=rf"got a \w+, .*{re.escape(words)}"):
            learn(X, kind([0, 1] * 30))


def test_a_reader_that_was_read_says_so():
    reader = pa.table({"u": X[:, 0], "y": [0, 1] * 30}).to_reader()
    reader.read_all()
    with pytest.raises(
        ValueError, match="nothing to accumulate.*A reader that has been read gives no rows again"
    ):
        GaussianNB().fit(scan_arrow(reader, "y"))


@pytest.mark.parametrize("state", [ClassStatistics, partial(WindowedStatistics, 2)])
def test_two_features_of_one_name_are_refused(state):
    for learn in (
        lambda: state(feature_names=["u", "u"]),
        lambda: state().update(pd.DataFrame(X, columns=["u", "u"]), [0, 1] * 30),
        lambda: ClassStatistics().update(X, [0, 1] * 30).linear_map(np.eye(2), feature_names=["u", "u"]),
    ):
        with pytest.raises(ValueError, match="there are two features 'u'"):
            learn()


def test_a_list_of_nothing_says_so():
    with pytest.raises(ValueError, match="there is no column 'y'; there are none$"):
        scan_arrow(pa.table({}), "y")
    with pytest.raises(ValueError, match="8 is none of the classes: none$"):
        ClassStatistics().drop_class(8)
    with pytest.raises(ValueError, match="param_grid is an empty list"):
        StatisticsSearchCV(GaussianNB(), []).fit([[0.0], [1.0]], [0, 1])


def test_lists_that_are_whole_have_none():
    state = ClassStatistics("diag", feature_names=MANY[:10]).update(
        RNG.normal(size=(60, 10)), np.arange(60) % 2
    )
    with pytest.raises(ValueError, match="'f09'$"):
        state.select(["g"])


def test_text_labels_have_the_same_type_wherever_they_come_from(tmp_path):
    """As wide as the longest of them, in whatever width they were given, when loaded, and when classes go."""
    y = np.array(["ant", "bee", "elephant"] * 20, dtype="U20")
    model = LinearDiscriminantAnalysis().fit(X, y)
    assert model.classes_.dtype == model.predict(X).dtype == np.dtype("U8")
    model.save(tmp_path / "model.parquet")
    assert load(tmp_path / "model.parquet").classes_.dtype == np.dtype("U8")
    some = ClassStatistics().update(X, y).drop_class("elephant")
    some.save(tmp_path / "some.parquet")
    assert some.classes.dtype == load(tmp_path / "some.parquet").classes.dtype == np.dtype("U3")


# ---------------------------------------------------------------------- remedies in the terms of the caller


@pytest.fixture
def holed(tmp_path):
    """A file in which one feature of one row is missing."""
    rows = X.copy()
    rows[3, 1] = np.nan
    frame = pd.DataFrame(rows, columns=["u", "v"]).assign(kind=["ant", "bee"] * 30)
    frame.to_parquet(tmp_path / "holed.parquet")
    return tmp_path / "holed.parquet"


def test_a_missing_value_in_a_search_is_mended_for_all_candidates(holed):
    frame = pd.read_parquet(holed)
    grid = {"estimator": [GaussianNB(missing="marginal"), GaussianNB()]}
    for rows in ((frame[["u", "v"]], frame["kind"]), (scan_parquet(holed, "kind"),)):
        for choose in (StatisticsSearchCV(None, grid).fit, partial(cross_validate, GaussianNB())):
            with pytest.raises(
                ValueError, match="'v' is NaN.*; or let all candidates have missing='marginal'"
            ):
                choose(*rows)


def test_a_missing_value_in_prediction_is_mended_where_it_is_predicted(holed, tmp_path):
    model = GaussianNB().fit(pd.DataFrame(X, columns=["u", "v"]), ["ant", "bee"] * 30)
    for score in (partial(predict_dataset, out=tmp_path / "out"), evaluate):
        with pytest.raises(ValueError, match=r"row 3: feature 'v' is NaN.*set_params\(missing='marginal'\)$"):
            score(model, scan_parquet(holed, "kind"))


def test_a_source_that_keeps_incomplete_rows_needs_a_model_that_learns_them(holed):
    source = scan_parquet(holed, "kind", missing="marginal")
    for learn in (GaussianNB().fit, GaussianNB().partial_fit):
        with pytest.raises(ValueError, match="row 3.*set missing='marginal' for the model too"):
            learn(source)
    assert GaussianNB(missing="marginal").fit(source).statistics_.n_rows == 60


def test_an_error_for_a_missing_value_travels(holed):
    """From worker processes, and as pickles."""
    with pytest.raises(MissingValueError) as caught:
        accumulate(scan_parquet(holed, "kind"), scheduler="processes")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert "row 3: feature 'v' is NaN or null. Mend the data" in str(caught.value)


def test_text_without_a_target_may_be_the_target(holed):
    with pytest.raises(
        ValueError, match="'kind' .* if 'kind' holds the labels, say target='kind'; else leave"
    ):
        scan_parquet(holed, categories=None)
    with pytest.raises(ValueError, match="'kind' .* cannot be features; leave them out, with exclude="):
        scan_parquet(holed, "u", categories=None)
    with pytest.raises(ValueError, match=r"with exclude=\['kind'\], or learn text as categories, with categ"):
        scan_parquet(holed, "u", features=["kind"], categories=None)


WHOLE = {"width": 1.0, "height": 2.0, "colour": "red"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"width": 1.0, "Height": 2.0, "colour": "red"},
            "leave out 'height', and have 'Height': give each a value",
        ),
        ({"width": 1.0, "place": 2.0, "colour": "red"}, "leave out 'height': give each a value"),
        ({"width": 1.0, "height": 2.0}, "leave out 'colour': give each a value"),
        (
            [{**WHOLE, "colour": None}, {"width": 1.0, "height": 2.0}],
            "row 1 leaves out 'colour': give it a value",
        ),
        ({0: 1.0, 1: 2.0}, "names of columns, which are text; got 0"),
    ],
)
def test_keys_of_rows_are_told_from_the_names_of_features(given, message):
    frame = pd.DataFrame(X[:, :2], columns=["width", "height"]).assign(
        colour=["red", "red", "blue", None] * 15
    )
    with pytest.raises(ValueError, match=message):
        GaussianNB().fit(frame, [0, 1] * (len(X) // 2)).predict(given)


@pytest.mark.parametrize("kind", [pd.cut(range(6), 3), pd.Categorical(pd.date_range("2026", periods=6))])
def test_categories_that_are_no_text_are_told_how_to_be_learnt(kind):
    for read in (lambda frame: GaussianNB().fit(frame, [0, 1] * 3), lambda frame: scan_arrow(frame, None)):
        with pytest.raises(ValueError, match=r"cannot be features; leave .*, or make text .* astype\(str\)"):
            read(pd.DataFrame({"x": range(6), "kind": kind}))


def test_text_in_a_column_of_numbers_of_other_files_is_not_told_to_be_learnt_as_it_is(tmp_path):
    for i, values in enumerate([[0.5, 1.5], ["1", "2"]]):
        pd.DataFrame({"x": values, "y": [0, 1]}).to_parquet(tmp_path / f"{i}.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet: column 'x' .* numbers, here text\. Write it alike"):
        accumulate(scan_parquet(tmp_path, "y"))


@pytest.mark.parametrize("features", [["X", "y"], "y"])
def test_a_store_of_columns_is_told_how_to_be_read(tmp_path, features):
    store = zarr_group(tmp_path / "store", X=X, y=np.arange(len(X)))
    with pytest.raises((TypeError, ValueError), match=r"\(n_rows, n_features\).*scan_dask\(xarray"):
        scan_zarr(store, None, features=features)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ((X, [0, 1] * 30), r"got ndarray; .*rows in memory are added by ClassStatistics\(\).update\(X, y\)"),
        ((pd.DataFrame(X),), "got DataFrame; .*rows in memory .* or become a source by scan_arrow"),
        (("rows.parquet",), "got str; .*scan makes a source of a path"),
        ((dask.array.zeros((4, 2)),), "got Array; .*scan_dask makes a source of a Dask collection"),
    ],
)
def test_what_is_no_source_is_told_how_to_become_one(given, remedy):
    with pytest.raises(TypeError, match=f"only a source can be accumulated, {remedy}"):
        accumulate(*given)


@pytest.mark.parametrize("shrinkage", [None, "auto"])
def test_a_class_of_few_rows_is_told_in_short_with_one_remedy_that_works(shrinkage):
    rows = RNG.normal(size=(60, 5))  # drawn after other tests have drawn, or before
    rows[-1] += 5
    for n_rows in (1, 3):
        y = np.repeat([0, 1], [60 - n_rows, n_rows])
        with pytest.raises(np.linalg.LinAlgError, match=f"class 1.* from {n_rows} row") as caught:
            QuadraticDiscriminantAnalysis(shrinkage=shrinkage and 1e-14).fit(rows, y)
        message = str(caught.value)
        assert len(message.split()) < 75
        assert message.count("Set ") == 1
        remedy = {"reg_param": 0.01, "shrinkage": "auto"} if shrinkage else {"pooling": "bayes"}
        assert f"Set {next(iter(remedy))}" in message
        assert QuadraticDiscriminantAnalysis(**remedy).fit(rows, y).predict(rows[-1:]).tolist() == [1]


@pytest.mark.parametrize("name", ["rows.npy", "rows.h5", "rows.xlsx", "rows.csv.zip", "rows.avro"])
def test_a_file_of_a_format_that_is_not_read_is_told_what_names_are(name, tmp_path):
    (tmp_path / name).write_bytes(b"PK\3\4" * 9)
    with pytest.raises(ValueError, match=re.escape(name)) as caught:
        scan(tmp_path / name, "kind")
    assert [end for end in ENDINGS if f"{end}" not in str(caught.value)] == []
    assert "format=" in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"\*\.parquet.*\*\.csv.*\*\.orc"):
        scan(tmp_path, "kind")


def test_a_store_of_zarr_is_told_what_reads_it_and_where_its_arrays_are(tmp_path):
    path = str(tmp_path / "rows.zarr")
    group = zarr.open_group(path, mode="w").create_group("train")
    group.create_array("X", data=X)
    group.create_array("y", data=np.arange(60) % 2)
    with pytest.raises(ValueError, match=r"rows\.zarr.*scan_zarr"):
        scan(path, "kind")
    with pytest.raises(TypeError, match=r"rows\.zarr; scan_zarr"):
        GaussianNB().fit(path)
    with pytest.raises(ValueError, match="no array 'X'; there are 'train/X', 'train/y'"):
        scan_zarr(path)
    assert accumulate(scan_zarr(path, "train/y", features="train/X")).n_rows == 60
    with pytest.raises(ValueError, match=r"rows\.zarr/train/X is an array.*features="):
        scan_zarr(f"{path}/train/X")


def test_a_column_that_is_there_twice_is_named_with_its_file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("u,u,kind\n1,2,a\n3,4,b\n")
    for options in ({}, {"features": ["u"]}, {"features": ["kind"]}):
        with pytest.raises(ValueError, match=r"rows\.csv.*more than one column 'u'; rename"):
            scan(path, "u" if options.get("features") == ["kind"] else "kind", **options)


def test_json_of_one_array_is_told_what_is_read(tmp_path):
    (tmp_path / "rows.json").write_text('[{"u": 1, "kind": "a"},\n{"u": 2, "kind": "b"}]\n')
    with pytest.raises(ValueError, match=r"rows\.json.*one array.*object in each line"):
        scan(tmp_path / "rows.json", "kind")


def test_data_without_features_is_named():
    with pytest.raises(ValueError, match="^the data: .* at least one feature needed, and no column is left"):
        scan_arrow(pa.table({"kind": ["ant"]}), "kind")


def test_a_column_name_is_no_labels():
    with pytest.raises(ValueError, match=r"the string 'kind'. .*; of a frame .* scan_arrow\(frame, 'kind'\)"):
        GaussianNB().fit(pd.DataFrame(X).assign(kind=0), "kind")
    with pytest.raises(ValueError, match=r"the string 'kind'. .*; of a frame .* scan_arrow\(frame, 'kind'\)"):
        GaussianNB().fit(pd.DataFrame(X).add_prefix("x").assign(kind="ant"), "kind")  # as text


def test_labels_that_are_not_given_are_missed_first():
    with pytest.raises(ValueError, match="requires y to be passed"):
        GaussianNB().fit(pd.DataFrame(X).add_prefix("x").assign(kind="ant"))


@pytest.mark.parametrize("test", [manova, box_m])
def test_diagnostics_say_what_they_take_and_print_no_data(test):
    with pytest.raises(TypeError, match="^statistics are needed, as accumulate returns; got DataFrame$"):
        test(pd.DataFrame(X))
    with pytest.raises(
        TypeError, match="^statistics are needed, of a model in its statistics_; got GaussianNB$"
    ):
        test(GaussianNB().fit(X, [0, 1] * 30))


def test_what_takes_statistics_says_where_those_of_a_model_are():
    model, window = GaussianNB().fit(X, [0, 1] * 30), WindowedStatistics(2, "diag")
    of_model = "^statistics are needed, of a model in its statistics_; got GaussianNB$"
    for call in (
        partial(drift, model, model.statistics_),
        partial(drift, model.statistics_, model),
        partial(window.append, model),
        partial(GaussianNB.from_statistics, model),
    ):
        with pytest.raises(TypeError, match=of_model):
            call()
    source = scan_arrow(pd.DataFrame({"u": [1.0, 2.0], "kind": [0, 1]}), "kind")
    with pytest.raises(TypeError, match="^statistics are needed, as accumulate returns; got ArrowSource$"):
        drift(model.statistics_, source)
    assert len(window) == 0


def test_a_frame_in_memory_is_no_dask_collection():
    with pytest.raises(TypeError, match="needed, .* scan_arrow takes frames in memory; got DataFrame$"):
        scan_dask(pd.DataFrame({"u": [1.0, 2.0], "kind": [0, 1]}), "kind")


# ---------------------------------------------------------------------- parameters


def test_choices_are_listed_in_the_same_order_in_each_process():
    with pytest.raises(ValueError, match=r"among \{'auto', 'oas'\}"):
        QuadraticDiscriminantAnalysis(shrinkage="x").fit(X, [0, 1] * 30)
    with pytest.raises(ValueError, match=r"among \{'svd', 'lsqr', 'eigen'\}"):
        LinearDiscriminantAnalysis(solver="x").fit(X, [0, 1] * 30)
    with pytest.raises(ValueError, match=r"among \{'bic', 'EII', 'VII', .*'VVV'\}"):
        GaussianDiscriminantAnalysis(covariance_model="x").fit(X, [0, 1] * 30)


class Unread(Source):
    """A source that must not be read."""

    def splits(self):
        raise AssertionError("read")


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"reg_param": [0.1, "abc"]}, "'reg_param' parameter .* Got 'abc'"),
        (
            {"estimator": [GaussianNB()], "var_smoothing": [1e-9, -1.0]},
            "'var_smoothing' parameter .* Got -1.0",
        ),
        ({"shrinkage": [0.1, "auto"], "pooling": [0.5]}, "pooling"),
        ({"covariance_estimator": [EmpiricalCovariance()]}, "needs all the rows in memory"),
        ({"rag_param": [1]}, "there is no parameter 'rag_param'; did you mean 'reg_param'"),
    ],
)
def test_all_candidates_are_checked_before_the_data_is_read(grid, message):
    with pytest.raises(ValueError, match=message) as caught:
        StatisticsSearchCV(QuadraticDiscriminantAnalysis(), grid).fit(Unread())
    assert "fold" not in str(caught.value)


def test_an_estimator_is_checked_before_the_data_is_read():
    with pytest.raises(ValueError, match="'reg_param' parameter"):
        cross_validate(QuadraticDiscriminantAnalysis(reg_param=2), Unread())
    with pytest.raises(ValueError, match="'reg_param' parameter"):
        learning_curve(QuadraticDiscriminantAnalysis(reg_param=2), Unread())


def test_a_reason_is_given_once_for_all_the_folds_in_which_it_is_met():
    search = StatisticsSearchCV(GaussianNB(), {"priors": [None, [0.2, 0.3, 0.5]]}, cv=3)
    with pytest.warns(
        FitFailedWarning, match=r"3 of 6 fits failed.*: folds 0, 1, 2: Number of priors must"
    ) as warned:
        search.fit(X, [0, 1] * 30)
    assert str(warned[0].message).count("Number of priors") == 1


def test_a_reason_that_differs_between_folds_in_numbers_of_rows_alone_is_given_once():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 2))
    rows = np.column_stack([rows, 2 * rows[:, 0]])
    search = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), {"reg_param": [0.0, 0.1]}, cv=4)
    with pytest.warns(FitFailedWarning) as warned:
        search.fit(rows, np.arange(100) % 2)
    for said in (str(warned[0].message), search.cv_results_["fit_error"][0]):
        assert said.count("not full rank") == said.count("`reg_param`") == 1
        assert "fold 0: The covariance matrix of class 0 is not full rank" in said
        assert said.endswith("; folds 1, 2, 3: likewise")


def test_the_folds_of_a_reason_are_not_listed_without_end():
    search = StatisticsSearchCV(GaussianNB(), {"priors": [None, [0.2, 0.3, 0.5]]}, cv=15)
    with pytest.warns(FitFailedWarning, match="folds 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 5 more: Number of"):
        search.fit(np.arange(300.0)[:, None], [0, 1] * 150)


def test_reasons_that_differ_in_more_are_all_given():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(90, 2)), np.arange(90) % 3
    fold = np.repeat([0, 1, 2], 30)
    for label in (1, 2):  # in the part without fold 1 the one is constant, and without fold 2 the other
        rows[(y == label) & (fold != label), 1] = 0.0
    with pytest.warns(FitFailedWarning):
        search = StatisticsSearchCV(QuadraticDiscriminantAnalysis(), {"reg_param": [0.0, 0.1]}, fold=fold)
        search.fit(rows, y)
    reason = search.cv_results_["fit_error"][0]
    assert "fold 1: The covariance matrix of class 1" in reason
    assert "fold 2: The covariance matrix of class 2" in reason


def test_a_class_is_no_candidate():
    with pytest.raises(TypeError, match=r"learn from statistics, such as .*; got <class .*GaussianNB'>"):
        StatisticsSearchCV(GaussianNB, {"priors": [None]}).fit(X, [0, 1] * 30)


def test_a_pipeline_whose_transformers_are_not_fitted_is_no_candidate():
    with pytest.raises(NotFittedError, match="Pipeline is not fitted; fit it to a sample of the rows first$"):
        StatisticsSearchCV(make_pipeline(StandardScaler(), GaussianNB()), {}).fit(X, [0, 1] * 30)


# ---------------------------------------------------------------------- what is given is of another kind


FRAME = pd.DataFrame(X, columns=["u", "v"]).assign(kind=["ant", "bee"] * 30)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda m: scan_arrow(FRAME, ["kind"]),
            TypeError,
            r"target is the name of one column; got \['kind'\]",
        ),
        (lambda m: evaluate(m, "rows.parquet"), TypeError, "got the path rows.parquet; scan makes"),
        (lambda m: evaluate(m, FRAME, "kind"), ValueError, r"the string 'kind'.*scan_arrow\(frame, 'kind'\)"),
        (lambda m: predict_dataset(m, X, "out"), TypeError, "got ndarray: .* rows in memory, .* the model's"),
        (lambda m: progressive_score(m, [(X,)]), TypeError, r"a batch is \(X, y\) or .*; got tuple"),
        (lambda m: StatisticsSearchCV(m, {}).fit(FRAME, "kind"), ValueError, "the string 'kind'"),
        (
            lambda m: StatisticsSearchCV(m, {}).fit("rows.parquet", "kind"),
            TypeError,
            "got the path rows.parquet",
        ),
        (lambda m: learning_curve(m, X, [0, 1] * 30, n_parts=[0.5]), ValueError, "whole numbers from 1 to 4"),
        (
            lambda m: StatisticsLedger("ledger", folds="5"),
            ValueError,
            "folds must be a whole number, at least 2; got '5'",
        ),
    ],
)
def test_what_is_of_another_kind_is_told_what_is_needed(call, error, message):
    with pytest.raises(error, match=message):
        call(GaussianNB().fit(FRAME[["u", "v"]], FRAME["kind"]))


def test_partial_fit_takes_the_columns_of_a_source_by_name():
    tables = [scan_arrow(FRAME[:30], "kind"), scan_arrow(FRAME[30:][["v", "kind", "u"]], "kind")]
    model = GaussianNB().fit(tables[0]).partial_fit(tables[1])
    whole = GaussianNB().fit(FRAME[["u", "v"]], FRAME["kind"])
    np.testing.assert_allclose(model.theta_, whole.theta_, rtol=1e-12)
    with pytest.raises(ValueError, match="only the first has 'v', only the second has 'w'"):
        model.partial_fit(scan_arrow(FRAME.rename(columns={"v": "w"}), "kind"))
