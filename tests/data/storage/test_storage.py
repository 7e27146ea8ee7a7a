"""Saved states and models: the same bits come back, other engines read them, nothing wrong is believed."""

import json
import re
import tracemalloc
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    GaussianNB,
    IncompleteStatistics,
    StatisticsLedger,
    load,
    scan_parquet,
)
from streamgda.data.storage.documents import decode
from streamgda.data.storage.filesystems import resolve, walk_files
from tests.interrupted import full_disk
from tests.strategies import KINDS, labelled_rows

DATA = Path(__file__).parents[2] / "files"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) + 1e6
Y = np.repeat(["ant", "bee", "cat"], 20)


def bits(state):
    """All that a state holds, as bytes: zeros of either sign and tails of means included."""
    columns, metadata = state.to_columns()
    return {
        name: (v.tolist() if v.dtype.kind in "Ub" else v.tobytes()) for name, v in columns.items()
    }, metadata


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.parquet"


@pytest.fixture
def saved(path):
    ClassStatistics(feature_names=["u", "v", "w"]).update(X, Y).save(path)
    return path


# ---------------------------------------------------------------------- the same bits


MAKES = [partial(make, kind) for make in (ClassStatistics, ExactClassStatistics) for kind in KINDS]
MAKES.append(partial(ClassStatistics, fourth_moments=True))


@example(MAKES[-1], [], 1.0)
@given(
    st.sampled_from(MAKES),
    st.lists(labelled_rows(max_features=2), min_size=1, max_size=3),
    st.sampled_from([1.0, 0.3, 1e-199]),
)
def test_every_state_comes_back_to_the_last_bit(tmp_path_factory, make, batches, factor):
    state = make()
    for rows, labels in batches:
        held = state.classes.dtype.kind, state.n_features
        if not state.n_rows or (labels.dtype.kind, rows.shape[1]) == held:
            state.update(rows, labels)
    if isinstance(state, ClassStatistics):
        state.decay(factor)
    path = tmp_path_factory.mktemp("state") / "state.parquet"
    state.save(path)
    back = load(path)
    assert bits(back) == bits(state)
    assert back == state
    assert back.classes.dtype.kind == state.classes.dtype.kind


@pytest.mark.parametrize("damage", ["positions", "weight_digits", "sum_digits", "n_features", "count"])
def test_a_damaged_exact_state_is_refused(path, damage):
    ExactClassStatistics().update(X, Y).save(path)
    if damage in ("positions", "n_features"):
        rewrite(path, {damage: {"weight": 0} if damage == "positions" else 2})
    else:
        column = pq.read_table(path)[damage]
        rewrite(path, **{damage: pa.array([None] * 3, column.type)})
    with pytest.raises(ValueError, match="damaged or not consistent|damaged: its metadata"):
        load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_states_without_rows_or_features_come_back(path, kind):
    for state in (
        ClassStatistics(kind),
        ClassStatistics(kind, feature_names=["u", "v"]),
        ClassStatistics(kind).update(X, Y).decay(1e-100).decay(1e-150),
        ClassStatistics(kind).update(X, Y) - ClassStatistics(kind).update(X, Y),
    ):
        state.save(path)
        assert bits(load(path)) == bits(state)
        assert (
            load(path).merge(ClassStatistics(kind).update(X[:, :2], Y)).n_rows == 60
            if state.n_features == 2
            else 1
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_from_uneven_sums_comes_back(path, kind):
    """Sums from another engine are symmetric up to rounding; the state takes their lower triangle."""
    plain = ClassStatistics(kind).update(X[:, :2] - 1e6, Y)
    outer = plain.outer_sums
    if kind != "diag":
        outer[..., 0, 1] *= 1 + 1e-15
    state = ClassStatistics.from_sums(plain.classes, plain.counts, plain.sums, outer, covariance_type=kind)
    state.save(path)
    assert load(path) == state
    assert state.allclose(plain)


@pytest.mark.filterwarnings("ignore:.*fewer than six correct digits:RuntimeWarning")
def test_a_state_whose_scatter_rounding_has_spoilt_comes_back(path):
    """Take away the rows that varied most, and what rounding leaves of the others is not definite."""
    rng, labels = np.random.default_rng(0), np.zeros(4000, int)
    rows = rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 12))  # of rank 3
    rows[:40] *= 1e-5
    state = ClassStatistics().update(rows, labels) - ClassStatistics().update(rows[40:], labels[40:])
    assert not state.to_columns()[1]["definite"]
    state.save(path)
    assert bits(load(path)) == bits(state)


