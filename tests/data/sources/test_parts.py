"""The parts of a source for training and testing: each row is in one of them, whatever the way to read it."""

import pickle
from collections import Counter
from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from streamgda import (
    GaussianNB,
    LinearDiscriminantAnalysis,
    StatisticsLedger,
    StatisticsSearchCV,
    accumulate,
    cross_validate,
    evaluate,
    predict_dataset,
    scan,
    scan_arrow,
    scan_dask,
    scan_parquet,
    scan_zarr,
)
from streamgda.data.blocks.block import FoldRule
from streamgda.data.sources.splits import LazySplit
from tests.data.tables import parquet_files, zarr_group
from tests.logged_filesystem import NotingHandler

N = 3_000
RNG = np.random.default_rng(0)
TABLE = pa.table(
    {
        "row": np.arange(N),
        "x": RNG.normal(size=N),
        "colour": RNG.choice(["red", "green", "blue"], size=N),
        "who": RNG.integers(0, 200, size=N),
        "weight": RNG.integers(1, 4, size=N),
        "kind": RNG.integers(0, 3, size=N),
    }
)
BYS = ["rows", "files", "who"]
IN_A_THOUSAND_YEARS = 1e-9  # the chance of an alarm


def written(folder, table=TABLE, n_files=10, row_group_size=100):
    return parquet_files(folder, table, n_files, row_group_size=row_group_size)


def ids(source):
    """The values of the feature `row`, sorted."""
    found = []
    for split in source.splits():
        part = split.delayed.compute() if isinstance(split, LazySplit) else split
        for block in part.blocks():
            matrix = block.matrix(0, len(block.codes))
            found += matrix[:, block.feature_names.index("row") if block.feature_names else 0].tolist()
    return sorted(map(int, found))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(tmp_path_factory.mktemp("parts"))


@pytest.fixture
def source(folder):
    return scan_parquet(folder, "kind", features=["row", "x"])


# ---------------------------------------------------------------------- which rows a part has


@settings(max_examples=10, deadline=None)
@given(
    st.integers(1, 60),
    st.floats(0.05, 0.95),
    st.sampled_from(BYS),
    st.integers(0, 5),
    st.permutations(range(3)),
)
def test_the_rows_depend_on_their_places_alone(tmp_path_factory, size, share, by, state, order):
    table = TABLE.slice(0, 120)
    one = written(tmp_path_factory.mktemp("one"), table, 3, 40)
    other = tmp_path_factory.mktemp("other")
    for i in order:
        pq.write_table(table.slice(40 * i, 40), other / f"{i}.parquet", row_group_size=size)
    sources = [scan_parquet(at, "kind", features=["row"]) for at in (one, other)]
    try:
        parts = [source.split(share, by=by, random_state=state) for source in sources]
    except ValueError:
        reject()  # all files are in one part
    (training, test), again = ([ids(part) for part in both] for both in parts)
    assert sorted(training + test) == list(range(120))
    assert [training, test] == again


def test_chunks_do_not_matter(tmp_path):
    X, y = np.arange(200.0)[:, None], np.arange(200) % 2
    table = pa.table({"row": np.arange(200), "kind": y})
    found = []
    for size in (7, 100):
        zarr_group(tmp_path / f"{size}.zarr", size, X=X, y=y)
        chunks = pa.Table.from_batches(table.to_batches(max_chunksize=size))
        arrays = da.from_array(X, chunks=size), da.from_array(y, chunks=size)
        sources = scan_zarr(tmp_path / f"{size}.zarr"), scan_dask(*arrays), scan_arrow(chunks, "kind")
        found.append([ids(source.split()[1]) for source in sources])
    assert found[0] == found[1]


