"""Maps and expressions in the pass: the statistics are those of the transformed rows in memory."""

import pickle
import threading
from datetime import date

import cloudpickle
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from streamgda import (
    ClassStatistics,
    ExactClassStatistics,
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
    RidgeClassifier,
    StatisticsLedger,
    StatisticsSearchCV,
    accumulate,
    evaluate,
    load,
    predict_dataset,
    scan,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from streamgda.data.sources.base import FileSource, ScorableSource
from streamgda.jobs.selection.splitters import ArraySource
from tests.data.tables import parquet_files, zarr_group

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
Y = RNG.integers(0, 3, size=600)
FRAME = pd.DataFrame(X, columns=list("abc"))
TABLE = pa.table({**{name: FRAME[name].to_numpy() for name in "abc"}, "y": Y})
TRANSFORMERS = [
    StandardScaler().fit(X),
    PCA(2).fit(FRAME[["c", "a"]]),
    RBFSampler(n_components=20, random_state=0).fit(X),
    SplineTransformer(sparse_output=True).fit(FRAME),
    make_pipeline(StandardScaler(), PolynomialFeatures()).fit(X),
    ColumnTransformer([("scaled", StandardScaler(), ["c"]), ("kept", "passthrough", ["a"])]).fit(FRAME),
    ColumnTransformer([("scaled", StandardScaler(), [2]), ("kept", "passthrough", [0])]).fit(X),
    FunctionTransformer(np.exp, feature_names_out="one-to-one"),
]


def transformed(transformer, frame=FRAME):
    names = getattr(transformer, "feature_names_in_", None)
    made = transformer.transform(frame.to_numpy() if names is None else frame[list(names)])
    return np.asarray(made.toarray() if hasattr(made, "toarray") else made)


def write(folder):
    return scan_parquet(parquet_files(folder, TABLE, row_group_size=100), "y")


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda one: type(one).__name__)
def test_a_mapped_source_gives_the_statistics_of_the_transformed_rows(transformer, tmp_path):
    source = write(tmp_path / "data").map(transformer)
    state = accumulate(source)
    assert state.allclose(ClassStatistics().update(transformed(transformer), Y), rtol=1e-12)
    assert state.feature_names == source.feature_names
    assert source.n_features == len(source.feature_names) == state.n_features


@settings(max_examples=20)
@given(bounds=st.lists(st.integers(0, 600), max_size=6).map(sorted))
def test_the_bits_do_not_depend_on_chunks_where_each_row_is_answered_by_itself(bounds):
    scaler, weights = StandardScaler().fit(X), np.arange(600) % 4
    table = TABLE.append_column("w", pa.array(weights))
    chunks = [
        table.slice(start, stop - start) for start, stop in zip([0, *bounds], [*bounds, 600], strict=True)
    ]
    reader = pa.RecordBatchReader.from_batches(
        table.schema, [batch for chunk in chunks for batch in chunk.to_batches()]
    )
    found = accumulate(scan_arrow(reader, "y", weight="w").map(scaler), exact=True)
    assert found == ExactClassStatistics().update(
        pd.DataFrame(scaler.transform(X), columns=list("abc")), Y, weights
    )


def sources(folder):
    zarr_group(folder / "rows.zarr", 100, X=X, y=Y)
    yield write(folder / "data")
    yield scan_arrow(TABLE, "y")
    yield scan_arrow(ds.dataset([TABLE.slice(0, 300), TABLE.slice(300)]), "y")
    yield scan_arrow(pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(100)), "y")
    yield scan_arrow(FRAME.assign(y=Y), "y")
    yield scan_zarr(folder / "rows.zarr")
    yield scan_dask(dd.from_pandas(FRAME.assign(y=Y), npartitions=3), "y")
    yield scan_dask(da.from_array(X, chunks=(200, 2)), da.from_array(Y, chunks=200))


def test_every_source_can_be_mapped_and_keeps_its_abilities(tmp_path):
    sampler = RBFSampler(n_components=20, random_state=0).fit(X)
    expected = ClassStatistics().update(sampler.transform(X), Y)
    for source in sources(tmp_path):
        mapped = source.map(sampler)
        assert accumulate(mapped).allclose(expected, rtol=1e-12), source
        for ability in (ScorableSource, FileSource):
            assert isinstance(mapped, ability) == isinstance(source, ability)
        assert (mapped.is_local, mapped.is_one_shot) == (source.is_local, source.is_one_shot)