def test_a_model_of_one_class_can_be_put_aside(path):
    GaussianNB(var_smoothing=1e-7).partial_fit(X[:20], Y[:20]).save(path)
    back = load(path)
    assert back.var_smoothing == 1e-7
    assert set(back.predict(X)) == {"ant"}
    assert set(back.partial_fit(X[20:], Y[20:]).predict(X)) <= set(Y)


def test_what_could_not_be_read_back_is_not_written(path):
    class Mine(GaussianNB):
        pass

    with pytest.raises(TypeError, match="Mine is not a model that can be read back; save its statistics_"):
        Mine().fit(X, Y).save(path)
    model = GaussianNB().fit(X, Y)
    model.priors = object()
    with pytest.raises(TypeError, match="a value of type object cannot be saved"):
        model.save(path)
    with pytest.raises(ValueError, match="not fitted"):
        GaussianNB().save(path)
    assert not list(path.parent.iterdir())


# ---------------------------------------------------------------------- format 1, for ever


def test_a_full_state_of_format_1():
    state = load(DATA / "format-1-full.parquet")
    assert state.classes.tolist() == ["ant", "bee"]
    assert state.feature_names == ("u", "v")
    assert (state.counts.tolist(), state.weights.tolist(), state.n_dropped) == ([3, 1], [3.0, 1.0], 2)
    columns, _ = state.to_columns()
    assert columns["mean"].tolist() == [[float.fromhex("0x1.5555555555556p-2"), 1.0], [5.0, 5.0]]
    assert columns["mean_tail"].tolist() == [[float.fromhex("-0x1.5555555555556p-56"), 0.0], [0.0, 0.0]]
    assert state.scatter.tolist() == [
        [[float.fromhex("0x1.5555555555557p-1"), 1.0], [1.0, 2.0]],
        [[0.0, 0.0], [0.0, 0.0]],
    ]


def test_a_tied_state_of_format_1():
    state = load(DATA / "format-1-tied.parquet")
    assert (state.covariance_type, state.classes.tolist()) == ("tied", [-1, 10**12])
    assert state.scatter.tolist() == [[4.0, 2.0], [2.0, 4.0]]


def test_a_model_of_format_1():
    model = load(DATA / "format-1-naive-bayes.parquet")
    assert (model.priors, model.var_smoothing) == ([0.25, 0.75], 1e-6)
    assert model.classes_.tolist() == [False, True]
    assert model.theta_.tolist() == [[0.5], [5.5]]
    assert model.predict([[0.0], [9.0]]).tolist() == [False, True]


def test_a_discriminant_analysis_of_format_1_keeps_its_tolerance_its_attributes_and_its_projection():
    """They were saved when `tol`, then 1e-10, bounded eigenvalues. The smallest here is 1.7e-10."""
    lda, qda = (load(DATA / f"format-1-{name}.parquet") for name in ("lda", "qda"))
    row = [[1.0, 2.0, 3.0, 1.0]]
    np.testing.assert_allclose(lda.predict_proba(row)[0, 1], 2.62059476e-09, rtol=1e-5)
    np.testing.assert_allclose(qda.predict_proba(row)[0, 2], 1.49422888e-20, rtol=1e-5)
    np.testing.assert_allclose(lda.transform(row), [[-10.26294, -16.99829172]], rtol=1e-5)
    assert (lda.covariance_.shape, len(qda.covariance_)) == ((4, 4), 3)
    np.testing.assert_allclose(
        qda.rotations_[0][:, 0] ** 2, [0.4658484, 0.0370947, 0.0312165, 0.4658411], 1e-3
    )
    assert (lda.priors, qda.priors) == ([0.5, 0.25, 0.25],) * 2


# ---------------------------------------------------------------------- other engines