@pytest.mark.parametrize("by", BYS)
def test_shares_are_those_of_chance(folder, by):
    source = scan_parquet(folder, "kind", features=["row"])
    n_units, n_tries = {"rows": (N, 1), "files": (10, 30), "who": (200, 5)}[by]
    in_test, n_rows = 0, 0
    for state in range(n_tries):
        try:
            _, test = source.split(0.3, by=by, random_state=state)
        except ValueError:
            continue  # all files in one part
        rows = ids(test)
        n_rows += len(rows)
        units = {"rows": rows, "files": {row // (N // 10) for row in rows}}
        in_test += len(units.get(by, set(TABLE["who"].take(pa.array(rows)).to_pylist())))
    low, high = binom.ppf([IN_A_THOUSAND_YEARS, 1 - IN_A_THOUSAND_YEARS], n_units * n_tries, 0.3)
    assert low <= in_test <= high


def test_all_rows_of_a_value_are_in_one_part(source):
    training, test = source.split(by="who")
    whose = [set(TABLE["who"].take(pa.array(ids(part))).to_pylist()) for part in (training, test)]
    assert not whose[0] & whose[1]
    assert whose[0] | whose[1] == set(range(200))


def test_a_value_has_the_same_part_in_all_kinds_of_data(tmp_path, folder):
    expected = ids(scan_parquet(folder, "kind", features=["row"]).split(by="who")[1])
    few = [row for row in expected if TABLE["who"][row].as_py() < 20]
    pyarrow.csv.write_csv(TABLE, tmp_path / "rows.csv")
    X = TABLE["row"].to_numpy()[:, None] * 1.0
    zarr_group(tmp_path / "rows.zarr", 500, X=X, y=TABLE["kind"], who=TABLE["who"])
    named = pa.table(
        {**dict(zip(TABLE.column_names, TABLE.columns, strict=True)), "who": TABLE["who"].cast(pa.string())}
    )
    sources = {
        "csv": scan(tmp_path / "rows.csv", "kind", features=["row"]),
        "zarr": scan_zarr(tmp_path / "rows.zarr"),
        "table": scan_arrow(TABLE, "kind", features=["row"]),
        "text": scan_arrow(named, "kind", features=["row"]),
        "dask": scan_dask(dd.from_pandas(TABLE.to_pandas(), npartitions=3), "kind", features=["row"]),
        "key": scan_parquet(_by_key(tmp_path / "keys"), "kind", features=["row"]),
    }
    for kind, made in sources.items():
        assert ids(made.split(by="who")[1]) == (expected if kind != "key" else few), kind


def test_days_are_divided_and_grouped_whatever_their_type():
    numbers = RNG.integers(20_000, 20_060, 600)
    columns = {"row": np.arange(600), "kind": np.arange(600) % 2}
    days = pa.array(numbers.astype(np.int32)).cast(pa.date32())
    parts, scores = [], []
    for kind in (pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "UTC")):
        source = scan_arrow(pa.table({**columns, "day": days.cast(kind)}), "kind", features=["row"])
        parts.append([ids(part) for part in source.split(by="day")])
        scores.append(
            cross_validate(GaussianNB(), source, groups="day", scoring="accuracy")["test_score"].tolist()
        )
    assert all(part == parts[0] for part in parts)
    assert all(score == scores[0] for score in scores)
    assert not {*numbers[parts[0][0]]} & {*numbers[parts[0][1]]}


def _by_key(folder):
    pq.write_to_dataset(TABLE.filter(pc.field("who") < 20), folder, partition_cols=["who"])
    return folder


def test_a_file_has_the_same_part_when_others_come(tmp_path):
    before = [ids(part) for part in _tests(scan_parquet(written(tmp_path), "kind", features=["row"]))]
    pq.write_table(TABLE.slice(0, 100), tmp_path / "-1.parquet")
    later = [ids(part) for part in _tests(scan_parquet(tmp_path, "kind", features=["row"]))]
    for few, more in zip(before, later, strict=True):
        rest = Counter(more) - Counter(few)
        assert not Counter(few) - Counter(more)
        assert set(rest) <= set(range(100))


def _tests(source):
    return [source.split(by=by)[1] for by in BYS]


def test_a_part_by_files_opens_no_file_of_the_other(tmp_path):
    source = scan_parquet(written(tmp_path), "kind", features=["row"])
    training, test = source.split(by="files")
    expected = ids(test)
    for file in training.files():
        (tmp_path / file.path).write_bytes(b"damaged")
    assert ids(test) == expected
    with pytest.raises(ValueError, match="damaged"):
        ids(training)


def test_a_part_reads_no_byte_of_a_column_twice(tmp_path):
    n_rows, path = 60_000, tmp_path / "1.parquet"
    values = {
        "x": RNG.normal(size=n_rows),
        "who": RNG.integers(0, 1 << 60, n_rows),
        "kind": np.arange(n_rows) % 2,
    }
    pq.write_table(pa.table(values), path, row_group_size=8_000, compression="none", use_dictionary=False)
    footer = pq.read_metadata(path)
    chunks = [footer.row_group(i).column(j) for i in range(footer.num_row_groups) for j in range(3)]
    end = max(chunk.data_page_offset + chunk.total_compressed_size for chunk in chunks)
    for by in ("rows", "who"):
        for part in range(2):
            noting = NotingHandler(tmp_path / f"{by} {part}")
            source = scan_parquet(str(path), "kind", features=["x"], filesystem=pafs.PyFileSystem(noting))
            accumulate(source.split(0.5, by=by)[part], scheduler="synchronous")
            ranges = sorted(
                (start, start + length) for _, start, length in noting.reads if start + length <= end
            )
            assert sum(stop - start for start, stop in ranges) > n_rows * 8
            assert all(stop <= start for (_, stop), (start, _) in pairwise(ranges))


@pytest.mark.parametrize("by", ["rows", "who"])
def test_parts_of_parts_and_folds_are_independent(source, by):
    first, second = source.split(0.4, by=by), source.split(0.4, by=by, random_state=1)
    again = first[0].split(0.4, by=by)
    nested = np.array([len(set(TABLE["who"].take(pa.array(ids(part))).to_pylist())) for part in again])
    n_units = nested.sum() if by == "who" else len(ids(first[0]))
    in_test = nested[1] if by == "who" else len(ids(again[1]))
    low, high = binom.ppf([IN_A_THOUSAND_YEARS, 1 - IN_A_THOUSAND_YEARS], n_units, 0.4)
    assert low <= in_test <= high
    assert ids(first[1]) != ids(second[1])
    if by == "rows":
        in_test = np.isin(np.arange(N), ids(first[1]))
        fold = np.concatenate([_folds(split) for split in source.splits()])
        table = np.array([[np.sum((fold == k) & (in_test == part)) for k in range(5)] for part in (0, 1)])
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / N
        assert ((table - expected) ** 2 / expected).sum() < chi2.isf(IN_A_THOUSAND_YEARS, 4)


def _folds(split):
    return np.concatenate([FoldRule(5).assign(block)[1] for block in split.blocks()])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_equal_numbers_divide_alike(source, kind):
    share = kind(0.3)
    one, other = source.split(share, random_state=np.uint8(7)), source.split(float(share), random_state=7)
    assert [ids(part) for part in one] == [ids(part) for part in other]
    assert [part.read_options for part in one] == [part.read_options for part in other]


# ---------------------------------------------------------------------- what parts do


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("how", ["weights", "marginal", "categories", "columns", "map", "filter"])
def test_the_states_of_both_add_up_to_that_of_all_rows(tmp_path, by, how):
    x = TABLE["x"].to_pylist()
    table = TABLE.set_column(1, "x", pa.array([None, *x[1:]] if how == "marginal" else x))
    options = {
        "weights": {"weight": "weight"},
        "marginal": {"missing": "marginal"},
        "categories": {"features": ["x", "colour"]},
        "filter": {"filters": pc.field("x") > 0.1},
    }.get(how, {})
    source = scan_parquet(written(tmp_path, table), "kind", **{"features": ["row", "x"], **options})
    parts = list(source.split(by=by))
    if how == "map":
        scaler = StandardScaler().fit(np.column_stack([TABLE["row"], TABLE["x"]]))
        late = [part.map(scaler) for part in parts]
        source = source.map(scaler)
        parts = list(source.split(by=by))
        assert [accumulate(part) for part in parts] == [accumulate(part) for part in late]
    if how == "columns":
        source, *parts = (one.with_columns(double=pc.multiply(pc.field("x"), 2)) for one in (source, *parts))
    parts = pickle.loads(pickle.dumps(parts))
    training, test = map(accumulate, parts)
    assert min(training.n_rows, test.n_rows) > 0
    assert (training + test).allclose(accumulate(source), rtol=1e-12)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("kind", ["parquet", "zarr"])
def test_the_rows_of_a_part_are_predicted(source, by, kind, tmp_path):
    if kind == "zarr":
        beside = {"y": TABLE["kind"], "who": TABLE["who"], "row": TABLE["row"]}
        zarr_group(tmp_path / "rows.zarr", X=np.column_stack([TABLE["row"], TABLE["x"]]), **beside)
        source = scan_zarr(tmp_path / "rows.zarr")
        if by == "files":
            with pytest.raises(TypeError, match="no files"):
                source.split(by=by)
            return
    training, test = source.split(by=by)
    model = GaussianNB().fit(training)
    keep = ["row", "who"]
    for part in (training, test):  # into the same place: another part is other input
        predict_dataset(model, part, tmp_path / "scored", keep=keep)
        scored = pq.read_table(tmp_path / "scored").to_pandas()
        assert scored["row"].tolist() == ids(part)
        rows = TABLE.take(pa.array(scored["row"])).to_pandas()
        assert scored["who"].tolist() == rows["who"].tolist()
        expected = model.predict(rows[["row", "x"]].to_numpy() if kind == "zarr" else rows[["row", "x"]])
        assert scored["predicted_label"].tolist() == expected.tolist()


@pytest.mark.parametrize("by", ["rows", "who"])
def test_the_same_column_groups_folds_of_a_part(source, by):
    training, test = source.split(by=by)
    scores = cross_validate(LinearDiscriminantAnalysis(), training, groups="who")
    assert scores["test_score"].shape == (5,)
    search = StatisticsSearchCV(LinearDiscriminantAnalysis(), {"shrinkage": [0.1, 0.5]}, groups="who").fit(
        training
    )
    assert search.best_estimator_.statistics_.n_rows == len(ids(training))
    evaluate(search, test)


@pytest.mark.filterwarnings("ignore:.* (seems to be a copy|seem to be copies) of")
@pytest.mark.parametrize("by", BYS)
def test_a_ledger_of_a_part_follows_its_files(tmp_path, by):
    source = scan_parquet(written(tmp_path / "rows"), "kind", features=["row", "x"])
    training, test = source.split(by=by)
    ledger = StatisticsLedger(tmp_path / "ledger")
    ledger.refresh(training)
    assert ledger.statistics() == accumulate(training) or ledger.statistics().allclose(accumulate(training))
    for other in (source, test, source.split(0.3, by=by)[0]):
        with pytest.raises(ValueError, match="split="):
            ledger.refresh(other)
    for i in range(10, 20):
        pq.write_table(TABLE.slice(0, 200), tmp_path / "rows" / f"{i}.parquet")
    ledger.refresh(training)
    now = scan_parquet(tmp_path / "rows", "kind", features=["row", "x"]).split(by=by)[0]
    assert ledger.statistics().n_rows == accumulate(now).n_rows
    assert ledger.statistics().allclose(accumulate(now), rtol=1e-10)


def test_states_of_one_part_are_not_found_for_the_other(source, tmp_path):
    for part in (*source.split(), *source.split(by="who"), *source.split(random_state=1), source):
        assert accumulate(part, checkpoint=tmp_path).allclose(accumulate(part), rtol=0)


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "error", "facts"),
    [
        ({"test": 0}, ValueError, ["test", "0"]),
        ({"test": 1.0}, ValueError, ["1.0"]),
        ({"test": "2026-11-05"}, TypeError, ["share", "'2026-11-05'"]),
        ({"test_size": 0.2}, TypeError, ["test_size", "is test here"]),
        ({"by": "whom"}, ValueError, ["whom", "'who'"]),
        ({"by": "x"}, ValueError, ["'x'", "feature", "exclude=['x']"]),
        ({"by": "kind"}, ValueError, ["'kind'"]),
        ({"by": None}, TypeError, ["by", "None"]),
        ({"test": np.True_}, TypeError, ["share", "True"]),
        ({"random_state": None}, TypeError, ["random_state", "None"]),
        ({"random_state": True}, TypeError, ["random_state", "True"]),
        ({"random_state": np.False_}, TypeError, ["random_state", "False"]),
        ({"by": "files", "test": 1e-9}, ValueError, ["10 files", "random_state", "by='rows'"]),
    ],
)
def test_what_cannot_be_is_named(source, options, error, facts):
    with pytest.raises(error) as raised:
        source.split(**options)
    assert all(fact in str(raised.value) for fact in facts)