def test_splits_can_be_sent_to_other_processes(tmp_path):
    source = write(tmp_path / "data").map(lambda rows: rows[:, :2] ** 2, features=["p", "q"])
    sent = pickle.loads(cloudpickle.dumps(source.splits()))
    state = ClassStatistics()
    state.update_blocks(block for split in sent for block in split.blocks())
    assert state.allclose(accumulate(source), rtol=1e-12)


def test_maps_compose_and_a_map_of_a_frame_finds_its_features(tmp_path):
    scaler = StandardScaler().fit(FRAME[["c", "a"]])
    source = write(tmp_path / "data").map(scaler).map(PolynomialFeatures(2).fit(X[:, :2]))
    expected = PolynomialFeatures(2).fit_transform(transformed(scaler))
    assert source.feature_names == ("1", "c", "a", "c^2", "c a", "a^2")
    assert accumulate(source).allclose(ClassStatistics().update(expected, Y), rtol=1e-12)
    some = accumulate(source.with_features(["a", "1"]))
    assert some.allclose(ClassStatistics().update(expected[:, [2, 0]], Y), rtol=1e-12)


def test_many_features_are_made_of_few_rows_at_a_time():
    rows = []

    def widened(block):
        rows.append(len(block))
        return np.repeat(block, 500, axis=1)

    names = [f"f{i}" for i in range(1_500)]
    table = pa.concat_tables([TABLE] * 10)
    state = accumulate(scan_arrow(table, "y").map(widened, names), "diag", scheduler="synchronous")
    assert max(rows) * 1_500 <= 1 << 23
    assert sum(rows) == state.n_rows == 6_000


# ---------------------------------------------------------------------- identity


def digest(transformer, names=None):
    return scan_arrow(TABLE, "y").map(transformer, names).step.digest


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda one: type(one).__name__)
def test_the_hash_of_a_map_is_that_of_its_values(transformer):
    assert digest(pickle.loads(pickle.dumps(transformer))) == digest(transformer)


def test_other_parameters_values_or_names_have_another_hash():
    maps = [
        *((transformer, None) for transformer in TRANSFORMERS),
        (StandardScaler().fit(X + 1e-9), None),
        (RBFSampler(n_components=20, random_state=1).fit(X), None),
        (StandardScaler().fit(X), ["p", "q", "r"]),
    ]
    assert len({digest(*one) for one in maps}) == len(maps)


def test_later_fitting_of_the_transformer_has_no_effect():
    scaler = StandardScaler().fit(X)
    source = scan_arrow(TABLE, "y").map(scaler)
    before = accumulate(source)
    scaler.fit(X * 9)
    assert accumulate(source) == before


def test_a_transformer_that_works_in_place_changes_no_data():
    scaler, rows = StandardScaler(copy=False).fit(X.copy()), X.copy()
    source = ArraySource(rows, Y).map(scaler, list("abc"))
    assert accumulate(source) == accumulate(source)
    np.testing.assert_array_equal(rows, X)


SCALE = 1.0


def rescaled(rows):
    return rows * SCALE


def test_a_source_goes_by_what_its_map_reads_when_it_is_used(tmp_path, monkeypatch):
    source = write(tmp_path / "data").map(rescaled, list("abc"))
    model, out = LinearDiscriminantAnalysis().fit(X, Y), tmp_path / "out"
    accumulate(source, checkpoint=tmp_path / "checkpoint")
    predict_dataset(model, source, out)
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(source)
    monkeypatch.setitem(globals(), "SCALE", 100.0)
    assert accumulate(source, checkpoint=tmp_path / "checkpoint") == accumulate(source)
    assert predict_dataset(model, source, out).n_found == 0
    with pytest.raises(ValueError, match="maps="):
        ledger.refresh(source)


SEEN = {}


def remembering(rows):
    return rows * SEEN.setdefault(len(SEEN), 2.0)


def test_a_map_that_changes_what_it_reads_is_used_but_not_found_again(tmp_path):
    source = write(tmp_path / "data").map(remembering, list("abc"))
    accumulate(source)
    with pytest.raises(ValueError, match="remembering.* have changed since .*functools.lru_cache"):
        accumulate(source, checkpoint=tmp_path / "checkpoint")
    assert not list((tmp_path / "checkpoint").iterdir())