def test_sql_reads_a_state(saved):
    state = load(saved)
    # DuckDB counts from 1: (1, 0) of the packed scatter is at 1 * 2 / 2 + 0 + 1.
    rows = duckdb.sql(
        f"select label, count, weight, mean[2], scatter[2] from '{saved}' order by label"
    ).fetchall()
    assert rows == [
        (
            state.classes[k],
            state.counts[k],
            state.weights[k],
            state.to_columns()[0]["mean"][k, 1],
            state.scatter[k, 1, 0],
        )
        for k in range(3)
    ]
    frame = pd.read_parquet(saved)
    assert np.stack(frame["mean"]).tolist() == state.to_columns()[0]["mean"].tolist()
    assert frame["label"].tolist() == ["ant", "bee", "cat"]


def test_sql_reads_the_pooled_scatter(path):
    state = ClassStatistics("tied").update(X, Y)
    state.save(path)
    ((pooled,),) = duckdb.sql(
        f"select pooled_scatter from '{path}' where pooled_scatter is not null"
    ).fetchall()
    assert list(pooled) == state.scatter[np.tril_indices(3)].tolist()
    assert duckdb.sql(f"select sum(count) from '{path}'").fetchall() == [(60,)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_sql_has_copied_in_another_order_is_the_same_state(path, kind):
    state = ClassStatistics(kind, feature_names=["u", "v", "w"]).update(X, Y)
    state.save(path)
    copy = path.with_name("copy.parquet")
    document = pq.read_metadata(path).metadata[b"streamgda"].decode()
    duckdb.sql(
        f"copy (select *, 'more' as note from '{path}' order by label desc) to '{copy}' "
        f"(format parquet, kv_metadata {{streamgda: '{document}'}})"
    )
    assert bits(load(copy)) == bits(state)


# ---------------------------------------------------------------------- where it is written


@pytest.mark.parametrize("url", ["memory://folder/state.parquet", "file://{folder}/state.parquet"])
def test_any_url(tmp_path, url):
    state = ClassStatistics().update(X, Y)
    state.save(url.format(folder=tmp_path))
    assert load(url.format(folder=tmp_path)) == state


def test_any_filesystem(tmp_path):
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem

    state = ClassStatistics().update(X, Y)
    for number, filesystem in enumerate(
        (
            pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()),
            DirFileSystem(str(tmp_path), LocalFileSystem()),
        )
    ):
        for _ in range(2):  # the second time, over what is there
            state.save(f"{number}.parquet", filesystem=filesystem)
        assert load(f"{number}.parquet", filesystem=filesystem) == state
        assert load(tmp_path / f"{number}.parquet") == state
    assert len(list(tmp_path.iterdir())) == 2


def test_what_cannot_be_written_leaves_what_was_there(saved):
    before = saved.read_bytes()
    state = ClassStatistics().update(np.eye(80), np.arange(80) % 4)
    full = f"^cannot write {saved}: .*File too large; what was there before is kept"
    with full_disk(20_000), pytest.raises(OSError, match=full):
        state.save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.parametrize("make", [lambda: ClassStatistics().update(X, Y), lambda: GaussianNB().fit(X, Y)])
def test_nothing_but_statistics_and_models_is_replaced_unasked(path, make):
    pq.write_table(pa.table({"u": [1.0], "kind": ["a"]}), path)
    text, ledger = path.with_name("notes.txt"), StatisticsLedger(path.with_name("ledger"))
    text.write_text("of value to somebody")
    ledger.refresh(scan_parquet(path, "kind"))
    files = [path, text, *Path(ledger.path).rglob("*.parquet")]
    for file in files:
        before = file.read_bytes()
        with pytest.raises(ValueError, match=f"will not overwrite .*{file.name}, which .*overwrite=True"):
            make().save(file)
        assert file.read_bytes() == before
    for file in files:
        make().save(file, overwrite=True)
        make().save(file)  # one of ours by now
        assert isinstance(load(file), type(make()))


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    state, folder, file = ClassStatistics().update(X, Y), tmp_path / "nosuch", tmp_path / "file"
    with pytest.raises(FileNotFoundError, match=rf"^cannot write {folder}/1: .*No such file or directory"):
        state.save(folder / "1")
    file.write_text("")
    with pytest.raises(OSError, match=rf"^cannot write {file}/1: .*Not a directory; what was there"):
        state.save(file / "1")