@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.date32()])
def test_a_row_without_a_value_is_named(tmp_path, kind):
    values = pa.array([None if i == 7 else i % 9 for i in range(N)], pa.int32())
    table = TABLE.set_column(3, "who", values.cast(kind))
    training, _ = scan_parquet(written(tmp_path, table), "kind", features=["x"]).split(by="who")
    with pytest.raises(ValueError, match=r"0\.parquet, row group 0, row 7: column 'who'"):
        accumulate(training)


def test_rows_beside_their_labels_have_no_columns_to_be_split_by():
    X = dd.from_pandas(pd.DataFrame({"x": np.arange(9.0)}), npartitions=2)
    y = dd.from_pandas(pd.Series(np.arange(9) % 2), npartitions=2)
    with pytest.raises(TypeError, match="'x'"):
        scan_dask(X, y).split(by="x")
    with pytest.raises(TypeError, match="no files"):
        scan_dask(X, y).split(by="files")


def test_the_splitter_of_scikit_learn_names_ours(source):
    with pytest.raises(TypeError, match=r"train_test_split.*source\.split"):
        train_test_split(source)


def test_a_part_says_which_it_is(source):
    training, test = source.split(0.25, by="who")
    assert "training part by who (test=0.25)" in repr(training)
    assert "test part by who (test=0.25)" in repr(test)


def test_a_temperature_is_found_of_all_rows_of_a_small_part():
    n_rows = 200_000
    x, kind = RNG.normal(size=n_rows), RNG.integers(0, 2, size=n_rows)
    table = pa.table({"x": x + kind, "kind": kind, "row": np.arange(n_rows)})
    training, test = scan_arrow(table, "kind", features=["x"]).split(0.02)
    model = GaussianNB(temperature=1.7).fit(training)
    rows = table.take(pa.array(ids(scan_arrow(table, "kind", features=["row"]).split(0.02)[1]))).to_pandas()
    expected = evaluate(model, rows[["x"]], rows["kind"]).best_temperature
    assert evaluate(model, test).best_temperature == pytest.approx(expected, rel=1e-9)