def test_a_map_that_cannot_be_told_from_others_is_refused_where_it_would_be_found_again(tmp_path):
    lock = threading.Lock()
    source = write(tmp_path / "data").map(lambda rows: rows if lock else -rows, list("abc"))
    model = LinearDiscriminantAnalysis().fit(source, scheduler="threads")
    for use in (
        lambda: accumulate(source, checkpoint=tmp_path / "checkpoint"),
        lambda: StatisticsLedger(tmp_path / "ledger").refresh(source),
        lambda: predict_dataset(model, source, tmp_path / "out"),
    ):
        with pytest.raises(TypeError, match=r"the map by .*lambda> depends on lock: <unlocked _thread"):
            use()


# ---------------------------------------------------------------------- errors


def test_what_is_no_fitted_transformer_of_these_features_is_refused():
    source = scan_arrow(TABLE, "y")
    for wrong in ("scale", StandardScaler):
        with pytest.raises(TypeError, match="a fitted transformer or a function is needed"):
            source.map(wrong)
    with pytest.raises(NotFittedError, match="StandardScaler is not fitted; fit it to a sample of the rows"):
        source.map(StandardScaler())
    with pytest.raises(ValueError, match=r"StandardScaler\(\) was fitted to 2 features"):
        source.map(StandardScaler().fit(X[:, :2]))
    with pytest.raises(ValueError, match=r"mapped by StandardScaler\(\): there is no column 'd'"):
        source.map(StandardScaler().fit(FRAME.rename(columns={"c": "d"})))
    with pytest.raises(ValueError, match="makes needs names"):
        source.map(np.exp)
    with pytest.raises(AttributeError, match="get_feature_names_out"):
        source.map(FunctionTransformer(np.exp))
    with pytest.raises(ValueError, match="a list of different names"):
        source.map(np.exp, ["a", "a", "b"])


@pytest.mark.parametrize(
    "function", [lambda rows: rows[:, :2], lambda rows: rows[1:], lambda rows: rows.astype(str), np.sum]
)
def test_an_answer_of_another_shape_or_kind_names_the_transformer_and_the_place(function):
    with pytest.raises(ValueError, match="(lambda|sum).* row 0 on: it made .* not numbers of shape"):
        accumulate(scan_arrow(TABLE, "y").map(function, list("abc")))


def test_a_failing_transformer_is_named():
    def broken(rows):
        raise RuntimeError("no licence")

    with pytest.raises(
        RuntimeError, match="^no licence\nraised by the map .*broken, for rows from .*row 0 on$"
    ):
        accumulate(scan_arrow(TABLE, "y").map(broken, list("abc")))


@pytest.mark.parametrize("missing", ["raise", "marginal"])
def test_missing_values_need_a_transformer_that_takes_them(missing):
    holes = X.copy()
    holes[7, 1] = np.nan
    table = TABLE.set_column(1, "b", pa.array(holes[:, 1], from_pandas=True))
    source = scan_arrow(table, "y", missing=missing)
    with pytest.raises(ValueError, match="row 7: feature 'b' is NaN or null.* RBFSampler.* SimpleImputer"):
        accumulate(source.map(TRANSFORMERS[2]))
    imputer = SimpleImputer().fit(holes)
    filled = accumulate(source.map(make_pipeline(imputer, TRANSFORMERS[2])))
    expected = ClassStatistics().update(TRANSFORMERS[2].transform(imputer.transform(holes)), Y)
    assert filled.simplest().allclose(expected, rtol=1e-12)
    scaled = source.map(StandardScaler().fit(holes))
    if missing == "raise":
        with pytest.raises(ValueError, match="row 7: feature 'b' is NaN"):
            accumulate(scaled)
    else:
        assert accumulate(scaled).missing == "marginal"
        QuadraticDiscriminantAnalysis(missing="marginal").fit(scaled)
    dropped = accumulate(scan_arrow(table, "y", missing="drop").map(TRANSFORMERS[2]))
    assert (dropped.n_rows, dropped.n_dropped) == (599, 1)