# ---------------------------------------------------------------------- what is refused


def rewrite(path, metadata=None, **columns):
    """Change a saved file: keys of its metadata, or whole columns; None takes one out."""
    table = pq.read_table(path)
    document = json.loads(table.schema.metadata[b"streamgda"]) | (metadata or {})
    document = {key: value for key, value in document.items() if value != "absent" and key != "checksum"}
    for name, values in columns.items():
        position = table.column_names.index(name)
        table = table.remove_column(position)
        if values is not None:
            table = table.add_column(position, name, pa.array(values))
    pq.write_table(table.replace_schema_metadata({"streamgda": json.dumps(document)}), path)


def packed(matrix, times=3):
    return [np.array(matrix)[np.tril_indices(3)].tolist()] * times


@pytest.mark.parametrize(
    ("metadata", "columns", "message"),
    [
        (
            {"format_version": 5},
            {},
            "has format 5, and this version of streamgda reads up to format 4: upgrade",
        ),
        ({"format_version": "1"}, {}, "its metadata has no format_version"),
        ({"format_version": True}, {}, "its metadata has no format_version"),
        ({"kind": "Histogram"}, {}, "its kind is 'Histogram'"),
        ({"kind": ["ClassStatistics"]}, {}, "its kind is"),
        ({"covariance_type": "round"}, {}, "covariance_type must be one of"),
        ({"covariance_type": {}}, {}, "not consistent"),
        ({"covariance_type": "tied"}, {}, "no column 'pooled_scatter'"),
        ({"covariance_type": "absent"}, {}, "its metadata has no 'covariance_type'"),
        ({"n_features": 2}, {}, "column 'mean' has shape (3, 3) where (3, 2) is due"),
        ({"n_features": -1}, {}, "n_features is -1"),
        ({"n_dropped": 1.5}, {}, "n_dropped is 1.5"),
        ({"feature_names": ["u", "v"]}, {}, "2 feature names for 3 features"),
        ({"feature_names": "uvw"}, {}, "feature_names is 'uvw'"),
        ({"feature_names": ["u", "v", 3]}, {}, "where a list of strings is due"),
        ({"model": {"name": "Forest", "params": {}}}, {}, "does not know: 'Forest'"),
        ({"model": {"name": "Pipeline", "params": {}}}, {}, "does not know: None"),
        ({"model": "GaussianNB"}, {}, "a model that this version"),
        ({"model": {"name": "GaussianNB", "params": {"nosuch": 1}}}, {}, "this is no GaussianNB"),
        ({"model": {"name": "GaussianNB", "params": {"var_smoothing": "1"}}}, {}, "var_smoothing"),
        ({"model": {"name": "GaussianNB", "params": {}, "types": {"labels": "1" * 9999}}}, {}, "are unknown"),
        ({"model": {"name": "GaussianNB", "params": {}}}, {}, "are not what its parameters ask for"),
        ({}, {"label": ["ant", "ant", "bee"]}, "a label stands twice"),
        ({}, {"label": ["ant", None, "bee"]}, "column 'label' holds a null"),
        ({}, {"label": [0.5, 1.0, 2.0]}, "label 0.5 is not a class"),
        ({}, {"count": None}, "no column 'count'"),
        ({}, {"count": [20, -1, 20]}, "class bee has count -1"),
        ({}, {"count": [20, 0.5, 20]}, "no whole number"),
        ({}, {"count": [20, 1e300, 20]}, "no whole number"),
        ({}, {"weight": [20.0, 0.0, 20.0]}, "class bee has weight 0"),
        ({}, {"weight": [20.0, np.nan, 20.0]}, "column 'weight' holds NaN"),
        ({}, {"weight": ["a", "b", "c"]}, "column 'weight' holds object where numbers are due"),
        ({}, {"mean": [[0.0] * 3, [0.0] * 2, [0.0] * 3]}, "lists of different lengths"),
        ({}, {"mean": [[0.0] * 3, None, [0.0] * 3]}, "column 'mean' has shape (2, 3) where (3, 3) is due"),
        ({}, {"mean": [[0.0, None, 1.0]] * 3}, "column 'mean' holds a null"),
        ({}, {"mean": [0.0, 1.0, 2.0]}, "column 'mean' has shape (3,)"),
        ({}, {"mean_tail": [[0.0, np.inf, 1.0]] * 3}, "column 'mean_tail' holds NaN or infinity"),
        ({}, {"scatter": [[1.0] * 5] * 3}, "column 'scatter' has shape (3, 5) where (3, 6) is due"),
        ({}, {"scatter": packed(-np.eye(3))}, "not positive semidefinite"),
        ({}, {"scatter": packed([[1, 2, 0], [2, 1, 0], [0, 0, 1]])}, "not positive semidefinite"),
        ({}, {"scatter": packed([[0, 1, 0], [1, 1, 0], [0, 0, 1]])}, "not positive semidefinite"),
    ],
)
def test_an_inconsistent_file_is_refused_in_one_line(saved, metadata, columns, message):
    rewrite(saved, metadata, **columns)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        load(saved)
    assert str(saved) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_refused_wherever_it_ends(saved):
    whole = saved.read_bytes()
    for length in (0, 3, 4, 100, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is truncated, damaged or no Parquet file: [^\n]*$"):
            load(saved)


def test_a_flipped_bit_is_noticed(saved):
    """Wherever it is among the digits: pages carry checksums."""
    whole = bytearray(saved.read_bytes())
    digits = bytes(whole).index(load(saved).to_columns()[0]["scatter"][1].tobytes())
    whole[digits + 5] ^= 1
    saved.write_bytes(whole)
    with pytest.raises(ValueError, match="is truncated, damaged"):
        load(saved)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: ClassStatistics(feature_names=["u", "v", "w"]).update(X, Y),
        lambda: ExactClassStatistics("tied").update(np.rint(X), Y),
        lambda: GaussianNB(var_smoothing=1e-7).fit(X, Y),
    ],
)
def test_no_damage_is_believed(path, make):
    """A byte that is lost or changed anywhere is refused in one line, or makes no difference."""
    saved, rng = make(), np.random.default_rng(0)
    saved.save(path)
    whole, refused = path.read_bytes(), []
    for position in rng.integers(0, len(whole), 250):
        new = bytes(rng.integers(0, 256, rng.integers(0, 2), dtype=np.uint8))
        path.write_bytes(whole[:position] + new + whole[position + 1 :])
        try:
            back = load(path)
        except ValueError as error:
            refused.append(str(error))
        else:
            assert type(back) is type(saved)
            assert everything_in(back) == everything_in(saved)
    assert len(refused) > 100
    assert not any("\n" in reason for reason in refused)


