"""Private statistics as users meet them: from any source, in models, merged, and telling nothing else."""

import copy
import pickle
import subprocess
import sys
import traceback

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import streamgda
from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    GaussianNB,
    LinearDiscriminantAnalysis,
    PrivateClassStatistics,
    QuadraticDiscriminantAnalysis,
    RidgeClassifier,
    accumulate,
    private_statistics,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)

RANDOM = np.random.default_rng(0)
Y = np.array(["a", "b", "c"])[RANDOM.integers(3, size=3_000)]
X = RANDOM.normal(size=(3_000, 3)) + 2 * (Y == "a")[:, None]
FRAME = pd.DataFrame(X, columns=["u", "v", "w"])
BOUNDS = dict.fromkeys("uvw", (-6, 6))
SAID = {
    "epsilon": 2,
    "delta": 1e-5,
    "bounds": BOUNDS,
    "clip": 0.9,
    "classes": ["a", "b", "c"],
    "random_state": 0,
}


def private(X=X, y=Y, **options):
    return private_statistics(X, y, **{**SAID, **options})


class TestSources:
    def test_the_release_is_the_same_whatever_holds_the_rows(self, tmp_path):
        table = pa.table({"w": X[:, 2], "label": Y, "u": X[:, 0], "other": X[:, 0], "v": X[:, 1]})
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
        group = zarr.open_group(tmp_path / "rows.zarr", mode="w", zarr_format=2)
        group.create_array("X", data=X, chunks=(1_000, 3))
        group.create_array("y", data=Y, chunks=(1_000,))
        drop = {"missing": "drop"}
        sources = [
            scan_parquet(tmp_path / "rows.parquet", "label", **drop),
            scan_arrow(table, "label", **drop),
            scan_zarr(tmp_path / "rows.zarr", target="y", features="X", **drop),
            scan_dask(da.from_array(X, chunks=(500, 3)), da.from_array(Y, chunks=500), **drop),
        ]
        expected = private()
        for source in sources:
            assert private(source, None).digest() == expected.digest(), source
        assert private(sources[0], None, scheduler="synchronous").digest() == expected.digest()
        for frame in (FRAME[["w", "v", "u"]], FRAME.assign(more="text"), pa.table(FRAME)):
            assert private(frame, pd.Series(Y)).digest() == expected.digest()
        order = RANDOM.permutation(len(Y))
        assert private(X[order], Y[order].tolist()).digest() == expected.digest()

    @pytest.mark.slow
    def test_the_release_is_the_same_from_processes(self, tmp_path):
        pq.write_table(pa.table(FRAME.assign(label=Y)), tmp_path / "rows.parquet", row_group_size=700)
        source = scan_parquet(tmp_path / "rows.parquet", "label", missing="drop")
        assert private(source, None, scheduler="processes").digest() == private().digest()

    def test_rows_that_do_not_count_leave_no_trace(self):
        more = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [0, 0, 0], [0, 0, 0]])
        labels = [*Y.tolist(), "a", "b", "unknown", None]
        assert private(np.vstack([X, more]), labels).digest() == private().digest()
        assert private(X, np.arange(len(X)).astype(str)).digest() == private(X[:0], Y[:0]).digest()

    @pytest.mark.parametrize("other", [1.5, np.inf, 2.0**60, np.nan, 7.0, b"\xff"], ids=str)
    def test_a_label_that_is_none_of_the_classes_is_left_out_whatever_holds_it(self, other, tmp_path):
        classes = [b"1", b"2"] if isinstance(other, bytes) else [1.0, 2.0]
        labels = [*(classes * 50)[:99], other]
        table = pa.table({**FRAME[:100], "label": pa.array(labels)})
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
        drop = {"missing": "drop"}
        sources = [scan_parquet(tmp_path / "a.parquet", "label", **drop), scan_arrow(table, "label", **drop)]
        if not isinstance(other, bytes):
            frame = table.to_pandas()
            frame.to_csv(tmp_path / "a.csv", index=False)
            sources.append(streamgda.scan(tmp_path / "a.csv", "label", **drop))
            sources.append(scan_dask(dd.from_pandas(frame, npartitions=2), "label", **drop))
        said = {"classes": ["1", "2"] if isinstance(other, bytes) else [1, 2], "epsilon": 50}
        expected = private(X[:99], labels[:99], **said).digest()
        for source in sources:
            assert private(source, None, **said).digest() == expected, source
        assert private(X[:100], labels, **said).digest() == expected

    def test_no_clip_means_more_noise_than_the_norm_of_the_longest_row(self):
        assert private(clip=1e6).digest() == private(clip=np.sqrt(3)).digest() != private(clip=1.7).digest()

    def test_values_beyond_the_bounds_are_moved_to_them(self):
        far = np.where(abs(X) > 1, 1e300 * np.sign(X), X)
        near = np.clip(X, -1, 1)
        narrow = {"bounds": [(-1, 1)] * 3}
        assert private(far, **narrow).digest() == private(near, **narrow).digest()

    def test_float32_rows_are_those_numbers_in_float64(self):
        assert private(X.astype("f4")).digest() == private(X.astype("f4").astype("f8")).digest()

    @pytest.mark.parametrize("kind", ["tied", "full", "diag"])
    def test_no_rows_have_noise_too(self, kind):
        nothing = private(X[:0], Y[:0], covariance_type=kind)
        assert nothing.privacy.left_out == ("a", "b", "c")
        assert nothing.n_rows == 0
        both = nothing + private(covariance_type=kind)
        assert both.privacy.epsilon == 4
        assert both.privacy.left_out == ()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"epsilon": 0}, "epsilon is above 0"),
            ({"delta": 1}, "delta between 0 and 1"),
            ({"bounds": [(0, 0)] * 3}, "the first below the second"),
            ({"bounds": [(0, 5e-324)] * 3}, "the first below the second"),
            ({"bounds": [(0, 1)] * 2}, "3 features and bounds of 2"),
            ({"clip": 0}, "clip is a norm"),
            ({"clip": 1e-200}, "clip is a norm"),
            ({"classes": []}, "there are none"),
            ({"X": FRAME.rename(columns={"u": "z"})}, "no column 'u'"),
            ({"X": np.array([["text", 0, 0]], object), "y": ["a"]}, "cannot be read"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            private(**options)

    def test_sources_are_refused_before_they_are_read(self):
        stream = pa.table(FRAME.assign(label=Y, text="text")).to_reader()
        drop = {"features": ["u", "v"], "missing": "drop"}
        with pytest.raises(ValueError, match="has weights"):
            private(scan_arrow(stream, "label", weight="w", **drop), None)
        with pytest.raises(ValueError, match="no column 'w'"):
            private(scan_arrow(stream, "label", **drop), None)
        with pytest.raises(ValueError, match="missing='drop'"):
            private(scan_arrow(stream, "label", features=list("uvw")), None)
        with pytest.raises(TypeError, match="no numbers"):
            private(scan_arrow(stream, "label", missing="drop"), None, bounds={**BOUNDS, "text": (0, 1)})
        with pytest.raises(TypeError, match="got DataFrame alone"):
            private(FRAME, None)
        with pytest.raises(TypeError, match="got list"):
            private(X.tolist(), Y)
        weighted = da.from_array(X, chunks=(500, 3)), da.from_array(Y, chunks=500)
        with pytest.raises(ValueError, match="has weights"):
            private(scan_dask(*weighted, weight=da.ones(len(Y), chunks=500), missing="drop"), None)
        assert private(scan_arrow(stream, "label", features=list("wvu"), missing="drop"), None) == private()


class TestState:
    def test_it_tells_how_private_it_is(self):
        state = private(classes=["a", "b", "c", "d"])
        assert repr(state).endswith("epsilon=2, delta=1e-05)")
        assert state.privacy.left_out == ("d",)
        assert state.privacy.bounds == ((-6, 6),) * 3
        assert "not private" in state.privacy.mechanism
        assert state.feature_names == ("u", "v", "w")

    def test_its_moments_are_near_those_of_the_rows(self):
        state, truth = (
            private(X, Y, epsilon=20, clip=2, covariance_type="full"),
            ClassStatistics().update(X, Y),
        )
        assert abs(state.counts - truth.counts).max() < 5
        assert abs(state.means - truth.means).max() < 0.1
        assert abs(state.covariance() - truth.covariance()).max() < 0.3

    @pytest.mark.parametrize(
        "derive",
        [
            copy.copy,
            copy.deepcopy,
            lambda state: pickle.loads(pickle.dumps(state)),
            lambda state: streamgda.from_bytes(state.to_bytes()),
            lambda state: state.select(["u"]),
            lambda state: state.relabel({"a": "b"}),
            lambda state: state.linear_map(np.eye(3)),
            lambda state: state.to_covariance_type("tied"),
            lambda state: state.as_one_class(),
            lambda state: state.copy().decay(0.5),
            lambda state: state.copy().drop_class("a"),
        ],
    )
    def test_what_is_derived_is_as_private(self, derive):
        state = private(covariance_type="full", classes=["a", "b", "c", "d"])
        derived = derive(state)
        assert isinstance(derived, PrivateClassStatistics)
        assert derived.privacy == state.privacy

    def test_a_state_of_no_rows_has_spent_nothing(self):
        empty, state = PrivateClassStatistics(), private(covariance_type="full")
        assert repr(empty).endswith("rows=0, epsilon=0, delta=0)")
        assert (empty + state).privacy == (state + empty).privacy == state.privacy
        with pytest.raises(TypeError, match="such rows would not be private"):
            empty.update([[1.0]], ["a"])

    def test_a_sum_adds_what_was_spent_unless_rows_are_disjoint(self):
        first, second = (
            private(X[:1_500], Y[:1_500]),
            private(X[1_500:], Y[1_500:], epsilon=3, delta=1e-6, clip=1),
        )
        both = sum([first, second])
        assert (both.privacy.epsilon, both.privacy.clip) == (5, 1)
        assert both.privacy.delta == pytest.approx(1.1e-5)
        disjoint = first.copy().merge(second, disjoint=True)
        assert (disjoint.privacy.epsilon, disjoint.privacy.delta) == (3, 1e-5)
        assert disjoint.n_rows == both.n_rows == first.n_rows + second.n_rows

    @pytest.mark.parametrize("other", [ClassStatistics("tied"), ExactClassStatistics("tied")])
    def test_states_that_are_not_private_do_not_go_in(self, other):
        state, other = private(), other.update(FRAME, Y)
        before = state.digest()
        for change in (
            lambda: state + other,
            lambda: other + state,
            lambda: state.merge(other),
            lambda: other.merge(state),
            lambda: other - state,
        ):
            with pytest.raises(TypeError, match="merges with private ones alone"):
                change()
        assert state.digest() == before

    def test_rows_neither_go_in_nor_out(self):
        state = private()
        before = state.digest()
        for n in (1, len(X)):
            with pytest.raises(TypeError, match="would not be private"):
                state.update(FRAME[:n], Y[:n])
        with pytest.raises(TypeError, match="gives no rows back"):
            state - state
        assert state.digest() == before


MODELS = {
    "LDA": (LinearDiscriminantAnalysis, {}, "tied"),
    "QDA": (QuadraticDiscriminantAnalysis, {"pooling": "bayes"}, "full"),
    "NB": (GaussianNB, {}, "diag"),
    "NB of full": (GaussianNB, {}, "full"),
    "ridge": (RidgeClassifier, {}, "tied"),
}


@pytest.mark.parametrize(("model", "params", "kind"), MODELS.values(), ids=MODELS)
class TestModels:
    def test_they_are_made_of_a_private_state_and_keep_its_record(self, model, params, kind):
        made = model.from_statistics(private(covariance_type=kind), **params)
        truth = model(**params).fit(FRAME, Y)
        assert made.score(FRAME, Y) > truth.score(FRAME, Y) - 0.03
        assert streamgda.from_bytes(made.to_bytes()).statistics_.privacy == made.statistics_.privacy

    def test_they_learn_no_rows(self, model, params, kind):
        made = model.from_statistics(private(covariance_type=kind), **params)
        before = made.statistics_.digest()
        for n in (1, len(X)):
            with pytest.raises(TypeError, match="would not be private"):
                made.partial_fit(FRAME[:n], Y[:n])
        with pytest.raises(TypeError, match="merges with private ones alone"):
            made.merge(model(**params).fit(FRAME, Y))
        assert made.statistics_.digest() == before


# ---------------------------------------------------------------------- nothing passes the noise

PROGRAM = """
import logging, sys, traceback, warnings
import numpy as np, pandas as pd
import pyarrow as pa, pyarrow.parquet as pq
from distributed import Client
from streamgda import LinearDiscriminantAnalysis, private_statistics, scan, scan_parquet

if __name__ == "__main__":
    logging.basicConfig(level="INFO", stream=sys.stdout)
    logging.getLogger("streamgda").setLevel("DEBUG")
    warnings.simplefilter("always")
    n = {n}
    values = [0.25, 0.5, {number}] + [0.75] * (n - 3)
    table = pa.table({{"x": values, "note": ["{text}"] * n, "label": ["a", "{label}"] + ["a"] * (n - 2)}})
    said = dict(epsilon=1, delta=1e-6, bounds={{"x": (0, 1)}}, clip=1, random_state=3)
    pq.write_table(table, "good.parquet", row_group_size=1000)
    with open("broken.csv", "w") as file:
        file.write("x,label\\n" + "0.25,a\\n" * 200_000 + "{text},a\\n")
    good = scan_parquet("good.parquet", "label", features=["x"], missing="drop")
    cluster = Client(n_workers=1, threads_per_worker=1, dashboard_address=None)
    for scheduler in ("threads", "synchronous", "processes", cluster):
        state = private_statistics(good, classes=["a", "b"], scheduler=scheduler, **said)
        state.save("state.parquet")
        LinearDiscriminantAnalysis.from_statistics(state).save("model.parquet")
        print(state, state.privacy, state.n_dropped, vars(state))
        broken = scan("broken.csv", "label", missing="drop")
        text = pd.DataFrame({{"x": ["{text}"]}}, dtype=object)
        for source, y in ((broken, None), (text, ["{label}"]), (np.array([[{number}]]), ["a", "{label}"])):
            try:
                private_statistics(source, y, classes=["a", "b"], scheduler=scheduler, **said)
            except ValueError as error:
                traceback.print_exc()
                print(repr(error), error.__cause__, error.__context__, getattr(error, "__notes__", None))
            else:
                print("nothing was wrong")
    cluster.close()
"""
PLANTED = {"n": 13_579, "number": 86_420.5, "text": "PLANTEDTEXT", "label": "PLANTEDLABEL"}


def told_by_a_program(tmp_path):
    """All that the program prints and writes."""
    (tmp_path / "program.py").write_text(PROGRAM.format(**PLANTED))
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert not done.returncode, done.stderr
    files = [(tmp_path / f"{name}.parquet").read_bytes() for name in ("state", "model")]
    return done.stdout + done.stderr, files


@pytest.mark.slow
def test_a_program_tells_nothing_of_its_rows(tmp_path):
    printed, files = told_by_a_program(tmp_path)
    assert printed.count("ValueError('the rows cannot be read") == 3 * 4
    assert "nothing was wrong" not in printed
    assert "Privacy(" in printed
    others = ("13,579", "13578", "13,578", "86,420.5")
    for text in (*map(str, PLANTED.values()), *others):
        assert text not in printed
        assert all(text.encode() not in file for file in files)


@pytest.mark.parametrize(
    "labels",
    [np.arange(60) % 2, np.arange(60) % 2 == 1, np.array(["0", "1"] * 30)],
    ids=["int", "bool", "str"],
)
@pytest.mark.parametrize("classes", [[0, 1], [False, True], ["0", "1"]], ids=str)
@pytest.mark.parametrize("how", ["array", "series", "arrow strings", "parquet", "table", "zarr", "dask"])
def test_classes_are_of_the_kind_of_the_labels(labels, classes, how, tmp_path):
    rows, y = pd.DataFrame(np.zeros((60, 3)), columns=["u", "v", "w"]), None
    if how in ("array", "series", "arrow strings"):
        kinds = {"array": labels, "series": pd.Series(labels).convert_dtypes()}
        source, y = rows, kinds.get(how, pd.Series(labels, dtype="category"))
    elif how == "zarr":
        group = zarr.open_group(tmp_path / "rows.zarr", mode="w", zarr_format=2)
        group.create_array("X", data=rows.to_numpy(), chunks=(30, 3))
        group.create_array("y", data=labels, chunks=(30,))
        source = scan_zarr(tmp_path / "rows.zarr", missing="drop")
    elif how == "dask":
        frame = dd.from_pandas(rows.assign(y=labels), npartitions=2)
        source = scan_dask(frame, "y", missing="drop")
    else:
        table = pa.table({**rows, "y": labels})
        pq.write_table(table, tmp_path / "rows.parquet")
        scan = {"table": scan_arrow, "parquet": scan_parquet}[how]
        source = scan(table if how == "table" else tmp_path / "rows.parquet", "y", missing="drop")
    said = {**SAID, "classes": classes, "bounds": [(-6, 6)] * 3, "epsilon": 50}
    if labels.dtype.kind == np.array(classes).dtype.kind:
        assert private_statistics(source, y, **said).counts.sum() == pytest.approx(60, abs=10)
    else:
        with pytest.raises(ValueError, match="give classes of the type of the labels"):
            private_statistics(source, y, **said)


def test_an_error_has_nothing_behind_it():
    with pytest.raises(ValueError, match="cannot be read") as caught:
        private(np.array([["PLANTED", 0, 0]], object), ["a"])
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "PLANTED" not in "".join(traceback.format_exception(caught.value)).replace(
        '[["PLANTED", 0, 0]]', ""
    )


def test_neither_log_nor_warnings_tell_how_many_rows_there_are(caplog, tmp_path):
    pq.write_table(pa.table(FRAME.assign(label=Y)), tmp_path / "rows.parquet", row_group_size=700)
    source = scan_parquet(tmp_path / "rows.parquet", "label", missing="drop")
    with caplog.at_level("DEBUG"):
        private(source, None)
        assert not [record for record in caplog.records if record.name == "streamgda"]
        accumulate(source)
    assert "3,000 rows" in caplog.text


def test_groups_that_divide_rows_are_no_labels(tmp_path):
    frame = FRAME.assign(y=np.where(np.arange(len(FRAME)) % 2, "a", "b"), who=np.arange(len(FRAME)) % 40)
    frame.astype({"who": str}).to_parquet(tmp_path / "rows.parquet")
    source = scan_parquet(tmp_path / "rows.parquet", "y", features=["u", "v", "w"], missing="drop")
    limits = dict.fromkeys("uvw", (-9.0, 9.0))
    for part in source.split(0.5, by="who"):
        private = private_statistics(
            part, classes=["a", "b"], bounds=limits, clip=50.0, epsilon=1e6, delta=1e-3
        )
        assert private.counts.tolist() == accumulate(part).counts.tolist()
