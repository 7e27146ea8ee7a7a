"""Mapped rows add up: in any order, in both precisions, as the mapped features would by themselves."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_iris

from streamgda import (
    Categorical,
    ClassStatistics,
    RandomFeatures,
    StatisticsLedger,
    accumulate,
    drift,
    load,
    scan_arrow,
    scan_parquet,
)
from streamgda.data.blocks.arrays import array_blocks
from streamgda.data.blocks.schema import Columns
from streamgda.extensions.ridge.rule import MappedRows
from streamgda.statistics.factory import empty_statistics
from streamgda.statistics.required import Required

X, y = load_iris(return_X_y=True, as_frame=True)
FRAME = X.assign(species=y)
TABLE = pa.Table.from_pandas(FRAME)
RNG = np.random.default_rng(0)
IN_SINGLE = 3e-6  # of the scatter of all rows


def map_of(**options):
    return MappedRows(RandomFeatures(60, **options).fit(X[::3]))


def state_of(frame, rule, kind="tied", **options):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return accumulate(scan_arrow(table, "species", **options), covariance_type=kind, rule=rule)


def assert_same(state, expected, tolerance=IN_SINGLE):
    """The same moments, to an error relative to the scatter of all rows."""
    assert np.array_equal(state.counts, expected.counts)
    np.testing.assert_allclose(state.weights, expected.weights, rtol=1e-15)
    offsets = expected.means - np.average(expected.means, axis=0, weights=expected.weights)
    within = expected.scatter if expected.scatter.ndim == 2 else expected.scatter.sum(axis=0)
    squares = np.diag(within) + expected.weights @ offsets**2
    deviations = np.sqrt(squares)
    gaps = np.abs(state.means - expected.means) / (deviations / np.sqrt(expected.weights.sum()))
    assert np.nan_to_num(gaps).max() < 1e-6
    gaps = np.abs(state.scatter - expected.scatter) / np.outer(deviations, deviations)
    assert np.nan_to_num(gaps).max() < tolerance


@pytest.mark.parametrize("kind", ["tied", "full"])
@pytest.mark.parametrize("products", ["float32", "float64"])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_a_state_of_mapped_rows_is_that_of_the_mapped_features(kind, products, weight):
    features = RandomFeatures(60, random_state=1).fit(X[::3])
    frame = FRAME.assign(weight=RNG.integers(0, 4, 150) * 10.0**30)
    frame = frame if weight else frame.drop(columns="weight")
    state = state_of(frame, MappedRows(features, products=products), kind, weight=weight)
    expected = ClassStatistics(kind).update(features.transform(X).astype(float), y, frame.get("weight"))
    assert state.feature_names == tuple(features.get_feature_names_out())
    assert_same(state, expected, IN_SINGLE if products == "float32" else 1e-13)


@pytest.mark.parametrize("kind", ["tied", "full"])
def test_rows_of_many_pieces_and_blocks_of_columns(kind, monkeypatch):
    monkeypatch.setattr("streamgda.extensions.ridge.rule._ROWS_TOGETHER", 100)
    monkeypatch.setattr("streamgda.extensions.ridge.rule._MOST_COLUMNS", 40)
    rows = RNG.normal(size=(1_500, 3)) * [1, 1e3, 1e-3] + [0, 1e6, 1]
    labels = np.minimum(RNG.geometric(0.2, 1_500), 20)
    features = RandomFeatures(90).fit(rows[:500])
    for products in ("float32", "float64"):
        rule = MappedRows(features, products=products)
        state = empty_statistics(Required(kind), rule=rule).update(rows, labels)
        assert_same(state, ClassStatistics(kind).update(features.transform(rows), labels))
        assert np.array_equal(state.scatter, np.swapaxes(state.scatter, -1, -2))


@pytest.mark.slow_cases("float32")
@pytest.mark.filterwarnings("ignore:.*fewer than six correct digits")
@pytest.mark.parametrize("far", [1, 1e4])
@pytest.mark.parametrize("products", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["tied", "full"])
def test_other_sums_of_the_same_rows_can_be_taken_back(kind, products, far):
    frame = FRAME.assign(**{"sepal width (cm)": X["sepal width (cm)"] + far * y})
    features = RandomFeatures(60, scale="std").fit(frame[X.columns][::3])
    rule = MappedRows(features, products=products)
    whole, order = state_of(frame, rule, kind), RNG.permutation(150)
    for part in (order[:60], order[:149], np.flatnonzero(y == 1), np.arange(20, 150)):
        rest = whole - state_of(frame.iloc[part[::-1]], rule, kind)
        expected = state_of(frame.drop(index=part), rule, kind)
        assert np.array_equal(rest.counts, expected.counts)
        np.testing.assert_allclose(rest.means, expected.means, atol=1e-3)
    with pytest.raises(ValueError, match="these rows never went into the state"):
        _ = whole - state_of(frame.assign(**{X.columns[0]: X.iloc[:, 0] + 0.1})[:50], rule, kind)


@pytest.mark.filterwarnings("ignore:.*fewer than six correct digits")
@pytest.mark.parametrize("seed", range(4))
def test_few_rows_and_whole_classes_can_be_taken_back(seed):
    rows, labels = np.random.default_rng(seed).normal(size=(5, 4)), np.array([0, 1, 2, 1, 0])
    rule = MappedRows(RandomFeatures(200, "relu").fit(rows[:2]))
    states = [
        empty_statistics(Required("tied"), rule=rule).update(rows[part], labels[part])
        for part in (slice(None), slice(1, 4))
    ]
    assert (states[0] - states[1]).counts.tolist() == [2]


def test_rows_add_up_in_any_split_and_order_and_are_taken_back():
    rule, order = map_of(), RNG.permutation(150)
    whole = state_of(FRAME, rule)
    parts = [state_of(FRAME.iloc[some], rule) for some in np.array_split(order, 7)]
    assert_same(sum(parts), whole)
    assert_same(sum(parts[::-1]), whole)
    assert_same(whole - parts[0] - parts[1], sum(parts[2:]))
    assert (whole - whole).n_rows == 0


@pytest.mark.parametrize("products", ["float32", "float64"])
def test_a_saved_state_is_the_same_and_goes_on(tmp_path, products):
    rule = MappedRows(RandomFeatures(60).fit(X[::3]), products=products)
    first, second = state_of(FRAME[:70], rule), state_of(FRAME[70:], rule)
    first.save(tmp_path / "state.parquet")
    again = load(tmp_path / "state.parquet")
    assert again.digest() == first.digest()
    assert again.rule.products == products
    assert (again + second).digest() == (first + second).digest()
    again.update(X[70:], y[70:])
    assert_same(again, state_of(FRAME, rule))


def test_states_of_other_maps_do_not_merge():
    ours = state_of(FRAME, map_of())
    plain = accumulate(scan_arrow(TABLE, "species"), covariance_type="tied")
    for other in (state_of(FRAME, map_of(random_state=1)), plain):
        for first, second in ((ours, other), (other, ours)):
            with pytest.raises(ValueError, match="fit one RandomFeatures and hand it to both|features"):
                _ = first + second
    assert (ours + state_of(FRAME, map_of())).n_rows == 300


def test_a_map_that_is_fitted_again_does_not_change_the_rule():
    features = RandomFeatures(60).fit(X[::3])
    rule = MappedRows(features)
    before = state_of(FRAME, rule)
    features.set_params(n_components=30).fit(X[:9] * 2)
    assert state_of(FRAME, rule).digest() == before.digest()


def test_categories_are_inputs_as_dummies_and_an_unknown_one_has_none():
    frame = FRAME.assign(colour=np.array(["red", "green", "blue"])[np.arange(150) % 3])
    schema = state_of(frame[:60], None, categories=Categorical(columns=["colour"])).schema
    dummies = pd.get_dummies(frame, columns=["colour"], dtype=float).drop(columns="species")
    dummies.columns = [name.replace("colour_", "colour=") for name in dummies]
    features = RandomFeatures(50).fit(dummies)
    rule = MappedRows(features, schema)
    state = state_of(frame, rule, categories=Categorical(columns=["colour"]))
    assert "colour=red" in state.feature_names
    assert_same(state, ClassStatistics("tied").update(features.transform(dummies), y))
    strange = frame.assign(colour=frame["colour"].where(frame.index != 7, "black"))
    dummies.iloc[7, 4:] = 0
    state = state_of(strange, rule, categories=Categorical(columns=["colour"]))
    assert_same(state, ClassStatistics("tied").update(features.transform(dummies), y))


def test_rows_that_do_not_go_through_the_map_are_refused_by_name():
    rule = map_of()
    with pytest.raises(ValueError, match="columns.*other.* do not go through a map of rows with the columns"):
        state_of(FRAME.rename(columns={FRAME.columns[0]: "other"}), rule)
    with pytest.raises(ValueError, match="map is of 4 features; got rows of 3"):
        next(map(rule.assign, array_blocks(X.to_numpy()[:, :3], y)))
    with pytest.raises(ValueError, match="'tied' or 'full'"):
        state_of(FRAME, rule, "diag")
    for bad, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        frame = FRAME.copy()
        frame.iloc[33, 2] = bad
        for products in ("float32", "float64"):
            with pytest.raises(ValueError, match=rf"33.*'petal length \(cm\)' is {word}"):
                state_of(frame, MappedRows(rule.features, products=products))
    with pytest.raises(ValueError, match="products must be 'float32' or 'float64'"):
        MappedRows(rule.features, products="half")
    with pytest.raises(ValueError, match="no mapped rows"):
        MappedRows.from_document({"features": rule.features.to_document()})


def test_a_class_that_does_not_vary_and_rows_of_their_own_have_no_scatter():
    frame = pd.DataFrame({"a": [1.0, 1.0, 2.0, 2.0], "species": [0, 0, 1, 1]})
    rule = MappedRows(RandomFeatures(20, scale="std").fit(frame[["a"]]))
    assert not state_of(frame, rule).scatter.any()
    assert not state_of(frame.assign(species=range(4)), rule).scatter.any()


@pytest.mark.skipif("STREAMGDA_DATA" not in os.environ, reason="needs the letters")
def test_letters_mapped_by_fixed_hinges_have_the_published_criterion():
    table = pq.read_table(Path(os.environ["STREAMGDA_DATA"]) / "letter.parquet").slice(0, 16_000)
    names = [name for name in table.column_names if name != "letter"]
    rows = np.column_stack([table[name].to_numpy() for name in names]).astype(float)
    features = RandomFeatures(200, "relu", scale="std", include_inputs=False).fit(rows)
    i, j = np.arange(1, 17)[:, None], np.arange(1, 201)
    features.frequencies_ = (np.sqrt(2) * np.sin(i * j) / 4).astype(np.float32)
    features.offsets_ = np.cos(j).astype(np.float32)
    rule = MappedRows(features, Columns(tuple(names)), products="float64")
    source = scan_arrow(table, "letter")
    state = accumulate(source, covariance_type="tied", rule=rule)
    n, means = state.counts.astype(float), state.means
    offsets = means - n @ means / n.sum()
    total = state.scatter + (offsets.T * n) @ offsets
    varying = np.diag(total) > 1e-6 * np.diag(total).max()
    scale = np.sqrt(np.diag(total)[varying] / n.sum())
    e, vectors = np.linalg.eigh(total[np.ix_(varying, varying)] / np.outer(scale, scale))
    q = np.square(vectors.T @ (offsets[:, varying] / scale * n[:, None]).T).sum(axis=1)
    residual = (n - n**2 / n.sum()).sum() - 2 * (q / (e + 1)).sum() + (q * e / (e + 1) ** 2).sum()
    freedom = 1 + (e / (e + 1)).sum()
    assert residual == pytest.approx(9708.777616545, rel=1e-6)
    assert freedom == pytest.approx(184.816250658, rel=1e-4)
    assert n.sum() * residual / (n.sum() - freedom) ** 2 == pytest.approx(0.621063565, rel=1e-5)


@pytest.mark.parametrize("kind", ["tied", "full"])
def test_drift_of_mapped_rows_is_that_of_their_columns(tmp_path, kind):
    """In deviations, as the map has scaled them; without columns it is of all that the map makes."""
    new = FRAME.assign(**{X.columns[1]: FRAME[X.columns[1]] + 1})
    rule, alone = map_of(), map_of(include_inputs=False)
    for i, frame in enumerate((FRAME, new)):
        (tmp_path / "days").mkdir(exist_ok=True)
        frame.to_parquet(tmp_path / "days" / f"{i}.parquet")
        ledger = StatisticsLedger(tmp_path / "ledger", kind, rule=rule)
        report = ledger.refresh(scan_parquet(tmp_path / "days", "species"))
    of_columns = [accumulate(scan_arrow(pa.Table.from_pandas(one), "species"), kind) for one in (FRAME, new)]
    expected = drift(*of_columns)
    assert report.feature_names == expected.feature_names == tuple(X.columns)
    for ours, theirs in zip(report.drift, expected.drift, strict=True):
        np.testing.assert_allclose(ours.shift, theirs.shift, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours.divergence, theirs.divergence, rtol=1e-3)
        assert ours.divergence_by_chance == theirs.divergence_by_chance
    assert drift(*(state_of(one, alone) for one in (FRAME, new))).feature_names == alone.made.feature_names
    constant = MappedRows(RandomFeatures(20).fit(X.assign(**{X.columns[0]: 1.0})))  # does not tell of it
    assert drift(*(state_of(one, constant) for one in (FRAME, new))).feature_names == tuple(X.columns[1:])
    for other in (state_of(FRAME, map_of(random_state=1), kind), of_columns[0]):
        with pytest.raises(ValueError, match="went through other maps"):
            drift(state_of(FRAME, rule, kind), other)