def test_a_schema_that_does_not_fit_its_column_chunks_is_refused(path):
    """A required column with the histogram of levels of an optional one would end the process in pyarrow."""
    GaussianNB(var_smoothing=1e-7).fit(X, Y).save(path)
    whole = path.read_bytes()
    optional = whole.rindex(b"5\x02\x18", 0, whole.rindex(b"ARROW:schema"))  # of a schema element: OPTIONAL
    path.write_bytes(whole[: optional + 1] + b"\x1e" + whole[optional + 2 :])
    with pytest.raises(ValueError, match="damaged.*: the footer is damaged: it has two different schemas"):
        load(path)


def everything_in(saved):
    state = saved if isinstance(saved, ClassStatistics | ExactClassStatistics) else saved.statistics_
    return bits(state), getattr(saved, "get_params", dict)()


@pytest.mark.parametrize("key", ["n_dropped", "feature_names", "model"])
def test_a_document_that_was_changed_is_refused(path, key):
    GaussianNB().fit(pd.DataFrame(X, columns=["u", "v", "w"]), Y).save(path)
    table = pq.read_table(path)
    document = json.loads(table.schema.metadata[b"streamgda"])
    document[key] = {"n_dropped": 7, "feature_names": ["v", "u", "w"], "model": {**document["model"]}}[key]
    if key == "model":
        document["model"]["params"]["var_smoothing"] *= 10
    changed = table.replace_schema_metadata({"streamgda": json.dumps(document)})
    pq.write_table(changed, path)
    with pytest.raises(ValueError, match="is damaged: its metadata differs from its checksum"):
        load(path)
    del document["checksum"]
    pq.write_table(table.replace_schema_metadata({"streamgda": json.dumps(document)}), path)
    load(path)