WORDS = np.array([f"w{i}" for i in range(60)])
MIXED = pd.DataFrame(
    {
        "text": [" ".join(WORDS[(RNG.integers(0, 40, 9) + 5 * k) % 60]) for k in Y],
        "colour": RNG.choice(["red", "green", "blue"], 600),
        "size": RNG.normal(size=600) + Y,
        "y": np.array(["a", "b", "c"])[Y],
    }
)
HASHES = HashingVectorizer(n_features=32, norm=None)
BESIDE = [
    ("hashes", HASHES, "text"),
    ("one hot", OneHotEncoder(), ["colour"]),
    ("size", "passthrough", ["size"]),
]
OF_TEXT = [
    (HASHES, "text"),
    (make_pipeline(HASHES, TfidfTransformer().fit(HASHES.transform(MIXED["text"]))), "text"),
    (TfidfVectorizer(max_features=20).fit(MIXED["text"]), "text"),
    (OneHotEncoder().fit(MIXED[["colour"]]), ["colour"]),
    (ColumnTransformer(BESIDE, sparse_threshold=1).fit(MIXED.drop(columns="y")), ["text", "colour", "size"]),
]


def write_mixed(folder):
    folder.mkdir()
    table = pa.Table.from_pandas(MIXED, preserve_index=False)
    for i in range(3):
        pq.write_table(table.slice(200 * i, 200), folder / f"{i}.parquet", row_group_size=90)
    return table


@pytest.mark.parametrize(("transformer", "columns"), OF_TEXT, ids=lambda one: type(one).__name__)
def test_text_categories_and_frames_are_mapped_to_sparse_rows(transformer, columns, tmp_path):
    expected = ClassStatistics("tied").update(transformer.transform(MIXED[columns]), MIXED["y"])
    features = [columns] if isinstance(columns, str) else columns[::-1]
    table = write_mixed(tmp_path / "rows")
    MIXED.to_csv(tmp_path / "rows.csv", index=False)
    sources = [scan(tmp_path / name, "y", features=features) for name in ("rows", "rows.csv")]
    sources += [scan_arrow(table, "y", features=features)]
    sources += [scan_dask(dd.from_pandas(MIXED, npartitions=2), "y", features=features)]
    for source in sources:
        mapped = source.map(transformer)
        state = accumulate(mapped, covariance_type="tied")
        assert state.allclose(expected, 1e-12), source
        assert state.feature_names == mapped.feature_names
    mapped = sources[0].map(transformer)
    assert accumulate(mapped, covariance_type="tied", exact=True).allclose(expected, 1e-12)
    blocks = [block for split in mapped.splits() for block in split.blocks()]
    assert all(sp.issparse(block.values(slice(0, 2))) for block in blocks)


@pytest.mark.parametrize("second", [np.abs, StandardScaler(), MaxAbsScaler(), TruncatedSVD(2)], ids=str)
def test_what_follows_a_sparse_map_gets_its_zeros_if_it_needs_them(second):
    rows = HASHES.transform(MIXED["text"])
    source = scan_arrow(pa.Table.from_pandas(MIXED), "y", features=["text"]).map(HASHES)
    if second is np.abs:
        made, mapped = np.abs(rows.toarray()), source.map(second, features=source.feature_names)
    else:
        takes_zeros = isinstance(second, StandardScaler)
        second.fit(rows.toarray() if takes_zeros else rows)
        made, mapped = second.transform(rows.toarray() if takes_zeros else rows), source.map(second)
    expected = ClassStatistics("tied").update(made, MIXED["y"])
    assert accumulate(mapped, covariance_type="tied").allclose(expected, 1e-12)
    (split,) = mapped.splits()
    kept = any(sp.issparse(block.values(slice(0, 2))) for block in split.blocks())
    assert kept == isinstance(second, MaxAbsScaler)


def test_every_pass_takes_a_mixed_frame_through_a_map(tmp_path):
    transformer, columns = OF_TEXT[-1]
    rows, table = transformer.transform(MIXED[columns]), write_mixed(tmp_path / "rows")

    def source():
        return scan(tmp_path / "rows", "y", features=columns).map(transformer)

    model = RidgeClassifier(alpha=1.0).fit(source())
    assert evaluate(model, source()).accuracy == model.score(rows, MIXED["y"])
    predict_dataset(model, source(), tmp_path / "predictions")
    predictions = pq.read_table(tmp_path / "predictions").to_pandas()
    assert predictions["predicted_label"].tolist() == model.predict(rows).tolist()
    pipeline = make_pipeline(transformer, model)
    predict_dataset(pipeline, tmp_path / "rows", tmp_path / "more")
    assert pq.read_table(tmp_path / "more").to_pandas().equals(predictions)
    search = StatisticsSearchCV(RidgeClassifier(), {"alpha": [1.0, 10.0]}, scoring="accuracy").fit(source())
    assert search.best_score_ > 0.5
    ledger = StatisticsLedger(tmp_path / "ledger")
    assert ledger.refresh(source()).rows == 600
    pq.write_table(table.slice(0, 50), tmp_path / "rows" / "3.parquet")
    assert ledger.refresh(source()).rows == 50
    state = ClassStatistics().update(rows, MIXED["y"]).update(rows[:50], MIXED["y"][:50])
    assert load(tmp_path / "ledger" / "ledger.parquet").allclose(state, 1e-12)