MANY = 10**7


@pytest.mark.slow_cases("_2", "no column")
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (lambda: {"label": pa.nulls(MANY, pa.int64())}, "bytes stand for 80,000,0"),
        (lambda: {"label": pa.array(np.zeros(MANY, np.int64))}, "bytes stand for 80,000,0"),
        (lambda: {"mean": pa.array([np.zeros(MANY)])}, "bytes stand for 80,000,0"),
        (lambda: {"mean": pa.nulls(1, pa.list_(pa.float64(), MANY))}, "bytes stand for 80,000,0"),
        (
            lambda: {"label": pa.array(["x" * 1000]).take(pa.array(np.zeros(10**5, int)))},
            "a label stands twice",
        ),
        (lambda: {"note": pa.array(["x" * MANY * 10])}, "there is no column 'label'"),
    ],
)
def test_a_small_file_takes_little_memory(path, columns, message):
    """Runs of one value, of nulls, of a long label; what is unknown is not read at all."""
    ClassStatistics().update(X, Y).save(path)
    metadata = pq.read_schema(path).metadata
    table = pa.table(columns()).replace_schema_metadata(metadata)
    pq.write_table(table, path, compression="zstd", write_statistics=False)
    del table
    assert path.stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert pa.total_allocated_bytes() - before < 1_000_000
    assert "\n" not in str(caught.value)


def test_foreign_files_are_refused(path):
    pq.write_table(pa.table({"label": [1]}), path)
    with pytest.raises(
        ValueError, match="a Parquet file of something else: its metadata has no key 'streamgda'"
    ):
        load(path)
    for document in ("{", "[1]", '"x"'):
        table = pa.table({"label": [1]}).replace_schema_metadata({"streamgda": document})
        pq.write_table(table, path)
        with pytest.raises(ValueError, match="is not a JSON object"):
            load(path)
    path.write_bytes(b"\x80\x04\x95 a pickle of something that runs")
    with pytest.raises(ValueError, match="no Parquet file"):
        load(path)
    with pytest.raises(FileNotFoundError, match="there is no file .*nosuch"):
        load(path.with_name("nosuch"))
    with pytest.raises(FileNotFoundError, match="is a folder; name a file in it"):
        load(path.parent)


@pytest.mark.slow_cases("names1", "Statistics-tied", "IncompleteStatistics-full", "ExactClassStatistics-diag")
@pytest.mark.parametrize("covariance_type", KINDS)
@pytest.mark.parametrize("kind", [ClassStatistics, ExactClassStatistics, IncompleteStatistics])
@pytest.mark.parametrize("names", [None, ["u", "v", "w"]])
@pytest.mark.parametrize("n_rows", [0, 60])
def test_a_lie_about_the_number_of_features_asks_for_no_memory(path, kind, covariance_type, names, n_rows):
    state = kind(covariance_type, feature_names=names)
    (state.update(np.rint(X[:n_rows]), Y[:n_rows]) if n_rows else state).save(path)
    for n_features in (20_000_000, 18_000, 10**15):
        if (n_features, covariance_type, n_rows, names) == (18_000, "diag", 0, None):
            continue  # there may be such a state, and it takes no memory
        rewrite(path, {"n_features": n_features})
        tracemalloc.start()
        with pytest.raises(ValueError, match="state.parquet is damaged or not consistent") as caught:
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2_000_000
        assert "\n" not in str(caught.value)


def test_a_compressed_mean_of_many_zeros_asks_for_no_scatter(path):
    ClassStatistics("tied").update(X, np.zeros(60, int)).save(path)
    rewrite(path, {"n_features": 18_000}, mean=[[0.0] * 18_000], mean_tail=[[0.0] * 18_000])
    with pytest.raises(ValueError, match="hold 36,009 numbers, too few for 18,000 features"):
        load(path)


@pytest.mark.slow_cases("tied", "full")
@pytest.mark.parametrize("covariance_type", KINDS)
def test_wide_states_are_believed(path, covariance_type):
    """Of which a file holds little: no rows but names, or small patterns among many features."""
    wide = np.full((4, 3000), np.nan)
    wide[:, 7], wide[:, 2999] = [1, 2, 4, 3], [1, 3, 2, 5]
    for state in (
        ClassStatistics(covariance_type, feature_names=[f"x{i}" for i in range(3000)]),
        IncompleteStatistics(covariance_type).update(wide, [0, 1, 0, 1]),
        ClassStatistics(covariance_type).update(np.nan_to_num(wide), [0, 0, 0, 0]),
    ):
        state.save(path)
        assert load(path) == state


@pytest.mark.parametrize(
    ("metadata", "columns", "message"),
    [
        ({"positions": {"weight": 0, "sum": 0, "outer_sum": 10**9}}, {}, "a position is 1000000000"),
        ({"positions": {"weight": 0, "sum": 0.5, "outer_sum": 0}}, {}, "a position is 0.5"),
        ({"positions": {"weight": 0, "sum": np.inf, "outer_sum": 0}}, {}, "a position is inf"),
        ({"n_dropped": True}, {}, "n_dropped is True"),
        ({}, {"count": [np.inf, 20.0, 20.0]}, "a count is inf"),
        ({}, {"count": [20.0, 1e300, 20.0]}, "a count is 1e+300"),
        ({}, {"count": pa.array([2**64 - 1, 20, 20], pa.uint64())}, "a count is 18446744073709551615"),
        ({}, {"count": [True, True, True]}, "counts are bool"),
        ({}, {"count": [20, 21, 20]}, "class bee has count 21 and weight 20"),
    ],
)
def test_an_inconsistent_exact_file_is_refused_in_one_line(path, metadata, columns, message):
    ExactClassStatistics().update(np.rint(X), Y).save(path)
    rewrite(path, metadata, **columns)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_bottomless_document_is_refused(saved):
    """Wherever Python's own limit is: to read it, and to compute its checksum."""
    document = json.loads(pq.read_schema(saved).metadata[b"streamgda"])
    head, foot = json.dumps(document | {"more": "nested"}).split('"nested"')
    for depth in (*range(800, 1000), 200_000):
        nested = f"{head}{'[' * depth}{']' * depth}{foot}"
        with pytest.raises(ValueError, match="its metadata is not a JSON object|differs from its checksum"):
            decode({b"streamgda": nested.encode()}, str(saved))


@pytest.mark.slow_cases("value2", "1e999")
@pytest.mark.parametrize(
    "key", ["format_version", "n_features", "n_dropped", "covariance_type", "model", "definite"]
)
@pytest.mark.parametrize("value", ["9" * 100, "-" + "9" * 4000, "9" * 5000, "1e999", "NaN", "null"])
def test_numbers_beyond_reason_are_refused(saved, key, value):
    table = pq.read_table(saved)
    document = json.loads(table.schema.metadata[b"streamgda"])
    del document["checksum"]
    text = json.dumps(document | {key: "number"}).replace('"number"', value)
    pq.write_table(table.replace_schema_metadata({"streamgda": text}), saved)
    if key == "definite":
        with suppress(ValueError):  # any true value asks for a check, which the state passes
            assert load(saved).n_rows == 60
    else:
        with pytest.raises(ValueError, match="state.parquet"):
            load(saved)


@pytest.mark.parametrize("url", ["gs://bucket/a.parquet", "gs://anonymous@bucket/b", "gcs://bucket/c"])
def test_a_store_of_google_is_not_tried_for_a_quarter_of_an_hour(url):
    def limit_of(url):
        storage, _ = resolve(url)
        _, (options,) = storage.filesystem.__reduce__()
        return options["retry_time_limit"]

    assert limit_of(url) == timedelta(seconds=60)
    assert limit_of(f"{url}?retry_limit_seconds=5") == timedelta(seconds=5)
    assert resolve(url)[1] == url.rpartition("@")[2].removeprefix("gs://").removeprefix("gcs://")


def test_a_file_that_vanishes_while_its_folder_is_listed_is_left_out(tmp_path):
    """As an unfinished file of another process does when it gets its name."""
    for name in "abc":
        (tmp_path / name).write_bytes(b"")
    files = walk_files(str(tmp_path))
    assert next(files)[0] == f"{tmp_path}/a"
    (tmp_path / "b").unlink()
    assert [path for path, _ in files] == [f"{tmp_path}/c"]