STORED = MIXED.assign(
    text=MIXED["text"].where(RNG.random(600) < 0.9, None),
    sold=[date(2026, 1, 1 + i % 28) for i in range(600)],
    pair=list(RNG.normal(size=(600, 2))),
)
AS_DAYS = np.column_stack([MIXED["size"], np.array(STORED["sold"], "datetime64[D]").astype(float)])
AS_MAPPED = [
    (clone(HASHES).set_params(preprocessor=lambda text: text or ""), ["text"]),
    *((one, [columns] if isinstance(columns, str) else columns) for one, columns in OF_TEXT[3:4]),
    (StandardScaler().fit(AS_DAYS), ["size", "sold"]),
    (make_pipeline(StandardScaler(), PolynomialFeatures()).fit(AS_DAYS), ["size", "sold"]),
    (StandardScaler().fit(pd.DataFrame(AS_DAYS, columns=["size", "sold"])), ["size", "sold"]),
    (StandardScaler().fit(np.hstack([np.stack(STORED["pair"]), AS_DAYS[:, :1]])), ["pair", "size"]),
    (
        ColumnTransformer([*BESIDE[1:], ("sold", StandardScaler(), ["sold"])]).fit(
            MIXED.assign(sold=AS_DAYS[:, 1])[["colour", "size", "sold"]]
        ),
        ["colour", "size", "sold"],
    ),
]


@pytest.mark.parametrize(("transformer", "columns"), AS_MAPPED, ids=lambda one: type(one).__name__)
def test_the_pipeline_of_a_map_takes_rows_as_they_are_stored(transformer, columns, tmp_path):
    table = pa.Table.from_pandas(STORED, preserve_index=False)
    pq.write_table(table, tmp_path / "rows.parquet")
    source = scan(tmp_path / "rows.parquet", "y", features=columns).map(transformer)
    model = RidgeClassifier(alpha=1.0).fit(source)
    pipeline = model.as_pipeline(source)
    assert pipeline.feature_names_in_.tolist() == [*source.before_maps.feature_names]
    predict_dataset(model, source, tmp_path / "of model")  # which goes through the map in the pass
    expected = pq.read_table(tmp_path / "of model")["predicted_label"].to_numpy()
    predict_dataset(pipeline, tmp_path / "rows.parquet", tmp_path / "of pipeline")
    np.testing.assert_array_equal(pq.read_table(tmp_path / "of pipeline")["predicted_label"], expected)
    more = scan(tmp_path / "rows.parquet", "y", features=[*columns[::-1], *{"size"}.difference(columns)])
    assert evaluate(pipeline, more).accuracy == (expected == MIXED["y"]).mean()
    records = table.select(columns).to_pylist()
    texts = [{**row, "sold": str(row["sold"])} for row in records] if "sold" in columns else records
    times = {"sold": STORED["sold"].astype("datetime64[ns]")} if "sold" in columns else {}
    for rows in (STORED[columns], STORED[columns].assign(**times), table, records, texts):
        np.testing.assert_array_equal(pipeline.predict(rows), expected)
    np.testing.assert_array_equal([*map(pipeline.predict, texts[:9])], expected[:9, None])
    with pytest.raises(ValueError, match=f"leave out .*{columns[-1]}.*: give each a value, or null"):
        pipeline.predict({"other": 1.0})
    if times:
        with pytest.raises(ValueError, match="row 0: column 'sold' holds dates, and 20460 is none"):
            pipeline.predict({**records[0], "sold": 20460})


MANY = pd.DataFrame({"a": np.arange(120, dtype=np.int8), "b": (np.arange(120) % 7 * 18).astype(np.int8)})
TEXT = pd.DataFrame({"a": np.resize(["p", "q", None, "p", "r"], 120), "b": MANY["b"]})
ENCODED = ColumnTransformer(
    [
        ("one hot", OneHotEncoder(), ["a"]),
        ("length", FunctionTransformer(lambda texts: texts.fillna("").map(len).to_frame()), "a"),
    ],
    sparse_threshold=1,
)
SEVERAL = StandardScaler().set_output(transform="pandas").fit(MANY).transform(MANY)[["b", "a"]]


@pytest.mark.parametrize(
    ("frame", "maps"),
    [
        (MANY, [FunctionTransformer(lambda rows: np.asarray(rows) ** 2, feature_names_out="one-to-one")]),
        (MANY, [lambda rows: rows * rows]),  # of which int8 overflows
        (MANY, [StandardScaler().fit(MANY[["b", "a"]])]),
        (MANY, [StandardScaler().fit(MANY), StandardScaler().fit(SEVERAL)]),
        (TEXT, [ENCODED.fit(TEXT), StandardScaler().fit(ENCODED.transform(TEXT).toarray())]),
    ],
    ids=["function of scikit-learn", "function", "other order", "named", "dense after sparse"],
)
def test_the_maps_of_a_pipeline_get_what_they_get_in_a_pass(frame, maps):
    y = MANY["a"] % 3
    source = scan_arrow(frame.assign(y=y), "y", features=["a", "b"])
    for one in maps:
        source = source.map(one, **({} if hasattr(one, "transform") else {"features": ["c", "d"]}))
    model = RidgeClassifier(alpha=1.0).fit(source)
    pipeline = model.as_pipeline(source)
    mapped = source.head(120).drop(columns="y")  # as the pass has it
    expected = model.predict_proba(mapped)
    texts = frame.select_dtypes(exclude="number").columns
    rows = [frame, frame[["b", "a"]].assign(c="x"), pa.table(frame), frame.to_dict("records")]
    rows += [frame.convert_dtypes(), frame.astype(dict.fromkeys(texts, "category"))]
    array = frame[[*pipeline.feature_names_in_]].to_numpy()
    rows += [] if len(texts) else [array, array.tolist()]
    for one in rows:
        np.testing.assert_allclose(pipeline.predict_proba(one), expected, rtol=1e-9)
    np.testing.assert_allclose(pipeline.predict_proba(frame.to_dict("records")[2]), expected[2:3], rtol=1e-9)
    assert evaluate(pipeline, scan_arrow(frame.assign(y=y), "y")).accuracy == model.score(mapped, y)
    with pytest.raises(TypeError, match="got the path rows.parquet; scan makes a source of it"):
        evaluate(pipeline, "rows.parquet")


def test_a_map_of_text_names_what_is_missing_and_what_it_takes(tmp_path):
    wrong = pa.table({"text": ["w1", "w2", None], "size": [1.0, 2.0, 3.0], "y": [0, 1, 1]})
    texts = scan_arrow(wrong, "y", features=["text"])
    remedy = "with missing='drop'; or give HashingVectorizer.* a preprocessor= that makes \"\" of None"
    with pytest.raises(ValueError, match=f"row 2: feature 'text' is NaN or null.*{remedy}"):
        accumulate(texts.map(HASHES))
    dropped = scan_arrow(wrong, "y", features=["text"], missing="drop").map(HASHES)
    assert accumulate(dropped, covariance_type="diag").n_dropped == 1
    filled = scan_arrow(pa.table({"text": ["w1", "w2", ""], "y": [0, 1, 1]}), "y", features=["text"])
    expected, blank = accumulate(filled.map(HASHES)), clone(HASHES).set_params(preprocessor=lambda s: s or "")
    assert accumulate(texts.map(blank)) == expected
    fill, frame = FunctionTransformer(lambda texts: texts.fillna("")), pd.DataFrame({"text": [""]})
    with pytest.raises(ValueError, match=r'of text FunctionTransformer\(lambda texts: texts.fillna\(""\)\)'):
        accumulate(texts.map(ColumnTransformer([("text", HASHES, "text")]).fit(frame)))
    steps = ColumnTransformer([("text", make_pipeline(fill, HASHES), "text")]).fit(frame)
    np.testing.assert_array_equal(
        accumulate(texts.map(steps, features=expected.feature_names)).means, expected.means
    )
    for features in (None, ["size"]):
        with pytest.raises(ValueError, match="takes one column of text; name it where the source is scanned"):
            scan_arrow(wrong, "y", features=features).map(HASHES)
    with pytest.raises(ValueError, match="convert string to float") as error:
        accumulate(scan_arrow(wrong.slice(0, 2), "y").map(StandardScaler().fit(np.eye(2))))
    assert any("StandardScaler" in note for note in error.value.__notes__)


def test_a_pipeline_that_would_fit_a_source_is_told_of_map():
    with pytest.raises(TypeError, match=r"source\.map takes a fitted transformer"):
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()).fit(scan_arrow(TABLE, "y"))


# ---------------------------------------------------------------------- expressions

SOLD = [date(2026, 1, 1 + i % 28) for i in range(600)]
DATED = TABLE.append_column("sold", pa.array(SOLD)).append_column("price", pa.array(np.exp(X[:, 0])))
EXPRESSIONS = {
    "weekday": pc.day_of_week(pc.field("sold")),
    "price": pc.ln(pc.field("price")),
    "difference": pc.field("a") - pc.field("b"),
}
COMPUTED = np.column_stack([X[:, 0], [day.weekday() for day in SOLD], X[:, 0] - X[:, 1]])


def tabular_sources(folder):
    chosen = {"exclude": ["sold", "a", "b", "c"]}
    yield scan_parquet(parquet_files(folder, DATED, row_group_size=70), "y", **chosen)
    yield scan_arrow(DATED, "y", **chosen)
    yield scan_arrow(ds.dataset([DATED.slice(0, 300), DATED.slice(300)]), "y", **chosen)
    yield scan_arrow(pa.RecordBatchReader.from_batches(DATED.schema, DATED.to_batches(100)), "y", **chosen)
    frame = DATED.to_pandas().astype({"sold": "datetime64[ns]"})
    yield scan_dask(dd.from_pandas(frame, npartitions=3), "y", **chosen)


def test_columns_are_computed_from_those_of_every_table(tmp_path):
    expected = ClassStatistics().update(COMPUTED, Y)
    for source in tabular_sources(tmp_path / "data"):
        state = accumulate(source.with_columns(**EXPRESSIONS))
        assert state.feature_names == ("price", "weekday", "difference"), source
        assert state.allclose(expected, rtol=1e-10), source


def test_computed_columns_are_scored_and_mapped(tmp_path):
    (source, *_) = tabular_sources(tmp_path / "data")
    source = source.with_columns(**EXPRESSIONS)
    model = LinearDiscriminantAnalysis().fit(source)
    out = tmp_path / "out"
    predict_dataset(model, source, out, keep=["price", "sold"])
    written = pq.read_table(out)
    np.testing.assert_allclose(
        np.column_stack([written[f"probability_{k}"] for k in range(3)]),
        model.predict_proba(pd.DataFrame(COMPUTED, columns=list(source.feature_names))),
        rtol=1e-9,
    )
    assert written["price"].equals(DATED["price"])
    mapped = accumulate(source.map(StandardScaler().fit(COMPUTED)))
    expected = ClassStatistics().update(StandardScaler().fit_transform(COMPUTED), Y)
    assert mapped.allclose(expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("expressions", "message"),
    [
        ({"z": pc.field("nothing")}, "nothing"),
        ({"z": pc.ln(pc.field("sold"))}, r"z=ln\(sold\): the types .* do not go together"),
        ({"z": pc.strftime(pc.field("sold"))}, "is string and cannot be a feature; make a number of it"),
        ({"y": pc.field("a")}, "'y' is the target"),
    ],
)
def test_an_expression_that_makes_no_feature_is_refused(expressions, message):
    with pytest.raises(ValueError, match=message):
        scan_arrow(DATED, "y", exclude=["sold"]).with_columns(**expressions)


def test_arrays_have_no_columns_to_compute_with(tmp_path):
    (*_, zarr_source, _, arrays) = sources(tmp_path)
    for source in (zarr_source, arrays):
        with pytest.raises(TypeError, match=r"no columns with names; source\.map"):
            source.with_columns(z=pc.field("a"))


def test_a_value_that_cannot_be_computed_names_the_data():
    table = DATED.set_column(0, "a", pa.array(np.zeros(600, dtype=np.int64)))
    source = scan_arrow(table, "y", features=["b"]).with_columns(z=pc.scalar(1) / pc.field("a"))
    with pytest.raises(ValueError, match="the table: divide by zero"):
        accumulate(source)
